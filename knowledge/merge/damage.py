"""Finds damage that a write did to a page, so that the write can be undone or its sender warned. Pure.

Only damage to something that was sound before counts: a write is not blamed for faults that the page already had.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from knowledge.merge.document.link_spans import links_in
from knowledge.merge.document.links import broken_links, resolve
from knowledge.merge.document.units import BOM, cut, front_matter
from knowledge.merge.model import DocumentPiece
from knowledge.pages.links import LinkTargets

_SHOWN = 60
_HTML_ENDS = {
    "<!--": "-->",
    "<script": "</script>",
    "<pre": "</pre>",
    "<style": "</style>",
    "<textarea": "</textarea>",
    "<?": "?>",
    "<![cdata[": "]]>",
}
"""The starts of HTML blocks that a blank line does not end, and their ends; case-folded."""


class _PageReading(NamedTuple):
    """The parts of a page that a write can damage; `unclosed` is the line of an unclosed block, from 1, or 0 for none."""

    lines: tuple[str, ...]
    body: int
    has_keys: bool
    front_problem: str
    headings: Counter[str]
    code: tuple[tuple[int, int], ...]
    unclosed: int


class PageDamage(NamedTuple):
    """The damage that a write has done to a page, one plain sentence each.

    `broken` damage makes the page unreadable for a program or an editor. `doubtful` damage may be intended: links to missing
    pages, unclosed code, headings inside code.
    """

    broken: Sequence[str]
    doubtful: Sequence[str]


def find_damage(path: str, before: str | None, after: str, *, names: LinkTargets) -> PageDamage:
    """Return the damage of a write; empty when the page is as sound as before.

    `before` is the page's old text, None for a new page, and `after` its new text. `names` finds the targets of links
    as they are after the write.
    """
    old, new = _read(before or ""), _read(after)
    swallowed = _swallowed_text(before, old, new)
    broken = [*_broken_characters(before or "", after), *_broken_front_matter(before, old, new)]
    return PageDamage(broken, [*swallowed, *_lost_headings(old, new), *_broken_links(path, before, after, names)])


def _broken_characters(before: str, after: str) -> list[str]:
    found = []
    if "\x00" in after and "\x00" not in before:
        found.append("the page has NUL characters, which no editor shows")
    if "\ufffd" in after and after.count("\ufffd") > before.count("\ufffd"):
        found.append(
            "the page has replacement characters (\ufffd) that were not there before: text was decoded incorrectly"
        )
    return found


def _broken_front_matter(before: str | None, old: _PageReading, new: _PageReading) -> list[str]:
    if new.front_problem and not old.front_problem:
        return [new.front_problem]
    if before is None or not old.has_keys or new.body:
        return []
    # Removing front matter is not damage; front matter that is still there, but further down, is.
    moved = "\n".join(old.lines[: old.body]) in "\n".join(new.lines)
    return ["the front matter is no longer at the beginning of the page, so it is read as text"] if moved else []


def _swallowed_text(before: str | None, old: _PageReading, new: _PageReading) -> list[str]:
    """Return a sentence about a fence or comment that is no longer closed, if it swallows what was text before."""
    if before is None or not new.unclosed or old.unclosed:
        return []
    code = {number for start, end in old.code for number in range(start, end)}
    was_text = {line for number, line in enumerate(old.lines) if line.strip() and number not in code}
    if was_text.isdisjoint(new.lines[new.unclosed :]):
        return []
    opener = _cut(new.lines[new.unclosed - 1].strip())
    return [f"{opener!r} in line {new.unclosed} is never closed, so the rest of the page is no longer read as text"]


def _lost_headings(old: _PageReading, new: _PageReading) -> list[str]:
    """Return a sentence for every heading whose line is still there but is no longer a heading."""
    gone = old.headings - new.headings
    if not gone:
        return []
    # Only if the line is there as something else more often than before: `# a` may also be a comment in code.
    was, now = _count_lines(old.lines, gone), _count_lines(new.lines, gone)
    return [
        f"{_cut(heading.strip())!r} was a heading; its line is still there, but no longer a heading"
        for heading in gone
        if now[heading] - new.headings[heading] > was[heading] - old.headings[heading]
    ]


def _count_lines(lines: Sequence[str], wanted: Counter[str]) -> Counter[str]:
    """Return how often each heading in `wanted` occurs in `lines`, as a heading or as other text.

    An underlined heading is two lines or more.
    """
    found: Counter[str] = Counter()
    for height in {heading.count("\n") + 1 for heading in wanted}:
        for at in range(len(lines) - height + 1):
            written = lines[at] if height == 1 else "\n".join(lines[at : at + height])
            if written in wanted:
                found[written] += 1
    return found


def _broken_links(path: str, before: str | None, after: str, names: LinkTargets) -> list[str]:
    """Return a sentence for each link target that no longer exists; links that the write did not change are not checked."""
    known = {(link.form, link.path) for link in links_in(before)} if before else set()
    # An index page has thousands of links, and checking one reads the disk.
    fresh = [link for link in links_in(after) if (link.form, link.path) not in known]
    if not any(resolve(path, link, names) is None for link in fresh):
        return []
    lost = broken_links(after, path, names) - (broken_links(before, path, names) if before else set())
    return [f"the link to {_cut(target)!r} leads nowhere" for target in sorted(lost)]


@lru_cache(maxsize=8)
def _read(text: str) -> _PageReading:
    plain = text.removeprefix(BOM).replace("\r\n", "\n").replace("\r", "\n")
    lines = plain.split("\n")
    front = front_matter(plain)
    pieces = [piece for piece in cut(plain).pieces if piece.kind not in ("front", "blank")]
    headings = Counter(piece.text.removesuffix("\n") for piece in pieces if piece.kind == "heading")
    code = tuple(_span(piece) for piece in pieces if piece.kind in ("fence", "html", "comment"))
    unclosed = _unclosed(lines, pieces[-1]) if pieces else 0
    return _PageReading(tuple(lines), front.body, bool(front.metadata), front.problem, headings, code, unclosed)


def _span(piece: DocumentPiece) -> tuple[int, int]:
    """Return the first line of a piece, from 0, and the one after it."""
    return piece.line - 1, piece.line + piece.text.removesuffix("\n").count("\n")


def _unclosed(lines: Sequence[str], last: DocumentPiece) -> int:
    """Return the line, from 1, where the last piece begins if nothing closes it, else 0."""
    start, end = _span(last)
    opener = lines[start].strip()
    closed = True
    if last.kind == "fence":
        mark = opener[: len(opener) - len(opener.lstrip(opener[0]))]
        closer = lines[end - 1].strip() if end - start > 1 else ""
        closed = closer.startswith(mark) and not closer.strip(mark[0])
    elif last.kind == "html":
        endings = (ending for begin, ending in _HTML_ENDS.items() if opener.casefold().startswith(begin))
        closed = next(endings, "") in last.text.casefold()
    return 0 if closed else last.line


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
