"""Cancelling a run and answering it, whichever process leads it: this needs its record only, and no model."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from agents.loop.record.interventions import end, note_answer
from agents.loop.store.ports import Hold
from knowledge.trust.ports import DOCUMENTED, PENDING

if TYPE_CHECKING:
    from agents.loop.record.run import Run
    from agents.loop.store.ports import RunStore
    from knowledge.state.ports import StateStore
    from knowledge.trust.ports import TrustRecords
    from mcp_server.gate.caller import Clock


async def cancel(state: StateStore, store: RunStore, run: str, why: str, *, now: Clock) -> tuple[Run, bool]:
    """Cancel the run and withdraw the proposals it waits for; return it, and whether this call ended it.

    Raises:
        NoSuchRun: there is no such run.
    """
    ended, frames = await end(store, run, "cancelled", why, now=now, chance=_chance)
    if frames:
        await take_back(state.trust, ended, now=now)
    return ended, bool(frames)


async def take_back(trust: TrustRecords, run: Run, *, now: Clock) -> None:
    """Withdraw the pending proposals of a run that ended: nobody should approve an act of a run that no longer exists.

    Only proposals of calls that this run made are withdrawn: the one that it waited for, a replacement of that, and one
    from a call during which the run ended. Equal proposals that its host made before stay pending, as do
    contradictions.
    """
    principal = run.header.principal
    for one in await trust.lines(principal=principal, states=PENDING, limit=DOCUMENTED):
        if one.kind == "call" and one.run.get("id") == run.id:
            await trust.withdraw(one.id, principal, at=now())


async def leave_answer(store: RunStore, run: str, text: str, by: str, *, ask: str, now: Clock) -> Run:
    """Record the person's answer to that question, and return the run; the next process with its model leads it.

    Raises:
        RunNotThere: it has no open question, or a different one. NoSuchRun: there is no such run.
    """
    at = now()
    # A hold that ends at once, so that the next process can lead the run without waiting.
    return await note_answer(store, run, text, by, ask=ask, hold=Hold(f"left-{_chance()}", at, at), chance=_chance)


def _chance() -> str:
    return secrets.token_hex(8)
