"""The few rules of keeping runs that are the same in every engine. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

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
from agents.loop.record.run import Run, RunSpent, with_asking
from agents.loop.store.ports import TITLE_CHARS, Hold, Total
from knowledge.history.acts import storable
from knowledge.history.timestamps import aware
from knowledge.leases import holds
from knowledge.state.retention.cuts import RETENTION, shortened_object

MOST_OF_A_TEXT, MOST_OF_A_VALUE = 200, 1_000
"""Characters that are kept of a text, and of anything else, after its retention."""
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,99}")


def new_header(header: Header) -> Header:
    """Return the header as it comes back from where it is kept.

    Raises:
        ValueError: no run can have its id: a mistake of the caller.
    """
    if not _ID.fullmatch(header.id):
        raise ValueError("a run's id has at most 100 letters, digits and . _ : -, and begins with a letter or digit")
    return header_of(header_text(header))


def asked_id(run: str) -> str:
    """Return the id of a run that there may be.

    Raises:
        NoSuchRun: no run has such an id.
    """
    if not _ID.fullmatch(run):
        raise NoSuchRun(run)
    return run


def sound(hold: Hold) -> Hold:
    """Return the hold.

    Raises:
        ValueError: nobody has it, or its times have no zone: a mistake of the caller.
    """
    if not hold.by or storable(hold.by) != hold.by:
        raise ValueError("whoever leads a run has a name that can be kept")
    aware(hold.at), aware(hold.until)
    return hold


def free_for(hold: Hold, by: str | None, until: datetime | None) -> bool:
    """Return whether the run can be held, of which this is recorded."""
    lease_s = (hold.until - hold.at).total_seconds()
    return by is None or by == hold.by or until is None or not holds(until, hold.at, lease_s)


def after(before: Run, frames: Sequence[Frame]) -> tuple[Run, list[Frame]]:
    """Return the run with the frames, and those as they come back from where they are kept.

    Raises:
        BadFrames: they do not fit.
        ValueError: there are none: a mistake of the caller.
    """
    if not frames:
        raise ValueError("nothing is to be added to the run")
    kept = [frame_of(frame_text(frame)) for frame in frames]
    return before.then(*kept), kept


def repeated(frames: Sequence[Frame], kept: Mapping[str, str]) -> bool:
    """Return whether all of the frames are on record already, of which `kept` has the texts by their ids.

    Raises:
        BadFrames: an id of them is that of another frame.
    """
    for frame in frames:
        if frame.id in kept and kept[frame.id] != frame_text(frame):
            raise BadFrames(frame.number, "the run has another frame with its id")
    return all(frame.id in kept for frame in frames)


def require_next(before: Run, count: int, hold: Hold | None, by: str | None, until: datetime | None) -> None:
    """Return if frames may be added to a run of which this is recorded.

    Raises:
        RunTaken, StaleRun: they may not.
    """
    if count != before.count:
        raise StaleRun(before.id, before.count, count)
    if hold is not None and not free_for(sound(hold), by, until):
        raise RunTaken(before.id)


def is_bounded(run: Run, frames: Sequence[Frame]) -> bool:
    """Return whether the frames may be refused for a quota: a model wants more done, or a host answers.

    What came of a call, how the run ends, and what a person says with their own hand are never refused.
    """
    relayed = any(isinstance(one, PersonAnswered) and one.by == run.header.principal for one in frames)
    return relayed or (any(isinstance(one, PlanFrame) for one in frames) and not may_end(frames))


ASKED = '"tokens_'
"""Is in the text of every frame that says what asking a model took, and in few others."""


def asked_since(frames: Iterable[Frame], since: datetime) -> RunSpent:
    """Return what asking a model took in those of the frames that were made since then."""
    spent = RunSpent()
    for frame in frames:
        if frame.at >= since:
            spent = with_asking(spent, frame)
    return spent


def with_earlier(begun: Total, bodies: Iterable[str], since: datetime) -> Total:
    """Return what runs begun since then took, and what runs begun before took since then, which have frames of these texts."""
    frames: dict[str, list[Frame]] = {}
    for body in bodies:
        try:
            frame = frame_of(body)
        except UnknownFrame:  # of a newer program: it must not keep all others from being summed
            continue
        frames.setdefault(frame.run, []).append(frame)
    earlier = summed(spent for spent in (asked_since(one, since) for one in frames.values()) if spent.tokens)
    return Total(*(getattr(begun, name) + getattr(earlier, name) for name in Total.__slots__))


def summed(spent: Iterable[RunSpent]) -> Total:
    """Return what these runs took together."""
    each = list(spent)
    return Total(
        len(each),
        sum(one.tokens_in for one in each),
        sum(one.tokens_out for one in each),
        sum(one.cost_micros for one in each),
        sum(one.unpriced for one in each),
    )


def shorter(text: str) -> str:
    """Return the text of a header or a frame as it is kept after its retention."""
    return shortened_object(text, MOST_OF_A_TEXT, MOST_OF_A_VALUE, RETENTION)


def title(header: Header) -> str:
    """Return the beginning of the goal on one line."""
    line = " ".join(storable(header.goal).split())
    return line if len(line) <= TITLE_CHARS else line[: TITLE_CHARS - 1] + "\u2026"
