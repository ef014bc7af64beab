"""Which canvases show a page, or link to it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from knowledge.pages.vault import Vault
from knowledge.search.maps.other_files import OtherFiles
from tests.support.knowledge_bases.folders import write
from tests.unit.search.test_finder import Base

if TYPE_CHECKING:
    from pathlib import Path

PAGE = "Notes/Alpha.md"
NAMES = ("The Alpha Title", "First")


def canvas(card: str, kind: str = "text") -> str:
    place = {"text": "text", "file": "file"}[kind]
    return json.dumps({"nodes": [{"id": "1", "type": kind, place: card, "x": 0, "y": 0}], "edges": []})


@pytest.mark.parametrize(
    "card",
    [
        "[[Alpha]]",
        "see [[notes/alpha#Part|this]]",
        "[[The Alpha Title]]",
        "[[First]]",
        "![[Alpha]]",
        "[x](Notes/Alpha.md)",
        "[x](Alpha)",
        "[x](First)",
        "[x](The%20Alpha%20Title)",
        "[x](<The Alpha Title>)",
    ],
)
async def test_a_canvas_links_to_a_page_by_each_of_its_names(tmp_path: Path, card: str) -> None:
    pages = {
        PAGE: "---\ntitle: The Alpha Title\naliases: [First]\n---\n\nText.\n",
        "Notes/Alphabet.md": "# Alphabet\n\nText.\n",
    }
    made = Base(write(tmp_path / "kb", pages))
    await made.index_all()
    for name, text in {"links": canvas(card), "shows": canvas(PAGE, "file"), "other": canvas("[[Alphabet]]")}.items():
        (tmp_path / "kb" / f"{name}.canvas").write_text(text)
    (tmp_path / "kb" / ".obsidian").mkdir()
    files = OtherFiles(Vault.open(tmp_path / "kb"), made.index)
    assert await files.canvases_showing(PAGE, NAMES) == ["links.canvas", "shows.canvas"]
    # A card that is changed is read again.
    (tmp_path / "kb" / "links.canvas").write_text(canvas("nothing to see here"))
    assert await files.canvases_showing(PAGE, NAMES) == ["shows.canvas"]
