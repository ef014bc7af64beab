"""The guide to Obsidian is true: each row of its table of links, in the vault that it shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from knowledge.merge.document.link_spans import links_in
from knowledge.merge.document.links import resolve
from knowledge.pages.vault import Vault
from knowledge.writing.related.backlinks import Backlinks
from tests.support.knowledge_bases.folders import write
from tests.support.state.memory.index import MemoryIndexStore

GUIDE = (Path(__file__).parents[3] / "kb/guides/obsidian.md").read_text(encoding="utf-8")
FILES = re.search(r"```\n(.+?)```", GUIDE, re.DOTALL)
ROWS = re.findall(r"^\| `(.+?)` \| (.+?) \| (.+?) \|$", GUIDE, re.MULTILINE)
PAGES = ("Home.md", "Maths/Logic/Proofs.md")


def vault(folder: Path) -> Vault:
    """Make the vault of the guide."""
    assert FILES is not None
    kb = write(folder / "kb", dict.fromkeys(PAGES, "# Page\n"))
    (kb / ".obsidian").mkdir()
    for name in FILES[1].split():
        (kb / name).parent.mkdir(parents=True, exist_ok=True)
        (kb / name).write_text("{}" if name.endswith(".canvas") else "# Page\n")
    return Vault.open(kb)


def test_the_guide_has_its_table() -> None:
    assert len(ROWS) == 8


@pytest.mark.parametrize(("link", "from_home", "from_proofs"), ROWS)
async def test_each_link_of_the_guide_leads_where_it_says(
    tmp_path: Path, link: str, from_home: str, from_proofs: str
) -> None:
    names = await Backlinks(vault(tmp_path), MemoryIndexStore()).names([link])
    (found,) = links_in(link)
    for page, wanted in zip(PAGES, (from_home, from_proofs), strict=True):
        assert (resolve(page, found, names) or "nowhere") == wanted.strip("`")
