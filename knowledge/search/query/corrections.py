"""Corrects typing errors: decides which words of a query may be misspelt, and finds the known words that were probably meant.

A word may be misspelt if no chunk has it, it is long enough, it is not a frequent word of the language in general, and
no other form of it is known. Candidates are known words within one or two edits of that word, but not its opposites or
other forms of it. Each has the probability that it was meant. Decision record 63 gives the reasons.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import anyio
import anyio.to_thread
import numpy as np
from numpy.typing import NDArray

from knowledge.search.query.analysis import is_part_of_a_run, is_stop_word, stem, word_groups
from knowledge.search.query.place_words import ROLES
from knowledge.state.ports import IndexPosition, IndexStore

SHORTEST = 3
"""Letters that a word must have to be corrected."""
ANY_EDIT_FROM = 4
"""From this many letters on, any single edit is tried. In a shorter word, which is near too many others, only a lost or
swapped letter is."""
TWO_EDITS_FROM = 9
"""Letters that a word must have for two edits to be tried."""
MOST_CORRECTED = 10
MOST_CANDIDATES = 3
NEGATIONS = frozenset({"un", "in", "im", "il", "ir", "dis", "non", "mis", "de", "a", "an", "anti"})
"""Prefixes that turn a word into its opposite, in English and in languages with the same ones from Latin and Greek."""
MOST_FORMS = 20
VOCABULARY_S = 10.0
"""The shortest time between two loads of the vocabulary while files keep changing: loading a large one takes 0.1 s."""
REMEMBERED_WORDS = 10_000
"""Unknown words whose candidates are cached: pages may not change for weeks, while new words are asked every day."""
SURE = 0.77
"""The probability from which the candidate replaces the word in the question."""
SURE_IF_SHORT, SHORT = 0.9, 6
"""The probability that is required instead of `SURE` for a word of at most that many letters: many correct words are one edit away
from it (`wake` and `make`)."""
SURE_IN_OTHER_SCRIPTS = 0.92
"""The probability that is required instead of `SURE` in scripts other than Latin, Greek and Cyrillic. Where few
vowels are written, or characters are syllables, changing one letter usually makes another correct word."""
LEAST = 0.05
"""The lowest probability with which a candidate is still searched for."""
BIAS = 0.389
UNUSUAL, FREQUENT, SECOND, INVENTED, ENDING, BEGINNING, LETTERS = 0.393, 0.337, -6.1, -2.425, -0.372, -0.517, 0.151
"""Weights of a logistic model that tells typing errors from correct words that no page has, fitted on 56 public
collections in 17 languages (kb/decisions/0063). Its inputs, in order: how much likelier the candidate's letter
sequence is than the word's; the logarithm of the number of the candidate's chunks; whether more than one edit is
needed and the word has letters that the candidate lacks; the number of these letters; whether the last two letters
differ (1, or 2 if the very last one does); whether the first letter differs; the word's length."""
ALPHABET = 26
_OTHER_SCRIPTS = re.compile("[\u0590-\u1dff]")
_JOINERS = re.compile("[-_.]")
_RUN = re.compile(r"[^\W_]+")
_DIGITS = re.compile(r"\d")


class Candidate(NamedTuple):
    """A known word that a misspelt one may have meant, and the probability that it did, 0..1."""

    word: str
    probability: float


Correct = Callable[[IndexStore, str], Awaitable[Sequence[Candidate]]]
"""Returns the known words that an unknown word may have meant, likeliest first."""


async def find_corrections(
    index: IndexStore,
    correct: Correct,
    content: Sequence[str],
    *,
    known: Mapping[str, int],
    spoken: Sequence[str],
) -> dict[str, Sequence[Candidate]]:
    """Return the candidates for each word of `content` that may be misspelt.

    `known` has the words that chunks contain; `spoken` are the languages that the query may be in.
    """
    long = (word for word in content if len(word) >= SHORTEST and not is_part_of_a_run(word))
    # Known words are left alone: errors that produce another known word cost 0.1 % of quality (decision 14).
    unknown = [word for word in long if word not in known]
    found: dict[str, Sequence[Candidate]] = {}
    for word in unknown[:MOST_CORRECTED]:
        if not await has_form(index, word, spoken):
            near = await correct(index, word)
            stems = {language: stem(word, language) for language in spoken}
            found[word] = [
                other
                for other in near
                if other.probability >= LEAST
                and not is_opposite(word, other.word)
                and all(stem(other.word, one) != stems[one] for one in spoken)
            ][:MOST_CANDIDATES]
    return found


