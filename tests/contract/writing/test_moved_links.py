"""Links to a page that moves, through a real client and the real server."""

from __future__ import annotations

from pathlib import Path

import anyio

from mcp_server.app.settings.settings import Settings
from tests.support.hosts.writers import Writer, writing
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


VAULT = {
    "Projects/Plan.md": "# Plan\n\n![[Board.canvas]] ![](../Attachments/map.png) [[Notes/Idea|idea]]\n",
    "Deep/Notes/Idea.md": '---\nup: "[[projects/plan]]"\n---\n\n# Idea\n\n[plan](Plan.md#goal) %% [[Plan]] %%\n',
    "Other/Properties.md": "---\nabout: '[[Plan]]'\n---\n\n# Only in properties\n",
    "Other/Idea.md": "# Idea\n\n![[Idea]] [[plan#^goal]]\n",
}


async def test_in_a_vault_links_by_name_in_properties_and_in_comments_follow_a_move(tmp_path: Path) -> None:
    kb = write(tmp_path / "kb", VAULT)
    (kb / ".obsidian").mkdir()
    (kb / "Attachments").mkdir()
    for file in ("Board.canvas", "map.png"):
        (kb / "Attachments" / file).write_bytes(b"{}")
    async with writing(Settings(kb=kb, state_dir=tmp_path / "s")) as host:
        linking = ["Deep/Notes/Idea.md", "Other/Idea.md", "Other/Properties.md"]
        await eventually(host, "Projects/Plan.md", "backlinks", linking)
        assert (await host.call("kb_move", path="Projects/Plan.md", to="Archive/2026/Goals.md"))["status"] == "done"
        assert host.text("Deep/Notes/Idea.md") == (
            '---\nup: "[[Archive/2026/Goals]]"\n---\n\n# Idea\n\n[plan](Goals.md#goal) %% [[Goals]] %%\n'
        )
        assert host.text("Other/Properties.md") == "---\nabout: '[[Goals]]'\n---\n\n# Only in properties\n"
        assert host.text("Other/Idea.md") == "# Idea\n\n![[Idea]] [[Goals#^goal]]\n"
        assert host.text("Archive/2026/Goals.md") == (
            "# Plan\n\n![[Board.canvas]] ![](../../Attachments/map.png) [[Notes/Idea|idea]]\n"
        )
        await eventually(host, "Archive/2026/Goals.md", "backlinks", linking)
        assert (await host.call("kb_read", path="Goals"))["links"] == ["Deep/Notes/Idea.md"]


async def test_links_to_another_page_stay_when_one_with_its_name_comes_nearer(tmp_path: Path) -> None:
    pages = {
        "Deep/Chemistry/Atom.md": "# Atom\n",
        "Editors/Atom editor.md": "# Editor\n",
        "Notes/Bonds.md": "# Bonds\n\n[[Atom]] and [[atom|atoms]] [[Written later]]\n",
        "Editors/List.md": "# List\n\n[[Atom editor]]\n",
    }
    async with writing(Settings(kb=write(tmp_path / "kb", pages), state_dir=tmp_path / "s")) as host:
        await eventually(host, "Deep/Chemistry/Atom.md", "backlinks", ["Notes/Bonds.md"])
        await eventually(host, "Editors/Atom editor.md", "backlinks", ["Editors/List.md"])
        assert (await host.call("kb_move", path="Editors/Atom editor.md", to="Atom.md"))["status"] == "done"
        assert host.text("Notes/Bonds.md") == (
            "# Bonds\n\n[[Deep/Chemistry/Atom]] and [[Deep/Chemistry/Atom|atoms]] [[Written later]]\n"
        )
        assert host.text("Editors/List.md") == "# List\n\n[[/Atom]]\n"


async def eventually(host: Writer, path: str, field: str, wanted: object) -> None:
    """Return once `kb_read` shows `wanted`, which it does when the pages are indexed."""
    with anyio.fail_after(60):
        while True:
            if (await host.call("kb_read", path=path))[field] == wanted:
                return
            await anyio.sleep(0.05)
