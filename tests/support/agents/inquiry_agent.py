"""A small agent with every feature of the engine.

Automatic work, questions, conversations, typed feedback, documents.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from agents.engine.agent import Agent, ConditionFinding, Look, ModelAdvice, SubmitFacts
from agents.engine.events import Json
from agents.engine.graph import Phase, PhaseGraph, Transition
from agents.engine.progress.composition import AgentPart, composed
from agents.engine.state import JourneyState
from agents.engine.work.answers import unanswered
from agents.engine.work.form import items_in
from agents.prompts.context import Budget
from agents.spec.result import DeclaredResult
from agents.spec.yaml.field_path import FieldPath
from tests.support.agents.model_form import ModelForm, Part, PhaseWork

ASK: dict[str, Any] = {
    "ask": [
        {"id": "q1", "question": "How many hives are there?", "why": "the plan is made per hive"},
        {"id": "note", "question": "Who may enter the roof?", "why": "somebody has to do it"},
    ]
}
DOCUMENT = "# Inquiry Agent Output: bees\n\n## Section 1: Step Overview\n\nTwo hives, *Ada* enters.\n"


class Wanted(Part):
    """A question to the person."""

    id: str
    question: Annotated[str, Field(min_length=1)]
    why: str = ""


class Asking(PhaseWork):
    """The questions, and the known facts."""

    ask: list[Wanted] = Field(default_factory=list)
    known: list[str] = Field(default_factory=list)


class Written(PhaseWork):
    """The text."""

    document: str


class Judged(PhaseWork):
    """A verdict."""

    score: Annotated[int, Field(ge=0, le=100)]
    issues: list[str] = Field(default_factory=list)


async def pages(facts: SubmitFacts, look: Look) -> Mapping[str, Json]:
    """Return which of the pages named in the inputs exist."""
    named = [str(path) for path in facts.inputs.get("pages", [])]
    return {"pages": [path for path in named if await look.place(path) == "page"], "looked": len(named)}


def _open(facts: SubmitFacts) -> bool:
    return bool(unanswered(items_in(facts.work, "ask"), facts.answers.get("ASK", {})))


async def open_questions(facts: SubmitFacts, _look: Look) -> ConditionFinding:
    return ConditionFinding(_open(facts))


async def all_known(facts: SubmitFacts, _look: Look) -> ConditionFinding:
    said = bool(facts.work.get("ask") or facts.work.get("known"))
    return ConditionFinding(said and not _open(facts), ("say in `known` what is known, or ask in `ask`",))


async def written(facts: SubmitFacts, _look: Look) -> ConditionFinding:
    return ConditionFinding(len(str(facts.work.get("document", ""))) > 10, ("the document says too little",))


def _score(facts: SubmitFacts) -> int:
    return int(facts.work.get("score", 0))


async def passed(facts: SubmitFacts, _look: Look) -> ConditionFinding:
    return ConditionFinding(_score(facts) >= 80, ("a score of 80 passes",))


async def soft(facts: SubmitFacts, _look: Look) -> ConditionFinding:
    return ConditionFinding(60 <= _score(facts) < 80, feedback=tuple(facts.work.get("issues", ())), kind="soft_failure")


async def hard(facts: SubmitFacts, _look: Look) -> ConditionFinding:
    return ConditionFinding(_score(facts) < 60, feedback=tuple(facts.work.get("issues", ())), kind="hard_failure")


def documents(state: JourneyState) -> Mapping[str, str]:
    return {"inquiry": state.work["WRITE"].content["document"]} if "WRITE" in state.work else {}


def inquiry() -> Agent:
    """Return the agent: it looks by itself, asks a person, writes, and is judged, with soft or hard failures."""
    phases = (
        Phase("LOOK", purpose="what is there", automatic=True),
        Phase("ASK", purpose="ask what only a person knows", speaker="planner", prompt="ask", prompt_again="ask"),
        Phase("WRITE", purpose="write it", speaker="writer", prompt="write", prompt_again="write", tools=("kb_read",)),
        Phase("JUDGE", purpose="judge it", speaker="judge", fresh=True, prompt="judge", prompt_again="judge"),
        Phase("DONE", prompt="done"),
    )
    ways = (
        Transition("LOOK", "ASK"),
        Transition("ASK", "WRITE", "open_questions", priority=1, asks="ask"),
        Transition("ASK", "WRITE", "all_known"),
        Transition("WRITE", "JUDGE", "written"),
        Transition("JUDGE", "WRITE", "soft", is_backward=True),
        Transition("JUDGE", "ASK", "hard", is_backward=True, anew=True),
        Transition("JUDGE", "DONE", "passed"),
    )
    return Agent(
        name="inquiry",
        title="Inquiry",
        summary="Asks, writes, is judged.",
        graph=PhaseGraph("inquiry", phases, ways, "LOOK", ("DONE",)),
        forms={"ASK": ModelForm(Asking), "WRITE": ModelForm(Written), "JUDGE": ModelForm(Judged)},
        conditions={
            "open_questions": open_questions,
            "all_known": all_known,
            "written": written,
            "passed": passed,
            "soft": soft,
            "hard": hard,
        },
        texts={
            "ask": "Ask about: {{ brief }}",
            "write": "Write it.",
            "judge": "Judge it.",
            "done": "Give it to the person.",
        },
        inputs={
            "type": "object",
            "properties": {"pages": {"type": "array", "items": {"type": "string"}}, "domain": {"type": "string"}},
        },
        provides={"LOOK": pages},
        budgets={"WRITE": Budget(2_000, 500)},
        documents=documents,
        result=DeclaredResult("artefact", (FieldPath("WRITE", ("document",)),)),
        models={
            "": ModelAdvice("balanced", "most of it is asking", "sonnet"),
            "judge": ModelAdvice("largest", "a verdict decides", "opus"),
        },
        profile={
            "function": "INQUIRY",
            "steps": ["LOOK", "ASK", "WRITE", "JUDGE"],
            "budget": {"input": 2_000, "output": 500},
            "priority": ["question", "constraints"],
        },
    )


def chained(*names: str) -> Agent:
    """Return the agent several times over, end to end, as skills are."""
    parts = [AgentPart(f"{name}.", inquiry()) for name in names]
    end = Phase("COMPLETE", prompt="complete")
    return composed("chain", "Chain", "Several inquiries.", parts, end, texts={"complete": "All is done."})
