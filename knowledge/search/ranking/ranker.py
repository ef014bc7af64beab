"""From a question to ranked chunks: asks both engines, joins their lists and puts exact names first."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from knowledge.errors import EmbedderUnavailable, EngineUnavailable
from knowledge.index.embed.ports import Embedder, EmbedderOf
from knowledge.index.ports import (
    HoldsVectors,
    KeywordIndex,
    Noted,
    QueryTerm,
    RanksPages,
    Scored,
    VectorIndex,
)
from knowledge.pages.markdown.chunk import indexed_text
from knowledge.search.query.analysis import is_stop_word, terms_in_name, words
from knowledge.search.query.mentions import NOTHING_MENTIONED, Mentioned
from knowledge.search.query.names import nearest_first
from knowledge.search.query.question import SearchQuestion
from knowledge.search.query.term_match import ChunkMatch, TermMatcher
from knowledge.search.ranking.by_properties import find_by_properties, rows_with_properties
from knowledge.search.ranking.feedback import CHUNKS, RelevanceWords, are_relevant
from knowledge.search.ranking.fusion import Fused, collapse, fuse
from knowledge.search.ranking.signals import ChunkSignals, page_shares, shares
from knowledge.search.ranking.weights import DEFAULT_WEIGHTS, RankingWeights, WeightsOf, default_weights
from knowledge.state.ports import ChunkRow, Filters, IndexIdentity, IndexStore, NameMatch
from knowledge.task_groups import first_error

log = logging.getLogger(__name__)

DEPTH = 64
"""Chunks taken from each engine before they are joined."""
SPARE = 12
"""Chunks ranked beyond those that are shown, to replace near-duplicates."""
PAGES, POOL = 8, 64
"""Chunks that are ranked if fewer are of fewer pages: a page with many good ones should leave others to show."""
STATIC = "static-"
"""How the names of static embedders begin."""
FEW_PAGES, DEEPER = 3, 512
"""If an engine's chunks are all of so few pages, so many are asked for: a page with many similar sections would hide the rest."""
MOST_NAMED = 5
COVERAGE_CHUNKS = 16
"""Best chunks whose text is searched for the question's words; searching twice as many improved nothing."""
PAGE_DEPTH, NAME_DEPTH = 40, 20
"""The most pages taken from the search in whole texts, and from the search in names."""
MOST_OF_MENTIONED = 2
"""Chunks of each page that the question names among other words which come first."""
FIRST_OF_A_TIME = 8
"""If a time that the question names, such as a month, has many pages, the most of them that come first."""
MENTION, DOUBTFUL_MENTION = 1.5, 0.5
"""Their boost, as a share of that for the question as it was written. The first puts a passage without any of the words before one
that has them all as neighbours. The second is for a page that is named although another has more of the question, and for one with all
its words in the title: enough to be shown, but not to come first by itself."""
MOST_VERBATIM = 5
"""The most pages whose chunks are put first because they have the question as it was written, or all of its words in their title. What
more pages have does not tell them apart."""
MOST_IN_TITLE = 2
"""The most words that such a title has, for each word of the question."""
GOOD_NAME = 0.5
"""The share of the best score in the search in names that a title with all words of a question has at least."""
WHOLE_PAGES = 3
"""The best pages by text and by names that are shown although none of their chunks was found."""
FEWEST_TERMS = 2
"""Words that a question must have for feedback to be used."""
MOST_READ = 2_000
"""Characters of a chunk that feedback reads; few have more, and their beginning says what they are about."""
TRIES = 3
"""Attempts at a vector search. All vectors are exchanged when the embedder changes; twice during one question is very unlikely."""


@dataclass(frozen=True, slots=True)
class Engines:
    """The costly parts of search, built at the first search."""

    keyword: KeywordIndex
    vectors: VectorIndex
    embedder: EmbedderOf
    """Returns the embedder for questions that matches the index's current vectors."""
    ours: bool = True
    """Whether `keyword` ranks by BM25 over our terms: only then its scores can be weighed, and feedback terms be used."""
    page_ranks: RanksPages | None = field(init=False)
    """`keyword` if it ranks whole pages, too."""
    held: HoldsVectors | None = field(init=False)
    """`vectors` if it keeps them in memory."""

    def __post_init__(self) -> None:
        """Ask both engines what they can do, which takes 10 µs for a protocol, before they search."""
        object.__setattr__(self, "page_ranks", self.keyword if isinstance(self.keyword, RanksPages) else None)
        object.__setattr__(self, "held", self.vectors if isinstance(self.vectors, HoldsVectors) else None)


