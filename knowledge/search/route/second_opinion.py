"""A second opinion on questions that the router is unsure of: when a language model is asked, and how much its answer counts."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import anyio

from knowledge.search.answers import ROUTE_MODES, QuestionRoute, RouteMode
from knowledge.search.route.examples import Example, plain, shipped_examples

log = logging.getLogger(__name__)

UNSURE: Final = 0.8
"""Confidence below which the model is asked: about every tenth question, of which the router alone gets seven in ten right."""
LONGEST_S: Final = 2.0
"""How long a search waits for the model."""
MOST_REMEMBERED: Final = 512
QUESTIONS_UNTIL_RETRY: Final = 16
"""Number of unsure questions to decide without the model after one that it did not answer."""
SHOTS_A_MODE: Final = 6
MOST_SURE: Final = 0.95


@dataclass(frozen=True, slots=True)
class RouteOpinion:
    """A route and its confidence, 0..1."""

    mode: RouteMode
    confidence: float


class RouteAdviser(Protocol):
    """A language model that can be asked for the route of a question."""

    @property
    def name(self) -> str:
        """The name for display."""
        ...

    def ready(self) -> bool:
        """Return whether it can be asked now. If not, it starts loading in the background, so that no search waits."""
        ...

    async def of(self, query: str, examples: Sequence[Example]) -> RouteOpinion | None:
        """Return the route of `query`, given labelled examples; None if it can't tell now. May take long."""
        ...


class SecondOpinion:
    """Asks with a time limit, remembers answers, and pauses after a question without an answer."""

    def __init__(self, opinion: RouteAdviser, *, longest_s: float = LONGEST_S) -> None:
        self._opinion, self._longest_s = opinion, longest_s
        self._answers: OrderedDict[str, RouteOpinion] = OrderedDict()
        self._until_retry = 0

    def forget(self) -> None:
        """Forget all answers, because the examples have changed."""
        self._answers.clear()

    async def on(self, query: str, own: QuestionRoute, examples: Sequence[Example]) -> QuestionRoute:
        """Return the more confident of `own` and the model's route; `own` without an answer in time. Never raises."""
        answer = self._answers.get(plain(query)) or await self._ask(query, examples)
        # A model that claims more than certainty has not understood the question.
        if answer is None or not own.confidence < answer.confidence <= 1:
            return own
        confidence = round(min(answer.confidence, MOST_SURE), 2)
        return QuestionRoute(answer.mode, confidence, f"the language model {self._opinion.name} decided")

    async def _ask(self, query: str, examples: Sequence[Example]) -> RouteOpinion | None:
        if self._until_retry:
            self._until_retry -= 1
            return None
        if not self._opinion.ready():
            return None
        answer = None
        with anyio.move_on_after(self._longest_s):
            try:
                answer = await self._opinion.of(query, examples)
            except Exception as error:  # noqa: BLE001 - a search never fails because of an opinion
                log.info("%s gives no opinion on a route: %s", self._opinion.name, type(error).__name__)
        if answer is None:
            self._until_retry = QUESTIONS_UNTIL_RETRY
            return None
        self._answers[plain(query)] = answer
        if len(self._answers) > MOST_REMEMBERED:
            self._answers.popitem(last=False)
        return answer


def shots(team: Sequence[Example], nearest: Sequence[Example]) -> list[Example]:
    """Return examples for a prompt, equally many of each mode: the nearest first, then the team's, then shipped ones."""
    found: list[Example] = []
    for mode in ROUTE_MODES:
        of_mode = [example for example in (*nearest, *team, *shipped_examples()) if example.mode == mode]
        found += list(dict.fromkeys(of_mode))[:SHOTS_A_MODE]
    return found
