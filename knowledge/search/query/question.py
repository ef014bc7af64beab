"""A parsed question: its content words, the indexed terms that count as each of them, and the text to embed."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import date
from itertools import islice, pairwise

from knowledge.index.ports import QueryTerm
from knowledge.search.query.analysis import is_part_of_a_run, word_groups
from knowledge.search.query.asked_words import AskedWord, asked_words, words_that_ask
from knowledge.search.query.corrections import (
    Candidate,
    Correct,
    corrected_query,
    find_corrections,
    has_form,
    spoken_languages,
    sure_corrections,
)
from knowledge.search.query.languages import (
    LanguageGap,
    QuestionLanguages,
    across,
    common_languages,
    language_gap,
    may_be_foreign,
    question_languages,
)
from knowledge.search.query.phrase import Phrase, core_of, phrases_of
from knowledge.search.query.separable_verbs import GERMAN, SeparatedVerb, separated_verb
from knowledge.search.times.days import days_in, other_names_of_month
from knowledge.search.times.periods import BEFORE_MONTH, periods_in
from knowledge.state.ports import IndexPosition, IndexStore

MOST_TERMS = 48
"""The most distinct words that are searched. Of a longer question, such as a pasted log, the rarest words are
searched."""
MOST_DATES = 3
"""The most dates that are searched as days, and the most times that are looked up. Without a year each is fifty, one for each year."""
READ_FOR_TIMES = 500
"""The first characters of a question, in which times are looked for: in a pasted log, each line may have one."""
MOST_DATED_PAGES = 500
"""The most pages of one time that are looked at."""
LIKELY = 0.5
"""The probability from which a correction decides what kind of word was misspelt."""
ENGLISH, FRENCH = "en", "fr"
PARTICLES = frozenset({"down", "in", "off", "on", "out", "over", "up"})
"""Stop words that change the meaning of the English verb before them."""
OPPOSITES = PARTICLES - {"in", "on"}
"""Those that a page about the verb with this particle has: `in` and `on` are in any text, and follow any word."""
AS_ONE_WORD = 0.8
"""The weight of a verb and its particle as one word: `cab in` of *the cab in the city* is no cabin."""
PREFIX_WEIGHT = 0.6
WHOLE_SHARE = 0.5
"""The share of a compound's weight (`GitHub`, `front-matter`) that the whole word has; its parts share the rest. Together they
count as one word: with full weight for each, pages that repeat the compound would come first whatever else was asked."""
COMPOUNDING = frozenset({"da", "de", "fi", "hu", "nl", "no", "sv"})
"""Languages that write compounds as one word."""
SHORTEST_PART, SHORTEST_END = 4, 5
"""Letters that the first part of a compound has at least, and the part that ends it: shorter ones end many words by chance."""
OF_A_COMPOUND = 0.36
"""The probability that a compound and its part are about the same."""
MOST_COMPLETIONS = 8
SHORTEST_PREFIX = 3
MOST_EMBEDDED = 4000
_VERSUS = re.compile(r"(?<=\w)\s+(?:vs\.?|versus)\s+(?!code\b)(?=\w)")
"""Between two things that are compared, and not the name of an editor."""
_ABOUT = re.compile(r"について[のは]?|に関(?:する|して)|とは(?=[?\uff1f]?\s*$)")
"""*About*, and *what is*, in Japanese: of the letters of an unspaced script, these would be rare words."""
_MONTH_OF_MAY = re.compile(rf"\b(?:{BEFORE_MONTH})[\s-]+may\b", re.IGNORECASE)
"""`may` where it is the month, and not the verb."""
MAY = frozenset({"may"})
_KANA = re.compile("[\u3041-\u30ff]")


@dataclass(frozen=True, slots=True)
class SearchQuestion:
    """Content words, the terms for each, the pairs of neighbours, the text to embed, and the corrected query."""

    content: tuple[str, ...]
    terms: tuple[QueryTerm, ...]
    to_embed: str
    corrected: str | None
    pairs: tuple[tuple[str, str], ...] = ()
    """Content words that follow each other in the question, stop words between them left out."""
    languages: tuple[str, ...] = ()
    """The languages that it is read in, most important first; `""` is an unknown one."""
    corrections: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The known words that are searched in place of each misspelt one."""
    completions: tuple[str, ...] = ()
    """The known words that the last word may be the beginning of."""
    known: Mapping[str, int] = field(default_factory=dict)
    """The number of chunks with each content word, without words that no chunk has."""
    gap: LanguageGap | None = None
    """Set if the question is in a language that the pages are not in."""
    phrases: tuple[Phrase, ...] = ()
    """The question as it was written, then without the stop words around it; none if it is too short or too long to be looked for."""
    asked: tuple[AskedWord, ...] = ()
    """Its content words as its reader sees them: a compound is one word."""
    doubtful: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Words that no page has, with those that were searched as well because they are similar, but may not have been meant."""
    days: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The dates in it, as they are written, each with the days that it may be (`2026-11-29`)."""
    times: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """The times in it that documents are of, as they are written, each with these documents as `IndexStore.of_periods` orders them."""
    read_by_today: Mapping[str, str] = field(default_factory=dict)
    """Those of these times that depend on the day of the question, each with the days it was read as: `2026-11-23 to 2026-11-29`."""
    core: str = ""
    """The question, corrected, without stop words at both ends."""
    asking: frozenset[str] = frozenset()
    """Words that only ask, although they are no stop words: *make* in *how do I make tea?*"""
    subject: str = ""
    """Its core without such words at both ends: `tea`, where the core is `make tea`."""
    verbs: tuple[tuple[str, str], ...] = ()
    """English verbs with the particle that follows each: `turn` and `off`."""
    compares: bool = False
    """Whether it asks for two things: *tabs vs spaces*."""

    @property
    def spoken(self) -> tuple[str, ...]:
        """The languages that it may be in."""
        return (self.gap.asked,) if self.gap else self.languages

    @property
    def is_unspaced(self) -> bool:
        """Whether at least half of its words are letters cut out of a script without spaces."""
        return 2 * sum(is_part_of_a_run(term.word) for term in self.terms) >= max(len(self.terms), 1)


