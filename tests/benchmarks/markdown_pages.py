"""How pages are rendered: how long it takes, and how many examples of a specification come out as it says.

    python -m tests.benchmarks.markdown_pages                 # the handbook's pages, and texts made to take long
    python -m tests.benchmarks.markdown_pages --spec FILE     # spec.txt of CommonMark or GFM; --show prints what differs

A specification's examples are not in this repository. CommonMark's: https://spec.commonmark.org/0.31.2/spec.txt, and GFM's:
test/spec.txt of github.com/github/cmark-gfm.
"""

from __future__ import annotations

import argparse
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

from mcp_server.web.markdown.page_parts import PageSlice
from mcp_server.web.markdown.renderer import render

KB = Path(__file__).parents[2] / "kb"
MEGABYTE = 1_000_000
VOID = frozenset({"br", "hr", "img", "input"})
BLOCKS = frozenset("p ul ol li blockquote pre h1 h2 h3 h4 h5 h6 hr table thead tbody tr td th div section".split())  # noqa: SIM905
Node = str | tuple[str, tuple[tuple[str, str], ...], "list[Node]"]


class EveryPage:
    """Links of which each leads to what it names."""

    def page(self, target: str) -> str:
        return target

    def file(self, target: str) -> str:
        return target

    def inside(self, _target: str) -> EveryPage:
        return self

    def embedded(self, _target: str) -> None:
        return None


# --- a specification --------------------------------------------------------------------------------------------------


def examples(path: Path) -> Iterator[tuple[str, str]]:
    """Yield Markdown and HTML of each example of a `spec.txt`."""
    text = path.read_text(encoding="utf-8")
    for found in re.finditer(r"^`{32} example[^\n]*\n(.*?)^\.\n(.*?)^`{32}$", text, re.MULTILINE | re.DOTALL):
        yield found[1].replace("\u2192", "\t"), found[2].replace("\u2192", "\t")


def ours(markdown: str) -> str:
    """Return the page as HTML."""
    page = render(markdown, EveryPage())
    return "".join(block.html for block in page.blocks) + str(page.footnotes)


