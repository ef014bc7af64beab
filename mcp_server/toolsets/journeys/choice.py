"""The choice of an agent: the list of agents with their costs, the cost at the start of a journey, and the proposal for a brief."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import anyio

from agents.catalogue import built_in, entries
from agents.choice.cost import AgentCost, defined, measured
from agents.choice.proposal import LOOK_UP, MAP, NearBrief, Suggestion, proposed
from agents.engine.agent import Agent
from agents.engine.events import canonical
from agents.errors import NoSuchAgent
from agents.prompts.context import Budget
from agents.prompts.prompt import MOST_TOKENS
from agents.store.ports import JourneyLine
from knowledge.tokens import count_tokens
from mcp_server.ports import JourneyServices
from mcp_server.toolsets.journeys.offers.agent_list import agent_lines
from mcp_server.toolsets.journeys.schemas import Journey

PROPOSAL = "proposal"
"""The state of an answer that only proposes."""
MOST_MEASURED = 5
"""The most journeys by which an agent's cost is measured: its newest completed ones."""
MOST_LISTED = 30
"""The most journeys, the newest completed ones of all agents, by which the costs in a list of agents are measured."""
MOST_SEARCHED = 2_000
"""The search for a brief gets at most this many of its first characters."""
COST = "This agent costs {}, counted over the journey tools. A lighter one may do: journey_start without `agent` proposes one."
NOTHING_BEGAN = "Nothing was started, because no agent was named."
ENOUGH = {
    LOOK_UP: "No agent is needed: call kb_search with the question, read the section, and answer.",
    MAP: "No agent is needed: call kb_map with the path, and answer from what it lists.",
    "kb_merge": "No agent is needed: kb_read the page, then kb_merge with its revision. Start curate to have it checked in a journey.",
}
UNKNOWN = "No agent is proposed: {}. Choose one below, or say in the brief what is to be done."


async def agents_with_costs(services: JourneyServices) -> Sequence[Mapping[str, str]]:
    """Return name, summary and cost of every agent that can be started."""
    lines = await services.journeys.store.journeys(status="complete", limit=MOST_LISTED)
    found = []
    for name, summary in await agent_lines(services):
        cost = await _cost(services, name, [line for line in lines if line.agent == name])
        found.append({"agent": name, "summary": summary, **({"cost": str(cost)} if cost else {})})
    return found


async def with_cost(services: JourneyServices, agent: Agent, first: Journey) -> Journey:
    """Return the first answer of a journey (`first`), with the cost of a journey with this agent at the start of its prompt.

    If the longer prompt would exceed the budget of the phase, `first` is returned unchanged: the list of agents has the
    costs, too.
    """
    lines = await services.journeys.store.journeys(status="complete", agent=agent.name, limit=MOST_MEASURED)
    prompt = f"{COST.format(await _cost(services, agent.name, lines))}\n\n{first.prompt}"
    schema = canonical(dict(first.work_schema)) if first.work_schema else ""
    most = agent.budgets.get(first.phase, Budget()).tokens_in or MOST_TOKENS
    return replace(first, prompt=prompt) if count_tokens(prompt) + count_tokens(schema) <= most else first


async def _cost(services: JourneyServices, agent: str, lines: Sequence[JourneyLine]) -> AgentCost | None:
    """Return the cost measured by the journeys of `lines`, else the one that the agent's definition implies.

    None for an agent that cannot be used.
    """
    logs = [await services.journeys.store.events(line.id) for line in lines[:MOST_MEASURED]]
    if cost := measured(logs):
        return cost
    if any(entry.name == agent for entry in entries()):
        # Reading a definition takes a while the first time, and other calls must not wait for it.
        await anyio.to_thread.run_sync(partial(built_in, agent))
    try:
        return defined(await services.journeys.catalogue.agent(agent))
    except NoSuchAgent:
        return None


async def proposal(services: JourneyServices, brief: str) -> Journey:
    """Return the proposal for a brief as an answer that starts nothing."""
    answer = await services.finder.search(brief[:MOST_SEARCHED])
    best = answer.hits[0] if answer.hits else None
    # A heading of an untrusted page is not repeated here.
    section = best.section if best and not best.tainted else ""
    asked = next((one.path for one in answer.pages), "") if answer.route.mode == "navigation" else ""
    near = NearBrief(answer.scent.level, best.path if best else "", section, asked)
    agents = await agents_with_costs(services)
    costs = {one["agent"]: one.get("cost", "") for one in agents}
    found = proposed(brief, near, list(costs))
    first = found.first
    if first.agent:
        said = [
            f"Proposed: {_suggested(first, costs)}. Call journey_start with `agent` {first.agent!r} and this brief to begin."
        ]
    elif first.tool:
        said = [ENOUGH[first.tool], f"Reason: {first.why}."]
    else:
        said = [UNKNOWN.format(first.why)]
    others = found.others if first.agent or first.tool else [Suggestion(one["summary"], one["agent"]) for one in agents]
    listed = [f"- {_suggested(other, costs)}" for other in others]
    lists = ["\n".join(["Others:", *listed])] if listed else []
    return Journey(
        journey_id="",
        version=0,
        agent=first.agent,
        state=PROPOSAL,
        phase="",
        visit=0,
        prompt="\n\n".join([NOTHING_BEGAN, *said, *lists]),
        work_schema=None,
        allowed_tools=[],
        checkpoint=None,
        conversation="",
    )


def _suggested(one: Suggestion, costs: Mapping[str, str]) -> str:
    cost = costs.get(one.agent, "")
    return f"{one.agent or one.tool}, because {one.why}" + (f"; {cost}" if cost else "")
