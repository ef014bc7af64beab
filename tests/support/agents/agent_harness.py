"""Agents led as a server leads them: the real runner, a real store, and pages that really contain quotes or not."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Literal

from agents.catalogue import cognitive_entries
from agents.engine.agent import (
    Agent,
    Called,
    Citation,
    ConditionFinding,
    Fate,
    Learning,
    Place,
    ScentLevel,
    SubmitFacts,
)
from agents.engine.events import Channel, Decision, Event, Json, PhaseChanged, canonical
from agents.engine.evidence.learned import learning_pages, learnings_on
from agents.engine.evidence.quote_check import passage, quote_problem
from agents.engine.fold import fold
from agents.engine.progress.position import JourneyPosition
from agents.engine.runner import JourneyDecision, Runner, Submission
from agents.engine.state import JourneyState, get_state, restore_state
from agents.engine.work.form import joined
from agents.prompts.prompt import prompt
from agents.store.ports import JourneyStore
from knowledge.pages.claim_source import is_tainted
from knowledge.pages.document import parse
from knowledge.search.query.keywords import content_words, key_phrases
from knowledge.tokens import count_tokens
from tests.support.agents.small_agents import Only
from tests.support.journeys.graphs import ADA
from tests.support.state.ledgers import MINUTE, NOW
from tests.support.state.memory.journeys import MemoryJourneys, Publish

TOOLS = frozenset(
    [
        "kb_map",
        "kb_read",
        "kb_search",
        "kb_merge",
        "kb_move",
        "kb_delete",
        "kb_revert",
        "kb_history",
        "kb_contradictions",
        "plane_list_projects",
        "plane_query_tasks",
        "plane_get_task",
        "plane_create_task",
        "plane_update_task",
        "plane_comment_task",
        "zulip_list_channels",
        "zulip_read_messages",
        "zulip_find_people",
        "zulip_search_messages",
        "zulip_send_message",
        "zulip_react",
    ]
)
"""The tools that a phase may name. Those of the connectors are listed only if one is configured."""
ANSWER_TOKENS, AROUND_TOKENS = 2_500, 300
"""The most tokens of an answer that resumes a journey, and its fields beside the prompt and the schema."""

BEES = """\
---
title: Bees
kind: guide
---
Bees are kept on the roof since 2019.

# Bees

A colony of honey bees has one queen and about 40,000 workers in June.

## Winter

In winter the bees form a cluster and eat about 15 kilograms of stored honey.
The entrance is narrowed in October so that mice stay out.

## Varroa

The varroa mite is the main cause of winter losses. We treat with oxalic acid in December, when there is no brood.

### Counting mites

More than one mite a day on the board in December means that a treatment is due.
"""
GARDEN = """\
# Garden

The garden lies behind the old brewery and belongs to the town.

## Flowers

Phacelia flowers for six weeks and feeds the bees in July, when the lime trees are over.

## Water

