"""A command that updates the index frees the lease, at whatever moment it is stopped."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import anyio
import pytest

from knowledge.state.ports import Lease
from mcp_server.app.freshness import index_update
from mcp_server.app.freshness.index_update import held_lease
from mcp_server.app.knowledge_base import open_base
from mcp_server.app.settings.settings import Settings
from tests.support.knowledge_bases.folders import write


@pytest.mark.parametrize("slow_at", ["the first request", "a renewal"])
async def test_a_lease_that_is_given_while_its_command_stops_is_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slow_at: str
) -> None:
    """A person who then moves the state to another database would be told that a process still uses it."""
    monkeypatch.setattr(index_update, "RENEW_S", 0.01)
    async with open_base(Settings(kb=write(tmp_path / "kb"), state_dir=tmp_path / "state")) as base:
        acquire, asked = base.state.acquire_lease, anyio.Event()

        async def slow(name: str, holder: str, *, now: datetime, ttl_s: float) -> Lease | None:
            if slow_at == "a renewal" and await base.state.lease(name) is None:
                return await acquire(name, holder, now=now, ttl_s=ttl_s)
            asked.set()
            # A database finishes what it was asked for, even if the caller does not wait.
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.05)
                lease = await acquire(name, holder, now=now, ttl_s=ttl_s)
                assert lease is not None
            return lease

        monkeypatch.setattr(base.state, "acquire_lease", slow)

        async def update() -> None:
            async with held_lease(base):
                await anyio.sleep_forever()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(update)
            await asked.wait()
            tasks.cancel_scope.cancel()
        assert await base.state.lease(base.lease) is None
