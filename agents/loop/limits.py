"""When a run has reached one of its limits. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from agents.engine.work.markdown import counted
from agents.loop.record.frames import Limit
from agents.loop.record.run import Run
from agents.loop.record.transcript import build_transcript, transcript_tokens

MOST_INVALID = 2
"""Invalid answers in a row: the first is corrected, the second ends the run."""

MOST_TAKEN_UP = 5
"""How often a run is resumed without a model's answer in between: the run itself may be killing its processes."""


@dataclass(frozen=True, slots=True)
class DayLimitReached:
    """Why no run may ask a model now, apart from the run's own limits. `temporary`: waiting helps."""

    why: str
    temporary: bool = True


def limit_reached(run: Run, now: datetime) -> tuple[Limit, str] | None:
    """Return the limit that keeps the run from asking the model again, and a sentence about it; None if none is reached."""
    limits, spent = run.header.limits, run.spent
    if run.iterations >= limits.iterations:
        return "iterations", f"the run used up its {counted(limits.iterations, 'iteration')}"
    if seconds_left(run, now) <= 0:
        return "seconds", f"the run used up its {counted(limits.seconds, 'second')}"
    if limits.cost_micros is not None and spent.unpriced:
        # An unknown cost is not zero: without this, a model without a price would never reach the limit.
        return (
            "cost",
            "the run's cost is limited, and the price of the model is unknown; configure the price or remove the limit",
        )
    if limits.cost_micros is not None and spent.cost_micros >= limits.cost_micros:
        cost, most = spent.cost_micros / 1_000_000, limits.cost_micros / 1_000_000
        return "cost", f"the run has cost {cost:.6f}, and may cost {most:.6f}"
    if limits.tokens is not None:
        # The next request has at least the tokens of its text, or of the last request as the vendor counted it.
        following = max(transcript_tokens(build_transcript(run)), run.plan.tokens_in if run.plan else 0)
        if spent.tokens + following >= limits.tokens:
            left = "too little is left for another request"
            return "tokens", f"the run has used {spent.tokens} of its {limits.tokens} tokens; {left}"
    return None


def seconds_left(run: Run, now: datetime) -> float:
    """Return how many seconds the run may still take."""
    return run.header.limits.seconds - run.seconds_at(now)
