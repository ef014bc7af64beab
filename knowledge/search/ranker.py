"""From a question to ranked chunks: asks both engines, joins what they found, puts exact names first."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import anyio

from knowledge.errors import EmbedderUnavailable, EngineUnavailable, KnowledgeError
from knowledge.index.embed.ports import Embedder, EmbedderOf
from knowledge.index.ports import Both, HoldsVectors, HybridIndex, KeywordIndex, Noted, QueryTerm, Scored, VectorIndex
from knowledge.pages.markdown.chunk import Chunk
from knowledge.search.fusion import Fused, collapse, fuse
from knowledge.search.query.question import SearchQuestion
from knowledge.search.query.relevance_feedback import RelevanceWords, believed, weigh
from knowledge.search.query.term_match import AskedWords
from knowledge.state.ports import ChunkRow, Filters, IndexIdentity, IndexStore, NameMatch

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

log = logging.getLogger(__name__)

DEPTH = 64
"""Chunks taken from each engine before fusion."""
SPARE = 12
"""Chunks looked at beyond those that are shown, to fill the places of near-duplicates."""
MOST_NAMED = 5
RECONSIDERED = 10
"""Of the best chunks, about what is shown; each costs what looking for the words in it does."""
SAID = 0.2
"""What saying every word of the question adds, where the best chunk has 1."""
FEWEST_TERMS = 2
MOST_READ = 2_000
"""Characters of a chunk that feedback reads; few have more, and their beginning says what they are about."""
TRIES = 3
"""Vectors are exchanged as a whole, when the embedder changes: twice during one question is hardly possible."""


@dataclass(frozen=True, slots=True)
class Engines:
    """What search needs that is costly to load; built at the first search."""

    keyword: KeywordIndex
    vectors: VectorIndex
    embedder: EmbedderOf
    """Gives the embedder for questions to whatever the index's vectors are made with now."""
    hybrid: HybridIndex | None = None
    """The engine that holds words and vectors, if there is one: it is asked once, and the two above when it is away."""
    ours: bool = True
    """Whether `keyword` ranks by BM25 over our terms: only then can its scores be weighed, and terms be fed back to it."""


@dataclass(frozen=True, slots=True)
class Embedded:
    """A question's vector, and who made it."""

    embedder: Embedder
    vector: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Ranking:
    """Chunks best first, their rows and scores (0..1), what each engine found, which were named, and what was missing.

    `embedded` is the question as vectors were searched for it; None if they were not.
    """

    ranked: Sequence[int]
    rows: Mapping[int, ChunkRow]
    scores: Mapping[int, float]
    keyword: Sequence[Scored]
    vectors: Sequence[Scored]
    exact: frozenset[int]
    notes: tuple[str, ...]
    embedded: Embedded | None = None
    said: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
    """For the first chunks, as far as they were looked into, which asked words they have, with the weight of their form."""


@dataclass(frozen=True, slots=True)
class SearchScope:
    """Where to look: as the documents' numbers (None: everywhere) and as the filters that chose them."""

    docs: frozenset[int] | None
    filters: Filters


@dataclass(frozen=True, slots=True)
class _EngineResults:
    """What each engine found, the joined list, and what was missing."""

    keyword: Sequence[Scored]
    vectors: Sequence[Scored]
    fused: Sequence[Fused]
    notes: tuple[str, ...] = ()
    embedded: Embedded | None = None
    summed: bool = False
    """Whether scores were joined, and so say by how much one chunk is better than another."""


