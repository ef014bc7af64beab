"""Markdown made to be slow to read, compare or join: one family for each shape that a parser or a merge walks over.

A family takes a size in characters and returns a text of about that size. `marked` varies a text line by line, so that
two versions differ in every line, in one of a hundred, or in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate, count, islice, takewhile

Family = Callable[[int], str]

SIZES = {
    "1 kB": 1_000,
    "4 kB": 4_000,
    "16 kB": 16_000,
    "64 kB": 64_000,
    "256 kB": 256_000,
    "1 MB": 1_000_000,
    "4 MB": 3_900_000,
}


def _lines(size: int, line: Callable[[int], str]) -> str:
    """Return as many lines as fit."""
    made = [line(number) for number in range(max(1, size // max(1, len(line(0)) + 1)))]
    return "\n".join(made)[:size].rstrip("\\") + "\n"


def _repeated(text: str) -> Family:
    return lambda size: text * max(1, size // len(text))


def _as_lines(line: Callable[[int], str], before: str = "") -> Family:
    return lambda size: before + _lines(size, line)


def _nested_list(size: int) -> str:
    """Return items nested as deep as the size allows: the indent alone grows with the square of the depth."""
    depths = takewhile(lambda pair: pair[1] < size, enumerate(accumulate(2 * depth + 4 for depth in count())))
    return "".join(f"{'  ' * depth}- a\n" for depth, _ in depths)


def _nested_on_one_line(size: int) -> str:
    return "".join(islice(_cycle("- ", "1. ", "> "), max(1, size // 3))) + "end\n"


def _cycle(*texts: str) -> Iterator[str]:
    while True:
        yield from texts


def _growing(mark: str, *, least: int = 1, between: str = " a ") -> Family:
    """Return ever longer runs of one mark, so that none closes another."""

    def made(size: int) -> str:
        lengths = takewhile(lambda pair: pair[1] < size, ((n, total) for n, total in _with_total(least, len(between))))
        return "".join(mark * n + between for n, _ in lengths) + "\n"

    return made


def _with_total(least: int, more: int) -> Iterator[tuple[int, int]]:
    total = 0
    for length in count(least):
        total += length + more
        yield length, total


def _front(entry: Callable[[int], str]) -> Family:
    return lambda size: "---\n" + _lines(size, entry) + "---\n\n# Page\n\nText.\n"


def _flow(size: int) -> str:
    return "---\ntags: [" + ", ".join(f"t{n}" for n in range(size // 7)) + "]\n---\n\n# Page\n"


def _nested_flow(size: int) -> str:
    return "---\nkey: " + "[" * (size // 2) + "]" * (size // 2) + "\n---\n\n# Page\n"


def _columns(size: int) -> str:
    cells = max(2, size // 12)
    return f"|{' a |' * cells}\n|{'---|' * cells}\n|{' b |' * cells}\n"


def _nested_quotes(size: int) -> str:
    return ">" * max(1, size - 6) + " end\n"


FAMILIES: Mapping[str, Family] = {
    "equal rows": _as_lines(lambda _: "|a|b|", "|k|v|\n|-|-|\n"),
    "rows nearly equal": _as_lines(lambda n: f"| key {n % 7} | a value {n} |", "| k | v |\n|---|---|\n"),
    "rows of one key": _as_lines(lambda n: f"| key | {n} |", "| k | v |\n|---|---|\n"),
    "columns": _columns,
    "front matter keys": _front(lambda n: f"k{n}: {n}"),
    "one front matter key again and again": _front(lambda _: "k: 1"),
    "a front matter list": _flow,
    "nested front matter": _nested_flow,
    "nested list": _nested_list,
    "nesting on one line": _nested_on_one_line,
    "nested quotes": _nested_quotes,
    "quote lines": _as_lines(lambda n: f"> line {n}"),
    "a quote to every line": _as_lines(lambda n: f"> line {n}\n"),
    "equal items": _as_lines(lambda _: "- equal item"),
    "items nearly equal": _as_lines(lambda n: f"- item {n} of the list"),
    "numbered items": _as_lines(lambda n: f"{n + 1}. the item"),
    "task items": _as_lines(lambda n: f"- [{'x' if n % 2 else ' '}] task {n % 5}"),
    "links": _as_lines(lambda n: f"[a{n}](b{n}.md)"),
    "links on one line": _repeated("[a](b) "),
    "brackets": _repeated("["),
    "bracket pairs": _repeated("[]"),
    "link targets": _repeated("]("),
    "wiki links": _repeated("[[a|b]] "),
    "images": _repeated("![a](b.png)"),
    "references": _as_lines(lambda n: f"[r{n}]: https://example.org/{n}"),
    "uses of references": lambda size: (
        _lines(size // 2, lambda n: f"[r{n}]: /u{n}") + "\n" + _lines(size // 2, lambda n: f"See [a][r{n}].")
    ),
    "footnotes": lambda size: (
        _lines(size // 2, lambda n: f"Text.[^{n}]\n") + _lines(size // 2, lambda n: f"[^{n}]: Note {n}.\n")
    ),
    "emphasis": _repeated("*a **a _a "),
    "delimiter runs": _repeated("*"),
    "underscores": _repeated("a_"),
    "runs of ticks": _growing("`"),
    "equal ticks": _repeated("`a` "),
    "backslashes": _repeated("\\"),
    "entities": _repeated("&amp;"),
    "fences": _as_lines(lambda n: f"```\ncode {n}\n```\n"),
    "growing fences": _growing("`", least=3, between="\n"),
    "an open fence": lambda size: "```\n" + _lines(size, lambda n: f"# line {n}"),
    "headings": _as_lines(lambda n: f"# Heading {n}\n"),
    "equal headings": _as_lines(lambda _: "# A\n"),
    "headings ever deeper": _as_lines(lambda n: f"{'#' * (n % 6 + 1)} Heading {n}\n\nText {n}.\n"),
    "underlined headings": _as_lines(lambda n: f"Heading {n}\n---\n"),
    "a long line": _repeated("Some words of one long line. "),
    "a line of one word": _repeated("a"),
    "a line of blanks": lambda size: "a" + " " * size + "b\n",
    "blank lines": _repeated("\n"),
    "carriage returns": _repeated("\r"),
    "equal lines": _repeated("the same line\n"),
    "equal paragraphs": _repeated("The same paragraph.\n\n"),
    "paragraphs nearly equal": _as_lines(lambda n: f"Paragraph {n} says that the limit is {n} MB.\n"),
    "key lines": _as_lines(lambda n: f"limit {n % 9}: {n}\n"),
    "figures": _repeated("1.2.3-4,5:6 "),
    "versions": _repeated("1."),
    "negations": _repeated("not never no "),
    "open tags": _repeated("<a "),
    "open comments": _repeated("<!-- "),
    "tags": _as_lines(lambda n: f"<div id='{n}'>\n"),
    "attributes": lambda size: "<a " + "b='c' " * (size // 6) + "\n",
    "autolinks": _repeated("<a@b"),
    "Obsidian comments": _repeated("%%\na\n\n"),
    "hash tags": _repeated("#a "),
    "dated entries": _as_lines(lambda n: f"## 2026-{n % 12 + 1:02}-{n % 28 + 1:02}\n\nEntry {n}.\n"),
    "combining marks": _repeated("a" + "\u0301" * 40),
    "bidirectional marks": _repeated("\u202ea\u202c "),
    "emoji": _repeated("\U0001f469\u200d\U0001f4bb "),
    "unspaced script": _repeated("\u6f22\u5b57"),
    "long words": _as_lines(lambda n: f"{'x' * 200}{n}"),
    "tabs": _as_lines(lambda _: "\t- a\tb"),
    "callouts": _as_lines(lambda n: f"> [!note] {n}\n> text\n"),
    "rules": _as_lines(lambda _: "* * *\n"),
    "almost rules": lambda size: "- " * (size // 2) + "a\n",
    "delimiter lines": _as_lines(lambda _: "|-|-|"),
}


def changed(text: str, every: int = 1, word: str = "x") -> str:
    """Return the text with one more word at the end of one in `every` lines (for a text of one line: in its middle)."""
    lines = text.split("\n")
    if len(lines) <= 2:
        middle = len(text) // 2
        return f"{text[:middle]} {word} {text[middle:]}"
    body = [
        f"{line} {word}"
        if number % every == every // 2 and line.strip() and not line.startswith(("---", "|-"))
        else line
        for number, line in enumerate(lines)
    ]
    return "\n".join(body)


def turned(text: str) -> str:
    """Return the lines of the text in reverse."""
    return "\n".join(reversed(text.split("\n")))
