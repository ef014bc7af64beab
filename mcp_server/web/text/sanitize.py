"""Show text that others wrote, so that nothing in it acts, hides, or poses as something else. Pure.

A person decides by what they see. The author of a proposal may try to make them see something other than what is
written; each table below says which attack it stops. Characters that cannot be seen are shown as their names in
brackets, `⟦U+200B⟧`.

Source: Unicode Technical Report 36, "Unicode Security Considerations"; Boucher, Anderson, "Trojan Source" (CVE-2021-42574);
ECMA-48 for control characters.
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

from mcp_server.web.text.confusables import lookalikes

MOST_NAMED = 16
"""Invisible characters of one run that are named one by one; a run of thousands would push the rest off the page."""
MOST_TITLES = 2_000
"""The most marks of a text that get tooltips. With more, none does, because a hostile text would make the page too heavy to open."""
TIMES = "\N{MULTIPLICATION SIGN}"
SHORTEST_MESSAGE = 4
"""The shortest run of tag characters or variation selectors that may spell a text."""

INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufdd0-\ufdef\ufff0-\ufffb\ufffe\uffff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Characters without a picture, as the inside of a character class.

Some carry text that a model reads and people don't see. Some split a word so that no search finds it. Some (U+202A to U+202E,
U+2066 to U+2069) reverse the order in which the text around them is shown: "Trojan Source".
"""
# They look like a blank, and separate no words for a shell.
_SPACES = "\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000"
_NO_BREAK = frozenset("\u00a0\u202f")
"""Spaces that typographers put into honest text, as in 10 km or before a French question mark."""
MOST_NO_BREAK = 2
"""No-break spaces in a row that raise no alarm. More of them are no typography, and can push text out of sight."""
OPEN_BOX = "\u237d"
"""The sign for a no-break space (ISO/IEC 9995-7) in plain text: a command with one in place of a blank does something else."""
# ESC and CSI move the cursor of a terminal, change its title and can make it type; BACKSPACE overwrites.
_CONTROLS = "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"
# Marks above and below a letter. Dozens of them cover the lines around it.
_STACKING = "\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"
# A lone CR makes a terminal write the rest of a line over its beginning. Half of a surrogate pair breaks encoders. Many blanks
# push what follows out of the visible part of a line.
_HIDDEN = re.compile(
    f"(?P<unseen>(?:[{_CONTROLS}{INVISIBLE}{_SPACES}\ud800-\udfff]|\r(?!\n|\\Z))+)"
    f"|(?P<stack>[{_STACKING}]{{4,}})"
    "|(?P<gap>(?<![ \t])[ \t]{40,}+(?=[^ \t\n]))"
)
_LINES = re.compile(r"[\t\n\r]+")
_JOINING = frozenset({"\ufe0e", "\ufe0f", "\u200d", "\ufe0f\u200d"})
"""Characters that join the parts of an emoji, or follow it."""
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
    """A stretch of a text that is not shown as it is. `shown` is shown in its place, `title` is the tooltip.

    Its `kind` is `hidden-char` or `alike-char`, which pages warn about, or `no-break`, for which they only have a tooltip.
    """

    start: int
    end: int
    kind: str
    shown: str
    title: str


def sanitize(text: str, emphasised: Sequence[Span] = (), *, tag: str = "mark") -> Markup:
    """Return `text` as HTML in which every character is visible. Line ends are kept; `emphasised` spans are in a `tag`."""
    return _rendered(text, marks(text), emphasised, tag)


class VisibleText:
    """A text that becomes HTML stretch by stretch, because formatting divides it. Its look-alikes are judged by the whole text."""

    def __init__(self, text: str) -> None:
        self._text, self._found = text, marks(text)

    def html(self, start: int, end: int) -> Markup:
        """Return a stretch of the text as HTML in which every character is visible."""
        return Markup("").join(_parts(self._text, (start, end), self._found, titled=len(self._found) <= MOST_TITLES))


def sanitize_line(text: str) -> Markup:
    """Return `text` as HTML for a place of one line, in which line ends and tabs are marked too."""
    breaks = [_mark(*match.span(), match.group()) for match in _LINES.finditer(text)]
    return _rendered(text, sorted([*marks(text), *breaks], key=lambda mark: mark.start), (), "mark")


