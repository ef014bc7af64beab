"""An agent: a phase graph, and for each phase what is asked for in words and as data, and what its conditions look at."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from agents.engine.decide import REJECTED
from agents.engine.events import Json, Note
from agents.engine.graph import FeedbackKind, PhaseGraph
from agents.engine.state import JourneyState
from agents.prompts.context import Budget, PromptSection

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

    async def calls(self, *, of_all_visits: bool = False) -> Sequence[Called]:
        """Return the tools that answered calls of this journey in its present phase, oldest first.

        Those since the phase was entered, or those of all visits to it.
        """
        ...

    async def proposal(self, proposal_id: str) -> Fate | None:
        """Return what became of a proposal of this journey; None if this journey made none with that id."""
        ...

    async def tools(self) -> Collection[str]:
        """Return the names of the tools that the server lists: those of a connector only where one is configured."""
        ...

    async def learnings(self, agent: str, domain: str) -> Sequence[Learning]:
        """Return what was learned before by that agent, or by all, in that domain, or in general: the nearest first.

        Pages whose text nobody vouches for are left out.
        """
        ...

    async def learners(self) -> Collection[str]:
        """Return the names of the agents that are told what was learned before."""
        ...

    async def terms(self, text: str, most: int) -> Sequence[str]:
        """Return words worth searching for, of this text and of what the knowledge base has near it, best first."""
        ...

    async def configured(self, path: str) -> str | None:
        """Return the text of a file below `_agents/` or `_skills/`, by its exact path; None if there is none.

        Raises:
            KnowledgeError, OSError: it is there and cannot be read now.
        """
        ...


@dataclass(frozen=True, slots=True)
class Learning:
    """Something that was learned before: a section of a page below `_learnings/`."""

    path: str
    section: str
    text: str


@dataclass(frozen=True, slots=True)
class JourneySpent:
    """What a journey took so far. `iteration` counts attempts from 1: each way back begins another."""

    tokens: int = 0
    seconds: float = 0.0
    iteration: int = 1


NOTHING_SPENT = JourneySpent()


@dataclass(frozen=True, slots=True)
class SubmitFacts:
    """What a submit is judged by. `given` is what this submit brought, `work` the phase's work with it joined.

    `works` has the newest work of every phase that has any, the present one with `work`. `signals` are the model's hints.
    `answers` has what a person answered: by phase and id of the question, its words (`question`) and theirs (`answer`).
    `spent` is what the journey took so far, with this submit. `documents` are those that it left behind so far, by name.
    """

    phase: str
    visit: int
    brief: str
    inputs: Mapping[str, Json]
    given: Mapping[str, Json]
    work: Mapping[str, Json]
    works: Mapping[str, Mapping[str, Json]]
    signals: tuple[str, ...] = ()
    journey: str = ""
    answers: Mapping[str, Mapping[str, Mapping[str, str]]] = field(default_factory=dict)
    spent: JourneySpent = NOTHING_SPENT
    documents: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ConditionFinding:
    """Whether a condition is met.

    `missing`: if not, what is not there yet: short sentences, each of which names what to do, with the id of the item that
    it is about, and never text of a page. `detail`: for a way back, what it is about, for who comes back. `feedback`: if it
    is met, what the next attempts should know, of the kind `kind`.
    """

    met: bool
    missing: tuple[str, ...] = ()
    detail: str = ""
    feedback: tuple[str, ...] = ()
    kind: FeedbackKind = "validation"


MET = ConditionFinding(met=True)
NOT_MET = ConditionFinding(met=False)
"""Not met, with nothing to say about it: another transition says what is missing, or nobody tried to meet this one."""
Condition = Callable[[SubmitFacts, Look], Awaitable[ConditionFinding]]
Provide = Callable[[SubmitFacts, Look], Awaitable[Mapping[str, Json]]]
"""Returns the work of an automatic phase. `SubmitFacts.work` is what is recorded of it from before."""


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


def _no_notes(_phase: str, _before: Json, _after: Json) -> Sequence[Note]:
    return ()


def _nothing_done(_state: JourneyState) -> Sequence[str]:
    return ()


def _nothing_refused(_inputs: Mapping[str, Json]) -> Sequence[str]:
    return ()


def _no_sections(_state: JourneyState, _body: str) -> Sequence[PromptSection]:
    return ()


@dataclass(frozen=True, slots=True)
class ModelAdvice:
    """Which class of model suits a work. `model_class`: `largest`, `balanced` or `fastest`; `example` names one of that class."""

    model_class: str
    reason: str
    example: str = ""


@dataclass(frozen=True)
class Agent:
    """One agent, whole.

    `forms` has the form of every phase's work, by the name of the phase; phases in which the work is complete have none.
    `conditions` are those of the graph, by name. `texts` has the Markdown templates that the phases name (`prompt`,
    `prompt_again`); `values` returns what stands for their own `{{ placeholders }}`. `done` says in short lines what was done
    already, all phases, most important first. `told` returns the notes (`data.question.added`, `data.source.found`) that a
    new work of a phase is worth. `questions` has for each phase with a checkpoint what a person is asked there.
    `origin` says where the agent comes from: "built in", or its file. `inputs` is the JSON Schema of what it takes beside the brief.
    `provides` has what does the work of each automatic phase. `budgets` has what a phase may take in and bring, where that is
    another than usual. `sections` returns the parts of a prompt around the phase's own words (`body`), for an agent that has
    more to tell than fits: they are trimmed by their priority. `documents` are what the work left behind, by name, as Markdown.
    `models` says for speakers, or for the whole agent under "", which class of model suits, and why. `profile` has facts for
    whoever chooses an agent, as JSON: `function`, `steps`, `budget` (`input`, `output`), `priority` (sections, first kept longest),
    and of one that is made of several `parts`: of each its `part`, `agent`, and its own profile. `refuses` returns why inputs that
    have the right form can lead nowhere, one sentence for each, before anything is begun with them.
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
    notes: Callable[[str, Json, Json], Sequence[Note]] = _no_notes
    origin: str = "built in"
    inputs: Mapping[str, Json] = field(default_factory=dict)
    provides: Mapping[str, Provide] = field(default_factory=dict)
    budgets: Mapping[str, Budget] = field(default_factory=dict)
    sections: Callable[[JourneyState, str], Sequence[PromptSection]] = _no_sections
    documents: Callable[[JourneyState], Mapping[str, str]] = _nothing_more
    models: Mapping[str, ModelAdvice] = field(default_factory=dict)
    profile: Mapping[str, Json] = field(default_factory=dict)
    refuses: Callable[[Mapping[str, Json]], Sequence[str]] = _nothing_refused

    @property
    def known_conditions(self) -> frozenset[str]:
        """Return the names that transitions may use: a person's rejection meets `REJECTED` without any function."""
        return frozenset((*self.conditions, REJECTED))
