"""The limit on all runs together in 24 hours.

Shared by every process, explained with its remedy, fatal to no waiting run.

One answer of the double costs 120 tokens.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client

from agents.loop.record.frames import Control, PersonAnswered
from agents.loop.record.run import Run
from agents.loop.store.ports import Hold
from mcp_server.app.composition import App, open_app
from mcp_server.app.knowledge_base import utc_now
from mcp_server.app.settings.settings import Settings
from mcp_server.app.settings.values import prices
from mcp_server.cli.doctor.model import day_examined
from mcp_server.runs.daily_limit import NO_BOUNDS, UNPRICED, Day, DayBounds
from mcp_server.runs.resume import SURELY_S, Keeper
from tests.doubles.provider_turns import said, uses
from tests.support.hosts.reviewers import ANN
from tests.support.hosts.writers import Writer
from tests.support.knowledge_bases.folders import write
from tests.support.runs.hosts import RunHost, at_once, run_host
from tests.support.runs.persons import RunPerson, run_person
from tests.support.runs.records import Walk, header, hold
from tests.support.runs.scripts import no_publishing
from tests.support.state.ledgers import NOW
from tests.support.state.memory.runs import MemoryRuns

HOUR = timedelta(hours=1)
MOVE = uses("kb_move", path="guides/deploy.md", to="guides/release.md")
ASKS = uses("ask_user", question="Which page?")
unix = pytest.mark.skipif(os.name == "nt", reason="there are no pseudo-terminals")


@asynccontextmanager
async def another(settings: Settings, **more: Any) -> AsyncIterator[Writer]:
    """Yield a host of another process with the same state."""
    settings = replace(settings, **more)
    async with open_app(settings, indexing=False, sleep=at_once) as app, Client(app.server) as client:
        yield Writer(client, app, settings.kb)


async def spend(host: RunHost, words: str = "Spend") -> None:
    """Let a run get one answer."""
    host.will(words, said("Spent."))
    await host.call("agent_run", goal=f"{words} it.")


async def until(app: App, run: str, holds: Callable[[Run], bool]) -> Run:
    """Return the run once it meets this condition."""
    with anyio.fail_after(60):
        while True:
            seen = await app.services.state.last_event()
            there = await app.services.runs.store.run(run)
            if holds(there):
                return there
            await app.services.state.changed(seen)


async def begun(app: App) -> int:
    """Return the number of recorded runs."""
    return len(await app.services.runs.store.runs(limit=100))


def unbounded(app: App) -> None:
    """Make room again."""
    runs = app.services.runs
    runs.day = Day(runs.store, NO_BOUNDS, utc_now)


# --- beginning --------------------------------------------------------------------------------------------------------


async def test_two_processes_share_the_limit_and_a_run_beyond_it_is_refused_and_never_recorded(tmp_path: Path) -> None:
    async with run_host(tmp_path, run_day_tokens=240) as host, another(host.settings) as other:
        days = [utc_now()]
        await spend(host)
        days.append(utc_now())
        host.will("Again", said("Spent."))
        assert (await other.call("agent_run", goal="Again."))["status"] == "done"
        told = await host.refused("agent_run", goal="Once more.")
        assert await begun(host.app) == 2
    assert host.model.left == 0
    assert "all runs together used 240 tokens in the last 24 hours, of 240 that they may (FORGE_RUN_DAY_TOKENS)" in told
    rooms = [day + timedelta(days=1) for day in days]  # one day if it is not midnight
    assert any(f"there is room again at {room:%Y-%m-%d}" in told for room in rooms)
    assert told.endswith("UTC at the earliest; nothing was started")


async def test_the_cost_of_runs_is_limited_too(tmp_path: Path) -> None:
    told: dict[str, Any] = {"run_day_cost": Decimal("0.002"), "model_prices": prices("10/100")}
    async with run_host(tmp_path, **told) as host:
        await spend(host)
        refused = await host.refused("agent_run", goal="Once more.")
    assert "all runs together cost 0.003 in the last 24 hours, of 0.002 that they may (FORGE_RUN_DAY_COST)" in refused


async def test_a_bound_on_the_cost_without_a_price_lets_no_run_begin(tmp_path: Path) -> None:
    async with run_host(tmp_path, run_day_cost=Decimal(1), model_prices=prices("other-*=10/100")) as host:
        assert UNPRICED in await host.refused("agent_run", goal="Look.")
        assert (await begun(host.app), len(host.model.asked)) == (0, 0)


async def test_an_approved_start_begins_no_run_either_and_the_proposal_says_why(tmp_path: Path) -> None:
    async with run_host(tmp_path, run_day_tokens=100) as host, another(host.settings, enrolment=None) as stranger:
        proposed = await stranger.call("agent_run", goal="Look.")
        await spend(host)
        waiting = await host.app.services.state.trust.proposal(proposed["proposal"]["id"])
        assert waiting is not None
        ended = await host.app.approvals.approve(waiting.id, waiting.hash, ANN)
        assert await begun(host.app) == 1
    assert ended.state == "failed"
    assert "(FORGE_RUN_DAY_TOKENS)" in (ended.error or "")
    assert "nothing was started" in (ended.error or "")


# --- under way --------------------------------------------------------------------------------------------------------


async def test_a_run_under_way_ends_before_its_next_question_whichever_process_spent_the_rest(tmp_path: Path) -> None:
    async with run_host(tmp_path, run_day_tokens=200) as host, another(host.settings) as other:
        host.will("Look", uses("kb_map", path=""), said("never"))
        await spend(host)
        answer = await other.call("agent_run", goal="Look around.")
        there = await host.app.services.runs.store.run(answer["run_id"])
    assert (answer["status"], there.iterations) == ("failed", 1)
    last = there.frames[-1]
    assert isinstance(last, Control)
    assert (last.signal, last.limit) == ("limit_reached", "day")
    assert answer["text"] == there.why
    assert there.why.startswith("all runs together used 240 tokens in the last 24 hours, of 200")


# --- waiting ----------------------------------------------------------------------------------------------------------


async def test_an_answer_is_kept_and_the_run_continues_when_there_is_room(tmp_path: Path) -> None:
    async with run_host(tmp_path, run_day_tokens=200) as host:
        host.will("Sum up", ASKS, said("A laptop."))
        asks = await host.call("agent_run", goal="Sum up a page.")
        await spend(host)
        answer = await host.call("agent_run", run_id=asks["run_id"], answer="The first.")
        assert answer["status"] == "running"
        assert answer["note"].startswith(
            "The run is waiting because a limit is used up: all runs together used 240 tokens"
        )
        runs = host.app.services.runs
        await Keeper(host.app.services, runs).look()
        there = await runs.store.run(asks["run_id"])
        assert isinstance(there.frames[-1], PersonAnswered)
        assert not runs.here
        unbounded(host.app)
        await Keeper(host.app.services, runs).look()
        ended = await until(host.app, there.id, lambda run: run.over)
    assert (ended.state, host.model.left) == ("done", 0)


async def test_a_run_whose_proposal_was_decided_keeps_waiting_without_a_try(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with run_host(tmp_path, run_day_tokens=200) as host:
        host.will("Move", MOVE, said("It is moved to the roof."))
        run = (await host.call("agent_run", goal="Move it."))["run_id"]
        await spend(host)
        runs, trust = host.app.services.runs, host.app.services.state.trust
        waiting = await trust.proposal((await runs.store.run(run)).proposal)
        assert waiting is not None
        await host.app.approvals.approve(waiting.id, waiting.hash, ANN)
        keeper = Keeper(host.app.services, runs)
        await keeper.look()
        caplog.clear()
        await keeper.look()
        assert "wait for another day" not in caplog.text
        assert ((await runs.store.run(run)).state, runs.here) == ("suspended", frozenset())
        unbounded(host.app)
        await keeper.look()
        ended = await until(host.app, run, lambda run: run.over)
    assert (ended.state, host.model.left) == ("done", 0)


async def test_a_run_that_a_person_helped_does_not_end_when_the_limit_is_reached_again(tmp_path: Path) -> None:
    async with run_host(tmp_path, run_day_tokens=240) as host:
        host.will("Sum up", ASKS, uses("kb_map", path=""), said("A laptop."))
        asks = await host.call("agent_run", goal="Sum up a page.")
        answer = await host.call("agent_run", run_id=asks["run_id"], answer="The first.")
        runs = host.app.services.runs
        there = await runs.store.run(asks["run_id"])
        last = there.frames[-1]
        assert isinstance(last, Control)
        assert (answer["status"], there.iterations, last.signal) == ("running", 2, "left")
        assert last.detail.startswith("it waits until a limit allows more: all runs together used 240 tokens")
        assert answer["note"].startswith("The run is waiting because a limit is used up")
        unbounded(host.app)
        await Keeper(host.app.services, runs).look()
        ended = await until(host.app, there.id, lambda run: run.over)
    assert (ended.state, host.model.left) == ("done", 0)


async def test_a_run_with_unknown_cost_ends_after_an_answer_even_if_a_person_helped_it(
    tmp_path: Path,
) -> None:
    """Waiting would take forever, and asking again would be unbounded."""
    async with run_host(tmp_path) as host:
        host.will("Sum up", ASKS, said("never"))
        asks = await host.call("agent_run", goal="Sum up a page.")
        runs = host.app.services.runs
        runs.day = Day(runs.store, DayBounds(cost_micros=1_000_000), utc_now)
        answer = await host.call("agent_run", run_id=asks["run_id"], answer="The first.")
    assert (answer["status"], answer["text"]) == ("failed", UNPRICED)


async def test_a_run_of_another_model_is_not_given_up_while_no_server_may_ask(tmp_path: Path) -> None:
    async with run_host(tmp_path, run_day_tokens=100) as host:
        runs, long_ago = host.app.services.runs, utc_now() - timedelta(days=2)
        await runs.store.begin(header("r-1", model="openai:another", begun_at=long_ago), Hold("gone", NOW, NOW))
        await spend(host)
        at = [0.0]
        keeper = Keeper(host.app.services, runs, lambda: at[0])
        await keeper.look()
        at[0] += SURELY_S + 1
        await keeper.look()
        assert (await runs.store.run("r-1")).state == "running"
        unbounded(host.app)
        await keeper.look()
        assert (await runs.store.run("r-1")).state == "running", "a server that has its model may come in a moment"
        at[0] += SURELY_S + 1
        await keeper.look()
        assert (await runs.store.run("r-1")).state == "failed"


# --- at the command line ----------------------------------------------------------------------------------------------


@pytest.fixture
def person(tmp_path: Path) -> Any:
    write(tmp_path / "kb")
    with run_person(tmp_path, FORGE_RUN_DAY_TOKENS="1000") as person:
        yield person


@unix
def test_run_is_wrongly_asked_when_the_day_is_spent_and_an_answer_is_kept(person: RunPerson) -> None:
    person.will("Ask", ASKS)
    person.will("Spend", *[uses("kb_map", path="")] * 8)
    assert person.here("run", "Ask me.", "--json").returncode == 3
    asked = person.newest()
    spent = person.here("run", "Spend it.", "--iterations", "20")
    assert spent.returncode == 1
    assert "all runs together used 1,080 tokens" in spent.stderr
    newest = person.newest().id
    refused = person.here("run", "Once more.")
    assert (refused.returncode, person.newest().id) == (2, newest)
    assert "(FORGE_RUN_DAY_TOKENS); there is room again at" in refused.stderr
    answered = person.here("runs", "answer", asked.id, "The first.")
    assert answered.returncode == 3
    assert "waiting: all runs together used 1,080 tokens" in answered.stderr
    there = person.record(asked.id)
    assert isinstance(there.frames[-1], PersonAnswered)


async def test_the_doctor_reports_how_much_of_the_limit_is_used(tmp_path: Path) -> None:
    async with run_host(tmp_path, run_day_tokens=200) as host:
        state, settings = host.app.services.state, host.settings
        await spend(host)
        taken = await day_examined(state, settings)
        await spend(host, "More")
        spent = await day_examined(state, settings)
        assert await day_examined(state, replace(settings, run_day_tokens=None)) is None
    assert taken is not None
    assert spent is not None
    assert (taken.health, taken.found) == ("ok", "all runs together used 120 tokens in the last 24 hours, of 200")
    assert spent.health == "note"
    assert spent.found.startswith("no run starts: all runs together used 240 tokens")


# --- free room --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("bound", "hours"), [(107, 23), (108, 22), (214, 22), (215, 20), (321, 20)], ids=str)
async def test_room_comes_back_when_enough_is_a_day_ago(bound: int, hours: int) -> None:
    store = MemoryRuns(no_publishing)
    for number, ago in enumerate((4, 2, 1)):
        walk = Walk(await store.begin(header(f"run-{number}", begun_at=NOW - ago * HOUR), hold()))
        plan = replace(walk.plan("correct", problem="x"), at=NOW - ago * HOUR)
        await store.append(await store.run(f"run-{number}"), [plan], hold())
    told = await Day(store, DayBounds(tokens=bound), lambda: NOW).spent()
    _, _, room = told.partition("there is room again at ")
    at = datetime.strptime(room, "%Y-%m-%d %H:%M UTC at the earliest").replace(tzinfo=NOW.tzinfo)
    assert timedelta() < at - (NOW + hours * HOUR) <= timedelta(minutes=2)
    assert await Day(store, DayBounds(tokens=322), lambda: NOW).spent() == ""
