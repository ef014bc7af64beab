"""The rules of storing runs that are the same in every engine. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

from agents.loop.errors import BadFrames, NoSuchRun, RunTaken, StaleRun, UnknownFrame
from agents.loop.record.audit_entries import may_end
from agents.loop.record.frames import (
    Frame,
    Header,
    PersonAnswered,
    PlanFrame,
    frame_of,
    frame_text,
    header_of,
    header_text,
)
from agents.loop.record.run import Run, RunSpent, with_request_cost
from agents.loop.store.ports import TITLE_CHARS, Hold, Total
from knowledge.history.acts import storable
from knowledge.history.timestamps import aware
from knowledge.leases import holds

USAGE_KEY: Final = '"tokens_'
"""A text that is in every stored frame that records the cost of a model call, and in few others."""
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,99}")


def new_header(header: Header) -> Header:
    """Return the header as it comes back from the store.

    Raises:
        ValueError: no run can have its id: a mistake of the caller.
    """
    if not _ID.fullmatch(header.id):
        raise ValueError("a run's id has at most 100 letters, digits and . _ : -, and begins with a letter or digit")
    return header_of(header_text(header))


def checked_id(run: str) -> str:
    """Return the id, which has the form of one.

    Raises:
        NoSuchRun: no run has such an id.
    """
    if not _ID.fullmatch(run):
        raise NoSuchRun(run)
    return run


def checked_hold(hold: Hold) -> Hold:
    """Return the hold.

    Raises:
        ValueError: its holder has no name that can be stored, or its times have no zone: a mistake of the caller.
    """
    if not hold.by or storable(hold.by) != hold.by:
        raise ValueError("the process that leads a run needs a name that can be stored")
    # Only for their errors: a time without a zone could not be compared with the recorded hold.
    aware(hold.at), aware(hold.until)
    return hold


def is_free_for(hold: Hold, by: str | None, until: datetime | None) -> bool:
    """Return whether the run can be held, given that `by` is recorded as its holder `until` then."""
    lease_s = (hold.until - hold.at).total_seconds()
    return by is None or by == hold.by or until is None or not holds(until, hold.at, lease_s)


def with_frames(before: Run, frames: Sequence[Frame]) -> tuple[Run, list[Frame]]:
    """Return the run with the frames added, and the frames as they come back from the store.

    Raises:
        BadFrames: they do not fit.
        ValueError: there are no frames: a mistake of the caller.
    """
    if not frames:
        raise ValueError("there is nothing to add to the run")
    stored = [frame_of(frame_text(frame)) for frame in frames]
    return before.then(*stored), stored


def all_recorded(frames: Sequence[Frame], texts: Mapping[str, str]) -> bool:
    """Return whether all frames are on record already; `texts` are those that are, by their ids.

    Raises:
        BadFrames: the run has another frame with one of these ids.
    """
    for frame in frames:
        if frame.id in texts and texts[frame.id] != frame_text(frame):
            raise BadFrames(frame.number, "the run has another frame with its id")
    return all(frame.id in texts for frame in frames)


def require_next(before: Run, count: int, hold: Hold | None, by: str | None, until: datetime | None) -> None:
    """Check that frames may be added: the run has `count` frames, and `by` is recorded as its holder `until` then.

    Raises:
        RunTaken, StaleRun: they may not.
    """
    if count != before.count:
        raise StaleRun(before.id, before.count, count)
    if hold is not None and not is_free_for(checked_hold(hold), by, until):
        raise RunTaken(before.id)


def may_be_refused(run: Run, frames: Sequence[Frame]) -> bool:
    """Return whether a quota may refuse the frames: a model wants more work done, or a host answers.

    The result of a call, the end of a run, and what a person says with their own hand are never refused.
    """
    relayed = any(isinstance(one, PersonAnswered) and one.by == run.header.principal for one in frames)
    return relayed or (any(isinstance(one, PlanFrame) for one in frames) and not may_end(frames))


def spent_since(frames: Iterable[Frame], since: datetime) -> RunSpent:
    """Return the usage of model calls in the frames made since then."""
    spent = RunSpent()
    for frame in frames:
        if frame.at >= since:
            spent = with_request_cost(spent, frame)
    return spent


def with_earlier(begun: Total, bodies: Iterable[str], since: datetime) -> Total:
    """Return `begun`, the total of runs that began since then, plus the usage since then of earlier runs, from their `bodies`."""
    frames: dict[str, list[Frame]] = {}
    for body in bodies:
        try:
            frame = frame_of(body)
        except UnknownFrame:  # a newer program's frame: the others still count
            continue
        frames.setdefault(frame.run, []).append(frame)
    earlier = total_of(spent for spent in (spent_since(one, since) for one in frames.values()) if spent.tokens)
    return Total(*(getattr(begun, name) + getattr(earlier, name) for name in Total.__slots__))


def total_of(spent: Iterable[RunSpent]) -> Total:
    """Return the total usage of these runs."""
    each = list(spent)
    return Total(
        len(each),
        sum(one.tokens_in for one in each),
        sum(one.tokens_out for one in each),
        sum(one.cost_micros for one in each),
        sum(one.unpriced for one in each),
    )


def title_of(header: Header) -> str:
    """Return the beginning of the goal on one line."""
    line = " ".join(storable(header.goal).split())
    return line if len(line) <= TITLE_CHARS else line[: TITLE_CHARS - 1] + "\u2026"
