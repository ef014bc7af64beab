"""Signs in a question's wording that tell a place (navigation) from an idea (discovery), and the rules for clear cases.

Pure and without a model: a question takes some microseconds.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from knowledge.search.answers import QuestionRoute
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
"""Only the beginning of a query is analysed: the rest of a pasted text does not change what kind of question it is."""

_WORD = re.compile(r"[\w'-]+")
# `docs/setup`, `./notes`, `guides/`.
_PATH = re.compile(r"(?:^|[\s`'\"(])(?:\.{0,2}/)?[\w.-]+(?:/[\w.-]+)+/?|(?:^|[\s`'\"(])\.{0,2}/[\w.-]+|^[\w.-]+/$")
_FILE = re.compile(r"[\w-]\.(?:md|mdx|markdown|rst|txt|adoc|po|html?|pdf|ya?ml|json|toml|csv|docx?|py|ts|js|xml|sh)\b")
# A key of a task, such as `OPS-142`.
_KEY = re.compile(r"^[A-Z][A-Z0-9]{1,9}-\d{1,6}$")
# The mark before a title of an issue or a commit: `[bug]`, `(docs)`, `docs(guide):`, `docs |`.
_MARK = re.compile(
    r"^(?:\[([^\]]{1,30})\]|\(([^)]{1,30})\)|([a-z]{2,14})(?:\([\w-]{1,20}\))?!?:(?=\s)|([a-z]{2,10}) \|)\s*"
)
_QUOTED = re.compile(r""""[^"]+"|“[^”]+”|„[^“”]+[“”]|«[^»]+»|(?<!\w)'[^']+'(?!\w)""")
# `is not linked`: without this, `not` would count as a problem of the program.
_UNLISTED = re.compile(
    r"(?:\b(?:not|is not)|n't) (?:listed|linked|indexed|in the (?:sidebar|menu|index|toc))\b"
    r"|\bnicht (?:verlinkt|aufgeführt|gelistet)\b"
    r"|\bno (?:está )?(?:enlazad|listad)[oa]s?\b|\bpas (?:lié|listé)e?s?\b"
)
# Parts of words, which no list of words has: `didn't`, `NullPointerException`, `Ladefehler`.
_SYMPTOM = re.compile(r"n[o']t\b|exception\b|error\b|fehler")
# `a list of all endpoints`, `Übersicht der Dienste`; a few words may come between.
_LIST_OF = re.compile(
    r"\b(?:lists?|listings?|overview|inventory|catalog(?:ue)?|table|contents|collection|liste|listen|übersicht"
    r"|auflistung|lista|listas|listado|índice|relación|sommaire|catalogue|elenco|indice|listagem|lijst|overzicht)\b"
    r"[\w ]{0,14}?\b"
    r"(?:of|der|aller|alle|von|vom|mit|de|del|des|du|di|dei|delle|degli|do|da|dos|das|van|with|for)\b"
)
# Phrases whose single words mean nothing by themselves: `what happens`, `wie viele`, `por qué`.
_HOW = re.compile(
    r"\bpor qu[eé]\b|\bpara qu[eé]\b|\bà quoi\b|\bqué tan\b|\bcomes? from\b|\bgoes? wrong\b|\bwie viele?\b"
    r"|\bwas (?:passiert|macht)\b|\bwhat do(?:es)?\b|\bqué hace\b|\bque fait\b|\bo que faz\b|\bcosa fa\b"
    r"|\bwat doet\b|\bworin\b|^come |\bwhat happen(?:s|ed)\b|\bqué (?:pasa|sucede|ocurre)\b|\bque se passe\b"
    r"|\bbest (?:way|practices?)\b|\bmejor (?:manera|forma)\b|\bmeilleure (?:façon|manière)\b|\bmelhor (?:maneira|forma)\b"
    r"|\b(?:beste|bester|besten) (?:weg|manier)\b|\bmiglior(?:e)? modo\b|\bque acontece\b|\bcosa succede\b|\bwat gebeurt\b"
)
# `what is` and the word after it, which decides: `what is in the archive` asks for a place.
_WHAT_IT_IS = re.compile(
    r"^¿?\s*(?:what(?:'?s| is| are)|was (?:ist|sind)|qué (?:es|son)|cuál es|cuáles son|qu'est-ce qu(?:e|'une?)"
    r"|quelle est|quel est|o que (?:é|são)|qual é|cos'è|cosa (?:è|sono)|che cos|qual è|wat (?:is|zijn))\b\s*(\w*)"
)
_WHAT_IS_INSIDE = re.compile(
    r"^¿?\s*(?:qué (?:hay|contiene)|was (?:liegt|steht|gibt es)|qu'y a-t-il|o que (?:há|tem)|cosa c'è|wat staat er)"
    r" (?:en|in|im|dans|na|no|em|nella|nel|sotto|unter|sous|bajo|onder|de|la|el)\b|^contents of\b"
)
# After `which`, these ask for a list: `which guides do we have`.
_WHICH_ARE_THERE = re.compile(
    r"\b(?:gibt es|haben wir|are there|is there|do we have|we have|exist|hay|tenemos|existen|y a-t-il|avons-nous|há"
    r"|temos|existem|ci sono|abbiamo|zijn er|hebben we|belongs? to|gehör(?:t|en) zu[rm]?|pertenecen? a|appartien(?:t|nent) [àa]u?)\b"
)
_DOCUMENTATION = frozenset({"docs", "doc", "documentation", "doku", "readme", "wiki", "website", "site", "manual"})
_ASKS = ("?", "\uff1f")


