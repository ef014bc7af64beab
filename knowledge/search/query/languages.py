"""The languages in which the words of a question are read, and questions in a language that no page has. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from knowledge.pages.markdown.language import (
    IN_CYRILLIC,
    LEAD,
    QUESTION_WORDS,
    detect,
    english_name,
    has_own_script,
    is_cyrillic,
    telling_words_in,
    without_repetition,
)
from knowledge.search.query.analysis import beginning, index_language, is_stop_word, stem, toned

FLOOR = 0.05
"""The share of the pages that must be in a language for it to count as one of theirs: then questions in an unclear language are read
in it too, and a question in it is not foreign. A few pages are always misdetected, and their stop words are ordinary words elsewhere
(Slovak `list`, Dutch `over`).
"""
COMMON = 1 / 4
"""The share of pages from which a stem of a language counts in full. In few pages every word is rare, so BM25 ranks them too high."""
FEW_PASSAGES = 20
"""The most passages with a word that may be one of a few pages in a rare language; more if there are more such pages."""
RARE_WEIGHT = 0.5
"""The weight of a stem in a language of a smaller share."""
KNOWN_LANGUAGE = 0.5
"""The share of pages whose languages must be known before a question counts as foreign to them."""
MOST_KNOWN = 0.75
"""The share of known words above which a question is foreign only if it has more than `TIMES_IF_KNOWN` times as many stop words of its
language as of any language of the pages: Russian pages about a program have many English words."""
ENOUGH_STOP_WORDS = ((0.5, 3), (0.2, 2), (0.0, 1))
"""Pairs (share, count): if the pages know more than `share` of a question's words, `count` of its stop words are
needed to show its language."""
FEWEST_ASKING = 2
"""Words of a language, stop words or words that only ask, that a question must have at least."""
FEWEST_WORDS = 4
"""Words that a question must have for a single stop word to show its language; fewer may be a name (`Las Palmas`)."""
TIMES, TIMES_IF_KNOWN = 1.5, 3
"""A foreign question has at least `TIMES` times as many stop words of its own language as of any language of the pages, and more than
`TIMES_IF_KNOWN` times as many if the pages know nearly all of its words: *one day to go* is three words of Polish."""
WITHOUT_TONE = 0.4
"""The weight of a word without its tone, if the question has the tone. It finds pages that are written without
tones, or with another tone."""
BY_BEGINNING = 0.6
"""The weight of words that only begin like the question's word. Chosen on 13 collections in eleven languages (kb/decisions/0133)."""
SAME_LETTERS = frozenset({"zh", "ja"})


@dataclass(frozen=True, slots=True)
class QuestionLanguages:
    """How the words of a question are read.

    `stop`: languages whose stop words are left out. `weights`: the weight of a stem by language, most important first;
    `rare` are other languages of the pages, whose stems count only for words outside ASCII, which are seldom misdetected, and
    for words that at most `few` passages have, which may be those of a few pages in such a language.
    """

    stop: tuple[str, ...]
    weights: Mapping[str, float]
    rare: tuple[str, ...]
    few: int = FEW_PASSAGES
    asked: str = ""
    """The question's own language if it is certain although the pages have others."""

    def is_stop_word(self, word: str) -> bool:
        """Return whether `word` is left out of a search.

        That is a stop word, or a question word if the language of the question is certain: French `comment` (how) is an
        ordinary word in English.
        """
        certain = self.asked or (self.stop[0] if len(self.stop) == 1 else "")
        if word in QUESTION_WORDS.get(certain, ()):
            return True
        return bool(self.stop) and is_stop_word(word, self.stop)

    def stems(self, word: str, passages: int | None = None) -> Mapping[str, float]:
        """Return the terms that `word` may be indexed as, with their weights; so many `passages` have it as it is, None: many."""
        found: dict[str, float] = {}
        is_usual = word.isascii() and (passages is None or passages > self.few)
        weights = self.weights if is_usual else {**dict.fromkeys(self.rare, RARE_WEIGHT), **self.weights}
        for language, weight in (weights or {"": 1.0}).items():
            term, as_written, share = stem(word, index_language(language)), toned(word, language), 1.0
            if as_written:
                found[as_written] = max(weight, found.get(as_written, 0.0))
                share = WITHOUT_TONE
            found[term] = max(weight * share, found.get(term, 0.0))
            if begun := beginning(word, language):
                found[begun] = max(weight * BY_BEGINNING, found.get(begun, 0.0))
        return found


def question_languages(query: str, documents: Mapping[str, int]) -> QuestionLanguages:
    """Return the languages of `query` where `documents` has the number of pages in each language; `""` is an unknown one.

    That is the question's own language if it is clear and pages are in it, otherwise every language of at least `FLOOR` of the
    pages. Pages in an unknown language are always searched too, by unstemmed words.
    """
    total = sum(documents.values()) or 1
    known = sorted((language for language in documents if language), key=lambda one: (-documents[one], one))
    usual = [language for language in known if documents[language] >= FLOOR * total] or known[:1]
    own = detect(query)
    spoken = [own] if own in known else usual
    weights = dict.fromkeys(spoken[:1], 1.0)
    for language in (*spoken[1:], *usual, *([""] if "" in documents else [])):
        weights.setdefault(language, 1.0 if documents[language] >= COMMON * total else RARE_WEIGHT)
    rare = tuple(one for one in known if one not in weights)
    return QuestionLanguages(tuple(spoken), weights, rare, max(FEW_PASSAGES, sum(documents[one] for one in rare)))


