"""Keys stay with the server, whatever goes wrong with Plane and Zulip, and however much they echo.

No key is in an answer, an error, a log, a proposal, a preview, a journey, the audit log, the doctor's output, or
anything stored on disk. Nor is the text of tasks, messages and pages in an error or a log.
"""

from __future__ import annotations

import asyncio
import base64
import io
import json
import logging
import re
import traceback
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from mcp_server.__main__ import main
from mcp_server.app.composition import App, listed
from mcp_server.app.settings.settings import Settings
from mcp_server.approvals.approvers import Approver
from mcp_server.approvals.summary import summary
from mcp_server.cli.doctor import doctor
from mcp_server.connectors.plane.board import board_of
from mcp_server.connectors.zulip.chat import chat_of
from tests.doubles.plane import ADA, GUS, MEL, OTTO, WORKSPACE, Plane, seeded
from tests.doubles.serving import (
    Fault,
    Plan,
    Served,
    after,
    before,
    body,
    malformed,
    oversized,
    raw,
    redirected,
    served,
    status,
    truncated,
)
from tests.doubles.zulip import Zulip
from tests.doubles.zulip_world import RECORDED_LEVEL
from tests.support.hosts.writers import let_in
from tests.support.knowledge_bases.folders import write
from tests.support.roads.road import connect, opened
from tests.support.zulip.hosts import BOT, HAMLET, Clock, at_once, furnished

pytestmark = pytest.mark.security

PLANE_KEY = "plane_api_5ecre7f00dcafe9b1d2"
ZULIP_KEY = "Zk5ecre7B0tKeyf00dCafe1234567890"
EMAIL = "forge-bot@example.com"
BASIC = base64.b64encode(f"{EMAIL}:{ZULIP_KEY}".encode()).decode()
KEYS = (PLANE_KEY, ZULIP_KEY, BASIC)
WORDS = "the merger with Quagmire Ltd is off"
"""Text of a task, a message and a page: it may appear where it was asked for, and nowhere else."""
ECHOES = {
    "plane": f"you sent X-API-Key: {PLANE_KEY}",
    "zulip": f"you sent Authorization: Basic {BASIC}, which is {ZULIP_KEY}",
}
KEY_PATHS = {"plane": PLANE_KEY, "zulip": f"{ZULIP_KEY}/{BASIC}"}


def faults(service: str) -> dict[str, Fault]:
    """Return the faults of a service, which knows its own keys and repeats them wherever it can."""
    echo, path = ECHOES[service], KEY_PATHS[service]
    echoed = json.dumps({"detail": echo, "error": echo, "msg": echo, "code": "BAD_REQUEST", "result": "error"})
    headers = {"content-type": "application/json", "x-echo": echo}
    return {
        "a 400 that echoes": status(400, headers, echoed),
        "a 401 that echoes": status(401, headers, echoed),
        "a 403 that echoes": status(403, headers, echoed),
        "a 404 that echoes": status(404, headers, echoed),
        "a 409 that echoes": status(409, headers, json.dumps({"error": echo, "id": echo})),
        "a 429": status(429, {**headers, "retry-after": "30"}, echoed),
        "a 500 that echoes": status(500, headers, echoed, acts=True),
        "a redirect with the key in it": redirected(f"https://elsewhere.example.com/{path}?key={path}"),
        "a redirect within the place": redirected(f"/login/{path}", 307),
        "a page that echoes": status(200, {"content-type": "text/html"}, f"<!DOCTYPE html><p>{echo}"),
        "JSON of another shape": body(echoed),
        "JSON that ends too early": body(echoed[:-3]),
        "a text": body(json.dumps(echo)),
        "no HTTP": raw(f"{echo}\r\n\r\n".encode()),
        "a broken head": raw(f"HTTP/1.1 200 OK\r\nbad header {echo}\r\n\r\n".encode()),
        "no reply": after(),
        "no request": before(),
        "half a reply": truncated(),
        "garbage": malformed(),
        "too much": oversized(9 * 1024 * 1024),
    }


