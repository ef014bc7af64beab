"""Canvases and attachments in a folder of Obsidian, through a real client: read, linked, and followed when a page moves."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from mcp_server.app.settings.settings import Settings
from tests.support.hosts.writers import Writer, writing
from tests.support.knowledge_bases.folders import write

PAGES = {
    "Projects/Plan.md": "# Plan\n\nThe goal. ^goal\n\n- one\n  - two ^two\n",
    "Notes/Idea.md": "# Idea\n\n![[Board.canvas]] ![[map.png]] ![](../Attachments/map.png) [[Plan#^goal]]\n",
    "Other.md": "# Other\n\n![[Pictures/map.png|300]]\n",
}
BOARD = (
    '{\n\t"nodes":[\n\t\t{"id":"a","x":0,"y":0,"type":"file","file":"Projects/Plan.md","subpath":"#^goal"},\n'
    '\t\t{"id":"b","x":0,"y":9,"type":"text","text":"see [[Plan|it]]\\n[idea](../Notes/Idea.md)","color":"1"}\n\t],\n'
    '\t"edges":[{"id":"e","fromNode":"a","toNode":"b"}]\n}'
)


@asynccontextmanager
async def vault(tmp_path: Path) -> AsyncIterator[Writer]:
    kb = write(tmp_path / "kb", PAGES)
    for path, text in {
        ".obsidian/app.json": "{}",
        "Boards/Board.canvas": BOARD,
        "Attachments/map.png": "1234567",
        "Old/Pictures/map.png": "12",
    }.items():
        (kb / path).parent.mkdir(parents=True, exist_ok=True)
        (kb / path).write_text(text)
    async with writing(Settings(kb=kb, state_dir=tmp_path / "s")) as host:
        with anyio.fail_after(60):
            while True:
                found = await host.call("kb_search", query="Idea")
                if found["indexed"] == {"done": 3, "total": 3}:
                    break
                await anyio.sleep(0.05)
        yield host


async def test_a_canvas_is_read_as_its_cards_with_links_both_ways(tmp_path: Path) -> None:
    async with vault(tmp_path) as host:
        board = await host.call("kb_read", path="Boards/Board.canvas")
        assert board["text"].startswith("![[Projects/Plan.md#^goal]]\n\nsee [[Plan|it]]")
        assert board["metadata"] == {"kind": "canvas", "bytes": len(BOARD)}
        assert board["links"] == ["Projects/Plan.md", "Notes/Idea.md"]
        assert board["backlinks"] == ["Notes/Idea.md"]
        assert (await host.call("kb_read", path="board.canvas"))["path"] == "Boards/Board.canvas"
        plan = await host.call("kb_read", path="Plan")
        assert plan["backlinks"] == ["Boards/Board.canvas", "Notes/Idea.md"]


async def test_an_attachment_is_known_by_its_name_and_the_links_to_it(tmp_path: Path) -> None:
    async with vault(tmp_path) as host:
        picture = await host.call("kb_read", path="Attachments/map.png")
        assert (picture["text"], picture["metadata"]) == ("", {"kind": "attachment", "bytes": 7})
        assert picture["backlinks"] == ["Notes/Idea.md"]
        assert (await host.call("kb_read", path="Old/Pictures/map.png"))["backlinks"] == ["Other.md"]
        # Two have this name, so the caller chooses.
        refused = await host.refused("kb_read", path="map.png")
        assert "Attachments/map.png" in refused
        assert "Old/Pictures/map.png" in refused
        assert "no" in (await host.refused("kb_read", path="gone.png"))


async def test_a_block_is_read_by_its_id(tmp_path: Path) -> None:
    async with vault(tmp_path) as host:
        assert (await host.call("kb_read", path="Plan", section="^goal"))["text"] == "The goal. ^goal"
        assert (await host.call("kb_read", path="Projects/Plan#^two"))["text"] == "  - two ^two"
        assert "nowhere" in await host.refused("kb_read", path="Plan", section="#^nowhere")


async def test_a_canvas_follows_a_page_that_moves_and_its_return(tmp_path: Path) -> None:
    async with vault(tmp_path) as host:
        moved = await host.call("kb_move", path="Projects/Plan.md", to="Archive/Goals.md")
        assert (moved["status"], moved["changed"]) == (
            "done",
            ["Archive/Goals.md", "Boards/Board.canvas", "Notes/Idea.md"],
        )
        after = BOARD.replace('"Projects/Plan.md"', '"Archive/Goals.md"').replace("[[Plan|it]]", "[[Goals|it]]")
        assert host.text("Boards/Board.canvas") == after
        # The person drags a card meanwhile: the undo keeps that.
        dragged = after.replace('"x":0,"y":9', '"x":70,"y":90')
        (host.root / "Boards/Board.canvas").write_text(dragged)
        history = await host.call("kb_history", path="Archive/Goals.md")
        undone = await host.call("kb_revert", path="Projects/Plan.md", revision=history["revisions"][-1]["revision"])
        assert undone["status"] == "done"
        assert host.text("Boards/Board.canvas") == BOARD.replace('"x":0,"y":9', '"x":70,"y":90')
        assert host.text("Notes/Idea.md") == PAGES["Notes/Idea.md"]


async def test_deleting_a_page_names_the_canvas_that_shows_it(tmp_path: Path) -> None:
    async with vault(tmp_path) as host:
        revision = await host.revision("Projects/Plan.md")
        answer = await host.call("kb_delete", path="Projects/Plan.md", base_revision=revision)
        assert "Boards/Board.canvas" in answer["note"]
        assert host.text("Boards/Board.canvas") == BOARD


async def test_no_tool_writes_into_a_canvas_or_moves_one(tmp_path: Path) -> None:
    async with vault(tmp_path) as host:
        for tool, arguments in (
            ("kb_merge", {"content": "x", "section": "*", "base_revision": "0" * 16}),
            ("kb_move", {"to": "x.canvas"}),
            ("kb_delete", {"base_revision": "0" * 16}),
        ):
            await host.refused(tool, path="Boards/Board.canvas", **arguments)
        assert host.text("Boards/Board.canvas") == BOARD
        json.loads(host.text("Boards/Board.canvas"))
