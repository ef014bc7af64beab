"""How likely each page answers, and the verdict on an answer: whether it is probably enough, and the next call if not.

`RankingSigns` measures an answer; `page_scores` and `judge` rate the measurements (pure). Decision record 17 gives the reasons.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from statistics import fmean

from knowledge.index.ports import Scored
from knowledge.pages.map_view import MapEntry
from knowledge.search.answers import Scent, ScentLevel
from knowledge.search.query.analysis import (
    beginning,
    index_language,
    is_part_of_a_run,
    is_stop_word,
    stem,
    words,
)
from knowledge.search.query.asked_words import share_of
from knowledge.search.query.question import SearchQuestion
from knowledge.search.query.term_match import TermMatcher
from knowledge.search.ranking.ranker import Ranking
from knowledge.state.ports import ChunkRow

BIAS = -5.07
WEIGHTS = {
    "agreement": 1.26,
    "pairs": 1.88,
    "gap": 2.85,
    "lead": 2.77,
    "title": 3.99,
    "coverage": 2.82,
    "unknown": -1.1,
}
SUFFICIENT_FROM = 0.843
BELOW_SUFFICIENT = SUFFICIENT_FROM - 0.001
LOST_BELOW = 0.12
"""Weights of a logistic model, by sign, and its thresholds. Decision record 17 says what they were fitted on."""
NAMED = 0.97
"""The probability that a page with exactly the requested name is the one that was meant."""
LATER_BIAS = -2.55
LATER = {"place": 0.06, "behind": -4.61, "agreement": 3.01}
"""Weights of a logistic model for the pages after the first, by sign; `python -m tests.benchmarks.calibration --fit` fits them."""
DIGITS = 3
"""Decimal places of a score; the level follows from the score as shown."""
MOST_SHARING = 20
"""Pages of one name that are looked up."""
SUREST = 0.999
ENOUGH_WORDS = 4
"""From this many words on, a question's coverage and title count in full: a page that has the only word of a question may be about
anything."""
FEW_WORDS = 6
"""Up to so many words a question has no other wording: a page needs half of them to be `sufficient`."""
FEWEST_SAID = 4
"""Words that a text needs to say anything."""
SCATTERED = 0.25
"""How much of an identifier a page has that has all its parts, but not together."""
LEVEL = 0.02
"""The distance by words, as a share of the highest score, up to which another page counts as level with the first."""
MOST_COVERED, FEW_PAIRS = 0.85, 0.35
"""A section with a smaller share of the question's words and of its neighbours, on a page whose title has none of the words, may be
about something else."""
ENOUGH_COVERED = 0.7
"""From this share of the question's words on, coverage counts in full: a question in own words has some that the answer lacks."""

LOOKED_AT = 8
"""How many shown chunks are searched for the question's words, and how many of the best are compared."""
FEW_WINDOWS = 4
"""With up to so many parts of three letters, a question in a script without spaces is a word or two, and each part tells. In longer
questions some are where two words meet, and no page has those."""
LEAD_ALONE, GAP_ALONE = 0.3, 0.5
"""What `lead` and `gap` usually are if the first page answers. They count by coverage if it was searched alone."""
BEHIND = 5
"""The score of the page at this index of the ranking by words is compared with the first one's (`ScentSigns.gap`)."""

FULL, HALF = 0.95, 0.5
LONGEST_STEP = 150
MOST_WORDS = 4
SHORTEST_WORD = 4
MOST_MISSING = 3
_USUAL_LANGUAGES = ("en", "de", "fr", "es")
"""Languages whose stop words are not shown. Those of all languages have too many words that mean something in another one."""
_NUMBER = re.compile(r"v?\d+(?:\.\d+)*")
_SAYS_SOMETHING = re.compile(r"[^\W_]")
_WORD_OR_NUMBER = re.compile(r"\d+|[^\W\d_]+")
_WORD = re.compile(rf"[^\W\d_]{{{SHORTEST_WORD},}}")