FILE = "2/ab/merger.md"
READS: list[tuple[str, dict[str, Any]]] = [
    ("plane_list_projects", {"project": "KB"}),
    ("plane_query_tasks", {"project": "KB", "text": "merger"}),
    ("plane_get_task", {"task": "KB-1", "include": ["comments", "relations"]}),
    ("zulip_list_channels", {"channel": "drawing"}),
    ("zulip_read_messages", {"channel": "drawing", "topic": "merge"}),
    ("zulip_list_channels", {"unread": True}),
    ("zulip_read_messages", {"channel": "drawing", "anchor": f"/user_uploads/{FILE}"}),
    ("zulip_find_people", {"query": "hamlet"}),
    ("zulip_search_messages", {"query": "merger"}),
]
WRITES: list[tuple[str, dict[str, Any]]] = [
    ("plane_create_task", {"project": "KB", "name": "Call them", "description": WORDS}),
    ("plane_update_task", {"task": "KB-1", "priority": "low"}),
    ("plane_comment_task", {"task": "KB-1", "text": WORDS}),
    ("plane_change_tasks", {"changes": [{"task": "KB-2", "priority": "low"}]}),
    ("zulip_send_message", {"channel": "drawing", "topic": "merge", "text": WORDS}),
    ("zulip_send_message", {"channel": "drawing", "topic": "merge", "text": WORDS, "file": "words.txt"}),
    ("zulip_send_message", {"channel": "drawing", "topic": "merge", "text": WORDS, "send_at": "2099-01-01T00:00Z"}),
    ("zulip_react", {"message_id": 0, "emoji": "eyes"}),
    ("zulip_update", {"channel": "lobby", "subscribed": True}),
    ("zulip_update", {"channel": "drawing", "topic": "merge", "resolved": True}),
]


@dataclass
class PageContext:
    """A server with both services and a connected host; `log` is everything logged, at every level."""

    app: App
    client: Client
    plane: Served
    zulip: Served
    plane_inside: Plane
    zulip_inside: Zulip
    settings: Settings
    message: int
    log: io.StringIO
    answers: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    async def call(self, tool: str, arguments: dict[str, Any]) -> bool:
        """Return whether the call succeeded; its answer is kept."""
        if "message_id" in arguments:
            arguments = {**arguments, "message_id": self.message}
        result = await self.client.call_tool(tool, arguments)
        told = result.model_dump_json()
        (self.errors if result.is_error else self.answers).append(told)
        return not result.is_error

    def broken(self, fault: str | None, *, reading: bool = True) -> None:
        """Cause the same fault in both, for all requests or only for those that change something."""
        self.plane.plan, self.zulip.plan = _plan("plane", fault, reading), _plan("zulip", fault, reading)


def _plan(service: str, fault: str | None, reading: bool) -> Plan:  # noqa: FBT001 - as its only caller has it
    broken = faults(service)[fault] if fault else None
    return lambda method, _path, _number: broken if reading or method != "GET" else None


