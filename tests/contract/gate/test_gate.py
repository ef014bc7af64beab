"""The gate, through a real client and the real server: no call beyond what a person granted."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import Implementation, TextContent

from knowledge.errors import StorageError
from knowledge.trust.ports import TrustRecord
from mcp_server.app.composition import App
from mcp_server.app.dependencies import Services
from mcp_server.app.knowledge_base import utc_now
from mcp_server.app.settings.settings import Settings
from mcp_server.fair_use.admission import FairUse
from mcp_server.gate.caller import Call
from mcp_server.gate.dispatch import CallAnswered, CallFailed, Gate
from mcp_server.gate.host_registration import TOKENLESS, UNENROLLED, BadHostName, Principal, enrol, os_user
from mcp_server.gate.policy import Trust
from mcp_server.gate.trust.scores import BadGrant, freeze, grant
from mcp_server.protocol.calls.results import REFUSED
from mcp_server.toolsets.spec import Arguments, CallPlan, CallPreview, ToolSpec
from tests.support.knowledge_bases.folders import write
from tests.support.roads.road import connect, opened
from tests.support.state.trust_levels import stand

pytestmark = pytest.mark.security

ME = os_user()
ME_AT_CURSOR = Principal(ME, "cursor")


@dataclass(frozen=True)
class Noted:
    status: str
    proposal: Mapping[str, Any] | None = None


class Note(Arguments):
    text: str


async def plan(_services: Services, _call: Call, asked: Note) -> CallPlan[Noted]:
    if asked.text == "crash":
        raise RuntimeError("a secret inside")

    async def execute(_call: Call) -> Noted:
        written.append(asked.text)
        return Noted("done")

    preview = CallPreview(Noted("done"), f"note {asked.text}", effect=asked.text, documents=(asked.text,))
    return CallPlan(execute=execute, preview=preview)


written: list[str] = []
NOTE = ToolSpec[Any, Note, Noted](
    "note",
    "Write a note",
    Trust.EDIT,
    "knowledge",
    "Writes a note.",
    Note,
    Noted,
    plan=plan,
)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    written.clear()
    return Settings(kb=write(tmp_path / "kb"), state_dir=tmp_path / "state")


@asynccontextmanager
async def noting(settings: Settings) -> AsyncIterator[App]:
    async with opened(settings, extra_tools=[NOTE], indexing=False) as app:
        yield app


async def said(client: Client, tool: str, **arguments: object) -> tuple[bool, str]:
    result = await client.call_tool(tool, dict(arguments))
    assert isinstance(result.content[0], TextContent)
    return result.is_error, result.content[0].text


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_call_below_level_2_is_refused_with_one_plain_sentence_and_changes_nothing(
    settings: Settings, mode: str
) -> None:
    async with noting(settings) as app, connect(app, mode=mode) as client:
        await grant(app.base.state, Principal(ME, UNENROLLED).id, 1, by="ann", now=utc_now())
        refused, why = await said(client, "note", text="x")
        assert refused
        assert why.startswith("note is refused: it needs trust level 3")
        assert why.count(". ") == 0
        assert not written


async def test_a_host_that_a_person_enrolled_and_granted_may_act_and_another_may_not(settings: Settings) -> None:
    async with noting(settings) as app:
        secret = await enrol(app.base.state, "cursor", now=utc_now())
        await grant(app.base.state, Principal(ME, "cursor").id, 3, by="ann", now=utc_now())
    async with noting(replace(settings, enrolment=secret)) as app, connect(app) as client:
        assert await said(client, "note", text="kept") == (False, '{"status":"done","proposal":null}')
    async with noting(replace(settings, enrolment="guessed")) as app, connect(app) as client:
        refused, why = await said(client, "note", text="lost")
        assert refused
        assert why.startswith("note is refused: the secret that this host sends")
    assert written == ["kept"]


async def test_a_replaced_secret_stops_working_immediately(settings: Settings) -> None:
    async with noting(settings) as app:
        secret = await enrol(app.base.state, "cursor", now=utc_now())
        await grant(app.base.state, Principal(ME, "cursor").id, 3, by="ann", now=utc_now())
    async with noting(replace(settings, enrolment=secret)) as app, connect(app) as client:
        assert not (await said(client, "note", text="one"))[0]
        await enrol(app.base.state, "cursor", now=utc_now())
        for tool, arguments in (("note", {"text": "two"}), ("kb_read", {"path": "long.md"}), ("trust_status", {})):
            refused, why = await said(client, tool, **arguments)
            assert refused
            assert why.startswith(f"{tool} is refused: the secret that this host sends")
            assert secret not in why
        with pytest.raises(MCPError, match="belongs to no registered host"):
            await client.read_resource("kb://doc/long.md")
    assert written == ["one"]


async def test_nothing_a_client_says_of_itself_raises_trust(settings: Settings) -> None:
    """The design, section 6."""
    async with noting(settings) as app:
        for name in ("cursor", "claude-desktop", f"{ME}@cursor", "admin", "unenrolled"):
            info = Implementation(name=name, version="5.0")
            async with connect(app, mode="legacy", client_info=info) as client:
                assert '"status":"proposed"' in (await said(client, "note", text="x"))[1]
                assert '"score":2.0' in (await said(client, "trust_status"))[1]
    assert not written


@pytest.mark.parametrize("changes", [50, pytest.param(1_000, marks=pytest.mark.external)])
async def test_any_number_of_names_that_a_client_gives_itself_leaves_its_score(
    settings: Settings, changes: int
) -> None:
    """1,000 changes of `clientInfo`: score unchanged."""
    async with noting(settings) as app:
        for number in range(changes):
            info = Implementation(name=f"admin-{number}", version=str(number), title="level 5")
            async with connect(app, mode="legacy", client_info=info) as client:
                told = (await said(client, "trust_status"))[1]
                assert '"score":2.0' in told
        assert not await app.base.state.history(Principal(ME, UNENROLLED).id, limit=1)


async def test_a_frozen_principal_reads_nothing_but_may_ask_about_itself(settings: Settings) -> None:
    async with noting(settings) as app, connect(app) as client:
        frozen = TrustRecord(Principal(ME, UNENROLLED).id, 0.0, 0.0, 2.9, frozen=True, updated_at=utc_now())
        await stand(app.base.state, frozen, reason="harmful", by="ann")
        for refused in (
            client.list_resources,
            lambda: client.read_resource("kb://doc/long.md"),
            client.list_prompts,
            lambda: client.get_prompt("route", {"question": "x"}),
        ):
            with pytest.raises(MCPError) as caught:
                await refused()
            assert caught.value.error.code == REFUSED
            assert "frozen" in caught.value.error.message
        assert (await said(client, "kb_read", path="long.md"))[0]
        assert '"frozen":true' in (await said(client, "trust_status"))[1]
        assert (await client.list_tools()).tools


async def test_a_crash_inside_a_tool_reveals_nothing_internal(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    async with noting(settings) as app:
        secret = await enrol(app.base.state, "cursor", now=utc_now())
        await grant(app.base.state, Principal(ME, "cursor").id, 3, by="ann", now=utc_now())
    async with noting(replace(settings, enrolment=secret)) as app, connect(app) as client:
        failed, why = await said(client, "note", text="crash")
        assert failed
        assert "secret inside" not in why
        assert "secret inside" in caplog.text


class Unreachable:
    """A state store whose disk is gone."""

    async def trust_record(self, principal: str) -> TrustRecord | None:
        raise StorageError(f"cannot read {principal}")


async def test_without_a_state_store_acts_are_refused_and_reads_continue_for_a_minute(settings: Settings) -> None:
    """The design, section 6: it fails closed."""
    async with noting(settings) as app:
        now = 1000.0
        services = app.services
        gate = Gate([NOTE, *app.gate._specs.values()], services, app.gate._load_proposing, clock=lambda: now)
        me = Call(Principal(ME, UNENROLLED))
        assert isinstance(await gate.dispatch("kb_read", {"path": "long.md"}, me), CallAnswered)
        gate._services = replace(services, state=Unreachable())  # type: ignore[arg-type]  # only what the gate asks
        assert isinstance(await gate.dispatch("note", {"text": "x"}, me), CallFailed)
        assert isinstance(await gate.dispatch("kb_read", {"path": "long.md"}, me), CallAnswered)
        now += 61
        refused = await gate.dispatch("kb_read", {"path": "long.md"}, me)
        assert isinstance(refused, CallFailed)
        assert "try again" in refused.why
        stranger = Call(Principal("eve", UNENROLLED))
        assert isinstance(await gate.dispatch("kb_read", {"path": "long.md"}, stranger), CallFailed)


@pytest.mark.parametrize(("takes_s", "reads"), [(0.0, 1), (2.0, 2)])
async def test_trust_is_read_once_for_a_call_and_again_where_planning_took_long(
    settings: Settings, takes_s: float, reads: int
) -> None:
    """A level that is taken away while a call is planned for seconds no longer counts; a quick call asks the database once."""
    async with noting(settings) as app:
        now, seen = 1000.0, list[str]()
        services = app.services
        await grant(services.state, ME_AT_CURSOR.id, 3, by="ann", now=utc_now())

        class Counted:
            async def trust_record(self, principal: str) -> TrustRecord | None:
                seen.append(principal)
                return await services.state.trust_record(principal)

        def clock() -> float:
            nonlocal now
            now += 0.001
            return now

        async def plan_and_lose_trust(there: Services, call: Call, asked: Note) -> CallPlan[Noted]:
            nonlocal now
            now += takes_s
            await freeze(services.state, ME_AT_CURSOR.id, by="ann", now=utc_now(), reason="meanwhile")
            return await plan(there, call, asked)

        gate = Gate([replace(NOTE, plan=plan_and_lose_trust)], services, app.gate._load_proposing, clock=clock)
        gate._services = replace(services, state=Counted())  # type: ignore[arg-type]  # only what the gate asks
        answer = await gate.dispatch("note", {"text": "x"}, Call(ME_AT_CURSOR))
        assert seen.count(ME_AT_CURSOR.id) == reads
        assert isinstance(answer, CallAnswered if reads == 1 else CallFailed)
        assert written == (["x"] if reads == 1 else [])
        assert isinstance(await gate.dispatch("note", {"text": "later"}, Call(ME_AT_CURSOR)), CallFailed)


async def test_another_calls_late_read_of_trust_does_not_count_for_this_one(settings: Settings) -> None:
    """Otherwise a call could use trust that was taken away before it began, if another call read it slowly."""
    async with noting(settings) as app:
        services = app.services
        await grant(services.state, ME_AT_CURSOR.id, 3, by="ann", now=utc_now())
        reading, planning, earlier_is_done = anyio.Event(), anyio.Event(), anyio.Event()

        class Slow:
            async def trust_record(self, principal: str) -> TrustRecord | None:
                found = await services.state.trust_record(principal)
                if not reading.is_set():
                    reading.set()
                    await planning.wait()
                return found

        async def wait_for_the_other(there: Services, call: Call, asked: Note) -> CallPlan[Noted]:
            planning.set()
            await earlier_is_done.wait()
            return await plan(there, call, asked)

        async def earlier() -> None:
            assert isinstance(await gate.dispatch("quick", {"text": "before"}, Call(ME_AT_CURSOR)), CallAnswered)
            earlier_is_done.set()

        tools = [replace(NOTE, name="quick"), replace(NOTE, plan=wait_for_the_other)]
        gate = Gate(tools, services, app.gate._load_proposing, fair_use=FairUse(of_one=2))
        gate._services = replace(services, state=Slow())  # type: ignore[arg-type]  # only what the gate asks
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(earlier)
            await reading.wait()
            await grant(services.state, ME_AT_CURSOR.id, 2, by="ann", now=utc_now())
            answer = await gate.dispatch("note", {"text": "after"}, Call(ME_AT_CURSOR))
        assert isinstance(answer, CallAnswered)
        assert answer.waits is not None
        assert written == ["before"]


async def test_no_path_to_a_tool_bypasses_the_gate(settings: Settings) -> None:
    """MCPServer.call_tool passes no interceptor, so it must not work at all."""
    async with noting(settings) as app:
        with pytest.raises(PermissionError):
            await app.server.call_tool("kb_map", {})
        for tool in app.server._tool_manager.list_tools():
            with pytest.raises(PermissionError):
                await tool.run({}, None)  # type: ignore[arg-type]  # it raises before it looks


@pytest.mark.parametrize(
    "name", ["", "Cursor", "a b", "../x", UNENROLLED, TOKENLESS, "x" * 65, "-x", "terminal", "page"]
)
async def test_a_name_that_cannot_be_a_hosts_is_refused(settings: Settings, name: str) -> None:
    async with noting(settings) as app:
        with pytest.raises(BadHostName):
            await enrol(app.base.state, name, now=utc_now())


async def test_grants_stay_within_their_limits(settings: Settings) -> None:
    async with noting(settings) as app:
        state = app.base.state
        for level in (-1, 5.1):
            with pytest.raises(BadGrant):
                await grant(state, "ann@cursor", level, by="ann", now=utc_now())
        with pytest.raises(BadGrant, match="enrol the host first"):
            await grant(state, f"ann@{UNENROLLED}", 3, by="ann", now=utc_now())
        assert (await grant(state, "ann@cursor", 5, by="ann", now=utc_now())).ceiling == 5
        lowered = await grant(state, "ann@cursor", 1, by="ann", now=utc_now())
        assert (lowered.score, lowered.floor, lowered.ceiling) == (1, 1, 1.9)
        reasons = [change.reason for change in await state.history("ann@cursor", limit=10)]
        assert reasons == ["granted level 1", "granted level 5"]
