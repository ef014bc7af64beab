"""The skill of the handbook and the one of its guide, led by the real runner in a real database."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from agents.catalogue import built_in
from agents.engine.agent import SubmitFacts
from agents.engine.state import JourneyState
from agents.library.cognitive.library import FOLLOWING, cognitive
from agents.library.cognitive.phases.last_phases import expected
from agents.library.skills.assembly import built
from agents.library.skills.definition import read_skill
from agents.library.skills.library import following, worker, workers
from knowledge.pages.vault import Vault
from mcp_server.app.factories.team_files import team_catalogue
from tests.support.agents.agent_harness import ANSWER_TOKENS, Led, Pages, cost, leading
from tests.support.agents.cognitive.documents import whole
from tests.support.agents.cognitive.scripts import (
    Act,
    Scene,
    Script,
    analysis,
    clarification,
    generation,
    memory,
    research_cognitive,
    shared,
    synthesis,
    validation,
)
from tests.support.agents.cognitive.steps import perform
from tests.support.agents.team_agents import HANDBOOK, OWN_TOOLS
from tests.unit.agents.spec.test_handbook_examples import AGREED, COLLECTED, EXPLAINED

Scripts = Mapping[str, tuple[str, Script]]
"""The agent of each phase of a skill, and the work there. The memory agent runs after each."""


def failing_once(phase: str, scene: Scene) -> list[Act]:
    """Return the work of a check that fails the first time."""
    return (validation.failing if scene.visit == 1 else validation.acts)(phase, scene)


FAILING: Scripts = {"write": ("generation", generation.acts), "check": ("validation", failing_once)}


async def played(led: Led, scripts: Scripts) -> JourneyState:
    """Do the script's work in the present phase."""
    state = await led.state()
    part, _, phase = state.phase.rpartition(".")
    agent, script = (FOLLOWING, memory.acts) if part.endswith(f".{FOLLOWING}") else scripts[part]
    clarified = agent != "clarification" and any(name == "clarification" for name, _ in scripts.values())
    recorded = [one["id"] for one in clarification.requirements({})] if clarified else []
    scene = Scene(led.journey, await led.told(), state.visit, requirements=recorded)
    acts = shared.acts(agent, phase, scene) if phase in shared.PHASES else script(phase, scene)
    led.look.called_before, led.look.called = [*led.look.called_before, *led.look.called], []
    after = await perform(led, acts)
    assert (after.phase, after.visit) != (state.phase, state.visit), await led.missing()
    return after


async def follow(led: Led, scripts: Scripts, until: str = "COMPLETE") -> JourneyState:
    """Play up to a phase."""
    for _ in range(80):
        if (state := await led.state()).phase == until:
            return state
        assert cost(await led.position()) <= ANSWER_TOKENS
        await played(led, scripts)
    raise AssertionError(f"{until} was never reached")


async def test_the_handbook_s_skill_sends_a_runbook_back_until_it_would_have_helped() -> None:
    """A team's agent, then two of ours.

    Each gets its predecessor's document, and the way back is shown to be needed.
    """
    skill = await team_catalogue(Vault.open(HANDBOOK)).agent("incident-to-runbook")
    async with leading(skill, brief="A swarm left the hive.", system="hive 2") as led:
        await led.submit(**COLLECTED)
        await led.submit(**EXPLAINED)
        await led.submit(**AGREED)
        state = await led.decide("approve")
        assert state.phase == "write.JOHARI_DISCOVERY"
        assert state.work["review.CLOSING"].automatic
        assert "review.memory.LEARNING_INJECTION" not in state.phase_visits, "the skill opted out"
        told = await led.told()
        assert "Write a runbook for hive 2" in told
        assert "what somebody sees first who is woken at night" in told
        assert "The swarm left" in told, "what the review found is at hand"

        state = await follow(led, FAILING, "check.memory.CLOSING")
        assert state.work["check.CONCLUDE"].content["verdict"] == "fail"
        state = await played(led, FAILING)
        assert state.phase == "write.PRODUCE"
        assert state.backward_trigger == "check.runbook_fails"
        assert state.backward_trigger_detail == "Name the mites."
        told = await led.told()
        assert "Detail: Name the mites." in told
        assert "PRODUCE" in told

        state = await follow(led, FAILING)
        assert state.status == "complete"
        assert state.phase_visits["check.CONCLUDE"] == 2
        assert state.phase_visits["write.memory.CLOSING"] == 2, "the memory agent runs after each completion"
        assert state.work["check.CONCLUDE"].content["verdict"] == "pass"
        told = await led.told()
        assert "Tell the person where the runbook is" in told
        documents = skill.documents(state)
        assert {"review", "write", "write.memory", "check", "check.memory"} <= set(documents)
        assert documents["memory"] == documents["check.memory"], "the newest of several"
        assert documents["incident-review"] == documents["review"]


