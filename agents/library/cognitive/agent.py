"""From a folder of data and a setting to an agent: the shared steps around its own, and what it is told in each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from agents.catalogue import texts_of
from agents.engine.agent import Agent, Condition, ConditionFinding, Look, SubmitFacts
from agents.engine.events import Json, Note
from agents.engine.graph import Phase, PhaseGraph, Transition
from agents.engine.progress.composition import AgentPart, composed
from agents.engine.state import JourneyState
from agents.library.cognitive.model import CLOSING, COMPLETE, JOHARI_DISCOVERY, LEARNING_INJECTION, ROUTING, Cognitive
from agents.library.cognitive.phases import first_phases as opening
from agents.library.cognitive.phases import last_phases as closing
from agents.library.cognitive.phases.material import Material
from agents.library.cognitive.phases.memory_document import digest
from agents.library.cognitive.phases.prompt_sections import sections
from agents.library.cognitive.setting import ALONE, PhaseSetting, Predecessor
from agents.spec.description import done

TEXTS = texts_of("agents.library.cognitive")
LOOKED_UP = (
    "The server takes this for a mere look-up: perhaps `kb_map` and `kb_read` are enough. If so, answer from there and tell the "
    "person that this journey can be cancelled; if not, go on."
)
Values = Callable[[JourneyState], Mapping[str, str]]
ENVELOPE_TOKENS = 20
"""What the work around a document takes of the tokens that it may have."""


def as_agent(cognitive: Cognitive, setting: PhaseSetting = ALONE, *, following: str = "") -> Agent:
    """Return the agent as it works in that setting. `following` is the one that runs after it, "" if none does."""
    own = cognitive.own
    graph = PhaseGraph(
        cognitive.name,
        (
            *opening.phases(cognitive, setting),
            *(_own_phase(phase, cognitive) for phase in own.graph.phases if phase.name in cognitive.own_steps),
            *closing.phases(cognitive),
        ),
        (
            *opening.ways(cognitive, setting),
            *(_own_way(way, cognitive) for way in own.graph.transitions),
            *closing.ways(),
        ),
        LEARNING_INJECTION if setting.agent_mode else ROUTING,
        (COMPLETE,),
    )
    forms = {**own.forms, JOHARI_DISCOVERY: opening.JOHARI_FORM, CLOSING: closing.CLOSING_FORM}
    return replace(
        own,
        name=cognitive.name,
        graph=graph,
        forms=forms,
        conditions={**_rested(own.conditions, setting), **opening.CONDITIONS, **closing.conditions(cognitive)},
        texts={**own.texts, **TEXTS},
        values=partial(_values, cognitive, setting),
        done=partial(_done, cognitive),
        told=partial(_told, cognitive),
        origin="built in",
        provides={**own.provides, **opening.provides(cognitive, setting, following)},
        budgets=dict.fromkeys(forms, cognitive.budget),
        sections=partial(sections, cognitive, setting),
        documents=partial(_documents, cognitive),
        models={"": cognitive.advice},
        profile=_profile(cognitive),
    )


def _rested(conditions: Mapping[str, Condition], setting: PhaseSetting) -> Mapping[str, Condition]:
    """Return the conditions, for which the documents of the journey are those that the agent is given, as it is told them."""
    return {name: partial(_rested_on, condition, setting) for name, condition in conditions.items()}


async def _rested_on(condition: Condition, setting: PhaseSetting, facts: SubmitFacts, look: Look) -> ConditionFinding:
    found = {one.agent: facts.works.get(one.closing, {}).get(closing.DOCUMENT) for one in setting.predecessors}
    # What the server itself wrote into a document, such as the request, is not what its agent brought.
    documents = {name: digest(text) for name, text in found.items() if isinstance(text, str)}
    return await condition(replace(facts, documents=documents), look)


def alone(cognitive: Cognitive, following: Cognitive | None) -> Agent:
    """Return the agent as it is started by itself, with the agent that looks back on its work afterwards."""
    if following is None or following.name == cognitive.name:
        return as_agent(cognitive)
    first = as_agent(cognitive, following=following.name)
    before = Predecessor(cognitive.name, "", f".{CLOSING}")
    after = as_agent(following, PhaseSetting(predecessors=(before,), pattern="last", agent_mode=True))
    parts = [AgentPart("", first), AgentPart(f"{following.name}.", after)]
    end = Phase(COMPLETE, prompt=COMPLETE)
    whole = composed(cognitive.name, cognitive.title, cognitive.summary, parts, end, texts=TEXTS)
    # At the end of both the person is told what the first one was started for.
    values = partial(_values_at, {COMPLETE: first.values}, whole.values)
    return replace(whole, values=values, profile=first.profile)


def _own_phase(phase: Phase, cognitive: Cognitive) -> Phase:
    return replace(phase, speaker=phase.speaker or cognitive.name)


def _own_way(way: Transition, cognitive: Cognitive) -> Transition:
    """Return a way of the agent's own; where that would end it, the way to what is left to do."""
    return replace(way, target=CLOSING) if way.target in cognitive.own.graph.complete else way


def _profile(cognitive: Cognitive) -> Mapping[str, Json]:
    return {
        "function": cognitive.function,
        "steps": list(cognitive.steps),
        "budget": {"input": cognitive.budget.tokens_in, "output": cognitive.budget.tokens_out},
        "priority": list(cognitive.priority),
    }


def _values(cognitive: Cognitive, setting: PhaseSetting, state: JourneyState) -> Mapping[str, str]:
    material = Material(cognitive, setting, state)
    routed = state.work.get(ROUTING)
    looked_up = not setting.agent_mode and routed is not None and routed.content.get("route") == opening.NAVIGATION
    return {
        **cognitive.own.values(_own_state(cognitive, state)),
        "task": material.task,
        "name": cognitive.name,
        "lookup": LOOKED_UP if looked_up else "",
        "tokens": f"{cognitive.budget.tokens_out - ENVELOPE_TOKENS:,}",
    }


def _own_state(cognitive: Cognitive, state: JourneyState) -> JourneyState:
    """Return the state with the works of the agent's own steps alone: its words are about no others, of which a skill has many."""
    return replace(state, work={phase: work for phase, work in state.work.items() if phase in cognitive.own.forms})


def _values_at(phases: Mapping[str, Values], otherwise: Values, state: JourneyState) -> Mapping[str, str]:
    return phases.get(state.phase, otherwise)(state)


def _done(cognitive: Cognitive, state: JourneyState) -> Sequence[str]:
    return done(state, phases=(JOHARI_DISCOVERY, *cognitive.own_steps))


def _told(cognitive: Cognitive, phase: str, before: Json, after: Json) -> Sequence[Note]:
    return opening.told(before, after) if phase == JOHARI_DISCOVERY else cognitive.own.told(phase, before, after)


def _documents(cognitive: Cognitive, state: JourneyState) -> Mapping[str, str]:
    """Return the memory document, if there is one that is sound."""
    document = closing.sound_document(cognitive, state)
    return {cognitive.name: document} if document else {}