def sure_corrections(query: str, found: Mapping[str, Sequence[Candidate]]) -> dict[str, str]:
    """Return the words of the question that may be replaced without asking, each with its replacement.

    A name with capitals inside or a part of it (`caml` of *OCaml*), a compound or a word of three letters is left
    out, because it is near other words by chance. So are a word that asks for a place in some language (`abre`), one
    that differs from its candidate only by accents or a hyphen, because both spellings are right, and one that
    differs only by its last letter, because it may be another form.
    """
    sure: dict[str, str] = {}
    runs = (run for run in _RUN.findall(query) if _has_capitals_inside(run))
    names = {word for run in runs for group in word_groups(run) for word in group}
    for word, near in found.items():
        if near and len(word) >= ANY_EDIT_FROM and word.isalpha() and word not in names and word not in ROLES:
            other, probability = near[0]
            # Two letters that changed places are hardly another word.
            short = SURE_IF_SHORT if len(word) <= SHORT and sorted(word) != sorted(other) else SURE
            least = SURE_IN_OTHER_SCRIPTS if _OTHER_SCRIPTS.search(word) else short
            same = max(len(word), len(other)) - 1
            is_form = word[:same] == other[:same]
            is_spelling = any(stem(word, "") == stem(_JOINERS.sub("", one.word), "") for one in near)
            if probability >= least and not is_form and not is_spelling:
                sure[word] = other
    return sure


def _has_capitals_inside(run: str) -> bool:
    """Return whether a word has two capitals in a row, or begins with one and has another (`DeepL`)."""
    return any(one.isupper() and other.isupper() for one, other in pairwise(run)) or (
        run[:1].isupper() and any(map(str.isupper, run[1:]))
    )


def is_opposite(word: str, other: str) -> bool:
    """Return whether one of two words is the other with a negating prefix (`unsuccessful` and `successful`)."""
    short, long = sorted((word, other), key=len)
    return long.endswith(short) and long[: len(long) - len(short)] in NEGATIONS


async def has_form(index: IndexStore, word: str, languages: Sequence[str]) -> bool:
    """Return whether `word` is known in any form in one of the languages: then it is spelt correctly, and found by its stem."""
    for language in languages:
        term = stem(word, language)
        # From the word and not from its term, which has lost its accents.
        near = await index.completions(word[: max(len(term) - 1, SHORTEST - 1)], limit=MOST_FORMS)
        if any(stem(other, language) == term for other in near):
            return True
    return False