class RouteSigns(NamedTuple):
    """A parsed question. `first` and `groups` are the word groups (`words.py`) of the first word and of all words.

    `text` is case-folded; `wording` is `text` without its mark (`docs:`, `[bug]`) and its quotations.
    """

    text: str
    wording: str
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


def signs(query: str) -> RouteSigns:
    """Return `query` parsed as far as the rules need it."""
    text = query[:MOST_CHARACTERS].strip().casefold().replace("\u2019", "'")
    marked = _MARK.match(text)
    bare = text[marked.end() :] if marked else text
    # A quotation is a name, whatever its words mean.
    wording = bare if _QUOTED.fullmatch(bare) else _QUOTED.sub(" ", bare)
    if _UNLISTED.search(wording):
        wording = _UNLISTED.sub(" missing", wording)  # the page is missing from a list; the program is not at fault
    if "/" in wording:
        wording = _PATH.sub(" ", wording)  # so is a path: `what's in reference/errors` describes no problem
    words = _WORD.findall(wording)
    kinds = [WORDS[word] if word in WORDS else _ending(word) for word in words]
    groups = 0
    if not text.isascii():
        for sign, group in UNSPACED.items():
            groups |= group if sign in text else 0
    for kind in kinds:
        groups |= kind
    # A question that begins with a quotation has no first word.
    first = 0 if wording[:1] == " " else kinds[0] if kinds else groups
    if _SYMPTOM.search(wording):
        groups |= PROBLEM
    if how := _HOW.search(wording):
        groups |= HOW
        first |= HOW if how.start() <= 1 else 0
    what = _WHAT_IT_IS.match(wording)
    return RouteSigns(
        text=text,
        wording=wording,
        words=tuple(words),
        first=first,
        groups=groups,
        places=sum(1 for kind in kinds if kind & PLACE),
        ends_with_place=bool(kinds and kinds[-1] & PLACE),
        mark=next((part for part in marked.groups() if part), "") if marked else "",
        has_path="/" in text and _PATH.search(text) is not None,
        has_file="." in text and _FILE.search(text) is not None,
        is_key=_KEY.match(query.strip()) is not None,
        asks_existence=wording.lstrip(" ¿").startswith(EXISTENCE),
        asks_inside=bool(what and WORDS.get(what[1], 0) & INSIDE) or _WHAT_IS_INSIDE.match(wording) is not None,
        what=what[1] if what else None,
    )


def _ending(word: str) -> int:
    return PLACE if len(word) > 6 and word.endswith(PLACE_ENDINGS) else 0


