"""Text that others wrote, as it may be shown: nothing in it acts, hides, or poses as something else. Pure.

Source: Unicode Technical Report 36, "Unicode Security Considerations", and ECMA-48 for control characters.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby

from markupsafe import Markup, escape

from mcp_server.web.text.confusables import alike

MOST_NAMED = 16
"""Kinds of invisible characters that are named one by one in a run of them."""
MOST_TITLES = 2_000
"""Marks of one text that carry their characters' names; more would only make a hostile text heavier."""
TIMES = "\N{MULTIPLICATION SIGN}"
SHORTEST_MESSAGE = 4
"""So many tag characters or variation selectors in a row may spell something."""

INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufdd0-\ufdef\ufff0-\ufffb\ufffe\uffff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Characters that nobody sees, or that turn others round: what stands between the brackets of a pattern."""
_SPACES = "\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000"
_CONTROLS = "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"
_STACKING = "\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"
_HIDDEN = re.compile(
    f"(?P<unseen>(?:[{_CONTROLS}{INVISIBLE}{_SPACES}\ud800-\udfff]|\r(?!\n|\\Z))+)"
    f"|(?P<stack>[{_STACKING}]{{4,}})"
    "|(?P<gap>(?<![ \t])[ \t]{40,}+(?=[^ \t\n]))"
)
_LINES = re.compile(r"[\t\n\r]+")
_JOINING = frozenset({"\ufe0e", "\ufe0f", "\u200d", "\ufe0f\u200d"})
"""What stands between the parts of an emoji, or after it."""
_CONTROL_NAMES = {
    0x00: "NULL",
    0x07: "BELL",
    0x08: "BACKSPACE",
    0x09: "TAB",
    0x0A: "LINE FEED",
    0x0D: "CARRIAGE RETURN",
}
_CONTROL_NAMES |= {0x1B: "ESCAPE", 0x7F: "DELETE", 0x85: "NEXT LINE", 0x9B: "CONTROL SEQUENCE INTRODUCER"}

Span = tuple[int, int]

_TITLED = Markup('<span class="{0}" title="{2}">{1}</span>')
_UNTITLED = Markup('<span class="{0}">{1}</span>')
_TAGS = {tag: (Markup(f"<{tag}>"), Markup(f"</{tag}>")) for tag in ("mark", "ins", "del")}  # noqa: S704 - tags that we name


@dataclass(frozen=True, slots=True)
class CharacterMark:
    """A stretch of a text that is not shown as it is. `shown` takes its place; `title` says what it is."""

    start: int
    end: int
    kind: str
    shown: str
    title: str


def sanitize(text: str, emphasised: Sequence[Span] = (), *, tag: str = "mark") -> Markup:
    """Return `text` as HTML in which every character is seen, line ends kept, and the `emphasised` spans are in a `tag`."""
    return _rendered(text, marks(text), emphasised, tag)


def sanitize_line(text: str) -> Markup:
    """Return `text` as HTML for a place that has one line: its line ends and tabs are marked too."""
    breaks = [_mark(m.start(), m.end(), m.group()) for m in _LINES.finditer(text)]
    return _rendered(text, sorted([*marks(text), *breaks], key=lambda mark: mark.start), (), "mark")


def marks(text: str) -> list[CharacterMark]:
    """Return what of `text` cannot be shown as it is, in its order, none overlapping."""
    hidden = list(_hidden(text))
    posing = [_posing(text, at, like) for at, like in alike(text).items()]
    return sorted([*hidden, *posing], key=lambda mark: mark.start) if posing else hidden


def has_hidden(text: str) -> bool:
    """Return whether a character of `text` would not be seen if it were shown as it is."""
    return next(_hidden(text), None) is not None


def spelled_out(text: str) -> str:
    """Return `text` as plain text in which every character is seen, for a form that is no page of ours."""
    said, at = [], 0
    for mark in marks(text):
        said += [text[at : mark.start], mark.shown]
        at = mark.end
    return "".join([*said, text[at:]])


def escaped(text: str) -> str:
    """Return JSON `text` in which escapes stand for what would not be seen: it still means the same."""
    return _HIDDEN.sub(lambda match: match.group() if match["gap"] else _escapes(match.group()), text)


def _escapes(text: str) -> str:
    units = text.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def _hidden(text: str) -> Iterator[CharacterMark]:
    for match in _HIDDEN.finditer(text):
        start, end = match.span()
        if match["unseen"] is None:
            what = "combining marks" if match["stack"] else "blanks"
            yield CharacterMark(start, end, "hidden-char", f"⟦{end - start} {what}⟧", f"{end - start} {what} in a row")
        elif not _joins(text, start, end):
            yield _mark(start, end, match["unseen"])


def _joins(text: str, start: int, end: int) -> bool:
    """Return whether this is what holds an emoji together, and nothing else."""
    if text[start:end] not in _JOINING or not start or unicodedata.category(text[start - 1]) not in ("So", "Sk"):
        return False
    return text[end - 1] != "\u200d" or (end < len(text) and unicodedata.category(text[end]) == "So")


def _mark(start: int, end: int, run: str) -> CharacterMark:
    return CharacterMark(start, end, "hidden-char", *_told(run))


@lru_cache(maxsize=1000)
def _told(run: str) -> tuple[str, str]:
    """Return what is shown in place of a run of invisible characters, and what it is."""
    spelled = _message(run)
    if spelled is not None:
        what, said = spelled[0], "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in spelled[1])
        return f"⟦{len(run)} {what}: “{said}”⟧", f"{len(run)} {what} that spell a text"
    groups = [(character, len(list(same))) for character, same in groupby(run)]
    named = " ".join(
        _code(character) + (f" {TIMES} {count}" if count > 1 else "") for character, count in groups[:MOST_NAMED]
    )
    shown = named if len(groups) <= MOST_NAMED else f"{len(run)} invisible characters: {named} …"
    title = ", ".join(dict.fromkeys(f"{_code(c)} {_name(c)}" for c, _ in groups[:MOST_NAMED]))
    return f"⟦{shown}⟧", title


def _message(run: str) -> tuple[str, str] | None:
    """Return what a run of tag characters or variation selectors spells, None if it spells nothing.

    Source: both are in use to smuggle text past people: a tag is an ASCII character moved up, a selector may stand for a byte.
    """
    if len(run) < SHORTEST_MESSAGE:
        return None
    codes = [ord(character) for character in run]
    if all(0xE0000 <= code <= 0xE007F for code in codes):
        return "tag characters", "".join(chr(code - 0xE0000) for code in codes if code >= 0xE0020)
    if all(0xFE00 <= code <= 0xFE0F or 0xE0100 <= code <= 0xE01EF for code in codes):
        raw = bytes(code - 0xFE00 if code <= 0xFE0F else code - 0xE0100 + 16 for code in codes)
        return "variation selectors", raw.decode("utf-8", "replace")
    return None


def _posing(text: str, at: int, like: str) -> CharacterMark:
    return CharacterMark(at, at + 1, "alike-char", *_told_of(text[at], like))


@lru_cache(maxsize=1000)
def _told_of(character: str, like: str) -> tuple[str, str]:
    code = _code(character)
    return f"{character}⟦{code}⟧", f"{code} {_name(character)}, reads like {like}"


def _code(character: str) -> str:
    return f"U+{ord(character):04X}"


def _name(character: str) -> str:
    code = ord(character)
    unnamed = "CONTROL" if unicodedata.category(character) == "Cc" else "UNNAMED CHARACTER"
    return _CONTROL_NAMES.get(code, unicodedata.name(character, unnamed))


def _rendered(text: str, found: Sequence[CharacterMark], emphasised: Sequence[Span], tag: str) -> Markup:
    titled = len(found) <= MOST_TITLES
    opened, closed = _TAGS[tag]
    html: list[Markup] = []
    at = 0
    for start, end in emphasised:
        html.extend(_parts(text, (at, start), found, titled=titled))
        html.append(opened)
        html.extend(_parts(text, (start, end), found, titled=titled))
        html.append(closed)
        at = end
    html.extend(_parts(text, (at, len(text)), found, titled=titled))
    return Markup("").join(html)


def _parts(text: str, span: Span, found: Sequence[CharacterMark], *, titled: bool) -> Iterator[Markup]:
    """Yield the HTML of a stretch of the text. A mark that crosses its border belongs to where it begins."""
    at, end = span
    first = bisect_left(found, at, key=lambda mark: mark.start)
    if first and found[first - 1].end > at:
        at = min(found[first - 1].end, end)
    for index in range(first, bisect_left(found, end, key=lambda mark: mark.start)):
        mark = found[index]
        yield _plain(text[at : mark.start])
        yield _span(mark.kind, mark.shown, mark.title if titled else None)
        at = min(mark.end, end)
    yield _plain(text[at:end])


@lru_cache(maxsize=1000)
def _span(kind: str, shown: str, title: str | None) -> Markup:
    return _UNTITLED.format(kind, shown) if title is None else _TITLED.format(kind, shown, title)


def _plain(text: str) -> Markup:
    # Browsers take a lone CR for a line end; the ones that are not part of one are marked.
    return escape(text.replace("\r", ""))
