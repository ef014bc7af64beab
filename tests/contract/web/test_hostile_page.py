"""The review page under attack, by a browser on another page and by programs with a socket."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sys
import tracemalloc
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote, urlencode

import anyio
import httpx
import pytest

from knowledge.trust.ports import Proposal
from mcp_server.app.knowledge_base import utc_now
from mcp_server.approvals.proposals import hash_of
from mcp_server.web.live_updates import MOST_OF_ONE
from mcp_server.web.page_context import NAVIGATION
from tests.browser.payloads import MARKUP
from tests.support.state.decisions import proposal
from tests.support.web.passkeys import SoftPasskey
from tests.support.web.review_pages import ME, Place, Visitor, forms, kept

PATIENCE_S = 60.0
HOST = f"{ME}@unenrolled"
POLICY = ("default-src 'none'", "form-action '", "base-uri 'none'", "frame-ancestors 'none'")


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with kept(tmp_path) as opened:
        yield opened


async def put(place: Place, text: str, id_: str = "p-long") -> Proposal:
    """Make a proposal wait that replaces a page as long as the text."""
    now, lines = utc_now(), text.split("\n")
    diff = "".join(f"{mark}{line}\n" for mark in "-+" for line in lines)
    diff = f"--- a\n+++ a\n@@ -1,{len(lines)} +1,{len(lines)} @@\n{diff}"
    files = [{"path": "guides/deploy.md", "before": "a", "after": "b", "diff": diff}]
    made = proposal(
        id_,
        arguments=json.dumps([{"path": "guides/deploy.md", "content": text}]),
        preview=json.dumps({"sentence": "change it", "answer": {"status": "done"}, "files": files}),
        revisions={},  # it depends on no page that could have changed
        created_at=now,
        expires_at=now + timedelta(hours=1),
    )
    made = replace(made, hash=hash_of(made))
    await place.app.base.state.trust.propose(made, most_pending=9)
    return made


# --- long proposals ---------------------------------------------------------------------------------------------------


async def test_a_long_proposal_is_shown_whole_in_little_memory_and_can_be_approved_after_that(place: Place) -> None:
    """All of it was one text in memory: 1.4 GB if 6 MB of it had to be marked."""
    made = await put(place, "\n".join(f"line {n} a\u200bb\u202ec\u2060d" for n in range(8_000)) + "\nTHE END")
    visitor = await place.visitor()
    assert "/approve" not in "".join(forms(await visitor.look(f"/proposals/{made.id}")))
    began, end, size = tracemalloc, b"", 0
    began.start()
    try:
        async with visitor.http.stream("GET", f"/proposals/{made.id}?whole=1") as answer:
            async for part in answer.aiter_bytes():
                size, end = size + len(part), (end + part)[-200_000:]
        _, peak = began.get_traced_memory()
    finally:
        began.stop()
    assert size > 3_000_000
    assert peak < 25_000_000
    shown = end.decode(errors="replace")
    assert "THE END" in shown
    assert "are marked above" in shown
    assert "opened" in forms(shown)[f"/proposals/{made.id}/approve"]


async def test_every_line_of_a_long_proposal_is_there_once_with_its_number(place: Place) -> None:
    made = await put(place, "\n".join(f"line {n} of it <b>" for n in range(9_000)))
    html = await (await place.visitor()).look(f"/proposals/{made.id}?whole=1")
    for n in (0, 1, 4_567, 8_999):
        text = f'<span class="foreign" role="cell">line {n} of it &lt;b&gt;</span>'
        assert html.count(text) == 2
        number = f'<span class="no" role="cell">{n + 1}</span>'
        assert f'{number}<span class="no" role="cell"></span><span class="sign" role="cell">\u2212</span>{text}' in html
        assert f'<span class="no" role="cell"></span>{number}<span class="sign" role="cell">+</span>{text}' in html


def workers_of_this_process() -> set[int]:
    """Return the process ids of this one's workers."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command, status = (folder / "cmdline").read_bytes(), (folder / "stat").read_text()
        except OSError:
            continue
        if b"mcp_server.workers.child" in command and int(status.rpartition(")")[2].split()[1]) == os.getpid():
            found.add(int(folder.name))
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
async def test_closing_the_connection_ends_the_work_on_a_long_page(place: Place) -> None:
    made = await put(place, "a\u200bb\u202ec\u2060d" * 100_000)
    visitor, before = await place.visitor(), workers_of_this_process()
    async with visitor.http.stream("GET", f"/proposals/{made.id}?whole=1") as answer:
        with anyio.fail_after(PATIENCE_S):
            parts = answer.aiter_raw()
            await anext(parts)
            while not workers_of_this_process() - before:  # noqa: ASYNC110 - the system tells nobody
                await anyio.sleep(0.01)
    with anyio.fail_after(PATIENCE_S):
        while workers_of_this_process() - before:  # noqa: ASYNC110 - likewise
            await anyio.sleep(0.01)


