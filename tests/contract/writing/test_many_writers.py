"""Several hosts write one note at once, each through its own server process.

The external twin has more of everything.
"""

from __future__ import annotations

import secrets
from pathlib import Path

from tests.support.writing.many_writers import Load, play
from tests.support.writing.obsidian_window import patched


async def test_edits_of_several_hosts_and_saves_of_an_editor_are_all_kept(tmp_path: Path) -> None:
    """Nothing acknowledged is lost, nothing disjoint refused, every save can be restored."""
    played = await play(tmp_path, Load(hosts=3, edits=4, saves=12, seed=secrets.randbelow(10**6)))
    print(played.in_words())  # noqa: T201 - the seed, should it fail
    assert played.lost == []
    assert played.doubled == []
    assert played.refused == []
    assert played.unrecoverable == []
    assert played.wrong_overlaps == []
    assert played.audit == ""
    assert len(played.acknowledged) == 12
    assert len(played.saves) == 12


async def test_a_window_of_obsidian_beside_three_hosts_loses_nothing_and_costs_nobody_a_word(tmp_path: Path) -> None:
    """Issue 27: a host's merge between two saves of Obsidian loses nothing."""
    played = await play(
        tmp_path, Load(hosts=3, edits=4, saves=12, seed=secrets.randbelow(10**6), editor="obsidian_window")
    )
    print(played.in_words())  # noqa: T201 - the seed, should it fail
    assert played.lost == []
    assert played.doubled == []
    assert played.refused == []
    assert played.unrecoverable == []
    assert played.audit == ""
    assert len(played.acknowledged) == 12


def test_the_window_merges_what_was_typed_into_what_others_wrote() -> None:
    base = "# Note\n\n- one\n- two\n"
    assert patched(base, base + "- three\n", base.replace("- one", "- one, by a host")) == (
        "# Note\n\n- one, by a host\n- two\n- three\n"
    )
    assert patched(base, base.replace("two", "2"), "# Other\n") == "# Other\n"
