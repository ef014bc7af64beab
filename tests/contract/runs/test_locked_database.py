"""The state database is unavailable for a while in the middle of a run: someone else's long write locks it."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio
import apsw
import pytest

from agents.loop import leader as leading
from agents.loop.record.frames import Control, PlanFrame, ToolResult
from agents.loop.store import retries as outlasting
from knowledge.errors import DatabaseUnavailable
from knowledge.state.ports import Event, StateStore
from knowledge.state.sqlite import database as sqlite
from mcp_server.runs import resume as keeping
from mcp_server.runs import supervisor
from tests.contract.runs.test_supervisor import only_run, over, until
from tests.doubles.provider_turns import Turn, said, uses
from tests.support.runs.hosts import RunHost, run_host

WRITES = uses("kb_merge", path="notes/a.md", content="# A\n\nIt was here.\n")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a locked database be given up at once, and a silent run be taken over soon."""
    monkeypatch.setattr(sqlite, "BUSY_MS", 20)
    monkeypatch.setattr(supervisor, "HOLD_S", 0.6)
    monkeypatch.setattr(keeping, "LOOK_S", 0.2)
    monkeypatch.setattr(supervisor, "CLOSING_S", 0.3)
    monkeypatch.setattr(leading, "CLOSING_S", 0.3)


@dataclass
class Locking:
    """Locks the database when the model is asked, and releases it after `seconds` or on request."""

    path: Path
    seconds: float | None = None
    locked: threading.Event = field(default_factory=threading.Event)

    def __call__(self, _asked: Mapping[str, Any]) -> Turn:
        self._connection = apsw.Connection(str(self.path))
        self._connection.set_busy_timeout(5_000)
        self._connection.execute("BEGIN IMMEDIATE")
        self.locked.set()
        if self.seconds is not None:
            threading.Timer(self.seconds, self.free).start()
        return WRITES

    def free(self) -> None:
        self._connection.close()


def locking(host: RunHost, seconds: float | None = None) -> Locking:
    return Locking(host.app.base.state_dir / "state.db", seconds)


async def test_a_run_survives_the_lock_and_neither_an_answer_nor_an_effect_is_lost(tmp_path: Path) -> None:
    async with run_host(tmp_path) as host:
        host.will("Look", uses("kb_read", path="guides/deploy.md"), locking(host, 0.3), said("On the roof."))
        answer = await host.call("agent_run", goal="Look at it.")
        run = await only_run(host.app)
        assert (answer["status"], answer["run_id"]) == ("done", run.id)
        assert len(host.model.asked) == len([one for one in run.frames if isinstance(one, PlanFrame)]) == 3
        assert [one.success for one in run.frames if isinstance(one, ToolResult)] == [True, True]
        assert not [one for one in run.frames if isinstance(one, Control)]


async def test_a_caller_that_waited_too_long_learns_which_run_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Told "nothing was changed, try again", a host would begin it twice."""
    monkeypatch.setattr(outlasting, "WAITS_S", (0.0,))
    async with run_host(tmp_path) as host:
        lock = locking(host)
        host.will("Look", lock, WRITES, said("On the roof."))
        why = await host.refused("agent_run", goal="Look at it.")
        lock.free()
        run = await only_run(host.app)
        assert run.id in why
        assert "do not start it again" in why
        assert "nothing was changed" not in why
        assert (await until(host.app, run.id, over)).state == "done"
        assert (await host.call("agent_trace", run_id=run.id))["answer"] == "On the roof."


async def test_a_run_that_nobody_waits_for_is_cancelled_when_the_database_is_back(tmp_path: Path) -> None:
    async with run_host(tmp_path) as host:
        lock = locking(host)
        host.will("Look", lock, said("Nobody hears it."))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_call, host)
            await anyio.to_thread.run_sync(lock.locked.wait, 20)
            tasks.cancel_scope.cancel()
        lock.free()
        run = await until(host.app, (await only_run(host.app)).id, over)
    assert run.state == "cancelled"


async def _call(host: RunHost) -> None:
    await host.call("agent_run", goal="Look at it.")


class Going:
    """A state store that reports one change, and nothing after that."""

    def __init__(self, state: StateStore) -> None:
        self._state = state

    def __getattr__(self, name: str) -> Any:
        return getattr(self._state, name)

    async def events_after(self, seq: int) -> Sequence[Event]:
        return [event for event in await self._state.events_after(seq) if event.topic == "run"]

    async def last_event(self) -> int:
        raise DatabaseUnavailable("state.db", "gone")


async def test_the_supervisor_learns_of_the_outage_later_and_logs_little(tmp_path: Path) -> None:
    async with run_host(tmp_path) as host:
        state: Any = Going(host.app.services.state)
        keeper = keeping.Keeper(replace(host.app.services, state=state), host.app.services.runs)
        seen = await host.app.services.state.last_event()
        await host.app.services.state.publish("doc", ["a.md"])
        with anyio.fail_after(60):
            await keeper.news(seen)