@dataclass(frozen=True, slots=True)
class ScentSigns:
    """The measurements of an answer by its best chunks, whether they are shown or not; all shares are 0..1.

    The first page is that of the first chunk. Pages are compared, and not chunks: in a manual, the second best passage is often the
    next section of the same page, which speaks for the page. A page's score by words is that of its best chunk.

    `coverage`: share of the question's words on the first page, weighted by rarity. `agreement`: how high both engines rank the
    first page; 1 if it is first in both. `pairs`: share of the question's neighbouring words that are neighbours in the first
    chunk. `lead`: by how much the first page is above the best other page by words, as a share of the highest score. `gap`: by
    how much the best page by words is above the sixth. `title`: how far the question and the first page's title are the same
    words. `unknown`: share of the question's words, by rarity, that no page has. `words`: how many words the question has.
    `exact`: a page or section has exactly the name in the question, `sharing`: and so many have it. `by_both`: both engines
    found something. `is_section`: the first chunk is a section of its page. `is_unspaced`: its words are pieces of runs without
    spaces, of which a page that answers often lacks some. `missing`: the question's words that no shown chunk has, rarest
    first, as they were written. `similar`: known words that were searched in place of words that no page has.
    `is_similar_name`: one of these is in the title or heading of the first chunk. `is_mentioned`: the question names the first
    page among other words, `names_another`: it names others and not this one. `compares`: it asks for two things. `lacks_code`:
    the first page lacks one of the question's codes, dates, identifiers or particles, or all of its numbers. `is_stub`: its
    text is no sentence. `asked`: the question for a next call, with its certain corrections.
    """

    coverage: float = 0.0
    agreement: float = 0.0
    pairs: float = 0.0
    lead: float = 0.0
    gap: float = 0.0
    title: float = 0.0
    unknown: float = 0.0
    words: int = 0
    exact: bool = False
    sharing: int = 1
    by_both: bool = True
    is_section: bool = False
    is_unspaced: bool = False
    missing: tuple[str, ...] = ()
    similar: tuple[str, ...] = ()
    is_similar_name: bool = False
    is_mentioned: bool = False
    names_another: bool = False
    compares: bool = False
    lacks_code: bool = False
    is_stub: bool = False
    asked: str = ""


@dataclass(frozen=True, slots=True)
class ShownChunk:
    """A shown chunk as the next step needs it, with its page's title; `short` if the page is short enough to be read whole."""

    path: str
    section: str
    short: bool = False
    title: str = ""


# --- measuring --------------------------------------------------------------------------------------------------------


