"""Circle 3: from a question to ranked chunks. Puts words, both engines, fusion and scent together."""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import anyio

from knowledge.embed.ports import Embedder
from knowledge.errors import BadCursor, EmbedderUnavailable, KnowledgeError, NoSuchPath
from knowledge.find.analysis import is_stop_word, stem, words
from knowledge.find.answers import Hit, Indexed, SearchAnswer
from knowledge.find.circles import chunk_section, is_tainted
from knowledge.find.rank import Fused, collapse, fuse
from knowledge.find.route import Mode, route
from knowledge.find.scent import Place, Signs, judge
from knowledge.find.snippet import snippet
from knowledge.index.ports import KeywordIndex, QueryTerm, Scored, VectorIndex
from knowledge.paths import clean_path
from knowledge.provenance import authority_of
from knowledge.storage.ports import ChunkRow, Filters, IndexStore, NameMatch, Position, Progress

log = logging.getLogger(__name__)

DEPTH = 64
"""Chunks taken from each engine before fusion."""
MOST_SNIPPET = 480
"""Characters of a snippet: enough for the sentence that answers and its neighbours."""
LOOK_S = 0.02
SPARE = 12
"""Chunks looked at beyond those that are shown, to fill the places of near-duplicates."""
MOST_TERMS = 48
"""Distinct words of a question that are searched for; of a longer one (a pasted log) the rarest."""
TYPO_WEIGHT = 0.8
PREFIX_WEIGHT = 0.6
MOST_COMPLETIONS = 8
MOST_FORMS = 20
ALIKE_LETTERS = 2
"""A stem keeps at least so much of the beginning of its word."""
MOST_WORDS_OF_A_NAME = 2
"""A question of so few words is a name or a term; in a longer one a single telling word tells too little."""
SHORTEST_PREFIX = 3
SHORTEST_TYPO = 5
TOP_OF_LIST = 10


@dataclass(frozen=True, slots=True)
class Engines:
    """What search needs that is costly to load; built at the first search."""

    keyword: KeywordIndex
    vectors: VectorIndex
    embedder: Embedder


@dataclass(frozen=True, slots=True)
class _Question:
    """A question taken apart: how many words it had, its content words, what is searched for each, and the text to embed."""

    asked: int
    content: tuple[str, ...]
    terms: tuple[QueryTerm, ...]
    to_embed: str
    corrected: str | None


@dataclass(frozen=True, slots=True)
class _Ranking:
    ranked: Sequence[int]
    rows: Mapping[int, ChunkRow]
    scores: Mapping[int, float]
    keyword: Sequence[Scored]
    vectors: Sequence[Scored]
    exact: frozenset[int]