@pytest.mark.parametrize(
    ("check", "parts"),
    [
        (validation.acts, ["clarify", "clarify.memory", "check", "check.memory"]),
        (validation.failing, ["clarify", "clarify.memory", "check", "check.memory", "explain", "explain.memory"]),
    ],
    ids=["pass", "fail"],
)
async def test_assess_looks_for_causes_only_where_something_is_not_met(check: Script, parts: list[str]) -> None:
    scripts: Scripts = {
        "clarify": ("clarification", clarification.acts),
        "check": ("validation", check),
        "explain": ("analysis", analysis.acts),
    }
    brief = "Is this enough to keep bees on the roof?"
    async with leading(built_in("assess"), brief=brief, artifact="A page about mites.") as led:
        state = await follow(led, scripts)
        assert state.status == "complete"
        assert {phase.rpartition(".")[0] for phase in state.phase_visits} == {*parts, ""}
        assert "Tell the person the verdict" in await led.told()


async def test_decide_well_goes_from_a_question_to_a_decision() -> None:
    scripts: Scripts = {
        "clarify": ("clarification", clarification.acts),
        "research": ("research-cognitive", research_cognitive.acts),
        "analyse": ("analysis", analysis.acts),
        "decide": ("synthesis", synthesis.acts),
    }
    async with leading(built_in("decide-well"), brief="Shall we keep bees on the roof?") as led:
        state = await follow(led, scripts)
        assert state.status == "complete"
        assert set(scripts) <= set((await led.position()).agent.documents(state))


@pytest.mark.parametrize(("options", "met"), [(2, True), (3, False)])
async def test_decide_well_goes_back_when_fewer_than_three_options_were_weighed(options: int, *, met: bool) -> None:
    skill = built_in("decide-well")
    (way,) = [t for t in skill.graph.transitions if t.source == "analyse.memory.CLOSING" and t.is_backward]
    assert way.target == "analyse.WEIGH"
    document = {"document": whole(expected(cognitive(FOLLOWING), ["j-1"]))}
    weighed = {"options": [{"id": f"o{number}", "text": f"Way {number}."} for number in range(options)]}
    works: dict[str, dict[str, Any]] = {"analyse.WEIGH": weighed, way.source: document}
    facts = SubmitFacts(way.source, 1, "", {}, document, document, works, journey="j-1")
    assert (await skill.conditions[way.condition](facts, Pages())).met is met


@pytest.mark.parametrize(
    ("verdict", "closed_with", "met"),
    [
        ("fail", "**MEMORY_COMPLETE**", True),
        ("pass", "**MEMORY_COMPLETE**", False),
        ("pass_with_conditions", "**MEMORY_COMPLETE**", False),
        ("fail", "", False),
    ],
)
async def test_deliver_goes_back_when_a_validation_failed_and_the_memory_agent_has_looked_at_it(
    verdict: str, closed_with: str, *, met: bool
) -> None:
    deliver = built_in("deliver")
    (way,) = [t for t in deliver.graph.transitions if t.source == "validate.memory.CLOSING" and t.is_backward]
    assert way.target == "generate.PRODUCE"
    made = whole(expected(cognitive(FOLLOWING), ["j-1"]))
    document = {"document": made.replace("**MEMORY_COMPLETE**", closed_with)}
    to_do = [{"id": "d1", "criterion": "k1", "what": "Name the mites."}]
    works: dict[str, dict[str, Any]] = {"validate.CONCLUDE": {"verdict": verdict, "to_do": to_do}, way.source: document}
    facts = SubmitFacts(way.source, 1, "", {}, document, document, works, journey="j-1")
    found = await deliver.conditions[way.condition](facts, Pages())
    assert found.met is met
    assert found.detail == ("Name the mites." if met else "")


def test_the_guides_first_skill_works_unchanged() -> None:
    page = (HANDBOOK / "guides" / "own-skills.md").read_text(encoding="utf-8")
    text = page.partition("```yaml\n")[2].partition("```")[0]
    found = read_skill("_skills/how-to.yaml", text.encode(), workers())
    assert found.problems == ()
    assert found.skill is not None
    made = built(found.skill, {name: worker(name) for name in found.skill.agents}, following(), OWN_TOOLS)
    assert made.problems == ()


def test_the_guide_explains_every_key_of_a_skill() -> None:
    page = (HANDBOOK / "guides" / "own-skills.md").read_text(encoding="utf-8")
    keys: tuple[str, ...] = ("title", "summary", "domain", "inputs", "phases", "ways", "without_memory", "closing")
    keys += ("id", "agent", "context", "focus", "terms", "instructions", "output", "next")
    keys += ("from", "to", "name", "when", "is_backward", "priority")
    cells = {line.partition("|")[2].partition("|")[0] for line in page.splitlines() if line.startswith("|")}
    told = {word.strip(" `") for cell in cells for word in cell.split(",")}
    assert set(keys) <= told