class Questions:
    """Parses questions with the words and languages that the index knows."""

    def __init__(self, index: IndexStore, correct: Correct, today: Callable[[], date] = date.today) -> None:
        self._index, self._correct, self._today = index, correct, today
        self._documents: Mapping[str, int] = {}
        self._languages_at: IndexPosition | None = None

    async def ask(self, query: str) -> SearchQuestion:
        """Return the parsed question; looks up its words in the index."""
        groups = _without_lone_kana(word_groups(_ABOUT.sub(" ", _VERSUS.sub(" ", query))))
        days = dict(islice(days_in(query[:READ_FOR_TIMES]).items(), MOST_DATES))
        asked = list(dict.fromkeys(word for group in groups for word in group))
        wholes = [group[0] for group in groups]
        languages, gap = await self._languages_of(query, wholes)
        days, times, read_by_today = await self._times(query, asked, days, tuple(languages.weights))
        # A question of stop words alone (`to be or not to be`) is searched with them.
        only_ask = _inversions(groups, languages)
        # `may` is a stop word, but not as the month.
        kept = MAY if MAY & frozenset(asked) and _is_month_of_may(query, days) else frozenset()
        content = [
            word for word in asked if word in kept or (word not in only_ask and not languages.is_stop_word(word))
        ] or asked
        is_english = ENGLISH in languages.stop
        joined = _with_particle(wholes, frozenset(content)) if is_english else {}
        known = await self._index.frequencies([*content, *joined.values()])
        verb = await self._separated_verb(wholes) if languages.stop == (GERMAN,) else None
        if verb is not None:
            content = [word for word in content if word != verb.prefix]
            # The verb is right even if no page has it without its first part.
            known = {verb.verb: 1, **known}
        content = _rarest(content, known)
        spoken = spoken_languages(asked, languages.stop)
        # Words of another language are not misspelt, although a word of the pages may look like one of them.
        corrections = (
            {} if gap else await find_corrections(self._index, self._correct, content, known=known, spoken=spoken)
        )
        # A misspelt stop word is still a stop word. Kept as a word that no page has, it would lower the answer's scent.
        likely = {word: near[0].word for word, near in corrections.items() if near and near[0].probability >= LIKELY}
        content = [
            word for word in content if word in kept or not languages.is_stop_word(likely.get(word, word))
        ] or content
        compounds = await self._compounds(corrections) if COMPOUNDING.intersection(spoken) else {}
        corrections = _with_compounds(corrections, compounds, languages)
        # The last word may be unfinished, unless something follows it.
        last = asked[-1] if asked and query[-1:].isalnum() and not gap else ""
        completions = await self._completions(last)
        shares = _shares(groups, known.keys(), likely.keys())
        best = sure_corrections(query, corrections)
        terms: list[QueryTerm] = []
        for word in content:
            # Square roots, so that a page that has only the likely correction still ranks near pages with the other words.
            near = [(other.word, math.sqrt(other.probability)) for other in corrections.get(word, ())]
            equal = [word, *([best[word]] if word in best else []), *other_names_of_month(word)]
            unfinished = [(other, PREFIX_WEIGHT) for other in completions] if word == last else []
            of_verb = verb.forms if verb is not None and word == verb.verb else ()
            as_one = [(joined[word], AS_ONE_WORD)] if joined.get(word, "") in known else []
            forms = [*((form, 1.0) for form in equal), *near, *unfinished, *of_verb, *as_one]
            terms.append(_term(forms, languages, shares[word], known))
        terms += [QueryTerm(said, tuple((day, 1.0) for day in forms)) for said, forms in days.items()]
        # A word that is read as an identifier because of the error (`aHrold`) is corrected as a whole.
        for whole, *parts in groups:
            if whole in best:
                best = {word: other for word, other in best.items() if word not in parts}
        corrected = corrected_query(query[:MOST_EMBEDDED], best) if best else None
        # No page has a word that is surely misspelt, so none has the question as it was typed.
        meant = corrected or query
        verbs = {(word, one.removeprefix(word)) for word, one in joined.items()}
        core, asking = core_of(meant, languages.is_stop_word, verbs), words_that_ask(meant)
        return SearchQuestion(
            content=tuple(content),
            terms=tuple(terms),
            to_embed=corrected or query[:MOST_EMBEDDED],
            corrected=corrected,
            pairs=tuple(_pairs(groups, frozenset(content))),
            languages=tuple(languages.weights),
            corrections={word: [other.word for other in near] for word, near in corrections.items()},
            completions=tuple(completions),
            known=known,
            gap=gap,
            phrases=phrases_of(meant, core),
            asked=asked_words(query, frozenset(content)),
            doubtful={
                word: [other.word for other in near] for word, near in corrections.items() if near and word not in best
            },
            days=days,
            times=times,
            read_by_today=read_by_today,
            core=core,
            asking=asking,
            subject=core_of(meant, lambda word: word in asking or languages.is_stop_word(word), verbs),
            verbs=tuple(
                pair for pair in pairwise(wholes) if pair[1] in OPPOSITES and pair[0] in content and is_english
            ),
            compares=_VERSUS.search(query) is not None,
        )

    async def _times(
        self, query: str, asked: Collection[str], days: Mapping[str, Sequence[str]], languages: Collection[str]
    ) -> tuple[dict[str, Sequence[str]], Mapping[str, Sequence[int]], Mapping[str, str]]:
        """Return `days`, `times` and `read_by_today` of the question, without dates that are part of a longer time."""
        periods = periods_in(query[:READ_FOR_TIMES], asked, days, self._today(), languages)[:MOST_DATES]
        within = {written for written in days for one in periods if written in one.written and written != one.written}
        found = {one: await self._index.of_periods(one.periods, limit=MOST_DATED_PAGES) for one in periods}
        times = {one.written: docs for one, docs in found.items() if docs}
        by_today = {one.written: " to ".join(dict.fromkeys(one.periods[0])) for one in periods if one.by_today}
        return (
            {written: said for written, said in days.items() if written not in within},
            times,
            {written: read_as for written, read_as in by_today.items() if written in times},
        )

    async def _languages_of(self, query: str, words: Sequence[str]) -> tuple[QuestionLanguages, LanguageGap | None]:
        """Return how the words of `query` are read, and the gap between its language and the pages' if there is one."""
        documents = await self._languages()
        if may_be_foreign(query, documents):
            each = list(dict.fromkeys(words))
            known = await self._index.frequencies(each)
            if gap := language_gap(query, documents, each, known=known.keys()):
                return across(gap, documents), gap
        return question_languages(query, documents), None

    async def _separated_verb(self, words: Sequence[str]) -> SeparatedVerb | None:
        """Return the verb whose first part stands at the end of a German question, if pages have it in any form."""
        verb = separated_verb(words)
        if verb is None:
            return None
        for form, _ in verb.forms:
            if await has_form(self._index, form, (GERMAN,)):
                return verb
        return None

    async def languages(self) -> Sequence[str]:
        """Return the usual languages of the documents here, most frequent first."""
        return common_languages(await self._languages())

    async def _languages(self) -> Mapping[str, int]:
        """Return the number of documents by language; the index is asked again when it has changed."""
        position = await self._index.position()
        if self._languages_at != position:
            self._documents, self._languages_at = await self._index.languages(), position
        return self._documents

    async def _compounds(self, unknown: Iterable[str]) -> Mapping[str, Sequence[Candidate]]:
        """Return for each word that no page has in any form the known words that it begins, and the longest that ends it.

        `Dacharbeiten` for `Dach`, and `Handy` for `Diensthandy`.
        """
        found: dict[str, Sequence[Candidate]] = {}
        for word in filter(str.isalpha, unknown):
            ends = [word[at:] for at in range(SHORTEST_PART, len(word) - SHORTEST_END + 1)]
            known = await self._index.frequencies(ends)
            longest = [end for end in ends if end in known][:1]
            begun = await self._completions(word) if len(word) >= SHORTEST_PART else ()
            found[word] = [Candidate(one, OF_A_COMPOUND) for one in (*begun, *longest)]
        return found

    async def _completions(self, prefix: str) -> Sequence[str]:
        if len(prefix) < SHORTEST_PREFIX or is_part_of_a_run(prefix):
            return ()
        found = await self._index.completions(prefix, limit=MOST_COMPLETIONS + 1)
        return [word for word in found if word != prefix][:MOST_COMPLETIONS]


