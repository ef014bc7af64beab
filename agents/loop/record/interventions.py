"""What is put on record of a run by who does not lead it: that it ended, and what a person answered."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import Literal

from agents.loop.errors import RunNotThere, RunTaken, StaleRun
from agents.loop.explanation import STANDS
from agents.loop.record.frame_factory import FrameDraft
from agents.loop.record.frames import Frame, PersonAnswered
from agents.loop.record.run import Run
from agents.loop.store.ports import Hold, RunStore
from knowledge.errors import KnowledgeError

End = Literal["cancelled", "failed", "provider_failed"]
NOT_BEGUN = "the run ended before"


async def end(
    store: RunStore, run: str, signal: End, why: str, *, now: Callable[[], datetime], chance: Callable[[], str]
) -> tuple[Run, tuple[Frame, ...]]:
    """Put on record that the run ended so; return it and the frames that say so. One that is over stays as it is: no frames.

    Whoever leads a run that is cancelled still records what came of the call that was under way. Of a run that failed nobody
    does, so that is recorded as not known.

    Raises:
        NoSuchRun: there is none.
    """
    while True:
        there = await store.run(run)
        if there.over:
            return there, ()
        draft = FrameDraft(there, now(), chance)
        if signal != "cancelled" and there.open_calls:
            draft.unsure(why).not_called(NOT_BEGUN)
        draft.control(signal, why)
        with suppress(StaleRun):
            return await store.append(there, draft.frames, None), draft.frames


async def note_answer(
    store: RunStore, run: str, text: str, by: str, *, hold: Hold, chance: Callable[[], str], ask: str = ""
) -> Run:
    """Put on record what a person answered, and return the run, which is to be led on and held as `hold` says.

    `ask`: what is answered is that question, and no other one.

    Raises:
        RunNotThere: it asks nothing, or something else. RunTaken: somebody holds it. NoSuchRun: there is none.
        KnowledgeError: it cannot be put on record; nobody holds the run for that.
    """
    _require_asked(await store.run(run), ask)
    there = await store.claim(run, hold)
    if there is None:
        raise RunTaken(run)
    try:
        draft = FrameDraft(there, hold.at, chance).add(PersonAnswered, ask=_require_asked(there, ask), text=text, by=by)
        return await store.append(there, draft.frames, hold)
    except KnowledgeError:
        with suppress(KnowledgeError):
            await store.release(run, hold.by)
        raise


def _require_asked(run: Run, ask: str) -> str:
    """Return the id of what the run asks."""
    if run.ask is None or (ask and run.ask.id != ask):
        stands = STANDS[run.state] if run.ask is None else "asks something else by now"
        raise RunNotThere(run.id, stands, "answered" if run.ask is None else "answered with this")
    return run.ask.id
