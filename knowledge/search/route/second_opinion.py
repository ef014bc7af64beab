"""A second opinion on questions that the router is not sure of: what may be asked, and how little may depend on it."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import anyio

from knowledge.search.route.examples import Example, plain, shipped_examples
from knowledge.search.route.route_kind import QuestionRoute, Taken

log = logging.getLogger(__name__)

UNSURE: Final = 0.8
"""Below it a second opinion is heard: about every tenth question, of which the router takes seven in ten rightly by itself."""
LONGEST_S: Final = 2.0
"""So long a search waits for it at most."""
MOST_REMEMBERED: Final = 512
QUESTIONS_UNTIL_RETRY: Final = 16
"""So many questions are not asked after one that brought nothing."""
SHOTS_A_MODE: Final = 6
MOST_SURE: Final = 0.95


@dataclass(frozen=True, slots=True)
class RouteOpinion:
    """How somebody would take a question, and how surely, 0..1."""

    mode: Taken
    confidence: float


class RouteAdviser(Protocol):
    """Somebody who can be asked how a question is to be taken: a language model."""

    @property
    def name(self) -> str:
        """Return what a person calls it."""
        ...

    def ready(self) -> bool:
        """Return whether it can be asked at once. One that cannot gets ready aside, so that no search waits for that."""
        ...

    async def of(self, query: str, examples: Sequence[Example]) -> RouteOpinion | None:
        """Return how it would take `query`, shown how others are taken; None where it cannot tell now. It may take long."""
        ...


class SecondOpinion:
    """Asks in time, remembers what it heard, and leaves alone for a while who did not answer."""

    def __init__(self, opinion: RouteAdviser, *, longest_s: float = LONGEST_S) -> None:
        self._opinion, self._longest_s = opinion, longest_s
        self._heard: OrderedDict[str, RouteOpinion] = OrderedDict()
        self._until_retry = 0

    def forget(self) -> None:
        """Ask again what was asked before: the examples are others now."""
        self._heard.clear()

    async def on(self, query: str, own: QuestionRoute, examples: Sequence[Example]) -> QuestionRoute:
        """Return the surer of `own` and the second opinion; `own` where there is none in time. Raises nothing."""
        heard = self._heard.get(plain(query)) or await self._ask(query, examples)
        if heard is None or not own.confidence < heard.confidence <= 1:
            return own
        sure = round(min(heard.confidence, MOST_SURE), 2)
        return QuestionRoute(heard.mode, sure, f"the language model {self._opinion.name} takes it so")

    async def _ask(self, query: str, examples: Sequence[Example]) -> RouteOpinion | None:
        if self._until_retry:
            self._until_retry -= 1
            return None
        if not self._opinion.ready():
            return None
        heard = None
        with anyio.move_on_after(self._longest_s):
            try:
                heard = await self._opinion.of(query, examples)
            except Exception as error:  # noqa: BLE001 - a search never fails for an opinion, whatever is wrong with it
                log.info("%s gives no opinion on a route: %s", self._opinion.name, type(error).__name__)
        if heard is None:
            self._until_retry = QUESTIONS_UNTIL_RETRY
            return None
        self._heard[plain(query)] = heard
        if len(self._heard) > MOST_REMEMBERED:
            self._heard.popitem(last=False)
        return heard


def shots(team: Sequence[Example], nearest: Sequence[Example]) -> list[Example]:
    """Return examples to show, as many of one mode as of the other: the nearest first, then the team's, then those that ship."""
    found: list[Example] = []
    for mode in ("navigation", "discovery"):
        of_mode = [example for example in (*nearest, *team, *shipped_examples()) if example.mode == mode]
        found += list(dict.fromkeys(of_mode))[:SHOTS_A_MODE]
    return found
