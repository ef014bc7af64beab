"""The timeline of a knowledge base that hosts, persons and editors change."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from knowledge.errors import BadCursor, NoSuchChange, NoSuchPath
from knowledge.history.timeline.timeline import Change
from knowledge.pages.vault import revision_of
from mcp_server.app.settings.settings import Settings
from tests.support.hosts.writers import Writer, writing
from tests.support.knowledge_bases.folders import write

DEPLOY = "guides/deploy.md"
TEXT = "# Deploying\n\nIt takes 40 seconds.\n\n## Rolling back\n\nSwitch the router.\n"
FILES = {
    DEPLOY: TEXT,
    "index.md": "# Start\n\nRead [how we deploy](guides/deploy.md).\n",
    "other.md": "# Other\n\nNothing here.\n",
}


@asynccontextmanager
async def connected(tmp_path: Path) -> AsyncIterator[Writer]:
    settings = Settings(kb=write(tmp_path / "kb", FILES), state_dir=tmp_path / "state", open_browser=False)
    async with writing(settings) as host:
        yield host


async def listed(host: Writer, path: str = "", *, limit: int = 50) -> list[Change]:
    return list((await host.app.services.timeline.changes(path, limit=limit)).changes)


async def test_an_edit_names_its_host_its_lines_and_its_reason(tmp_path: Path) -> None:
    async with connected(tmp_path) as host:
        base = await host.revision(DEPLOY)
        body = TEXT.replace("It takes 40 seconds.", "It takes 45 seconds.\n\nThen tell support.")
        await host.merge(DEPLOY, body, base_revision=base, intent="measured again")
        edit, begin = await listed(host)
        (page,) = edit.pages
        assert (edit.by.partition("@")[2], edit.tool, edit.source) == ("writer", "kb_merge", "user")
        assert (edit.intent, edit.outcome, edit.approved_by, edit.outside) == ("measured again", "done", "", False)
        assert (page.path, page.kind, page.before, page.added, page.removed) == (DEPLOY, "edited", base, 3, 1)
        assert (begin.pages[0].kind, begin.by, begin.outside, begin.id[0]) == ("found", "", True, "e")
        before, after = await host.app.services.timeline.contents(page)
        assert before == TEXT.encode()
        assert after is not None
        assert b"45 seconds" in after


async def test_a_move_is_one_change_with_the_pages_whose_links_it_rewrote(tmp_path: Path) -> None:
    async with connected(tmp_path) as host:
        await host.call("kb_move", path=DEPLOY, to="guides/release.md")
        move = (await listed(host))[0]
        assert [(page.path, page.kind, page.moved_from) for page in move.pages] == [
            ("guides/release.md", "moved", DEPLOY),
            ("index.md", "edited", None),
        ]
        page = move.of(DEPLOY)
        assert page.path == "guides/release.md"
        assert page.before == page.after == revision_of(TEXT.encode())
        assert (page.added, page.removed) == (0, 0)
        timeline = host.app.services.timeline
        for name in ("guides/release.md", "guides/release", "index.md", "guides"):
            assert move.id in [change.id for change in await listed(host, name)]
        assert await timeline.change(move.id) == move
        assert move.id.isdecimal()
        assert move.id not in [change.id for change in await listed(host, "other.md")]


async def test_a_removed_page_keeps_its_changes_under_its_path(tmp_path: Path) -> None:
    async with connected(tmp_path) as host:
        await host.call("kb_delete", path=DEPLOY, base_revision=await host.revision(DEPLOY))
        for name in (DEPLOY, DEPLOY.removesuffix(".md"), "guides"):
            assert (await listed(host, name))[0].pages[0].kind == "removed"
        with pytest.raises(NoSuchPath):
            await listed(host, "guides/never.md")
        with pytest.raises(NoSuchChange, match="has no change '99'; knowledge-forge history"):
            await host.app.services.timeline.change("99")


async def test_a_list_continues_after_its_cursor_and_a_foreign_cursor_is_refused(tmp_path: Path) -> None:
    async with connected(tmp_path) as host:
        for number in range(4):
            await host.merge(f"guides/{number}.md", f"# Page {number}\n\nThis is page {number}.")
        timeline = host.app.services.timeline
        whole = await listed(host)
        first = await timeline.changes(limit=3)
        rest = await timeline.changes(limit=3, cursor=first.next_cursor)
        assert [*first.changes, *rest.changes] == whole
        assert rest.next_cursor is None
        with pytest.raises(BadCursor):
            await timeline.changes("guides", limit=3, cursor=first.next_cursor)
