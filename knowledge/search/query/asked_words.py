"""The words of a question as its reader sees them. A compound is one word, and so is a run of letters without spaces. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from knowledge.search.query.analysis import is_anywhere_in_a_run, is_part_of_a_run, name_parts, token_groups

SHORT_PART = 4
"""Chinese characters in a row up to which they are named as one word. More are several words, of which some may be on a page."""
WINDOW = 3
_IDENTIFIER = re.compile(r"[a-z0-9][A-Z]|[A-Z]{2}[a-z]|\w[_.]\w")
_PIECES = re.compile(r"\d+|[^\W\d_]+")
LONGEST_ASKING = 500
"""The characters of a question in which words that only ask are looked for."""
FEWEST_CAPITALS = 4
"""Capital letters of an abbreviation or a code without a number, such as `ECONNREFUSED`."""
_ONLY_ASKS = (
    re.compile(
        r"\bhow\s+(?:do|does|can|could|should|would|to)\s+(?:(?:i|we|you|one|people)\s+)?(make|get|do|use)\b",
        re.IGNORECASE,
    ),
    re.compile(
        r"\b(pages?|notes?|everything|anything|information|info)\s+(?:about|on|regarding|tagged)\b", re.IGNORECASE
    ),
    re.compile(r"^\W*(list|show|find|give|tell)\s+(?:me|us|all|every)\b", re.IGNORECASE),
    re.compile(r"\bwhat\s+(?:has\s+)?(happened|happens)\b", re.IGNORECASE),
    re.compile(r"\b(differences?|different)\s+between\b", re.IGNORECASE),
    re.compile(r"\bwhat\s+(?:is|are|was|were|does|do|did)\b.*\b(like)\W*$", re.IGNORECASE),
)
"""Words by which somebody asks, and which a page that answers need not have: how do I *make* pancakes, *notes* about tea."""
_HIRAGANA = re.compile("[\u3041-\u309f]")
_HANGUL = re.compile("[\uac00-\ud7af]")
_IS_A_WORD = re.compile("[\u30a0-\u30ff\uac00-\ud7af]")
"""Katakana write one word after the other with a sign between them, and Korean has spaces."""
_PARTS_OF_RUN = re.compile("[\u30a0-\u30ff]+|[^\u3041-\u30ff]+")
"""Katakana, and what is neither katakana nor hiragana. Hiragana are mostly endings and particles."""


@dataclass(frozen=True, slots=True)
class AskedWord:
    """A word of a question, `written` as there, and what is searched for it.

    `terms` are the word and its parts (`frontmatter`, `front`, `matter`), without stop words. Of a run without spaces they are its
    letters and pairs of neighbouring letters.
    """

    written: str
    terms: tuple[str, ...]
    is_run: bool = False

    @property
    def counted(self) -> Sequence[tuple[str, ...]]:
        """The groups of terms that count as a word each: all of a compound together, each piece of a run for itself."""
        return [(term,) for term in self.terms] if self.is_run else [self.terms]

    @property
    def is_identifier(self) -> bool:
        """Whether it is the name of one thing, and not two words with a hyphen: `dump_csv`, `TypeAdapter.dump`, `OpenBSD`."""
        return not self.is_run and len(self.terms) > 1 and _IDENTIFIER.search(self.written) is not None

    @property
    def is_code(self) -> bool:
        """Whether a word that differs in one sign means another thing: `FS-2011`, `12.2`, `4D`, `0x8007`, `ECONNREFUSED`."""
        if self.is_run:
            return False
        pieces = _PIECES.findall(self.written)
        is_numbered = len(pieces) > 1 and any(map(str.isdigit, pieces))
        return is_numbered or (
            self.written.isalpha() and self.written.isupper() and len(self.written) >= FEWEST_CAPITALS
        )

    def is_code_in(self, texts: Iterable[str]) -> bool:
        """Return whether one of the texts has this code, however its pieces are joined there, and not only a longer one with it."""
        pieces = _PIECES.findall(self.written)
        before = r"(?<!\d)(?<!\d[.])" if pieces[0].isdigit() else r"(?<![^\W\d_])"
        after = r"(?!\d)" if pieces[-1].isdigit() else r"(?![^\W\d_])"
        found = re.compile(before + r"[\W_]{0,3}".join(map(re.escape, pieces)) + after, re.IGNORECASE)
        return any(found.search(text) for text in texts)

    def is_together_in(self, texts: Iterable[str]) -> bool:
        """Return whether one of the texts has the parts of the word one after the other, however they are joined there."""
        found = re.compile(r"[\W_]{0,3}".join(map(re.escape, name_parts(self.written))), re.IGNORECASE)
        return any(found.search(text) for text in texts)

    def lacking(self, having: Mapping[str, float]) -> list[str]:
        """Return what of the word is not among the terms `having` (1 each), as one would name it: the word, or a stretch of a run."""
        if not self.is_run:
            return [] if share_of(self.terms, having) == 1.0 else [self.written]
        missing = [term for term in self.terms if term not in having]
        if not missing or not all(map(is_anywhere_in_a_run, missing)):
            return missing
        if len(self.written) == 1:
            return [self.written]
        return [name for part in _PARTS_OF_RUN.findall(self.written) for name in _stretches(part, frozenset(missing))]

    def windows(self) -> Iterator[str]:
        """Yield the parts of three letters that a text with the word probably has, case-folded; none of a word with spaces around it.

        Without hiragana, which change with the sentence. Of a Korean word only its beginning, because its end changes.
        """
        if not self.is_run:
            return
        folded = self.written.casefold()
        for at in range(1 if _HANGUL.match(folded) else max(0, len(folded) - WINDOW + 1)):
            window = folded[at : at + WINDOW]
            searched = {window[:2], window[1:]} <= set(self.terms)
            if len(window) == WINDOW and searched and not _HIRAGANA.search(window):
                yield window


def asked_words(query: str, content: Collection[str]) -> tuple[AskedWord, ...]:
    """Return the words of `query` of which anything is searched, each once; `content` has all that is searched."""
    found: dict[tuple[str, ...], AskedWord] = {}
    for written, groups in token_groups(query):
        is_run = all(len(group) == 1 for group in groups) and any(is_part_of_a_run(group[0]) for group in groups)
        terms = tuple(term for group in groups for term in group if term in content)
        if terms:
            found.setdefault(terms, AskedWord(written, terms, is_run))
    return tuple(found.values())


def words_that_ask(query: str) -> frozenset[str]:
    """Return the words of `query`, case-folded, that only ask, although they are no stop words."""
    return frozenset(word.casefold() for pattern in _ONLY_ASKS for word in pattern.findall(query[:LONGEST_ASKING]))


def share_of(terms: Sequence[str], match: Mapping[str, float]) -> float:
    """Return how much of a word is there, 0..1: the word itself, or its parts."""
    whole, *parts = (match.get(term, 0.0) for term in terms)
    return max(whole, fmean(parts)) if parts else whole


def _stretches(part: str, missing: Collection[str]) -> Iterator[str]:
    """Yield each longest stretch of `part` of which every pair of letters is missing; all of a short part or of a word if any is."""
    pairs = ["".join(pair) for pair in pairwise(part.casefold())]
    if len(part) <= SHORT_PART or _IS_A_WORD.match(part):
        if any(pair in missing for pair in pairs):
            yield part
        return
    begin = None
    for at, pair in enumerate([*pairs, ""]):
        if pair in missing:
            begin = at if begin is None else begin
        elif begin is not None:
            yield part[begin : at + 1]
            begin = None
