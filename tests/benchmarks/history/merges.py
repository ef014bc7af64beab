"""Real merges: how often ours is clean, how often git's is, and whether a clean merge equals people's result."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from knowledge.merge.document.units import cut
from knowledge.merge.three_way.join import join
from tests.benchmarks.history.repository import RealMerge


@dataclass
class MergeScore:
    """Counts of merges. `differs` are clean merges of ours that differ from people's result, to be read by eye."""

    merges: int = 0
    clean: int = 0
    clean_git: int = 0
    as_people: int = 0
    as_people_git: int = 0
    differs: list[tuple[RealMerge, str]] = field(default_factory=list)
    refused: list[RealMerge] = field(default_factory=list)

    def row(self, name: str) -> str:
        """Return the counts as a row of a Markdown table."""
        share = [f"{100 * part / max(1, self.merges):.1f} %" for part in (self.clean, self.clean_git)]
        return f"| {name} | {self.merges} | {share[0]} | {share[1]} | {self.as_people} | {self.as_people_git} | {len(self.differs)} |"


HEAD = (
    "| repository | merges | clean | clean with git | as people merged | git's as people merged | clean and different |\n"
    "|---|---:|---:|---:|---:|---:|---:|"
)


def score(merges: Iterable[RealMerge]) -> MergeScore:
    """Merge each by our rules and by git's, and compare with the recorded result."""
    total = MergeScore()
    for one in merges:
        total.merges += 1
        joined = join(cut(one.base), cut(one.ours), cut(one.theirs))
        if joined.conflicts:
            total.refused.append(one)
        else:
            total.clean += 1
            total.as_people += joined.text == one.result
            if joined.text != one.result:
                total.differs.append((one, joined.text))
        git = git_merge(one)
        total.clean_git += git is not None
        total.as_people_git += git == one.result
    return total


def git_merge(one: RealMerge) -> str | None:
    """Return the result of `git merge-file`; None if it has conflicts."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, name) for name in ("ours", "base", "theirs")]
        for path, text in zip(paths, (one.ours, one.base, one.theirs), strict=True):
            path.write_bytes(text.encode("utf-8"))
        done = subprocess.run(["git", "merge-file", "-p", *map(str, paths)], capture_output=True, check=False)
        return done.stdout.decode("utf-8") if done.returncode == 0 else None
