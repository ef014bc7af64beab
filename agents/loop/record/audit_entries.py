"""The audit chain's entries about runs: that one began, and how it ended, without any text from it. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

from agents.loop.record.frames import Control, Frame, Header, ResponseFrame, Signal
from agents.loop.record.run import Run
from knowledge.history.audit.chain import canonical
from knowledge.history.ports import Actor, HistoryEntry, RunNote

TOOL: Final = "agent_run"
ENDS: Final[tuple[Signal, ...]] = ("limit_reached", "cancelled", "provider_failed", "failed")


def begun(header: Header) -> HistoryEntry:
    """Return the entry for a run that begins: its principal, its model, and a hash of its goal, context and limits."""
    return HistoryEntry(at=header.begun_at, actor=_actor(header), outcome="begun", run=RunNote(header.id, header.model))


def ended(run: Run) -> HistoryEntry:
    """Return the entry for a run that ended: its outcome and its cost.

    Raises:
        ValueError: it has not ended: a mistake of the caller.
    """
    if not run.over:
        raise ValueError(f"run {run.id} has not ended")
    spent = run.spent
    note = RunNote(
        run.id,
        run.header.model,
        goal_achieved=bool(run.response and run.response.goal_achieved),
        iterations=run.iterations,
        tokens_in=spent.tokens_in,
        tokens_out=spent.tokens_out,
        cost_micros=None if spent.unpriced else spent.cost_micros,
    )
    return HistoryEntry(at=run.moved_at, actor=_actor(run.header), outcome=run.state, run=note)


def may_end(frames: Sequence[Frame]) -> bool:
    """Return whether a run may be over after these frames."""
    return any(isinstance(one, ResponseFrame) or (isinstance(one, Control) and one.signal in ENDS) for one in frames)


def _actor(header: Header) -> Actor:
    """Return the run's principal, with a hash of the run's goal, context and limits."""
    about = {
        "goal": header.goal,
        "context": header.context,
        "toolsets": list(header.toolsets),
        "limits": asdict(header.limits),
    }
    return Actor(header.principal, TOOL, hashlib.sha256(canonical(about).encode("ascii")).hexdigest())