class Ranker:
    """Ranks chunks for a question with whatever engines answer; what did not answer is noted, not fatal."""

    def __init__(self, index: IndexStore, engines: Callable[[], Awaitable[Engines]]) -> None:
        self._index, self._engines = index, engines

    async def rank(
        self, question: SearchQuestion, names: Sequence[NameMatch], within: SearchScope, *, room: int
    ) -> Ranking:
        """Return the best `room` chunks and some more; what a better chunk of the same page already says is left out."""
        if within.docs is not None and not within.docs:
            return Ranking((), {}, {}, (), (), frozenset(), ())
        found = await self._at_once(question, within)
        # Of equals the one that has the words comes first: a single page with a rare word is what was meant.
        fused = sorted(found.fused, key=lambda hit: (-hit.score, hit.ranks[0] or DEPTH + 1))
        exact = await self._exact(names)
        first = frozenset(exact)
        ordered = exact + [hit.seq for hit in fused if hit.seq not in first]
        rows = await self._index.chunks(ordered[: room + SPARE])
        ranked = collapse([(seq, rows[seq].doc, rows[seq].text) for seq in ordered if seq in rows])
        ranking = Ranking(
            ranked, rows, _scores(fused, exact), found.keyword, found.vectors, first, found.notes, found.embedded
        )
        return reconsidered(ranking, question) if found.summed else ranking

    async def _at_once(self, question: SearchQuestion, within: SearchScope) -> _EngineResults:
        """Return what the one engine that holds both finds and joins; when it is away, what the others find, and say so."""
        engines = await self._engines()
        if engines.hybrid is None:
            return await self._by_both(question, within)
        note = ""
        try:
            # Before it was ever filled it is not asked; the others have everything then.
            filled = (await engines.hybrid.position()).generation
            for _ in range(TRIES if filled else 0):
                space = await self._index.space()
                embedded = await _embedded(engines, space.identity, question)
                both = await engines.hybrid.search_both(
                    question.terms, embedded.vector, limit=DEPTH, docs=within.docs, filters=within.filters
                )
                if (await self._index.space()).position.generation == space.position.generation:
                    return _EngineResults(both.keyword, both.vectors, _as_joined(both), embedded=embedded)
        except (EmbedderUnavailable, EngineUnavailable) as error:
            note = f"searched by the engines of this machine: {error}"
        found = await self._by_both(question, within)
        return replace(found, notes=(note, *found.notes)) if note else found

    async def _by_both(self, question: SearchQuestion, within: SearchScope) -> _EngineResults:
        """Return what each engine finds; when one is away the other must do, and the notes say so."""
        engines = await self._engines()
        found: dict[str, Sequence[Scored]] = {"keyword": (), "vectors": ()}
        failures: list[KnowledgeError] = []
        notes: list[str] = []
        embedded: Embedded | None = None

        async def by_words() -> None:
            try:
                found["keyword"] = await engines.keyword.search(
                    question.terms, limit=DEPTH, docs=within.docs, filters=within.filters
                )
            except EngineUnavailable as error:
                notes.append(f"searched by meaning only: {error}")
            except KnowledgeError as error:
                failures.append(error)

        async def by_meaning() -> None:
            nonlocal embedded
            try:
                found["vectors"], embedded = await self._by_meaning(engines, question, within)
            except (EmbedderUnavailable, EngineUnavailable) as error:
                notes.append(f"searched by words only: {error}")
            except KnowledgeError as error:
                failures.append(error)

        async with anyio.create_task_group() as both:
            both.start_soon(by_words)
            both.start_soon(by_meaning)
        if failures:
            raise failures[0]  # as itself, not in a group
        keyword, vectors = found["keyword"], found["vectors"]
        notes += [by.note for by in (keyword, vectors) if isinstance(by, Noted)]
        for note in notes:
            log.warning("%s", note)
        if engines.ours:
            fused = await _Twice(self._index, engines, within, question, embedded).weighed(keyword, vectors)
        else:
            fused = fuse([keyword, vectors])
        return _EngineResults(keyword, vectors, fused, tuple(notes), embedded, summed=engines.ours)

    async def _by_meaning(
        self, engines: Engines, question: SearchQuestion, within: SearchScope
    ) -> tuple[Sequence[Scored], Embedded]:
        """Return what is near the question, both embedded alike: if vectors were exchanged meanwhile, it is asked anew."""
        for _ in range(TRIES):
            space = await self._index.space()
            embedded = await _embedded(engines, space.identity, question)
            if not embedded.vector.any():
                return (), embedded
            found = await engines.vectors.search(
                self._index, embedded.vector, limit=DEPTH, docs=within.docs, filters=within.filters
            )
            if (await self._index.space()).position.generation == space.position.generation:
                return found, embedded
        raise EngineUnavailable("the vector index", "its vectors are being exchanged again and again")

    async def _exact(self, names: Sequence[NameMatch]) -> list[int]:
        """Return the chunk with which each named document or section begins."""
        return list(
            dict.fromkeys(
                [
                    seq
                    for match in names[:MOST_NAMED]
                    if (seq := await self._index.first_chunk(match.doc, match.section))
                ]
            )
        )


async def _embedded(engines: Engines, identity: IndexIdentity, question: SearchQuestion) -> Embedded:
    embedder = await engines.embedder(identity)
    return Embedded(embedder, (await embedder.embed([question.to_embed]))[0])


