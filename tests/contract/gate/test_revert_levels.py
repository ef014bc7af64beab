"""kb_revert takes at least the level of what it takes back, through a real client (decision 87)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mcp_server.app.settings.settings import Settings
from mcp_server.approvals.approvers import Approver
from tests.support.hosts.writers import Writer, let_in
from tests.support.knowledge_bases.folders import write
from tests.support.roads import road

pytestmark = pytest.mark.security

ANN = Approver("ann", "page")
PAGES = {"tea.md": "# Tea\n\nTwo minutes.\n", "home.md": "# Home\n\n[Tea](tea.md)\n"}
Connect = Callable[[str, float], AbstractAsyncContextManager[Writer]]


@pytest.fixture
def connect(tmp_path: Path) -> Connect:
    """Return a function that connects a host of that name and level."""
    settings = Settings(kb=write(tmp_path / "kb", PAGES), state_dir=tmp_path / "s")

    @asynccontextmanager
    async def connected(host: str, level: float) -> AsyncIterator[Writer]:
        allowed = await let_in(settings, host, level)
        async with road.opened(allowed) as app, road.connect(app) as client:
            yield Writer(client, app, settings.kb)

    return connected


def waits(answer: dict[str, Any], level: int) -> None:
    assert (answer["status"], answer["proposal"]["level_needed"]) == ("proposed", level)


async def edited(host: Writer, text: str) -> str:
    """Replace the page's text and return the revision that it had before."""
    was = await host.revision("tea.md")
    answer = await host.merge("tea.md", text, base_revision=was, section="*")
    if answer["status"] == "proposed":
        await approved(host, answer)
    return was


async def approved(host: Writer, answer: dict[str, Any]) -> None:
    proposal = await host.app.services.state.trust.proposal(answer["proposal"]["id"])
    assert proposal is not None
    assert (await host.app.approvals.approve(proposal.id, proposal.hash, ANN)).state == "executed"


async def test_a_host_that_edits_takes_back_an_edit_of_a_host_without_asking(connect: Connect) -> None:
    async with connect("other", 3) as other, connect("editor", 3) as editor:
        was = await edited(other, "# Tea\n\nFive minutes.\n")
        assert (await editor.call("kb_revert", path="tea.md", revision=was))["status"] == "done"
        assert editor.text("tea.md") == PAGES["tea.md"]


async def test_a_move_that_a_person_approved_is_not_taken_back_at_level_3(connect: Connect) -> None:
    async with connect("editor", 3) as editor, connect("mover", 4) as mover:
        was = await editor.revision("tea.md")
        answer = await editor.call("kb_move", path="tea.md", to="drinks/tea.md")
        waits(answer, 4)
        await approved(editor, answer)
        # The index may know the page at its new place or not yet: then the old name leads there.
        for path in ("tea.md", "drinks/tea.md"):
            waits(await editor.call("kb_revert", path=path, revision=was), 4)
        await editor.app.services.freshen_index(10)
        waits(await editor.call("kb_revert", path="tea.md", revision=was), 4)
        assert editor.text("home.md") == "# Home\n\n[Tea](drinks/tea.md)\n"
        assert (await mover.call("kb_revert", path="tea.md", revision=was))["status"] == "done"
        assert mover.text("home.md") == PAGES["home.md"]


async def test_an_edit_after_a_move_is_taken_back_without_the_move(connect: Connect) -> None:
    """The move rewrote the page's own link, so the page has had another revision since."""
    async with connect("editor", 3) as editor, connect("mover", 4) as mover:
        assert (await mover.call("kb_move", path="home.md", to="rooms/home.md"))["status"] == "done"
        was = await editor.revision("rooms/home.md")
        await editor.merge("rooms/home.md", "# Home\n\nNo tea.\n", base_revision=was, section="*")
        assert (await editor.call("kb_revert", path="rooms/home.md", revision=was))["status"] == "done"
        assert editor.text("rooms/home.md") == "# Home\n\n[Tea](../tea.md)\n"


async def test_a_deletion_of_a_trusted_host_is_not_taken_back_at_level_3(connect: Connect) -> None:
    async with connect("editor", 3) as editor, connect("mover", 4) as mover:
        was = await mover.revision("tea.md")
        await mover.call("kb_delete", path="tea.md", base_revision=was)
        waits(await editor.call("kb_revert", path="tea.md", revision=was), 4)
        assert not (editor.root / "tea.md").exists()


async def test_an_edit_that_a_person_approved_is_not_taken_back_at_level_3(connect: Connect) -> None:
    async with connect("asker", 2) as asker, connect("editor", 3) as editor, connect("routine", 4) as routine:
        was = await edited(asker, "# Tea\n\nFive minutes.\n")
        waits(await editor.call("kb_revert", path="tea.md", revision=was), 4)
        assert (await routine.call("kb_revert", path="tea.md", revision=was))["status"] == "done"


async def test_what_a_person_wrote_or_took_back_is_not_taken_back_at_level_3(connect: Connect) -> None:
    async with connect("editor", 3) as editor:
        was = await edited(editor, "# Tea\n\nFive minutes.\n")
        wrong = await editor.revision("tea.md")
        (editor.root / "tea.md").write_text("# Tea\n\nFive minutes.\n\nMine.\n")
        waits(await editor.call("kb_revert", path="tea.md", revision=was), 4)
        acts = await editor.app.services.undo.of_page("tea.md", wrong)
        plan = await editor.app.approvals.plan_undo(acts, ANN)
        await editor.app.approvals.undo(plan, ANN)
        assert editor.text("tea.md") == "# Tea\n\nTwo minutes.\n\nMine.\n"
        waits(await editor.call("kb_revert", path="tea.md", revision=wrong), 4)


async def test_a_dry_run_tells_any_reader_what_would_change(connect: Connect) -> None:
    async with connect("mover", 4) as mover, connect("reader", 2) as reader:
        was = await mover.revision("tea.md")
        await mover.call("kb_delete", path="tea.md", base_revision=was)
        answer = await reader.call("kb_revert", path="tea.md", revision=was, dry_run=True)
        assert (answer["status"], answer["proposal"]) == ("analysis", None)
