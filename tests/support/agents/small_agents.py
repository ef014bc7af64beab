"""Agents small enough to understand at a glance, for tests of the code around them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from agents.catalogue import no_such_agent
from agents.engine.agent import MET, Agent, ConditionFinding, Look, SubmitFacts
from agents.engine.events import Json
from agents.engine.graph import CheckpointKind, Phase, PhaseGraph, Transition
from agents.engine.work.form import items_in
from agents.engine.work.gaps import citations_in
from tests.support.agents.model_form import ModelForm, Part, PhaseWork, Quoted


class Line(Part):
    """A note."""

    id: str
    text: Annotated[str, Field(min_length=1)]


class Notes(PhaseWork):
    """The collected notes."""

    notes: list[Line] = Field(default_factory=list)
    quotes: list[Quoted] = Field(default_factory=list)


class Report(PhaseWork):
    """The report made from the notes."""

    ASKS = frozenset({"lacks"})

    text: str
    lacks: str = ""


async def two_notes(facts: SubmitFacts, look: Look) -> ConditionFinding:
    wrong = [why for _, quote in citations_in(facts.work) if (why := await look.cited(quote))]
    if len(items_in(facts.work, "notes")) >= 2 and not wrong:
        return MET
    return ConditionFinding(met=False, missing=(*wrong, "two notes are needed"))


async def report_written(facts: SubmitFacts, _look: Look) -> ConditionFinding:
    return ConditionFinding(bool(facts.work.get("text")), ("the text is empty",))


async def note_lacking(facts: SubmitFacts, _look: Look) -> ConditionFinding:
    return ConditionFinding(
        bool(facts.given.get("lacks")), ("say in `lacks` which note",), str(facts.given.get("lacks"))
    )


def done(state: Json) -> Sequence[str]:
    return (
        [f"note {line['id']}: {line['text']}" for line in state.work["COLLECT"].content["notes"]] if state.work else []
    )


def noting(checkpoint: CheckpointKind = "blocking", *, own_hand: bool = False) -> Agent:
    """Return an agent of two phases: collect notes, which a person reviews, then write a report, with a way back."""
    tools = ("kb_map", "kb_read", "kb_merge")
    collect = Phase(
        "COLLECT",
        purpose="collect notes",
        checkpoint=checkpoint,
        own_hand=own_hand,
        tools=tools,
        prompt="collect",
        prompt_again="collect_again",
    )
    write = Phase("WRITE", purpose="write", tools=("kb_search",), prompt="write", prompt_again="write")
    graph = PhaseGraph(
        "noting",
        (collect, write, Phase("DONE", prompt="done")),
        (
            Transition("COLLECT", "WRITE", "two_notes"),
            Transition("WRITE", "COLLECT", "note_lacking", is_backward=True),
            Transition("WRITE", "DONE", "report_written"),
        ),
        "COLLECT",
        ("DONE",),
    )
    return Agent(
        name="noting",
        title="Noting",
        summary="Two notes, then a report.",
        graph=graph,
        forms={"COLLECT": ModelForm(Notes), "WRITE": ModelForm(Report)},
        conditions={"two_notes": two_notes, "report_written": report_written, "note_lacking": note_lacking},
        texts={
            "collect": "Collect two notes about: {{ brief }}",
            "collect_again": "Add the note that was lacking.",
            "write": "Write it.",
            "done": "Give it to the person.",
        },
        questions={"COLLECT": "Are these the notes that matter?"},
        done=done,
    )


class Only:
    """A catalogue of only these agents."""

    def __init__(self, *agents: Agent) -> None:
        self._agents = {agent.name: agent for agent in agents}

    async def agents(self) -> Sequence[Agent]:
        return list(self._agents.values())

    async def agent(self, name: str) -> Agent:
        if name not in self._agents:
            raise no_such_agent(name, list(self._agents))
        return self._agents[name]
