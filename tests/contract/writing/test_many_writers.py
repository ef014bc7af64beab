"""Several hosts write one note at once, each through its own server process.

The external twin has more of everything.
"""

from __future__ import annotations

import secrets
from pathlib import Path

from tests.support.writing.many_writers import Load, play


async def test_edits_of_several_hosts_and_saves_of_an_editor_are_all_kept(tmp_path: Path) -> None:
    """Nothing acknowledged is lost, nothing disjoint refused, every save can be restored."""
    played = await play(tmp_path, Load(hosts=3, edits=6, saves=18, seed=secrets.randbelow(10**6)))
    print(played.in_words())  # noqa: T201 - the seed, should it fail
    assert played.lost == []
    assert played.doubled == []
    assert played.refused == []
    assert played.unrecoverable == []
    assert played.wrong_overlaps == []
    assert played.audit == ""
    assert len(played.acknowledged) == 18
    assert len(played.saves) == 18
