"""One side for each conflict of a way back: the chosen text is written, the others stay, and nothing else changes."""

from __future__ import annotations

import itertools
import random

import pytest

from knowledge.merge.document.units import cut
from knowledge.merge.three_way.join import join
from knowledge.writing.undo.conflict_sides import take_sides

PAGES = {
    "paragraphs": "# Tea\n\nIt takes {} minutes in it.\n\n## Cups\n\nThere are {} cups there.\n\nThe lid has {} holes.\n",
    "items": "- The pot is blue.\n- It takes {} minutes in it.\n- It is hot.\n- There are {} cups there.\n- The lid has {} holes.\n",
    "nested": "- Pot\n  - Blue.\n  - It takes {} minutes in it.\n- Shelf\n  1. There are {} cups on it.\n  2. The lid has {} holes.\n",
    "tasks": "- [x] Buy tea\n- [ ] Steep it {} minutes\n- [ ] Drink it\n- [x] Wash {} cups\n\nDone {} times.\n",
    "table": "| thing | count |\n| --- | --- |\n| minutes | {} |\n| cups | {} |\n| holes | {} |\n",
    "front matter": "---\ntitle: Tea {}\nstatus: v{}\n---\n# Tea\n\nThe lid has {} holes.\n",
    "headings": "# Tea {}\n\nText.\n\n## Cups {}\n\nMore.\n\n## Lid {}\n\nEnd.",
    "code": "```\nsteep {} minutes\n```\n\nText between the two.\n\n```\nwash {} cups\n```\n\n> {} holes in the lid\n",
}
WORDS = ["".join(pair) for pair in zip("bdfgklmnprst" * 40, "aeiou" * 96, strict=True)]


def sides(page: str, before: int, after: int, now: int) -> tuple[str, str, str]:
    """Return the page before a change of three numbers, after it, and after a later change of the same numbers."""
    return tuple(page.format(*(count + at for at in range(3))) for count in (before, after, now))  # type: ignore[return-value]


@pytest.mark.parametrize("kind", list(PAGES))
@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_each_conflict_takes_the_side_chosen_for_it(kind: str, ends: str) -> None:
    page = PAGES[kind].replace("\n", ends)
    before, after, now = sides(page, 10, 20, 30)
    joined = join(cut(after), cut(now), cut(before))
    # Items that are next to each other can be one conflict.
    assert len(joined.conflicts) > 1
    for wanted in itertools.product([False, True], repeat=len(joined.conflicts)):
        numbers = [
            10 + at
            if any(w and str(10 + at) in c.theirs for w, c in zip(wanted, joined.conflicts, strict=True))
            else 30 + at
            for at in range(3)
        ]
        assert take_sides(after, now, before, joined, wanted) == (page.format(*numbers), wanted)


def test_a_paragraph_that_was_removed_comes_back_where_it_was_and_another_one_stays_as_it_is() -> None:
    after = "# Tea\n\nIt takes five minutes in it.\n\n## Cups\n\nThere are seven cups there.\n"
    now = "# Tea\n\n## Cups\n\nThere are eight cups there.\n"
    before = after.replace("five", "two").replace("seven", "six")
    joined = join(cut(after), cut(now), cut(before))
    assert [one.ours for one in joined.conflicts] == ["", "There are eight cups there.\n"]
    text, taken = take_sides(after, now, before, joined, [True, False])
    assert (text, taken) == (before.replace("six", "eight"), [True, False])


def test_a_side_is_written_as_chosen_or_its_conflict_stays() -> None:
    """Holds for whatever people and hosts do to a page."""
    for seed in range(300):
        draw = random.Random(seed)  # noqa: S311 - a test's random pages, the same in every run
        base = "\n".join(drawn(draw) for _ in range(5))
        now, before = changed(draw, base), changed(draw, base)
        joined = join(cut(base), cut(now), cut(before))
        wanted = [draw.random() < 0.5 for _ in joined.conflicts]
        text, taken = take_sides(base, now, before, joined, wanted)
        assert all(wants or not takes for wants, takes in zip(wanted, taken, strict=True))
        lines = {*text.splitlines(), ""}
        if not any(taken):
            assert text == joined.text
        for conflict, takes in zip(joined.conflicts, taken, strict=True):
            # The content of an item is a conflict without its marker.
            for line in (conflict.theirs if takes else conflict.ours).splitlines():
                assert line in lines or any(one.endswith(line) for one in lines)


def drawn(draw: random.Random) -> str:
    lines = [f"{' '.join(draw.choices(WORDS, k=7))} {draw.randint(100, 999)}." for _ in range(draw.randint(1, 3))]
    if draw.random() < 0.5:
        return "".join(f"- {line}\n" for line in lines)
    return "".join(f"{line}\n" for line in lines)


def changed(draw: random.Random, page: str) -> str:
    lines = page.split("\n")
    for _ in range(3):
        at = draw.randrange(len(lines))
        if draw.random() < 0.2:
            del lines[at]
            lines = lines or [""]
        elif words := lines[at].split(" "):
            words[-1] = f"{draw.randint(100, 999)}." if len(words) > 2 else words[-1]
            lines[at] = " ".join(words)
    return "\n".join(lines)
