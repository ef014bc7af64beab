"""The review page over a real socket, without JavaScript: what it shows, what it lets whom do, and what it never does."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from mcp import Client

from knowledge.outbox.ports import OutboxEntry
from knowledge.trust.ports import Note, Proposal, ProposalVerdict
from mcp_server.app.composition import open_app
from mcp_server.app.knowledge_base import utc_now
from mcp_server.approvals.approvers import Approver
from mcp_server.approvals.zulip.notice_record import ABOUT, powerless_mark
from mcp_server.gate.host_registration import digest
from mcp_server.gate.host_registration import enrol as enrol_host
from mcp_server.gate.trust.scores import grant as give
from mcp_server.web.access.login_links import Inviting
from mcp_server.web.access.sessions import Sessions
from mcp_server.web.live_updates import Live
from mcp_server.web.page_context import NAVIGATION, PageContext
from tests.support.hosts.writers import let_in
from tests.support.state.decisions import passkey
from tests.support.web.passkeys import SoftPasskey
from tests.support.web.review_pages import ME, PAGE, Place, Visitor, forms, kept, shown

HOST = f"{ME}@unenrolled"


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with kept(tmp_path) as opened:
        yield opened


async def traces(place: Place) -> object:
    """Return everything that an act would leave behind."""
    state = place.app.base.state
    proposals = [(one.id, one.state) for one in await state.trust.proposals()]
    return proposals, await state.ledger.chain_end(), await state.trust_records(), await state.trust.passkeys()


# --- logging in -------------------------------------------------------------------------------------------------------


async def test_a_stranger_sees_the_same_nothing_everywhere(place: Place) -> None:
    """No address can be guessed."""
    waiting = await place.propose()
    stranger = await place.visitor(logged_in=False)
    seen = set()
    for path in (
        "/",
        f"/proposals/{waiting.id}",
        "/proposals/p-none",
        "/trust",
        "/events",
        "/login/guess",
        "/login",
        "/static/no",
        "/nowhere",
    ):
        seen.add(await stranger.look(path))
        assert stranger.status == 404
    for path in (f"/proposals/{waiting.id}/approve", "/trust/grant", "/login", "/logout"):
        seen.add(await stranger.post(path, {"hash": waiting.hash, "csrf": "x", "secret": "guess"}))
        assert stranger.status == 404
    assert len(seen) == 1
    assert waiting.id not in seen.pop()


async def test_a_link_logs_in_once_and_looking_at_it_does_not_use_it_up(place: Place) -> None:
    """Programs that fetch links before people do must not use them up."""
    link = (await place.link("/trust")).removeprefix(place.address)
    one, other = await place.visitor(logged_in=False), await place.visitor(logged_in=False)
    for _ in range(3):
        await one.look(link)
        assert one.status == 200
    await other.look(link)
    await one.send("/login")
    assert (one.status, "<h1>Trust</h1>" in one.html) == (200, True)
    await other.send("/login")
    assert other.status == 404
    await other.look()
    assert other.status == 404


async def test_of_many_browsers_with_one_link_one_gets_in(place: Place) -> None:
    secret = (await place.link()).rpartition("/")[2]
    visitors = [await place.visitor(logged_in=False) for _ in range(8)]
    await asyncio.gather(*(visitor.post("/login", {"secret": secret}) for visitor in visitors))
    assert sorted(visitor.status for visitor in visitors) == [200] + [404] * 7


async def test_a_link_is_good_for_ten_minutes_and_a_session_for_twelve_hours(place: Place) -> None:
    trust = place.app.base.state.trust
    now = utc_now()
    sessions = Sessions(trust, lambda: now)
    late = await sessions.invite("ann")
    in_time = await sessions.invite("ann")
    now += timedelta(minutes=9)
    entered = await sessions.enter(in_time)
    assert entered is not None
    now += timedelta(minutes=2)
    assert not await sessions.invited(late)
    assert await sessions.enter(late) is None
    now += timedelta(hours=11)
    assert await sessions.of(entered[0].secret) is not None
    now += timedelta(hours=1)
    assert await sessions.of(entered[0].secret) is None


async def test_the_cookie_is_out_of_reach_for_scripts_and_other_sites_and_only_its_digest_is_kept(place: Place) -> None:
    visitor = await place.visitor(logged_in=False)
    secret = (await place.link()).rpartition("/")[2]
    answer = await visitor.http.post("/login", data={"secret": secret}, follow_redirects=False)
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    value = cookie.partition("=")[2].partition(";")[0]
    assert len(value) >= 43
    kept = (place.app.base.state_dir / "state.db").read_bytes()
    kept += (place.app.base.state_dir / "state.db-wal").read_bytes()
    assert digest(value) in kept
    assert value.encode() not in kept
    assert secret.encode() not in kept


async def test_logging_out_ends_the_session_and_not_only_the_cookie(place: Place) -> None:
    visitor = await place.visitor()
    copied = dict(visitor.http.cookies)
    await visitor.send("/logout")
    assert visitor.status == 404
    visitor.http.cookies.update(copied)
    await visitor.look()
    assert visitor.status == 404


# --- rules for every request and answer -------------------------------------------------------------------------------


async def test_every_answer_forbids_scripts_of_others_frames_guessing_and_keeping(place: Place) -> None:
    """CSP without inline script, framing denied."""
    waiting = await place.propose()
    visitor = await place.visitor()
    paths = [entry.path for entry in NAVIGATION]
    paths += [
        f"/proposals/{waiting.id}",
        f"/proposals/{waiting.id}/edit",
        "/static/review.css",
        "/static/live.js",
        "/no",
    ]
    for path in paths:
        answer = await visitor.http.get(path)
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["referrer-policy"] == "same-origin"
        assert "server" not in answer.headers


async def test_no_page_has_inline_scripts_or_styles_or_external_content(place: Place) -> None:
    waiting = await place.propose()
    visitor = await place.visitor()
    for path in [*(entry.path for entry in NAVIGATION), f"/proposals/{waiting.id}", f"/trust/host?principal={HOST}"]:
        html = await visitor.look(path)
        assert visitor.status == 200, path
        assert not re.search(r"<style|\sstyle=|\son[a-z]+=|javascript:|<script(?! src=\"/static/)", html), path
        assert not re.search(r"(src|href|action)=\"(?!/|#|\?)", html), path


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost", "localhost:1", "192.168.0.2"])
async def test_a_request_by_another_name_is_turned_away(place: Place, host: str) -> None:
    """DNS rebinding."""
    answer = await (await place.visitor()).http.get("/", headers={"host": host})
    assert (answer.status_code, answer.text) == (421, "")


async def test_behind_a_proxy_the_page_is_decided_on_under_its_public_address_and_no_other(tmp_path: Path) -> None:
    """A proxy keeps the name that the browser used, and Zulip's notices link to it. The page itself listens here only."""
    public = {"host": "forge.example.com"}
    async with shown(tmp_path, public_url="https://Forge.example.com:443") as place:
        waiting, visitor = await place.propose(), await place.visitor(logged_in=False)
        visitor.http.headers.update(public)
        visitor.address = "https://forge.example.com"
        await visitor.look((await place.link()).removeprefix(place.address))
        login = forms(visitor.html)["/login"]
        for origin in ("http://forge.example.com", "https://forge.example.com:444", place.address):
            await visitor.post("/login", login, origin=origin)
            assert visitor.status == 403, origin
        entered = await visitor.http.post(
            "/login", data=login, headers={"origin": visitor.address}, follow_redirects=False
        )
        cookie = entered.headers["set-cookie"]
        assert "; Secure" in cookie
        visitor.http.headers["cookie"] = cookie.partition(";")[0]  # this client sends it over TLS only
        await visitor.look(f"/proposals/{waiting.id}")
        await visitor.send(f"/proposals/{waiting.id}/reject", note="not now")
        assert (await place.proposal(waiting.id)).state == "rejected"
        for host in ("evil.example", "forge.example.com:24612", "forge.example.com.evil.example"):
            assert (await visitor.http.get("/", headers={"host": host})).status_code == 421, host
        assert (await (await place.visitor()).http.get("/")).status_code == 200


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "[::1]"])
async def test_the_names_of_this_machine_are_its_own(place: Place, name: str) -> None:
    answer = await (await place.visitor()).http.get("/", headers={"host": f"{name}:{place.port}"})
    assert answer.status_code == 200


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("origin", "http://evil.example"),
        ("origin", "null"),
        ("origin", "http://localhost:1"),
        ("origin", "https://localhost"),
        ("sec_fetch_site", "cross-site"),
        ("sec_fetch_site", "same-site"),
    ],
)
async def test_a_form_that_another_page_sends_is_turned_away_though_cookie_and_token_are_right(
    place: Place, name: str, value: str
) -> None:
    waiting = await place.propose()
    visitor = await place.visitor()
    held = forms(await visitor.look(f"/proposals/{waiting.id}"))[f"/proposals/{waiting.id}/approve"]
    before = await traces(place)
    await visitor.post(f"/proposals/{waiting.id}/approve", held, **{name: value})
    assert visitor.status == 403
    assert await traces(place) == before


