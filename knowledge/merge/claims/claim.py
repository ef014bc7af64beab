"""The claim of a statement: its subject, its conditions, its values, affirmed or denied. Pure.

A text is cut into sentences, list items, `key: value` lines and table rows. Each becomes a claim: the words of its subject as
stems, in order, with the figures between them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from sys import intern
from typing import NamedTuple

from knowledge.merge.claims.lexicon import JOINING, NO_KEYS
from knowledge.merge.claims.statement_reader import REMEMBERED, Claim, read
from knowledge.pages.markdown.language import STOP_WORDS

ROUGH = 4
"""Length of the word prefixes by which statements are matched cheaply, before they are parsed."""
LONGEST_TEXT, MOST_STATEMENTS = 100_000, 1_000
"""The most characters and the most statements that are read of one text. The compared parts of a page are far
smaller."""
LONGEST = 2_000
"""Characters read of a statement; a longer one is data, not prose."""
LONGEST_KEY_LINE = 120

# The markers that start a block: quote, list item, task, heading.
_MARKER = re.compile(r"^\s*(?:>\s*)*(?:(?:[-*+]|\d{1,9}[.)])\s+)?(?:\[[ xX]\]\s+)?(?:#{1,6}\s+)?")
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")
# Every repeat is bounded: without a bound, backtracking over a page full of "[" would take minutes.
_LINK = re.compile(r"!?\[([^\[\]]{0,300})\]\([^)\s]{0,500}(?:\s+\"[^\"]{0,200}\")?\)")
_WIKI = re.compile(r"!?\[\[(?:[^\[\]|]{0,300}\|)?([^\[\]]{0,300})\]\]")
_URL = re.compile(r"<?(?:https?|ftp)://[^\s>)]+>?")
_TAG = re.compile(r"</?[A-Za-z][^<>]{0,200}>")
_GENERATOR_TAG = re.compile(r"\{\{[<%]?[^{}]{0,500}\}\}|\{%[^{}]{0,500}%\}")
_EMPHASIS = re.compile(
    r"\*\*|__(?=\S)|(?<=\S)__|~~|``?|(?<![\w*])\*(?=\S)|(?<=\S)\*(?![\w*])|(?<!\w)_(?=\S)|(?<=\S)_(?!\w)"
)
_DOTS = re.compile(r"(?<=\d)\.\.(?=\d)")
_LETTERS = re.compile(r"[^\W\d_]{3,}")
_DEFAULT = re.compile(
    r"^(.{0,80}?\b(?:defaults? to|default(?: value)?(?: \w+){0,3} is(?: now)?|standardwert(?: \w+){0,3} ist))\s+"
    r"(\S+(?:\s\S+){0,2}?)\.?$",
    re.IGNORECASE,
)
"""`The timeout defaults to 30 s` is the key line `timeout: 30 s` in a sentence."""
_KEY = re.compile(
    r"^([^:=|.!?;]{1,60}?)\s*(?:[:=]\s+|=(?==?[^=]))(\S.*)$|^([\w.-]{1,40})\s*[:=]([^\s:=/].*)$", re.DOTALL
)
_KEY_LINE = re.compile(r"[\w*`][^:.!?;,|]{0,50}:\s+\S[^.]{0,60}$")
_SENTENCE_END = re.compile(
    r"(?<=[.!?])[\"'\u201d\u201c)]*\s+(?=[\"'\u201e\u201c(\[`]*[A-Z\u00c0-\u00de\u0410-\u042f\d`_*$<])|[\u3002\uff01\uff1f]"
)
# "e.g. Linux", "am 3. Mai", "1 Mar. 2019", "approx. 5 MB" end no sentence.
_ABBREVIATED = re.compile(
    r"(?:\b(?:e\.g|i\.e|etc|vs|ca|approx|nr|abs|art|dr|mr|mrs|ms|fig|sec|st|inc|max|min|bzw|usw|z\.\s?b|d\.\s?h|u\.\s?a|vgl|ggf|evtl|"
    r"inkl|zzgl|mio|mrd|std|s|jan|feb|m[a\u00e4]r|mrz|apr|jun|jul|aug|sept?|oct|okt|nov|dec|dez)|(?<!\w)\d{1,2})\.$",
    re.IGNORECASE,
)
_NO = re.compile(r"\bno\.$", re.IGNORECASE)
_LANGUAGES = ("en", "de", "fr", "es", "it", "nl", "pt", "sv", "da", "pl", "ru")
_NO_SUBJECT = STOP_WORDS["en"] | STOP_WORDS["de"] | JOINING


class UnreadStatement(NamedTuple):
    """A statement that has not been parsed, and the prefixes of its words, which show whether parsing it is worthwhile."""

    text: str
    rough: frozenset[str]


@lru_cache(REMEMBERED)
def unread_statements(text: str) -> tuple[UnreadStatement, ...]:
    """Return the statements of `text` in order, not yet parsed; cached by text."""
    found = []
    for statement in islice(split_statements(text[:LONGEST_TEXT]), MOST_STATEMENTS):
        words = _LETTERS.findall(statement[:LONGEST].casefold())
        # Interned, because thousands of cached statements have the same words.
        rough = frozenset(intern(word[:ROUGH]) for word in words if word not in _NO_SUBJECT)
        found.append(UnreadStatement(statement, rough))
    return tuple(found)


def claims_of(text: str, language: str = "") -> tuple[Claim, ...]:
    """Return the claim of each statement of `text`, in order; cached by statement.

    Pass the `language` of the page if it is known: it can't be detected reliably in a few words.
    """
    language = language or most_likely_language(text)
    return tuple(claim(one.text, language) for one in unread_statements(text))


def most_likely_language(text: str) -> str:
    """Return the language whose stop words are most frequent in `text`, English if that is unclear.

    Unlike `language.detect`, which needs a whole page to be sure, this guesses from a sentence or two.
    """
    found = [word.casefold() for word in re.findall(r"[^\W\d_]+", text[:LONGEST])]
    counts = {language: sum(map(STOP_WORDS[language].__contains__, found)) for language in _LANGUAGES}
    best = max(_LANGUAGES, key=counts.__getitem__)
    return "de" if not counts[best] and re.search("[äöüß]", text) else best


def split_statements(text: str) -> Iterator[str]:
    """Yield the sentences, items, `key: value` lines and rows of `text`, without their markup."""
    paragraph: list[str] = []
    for line in text.splitlines():
        bare = line.strip()
        # Its arguments, `url="..."`, are neither keys nor values of the page.
        if bare.startswith("{") and _GENERATOR_TAG.fullmatch(bare):
            continue
        is_item = _MARKER.sub("", bare, count=1) != bare
        is_key = len(bare) < LONGEST_KEY_LINE and _KEY_LINE.match(bare) is not None
        if not bare or bare[0] in "|#>" or is_item or is_key:
            yield from _sentences(" ".join(paragraph))
            paragraph = []
        if bare.startswith("|"):
            yield bare
        elif bare:
            paragraph.append(bare)
            # Headings and key lines end with their line; an item may continue.
            if bare[0] == "#" or (is_key and not is_item):
                yield from _sentences(bare)
                paragraph = []
    yield from _sentences(" ".join(paragraph))


def _sentences(text: str) -> Iterator[str]:
    bare = plain_text(text)
    begin = 0
    for end in _SENTENCE_END.finditer(bare):
        before = bare[max(begin, end.start() - 12) : end.start()]
        # "No. 5" is a number, "No. Ask first." is an answer.
        numbers = _NO.search(before) and bare[end.end() : end.end() + 1].isdigit()
        if not numbers and not _ABBREVIATED.search(before):
            yield bare[begin : end.start()].strip()
            begin = end.end()
    if bare[begin:].strip():
        yield bare[begin:].strip()


def plain_text(text: str) -> str:
    """Return `text` without Markdown: no markers, emphasis, links and code ticks."""
    if not text.isascii():
        text = unicodedata.normalize("NFC", text)
    text = _ESCAPED.sub(r"\1", _MARKER.sub("", text.strip(), count=1))
    # Most statements contain none of these, and a substring test is far cheaper than a substitution.
    if "[" in text:
        text = _WIKI.sub(r"\1", _LINK.sub(r"\1", text))
    if "://" in text:
        text = _URL.sub(" ", text)
    if "<" in text:
        text = _TAG.sub(" ", text)
    if ".." in text:
        text = _DOTS.sub("\u2013", text)
    return " ".join(_EMPHASIS.sub("", text).split())


@lru_cache(REMEMBERED)
def cells_of(row: str) -> tuple[str, ...]:
    """Return the cells of a table row, without markup."""
    inner = row.strip().removeprefix("|")
    inner = inner[:-1] if inner.endswith("|") and not inner.endswith(r"\|") else inner
    return tuple(plain_text(cell.replace(r"\|", "|")) for cell in re.split(r"(?<!\\)\|", inner))


@lru_cache(REMEMBERED)
def claim(statement: str, language: str) -> Claim:
    """Return the claim of one statement."""
    if statement.startswith("|"):
        return Claim(statement, language, row=cells_of(statement))
    statement = statement[:LONGEST]
    found = read(statement, language)
    split = _KEY.match(statement) or _DEFAULT.match(statement)
    if not split:
        return found
    key, answer = (split[1], split[2]) if split[1] is not None else (split[3], split[4])
    # A longer key, or one such as "Note:", means a sentence that happens to contain a colon.
    if len(key.split()) > 7 or key.strip().casefold() in NO_KEYS:
        return found
    of_key = read(key, language)
    if not of_key.terms or (of_key.values and not of_key.bag):
        return found
    return replace(found, key=of_key.terms, key_text=key.strip(), answer=answer.strip())