# --- other people's text ----------------------------------------------------------------------------------------------


class _Seen(HTMLParser):
    """Collects which elements have which attributes, and where they lead."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: set[tuple[str, str]] = set()
        self.links: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.parts |= {(tag, ""), *((tag, name) for name, _ in attrs)}
        self.links |= {str(value) for name, value in attrs if name in ("href", "src", "action", "formaction", "data")}


async def parts_of(visitor: Visitor, paths: list[str]) -> set[tuple[str, str]]:
    seen = _Seen()
    for path in paths:
        seen.feed(await visitor.look(path))
        assert visitor.status < 500, path
    assert all(link.startswith(("/", "#", "?")) and not link.startswith("//") for link in seen.links), seen.links
    return seen.parts


MORE = ("/trust/host", "/undo", "/diff", "/history/lines")
"""Pages that are not in the navigation and take parameters."""


async def everything(place: Place, visitor: Visitor, text: str, name: str) -> set[tuple[str, str]]:
    """Put the text wherever a host or a reader may, and return the resulting pages."""
    waiting = await place.propose(new=f"sixty {text}", intent=text[:500])
    page = await place.call("kb_merge", path=f"guides/{name}.md", content=f"# {text}\n\n{text}\n")
    journey = await place.call("journey_start", agent="research", brief=f"{text} why?")
    paths = [*(entry.path for entry in NAVIGATION), f"/journeys/{journey['journey_id']}"]
    for id_ in (waiting.id, page["proposal"]["id"]):
        paths += [f"/proposals/{id_}{end}" for end in ("", "?layout=inline", "?whole=1", "/edit")]
    held = await parts_of(visitor, paths)
    filters = ("by", "tool", "about", "outcome", "since", "until", "who", "path", "from", "to", "line", "change")
    choices = ("host", "undone", "path-0", "take-0")
    given = dict.fromkeys(("q", "before", "state", "cursor", "principal", "layout", "at", *filters, *choices), text)
    asked = "&".join(f"{key}={quote(value)}" for key, value in given.items())
    held |= await parts_of(visitor, [f"{path}?{asked}" for path in (*paths, *MORE) if "?" not in path])
    await visitor.look(f"/proposals/{waiting.id}")
    await visitor.send(f"/proposals/{waiting.id}/reject", note=text[:500])
    end, _ = await place.app.base.state.ledger.chain_end()
    held |= await parts_of(visitor, [f"/audit/{seq}" for seq in range(1, end + 1)])
    (place.settings.kb / f"{name}.md".replace("/", "")).write_text(f"{text}\n", encoding="utf-8")
    outside = urlencode({"path": f"{name}.md".replace("/", "")})
    held |= await parts_of(visitor, [f"{path}?{outside}" for path in ("/history", "/history/lines", "/diff")])
    assert visitor.status == 200, "the page with the hostile name is shown"
    return held | await parts_of(visitor, [f"/proposals/{waiting.id}", "/decided", "/audit"])


@pytest.mark.external
async def test_no_text_of_others_becomes_an_element_or_an_attribute(tmp_path: Path) -> None:
    """Pages, names, intents, notes, briefs, and the parameters of addresses."""
    async with kept(tmp_path / "plain") as plain:
        ours = await everything(plain, await plain.visitor(), "plain words", "name")
    async with kept(tmp_path / "hostile") as hostile:
        name = "x\" onfocus=alert(1) autofocus '><img src=x onerror=alert(1)><!-- {{ 7*7 }}"
        found = await everything(hostile, await hostile.visitor(), " ".join(MARKUP), name)
    assert found - ours == set()


@pytest.mark.external
async def test_garbage_in_any_form_is_refused_in_words(place: Place) -> None:
    """`level=\u00b2` and deeply nested JSON were internal errors."""
    waiting = await place.propose()
    visitor = await place.visitor()
    token = forms(await visitor.look())["/logout"]["csrf"]
    deep = "[" * 100_000
    for value in ("\x00", "\u00b2", "9" * 5_000, deep, '{"id": 1}'):
        for path, names in {
            f"/proposals/{waiting.id}/approve": ("assertion", "hash", "note"),
            f"/proposals/{waiting.id}/edit": ("value.0.content",),
            "/trust/grant": ("level",),
            "/trust/places": ("place",),
            "/trust/places/remove": ("place",),
            "/passkeys": ("credential", "challenge"),
            "/passkeys/remove": ("id",),
        }.items():
            held = forms(await visitor.look(f"/proposals/{waiting.id}")).get(path, {})
            fields = {**held, "csrf": token, "principal": HOST, "form.0.content": "json", **dict.fromkeys(names, value)}
            await visitor.post(path, fields)
            assert 400 <= visitor.status < 500, (path, value[:20])
    assert (await place.proposal(waiting.id)).state == "pending"


# --- requests ---------------------------------------------------------------------------------------------------------


async def said(port: int, request: bytes, *, first_s: float = 0.4) -> bytes:
    """Send the bytes and return everything received until the server closes, or is silent for a moment; at first for `first_s`."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answer = b""
    try:
        writer.write(request)
        await writer.drain()
        while part := await asyncio.wait_for(reader.read(65_536), 0.4 if answer else first_s):
            answer += part
    except (TimeoutError, ConnectionError):
        pass
    finally:
        writer.close()
    return answer


