"""What router, reading ledger, scent and typo expansion add to one search, measured inside the server's process."""

from __future__ import annotations

import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from knowledge.find import search
from mcp_server.app import App, open_app
from mcp_server.gate.enrolment import Principal
from mcp_server.services import Call
from mcp_server.settings import load
from mcp_server.tools.knowledge import SearchArguments
from mcp_server.tools.knowledge import search as search_tool
from tests.benchmarks.corpus import Query
from tests.benchmarks.measures import Base

ROUNDS = 2


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

    def around(self, part: str, work: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def timed(*args: Any, **other: Any) -> Any:
            began = time.perf_counter()
            try:
                return await work(*args, **other)
            finally:
                self.spent[part] = self.spent.get(part, 0.0) + time.perf_counter() - began

        return timed

    def around_plain(self, part: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **other: Any) -> Any:
            began = time.perf_counter()
            try:
                return work(*args, **other)
            finally:
                self.spent[part] = self.spent.get(part, 0.0) + time.perf_counter() - began

        return timed


async def additions(base: Base) -> Additions:
    """Ask the labelled questions of an indexed knowledge base and return what the parts took."""
    async with open_app(load({"kb": str(base.kb), "state_dir": str(base.state_dir)}), indexing=False) as app:
        watch = _Watch()
        originals = (search.signs_of, search.judge)
        search.signs_of = watch.around("scent", search.signs_of)
        search.judge = watch.around_plain("scent", search.judge)
        try:
            return _summed(await _asked(app, base.corpus.queries, watch))
        finally:
            search.signs_of, search.judge = originals


async def _asked(app: App, queries: Sequence[Query], watch: _Watch) -> list[dict[str, float]]:
    finder, ledger = app.services.finder, app.services.ledger
    # The parts have no other seams, and a measurement must not make them.
    finder._routed = watch.around("router", finder._routed)  # type: ignore[method-assign]
    asking = finder._questions
    asking._corrections = watch.around("typos", asking._corrections)  # type: ignore[method-assign]
    ledger.searched = watch.around("ledger", ledger.searched)  # type: ignore[method-assign, assignment]
    call = Call(Principal("benchmark", "benchmark"))
    taken: list[dict[str, float]] = []
    for _ in range(ROUNDS):
        taken = []  # what is loaded at first use is the first search's, which has a bound of its own
        for query in queries:
            watch.spent = {}
            await search_tool(app.services, call, SearchArguments(query=query.text))
            taken.append(watch.spent)
    return taken


def _summed(taken: Sequence[dict[str, float]]) -> Additions:
    def median(part: str) -> float:
        return statistics.median(spent.get(part, 0.0) for spent in taken) * 1000

    together = statistics.median(sum(spent.values()) for spent in taken) * 1000
    return Additions(together, median("router"), median("ledger"), median("scent"), median("typos"))
