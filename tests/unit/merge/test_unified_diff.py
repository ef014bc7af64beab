"""Diffs show the changes, all of them or with the number of missing lines."""

from __future__ import annotations

import difflib
import re

from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge.merge.unified_diff import unified_diff

LINES = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "\n", "d\r\n", "long " * 5 + "\n"]), max_size=30)
TEXTS = st.tuples(LINES, st.sampled_from(["", "end"])).map(lambda parts: "".join(parts[0]) + parts[1])


def lines_of(text: str) -> list[str]:
    return [line for line in re.split(r"(?<=\n)", text) if line]


def patched(before: str, diff: str) -> str:
    """Apply a unified diff with complete lines."""
    old, new, at = lines_of(before), list[str](), 0
    body = diff.split("\n")[2:]
    for number, line in enumerate(body):
        if line.startswith("@@"):
            head = re.match(r"@@ -(\d+)(?:,(\d+))?", line)
            assert head
            start, count = head.groups()
            begin = int(start) - (count != "0")
            new += old[at:begin]
            at = begin
        elif line.startswith("+"):
            ends = number + 1 < len(body) and body[number + 1].startswith("\\")
            new.append(line[1:] + ("" if ends else "\n"))
        elif not line.startswith("\\"):
            assert old[at].rstrip("\r\n") == line[1:].removesuffix(" (CR LF)")
            new += [old[at]] if line.startswith(" ") else []
            at += 1
    return "".join([*new, *old[at:]])


@settings(max_examples=100)
@given(TEXTS, TEXTS, st.integers(0, 4))
def test_a_diff_applied_gives_what_is_after(before: str, after: str, context: int) -> None:
    diff = unified_diff(before, after, "a.md", context=context)
    assert bool(diff) == (before != after)
    if diff:
        assert patched(before, diff).replace(" (CR LF)\n", "\r\n").replace("\r\n", "\n") == after.replace("\r\n", "\n")


def test_it_reads_as_diffs_do() -> None:
    before, after = "1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\ntwo\n3\n4\n5\nsix\n7\n8\n9"
    theirs = "".join(difflib.unified_diff(lines_of(before), lines_of(after), "notes/a.md", "notes/a.md", n=1))
    ours = unified_diff(before, after, "notes/a.md", context=1)
    assert ours.replace("\n\\ No newline at end of file", "") == theirs
    assert ours.endswith("-9\n+9\n\\ No newline at end of file")


def test_a_line_end_that_changes_is_named() -> None:
    assert "-a (CR LF)\n+a" in unified_diff("a\r\nb\r\n", "a\nb\r\n", "a.md")
    assert "CR LF" not in unified_diff("a\r\nb\r\n", "c\r\nb\r\n", "a.md")


def test_what_is_too_long_is_cut_and_says_how_much_is_missing() -> None:
    before = "".join(f"line {number}\n" for number in range(2_000))
    after = "".join(f"line {number}{'!' * (number % 20 == 0)}\n" for number in range(2_000))
    diff = unified_diff(before, after, "a.md", most_characters=2_000)
    assert len(diff) < 2_200
    shown = sum(line.startswith("+line") for line in diff.split("\n"))
    assert diff.endswith(
        f"... {100 - shown} changed places are not shown in full (+{100 - shown} -{100 - shown} lines)"
    )
    rewritten = unified_diff(before, after.replace("line", "row"), "a.md", most_characters=2_000)
    assert len(rewritten) < 2_300
    assert rewritten.endswith(
        "... 1 changed place is not shown in full (+2000 -2000 lines); the first one is cut off above"
    )
    assert len(unified_diff("", "x" * 10**6, "a.md")) < 1_000