def by_rules(seen: RouteSigns) -> QuestionRoute | None:
    """Return the route of a question whose wording leaves no doubt, else None."""
    if (seen.has_path or seen.has_file or seen.is_key) and " " not in seen.text:
        return QuestionRoute("navigation", 0.97, "it is a path, a file name or a key")
    first, groups = seen.first, seen.groups
    unclear = groups & (PROBLEM | HOW)
    if first & WHERE and not unclear:
        return QuestionRoute("navigation", 0.96, "it asks where something is")
    if first & HOW and not groups & WHERE:
        return QuestionRoute("discovery", 0.97, "it asks how, why or what the difference is")
    if first & CONDITION and not groups & WHERE:
        return QuestionRoute("discovery", 0.93, "it asks when, or names a condition")
    if first & LIST and groups & (PLACE | THING) and not groups & (PROBLEM | HOW | CHANGE):
        return QuestionRoute("navigation", 0.93, "it asks for a list, or to open something")
    if seen.asks_inside and not unclear:
        return QuestionRoute("navigation", 0.95, "it asks what is in a place")
    if first & WHETHER and not seen.asks_existence and not groups & (WHERE | LIST):
        return QuestionRoute("discovery", 0.92, "it asks whether something is possible or needed")
    if groups & PROBLEM and not groups & (PLACE | THING | LIST | WHERE | GONE):
        return QuestionRoute("discovery", 0.95, "it describes a problem")
    return None


def sign_values(seen: RouteSigns, leaning: float) -> dict[str, float]:
    """Return the value of each sign that has a fitted weight; `leaning` (-1..1) is that of the nearest examples."""
    groups, first, count = seen.groups, seen.first, len(seen.words)
    where, how, which, listed, problem, gone, edited, change, thing = (
        bool(groups & group) for group in (WHERE, HOW, WHICH, LIST, PROBLEM, GONE, EDIT, CHANGE, THING)
    )
    place = bool(groups & PLACE) or seen.has_path or seen.has_file
    documentation = bool(seen.mark) and not _DOCUMENTATION.isdisjoint(_WORD.findall(seen.mark.replace("-", " ")))
    return {
        "bias": 1.0,
        "asks where": where,
        "asks where first": bool(first & WHERE),
        "asks how": how,
        "asks how first": bool(first & HOW),
        "asks which": which,
        "asks whether first": bool(first & WHETHER) and not seen.asks_existence,
        "asks for a list": listed,
        "asks for a list first": bool(first & LIST),
        "names a kind of place": min(seen.places, 3) / 2,
        "ends with a kind of place": seen.ends_with_place,
        "describes a problem": problem,
        "says that something is missing": gone,
        "says that a page or folder is missing": gone and place,
        "asks for an edit": edited,
        "asks to change a page or folder": edited and place,
        "names a condition": bool(groups & CONDITION),
        "asks for all": bool(groups & ALL),
        "asks whether there is one": seen.asks_existence and place,
        "has a path": seen.has_path,
        "has a file name": seen.has_file,
        "is a key": seen.is_key,
        "ends with a question mark": any(mark in seen.text for mark in _ASKS),
        "ends like a sentence": seen.text.endswith(("!", ".")),
        "length": min(count, 24) / 8,
        "short": count <= 2,
        "names a kind of place and no problem": place and not problem and not how,
        "asks where and describes a problem": where and problem,
        "asks for a list and describes a problem": listed and problem,
        "asks for a list of something": not problem and _LIST_OF.search(seen.wording) is not None,
        "asks what something is": seen.what is not None and not seen.asks_inside,
        "asks which there are": which and _WHICH_ARE_THERE.search(seen.wording) is not None,
        "asks what is inside": seen.asks_inside,
        "is marked as documentation": documentation,
        "looks like a commit message": bool(seen.mark) and not documentation,
        "describes behaviour": change,
        "describes behaviour and names no kind of place": change and not place,
        "names a kind of thing": thing,
        "names a kind of thing and no problem": thing and not problem and not how and not change,
        "says that a kind of thing is missing": thing and gone,
        "asks to change a kind of thing": thing and edited,
        "neighbours": leaning,
    }
