"""Links to a page that moves, through a real client and the real server."""

from __future__ import annotations

from pathlib import Path

from mcp_server.app.settings.settings import Settings
from tests.support.hosts.writers import writing
from tests.support.knowledge_bases.folders import write

PAGES = {
    "a/plan.md": "# The plan\n\nSee [the budget](money.md).\n",
    "a/money.md": "# Money\n",
    "b/roadmap.md": "# Another roadmap\n",
    "home.md": "# Home\n\n[[plan]] and [[plan|the plan]], [it](a/plan.md#x), `[[plan]]`, [[The plan]]\n",
}


async def test_a_name_that_another_page_bears_already_becomes_a_path(tmp_path: Path) -> None:
    """The design, section 3: links to a moved page are rewritten; a name shared by two pages would lead elsewhere."""
    settings = Settings(kb=write(tmp_path / "kb", PAGES), state_dir=tmp_path / "s")
    async with writing(settings) as host:
        answer = await host.call("kb_move", path="a/plan.md", to="c/roadmap.md")
        assert answer["status"] == "done"
        assert host.text("home.md") == (
            "# Home\n\n[[c/roadmap]] and [[c/roadmap|the plan]], [it](c/roadmap.md#x), `[[plan]]`, [[The plan]]\n"
        )
        assert host.text("c/roadmap.md") == "# The plan\n\nSee [the budget](../a/money.md).\n"


async def test_a_name_that_stays_the_only_one_stays_a_name(tmp_path: Path) -> None:
    settings = Settings(kb=write(tmp_path / "kb", PAGES), state_dir=tmp_path / "s")
    async with writing(settings) as host:
        await host.call("kb_move", path="a/plan.md", to="c/strategy.md")
        assert host.text("home.md").startswith(
            "# Home\n\n[[strategy]] and [[strategy|the plan]], [it](c/strategy.md#x)"
        )