def marks(text: str) -> list[CharacterMark]:
    """Return the stretches of `text` that cannot be shown as they are, in order; none overlap."""
    hidden = list(_hidden(text))
    posing = [
        CharacterMark(at, at + 1, "alike-char", *_posing(text[at], like)) for at, like in lookalikes(text).items()
    ]
    return sorted([*hidden, *posing], key=lambda mark: mark.start) if posing else hidden


def has_hidden(text: str) -> bool:
    """Return whether a character of `text`, other than ordinary no-break spaces, is invisible if it is shown as it is."""
    return any(mark.kind == "hidden-char" for mark in _hidden(text))


def spelled_out(text: str) -> str:
    """Return `text` as plain text in which every character is visible, for terminals and for forms of other programs."""
    parts, at = [], 0
    for mark in marks(text):
        parts += [text[at : mark.start], mark.shown]
        at = mark.end
    return "".join([*parts, text[at:]])


def escaped(text: str) -> str:
    """Return JSON `text` with invisible characters replaced by escapes. It means the same."""

    def escapes(match: re.Match[str]) -> str:
        if match["gap"]:
            return match.group()
        units = match.group().encode("utf-16-be", "surrogatepass")
        return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))

    return _HIDDEN.sub(escapes, text)


def _hidden(text: str) -> Iterator[CharacterMark]:
    for match in _HIDDEN.finditer(text):
        start, end = match.span()
        if match["unseen"] is None:
            what = "combining marks" if match["stack"] else "blanks"
            yield CharacterMark(start, end, "hidden-char", f"⟦{end - start} {what}⟧", f"{end - start} {what} in a row")
        elif not _joins(text, start, end):
            yield _mark(start, end, match["unseen"])


def _joins(text: str, start: int, end: int) -> bool:
    """Return whether the characters from `start` to `end` only join the parts of an emoji. Elsewhere they can hide text."""
    if text[start:end] not in _JOINING or not start or unicodedata.category(text[start - 1]) not in ("So", "Sk"):
        return False
    return text[end - 1] != "\u200d" or (end < len(text) and unicodedata.category(text[end]) == "So")


def _mark(start: int, end: int, run: str) -> CharacterMark:
    if len(run) <= MOST_NO_BREAK and _NO_BREAK.issuperset(run):
        return CharacterMark(start, end, "no-break", OPEN_BOX * len(run), _named(run)[1])
    return CharacterMark(start, end, "hidden-char", *_named(run))


@lru_cache(maxsize=1000)
def _named(run: str) -> tuple[str, str]:
    """Return the text shown in place of a run of invisible characters, and its tooltip."""
    message = _message(run)
    if message is not None:
        kind, text = message
        # The message itself may have invisible characters, and must not smuggle them on.
        text = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
        return f"⟦{len(run)} {kind}: “{text}”⟧", f"{len(run)} {kind} that spell a text"
    groups = [(character, len(list(same))) for character, same in groupby(run)]
    named = " ".join(
        _code(character) + (f" {TIMES} {count}" if count > 1 else "") for character, count in groups[:MOST_NAMED]
    )
    shown = named if len(groups) <= MOST_NAMED else f"{len(run)} invisible characters: {named} …"
    title = ", ".join(dict.fromkeys(f"{_code(c)} {_name(c)}" for c, _ in groups[:MOST_NAMED]))
    return f"⟦{shown}⟧", title


def _message(run: str) -> tuple[str, str] | None:
    """Return the kind of the characters and the text that they spell, None if they spell none.

    Both kinds are in use to give a model orders that no person sees ("ASCII smuggling"): a tag character is an ASCII character
    moved up by 0xE0000, and each of the 256 variation selectors can stand for a byte.
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


@lru_cache(maxsize=1000)
def _posing(character: str, like: str) -> tuple[str, str]:
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
    """Yield the HTML of a stretch of the text. A mark that crosses its border belongs to the stretch in which it begins."""
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
    # Browsers show a CR as a line end. Those that are not part of one are marked above.
    return escape(text.replace("\r", ""))