def spoken_languages(asked: Sequence[str], languages: Sequence[str]) -> Sequence[str]:
    """Return those of `languages` that a query may be in: the most common one, and those whose stop words it has.

    Under the rules of all languages nearly every misspelt word is a form of some word: *lattie* would be one of *latte*.
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

    # A pattern of these words takes longer to compile than all runs of letters take to look up.
    if query.isascii() and all(word.isascii() and word.isalnum() for word in best):
        return " ".join([_RUN.sub(put, query), *missed.values()])
    asked = "|".join(map(re.escape, best))
    text = re.sub(rf"(?<![^\W_])(?:{asked})(?![^\W_])", put, query, flags=re.IGNORECASE)
    return " ".join([text, *missed.values()])


class _WordGroup(NamedTuple):
    """All known words of one length, with the number of chunks of each and a bit mask of its letters."""

    words: list[str]
    counts: list[int]
    letters: NDArray[np.uint64]


class Vocabulary:
    """Known words with the number of chunks that have them, grouped for `near`. Immutable."""

    def __init__(self, pairs: Sequence[tuple[str, int]]) -> None:
        by_length: dict[int, list[tuple[str, int]]] = {}
        for pair in pairs:
            # numpy strips trailing NULs, and no word has one.
            if "\x00" not in pair[0] and len(pair[0]) >= SHORTEST:
                by_length.setdefault(len(pair[0]), []).append(pair)
        self._groups: dict[int, _WordGroup] = {}
        self._spelling = _Spelling()
        for length, group in by_length.items():
            words = [word for word, _ in group]
            codes = _codes(words)
            self._groups[length] = _WordGroup(words, [n for _, n in group], _letters(codes))
            self._spelling.learn(codes)

    def near(self, word: str, limit: int = 2 * MOST_CANDIDATES) -> list[Candidate]:
        """Return the known words that `word` may be a misspelling of, likeliest first.

        An edit inserts, deletes or replaces a character, or swaps two adjacent ones. A word of 4 to 8 letters may be
        one edit away, a longer one two edits, and a word of 3 letters one lost or swapped letter. Words with other
        digits are not returned, because they are other names. `word` itself is never returned.
        """
        # Loading the library takes 20 ms, which a process without misspelt queries does not pay.
        from rapidfuzz.distance.OSA import distance
        from rapidfuzz.process import cdist

        if len(word) < SHORTEST or not any(map(str.isalpha, word)):
            return []
        edits = 2 if len(word) >= TWO_EDITS_FROM else 1
        mine = _letters(_codes([word]))[0]
        counted, digits = Counter(word), _DIGITS.findall(word)
        found: list[_Misspelling] = []
        for length in range(len(word) - edits, len(word) + edits + 1):
            if (group := self._groups.get(length)) is None:
                continue
            # One edit changes at most two bits. Comparing all words by distance would take ten times as long.
            rows = np.flatnonzero(np.bitwise_count(group.letters ^ mine) <= 2 * edits)
            others = [group.words[row] for row in rows.tolist()]
            apart = cdist([word], others, scorer=distance, score_cutoff=edits, dtype=np.uint8)[0]
            for at in np.flatnonzero((apart > 0) & (apart <= edits)).tolist():
                row, other, between = int(rows[at]), others[at], int(apart[at])
                if _DIGITS.findall(other) != digits:
                    continue
                invented = (counted - Counter(other)).total()
                if invented and len(word) < ANY_EDIT_FROM:
                    continue
                # A letter can be lost or swapped at each place of the word; an invented one can be any letter of the alphabet.
                chance = math.log(group.counts[row]) - between * math.log(4 * length) - invented * math.log(ALPHABET)
                found.append(_Misspelling(-chance, other, group.counts[row], between, invented))
        usual = self._spelling.likelihood(word)
        return [Candidate(one.other, self._probability(word, one, usual)) for one in sorted(found)[:limit]]

    def _probability(self, word: str, made: _Misspelling, usual: float) -> float:
        score = (
            BIAS
            + UNUSUAL * (self._spelling.likelihood(made.other) - usual)
            + FREQUENT * math.log(made.chunks)
            + SECOND * (made.edits > 1 and made.invented > 0)
            + INVENTED * made.invented
            + ENDING * (1 + (word[-1] != made.other[-1]) if word[-2:] != made.other[-2:] else 0)
            + BEGINNING * (word[0] != made.other[0])
            + LETTERS * len(word)
        )
        return 1 / (1 + math.exp(-score))


class _Misspelling(NamedTuple):
    """The edits between a known word and the one that was typed; the likeliest misspelling sorts first.

    `invented` counts letters of the typed word that the known one lacks.
    """

    unlikeliness: float
    other: str
    chunks: int
    edits: int
    invented: int


class _Spelling:
    """A letter model of the known words: how likely each letter is after the two before it.

    A typing error leaves letters that seldom follow each other (`disconnnect`); a correct word that no page has looks like the
    known ones.
    """

    SEQUENCES, PAIRS = 1 << 18, 1 << 14
    """Sizes of the hashed tables of counts. With so many places, collisions make no difference."""
    FEW = 4.0
    """Occurrences of a pair of letters from which the counts after the pair weigh as much as those after its last
    letter alone."""
    CHOICES = 30
    """The number of equally likely next letters assumed where nothing is known."""

    def __init__(self) -> None:
        self._three, self._two_of_three = np.zeros(self.SEQUENCES, np.int32), np.zeros(self.SEQUENCES, np.int32)
        self._two, self._one_of_two = np.zeros(self.PAIRS, np.int32), np.zeros(self.PAIRS, np.int32)

    def learn(self, codes: NDArray[np.uint32]) -> None:
        """Count the letters of words of one length."""
        counted = (self._three, self._two_of_three, self._two, self._one_of_two)
        for counts, places in zip(counted, self._places(codes), strict=True):
            np.add(counts, np.bincount(places.ravel(), minlength=len(counts)), out=counts, casting="same_kind")

    def likelihood(self, word: str) -> float:
        """Return the logarithm of the probability of these letters."""
        three, two_of_three, two, one_of_two = self._places(_codes([word]))
        after_one = (self._two[two] + self.FEW / self.CHOICES) / (self._one_of_two[one_of_two] + self.FEW)
        after_two = (self._three[three] + self.FEW * after_one) / (self._two_of_three[two_of_three] + self.FEW)
        return float(np.log(after_two).sum())

    def _places(self, codes: NDArray[np.uint32]) -> tuple[NDArray[np.integer[Any]], ...]:
        """Return four table indexes for each letter.

        The first is for the letter with the two before it, the second for those two. The third is for the letter with
        the one before it, the fourth for that one.
        """
        padded = np.zeros((len(codes), codes.shape[1] + 3), np.uint32)
        padded[:, 2:-1] = codes
        first, second, third = padded[:, :-2], padded[:, 1:-1], padded[:, 2:]
        # Products of unsigned numbers wrap around, as hashes do.
        before = np.multiply(first, np.uint32(2654435761)) + np.multiply(second, np.uint32(40503))
        three = before + np.multiply(third, np.uint32(545915911))
        two = np.multiply(second, np.uint32(40503)) + np.multiply(third, np.uint32(69069))
        sequences, pairs = np.uint32(self.SEQUENCES - 1), np.uint32(self.PAIRS - 1)
        return (three >> 7) & sequences, (before >> 7) & sequences, (two >> 3) & pairs, second & pairs


def _codes(words: list[str]) -> NDArray[np.uint32]:
    """Return the codes of the letters of words of the same length, a row each."""
    return np.array(words, dtype=f"<U{len(words[0])}").view(np.uint32).reshape(len(words), -1)


def _letters(codes: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """Return one bit for each letter (its code modulo 64) of each word."""
    bits = np.left_shift(np.uint64(1), (codes & np.uint32(63)).astype(np.uint64))
    found: NDArray[np.uint64] = np.bitwise_or.reduce(bits, axis=1)
    return found


class Vocabularies:
    """The vocabulary of an index, reloaded after changes, at most every `VOCABULARY_S`, and once all pages are indexed.

    Words for which `is_usual_word` is true are never corrected, even if no page has them.
    """

    def __init__(self, is_usual_word: Callable[[str], bool] = lambda _: False) -> None:
        self._is_usual_word = is_usual_word
        self._at: IndexPosition | None = None
        self._stale_from = 0.0
        self._lacks_pages = False
        self._known: Vocabulary | None = None
        self._found: dict[str, Sequence[Candidate]] = {}

    async def near(self, index: IndexStore, word: str) -> Sequence[Candidate]:
        """Return the known words that `word` may have meant, likeliest first."""
        position, progress = await index.position(), await index.progress()
        lacks_pages = progress.done < progress.total
        is_stale = anyio.current_time() >= self._stale_from or (self._lacks_pages and not lacks_pages)
        if self._known is None or (self._at != position and is_stale):
            self._known = await anyio.to_thread.run_sync(Vocabulary, await index.vocabulary())
            self._at, self._lacks_pages, self._found = position, lacks_pages, {}
            self._stale_from = anyio.current_time() + VOCABULARY_S
        # A search with the same error is often repeated, by its next pages and by other callers.
        if word not in self._found:
            if len(self._found) >= REMEMBERED_WORDS:
                self._found.clear()
            self._found[word] = () if self._is_usual_word(word) else self._known.near(word)
        return self._found[word]