class RankingSigns:
    """The signs of a ranking, measured once. Only `missing` depends on which chunks are shown.

    So a score does not depend on the limit and stays the same when an answer is continued. `sharing` pages have the name that is
    asked for.
    """

    def __init__(self, question: SearchQuestion, ranking: Ranking, *, sharing: int = 1) -> None:
        self._question, self._ranking = question, ranking
        self.signs = ScentSigns(sharing=sharing)
        """Without `missing`."""
        if not ranking.ranked:
            return
        first = ranking.ranked[:LOOKED_AT]
        best = first[0]
        page = ranking.rows[best].doc
        of_page = [seq for seq in first if ranking.rows[seq].doc == page]
        counted = self._counted = _CountedWords(question, [ranking.rows[seq] for seq in of_page])
        # A server's order is not boosted, so its chunks were not searched for words yet.
        matches = [self._match(seq) for seq in of_page]
        by_words, by_meaning = (_page_scores(found) for found in (ranking.keyword, ranking.vectors))
        places = [_place(page, found) for found in (by_words, by_meaning)]
        coverage = counted.coverage(matches)
        # If a single page was searched, that no other page comes near says nothing, neither for it nor against it.
        is_alone = len(by_words.keys() | by_meaning.keys()) == 1
        self.signs = ScentSigns(
            coverage,
            # An engine that is unavailable counts 0.
            agreement=fmean(1 / place if place else 0.0 for place in places),
            # 0 if the lists were joined by rank: then the first page is right less often, and counting pairs would make its
            # score too high.
            pairs=_neighbours(question, ranking, best),
            lead=LEAD_ALONE * coverage if is_alone else _lead(page, by_words),
            gap=GAP_ALONE * coverage if is_alone else _gap(list(by_words.values())),
            # A title that many pages have (`Weekly meeting`) tells none of them apart.
            title=_title_match(question, counted, ranking.rows[best]) / _with_title(ranking, ranking.rows[best].title),
            unknown=counted.unknown,
            words=counted.words,
            # A name that was found by a corrected word is a guess.
            exact=best in ranking.exact and not question.corrected,
            sharing=sharing,
            by_both=bool(by_words and by_meaning),
            is_section=_is_section(ranking.rows[best]),
            is_unspaced=question.is_unspaced,
            similar=tuple(dict.fromkeys(other for near in question.doubtful.values() for other in near[:1])),
            is_similar_name=_has_similar_name(question, ranking.rows[best]),
            is_mentioned=best in ranking.mentioned,
            names_another=bool(ranking.named) and page not in ranking.named,
            compares=question.compares,
            lacks_code=counted.lacks_code(matches),
            is_stub=_is_stub(ranking.rows[seq].text for seq in of_page),
            asked=" ".join(question.to_embed.split()),
        )

    @property
    def is_sure(self) -> bool:
        """Whether the first page answers almost certainly."""
        return score_of(self.signs) >= SUFFICIENT_FROM

    def showing(self, shown: Sequence[int]) -> ScentSigns:
        """Return the signs of an answer that shows these chunks."""
        if not self._ranking.ranked:
            return self.signs
        looked_at = shown[:LOOKED_AT]
        having = frozenset().union(*map(self._match, looked_at)) - self._question.doubtful.keys()
        return replace(
            self.signs, missing=self._counted.missing(having, [self._ranking.rows[seq] for seq in looked_at])
        )

    def _match(self, seq: int) -> Mapping[str, float]:
        """Return the words of the question that a chunk has, with the weight of the best form."""
        known = self._ranking.matches.get(seq)
        return self._matcher.match(self._ranking.rows[seq]).words if known is None else known

    @cached_property
    def _matcher(self) -> TermMatcher:
        return TermMatcher(self._question.terms, dates=self._question.days)


