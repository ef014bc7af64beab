"""Tier 3: from a question to ranked chunks with snippets. Joins question, ranking, route, scent and layout."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from datetime import date

import anyio

from knowledge.errors import NoSuchPath, TagIsNoPath
from knowledge.pages.claim_source import authority_of, is_tainted
from knowledge.pages.map_view import MapEntry
from knowledge.pages.markdown.inline import without_attributes
from knowledge.pages.paths import clean_path, within
from knowledge.search.answers import Hit, IndexCoverage, PageLine, QuestionRoute, Scent, SearchAnswer, SearchMode
from knowledge.search.canvas_search import CanvasSearch, FoundCanvas, note_on_canvases
from knowledge.search.layout import (
    ANSWER_CHARACTERS,
    LONGEST_LINE,
    MANY_LINES,
    SHORT_LINE,
    SHORTEST_SNIPPET,
    TELLING_SNIPPET,
    hit_cost,
    json_length,
    line_cost,
    most_that_fit,
    page_line,
    share,
)
from knowledge.search.map_lines import document_entry, when
from knowledge.search.maps.gathered import known_tags
from knowledge.search.query.analysis import is_stop_word, words
from knowledge.search.query.corrections import Correct
from knowledge.search.query.languages import LanguageGap
from knowledge.search.query.mentions import NOTHING_MENTIONED, Mentioned, find_mentions
from knowledge.search.query.names import LONGEST_NAME, other_spellings, sharing
from knowledge.search.query.place_names import NamedPlaces, Places, TaggedPages, find_tagged
from knowledge.search.query.question import Questions, SearchQuestion
from knowledge.search.ranking.answer_parts import cursor_behind, key_of, marks_in, unseen
from knowledge.search.ranking.explanation import MOST_EXPLAINED, Explainer, characters, fitted
from knowledge.search.ranking.page_series import find_of_series
from knowledge.search.ranking.ranker import DEPTH, Engines, Ranker, Ranking, SearchScope
from knowledge.search.ranking.weights import RankingWeights, WeightsOf, default_weights
from knowledge.search.rerank.order import Reranking
from knowledge.search.route.router import Router
from knowledge.search.scent.across_languages import note_on, scent_across
from knowledge.search.scent.ranking_signs import signs_of
from knowledge.search.scent.signs import ScentSigns
from knowledge.search.scent.verdict import (
    LOST_BELOW,
    MOST_SHARING,
    ShownChunk,
    at_folder,
    at_place,
    at_tag,
    judge,
    page_scores,
)
from knowledge.search.snippet import snippet
from knowledge.search.tiers import folders_in_other_case, section_name
from knowledge.state.document_names import name_key
from knowledge.state.ports import ChunkRow, DocumentRecord, Filters, IndexStore, NameMatch, Progress
from knowledge.telemetry.operations import recorded
from knowledge.tokens import WHOLE_TOKENS

LONGEST_COMPARED, MOST_SECTIONS, MOST_PAGES = 1_500, 200, 40
"""Limits of `sections_like`: characters of the text that are compared, and sections and pages that are returned."""
LOOK_S = 0.02
USUAL = 8
"""Hits without a limit. As many in a row are of many pages, unless the best page is sure."""
SURE = 10
"""An explicit limit up to this is always honoured, with snippets as short as necessary."""
MOST_WITH_PLACES = 3
"""The most chunks shown after the requested places."""
NUDGE_CHARACTERS = 110
REST_CHARACTERS = 520
"""Room reserved for reasons, next step, nudge and cursor, which are not known when the hits are chosen."""
EXPLAINED_CHARACTERS = 2_000
"""Room reserved for an explanation when the hits are chosen."""
MOST_NEAREST = 3
"""Paths that are named in place of one that does not exist."""


class Finder:
    """Answers questions from the index. Pages that are not indexed yet are not found, and the answer says so."""

    def __init__(
        self,
        index: IndexStore,
        engines: Callable[[], Awaitable[Engines]],
        correct: Correct,
        *,
        router: Router | None = None,
        answer_tokens: int,
        patience_s: float = 0.0,
        on_wait: Callable[[], None] = lambda: None,
        weights: WeightsOf = default_weights,
        reranking: Reranking | None = None,
        canvases: CanvasSearch | None = None,
        index_note: Callable[[], Awaitable[str]] | None = None,
        has_pages: Callable[[], Awaitable[bool]] | None = None,
        today: Callable[[], date] = date.today,
    ) -> None:
        self._index_note, self._has_pages = index_note, has_pages
        self._reranking, self._canvases, self._names_canvases = reranking, canvases, canvases is not None
        self._index, self._engines = index, engines
        self._questions, self._ranker = Questions(index, correct, today), Ranker(index, engines, weights)
        self._places, self._router = Places(index), router or Router(index)
        self._room, self._patience_s, self._on_wait = answer_tokens * 4, patience_s, on_wait
        self._explained_hits = MOST_EXPLAINED

    def for_people(self, *, answer_tokens: int, explained: int) -> Finder:
        """Return the same search, with another length of answers and another number of explained hits.

        A person reads more at once than fits into an answer for a host, and sees canvases in a list of their own
        (`canvases`).
        """
        other = copy(self)
        other._names_canvases = False  # noqa: SLF001 - a copy of this one
        other._room, other._explained_hits = answer_tokens * 4, explained  # noqa: SLF001 - a copy of this one
        return other

    async def searched_words(self, query: str) -> Sequence[str]:
        """Return the words that are searched for a question: its own, those that it may have meant, and completions."""
        question = await self._questions.ask(query.encode(errors="replace").decode())
        near = (word for words in question.corrections.values() for word in words)
        return tuple(dict.fromkeys((*question.content, *near, *question.completions)))

    async def canvases(self, query: str, filters: Filters) -> Sequence[FoundCanvas]:
        """Return the canvases whose name and cards have most of the question's words, best first.

        Returns none if `filters` restrict anything but the path: a canvas has no tags, kind, source or recorded
        changes.
        """
        if self._canvases is None or not self._canvases.has_any or filters != Filters(path=filters.path):
            return ()
        question = await self._questions.ask(query.encode(errors="replace").decode())
        return await self._canvases.find(question.content, path=clean_path(filters.path))

    async def _index_notes(self) -> Sequence[str]:
        note = await self._index_note() if self._index_note is not None else ""
        return [note] if note else []

    async def _canvas_notes(self, question: SearchQuestion, filters: Filters) -> Sequence[str]:
        if self._canvases is None or not self._names_canvases or filters != Filters(path=filters.path):
            return ()
        found = await self._canvases.find(question.content, path=filters.path)
        return [note_on_canvases([canvas.path for canvas in found])] if found else []

    @recorded("search", says=lambda answer: {"hits": len(answer.hits), "verdict": answer.scent.level})
    async def search(
        self,
        query: str,
        *,
        path: str = "",
        mode: SearchMode = "auto",
        limit: int | None = None,
        cursor: str | None = None,
        filters: Filters | None = None,
        explain: bool = False,
    ) -> SearchAnswer:
        """Return the chunks that answer `query` best, restricted to `path` and `filters`.

        At most `limit` hits; fewer if the answer's tokens allow no more. Without a limit, at most `USUAL`, as many as have room for a
        useful snippet, and fewer for a question about a place. `next_cursor` continues the answer. With `explain`
        the answer says why its first hits rank where they do, within the same tokens.

        Raises:
            InvalidPath, NoSuchPath: `path` does not exist in this knowledge base.
            BadCursor: `cursor` belongs to another question.
        """
        await self._wait_for_first_pages()
        # Lone surrogates (from a terminal without UTF-8) can be neither stored nor sent.
        query = query.encode(errors="replace").decode()
        place = await self._place(path)
        chosen = replace(filters or Filters(), path=place)
        key = key_of(query, mode, chosen)
        seen = marks_in(cursor, key) if cursor else []
        scope = await self._selected(chosen)
        question = await self._questions.ask(query)
        names, mentioned = await self._said(question, query, scope)
        most = USUAL if limit is None else limit
        # More than will be shown: chunks of earlier pages of this answer are ranked again and skipped.
        ranking = await self._ranked(question, names, scope, room=len(seen) + most, mentioned=mentioned)
        # After ranking, because routing uses the question's vector, which ranking has made.
        route = await self._route(query, mode, names, ranking)
        is_for_place = route.mode == "navigation"
        places = NamedPlaces()
        if is_for_place and not seen:
            near = list(dict.fromkeys(ranking.rows[seq].path for seq in ranking.ranked))
            languages = await self._questions.languages()
            places = await self._places.find(
                query, names, near, directory=place, languages=languages, spoken=question.spoken
            )
        # A place's lines come before those of a tag, and a continued answer has shown both.
        tagged = await find_tagged(self._index, query, scope.filters, most=0 if seen or places.target else most)
        # A continued answer showed that page before.
        ranking = await self._with_meant_first(question, ranking, scope, places, named=bool(names or seen))
        ranking_signs = signs_of(
            question,
            ranking,
            sharing=max(sharing(names), places.pages_sharing),
            aliases=await self._aliases_of_first(ranking),
        )
        fresh = unseen(seen, ranking, is_sure=ranking_signs.is_sure, usual=USUAL)
        # A caller that gives a limit has a reason, so it is honoured, even if snippets become short.
        wanted = fresh[: min(most, MOST_WITH_PLACES) if is_for_place and limit is None else most]
        records = await self._index.records({ranking.rows[seq].doc for seq in wanted})
        sections = {seq: _section(ranking.rows[seq], records) for seq in wanted}
        sure = 0 if limit is None else min(limit, SURE)
        costs = {seq: _cost(ranking.rows[seq], sections[seq]) for seq in wanted}
        pages, shown = self._laid_out(
            tagged.lines or places.lines,
            wanted,
            ranking,
            records,
            costs=costs,
            sure=sure,
            spare=EXPLAINED_CHARACTERS if explain else 0,
            is_asked_for=bool(tagged.lines) or places.target is not None,
        )
        progress = await self._searchable()
        signs = ranking_signs.showing(shown)
        scores = page_scores(signs, ranking)
        # Hits of one page are put next to each other, because a model reads a page's passages together. Not before it is clear which
        # hits are shown: with a large limit, the passages of the first page would push out all others.
        place_of = {doc: at for at, doc in enumerate(scores)}
        shown = sorted(shown, key=lambda seq: place_of[ranking.rows[seq].doc])
        chunks = [_shown_chunk(ranking.rows[seq], sections[seq], records) for seq in shown]
        filtered_out = scope.is_empty and scope.filters != Filters(path=place)
        scent = judged = judge(
            signs,
            chunks,
            indexed=progress.done >= progress.total > 0,
            directory=place,
            navigation=is_for_place,
            continued=scores[ranking.rows[shown[0]].doc] if seen and shown else None,
            filtered_out=filtered_out,
        )
        notes = [*_times_read(question, ranking, shown), *ranking.notes, *await self._index_notes()]
        notes += [] if names or seen else await self._notes_on_names_outside(query, place)
        gap = None if filtered_out else _gap(question, ranking, shown)
        if gap:
            scent = scent_across(scent, gap, chunks, by_meaning=ranking.across_languages, named=signs.exact)
            notes += [] if ranking.across_languages or signs.exact else [note_on(gap, is_down=ranking.embedded is None)]
        scent = await self._for_place(scent, places, tagged, signs, pages_known=progress.total > 0)
        if scent is not judged:
            # Like the verdict, no score may say that the answer is lost.
            scores = {doc: max(score, LOST_BELOW) for doc, score in scores.items()}
        answer = SearchAnswer(
            pages=pages,
            hits=(),
            route=route,
            scent=scent,
            nudge=None,
            next_cursor=cursor_behind(key, seen, ranking, shown) if len(fresh) > len(shown) else None,
            indexed=IndexCoverage(progress.done, progress.total),
            corrected=question.corrected,
            note="; ".join([*notes, *([] if seen else await self._canvas_notes(question, scope.filters))]) or None,
        )
        taken = sum(costs[seq] for seq in shown)
        if explain:
            answer = await self._explained(answer, shown, question, ranking, scope, taken=taken)
        return self._with_hits(
            answer,
            [(ranking.rows[seq], sections[seq], scores[ranking.rows[seq].doc]) for seq in shown],
            question,
            taken=taken,
            least=SHORTEST_SNIPPET if sure or explain else TELLING_SNIPPET,
        )

    async def sections_like(self, text: str, path: str) -> list[tuple[str, tuple[str, ...]]]:
        """Return the indexed sections under `path` whose passages answer `text` best, best first, as page and heading path.

        Raises:
            InvalidPath, NoSuchPath: `path` does not exist in this knowledge base.
        """
        await self._wait_for_first_pages()
        ranking = await self._ranking(text[:LONGEST_COMPARED], Filters(path=path), room=MOST_SECTIONS)
        rows = [ranking.rows[seq] for seq in ranking.ranked]
        pages = set([*dict.fromkeys(row.path for row in rows)][:MOST_PAGES])
        return list(dict.fromkeys((row.path, row.section) for row in rows if row.path in pages))

    async def ranked_pages(
        self,
        query: str,
        *,
        path: str = "",
        filters: Filters | None = None,
        most: int,
        weights: RankingWeights | None = None,
    ) -> list[str]:
        """Return the pages of the best chunks, best first, each once, without the layout of an answer and its limits.

        `weights` are tried instead of those that apply now.

        Raises:
            InvalidPath, NoSuchPath: `path` does not exist in this knowledge base.
        """
        chosen = replace(filters or Filters(), path=path)
        ranking = await self._ranking(query, chosen, room=DEPTH, weights=weights)
        return list(dict.fromkeys(ranking.rows[seq].path for seq in ranking.ranked))[:most]

    async def _ranking(
        self, query: str, filters: Filters, *, room: int, weights: RankingWeights | None = None
    ) -> Ranking:
        query = query.encode(errors="replace").decode()
        scope = await self._selected(replace(filters, path=await self._place(filters.path)))
        question = await self._questions.ask(query)
        names, mentioned = await self._said(question, query, scope)
        return await self._ranker.rank(question, names, scope, room=room, weights=weights, mentioned=mentioned)

    async def _aliases_of_first(self, ranking: Ranking) -> Sequence[str]:
        """Return the aliases of the first page if the search in names found it."""
        first = ranking.rows[ranking.ranked[0]].doc if ranking.ranked else None
        if first is None or ranking.signals is None or first not in ranking.signals.names:
            return ()
        return next((record.aliases for record in (await self._index.records([first])).values()), ())

    async def _with_meant_first(
        self, question: SearchQuestion, ranking: Ranking, scope: SearchScope, places: NamedPlaces, *, named: bool
    ) -> Ranking:
        """Return `ranking` with the page first that the question is about: one that it names, or the newest or first of several.

        `named` if a page or section has the question as its name.
        """
        if places.target is not None:
            is_page = places.target.kind == "document"
            return await self._put_first(places.target.path, ranking, scope, named=True) if is_page else ranking
        found = None if named else await find_of_series(self._index, question, ranking, place=scope.filters.path)
        return await self._put_first(found.path, ranking, scope, which=found.which) if found else ranking

    async def _put_first(
        self, path: str, ranking: Ranking, scope: SearchScope, *, named: bool = False, which: str = ""
    ) -> Ranking:
        """Return `ranking` with the page at `path` put first unless `scope` excludes it.

        `named` if the question names it; `which` if it asks for that one of a series.
        """
        seq = next((seq for seq in ranking.ranked if ranking.rows[seq].path == path), None)
        rows = ranking.rows
        if seq is None:
            for doc in await self._index.select(replace(scope.filters, path=path)) or ():
                seq = await self._index.first_chunk(doc, None)
            found = await self._index.chunks([seq]) if seq is not None else {}
            if seq is None or seq not in found:
                return ranking
            rows = {**rows, **found}
        return replace(
            ranking,
            ranked=(seq, *(other for other in ranking.ranked if other != seq)),
            rows=rows,
            scores={**ranking.scores, seq: 1.0},
            exact=ranking.exact | {seq} if named else ranking.exact,
            of_series=None if named else seq,
            which=which,
        )

    async def _ranked(
        self,
        question: SearchQuestion,
        names: Sequence[NameMatch],
        scope: SearchScope,
        *,
        room: int,
        mentioned: Mentioned,
    ) -> Ranking:
        """Return the best chunks, the first of them in the order of the reranker if there is one."""
        room = max(room, self._reranking.depth) if self._reranking else room
        ranking = await self._ranker.rank(question, names, scope, room=room, mentioned=mentioned)
        return await self._reranking.of(ranking, question) if self._reranking else ranking

    async def _route(self, query: str, mode: SearchMode, names: Sequence[NameMatch], ranking: Ranking) -> QuestionRoute:
        if ranking.embedded is None:
            return await self._router.route(query, mode, named=names, vector=None)
        await self._router.prepare(ranking.embedded.embedder)
        return await self._router.route(query, mode, named=names, vector=ranking.embedded.vector)

    async def _for_place(
        self, scent: Scent, places: NamedPlaces, tagged: TaggedPages, signs: ScentSigns, *, pages_known: bool
    ) -> Scent:
        """Return the scent of the answer to a question for a directory, a page or the pages with a tag; of any other `scent`.

        If no page is known, it says so unless there are pages that wait to be indexed.
        """
        if not pages_known and self._has_pages is not None and not await self._has_pages():
            return Scent("lost", "this knowledge base has no pages", "kb_map('')")
        at = places.target
        if at is not None and (at.kind == "directory" or signs.exact or await self._is_empty(at.path)):
            return at_place(scent, at, named=signs.exact, namesakes=places.namesakes)
        if tagged.tag:
            return at_tag(scent, tagged.tag, tagged.pages)
        if at is None and scent.level == "lost" and places.lines and places.lines[0].kind == "directory":
            return at_folder(places.lines[0])
        return scent

    async def _is_empty(self, page: str) -> bool:
        record = await self._index.document(page)
        return record is not None and not record.tokens

    def _laid_out(
        self,
        entries: Sequence[MapEntry],
        wanted: Sequence[int],
        ranking: Ranking,
        records: Mapping[int, DocumentRecord],
        *,
        costs: Mapping[int, int],
        sure: int,
        spare: int,
        is_asked_for: bool,
    ) -> tuple[Sequence[PageLine], Sequence[int]]:
        """Return map lines (of `entries`, or of the hits' pages), and as many of `wanted` as fit with `spare` characters left.

        `is_asked_for` says whether the question is for the entries or one of them.
        """
        places = [page_line(entry) for entry in entries]
        docs = [ranking.rows[seq].doc for seq in wanted]
        lines = _lines(docs, records)
        if places:
            best = lines.get(docs[0]) if docs else None
            # Places that only have words of the question don't hide the page of the first hit.
            if best and not is_asked_for and best.path not in {place.path for place in places}:
                places.insert(0, best)
            lines = {}
        # The cost of a page's line counts with its first hit.
        first = {doc: place for place, doc in reversed(list(enumerate(docs)))}
        of_lines = [line_cost(lines[doc]) if first[doc] == at and doc in lines else 0 for at, doc in enumerate(docs)]
        room = self._room - ANSWER_CHARACTERS - REST_CHARACTERS - spare - sum(map(line_cost, places))
        count = most_that_fit([costs[seq] for seq in wanted], of_lines, room, sure=sure)
        return places or [lines[doc] for doc in dict.fromkeys(docs[:count]) if doc in lines], wanted[:count]

    def _with_hits(
        self,
        answer: SearchAnswer,
        chunks: Sequence[tuple[ChunkRow, str, float]],
        question: SearchQuestion,
        *,
        taken: int,
        least: int,
    ) -> SearchAnswer:
        """Return `answer` with `chunks` as hits, each with its section, score and a snippet in the room left, the first the longest.

        `taken` are the characters of the hits without snippets.
        """
        room = self._left(answer, taken)
        hits = []
        for place, (row, section, score) in enumerate(chunks):
            # The heading is in `section` already, unless it is all there is.
            first, _, rest = row.text.partition("\n")
            body = rest.lstrip("\n") if first.lstrip().startswith("#") and rest.strip() else row.text
            shown = snippet(body, question.content, limit_chars=share(place, len(chunks), room, least=least))
            room -= json_length(shown)
            hits.append(_hit(row, section, score, shown))
        return replace(answer, hits=hits)

    async def _explained(
        self,
        answer: SearchAnswer,
        shown: Sequence[int],
        question: SearchQuestion,
        ranking: Ranking,
        scope: SearchScope,
        *,
        taken: int,
    ) -> SearchAnswer:
        """Return `answer` with an explanation, cut so that each hit still has room for the shortest snippet."""
        explainer = Explainer(self._index, await self._engines(), question, ranking, scope)
        room = self._left(answer, taken) - SHORTEST_SNIPPET * len(shown)
        return replace(
            answer,
            explanation=fitted(explainer.read_as(), await explainer.hits(shown[: self._explained_hits]), room=room),
        )

    def _left(self, answer: SearchAnswer, taken: int) -> int:
        """Return the characters that are left for snippets and an explanation; hits without snippets take `taken`."""
        optional = (answer.next_cursor or "", answer.corrected or "", answer.note or "")
        prose = (answer.route.reason, answer.scent.reason, answer.scent.next, *optional)
        room = self._room - ANSWER_CHARACTERS - NUDGE_CHARACTERS - sum(map(len, prose))
        if answer.explanation is not None:
            room -= characters(answer.explanation)
        return room - sum(map(line_cost, answer.pages)) - taken

    async def _wait_for_first_pages(self) -> None:
        """Wait a moment for the very first index, once: an empty first answer would look like a failure."""
        patience, self._patience_s = self._patience_s, 0.0
        if not patience or (await self._index.progress()).done:
            return
        self._on_wait()
        with anyio.move_on_after(patience):
            while True:
                # Without a page, no engine is loaded.
                if (await self._index.progress()).done:
                    found = await self._searchable()
                    if found.done >= found.total:
                        return
                await anyio.sleep(LOOK_S)

    async def _searchable(self) -> Progress:
        """Return how many pages can be found; the last one counts when the keyword index has caught up."""
        progress = await self._index.progress()
        engines = await self._engines()
        # The keyword index follows the database a moment later. Until then the answer says that a page is missing.
        if progress.done < progress.total or await engines.keyword.position() == await self._index.position():
            return progress
        return Progress(max(progress.done - 1, 0), progress.total)

    async def _place(self, path: str) -> str:
        """Return the path of the directory or document to search in, after checking that it exists."""
        asked = clean_path(path)
        if not asked or await self._index.directory(asked) or await self._index.document(asked):
            return asked
        if await self._index.document(f"{asked}.md"):
            return f"{asked}.md"
        progress = await self._index.progress()
        if progress.done < progress.total or not progress.total:
            return asked  # it may exist and not be indexed yet; the answer tells how far indexing is
        if asked.startswith("#") and (await self._index.count_tagged([asked.lstrip("#").strip()])).documents:
            raise TagIsNoPath(asked, asked.lstrip("#").strip())
        if len(same := await folders_in_other_case(self._index, asked)) == 1:
            return same[0]
        name = asked.rpartition("/")[2]
        folders = await self._index.directories_ending([name], limit=MOST_NEAREST)
        pages = await self._index.paths(contains=name, limit=MOST_NEAREST)
        raise NoSuchPath(asked, [*folders, *pages][:MOST_NEAREST])

    async def _selected(self, chosen: Filters) -> SearchScope:
        """Return what the filters select; instead of tags that no page has, those that differ from them in case only."""
        scope = SearchScope(await self._index.select(chosen), chosen)
        if not scope.is_empty or not chosen.tags:
            return scope
        chosen = replace(chosen, tags=await known_tags(self._index, chosen.tags))
        return SearchScope(await self._index.select(chosen), chosen)

    async def _said(
        self, question: SearchQuestion, query: str, scope: SearchScope
    ) -> tuple[Sequence[NameMatch], Mentioned]:
        """Return what has the question as its name; if nothing has, the documents that it names among other words."""
        docs = scope.docs
        names = await self._named(query, docs) or await self._named(question.corrected or "", docs)
        return names, NOTHING_MENTIONED if names else await find_mentions(self._index, question, query, docs)

    async def _named(self, query: str, docs: frozenset[int] | None) -> Sequence[NameMatch]:
        """Return the documents and sections whose name is `query`, or else that in another spelling."""
        name = query.strip().strip("\"'`").removeprefix("[[").removesuffix("]]")
        if not name or len(name) > LONGEST_NAME:
            return ()
        named = await self._index.named(name, limit=MOST_SHARING, spellings=other_spellings(name))
        found = [match for match in named if docs is None or match.doc in docs]
        if found and all(match.by == "heading" for match in found) and await self._is_of_stop_words(name):
            return ()  # `How` is a heading of many pages, and nobody asks for it
        files = {match.doc for match in found if match.by == "path"}
        records = await self._index.records(files) if files else {}
        titled = {
            doc
            for doc, record in records.items()
            if name_key(name) in (name_key(record.title), name_key(without_attributes(record.title)))
        }
        # Titles are what people read, and many files have the same name (`index.md`, `faq.md`). A path that was given in full
        # stays first.
        return sorted(found, key=lambda m: m.by != "title" and m.doc not in titled and m.path != name)

    async def _notes_on_names_outside(self, query: str, place: str) -> Sequence[str]:
        """Say which page outside `place` is called as the question, if only `place` was searched."""
        named = await self._named(query, None) if place else ()
        # A page inside may be left out by a filter.
        outside = [match.path for match in named if match.by != "heading" and not within(match.path, place)]
        return [f"outside {place!r}, {outside[0]!r} has this name"] if outside else []

    async def _is_of_stop_words(self, name: str) -> bool:
        languages = await self._questions.languages()
        return all(is_stop_word(word, languages) for word in words(name))


def _times_read(question: SearchQuestion, ranking: Ranking, shown: Sequence[int]) -> Sequence[str]:
    """Say how a time was read that depends on the day of the question, if its pages are shown because of it."""
    meant = {ranking.rows[seq].doc for seq in shown if seq in ranking.mentioned}
    return [
        f'"{written}" was read as {days}'
        for written, days in question.read_by_today.items()
        if not meant.isdisjoint(question.times[written])
    ]


def _gap(question: SearchQuestion, ranking: Ranking, shown: Sequence[int]) -> LanguageGap | None:
    """Return the gap between the question's language and the pages'; None if one of the few pages in its language comes first."""
    is_in_it = question.gap and shown and ranking.rows[shown[0]].language == question.gap.asked
    return None if is_in_it else question.gap


def _lines(docs: Iterable[int], records: Mapping[int, DocumentRecord]) -> dict[int, PageLine]:
    """Return the map line of each page; short lines if there are many pages."""
    known = [doc for doc in dict.fromkeys(docs) if doc in records]
    longest = LONGEST_LINE if len(known) <= MANY_LINES else SHORT_LINE
    return {doc: page_line(document_entry(records[doc]), records[doc].tokens, longest=longest) for doc in known}


def _section(row: ChunkRow, records: Mapping[int, DocumentRecord]) -> str:
    return section_name(row.section, records[row.doc].sections if row.doc in records else ())


def _cost(row: ChunkRow, section: str) -> int:
    """Return the characters of a chunk's hit without its snippet."""
    return hit_cost(row.path, section, row.title, row.source)


def _shown_chunk(row: ChunkRow, section: str, records: Mapping[int, DocumentRecord]) -> ShownChunk:
    is_short = row.doc in records and records[row.doc].tokens <= WHOLE_TOKENS
    return ShownChunk(row.path, section, short=is_short, title=row.title)


def _hit(row: ChunkRow, section: str, score: float, shown: str) -> Hit:
    """Return the hit of a chunk."""
    return Hit(
        path=row.path,
        section=section,
        title=row.title,
        snippet=shown,
        score=score,
        line_start=row.line_start,
        line_end=row.line_end,
        revision=row.revision,
        modified=when(row.modified_ns),
        source=row.source,
        authority=authority_of(row.source),
        tainted=is_tainted(row.source, untrusted=row.untrusted),
    )
