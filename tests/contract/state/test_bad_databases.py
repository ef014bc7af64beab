"""Databases that are damaged, foreign, gone or in the wrong place: an index is rebuilt, a damaged state is refused."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp_types import CallToolResult, TextContent

from knowledge.errors import CorruptDatabase, ForeignDatabase, StorageError, UnsafeStateDirectory
from mcp_server.app.composition import open_app
from mcp_server.app.knowledge_base import INDEX_FILE, KEYWORD_FOLDER, STATE_FILE
from mcp_server.app.settings.settings import Settings
from tests.contract.toolsets.test_bad_input import INNARDS, LONGEST_MESSAGE, ROOT
from tests.support.knowledge_bases.folders import write

PAGES = {
    f"area{n % 7}/page{n}.md": f"# Page {n}\n\n" + f"Sentence about marker{n:03d} and gardening. " * 30
    for n in range(120)
}
FOUND_AGAIN_S = 60.0


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(kb=write(tmp_path / "kb", PAGES), state_dir=tmp_path / "state")


def place(settings: Settings) -> Path:
    assert settings.state_dir is not None
    return settings.state_dir


async def found(client: Client, number: int) -> list[str]:
    """Return the pages that a search for a word of page `number` finds; none if it fails with a proper error."""
    result = await client.call_tool("kb_search", {"query": f"marker{number:03d}"})
    assert isinstance(result, CallToolResult)
    if result.is_error:
        assert isinstance(result.content[0], TextContent)
        told = result.content[0].text
        assert len(told) < LONGEST_MESSAGE
        assert not any(inside in told for inside in INNARDS if inside != "failed inside"), told
        return []
    assert result.structured_content is not None
    return [hit["path"] for hit in result.structured_content["hits"]]


async def finds_everything(client: Client) -> None:
    with anyio.fail_after(FOUND_AGAIN_S):
        for number in range(0, 120, 7):
            while f"area{number % 7}/page{number}.md" not in await found(client, number):  # noqa: ASYNC110  it tells nobody
                await anyio.sleep(0.05)


def scribble(file: Path, *, at: float, size: int = 40_000) -> None:
    """Write random bytes over a part of the file, after merging its log into it, so that they hit data that counts."""
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    offset = int(file.stat().st_size * at)
    with file.open("r+b") as raw:
        raw.seek(offset)
        raw.write(os.urandom(size))


def damage_start(folder: Path) -> None:
    scribble(folder / INDEX_FILE, at=0.0)


def damage_middle(folder: Path) -> None:
    for part in (0.1, 0.3, 0.5, 0.7, 0.9):
        scribble(folder / INDEX_FILE, at=part)


def cut_short(folder: Path) -> None:
    os.truncate(folder / INDEX_FILE, (folder / INDEX_FILE).stat().st_size // 2)


def empty(folder: Path) -> None:
    os.truncate(folder / INDEX_FILE, 0)


def delete_index(folder: Path) -> None:
    for file in folder.glob(INDEX_FILE + "*"):
        file.unlink()


def delete_index_alone(folder: Path) -> None:
    (folder / INDEX_FILE).unlink()


def delete_keyword(folder: Path) -> None:
    shutil.rmtree(folder / KEYWORD_FOLDER)


def damage_keyword(folder: Path) -> None:
    for file in (folder / KEYWORD_FOLDER).rglob("*"):
        if file.is_file() and file.name != "lock":
            file.write_bytes(os.urandom(max(16, file.stat().st_size)))


def seldom(harm: Callable[[Path], None]) -> Any:
    """Return the damage for the external tests only: each case costs seconds, and resembles others."""
    return pytest.param(harm, marks=pytest.mark.external)


HARM = (
    seldom(damage_start),
    damage_middle,
    seldom(cut_short),
    seldom(empty),
    delete_index,
    seldom(delete_index_alone),
    delete_keyword,
    seldom(damage_keyword),
)


@pytest.mark.parametrize("harm", [seldom(damage_start), damage_middle, seldom(empty), damage_keyword])
@pytest.mark.external
async def test_a_server_that_starts_on_a_damaged_index_rebuilds_it(
    harm: Callable[[Path], None], settings: Settings
) -> None:
    """A corrupt index is rebuilt."""
    async with open_app(settings) as app, Client(app.server) as client:
        await finds_everything(client)
    harm(place(settings))
    async with open_app(settings) as app, Client(app.server) as client:
        await finds_everything(client)


@pytest.mark.parametrize("harm", HARM)
async def test_a_running_server_recovers_from_a_damaged_index(harm: Callable[[Path], None], settings: Settings) -> None:
    async with open_app(settings) as app, Client(app.server) as client:
        await finds_everything(client)
        harm(place(settings))
        write(settings.kb, {"area0/new.md": "# New\n\nmarkernew\n"})
        await finds_everything(client)


@pytest.mark.parametrize("harm", [damage_middle, seldom(delete_index), seldom(delete_keyword)])
@pytest.mark.external
async def test_a_server_that_does_not_index_recovers_with_the_one_that_does(
    harm: Callable[[Path], None], settings: Settings
) -> None:
    async with (
        open_app(settings) as indexing,
        open_app(settings) as other,
        Client(indexing.server) as one,
        Client(other.server) as two,
    ):
        await finds_everything(one)
        await finds_everything(two)
        harm(place(settings))
        await finds_everything(two)
        await finds_everything(one)


def foreign_program(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE bookmark (url TEXT)")
        connection.commit()


def no_database(file: Path) -> None:
    file.write_text("Dear diary,\n" * 1000, encoding="utf-8")


@pytest.mark.parametrize("make", [foreign_program, no_database, Path.mkdir])
async def test_a_foreign_state_database_is_refused_and_kept(make: Callable[[Path], None], settings: Settings) -> None:
    """Refused with the remedy."""
    place(settings).mkdir()
    file = place(settings) / STATE_FILE
    make(file)
    before = file.read_bytes() if file.is_file() else b""
    with pytest.raises(ForeignDatabase, match="move it away, or name another state directory") as refusal:
        async with open_app(settings):
            pass
    assert len(str(refusal.value)) < LONGEST_MESSAGE
    assert (file.read_bytes() if file.is_file() else b"") == before


@pytest.mark.parametrize("at", [0.0, 0.2])
async def test_a_corrupt_state_database_is_refused_and_kept(at: float, settings: Settings) -> None:
    async with open_app(settings) as app, Client(app.server) as client:
        await client.call_tool("trust_status", {})
    file = place(settings) / STATE_FILE
    scribble(file, at=at, size=file.stat().st_size)
    before = file.read_bytes()
    with pytest.raises(StorageError) as refusal:
        async with open_app(settings) as app:
            pytest.fail(str(app))
    assert isinstance(refusal.value, CorruptDatabase | ForeignDatabase)
    assert "move it away" in str(refusal.value)
    assert file.read_bytes() == before


async def test_reads_are_refused_while_trust_cannot_be_known(settings: Settings) -> None:
    """Trust fails closed: a host that was unknown before the damage reads nothing after it."""
    async with open_app(settings) as app, Client(app.server) as client:
        file = place(settings) / STATE_FILE
        scribble(file, at=0.0, size=file.stat().st_size)
        for tool, arguments in (("kb_map", {}), ("kb_read", {"path": "area0/page0.md"}), ("kb_search", {"query": "x"})):
            result = await client.call_tool(tool, arguments)
            assert isinstance(result.content[0], TextContent)
            told = result.content[0].text
            assert result.is_error, told
            assert len(told) < LONGEST_MESSAGE
            assert "state" in told


async def test_state_inside_the_knowledge_base_is_refused(tmp_path: Path) -> None:
    root = write(tmp_path / "kb")
    (tmp_path / "link").symlink_to(root)
    for inside in (root, root / "state", root / ".state", root / "a" / ".." / "state", tmp_path / "link" / "state"):
        with pytest.raises(UnsafeStateDirectory, match="inside the knowledge base") as refusal:
            async with open_app(Settings(kb=root, state_dir=inside)):
                pass
        assert len(str(refusal.value)) < 2 * LONGEST_MESSAGE
    assert not (root / "state").exists()


def unwritable(folder: Path) -> Path:
    """Return a folder that nobody can write, root included if the system has such a place."""
    if os.name != "nt" and os.geteuid() == 0:
        return Path("/proc/self") if sys.platform == "linux" else folder / "file"
    folder.chmod(0o500)
    return folder


@pytest.mark.external
def test_a_state_directory_that_cannot_be_written_is_said_in_one_line(tmp_path: Path) -> None:
    write(tmp_path / "kb")
    (tmp_path / "file").write_text("x", encoding="utf-8")
    (tmp_path / "closed").mkdir()
    closed = unwritable(tmp_path / "closed")
    for state in (tmp_path / "file", tmp_path / "file" / "below", closed, closed / "below"):
        command = [sys.executable, "-m", "mcp_server", "serve", "--kb", str(tmp_path / "kb"), "--state-dir", str(state)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, stdin=subprocess.DEVNULL, check=False)
        assert done.returncode == 1, state
        assert not done.stdout
        assert len(done.stderr.splitlines()) == 1, done.stderr
        assert "Traceback" not in done.stderr
        assert "Errno" not in done.stderr
        assert "cannot" in done.stderr
