"""However much was recorded, each built-in cognitive agent gets at most its input budget, with all its instructions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agents.engine.events import canonical
from agents.engine.state import JourneyState
from agents.library.cognitive.agent import alone, as_agent
from agents.library.cognitive.library import cognitive, names
from agents.library.cognitive.model import MOST_FOCUS, MOST_TERMS
from agents.library.cognitive.setting import PhaseSetting
from agents.library.skills.skill import MOST_TOLD
from agents.prompts.prompt import CUT, prompt
from knowledge.tokens import count_tokens
from tests.support.agents.agent_harness import leading
from tests.support.agents.cognitive.cast import Cast
from tests.support.agents.cognitive.steps import play

REQUIRED = (
    "Task Context",
    "Steps",
    "Role Extension",
    "Task Instructions",
    "Related Research Terms",
    "Output Requirements",
)
"""The parts of each prompt, by their document, however little room there is."""
FILLER = "of the keepers of the bees on the roof of the old brewery beyond the river, as it was told to us in March "


def swollen(value: Any, tokens: int) -> Any:
    """Return the value with its lists of objects and its texts grown to that many tokens."""
    grown, number = value, 0
    while count_tokens(canonical(grown)) < tokens and number < 40:
        number += 1
        grown = _grown(grown, number)
    return grown


def _grown(value: Any, number: int) -> Any:
    if isinstance(value, dict):
        return {name: _longer(name, inside, number) for name, inside in value.items()}
    return value


def _longer(name: str, value: Any, number: int) -> Any:
    if isinstance(value, str) and name != "id":
        return f"{value} {FILLER}"[:2_000]
    if isinstance(value, list) and value and isinstance(value[0], dict):
        items = [{part: _longer(part, inside, number) for part, inside in item.items()} for item in value]
        return [*items, {**items[0], "id": f"{items[0].get('id', 'x')}x{number}"}]
    return value


def full(state: JourneyState, tokens: int) -> JourneyState:
    """Return the state with every work of a host at its largest size."""
    works = {
        phase: work if work.automatic else replace(work, content=swollen(work.content, tokens))
        for phase, work in state.work.items()
    }
    return replace(state, work=works, brief=f"{state.brief} {FILLER * 150}")


@pytest.mark.parametrize("name", names())
async def test_its_input_stays_within_its_budget_however_much_was_recorded(name: str) -> None:
    """Context budgets are enforced, trimmed by priority, and the prompt says so."""
    agent, cast = alone(cognitive(name), cognitive("memory")), Cast.alone(name)
    inputs: dict[str, Any] = {
        "domain": "bees",
        "findings": "So it was found. " * 500,
        "constraints": ["Cheap", "Nobody is stung."],
    }
    trimmed = steps = 0
    async with leading(agent, **inputs) as led:
        while (state := await led.state()).status != "complete":
            steps += 1
            assert steps <= 30, await led.missing()
            budget, schema = agent.budgets[state.phase], canonical(dict(agent.forms[state.phase].schema))
            large = full(state, budget.tokens_out)
            again = replace(large, backward_trigger="found_out_later", backward_trigger_detail=FILLER * 20)
            prompts = [prompt(agent, there) for there in (state, large, again)]
            for told in prompts:
                assert count_tokens(told) + count_tokens(schema) <= budget.tokens_in, state.phase
                missing = [title for title in REQUIRED if f"\n## {title}\n" not in told]
                assert missing == [], (state.phase, told)
                trimmed += "Context budget of" in told or CUT in told
            last = agent.texts[agent.graph.phase(state.phase).prompt].rpartition("}}")[2].strip()
            assert state.visit > 1 or last[-60:] in prompts[1], "the whole task is repeated"
            await play(led, cast, **inputs)
    assert trimmed > 10, "there was more than fits, and it is said"


LARGEST = PhaseSetting(
    skill="s" * 40,
    title="A skill that says as much as a skill may say",
    phase="p" * 30,
    domain="d" * 60,
    focus=tuple(f"{number} {FILLER}"[:120] for number in range(MOST_FOCUS)),
    terms=tuple(f"{number} {FILLER}"[:60] for number in range(MOST_TERMS)),
    instructions=(FILLER * 9)[:MOST_TOLD],
    output=(FILLER * 9)[:MOST_TOLD],
    agent_mode=True,
)


@pytest.mark.parametrize("name", names())
async def test_a_skill_with_the_longest_text_leaves_every_agent_room(name: str) -> None:
    """Each step of an agent shows the team's text in its skill, however small its budget is."""
    agent, cast = as_agent(cognitive(name), LARGEST), Cast({"": name})
    steps = 0
    async with leading(agent, domain="bees") as led:
        while (state := await led.state()).status != "complete":
            steps += 1
            assert steps <= 30, await led.missing()
            budget, schema = agent.budgets[state.phase], canonical(dict(agent.forms[state.phase].schema))
            large = full(state, budget.tokens_out)
            for there in (state, large, replace(large, backward_trigger="found_out_later")):
                told = prompt(agent, there)
                assert count_tokens(told) + count_tokens(schema) <= budget.tokens_in, state.phase
                assert [title for title in REQUIRED if f"\n## {title}\n" not in told] == []
            await play(led, cast)