@dataclass(frozen=True, slots=True)
class Embedded:
    """A question's vector and its embedder."""

    embedder: Embedder
    vector: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class RankTrace:
    """The numbers behind the scores of a ranking, kept to explain it.

    A score is `scale` times (`unit` times the chunk's sum, plus its boosts). The sum is that of the chunk's signals, or
    that of its reciprocal ranks if the lists were joined by rank.
    """

    weights: RankingWeights
    signals: ChunkSignals | None
    """None if the lists were joined by rank."""
    ranks: Mapping[int, tuple[int | None, ...]]
    unit: float
    boosts: Mapping[int, tuple[float, float, float, float]] = field(default_factory=dict)
    """For each of the first chunks, what was added for question words it has, for adjacent question words it keeps together, for
    the whole question as it was written, and because the question mentions its page or the page's title has all its words."""
    scale: float = 1.0


@dataclass(frozen=True, slots=True)
class Ranking:
    """Chunks best first with their rows and scores (0..1), each engine's list, exact names, and notes on missing engines.

    `embedded` is the embedded question; None if vectors were not searched.
    """

    ranked: Sequence[int]
    rows: Mapping[int, ChunkRow]
    scores: Mapping[int, float]
    keyword: Sequence[Scored]
    vectors: Sequence[Scored]
    exact: frozenset[int]
    notes: tuple[str, ...]
    embedded: Embedded | None = None
    matches: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
    """For the first chunks: the question's words that they have, with the weight of the best form."""
    pairs: Mapping[int, float] = field(default_factory=dict)
    """For the first chunks: the share of the question's pairs of neighbours that they have, 0..1."""
    trace: RankTrace | None = None
    """The numbers behind `scores`; None if nothing was searched."""
    mentioned: frozenset[int] = frozenset()
    """Those chunks that come first because the question mentions their page."""
    mentioned_docs: frozenset[int] = frozenset()
    """The documents that the question mentions, whether they come first or not."""
    of_series: int | None = None
    """The chunk that was put first because its page is the one of a series that the question asks for."""
    which: str = ""
    """Which one of the series that is: "newest", "first", ...; "" if there is none."""
    plain_rows: Mapping[int, ChunkRow] = field(default_factory=dict)
    """The rows, without properties, of chunks that were found by them. In `rows`, their text ends with the properties."""
    reranker: str = ""
    """The model that reordered the first chunks, "" without one; each place then keeps the score that it had before."""

    @property
    def signals(self) -> ChunkSignals | None:
        """The signals that were added up; None if the lists were joined by rank, or nothing was searched."""
        return self.trace.signals if self.trace else None

    @property
    def across_languages(self) -> bool:
        """Whether the searched vectors are those of a multilingual embedder."""
        return self.embedded is not None and self.embedded.embedder.multilingual

    def plain_row(self, seq: int) -> ChunkRow:
        """Return the row of a chunk without properties, which depend on what else was found."""
        return self.plain_rows.get(seq) or self.rows[seq]


@dataclass(frozen=True, slots=True)
class SearchScope:
    """Where to search: as document numbers (None: everywhere), and as the filters that select them."""

    docs: frozenset[int] | None
    filters: Filters

    @property
    def is_empty(self) -> bool:
        """Whether the filters admit no document."""
        return self.docs is not None and not self.docs


@dataclass(slots=True)
class _Found:
    """What both engines found, each list best first, the embedded question, and notes on what was missing."""

    keyword: Sequence[Scored] = ()
    vectors: Sequence[Scored] = ()
    pages: Sequence[Scored] = ()
    """Whole pages, by their text."""
    names: Sequence[Scored] = ()
    """Whole pages, by their titles, aliases and paths."""
    properties: Sequence[Scored] = ()
    embedded: Embedded | None = None
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Joined:
    """The lists of the engines as one, best first."""

    fused: Sequence[Fused]
    signals: ChunkSignals | None = None
    """Set if the lists were joined by score and not by rank. Only scores show by how much one chunk is better than
    another."""
    rows: Mapping[int, ChunkRow] = field(default_factory=dict)
    """The chunks that were read on the way."""
    plain_rows: Mapping[int, ChunkRow] = field(default_factory=dict)
    verbatim: frozenset[int] = frozenset()
    """The chunks found by words that have the question as it was written."""
    mentioned: frozenset[int] = frozenset()
    """The best chunks of the pages that the question mentions."""


