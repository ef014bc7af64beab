"""How often a call reads its page: the decision and the write follow from one read, under the page's lock."""

from __future__ import annotations

from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest

from knowledge.writing.acts.merge_work import merge_into_page
from knowledge.writing.files.file_set import FileSet, FoundPage
from mcp_server.app.settings.settings import Settings
from tests.support.hosts.reviewers import reviewing
from tests.support.hosts.writers import writing
from tests.support.knowledge_bases.folders import write

MARKED = "---\nuntrusted: true\n---\n# Page\n\nOne.\n"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    pages = {"page.md": "# Page\n\nOne.\n", "marked.md": MARKED}
    return Settings(kb=write(tmp_path / "kb", pages), state_dir=tmp_path / "state")


class Looks:
    """Counts how often writers read pages, and how often a merge into one is computed.

    Only in this test's own calls: background tasks have another context.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.looked: list[str] = []
        self.worked_out = 0
        ours = ContextVar("ours", default=False)
        ours.set(True)
        look = FileSet.read

        def looking(files: FileSet, path: str) -> FoundPage:
            self.looked += [path] * ours.get()
            return look(files, path)

        def working_out(ground: Any) -> Any:
            self.worked_out += ours.get()
            return merge_into_page(ground)

        monkeypatch.setattr(FileSet, "read", looking)
        monkeypatch.setattr("knowledge.writing.acts.merge_act.merge_into_page", working_out)

    def taken(self) -> tuple[int, int]:
        """Return both counts and start again at 0."""
        counts = (len(self.looked), self.worked_out)
        self.looked, self.worked_out = [], 0
        return counts


async def test_an_edit_of_a_trusted_host_and_an_approved_one_read_their_page_once(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read before the lock would have to be repeated under it; nobody is shown anything in between."""
    async with (
        writing(settings, level=3) as host,
        writing(settings, host="asker", level=2) as asker,
        reviewing(settings) as person,
    ):
        base = await host.revision("page.md")
        counted = Looks(monkeypatch)
        done = await host.merge("page.md", "# Page\n\nTwo.\n", base_revision=base)
        assert (done["status"], counted.taken()) == ("done", (1, 1))
        waits = await asker.merge("page.md", "# Page\n\nThree.\n", base_revision=done["revision"])
        assert (waits["status"], counted.taken()) == ("proposed", (1, 1))
        assert (await person.approve(waits["proposal"]["id"])).state == "executed"
        assert counted.taken() == (1, 1)
        assert host.text("page.md") == "# Page\n\nThree.\n"


async def test_an_edit_that_would_take_a_mark_away_is_planned_whole_once_that_is_seen_under_the_lock(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Decision 49: only a person removes a mark of origin. Nothing is written before they decide."""
    async with writing(settings, level=3) as host:
        base = await host.revision("marked.md")
        counted = Looks(monkeypatch)
        kept = await host.merge("marked.md", MARKED.replace("One.", "Two."), base_revision=base)
        assert (kept["status"], counted.taken()) == ("done", (1, 1))
        waits = await host.merge("marked.md", MARKED.replace("true", "false"), base_revision=kept["revision"])
        assert (waits["status"], counted.taken()[0]) == ("proposed", 2)
        assert waits["proposal"]["level_needed"] == 4
        assert host.text("marked.md") == MARKED.replace("One.", "Two.")
