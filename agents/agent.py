"""An agent: a phase graph, and for each phase what is asked for in words and as data, and what its conditions look at."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from agents.events import Json, Note
from agents.graph import PhaseGraph
from agents.journey import REJECTED
from agents.state import JourneyState

Place = Literal["page", "directory", ""]
"""What lies at a path of the knowledge base; "" for nothing."""
ScentLevel = Literal["sufficient", "partial", "lost"]
ProposalState = Literal["pending", "done", "rejected", "ended"]
"""Waiting for a person; carried out; rejected; or over without an effect (withdrawn, expired, failed, superseded)."""


@dataclass(frozen=True, slots=True)
class Citation:
    """What a work rests on: words that stand in a section of a page. `section` is "" for what stands before the first heading."""

    path: str
    section: str
    quote: str


@dataclass(frozen=True, slots=True)
class Called:
    """A tool that answered a call of this journey, and the few facts of its answer that conditions look at.

    `facts` has, where the answer has them: `path`, `revision`, `status` (done, partial, unchanged, conflict, analysis,
    proposed), `proposal` (its id) and `scent`. `phase` is the phase in which it was called.
    """

    tool: str
    phase: str
    facts: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of a proposal that a call of this journey made. `note` is what the person said; `path` the page it is about."""

    tool: str
    state: ProposalState
    note: str = ""
    path: str = ""


class Look(Protocol):
    """What conditions may look at beside the work: the knowledge base, and what the server itself knows of this journey.

    Nothing of it depends on what a model says of itself. Answers are as of now, and nothing is changed by looking.
    """

    async def cited(self, citation: Citation) -> str:
        """Return "" if the quote really stands in that section of that page, white space aside; else why not, in one sentence.

        The sentence never repeats text of the page.
        """
        ...

    async def place(self, path: str) -> Place:
        """Return what lies at exactly that path."""
        ...

    async def revision(self, path: str) -> str:
        """Return the present revision of the page at that path, "" if there is none."""
        ...

    async def scent(self, query: str) -> ScentLevel:
        """Return whether a search for this finds enough, by the server's own measure."""
        ...

    async def route(self, question: str) -> Literal["navigation", "discovery"]:
        """Return how the server would route the question: to a known place, or to a search."""
        ...

    async def calls(self) -> Sequence[Called]:
        """Return the tools that answered calls of this journey since its present phase was entered, oldest first."""
        ...

    async def proposal(self, proposal_id: str) -> Fate | None:
        """Return what became of a proposal of this journey; None if this journey made none with that id."""
        ...

    async def tools(self) -> Collection[str]:
        """Return the names of the tools that the server lists: those of a connector only where one is configured."""
        ...


@dataclass(frozen=True, slots=True)
class Facts:
    """What a submit is judged by. `given` is what this submit brought, `work` the phase's work with it joined.

    `works` has the newest work of every phase that has any, the present one with `work`. `signals` are the model's hints.
    """

    phase: str
    visit: int
    brief: str
    inputs: Mapping[str, Json]
    given: Mapping[str, Json]
    work: Mapping[str, Json]
    works: Mapping[str, Mapping[str, Json]]
    signals: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """Whether a condition is met.

    `missing`: if not, what is not there yet: short sentences, each of which names what to do, with the id of the item that
    it is about, and never text of a page. `detail`: for a way back, what it is about, for who comes back.
    """

    met: bool
    missing: tuple[str, ...] = ()
    detail: str = ""


MET = Finding(met=True)
Condition = Callable[[Facts, Look], Awaitable[Finding]]


class WorkForm(Protocol):
    """What the work of a phase must look like."""

    @property
    def schema(self) -> Mapping[str, Json]:
        """Return its JSON Schema, lean, as a model should see it."""
        ...

    @property
    def asks(self) -> frozenset[str]:
        """Return the fields that say something about one submit only, so that the next one does not inherit them."""
        ...

    def problems(self, work: Json) -> Sequence[str]:
        """Return what does not fit, one short sentence for each wrong field; nothing if the work fits."""
        ...


def _nothing_more(_state: JourneyState) -> Mapping[str, str]:
    return {}


def _nothing_told(_phase: str, _before: Json, _after: Json) -> Sequence[Note]:
    return ()


def _nothing_done(_state: JourneyState) -> Sequence[str]:
    return ()


@dataclass(frozen=True)
class Agent:
    """One agent, whole.

    `forms` has the form of every phase's work, by the name of the phase; phases in which the work is complete have none.
    `conditions` are those of the graph, by name. `texts` has the Markdown templates that the phases name (`prompt`,
    `prompt_again`); `values` returns what stands for their own `{{ placeholders }}`. `done` says in short lines what was done
    already, all phases, most important first. `told` returns the notes (`data.question.added`, `data.source.found`) that a
    new work of a phase is worth. `questions` has for each phase with a checkpoint what a person is asked there.
    `origin` says where the agent comes from: "built in", or its file. `inputs` is the JSON Schema of what it takes beside the brief.
    """

    name: str
    title: str
    summary: str
    graph: PhaseGraph
    forms: Mapping[str, WorkForm]
    conditions: Mapping[str, Condition]
    texts: Mapping[str, str]
    questions: Mapping[str, str] = field(default_factory=dict)
    values: Callable[[JourneyState], Mapping[str, str]] = _nothing_more
    done: Callable[[JourneyState], Sequence[str]] = _nothing_done
    told: Callable[[str, Json, Json], Sequence[Note]] = _nothing_told
    origin: str = "built in"
    inputs: Mapping[str, Json] = field(default_factory=dict)

    @property
    def known_conditions(self) -> frozenset[str]:
        """Return the names that transitions may use: a person's rejection meets `REJECTED` without any function."""
        return frozenset((*self.conditions, REJECTED))