@dataclass(frozen=True, slots=True)
class _Twice:
    """A second look: with the words that the first chunks share, and the cosine of every chunk that has the words."""

    index: IndexStore
    engines: Engines
    within: SearchScope
    question: SearchQuestion
    embedded: Embedded | None

    async def weighed(self, keyword: Sequence[Scored], vectors: Sequence[Scored]) -> list[Fused]:
        """Return both lists joined, `keyword` asked again with what its first chunks and those of `vectors` say together."""
        cosines = {hit.seq: hit.score for hit in vectors}
        await self._add_cosines(keyword, cosines)
        if _is_clear(keyword, vectors):
            return weigh(keyword, vectors, cosines)
        # Where no word of the question is found, what is near in meaning is too far off to be believed.
        fed_back = await self._fed_back(believed(keyword, vectors, cosines)) if keyword else ()
        if fed_back:
            keyword = await self._again(fed_back) or keyword
            await self._add_cosines(keyword, cosines)
        return weigh(keyword, vectors, cosines)

    async def _fed_back(self, first: Sequence[int]) -> tuple[QueryTerm, ...]:
        if len(self.question.terms) < FEWEST_TERMS:
            return ()  # the one word is what is looked for; what stands around it would drown it
        rows = await self.index.chunks(first)
        # In their order, for sums to be the same each time.
        texts = [
            (Chunk(0, row.section, 0, 0, row.text).indexed_text[:MOST_READ], row.language)
            for seq in first
            if (row := rows.get(seq))
        ]
        feedback = RelevanceWords(texts, self.question.terms)
        return feedback.terms(await self.index.frequencies(feedback.shared)) if feedback.shared else ()

    async def _again(self, fed_back: Sequence[QueryTerm]) -> Sequence[Scored]:
        within = self.within
        try:
            return await self.engines.keyword.search(
                (*self.question.terms, *fed_back), limit=DEPTH, docs=within.docs, filters=within.filters
            )
        except EngineUnavailable:
            return ()  # the first answer stands

    async def _add_cosines(self, keyword: Sequence[Scored], cosines: dict[int, float]) -> None:
        """Add the cosine of each chunk that has a vector of the question's kind."""
        if self.embedded is None or not (missing := [hit.seq for hit in keyword if hit.seq not in cosines]):
            return
        vector = self.embedded.vector
        if isinstance(self.engines.vectors, HoldsVectors):
            cosines.update(self.engines.vectors.cosines(vector, missing))
            if not (missing := [seq for seq in missing if seq not in cosines]):
                return
        import numpy as np

        halves = await self.index.halves(missing)
        # While vectors are exchanged a chunk may have one of another length.
        there = [place for place, half in enumerate(halves) if len(half) == 2 * len(vector)]
        if not there:
            return
        stored = np.frombuffer(b"".join(halves[i] for i in there), "<f2").reshape(len(there), -1).astype(np.float32)
        lengths = np.sqrt(np.einsum("ij,ij->i", stored, stored)) * float(np.linalg.norm(vector))
        products = np.einsum("ij,j->i", stored, vector)
        found = np.divide(products, lengths, out=np.zeros_like(products), where=lengths > 0)
        cosines.update(zip((missing[i] for i in there), found.tolist(), strict=True))


def _is_clear(keyword: Sequence[Scored], vectors: Sequence[Scored]) -> bool:
    """Return whether both engines have the same chunk first: then a second search changes little, and costs a third of all."""
    return bool(keyword and vectors) and keyword[0].seq == vectors[0].seq


def _as_joined(both: Both) -> list[Fused]:
    """Return the list that the engine joined, each chunk with its places in the other two."""
    words = {hit.seq: place for place, hit in enumerate(both.keyword, 1)}
    meaning = {hit.seq: place for place, hit in enumerate(both.vectors, 1)}
    return [Fused(hit.seq, hit.doc, hit.score, (words.get(hit.seq), meaning.get(hit.seq))) for hit in both.fused]


def _scores(fused: Sequence[Fused], exact: Sequence[int]) -> dict[int, float]:
    """Return 0..1 for every chunk: its share of the best possible fused score; an exact name has 1."""
    # A question of words that are nowhere may have nothing but chunks at a right angle to it.
    best = max((hit.score for hit in fused), default=0.0) or 1.0
    return {hit.seq: hit.score / best * 0.99 for hit in fused} | dict.fromkeys(exact, 1.0)


def reconsidered(ranking: Ranking, question: SearchQuestion) -> Ranking:
    """Return `ranking` with those of the best chunks further up that say more of the question.

    BM25 lets one rare word outweigh several, and words that were fed back were not asked for.
    """
    asked = AskedWords(question.terms)
    best = ranking.ranked[:RECONSIDERED]
    said = {seq: asked.said_in(ranking.rows[seq]) for seq in best}
    share = {seq: sum(said[seq].values()) / max(len(question.terms), 1) for seq in best}
    gained = {seq: score + SAID * share.get(seq, 0.0) for seq, score in ranking.scores.items()}
    most = max((gained[seq] for seq in gained.keys() - ranking.exact), default=0.0) or 1.0
    scores = {seq: 1.0 if seq in ranking.exact else gain / most * 0.99 for seq, gain in gained.items()}
    ordered = sorted(best, key=lambda seq: -scores[seq])
    return replace(ranking, ranked=(*ordered, *ranking.ranked[RECONSIDERED:]), scores=scores, said=said)
