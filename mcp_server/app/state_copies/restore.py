"""Replaces a whole state by a saved one, and saves what was there beside it first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from knowledge.state.transfer.move import Contents, OnStep, copy
from knowledge.state.transfer.ports import WholeState
from mcp_server.app.factories.whole_state import StatePlace, save
from mcp_server.app.knowledge_base import utc_now
from mcp_server.app.state_copies.saved_files import RestoredFiles, add_to, files_in, write_back

KEPT = "before-restore-"
"""The beginning of the names of states that a restore has replaced."""


@dataclass(frozen=True, slots=True)
class Restored:
    """The outcome of a restore: what the state has now, the file with its earlier contents, if any, and the files beside the database.

    `problem` says why the files could not be written, "" if they could.
    """

    arrived: Contents
    kept: Path | None
    files: RestoredFiles
    problem: str = ""


async def keep(state: WholeState, place: StatePlace, root: Path) -> Path:
    """Save the state, whose transaction has begun, beside the state of `place`, and return the file."""
    kept = place.file.with_name(f"{KEPT}{utc_now():%Y%m%dT%H%M%S%fZ}.db")
    await save(state, kept, root, complete=partial(add_to, files_in(place.file.parent)))
    return kept


async def replace(
    saved: WholeState,
    state: WholeState,
    place: StatePlace,
    *,
    files: Mapping[str, bytes],
    kept: Path | None,
    on_step: OnStep = lambda _: None,
) -> Restored:
    """Replace the state by the saved one, in both open transactions, commit, and write the saved files back.

    `kept` has what was there, None if there was nothing.
    """
    arrived = await copy(saved, state, on_step)
    on_step("before the commit")
    await state.commit()
    on_step("after the commit")
    try:
        return Restored(arrived, kept, write_back(files, place.file.parent, replaces=kept is not None))
    except OSError as error:  # the state is restored already
        why = f"{', '.join(files)} could not be written ({error.strerror or type(error).__name__})"
        return Restored(arrived, kept, RestoredFiles((), ()), why)
