"""Unclear questions get a second opinion: in time, seldom, and only within its bounds."""

from __future__ import annotations

from collections.abc import Sequence

import anyio
import pytest

from knowledge.search.answers import QuestionRoute
from knowledge.search.route.examples import Example, shipped_examples
from knowledge.search.route.router import Router
from knowledge.search.route.second_opinion import (
    MOST_REMEMBERED,
    QUESTIONS_UNTIL_RETRY,
    SHOTS_A_MODE,
    UNSURE,
    RouteOpinion,
    SecondOpinion,
    shots,
)
from knowledge.state.ports import Replace
from tests.unit.search.route.test_router import FrontMatter, index_of, record

UNCLEAR = "anything under legal?"
CLEAR = ("where is the map", "ops/rate-limits.md", "how do we rotate secrets", "it fails with a timeout error")
OWN = QuestionRoute("navigation", 0.55, "its own")


class Somebody:
    """Gives a test's answers, and remembers its questions."""

    name = "somebody"

    def __init__(self, *answers: RouteOpinion | Exception | None) -> None:
        self.answers, self.asked = list(answers), list[tuple[str, Sequence[Example]]]()
        self.ever, self.there = False, True

    def ready(self) -> bool:
        return self.there

    async def of(self, query: str, examples: Sequence[Example]) -> RouteOpinion | None:
        self.asked.append((query, examples))
        if self.ever:
            await anyio.sleep_forever()
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


async def test_only_what_the_router_is_not_sure_of_is_asked_and_once() -> None:
    model = Somebody(RouteOpinion("discovery", 0.9))
    router = Router(await index_of(), None, model)
    for clear in CLEAR:
        assert (await router.route(clear, "auto", named=(), vector=None)).confidence >= UNSURE
    assert (await router.route(UNCLEAR, "discovery", named=(), vector=None)).reason == "`mode` was set"
    assert not model.asked
    taken = [await router.route(query, "auto", named=(), vector=None) for query in (UNCLEAR, "Anything  under legal")]
    assert set(taken) == {QuestionRoute("discovery", 0.9, "the language model somebody decided")}
    assert [query for query, _ in model.asked] == [UNCLEAR]


@pytest.mark.parametrize(
    "heard",
    [
        RouteOpinion("discovery", 0.55),
        RouteOpinion("discovery", 0.2),
        RouteOpinion("discovery", 7.0),
        RouteOpinion("discovery", float("nan")),
        None,
        ValueError("nonsense"),
    ],
)
async def test_who_is_less_sure_than_the_router_or_talks_nonsense_changes_nothing(
    heard: RouteOpinion | Exception | None,
) -> None:
    router = Router(await index_of())
    plain = await router.route(UNCLEAR, "auto", named=(), vector=None)
    asked = await Router(await index_of(), None, Somebody(heard)).route(UNCLEAR, "auto", named=(), vector=None)
    assert asked == plain


async def test_who_is_slow_is_not_waited_for_and_then_left_alone_for_a_while() -> None:
    model = Somebody(RouteOpinion("discovery", 0.9))
    model.ever = True
    second = SecondOpinion(model, longest_s=0.01)
    assert await second.on(UNCLEAR, OWN, ()) == OWN
    model.ever = False
    for number in range(QUESTIONS_UNTIL_RETRY):
        assert await second.on(f"question {number}", OWN, ()) == OWN
    assert len(model.asked) == 1
    assert (await second.on(UNCLEAR, OWN, ())).mode == "discovery"


async def test_who_is_not_ready_yet_is_not_waited_for_and_asked_as_soon_as_he_is() -> None:
    model = Somebody(RouteOpinion("discovery", 0.9))
    model.there = False
    second = SecondOpinion(model)
    assert await second.on(UNCLEAR, OWN, ()) == OWN
    assert not model.asked
    model.there = True
    assert (await second.on(UNCLEAR, OWN, ())).mode == "discovery"


async def test_a_search_that_is_cancelled_is_cancelled() -> None:
    """Waiting for an opinion must not swallow that: the host cancelled the call."""
    model = Somebody()
    model.ever = True
    second = SecondOpinion(model)
    with anyio.move_on_after(0.01) as scope:
        await second.on(UNCLEAR, OWN, ())
    assert scope.cancelled_caught


async def test_what_is_remembered_is_bounded_and_forgotten_with_the_examples() -> None:
    model = Somebody(*[RouteOpinion("discovery", 0.9)] * (MOST_REMEMBERED + 3))
    second = SecondOpinion(model)
    for number in range(MOST_REMEMBERED + 1):
        await second.on(f"question {number}", OWN, ())
    await second.on("question 1", OWN, ())
    assert len(model.asked) == MOST_REMEMBERED + 1
    await second.on("question 0", OWN, ())
    assert len(model.asked) == MOST_REMEMBERED + 2
    second.forget()
    await second.on("question 1", OWN, ())
    assert len(model.asked) == MOST_REMEMBERED + 3


async def test_a_teams_examples_are_shown_first_and_new_ones_let_it_be_asked_again() -> None:
    says = FrontMatter({"router": {"navigation": ["weekly numbers"]}})
    index = await index_of(record("_index.md", "Home"))
    model = Somebody(RouteOpinion("discovery", 0.9), RouteOpinion("discovery", 0.9))
    router = Router(index, says, model)
    await router.route(UNCLEAR, "auto", named=(), vector=None)
    says.metadata = {"router": {"discovery": ["the catch"]}}
    await index.apply([Replace(record("_index.md", "Home", revision="r2"), ())], fence=1)
    await router.route(UNCLEAR, "auto", named=(), vector=None)
    first, second = (examples for _, examples in model.asked)
    assert first[0] == Example("weekly numbers", "navigation")
    assert second[SHOTS_A_MODE] == Example("the catch", "discovery")


def test_as_many_examples_of_one_kind_are_shown_as_of_the_other() -> None:
    near = [example for example in shipped_examples() if example.mode == "discovery"][5:15]
    shown = shots((), near)
    assert [example.mode for example in shown] == ["navigation"] * SHOTS_A_MODE + ["discovery"] * SHOTS_A_MODE
    assert shown[SHOTS_A_MODE:] == near[:SHOTS_A_MODE]
    assert len(set(shown)) == len(shown)
