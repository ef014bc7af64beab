"""Maps and pages as a model sees them: through an MCP client, from a search to the call that it names."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp_types import CallToolResult, TextContent

from knowledge.index.store.sqlite import SqliteIndexStore
from knowledge.pages.vault import Vault
from knowledge.search.tiers import Tiers
from knowledge.state.ports import IndexIdentity
from tests.contract.index.test_index_store import page as indexed_page
from tests.contract.toolsets.test_bad_input import serving
from tests.support.knowledge_bases.folders import write


async def called(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert isinstance(result, CallToolResult)
    assert not result.is_error, result.content
    found: dict[str, Any] = result.structured_content
    return found


@pytest.mark.parametrize(
    ("question", "tool", "path"),
    [
        ("what's in guides", "kb_map", "guides"),
        ("show me the guides folder", "kb_map", "guides"),
        ("where is the onboarding page?", "kb_read", "guides/onboarding.md"),
    ],
)
async def test_the_next_call_of_a_search_for_a_place_opens_it(
    tmp_path: Path, question: str, tool: str, path: str
) -> None:
    """Issue: a question taken for navigation is answered with that map as `next`, not with another search."""
    write(tmp_path / "kb")
    async with serving(tmp_path) as client:
        found = await called(client, "kb_search", query=question)
        assert found["route"]["mode"] == "navigation"
        call = ast.parse(found["scent"]["next"], mode="eval").body
        assert isinstance(call, ast.Call)
        assert isinstance(call.func, ast.Name)
        assert (call.func.id, ast.literal_eval(call.args[0])) == (tool, path)
        assert (await called(client, call.func.id, path=path))["path"] == path


async def test_the_parts_of_a_map_are_walked_by_a_client(tmp_path: Path) -> None:
    """Issue: a map of one folder with 183 pages cost 4,200 tokens and held empty summaries."""
    many = {f"manual/page-{n:03}.md": f"# Page {n}\n\nExplains the case {n} with an example.\n" for n in range(183)}
    write(tmp_path / "kb", many)
    async with serving(tmp_path) as client:
        shown: list[dict[str, Any]] = []
        cursor: dict[str, str] = {}
        while True:
            result = await client.call_tool("kb_map", {"path": "manual", **cursor})
            assert isinstance(result, CallToolResult)
            assert isinstance(result.content[0], TextContent)
            assert len(result.content[0].text) / 4 <= 2000
            view = json.loads(result.content[0].text)
            shown += view["children"]
            if view["next_cursor"] is None:
                break
            cursor = {"cursor": view["next_cursor"]}
            assert view["truncated"]
        assert [child["path"] for child in shown] == list(many)
        assert all(child["summary"].startswith("Explains the case") for child in shown)
        other = await client.call_tool("kb_map", {"path": "", **cursor})
        assert isinstance(other, CallToolResult)
        assert other.is_error


async def test_ten_thousand_pages_in_one_folder_are_walked_in_their_order(tmp_path: Path) -> None:
    store = await SqliteIndexStore.open(tmp_path / "index.db")
    await store.begin(IndexIdentity("none", 4, 1))
    paths = [f"all/{n:05}.md" for n in range(10_000)]
    await store.apply([indexed_page(path) for path in paths], fence=1)
    (tmp_path / "kb").mkdir()
    tiers = Tiers(Vault.open(tmp_path / "kb"), store)
    view = await tiers.map("all")
    shown = [child.path for child in view.children]
    while view.next_cursor:
        view = await tiers.map("all", cursor=view.next_cursor)
        shown += [child.path for child in view.children]
    await store.close()
    assert shown == paths


async def test_the_map_of_an_indexed_folder_looks_at_none_of_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look at each file of a folder of 5,000 pages took 0.13 s."""
    store = await SqliteIndexStore.open(tmp_path / "index.db")
    await store.begin(IndexIdentity("none", 4, 1))
    write(tmp_path / "kb", {"all/a.md": "# A\n", "all/b.md": "# B\n"})
    await store.apply([indexed_page(path) for path in ("all/a.md", "all/b.md")], fence=1)
    looked_at: list[str] = []
    monkeypatch.setattr(Vault, "find", lambda _vault, path: looked_at.append(path))
    view = await Tiers(Vault.open(tmp_path / "kb"), store).overview("all")
    await store.close()
    assert [child.path for child in view.children] == ["all/a.md", "all/b.md"]
    assert not looked_at