class _CountedWords:
    """The words of a question as the verdict counts them for the first page, with their rarity; `rows` are that page's passages."""

    def __init__(self, question: SearchQuestion, rows: Sequence[ChunkRow]) -> None:
        known, self._asked, self._doubtful = question.known, question.asked, question.doubtful
        self._unknown_names = [word for word in self._asked if word.is_identifier and word.terms[0] not in known]
        # Where all is in capitals, they say nothing.
        shouts = question.to_embed.isupper()
        self._codes = [word for word in self._asked if word.is_code and not (shouts and word.written.isalpha())]
        texts = [_named_text_of(row) for row in rows]
        self._lacking = [word for word in self._codes if not word.is_code_in(texts)]
        elsewhere = [word for word in self._asked if word.is_identifier and not word.is_code and word.terms[0] in known]
        self._lacking += [word for word in elsewhere if not word.is_together_in(map(_text_of, rows))]
        self._days = [day for day in question.days if not _has_words_of(day, texts)]
        """The dates of which the page does not have all words; it may have them as another date."""
        self._lacks_particle = any(not _has_particle(texts, verb, particle) for verb, particle in question.verbs)
        self._scattered = {word.terms for word in self._unknown_names if not word.is_together_in(map(_text_of, rows))}
        """Identifiers that no page has, of which the page has no more than the parts, here and there: it is about other things."""
        self.words = len(question.terms) - sum(len(terms) - 1 for terms in self._scattered)
        # Rare words tell pages apart. A word that is nowhere weighs most: there may be no answer.
        one = {term: 1 / math.log2(2 + known.get(term, 0)) for word in self._asked for term in word.terms}
        self.rarity: dict[tuple[str, ...], float] = {}
        """By the terms of each word."""
        unknown = 0.0
        for terms in dict.fromkeys(terms for word in self._asked for terms in word.counted):
            whole, *parts = terms
            is_name = whole in known or not parts or terms in self._scattered
            # Another compound that is nowhere is as rare as its parts are.
            self.rarity[terms] = one[whole] if is_name else fmean(one[part] for part in parts)
            if whole not in known and (is_name or not all(part in known for part in parts)):
                unknown += self.rarity[terms]
        self._total = sum(self.rarity.values())
        self.unknown = unknown / self._total if self._total else 0.0

    def share(self, share_in: Callable[[tuple[str, ...]], float]) -> float:
        """Return the share of the question's words, weighted by rarity, by the share of each (0..1)."""
        found = sum(rarity * share_in(terms) for terms, rarity in self.rarity.items())
        return found / self._total if self._total else 0.0

    def coverage(self, matches: Sequence[Mapping[str, float]]) -> float:
        """Return the share of the question's words that are in chunks of one page, each with the weight of its best form.

        The words of all its chunks count, because a page may say one thing in one section and another in the next. A word that is
        only similar to one of the question doesn't count.
        """
        best: dict[str, float] = {}
        for match in matches:
            for term, weight in match.items():
                if term not in self._doubtful:
                    best[term] = max(weight, best.get(term, 0.0))
        return self.share(lambda terms: self.share_of(terms, best))

    def share_of(self, terms: tuple[str, ...], match: Mapping[str, float]) -> float:
        """Return how much of a word is there, 0..1."""
        share = share_of(terms, match)
        return share * SCATTERED if terms in self._scattered and terms[0] not in match else share

    def lacks_code(self, matches: Sequence[Mapping[str, float]]) -> bool:
        """Return whether chunks of one page lack something that stands for one thing only, or have none of the question's numbers.

        That is a code, a date, an identifier that other pages have, or a verb's particle. The page is about another version, year,
        error or function, or says how to turn *on* what is to be turned *off*.
        """
        numbers = {terms for terms in self.rarity if _NUMBER.fullmatch(terms[0])}
        # A page that shows its day otherwise matches a date as a whole, as one with an identifier matches that.
        alone = (*(word.terms[0] for word in self._lacking), *self._days)
        lacking = any(not any(name in match for match in matches) for name in alone)
        # One is enough: *20 euros now, not 18* is about the page that has 18.
        has_number = not numbers or any(share_of(terms, match) for terms in numbers for match in matches)
        return lacking or self._lacks_particle or not has_number

    def missing(self, having: Collection[str], rows: Sequence[ChunkRow]) -> tuple[str, ...]:
        """Return the words of which a part is not in `having`, or an identifier not in `rows`, rarest first."""
        there = dict.fromkeys(having, 1.0)
        found = {
            word.written: 1.0
            for word in self._unknown_names
            if word.terms[0] not in there and not word.is_together_in(map(_text_of, rows))
        } | {word.written: 1.0 for word in self._codes if not word.is_code_in(map(_named_text_of, rows))}
        for word in self._asked:
            # Words that only help to ask are not worth a word, unless the question consists of them.
            if is_stop_word(word.terms[0], _USUAL_LANGUAGES) and len(self._asked) > 1:
                continue
            if lacking := word.lacking(there):
                rarest = max(self.rarity[terms] for terms in word.counted if share_of(terms, there) < 1)
                found |= {name: max(rarest, found.get(name, 0.0)) for name in lacking}
        return tuple(sorted(found, key=lambda name: (-found[name], name)))


