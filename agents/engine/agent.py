"""An agent: a phase graph, and for each phase its prompt, the form of its work, and the conditions that judge it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from agents.engine.decide import REJECTED
from agents.engine.events import Json, Note
from agents.engine.graph import FeedbackKind, PhaseGraph
from agents.engine.state import JourneyState
from agents.engine.work.result import ResultDeclaration
from agents.prompts.context import Budget, PromptSection

Place = Literal["page", "directory", ""]
"""The kind of thing at a path of the knowledge base; "" for nothing."""
ScentLevel = Literal["sufficient", "partial", "lost"]
ProposalState = Literal["pending", "done", "rejected", "ended"]
"""Waiting for a person; carried out; rejected; or ended without effect (withdrawn, expired, failed, superseded)."""


@dataclass(frozen=True, slots=True)
class Citation:
    """Evidence of a work: words in a section of a page. `section` is "" for the part before the first heading."""

    path: str
    section: str
    quote: str


@dataclass(frozen=True, slots=True)
class Called:
    """A successful tool call of this journey, with the facts of its result that conditions read.

    `facts` has those that the result has: `path`, `revision`, `status` (done, partial, unchanged, conflict, analysis, proposed),
    `proposal` (its id), `scent` and, for a map, `listing`. `phase` is the phase in which the tool was called.
    """

    tool: str
    phase: str
    facts: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class Fate:
    """The state of a proposal that a call of this journey made. `note` is the person's; `path` is the page of the proposal."""

    tool: str
    state: ProposalState
    note: str = ""
    path: str = ""


class Look(Protocol):
    """Everything that conditions can check besides the work: the knowledge base, and the server's records of this journey.

    Nothing depends on what a model says about itself. Answers are current, and reading them changes nothing.
    """

    async def cited(self, citation: Citation) -> str:
        """Return "" if the quote is really in that section of that page, apart from typography, and this journey showed it there.

        Else return the reason in one sentence, which never repeats text of the page.
        """
        ...

    async def passage(self, citation: Citation) -> str:
        """Return the text around a quote: its section with the headings above it, and the title of the page; "" if there is none."""
        ...

    async def place(self, path: str) -> Place:
        """Return the page or directory at exactly that path."""
        ...

    async def revision(self, path: str) -> str:
        """Return the current revision of the page at that path, or "" if there is no page."""
        ...

    async def scent(self, query: str) -> ScentLevel:
        """Return whether the server considers its search for this to find enough."""
        ...

    async def searched(self, query: str) -> bool:
        """Return whether kb_search was called with these words in this journey."""
        ...

    async def route(self, question: str) -> Literal["navigation", "discovery"]:
        """Return how the server would route the question: to a known place, or to a search."""
        ...

    async def calls(self, *, of_all_visits: bool = False) -> Sequence[Called]:
        """Return the successful tool calls of the present phase, oldest first: of this visit, or of all visits."""
        ...

    async def unchanged(self, call: Called) -> bool:
        """Return whether the call read a page or a map that is the same now, so that it need not be read again."""
        ...

    async def proposal(self, proposal_id: str) -> Fate | None:
        """Return the state of a proposal of this journey, or None if this journey made no such proposal."""
        ...

    async def tools(self) -> Collection[str]:
        """Return the names of the tools that the server lists: those of a connector only if it is configured."""
        ...

    async def learnings(self, agent: str, domain: str) -> Sequence[Learning]:
        """Return the learnings of that agent and of all agents, in that domain and in general, the most specific first.

        Pages without a trusted author are left out.
        """
        ...

    async def learners(self) -> Collection[str]:
        """Return the names of the agents whose prompts include earlier learnings."""
        ...

    async def terms(self, text: str, most: int) -> Sequence[str]:
        """Return search terms from this text and from similar pages of the knowledge base, best first."""
        ...

    async def near(self, text: str, most: int) -> Sequence[str]:
        """Return the sections of trusted pages that are nearest to this text, as `heading (path)`, best first."""
        ...

    async def configured(self, path: str) -> str | None:
        """Return the text of a file in `_agents/` or `_skills/` by its exact path, or None if there is no such file.

        Raises:
            KnowledgeError, OSError: the file exists but cannot be read now.
        """
        ...


@dataclass(frozen=True, slots=True)
class Learning:
    """An earlier learning: a section of a page in `_learnings/`."""

    path: str
    section: str
    text: str


@dataclass(frozen=True, slots=True)
class JourneySpent:
    """The cost of a journey so far. `iteration` counts attempts from 1: each move back begins another one."""

    tokens: int = 0
    seconds: float = 0.0
    iteration: int = 1


NOTHING_SPENT = JourneySpent()


