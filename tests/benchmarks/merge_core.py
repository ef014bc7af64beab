"""The CPU cost of one merge: `python -m tests.benchmarks.merge_core`."""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

from knowledge.merge.document.units import _cut_once, cut, units
from knowledge.merge.three_way.join import join
from tests.support.knowledge_bases.markdown_pages import Maker, edited, parted, printed

LINES = 2_000
RUNS = 40


@dataclass(frozen=True, slots=True)
class MergeCosts:
    """Mean milliseconds of CPU.

    One merge into a page of `lines` lines with base and current already parsed, and with nothing parsed.

    `worst_s` are seconds for texts made to be slow, by their kind.
    """

    lines: int
    cut_already_ms: float
    nothing_cut_ms: float
    cut_ms: float
    worst_s: dict[str, float]


def merge_costs() -> MergeCosts:
    """Return the cost of merges on this machine."""
    base, ours, theirs = _page_with_edits()
    before, current = cut(base), cut(ours)
    return MergeCosts(
        lines=base.count("\n"),
        cut_already_ms=_mean_ms(lambda: join(before, current, cut(theirs))),
        nothing_cut_ms=_mean_ms(lambda: join(cut(base), cut(ours), cut(theirs))),
        cut_ms=_mean_ms(lambda: cut(base)),
        worst_s={name: _seconds(*texts) for name, texts in _slow_texts().items()},
    )


def _page_with_edits() -> tuple[str, str, str]:
    maker = Maker(random.Random(4))
    page = maker.page(10)
    while printed(page).count("\n") < LINES:
        page += maker.page(10)[1:]
    here, there = parted(maker, page)
    mine, other = maker.edits(page, here, 12), maker.edits(page, there, 12)
    return printed(page), printed(edited(page, mine)), printed(edited(page, other))


def _slow_texts() -> dict[str, tuple[str, str, str]]:
    same = "the same line\n" * 100_000
    long = "Some words of one long line. " * (10 * 2**20 // 29)
    items = [f"- item {at} with some words\n" for at in range(5_000)]
    equal = ["- equal item\n"] * 5_000
    rows = [f"| key {at} | value {at * 7 % 100} |\n" for at in range(5_000)]
    table = "| key | value |\n|---|---|\n"
    shuffled = random.Random(1).sample(items, len(items))
    blocks = [f"block {at} here\n\n" for at in range(5_000)]
    return {
        "a line of 10 MB": (long, "Ours. " + long, long + "Theirs."),
        "100,000 equal lines": (same, "ours\n" + same, same + "the same line\ntheirs\n"),
        "100,000 equal lines, a tenth gone": (same, same[: len(same) * 9 // 10], "ours\n" + same),
        "a list of 5,000 items": ("".join(items), "".join([*items[:9], *items[10:]]), "".join([*items, "- new\n"])),
        "a list of 5,000 equal items": (
            "".join(equal),
            "- ours\n" + "".join(equal[5:]),
            "".join(equal[9:]) + "- theirs\n",
        ),
        "5,000 items all changed": (
            "".join(items),
            "".join(items).replace("some", "other"),
            "".join(items).replace("item 7", "no"),
        ),
        "5,000 items shuffled": ("".join(items), "".join(shuffled), "".join(items[:-1])),
        "5,000 rows all changed": (
            table + "".join(rows),
            table + "".join(rows).replace("value", "v"),
            table + "".join(rows[:-1]),
        ),
        "5,000 blocks reversed": (
            "".join(blocks),
            "".join(blocks[::-1]),
            "".join(blocks).replace("block 77 ", "block x "),
        ),
        "5,000 blocks all rewritten": (
            "".join(blocks),
            "".join(f"other {at * 3} text of it\n\n" for at in range(5_000)),
            "".join(blocks).replace("block 77 ", "block x "),
        ),
    }


def _mean_ms(run: Callable[[], object]) -> float:
    gc.collect()
    # The clock of CPU time may tick in steps of 10 ms.
    start = time.process_time()
    for _ in range(RUNS):
        _forget()
        run()
    return round((time.process_time() - start) * 1000 / RUNS, 2)


def _forget() -> None:
    """Forget every parsed text: parsing is measured too."""
    _cut_once.cache_clear()
    units.cache_clear()


def _seconds(base: str, ours: str, theirs: str) -> float:
    start = time.process_time()
    join(cut(base), cut(ours), cut(theirs))
    return round(time.process_time() - start, 2)


def main() -> None:
    """Print the cost of merges."""
    found = asdict(merge_costs())
    for name, seconds in found.pop("worst_s").items():
        print(f"{name}: {seconds} s")
    for name, value in found.items():
        print(f"{name}: {value}")


if __name__ == "__main__":
    main()