async def test_a_page_that_was_read_names_its_links_also_after_a_move(tmp_path: Path) -> None:
    """Issue: `kb_read` names links and backlinks."""
    pages = {
        "guides/deploy.md": "# Deploy\n\nFirst read [how keys rotate](keys.md).\n",
        "guides/keys.md": "# Keys\n\nKeys rotate every week.\n",
        "start.md": "# Start\n\nBegin with [[keys]].\n",
    }
    write(tmp_path / "kb", pages)
    async with serving(tmp_path) as client:
        found = await called(client, "kb_read", path="guides/keys.md")
        assert (found["links"], found["backlinks"]) == ([], ["guides/deploy.md", "start.md"])
        assert (await called(client, "kb_read", path="start.md"))["links"] == ["guides/keys.md"]
        (tmp_path / "kb/start.md").unlink()
        (tmp_path / "kb/guides/keys.md").rename(tmp_path / "kb/guides/secrets.md")
        write(tmp_path / "kb", {"guides/deploy.md": "# Deploy\n\nFirst read [how keys rotate](secrets.md).\n"})
        with anyio.fail_after(60):
            while True:
                found = await called(client, "kb_read", path="guides/secrets.md")
                if found["backlinks"] == ["guides/deploy.md"]:
                    break
                await anyio.sleep(0.05)
        assert (await called(client, "kb_read", path="guides/deploy.md"))["links"] == ["guides/secrets.md"]


TAGGED = {
    "a/plan.md": "---\ntags: [Area/work]\n---\n# Plan\n\nThe plan of the year, in words. #goal\n\nSee [[idea]].\n",
    "a/idea.md": "# Idea\n\nAn idea that nobody had before.\n\n#area #area/work/deep #goal #one\n",
    "b/notes.md": "# Notes\n\nNotes on [the plan](../a/plan.md) of this year.\n",
    "#inbox/new.md": "# New\n\nSomething new came in today.\n",
}


async def test_a_map_names_tags_and_gathers_the_pages_with_one(tmp_path: Path) -> None:
    """Issue: `kb_map` names links, backlinks and tags within its budget."""
    write(tmp_path / "kb", TAGGED)
    async with serving(tmp_path) as client:
        with anyio.fail_after(60):
            while True:
                lines = (await called(client, "kb_map", path="a"))["children"]
                summaries = {line["path"]: line["summary"] for line in lines}
                if summaries.get("a/plan.md", "").startswith("The plan") and summaries["a/idea.md"].startswith("An"):
                    break
                await anyio.sleep(0.05)
        assert summaries == {
            "a/idea.md": "An idea that nobody had before. #area #area/work/deep #goal",
            "a/plan.md": "The plan of the year, in words. #Area/work #goal",
        }
        found = await called(client, "kb_map", path="#AREA")
        assert [line["path"] for line in found["children"]] == ["a/idea.md", "a/plan.md"]
        assert (found["title"], found["count"], found["next_cursor"]) == ("#AREA", 2, None)
        assert [line["path"] for line in (await called(client, "kb_map", path="#one"))["children"]] == ["a/idea.md"]
        # A directory whose name begins with the sign is a directory.
        assert [line["path"] for line in (await called(client, "kb_map", path="#inbox"))["children"]] == [
            "#inbox/new.md"
        ]
        assert "gone" in str(await client.call_tool("kb_map", {"path": "#gone"}))


async def test_the_cursor_of_a_tag_leads_to_all_pages_with_it(tmp_path: Path) -> None:
    names = [f"p/{number:03}.md" for number in range(120)]
    text = "Each page has one fairly long sentence, so a map has room for only some of the pages."
    write(tmp_path / "kb", {name: f"# {name}\n\n{text} #common\n" for name in names})
    async with serving(tmp_path) as client:
        with anyio.fail_after(60):
            while True:
                if (await called(client, "kb_search", query="page"))["indexed"]["done"] == len(names):
                    break
                await anyio.sleep(0.05)
        found, cursor, parts = list[str](), None, 0
        while parts == 0 or cursor:
            part = await called(client, "kb_map", path="#Common", **({"cursor": cursor} if cursor else {}))
            assert (part["count"], part["truncated"]) == (len(names), part["next_cursor"] is not None)
            found += [line["path"] for line in part["children"]]
            cursor, parts = part["next_cursor"], parts + 1
        assert found == names
        assert parts > 1
        stale = (await called(client, "kb_map", path="#common"))["next_cursor"]
        assert "cursor" in str(await client.call_tool("kb_map", {"path": "#other", "cursor": stale}))


async def test_a_map_of_a_page_is_the_pages_around_it(tmp_path: Path) -> None:
    write(tmp_path / "kb", TAGGED)
    async with serving(tmp_path) as client:
        with anyio.fail_after(60):
            while True:
                answer = await client.call_tool("kb_map", {"path": "a/plan.md"})
                if not answer.is_error and len((found := answer.structured_content or {})["children"]) == 2:
                    break
                await anyio.sleep(0.05)
        assert [line["path"] for line in found["children"]] == ["a/idea.md", "b/notes.md"]
        assert "it links to the first 1, and the other 1 link to it" in found["note"]
        read = await called(client, "kb_read", path="a/plan.md")
        assert read["metadata"] == {"tags": ["Area/work", "goal"]}
