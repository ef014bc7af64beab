"""Runs a query set against a knowledge base as a model would use it, and measures the answers."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

from knowledge.errors import KnowledgeError, NoSuchPath, NoSuchSection
from knowledge.evaluate.judge import holds_answer, judged_as, plain, quality
from knowledge.evaluate.metrics import Interval, bootstrap, mean, percentile
from knowledge.evaluate.queries import LabelledQuery
from knowledge.search.answers import Hit, PageReading, SearchAnswer
from knowledge.tokens import count_tokens

DEPTH = 50
"""Hits used to measure the ranking: enough for recall@20 of places that may have several chunks each."""
MOST_CALLS = 50
SHOWN_PLACES = 10
LEVELS = ("sufficient", "partial", "lost")


def as_json(result: SearchAnswer | PageReading) -> str:
    """Return a result as compact JSON, which is what tools send."""
    return json.dumps(asdict(result), ensure_ascii=False, separators=(",", ":"), default=str)


@dataclass(frozen=True, slots=True)
class SearchUnderTest:
    """The knowledge base under test: search by query, limit and cursor; read by page, section and offset; text of a page.

    `clock` is a monotonic clock in seconds; `sent` returns a result as the text that a model receives.
    """

    search: Callable[[LabelledQuery, int, str | None], Awaitable[SearchAnswer]]
    read: Callable[[str, str | None, int], Awaitable[PageReading]]
    whole: Callable[[str], Awaitable[str]]
    clock: Callable[[], float]
    sent: Callable[[SearchAnswer | PageReading], str] = as_json


@dataclass(frozen=True, slots=True)
class Measured:
    """The measures of one query.

    If nothing in the knowledge base answers it, the qualities are 0 and do not count, and `reached` is False.

    `in_hits`: a shown chunk contains the answer; `in_snippets`: its snippet does. `tokens` were spent until the
    answer was seen, or, if `reached` is False, until all hits were read.
    """

    id: str
    query: str
    answerable: bool
    ndcg: float
    recall: float
    reciprocal_rank: float
    in_hits: bool
    in_snippets: bool
    reached: bool
    tokens: int
    calls: int
    latency_ms: float
    scent: str
    route: str
    top: tuple[str, ...]
    """The first places found, best first; `*` marks those judged relevant."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The averages of a run.

    The qualities and hit rates are averages over the queries that have an answer; the tokens, over those whose answer
    was reached.

    `scents` has three numbers of queries for each level of scent: with the answer in a shown chunk, with the answer
    elsewhere, and without an answer.
    """

    queries: int
    answerable: int
    ndcg: Interval
    recall: Interval
    reciprocal_rank: Interval
    in_hits: Interval
    in_snippets: Interval
    reached: Interval
    tokens_mean: float
    tokens_p50: float
    tokens_p95: float
    latency_p50_ms: float
    latency_p95_ms: float
    scents: Mapping[str, tuple[int, int, int]]
    sufficient_right: float | None
    """Of the queries whose scent was sufficient, the share with the answer in a shown chunk; None if there were none."""
    none_doubted: float | None
    """Of the queries without an answer, the share whose scent was partial or lost; None if there are none."""
    routes: Mapping[str, int]


async def run(
    queries: Sequence[LabelledQuery],
    subject: SearchUnderTest,
    *,
    limit: int,
    on_progress: Callable[[int], None] = lambda _: None,
) -> list[Measured]:
    """Return the measures of each query in the order of the set, with `limit` hits shown to the reader."""
    runner = _Runner(subject, limit)
    # The first query of a process loads the engines, which is not part of its latency.
    await subject.search(queries[0], limit, None)
    found = []
    for done, query in enumerate(queries, 1):
        found.append(await runner.measure(query))
        on_progress(done)
    return found


async def unresolved(queries: Sequence[LabelledQuery], subject: SearchUnderTest) -> list[str]:
    """Return a sentence for each judged place that does not exist, or does not contain its quote."""
    found = []
    for query in queries:
        for place in query.relevant:
            try:
                text = (await subject.read(place.path, place.section, 0)).text if place.section else ""
                text = text or await subject.whole(place.path)
            except (NoSuchPath, NoSuchSection) as error:
                found.append(f"line {query.line}, query {query.id}: {error}")
                continue
            except KnowledgeError as error:
                found.append(f"line {query.line}, query {query.id}: {place.path}: {error}")
                continue
            if place.quote and plain(place.quote) not in plain(text):
                where = f"{place.path} > {place.section}" if place.section else place.path
                found.append(f"line {query.line}, query {query.id}: {where} does not say {place.quote!r}")
    return found


def summarise(measured: Sequence[Measured]) -> Summary:
    """Return the averages of a run."""
    some = [one for one in measured if one.answerable]
    none = [one for one in measured if not one.answerable]
    tokens = [float(one.tokens) for one in some if one.reached]
    times = [one.latency_ms for one in measured]
    sufficient = [one for one in measured if one.scent == "sufficient"]
    return Summary(
        queries=len(measured),
        answerable=len(some),
        ndcg=bootstrap([one.ndcg for one in some]),
        recall=bootstrap([one.recall for one in some]),
        reciprocal_rank=bootstrap([one.reciprocal_rank for one in some]),
        in_hits=bootstrap([float(one.in_hits) for one in some]),
        in_snippets=bootstrap([float(one.in_snippets) for one in some]),
        reached=bootstrap([float(one.reached) for one in some]),
        tokens_mean=mean(tokens),
        tokens_p50=percentile(tokens, 0.5),
        tokens_p95=percentile(tokens, 0.95),
        latency_p50_ms=percentile(times, 0.5),
        latency_p95_ms=percentile(times, 0.95),
        scents={level: _answers_of([one for one in measured if one.scent == level]) for level in LEVELS},
        sufficient_right=mean([float(one.in_hits) for one in sufficient]) if sufficient else None,
        none_doubted=mean([float(one.scent != "sufficient") for one in none]) if none else None,
        routes={mode: sum(one.route == mode for one in measured) for mode in ("navigation", "discovery")},
    )


def _answers_of(measured: Sequence[Measured]) -> tuple[int, int, int]:
    shown = sum(one.in_hits for one in measured)
    none = sum(not one.answerable for one in measured)
    return shown, len(measured) - shown - none, none


class _Runner:
    """Runs one query after the other against `subject`, and keeps the pages that it had to read."""

    def __init__(self, subject: SearchUnderTest, limit: int) -> None:
        self._subject, self._limit = subject, limit
        self._pages: dict[str, list[str]] = {}

    async def measure(self, query: LabelledQuery) -> Measured:
        began = self._subject.clock()
        answer = await self._subject.search(query, self._limit, None)
        latency_ms = (self._subject.clock() - began) * 1000
        found = await self._ranked(query, answer)
        good = quality(query, found)
        # Without a quote a snippet can't show the answer: a hit in the right place still has to be read.
        quoted = any(place.quote for place in query.relevant)
        in_snippets = quoted and any(holds_answer(query, hit, hit.snippet) for hit in answer.hits)
        tokens, calls, reached = await self._read_on(query, answer, seen=in_snippets)
        return Measured(
            id=query.id,
            query=query.query,
            answerable=bool(query.relevant),
            ndcg=good.ndcg,
            recall=good.recall,
            reciprocal_rank=good.reciprocal_rank,
            in_hits=any([holds_answer(query, hit, await self._chunk(hit)) for hit in answer.hits]),
            in_snippets=in_snippets,
            reached=reached,
            tokens=tokens,
            calls=calls,
            latency_ms=latency_ms,
            scent=answer.scent.level,
            route=answer.route.mode,
            top=tuple(_place(query, place) for place in found[:SHOWN_PLACES]),
        )

    async def _ranked(self, query: LabelledQuery, answer: SearchAnswer) -> list[_At]:
        """Return the pages that the answer names, then its hits, then the hits of further pages of results, best first.

        The named pages count only if whole pages are judged, because they have no section.
        """
        named = [] if any(place.section for place in query.relevant) else _documents(answer)
        found = [*named, *(_At(hit.path, hit.section) for hit in answer.hits)]
        calls = 1
        while answer.next_cursor and len(found) < DEPTH and calls < MOST_CALLS:
            answer = await self._subject.search(query, self._limit, answer.next_cursor)
            found += [_At(hit.path, hit.section) for hit in answer.hits]
            calls += 1
        return found

    async def _read_on(self, query: LabelledQuery, answer: SearchAnswer, *, seen: bool) -> tuple[int, int, bool]:
        """Return the tokens, the calls, and whether the answer was seen, for a reader who opens the hits one by one.

        The reader stops at the answer. `seen` says that the search result already shows it.
        """
        tokens, calls = count_tokens(self._subject.sent(answer)), 1
        if seen or not query.relevant:
            return tokens, calls, seen
        places = [*(_At(hit.path, hit.section) for hit in answer.hits), *_documents(answer)]
        for path, section in dict.fromkeys((place.path, place.section) for place in places):
            offset: int | None = 0
            # A long section comes in parts; a reader stops at the part with the answer, and pays for those before it.
            while offset is not None:
                try:
                    reading = await self._subject.read(path, section or None, offset)
                except KnowledgeError:
                    break  # two sections of one name, or the page is gone: a model turns to the next hit
                tokens, calls = tokens + count_tokens(self._subject.sent(reading)), calls + 1
                if holds_answer(query, _At(path, section), reading.text):
                    return tokens, calls, True
                offset = reading.next_offset
        return tokens, calls, False

    async def _chunk(self, hit: Hit) -> str:
        """Return the lines of the page that the hit refers to, of which the snippet shows only a part."""
        if hit.path not in self._pages:
            try:
                self._pages[hit.path] = (await self._subject.whole(hit.path)).split("\n")
            except KnowledgeError:
                return ""  # it was removed since it was indexed
        return "\n".join(self._pages[hit.path][hit.line_start - 1 : hit.line_end])


@dataclass(frozen=True, slots=True)
class _At:
    path: str
    section: str


def _documents(answer: SearchAnswer) -> list[_At]:
    """Return the pages that the answer to a navigation query names before its hits."""
    if answer.route.mode != "navigation":
        return []  # in discovery the lines only describe the pages of the hits
    return [_At(line.path, "") for line in answer.pages if line.kind == "document"]


def _place(query: LabelledQuery, hit: _At) -> str:
    mark = "* " if judged_as(query, hit) else ""
    return f"{mark}{hit.path} > {hit.section}" if hit.section else f"{mark}{hit.path}"
