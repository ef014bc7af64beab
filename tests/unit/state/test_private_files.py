"""The state is its owner's alone: every folder made for it, every file in it, and the doctor reports exceptions."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from knowledge.private_files import private_folder, write_private
from mcp_server.app.knowledge_base import open_state
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.doctor.doctor import examine
from mcp_server.cli.doctor.result import DoctorFinding
from tests.support.knowledge_bases.folders import write

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there modes say nothing")


@pytest.fixture(params=[0o000, 0o022, 0o077])
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.usefixtures("umask")
async def test_every_folder_on_the_way_to_the_state_is_its_owners_alone(tmp_path: Path) -> None:
    """Only the last one was.

    In a parent folder that others may write to, they could have put a state of their own, with level 5.
    """
    above = tmp_path / "there"
    above.mkdir(mode=0o755)
    kept = mode(above)
    settings = Settings(kb=write(tmp_path / "kb"), state_dir=above / "a" / "b" / "state")
    async with open_state(settings):
        for folder in (above / "a", above / "a" / "b", above / "a" / "b" / "state"):
            assert mode(folder) == 0o700
        assert {mode(file) for file in (above / "a" / "b" / "state").iterdir() if file.is_file()} == {0o600}
    assert mode(above) == kept


@pytest.mark.usefixtures("umask")
def test_private_files_are_made_private_and_existing_ones_stay(tmp_path: Path) -> None:
    write_private(tmp_path / "secret", "x")
    assert mode(tmp_path / "secret") == 0o600
    private_folder(tmp_path / "a" / "b")
    private_folder(tmp_path / "a" / "b")
    assert (mode(tmp_path / "a"), mode(tmp_path / "a" / "b")) == (0o700, 0o700)
    with pytest.raises(OSError, match="exists"):
        private_folder(tmp_path / "secret")


async def folder_finding(settings: Settings) -> DoctorFinding | None:
    return next((found for found in await examine(settings) if found.what == "folder"), None)


async def test_the_doctor_names_exposed_files_and_the_command_that_fixes_them(tmp_path: Path) -> None:
    settings = Settings(kb=write(tmp_path / "kb"), state_dir=tmp_path / "with space" / "state")
    assert await folder_finding(settings) is None
    state = tmp_path / "with space" / "state"
    for opened, mode, health in ((state, 0o755, "bad"), (state.parent, 0o777, "note")):
        opened.chmod(mode)
        found = await folder_finding(replace(settings))
        assert found is not None
        assert (found.health, str(opened) in found.found) == (health, True)
        await anyio.run_process(found.mend)  # as a person would
        assert await folder_finding(settings) is None