class Finder:
    """Answers questions from the index; what is not indexed yet is not found, and the answer says so."""

    def __init__(
        self,
        index: IndexStore,
        engines: Callable[[], Awaitable[Engines]],
        correct: Callable[[IndexStore, str], Awaitable[Sequence[str]]],
        *,
        answer_tokens: int,
        patience_s: float = 0.0,
    ) -> None:
        self._index, self._engines, self._correct = index, engines, correct
        self._answer_tokens, self._patience_s = answer_tokens, patience_s
        self._known_languages: Sequence[str] = ()
        self._languages_at: Position | None = None

    async def search(
        self,
        query: str,
        *,
        path: str = "",
        mode: Mode = "auto",
        limit: int = 8,
        cursor: str | None = None,
        filters: Filters | None = None,
    ) -> SearchAnswer:
        """Return the `limit` chunks that answer `query` best, restricted to `path` and `filters`.

        Raises:
            InvalidPath, NoSuchPath: `path` is nothing in this knowledge base.
            BadCursor: `cursor` belongs to another question.
        """
        await self._wait_for_first_pages()
        place = await self._place(path)
        chosen = replace(filters or Filters(), path=place)
        key = _fingerprint(query, mode, chosen)
        seen = _opened(cursor, key) if cursor else []
        docs = await self._index.select(chosen)
        question = await self._question(query)
        names = await self._named(query, docs)
        ranking = await self._rank(question, names, docs, room=len(seen) + limit)
        before = frozenset(seen)
        fresh = [seq for seq in ranking.ranked if seq not in before]
        shown = fresh[:limit]
        hits = [self._hit(ranking.rows[seq], ranking.scores[seq], question, limit) for seq in shown]
        progress = await self._searchable()
        return SearchAnswer(
            hits=hits,
            route=route(query, mode, named=bool(names)),
            scent=judge(
                await self._signs(question, ranking, shown),
                [Place(hit.path, hit.section) for hit in hits],
                indexed=progress.done >= progress.total > 0,
                directory=place,
            ),
            nudge=None,
            next_cursor=_sealed([*seen, *shown], key) if len(fresh) > limit else None,
            indexed=Indexed(progress.done, progress.total),
            corrected=question.corrected,
        )

    async def _wait_for_first_pages(self) -> None:
        """Give the very first index a moment, once: an empty answer tells a new user that it does not work."""
        patience, self._patience_s = self._patience_s, 0.0
        if not patience or (await self._index.progress()).done:
            return
        with anyio.move_on_after(patience):
            while not await self._is_complete():  # noqa: ASYNC110 - the index has no bell
                await anyio.sleep(LOOK_S)

    async def _is_complete(self) -> bool:
        if not (await self._index.progress()).done:
            return False  # and no engine is loaded to find that out
        found = await self._searchable()
        return found.done >= found.total

    async def _searchable(self) -> Progress:
        """Return how much can be found: a page counts once its words are in the keyword index as well."""
        progress = await self._index.progress()
        engines = await self._engines()
        if progress.done < progress.total or await engines.keyword.position() == await self._index.position():
            return progress
        return Progress(max(progress.done - 1, 0), progress.total)

    async def _place(self, path: str) -> str:
        """Return `path` as the directory or document to search in, checked that it exists."""
        asked = clean_path(path)
        if not asked or await self._index.directory(asked) or await self._index.document(asked):
            return asked
        if await self._index.document(f"{asked}.md"):
            return f"{asked}.md"
        progress = await self._index.progress()
        if progress.done < progress.total or not progress.total:
            return asked  # it may be there and not be indexed yet; the answer says how far indexing is
        raise NoSuchPath(asked, await self._index.paths(contains=asked.rpartition("/")[2], limit=3))

    async def _question(self, query: str) -> _Question:
        asked = list(dict.fromkeys(words(query)))
        languages = await self._languages()
        content = [word for word in asked if not is_stop_word(word, languages)] or asked
        known = await self._index.frequencies(content)
        if len(content) > MOST_TERMS:
            content = _rarest(content, known)
        corrections = await self._corrections(content, known)
        last = asked[-1] if asked and query[-1:].isalnum() else ""
        completions = await self._completions(last)
        terms = tuple(
            _term(word, languages, corrections.get(word, ()), completions if word == last else ()) for word in content
        )
        best = {word: near[0] for word, near in corrections.items() if near}
        corrected = " ".join(best.get(word, word) for word in asked) if best else None
        return _Question(len(asked), tuple(content), terms, corrected or query[:4000], corrected)

    async def _languages(self) -> Sequence[str]:
        """Return the languages of the documents here, asked again when the index has moved."""
        position = await self._index.position()
        if self._languages_at != position:
            self._known_languages, self._languages_at = await self._index.languages(), position
        return self._known_languages

    async def _corrections(self, content: Sequence[str], known: Mapping[str, int]) -> dict[str, Sequence[str]]:
        unknown = [word for word in content if word not in known and len(word) >= SHORTEST_TYPO]
        return {
            word: await self._correct(self._index, word)
            for word in unknown[:TOP_OF_LIST]
            if not await self._is_inflected(word)
        }

    async def _is_inflected(self, word: str) -> bool:
        """Return whether another form of `word` is known, so that it is rightly spelled and found by its stem."""
        for language in await self._languages():
            term = stem(word, language)
            near = await self._index.completions(term, limit=MOST_FORMS)
            if any(stem(other, language) == term for other in near):
                return True
        return False

    async def _completions(self, prefix: str) -> Sequence[str]:
        if len(prefix) < SHORTEST_PREFIX:
            return ()
        found = await self._index.completions(prefix, limit=MOST_COMPLETIONS + 1)
        return [word for word in found if word != prefix][:MOST_COMPLETIONS]

    async def _named(self, query: str, docs: frozenset[int] | None) -> Sequence[NameMatch]:
        name = query.strip().strip("\"'`")
        if not name or len(name) > 200:
            return ()
        return [m for m in await self._index.named(name, limit=20) if docs is None or m.doc in docs]

    async def _rank(
        self, question: _Question, names: Sequence[NameMatch], docs: frozenset[int] | None, *, room: int
    ) -> _Ranking:
        """Return the best `room` chunks and some more; what a better chunk of the same page already says is left out."""
        if docs is not None and not docs:
            return _Ranking((), {}, {}, (), (), frozenset())
        keyword, vectors = await self._by_both(question, docs)
        # Of equals the one that has the words comes first: a single page with a rare word is what was meant.
        fused = sorted(fuse([keyword, vectors]), key=lambda hit: (-hit.score, hit.ranks[0] or DEPTH + 1))
        exact = await self._exact(names)
        first = frozenset(exact)
        ordered = exact + [hit.seq for hit in fused if hit.seq not in first]
        rows = await self._index.chunks(ordered[: room + SPARE])
        ranked = collapse([(seq, rows[seq].doc, rows[seq].text) for seq in ordered if seq in rows])
        return _Ranking(ranked, rows, _scores(fused, exact), keyword, vectors, first)

    async def _by_both(
        self, question: _Question, docs: frozenset[int] | None
    ) -> tuple[Sequence[Scored], Sequence[Scored]]:
        """Return what each engine finds; without an embedder the words must do."""
        engines = await self._engines()
        found: dict[str, Sequence[Scored]] = {"keyword": (), "vectors": ()}
        failures: list[KnowledgeError] = []

        async def by_words() -> None:
            try:
                found["keyword"] = await engines.keyword.search(question.terms, limit=DEPTH, docs=docs)
            except KnowledgeError as error:
                failures.append(error)

        async def by_meaning() -> None:
            try:
                vector = (await engines.embedder.embed([question.to_embed]))[0]
                if vector.any():
                    found["vectors"] = await engines.vectors.search(self._index, vector, limit=DEPTH, docs=docs)
            except EmbedderUnavailable as error:
                log.warning("searching by words only: %s", error)
            except KnowledgeError as error:
                failures.append(error)

        async with anyio.create_task_group() as both:
            both.start_soon(by_words)
            both.start_soon(by_meaning)
        if failures:
            raise failures[0]  # as itself, not in a group
        return found["keyword"], found["vectors"]

    async def _exact(self, names: Sequence[NameMatch]) -> list[int]:
        """Return the chunk with which each named document or section begins."""
        return list(
            dict.fromkeys(
                [seq for match in names[:5] if (seq := await self._index.first_chunk(match.doc, match.section))]
            )
        )

    def _hit(self, row: ChunkRow, score: float, question: _Question, limit: int) -> Hit:
        room = max(160, self._answer_tokens * 4 // max(limit, 1))
        return Hit(
            path=row.path,
            section=chunk_section(row.section),
            title=row.title,
            snippet=snippet(_below_heading(row.text), question.content, limit_chars=min(room, MOST_SNIPPET)),
            score=round(score, 4),
            line_start=row.line_start,
            line_end=row.line_end,
            revision=row.revision,
            source=row.source,
            authority=authority_of(row.source),
            tainted=is_tainted(row.source, untrusted=row.untrusted),
        )

    async def _signs(self, question: _Question, ranking: _Ranking, shown: Sequence[int]) -> Signs:
        if not shown:
            return Signs(0.0, agreement=False, exact=False, telling=False)
        best = shown[0]
        row = ranking.rows[best]
        coverage = 0.0
        if question.terms:
            present = _terms_like(f"{' '.join(row.section)} {row.title} {row.text}", row.language, question)
            known = await self._index.frequencies(question.content)
            rarity = {t.word: 1 / math.log2(2 + known.get(t.word, 0)) for t in question.terms}
            have = sum(rarity[t.word] for t in question.terms if any(term in present for term, _ in t.alternatives))
            coverage = have / sum(rarity.values())
        by_words = {hit.seq for hit in ranking.keyword[:TOP_OF_LIST]}
        by_meaning = {hit.seq for hit in ranking.vectors[:TOP_OF_LIST]}
        telling = len(question.content) > 1 or question.asked <= MOST_WORDS_OF_A_NAME
        agreement = best in by_words and best in by_meaning
        return Signs(coverage, agreement=agreement, exact=best in ranking.exact, telling=telling)


def _terms_like(text: str, language: str, question: _Question) -> set[str]:
    """Return the terms of those words of `text` that begin like one asked for; stemming all of them would be most of a search."""
    beginnings = {term[:ALIKE_LETTERS] for asked in question.terms for term, _ in asked.alternatives}
    return {stem(word, language) for word in set(words(text)) if word[:ALIKE_LETTERS] in beginnings}


def _below_heading(text: str) -> str:
    """Return `text` without the heading it begins with, which `section` says already; the heading if that is all."""
    first, _, rest = text.partition("\n")
    return rest.lstrip("\n") if first.lstrip().startswith("#") and rest.strip() else text


def _rarest(content: Sequence[str], known: Mapping[str, int]) -> list[str]:
    """Return the words that tell most: the rarest known ones, in the order they were asked."""
    order = sorted(range(len(content)), key=lambda i: (known.get(content[i], 1 << 30), i))
    return [content[i] for i in sorted(order[:MOST_TERMS])]


def _term(word: str, languages: Sequence[str], near: Sequence[str], completions: Sequence[str]) -> QueryTerm:
    """Return all indexed terms that count as `word`: its stem in every language here, its corrections, its completions."""
    weights: dict[str, float] = {}
    for form, weight in [(word, 1.0), *((n, TYPO_WEIGHT) for n in near), *((c, PREFIX_WEIGHT) for c in completions)]:
        for language in languages or ("",):
            term = stem(form, language)
            weights[term] = max(weight, weights.get(term, 0.0))
    return QueryTerm(word, tuple(weights.items()))


def _scores(fused: Sequence[Fused], exact: Sequence[int]) -> dict[int, float]:
    """Return 0..1 for every chunk: its share of the best possible fused score; an exact name has 1."""
    best = max((hit.score for hit in fused), default=1.0)
    return {hit.seq: hit.score / best * 0.99 for hit in fused} | dict.fromkeys(exact, 1.0)


def _fingerprint(query: str, mode: str, filters: Filters) -> str:
    return hashlib.sha256(repr((query, mode, filters)).encode()).hexdigest()[:12]


def _sealed(seen: Sequence[int], key: str) -> str:
    """Return a cursor. It names what was shown, so that a later page repeats nothing however the index has changed."""
    return base64.urlsafe_b64encode(json.dumps([key, *seen], separators=(",", ":")).encode()).decode().rstrip("=")


def _opened(cursor: str, key: str) -> list[int]:
    try:
        found: list[Any] = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, RecursionError) as error:
        raise BadCursor(cursor) from error
    if not isinstance(found, list) or found[:1] != [key] or not all(isinstance(seq, int) for seq in found[1:]):
        raise BadCursor(cursor)
    return found[1:]
