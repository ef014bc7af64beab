"""`.obsidian` and `.trash` are never read, indexed, listed, written or moved, by any tool or verb, however they are named."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import pytest

from mcp_server.app.settings.settings import Settings
from tests.contract.cli.test_commands import Person
from tests.support.hosts.writers import Refused, Writer, writing
from tests.support.knowledge_bases.folders import write

pytestmark = pytest.mark.security

SECRET, NEAR = "xyzzyplugh", "quuxword"
HIDDEN = {
    ".obsidian/note.md": f"# {SECRET} {NEAR}\n\n[[Home]]\n",
    ".obsidian/workspace.json": f'{{"{SECRET}": 1}}',
    ".obsidian/templates.json": f'{{"folder": "{SECRET}"}}',
    ".obsidian/plugins/x/main.js": SECRET,
    ".obsidian/Board.canvas": f'{{"nodes":[{{"id":"a","type":"text","text":"{SECRET}"}}]}}',
    ".trash/Home.md": f"# {SECRET} {NEAR}\n",
    ".trash/Old/gone.md": f"# {SECRET}\n\n[[Home]]\n",
    ".trash/map.png": SECRET,
}
PAGES = {
    "Home.md": (
        "# Home\n\n[[.obsidian/note]] ![[.trash/map.png]] [x](.trash/Old/gone.md) [y](.obsidian/workspace.json) [[gone]]\n"
        "![[map.png]] [[note]] [[Board.canvas]] <a href='.obsidian/note.md'>z</a>\n"
    ),
    "Notes/Idea.md": "# Idea\n\n[[Home]] [up](../.obsidian/note.md) ![[../.trash/map.png]]\n",
}
NAMES = [
    ".obsidian/note.md",
    ".obsidian/note",
    ".obsidian",
    "./.obsidian/note.md",
    ".Obsidian/note.md",
    ".OBSIDIAN/NOTE.MD",
    "Notes/../.obsidian/note.md",
    "Notes\\..\\.obsidian\\note.md",
    ".obsidian\\note.md",
    "\u200b.obsidian/note.md",
    "\ufeff.trash/Home.md",
    ".obsidian /note.md",
    ".obsidian./note.md",
    ".obsidian::$INDEX_ALLOCATION/note.md",
    ".trash/Home.md",
    ".trash/Old",
    ".Trash/Old/gone.md",
    ".trash/map.png",
    "/.trash/Home.md",
    ".obsidian/Board.canvas",
    ".obsidian/workspace.json",
    ".obsidian/note#^a",
    "inside.md",
    "folder/note.md",
]
OF_PAGES = ["picture.png", "board.canvas", "note", "gone", "map.png", "Board.canvas", "#^a"]
"""Names that a new page may have, and that must not lead there."""


def vault(folder: Path) -> Path:
    kb = write(folder / "kb", PAGES)
    for path, text in HIDDEN.items():
        (kb / path).parent.mkdir(parents=True, exist_ok=True)
        (kb / path).write_text(text)
    (kb / "inside.md").symlink_to(kb / ".obsidian/note.md")
    (kb / "folder").symlink_to(kb / ".obsidian")
    (kb / "picture.png").symlink_to(kb / ".trash/map.png")
    (kb / "board.canvas").symlink_to(kb / ".obsidian/Board.canvas")
    return kb


def untouched(kb: Path) -> dict[str, tuple[bytes, int]]:
    """Return every hidden file with its bytes and the time of its last change."""
    found = [
        Path(above) / name for top in (".obsidian", ".trash") for above, _, names in os.walk(kb / top) for name in names
    ]
    return {str(file.relative_to(kb)): (file.read_bytes(), file.stat().st_ctime_ns) for file in found}


async def said(host: Writer, tool: str, **arguments: object) -> str:
    """Return the answer of the tool or its refusal."""
    try:
        return str(await host.call(tool, **arguments))
    except Refused as refused:
        return str(refused)


async def test_no_tool_shows_or_changes_what_is_in_them(tmp_path: Path) -> None:
    kb = vault(tmp_path)
    before = untouched(kb)
    async with writing(Settings(kb=kb, state_dir=tmp_path / "s")) as host:
        with anyio.fail_after(60):
            while (await host.call("kb_search", query="Idea"))["indexed"] != {"done": 2, "total": 2}:  # noqa: ASYNC110  no bell
                await anyio.sleep(0.05)
        base = await host.revision("Home.md")
        answers = [await said(host, "kb_search", query=NEAR), await said(host, "kb_map", depth=4)]
        for name in (*NAMES, *OF_PAGES):
            answers += [
                await said(host, "kb_read", path=name),
                await said(host, "kb_read", path=name, section="^a"),
                await said(host, "kb_map", path=name),
                await said(host, "kb_search", query=NEAR, path=name),
                await said(host, "kb_history", path=name),
                await said(host, "kb_contradictions", path=name),
                await said(host, "kb_merge", path=name, content="# Mine\n", dry_run=name in OF_PAGES),
                await said(host, "kb_move", path="Notes/Idea.md", to=name, dry_run=True),
                await said(host, "kb_move", path=name, to="Notes/Stolen.md"),
                await said(host, "kb_delete", path=name, base_revision=base),
                await said(host, "kb_revert", path=name, revision=base),
            ]
        # A move of a page that links there leaves these links as they are, relative to its new place.
        assert (await host.call("kb_move", path="Notes/Idea.md", to="Idea.md"))["status"] == "done"
        answers.append(await said(host, "kb_read", path="Home.md"))
    assert [answer for answer in answers if SECRET in answer] == []
    assert untouched(kb) == before
    assert sorted(path.name for path in kb.iterdir()) == sorted(
        [".obsidian", ".trash", "Home.md", "Idea.md", "Notes", "inside.md", "folder", "picture.png", "board.canvas"]
    )


@pytest.fixture
def ann(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Person:
    vault(tmp_path)
    return Person(tmp_path, monkeypatch, capsys)


def test_no_verb_shows_or_changes_what_is_in_them(ann: Person) -> None:
    before = untouched(ann.kb)
    (ann.folder / "text.md").write_text("# Mine\n")
    said = [ann.here("index"), ann.here("map", "--depth", "4"), ann.here("search", NEAR), ann.here("doctor")]
    for name in (
        ".obsidian/note.md",
        ".trash/Old/gone.md",
        "\u200b.obsidian/note.md",
        "inside.md",
        "folder/note.md",
        ".obsidian",
    ):
        said += [
            ann.here("read", name),
            ann.here("map", name),
            ann.here("history", name),
            ann.here("diff", name),
            ann.here("undo", name),
            ann.here("new", name, "--from", str(ann.folder / "text.md")),
            ann.here("edit", name, EDITOR="true"),
            ann.here("check", name),
        ]
    said += [ann.here("export", str(ann.folder / "out")), ann.here("doctor", "--fix", "--yes")]
    assert [one for one in said if SECRET in one.stdout + one.stderr] == []
    assert untouched(ann.kb) == before
    out = [path for path in (ann.folder / "out").rglob("*") if path.is_file()]
    assert [path for path in out if SECRET in path.read_bytes().decode("utf-8", "replace")] == []
