"""Keeps this machine's copy of pages in the database up to date, and takes the edits that people make in it."""

from __future__ import annotations

import logging
from collections.abc import Callable

import anyio
import anyio.to_thread

from knowledge.errors import KnowledgeError
from knowledge.index.file_events import follow
from knowledge.stored_pages.copy import PagesCopy
from knowledge.stored_pages.edits import CopyEdits
from mcp_server.app.factories import writer
from mcp_server.app.factories.pages_copy import EDITS, edits_lock
from mcp_server.app.knowledge_base import KnowledgeBase, utc_now

ASK_S = 2.0
"""How often a process asks whether the one that takes edits on this machine has ended."""
RETRY_S = 2.0
LOOK_S = 10.0
"""Seconds between looks at the folder if its files can't be watched."""
WATCHED_LOOK_S = 300.0
"""Seconds between looks if the files are watched: watching misses changes when the kernel's queue overflows."""

logger = logging.getLogger("knowledge_forge")


def _nobody(_path: str) -> None:
    """Tell nobody."""


async def keep_copy(base: KnowledgeBase, tell: Callable[[str], object] = _nobody) -> None:
    """Bring changes from other machines to the copy as they come, and take edits from it; runs until cancelled.

    `tell` gets the path of each edit that was taken.
    """
    if base.copy is not None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_follow_changes, base, base.copy)
            tasks.start_soon(_take_in_turn, base, base.copy, tell)


def edits_in(base: KnowledgeBase, copy: PagesCopy) -> CopyEdits:
    """Return the edits in the copy."""
    return CopyEdits(copy, writer.stored_acts(copy, base.state.ledger, base.locks, utc_now))


async def _follow_changes(base: KnowledgeBase, copy: PagesCopy) -> None:
    while True:
        try:
            # Read first: a change that comes during the update must start another one.
            seen = await base.state.last_event()
            await copy.catch_up()
            await base.state.changed(seen)
        except KnowledgeError as error:
            logger.warning("this machine's copy of the pages is not brought up to date now: %s", error)
            await anyio.sleep(RETRY_S)


async def _take_in_turn(base: KnowledgeBase, copy: PagesCopy, tell: Callable[[str], object]) -> None:
    """Take edits in one process of this machine at a time."""
    lock = edits_lock(base.state_dir)
    while True:
        async with lock.held_if_free([EDITS]) as free:
            if free:
                await _take_edits(edits_in(base, copy), copy, tell)
        await anyio.sleep(ASK_S)


async def _take_edits(edits: CopyEdits, copy: PagesCopy, tell: Callable[[str], object]) -> None:
    """Take edits soon after they are made, until cancelled."""
    arrived, looks_s = anyio.Event(), LOOK_S

    def note(_paths: set[str]) -> None:
        arrived.set()

    def watched() -> None:
        nonlocal looks_s
        looks_s = WATCHED_LOOK_S
        arrived.set()

    async def watch() -> None:
        nonlocal looks_s
        try:
            await follow(copy.vault.root, note, watched, counts=lambda _path: True)
        except Exception as error:  # noqa: BLE001 - the library raises the system's errors as several types
            logger.warning("files in %s cannot be watched: %s", copy.vault.root, error)
        looks_s = LOOK_S

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        while True:
            # Replaced before the look, so that an edit which comes during it is looked at next.
            arrived = anyio.Event()
            try:
                for path in await edits.take():
                    tell(path)
            except KnowledgeError as error:
                logger.warning("edits in %s are not taken now: %s", copy.vault.root, error)
                await anyio.sleep(RETRY_S)
            with anyio.move_on_after(looks_s):
                await arrived.wait()