def _head(port: int, line: str = "POST /login HTTP/1.1") -> str:
    return f"{line}\r\nhost: localhost:{port}\r\n"


SECOND = "GET /login/second HTTP/1.1\r\nhost: evil.example\r\n\r\n"
SMUGGLED = {
    "length and chunks": "content-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": "content-length: 4\r\ncontent-length: 44\r\n\r\nabcd",
    "a list of lengths": "content-length: 4, 44\r\n\r\nabcd",
    "a signed length": "content-length: +4\r\n\r\nabcd",
    "chunks twice": "transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n\r\n0\r\n\r\n",
    "another encoding": "transfer-encoding: xchunked\r\n\r\n0\r\n\r\n",
    "a blank before the colon": "content-length : 4\r\n\r\nabcd",
    "a folded header": "x: y\r\n content-length: 4\r\n\r\nabcd",
    "a NUL": "x: a\x00b\r\n\r\n",
    "two hosts": "host: evil.example\r\n\r\n",
    "a chunk extension without end": "transfer-encoding: chunked\r\n\r\n4;" + "x" * 100_000,
    "a chunk of a wrong size": "transfer-encoding: chunked\r\n\r\nzz\r\nabcd\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("what", SMUGGLED)
async def test_an_ambiguous_request_is_one_request_or_none(what: str, place: Place) -> None:
    """RFC 9112, section 11.2. The second request has another host and would get a 421 if it were read."""
    answer = await said(place.port, (_head(place.port) + SMUGGLED[what] + SECOND).encode("latin-1"))
    assert answer.count(b"HTTP/1.1 ") <= 1 or answer.rpartition(b"HTTP/1.1 ")[2].startswith(b"421 ")
    assert b"HTTP/1.1 200" not in answer
    for status in (b"HTTP/1.1 400", b"HTTP/1.1 404"):
        if answer.startswith(status):
            break
    else:
        assert answer == b"", answer[:200]


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        ("GET http://evil.example/ HTTP/1.1", 404),
        ("GET //evil.example/ HTTP/1.1", 404),
        ("GET /static/../../settings.py HTTP/1.1", 404),
        ("GET /static/%2e%2e%2fpage.py HTTP/1.1", 404),
        ("GET /proposals/%00%ff HTTP/1.1", 404),
        ("CONNECT evil.example:443 HTTP/1.1", 404),
        ("TRACE / HTTP/1.1", 404),
        ("DELETE /login HTTP/1.1", 404),
        ("HEAD / HTTP/1.1", 404),
        ("GET / HTTP/9.9", 404),
        ("nonsense", 400),
    ],
)
async def test_every_answer_to_an_odd_request_keeps_to_the_policy(request_line: str, status: int, place: Place) -> None:
    """The web server's own answers had no policy at all."""
    request = f"{_head(place.port, request_line)}\r\n".encode()
    answer = (await said(place.port, request, first_s=PATIENCE_S)).decode("latin-1")
    assert answer.startswith(f"HTTP/1.1 {status} ")
    head = answer.partition("\r\n\r\n")[0].lower()
    for told in (*POLICY, "x-content-type-options: nosniff", "x-frame-options: deny", "cache-control: no-store"):
        assert told in head, told
    assert "unsafe" not in head


