"""Which machines may serve one folder together: several where its file system allows it, else one at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from knowledge.leases import MACHINE_LEASE
from knowledge.state.sqlite.store import SqliteStateStore
from knowledge.writing.files.shared_folder import FolderFault
from mcp_server.app.factories.shared_folder import ALONE, LEASE_S, FolderNotShared, MachinePlace, place_of
from mcp_server.app.knowledge_base import open_base
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.doctor.page_place import shared_folder_examined
from tests.support.state.postgres import PostgresServer

NOW = datetime(2026, 3, 1, tzinfo=UTC)
FAULT = FolderFault("two files in it can't exchange their names", "use NFS 4")


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[MachinePlace]:
    """Yield the place of the machine `ada`, whose file system has every property."""
    state = await SqliteStateStore.open(tmp_path / "state.db")
    yield MachinePlace(state, tmp_path, "ada 1", lambda: NOW, None)
    await state.close()


async def test_machines_whose_file_systems_allow_it_serve_together(place: MachinePlace) -> None:
    for name in ("ada 1", "bob 2", "ada 1"):
        await replace(place, machine=name).take()


async def test_a_machine_that_must_be_the_only_one_does_not_start_beside_another(place: MachinePlace) -> None:
    await place.take()
    with pytest.raises(FolderNotShared) as refused:
        await replace(place, machine="bob 2", fault=FAULT).take()
    said = str(refused.value)
    assert str(place.root) in said
    assert "the machine ada serves it too, and two files in it can't exchange their names; use NFS 4" in said


async def test_no_machine_starts_beside_one_that_must_be_the_only_one(place: MachinePlace) -> None:
    await replace(place, fault=FAULT).take()
    await replace(place, fault=FAULT).take()  # another process of that machine
    for fault in (None, FAULT):
        with pytest.raises(FolderNotShared, match="the machine ada serves it"):
            await replace(place, machine="bob 2", fault=fault).take()


async def test_a_machine_that_stopped_is_forgotten_after_a_minute(place: MachinePlace) -> None:
    await replace(place, fault=FAULT).take()
    later = replace(place, machine="bob 2", fault=FAULT, now=lambda: NOW + timedelta(seconds=LEASE_S + 1))
    await later.take()
    held = await place.state.lease(MACHINE_LEASE)
    assert held is not None
    assert held.holder == "bob 2" + ALONE


@pytest.mark.external
async def test_doctor_says_whether_machines_may_share_the_folder(
    tmp_path: Path, postgres: PostgresServer, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kb").mkdir()
    settings = Settings(
        kb=tmp_path / "kb", state_dir=tmp_path / "s", database_url=postgres.url(), database_schema=schema
    )
    async with open_base(settings) as base:
        found = await shared_folder_examined(base, settings)
        assert found is not None
        assert (found.health, found.what) == ("ok", "sharing")
        monkeypatch.setattr("mcp_server.cli.doctor.page_place.fault_of", lambda _: FAULT)
        found = await shared_folder_examined(base, settings)
        assert found is not None
        assert (found.health, found.mend) == ("note", FAULT.mend)
        assert FAULT.reason in found.found
        assert await shared_folder_examined(base, replace(settings, database_url=None)) is None


async def test_processes_with_one_state_folder_are_one_machine(place: MachinePlace, tmp_path: Path) -> None:
    for name in ("here", "elsewhere"):
        (tmp_path / name).mkdir()
    names = [
        (await place_of(place.state, tmp_path, tmp_path / name, lambda: NOW)).machine
        for name in ("here", "here", "elsewhere")
    ]
    assert names[0] == names[1] != names[2]
