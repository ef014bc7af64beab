"""How a process leads runs.

Bound to a request or in the background, who continues when it ends, and what never waits forever.

The model is a double on a real socket, or one with scripted answers; the databases, the gate and the clients are real.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from secrets import token_hex
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from agents.loop.decision import interpret_reply
from agents.loop.errors import LeftToOthers, RunNotThere
from agents.loop.explanation import explain
from agents.loop.model.errors import BadKey, ProviderAway
from agents.loop.processor import unknown_cost
from agents.loop.record.frame_factory import FrameDraft
from agents.loop.record.frames import Control, Frame, Header, PersonAnswered, PlanFrame, ToolResult
from agents.loop.record.run import Run
from agents.loop.store.ports import Hold
from agents.loop.tools import CallOutcome
from mcp_server.app.composition import App, open_app
from mcp_server.app.knowledge_base import open_state, utc_now
from mcp_server.app.settings.settings import Settings
from mcp_server.gate.host_registration import os_user
from mcp_server.gate.trust.scores import freeze
from mcp_server.runs.resume import ABANDONED, OTHERS_S, SURELY_S, Keeper, became
from mcp_server.runs.supervisor import MOST_ASIDE, Runs
from mcp_server.transport.http import http_app
from tests.doubles.provider import Model
from tests.doubles.provider_turns import Turn, said, uses
from tests.doubles.serving import Served, delayed
from tests.doubles.serving import served as doubled
from tests.support.hosts.reviewers import ANN
from tests.support.hosts.writers import let_in
from tests.support.knowledge_bases.folders import write
from tests.support.processes.socket_server import served as serving_app
from tests.support.runs.hosts import RunHost, asking, at_once, run_host
from tests.support.runs.records import header
from tests.support.runs.scripts import ActsOnRecord, Scripted, ask, forever, use
from tests.support.runs.scripts import said as says
from tests.support.state.memory.runs import MemoryRuns
from tests.support.state.memory.state import MemoryStateStore

OURS = f"{os_user()}@desktop"
SLOW_S = 30.0
MOVE = uses("kb_move", path="guides/deploy.md", to="guides/release.md")
eras = pytest.mark.parametrize("mode", ["auto", "legacy"])


def model_is_slow(place: Served, first: int = 1) -> None:
    """Let the model think forever about its question of that number, and all after it."""
    place.plan = lambda _method, _path, number: delayed(SLOW_S) if number >= first else None


async def asked(place: Served, questions: int) -> None:
    """Return when the model has been asked this often."""
    with anyio.fail_after(60):
        while place.count("POST") < questions:  # noqa: ASYNC110 - they come in another thread
            await anyio.sleep(0.01)


async def only_run(app: App) -> Run:
    (line,) = await app.services.runs.store.runs()
    return await app.services.runs.store.run(line.id)


async def until(app: App, run: str, holds: Callable[[Run], bool]) -> Run:
    """Return the run once it meets this condition."""
    state, store = app.services.state, app.services.runs.store
    with anyio.fail_after(60):
        while True:
            seen = await state.last_event()
            there = await store.run(run)
            if holds(there):
                return there
            await state.changed(seen)


def over(run: Run) -> bool:
    return run.over


# --- bound to a request -----------------------------------------------------------------------------------------------


async def call_and_go_away(client: Client, place: Served, questions: int) -> list[tuple[float, str]]:
    """Begin a run, and cancel the call once the model has been asked this often.

    Return the messages received meanwhile.
    """
    told: list[tuple[float, str]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        del total
        told.append((progress, message or ""))

    async with anyio.create_task_group() as tasks:

        async def begin() -> None:
            await client.call_tool("agent_run", {"goal": "Look at it."}, progress_callback=hear)

        tasks.start_soon(begin)
        await asked(place, questions)
        with anyio.fail_after(60):
            while not any("kb_read" in words for _, words in told):  # noqa: ASYNC110 - over a connection it comes later
                await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()
    return told


@eras
async def test_cancelling_the_call_cancels_the_run(tmp_path: Path, mode: str) -> None:
    async with run_host(tmp_path, mode=mode) as host:
        host.will("Look", uses("kb_read", path="guides/deploy.md"), said("It says twenty."))
        model_is_slow(host.served, first=2)
        told = await call_and_go_away(host.writer.client, host.served, questions=2)
        run = await until(host.app, (await only_run(host.app)).id, over)
    assert (run.state, run.why) == ("cancelled", "the request that led the run was cancelled")
    assert [done for done, _ in told] == sorted({done for done, _ in told}), "it always grows"
    assert not any("By hand" in words or "Look at it" in words for _, words in told)


@eras
async def test_over_http_too(tmp_path: Path, mode: str) -> None:
    async with run_host(tmp_path, mode=mode, level=3) as host:
        host.will("Look", uses("kb_read", path="guides/deploy.md"), said("It says twenty."))
        model_is_slow(host.served, first=2)
        app = host.app
        asgi = http_app(app.server)
        async with app.server.session_manager.run(), serving_app(asgi) as address:
            token = {"authorization": f"Bearer {host.settings.enrolment}"}
            async with http_client(f"{address}/mcp", token, mode) as client:
                told = await call_and_go_away(client, host.served, questions=2)
                run = await until(app, (await only_run(app)).id, over)
    assert run.state == "cancelled"
    assert [done for done, _ in told] == sorted({done for done, _ in told})


async def test_a_dead_host_over_http_takes_its_run_with_it(tmp_path: Path) -> None:
    """From 2026-07-28 on, a connection that ends is a cancelled request. Before, it means nothing: the run finishes."""
    async with run_host(tmp_path) as host:
        host.will("Look", said("It says twenty."))
        model_is_slow(host.served)
        app = host.app
        asgi = http_app(app.server)
        async with app.server.session_manager.run(), serving_app(asgi) as address:
            token = {"authorization": f"Bearer {host.settings.enrolment}"}
            async with anyio.create_task_group() as tasks:

                async def one_host() -> None:
                    async with http_client(f"{address}/mcp", token, "auto") as client:
                        await client.call_tool("agent_run", {"goal": "Look at it."})

                tasks.start_soon(one_host)
                await asked(host.served, 1)
                tasks.cancel_scope.cancel()
            run = await until(app, (await only_run(app)).id, over)
    assert run.state == "cancelled"


@asynccontextmanager
async def http_client(url: str, headers: dict[str, str], mode: str) -> AsyncIterator[Client]:
    async with (
        create_mcp_http_client(headers=headers) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        yield client


# --- background runs --------------------------------------------------------------------------------------------------


def goal(app: App, number: int = 1, **more: Any) -> Header:
    told: dict[str, Any] = {
        "id": f"r-{number:020x}",
        "goal": "Look at it.",
        "principal": OURS.replace("@*", ""),
        "begun_at": utc_now(),
        "model": app.services.model.name,
    }
    return Header(**{**told, **more})


@asynccontextmanager
async def place_of(folder: Path) -> AsyncIterator[tuple[Settings, Model, Served]]:
    """Yield a knowledge base that several servers share, and the model that they ask."""
    settings = Settings(kb=write(folder / "kb"), state_dir=folder / "state", open_browser=False)
    settings = await let_in(settings, "desktop", 3)
    model = Model()
    async with doubled(model) as place:
        yield asking(settings, place), model, place


@asynccontextmanager
async def server(settings: Settings) -> AsyncIterator[App]:
    async with open_app(settings, indexing=False, sleep=at_once) as app:
        yield app


async def test_a_background_run_outlives_its_process_and_another_continues_immediately(tmp_path: Path) -> None:
    async with place_of(tmp_path) as (settings, model, place):
        model.will("Look", uses("kb_read", path="guides/deploy.md"), said("Never heard."), said("It says twenty."))
        model_is_slow(place, first=2)
        async with server(settings) as other:
            async with server(settings) as first:
                run = await first.services.runs.begin(goal(first))
                first.services.runs.lead_aside(run.id)
                await until(first, run.id, lambda there: any(isinstance(one, ToolResult) for one in there.frames))
                await asked(place, 2)
                assert run.id not in other.services.runs.aside
                place.plan = lambda _method, _path, _number: None
            ended = await until(other, run.id, over)
    assert ended.state == "done"
    assert [one.signal for one in ended.frames if isinstance(one, Control)] == ["taken_up"]


async def test_only_a_limited_number_is_led_concurrently_and_others_get_their_turn(tmp_path: Path) -> None:
    many = MOST_ASIDE + 4
    async with place_of(tmp_path) as (settings, model, place), server(settings) as app:
        model.will("Look", *[said("On the roof.")] * many)
        place.plan = lambda _method, _path, _number: delayed(0.2)
        runs = app.services.runs
        begun = [await runs.begin(goal(app, number)) for number in range(many)]
        started = [runs.lead_aside(run.id) for run in begun]
        assert started == [True] * MOST_ASIDE + [False] * 4
        assert len(runs.aside) == MOST_ASIDE
        for run in begun:
            assert (await until(app, run.id, over)).state == "done"
        assert place.count("POST") == many


async def test_two_servers_never_both_lead_a_run(tmp_path: Path) -> None:
    async with place_of(tmp_path) as (settings, model, place), server(settings) as one, server(settings) as other:
        model.will("Look", *[said("On the roof.")] * 16)
        for number in range(8):
            run = await one.services.runs.begin(goal(one, number))
            by = (await one.services.runs.store.run(run.id)).header
            assert by.id == run.id
            one.services.runs.lead_aside(run.id)
            other.services.runs.lead_aside(run.id)
            ended = await until(one, run.id, over)
            assert [frame.TYPE for frame in ended.frames] == ["plan", "response"]
    assert place.count("POST") == 8


# --- runs that wait for a decision ------------------------------------------------------------------------------------


async def proposed(host: RunHost) -> Run:
    host.will("Move", MOVE, said("So it is moved, page and all."))
    await host.call("agent_run", goal="Move it.")
    run = await only_run(host.app)
    assert run.state == "suspended"
    return run


async def test_a_decision_in_another_process_reaches_the_run_once(tmp_path: Path) -> None:
    async with run_host(tmp_path) as host:
        run = await proposed(host)
        async with server(host.settings) as other:
            waiting = await other.services.state.trust.proposal(run.proposal)
            assert waiting is not None
            await other.approvals.approve(waiting.id, waiting.hash, ANN, "but gently")
            ended = await until(other, run.id, over)
        assert host.model.left == 0
    (resumed,) = [one for one in ended.frames if isinstance(one, Control) and one.signal == "resumed"]
    assert "but gently" in resumed.detail
    assert (host.settings.kb / "guides/release.md").exists()
    assert ended.state == "done"


async def test_a_cancelled_run_withdraws_its_proposals(tmp_path: Path) -> None:
    async with run_host(tmp_path) as host:
        run = await proposed(host)
        await host.app.services.runs.cancel(run.id, "enough")
        gone = await host.app.services.state.trust.proposal(run.proposal)
    assert gone is not None
    assert gone.state == "withdrawn"


async def test_a_frozen_principals_run_ends_when_it_would_continue(tmp_path: Path) -> None:
    async with run_host(tmp_path) as host:
        run = await proposed(host)
        waiting = await host.app.services.state.trust.proposal(run.proposal)
        assert waiting is not None
        await freeze(host.app.base.state, OURS, by="ann", now=utc_now(), reason="odd")
        await host.app.approvals.reject(waiting.id, waiting.hash, ANN)
        ended = await until(host.app, run.id, over)
    assert ended.state == "cancelled"
    assert "frozen" in ended.why


async def test_no_model_is_asked_for_a_frozen_principal_even_if_a_person_answers(tmp_path: Path) -> None:
    async with run_host(tmp_path) as host:
        host.will("Tidy", uses("ask_user", question="Which page?"), said("Tidied: two hives left."))
        await host.writer.client.call_tool("agent_run", {"goal": "Tidy up."})
        run = await only_run(host.app)
        await freeze(host.app.base.state, OURS, by="ann", now=utc_now(), reason="odd")
        ended = await host.app.services.runs.answer(run.id, "All.", "ann")
    assert (run.state, ended.state) == ("asking", "cancelled")
    assert "frozen" in ended.why
    assert host.model.left == 1


async def test_a_run_whose_principal_is_frozen_meanwhile_ends_with_its_next_step(tmp_path: Path) -> None:
    async with run_host(tmp_path) as host:

        def frozen(_asked: Any) -> Turn:
            freezing = threading.Thread(target=anyio.run, args=(_freeze, host.settings))
            freezing.start()
            freezing.join()
            return MOVE

        host.will("Move", frozen, said("So it is moved, page and all."))
        await host.writer.client.call_tool("agent_run", {"goal": "Move it."})
        run = await only_run(host.app)
    assert run.state == "cancelled"
    assert "frozen" in run.why
    assert run.tools_called == ()
    assert (host.settings.kb / "guides/deploy.md").exists()
    assert host.model.left == 1


async def _freeze(settings: Settings) -> None:
    async with open_state(settings) as state:
        await freeze(state, OURS, by="ann", now=utc_now(), reason="odd")


async def test_cancelling_a_run_does_not_wait_for_its_model(tmp_path: Path) -> None:
    async with place_of(tmp_path) as (settings, model, place), server(settings) as app:
        model.will("Look", said("Never heard."))
        model_is_slow(place)
        runs = app.services.runs
        run = await runs.begin(goal(app))
        runs.lead_aside(run.id)
        await asked(place, 1)
        with anyio.fail_after(9):  # a third of the hold is 10 s
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(runs.ended)
                await runs.cancel(run.id, "enough")
        assert (await runs.store.run(run.id)).state == "cancelled"


class Hours:
    """A clock that advances only on request."""

    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        return self.at


async def left(app: App, **more: Any) -> Run:
    """Return a run whose process died during its first question."""
    now = utc_now() - timedelta(hours=1)
    head = goal(app, **{"begun_at": now, **more})
    return await app.services.runs.store.begin(head, Hold("dead", now, now))


async def test_a_run_is_left_to_processes_with_the_same_model_and_fails_after_a_day_without_any(tmp_path: Path) -> None:
    async with place_of(tmp_path) as (settings, _, place), open_app(settings, indexing=False, announcing=False) as app:
        run = await left(app, model="openai:another", begun_at=utc_now() - timedelta(days=2))
        clock = Hours()
        keeper = Keeper(app.services, app.services.runs, clock)
        await keeper.look()
        assert (await only_run(app)).state == "running", "the other server may come in a moment"
        clock.at += SURELY_S + 1
        await keeper.look()
        ended = await app.services.runs.store.run(run.id)
    assert timedelta(days=2) > ABANDONED
    assert (ended.state, place.count("POST")) == ("failed", 0)
    assert "openai:another" in ended.why


async def test_a_server_without_the_key_ends_no_run_that_another_server_can_lead(tmp_path: Path) -> None:
    async with place_of(tmp_path) as (settings, model, _place):
        model.will("Look", said("On the roof."))
        async with server(replace(settings, openai_api_key="sk-of-last-year")) as keyless:
            run = await left(keyless)
            await until(keyless, run.id, lambda there: there.count > 1)
            with anyio.fail_after(60):
                while keyless.services.runs.may_try(run.id):  # noqa: ASYNC110 - nothing tells of it
                    await anyio.sleep(0.02)
            assert (await only_run(keyless)).state == "running"
            async with server(settings) as other:
                assert (await until(other, run.id, over)).state == "done"


async def test_a_run_that_could_only_be_tried_for_a_day_has_failed(tmp_path: Path) -> None:
    long_ago = utc_now() - 2 * ABANDONED
    async with (
        place_of(tmp_path) as (settings, _, _place),
        open_app(replace(settings, openai_api_key="sk-of-last-year"), indexing=False, announcing=False) as app,
    ):
        run, runs, clock = await left(app, begun_at=long_ago), app.services.runs, Hours()
        keeper = Keeper(app.services, runs, clock)
        await keeper.look()
        await runs.ended()
        assert [frame.TYPE for frame in (await runs.store.run(run.id)).frames] == ["control", "control"]
        clock.at += SURELY_S + 1
        await keeper.look()
        ended = await runs.store.run(run.id)
    assert ended.state == "failed"
    assert "each try to resume it failed" in ended.why


async def test_a_run_that_was_never_led_reports_a_wrong_key_immediately(tmp_path: Path) -> None:
    async with (
        place_of(tmp_path) as (settings, _, _place),
        server(replace(settings, openai_api_key="sk-of-last-year")) as keyless,
    ):
        run = await keyless.services.runs.begin(goal(keyless))
        keyless.services.runs.lead_aside(run.id)
        ended = await until(keyless, run.id, over)
    assert (ended.state, "OPENAI_API_KEY" in ended.why) == ("failed", True)


async def test_a_process_with_other_tools_waits_for_one_with_the_same(tmp_path: Path) -> None:
    async with place_of(tmp_path) as (settings, model, place):
        model.will("Look", uses("kb_map"), said("On the roof."), said("On the roof."))
        model_is_slow(place, first=2)
        async with server(settings) as first:
            run = await first.services.runs.begin(goal(first))
            first.services.runs.lead_aside(run.id)
            await until(first, run.id, lambda there: any(isinstance(one, ToolResult) for one in there.frames))
        place.plan = lambda _method, _path, _number: None
        fewer = replace(settings, toolsets=("knowledge", "runs"))
        async with open_app(fewer, indexing=False, announcing=False) as app:
            clock = Hours()
            keeper = Keeper(app.services, app.services.runs, clock)
            await keeper.look()
            assert not app.services.runs.aside
            clock.at += OTHERS_S + 1
            await keeper.look()
            assert (await until(app, run.id, over)).state == "done"


async def test_a_server_that_lists_no_runs_leads_none(tmp_path: Path) -> None:
    async with place_of(tmp_path) as (settings, _, place):
        async with open_app(settings, indexing=False, announcing=False) as app:
            await left(app)
        async with server(replace(settings, read_only=True)) as reading:
            await anyio.sleep(0.5)  # it would have begun
            assert (await only_run(reading)).frames == ()
    assert place.count("POST") == 0


async def test_more_than_a_page_of_runs_is_looked_after(tmp_path: Path) -> None:
    async with place_of(tmp_path) as (settings, model, _), open_app(settings, indexing=False, announcing=False) as app:
        model.will("Look", *[said("On the roof.")] * 2)
        for number in range(110):
            begun = utc_now() - timedelta(hours=1, seconds=-2 * number)  # a host starts only so many in a minute
            await left(app, number=number, begun_at=begun, **({} if number == 0 else {"model": "openai:another"}))
        await Keeper(app.services, app.services.runs).look()
        assert (await until(app, f"r-{0:020x}", over)).state == "done"


async def test_runs_without_room_log_nothing(tmp_path: Path) -> None:
    async with (
        place_of(tmp_path) as (settings, model, place),
        open_app(settings, indexing=False, announcing=False) as app,
    ):
        model.will("Look", *[said("On the roof.")] * (MOST_ASIDE + 3))
        model_is_slow(place)
        for number in range(MOST_ASIDE + 3):
            await left(app, number=number)
        keeper, state = Keeper(app.services, app.services.runs), app.base.state
        await keeper.look()
        await asked(place, MOST_ASIDE)
        seen = await state.last_event()
        for _ in range(5):
            await keeper.look()
            await anyio.sleep(0.05)
        assert await state.last_event() == seen
        assert len(app.services.runs.aside) == MOST_ASIDE


async def test_the_keeper_ignores_irrelevant_events(tmp_path: Path) -> None:
    async with place_of(tmp_path) as (settings, _, _place), open_app(settings, indexing=False, announcing=False) as app:
        keeper, state = Keeper(app.services, app.services.runs), app.base.state
        seen = await state.last_event()
        heard = anyio.Event()
        async with anyio.create_task_group() as tasks:

            async def listen() -> None:
                await keeper.news(seen)
                heard.set()

            tasks.start_soon(listen)
            for _ in range(3):
                await state.publish("doc", ["a.md"])
                await anyio.sleep(0.1)
            assert not heard.is_set()
            await state.publish("run", ["r-1"])
            with anyio.fail_after(60):
                await heard.wait()


# --- runs with a scripted model ---------------------------------------------------------------------------------------


def fresh(run: str = "run-1") -> Header:
    return replace(header(run), begun_at=utc_now(), model=Written.name)


@dataclass
class Office:
    """Runs in memory."""

    runs: Runs
    tools: ActsOnRecord
    model: Scripted
    told: list[Frame]

    async def hear(self, _run: Run, frame: Frame) -> None:
        self.told.append(frame)


@dataclass
class Written:
    """A model with scripted answers."""

    provider_: Scripted | Exception
    name: str = "scripted:small"
    cost: Any = unknown_cost

    async def provider(self) -> Scripted:
        if isinstance(self.provider_, Exception):
            raise self.provider_
        return self.provider_


@asynccontextmanager
async def office(
    *answers: Any, tools: Any = None, cannot: Exception | None = None, **more: Any
) -> AsyncIterator[Office]:
    state = MemoryStateStore()
    model, deeds = Scripted(*answers), tools or ActsOnRecord()
    async with anyio.create_task_group() as tasks:
        written: Any = Written(cannot or model)
        runs = Runs(
            MemoryRuns(state.publish), state, written, lambda _header: deeds, tasks, now=utc_now, sleep=forever, **more
        )
        yield Office(runs, deeds, model, [])
        tasks.cancel_scope.cancel()


class Broken(ActsOnRecord):
    def definitions(self) -> Sequence[Any]:
        raise ZeroDivisionError


async def test_an_unexpected_error_ends_a_run_and_is_recorded() -> None:
    async with office(tools=Broken()) as there:
        run = await there.runs.carry(fresh())
        aside = await there.runs.begin(fresh("run-2"))
        there.runs.lead_aside(aside.id)
        await there.runs.ended()
        assert (await there.runs.store.run("run-2")).state == "failed"
    assert run.state == "failed"
    assert "something unexpected failed" in run.why


async def test_an_unusable_model_ends_only_the_run_that_someone_waits_for() -> None:
    async with office(cannot=BadKey("scripted", "A_KEY", "it is missing")) as there:
        run = await there.runs.carry(fresh())
        await there.runs.begin(fresh("run-2"))
        there.runs.lead_aside("run-2")
        await there.runs.ended()
        assert not there.runs.may_try("run-2"), "another process may have the key; this one does not try again at once"
        assert (await there.runs.store.run("run-2")).state == "running"
    assert run.state == "failed"
    assert "A_KEY" in run.why


@pytest.mark.parametrize("tries", [3, 12])
async def test_a_run_whose_model_is_unreachable_for_hours_continues_later(tries: int) -> None:
    """Nothing died: the number of processes so far says nothing about the run."""
    away = ProviderAway("scripted", "models.example", "connection refused", 5, "look at the network")
    async with office(says("", ask("Which?")), *[away] * tries, says("Twenty.")) as there:
        await there.runs.carry(fresh())
        await there.runs.answer_aside("run-1", "Blue.", "ada")
        for _ in range(tries):
            await there.runs.ended()
            assert (await there.runs.store.run("run-1")).state == "running"
            there.runs.lead_aside("run-1")
        await there.runs.ended()
        run = await there.runs.store.run("run-1")
    assert run.state == "done"
    left = [frame.detail for frame in run.frames if isinstance(frame, Control) and frame.signal == "left"]
    assert left == [str(away)] * tries
    assert "left the run to others" in explain(run)


@pytest.mark.parametrize(
    "lacks",
    [BadKey("scripted", "A_KEY", "401"), ProviderAway("scripted", "models.example", "connection refused", 5, "look")],
)
async def test_a_persons_answer_is_not_lost_while_the_model_cannot_be_asked(lacks: Exception) -> None:
    async with office(says("", ask("Which?")), lacks, says("Twenty.")) as there:
        await there.runs.carry(fresh())
        with pytest.raises(LeftToOthers, match="do not start it again"):
            await there.runs.answer("run-1", "Blue.", "ada")
        left = await there.runs.store.run("run-1")
        done = await there.runs.lead("run-1")
    assert (left.state, done.state) == ("running", "done")
    assert [frame.text for frame in done.frames if isinstance(frame, PersonAnswered)] == ["Blue."]


async def test_a_run_led_by_others_is_not_ended_by_a_process_without_a_key() -> None:
    async with office(says("", ask("Which?"))) as there:
        asking = await there.runs.carry(fresh())
        async with office(cannot=BadKey("scripted", "A_KEY", "it is missing")) as without:
            without.runs.store = there.runs.store
            assert asking.ask is not None
            answered = FrameDraft(asking, utc_now(), token_hex).add(
                PersonAnswered, ask=asking.ask.id, text="Blue.", by="ada"
            )
            await there.runs.store.append(asking, answered.frames, None)
            with pytest.raises(LeftToOthers, match="A_KEY"):
                await without.runs.lead("run-1")
        assert (await there.runs.store.run("run-1")).state == "running"


async def test_an_answer_is_recorded_immediately_and_belongs_to_its_question() -> None:
    async with office(says("", ask("Which?")), says("", ask("Which of both?")), says("Twenty.")) as there:
        first = await there.runs.carry(fresh())
        assert first.ask is not None
        second = await there.runs.answer("run-1", "Blue.", "ada", ask=first.ask.id)
        assert second.ask is not None
        with pytest.raises(RunNotThere):
            await there.runs.answer("run-1", "Blue.", "ada", ask=first.ask.id)
        await there.runs.answer_aside("run-1", "The left one.", "ada", ask=second.ask.id)
        kept = await there.runs.store.run("run-1")
        assert isinstance(kept.frames[-1], PersonAnswered)
        await there.runs.ended()
        done = await there.runs.store.run("run-1")
    assert done.state == "done"
    assert not [frame for frame in done.frames if isinstance(frame, Control)]


async def test_a_watcher_that_fails_or_hangs_blocks_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_server.runs.supervisor.TOLD_S", 0.05)
    heard: list[Frame] = []

    async def breaks(_run: Run, frame: Frame) -> None:
        heard.append(frame)
        raise BrokenPipeError

    async def hangs(_run: Run, frame: Frame) -> None:
        heard.append(frame)
        await anyio.sleep_forever()

    async with office(says("", use("kb_search")), says("Apples."), says("Bees.")) as there:
        assert (await there.runs.carry(fresh(), progress=breaks)).state == "done"
        assert (await there.runs.carry(fresh("run-2"), progress=hangs)).state == "done"
    assert len(heard) == 2


async def test_the_time_of_day_may_jump_and_costs_a_run_nothing() -> None:
    moment = [utc_now()]
    even = [0.0]

    async def jumps() -> Any:
        moment[0] += timedelta(days=3)
        even[0] += 2.0
        return CallOutcome(success=True, text="On the roof.")

    async with office(
        says("", use("kb_search")), says("Apples."), tools=ActsOnRecord(kb_search=jumps), monotonic=lambda: even[0]
    ) as there:
        there.runs._now = lambda: moment[0]
        run = await there.runs.carry(fresh())
    assert run.state == "done"
    assert 1.5 < run.spent.seconds < 3.0


async def test_a_clock_that_was_ahead_gives_a_run_no_extra_time() -> None:
    even = [0.0]

    async def long() -> CallOutcome:
        even[0] += 90.0
        return CallOutcome(success=True, text="On the roof.")

    answers = [says("", ask("Which?")), says("", use("kb_search")), says("It is too late.")]
    async with office(*answers, tools=ActsOnRecord(kb_search=long), monotonic=lambda: even[0]) as there:
        ahead = utc_now() + timedelta(days=1)
        there.runs._now = lambda: ahead
        await there.runs.carry(replace(fresh(), begun_at=ahead))
        there.runs._now = utc_now
        run = await there.runs.answer("run-1", "Blue.", "ada")
    assert run.state == "failed"
    assert run.why == "the run used up its 60 seconds"
    assert run.spent.seconds >= 90


async def test_a_caller_whose_run_is_led_elsewhere_follows_it_and_its_cancel_ends_the_run() -> None:
    async with office() as there:
        now = utc_now()
        await there.runs.store.begin(fresh(), Hold("somebody", now, now + timedelta(minutes=1)))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(there.runs.lead, "run-1")
            await anyio.sleep(0.1)
            tasks.cancel_scope.cancel()
        run = await there.runs.store.run("run-1")
    assert run.state == "cancelled"


async def test_a_run_that_waited_continues_in_the_foreground(tmp_path: Path) -> None:
    async with run_host(tmp_path) as host:
        run = await proposed(host)
        app = host.app
        assert await became(app.services, run) is None, "nobody decided yet"
        waiting = await app.services.state.trust.proposal(run.proposal)
        assert waiting is not None
        await app.approvals.reject(waiting.id, waiting.hash, ANN)
        told = await became(app.services, run)
        assert told is not None
        done = await app.services.runs.resume(run.id, run.proposal, told)
    assert done.state == "done"
    assert [one.iteration for one in done.frames if isinstance(one, PlanFrame)] == [1, 2]


async def test_a_late_first_process_repeats_no_call_that_another_had_begun() -> None:
    async with office(says("Twenty.")) as there:
        store = there.runs.store
        await there.runs.begin(fresh())
        later = utc_now() + timedelta(seconds=31)
        other = Hold("other", later, later + timedelta(seconds=30))
        run = await store.claim("run-1", other)
        assert run is not None
        said_ = interpret_reply(says("", use("kb_merge")), there.tools.definitions(), run)
        await store.append(run, FrameDraft(run, later, lambda: token_hex(4)).add_decision(said_, 1.0).frames, other)
        await store.release("run-1", "other")
        done = await there.runs.lead("run-1")
    assert done.state == "done"
    assert there.tools.done == []
    assert len(there.tools.asked_about) == 1


async def died_over(there: Office, state: str, moment: Callable[[], datetime]) -> None:
    """Lead a run to that state, in which it is claimed by a process that has just died."""
    assert (await there.runs.carry(fresh())).state == state
    assert await there.runs.store.claim("run-1", Hold("dead", moment(), moment() + timedelta(seconds=30))) is not None


@pytest.mark.parametrize(("state", "claims"), [("suspended", 320), ("asking", 1), ("done", 1)])
async def test_resuming_a_run_whose_process_has_just_died_polls_now_and_then(state: str, claims: int) -> None:
    answers = {"suspended": says("", use("kb_merge")), "asking": says("", ask("Which?")), "done": says("On the roof.")}
    waits = ActsOnRecord(kb_merge=CallOutcome(success=False, text="It waits.", proposal="p-1"))
    moment, claimed = [utc_now()], [0]

    async def passing(seconds: float) -> None:
        moment[0] += timedelta(seconds=seconds)
        await anyio.lowlevel.checkpoint()

    async with office(answers[state], says("Twenty."), tools=waits) as there:
        await died_over(there, state, lambda: moment[0])
        there.runs._now, there.runs._sleep, claim = lambda: moment[0], passing, there.runs.store.claim

        async def counting(run: str, hold: Hold) -> Run | None:
            claimed[0] += 1
            assert claimed[0] < 2 * claims + 2
            return await claim(run, hold)

        there.runs.store.claim = counting  # type: ignore[method-assign]  # it is counted, and made
        if state == "suspended":
            assert (await there.runs.resume("run-1", "p-1", "it was done")).state == "done"
        else:
            assert (await there.runs.lead("run-1")).state == state
    assert claimed[0] <= claims


async def test_a_record_that_cannot_be_read_holds_up_no_other_run(tmp_path: Path) -> None:
    """A newer program may have written it, alongside this one."""
    async with run_host(tmp_path) as host:
        first = await proposed(host)
        path = host.app.base.state_dir / "state.db"
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("UPDATE run_frame SET body = ? WHERE id = ?", ('{"type": "newer"}', first.frames[-1].id))
        host.will("Look", said("On the roof."))
        await left(host.app, number=7)
        assert (await until(host.app, f"r-{7:020x}", over)).state == "done"
