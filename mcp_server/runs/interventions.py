"""What a person does about a run, whichever process leads it: it takes the record alone, and no model."""

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
    """End the run, withdraw what it waits for, and return it and whether it was this that ended it.

    Raises:
        NoSuchRun: there is none.
    """
    there, ended = await end(store, run, "cancelled", why, now=now, chance=_chance)
    if ended:
        await take_back(state.trust, there, now=now)
    return there, bool(ended)


async def take_back(trust: TrustRecords, run: Run, *, now: Clock) -> None:
    """Withdraw what waits of a run that ended: nobody is to agree to an act of a run that is not there any more.

    That is what it waited for, what took its place and is of the run, too, and what a call proposed over which it ended. What its
    host had proposed before alike stays, and so do claims that contradict what is there.
    """
    whose = run.header.principal
    for one in await trust.lines(principal=whose, states=PENDING, limit=DOCUMENTED):
        if one.kind == "call" and one.run.get("id") == run.id:
            await trust.withdraw(one.id, whose, at=now())


async def leave_answer(store: RunStore, run: str, text: str, by: str, *, ask: str, now: Clock) -> Run:
    """Put the person's answer to that question on record, and return the run, which the next process with its model leads on.

    Raises:
        RunNotThere: it asks nothing, or something else. NoSuchRun: there is none.
    """
    at = now()
    return await note_answer(store, run, text, by, ask=ask, hold=Hold(f"left-{_chance()}", at, at), chance=_chance)


def _chance() -> str:
    return secrets.token_hex(8)
