"""Circle 3: from a question to ranked chunks. Puts words, both engines, fusion and scent together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import anyio

from knowledge.errors import NoSuchPath
from knowledge.pages.claim_source import authority_of
from knowledge.pages.map_view import MapEntry
from knowledge.pages.paths import clean_path
from knowledge.search.answers import Hit, IndexCoverage, PageLine, SearchAnswer
from knowledge.search.cursor import fingerprint, mark, seal, unseal
from knowledge.search.map_lines import document_entry, when
from knowledge.search.query.place_names import Places
from knowledge.search.query.question import Correct, Questions, SearchQuestion
from knowledge.search.ranker import Engines, Ranker, Ranking, SearchScope
from knowledge.search.result.layout import (
    ANSWER_CHARACTERS,
    LONGEST_LINE,
    MANY_LINES,
    SHORT_LINE,
    SHORTEST_SNIPPET,
    TELLING_SNIPPET,
    grouped,
    hit_cost,
    line_cost,
    most_that_fit,
    page_line,
    share,
    snippet_cost,
)
from knowledge.search.result.measures import signs_of
from knowledge.search.result.scent import ShownChunk, judge
from knowledge.search.result.snippet import snippet
from knowledge.search.route.route_kind import Mode, QuestionRoute
from knowledge.search.route.router import Router
from knowledge.search.tiers import WHOLE_TOKENS, chunk_section, is_tainted
from knowledge.state.ports import ChunkRow, DocumentRecord, Filters, IndexStore, NameMatch, Progress

LOOK_S = 0.02
USUAL = 8
SURE = 10
"""So many hits are shown to who asks for them, with snippets as short as need be."""
MOST_WITH_PLACES = 3
"""Chunks shown beside the places that were asked for."""
NUDGE_CHARACTERS = 110
REST_CHARACTERS = 520
"""What reasons, next step, nudge and cursor take at most, as a rule; needed before they are known."""


class Finder:
    """Answers questions from the index; what is not indexed yet is not found, and the answer says so."""

    def __init__(
        self,
        index: IndexStore,
        engines: Callable[[], Awaitable[Engines]],
        correct: Correct,
        *,
        router: Router | None = None,
        answer_tokens: int,
        patience_s: float = 0.0,
    ) -> None:
        self._index, self._engines = index, engines
        self._questions, self._ranker = Questions(index, correct), Ranker(index, engines)
        self._places, self._router = Places(index), router or Router(index)
        self._room, self._patience_s = answer_tokens * 4, patience_s

    async def search(
        self,
        query: str,
        *,
        path: str = "",
        mode: Mode = "auto",
        limit: int | None = None,
        cursor: str | None = None,
        filters: Filters | None = None,
    ) -> SearchAnswer:
        """Return the chunks that answer `query` best, restricted to `path` and `filters`.

        At most `limit`, fewer where a place was asked for or where the answer's tokens allow no more; without a limit as
        many as have room for snippets that tell something, at most `USUAL`. `next_cursor` goes on.

        Raises:
            InvalidPath, NoSuchPath: `path` is nothing in this knowledge base.
            BadCursor: `cursor` belongs to another question.
        """
        await self._wait_for_first_pages()
        # Half a character (a terminal that does not speak UTF-8) can neither be stored nor sent, so it is nowhere either.
        query = query.encode(errors="replace").decode()
        place = await self._place(path)
        chosen = replace(filters or Filters(), path=place)
        key = fingerprint(query, mode, chosen)
        seen = unseal(cursor, key) if cursor else []
        docs = await self._index.select(chosen)
        question = await self._questions.ask(query)
        names = await self._named(query, docs) or await self._named(question.corrected or "", docs)
        most = USUAL if limit is None else limit
        ranking = await self._ranker.rank(question, names, SearchScope(docs, chosen), room=len(seen) + most)
        way = await self._routed(query, mode, names, ranking)
        fresh = _fresh(ranking, frozenset(seen))
        wanted = fresh[: min(most, MOST_WITH_PLACES) if way.mode == "navigation" else most]
        if way.mode == "discovery":
            wanted = grouped(wanted, [ranking.rows[seq].doc for seq in wanted])
        records = await self._index.records({ranking.rows[seq].doc for seq in wanted})
        places = await self._asked_for(query, names, ranking, place) if way.mode == "navigation" and not seen else []
        sure = 0 if limit is None else min(limit, SURE)
        pages, shown = self._laid_out([page_line(e) for e in places], wanted, ranking, records, sure=sure)
        progress = await self._searchable()
        scent = judge(
            await signs_of(self._index, question, ranking, shown),
            [_as_place(ranking.rows[seq], records) for seq in shown],
            indexed=progress.done >= progress.total > 0,
            directory=place,
        )
        more = len(fresh) > len(shown)
        marks = [*seen, *(mark(ranking.rows[seq]) for seq in shown)] if more else []
        answer = SearchAnswer(
            pages=pages,
            hits=[_bare_hit(ranking.rows[seq], ranking.scores[seq]) for seq in shown],
            route=way,
            scent=scent,
            nudge=None,
            next_cursor=seal(marks, key) if more else None,
            indexed=IndexCoverage(progress.done, progress.total),
            corrected=question.corrected,
            note="; ".join(ranking.notes) or None,
        )
        least = SHORTEST_SNIPPET if sure else TELLING_SNIPPET
        return self._with_snippets(answer, [ranking.rows[seq].text for seq in shown], question, least=least)

    async def _routed(self, query: str, mode: Mode, names: Sequence[NameMatch], ranking: Ranking) -> QuestionRoute:
        if ranking.embedded is None:
            return await self._router.route(query, mode, named=names, vector=None)
        await self._router.prepare(ranking.embedded.embedder)
        return await self._router.route(query, mode, named=names, vector=ranking.embedded.vector)

    async def _asked_for(
        self, query: str, names: Sequence[NameMatch], ranking: Ranking, place: str
    ) -> Sequence[MapEntry]:
        near = list(dict.fromkeys(ranking.rows[seq].path for seq in ranking.ranked))
        languages = await self._questions.languages()
        return await self._places.asked_for(query, names, near, directory=place, languages=languages)

    def _laid_out(
        self,
        places: Sequence[PageLine],
        wanted: Sequence[int],
        ranking: Ranking,
        records: Mapping[int, DocumentRecord],
        *,
        sure: int,
    ) -> tuple[Sequence[PageLine], Sequence[int]]:
        """Return the map lines, those of `places` or else of the hits' pages, and as many of `wanted` as fit with them."""
        docs = [ranking.rows[seq].doc for seq in wanted]
        lines = {} if places else _lines(docs, records)
        first = {doc: place for place, doc in reversed(list(enumerate(docs)))}
        costs = [line_cost(lines[doc]) if first[doc] == at and doc in lines else 0 for at, doc in enumerate(docs)]
        room = self._room - ANSWER_CHARACTERS - REST_CHARACTERS - sum(map(line_cost, places))
        hits = [hit_cost(_bare_hit(ranking.rows[seq], 0.0)) for seq in wanted]
        count = most_that_fit(hits, costs, room, sure=sure)
        return places or [lines[doc] for doc in dict.fromkeys(docs[:count]) if doc in lines], wanted[:count]

    def _with_snippets(
        self, answer: SearchAnswer, texts: Sequence[str], question: SearchQuestion, *, least: int
    ) -> SearchAnswer:
        """Return `answer` with as much of each text as there is room for, most of the first."""
        said = (
            answer.route.reason,
            answer.scent.reason,
            answer.scent.next,
            answer.next_cursor or "",
            answer.corrected or "",
            answer.note or "",
        )
        room = self._room - ANSWER_CHARACTERS - NUDGE_CHARACTERS - sum(map(len, said))
        room -= sum(map(line_cost, answer.pages)) + sum(map(hit_cost, answer.hits))
        hits = []
        for place, (hit, text) in enumerate(zip(answer.hits, texts, strict=True)):
            limit = share(place, len(texts), room, least=least)
            shown = snippet(_below_heading(text), question.content, limit_chars=limit)
            room -= snippet_cost(shown)
            hits.append(replace(hit, snippet=shown))
        return replace(answer, hits=hits)

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

    async def _named(self, query: str, docs: frozenset[int] | None) -> Sequence[NameMatch]:
        name = query.strip().strip("\"'`")
        if not name or len(name) > 200:
            return ()
        return [m for m in await self._index.named(name, limit=20) if docs is None or m.doc in docs]


