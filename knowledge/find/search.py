"""Circle 3: from a question to ranked chunks. Puts words, both engines, fusion and scent together."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

import anyio

from knowledge.errors import BadCursor, NoSuchPath
from knowledge.find.answers import Hit, Indexed, SearchAnswer
from knowledge.find.circles import chunk_section, is_tainted
from knowledge.find.question import Correct, Question, Questions
from knowledge.find.ranking import Engines, Ranker, Within
from knowledge.find.route import Mode, route
from knowledge.find.scent import Place, judge
from knowledge.find.signs import signs_of
from knowledge.find.snippet import snippet
from knowledge.paths import clean_path
from knowledge.provenance import authority_of
from knowledge.storage.ports import ChunkRow, Filters, IndexStore, NameMatch, Progress

MOST_SNIPPET = 480
"""Characters of a snippet: enough for the sentence that answers and its neighbours."""
LOOK_S = 0.02


class Finder:
    """Answers questions from the index; what is not indexed yet is not found, and the answer says so."""

    def __init__(
        self,
        index: IndexStore,
        engines: Callable[[], Awaitable[Engines]],
        correct: Correct,
        *,
        answer_tokens: int,
        patience_s: float = 0.0,
    ) -> None:
        self._index, self._engines = index, engines
        self._questions, self._ranker = Questions(index, correct), Ranker(index, engines)
        self._answer_tokens, self._patience_s = answer_tokens, patience_s

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
        question = await self._questions.ask(query)
        names = await self._named(query, docs)
        ranking = await self._ranker.rank(question, names, Within(docs, chosen), room=len(seen) + limit)
        before = frozenset(seen)
        fresh = [seq for seq in ranking.ranked if seq not in before]
        shown = fresh[:limit]
        hits = [self._hit(ranking.rows[seq], ranking.scores[seq], question, limit) for seq in shown]
        progress = await self._searchable()
        return SearchAnswer(
            hits=hits,
            route=route(query, mode, named=bool(names)),
            scent=judge(
                await signs_of(self._index, question, ranking, shown),
                [Place(hit.path, hit.section) for hit in hits],
                indexed=progress.done >= progress.total > 0,
                directory=place,
            ),
            nudge=None,
            next_cursor=_sealed([*seen, *shown], key) if len(fresh) > limit else None,
            indexed=Indexed(progress.done, progress.total),
            corrected=question.corrected,
            note="; ".join(ranking.notes) or None,
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

    async def _named(self, query: str, docs: frozenset[int] | None) -> Sequence[NameMatch]:
        name = query.strip().strip("\"'`")
        if not name or len(name) > 200:
            return ()
        return [m for m in await self._index.named(name, limit=20) if docs is None or m.doc in docs]

    def _hit(self, row: ChunkRow, score: float, question: Question, limit: int) -> Hit:
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


def _below_heading(text: str) -> str:
    """Return `text` without the heading it begins with, which `section` says already; the heading if that is all."""
    first, _, rest = text.partition("\n")
    return rest.lstrip("\n") if first.lstrip().startswith("#") and rest.strip() else text


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
