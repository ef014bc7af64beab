"""What a write has broken in a page: looked for after every write, so that it can be taken back. Pure.

Only what was sound before counts. A page may be odd; a write must not make it so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from knowledge.merge.document.links import LinkTargets, broken, links_in, resolve
from knowledge.merge.document.units import cut, front_matter
from knowledge.merge.model import DocumentPiece

_SHOWN = 60
_HTML_ENDS = (
    ("<!--", "-->"),
    ("<script", "</script>"),
    ("<pre", "</pre>"),
    ("<style", "</style>"),
    ("<textarea", "</textarea>"),
    ("<?", "?>"),
    ("<![CDATA[", "]]>"),
)


class _Read(NamedTuple):
    """A page as it reads. `unclosed` is the first line, from 1, of what swallows the rest of it; 0 when nothing does."""

    lines: tuple[str, ...]
    body: int
    keys: bool
    front_problem: str
    headings: Counter[str]
    code: tuple[tuple[int, int], ...]
    unclosed: int


def problems(path: str, before: str | None, after: str, *, names: LinkTargets) -> list[str]:
    """Return what is wrong with a page after a write and was not before, one plain sentence each; empty when all is well.

    `before` is None for a new page; `names` are those after the write.
    """
    old, new = _read(before or ""), _read(after)
    found = [*_signs(before or "", after), *_front(before, old, new), *_swallowed(before, old, new)]
    return found + _lost_headings(old, new) + _links(path, before, after, names)


def _signs(before: str, after: str) -> list[str]:
    found = []
    if "\x00" in after and "\x00" not in before:
        found.append("the page has NUL characters, which no editor shows")
    if "\ufffd" in after and after.count("\ufffd") > before.count("\ufffd"):
        found.append("the page has replacement characters (\ufffd) that were not there: something was decoded wrongly")
    return found


def _front(before: str | None, old: _Read, new: _Read) -> list[str]:
    if new.front_problem and not old.front_problem:
        return [new.front_problem]
    if not old.keys or new.body:
        return []
    head = "\n".join(old.lines[: old.body])
    if before is not None and head in "\n".join(new.lines):
        return ["the front matter does not stand at the beginning of the page any more, so it is read as text"]
    return []


def _swallowed(before: str | None, old: _Read, new: _Read) -> list[str]:
    """Return a sentence about a fence or comment that is not closed any more, if it takes text along that was none before."""
    if before is None or not new.unclosed or old.unclosed:
        return []
    was_text = {line for number, line in enumerate(old.lines) if line.strip() and not _inside(number, old.code)}
    taken = [line for line in new.lines[new.unclosed :] if line in was_text]
    if not taken:
        return []
    opener = _cut(new.lines[new.unclosed - 1].strip())
    return [f"{opener!r} in line {new.unclosed} is never closed, so the rest of the page is no text any more"]


def _inside(number: int, spans: Sequence[tuple[int, int]]) -> bool:
    return any(start <= number < end for start, end in spans)


def _lost_headings(old: _Read, new: _Read) -> list[str]:
    """Return a sentence for every heading whose line is still there and no heading."""
    gone = old.headings - new.headings
    if not gone:
        return []
    was, now = _standing(old.lines, gone), _standing(new.lines, gone)
    return [
        f"{_cut(heading.strip())!r} was a heading and is still there, but as something else"
        for heading in gone
        if now[heading] - new.headings[heading] > was[heading] - old.headings[heading]
    ]


def _standing(lines: Sequence[str], wanted: Counter[str]) -> Counter[str]:
    """Count where these headings are written, as headings or not."""
    found: Counter[str] = Counter()
    for height in {heading.count("\n") + 1 for heading in wanted}:
        for at in range(len(lines) - height + 1):
            written = lines[at] if height == 1 else "\n".join(lines[at : at + height])
            if written in wanted:
                found[written] += 1
    return found


def _links(path: str, before: str | None, after: str, names: LinkTargets) -> list[str]:
    """Return a sentence for every path that a link leads to in vain; links that are as they were are not followed."""
    known = {(link.form, link.path) for link in links_in(before)} if before else set()
    fresh = [link for link in links_in(after) if (link.form, link.path) not in known]
    if not any(resolve(path, link, names) is None for link in fresh):
        return []
    lost = broken(after, path, names) - (broken(before, path, names) if before else set())
    return [f"the link to {_cut(target)!r} leads nowhere" for target in sorted(lost)]


@lru_cache(maxsize=8)
def _read(text: str) -> _Read:
    plain = text.removeprefix("\ufeff")
    if "\r" in plain:
        plain = plain.replace("\r\n", "\n").replace("\r", "\n")
    lines = plain.split("\n")
    front = front_matter(plain)
    pieces = [piece for piece in cut(plain).pieces if piece.kind not in ("front", "blank")]
    headings = Counter(piece.text.removesuffix("\n") for piece in pieces if piece.kind == "heading")
    code = [_span(piece) for piece in pieces if piece.kind in ("fence", "html", "comment")]
    unclosed = _unclosed(lines, pieces[-1]) if pieces else 0
    return _Read(tuple(lines), front.body, bool(front.metadata), front.problem, headings, tuple(code), unclosed)


def _span(piece: DocumentPiece) -> tuple[int, int]:
    """Return the first line of a piece, from 0, and the one after it."""
    return piece.line - 1, piece.line - 1 + piece.text.removesuffix("\n").count("\n") + 1


def _unclosed(lines: Sequence[str], last: DocumentPiece) -> int:
    """Return the line, from 1, of a fence or of HTML that goes on to the end of the page because nothing closes it."""
    start, end = _span(last)
    opener = lines[start].strip()
    if last.kind == "fence":
        mark = opener[: len(opener) - len(opener.lstrip(opener[0]))]
        closer = lines[end - 1].strip() if end - start > 1 else ""
        closed = closer.startswith(mark) and not closer.strip(mark[0])
        return 0 if closed else last.line
    if last.kind == "html":
        inside = last.text.casefold()
        ending = next((end for start, end in _HTML_ENDS if opener.casefold().startswith(start.casefold())), None)
        return last.line if ending and ending.casefold() not in inside else 0
    return 0


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