@contextmanager
def everything_logged() -> Iterator[io.StringIO]:
    """Yield everything logged at every level: a person may have enabled that to find a cause."""
    log = io.StringIO()
    handler = logging.StreamHandler(log)
    loggers = [logging.getLogger(name) for name in ("", "knowledge_forge", "mcp", "mcp.client", "uvicorn")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(1)
    for logger in loggers[-2:]:  # a client of its own, and what serves the doubles, are not part of the test
        logger.setLevel(logging.CRITICAL)
    logging.root.addHandler(handler)
    try:
        yield log
    finally:
        logging.root.removeHandler(handler)
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


def furnished_plane() -> Plane:
    accounts = (replace(ADA, key=PLANE_KEY), MEL, GUS, OTTO)
    plane = seeded(accounts=accounts)
    plane.change_task("KB-1", description_html=f"<p>{WORDS}</p>")
    plane.add_comment("KB-1", f"<p>{WORDS}</p>")
    return plane


def furnished_zulip() -> tuple[Zulip, int]:
    zulip = furnished(RECORDED_LEVEL, Clock())
    bot = zulip.world.user(BOT)
    bot.key, bot.email = ZULIP_KEY, EMAIL
    bot.record.update(email=EMAIL, delivery_email=EMAIL)
    zulip.world.files[FILE] = f"{WORDS} {ECHOES['zulip']}".encode()
    zulip.world.say(HAMLET, "drawing", "files", f"[file](/user_uploads/{FILE})")
    return zulip, zulip.world.say(HAMLET, "drawing", "merge", WORDS)


@asynccontextmanager
async def house(folder: Path, *, level: float) -> AsyncIterator[PageContext]:
    zulip, message = furnished_zulip()
    async with AsyncExitStack() as stack:
        log = stack.enter_context(everything_logged())
        plane = furnished_plane()
        plane_at = await stack.enter_async_context(served(plane))
        zulip_at = await stack.enter_async_context(served(zulip))
        settings = Settings(
            kb=write(folder / "kb", {"a.md": f"# A\n\n{WORDS}.\n"}),
            state_dir=folder / "state",
            plane_base_url=plane_at.address,
            plane_api_key=PLANE_KEY,
            plane_workspace=WORKSPACE,
            zulip_site=zulip_at.address,
            zulip_email=EMAIL,
            zulip_api_key=ZULIP_KEY,
        )
        settings = await let_in(settings, level=level)
        app = await stack.enter_async_context(opened(settings, sleep=at_once, indexing=False, announcing=False))
        client = await stack.enter_async_context(connect(app))
        yield PageContext(app, client, plane_at, zulip_at, plane, zulip, settings, message, log)


def keys_in(text: str | bytes) -> list[str]:
    """Return the keys in the text, also as JSON or a URL would write them."""
    raw = text if isinstance(text, bytes) else text.encode()
    forms = {key: {key, json.dumps(key)[1:-1], re.sub("=", "%3D", key), key.rstrip("=")} for key in KEYS}
    return [key for key, written in forms.items() if any(form.encode() in raw for form in written)]


def on_disk(folder: Path) -> Iterator[tuple[str, bytes]]:
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            yield file.name, file.read_bytes()


def check(there: PageContext) -> None:
    """Assert that nothing answered or stored so far holds a key, and no error or log the words."""
    log = there.log.getvalue()
    assert not keys_in(log), [line for line in log.splitlines() if keys_in(line)]
    for told in (*there.answers, *there.errors):
        assert not keys_in(told), told
    for told in there.errors:
        assert WORDS not in told, told
        assert EMAIL not in told, told
    assert WORDS not in log, [line for line in log.splitlines() if WORDS in line]
    assert there.settings.state_dir is not None
    for name, content in on_disk(there.settings.state_dir):
        assert not keys_in(content), f"{name} holds {keys_in(content)}"


async def test_all_tools_of_both_services_are_tried_here(tmp_path: Path) -> None:
    """Otherwise a later tool would be missing from all of these tests."""
    async with house(tmp_path, level=5) as there:
        tried = {tool for tool, _ in (*READS, *WRITES)}
        assert tried == {spec.name for spec in listed(there.settings) if spec.toolset in ("plane", "zulip")}


async def test_where_all_goes_well_no_key_is_said_logged_or_kept(tmp_path: Path) -> None:
    async with house(tmp_path, level=5) as there:
        for tool, arguments in (*READS, *WRITES):
            assert await there.call(tool, arguments), there.errors
        assert len(there.answers) == len(READS) + len(WRITES)
        check(there)
        assert keys_in(there.plane.seen[0].headers["x-api-key"]), "the key does go to Plane"
        assert BASIC in there.zulip.seen[-1].headers["authorization"]


async def test_secrets_echoed_in_a_services_data_are_removed(tmp_path: Path) -> None:
    async with house(tmp_path, level=5) as there:
        there.plane_inside.change_task("KB-1", description_html=f"<p>{ECHOES['plane']}</p>")
        there.zulip_inside.world.say(HAMLET, "drawing", "merge", ECHOES["zulip"])
        for tool, arguments in READS:
            assert await there.call(tool, arguments), there.errors
        assert sum("you sent" in told for told in there.answers) >= 2
        check(there)


TELLING = (
    "a 400 that echoes",
    "a 500 that echoes",
    "a redirect with the key in it",
    "a page that echoes",
    "no HTTP",
)
"""The faults that could leak the most, each in its own way; the long tests try the others."""


@pytest.mark.parametrize(
    "fault",
    [fault if fault in TELLING else pytest.param(fault, marks=pytest.mark.external) for fault in faults("plane")],
)
async def test_no_fault_of_a_service_brings_a_key_or_a_text_to_light(tmp_path: Path, fault: str) -> None:
    async with house(tmp_path, level=5) as there:
        there.broken(fault)
        for tool, arguments in (*READS, *WRITES):
            await there.call(tool, arguments)
        there.broken(fault, reading=False)
        for tool, arguments in WRITES:
            await there.call(tool, arguments)
        check(there)
        assert there.errors, "something did go wrong"


async def test_a_waiting_proposal_has_the_text_and_no_key(tmp_path: Path) -> None:
    async with house(tmp_path, level=2) as there:
        for tool, arguments in WRITES:
            assert await there.call(tool, arguments), there.errors
            assert await there.call(tool, {**arguments, "dry_run": True}), there.errors
        asked = await there.app.base.state.trust.proposals()
        waiting = [proposal for proposal in asked if proposal.kind == "call"]
        assert len(waiting) == len(WRITES)
        for proposal in waiting:
            told = await summary(proposal, there.app.services.review_address, whole=True)
            assert not keys_in(f"{proposal!r} {told}")
        rejected = await there.app.approvals.reject(waiting[0].id, waiting[0].hash, _person())
        assert rejected.state == "rejected"
        there.broken("a 400 that echoes", reading=False)
        for proposal in waiting[1:]:
            ended = await there.app.approvals.approve(proposal.id, proposal.hash, _person())
            assert not keys_in(f"{ended!r}")
        check(there)


async def test_a_journey_and_the_audit_log_hold_no_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with house(tmp_path, level=5) as there:
        for tool, arguments in WRITES:
            assert await there.call(tool, arguments), there.errors
        result = await there.client.call_tool("journey_start", {"agent": "research", "brief": f"find out: {WORDS}?"})
        journey = (result.structured_content or {})["journey_id"]
        for fault in (None, "a 400 that echoes"):
            there.broken(fault)
            for tool, arguments in (*READS, *WRITES):
                await there.call(tool, {**arguments, "journey_id": journey})
        for view in ("state", "events", "report"):
            await there.call("journey_status", {"journey_id": journey, "view": view})
        check(there)
        place = ["--kb", str(there.settings.kb), "--state-dir", str(there.settings.state_dir)]
        for verb in (["audit", "export"], ["audit", "search"], ["audit", "verify"]):
            await asyncio.to_thread(main, [*verb, *place])
        audited = capsys.readouterr()
        # The records of a batch are those of its changes, each under the tool that makes it alone.
        assert all(tool in audited.out for tool, _ in WRITES if tool != "plane_change_tasks")
        assert WORDS not in audited.out + audited.err
        await asyncio.to_thread(main, ["journeys", "show", journey, *place])
        shown = capsys.readouterr()
        assert journey in shown.out
        assert not keys_in(audited.out + audited.err + shown.out + shown.err)


@pytest.mark.parametrize("fault", [None, "a 401 that echoes"])
async def test_the_doctor_says_no_key(tmp_path: Path, fault: str | None) -> None:
    async with house(tmp_path, level=5) as there:
        if fault:
            there.broken(fault)
        found = await doctor.examine(there.settings)
        assert {"plane", "zulip"} <= {one.what for one in found}
        assert not keys_in(repr(found))
        assert not keys_in(there.log.getvalue())


@pytest.mark.parametrize("fault", ["a 400 that echoes", "no HTTP"])
async def test_no_traceback_and_no_representation_has_a_key(tmp_path: Path, fault: str) -> None:
    """A debugger, a crash report or a careless log line would print this."""
    async with house(tmp_path, level=5) as there:
        plane, zulip = board_of(there.app.services).client, chat_of(there.app.services).client
        there.broken(fault)
        shown = [repr(there.settings), repr(there.settings.plane), repr(there.settings.zulip), repr(there.app)]
        for asked in (plane.projects(), zulip.me()):
            with pytest.raises(Exception) as caught:  # noqa: PT011 - whichever it is
                await asked
            shown += traceback.format_exception(caught.value)
            shown += [repr(one) for one in _chain(caught.value)]
        shown += [repr(one) for one in _within((plane, zulip), depth=3)]
        assert not keys_in("".join(shown)), [one for one in shown if keys_in(one)]


def _chain(error: BaseException | None) -> Iterator[object]:
    while error is not None:
        yield from (error, error.args, vars(error))
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _within(things: Sequence[object], depth: int) -> Iterator[object]:
    """Yield the things and their parts, as a debugger would open them."""
    for thing in things:
        yield thing
        if depth and hasattr(thing, "__dict__"):
            inner = [one for one in vars(thing).values() if type(one).__module__.startswith("mcp_server")]
            yield from _within(inner, depth - 1)


def _person() -> Any:

    return Approver("ann", "page")