async def test_a_form_without_the_token_of_its_session_does_nothing(place: Place) -> None:
    waiting = await place.propose()
    visitor, other = await place.visitor(), await place.visitor()
    path = f"/proposals/{waiting.id}/approve"
    held = forms(await visitor.look(f"/proposals/{waiting.id}"))[path]
    foreign = forms(await other.look(f"/proposals/{waiting.id}"))[path]["csrf"]
    before = await traces(place)
    for token in ("", "x", foreign, "é"):
        await visitor.post(path, {**held, "csrf": token})
        assert visitor.status == 403
    answer = await visitor.http.post(path, json=held, headers={"origin": place.address})
    assert answer.status_code == 403
    assert await traces(place) == before


async def test_looking_never_acts(place: Place) -> None:
    """GET never acts."""
    waiting = await place.propose()
    visitor = await place.visitor()
    held = forms(await visitor.look(f"/proposals/{waiting.id}"))[f"/proposals/{waiting.id}/approve"]
    before = await traces(place)
    for path in (
        f"/proposals/{waiting.id}/approve",
        f"/proposals/{waiting.id}/reject",
        "/trust/freeze",
        "/trust/grant",
    ):
        answer = await visitor.http.get(path, params={**held, "principal": HOST, "reason": "x", "level": "5"})
        assert answer.status_code == 404
    for path in [*(entry.path for entry in NAVIGATION), f"/proposals/{waiting.id}/edit", f"/proposals/{waiting.id}"]:
        await visitor.look(path)
    assert await traces(place) == before


# --- deciding ---------------------------------------------------------------------------------------------------------


async def test_a_waiting_proposal_is_listed_shown_completely_and_executed_once_approved(place: Place) -> None:
    waiting = await place.propose(intent="measured anew")
    visitor = await place.visitor()
    assert f"/proposals/{waiting.id}" in await visitor.look()
    html = await visitor.look(f"/proposals/{waiting.id}")
    for told in (
        PAGE,
        "<del>forty</del>",
        "<ins>sixty</ins>",
        HOST,
        "measured anew",
        waiting.hash,
        "needs trust level 3",
        "base_revision",
        waiting.revisions[PAGE] or "",
    ):
        assert told in html
    await visitor.send(f"/proposals/{waiting.id}/approve", note="as measured")
    assert visitor.status == 200
    assert "sixty" in place.text()
    decided = await place.proposal(waiting.id)
    assert decided.state == "executed"
    assert decided.verdict is not None
    assert (decided.verdict.by, decided.verdict.channel, decided.verdict.note) == (ME, "page", "as measured")
    assert "as measured" in visitor.html
    assert await place.score() == pytest.approx(2.1)
    assert waiting.id not in await visitor.look()
    assert waiting.id in await visitor.look("/decided")


