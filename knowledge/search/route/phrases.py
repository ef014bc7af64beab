"""The signs in a question's wording that tell a place from an idea. Pure, no model, some microseconds."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from knowledge.search.route.words import (
    ALL,
    CHANGE,
    CONDITION,
    EDIT,
    EXISTENCE,
    GONE,
    HOW,
    INSIDE,
    LIST,
    PLACE,
    PLACE_ENDINGS,
    PROBLEM,
    THING,
    UNSPACED,
    WHERE,
    WHETHER,
    WHICH,
    WORDS,
)

MOST_CHARACTERS: Final = 400
"""What a question is, it says at its beginning; the rest of a pasted text is not looked at."""

_WORD = re.compile(r"[\w'-]+")
_PATH = re.compile(r"(?:^|[\s`'\"(])(?:\.{0,2}/)?[\w.-]+(?:/[\w.-]+)+/?|(?:^|[\s`'\"(])\.{0,2}/[\w.-]+|^[\w.-]+/$")
_FILE = re.compile(r"[\w-]\.(?:md|mdx|markdown|rst|txt|adoc|po|html?|pdf|ya?ml|json|toml|csv|docx?|py|ts|js|xml|sh)\b")
_KEY = re.compile(r"^[A-Z][A-Z0-9]{1,9}-\d{1,6}$")
_MARK = re.compile(
    r"^(?:\[([^\]]{1,30})\]|\(([^)]{1,30})\)|([a-z]{2,14})(?:\([\w-]{1,20}\))?!?:(?=\s)|([a-z]{2,10}) \|)\s*"
)
_QUOTED = re.compile(r""""[^"]+"|“[^”]+”|„[^“”]+[“”]|«[^»]+»|(?<!\w)'[^']+'(?!\w)""")
_UNLISTED = re.compile(
    r"(?:\b(?:not|is not)|n't) (?:listed|linked|indexed|in the (?:sidebar|menu|index|toc))\b"
    r"|\bnicht (?:verlinkt|aufgeführt|gelistet)\b"
    r"|\bno (?:está )?(?:enlazad|listad)[oa]s?\b|\bpas (?:lié|listé)e?s?\b"
)
_SYMPTOM = re.compile(r"n[o']t\b|exception\b|error\b|fehler")
_LIST_OF = re.compile(
    r"\b(?:lists?|listings?|overview|inventory|catalog(?:ue)?|table|contents|collection|liste|listen|übersicht"
    r"|auflistung|lista|listas|listado|índice|relación|sommaire|catalogue|elenco|indice|listagem|lijst|overzicht)\b"
    r"[\w ]{0,14}?\b"
    r"(?:of|der|aller|alle|von|vom|mit|de|del|des|du|di|dei|delle|degli|do|da|dos|das|van|with|for)\b"
)
_HOW = re.compile(
    r"\bpor qu[eé]\b|\bpara qu[eé]\b|\bà quoi\b|\bqué tan\b|\bcomes? from\b|\bgoes? wrong\b|\bwie viele?\b"
    r"|\bwas (?:passiert|macht)\b|\bwhat do(?:es)?\b|\bqué hace\b|\bque fait\b|\bo que faz\b|\bcosa fa\b"
    r"|\bwat doet\b|\bworin\b|^come |\bwhat happen(?:s|ed)\b|\bqué (?:pasa|sucede|ocurre)\b|\bque se passe\b"
    r"|\bbest (?:way|practices?)\b|\bmejor (?:manera|forma)\b|\bmeilleure (?:façon|manière)\b|\bmelhor (?:maneira|forma)\b"
    r"|\b(?:beste|bester|besten) (?:weg|manier)\b|\bmiglior(?:e)? modo\b|\bque acontece\b|\bcosa succede\b|\bwat gebeurt\b"
)
_WHAT_IT_IS = re.compile(
    r"^¿?\s*(?:what(?:'s| is| are)|was (?:ist|sind)|qué (?:es|son)|cuál es|cuáles son|qu'est-ce qu(?:e|'une?)"
    r"|quelle est|quel est|o que (?:é|são)|qual é|cos'è|cosa (?:è|sono)|che cos|qual è|wat (?:is|zijn))\b\s*(\w*)"
)
_WHAT_IS_INSIDE = re.compile(
    r"^¿?\s*(?:qué (?:hay|contiene)|was (?:liegt|steht|gibt es)|qu'y a-t-il|o que (?:há|tem)|cosa c'è|wat staat er)"
    r" (?:en|in|im|dans|na|no|em|nella|nel|sotto|unter|sous|bajo|onder|de|la|el)\b|^contents of\b"
)
_WHICH_ARE_THERE = re.compile(
    r"\b(?:gibt es|haben wir|are there|is there|do we have|we have|exist|hay|tenemos|existen|y a-t-il|avons-nous|há"
    r"|temos|existem|ci sono|abbiamo|zijn er|hebben we|belongs? to|gehör(?:t|en) zu[rm]?|pertenecen? a|appartien(?:t|nent) [àa]u?)\b"
)
_DOCUMENTATION = frozenset({"docs", "doc", "documentation", "doku", "readme", "wiki", "website", "site", "manual"})
_ASKS = ("?", "\uff1f")