A shallow bowl with stones gives the bees water and does not drown them.
"""
PAGES: Mapping[str, str] = {
    "notes/bees.md": BEES,
    "notes/garden.md": GARDEN,
    "notes/_index.md": "---\ntitle: Notes\nsummary: What we know of bees and garden.\n---\n# Notes\n",
    "plans/honey.md": "# Honey\n\nHoney is harvested in the last week of July.\n",
}

WINTER: dict[str, Json] = {
    "path": "notes/bees.md",
    "section": "Winter",
    "quote": "In winter the bees form a cluster and eat about 15 kilograms of stored honey.",
}
VARROA: dict[str, Json] = {
    "path": "notes/bees.md",
    "section": "Bees > Varroa",
    "quote": "The varroa mite is the main cause of winter losses.",
}
FLOWERS: dict[str, Json] = {
    "path": "notes/garden.md",
    "section": "Flowers",
    "quote": "Phacelia flowers for six weeks and feeds the bees in July",
}
WATER: dict[str, Json] = {
    "path": "notes/garden.md",
    "section": "Water",
    "quote": "A shallow bowl with stones gives the bees water",
}
"""Quotes that are correct."""
ALTERED = {**WINTER, "quote": "In winter the bees form a cluster and eat about 15 grams of stored honey."}
ELSEWHERE = {**WINTER, "section": "Varroa"}
NOWHERE = {**WINTER, "path": "notes/wasps.md"}
"""A quote with one wrong word; the right words, but of another section; a page that does not exist."""


@dataclass
class Pages:
    """A look-up in a small knowledge base.

    The test sets the server's data about a journey (calls, proposals, scents, routes).

    No search finds enough unless `scents` says so.
    """

    texts: dict[str, str] = field(default_factory=lambda: dict(PAGES))
    called: list[Called] = field(default_factory=list)
    called_before: list[Called] = field(default_factory=list)
    fates: dict[str, Fate] = field(default_factory=dict)
    scents: dict[str, ScentLevel] = field(default_factory=dict)
    routes: dict[str, Literal["navigation", "discovery"]] = field(default_factory=dict)
    listed: Collection[str] = TOOLS
    unsearched: Collection[str] = ()
    """Queries that were not run."""

    async def cited(self, citation: Citation) -> str:
        """Return "" if the quote is there, by the rules that hold for every knowledge base."""
        text = self.texts.get(citation.path)
        if text is None:
            return f"there is no page {citation.path!r}"
        return quote_problem(parse(citation.path, text.encode()), citation)

    async def passage(self, citation: Citation) -> str:
        text = self.texts.get(citation.path)
        return "" if text is None else passage(parse(citation.path, text.encode()), citation)

    async def place(self, path: str) -> Place:
        if path in self.texts:
            return "page"
        return "directory" if any(there.startswith(f"{path}/") for there in self.texts) else ""

    async def revision(self, path: str) -> str:
        text = self.texts.get(path)
        return "" if text is None else revision(text)

    async def scent(self, query: str) -> ScentLevel:
        return self.scents.get(query, "lost")

    async def searched(self, query: str) -> bool:
        return query not in self.unsearched

    async def route(self, question: str) -> Literal["navigation", "discovery"]:
        return self.routes.get(question, "discovery")

    async def calls(self, *, of_all_visits: bool = False) -> Sequence[Called]:
        return (*(self.called_before if of_all_visits else ()), *self.called)

    async def unchanged(self, call: Called) -> bool:
        """Return whether a page has the revision that was read; a map, whether it listed the present number of pages."""
        path = str(call.facts.get("path"))
        if call.tool == "kb_map":
            return call.facts.get("listing") == str(len(self.texts))
        return path in self.texts and call.facts.get("revision") == revision(self.texts[path])

    async def proposal(self, proposal_id: str) -> Fate | None:
        return self.fates.get(proposal_id)

    async def tools(self) -> Collection[str]:
        return self.listed

    async def learnings(self, agent: str, domain: str) -> Sequence[Learning]:
        """Return the learnings on pages that are not marked as untrusted."""
        there = [parse(path, self.texts[path].encode()) for path in learning_pages(agent, domain) if path in self.texts]
        pages = [page for page in there if not is_tainted(page.source, untrusted=page.untrusted)]
        return [learning for page in pages for learning in learnings_on(page)]

    async def terms(self, text: str, most: int) -> Sequence[str]:
        return key_phrases(text, most)

    async def near(self, text: str, most: int) -> Sequence[str]:
        """Return pages with a word of the text in their path."""
        found = content_words(text)
        return [f"{path.rpartition('/')[2]} ({path})" for path in self.texts if any(word in path for word in found)][
            :most
        ]

    async def learners(self) -> Collection[str]:
        """Return the agents of this program that receive learnings."""
        return [entry.name for entry in cognitive_entries()]

    async def configured(self, path: str) -> str | None:
        return self.texts.get(path) if path.startswith(("_agents/", "_skills/")) else None


def revision(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


async def judged(
    agent: Agent,
    condition: str,
    phase: str,
    given: Mapping[str, Json],
    look: Pages | None = None,
    *,
    works: Mapping[str, Mapping[str, Json]] | None = None,
    signals: tuple[str, ...] = (),
    brief: str = "Keep bees on the roof.",
) -> ConditionFinding:
    """Return a condition's finding when `given` is submitted in `phase`, with `works` on record (the phase's own too)."""
    form = agent.forms[phase]
    work = joined((works or {}).get(phase), given, form.asks)
    assert form.problems(work) == (), "a near miss has the right form: it is for the condition to refuse"
    facts = SubmitFacts(phase, 1, brief, {}, given, work, {**(works or {}), phase: work}, signals)
    found = await agent.conditions[condition](facts, look or Pages())
    assert not (found.met and found.missing)
    return found


def change(work: Mapping[str, Json], name: str, at: int, **fields: Json) -> dict[str, Json]:
    """Return the work with fields of one item of a list changed."""
    return {**work, name: [{**item, **fields} if n == at else item for n, item in enumerate(work[name])]}


def lacks(finding: ConditionFinding, *words: str) -> bool:
    """Return whether the condition is unmet and its message has these words."""
    return not finding.met and all(word in " / ".join(finding.missing) for word in words)


@dataclass
class Led:
    """One journey, with the runner that leads it and the data that its conditions check."""

    runner: Runner
    journey: str
    look: Pages

    async def position(self) -> JourneyPosition:
        return await self.runner.position(self.journey)

    async def state(self) -> JourneyState:
        return (await self.position()).state

    async def told(self) -> str:
        """Return the current prompt, as any host gets it."""
        here = await self.position()
        return prompt(here.agent, here.state)

    async def submit(self, *signals: str, **work: Json) -> JourneyState:
        """Submit at the newest version and return the result."""
        at = (await self.state()).version
        return (await self.runner.submit(self.journey, at, Submission(work, signals), by=ADA)).state

    async def decide(
        self,
        decision: Decision,
        note: str = "",
        *,
        channel: Channel = "page",
        changes: Mapping[str, Json] | None = None,
    ) -> JourneyState:
        at = (await self.state()).version
        opinion = JourneyDecision(decision, channel, note, changes or {})
        return (await self.runner.decide(self.journey, at, opinion, by=ADA)).state

    async def events(self) -> list[Event]:
        return [logged.event for logged in await self.runner.store.events(self.journey)]

    async def missing(self) -> list[str]:
        """Return the gaps of the newest submit."""
        state = await self.state()
        return [f.text for f in state.feedback if f.version == state.version]


def runner_of(agent: Agent, store: Any, look: Pages) -> Runner:
    """Return a runner whose clock advances a minute a step, and whose ids are counted up."""
    ticks, names = count(), count(1)
    return Runner(
        store,
        Only(agent),
        lambda _journey, _state: look,
        now=lambda: NOW + next(ticks) * MINUTE,
        chance=lambda: f"{next(names):04}",
    )


@asynccontextmanager
async def leading(
    agent: Agent,
    *,
    look: Pages | None = None,
    brief: str = "Keep bees on the roof.",
    store: JourneyStore | None = None,
    **inputs: Json,
) -> AsyncIterator[Led]:
    """Begin a journey of the agent, in memory if no store is given: all stores behave alike."""
    runner = runner_of(agent, store or Remembering(nobody), seen := look or Pages())
    begun = await runner.start(agent.name, brief, inputs, by=ADA)
    yield Led(runner, begun.journey, seen)


def cost(position: JourneyPosition) -> int:
    """Return the tokens of an answer that resumes a journey: its prompt, the schema of the work, and its other fields."""
    form = position.agent.forms.get(position.state.phase)
    schema = canonical(dict(form.schema)) if form else ""
    return count_tokens(prompt(position.agent, position.state)) + count_tokens(schema) + AROUND_TOKENS


def words_in(text: str) -> int:
    return len(text.split())


# --- random walks -----------------------------------------------------------------------------------------------------

Move = tuple[Literal["submit", "decide"], Json, tuple[str, ...]]
"""A work and its signals; or a decision (with changes) as `[decision, note, changes]`."""
Works = Callable[[JourneyState], Sequence[tuple[Mapping[str, Json], tuple[str, ...]]]]
"""What may be submitted in a state, good and bad."""


def moves(agent: Agent, state: JourneyState, works: Works) -> list[Move]:
    """Return the moves that the rules of journeys allow in a state; none only if it was cancelled."""
    been = sorted(phase for phase in state.phase_visits if phase not in (state.phase, *agent.graph.complete))
    back: list[Move] = [("decide", ["revisit", "once more", {"phase": phase}], ()) for phase in been]
    if state.status == "cancelled":
        return []
    if state.status == "complete":
        return back
    asked: list[Move] = []
    if state.checkpoint is not None:
        ways = ("answer", "reject") if state.checkpoint.asks else ("approve", "modify", "reject")
        asked = [("decide", [said, "so I say", {}], ()) for said in ways]
    if state.status == "waiting":
        # The first one, approve or answer, is in the list twice, so that walks make progress.
        return [*asked, asked[0], *back[:1]]
    submits: list[Move] = [("submit", work, signals) for work, signals in works(state)]
    assert submits, f"{agent.name} is stuck in {state.phase}"
    return [*submits, *submits, *asked, ("decide", ["answer", "blue", {}], ()), *back[:1]]


async def make(led: Led, move: Move) -> JourneyState:
    kind, content, signals = move
    if kind == "submit":
        return await led.submit(*signals, **content)
    decision, note, changes = content
    return await led.decide(decision, note, changes=changes)


async def walk(
    agent: Agent,
    choices: Sequence[int],
    works: Works,
    good: Works,
    *,
    look: Pages | None = None,
    patience: int = 60,
) -> Collection[str]:
    """Lead a journey by `choices`, then with `good` works to its end. Return the conditions that it took.

    Each move is in the table or a person's; the record folds to the state; and from the walk's end, good work reaches
    the journey's end.
    """
    runner = runner_of(agent, Remembering(nobody), seen := look or Pages())
    led = Led(runner, (await runner.start(agent.name, "Keep bees on the roof.", {}, by=ADA)).journey, seen)
    for choice in choices:
        possible = moves(agent, await led.state(), works)
        await make(led, possible[choice % len(possible)])
    for _ in range(patience):
        state = await led.state()
        if state.status == "complete":
            break
        if state.status == "waiting":
            asks = state.checkpoint is not None and state.checkpoint.asks
            await led.decide("answer" if asks else "approve", "so I say")
        else:
            work, signals = good(state)[0]
            await led.submit(*signals, **work)
    return await sound(agent, led)


async def ways_not_taken(
    agent: Agent, works: Works, good: Works, *, walks: int, look: Callable[[], Pages] = Pages
) -> Collection[str]:
    """Return the conditions of the table that none of this many walks took. The walks are the same each time."""
    missing = {transition.condition for transition in agent.graph.transitions}
    for seed in range(walks):
        choices = [seed * 7919 * (n + 1) // 3 for n in range(30)]
        missing -= set(await walk(agent, choices, works, good, look=look()))
        if not missing:
            break
    return missing


async def sound(agent: Agent, led: Led) -> Collection[str]:
    """Return the reasons of all moves, each in the table or a person's; the journey is complete."""
    log = await led.runner.store.events(led.journey)
    state = await led.state()
    assert fold(log) == state
    assert restore_state(get_state(state)) == state
    assert state.status == "complete", (state.phase, [f.text for f in state.feedback][-3:])
    table = {(t.source, t.target, t.condition, t.is_backward) for t in agent.graph.transitions}
    reasons = list[str]()
    for logged in log:
        if isinstance(move := logged.event, PhaseChanged):
            of_person = move.reason in ("revisit", "modify", "reject") and move.is_backward
            assert of_person or (move.source, move.target, move.reason, move.is_backward) in table
            reasons.append(move.reason)
    return reasons


class Remembering(MemoryJourneys):
    """Journeys in memory that fold only new events, because a walk reads its state at every step."""

    def __init__(self, publish: Publish) -> None:
        super().__init__(publish)
        self._folded: dict[str, JourneyState] = {}

    def _state(self, journey: str) -> JourneyState:
        log, known = self._log(journey), self._folded.get(journey)
        state = fold(log[known.seq if known else 0 :], known) if known is None or known.seq < len(log) else known
        self._folded[journey] = state
        return state


async def nobody(_topic: str, _keys: Sequence[str]) -> None:
    """Notify nobody of changes."""
