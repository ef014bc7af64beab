"""Makes `@name` in a text that is written to Plane a mention of that person. Pure.

Plane notifies people only of mentions that are written in its own pages: its API calls `issue_activity` without `notification`.

Source: `mention-component` in packages/editor/src/core/extensions/mentions of github.com/makeplane/plane.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from html import escape
from uuid import NAMESPACE_URL, uuid5

MOST_SHOWN = 5
LITERAL = frozenset({"a", "code", "pre", "mention-component"})
"""Elements in which an `@` is only a character."""
_TAG = re.compile(r"(<[^<>]*>)")
_NAME = re.compile(r"</?([a-z][a-z0-9-]*)", re.IGNORECASE)
_HANDLE = re.compile(r"[\w][\w.-]*")
_MENTIONED = re.compile(r'<mention-component\b[^<>]*\bentity_identifier="([^"]+)"')


class MentionWriter:
    """Turns the exact names of `people` (names by id), in any case, into mentions.

    Other names stay text, and are listed in the remarks.
    """

    def __init__(self, people: Mapping[str, str]) -> None:
        self._people = people
        self._unknown: dict[str, None] = {}
        self._ids: dict[str, list[str]] = defaultdict(list)
        for person, name in people.items():
            if name:
                self._ids[escape(name, quote=False).casefold()].append(person)
        self._longest_first = sorted(self._ids, key=len, reverse=True)

    def __call__(self, html: str) -> str:
        """Return HTML in which the names outside of code and links are mentions."""
        if "@" not in html:
            return html
        out: list[str] = []
        literal: list[str] = []
        for piece in _TAG.split(html):
            if not piece.startswith("<"):
                out.append(piece if literal else self._in_text(piece))
                continue
            out.append(piece)
            found = _NAME.match(piece)
            name = found[1].lower() if found else ""
            if name in LITERAL and piece.startswith("</"):
                if name in literal:
                    literal.remove(name)
            elif name in LITERAL and not piece.endswith("/>"):
                literal.append(name)
        return "".join(out)

    def remarks(self, before: str, after: str) -> tuple[str, ...]:
        """Name the people whom the new text mentions but the old one did not, and the names that stay text."""
        new = dict.fromkeys(one for one in _MENTIONED.findall(after) if one not in _MENTIONED.findall(before))
        named = [self._people.get(one, one) for one in new]
        unknown = [f"@{name}" for name in self._unknown]
        return (
            *([f"mentions {_listed(named)}"] if named else []),
            *([f"not exactly one member's name, so it stays text: {_listed(unknown)}"] if unknown else []),
        )

    def _in_text(self, text: str) -> str:
        out, at = [], 0
        for sign in re.finditer(r"(?<![\w./@-])@", text):
            if sign.start() < at:
                continue
            rest = text[sign.end() :]
            name = next((one for one in self._longest_first if _begins(rest, one)), None)
            if name is not None and len(self._ids[name]) == 1:
                out += [text[at : sign.start()], _mention(self._ids[name][0])]
                at = sign.end() + len(name)
            elif handle := _HANDLE.match(rest):
                self._unknown[handle[0].rstrip(".-")] = None
        return "".join([*out, text[at:]])


def _begins(text: str, name: str) -> bool:
    """Return whether the text begins with exactly that name: `mel.` does, `mel.b` and `mel-ann` do not begin with `mel`."""
    return text[: len(name)].casefold() == name and re.match(r"[.-]?\w", text[len(name) :]) is None


def _mention(person: str) -> str:
    # The same id each time, because a plan is made again before it is carried out, and has to have the same effect.
    own_id = uuid5(NAMESPACE_URL, f"mention:{person}")
    return (
        f'<mention-component id="{own_id}" entity_identifier="{escape(person)}" entity_name="user_mention">'
        "</mention-component>"
    )


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - MOST_SHOWN} more" if len(names) > MOST_SHOWN else ""
    return f"{', '.join(names[:MOST_SHOWN])}{more}"