def _fresh(ranking: Ranking, seen: frozenset[str]) -> list[int]:
    """Return what was not shown on an earlier page of this answer."""
    if not seen:
        return list(ranking.ranked)
    return [seq for seq in ranking.ranked if mark(ranking.rows[seq]) not in seen]


def _lines(docs: Iterable[int], records: Mapping[int, DocumentRecord]) -> dict[int, PageLine]:
    """Return the map line of each page; of many, short ones."""
    known = [doc for doc in dict.fromkeys(docs) if doc in records]
    longest = LONGEST_LINE if len(known) <= MANY_LINES else SHORT_LINE
    return {doc: page_line(document_entry(records[doc]), records[doc].tokens, longest=longest) for doc in known}


def _as_place(row: ChunkRow, records: Mapping[int, DocumentRecord]) -> ShownChunk:
    short = row.doc in records and records[row.doc].tokens <= WHOLE_TOKENS
    return ShownChunk(row.path, chunk_section(row.section), short=short)


def _bare_hit(row: ChunkRow, score: float) -> Hit:
    return Hit(
        path=row.path,
        section=chunk_section(row.section),
        title=row.title,
        snippet="",
        score=round(score, 4),
        line_start=row.line_start,
        line_end=row.line_end,
        revision=row.revision,
        modified=when(row.modified_ns),
        source=row.source,
        authority=authority_of(row.source),
        tainted=is_tainted(row.source, untrusted=row.untrusted),
    )


def _below_heading(text: str) -> str:
    """Return `text` without the heading it begins with, which `section` says already; the heading if that is all."""
    first, _, rest = text.partition("\n")
    return rest.lstrip("\n") if first.lstrip().startswith("#") and rest.strip() else text
