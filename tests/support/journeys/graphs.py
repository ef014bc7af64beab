"""Graphs, works and decisions to lead journeys with."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st

from agents.engine.decide import REJECTED, decision_steps, submit_steps
from agents.engine.events import Channel, Decided, Decision, Logged, Started, Step, WorkRecorded
from agents.engine.fold import fold
from agents.engine.graph import CheckpointKind, Phase, PhaseGraph, Transition
from agents.engine.state import JourneyState
from tests.support.state.ledgers import NOW

ADA = "ada@desktop"
ODD = "Zażółć \x00 \ud800 🜁 \u2028 ' \" \\"
CONDITIONS = ("all_answered", "gap", "new_category", "tree_ready", REJECTED)
TOOLS = ("kb_search", "kb_read")

RESEARCH = PhaseGraph(
    "research",
    (
        Phase("DECOMPOSE", checkpoint="blocking", tools=("kb_search",)),
        Phase("ANSWER", checkpoint="optional", tools=TOOLS),
        Phase("RISE_ABOVE", checkpoint="informational"),
        Phase("COMPLETE"),
    ),
    (
        Transition("DECOMPOSE", "ANSWER", "tree_ready"),
        Transition("ANSWER", "RISE_ABOVE", "all_answered"),
        Transition("ANSWER", "DECOMPOSE", "new_category", is_backward=True),
        Transition("RISE_ABOVE", "COMPLETE"),
        Transition("RISE_ABOVE", "DECOMPOSE", "new_category", is_backward=True, priority=1),
        Transition("RISE_ABOVE", "ANSWER", "gap", is_backward=True, priority=2),
    ),
    "DECOMPOSE",
    ("COMPLETE",),
)
"""Three phases with each kind of checkpoint, and ways back."""


def begun(brief: str = "Why is the sky blue?", **more: Any) -> Started:
    """Return the beginning of a journey, in the first phase of `RESEARCH`."""
    return Started(**{"agent": "research", "brief": brief, "phase": "DECOMPOSE", "principal": ADA, **more})


def work(content: Any = "done", **more: Any) -> WorkRecorded:
    """Return a submit; its place is determined when it is submitted."""
    return WorkRecorded("", 0, content, **more)


def word(decision: Decision, note: str = "", channel: Channel = "page", changes: Any = None) -> Decided:
    """Return a person's decision."""
    return Decided(decision, channel, "", note, changes)


@dataclass
class Walk:
    """A journey that is led without a store: its log, and a clock that advances a second a step."""

    graph: PhaseGraph = RESEARCH
    log: list[Logged] = field(default_factory=list)
    _folded: tuple[list[Logged], JourneyState | None] = ([], None)

    def __post_init__(self) -> None:
        if not self.log:
            self.log.append(Logged(1, 1, NOW, ADA, begun(agent=self.graph.name, phase=self.graph.initial)))

    @property
    def now(self) -> datetime:
        return NOW + timedelta(seconds=self.log[-1].version)

    @property
    def state(self) -> JourneyState:
        """The state after the log, folded from the previous one."""
        known, state = self._folded
        if self.log[: len(known)] != known:
            known, state = [], None
        if state is None or len(self.log) > len(known):
            state = fold(self.log[len(known) :], state)
            self._folded = ([*self.log], state)
        return state

    def step(self, events: Collection[Step]) -> JourneyState:
        """Record the events as one step."""
        version, at = self.log[-1].version + 1, self.now
        self.log += [Logged(len(self.log) + n, version, at, ADA, event) for n, event in enumerate(events, 1)]
        return self.state

    def submit(self, *met: str, content: Any = "done", detail: str = "", **more: Any) -> JourneyState:
        return self.step(submit_steps(self.graph, "j-1", self.state, work(content, **more), met, detail=detail))

    def say(
        self,
        decision: Decision,
        note: str = "",
        *met: str,
        target: str = "",
        channel: Channel = "page",
        changes: Any = None,
    ) -> JourneyState:
        heard = word(decision, note, channel, changes)
        return self.step(decision_steps(self.graph, "j-1", self.state, heard, met, target=target))


@st.composite
def graphs(draw: st.DrawFn) -> PhaseGraph:
    """Draw a valid graph: a path from phase to phase to the end, and further transitions, also back."""
    count = draw(st.integers(2, 6))
    names = [f"P{n}" for n in range(count)]
    kinds: list[CheckpointKind] = ["none", "informational", "optional", "blocking"]
    kind = [draw(st.sampled_from(kinds)) for _ in names]
    phases = tuple(Phase(name, checkpoint=kind[n]) for n, name in enumerate(names))
    ways = dict.fromkeys(pairwise(names), "tree_ready")
    more = st.tuples(st.integers(0, count - 2), st.integers(0, count - 1), st.sampled_from(CONDITIONS))
    for source, target, condition in draw(st.lists(more, max_size=8)):
        if source != target:
            ways.setdefault((names[source], names[target]), condition)
    return PhaseGraph(
        "drawn",
        phases,
        tuple(
            Transition(a, b, condition, is_backward=names.index(b) < names.index(a), priority=draw(st.integers(0, 2)))
            for (a, b), condition in ways.items()
        ),
        names[0],
        (names[-1],),
    )
