"""Correction of typing errors: which words of a query are corrected, and to which known words.

A word is corrected if no chunk has it, it is long enough, it is no frequent word of the language in general, and no other
form of it is known. Candidates are known words within one or two edits that are neither its opposite nor a form of it.
Decision record 14 gives the reasons.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple

import anyio
import anyio.to_thread
import numpy as np
from numpy.typing import NDArray

from knowledge.search.query.analysis import is_part_of_a_run, is_stop_word, stem
from knowledge.state.ports import IndexPosition, IndexStore

SHORTEST = 4
"""Letters that a word must have to be corrected."""
TWO_EDITS_FROM = 9
"""Letters that a word must have for two edits to be tried."""
MOST_CORRECTED = 10
LONGEST_ENDING = 2
"""Letters at the end of a word in which it may differ from another form of the same word."""
NEGATIONS = frozenset({"un", "in", "im", "il", "ir", "dis", "non", "mis", "de", "a", "an", "anti"})
"""Prefixes that turn a word into its opposite, in English and in languages with the same ones from Latin and Greek."""
MOST_FORMS = 20
VOCABULARY_S = 10.0
"""The least time between two loads of the vocabulary while files keep changing: a large one takes a tenth of a second."""

Correct = Callable[[IndexStore, str], Awaitable[Sequence[str]]]
"""Returns the known words that an unknown word may have meant, likeliest first."""


async def find_corrections(
    index: IndexStore,
    correct: Correct,
    content: Sequence[str],
    *,
    known: Mapping[str, int],
    spoken: Sequence[str],
) -> dict[str, Sequence[str]]:
    """Return the candidates for each word of `content` that may be misspelt.

    `known` has the words that chunks contain; `spoken` are the languages that the query may be in.
    """
    long = (word for word in content if len(word) >= SHORTEST and not is_part_of_a_run(word))
    # Known words are left alone: errors that produce another known word cost 0.1 % of quality (decision 14).
    unknown = [word for word in long if word not in known]
    found: dict[str, Sequence[str]] = {}
    for word in unknown[:MOST_CORRECTED]:
        if not await _is_inflected(index, word, spoken):
            near = await correct(index, word)
            stems = {language: stem(word, language) for language in spoken}
            found[word] = [
                other
                for other in near
                if not is_opposite(word, other) and all(stem(other, one) != stems[one] for one in spoken)
            ]
    return found


def is_opposite(word: str, other: str) -> bool:
    """Return whether one of two words is the other with a negating prefix (`unsuccessful` and `successful`)."""
    short, long = sorted((word, other), key=len)
    return long.endswith(short) and long[: len(long) - len(short)] in NEGATIONS


def is_sure(word: str, other: str, language: str) -> bool:
    """Return whether `word` is probably a misspelt `other`, so that the question may be put with `other` instead.

    People rarely mistype the first letter, and right words often differ in it (`supposition` and `opposition`). Outside
    English, whose frequent words we know, they also differ in endings that a stemmer keeps (`repoussent` and `repousser`).
    """
    if word[0] != other[0] and word[:2] != other[1::-1]:
        return False
    same = next((at for at, (one, two) in enumerate(zip(word, other, strict=False)) if one != two), len(word))
    return language == "en" or same < max(len(word), len(other)) - LONGEST_ENDING


async def _is_inflected(index: IndexStore, word: str, languages: Sequence[str]) -> bool:
    """Return whether another form of `word` is known: then it is spelt correctly, and found by its stem."""
    for language in languages:
        term = stem(word, language)
        # From the word and not from its term, which has lost its accents.
        near = await index.completions(word[: max(len(term) - 1, SHORTEST - 1)], limit=MOST_FORMS)
        if any(stem(other, language) == term for other in near):
            return True
    return False


def spoken_languages(asked: Sequence[str], languages: Sequence[str]) -> Sequence[str]:
    """Return those of `languages` that a query may be in: the commonest one, and those whose stop words it has.

    With the rules of every language nearly every misspelt word is a form of some word: *lattie* is one of *latte*.
    """
    commonest = languages[:1]
    telling = [word for word in asked if not is_stop_word(word, commonest or ("",))]
    return [*commonest, *(other for other in languages[1:] if any(is_stop_word(word, (other,)) for word in telling))]


def corrected_query(query: str, best: Mapping[str, str]) -> str:
    """Return `query` with its misspelt words replaced by `best`; order and repetition stay, because they carry meaning.

    If `query` spells a word differently than the analysis (composed letters, a part of an identifier), its correction is
    added at the end.
    """
    missed = dict(best)

    def put(found: re.Match[str]) -> str:
        word = found[0].casefold()
        missed.pop(word, None)
        return best.get(word, found[0])

    asked = "|".join(map(re.escape, best))
    text = re.sub(rf"(?<![^\W_])(?:{asked})(?![^\W_])", put, query, flags=re.IGNORECASE)
    return " ".join([text, *missed.values()])


class _WordGroup(NamedTuple):
    """All known words of one length, their counts, and which letters each has, as bits."""

    words: list[str]
    counts: list[int]
    letters: NDArray[np.uint64]


class Vocabulary:
    """Known words with the number of chunks that have them, grouped for `near`. Immutable."""

    def __init__(self, pairs: Sequence[tuple[str, int]]) -> None:
        by_length: dict[int, list[tuple[str, int]]] = {}
        for pair in pairs:
            # numpy strips trailing NULs, and no word has one.
            if "\x00" not in pair[0] and len(pair[0]) >= SHORTEST - 1:
                by_length.setdefault(len(pair[0]), []).append(pair)
        self._groups = {
            length: _WordGroup(
                [word for word, _ in group], [n for _, n in group], _letters([word for word, _ in group])
            )
            for length, group in by_length.items()
        }

    def near(self, word: str, limit: int = 3) -> list[str]:
        """Return the known words that `word` may be a misspelling of: fewest edits first, then most frequent, then by word.

        One edit (a character inserted, deleted or replaced, or two adjacent ones swapped) for 4 to 8 letters, two from 9
        on. None for shorter words, and for words with a digit, where one edit makes a different name. `word` itself is
        never returned.
        """
        # Loading the library takes 20 ms, which a process without misspelt queries does not pay.
        from rapidfuzz.distance.OSA import distance

        if len(word) < SHORTEST or not word.isalpha():
            return []
        edits = 2 if len(word) >= TWO_EDITS_FROM else 1
        mine = _letters([word])[0]
        found: list[tuple[int, int, str]] = []
        for length in range(len(word) - edits, len(word) + edits + 1):
            if (group := self._groups.get(length)) is None:
                continue
            # One edit changes at most two bits. Comparing all words by distance would take ten times as long.
            for row in np.flatnonzero(np.bitwise_count(group.letters ^ mine) <= 2 * edits).tolist():
                between = distance(word, group.words[row], score_cutoff=edits)
                if 0 < between <= edits:
                    found.append((between, -group.counts[row], group.words[row]))
        # Two errors in one word are so much rarer than one that no frequency makes up for it.
        return [other for _, _, other in sorted(found)][:limit]


def _letters(words: list[str]) -> NDArray[np.uint64]:
    """Return one bit for each letter (its code modulo 64) of each word; all words have the same length."""
    codes = np.array(words, dtype=f"<U{len(words[0])}").view(np.uint32).reshape(len(words), -1)
    bits = np.left_shift(np.uint64(1), (codes & np.uint32(63)).astype(np.uint64))
    found: NDArray[np.uint64] = np.bitwise_or.reduce(bits, axis=1)
    return found


class Vocabularies:
    """The vocabulary of an index, loaded again after changes, at most every `VOCABULARY_S`.

    A word for which `is_usual_word` is true is spelt rightly, although no page has it.
    """

    def __init__(self, is_usual_word: Callable[[str], bool] = lambda _: False) -> None:
        self._is_usual_word = is_usual_word
        self._at: IndexPosition | None = None
        self._stale_from = 0.0
        self._known: Vocabulary | None = None
        self._found: dict[str, Sequence[str]] = {}

    async def near(self, index: IndexStore, word: str) -> Sequence[str]:
        """Return the known words that `word` may have meant, likeliest first."""
        position = await index.position()
        if self._known is None or (self._at != position and anyio.current_time() >= self._stale_from):
            self._known = await anyio.to_thread.run_sync(Vocabulary, await index.vocabulary())
            self._at, self._found = position, {}
            self._stale_from = anyio.current_time() + VOCABULARY_S
        # A search with the same error is often repeated, by its next pages and by other callers.
        if word not in self._found:
            self._found[word] = () if self._is_usual_word(word) else self._known.near(word)
        return self._found[word]