def _neighbours(question: SearchQuestion, ranking: Ranking, best: int) -> float:
    """Return the share of the question's neighbours that are neighbours in the first chunk; half if it has none.

    In scripts without spaces, three letters in a row of which the chunk has only two show that it has another word, but all three
    only show that it has this word, and no neighbours.
    """
    if question.pairs:
        return ranking.pairs.get(best, 0.0)
    windows = tuple(dict.fromkeys(window for word in question.asked for window in word.windows()))
    if not 0 < len(windows) <= FEW_WINDOWS:
        return HALF
    text = _text_of(ranking.rows[best]).casefold()
    return HALF * sum(window in text for window in windows) / len(windows)


def _text_of(row: ChunkRow) -> str:
    return f"{' '.join(row.section)} {row.title} {row.text}"


def _named_text_of(row: ChunkRow) -> str:
    return f"{row.path} {_text_of(row)}"


def _has_particle(texts: Iterable[str], verb: str, particle: str) -> bool:
    """Return whether a text has the particle, alone or in one word with its verb."""
    found = re.compile(rf"(?<!\w)(?:{re.escape(verb)}-?)?{particle}(?!\w)", re.IGNORECASE)
    return any(found.search(text) for text in texts)


def _has_words_of(date: str, texts: Iterable[str]) -> bool:
    said = {word for text in texts for word in _WORD_OR_NUMBER.findall(text.casefold())}
    return said.issuperset(_WORD_OR_NUMBER.findall(date.casefold()))


def _with_title(ranking: Ranking, title: str) -> int:
    """Return how many of the pages that were found have the title."""
    return len({row.doc for row in ranking.rows.values() if row.title == title})


def _has_similar_name(question: SearchQuestion, row: ChunkRow) -> bool:
    if not question.doubtful:
        return False
    named = {*words(row.title), *(word for heading in row.section[-1:] for word in words(heading))}
    return any(other in named for near in question.doubtful.values() for other in near)


def _is_stub(texts: Iterable[str]) -> bool:
    """Return whether texts say nothing below their headings: they are empty, a link or a directive of a site generator."""
    lines = (line for text in texts for line in text.split("\n") if not line.startswith("#"))
    said = (word for line in lines for word in line.split() if _SAYS_SOMETHING.search(word))
    # A sentence in a script without spaces is one of these words.
    counted = islice((len(word) if is_part_of_a_run(word) else 1 for word in said), FEWEST_SAID)
    return sum(counted) < FEWEST_SAID


def _is_section(row: ChunkRow) -> bool:
    return len(row.section) > 1 or (len(row.section) == 1 and row.section[0] != row.title)


def _page_scores(found: Sequence[Scored]) -> dict[int, float]:
    """Return the score of each page's best chunk, best first."""
    scores: dict[int, float] = {}
    for hit in found:
        scores.setdefault(hit.doc, hit.score)
    return scores


def _place(page: int, found: Iterable[int]) -> int | None:
    return next((place for place, other in enumerate(found, 1) if other == page), None)


def _lead(page: int, scores: Mapping[int, float]) -> float:
    """Return by how much `page` is above the best other page, as a share of the highest score; 0 if it is not above it."""
    most = max(scores.values(), default=0.0)
    other = max((score for doc, score in scores.items() if doc != page), default=0.0)
    return max(0.0, scores.get(page, 0.0) - other) / most if most > 0 else 0.0


def _gap(scores: Sequence[float]) -> float:
    """Return the first score's lead over the sixth or the last, as a share of the first."""
    if not scores or scores[0] <= 0:
        return 0.0
    return (scores[0] - scores[min(BEHIND, len(scores) - 1)]) / scores[0]


