"""`doctor` in a folder of Obsidian: what Obsidian finds is not reported, and what it does not find is."""

from __future__ import annotations

from pathlib import Path

from knowledge.pages.vault import Vault
from mcp_server.cli.doctor.page_problems import CheckedPages, look_through
from tests.support.knowledge_bases.folders import write

PAGES = {
    "Home.md": (
        "# Home\n\n![[map.png]] ![[Board.canvas]] [[Notes/idea]] [[Later]] [x](Idea.md) %% [[gone/Plan]] %%\n\n"
        "[[Deep/Notes/Idea#^first]] [[idea#^FIRST]] [[Daily/2026-11-28]]\n\n"
        "$$\\operatorname{conv}[f](x)$$ and $g[a](y)$ and $5 or $6\n"
    ),
    "Deep/Notes/Idea.md": "# Idea\n\nText. ^first\n",
    "Daily/2026-11-27.md": "# Today\n\nText.\n",
    "Templates/Meeting.md": "# {{title}}\n\n[[Projects/{{project}}]] ![[{{picture}}.png]]\n",
}
BOARD = '{"nodes":[{"id":"a","type":"file","file":"Deep/Notes/Idea.md"},{"id":"b","type":"file","file":"Attachments/map.png"}]}'


def vault(root: Path, **more: str) -> CheckedPages:
    kb = write(root / "kb", PAGES | more)
    for path, text in {
        ".obsidian/templates.json": '{"folder": "Templates"}',
        ".obsidian/daily-notes.json": '{"folder": "Daily"}',
        "Attachments/map.png": "png",
        "Deep/Board.canvas": BOARD,
    }.items():
        (kb / path).parent.mkdir(parents=True, exist_ok=True)
        (kb / path).write_text(text)
    return look_through(Vault.open(kb), lambda _done, _total: None)


def test_what_obsidian_finds_is_not_reported(tmp_path: Path) -> None:
    found = vault(tmp_path)
    assert found.links == ()
    assert found.problems == ()
    assert found.repairs == ()


def test_templates_are_no_pages_of_ones_own_and_daily_notes_need_no_summary(tmp_path: Path) -> None:
    found = vault(tmp_path)
    assert found.excluded == 1
    assert found.unsummarised == ("Deep/Notes/Idea.md", "Home.md")


def test_a_missing_picture_block_or_file_of_a_canvas_is_named(tmp_path: Path) -> None:
    texts = {"a.md": "![[gone.png]] [[Idea#^second]] [[idea#^second]] [[nowhere/Plan]]\n", "b.md": "![](Idea.png)\n"}
    (tmp_path / "kb").mkdir()
    (tmp_path / "kb/broken.canvas").write_text("{")
    (tmp_path / "kb/lost.canvas").write_text(
        '{"nodes":[{"id":"a","type":"file","file":"gone/Plan.md"},{"id":"b","type":"file","file":"../out.md"}]}'
    )
    found = vault(tmp_path, **texts)
    assert sorted((one.path, one.mend) for one in found.links) == [
        ("a.md", "Idea#^second: the page has no block ^second"),
        ("a.md", "gone.png: no file has this name"),
        ("a.md", "idea#^second: the page has no block ^second"),
        ("a.md", "nowhere/Plan: no page has this name"),
        ("b.md", "Idea.png: no file has this name"),
        ("broken.canvas", "restore it, or remove it"),
        ("lost.canvas", "gone/Plan.md: no file has this path"),
    ]


def test_a_setting_that_is_a_link_to_another_file_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "elsewhere.json").write_text('{"folder": "Deep"}')
    kb = write(tmp_path / "kb", PAGES)
    (kb / ".obsidian").mkdir()
    (kb / ".obsidian/templates.json").symlink_to(tmp_path / "elsewhere.json")
    assert not Vault.open(kb).obsidian_settings().is_template("Deep/Notes/Idea.md")