async def test_every_answer_to_a_logged_in_client_keeps_the_policy(place: Place) -> None:
    waiting = await place.propose()
    visitor = await place.visitor()
    token = forms(await visitor.look())["/logout"]["csrf"]
    http, asked = visitor.http, {"origin": place.address}
    answers = [
        await http.head("/"),
        await http.get("/no"),
        await http.get("/static/icon.svg"),
        await http.get("/", headers={"host": "evil.example"}),
        await http.post("/trust/grant", data={"csrf": token}, headers=asked, follow_redirects=False),
        await http.post(f"/proposals/{waiting.id}/edit", data={"csrf": token}, headers=asked),
        await http.post("/trust/grant", data={}, headers={"origin": "http://evil.example"}),
        await http.post("/logout", data={"csrf": token}, headers=asked, follow_redirects=False),
    ]
    assert {one.status_code for one in answers} >= {200, 303, 403, 404, 421, 422}
    for one in answers:
        policy = one.headers["content-security-policy"]
        assert all(told in policy for told in POLICY), one.status_code
        assert "unsafe" not in policy
        assert one.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("kind", ["text/plain", "multipart/form-data; boundary=x", "application/json", ""])
async def test_a_form_in_any_other_shape_than_ours_does_nothing(kind: str, place: Place) -> None:
    visitor = await place.visitor()
    token = forms(await visitor.look())["/logout"]["csrf"]
    for more in ({}, {"x-http-method-override": "POST", "origin": place.address}):
        body = f'csrf={token}\r\n--x\r\ncontent-disposition: form-data; name="csrf"\r\n\r\n{token}\r\n--x--'
        answer = await visitor.http.post("/logout", content=body, headers={"content-type": kind, **more})
        assert answer.status_code == 403
    for method in ("GET", "PUT", "PATCH", "DELETE", "HEAD"):
        await visitor.http.request(method, f"/logout?csrf={token}&_method=POST", headers={"origin": place.address})
    await visitor.look()
    assert visitor.status == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_another_page_loads_nothing_of_ours_and_only_leads_a_person_here(site: str, place: Place) -> None:
    """A page on another port kept streams open with the person's cookie, so the server believed someone was looking."""
    visitor = await place.visitor()
    for path in ("/waiting", "/events", "/audit", "/static/review.css"):
        for mode, dest in (("no-cors", "image"), ("cors", "empty"), ("navigate", "iframe"), ("no-cors", "script")):
            fetched = {"sec-fetch-site": site, "sec-fetch-mode": mode, "sec-fetch-dest": dest}
            answer = await visitor.http.get(path, headers=fetched)
            assert (answer.status_code, answer.content) == (403, b"")
    led = {"sec-fetch-site": site, "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    assert (await visitor.http.get("/", headers=led)).status_code == 200


# --- sessions ---------------------------------------------------------------------------------------------------------


async def test_a_cookie_that_was_there_before_the_login_never_becomes_the_session(place: Place) -> None:
    """Session fixation: a page on another port may set a cookie of any name for localhost."""
    visitor = await place.visitor(logged_in=False)
    name, chosen = f"forge_review_{place.port}", "chosen-by-somebody-else"
    secret = (await place.link()).rpartition("/")[2]
    entered = await visitor.http.post(
        "/login", data={"secret": secret}, headers={"cookie": f"{name}={chosen}"}, follow_redirects=False
    )
    assert entered.status_code == 303
    assert len(entered.cookies[name]) == 43
    other = await place.visitor(logged_in=False)
    assert (await other.http.get("/", headers={"cookie": f"{name}={chosen}"})).status_code == 404


async def test_logging_out_ends_the_streams_of_the_session(place: Place) -> None:
    visitor = await place.visitor()
    token = forms(await visitor.look())["/logout"]["csrf"]
    async with visitor.http.stream("GET", "/events") as stream:
        lines = stream.aiter_lines()
        assert await anext(lines) == "retry: 2000"
        other = httpx.AsyncClient(base_url=place.address, cookies=visitor.http.cookies, timeout=PATIENCE_S)
        place.visitors.append(other)
        await other.post("/logout", data={"csrf": token}, headers={"origin": place.address})
        waiting = await place.propose()
        with anyio.fail_after(PATIENCE_S):
            assert not [line async for line in lines if waiting.id in line]


async def test_streams_of_one_session_leave_room_for_those_of_others(place: Place) -> None:
    one, other = await place.visitor(), await place.visitor()

    opened: list[tuple[httpx.Response, AsyncIterator[str]]] = []

    async def beginning(visitor: Visitor) -> str:
        answer = await visitor.http.send(visitor.http.build_request("GET", "/events"), stream=True)
        opened.append((answer, answer.aiter_lines()))
        return await anext(opened[-1][1], "")

    try:
        begun = [await beginning(one) for _ in range(MOST_OF_ONE + 3)]
        assert begun == ["retry: 2000"] * MOST_OF_ONE + [""] * 3
        assert await beginning(other) == "retry: 2000"
    finally:
        for answer, _ in opened:
            await answer.aclose()


# --- passkeys ---------------------------------------------------------------------------------------------------------


async def test_a_challenge_of_one_session_enrols_nothing_in_another(place: Place) -> None:
    mine, other = await place.visitor(), await place.visitor()
    await mine.look("/passkeys")
    await mine.send("/passkeys/new", name="laptop")
    held = forms(mine.html)["/passkeys"]
    challenge = held["challenge"]
    raw = base64.urlsafe_b64decode(challenge + "=")
    made = json.dumps(SoftPasskey().registration(raw, place.address))
    await other.look("/passkeys")
    token = forms(other.html)["/logout"]["csrf"]
    await other.post("/passkeys", {**held, "csrf": token, "credential": made})
    assert other.status == 409
    assert not await place.app.base.state.trust.passkeys()
    await mine.post("/passkeys", {**held, "credential": made})
    assert mine.status == 200
    assert len(await place.app.base.state.trust.passkeys()) == 1