def _rarest(words: Sequence[str], known: Mapping[str, int]) -> list[str]:
    """Return the rarest of the known words, at most `MOST_TERMS`, in their order; unknown ones find nothing and are dropped first."""
    if len(words) <= MOST_TERMS:
        return list(words)
    order = sorted(range(len(words)), key=lambda at: (known.get(words[at], 1 << 30), at))
    return [words[at] for at in sorted(order[:MOST_TERMS])]


def _with_compounds(
    corrections: Mapping[str, Sequence[Candidate]],
    compounds: Mapping[str, Sequence[Candidate]],
    languages: QuestionLanguages,
) -> dict[str, Sequence[Candidate]]:
    """Return all candidates for each unknown word but stop words: if one was probably meant, the word was left out before."""
    return {
        word: [one for one in (*near, *compounds.get(word, ())) if not languages.is_stop_word(one.word)]
        for word, near in corrections.items()
    }


def _is_month_of_may(query: str, days: Iterable[str]) -> bool:
    return _MONTH_OF_MAY.search(query) is not None or any("may" in said.casefold() for said in days)


def _without_lone_kana(groups: Sequence[tuple[str, ...]]) -> Sequence[tuple[str, ...]]:
    """Return the words without kana that are in a pair too: alone, a kana says as little as a Latin letter."""
    paired = {kana for whole, *_ in groups if len(whole) == 2 for kana in _KANA.findall(whole)}
    return [group for group in groups if group[0] not in paired]


