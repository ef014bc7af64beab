"""A cognitive agent in its setting: the shared phases around its own steps, and its instructions in each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from agents.engine.agent import Agent, Condition, ConditionFinding, Look, SubmitFacts
from agents.engine.events import Json, Note
from agents.engine.graph import Phase, PhaseGraph
from agents.engine.progress.composition import AgentPart, composed
from agents.engine.state import JourneyState
from agents.library.cognitive.model import (
    CLOSING,
    COMPLETE,
    DOCUMENT,
    DOCUMENT_SOUND,
    JOHARI_DISCOVERY,
    LEARNING_INJECTION,
    ROUTING,
    Cognitive,
)
from agents.library.cognitive.phases import first_phases, following_steps, last_phases
from agents.library.cognitive.phases.material import Material
from agents.library.cognitive.phases.memory_document import findings
from agents.library.cognitive.phases.prompt_sections import sections
from agents.library.cognitive.setting import ALONE, PhaseSetting, Predecessor
from agents.library.cognitive.shared import shared
from agents.spec.description import done

LOOKED_UP = (
    "The server takes this for a mere look-up: perhaps `kb_map` and `kb_read` are enough. If so, answer from there and tell the "
    "person that this journey can be cancelled; if not, go on."
)


def as_agent(cognitive: Cognitive, setting: PhaseSetting = ALONE, *, following: str = "") -> Agent:
    """Return the agent as it works in that setting. `following` names the agent that runs after it; "" for none."""
    own, around = cognitive.own, shared()
    forms = {**own.forms, **around.forms}
    return replace(
        own,
        name=cognitive.name,
        graph=_graph(cognitive, setting),
        forms=forms,
        conditions={
            **{name: partial(_on_given_documents, one, setting) for name, one in own.conditions.items()},
            **first_phases.CONDITIONS,
            DOCUMENT_SOUND: partial(last_phases.document_sound, cognitive),
        },
        texts={**own.texts, **around.texts},
        values=partial(_values, cognitive, setting),
        done=partial(done, phases=(JOHARI_DISCOVERY, *cognitive.own_steps)),
        notes=partial(_notes, cognitive),
        origin="built in",
        provides={
            **following_steps.provides(cognitive, setting),
            LEARNING_INJECTION: partial(first_phases.learned, cognitive, setting),
            **({} if setting.agent_mode else {ROUTING: partial(first_phases.routed, cognitive.name, following)}),
        },
        budgets=dict.fromkeys(forms, cognitive.budget),
        sections=partial(sections, cognitive, setting),
        documents=partial(_documents, cognitive),
        completes=partial(last_phases.completed, cognitive, setting),
        models={"": cognitive.advice},
        profile={
            "function": cognitive.function,
            "steps": list(cognitive.steps),
            "budget": {"input": cognitive.budget.tokens_in, "output": cognitive.budget.tokens_out},
            "priority": list(cognitive.priority),
        },
    )


def _graph(cognitive: Cognitive, setting: PhaseSetting) -> PhaseGraph:
    """Return the shared graph with the agent's own steps between JOHARI_DISCOVERY and CLOSING."""
    own, around = cognitive.own.graph, shared().graph
    # In a skill the agent has been chosen already, so there is nothing to route.
    first = LEARNING_INJECTION if setting.agent_mode else ROUTING
    names = [phase.name for phase in around.phases]
    before, after = names[names.index(first) : names.index(CLOSING)], names[names.index(CLOSING) :]
    phases = [
        *map(around.phase, before),
        *(phase for phase in own.phases if phase.name in cognitive.own_steps),
        *map(around.phase, after),
    ]
    # Only phases in which a host works have a speaker: the others would begin conversations that nobody has.
    asking = [phase.name for phase in phases if not phase.automatic and phase.name != COMPLETE]
    spoken = (
        replace(p, speaker=cognitive.name) if p.name in asking and p.speaker in ("", "agent") else p for p in phases
    )
    transitions = [
        *(
            replace(t, target=own.initial) if t.target == CLOSING else t
            for t in around.transitions
            if t.source in before
        ),
        *(replace(t, target=CLOSING) if t.target in own.complete else t for t in own.transitions),
        *(t for t in around.transitions if t.source in after),
    ]
    return PhaseGraph(cognitive.name, tuple(spoken), tuple(transitions), first, (COMPLETE,))


async def _on_given_documents(
    condition: Condition, setting: PhaseSetting, facts: SubmitFacts, look: Look
) -> ConditionFinding:
    """Judge with the memory documents that the agent was given as the documents of the journey.

    Only their findings count: text that the server wrote into a document is left out.
    """
    found = {one.agent: facts.works.get(one.closing, {}).get(DOCUMENT) for one in setting.predecessors}
    # Text that the server wrote into a document, such as the request, is no finding of that agent.
    documents = {name: "\n".join(findings(text).values()) for name, text in found.items() if isinstance(text, str)}
    return await condition(replace(facts, documents=documents), look)


def alone(cognitive: Cognitive, following: Cognitive | None) -> Agent:
    """Return the agent as it runs on its own, followed by the agent that looks back on its work."""
    if following is None or following.name == cognitive.name:
        return as_agent(cognitive)
    first = as_agent(cognitive, following=following.name)
    before = Predecessor(cognitive.name, "", f".{CLOSING}")
    after = as_agent(following, PhaseSetting(predecessors=(before,), pattern="last", agent_mode=True, looks_back=True))
    parts = [AgentPart("", first), AgentPart(f"{following.name}.", after, aside=True)]
    end = Phase(COMPLETE, prompt=COMPLETE)
    both = composed(cognitive.name, cognitive.title, cognitive.summary, parts, end, texts=shared().texts)

    def values(state: JourneyState) -> Mapping[str, str]:
        # When both are complete, the person gets the result of the first one, which they started.
        return (first if state.phase == COMPLETE else both).values(state)

    return replace(both, values=values, profile=first.profile)


def _values(cognitive: Cognitive, setting: PhaseSetting, state: JourneyState) -> Mapping[str, str]:
    routed = state.work.get(ROUTING)
    looked_up = not setting.agent_mode and routed is not None and routed.content.get("route") == "navigation"
    # Its own prompts are only about its own steps, and a skill has works of many others.
    own_work = {phase: work for phase, work in state.work.items() if phase in cognitive.own.forms}
    return {
        **cognitive.own.values(replace(state, work=own_work)),
        "task": Material(cognitive, setting, state).task,
        "name": cognitive.name,
        "lookup": LOOKED_UP if looked_up else "",
    }


def _notes(cognitive: Cognitive, phase: str, before: Json, after: Json) -> Sequence[Note]:
    return first_phases.notes(before, after) if phase == JOHARI_DISCOVERY else cognitive.own.notes(phase, before, after)


def _documents(cognitive: Cognitive, state: JourneyState) -> Mapping[str, str]:
    """Return the memory document, if a sound one is recorded."""
    document = last_phases.sound_document(cognitive, state)
    return {cognitive.name: document} if document else {}