class Ranker:
    """Ranks chunks with the engines that answer; a missing engine is noted and is not an error."""

    def __init__(
        self, index: IndexStore, engines: Callable[[], Awaitable[Engines]], weights: WeightsOf = default_weights
    ) -> None:
        self._index, self._engines, self._weights = index, engines, weights

    async def rank(
        self,
        question: SearchQuestion,
        names: Sequence[NameMatch],
        scope: SearchScope,
        *,
        room: int,
        weights: RankingWeights | None = None,
        mentioned: Mentioned = NOTHING_MENTIONED,
    ) -> Ranking:
        """Return the best `room` chunks and some spare ones, without chunks that repeat a better one of the same page."""
        if scope.is_empty:
            return Ranking((), {}, {}, (), (), frozenset(), ())
        weights, engines = weights or await self._weights(), await self._engines()
        found = await self._search(engines, question, scope)
        # The question is in another language, and its vector finds across languages: only meaning can rank.
        meaning_leads = question.gap is not None and found.embedded is not None and found.embedded.embedder.multilingual
        weights = weights.across_languages() if meaning_leads else weights
        if engines.ours:
            joined = await self._joined_by_score(
                engines, question, scope, found, weights, named=bool(names), mentioned=mentioned
            )
        else:
            joined = await self._joined_by_rank(found, meaning_leads=meaning_leads)
        fused = joined.fused
        exact = await self._exact(names, fused)
        candidates, most = _candidates(joined, exact, room)
        rows, with_properties = joined.rows, {seq: joined.rows[seq] for seq in joined.plain_rows}
        while True:
            ordered = candidates[:most]
            rows = await self._rows(ordered, {**rows, **with_properties})
            ranked = collapse([(seq, rows[seq].doc, rows[seq].text) for seq in ordered if seq in rows])
            # With many duplicates more chunks are needed, or an answer would end before all pages were shown.
            if len(ranked) > room or most >= len(candidates):
                break
            most *= 2
        # Scores are shares of the best one. With words that are nowhere, all cosines may be 0.
        best = (fused[0].score if fused else 0.0) or 1.0
        # Below 1, which is for exact names.
        among = frozenset(ordered)
        scores = {hit.seq: hit.score / best * 0.99 for hit in fused if hit.seq in among} | dict.fromkeys(exact, 1.0)
        ranks = {} if joined.signals else {hit.seq: hit.ranks for hit in fused}
        ranking = Ranking(
            ranked,
            rows,
            scores,
            keyword=found.keyword,
            vectors=found.vectors,
            exact=frozenset(exact),
            notes=tuple(found.notes),
            embedded=found.embedded,
            trace=RankTrace(weights, joined.signals, ranks, 0.99 / best),
            mentioned=joined.mentioned,
            mentioned_docs=mentioned.docs,
            plain_rows=joined.plain_rows,
        )
        if not joined.signals:
            return ranking
        looked_at = frozenset(ordered[: COVERAGE_CHUNKS + SPARE])
        examined = [seq for seq in ranked if seq in looked_at][:COVERAGE_CHUNKS]
        return boost_coverage(ranking, question, weights, best=examined, verbatim=joined.verbatim, mentions=mentioned)

    async def _exact(self, names: Sequence[NameMatch], fused: Sequence[Fused]) -> Sequence[int]:
        """Return the first chunks of the pages and sections with these names; of one kind, those that search found first."""
        places = {hit.doc: place for place, hit in reversed(list(enumerate(fused)))} if names else {}
        nearest = nearest_first(names, lambda match: places.get(match.doc, len(fused)))[:MOST_NAMED]
        seqs = [await self._index.first_chunk(match.doc, match.section) for match in nearest]
        return list(dict.fromkeys(filter(None, seqs)))

    async def _verbatim(
        self, question: SearchQuestion, found: Sequence[Scored]
    ) -> tuple[frozenset[int], Mapping[int, ChunkRow]]:
        """Return those of the chunks that have the question as it was written, and the rows that were read.

        A long chunk, or one on a long page, that has an identifier or a line of an error message once, is far down by BM25.
        """
        if not question.phrases:
            return frozenset(), {}
        # The first ones are read in any case.
        most = DEPTH if any(phrase.tells for phrase in question.phrases) else COVERAGE_CHUNKS + SPARE
        rows = await self._rows([hit.seq for hit in found[:most]], {})
        texts = {seq: indexed_text(row.title, row.section, row.text) for seq, row in rows.items()}
        for phrase in question.phrases:
            having = frozenset(seq for seq, text in texts.items() if phrase.tells and phrase.is_in(text))
            # An entry of a table of contents counts only if no section was found.
            having = having or frozenset(seq for seq, text in texts.items() if phrase.is_listed_in(text))
            if having:
                few = len({rows[seq].doc for seq in having}) <= MOST_VERBATIM
                return having if few else frozenset(), rows
        return frozenset(), rows

    async def _mentioned(
        self, engines: Engines, question: SearchQuestion, scope: SearchScope, mentioned: Mentioned
    ) -> Sequence[Scored]:
        """Return the best chunks of each mentioned document by words; the first one of a document that has none of the words.

        If a time has many documents, these are the best chunk of each of the best by the words beside the time; if none has any of the
        words, the first chunk of each of the first documents.
        """
        found: list[Scored] = []
        if among := [doc for doc in mentioned.by_time if doc not in mentioned.docs]:
            beside = frozenset(mentioned.words_beside(question))
            rest = [term for term in question.terms if term.word in beside]
            having = await _search_words(engines, rest, replace(scope, docs=frozenset(among))) if rest else ()
            found += _best_of_pages(having)[:FIRST_OF_A_TIME]
            if not having:
                firsts = await self._index.first_chunks(among[:FIRST_OF_A_TIME])
                found += [Scored(firsts[doc], doc, 0.0) for doc in among[:FIRST_OF_A_TIME] if doc in firsts]
        for doc in sorted(mentioned.docs):
            having = await _search_words(engines, question.terms, replace(scope, docs=frozenset([doc])))
            found += having[:MOST_OF_MENTIONED]
            if not having and (seq := await self._index.first_chunk(doc, None)):
                found.append(Scored(seq, doc, 0.0))
        return found

    async def _search(self, engines: Engines, question: SearchQuestion, scope: SearchScope) -> _Found:
        """Ask both engines at the same time; if one is unavailable, use the other, with a note."""
        found = _Found()

        async def by_words() -> None:
            terms, docs = question.terms, scope.docs
            try:
                found.keyword = await _search_words(engines, terms, scope)
            except EngineUnavailable as error:
                found.notes.append(f"searched by meaning only: {error}")
                return
            best = _best(found.keyword) if engines.ours else 0.0
            found.properties = await find_by_properties(self._index, terms, docs, best=best)
            if engines.page_ranks is not None:
                # If pages cannot be searched now, chunks rank without them.
                with suppress(EngineUnavailable):
                    found.pages = await engines.page_ranks.pages(terms, by="text", limit=PAGE_DEPTH, docs=docs)
                    found.names = await engines.page_ranks.pages(terms, by="names", limit=NAME_DEPTH, docs=docs)

        async def by_meaning() -> None:
            try:
                found.vectors, found.embedded = await self._search_meaning(engines, question, scope)
            except (EmbedderUnavailable, EngineUnavailable) as error:
                found.notes.append(f"searched by words only: {error}")

        # What works elsewhere begins first. A server, or a thread if there are many vectors, compares them while words are searched
        # on this thread; a server for words searches while this thread embeds the question.
        first, second = (by_meaning, by_words) if engines.ours else (by_words, by_meaning)
        if engines.ours and engines.held is not None and engines.held.is_immediate:
            # Neither would wait for anything, and a task of its own takes 3 % of a search.
            await first()
            await second()
        else:
            async with first_error() as both:
                both.start_soon(second)
                await first()
        found.notes += [hits.note for hits in (found.keyword, found.vectors) if isinstance(hits, Noted)]
        for note in found.notes:
            log.warning("%s", note)
        return found

    async def _joined_by_score(
        self,
        engines: Engines,
        question: SearchQuestion,
        scope: SearchScope,
        found: _Found,
        weights: RankingWeights,
        *,
        named: bool,
        mentioned: Mentioned,
    ) -> _Joined:
        """Return what was found with the scores of each chunk added up.

        `named` if pages have the question as their name; `mentioned` is what it names among other words.
        """
        verbatim, rows = await self._verbatim(question, found.keyword)
        of_mentioned: Sequence[Scored] = ()
        with suppress(EngineUnavailable):
            of_mentioned = await self._mentioned(engines, question, scope, mentioned)
        as_asked = bool(named or verbatim or of_mentioned)
        listed = frozenset(hit.seq for hit in found.keyword)
        by_words = [*found.keyword, *(hit for hit in of_mentioned if hit.seq not in listed)]
        joining = _Joining(self._index, engines, scope, question, found.embedded, weights, as_asked, rows=dict(rows))
        fused, signals = await joining.joined(replace(found, keyword=by_words))
        return _Joined(
            fused,
            signals,
            rows=joining.rows,
            plain_rows=await self._with_properties(found.properties, joining.rows),
            verbatim=verbatim,
            mentioned=frozenset(hit.seq for hit in of_mentioned),
        )

    async def _joined_by_rank(self, found: _Found, *, meaning_leads: bool) -> _Joined:
        """Return what was found joined by rank. Properties have no place in the list by words, so they stand in for an empty one."""
        properties = () if found.keyword or meaning_leads else found.properties
        fused = fuse([() if meaning_leads else found.keyword or properties, found.vectors])
        # Among equals those with the words come first: a single page with a rare word is probably meant.
        fused.sort(key=lambda hit: (-hit.score, hit.ranks[0] or DEPTH + 1))
        rows: dict[int, ChunkRow] = {}
        return _Joined(fused, rows=rows, plain_rows=await self._with_properties(properties, rows))

    async def _with_properties(self, found: Sequence[Scored], rows: dict[int, ChunkRow]) -> Mapping[int, ChunkRow]:
        """Put the properties of the pages behind the text of these chunks in `rows`; return the rows without them."""
        if not found:
            return {}
        plain = await self._rows([hit.seq for hit in found], rows)
        added = await rows_with_properties(self._index, [*plain.values()])
        rows.update(added)
        # A page may have lost its properties a moment ago.
        return {seq: plain[seq] for seq in added}

    async def _rows(self, seqs: Sequence[int], read: Mapping[int, ChunkRow]) -> Mapping[int, ChunkRow]:
        """Return the rows of those of the chunks that still exist; `read` were read a moment ago."""
        missing = [seq for seq in seqs if seq not in read]
        found = {**read, **await self._index.chunks(missing)}
        return {seq: found[seq] for seq in seqs if seq in found}

    async def _search_meaning(
        self, engines: Engines, question: SearchQuestion, scope: SearchScope
    ) -> tuple[Sequence[Scored], Embedded]:
        """Search by vector; again if the index's vectors were exchanged between embedding the question and searching."""
        for _ in range(TRIES):
            space = await self._index.space()
            embedded = await _embedded(engines, space.identity, question)
            if not embedded.vector.any():
                return (), embedded
            found = await self._nearest(engines, embedded, scope)
            if (await self._index.space()).position.generation == space.position.generation:
                return found, embedded
        raise EngineUnavailable("the vector index", "its vectors keep being replaced")

    async def _nearest(self, engines: Engines, embedded: Embedded, scope: SearchScope) -> Sequence[Scored]:
        def search(limit: int) -> Awaitable[Sequence[Scored]]:
            return engines.vectors.search(
                self._index, embedded.vector, limit=limit, docs=scope.docs, filters=scope.filters
            )

        return await _of_several_pages(search, scope)