async def test_a_proposal_names_the_listed_reviewers_who_cannot_decide_in_zulip(place: Place) -> None:
    waiting, outbox = await place.propose(), place.app.base.state.outbox
    entry = OutboxEntry(
        "kf-1", "knowledge-forge", "zulip_notice", "zulip:forge/reviews", "d", utc_now(), ABOUT + waiting.id
    )
    visitor = await place.visitor()
    assert "ZULIP_REVIEWERS" not in await visitor.look(f"/proposals/{waiting.id}")
    await outbox.begin(replace(entry, marks=powerless_mark(["ann@example.com", "<b>Bo"])), within=timedelta(0))
    page = await visitor.look(f"/proposals/{waiting.id}")
    assert "unable to decide in Zulip: <bdi>&lt;b&gt;Bo</bdi>, <bdi>ann@example.com</bdi>" in page


async def test_a_request_for_changes_closes_the_proposal_and_the_host_reads_the_comment_at_no_cost(
    place: Place,
) -> None:
    waiting = await place.propose()
    before = await place.score()
    visitor = await place.visitor()
    await visitor.look(f"/proposals/{waiting.id}")
    await visitor.send(f"/proposals/{waiting.id}/changes", note=" ")
    assert "the comment is empty" in visitor.html
    assert (await place.proposal(waiting.id)).state == "pending"
    await visitor.look(f"/proposals/{waiting.id}")
    await visitor.send(f"/proposals/{waiting.id}/changes", note="say since when")
    assert "changes requested" in visitor.html
    decided = await place.proposal(waiting.id)
    assert (decided.state, decided.verdict and decided.verdict.changes) == ("rejected", True)
    told = (await place.call("proposal_status", proposal_id=waiting.id))["proposal"]
    assert (told["decision"]["changes_requested"], told["decision"]["note"]) == (True, "say since when")
    assert await place.score() == before
    assert "forty" in place.text()
    assert "changes requested by " in await visitor.look("/audit")
    other = await place.propose(intent="again, since when")
    await visitor.look(f"/proposals/{other.id}")
    await visitor.send(f"/proposals/{other.id}/reject", note="no")
    told = (await place.call("proposal_status", proposal_id=other.id))["proposal"]
    assert "changes_requested" not in told["decision"]


async def test_a_rename_is_shown_as_one_with_the_links_that_it_changes(place: Place) -> None:
    (place.settings.kb / "index.md").write_text("# Index\n\n- [Start](guides/onboarding.md)\n", encoding="utf-8")
    answer = await place.call("kb_move", path="guides/onboarding.md", to="start.md")
    visitor = await place.visitor()
    html = await visitor.look(f"/proposals/{answer['proposal']['id']}")
    assert "is renamed, from" in html
    assert "is deleted" not in html
    assert '<del class="foreign">guides/onboarding.md</del> → <ins class="foreign">start.md</ins>' in html


async def test_more_changed_links_than_are_shown_are_counted_and_must_be_opened_before_approval(place: Place) -> None:
    many = "".join(f"- [Start {number}](guides/onboarding.md)\n" for number in range(51))
    (place.settings.kb / "index.md").write_text(f"# Index\n\n{many}", encoding="utf-8")
    answer = await place.call("kb_move", path="guides/onboarding.md", to="start.md")
    visitor = await place.visitor()
    one = f"/proposals/{answer['proposal']['id']}"
    html = await visitor.look(one)
    assert "… 1 more links" in html
    assert f"{one}/approve" not in html
    whole = await visitor.look(f"{one}?whole=1")
    assert "more links" not in whole
    assert f"{one}/approve" in whole


async def several(visitor: Visitor, *chosen: Proposal, decision: str = "approve", **more: str) -> str:
    """Show these proposals together, and decide all that the page offers."""
    await visitor.look("/together?" + "&".join(f"p={one.id}" for one in chosen))
    boxes = dict.fromkeys(re.findall(r'name="(take\.[^"]+)"', visitor.html), "1")
    return await visitor.send("/together", decision=decision, **{**boxes, **more})


async def test_several_are_approved_from_one_page_each_by_itself(place: Place) -> None:
    one = await place.propose()
    other = await place.propose(old="mentor", new="guide", path="guides/onboarding.md")
    visitor = await place.visitor()
    assert 'name="p"' in visitor.html
    html = await several(visitor, one, other)
    assert "2 applied" in html
    assert len(re.findall(r"/undo\?change=\d+", html)) == 2
    assert {(await place.proposal(p.id)).state for p in (one, other)} == {"executed"}
    assert {(await place.proposal(p.id)).verdict.hash for p in (one, other)} == {one.hash, other.hash}  # type: ignore[union-attr]


async def test_of_several_those_that_need_a_passkey_or_are_too_long_are_named_and_not_decided(place: Place) -> None:
    short = await place.propose()
    long = await place.propose(old="mentor", new="guide " * 2_000, path="guides/onboarding.md")
    to_sign = await place.propose_deletion("long.md")
    await place.app.base.state.trust.add_passkey(passkey(), note=Note(ME, "passkey.add", "laptop", utc_now()))
    visitor = await place.visitor()
    html = await several(visitor, short, long, to_sign)
    assert "1 applied" in html
    assert [(await place.proposal(p.id)).state for p in (short, long, to_sign)] == ["executed", "pending", "pending"]
    await visitor.look(f"/together?p={long.id}&p={to_sign.id}&p=p-none")
    assert "too long to be shown here" in visitor.html
    assert "must be signed with a passkey" in visitor.html
    assert "it does not exist" in visitor.html


