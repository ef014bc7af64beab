"""A text too long for one message is cut where it hurts least, and loses nothing."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from mcp_server.connectors.zulip.text.message_parts import Unsplittable, split

WORD = re.compile(r"w\d+")
OPENING = re.compile(r"(`{3,}|~{3,}) *(?:\{?\.?([a-zA-Z0-9_+\-,./#]+) *(?:[^ ~`][^~`]*)?\}?)?")


def fences_left_open(text: str) -> list[str]:
    """Return the marks of the fences that are open at the end, as Zulip reads them.

    Source: zerver/lib/markdown/fenced_code.py, by a walk that shares nothing with the code under test.
    """
    marks: list[tuple[str, bool]] = []
    for line in text.expandtabs(4).split("\n"):
        if marks and line.rstrip() == marks[-1][0]:
            marks.pop()
        elif not marks or marks[-1][1]:
            match = OPENING.fullmatch(line)
            if match:
                marks.append((match[1], (match[2] or "").lower() in ("quote", "quoted", "spoiler")))
    return [mark for mark, _ in marks]


def words(count: int, first: int = 0) -> str:
    return " ".join(f"w{number}" for number in range(first, first + count))


def test_a_text_that_fits_is_left_unchanged() -> None:
    text = "  one\n\n\n```python\nopen\n"
    assert split(text, len(text)) == (text,)


def test_paragraphs_stay_whole() -> None:
    paragraphs = [words(12, 100 * number) for number in range(1, 7)]
    parts = split("\n\n".join(paragraphs), 120)
    assert parts == tuple("\n\n".join(paragraphs[number : number + 2]) for number in (0, 2, 4))


def test_a_block_of_code_that_fits_stays_whole() -> None:
    code = "```python\n" + "\n".join(f"w{number}" for number in range(20)) + "\n```"
    parts = split(f"{words(10)}\n\n{code}\n\n{words(10, 50)}", 120)
    assert any(code in part for part in parts)


def test_a_block_of_code_that_does_not_fit_is_closed_and_opened_again_with_its_language() -> None:
    code = "\n".join(f"    w{number} = {number}" for number in range(40))
    parts = split(f"~~~~ {{.python}}\n{code}\n~~~~", 200)
    assert len(parts) > 2
    assert all(part.startswith("~~~~ {.python}\n    w") and part.endswith("\n~~~~") for part in parts)
    assert "\n".join(part.removeprefix("~~~~ {.python}\n").removesuffix("\n~~~~") for part in parts) == code


def test_code_in_a_quote_is_opened_again_with_the_quote() -> None:
    text = "````quote\nHamlet wrote:\n```js\n" + "\n".join(f"w{number};" for number in range(40)) + "\n```\n````"
    parts = split(text, 120)
    assert all(part.endswith("\n```\n````") for part in parts)
    assert all(part.startswith("````quote\n```js\n") for part in parts[1:])


def test_a_spoiler_and_math_keep_their_first_line() -> None:
    lines = "\n".join(words(5, 10 * number) for number in range(12))
    assert all(part.startswith("```spoiler The end\n") for part in split(f"```spoiler The end\n{lines}\n```", 120))
    assert all(part.startswith("```math\n") for part in split(f"```math\n{lines}\n```", 120))


def test_a_fence_of_the_same_mark_within_a_quote_is_a_separate_fence() -> None:
    """Source: QuoteHandler in zerver/lib/markdown/fenced_code.py: a line that closes no fence may open one."""
    text = "```quote\n```py\n" + "\n".join(f"w{number}" for number in range(30)) + "\n```\nand\n```\n\nafter"
    parts = split(text, 80)
    assert all(not fences_left_open(part) for part in parts)
    assert any(part.endswith("\n```\nand\n```") for part in parts)


def test_a_list_is_cut_between_its_items() -> None:
    items = [
        f"- {words(8, 20 * number)}\n  {words(6, 20 * number + 8)}\n  - {words(3, 20 * number + 14)}"
        for number in range(6)
    ]
    parts = split("\n".join(items), 200)
    assert len(parts) > 1
    assert all(part.startswith("- w") for part in parts)


def test_a_table_is_cut_between_its_rows_and_keeps_its_head() -> None:
    head = "| name | value |\n|:---|---:|"
    rows = [f"| w{number} | {number} |" for number in range(30)]
    parts = split(f"{head}\n" + "\n".join(rows), 150)
    assert all(part.startswith(f"{head}\n| w") for part in parts)
    assert [row for part in parts for row in part.split("\n")[2:]] == rows


def test_a_heading_stays_with_its_text() -> None:
    text = f"{words(14)}\n\n## Title\n\n{words(14, 50)}"
    assert split(text, 75) == (words(14), f"## Title\n\n{words(14, 50)}")


def test_a_line_is_cut_between_words_and_a_quoted_one_stays_quoted() -> None:
    parts = split("> " + words(60), 100)
    assert all(part.startswith("> w") for part in parts)
    assert WORD.findall(" ".join(parts)) == WORD.findall(words(60))


@pytest.mark.parametrize(
    "whole", ["@**King Hamlet of Denmark**", "[the long text of a link](https://example.com/a)", "`some code here`"]
)
def test_text_that_would_lose_its_meaning_is_not_cut(whole: str) -> None:
    for before in range(70, 100):
        assert any(whole in part for part in split("x" * 10 + " " + "y" * (before - 11) + " " + whole + " z" * 50, 100))


def test_a_word_that_is_too_long_is_cut_between_characters() -> None:
    assert split("я" * 25, 10) == ("я" * 10, "я" * 10, "я" * 5)
    family = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
    assert "".join(split(family * 9, 12)) == family * 9
    assert all(part.startswith("\U0001f468") for part in split(family * 9, 12))


def test_no_cut_makes_a_fence_out_of_words() -> None:
    for before in range(80, 100):
        parts = split("x" * before + " ``` " + words(40), 100)
        assert all(not fences_left_open(part) for part in parts)


def test_repeated_lines_may_leave_no_room() -> None:
    with pytest.raises(Unsplittable):
        split("```spoiler " + "long " * 15 + "\n" + words(60) + "\n```", 100)
    with pytest.raises(Unsplittable):
        split("`" * 250, 100)
    with pytest.raises(Unsplittable):
        split("```quote\n" * 2_000 + words(20), 10_000)


@pytest.mark.parametrize(
    "text",
    [
        "| - " * 25_000,
        "```" + "a" * 100_000,
        "[" * 100_000,
        "`" * 9 + " x`" * 30_000,
        "\n" * 99_999 + "x",
        "- a\n" * 25_000,
        " " * 99_999 + "x",
        "x" + " " * 50_000 + "```" + "y" * 40_000,
        "```\n" + "\t" * 90_000 + "x\n```",
    ],
    ids=["dashes", "kind", "brackets", "ticks", "gaps", "items", "blanks", "blanks before a mark", "blanks in a fence"],
)
def test_hostile_texts_are_cut_fast(text: str) -> None:
    begun = time.process_time()
    try:
        assert all(len(part) <= 10_000 for part in split(text, 10_000))
    except Unsplittable:
        assert text.startswith(("```", " ", "x "))
    assert time.process_time() - begun < 3


@st.composite
def documents(draw: st.DrawFn) -> str:
    """Draw a text of blocks in which each word is unique, so that it shows where each went."""
    number = iter(range(100_000))

    def some(most: int) -> str:
        return " ".join(f"w{next(number)}" for _ in range(draw(st.integers(1, most))))

    def block(depth: int) -> str:
        kinds = ["paragraph", "lines", "list", "table", "code", "heading", "quoted", "gap"]
        kind = draw(st.sampled_from(kinds + ["quote", "spoiler"] * (depth < 2)))
        count = range(draw(st.integers(1, 6)))
        mark = draw(st.sampled_from(["```", "~~~", "````"]))
        if kind == "lines":
            return "\n".join(some(6) for _ in count)
        if kind == "list":
            return "\n".join(
                f"{'  ' * draw(st.integers(0, 2))}{draw(st.sampled_from(['- ', '1. ']))}{some(9)}" for _ in count
            )
        if kind == "table":
            return "\n".join(["| head | of |", "|---|---|", *(f"| {some(3)} | {some(3)} |" for _ in count)])
        if kind == "code":
            closing = f"\n{mark}" if draw(st.integers(0, 9)) else ""
            return (
                f"{mark}{draw(st.sampled_from(['', 'python', ' {.js}', 'math']))}\n"
                + "\n".join(some(7) for _ in count)
                + closing
            )
        if kind in ("quote", "spoiler"):
            inner = "\n\n".join(block(depth + 1) for _ in count)
            return f"{mark}{kind}{' Title' if kind == 'spoiler' else ''}\n{inner}\n{mark}"
        return {"heading": "## ", "quoted": "> ", "gap": "\n\n"}.get(kind, "") + some(25)

    joins = st.sampled_from(["\n\n", "\n", "\n\n\n"])
    return "".join(block(0) + draw(joins) for _ in range(draw(st.integers(1, 8))))


@settings(max_examples=100)
@given(documents(), st.integers(60, 400))
def test_no_part_is_too_long_nothing_is_lost_or_doubled_and_every_fence_is_closed(text: str, longest: int) -> None:
    try:
        parts = split(text, longest)
    except Unsplittable:
        reject()
    assert all(len(part) <= longest for part in parts)
    assert WORD.findall("\n".join(parts)) == WORD.findall(text)
    assert all(part.strip() for part in parts) or len(parts) == 1
    if len(parts) > 1:
        assert [fences_left_open(part) for part in parts] == [[] for _ in parts]
        assert all(part == part.rstrip() and not part.startswith("\n") for part in parts)


@settings(max_examples=100)
@given(st.text(st.sampled_from("ab `~|-#>\n\t\u0301*_[]()."), max_size=400), st.integers(20, 120))
def test_any_text_keeps_its_characters(text: str, longest: int) -> None:
    try:
        parts = split(text, longest)
    except Unsplittable:
        reject()
    assert all(len(part) <= longest for part in parts)
    said = re.findall("[ab]", "".join(parts))
    assert len(said) >= len(re.findall("[ab]", text))
    if "`" not in text and "~" not in text and "|" not in text:
        assert said == re.findall("[ab]", text)
