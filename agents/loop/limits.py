"""When a run has gone as far as it may. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from agents.engine.work.markdown import counted
from agents.loop.record.frames import Limit
from agents.loop.record.run import Run
from agents.loop.record.transcript import transcript, transcript_tokens

MOST_WRONG = 2
"""Answers in a row that could not be carried out: one is corrected, the second ends the run."""

MOST_TAKEN_UP = 5
"""So often a run is taken up with nothing in between that a model said: what kills its process may be the run itself."""


@dataclass(frozen=True, slots=True)
class Full:
    """Why no run may ask a model now, whatever its own bounds are. `passes`: one may again after a while."""

    why: str
    passes: bool = True


def reached(run: Run, now: datetime) -> tuple[Limit, str] | None:
    """Return the bound that keeps the run from asking a model again, and a sentence about it; None if none does."""
    limits, spent = run.header.limits, run.spent
    if run.iterations >= limits.iterations:
        return "iterations", f"the run has had its {counted(limits.iterations, 'iteration')}"
    if seconds_left(run, now) <= 0:
        return "seconds", f"the run has had its {counted(limits.seconds, 'second')}"
    if limits.cost_micros is not None and spent.unpriced:
        return (
            "cost",
            "the run has a bound on its cost, and nobody knows the price of the model; say it, or take the bound away",
        )
    if limits.cost_micros is not None and spent.cost_micros >= limits.cost_micros:
        return "cost", f"the run has cost {spent.cost_micros} millionths, of {limits.cost_micros} that it may cost"
    if limits.tokens is not None and spent.tokens + _next_question(run) >= limits.tokens:
        return "tokens", f"the run has used {spent.tokens} of its {limits.tokens} tokens, too few are left to ask again"
    return None


def _next_question(run: Run) -> int:
    """Return about how many tokens the next question has: those of its text, or those that the last one was told to have had."""
    return max(transcript_tokens(transcript(run)), run.plan.tokens_in if run.plan else 0)


def seconds_left(run: Run, now: datetime) -> float:
    """Return how long the run may still be led."""
    return run.header.limits.seconds - run.seconds_at(now)
