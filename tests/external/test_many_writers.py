"""Eight hosts write one note at once, each through its own server process, while an editor saves it 200 times."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest

from tests.support.writing.many_writers import Load, play

PAUSE_S = 1.5
"""The page then changes about ten times a second."""


@pytest.mark.external
@pytest.mark.parametrize(
    "pause_s",
    [
        pytest.param(0.0, id="one edit right after the other"),
        pytest.param(PAUSE_S, id="with a moment between", marks=pytest.mark.slow),
    ],
)
async def test_two_hundred_edits_beside_two_hundred_saves_are_all_kept(tmp_path: Path, pause_s: float) -> None:
    """The sections and the editor's habits are drawn anew each time. The duration is printed."""
    load = Load(hosts=8, edits=25, saves=200, seed=secrets.randbelow(10**6), pause_s=pause_s)
    played = await play(tmp_path, load)
    print(played.in_words())  # noqa: T201 - the seed and the times
    assert played.lost == []
    assert played.doubled == []
    assert played.refused == []
    assert played.unrecoverable == []
    assert played.wrong_overlaps == []
    assert played.audit == ""
    assert len(played.acknowledged) == 200
    assert len(played.saves) == 200
