"""Replaces or moves the whole state as it was rehearsed, while the process that shows the site has it closed."""

from __future__ import annotations

import logging
from dataclasses import replace as with_fields
from functools import partial

from knowledge.errors import KnowledgeError, MoveRefused
from knowledge.pages.vault import Vault
from knowledge.state.transfer.move import OnStep, contents, move, plan
from mcp_server.app.factories.whole_state import StatePlace, opened_backup, state_place
from mcp_server.app.settings.settings import Settings
from mcp_server.app.state_copies.copies import beside
from mcp_server.app.state_copies.restore import keep, replace
from mcp_server.app.state_copies.saved_files import saved_in
from mcp_server.presenters.whole_state import ChangedState, PlannedChange, PlannedMove, PlannedRestore

logger = logging.getLogger("knowledge_forge.review")

LEAVING = "before the source's commit"
"""From this step of a move on, it is not certain which side has the state."""


def on_step(name: str) -> None:
    """Do nothing; tests of killed changes replace this."""
    del name


async def carried_out(settings: Settings, planned: PlannedChange, drawn: OnStep) -> tuple[ChangedState, Settings]:
    """Make the change, and return its outcome and the settings with which the state is opened from now on.

    If something prevents the change, the outcome says what, and the state is as it was.

    Raises:
        KnowledgeError: a move was interrupted after it began to leave the old place. The same move finishes it.
    """
    reached = set[str]()

    def at_step(name: str) -> None:
        reached.add(name)
        drawn(name)
        on_step(name)

    place = state_place(settings)
    try:
        if isinstance(planned, PlannedRestore):
            return await beside(partial(_restored, settings, place, planned, at_step)), settings
        done = await beside(partial(_moved, place, planned, at_step))
    except (KnowledgeError, OSError) as error:
        if LEAVING in reached:
            raise
        logger.warning("the state was not changed: %s", error)
        return ChangedState(planned, problem=str(error)), settings
    schema = planned.schema if planned.url else None
    return done, with_fields(settings, database_url=planned.url, database_schema=schema)


async def _restored(settings: Settings, place: StatePlace, planned: PlannedRestore, at_step: OnStep) -> ChangedState:
    root = Vault.open(settings.kb).root
    async with opened_backup(planned.file, place.file.parent, planned.digest) as saved, place.opened() as state:
        await state.begin(alone=True)
        kept = None if (await contents(state)).nothing else await keep(state, place, root)
        at_step("kept")
        done = await replace(saved, state, place, files=saved_in(planned.file), kept=kept, on_step=at_step)
        return ChangedState(
            planned,
            arrived=done.arrived,
            kept=kept,
            files=done.files.written,
            files_kept=done.files.kept,
            files_problem=done.problem,
        )


async def _moved(place: StatePlace, planned: PlannedMove, at_step: OnStep) -> ChangedState:
    target = StatePlace(place.file, planned.url, planned.schema)
    async with place.opened(marked=True) as old:
        # Before the target is made: nothing is left there if others use this state.
        await old.begin(alone=True)
        async with target.opened(marked=True) as new:
            await new.begin(alone=True)
            now = await plan(old, new)
            if now.step != planned.step:
                raise MoveRefused(f"{new.place} has changed since it was shown")
            return ChangedState(planned, arrived=await move(old, new, now, at_step))
