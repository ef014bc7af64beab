"""The own steps of a cognitive agent, led and judged without the shared ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agents.engine.agent import Agent, Called, ConditionFinding, SubmitFacts
from agents.engine.state import JourneyState
from agents.engine.work.form import joined
from agents.library.cognitive.agent import as_agent
from agents.library.cognitive.library import cognitive
from tests.support.agents.agent_harness import AROUND_TOKENS, Led, Pages, cost, leading
from tests.support.agents.cognitive.cast import Cast, script_of
from tests.support.agents.cognitive.scripts import Act, Scene, Script, shared

Work = Mapping[str, Any]


def own(name: str) -> Agent:
    """Return the agent's own steps, as an agent that is complete after them."""
    return cognitive(name).own


async def judge(
    agent: Agent,
    condition: str,
    phase: str,
    given: Work,
    *,
    works: Mapping[str, Work],
    look: Pages | None = None,
    brief: str = "Keep bees on the roof.",
    inputs: Work | None = None,
    **more: Any,
) -> ConditionFinding:
    """Return a condition's finding when `given` is submitted in `phase`, with `works` on record.

    `more` are other facts.
    """
    form = agent.forms[phase]
    work = joined(works.get(phase), given, form.asks)
    assert form.problems(work) == (), "a near miss has the right form: it is for the condition to refuse"
    facts = SubmitFacts(phase, 1, brief, inputs or {}, given, work, {**works, phase: work}, **more)
    return await agent.conditions[condition](facts, look or Pages())


async def perform(led: Led, acts: Sequence[Act]) -> JourneyState:
    """Do the script's acts in the present phase, and return the next one."""
    for act in acts:
        phase = (await led.state()).phase
        if act.kind == "call":
            led.look.called.append(Called(act.content["tool"], phase, {"status": "done", **act.content}))
        elif act.kind == "answer":
            await led.decide("answer", channel="relayed", changes=act.content)
        else:
            await led.submit(**act.content)
    return await led.state()


async def dearest(name: str, script: Script, **inputs: Any) -> int:
    """Lead the whole agent through its own steps and return the largest input of a step in tokens.

    Prompt and schema.
    """
    agent, most = as_agent(cognitive(name)), 0
    async with leading(agent, brief="Why do the bees on the roof die? " * 600, **inputs) as led:
        await led.submit(acknowledge=["Bees die in winter. " * 18])
        for phase in cognitive(name).own_steps:
            state = await led.state()
            tries = 0
            while state.phase == phase:
                assert (tries := tries + 1) < 9, await led.missing()
                most = max(most, cost(await led.position()) - AROUND_TOKENS)
                state = await perform(led, script(phase, Scene(led.journey, "", 2, inputs=inputs)))
    return most


async def follow(led: Led, script: Script, **inputs: Any) -> list[str]:
    """Lead the journey by the script to its end, and return the phases it went through."""
    went = []
    while (state := await led.state()).status != "complete":
        went.append(state.phase)
        assert len(went) < 30, went
        scene = Scene(led.journey, await led.told(), state.visit, inputs=inputs)
        before, led.look.called = led.look.called, []
        led.look.called_before.extend(before)
        after = await perform(led, script(state.phase, scene))
        assert (after.phase, after.visit) != (state.phase, state.visit), await led.missing()
    return went


async def play(led: Led, cast: Cast, **inputs: Any) -> JourneyState:
    """Do the acts of the phase's agent, shared or its own, and return the new state."""
    state = await led.state()
    agent, phase = cast.of(state.phase)
    scene = Scene(led.journey, await led.told(), state.visit, inputs=inputs)
    shares = phase in shared.PHASES
    return await perform(led, shared.acts(agent, phase, scene) if shares else script_of(agent)(phase, scene))


def before(works: Mapping[str, Work], phase: str, **other: Work) -> dict[str, Work]:
    """Return the record at the beginning of a phase, with works in order; `other` works replace the usual ones."""
    names = list(works)
    return {name: other.get(name, works[name]) for name in names[: names.index(phase)]}


async def settle(led: Led, works: Mapping[str, Work], upto: str, **other: Work) -> None:
    """Submit good work up to that phase."""
    for work in before(works, upto, **other).values():
        await led.submit(**work)
    assert (await led.state()).phase == upto


Back = tuple[str, Work, str, str, str]
"""A way back: the phase it leaves, the work that leads there, its target, its condition, and the detail in the message."""


async def go_back(led: Led, back: Back, works: Mapping[str, Work]) -> None:
    """Check a way back: it leads to its target, says why, and from there good work leads to the end."""
    _, work, target, why, detail = back
    state = await led.submit(**work)
    assert (state.phase, state.backward_trigger, state.backward_trigger_detail) == (target, why, detail)
    assert f"You come back to {target}, visit 2.\nWhy: {why}" in await led.told()
    for phase in list(works)[list(works).index(target) :]:
        assert (await led.state()).phase == phase
        await led.submit(**works[phase])
    assert (await led.state()).status == "complete"
