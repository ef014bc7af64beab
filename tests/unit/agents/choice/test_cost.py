"""The cost of an agent: medians of completed journeys, or the least that its definition allows."""

from __future__ import annotations

import pytest

from agents.catalogue import built_in, entries
from agents.choice.cost import AgentCost, defined, measured
from agents.engine.events import StepUsage
from agents.engine.runner import Submission
from agents.library.folder import agent
from tests.support.agents.agent_harness import Led, leading
from tests.support.journeys.graphs import ADA
from tests.unit.agents.library.test_research_agent import ANSWERS, INSIGHTS, NEXT, TREE


async def researched(led: Led, *, tokens: int = 0) -> None:
    """Lead research to its end: the tree, all answers, then two phases at once."""
    await led.submit(**TREE)
    await led.decide("approve")
    await led.submit(**ANSWERS)
    at = (await led.state()).version
    both = {"RISE_ABOVE": INSIGHTS, "EXPAND": NEXT}
    usage = StepUsage(tokens, tokens)
    await led.runner.submit(led.journey, at, Submission(both, usage=usage), by=ADA)
    assert (await led.state()).status == "complete"


@pytest.mark.parametrize("tokens", [0, 400])
async def test_calls_of_a_journey_are_counted_as_the_host_made_them(tokens: int) -> None:
    """Two phases in one submission are one call, whether the host reports its tokens or not."""
    async with leading(agent("research")) as led:
        await researched(led, tokens=tokens)
        state = await led.state()
        cost = measured([await led.runner.store.events(led.journey)])
    assert cost is not None
    assert (cost.calls, cost.journeys) == (5, 1)
    assert cost.tokens == sum(took.tokens_in + took.tokens_out for took in state.metrics.values())


def test_nothing_is_measured_without_journeys() -> None:
    assert measured([]) is None


@pytest.mark.parametrize("name", [entry.name for entry in entries()])
def test_each_agent_says_the_least_that_it_costs(name: str) -> None:
    cost = defined(built_in(name))
    assert cost.journeys == 0
    assert cost.calls >= 2
    assert cost.tokens > 500


def test_the_least_is_that_of_the_shortest_honest_way() -> None:
    """Start, the tree, a person's approval, all answers, insights and frontier together."""
    assert defined(agent("research")).calls == 5
    assert defined(agent("curate")).calls == 2
    assert (
        defined(built_in("assess")).calls < defined(built_in("decide-well")).calls < defined(built_in("deliver")).calls
    )


def test_a_cost_says_on_what_it_rests() -> None:
    assert str(AgentCost(5, 9_300, 3)) == "usually 5 calls and 9,300 tokens (median of 3 completed journeys)"
    assert str(AgentCost(2, 846)) == "at least 2 calls and 846 tokens of instructions (not measured here yet)"