async def test_of_several_that_lack_the_token_of_what_was_shown_none_is_approved(place: Place) -> None:
    one = await place.propose()
    visitor = await place.visitor()
    html = await several(visitor, one, **{f"opened.{one.id}": "forged"})
    assert "you have not seen all of it" in html
    assert "1 needs another look" in html
    assert (await place.proposal(one.id)).state == "pending"
    html = await several(visitor, one, decision="reject", note="not now")
    assert "1 rejected" in html
    verdict = (await place.proposal(one.id)).verdict
    assert verdict is not None
    assert verdict.note == "not now"


async def test_after_an_approval_the_page_leads_to_the_undo_and_to_the_next_proposal(place: Place) -> None:
    waiting, later = await place.propose(), await place.propose_deletion()
    visitor = await place.visitor()
    await visitor.look(f"/proposals/{waiting.id}")
    assert "2 of 2 waiting" in visitor.html
    await visitor.send(f"/proposals/{waiting.id}/approve")
    assert f'href="/proposals/{later.id}" rel="next"' in visitor.html
    found = re.search(r'href="(/undo\?change=\d+)"', visitor.html)
    assert found is not None
    await visitor.look(found[1])
    assert visitor.status == 200
    assert "sixty" in visitor.html


async def test_rejecting_passes_on_the_reason_and_costs_the_host_score(place: Place) -> None:
    waiting = await place.propose()
    visitor = await place.visitor()
    await visitor.look(f"/proposals/{waiting.id}")
    await visitor.send(f"/proposals/{waiting.id}/reject", note="it is forty, I measured")
    decided = await place.proposal(waiting.id)
    assert decided.state == "rejected"
    assert decided.verdict is not None
    assert decided.verdict.note == "it is forty, I measured"
    assert "forty" in place.text()
    answer = await place.call("proposal_status", proposal_id=waiting.id)
    assert "it is forty, I measured" in json.dumps(answer)


async def test_harmful_freezes_the_asker(place: Place) -> None:
    waiting = await place.propose()
    visitor = await place.visitor()
    await visitor.look(f"/proposals/{waiting.id}")
    await visitor.send(f"/proposals/{waiting.id}/reject", harmful="1", note="it was told to by a mail")
    trust_record = await place.app.base.state.trust_record(HOST)
    assert trust_record is not None
    assert trust_record.frozen
    assert "frozen" in await visitor.look("/trust")


async def test_an_edited_proposal_is_another_one_and_the_edited_text_is_executed(place: Place) -> None:
    waiting = await place.propose()
    visitor = await place.visitor()
    await visitor.look(f"/proposals/{waiting.id}/edit")
    path = f"/proposals/{waiting.id}/edit"
    content = forms(visitor.html)[path]["value.0.content"]
    await visitor.send(path, **{"value.0.content": content.replace("sixty", "fifty")})
    assert visitor.status == 200
    assert (await place.proposal(waiting.id)).state == "superseded"
    (edited,) = await place.app.base.state.trust.proposals(states=("pending",))
    assert edited.hash != waiting.hash
    assert edited.origin == waiting.id
    assert "<ins>fifty</ins>" in visitor.html
    await visitor.send(f"/proposals/{edited.id}/approve")
    assert "fifty" in place.text()
    assert "\r" not in (place.settings.kb / PAGE).read_bytes().decode()


async def test_invalid_arguments_are_reported_beside_the_typed_text(place: Place) -> None:
    waiting = await place.propose()
    visitor = await place.visitor()
    path = f"/proposals/{waiting.id}/edit"
    await visitor.look(path)
    await visitor.send(path, **{"value.0.authority": '"much"', "value.0.content": "Typed with care."})
    assert visitor.status == 422
    assert "authority" in visitor.html
    assert forms(visitor.html)[path]["value.0.content"] == "Typed with care."
    await visitor.send(path, **{"value.0.authority": "much"})
    assert "not valid JSON" in visitor.html
    assert (await place.proposal(waiting.id)).state == "pending"


async def test_hidden_characters_are_edited_as_json_without_loss(place: Place) -> None:
    waiting = await place.propose(new="six\u202ety")
    visitor = await place.visitor()
    path = f"/proposals/{waiting.id}/edit"
    held = forms(await visitor.look(path))[path]
    assert "six\\u202ety" in held["value.0.content"]
    assert "\u202e" not in visitor.html
    await visitor.send(path, **{"value.0.intent": "the same"})
    (edited,) = await place.app.base.state.trust.proposals(states=("pending",))
    (before,), (after,) = json.loads(waiting.arguments), json.loads(edited.arguments)
    assert after == {**before, "intent": "the same"}


@pytest.mark.parametrize(
    ("person", "where"),
    [
        (Approver("ann", "page"), "decided on this page"),
        (Approver("ann", "terminal"), "decided in a terminal"),
        (Approver("ann", "host"), "decided in the host"),
        (Approver("ann@example.com", "zulip"), "decided by a reaction in Zulip"),
    ],
)
async def test_a_decided_proposal_names_the_person_and_channel(place: Place, person: Approver, where: str) -> None:
    waiting = await place.propose()
    if person.channel == "host":  # of a host that is registered, which this one is not
        verdict = ProposalVerdict(approved=False, by=person.name, channel="host", at=utc_now(), hash=waiting.hash)
        assert await place.app.base.state.trust.decide(waiting.id, verdict)
    else:
        await place.app.approvals.reject(waiting.id, waiting.hash, person)
    visitor = await place.visitor()
    html = await visitor.look(f"/proposals/{waiting.id}")
    assert f"<bdi>{person.name}</bdi> {where}," in html


async def test_the_second_of_two_tabs_learns_of_the_decision(place: Place) -> None:
    waiting = await place.propose()
    one, other = await place.visitor(), await place.visitor()
    for visitor in (one, other):
        await visitor.look(f"/proposals/{waiting.id}")
    await asyncio.gather(
        one.send(f"/proposals/{waiting.id}/approve"), other.send(f"/proposals/{waiting.id}/reject", note="no")
    )
    assert sorted((one.status, other.status)) == [200, 409]
    loser = one if one.status == 409 else other
    assert "is no longer pending" in loser.html
    assert (await place.proposal(waiting.id)).state in ("executed", "rejected")


