"""Decides whether a question says nothing but the name of a page or folder, and which words are that name. Pure.

*Open the settings page* and *what's in guides* only name a place. *Open a file in the editor* says more than `editor`, so it is
an ordinary question, whatever is called Editor.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, Literal

from knowledge.search.query.analysis import is_stop_word
from knowledge.search.query.place_words import (
    ABOUT,
    AFTER_PORTUGUESE_A,
    ALL,
    ARTICLE,
    CALLED,
    COVERED,
    EXISTS,
    FILE,
    FILL,
    FOLDER,
    GO,
    HEAD,
    HERE,
    HOLDS,
    INSIDE,
    KIND,
    LIST,
    MAY,
    ME,
    OF,
    OF_ANY,
    ONE,
    OPEN,
    PAGE,
    PARTS,
    ROLES,
    SECTIONS,
    WHERE,
    WHICH,
)
from knowledge.search.route.words import HOW, PROBLEM, WORDS

LONGEST_NAME: Final = 12
"""The most words of a name within a question."""
LONGEST_QUESTION: Final = 24
"""The most words of a question that is examined: longer ones say more than a name."""
MOST_WIDER: Final = 3
"""The most words that only ask and yet may begin or end a name, as in `List page`."""

_NOT_AT_AN_EDGE: Final = FILL | ARTICLE | ONE | WHICH | INSIDE | OF | ABOUT | CALLED | HOLDS | MAY | ME | WHERE | HERE
_UNSPACED: Final = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_IS_UNSPACED: Final = re.compile(f"[{_UNSPACED}]")
_RUN: Final = re.compile(rf"[{_UNSPACED}]+|(?:(?![{_UNSPACED}])[\w.+#&/-])+")
_KNOWN: Final = re.compile(
    "|".join(sorted((word for word in ROLES if _IS_UNSPACED.match(word)), key=len, reverse=True))
)
_FILE_NAME: Final = re.compile(r"/|\w\.\w")

Kind = Literal["any", "document", "directory"]


@dataclass(frozen=True, slots=True)
class SaidName:
    """The words of a question that may be a name because all its other words only ask, and the kind of place that it asks for.

    `bare` is set if there are no other words.
    """

    name: str
    kind: Kind
    bare: bool = False


@dataclass(frozen=True, slots=True)
class _Token:
    start: int
    end: int
    word: str
    roles: int


def said_names(query: str, languages: Collection[str] = ()) -> list[SaidName]:
    """Return each part of `query` that may be a name, longest first, if the other words say nothing else.

    `languages` are those that the question is read in.
    """
    tokens = _tokens(query, languages)
    if not tokens or len(tokens) > LONGEST_QUESTION:
        return []
    telling = [at for at, token in enumerate(tokens) if not token.roles]
    first, last = (telling[0], telling[-1]) if telling else (len(tokens), -1)
    found: list[tuple[int, SaidName]] = []
    for start in range(max(0, first - MOST_WIDER) if telling else 0, min(first, len(tokens) - 1) + 1):
        past = min(len(tokens), start + LONGEST_NAME, last + 1 + MOST_WIDER if telling else len(tokens))
        for end in range(max(start, last), past):
            edges = (tokens[start], tokens[end])
            is_called = start > 0 and tokens[start - 1].roles & (KIND | CALLED)
            if not is_called and any(token.roles & _NOT_AT_AN_EDGE and not token.roles & HEAD for token in edges):
                continue
            name = " ".join(query[tokens[start].start : tokens[end].end].split())
            is_file = _FILE_NAME.search(name) is not None
            kind = _asked(tokens[:start], tokens[start : end + 1], tokens[end + 1 :], is_file=is_file)
            if kind:
                found.append((start - end, SaidName(name, kind, end - start + 1 == len(tokens))))
    return [name for _, name in sorted(found, key=lambda one: one[0])]


def asks_what_exists(query: str) -> bool:
    """Return whether `query` names nothing and asks for all there is: `list all pages`, `show me everything`."""
    tokens = _tokens(query, ())
    if not tokens or not all(token.roles for token in tokens) or not _ones_begin_a_list(tokens):
        return False
    if any(token.roles & (KIND | CALLED | ABOUT) and not token.roles & (PARTS | INSIDE) for token in tokens):
        return False  # `list files of a folder` asks about any folder
    parts = sum(1 for token in tokens if token.roles & PARTS)
    roles = _joined(tokens)
    if roles & INSIDE and not roles & (WHICH | HERE):
        return False  # `show files in list view`
    return parts == 1 or (parts == 0 and bool(roles & (HEAD | HERE)))


def _tokens(query: str, languages: Collection[str]) -> list[_Token]:
    text = query.replace("\u2019", "'")
    others = [language for language in languages if language and language not in COVERED]
    found: list[_Token] = []
    for run in _RUN.finditer(text):
        if _IS_UNSPACED.match(run[0]):
            found += _pieces(run[0], run.start())
            continue
        start, end = run.start(), run.end()
        while end > start and text[end - 1] in "./-&":
            end -= 1
        if text.startswith("./", start):
            start += 2
        if start < end:
            word = text[start:end].casefold()
            found.append(_Token(start, end, word, _roles(word, others)))
    return _read_in_pairs(found)


def _read_in_pairs(tokens: Sequence[_Token]) -> list[_Token]:
    """Return `tokens` with the roles that a word has only beside another one."""
    found = list(tokens)
    for at, (first, second) in enumerate(pairwise(tokens)):
        pair = (first.word, second.word)
        if pair == ("y", "a"):
            found[at + 1] = replace(second, roles=FILL)  # `il y a`
        elif first.word == "a" and second.word in AFTER_PORTUGUESE_A:
            found[at] = replace(first, roles=ARTICLE)
        elif second.word == "to" and first.word in GO:
            found[at : at + 2] = [replace(first, roles=OPEN), replace(second, roles=FILL)]
        elif second.word == "i" and (first.roles & MAY or first.word == "do"):
            found[at + 1] = replace(second, roles=ME)  # in other languages it is an article or `in`
        elif pair == ("pagina", "s"):
            found[at] = replace(first, roles=PARTS)
        elif first.word == "do" and second.roles & INSIDE and second.word != "we":
            found[at] = replace(first, roles=0)  # `what do we do in the editor`
    return found


def _roles(word: str, languages: Collection[str]) -> int:
    if roles := ROLES.get(word, 0):
        return roles
    if len(word) == 1 and word.isalpha():
        return FILL  # the `n` of `n'y`
    is_filler = languages and is_stop_word(word, languages) and not WORDS.get(word, 0) & (HOW | PROBLEM)
    return FILL | WHICH | INSIDE if is_filler else 0


def _pieces(run: str, start: int) -> list[_Token]:
    """Return a run of a script without spaces as known words and what is between them."""
    found: list[_Token] = []
    at = 0
    for known in (*_KNOWN.finditer(run), None):
        before = known.start() if known else len(run)
        if before > at:
            found.append(_Token(start + at, start + before, run[at:before], 0))
        if known:
            found.append(_Token(start + known.start(), start + known.end(), known[0], ROLES[known[0]]))
            at = known.end()
    return found


def _joined(tokens: Sequence[_Token]) -> int:
    roles = 0
    for token in tokens:
        roles |= token.roles
    return roles


def _ones_begin_a_list(tokens: Sequence[_Token]) -> bool:
    """Return whether each `a` is that of `a list` or `an overview`: `a file` is any file, so that the question is about files."""
    following = [*(token.roles for token in tokens[1:]), 0]
    return all(after & (HEAD | LIST) for token, after in zip(tokens, following, strict=False) if token.roles & ONE)


def _asked(before: Sequence[_Token], name: Sequence[_Token], after: Sequence[_Token], *, is_file: bool) -> Kind | None:
    """Return the kind of place that a question asks for with these words around `name`, or None if they say more."""
    if not all(token.roles for token in (*before, *after)) or (found := _with_kind(before, after)) is None:
        return None
    before, kind, after = found
    if kind & FOLDER and before and before[-1].roles & ONE:
        before = before[:-1]  # `is there a guides folder`
    rest = [*before, *after]
    parts = [token for token in rest if token.roles & PARTS]
    if len(parts) > 1 or any(token.roles & KIND and not token.roles & PARTS for token in rest):
        return None  # another page or folder than the one with the name
    if kind == FILE and not is_file:
        return None  # only a path or a name with an extension is a file's
    if not _leads_to_a_name(before) or not _may_follow(after) or not _asks_for_a_place(rest, kind):
        return None
    kinds: Kind = "document" if kind == PAGE else "directory" if kind == FOLDER else "any"
    roles = _joined(rest)
    is_plain = not kind and bool(roles & OPEN) and all(token.roles & PARTS for token in name)
    if (
        is_plain
        or (not kind and roles & ALL)
        or (roles & LIST and not parts)
        or any(token.word not in SECTIONS for token in parts)
    ):
        # `list tags`, `show all tags` and `open files` ask for things, so that only a folder can be meant, which holds them.
        return None if kinds == "document" else "directory"
    return kinds


def _leads_to_a_name(before: Sequence[_Token]) -> bool:
    if any(token.roles & (ABOUT | CALLED) and not token.roles & (INSIDE | OF | FILL | ARTICLE) for token in before):
        return False  # `pages about guides` are not those of a folder
    return _ones_begin_a_list(before)


def _may_follow(after: Sequence[_Token]) -> bool:
    """Return whether words after a name lead to nothing else, as `of a list` does."""
    if any(token.roles & (ARTICLE | ONE) for token in after):
        return False
    leading = [token for token in after if token.roles & (INSIDE | OF | ABOUT) and not token.roles & FILL]
    return not leading or (leading == [after[-1]] and after[-1].word == "about")


def _asks_for_a_place(rest: Sequence[_Token], kind: int) -> bool:
    words, roles = {token.word for token in rest}, _joined(rest)
    lists = roles & (PARTS | HEAD | HOLDS)
    if roles & WHICH and not (lists or kind or roles & (INSIDE | HERE) or words & EXISTS):
        return False  # `what is a queue`
    if roles & INSIDE and not lists and not roles & WHICH and roles & (OPEN | LIST | WHERE):
        return False  # `open in the browser`
    if roles & WHERE and roles & OPEN:
        return False  # `where do I open the editor`
    if roles & MAY and not roles & (OPEN | LIST | WHERE):
        return False  # `what can I do in the editor`
    return not roles & ME or bool(roles & (MAY | WHERE) or words & EXISTS)


def _with_kind(
    before: Sequence[_Token], after: Sequence[_Token]
) -> tuple[Sequence[_Token], int, Sequence[_Token]] | None:
    """Return the words without the kind of place next to the name (`the page called`, `folder`), and the roles of that kind.

    None if the kind is not that of the name.
    """
    at = len(before)
    while at and before[at - 1].roles & (ARTICLE | CALLED | ABOUT | OF) and not before[at - 1].roles & KIND:
        at -= 1
    between = before[at:]
    if at and (kind := before[at - 1].roles & KIND):
        is_called = any(token.roles & CALLED for token in between)
        if at > 1 and before[at - 2].roles & ONE and not is_called:
            return None  # `a page of guides`
        if any(token.word in OF_ANY for token in between) and not kind & FOLDER:
            return None  # `the page of guides`
        return before[: at - 2 if is_called and at > 1 and before[at - 2].roles & ONE else at - 1], kind, after
    if after and (kind := after[0].roles & KIND):
        return before, kind, after[1:]
    return before, 0, after