NAMES: Final = (
    "bias",
    "asks where",
    "asks where first",
    "asks how",
    "asks how first",
    "asks which",
    "asks whether first",
    "wants a list",
    "wants a list first",
    "names kinds of places",
    "ends with a kind of place",
    "tells of a problem",
    "something is gone",
    "a kind of place is gone",
    "tells of an edit",
    "a kind of place is edited",
    "sets a condition",
    "asks for all",
    "asks whether there is one",
    "has a path",
    "has a file name",
    "is a key",
    "question mark",
    "a sentence",
    "length",
    "short",
    "a kind of place, no problem",
    "where, but a problem",
    "list, but a problem",
    "a list of something",
    "asks what something is",
    "asks which there are",
    "asks what is inside",
    "marked as documentation",
    "marked as a change",
    "tells how it behaves",
    "behaves, and no kind of place",
    "names things that have a place",
    "things, no problem",
    "a thing is gone",
    "a thing is edited",
    "neighbours",
)
"""The signs in the order of `values`; the last is filled in by whoever has a vector."""


class RouteSigns(NamedTuple):
    """A question as it is heard, without its mark (`docs:`, `[bug]`) and its quotations, and what its words do.

    `first` and `groups` are groups of `route_words`, of the first word and of all.
    """

    text: str
    said: str
    words: tuple[str, ...]
    first: int
    groups: int
    places: int
    ends_with_place: bool
    mark: str
    has_path: bool
    has_file: bool
    is_key: bool
    asks_existence: bool
    asks_inside: bool
    what: str | None

    @property
    def is_path(self) -> bool:
        """Return whether the whole question is a path, a file name or a key."""
        return (self.has_path or self.has_file or self.is_key) and " " not in self.text


def signs(query: str) -> RouteSigns:
    """Return `query` taken apart: as much as the rules need."""
    text = query[:MOST_CHARACTERS].strip().casefold().replace("\u2019", "'")
    marked = _MARK.match(text)
    bare = text[marked.end() :] if marked else text
    # What stands in quotation marks is a name, whatever its words mean.
    said = bare if _QUOTED.fullmatch(bare) else _QUOTED.sub(" ", bare)
    if _UNLISTED.search(said):
        said = _UNLISTED.sub(" missing", said)  # a page that nothing leads to is gone, and no program is at fault
    words = _WORD.findall(said)
    kinds = [WORDS[word] if word in WORDS else _ending(word) for word in words]
    groups = _unspaced(text) if not text.isascii() else 0
    for kind in kinds:
        groups |= kind
    first = 0 if said[:1] == " " else kinds[0] if kinds else groups
    if _SYMPTOM.search(said):
        groups |= PROBLEM
    if how := _HOW.search(said):
        groups |= HOW
        first |= HOW if how.start() <= 1 else 0
    what = _WHAT_IT_IS.match(said)
    return RouteSigns(
        text=text,
        said=said,
        words=tuple(words),
        first=first,
        groups=groups,
        places=sum(1 for kind in kinds if kind & PLACE),
        ends_with_place=bool(kinds and kinds[-1] & PLACE),
        mark=next((part for part in marked.groups() if part), "") if marked else "",
        has_path="/" in text and _PATH.search(text) is not None,
        has_file="." in text and _FILE.search(text) is not None,
        is_key=_KEY.match(query.strip()) is not None,
        asks_existence=said.lstrip(" ¿").startswith(EXISTENCE),
        asks_inside=bool(what and WORDS.get(what[1], 0) & INSIDE) or _WHAT_IS_INSIDE.match(said) is not None,
        what=what[1] if what else None,
    )


def values(seen: RouteSigns) -> tuple[float, ...]:
    """Return one number a name of `NAMES`; more than the rules need, and what the weights are for."""
    groups, first, count = seen.groups, seen.first, len(seen.words)
    where, how, which, listed, problem, gone, edited, change, thing = (
        bool(groups & group) for group in (WHERE, HOW, WHICH, LIST, PROBLEM, GONE, EDIT, CHANGE, THING)
    )
    place = bool(groups & PLACE) or seen.has_path or seen.has_file
    documentation = bool(seen.mark) and not _DOCUMENTATION.isdisjoint(_WORD.findall(seen.mark.replace("-", " ")))
    found: tuple[float, ...] = (
        1.0,
        where,
        bool(first & WHERE),
        how,
        bool(first & HOW),
        which,
        bool(first & WHETHER) and not seen.asks_existence,
        listed,
        bool(first & LIST),
        min(seen.places, 3) / 2,
        seen.ends_with_place,
        problem,
        gone,
        gone and place,
        edited,
        edited and place,
        bool(groups & CONDITION),
        bool(groups & ALL),
        seen.asks_existence and place,
        seen.has_path,
        seen.has_file,
        seen.is_key,
        any(mark in seen.text for mark in _ASKS),
        seen.text.endswith(("!", ".")),
        min(count, 24) / 8,
        count <= 2,
        place and not problem and not how,
        where and problem,
        listed and problem,
        not problem and _LIST_OF.search(seen.said) is not None,
        seen.what is not None and not seen.asks_inside,
        which and _WHICH_ARE_THERE.search(seen.said) is not None,
        seen.asks_inside,
        documentation,
        bool(seen.mark) and not documentation,
        change,
        change and not place,
        thing,
        thing and not problem and not how and not change,
        thing and gone,
        thing and edited,
        0.0,
    )
    return found


def _unspaced(text: str) -> int:
    groups = 0
    for sign, group in UNSPACED.items():
        if sign in text:
            groups |= group
    return groups


def _ending(word: str) -> int:
    return PLACE if len(word) > 6 and word.endswith(PLACE_ENDINGS) else 0