async def test_approving_anything_else_than_was_shown_is_void(place: Place) -> None:
    waiting, other = await place.propose(), await place.propose_deletion()
    visitor = await place.visitor()
    await visitor.look(f"/proposals/{waiting.id}")
    await visitor.send(f"/proposals/{waiting.id}/approve", hash=other.hash)
    assert visitor.status == 409
    held = forms(await visitor.look(f"/proposals/{other.id}"))[f"/proposals/{other.id}/approve"]
    await visitor.post(f"/proposals/{waiting.id}/approve", {**held, "hash": waiting.hash})
    assert "you have not seen all of this proposal" in visitor.html
    assert (await place.proposal(waiting.id)).state == "pending"


async def test_long_text_is_folded_and_approving_requires_opening_it(place: Place) -> None:
    """Nothing is cut without that; the server checks it."""
    waiting = await place.propose(new="sixty " + "and so on " * 2_000 + "THE END")
    visitor = await place.visitor()
    html = await visitor.look(f"/proposals/{waiting.id}")
    assert "THE END" not in html
    assert "more characters" in html
    approve = f"/proposals/{waiting.id}/approve"
    assert approve not in forms(html)
    held = forms(html)[f"/proposals/{waiting.id}/reject"]
    await visitor.post(approve, held)
    assert visitor.status == 409
    assert "forty" in place.text()
    html = await visitor.look(f"/proposals/{waiting.id}?whole=1")
    assert "THE END" in html
    assert "more characters" not in html
    await visitor.send(approve)
    assert (await place.proposal(waiting.id)).state == "executed"


async def test_a_long_diff_is_folded_in_rows(place: Place) -> None:
    waiting = await place.propose(new="sixty" + "\n\nline" * 600)
    visitor = await place.visitor()
    for layout in ("split", "inline"):
        html = await visitor.look(f"/proposals/{waiting.id}?layout={layout}")
        assert "more rows" in html
        assert f"/proposals/{waiting.id}/approve" not in forms(html)


# --- passkeys ---------------------------------------------------------------------------------------------------------


async def enrol(place: Place, key: SoftPasskey) -> None:
    await place.app.base.state.trust.add_passkey(key.enrolled, note=Note(ME, "passkey.add", key.name, utc_now()))


async def signed(visitor: Visitor, proposal_id: str, assertion: object) -> str:
    await visitor.look(f"/proposals/{proposal_id}")
    return await visitor.send(f"/proposals/{proposal_id}/approve", assertion=json.dumps(assertion))


async def test_without_a_passkey_a_high_level_is_advisory_and_says_so(place: Place) -> None:
    waiting = await place.propose_deletion()
    visitor = await place.visitor()
    assert "Not protected by a passkey." in await visitor.look(f"/proposals/{waiting.id}")
    await visitor.send(f"/proposals/{waiting.id}/approve")
    decided = await place.proposal(waiting.id)
    assert decided.verdict is not None
    assert decided.verdict.advisory
    assert "not protected by a passkey" in visitor.html


async def test_with_a_passkey_a_high_level_needs_its_signature(place: Place) -> None:
    """The design, section 6: the signed challenge is the hash of what will run."""
    key = SoftPasskey()
    await enrol(place, key)
    waiting = await place.propose_deletion()
    visitor = await place.visitor()
    await visitor.look(f"/proposals/{waiting.id}")
    await visitor.send(f"/proposals/{waiting.id}/approve")
    assert visitor.status == 409
    assert (place.settings.kb / "guides/onboarding.md").exists()
    await signed(visitor, waiting.id, key.assertion(bytes.fromhex(waiting.hash), place.address))
    assert visitor.status == 200
    decided = await place.proposal(waiting.id)
    assert decided.state == "executed"
    assert decided.verdict is not None
    assert decided.verdict.signed == key.name
    assert not (place.settings.kb / "guides/onboarding.md").exists()
    (kept,) = await place.app.base.state.trust.passkeys()
    assert kept.sign_count == 1


async def test_a_signature_of_anything_else_or_by_or_for_anyone_else_has_no_effect(
    place: Place,
) -> None:
    key = SoftPasskey()
    await enrol(place, key)
    waiting = await place.propose_deletion()
    visitor, challenge = await place.visitor(), bytes.fromhex(waiting.hash)
    stranger = SoftPasskey()
    posing = replace(stranger, id=key.id)
    wrong = {
        "another proposal": key.assertion(bytes(32), place.address),
        "another origin": key.assertion(challenge, "http://localhost:1"),
        "another name": key.assertion(challenge, place.address, rp_id="evil.example"),
        "a stranger's key": stranger.assertion(challenge, place.address),
        "a stranger's key under a known id": posing.assertion(challenge, place.address),
        "no object": "yes",
        "an empty object": {},
    }
    for what, assertion in wrong.items():
        await signed(visitor, waiting.id, assertion)
        assert visitor.status == 409, what
    assert (await place.proposal(waiting.id)).state == "pending"


async def test_a_copied_authenticator_is_noticed_by_its_count(place: Place) -> None:
    key = SoftPasskey()
    await enrol(place, key)
    copy = replace(key)
    first, second = await place.propose_deletion(), await place.propose_deletion("long.md")
    visitor = await place.visitor()
    await signed(visitor, first.id, key.assertion(bytes.fromhex(first.hash), place.address))
    assert visitor.status == 200
    await signed(visitor, second.id, copy.assertion(bytes.fromhex(second.hash), place.address))
    assert visitor.status == 409
    assert "copy" in visitor.html
    assert (place.settings.kb / "long.md").exists()


async def test_rejecting_needs_no_passkey(place: Place) -> None:
    await enrol(place, SoftPasskey())
    waiting = await place.propose_deletion()
    visitor = await place.visitor()
    await visitor.look(f"/proposals/{waiting.id}")
    await visitor.send(f"/proposals/{waiting.id}/reject")
    assert (await place.proposal(waiting.id)).state == "rejected"