@dataclass(frozen=True, slots=True)
class LanguageGap:
    """The language of a question in which there are no pages, and the languages of the pages, most frequent first.

    `asked` is empty if only the script shows that it is another language.
    """

    asked: str
    pages: tuple[str, ...]

    @property
    def in_words(self) -> str:
        """The gap as a clause for a message."""
        if not self.asked:
            return f"the pages are in {self.page_languages}, and the question is not"
        return f"the question is in {english_name(self.asked)} and the pages are in {self.page_languages}"

    @property
    def page_languages(self) -> str:
        """The names of the pages' languages."""
        return " and ".join(map(english_name, self.pages))


def may_be_foreign(query: str, documents: Mapping[str, int]) -> bool:
    """Return whether `language_gap` is worth calling; it needs the number of known words, which costs a query."""
    few = FLOOR * sum(documents.values())
    own = detect(query, fewest=1)
    if documents.get(own, 0) < few if own else is_cyrillic(query):
        return True
    return any(documents.get(one, 0) < few and telling_words_in(query, one) >= FEWEST_ASKING for one in QUESTION_WORDS)


def language_gap(
    query: str, documents: Mapping[str, int], words: Sequence[str], *, known: Collection[str]
) -> LanguageGap | None:
    """Return the gap between the language of `query` and those of the pages; None if there is none or it is not clear.

    `words` are the words of `query`, `known` those that pages have. Their ratio is the surest sign: few words of another
    language are also words of the pages. Decision record 61 has the measurements.
    """
    if not words:
        return None
    share = len(known) / len(words)
    fewest = next(count for least, count in ENOUGH_STOP_WORDS if share > least or not least)
    total = sum(documents.values())
    pages = tuple(common_languages(documents))
    own = detect(without_repetition(query), fewest=max(fewest, 2) if len(words) < FEWEST_WORDS else fewest, lead=LEAD)
    asking = _asking_language(query, words, known, fewest=fewest)
    if asking and telling_words_in(query, asking) >= telling_words_in(query, own):
        own = asking  # related languages share their stop words (`des`, `entre`), and not `comment`
    other_letters = is_cyrillic(query) and not IN_CYRILLIC.intersection(pages)
    if documents.get(own, 0) >= FLOOR * total if own else not other_letters:
        return None
    if sum(documents[one] for one in pages) < KNOWN_LANGUAGE * total or SAME_LETTERS.issuperset({own, *pages}):
        return None
    # Without kana a Japanese question looks like a Chinese one.
    if own == "zh" and "ja" in pages:
        return None
    # A script of its own is proof enough. Otherwise the stop words must point clearly away from the pages' languages.
    if not other_letters and not has_own_script(own):
        others = max((telling_words_in(query, one) for one in pages), default=0)
        own_words = telling_words_in(query, own)
        if own_words < TIMES * others or (share > MOST_KNOWN and own_words <= TIMES_IF_KNOWN * others):
            return None
    return LanguageGap(own, pages)


def _asking_language(query: str, words: Sequence[str], known: Collection[str], *, fewest: int) -> str:
    """Return the language whose words that only ask, and stop words, the question has; "" if that is not clear.

    Those that no page has count twice: a page in the language would have them.
    """
    if len(words) < FEWEST_WORDS:
        return ""
    unknown = " ".join(word for word in words if word not in known)
    counts: dict[str, int] = {}
    for language in QUESTION_WORDS:
        if (found := telling_words_in(query, language)) >= FEWEST_ASKING:
            counts[language] = found + telling_words_in(unknown, language)
    best, *others = sorted(counts, key=lambda language: -counts[language]) or [""]
    is_clear = best and counts[best] >= fewest and all(counts[other] < counts[best] for other in others)
    return best if is_clear else ""


def across(gap: LanguageGap, documents: Mapping[str, int]) -> QuestionLanguages:
    """Return how the words of a foreign question are read: any word that is a stop word in neither language may be a name.

    Its own language counts as well if any page is in it; `documents` has the number of pages in each language.
    """
    read_as = (*gap.pages, *([gap.asked] if gap.asked in documents else []))
    stop = (*gap.pages, *filter(None, [gap.asked]))
    return QuestionLanguages(stop, dict.fromkeys(read_as, 1.0), (), asked=gap.asked)


def common_languages(documents: Mapping[str, int]) -> Sequence[str]:
    """Return the languages of at least `FLOOR` of the pages, most frequent first."""
    return list(question_languages("", documents).stop)
