"""The index rows of one file."""

from __future__ import annotations

from pathlib import Path

from knowledge.index.indexer import RACY_NS
from knowledge.index.page_rows import DirectoryTrust, Prepared, prepare
from knowledge.pages.vault import Vault
from knowledge.state.ports import Touch
from tests.support.knowledge_bases.folders import write

LATER_NS = 10**19
"""A time long after all files here were written, so that none of them counts as just written."""


def prepared(vault: Vault, trust: DirectoryTrust) -> Prepared:
    outcome = prepare(vault, "a/_index.md", None, trust, at_ns=LATER_NS)
    assert isinstance(outcome, Prepared)
    return outcome


def test_a_directory_whose_trust_changed_while_it_was_indexed_is_looked_at_again(tmp_path: Path) -> None:
    """Its pages were recorded with the earlier trust. If its own page looked settled, they would keep it forever."""
    trusted = "---\nuntrusted: false\n---\n# Index\n"
    vault = Vault.open(write(tmp_path, {"a/_index.md": trusted, "a/page.md": "# Page\n"}))
    trust = DirectoryTrust(vault)
    assert not trust.untrusted("a")
    usual = prepared(vault, trust)
    write(tmp_path, {"a/_index.md": trusted.replace("false", "true")})
    changed = prepared(vault, trust)
    now = vault.read("a/_index.md").stamp
    assert usual.record.stamp.inode == now.inode
    assert (changed.record.untrusted, changed.record.stamp == now) == (False, False)
    # The next run sees the directory's trust in the files, and the page as one to be read again.
    again = prepare(vault, "a/_index.md", (changed.record.stamp, "another", LATER_NS), DirectoryTrust(vault), at_ns=0)
    assert isinstance(again, Prepared)
    assert again.record.untrusted
    assert again.record.stamp == now
    assert now.mtime_ns + RACY_NS < LATER_NS


def test_a_directory_below_an_untrusted_one_is_settled(tmp_path: Path) -> None:
    pages = {"_index.md": "---\nuntrusted: true\n---\n# All\n", "a/_index.md": "# Index\n"}
    vault = Vault.open(write(tmp_path, pages))
    below = prepared(vault, DirectoryTrust(vault))
    assert below.record.untrusted
    assert below.record.stamp == vault.read("a/_index.md").stamp
    known = (below.record.stamp, below.record.revision, LATER_NS)
    assert isinstance(prepare(vault, "a/_index.md", known, DirectoryTrust(vault), at_ns=0), Touch)
