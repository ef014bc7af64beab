"""Frames recorded by processes that do not lead the run: its end, and a person's answer."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import Literal

from agents.loop.errors import RunNotThere, RunTaken, StaleRun
from agents.loop.explanation import STATE_PHRASES
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
    """Record that the run ended; return it and the new frames. A run that has ended stays unchanged, without new frames.

    The process that leads a cancelled run still records the outcome of the call under way. For a failed run no process does, so that
    outcome is recorded as unknown.

    Raises:
        NoSuchRun: there is no such run.
    """
    while True:
        current = await store.run(run)
        if current.over:
            return current, ()
        draft = FrameDraft(current, now(), chance)
        if signal != "cancelled" and current.open_calls:
            draft.add_unsure(why).skip_calls(NOT_BEGUN)
        draft.add_control(signal, why)
        # The process that leads the run may have added frames in between: then the end is recorded after those.
        with suppress(StaleRun):
            return await store.append(current, draft.frames, None), draft.frames


async def note_answer(
    store: RunStore, run: str, text: str, by: str, *, hold: Hold, chance: Callable[[], str], ask: str = ""
) -> Run:
    """Record a person's answer and return the run.

    From then on `hold` holds the run for the process that leads it next.

    `ask`: the id of the question that the person saw; the answer counts for no other one.

    Raises:
        RunNotThere: it has no open question, or a different one. RunTaken: another process holds it. NoSuchRun: there is no such run.
        KnowledgeError: it cannot be recorded, and no process holds the run because of it.
    """
    # Before the hold, so that a wrong answer does not keep others from the run, and again under it.
    _check_ask(await store.run(run), ask)
    current = await store.claim(run, hold)
    if current is None:
        raise RunTaken(run)
    try:
        question = _check_ask(current, ask)
        draft = FrameDraft(current, hold.at, chance).add(PersonAnswered, ask=question, text=text, by=by)
        return await store.append(current, draft.frames, hold)
    except KnowledgeError:
        with suppress(KnowledgeError):
            await store.release(run, hold.by)
        raise


def _check_ask(run: Run, ask: str) -> str:
    """Return the id of the question that the run asks."""
    if run.ask is None:
        raise RunNotThere(run.id, STATE_PHRASES[run.state], "answered")
    if ask and run.ask.id != ask:
        raise RunNotThere(run.id, "asks something else by now", "answered with this")
    return run.ask.id