class Tree(HTMLParser):
    """HTML as a tree, without what only our pages add: elements around blocks and tables, and attributes for browsers."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root: list[Node] = []
        self.open: list[list[Node]] = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        classes = values.get("class", "").split()
        names = ("href", "src", "alt", "title", "start", "checked", "align")
        kept = {name: unquote(values[name]) for name in names if name in values}
        side = next((one for one in ("left", "right", "center") if one in classes), "")
        if side:
            kept["align"] = side
        if tag == "code" and classes:
            kept["class"] = classes[0]
        inner: list[Node] = []
        if tag == "div" and (not classes or classes[0] in ("block", "table")):
            inner = self.open[-1]
        else:
            self.open[-1].append(("s" if tag == "del" else tag, tuple(sorted(kept.items())), inner))
        if tag not in VOID:
            self.open.append(inner)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID and len(self.open) > 1:
            self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].append(data)


def tree(html: str) -> Sequence[Node]:
    """Return the tree of the HTML, with white space only where it shows."""
    parser = Tree()
    parser.feed(html)
    parser.close()
    return _shown(parser.root, pre=False)


def _shown(nodes: Sequence[Node], *, pre: bool) -> list[Node]:
    joined: list[Node] = []
    for node in nodes:
        if isinstance(node, str) and joined and isinstance(joined[-1], str):
            joined[-1] += node
        else:
            joined.append(node)
    shown: list[Node] = []
    for number, node in enumerate(joined):
        if not isinstance(node, str):
            shown.append((node[0], node[1], _shown(node[2], pre=pre or node[0] == "pre")))
            continue
        text = node.rstrip("\n") if pre else re.sub(r"\s+", " ", node)
        if not pre and (not number or _breaks(joined[number - 1])):
            text = text.lstrip()
        if not pre and (number + 1 == len(joined) or _breaks(joined[number + 1])):
            text = text.rstrip()
        if text:
            shown.append(text)
    return shown


def _breaks(node: Node) -> bool:
    return not isinstance(node, str) and (node[0] in BLOCKS or node[0] == "br")


REASONS: Sequence[tuple[str, Callable[[str, str, str], bool]]] = (
    ("HTML that is shown as text", lambda source, _, made: "&lt;" in made and "<" in source),
    (
        "HTML without its attributes, or with the elements that browsers add",
        lambda source, _, __: re.search("<[a-zA-Z]", source) is not None,
    ),
    (
        "an address that is refused or leads nowhere",
        lambda _, __, made: 'class="blocked"' in made or 'class="missing"' in made,
    ),
    (
        "a bare address that is a link",
        lambda source, _, made: "external" in made and ("://" in source or "@" in source),
    ),
    ("a wiki link or tag", lambda source, _, made: "[[" in source or 'class="tag"' in made),
    (
        "a character that is made visible",
        lambda _, __, made: 'class="no-break"' in made or 'class="alike-char"' in made,
    ),
    ("the language of code, shown only if it is a word", lambda source, _, __: source.startswith(("```", "~~~"))),
    ("front matter", lambda source, _, __: source.startswith("---\n---")),
)


def compare(path: Path, *, show: bool) -> None:
    """Print how many examples agree, and why the others differ."""
    counts: Counter[str] = Counter()
    for markdown, html in examples(path):
        made = ours(markdown)
        if tree(made) == tree(html):
            counts["agree"] += 1
            continue
        reason = next((name for name, holds in REASONS if holds(markdown, html, made)), "other")
        counts[reason] += 1
        if show:
            print(f"--- {reason}\n{markdown}\n>>> expected\n{html}\n>>> shown\n{made}\n")
    print(f"{counts.total()} examples")
    for reason, count in counts.most_common():
        print(f"{count:5} {reason}")


# --- time -------------------------------------------------------------------------------------------------------------


def repeated(unit: str, length: int = MEGABYTE) -> str:
    return unit * (length // len(unit))


LONG = {
    "quotes in quotes": repeated(">" * 38 + " x\n\n"),
    "lists in lists": repeated("".join("  " * depth + "- x\n" for depth in range(19))),
    "brackets": repeated("[" * 300 + "\n\n"),
    "emphasis": repeated(("*a_ " * 1000) + "\n\n"),
    "headings": repeated("# a\n"),
    "small tables": repeated("|a|b|\n|-|-|\n|1|2|\n\n"),
    "100,000 cells": "\n".join(["|" + "a|" * 100, "|" + "-|" * 100, *["|" + "a|" * 100] * 1000]),
    "tasks": repeated("- [ ] a\n"),
    "callouts": repeated("> [!note] t\n> a\n\n"),
    "tags of HTML": repeated("x<b><i>" * 100 + "\n\n"),
    "references": "[a]: /" + "x" * 50_000 + "\n\n" + repeated("[a] " * 100 + "\n\n", 900_000),
    "bidirectional": repeated("\u202ea "),
    "one paragraph": repeated("word "),
}


def seconds(text: str, part: PageSlice) -> float:
    """Return the processor time of rendering the text."""
    began = time.process_time()
    render(text, EveryPage(), part=part)
    return time.process_time() - began


def measure() -> None:
    """Print the times."""
    pages = [path.read_text(encoding="utf-8") for path in sorted(KB.rglob("*.md"))]
    whole = PageSlice()
    taken = [(min(seconds(page, whole) for _ in range(3)), len(page)) for page in pages]
    total, characters = sum(one for one, _ in taken), sum(length for _, length in taken)
    print(f"{len(pages)} pages of the handbook, {characters} characters: {total / characters * 1e7:.1f} ms for 10,000")
    print(f"slowest: {max(one / length for one, length in taken) * 1e7:.1f} ms for 10,000")
    joined = "\n\n".join(pages)[:MEGABYTE]
    print(
        f"1 MB of it as one page: {seconds(joined, whole):.2f} s, first part {seconds(joined, PageSlice(most=50_000)):.2f} s"
    )
    for name, text in LONG.items():
        times = f"{seconds(text, whole):6.2f} s, first part {seconds(text, PageSlice(most=50_000)):5.2f} s"
        print(f"{name:20} {len(text):>9} characters {times}")


def main() -> None:
    """Measure, or compare with a specification."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spec", type=Path)
    parser.add_argument("--show", action="store_true")
    given = parser.parse_args()
    if given.spec:
        compare(given.spec, show=given.show)
    else:
        measure()


if __name__ == "__main__":
    main()