def _inversions(groups: Iterable[Sequence[str]], languages: QuestionLanguages) -> AbstractSet[str]:
    """Return the words such as `est-ce` and `dois-je` of a French question, which consist of words that only ask."""
    if languages.stop != (FRENCH,):
        return frozenset()
    return {whole for whole, *parts in groups if parts and all(map(languages.is_stop_word, parts))}


def _with_particle(words: Sequence[str], content: frozenset[str]) -> dict[str, str]:
    """Return for each word of `content` before a particle what they are as one word: `backup` of *back up*, `login` of *log in*."""
    return {
        first: first + second
        for first, second in pairwise(words)
        if second in PARTICLES and first in content and second not in content and first.isalpha()
    }


def _shares(groups: Iterable[Sequence[str]], known: AbstractSet[str], likely: AbstractSet[str]) -> dict[str, float]:
    """Return the weight of each word: 1, or for a compound and its parts their shares of 1."""
    shares: dict[str, float] = {}
    for whole, *parts in groups:
        # A compound that no page has finds nothing, so its parts count in full, unless it is probably another word misspelt.
        own = 1.0 if not parts else WHOLE_SHARE if whole in known or whole in likely else 0.0
        if whole in likely and known.isdisjoint(parts):
            own = 1.0
        shares[whole] = max(own, shares.get(whole, 0.0))
        for part in parts:
            shares[part] = max((1 - own) / len(parts), shares.get(part, 0.0))
    return shares


def _pairs(groups: Sequence[Sequence[str]], content: frozenset[str]) -> list[tuple[str, str]]:
    """Return the pairs of neighbouring content words; within a compound those of its parts."""
    wholes = [group[0] for group in groups if group[0] in content]
    within = [pair for group in groups for pair in pairwise(word for word in group[1:] if word in content)]
    # Letters of an unspaced script are searched in pairs already.
    found = [pair for pair in (*pairwise(wholes), *within) if not any(map(is_part_of_a_run, pair))]
    return [pair for pair in dict.fromkeys(found) if pair[0] != pair[1]]


def _term(
    forms: Sequence[tuple[str, float]], languages: QuestionLanguages, share: float, known: Mapping[str, int]
) -> QueryTerm:
    """Return all indexed terms that count as the first of `forms`: the stems of each form in each language."""
    weights: dict[str, float] = {}
    for form, weight in forms:
        passages = known.get(form, 0) if form == forms[0][0] else None
        for term, of_language in languages.stems(form, passages).items():
            weights[term] = max(share * weight * of_language, weights.get(term, 0.0))
    return QueryTerm(forms[0][0], tuple((term, weight) for term, weight in weights.items() if weight))