async def test_a_registration_works_once_and_needs_a_real_answer(place: Place) -> None:
    visitor = await place.visitor()
    await visitor.look("/passkeys")
    await visitor.send("/passkeys/new", name="laptop")
    assert "data-enrol" in visitor.html
    held = forms(visitor.html)["/passkeys"]
    await visitor.post("/passkeys", {**held, "credential": "{}"})
    assert visitor.status == 409
    await visitor.post("/passkeys", {**held, "credential": "{}"})
    assert "already used" in visitor.html
    assert not await place.app.base.state.trust.passkeys()


async def test_removing_a_passkey_needs_a_passkeys_signature(place: Place) -> None:
    key = SoftPasskey()
    await enrol(place, key)
    visitor = await place.visitor()
    await visitor.look("/passkeys")
    await visitor.send("/passkeys/remove")
    assert visitor.status == 200
    (asked,) = await place.app.base.state.trust.proposals(states=("pending",))
    await visitor.send(f"/proposals/{asked.id}/approve")
    assert visitor.status == 409
    await signed(visitor, asked.id, key.assertion(bytes.fromhex(asked.hash), place.address))
    assert visitor.status == 200
    assert not await place.app.base.state.trust.passkeys()


# --- trust, records, news ---------------------------------------------------------------------------------------------


async def test_a_grant_is_shown_once_more_and_then_holds(place: Place) -> None:
    await place.propose()
    visitor = await place.visitor()
    await visitor.look(f"/trust/host?principal={HOST}")
    await visitor.send("/trust/grant", level="1")
    (asked,) = [one for one in await place.app.base.state.trust.proposals(states=("pending",)) if one.kind == "admin"]
    assert "trust.grant" in visitor.html
    assert await place.score() == 2.0
    await visitor.send(f"/proposals/{asked.id}/approve")
    assert await place.score() == 1.0
    assert "granted" in await visitor.look(f"/trust/host?principal={HOST}")


async def test_freezing_is_immediate_and_unfreezing_needs_a_decision(place: Place) -> None:
    visitor = await place.visitor()
    await visitor.look(f"/trust/host?principal={HOST}")
    await visitor.send("/trust/freeze", reason="it deletes too gladly")
    assert visitor.status == 200
    assert "it deletes too gladly" in visitor.html
    assert (await place.host.call_tool("kb_read", {"path": PAGE})).is_error
    await visitor.send("/trust/thaw")
    (asked,) = await place.app.base.state.trust.proposals(states=("pending",))
    await visitor.send(f"/proposals/{asked.id}/approve")
    assert not (await place.host.call_tool("kb_read", {"path": PAGE})).is_error


async def test_a_registered_hosts_forms_are_allowed_by_a_decision_and_disallowed_immediately(place: Place) -> None:
    state = place.app.base.state
    await enrol_host(state, "cursor", now=utc_now())
    visitor = await place.visitor()
    assert "Allow forms" not in await visitor.look(f"/trust/host?principal={HOST}")
    assert "forms can&#39;t approve" in await visitor.look(f"/trust/host?principal={ME}@cursor")
    await visitor.send("/trust/forms")
    (asked,) = await state.trust.proposals(states=("pending",))
    assert "host.forms" in visitor.html
    assert not (await state.enrolments())[0].forms
    await visitor.send(f"/proposals/{asked.id}/approve")
    assert (await state.enrolments())[0].forms
    assert "forms can approve up to level 3" in await visitor.look("/trust")
    await visitor.look(f"/trust/host?principal={ME}@cursor")
    await visitor.send("/trust/forms")
    assert not (await state.enrolments())[0].forms


async def test_a_grant_to_a_person_counts_for_each_host_that_they_let_in(place: Place) -> None:
    state = place.app.base.state
    await enrol_host(state, "cursor", now=utc_now())
    await give(state, f"{ME}@*", 3, by=ME, now=utc_now())
    visitor = await place.visitor()
    html = await visitor.look("/trust")
    assert "minimum for every host of this person" in html
    assert "level 3" in await visitor.look(f"/trust/host?principal={ME}@cursor")
    assert "level 2" in await visitor.look(f"/trust/host?principal={HOST}")


async def held_up(place: Place) -> Proposal:
    """Have the host propose something that also waits because of what it has read."""
    learned = {"path": "_learnings/all/general.md", "content": "# All\n\n## Be brief\n\nNobody reads page three.\n"}
    answer = await place.call("kb_merge", **learned, source="zulip:design/merge")
    assert answer["status"] == "proposed"
    return await place.proposal(answer["proposal"]["id"])


TRUSTED = Note("ann", "passkey.add", "key", utc_now())


async def test_a_place_is_trusted_with_one_click_from_the_proposal_that_it_holds_up(place: Place) -> None:
    waits = await held_up(place)
    visitor = await place.visitor()
    html = await visitor.look(f"/proposals/{waits.id}")
    assert "You read text from zulip:design/merge, which nobody has vouched for" in html
    await visitor.send("/trust/places")
    assert visitor.status == 200
    assert "is trusted. The host" in visitor.html
    (trusted,) = await place.app.base.state.trust.trusted_places()
    assert (trusted.place, trusted.by) == ("zulip:design", ME)
    assert (await place.proposal(waits.id)).state == "pending"
    again = {"path": "_learnings/all/other.md", "content": "# Other\n\n## Be quick\n\nNobody waits.\n"}
    asked = (await place.call("kb_merge", **again))["proposal"]
    assert (asked["level_needed"], "vouched" in asked["why"]) == (3, False)

    assert "zulip:design" in await visitor.look("/trust")
    await visitor.send("/trust/places/remove")
    assert await place.app.base.state.trust.trusted_places() == []
    await visitor.send("/trust/places", place="https://example.org")
    assert visitor.status == 409
    assert "not a place that can be trusted" in visitor.html
    await visitor.look("/trust")
    await visitor.send("/trust/places", place="plane:kb")
    assert [one.place for one in await place.app.base.state.trust.trusted_places()] == ["plane:KB"]