def _title_match(question: SearchQuestion, counted: _CountedWords, row: ChunkRow) -> float:
    """Return the harmonic mean of two shares: of the title's words that are asked for, and of the question's words, by rarity, in it.

    The first alone would let a page called *Configuration* answer every question that has this word.
    """
    title = [
        {stem(word, index_language(row.language)), beginning(word, row.language)}
        for word in words(row.title)
        if not is_stop_word(word, (row.language,))
    ]
    forms = {
        term.word: {form for form, _ in term.alternatives}
        for term in question.terms
        if term.word not in question.doubtful
    }
    asked = sum(any(not word.isdisjoint(named) for named in forms.values()) for word in title)
    if not asked:
        return 0.0
    named = {word: 1.0 for word, its in forms.items() if any(not its.isdisjoint(one) for one in title)}
    having = counted.share(lambda terms: counted.share_of(terms, named))
    of_title = asked / len(title)
    # Not by `statistics.harmonic_mean`, which computes with fractions, a hundred times slower.
    return 2 * of_title * having / (of_title + having)


# --- judging ----------------------------------------------------------------------------------------------------------


def chance(signs: ScentSigns) -> float:
    """Return the probability, 0..1, that the page of the first chunk answers the question."""
    weighed = sum(WEIGHTS[name] * value for name, value in strengths(signs).items())
    return 1 / (1 + math.exp(-(BIAS + weighed)))


def strengths(signs: ScentSigns) -> dict[str, float]:
    """Return the value of each sign in `WEIGHTS`."""
    values: dict[str, float] = {name: getattr(signs, name) for name in WEIGHTS}
    long = min(1.0, signs.words / ENOUGH_WORDS)
    values["coverage"] = long * min(1.0, signs.coverage / ENOUGH_COVERED)
    values["title"] *= long
    return values


def score_of(signs: ScentSigns) -> float:
    """Return the score of the first page, 0..1: the probability that it answers."""
    if signs.exact:
        # Whatever has the requested name is what was requested; if several have it, each may be.
        return round(max(NAMED / signs.sharing, LOST_BELOW), DIGITS)
    says_more = signs.is_unspaced or signs.words > FEW_WORDS
    covers = signs.coverage >= HALF or (says_more and signs.coverage)
    is_aside = signs.is_section and signs.pairs < FEW_PAIRS and signs.coverage < MOST_COVERED
    # Pages that have the only word of a question, or a few of its words aside from their subject, may be about anything. If another
    # page has as much of the words, it may be that one.
    is_level = signs.by_both and signs.lead <= LEVEL
    is_elsewhere = signs.names_another or signs.lacks_code or signs.compares
    is_unsure = signs.is_stub or is_elsewhere or is_level or (not signs.title and (signs.words == 1 or is_aside))
    most = SUREST if covers and not is_unsure else BELOW_SUFFICIENT if signs.coverage else LOST_BELOW / 2
    # That all words are on one page speaks for it, even if others come near. A page with few words of a short question may be about
    # something else, and one with none has only its nearness in meaning to speak for it.
    is_named = signs.is_similar_name or signs.is_mentioned
    least = LOST_BELOW if signs.coverage >= FULL or is_named else 0.0
    return round(max(least, min(chance(signs), most)), DIGITS)


def page_scores(signs: ScentSigns, ranking: Ranking) -> dict[int, float]:
    """Return the probability, 0..1, that each page answers, by document, in the order of `ranking`.

    From one page to the next, it never increases.
    """
    scores: dict[int, float] = {}
    least = score_of(signs)
    for doc, seq, found in later_signs(ranking):
        if scores and seq not in ranking.exact:
            weighed = sum(LATER[name] * value for name, value in found.items())
            least = min(least, round(1 / (1 + math.exp(-(LATER_BIAS + weighed))), DIGITS))
        scores[doc] = least
    return scores


def later_signs(ranking: Ranking) -> Iterator[tuple[int, int, dict[str, float]]]:
    """Yield each page of `ranking`, best first: its document, its best chunk, and the values of the signs in `LATER`.

    `place` is the logarithm of its place; `behind` is the distance of its rank score from the first page's, as a share
    of the first page's; `agreement` is how high both engines rank its best chunk, as for the first page.
    """
    places = [{hit.seq: place for place, hit in enumerate(found, 1)} for found in (ranking.keyword, ranking.vectors)]
    best: dict[int, int] = {}
    for seq in ranking.ranked:
        best.setdefault(ranking.rows[seq].doc, seq)
    top = max(ranking.scores.get(ranking.ranked[0], 0.0), 1e-9) if best else 1.0
    for place, (doc, seq) in enumerate(best.items(), 1):
        yield (
            doc,
            seq,
            {
                "place": math.log(place),
                "behind": 1 - ranking.scores.get(seq, 0.0) / top,
                "agreement": sum(1 / at[seq] for at in places if seq in at) / len(places),
            },
        )


