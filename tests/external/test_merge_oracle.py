"""Twenty thousand merges against git's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.knowledge_bases.merge_oracle import compared

MERGES = 20_000


@pytest.mark.slow
def test_no_merge_of_twenty_thousand_loses_or_doubles_anything(tmp_path: Path) -> None:
    """No silent loss, no silent duplication; where git reports a conflict on disjoint blocks, ours resolves."""
    report = compared(1_000_000, MERGES, tmp_path)
    print(report)  # noqa: T201  (what was counted belongs in the log)
    assert not report.wrong, "\n".join(report.wrong[:20])
    assert report.counts["merges"] == MERGES
    assert report.counts["disjoint edits on which git reports a conflict"] > MERGES / 20
    assert report.counts["git joins, we join"] > MERGES / 3
