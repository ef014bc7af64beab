"""An agent with every feature of the engine: automatic phases in a row, questions, conversations, feedback, budgets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated

from pydantic import Field

from agents.engine.agent import MET, Agent, ConditionFinding, Look, SubmitFacts
from agents.engine.events import Json
from agents.engine.graph import Phase, PhaseGraph, Transition
from agents.engine.progress.position import JourneyPosition
from agents.engine.runner import Runner, Submission
from agents.engine.work.answers import unanswered_in
from agents.prompts.context import Budget
from tests.support.agents.agent_harness import Led, Pages, Remembering, runner_of
from tests.support.agents.model_form import ModelForm, Part, PhaseWork
from tests.support.journeys.graphs import ADA


class Question(Part):
    """A question to a person."""

    id: Annotated[str, Field(min_length=1, max_length=60)]
    question: Annotated[str, Field(min_length=1)]


class Plan(PhaseWork):
    """The steps, and questions that only a person can answer."""

    steps: list[str] = Field(default_factory=list)
    ask: list[Question] = Field(default_factory=list)


class Made(PhaseWork):
    """The result."""

    text: str


class Verdict(PhaseWork):
    """The verdict on the result."""

    score: Annotated[int, Field(ge=0, le=100)]
    why: str = ""


async def route(facts: SubmitFacts, look: Look) -> Mapping[str, Json]:
    """Return how the brief is routed."""
    return {"mode": await look.route(facts.brief)}


async def check(facts: SubmitFacts, _look: Look) -> Mapping[str, Json]:
    """Return which steps of the plan are empty."""
    steps = facts.works["PLAN"]["steps"]
    return {"wrong": [f"step {number} is empty" for number, step in enumerate(steps, 1) if not step.strip()]}


async def tally(facts: SubmitFacts, _look: Look) -> Mapping[str, Json]:
    """Return how often the plan was counted, and its steps."""
    return {"times": int(facts.work.get("times", 0)) + 1, "steps": len(facts.works["PLAN"]["steps"])}


async def planned(facts: SubmitFacts, _look: Look) -> ConditionFinding:
    return ConditionFinding(bool(facts.work.get("steps")), ("the plan has no steps",))


async def asking(facts: SubmitFacts, _look: Look) -> ConditionFinding:
    return ConditionFinding(bool(unanswered_in(facts.work, "ask", facts.answers.get("PLAN", {}))))


async def wrong(facts: SubmitFacts, _look: Look) -> ConditionFinding:
    found = tuple(facts.work["wrong"])
    return ConditionFinding(bool(found), detail="; ".join(found), feedback=found, kind="validation")


async def made(facts: SubmitFacts, _look: Look) -> ConditionFinding:
    return ConditionFinding(len(str(facts.work.get("text", ""))) > 3, ("the text says too little",))


def _score(facts: SubmitFacts) -> int:
    return int(facts.given.get("score", 0))


async def good(facts: SubmitFacts, _look: Look) -> ConditionFinding:
    return MET if _score(facts) >= 80 else ConditionFinding(met=False, missing=("80 passes",))


async def soft(facts: SubmitFacts, _look: Look) -> ConditionFinding:
    why = str(facts.given.get("why", ""))
    return ConditionFinding(60 <= _score(facts) < 80, detail=why, feedback=(why,), kind="soft_failure")


async def hard(facts: SubmitFacts, _look: Look) -> ConditionFinding:
    why = str(facts.given.get("why", ""))
    return ConditionFinding(_score(facts) < 60, detail=why, feedback=(why,), kind="hard_failure")


PHASES = (
    Phase("ROUTE", automatic=True),
    Phase("PLAN", speaker="planner", prompt="plan", prompt_again="plan", feedback=("validation", "hard_failure")),
    Phase("CHECK", automatic=True),
    Phase("TALLY", automatic=True),
    Phase("MAKE", speaker="maker", prompt="make", prompt_again="make", feedback=("soft_failure",)),
    Phase("JUDGE", speaker="judge", fresh=True, prompt="judge", prompt_again="judge"),
    Phase("DONE", prompt="done"),
)
WAYS = (
    Transition("ROUTE", "PLAN"),
    Transition("PLAN", "CHECK", "asking", priority=1, asks="ask"),
    Transition("PLAN", "CHECK", "planned"),
    Transition("CHECK", "PLAN", "wrong", is_backward=True),
    Transition("CHECK", "TALLY"),
    Transition("TALLY", "MAKE"),
    Transition("MAKE", "JUDGE", "made"),
    Transition("JUDGE", "MAKE", "soft", is_backward=True, priority=1),
    Transition("JUDGE", "PLAN", "hard", is_backward=True, anew=True),
    Transition("JUDGE", "DONE", "good"),
)


def making() -> Agent:
    """Return the agent: it routes by itself, plans, checks and counts the plan by itself, carries it out and is judged."""
    return Agent(
        name="making",
        title="Making",
        summary="Plans, makes, is judged.",
        graph=PhaseGraph("making", PHASES, WAYS, "ROUTE", ("DONE",)),
        forms={"PLAN": ModelForm(Plan), "MAKE": ModelForm(Made), "JUDGE": ModelForm(Verdict)},
        conditions={
            "planned": planned,
            "asking": asking,
            "wrong": wrong,
            "made": made,
            "good": good,
            "soft": soft,
            "hard": hard,
        },
        texts={"plan": "Plan: {{ brief }}", "make": "Make it.", "judge": "Judge it.", "done": "Done."},
        provides={"ROUTE": route, "CHECK": check, "TALLY": tally},
        budgets={"MAKE": Budget(1_200, 300)},
    )


def with_phase(agent: Agent, name: str, **changes: Json) -> Agent:
    """Return the agent with a phase changed."""
    phases = tuple(replace(one, **changes) if one.name == name else one for one in agent.graph.phases)
    return replace(agent, graph=replace(agent.graph, phases=phases))


def with_ways(agent: Agent, *ways: Transition) -> Agent:
    """Return the agent with these transitions in place of those between the same phases, on the same condition."""
    new = {(way.source, way.target, way.condition): way for way in ways}
    kept = [new.pop((way.source, way.target, way.condition), way) for way in agent.graph.transitions]
    return replace(agent, graph=replace(agent.graph, transitions=(*kept, *new.values())))


async def begun(agent: Agent | None = None, look: Pages | None = None, brief: str = "bees") -> Led:
    """Return a journey of the agent, in memory."""
    runner = runner_of(agent or making(), Remembering(_nobody), seen := look or Pages())
    return Led(runner, (await runner.start((agent or making()).name, brief, {}, by=ADA)).journey, seen)


async def _nobody(_topic: str, _keys: Sequence[str]) -> None:
    """Notify nobody of changes."""


async def sent(runner: Runner, journey: str, version: int, **work: Json) -> JourneyPosition:
    """Submit at that version."""
    return await runner.submit(journey, version, Submission(work), by=ADA)


PLAN: Mapping[str, Json] = {"steps": ["lay the roof", "buy bees"]}
ASK: Mapping[str, Json] = {
    **PLAN,
    "ask": [{"id": "q1", "question": "How many hives?"}, {"id": "q2", "question": "Who enters?"}],
}