def _candidates(joined: _Joined, exact: Sequence[int], room: int) -> tuple[Sequence[int], int]:
    """Return the chunks in the order in which they are looked at, and how many of them are enough for `room`."""
    fused = joined.fused
    # The order of the best does not depend on how many are shown: the same chunks are examined, however many are ranked.
    most = max(room, COVERAGE_CHUNKS) + SPARE
    preferred = joined.verbatim | joined.mentioned
    pool = [*(hit for hit in fused if hit.seq in preferred), *fused] if preferred else fused
    if most < POOL and len({hit.doc for hit in fused[:most]}) < PAGES:
        most = POOL  # for any limit the same
        first = pool[: POOL - PAGES]
        docs = {hit.doc for hit in first}
        others = [hit for hit in _best_of_pages(fused) if hit.doc not in docs]
        pool = [*first, *others[:PAGES], *pool]
    return list(dict.fromkeys((*exact, *(hit.seq for hit in pool)))), most


def _best(found: Sequence[Scored]) -> float:
    return max((hit.score for hit in found), default=0.0)


Hit = TypeVar("Hit", Scored, Fused)


def _best_of_pages(ranked: Iterable[Hit]) -> Sequence[Hit]:
    """Return the first hit of each document."""
    best: dict[int, Hit] = {}
    for hit in ranked:
        best.setdefault(hit.doc, hit)
    return list(best.values())


