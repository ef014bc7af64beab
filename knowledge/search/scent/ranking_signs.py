"""Measures a ranking: how well its first page fits the question, and how far ahead of the others it is. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from itertools import islice
from statistics import fmean

from knowledge.index.ports import Scored
from knowledge.search.query.analysis import (
    beginning,
    index_language,
    is_part_of_a_run,
    is_stop_word,
    stem,
    terms_in_name,
    words,
)
from knowledge.search.query.mentions import OF_ANY_TIME
from knowledge.search.query.question import SearchQuestion
from knowledge.search.query.term_match import TermMatcher
from knowledge.search.ranking.page_series import series_words
from knowledge.search.ranking.ranker import Ranking
from knowledge.search.scent.counted_words import CountedWords
from knowledge.search.scent.distinct_words import text_of
from knowledge.search.scent.signs import HALF, ScentSigns
from knowledge.search.scent.verdict import SUFFICIENT_FROM, score_of
from knowledge.state.ports import ChunkRow

LOOKED_AT = 8
"""How many shown chunks are searched for the question's words, and how many of the best are compared."""
FEW_WINDOWS = 4
"""With up to so many parts of three letters, a question in a script without spaces is a word or two, and each part tells. In longer
questions some are where two words meet, and no page has those."""
LEAD_ALONE, GAP_ALONE = 0.3, 0.5
"""What `lead` and `gap` usually are if the first page answers. They count by coverage if it was searched alone."""
BEHIND = 5
"""The score of the page at this index of the ranking by words is compared with the first one's (`ScentSigns.gap`)."""
OF_FOLDER = 0.5
"""How much of a word a page has if only the name of its folder, which it shares with other pages, has the word."""
FEWEST_SAID = 4
"""Words that a text needs to say anything."""
_SAYS_SOMETHING = re.compile(r"[^\W_]")


def signs_of(question: SearchQuestion, ranking: Ranking, *, sharing: int, aliases: Sequence[str] = ()) -> RankingSigns:
    """Return the signs of a ranking: by the texts of the pages if these are enough, otherwise with their properties."""
    if ranking.plain_rows:
        plain = _without_properties(question, ranking)
        by_texts = RankingSigns(question, plain, sharing=sharing, aliases=aliases)
        if by_texts.is_sure:
            return by_texts
    return RankingSigns(question, ranking, sharing=sharing, aliases=aliases)


