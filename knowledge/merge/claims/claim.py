"""What a statement claims: what it is about, under which conditions, with which values, affirmed or denied. Pure.

A text is cut into sentences, list items, `key: value` lines and table rows. Of each the words that say what it is about are
kept as stems, in order, with the figures between them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from knowledge.merge.claims.polarity import is_generic
from knowledge.merge.claims.statement_reader import REMEMBERED, Claim, read
from knowledge.merge.claims.words import EMPTY, NO_KEYS
from knowledge.pages.markdown.language import STOP_WORDS

ROUGH = 4
"""Letters from the beginning of a word that are enough to see whether two statements may be about the same."""
LONGEST_TEXT, MOST_STATEMENTS = 100_000, 1_000
"""How much of one text is read; the parts of a page that are compared are far smaller."""
LONGEST = 2_000
"""Characters of a statement that are read; beyond it is no statement but data."""

_LETTERS = re.compile(r"[^\W\d_]{3,}")
_MARKER = re.compile(r"^\s*(?:>\s*)*(?:(?:[-*+]|\d{1,9}[.)])\s+)?(?:\[[ xX]\]\s+)?(?:#{1,6}\s+)?")
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")
_LINK = re.compile(r"!?\[([^\[\]]{0,300})\]\([^)\s]{0,500}(?:\s+\"[^\"]{0,200}\")?\)")
_WIKI = re.compile(r"!?\[\[(?:[^\[\]|]{0,300}\|)?([^\[\]]{0,300})\]\]")
_URL = re.compile(r"<?(?:https?|ftp)://[^\s>)]+>?")
_TAG = re.compile(r"</?[A-Za-z][^<>]{0,200}>")
_MARKS = re.compile(
    r"\*\*|__(?=\S)|(?<=\S)__|~~|``?|(?<![\w*])\*(?=\S)|(?<=\S)\*(?![\w*])|(?<!\w)_(?=\S)|(?<=\S)_(?!\w)"
)
_DOTS = re.compile(r"(?<=\d)\.\.(?=\d)")
_DEFAULT = re.compile(
    r"^(.{0,80}?\b(?:defaults? to|default(?: value)?(?: \w+){0,3} is(?: now)?|standardwert(?: \w+){0,3} ist))\s+"
    r"(\S+(?:\s\S+){0,2}?)\.?$",
    re.IGNORECASE,
)
_KEY = re.compile(
    r"^([^:=|.!?;]{1,60}?)\s*(?:[:=]\s+|=(?==?[^=]))(\S.*)$|^([\w.-]{1,40})\s*[:=]([^\s:=/].*)$", re.DOTALL
)
_SENTENCE_END = re.compile(
    r"(?<=[.!?])[\"'\u201d\u201c)]*\s+(?=[\"'\u201e\u201c(\[`]*[A-Z\u00c0-\u00de\u0410-\u042f\d`_*$<])|[\u3002\uff01\uff1f]"
)
_ABBREVIATED = re.compile(
    r"(?:\b(?:e\.g|i\.e|etc|vs|ca|approx|no|nr|abs|art|dr|mr|mrs|ms|fig|sec|st|inc|max|min|bzw|usw|z\.\s?b|d\.\s?h|u\.\s?a|vgl|ggf|evtl|"
    r"inkl|zzgl|mio|mrd|std|s|jan|feb|aug|sept?|oct|okt|nov|dec|dez)|(?<!\w)\d{1,2})\.$",
    re.IGNORECASE,
)


class UnreadStatement(NamedTuple):
    """A statement that was not read yet, and the beginnings of its words: enough to see whether reading it is worth it."""

    text: str
    rough: frozenset[str]


@lru_cache(REMEMBERED)
def said_in(text: str) -> tuple[UnreadStatement, ...]:
    """Return the statements of `text`, in order; known texts cost a look-up."""
    return tuple(
        UnreadStatement(each, _rough(each)) for each in islice(statements(text[:LONGEST_TEXT]), MOST_STATEMENTS)
    )


def _rough(statement: str) -> frozenset[str]:
    words = _LETTERS.findall(statement[:LONGEST].casefold())
    return frozenset(
        word[:ROUGH] for word in words if word not in _ENGLISH and word not in EMPTY and word not in _GERMAN
    )


def claims_of(text: str, language: str = "") -> tuple[Claim, ...]:
    """Return what each statement of `text` claims, in order; known texts cost a look-up.

    `language` is that of the page, where it is known: few words tell little.
    """
    language = language or language_of(text)
    return tuple(claim(each.text, language) for each in said_in(text))


def language_of(text: str) -> str:
    """Return whose stop words `text` has most of, English when none lead: single sentences are too short to be sure."""
    found = [word.casefold() for word in re.findall(r"[^\W\d_]+", text[:LONGEST])]
    best, most = "en", sum(map(STOP_WORDS["en"].__contains__, found))
    for language in _LANGUAGES:
        count = sum(map(STOP_WORDS[language].__contains__, found))
        if count > most:
            best, most = language, count
    if most == 0 and re.search("[äöüß]", text):
        return "de"
    return best


_ENGLISH, _GERMAN = STOP_WORDS["en"], STOP_WORDS["de"]
_LANGUAGES = ("de", "fr", "es", "it", "nl", "pt", "sv", "da", "pl", "ru")


def statements(text: str) -> Iterator[str]:
    """Yield the sentences, items, `key: value` lines and rows of `text`, without their markup."""
    gathered: list[str] = []
    for line in text.splitlines():
        bare = line.strip()
        starts = not bare or bare[0] in "|#>" or _starts_item(bare) or _is_key_line(bare)
        if starts and gathered:
            yield from _sentences(" ".join(gathered))
            gathered = []
        if bare.startswith("|"):
            yield bare
        elif bare:
            gathered.append(bare)
            if bare[0] == "#" or (not _starts_item(bare) and _is_key_line(bare)):
                yield from _sentences(" ".join(gathered))
                gathered = []
    if gathered:
        yield from _sentences(" ".join(gathered))


def _starts_item(line: str) -> bool:
    found = _MARKER.match(line)
    return found is not None and found.end() > 0


def _is_key_line(line: str) -> bool:
    return len(line) < 120 and re.match(r"[\w*`][^:.!?;,|]{0,50}:\s+\S[^.]{0,60}$", line) is not None


def _sentences(text: str) -> Iterator[str]:
    bare = plain(text)
    begin = 0
    for end in _SENTENCE_END.finditer(bare):
        if not _ABBREVIATED.search(bare[max(begin, end.start() - 12) : end.start()]):
            yield bare[begin : end.start()].strip()
            begin = end.end()
    if bare[begin:].strip():
        yield bare[begin:].strip()


def plain(text: str) -> str:
    """Return `text` without Markdown: no markers, emphasis, links and code ticks."""
    if not text.isascii():
        text = unicodedata.normalize("NFC", text)
    text = _ESCAPED.sub(r"\1", _MARKER.sub("", text.strip(), count=1))
    if "[" in text:
        text = _WIKI.sub(r"\1", _LINK.sub(r"\1", text))
    if "://" in text:
        text = _URL.sub(" ", text)
    if "<" in text:
        text = _TAG.sub(" ", text)
    if ".." in text:
        text = _DOTS.sub("\u2013", text)
    return " ".join(_MARKS.sub("", text).split())


@lru_cache(REMEMBERED)
def cells_of(row: str) -> tuple[str, ...]:
    """Return the cells of a table row, without markup."""
    inner = row.strip().removeprefix("|")
    inner = inner[:-1] if inner.endswith("|") and not inner.endswith(r"\|") else inner
    return tuple(plain(cell.replace(r"\|", "|")) for cell in re.split(r"(?<!\\)\|", inner))


@lru_cache(REMEMBERED)
def claim(statement: str, language: str) -> Claim:
    """Return what one statement says."""
    if statement.startswith("|"):
        return Claim(statement, language, row=cells_of(statement))
    statement = statement[:LONGEST]
    found = read(statement, language)
    split = _KEY.match(statement) or _DEFAULT.match(statement)
    if not split:
        return found
    key, answer = (split[1], split[2]) if split[1] is not None else (split[3], split[4])
    if len(key.split()) > 7 or key.strip().casefold() in NO_KEYS:
        return found
    of_key = read(key, language)
    if not of_key.terms or (of_key.values and not of_key.bag):
        return found
    return replace(found, key=of_key.terms, key_text=key.strip(), answer=answer.strip())


def weight(term: str, names: frozenset[str], language: str) -> float:
    """Return how much a term says about what a statement is about: names most, words like `set` and `value` little."""
    if is_generic(term, language):
        return 0.25
    return 1.6 if term in names else 1.0
