"""The people whom a message's text notifies by Zulip's rules. Pure.

In code and quotes a mention notifies nobody. Where Zulip's Markdown is hard to foresee (a line that continues a quote, code over
several lines, formulas), a mention is assumed to notify: announcing one too many is better than one too few.

Source: zerver/lib/mention.py, zerver/lib/markdown/__init__.py and fenced_code.py of github.com/zulip/zulip.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from mcp_server.connectors.zulip.model import ZulipUser

EVERYBODY = frozenset({"all", "everyone", "channel", "stream"})
PARTICIPANTS = "topic"
MOST_NAMED = 5
# What may stand before the sign differs between servers; this has all of it.
_BEFORE = r"(?<![^\s'\"({\[/<,:])"
_PERSON = re.compile(rf"{_BEFORE}@\*\*(?P<name>[^*]+)\*\*")
_GROUP = re.compile(rf"{_BEFORE}@\*(?P<name>[^*]+)\*(?!\*)")
_WITH_ID = re.compile(r"(?P<name>.+)?\|(?P<id>\d+)")
_FENCE = re.compile(r"(?P<marks>~{3,}|`{3,}) *\{?\.?(?P<kind>[\w+./#-]*)")
_QUOTED = re.compile(r" {0,3}>")
_CODE = re.compile(r"(?<!\\)(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)")


@dataclass(slots=True)
class Mentions:
    """The recipients that a text notifies, each as written there: words for everybody, groups, and people."""

    everybody: list[str] = field(default_factory=list)
    participants: bool = False
    groups: list[str] = field(default_factory=list)
    people: list[str] = field(default_factory=list)

    def sentences(self, known: Sequence[ZulipUser]) -> list[str]:
        """Return sentences that name the people whom the text notifies; `known` are all people of the organisation."""
        notes = []
        if self.everybody:
            words = ", ".join(f"@**{word}**" for word in self.everybody)
            notes.append(f"notifies everybody in the channel by {words}")
        if self.participants:
            notes.append(f"notifies, by @**{PARTICIPANTS}**, everybody who wrote in the topic")
        if self.groups:
            notes.append(f"notifies the group{'s' if len(self.groups) > 1 else ''} {_first(self.groups)}")
        found = {name: _meant(name, known) for name in self.people}
        if there := [_shown(name, people) for name, people in found.items() if people]:
            notes.append(f"mentions {_first(there)}")
        if missing := [repr(name) for name, people in found.items() if not people]:
            notes.append(f"mentions nobody by {_first(missing)}: no active account has that name")
        return notes


def mentions_in(texts: Sequence[str]) -> Mentions:
    """Return the recipients that these messages notify."""
    found = Mentions()
    for text in texts:
        for line in _loud_lines(text):
            for match in _PERSON.finditer(line):
                name = match["name"]
                if name in EVERYBODY:
                    _add(found.everybody, name)
                elif name == PARTICIPANTS:
                    found.participants = True
                else:
                    _add(found.people, name)
            for match in _GROUP.finditer(line):
                _add(found.groups, match["name"])
    return found


def _loud_lines(text: str) -> Iterator[str]:
    """Yield the lines that are neither code nor quoted, without the code in them."""
    open_fences: list[tuple[str, str]] = []
    for line in text.split("\n"):
        if open_fences and line.rstrip() == open_fences[-1][0]:
            open_fences.pop()
            continue
        kinds = [kind for _, kind in open_fences]
        # Within code every other fence is text; within a quote or spoiler it is one.
        opens = None if any(kind not in ("quote", "spoiler") for kind in kinds) else _FENCE.match(line)
        if opens is not None:
            open_fences.append((opens["marks"], opens["kind"].lower()))
        elif all(kind == "spoiler" for kind in kinds) and not _QUOTED.match(line):
            yield _CODE.sub(" ", line)


def _meant(name: str, known: Sequence[ZulipUser]) -> list[ZulipUser]:
    """Return the people with an active account whom `name`, `name|id` or `|id` may mean."""
    wanted, number = name, None
    if with_id := _WITH_ID.fullmatch(name):
        wanted, number = with_id["name"] or "", int(with_id["id"])
    return [
        person
        for person in known
        if person.active
        and (number is None or person.id == number)
        and (not wanted or person.name.lower() == wanted.lower())
    ]


def _shown(name: str, people: Sequence[ZulipUser]) -> str:
    return people[0].name if len(people) == 1 else f"one of {len(people)} people called {name}"


def _add(names: list[str], name: str) -> None:
    if name not in names:
        names.append(name)


def _first(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more