async def _embedded(engines: Engines, identity: IndexIdentity, question: SearchQuestion) -> Embedded:
    embedder = await engines.embedder(identity)
    return Embedded(embedder, (await embedder.embed([question.to_embed]))[0])


async def _search_words(engines: Engines, terms: Sequence[QueryTerm], scope: SearchScope) -> Sequence[Scored]:
    def search(limit: int) -> Awaitable[Sequence[Scored]]:
        return engines.keyword.search(terms, limit=limit, docs=scope.docs, filters=scope.filters)

    return await _of_several_pages(search, scope)


async def _of_several_pages(
    search: Callable[[int], Awaitable[Sequence[Scored]]], scope: SearchScope
) -> Sequence[Scored]:
    """Return the best `DEPTH` chunks; if they are of a few pages with many alike, half of these and the best of other pages."""
    found = await search(DEPTH)
    most = FEW_PAGES if scope.docs is None else min(FEW_PAGES, len(scope.docs) - 1)
    if len(found) < DEPTH or len({hit.doc for hit in found}) > most:
        return found
    kept = found[: DEPTH // 2]
    docs = {hit.doc for hit in kept}
    others = [hit for hit in _best_of_pages(await search(DEEPER)) if hit.doc not in docs][: DEPTH - len(kept)]
    chosen = sorted({*kept, *others, *found[len(kept) : DEPTH - len(others)]}, key=lambda hit: (-hit.score, hit.seq))
    return Noted(chosen, found.note) if isinstance(found, Noted) else chosen


@dataclass(frozen=True, slots=True)
class _Joining:
    """Joins what the engines found by score, after a second keyword search with the words that the best chunks share."""

    index: IndexStore
    engines: Engines
    scope: SearchScope
    question: SearchQuestion
    embedded: Embedded | None
    weights: RankingWeights
    as_asked: bool
    """Whether pages have the question itself, as a name or as it was written: then no other words are looked for."""
    rows: dict[int, ChunkRow]
    """The chunks that were read."""

    async def joined(self, found: _Found) -> tuple[list[Fused], ChunkSignals]:
        """Merge the lists: return each chunk once, best first, and the signals of all chunks."""
        signals = await self._signals(found)
        words = len(self.question.terms)
        ranked = signals.ranked(self.weights, words)
        best = {seq: signals.docs[seq] for seq, _ in ranked[:CHUNKS]}
        # If no word of the question was found, chunks that are only near in meaning are too far off to learn from.
        learns = found.keyword and self._may_learn(words) and are_relevant(best, found.vectors, found.pages)
        if learns and (added := await self._shared_terms([*best])):
            signals.added, signals.learnt_from = added, tuple(best)
            again = await self._search_again(added)
            signals.feedback = shares(again)
            signals.docs.update((hit.seq, hit.doc) for hit in again)
            await self._add_cosines(signals.docs, signals.cosines)
            ranked = signals.ranked(self.weights, words)
        return [Fused(seq, signals.docs[seq], score) for seq, score in ranked], signals

    def _may_learn(self, words: int) -> bool:
        """Return whether words that the first chunks share may be searched beside the question's own, of which there are `words`."""
        # A single word is what the caller wants; words around it would drown it. In a script without spaces, what chunks share
        # are pieces of a few words, not words.
        return bool(
            self.weights.feedback and words >= FEWEST_TERMS and not self.question.is_unspaced and not self.as_asked
        )

    async def _signals(self, lists: _Found) -> ChunkSignals:
        keyword, vectors, pages, names = lists.keyword, lists.vectors, lists.pages, lists.names
        properties = lists.properties
        found = {hit.seq: hit.doc for hit in (*keyword, *vectors, *properties)}
        # The beginning of a page that is among the best as a whole, although none of its chunks is.
        having = frozenset(found.values())
        found |= {hit.seq: hit.doc for hit in (*pages[:WHOLE_PAGES], *names[:WHOLE_PAGES]) if hit.doc not in having}
        best = _best(keyword)
        most = max([best, *(hit.score for hit in properties)])
        share = best / most if best else 1.0
        signals = ChunkSignals(shares(keyword, share), page_shares(pages, share), page_shares(names), found)
        signals.properties = {hit.seq: hit.score / most for hit in properties}
        signals.cosines.update((hit.seq, hit.score) for hit in vectors)
        transformer = self.embedded is not None and not self.embedded.embedder.name.startswith(STATIC)
        whole = len(vectors) == DEPTH or self.question.gap
        if transformer and whole and vectors[0].score > vectors[-1].score:
            signals.nearest = vectors[0].score, vectors[-1].score
        await self._add_cosines(found, signals.cosines)
        return signals

    async def _shared_terms(self, best: Sequence[int]) -> tuple[QueryTerm, ...]:
        rows = self.rows
        rows.update(await self.index.chunks([seq for seq in best if seq not in rows]))
        # In ranked order, so that floating-point sums are the same each time.
        texts = [
            (indexed_text(row.title, row.section, row.text)[:MOST_READ], row.language)
            for seq in best
            if (row := rows.get(seq))
        ]
        feedback = RelevanceWords(texts, self.question.terms)
        return feedback.terms(await self.index.frequencies(feedback.shared)) if feedback.shared else ()

    async def _search_again(self, added: Sequence[QueryTerm]) -> Sequence[Scored]:
        try:
            return await _search_words(self.engines, added, self.scope)
        except EngineUnavailable:
            return ()  # the first list is used

    async def _add_cosines(self, found: Iterable[int], cosines: dict[int, float]) -> None:
        """Add the cosine of each chunk of `found` that has a vector of the question's embedder."""
        if self.embedded is None or not (missing := [seq for seq in found if seq not in cosines]):
            return
        vector = self.embedded.vector
        if self.engines.held is not None:
            cosines.update(self.engines.held.cosines(vector, missing))
            if not (missing := [seq for seq in missing if seq not in cosines]):
                return
        halves = await self.index.halves(missing)
        # While vectors are exchanged, some may have another length.
        usable = [place for place, half in enumerate(halves) if len(half) == 2 * len(vector)]
        if not usable:
            return
        stored = np.frombuffer(b"".join(halves[i] for i in usable), "<f2").reshape(len(usable), -1).astype(np.float32)
        # As the vector engine does it: an answer must not depend on where the vectors are.
        lengths = np.sqrt(np.einsum("ij,ij->i", stored, stored))
        unit = (vector / (float(np.linalg.norm(vector)) or 1.0)).astype(np.float32)
        near = np.einsum("ij,j->i", stored, unit)
        np.divide(near, lengths, out=near, where=lengths > 0)
        cosines.update(zip((missing[i] for i in usable), near.tolist(), strict=True))


def boost_coverage(
    ranking: Ranking,
    question: SearchQuestion,
    weights: RankingWeights = DEFAULT_WEIGHTS,
    *,
    best: Sequence[int],
    verbatim: Collection[int] = (),
    mentions: Mentioned = NOTHING_MENTIONED,
) -> Ranking:
    """Return `ranking` with a boost for the `best` chunks that have more of the question's words, and more of them as neighbours.

    Chunks in `verbatim`, which have the question as it was written, get a boost that puts them first, and so do those of a page that
    it mentions. Those of a page with all words of the question in its title get a smaller one.
    BM25 alone lets one rare word outweigh several others, and ignores where in the chunk they are.
    """
    matcher = TermMatcher(question.terms, question.pairs, question.times)
    matches = {seq: matcher.match(ranking.rows[seq]) for seq in best}
    words = max(len(question.terms), 1)
    mentioned = _meant(ranking, matches, question, mentions)
    doc_of = {seq: ranking.rows[seq].doc for seq in matches}
    # A page of the time that has little of the question is not the page that was meant.
    other = frozenset(mentions.by_time) - {doc_of[seq] for seq in mentioned}
    doubtful = frozenset(seq for seq in ranking.mentioned if doc_of.get(seq) not in other)
    titled = _having_all_in_title(ranking, question, doc_of)
    boosts = {
        seq: (
            weights.coverage * sum(match.words.values()) / words,
            weights.pairs * match.pairs,
            weights.phrase if seq in verbatim else 0.0,
            weights.phrase
            * (MENTION if seq in mentioned else DOUBTFUL_MENTION if seq in doubtful or doc_of[seq] in titled else 0.0),
        )
        for seq, match in matches.items()
    }
    boosted = {seq: score + sum(boosts.get(seq, ())) for seq, score in ranking.scores.items()}
    # If nothing but a time is asked for, its pages are equal, so they come in the order of their days.
    only_time = bool(mentions.by_time) and not mentions.words_beside(question)
    order = {doc: place for place, doc in enumerate(mentions.by_time)} if only_time else {}
    dated = [seq for seq in mentioned if doc_of[seq] in order]
    first = max((boosted[seq] for seq in dated), default=0.0)
    for seq in dated:
        of_words, of_pairs, as_written, of_mention = boosts[seq]
        boosts[seq] = of_words, of_pairs, as_written, of_mention + first - boosted[seq]
        boosted[seq] = first
    best = sorted(best, key=lambda seq: order.get(doc_of[seq], len(order)))
    most = max((boosted[seq] for seq in boosted.keys() - ranking.exact), default=0.0) or 1.0
    scores = {seq: 1.0 if seq in ranking.exact else score / most * 0.99 for seq, score in boosted.items()}
    ordered = sorted(best, key=lambda seq: -scores[seq])
    return replace(
        ranking,
        ranked=(*ordered, *ranking.ranked[len(ordered) :]),
        scores=scores,
        matches={seq: match.words for seq, match in matches.items()},
        pairs={seq: match.pairs for seq, match in matches.items()},
        mentioned=mentioned,
        mentioned_docs=ranking.mentioned_docs - other,
        trace=replace(ranking.trace, boosts=boosts, scale=0.99 / most) if ranking.trace else None,
    )


def _content_of(row: ChunkRow) -> Sequence[str]:
    """Return the words of a title without stop words."""
    return [word for word in words(row.title) if not is_stop_word(word, (row.language,))]


def _having_all_in_title(ranking: Ranking, question: SearchQuestion, doc_of: Mapping[int, int]) -> frozenset[int]:
    """Return the documents whose titles have all words of the question and few others, in any order; none if many have."""
    names = ranking.signals.names if ranking.signals else {}
    # Taking a title apart takes long, and one with all words is among the best names.
    best = {doc: seq for seq, doc in doc_of.items() if names.get(doc, 0.0) >= GOOD_NAME}
    if len(question.terms) < FEWEST_TERMS or not best:
        return frozenset()
    rows = ((doc, ranking.rows[seq]) for doc, seq in best.items())
    titles = {doc: terms_in_name(row.title, row.language) for doc, row in rows}
    asked = [{form for form, _ in term.alternatives} for term in question.terms]
    # A title that lists ten things is about none of them.
    found = frozenset(
        doc
        for doc, title in titles.items()
        if not any(map(title.isdisjoint, asked))
        and len(_content_of(ranking.rows[best[doc]])) <= MOST_IN_TITLE * len(asked)
    )
    return found if len(found) <= MOST_VERBATIM else frozenset()


def _meant(
    ranking: Ranking, matches: Mapping[int, ChunkMatch], question: SearchQuestion, mentions: Mentioned
) -> frozenset[int]:
    """Return the chunks of mentioned pages that have at least half as much of the rest of the question as any other page's.

    *Why does python 3 fail to sort* is not about `python/03-lists.md` if a page says why sorting fails. But what *happened on 9 March*
    is on the page of that day, whether it has the word or not, unless another page has all words and the date.
    """
    if not ranking.mentioned:
        return frozenset()
    rest = mentions.words_beside(question)
    # A page about dropping feedback may say so in the name of its file only.
    named = {seq: frozenset(words(ranking.rows[seq].path)) for seq in matches}
    shares = {
        seq: sum(1.0 if word in named[seq] else match.words.get(word, 0.0) for word in rest)
        for seq, match in matches.items()
    }
    doc_of = {seq: ranking.rows[seq].doc for seq in matches}
    docs = frozenset(doc_of[seq] for seq in ranking.mentioned if seq in shares)
    others = max((share for seq, share in shares.items() if doc_of[seq] not in docs), default=0.0)
    best = {doc: max(share for seq, share in shares.items() if doc_of[seq] == doc) for doc in docs}
    meant = {doc for doc in docs if 2 * best[doc] >= others}
    every = {term.word for term in question.terms} - question.days.keys()
    of_time = docs.intersection(mentions.by_time)
    if any(every <= match.words.keys() for seq, match in matches.items() if doc_of[seq] not in docs):
        # *Revenue in October* is on a page about revenue, if that speaks of October.
        meant -= {doc for doc in of_time if best[doc] < others or (mentions.is_vague and best[doc] == others)}
    elif rest and mentions.is_aside:
        meant -= {doc for doc in of_time if best[doc] <= others}
    elif len(rest) <= 1 and mentions.by_day:
        meant |= of_time
    return frozenset(seq for seq in ranking.mentioned if doc_of.get(seq) in meant)
