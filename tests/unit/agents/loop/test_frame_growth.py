"""Folding a long run takes time proportional to its frames, not to their square."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agents.loop.errors import BadFrames
from agents.loop.record.frames import Frame, ToolResult
from agents.loop.record.run import Run, fold
from agents.loop.record.transcript import build_transcript
from tests.support.runs.records import Walk


class Counted(str):
    """An id that counts its comparisons."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        Counted.compared += 1
        return str.__ne__(self, other)

    def __hash__(self) -> int:
        return str.__hash__(self)


def long(turns: int) -> Run:
    """Return a run that calls four tools in a turn and asks a person after each."""
    walk = Walk()
    for _ in range(turns):
        walk.call(*["kb_read"] * 4)
        for _ in range(4):
            walk.result()
        walk.ask()
        walk.answer()
    return walk.run


def counted(frame: Frame) -> Frame:
    told: dict[str, Any] = {
        name: Counted(getattr(frame, name)) for name in ("id", "call", "ask", "plan") if getattr(frame, name, "")
    }
    return replace(frame, **told)


def comparisons(turns: int) -> tuple[int, int]:
    """Return how many frames a run has, and how often their ids are compared to fold it and to make its messages."""
    run = long(turns)
    frames = [counted(frame) for frame in run.frames]
    Counted.compared = 0
    there = fold(run.header, frames)
    build_transcript(there)
    return len(frames), Counted.compared


def test_ids_are_compared_a_few_times_for_each_frame() -> None:
    for turns in (5, 50):
        frames, compared = comparisons(turns)
        assert compared < 4 * frames


def test_an_id_that_the_run_has_is_found_among_old_and_new_frames() -> None:
    run = long(2)
    before, last = fold(run.header, run.frames[:-1]), run.frames[-1]
    for taken in (run.frames[0].id, run.frames[-2].id):
        with pytest.raises(BadFrames, match="another frame"):
            before.then(replace(last, id=taken))
    results = [frame for frame in run.frames if isinstance(frame, ToolResult)]
    upto = fold(run.header, run.frames[: results[0].number])
    with pytest.raises(BadFrames, match="another frame"):
        upto.then(results[0], replace(results[1], id=results[0].id))
