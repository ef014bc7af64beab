"""A vault at the terminal: blocks and canvases are read, and the pages with a tag or around a page are listed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.cli.test_commands import Person
from tests.support.knowledge_bases.folders import write

PAGES = {
    "Home.md": "# Home\n\nThe first page of this vault. #start\n\n[[Idea]]\n",
    "Notes/Idea.md": "# Idea\n\nAn idea in a whole sentence. ^idea\n\n#start/later\n",
}


@pytest.fixture
def ann(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Person:
    kb = write(tmp_path / "kb", PAGES)
    (kb / ".obsidian").mkdir()
    (kb / "Board.canvas").write_text('{"nodes":[{"id":"a","type":"file","file":"Notes/Idea.md"}]}')
    return Person(tmp_path, monkeypatch, capsys)


def test_a_block_and_a_canvas_are_read(ann: Person) -> None:
    ann.here("index")
    assert ann.here("read", "Idea#^idea").stdout.strip() == "An idea in a whole sentence. ^idea"
    assert "![[Notes/Idea.md]]" in ann.here("read", "Board.canvas").stdout


def test_the_pages_with_a_tag_and_around_a_page_are_listed(ann: Person) -> None:
    ann.here("index")
    with_tag = ann.json("map", "#start")
    assert [child["path"] for child in with_tag["children"]] == ["Home.md", "Notes/Idea.md"]
    around = ann.json("map", "Notes/Idea.md")
    assert [child["path"] for child in around["children"]] == ["Home.md"]
    assert ann.here("map", "#nothing").returncode == 1
