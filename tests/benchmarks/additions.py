"""The cost of router, reading ledger, scent and typo expansion in one search, measured inside the server's process."""

from __future__ import annotations

import inspect
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from knowledge.search import finder as search
from knowledge.search.query import question
from knowledge.search.scent.ranking_signs import RankingSigns
from mcp_server.app.composition import App, open_app
from mcp_server.app.settings.loader import load
from mcp_server.gate.caller import Call
from mcp_server.gate.host_registration import Principal
from mcp_server.toolsets.knowledge.handlers import search as search_tool
from mcp_server.toolsets.knowledge.schemas import SearchPagesArguments
from tests.benchmarks.corpus import Query
from tests.benchmarks.measures import Base

ROUNDS = 2
SEAMS = (
    (search, "signs_of", "scent"),
    (RankingSigns, "showing", "scent"),
    (search, "page_scores", "scent"),
    (search, "judge", "scent"),
    (question, "find_corrections", "typos"),
)
"""The parts that are timed, by the names by which a search finds them; a measurement must not add others."""


@dataclass(frozen=True, slots=True)
class Additions:
    """Medians over the questions, in milliseconds; `together_p50_ms` is the median of their sums."""

    together_p50_ms: float
    router_p50_ms: float
    ledger_p50_ms: float
    scent_p50_ms: float
    typos_p50_ms: float


class _Watch:
    """Adds up the time spent in each part during one search."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}

    def put_around(self, owner: object, name: str, part: str) -> Callable[[], None]:
        """Time the function `name` of `owner`, and return a function that stops this."""
        original = getattr(owner, name)

        async def awaited(*args: Any, **other: Any) -> Any:
            with self._running(part):
                return await original(*args, **other)

        def called(*args: Any, **other: Any) -> Any:
            with self._running(part):
                return original(*args, **other)

        setattr(owner, name, awaited if inspect.iscoroutinefunction(original) else called)
        return partial(setattr, owner, name, original)

    @contextmanager
    def _running(self, part: str) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self.spent[part] = self.spent.get(part, 0.0) + time.perf_counter() - began


async def additions(base: Base) -> Additions:
    """Ask the labelled questions of an indexed knowledge base and return the parts' times."""
    async with open_app(load({"kb": str(base.kb), "state_dir": str(base.state_dir)}), indexing=False) as app:
        watch = _Watch()
        seams = (
            *SEAMS,
            (app.services.finder, "_route", "router"),
            (app.services.ledger, "searched", "ledger"),
        )
        undo = [watch.put_around(*seam) for seam in seams]
        try:
            return _summed(await _asked(app, base.corpus.queries, watch))
        finally:
            for take_off in undo:
                take_off()


async def _asked(app: App, queries: Sequence[Query], watch: _Watch) -> list[dict[str, float]]:
    call = Call(Principal("benchmark", "benchmark"))
    taken: list[dict[str, float]] = []
    for _ in range(ROUNDS):
        taken = []  # modules that are loaded at first use belong to the first search, which has its own bound
        for query in queries:
            watch.spent = {}
            await search_tool(app.services, call, SearchPagesArguments(query=query.text))
            taken.append(watch.spent)
    return taken


def _summed(taken: Sequence[dict[str, float]]) -> Additions:
    def median(part: str) -> float:
        return statistics.median(spent.get(part, 0.0) for spent in taken) * 1000

    together = statistics.median(sum(spent.values()) for spent in taken) * 1000
    return Additions(together, median("router"), median("ledger"), median("scent"), median("typos"))
