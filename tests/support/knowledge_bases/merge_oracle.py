"""Merges of made-up pages, compared with `git merge-file` and with the known effect of the edits."""

from __future__ import annotations

import random
import re
import subprocess
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from knowledge.merge.document.units import cut
from knowledge.merge.three_way.join import Joined, join
from tests.support.knowledge_bases.markdown_pages import Maker, edited, free_atoms, parted, printed, scrambled

BATCH = 250
_NUMBER = re.compile(r"^(\s*)\d+\.", re.MULTILINE)
_TOKEN = re.compile(r"\bw\d+")


class Case(NamedTuple):
    """Two sides' edits of a page.

    `expected` is the joined page if the edits touch different parts, None if they may not.
    """

    base: str
    ours: str
    theirs: str
    expected: str | None


@dataclass(slots=True)
class Report:
    """The outcomes, counted; `wrong` describes every merge that broke a promise."""

    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return ", ".join(f"{name}: {count:,}" for name, count in sorted(self.counts.items()))


def case(seed: int) -> Case:
    """Return a random case: every second one with edits of different parts, every fourth with reversed lines."""
    maker = Maker(random.Random(seed))  # noqa: S311  (seeded, so that a failure can be repeated)
    page = maker.page(maker.random.randrange(1, 14))
    disjoint = seed % 2 == 0
    here, there = parted(maker, page) if disjoint else (free_atoms(page), free_atoms(page))
    mine, other = maker.edits(page, here, 5), maker.edits(page, there, 5)
    end, closed = maker.random.choice(["\n", "\n", "\r\n"]), maker.random.random() < 0.7

    def text(edits: Sequence[object]) -> str:
        return printed(edited(page, edits), end, closed=closed)  # type: ignore[arg-type]  # edits of either side

    if seed % 4 == 1:
        plain = text([])
        return Case(plain, scrambled(maker, plain, 4), scrambled(maker, plain, 4), None)
    return Case(text([]), text(mine), text(other), text([*mine, *other]) if disjoint else None)


def compared(first: int, count: int, folder: Path) -> Report:
    """Return the outcomes of the cases from seed `first` on."""
    report = Report()
    batches = [range(at, min(at + BATCH, first + count)) for at in range(first, first + count, BATCH)]
    with ThreadPoolExecutor(2) as pool:
        for seeds, results in zip(batches, pool.map(lambda seeds: _by_git(seeds, folder), batches), strict=True):
            for seed, (text, conflicts) in zip(seeds, results, strict=True):
                _judge(report, seed, text, clean=conflicts == 0)
    return report


def _by_git(seeds: range, folder: Path) -> list[tuple[str, int]]:
    """Return the result of `git merge-file` for each case, and the number of its conflicts."""
    place = folder / str(seeds.start)
    place.mkdir()
    for seed in seeds:
        for name, text in zip("bot", case(seed)[:3], strict=True):
            (place / f"{seed}.{name}").write_bytes(text.encode())
    loop = (
        f"for n in $(seq {seeds.start} {seeds.stop - 1}); do git merge-file -q -p $n.o $n.b $n.t >$n.r; echo $?; done"
    )
    codes = subprocess.run(["sh", "-c", loop], cwd=place, capture_output=True, check=True, text=True).stdout.split()
    return [((place / f"{seed}.r").read_bytes().decode(), int(code)) for seed, code in zip(seeds, codes, strict=True)]


def _judge(report: Report, seed: int, by_git: str, *, clean: bool) -> None:
    base, ours, theirs, expected = case(seed)
    found = join(cut(base), cut(ours), cut(theirs))
    conflicts = len(found.conflicts)
    report.counts["merges"] += 1
    report.counts["git joins, we join"] += clean and not conflicts
    report.counts["git joins, we report a conflict"] += clean and bool(conflicts)
    report.counts["git reports a conflict, we join"] += not clean and not conflicts
    report.counts["both report a conflict"] += not clean and bool(conflicts)
    if expected is not None:
        report.counts["disjoint edits"] += 1
        report.counts["disjoint edits on which git reports a conflict"] += not clean
        if conflicts or found.text != expected:
            report.wrong.append(f"{seed}: disjoint edits were not joined as they are ({conflicts} conflicts)")
    if clean and not conflicts:
        report.wrong += [
            f"{seed}: {problem}" for problem in _otherwise_than_git(base, ours, theirs, found.text, by_git)
        ]
    report.wrong += [
        f"{seed}: {problem}" for problem in _lost_or_doubled(base, ours, theirs, found, rewritten=seed % 4 == 1)
    ]


def _otherwise_than_git(base: str, ours: str, theirs: str, joined: str, by_git: str) -> list[str]:
    """Return the lines that git has more or less often, unless we are the ones who join."""
    was, mine, other, after, git = map(_lines, (base, ours, theirs, joined, by_git))
    return [
        f"{line!r} is there {after[line]} times, git has it {git[line]} times"
        for line in after | git
        # Git knows no moves, so it keeps a line that one side moved and the other removed.
        if after[line] != git[line] and after[line] != mine[line] + other[line] - was[line]
    ]


def _lines(text: str) -> Counter[str]:
    """Return the lines that are not blank, without the numbers of items, because those are renumbered."""
    return Counter(line.rstrip() for line in _NUMBER.sub(r"\1", text).splitlines() if line.strip())


def _has_line(text: str, token: str, base: str) -> bool:
    """Return whether a text still has the base's line with a word."""
    line = next((line for line in base.splitlines() if re.search(rf"\b{token}\b", line)), None)
    return line is not None and line in text.splitlines()


def _lost_or_doubled(base: str, ours: str, theirs: str, found: Joined, *, rewritten: bool) -> list[str]:
    """Return the words that should occur once and don't, or occur and should not.

    If lines were `rewritten` at random, one may be gone on one side and be elsewhere, in other words, on the other.
    """
    was, mine, other, after = (Counter(_TOKEN.findall(text)) for text in (base, ours, theirs, found.text))
    shown = {token for c in found.conflicts for token in _TOKEN.findall(f"{c.base} {c.ours} {c.theirs}")}
    problems: list[str] = []
    for token in was | mine | other:
        count = mine[token] + other[token] - was[token]
        if mine[token] == other[token] != was[token]:
            count = mine[token]
        if after[token] == max(count, 0):
            continue
        # Conflicting text stays as our side has it.
        if after[token] == mine[token] and token in shown:
            continue
        # A line that our side kept may be missing where the block around it was scrambled; the conflict shows it.
        if rewritten and token in shown and after[token] < mine[token]:
            continue
        if rewritten and not _has_line(ours, token, base) and not _has_line(theirs, token, base):
            continue
        problems.append(f"{token} is there {after[token]} times, not {count}")
    return problems
