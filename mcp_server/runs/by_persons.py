"""What a person does about a run, whichever process leads it: it takes the record alone, and no model."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from agents.loop.outside import end, note_answer
from agents.loop.store import Hold

if TYPE_CHECKING:
    from agents.loop.run import Run
    from agents.loop.store import RunStore
    from knowledge.storage.ports import StateStore
    from mcp_server.services import Clock


async def cancel(state: StateStore, store: RunStore, run: str, why: str, *, now: Clock) -> tuple[Run, bool]:
    """End the run, withdraw what it waits for, and return it and whether it was this that ended it.

    Raises:
        NoSuchRun: there is none.
    """
    waits = (await store.run(run)).proposal
    there, ended = await end(store, run, "cancelled", why, now=now, chance=_chance)
    if ended and waits:
        await state.trust.withdraw(waits, there.header.principal, at=now())
    return there, bool(ended)


async def leave_answer(store: RunStore, run: str, text: str, by: str, *, ask: str, now: Clock) -> Run:
    """Put the person's answer to that question on record, and return the run, which the next process with its model leads on.

    Raises:
        RunNotThere: it asks nothing, or something else. NoSuchRun: there is none.
    """
    at = now()
    return await note_answer(store, run, text, by, ask=ask, hold=Hold(f"left-{_chance()}", at, at), chance=_chance)


def _chance() -> str:
    return secrets.token_hex(8)
