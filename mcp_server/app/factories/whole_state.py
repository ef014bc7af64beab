"""Opens whole state databases, to move, save and restore them: the one of the settings, or one that a person names."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread
import apsw

from knowledge.errors import MoveRefused, MoveUnfinished, StateMoved
from knowledge.pages.vault import Vault
from knowledge.state.sqlite.store import SqliteStateStore
from knowledge.state.transfer.move import Contents, OnStep, copy
from knowledge.state.transfer.ports import WholeState
from knowledge.state.transfer.sqlite_state import SqliteWholeState
from mcp_server.app.knowledge_base import STATE_FILE, needing_psycopg, schema_name, state_folder
from mcp_server.app.settings.settings import Settings
from mcp_server.late_module import LateModule

if TYPE_CHECKING:
    from mcp_server.app.factories import postgres as shared_database
else:
    shared_database = LateModule("mcp_server.app.factories.postgres")


_LOG = "-wal"


@dataclass(frozen=True, slots=True)
class StatePlace:
    """The place of a state: `file`, or if there is a `url`, the `schema` in that database."""

    file: Path
    url: str | None
    schema: str

    async def exists(self) -> bool:
        """Return whether there is a database, which may be empty. Nothing is created."""
        if self.url is None:
            return self.file.exists()
        with needing_psycopg():
            return await shared_database.has_state(self.url, self.schema)

    @asynccontextmanager
    async def opened(self, *, marked: bool = False) -> AsyncIterator[WholeState]:
        """Yield the state, created or migrated if necessary.

        With `marked`, a state that was moved away, or of which the move is unfinished, is no error.

        Raises:
            StateMoved, MoveUnfinished, StorageError: as opening the store.
        """
        with suppress(*((StateMoved, MoveUnfinished) if marked else ())):
            await self._migrate()
        async with self.as_it_is() as state:
            yield state

    @asynccontextmanager
    async def as_it_is(self) -> AsyncIterator[WholeState]:
        """Yield the state, which must be migrated.

        A process that has the state's file open may use only this. `opened` also opens the file without SQLite, to read
        its beginning, and closing it again would release the locks of the whole process.
        """
        state: WholeState = SqliteWholeState(self.file)
        if self.url is not None:
            with needing_psycopg():
                state = shared_database.whole_state(self.url, self.schema)
        try:
            yield state
        finally:
            await state.close()

    async def _migrate(self) -> None:
        if self.url is None:
            await (await SqliteStateStore.open(self.file)).close()
            return
        with needing_psycopg():
            await (await shared_database.open_state(self.url, self.schema)).close()


def state_place(settings: Settings) -> StatePlace:
    """Return where the state of these settings is."""
    root = Vault.open(settings.kb).root
    folder = state_folder(root, settings)
    return StatePlace(folder / STATE_FILE, settings.database_url, schema_name(root, folder, settings))


async def save(
    state: WholeState,
    file: Path,
    root: Path,
    on_step: OnStep = lambda _: None,
    complete: Callable[[Path], None] = lambda _: None,
) -> Contents:
    """Save the state, whose transaction has begun, as a single SQLite file, which appears when it is complete.

    `complete` can add to the file before it appears.

    Raises:
        MoveRefused: `file` exists already, has no folder, or would be in the knowledge base at `root`.
    """
    _require_new(file, root)
    part = file.with_name(f".{file.name}.{secrets.token_hex(4)}.part")
    try:
        saved = StatePlace(part, None, "")
        async with saved.opened() as target:
            await target.begin(alone=True)
            held = await copy(state, target, on_step)
            await target.commit()
        # Without a write-ahead log a copy of the one file is a copy of everything.
        with closing(apsw.Connection(str(part))) as connection:
            connection.execute("PRAGMA journal_mode=DELETE").fetchall()
        complete(part)
        on_step("backup written")
        os.replace(part, file)  # noqa: PTH105 - the folder's entry is what matters
    finally:
        for left in part.parent.glob(f"{part.name}*"):
            left.unlink(missing_ok=True)
    return held


def _require_new(file: Path, root: Path) -> None:
    if file.is_relative_to(root):
        raise MoveRefused(
            f"{file} is inside the knowledge base {root}, where a model may edit files; name a file elsewhere"
        )
    if file.exists() or file.is_symlink():
        raise MoveRefused(f"{file} exists already; name another file")
    if not file.parent.is_dir():
        raise MoveRefused(f"there is no folder {file.parent}; create it first")


@asynccontextmanager
async def opened_backup(file: Path, folder: Path, digest: str = "") -> AsyncIterator[WholeState]:
    """Yield the state in a backup, or in a copied `state.db` with its log, from a migrated copy in `folder`.

    Raises:
        MoveRefused: there is no such file, or it no longer has the `digest` that `digest_of` returned.
        StorageError: it is not a state of this program, or damaged.
    """
    unpacked = await anyio.to_thread.run_sync(_unpacked, file, folder)
    try:
        if digest and await anyio.to_thread.run_sync(digest_of, unpacked / STATE_FILE) != digest:
            raise MoveRefused(f"{file} has changed since it was shown")
        async with StatePlace(unpacked / STATE_FILE, None, "").opened() as state:
            await state.begin(alone=True)
            yield state
    finally:
        shutil.rmtree(unpacked, ignore_errors=True)


def digest_of(file: Path) -> str:
    """Return a hash of a backup, or of a copied `state.db` with its log."""
    digest = hashlib.sha256()
    for part in (file, file.with_name(f"{file.name}{_LOG}")):
        if part.exists():
            with part.open("rb") as opened:
                digest.update(hashlib.file_digest(opened, "sha256").digest())
    return digest.hexdigest()


def _unpacked(file: Path, folder: Path) -> Path:
    """Return a new private folder in `folder` with a copy of the file and of its log."""
    if not file.is_file():
        raise MoveRefused(f"there is no file {file}")
    unpacked = folder / f"restore-{secrets.token_hex(4)}"
    unpacked.mkdir(mode=0o700)
    for suffix in ("", _LOG):
        part = file.with_name(file.name + suffix)
        if part.exists():
            shutil.copyfile(part, unpacked / f"{STATE_FILE}{suffix}")
    return unpacked