def level_of(signs: ScentSigns, score: float | None = None, *, indexed: bool = True) -> ScentLevel:
    """Return the level of an answer with these signs whose first page has `score`, by default that of the best page.

    The level is `partial` while pages are missing from the index: the best page may be one of them.
    """
    score = score_of(signs) if score is None else score
    if score >= SUFFICIENT_FROM and (indexed or signs.exact):
        return "sufficient"
    return "partial" if score >= LOST_BELOW or not indexed else "lost"


def judge(
    signs: ScentSigns,
    places: Sequence[ShownChunk],
    *,
    indexed: bool,
    directory: str,
    navigation: bool = False,
    continued: float | None = None,
    filtered_out: bool = False,
) -> Scent:
    """Return the scent of an answer that shows the chunks `places`, best first, from a search in `directory`.

    With `navigation` the question asks for a page and not for a passage, so the next call reads that page. `continued` is the score of
    the first shown page if better chunks were shown before. `filtered_out` if no page passes the filters of the search.
    """
    if not places:
        found = "no page passes the filters" if filtered_out else "nothing matches"
        waiting = "" if indexed else "; indexing is not finished, so ask again soon"
        step = "repeat without the filters, or change them" if filtered_out else f"kb_map({_directory_of(directory)!r})"
        return Scent("lost" if indexed else "partial", f"{found}{waiting}", step)
    level = level_of(signs, continued, indexed=indexed)
    reason = _reason(signs, level, indexed=indexed, continued=continued is not None)
    if level == "sufficient":
        named = signs.exact and continued is None
        return Scent(level, "a page or section has this name" if named else reason, read_call(places[0]))
    if signs.exact and continued is None and level == "partial":
        several = f"{signs.sharing}{' or more' if signs.sharing >= MOST_SHARING else ''}"
        return Scent(level, f"{several} pages or sections have this name", read_call(places[0]))
    if level == "partial":
        look = read_call(places[0]) if navigation else _look_inside(places[0], signs.asked, directory)
        return Scent(level, reason, look)
    return Scent(level, reason, _look_around(places, signs.asked))


def at_place(scent: Scent, place: MapEntry, *, named: bool, namesakes: int = 0) -> Scent:
    """Return the scent of an answer to a question for `place`: the next call is its map, or the page.

    `named` if a passage of the page comes first because of its name; otherwise the page has none. `namesakes` are the other
    directories of that name among the answer's pages.
    """
    if place.kind == "directory":
        # A few of its children are shown, which may suffice or not.
        level: ScentLevel = "partial" if namesakes or scent.level == "lost" else scent.level
        name = f"{place.path!r}" if place.path else "the knowledge base"
        others = "; `pages` lists other folders of this name" if namesakes else ""
        return Scent(level, f"the question asks what is in {name}{others}", f"kb_map({place.path!r})")
    if not named:
        return Scent("partial", "the page with this name is empty", f"kb_read({place.path!r})")
    reason = "a page has this name" if scent.level == "sufficient" else scent.reason
    return Scent(scent.level, reason, f"kb_read({place.path!r})")


def at_tag(scent: Scent, tag: str, pages: int) -> Scent:
    """Return the scent of an answer to a question for the pages with a tag: the next call is the tag's map."""
    have = "1 page has" if pages == 1 else f"{pages} pages have"
    return Scent("partial" if scent.level == "lost" else scent.level, f"{have} this tag", f"kb_map({f'#{tag}'!r})")