async def test_with_a_passkey_trusting_a_place_is_signed_and_nothing_happens_before(place: Place) -> None:
    waits = await held_up(place)
    await place.app.base.state.trust.add_passkey(passkey(), note=TRUSTED)
    visitor = await place.visitor()
    await visitor.look(f"/proposals/{waits.id}")
    await visitor.send("/trust/places")
    assert "place.trust" in visitor.html
    assert "Sign and approve" in visitor.html
    assert await place.app.base.state.trust.trusted_places() == []
    (asked,) = [one for one in await place.app.base.state.trust.proposals(states=("pending",)) if one.kind == "admin"]
    await visitor.send(f"/proposals/{asked.id}/approve")
    assert visitor.status == 409
    assert await place.app.base.state.trust.trusted_places() == []


async def test_no_stranger_and_no_other_site_trusts_a_place(place: Place) -> None:
    stranger = await place.visitor(logged_in=False)
    await stranger.post("/trust/places", {"place": "plane"})
    assert stranger.status == 404
    visitor = await place.visitor()
    await visitor.look("/trust")
    await visitor.post("/trust/places", {"place": "plane"})
    assert visitor.status == 403
    held = forms(visitor.html).get("/trust/places", {})
    await visitor.post("/trust/places", {**held, "place": "plane"}, origin="http://evil.example")
    assert visitor.status == 403
    assert await place.app.base.state.trust.trusted_places() == []


async def test_nobody_that_is_not_known_can_be_granted_anything(place: Place) -> None:
    visitor = await place.visitor()
    await visitor.look(f"/trust/host?principal={HOST}")
    await visitor.send("/trust/grant", principal="ann@nobody", level="5")
    assert visitor.status == 409
    await visitor.look("/trust/host?principal=ann@nobody")
    assert visitor.status == 404


async def test_the_audit_log_is_searched_and_paged_newest_first(place: Place) -> None:
    visitor = await place.visitor()
    for number in range(60):
        await place.app.approvals.freeze(f"{ME}@host{number}", Approver(ME, "page"), f"reason {number}")
    html = await visitor.look("/audit")
    first = [int(number) for number in re.findall(r'data-label="No."><a href="/audit/(\d+)"', html)]
    assert first == sorted(first, reverse=True)
    assert len(first) == 50
    older = re.search(r'href="(/audit\?[^"]*before=\d+)"', html)
    assert older is not None
    second = re.findall(
        r'data-label="No."><a href="/audit/(\d+)"', await visitor.look(older.group(1).replace("&amp;", "&"))
    )
    assert int(second[0]) == first[-1] - 1
    html = await visitor.look("/audit?q=HOST17")
    assert len(re.findall(r'data-label="No.">', html)) == 1
    assert "No matching records" in await visitor.look("/audit?q=<nothing>")


async def test_the_audit_log_says_where_in_another_service_an_act_went(place: Place) -> None:
    outbox, now = place.app.base.state.outbox, place.app.services.now()
    outbox_entry = OutboxEntry("kf-1", f"{ME}@writer", "zulip_send_message", "zulip:<design>/merge", "dd" * 32, now)
    await outbox.begin(outbox_entry, within=timedelta(0))
    await outbox.end("kf-1", "unsure", at=now)
    html = await (await place.visitor()).look("/audit?q=kf-1")
    assert '<td data-label="About"><bdi>zulip:&lt;design&gt;/merge</bdi></td>' in html
    assert 'data-label="Outcome">unsure<' in html


async def test_a_page_that_changed_is_shown_as_it_is_and_the_approval_covers_that(place: Place) -> None:
    waiting = await place.propose()
    address = f"/proposals/{waiting.id}"
    visitor = await place.visitor()
    before = forms(await visitor.look(address))[f"{address}/approve"]
    changed = place.text().replace("To roll back", "It is quick.\n\nTo roll back")
    (place.settings.kb / PAGE).write_text(changed, encoding="utf-8")
    seen = await traces(place)
    html = await visitor.look(address)
    assert await traces(place) == seen
    for told in (
        "Changed since this was proposed",
        f"<bdi>{PAGE}, changed 20",
        "UTC, outside the server",
        "Approving still makes the same change.",
        "Changes to the page as it is now",
        "<summary>As proposed</summary>",
    ):
        assert told in html
    now, _, then = html.partition("<summary>As proposed</summary>")
    assert "It is quick." in now
    assert "It is quick." not in then
    form = forms(html)[f"{address}/approve"]
    assert (form["hash"], bool(form["version"])) == (before["hash"], True)
    assert form["opened"] != before["opened"]
    # A token covers what its page showed, and nothing else that a form may claim.
    for forged in ({**form, "version": ""}, {**form, "version": "0" * 64}, {**form, "opened": before["opened"]}):
        assert "not seen all of this" in await visitor.post(f"{address}/approve", forged)
    await visitor.look(address)
    await visitor.send(f"{address}/approve")
    assert (await place.proposal(waiting.id)).state == "executed"
    assert "It is quick.\n\nTo roll back" in place.text()
    assert "It takes sixty" in place.text()


async def test_where_the_effect_would_be_another_one_a_person_makes_it_again_and_approves_that(place: Place) -> None:
    waiting = await place.propose()
    address = f"/proposals/{waiting.id}"
    visitor = await place.visitor()
    old = forms(await visitor.look(address))[f"{address}/approve"]
    changed = place.text().replace("## Rolling back", "## Going back")
    (place.settings.kb / PAGE).write_text(changed, encoding="utf-8")
    html = await visitor.look(address)
    assert "would now be a different one" in html
    assert f"{address}/approve" not in forms(html)
    await visitor.send(f"{address}/renew")
    (again,) = await place.app.base.state.trust.proposals(states=("pending",))
    assert again.origin == waiting.id
    assert visitor.status == 200
    assert f'data-proposal="{again.id}"' in visitor.html
    assert "Made again from" in visitor.html
    assert "Changed since this was proposed" not in visitor.html
    await visitor.send(f"/proposals/{again.id}/approve")
    assert "It takes sixty" in place.text()
    for action in ("approve", "renew"):
        assert "superseded" in await visitor.post(f"{address}/{action}", old)
        assert visitor.status == 409


