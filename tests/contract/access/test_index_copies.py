"""The index of readable pages follows the index of all pages without writing anew what stayed the same (decision 114)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from knowledge.state.ports import Touch
from mcp_server.gate.host_registration import Principal, os_user
from tests.support.access.worlds import FENCE, world

BEN = Principal(os_user(), "ben")
PAGE = "plans/q3.md"


async def test_a_page_that_was_only_checked_again_is_not_written_anew(tmp_path: Path) -> None:
    """Its rows would move, and with them the scores of a search by a little, as they never do without hidden pages."""
    made = await world(tmp_path / "team", lambda _path: True)
    async with made.host("ben") as ben:
        app = ben.app
        async with app.gate.as_caller(BEN):
            before = await app.gate._services.index.position()
        whole = (await app.base.index.position()).seq
        stamp, _, at = (await app.base.index.stamps([PAGE]))[PAGE]
        checked = Touch(PAGE, replace(stamp, mtime_ns=stamp.mtime_ns + 1), at + 1)
        await app.base.index.apply([checked], fence=FENCE)
        (ben.root / "plans/launch.md").write_text("# Launch list\n\n- Call the band\n", encoding="utf-8")
        await app.base.indexer.update(["plans/launch.md"], FENCE)
        async with app.gate.as_caller(BEN):
            copied = app.gate._services.index
            after, own = await copied.position(), await copied.stamps()
        assert own == {path: stamp for path, stamp in (await app.base.index.stamps()).items() if path in own}
        assert own[PAGE][0].mtime_ns == stamp.mtime_ns + 1
        # The rows of one page are others, as in the index of all pages.
        assert 0 < after.seq - before.seq == (await app.base.index.position()).seq - whole
