"""The draw of sentences finds each kind where it is written, and the same seed draws the same sentences."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench import sentences

FILES = {
    "README.md": "# Name\n\nOne server answers every question about a folder.\n\n```sh\nnot prose, although it has words\n```\n",
    "kb/guide.md": "| a cell | this cell holds one whole sentence |\n",
    "mcp_server/web/templates/page.html": "<h1>Review page</h1>\n<p>No proposal needs your <b>approval now</b>.</p>\n",
    "knowledge/room.py": (
        '"""Read a page from its file."""\n\n'
        "# Sorted, so that two runs agree.\n"
        'SQL = "SELECT id FROM pages where it is there"\n'
        'ERROR = f"there is no page at {SQL} in this folder"\n'
    ),
    "mcp_server/toolsets/room/tools.py": 'READ = "Returns one page as it was last written."\n',
    "tests/test_room.py": '"""A page is read as it was written."""\n',
}
FOUND = {
    "readme": [("README.md", "One server answers every question about a folder.")],
    "handbook": [("kb/guide.md", "this cell holds one whole sentence")],
    "page": [("mcp_server/web/templates/page.html", "No proposal needs your approval now.")],
    "messages": [
        ("knowledge/room.py", "there is no page at {} in this folder"),
        ("mcp_server/toolsets/room/tools.py", "Returns one page as it was last written."),
    ],
    "tools": [("mcp_server/toolsets/room/tools.py", "Returns one page as it was last written.")],
    "docstrings": [("knowledge/room.py", "Read a page from its file.")],
    "tests": [("tests/test_room.py", "A page is read as it was written.")],
    "comments": [("knowledge/room.py", "Sorted, so that two runs agree.")],
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.setattr(sentences, "ROOT", tmp_path)
    return tmp_path


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize("kind", sentences.KINDS)
def test_each_kind_is_found_where_it_is_written(kind: str) -> None:
    assert sorted(sentences.draw(kind, 20, seed=7)) == FOUND[kind]


def test_the_same_seed_draws_the_same_sentences(project: Path) -> None:
    text = "\n\n".join(f"The server answers question number {number}." for number in range(50))
    (project / "README.md").write_text(text, encoding="utf-8")
    drawn = sentences.draw("readme", 20, seed=7)
    assert len(set(drawn)) == 20
    assert drawn == sentences.draw("readme", 20, seed=7)
    assert drawn != sentences.draw("readme", 20, seed=8)