def _reason(signs: ScentSigns, level: ScentLevel, *, indexed: bool, continued: bool) -> str:
    reasons = ["these are later results; the best ones came first"] if continued else list(_comparisons(signs, level))
    if signs.missing:
        reasons.append("no hit has " + ", ".join(map(repr, signs.missing[:MOST_MISSING])))
    if signs.similar and not continued:
        reasons.append("similar words were searched: " + ", ".join(map(repr, signs.similar[:MOST_MISSING])))
    if not indexed:
        reasons.append("indexing is not finished, so the best page may be missing")
    return "; ".join(reasons)


def _comparisons(signs: ScentSigns, level: ScentLevel) -> Iterator[str]:
    """Yield how much of the question the best page has, compared with other pages and by both engines."""
    if signs.is_mentioned or signs.names_another:
        yield f"the question names {'the best' if signs.is_mentioned else 'another'} page"
    if signs.compares:
        yield "the question asks for two things"
    yield from _coverage_of(signs)
    if level != "sufficient" and signs.coverage >= HALF and signs.lead <= LEVEL:
        yield "other pages match as well"
    if not signs.by_both:
        return
    if signs.agreement < HALF:
        yield "keyword and semantic search disagree"
    elif signs.agreement == HALF:
        yield "keyword and semantic search rank different pages first"
    else:
        yield "keyword and semantic search agree"


def _coverage_of(signs: ScentSigns) -> Iterator[str]:
    """Yield how much of the question the best page has, unless `missing` says it."""
    if signs.coverage >= FULL:
        yield "one page has all the words asked for"
    elif signs.words > 1:
        share = "most" if signs.coverage >= HALF else "few" if signs.coverage else "none"
        yield f"the best page has {share} of the words asked for"
    elif signs.coverage:
        yield "the best page only has a similar word"
    elif not signs.missing:
        yield "the best page does not have the word"


def read_call(place: ShownChunk) -> str:
    """Return the call that reads the section; a heading path that is too long is cut from the front."""
    whole = f"kb_read({place.path!r})"
    if place.short or not place.section:
        return whole
    headings = place.section.split(" > ")
    calls = (f"kb_read({place.path!r}, section={' > '.join(headings[i:])!r})" for i in range(len(headings)))
    return next((call for call in calls if len(call) <= LONGEST_STEP), whole)


def _look_inside(place: ShownChunk, asked: str, directory: str) -> str:
    """Return the call that finds more on the page: read a short page, search a long one unless that was just done."""
    step = f"kb_search({asked!r}, path={place.path!r})"
    return read_call(place) if place.short or not asked or place.path == directory or len(step) > LONGEST_STEP else step


def _look_around(places: Sequence[ShownChunk], asked: str) -> str:
    """Return the call for the map of the directory with most hits, with words from the titles of its pages to ask with."""
    directories = Counter(_directory_of(place.path) for place in places)
    best = max(directories, key=lambda directory: directories[directory])  # the first of equals has the best hit
    # Headings below the title are the same on many pages (`Question`, `Examples`), and a word that was asked for helps nobody.
    titles = dict.fromkeys(place.title for place in places if _directory_of(place.path) == best)
    known = {word[:SHORTEST_WORD] for word in _WORD.findall(asked.lower())}
    used = [
        word
        for word in dict.fromkeys(word for title in titles for word in _WORD.findall(title.lower()))
        if word[:SHORTEST_WORD] not in known and not is_stop_word(word, _USUAL_LANGUAGES)
    ]
    call = f"kb_map({best!r})"
    # As many words as fit: the length of a next step is bounded, because the answer's tokens are.
    for count in range(min(len(used), MOST_WORDS), 0, -1):
        step = f"{call} (its pages are about {', '.join(used[:count])})"
        if len(step) <= LONGEST_STEP:
            return step
    return call


def _directory_of(path: str) -> str:
    return path.rpartition("/")[0] if path.endswith((".md", ".markdown", ".mdx")) else path