async def test_an_impossible_proposal_can_only_be_rejected(place: Place) -> None:
    waiting = await place.propose_deletion()
    address = f"/proposals/{waiting.id}"
    (place.settings.kb / "guides/onboarding.md").unlink()
    visitor = await place.visitor()
    html = await visitor.look(address)
    assert "It can no longer be made: " in html
    assert "(it no longer exists)" in html
    assert {f"{address}/approve", f"{address}/renew"}.isdisjoint(forms(html))
    await visitor.send(f"{address}/reject")
    assert (await place.proposal(waiting.id)).state == "rejected"


async def test_a_long_change_as_of_now_is_seen_whole_before_it_is_approved(place: Place) -> None:
    path = "long.md"
    (place.settings.kb / path).write_text("# Long\n\nforty\n", encoding="utf-8")
    read = await place.call("kb_read", path=path)
    text = "# Long\n\n" + "".join(f"Line {n} is new.\n\n" for n in range(600)) + "forty\n"
    answer = await place.call("kb_merge", path=path, content=text, base_revision=read["revision"])
    address = f"/proposals/{answer['proposal']['id']}"
    (place.settings.kb / path).write_text("# Long\n\nforty\n\nMore.\n", encoding="utf-8")
    visitor = await place.visitor()
    html = await visitor.look(address)
    assert "Part of it is collapsed" in html
    assert f"{address}/approve" not in forms(html)
    html = await visitor.look(f"{address}?whole=1")
    assert 'data-present="same"' in html
    await visitor.send(f"{address}/approve")
    assert place.text(path).endswith("forty\n\nMore.\n")


async def test_all_hosts_that_ask_for_the_same_are_shown_and_decided_on_together(place: Place) -> None:
    page = "limits.md"
    (place.settings.kb / page).write_text("# Limits\n\nAn upload may be 64 MiB.\n", encoding="utf-8")
    visitor = await place.visitor()
    for host, source in (("one", "plane:KB-1"), ("two", "zulip:ops/<b>x</b>/3")):
        allowed = await let_in(place.settings, host, 3)
        async with open_app(allowed, indexing=False) as app, Client(app.server) as client:
            read = (await client.call_tool("kb_read", {"path": page})).structured_content or {}
            claim = {"path": page, "content": "An upload may be 32 MiB.\n", "source": source}
            await client.call_tool("kb_merge", {**claim, "base_revision": read["revision"]})
        (flag,) = await place.app.base.state.trust.proposals(states=("pending",))
        html = await visitor.look(f"/proposals/{flag.id}")
        assert ("2 hosts ask for the same change" in html) == (host == "two")
    assert f"by <bdi>{ME}@two</bdi>" in await visitor.look("/waiting")
    html = await visitor.look(f"/proposals/{flag.id}")
    for told in (f"<bdi>{ME}@one</bdi></strong>: score <strong>3", f"<bdi>{ME}@two</bdi></strong>: score <strong>3"):
        assert told in html
    assert "as told by zulip:ops/&lt;b&gt;x" in html
    assert "Reject as harmful and freeze all 2 hosts" in html
    await visitor.send(f"/proposals/{flag.id}/reject", harmful="1")
    for host in ("one", "two"):
        record = await place.app.base.state.trust_record(f"{ME}@{host}")
        assert record is not None
        assert record.frozen
    assert f"by <bdi>{ME}@two</bdi>" in await visitor.look("/decided")


async def test_an_open_page_is_notified_immediately_of_a_proposal(place: Place) -> None:
    visitor = await place.visitor()
    async with visitor.http.stream("GET", "/events") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        lines = stream.aiter_lines()
        assert await anext(lines) == "retry: 2000"
        waiting = await place.propose()
        async with asyncio.timeout(10):
            async for line in lines:
                if line.startswith("data: ") and waiting.id in json.loads(line.removeprefix("data: ")):
                    break


async def test_nobody_is_notified_for_nothing_nor_while_looking_nor_twice_in_a_moment(place: Place) -> None:
    opened: list[str] = []

    def calling() -> tuple[Live, Inviting]:
        live = Live(place.app.base.state)
        house = PageContext(place.app.site_services, place.app.approvals, live, "kb", place.port, "")
        return live, Inviting(house, place.address, opened.append)

    _, at_first = calling()
    assert not await at_first.call()
    await place.propose()
    live, looking = calling()
    live.looked()
    assert not await looking.call()
    assert [await calling()[1].call() for _ in range(3)] == [True, False, False]
    assert len(opened) == 1
    stranger = await place.visitor(logged_in=False)
    await stranger.look(opened[0].removeprefix(place.address))
    await stranger.send("/login")
    assert "Waiting for you" in stranger.html


async def test_hostile_text_is_named_wherever_it_is_shown(place: Place) -> None:
    waiting = await place.propose(new="six<b>ty\u202e \x1b[31m p\u0430y", intent="\u202eintent<script>")
    visitor = await place.visitor()
    for path in ("/waiting", f"/proposals/{waiting.id}", f"/proposals/{waiting.id}?layout=inline", "/audit"):
        html = await visitor.look(path)
        assert "\u202e" not in html
        assert "\x1b" not in html
        assert "<b>" not in html
        assert "<script>" not in html
    html = await visitor.look(f"/proposals/{waiting.id}")
    for mark in ("⟦U+202E⟧", "⟦U+001B⟧", "\u0430⟦U+0430⟧", "They are marked"):
        assert mark in html
