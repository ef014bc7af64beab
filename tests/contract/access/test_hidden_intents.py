"""The reason of an act may name pages. In histories it is left out if one of the act's pages is hidden (decision 114)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.access.worlds import OWNER, indexed, world

pytestmark = pytest.mark.security

LINKING, MOVED = "_index.md", "plans/launch.md"


async def test_a_history_does_not_say_where_a_hidden_page_went(tmp_path: Path) -> None:
    """The reason of a move names both paths, also in the history of a page whose links followed it."""
    made = await world(tmp_path / "team", lambda _path: True)
    async with made.host(OWNER) as owner:
        await owner.call("kb_move", path="people/ann/diary.md", to="people/ann/quokkafern-diary.md")
        await owner.call("kb_move", path=MOVED, to="people/ann/quokkafern-plans.md")
        await owner.call("kb_move", path="drafts/idea.md", to="drafts/calendar.md")
        await indexed(owner.app)
        known = [await owner.call("kb_history", path=path) for path in (LINKING, MOVED)]
    async with made.host("ben") as ben:
        told = [await ben.call("kb_history", path=path) for path in (LINKING, MOVED)]
        own = await ben.call("kb_history", path="drafts/calendar.md")
    assert all("quokkafern" in json.dumps(one["revisions"]) for one in known)
    assert all(len(one["revisions"]) == len(other["revisions"]) for one, other in zip(told, known, strict=True))
    assert "people/ann" not in json.dumps(told)
    assert own["revisions"][0]["intent"] == "move drafts/idea.md to drafts/calendar.md"