class RankingSigns:
    """The signs of a ranking, measured once. Only `missing` depends on which chunks are shown.

    So a score does not depend on the limit and stays the same when an answer is continued. `sharing` pages have the name that is
    asked for, and `aliases` are those of the first page.
    """

    def __init__(
        self, question: SearchQuestion, ranking: Ranking, *, sharing: int = 1, aliases: Sequence[str] = ()
    ) -> None:
        self._question, self._ranking = question, ranking
        asked = {form for term in question.terms for form, _ in term.alternatives}
        language = ranking.rows[ranking.ranked[0]].language if aliases else ""
        # An alias counts only if all its words are asked for: *soup* alone does not ask for the alias *dal soup*.
        self._aliases = [
            alias
            for alias in aliases
            if all(
                is_stop_word(word, (language,)) or not asked.isdisjoint(terms_in_name(word, language))
                for word in words(alias)
            )
        ]
        self.signs = ScentSigns(sharing=sharing)
        """Without `missing`."""
        if not ranking.ranked:
            return
        first = ranking.ranked[:LOOKED_AT]
        best = first[0]
        page = ranking.rows[best].doc
        of_page = [seq for seq in first if ranking.rows[seq].doc == page]
        # Its file name answers *latest*, so its text need not.
        answered = series_words(question) if best == ranking.of_series else frozenset[str]()
        # Its time answers when something *happened*.
        if any(page in docs for docs in question.times.values()):
            answered |= OF_ANY_TIME
        counted = self._counted = CountedWords(question, [ranking.rows[seq] for seq in of_page], answered)
        # A server's order is not boosted, so its chunks were not searched for words yet.
        matches = [self._match(seq) for seq in of_page]
        by_words, by_meaning = (_best_by_page(found) for found in (ranking.keyword, ranking.vectors))
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
            title=max(
                _name_match(question, counted, name, ranking.rows[best].language) / _with_title(ranking, name)
                for name in (ranking.rows[best].title, *self._aliases)
            ),
            unknown=counted.unknown,
            words=counted.words,
            written=len(question.asked),
            # A name that was found by a corrected word is a guess.
            exact=best in ranking.exact and not question.corrected,
            sharing=sharing,
            by_both=bool(by_words and by_meaning),
            is_section=_is_section(ranking.rows[best]),
            is_unspaced=question.is_unspaced,
            similar=tuple(dict.fromkeys(other for near in question.doubtful.values() for other in near[:1])),
            is_similar_name=_has_similar_name(question, ranking.rows[best]),
            is_mentioned=best in ranking.mentioned,
            which_of_series=ranking.which if best == ranking.of_series else "",
            names_another=bool(ranking.mentioned_docs) and page not in ranking.mentioned_docs,
            compares=question.compares,
            lacks_distinct_word=counted.lacks_distinct_word(matches),
            is_stub=_is_stub(ranking.rows[seq].text for seq in of_page),
            needs_properties=not ranking.plain_rows.keys().isdisjoint(of_page),
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
        """Return the words of the question that a chunk or the path or an alias of its page has, with the weight of the best form."""
        row = self._ranking.rows[seq]
        found = self._ranking.matches.get(seq)
        found = self._matcher.match(row).words if found is None else found
        folders, name = _forms_in_path(row.path, row.language)
        if self._aliases and row.doc == self._ranking.rows[self._ranking.ranked[0]].doc:
            name |= terms_in_name(" ".join(self._aliases), row.language)
        in_path = {
            word: 1.0 if not name.isdisjoint(forms) else OF_FOLDER
            for word, forms in self._forms.items()
            if word not in found and not (name.isdisjoint(forms) and folders.isdisjoint(forms))
        }
        return {**found, **in_path} if in_path else found

    @cached_property
    def _forms(self) -> Mapping[str, Sequence[str]]:
        doubtful = self._question.doubtful
        return {
            term.word: [form for form, _ in term.alternatives]
            for term in self._question.terms
            if term.word not in doubtful
        }

    @cached_property
    def _matcher(self) -> TermMatcher:
        return TermMatcher(self._question.terms, times=self._question.times)


def _without_properties(question: SearchQuestion, ranking: Ranking) -> Ranking:
    """Return the ranking with the texts of its pages only."""
    matcher = TermMatcher(question.terms, question.pairs, question.times)
    matches = {seq: matcher.match(row) for seq, row in ranking.plain_rows.items()}
    return replace(
        ranking,
        rows={**ranking.rows, **ranking.plain_rows},
        matches={**ranking.matches, **{seq: match.words for seq, match in matches.items()}},
        # None are counted if the lists were joined by rank.
        pairs={**ranking.pairs, **{seq: match.pairs for seq, match in matches.items()}} if ranking.pairs else {},
        plain_rows={},
    )


@lru_cache(maxsize=4_096)
def _forms_in_path(path: str, language: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the terms of the words in the names of a page's folders, and in the name of its file."""
    folder, _, name = path.rpartition("/")
    return terms_in_name(folder, language), terms_in_name(name, language)


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
    text = text_of(ranking.rows[best]).casefold()
    return HALF * sum(window in text for window in windows) / len(windows)


def _with_title(ranking: Ranking, title: str) -> int:
    """Return how many of the pages that were found have the title, at least 1."""
    return len({row.doc for row in ranking.rows.values() if row.title == title}) or 1


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


def _best_by_page(found: Sequence[Scored]) -> dict[int, float]:
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


def _name_match(question: SearchQuestion, counted: CountedWords, name: str, language: str) -> float:
    """Return the harmonic mean of two shares: of the name's words that are asked for, and of the question's words, by rarity, in it.

    The first alone would let a page called *Configuration* answer every question that has this word.
    """
    title = [
        {stem(word, index_language(language)), beginning(word, language)}
        for word in words(name)
        if not is_stop_word(word, (language,))
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
