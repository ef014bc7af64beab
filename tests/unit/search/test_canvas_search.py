"""The search in canvases: by name and cards, only in a folder of Obsidian, always as the files are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from knowledge.pages.vault import Vault
from knowledge.search import canvas_search
from knowledge.search.canvas_search import CanvasSearch, FoundCanvas, note_on_canvases


def board(*cards: str) -> str:
    nodes = [{"id": str(number), "type": "text", "text": text, "y": number} for number, text in enumerate(cards)]
    return json.dumps({"nodes": nodes, "edges": []})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(canvas_search, "TRUSTED_S", 0.0)
    for name in (".obsidian", ".trash", "boards", "fetched"):
        (tmp_path / name).mkdir()
    (tmp_path / "fetched/_index.md").write_text("---\nuntrusted: true\n---\n# Fetched\n")
    return tmp_path


async def test_the_canvas_with_most_words_comes_first_then_the_one_named_so(folder: Path) -> None:
    (folder / "boards/one.canvas").write_text(board("tea and sugar", "tea with sugar and milk"))
    (folder / "boards/Tea sugar milk.canvas").write_text(board("nothing"))
    (folder / "fetched/two.canvas").write_text(board("tea, sugar"))
    (folder / "boards/few.canvas").write_text(board("tea"))
    found = await CanvasSearch(Vault(folder)).find(["tea", "sugar", "milk"])
    assert found == [
        FoundCanvas("boards/Tea sugar milk.canvas", "", untrusted=False),
        FoundCanvas("boards/one.canvas", "tea with sugar and milk", untrusted=False),
        FoundCanvas("fetched/two.canvas", "tea, sugar", untrusted=True),
    ]


async def test_a_canvas_is_found_as_its_file_is_now(folder: Path) -> None:
    search = CanvasSearch(Vault(folder))
    assert await search.find(["tea"]) == []
    (folder / "late.canvas").write_text(board("tea"))
    assert [one.path for one in await search.find(["tea"])] == ["late.canvas"]
    (folder / "late.canvas").write_text(board("coffee, and more of it"))
    assert await search.find(["tea"]) == []
    (folder / "late.canvas").unlink()
    assert await search.find(["coffee"]) == []


async def test_hidden_folders_links_and_other_places_are_not_searched(folder: Path) -> None:
    (folder / ".trash/old.canvas").write_text(board("tea"))
    (folder / "boards/link.canvas").symlink_to(folder / ".trash/old.canvas")
    (folder / "broken.canvas").write_text("{")
    (folder / "boards/good.canvas").write_text(board("tea"))
    search = CanvasSearch(Vault(folder))
    assert [one.path for one in await search.find(["tea"])] == ["boards/good.canvas"]
    assert await search.find(["tea"], path="fetched") == []
    assert await search.find([]) == []


async def test_only_a_folder_of_obsidian_is_searched(tmp_path: Path) -> None:
    (tmp_path / "a.canvas").write_text(board("tea"))
    assert await CanvasSearch(Vault(tmp_path)).find(["tea"]) == []


def test_the_note_for_hosts_names_as_many_paths_as_have_room() -> None:
    note = note_on_canvases(["a" * 150 + ".canvas", "b" * 150 + ".canvas"])
    assert "aaa.canvas'" in note
    assert "bbb" not in note
    assert len(note_on_canvases(["x" * 900])) < 300