@dataclass(frozen=True, slots=True)
class SubmitFacts:
    """The facts by which a submit is judged. `given` is the submission, `work` the phase's work with it merged in.

    `works` has the newest work of every phase, the present one with `work`. `signals` are the model's hints. `answers`
    has a person's answers by phase and id of the question, each with the words of the question (`question`) and of the
    answer (`answer`). `spent` is the cost so far, including this submit. `documents` are the journey's memory documents
    by name. `told` are the instructions for the work: the phase's texts, and the descriptions of its fields.
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
    told: str = ""


@dataclass(frozen=True, slots=True)
class QuotedStatement:
    """A text of a work with the quotes that it rests on, and the question that it answers, if any.

    `place` names the text in sentences. `around` is what surrounds the quotes in their pages, if the text may rest on
    that too.
    """

    place: str
    text: str
    quotes: tuple[str, ...]
    question: str = ""
    around: str = ""


@dataclass(frozen=True, slots=True)
class ConditionFinding:
    """Whether a condition is met.

    `missing` has a short sentence for each gap: what to do, with the id of the item, and never text of a page. `detail`
    tells the host why the work moves back. If the condition is met, `feedback`, of the kind `kind`, is for the next
    attempts, and `statements` are the texts that it compared with their quotes, word by word.
    """

    met: bool
    missing: tuple[str, ...] = ()
    detail: str = ""
    feedback: tuple[str, ...] = ()
    kind: FeedbackKind = "validation"
    statements: tuple[QuotedStatement, ...] = ()


MET = ConditionFinding(met=True)
NOT_MET = ConditionFinding(met=False)
"""Not met, without a sentence: another transition reports what is missing, or this one was not attempted."""
Condition = Callable[[SubmitFacts, Look], Awaitable[ConditionFinding]]
Provide = Callable[[SubmitFacts, Look], Awaitable[Mapping[str, Json] | None]]
"""Returns the server's work for a phase, or None if a host has to do it. `SubmitFacts.work` is the work recorded so
far."""


class WorkForm(Protocol):
    """The form of the work of a phase."""

    @property
    def schema(self) -> Mapping[str, Json]:
        """The lean JSON Schema for the model."""
        ...

    @property
    def asks(self) -> frozenset[str]:
        """The fields of one submit only, which the next submit does not inherit."""
        ...

    def problems(self, work: Json) -> Sequence[str]:
        """Return one short sentence for each wrong field; none if the work fits."""
        ...


@dataclass(frozen=True, slots=True)
class ModelAdvice:
    """The class of model that suits a work: `largest`, `balanced` or `fastest`; `example` names a model of that class."""

    model_class: str
    reason: str
    example: str = ""


@dataclass(frozen=True)
class Agent:
    """An agent.

    `forms` has the form of each phase's work by the phase's name; the phases that end the journey have none.
    `conditions` are those of the graph by name. `texts` are the Markdown templates that the phases name (`prompt`,
    `prompt_again`); `values` returns the values of their `{{ placeholders }}` that only this agent has. `done` returns
    all finished work in short lines, most important first. `notes` returns the notes (`data.question.added`,
    `data.source.found`) for new work of a phase, from its work before and after. `questions` has the question to a
    person at the checkpoint of each phase. `origin` is "built in", or the agent's file. `inputs` is the JSON Schema of
    what it takes besides the brief. `refuses` returns one sentence for each reason why valid inputs cannot work, before
    a journey begins with them.

    `provides` does the work of each automatic phase, and that of other phases when it follows from the record.
    `completes` returns a host's work for the present phase with the parts that the server writes. `budgets` has the
    budgets of phases whose prompt or work may have an unusual number of tokens. `sections` returns the parts of a
    prompt around the phase's own text (`body`), for an agent that has more to say than fits; they are trimmed by
    priority. `documents` are the memory documents by name, as Markdown. `models` says which class of model suits a
    speaker, or under "" the whole agent. `profile` has facts for choosing an agent, as JSON: `function`, `steps`,
    `budget` (`input`, `output`), `priority` (sections, the longest kept first); an agent of several `parts` has for
    each its `part`, `agent` and profile. `result` names the fields of the recorded work that are the agent's result.
    """

    name: str
    title: str
    summary: str
    graph: PhaseGraph
    forms: Mapping[str, WorkForm]
    conditions: Mapping[str, Condition]
    texts: Mapping[str, str]
    questions: Mapping[str, str] = field(default_factory=dict)
    values: Callable[[JourneyState], Mapping[str, str]] = lambda _state: {}
    done: Callable[[JourneyState], Sequence[str]] = lambda _state: ()
    notes: Callable[[str, Json, Json], Sequence[Note]] = lambda _phase, _before, _after: ()
    origin: str = "built in"
    inputs: Mapping[str, Json] = field(default_factory=dict)
    provides: Mapping[str, Provide] = field(default_factory=dict)
    completes: Callable[[JourneyState, Mapping[str, Json]], Mapping[str, Json]] = lambda _state, work: work
    budgets: Mapping[str, Budget] = field(default_factory=dict)
    sections: Callable[[JourneyState, str], Sequence[PromptSection]] = lambda _state, _body: ()
    documents: Callable[[JourneyState], Mapping[str, str]] = lambda _state: {}
    models: Mapping[str, ModelAdvice] = field(default_factory=dict)
    profile: Mapping[str, Json] = field(default_factory=dict)
    refuses: Callable[[Mapping[str, Json]], Sequence[str]] = lambda _inputs: ()
    result: ResultDeclaration | None = None

    @property
    def known_conditions(self) -> frozenset[str]:
        """The names that transitions can use: a person's rejection meets `REJECTED` without a function."""
        return frozenset((*self.conditions, REJECTED))
