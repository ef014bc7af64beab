"""The whole state as the site shows it, the backups that the site makes, and rehearsals of replacing or moving the state.

All of this happens beside the open state, which stays in use and is not changed.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TypeVar

import anyio
import anyio.to_thread

from knowledge.errors import MoveRefused
from knowledge.pages.vault import Vault
from knowledge.private_files import private_folder
from knowledge.state.ports import StateStore
from knowledge.state.transfer.layout import tables
from knowledge.state.transfer.move import Contents, contents, plan
from knowledge.state.transfer.ports import WholeState
from knowledge.state.transfer.sqlite_state import processes_with
from mcp_server.app.factories.whole_state import StatePlace, digest_of, opened_backup, save, state_place
from mcp_server.app.knowledge_base import utc_now
from mcp_server.app.settings.settings import DATABASE, Settings
from mcp_server.app.settings.values import database_url
from mcp_server.app.settings.values import schema as checked_schema
from mcp_server.app.state_copies.restore import KEPT
from mcp_server.app.state_copies.saved_files import add_to, files_in, left_out, saved_in
from mcp_server.presenters.whole_state import BackupFile, PlannedMove, PlannedRestore, SavedState, StateOverview

BACKUPS_FOLDER = "backups"
"""The folder in the state folder where the site saves backups unless a person names another one."""
MOST_LISTED = 20
ENDED_RUNS = frozenset({"done", "failed", "cancelled"})
HEADER = b"SQLite format 3\0"

R = TypeVar("R")


async def beside(step: Callable[[], Awaitable[R]]) -> R:
    """Return what `step` returns, computed in a thread with its own event loop.

    Reading a whole state never gives way to other tasks.
    """
    return await anyio.to_thread.run_sync(anyio.run, step)


class StateCopies:
    """The whole state of an open knowledge base."""

    def __init__(self, settings: Settings, state: StateStore) -> None:
        self._settings, self._state = settings, state

    @property
    def _place(self) -> StatePlace:
        return state_place(self._settings)

    @property
    def _root(self) -> Path:
        return Vault.open(self._settings.kb).root

    async def overview(self) -> StateOverview:
        """Return where the state is and which backups are known."""
        place = self._place
        others: list[int] = []
        if place.url is None:
            others = sorted(await anyio.to_thread.run_sync(processes_with, place.file) - {os.getpid()})
        return StateOverview(
            place=self._state.place,
            in_file=place.url is None,
            size=await self._state.size(),
            folder=place.file.parent / BACKUPS_FOLDER,
            backups=await anyio.to_thread.run_sync(_backups, place.file.parent),
            others=others,
        )

    async def save(self, folder: str) -> SavedState:
        """Save the state in a new file in that folder; by default in the state folder, which then gets one for backups.

        Raises:
            MoveRefused: there is no such folder, or it is inside the knowledge base.
        """
        place = self._place
        own = place.file.parent / BACKUPS_FOLDER
        chosen = _typed(folder) if folder.strip() else own
        if chosen == own:
            private_folder(own)
        file = chosen / f"state-{utc_now():%Y%m%dT%H%M%S%fZ}.db"
        return await beside(partial(self._saved, place, file))

    async def _saved(self, place: StatePlace, file: Path) -> SavedState:
        files = files_in(place.file.parent)
        missing = left_out(place.file.parent, has_pages=self._settings.pages == DATABASE)
        async with place.as_it_is() as state:
            await state.begin(alone=False)
            saved = await save(state, file, self._root, complete=partial(add_to, files))
        return SavedState(file, _facts(file)[0], saved, list(files), missing)

    async def rehearse_restore(self, path: str, backup: str = "") -> PlannedRestore:
        """Return what restoring would do from the file at `path`, or from the known backup with that id.

        Raises:
            MoveRefused, StorageError: it is no backup.
        """
        place = self._place
        file = _known(place.file.parent, backup) if backup else _typed(path)
        await anyio.to_thread.run_sync(_require_backup, file, place.file.parent)
        return await beside(partial(_planned_restore, place, file))

    async def rehearse_move(self, url: str, schema: str = "") -> PlannedMove:
        """Return what moving the state to the database at `url` would do.

        If `url` is "", it moves to the file in the state folder.

        Raises:
            MoveRefused, StorageError: it can't be reached, or the move is not possible.
        """
        place = self._place
        if not url and place.url is None:
            raise MoveRefused("the state is in that file already")
        try:
            named = checked_schema(schema.strip()) if schema.strip() else place.schema
            target = StatePlace(place.file, database_url(url) if url else None, named)
        except ValueError as error:
            raise MoveRefused(f"this is not the URL of a PostgreSQL database: {error}") from None
        return await beside(partial(_planned_move, place, target))


async def _planned_restore(place: StatePlace, file: Path) -> PlannedRestore:
    digest, (size, at) = digest_of(file), _facts(file)
    async with opened_backup(file, place.file.parent, digest) as saved:
        held, running = await contents(saved), await _going_on(saved)
    return PlannedRestore(
        file=file,
        digest=digest,
        size_bytes=size,
        at=at,
        saved=held,
        there=await _contents_of(place),
        files=list(saved_in(file)),
        going_on=running,
    )


async def _planned_move(place: StatePlace, target: StatePlace) -> PlannedMove:
    # The file in the state folder may be left over from an earlier move, so both sides may be marked.
    if not await target.exists():
        async with target.as_it_is() as new:
            where = new.place
        return PlannedMove(target.url, target.schema, where, "copy", await _contents_of(place), None)
    async with place.as_it_is() as old, target.opened(marked=True) as new:
        if old.place == new.place:
            raise MoveRefused("the state is in that database already")
        await old.begin(alone=False)
        await new.begin(alone=False)
        planned = await plan(old, new)
        return PlannedMove(target.url, target.schema, new.place, planned.step, planned.source, planned.target)


async def _contents_of(place: StatePlace) -> Contents:
    async with place.as_it_is() as state:
        await state.begin(alone=False)
        return await contents(state)


async def _going_on(state: WholeState) -> int:
    """Return how many runs in the state have not ended."""
    runs = next(table for table in tables() if table.name == "run")
    at = runs.columns.index("state")
    return sum([row[at] not in ENDED_RUNS async for batch in state.rows(runs) for row in batch])


def _facts(file: Path) -> tuple[int, datetime]:
    """Return the size of the file in bytes, and when it was written."""
    found = file.stat()
    return found.st_size, datetime.fromtimestamp(found.st_mtime, UTC)


def _typed(path: str) -> Path:
    """Return the path that a person typed.

    Raises:
        MoveRefused: it is none.
    """
    try:
        file = Path(path.strip()).expanduser()
    except RuntimeError:
        raise MoveRefused("there is no such home folder") from None
    if "\0" in path or not file.is_absolute():
        raise MoveRefused("type the whole path, from the root of this machine or from ~")
    return file


def _known(folder: Path, id_: str) -> Path:
    found = next((one.path for one in _listed(folder) if one.id == id_), None)
    if found is None:
        raise MoveRefused("this backup is no longer there")
    return found


def _backups(folder: Path) -> list[BackupFile]:
    """Return the newest backups in the state folder."""
    return sorted(_listed(folder), key=lambda one: one.at, reverse=True)[:MOST_LISTED]


def _listed(folder: Path) -> Iterator[BackupFile]:
    own = folder / BACKUPS_FOLDER
    for place, pattern in ((folder, f"{KEPT}*.db"), (own, "*.db")):
        for file in place.glob(pattern):
            if file.is_symlink() or not file.is_file():
                continue
            id_ = hashlib.sha256(os.fsencode(file)).hexdigest()[:16]
            yield BackupFile(id_, file, *_facts(file), before_restore=place == folder)


def _require_backup(file: Path, folder: Path) -> None:
    """Check that the file can be read as a backup while databases are open.

    Raises:
        MoveRefused: it is no backup, or it is one of the databases that this process has open.
    """
    try:
        if not file.is_file():
            raise MoveRefused(f"there is no file {file}")
        here = [one for one in folder.glob("*.db*") if not one.name.startswith(KEPT)]
        # Also by another name: reading it and closing it again would release the locks of this process on the database.
        if any(os.path.samestat(one.stat(), file.stat()) for one in here):
            raise MoveRefused(f"{file} belongs to the state that is in use, so it is no backup")
        with file.open("rb") as opened:
            head = opened.read(len(HEADER))
    except OSError as error:
        raise MoveRefused(f"{file} can't be read ({error.strerror or type(error).__name__})") from error
    if head != HEADER:
        raise MoveRefused(f"{file} is no backup: it does not begin as one")
