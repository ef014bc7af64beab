"""An agent that knows nothing of skills, in its place in one: told what the skill says, and leaving a memory document. Pure.

The agent itself stays as it is. Its prompts have what the skill says at their end, and after its end the server writes down, in the
form of memory documents, what is on record: nobody is asked for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from agents.engine.agent import Agent, Look, SubmitFacts
from agents.engine.events import Json
from agents.engine.graph import ALWAYS, Phase, PhaseGraph, Transition
from agents.engine.progress.composition import AgentPart, composed
from agents.engine.state import JourneyState
from agents.library.cognitive.model import CLOSING, DONE
from agents.library.cognitive.phases.material import loaded
from agents.library.cognitive.phases.memory_document import LABELS, RULE, TITLES, Expected, digest
from agents.library.cognitive.setting import PhaseSetting
from agents.prompts.prompt import cut
from agents.spec.schema.work_form import SchemaForm

DOCUMENT, ENDED_IN = "document", "ended_in"
BEFORE = "skill.before"
TASK = "(this journey)"
"""Stands for the task's id in a document that is not recorded yet."""
_ENDED = re.compile(r"^- Ended in: (\w+)$", re.MULTILINE)
LONGEST = 60_000
MOST_LINES, LINE_CHARS, ABOUT_TOKENS, BEFORE_TOKENS = 40, 300, 40, 350


def seated(agent: Agent, setting: PhaseSetting) -> Agent:
    """Return the agent in that place of a skill. It is called as before, and asks for what it asked before."""
    values = partial(_values, agent.values, setting)
    inner = replace(agent, graph=_speaking(agent), texts=_texts(agent, setting), values=values)
    end = Phase(DONE)
    whole = composed(
        agent.name, agent.title, agent.summary, [AgentPart("", inner), AgentPart("", _closing(agent, setting))], end
    )
    return replace(
        whole,
        done=agent.done,
        documents=partial(_documents, _PhasePlace(agent, setting)),
        models=agent.models,
        profile=agent.profile,
        origin=agent.origin,
    )


def _speaking(agent: Agent) -> PhaseGraph:
    """Return its graph, in which each phase has a speaker: else it would go on in the conversation of the agent before."""
    graph = agent.graph
    silent = [phase.name for phase in graph.phases if phase.automatic or phase.name in graph.complete]
    phases = [p if p.speaker or p.name in silent else replace(p, speaker=agent.name) for p in graph.phases]
    return replace(graph, phases=tuple(phases))


# --- what it is told --------------------------------------------------------------------------------------------------


def _texts(agent: Agent, setting: PhaseSetting) -> Mapping[str, str]:
    """Return the agent's texts, with what the skill says at the end of those by which work is asked for."""
    graph = agent.graph
    asking = {
        name
        for phase in graph.phases
        if phase.name not in graph.complete and not phase.automatic
        for name in (phase.prompt, phase.prompt_again)
    }
    said = _said(setting)
    return {name: f"{text.rstrip()}\n\n{said}" if name in asking else text for name, text in agent.texts.items()}


def _said(setting: PhaseSetting) -> str:
    told = [
        f"This is phase {setting.phase} of the skill {setting.title}.",
        setting.instructions,
        f"Look most at: {'; '.join(setting.focus)}." if setting.focus else "",
        f"Words to search for: {', '.join(setting.terms)}." if setting.terms else "",
        f"What the result needs:\n{setting.output}" if setting.output else "",
        f"{{{{ {BEFORE} }}}}" if setting.predecessors else "",
    ]
    return "\n".join(line for line in told if line)


def _values(
    own: Callable[[JourneyState], Mapping[str, str]], setting: PhaseSetting, state: JourneyState
) -> Mapping[str, str]:
    return {**own(state), BEFORE: _before(setting, state)}


def _before(setting: PhaseSetting, state: JourneyState) -> str:
    """Return what the agents before left for this one, the newest first."""
    found = loaded(setting, state)
    room = BEFORE_TOKENS // max(len(found), 1)
    return "\n".join(f"From {one.predecessor.phase}:\n{cut(digest(one.document), room)}" for one in found)


# --- what it leaves behind --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _PhasePlace:
    agent: Agent
    setting: PhaseSetting


def _closing(agent: Agent, setting: PhaseSetting) -> Agent:
    """Return what writes the memory document: an agent of one phase, in which the server does the work."""
    phase = Phase(CLOSING, "Closing", "the server writes down what is on record", automatic=True)
    graph = PhaseGraph(agent.name, (phase, Phase(DONE)), (Transition(CLOSING, DONE, ALWAYS),), CLOSING, (DONE,))
    return Agent(
        name=agent.name,
        title=agent.title,
        summary="",
        graph=graph,
        forms={CLOSING: _form(agent)},
        conditions={},
        texts={},
        provides={CLOSING: partial(_provided, setting.phase)},
    )


def _form(agent: Agent) -> SchemaForm:
    ends: dict[str, Json] = {"type": "string", "enum": list(agent.graph.complete)}
    document: dict[str, Json] = {"type": "string", "maxLength": LONGEST}
    return SchemaForm({"type": "object", "properties": {DOCUMENT: document, ENDED_IN: ends}, "required": [DOCUMENT]})


async def _provided(phase: str, facts: SubmitFacts, _look: Look) -> Mapping[str, Json]:
    document = facts.documents[phase].replace(TASK, facts.journey, 1)
    # What is recorded stands behind the first section, which the server alone writes.
    ended = _ENDED.search(document)
    return {DOCUMENT: document, **({ENDED_IN: ended.group(1)} if ended else {})}


def _documents(place: _PhasePlace, state: JourneyState) -> Mapping[str, str]:
    """Return the document that is on record, or the one that is to be recorded now."""
    kept = state.work.get(CLOSING)
    if state.phase == CLOSING:
        return {place.agent.name: _written(place, state)}
    return {place.agent.name: str(kept.content[DOCUMENT])} if kept else {}


def _written(place: _PhasePlace, state: JourneyState) -> str:
    agent, setting = place.agent, place.setting
    steps = [phase.name for phase in agent.graph.phases if phase.name not in agent.graph.complete]
    done = [_in_a_list(" ".join(line.split())[:LINE_CHARS]) for line in agent.done(state)]
    left = len(done) - MOST_LINES
    expected = Expected(agent.title, f"{agent.name.upper()}_COMPLETE", steps, ())
    loaded_lines = [
        f"Task: {TASK}",
        f"Skill: {setting.skill}, phase: {setting.phase}, domain: {setting.domain or 'general'}",
    ]
    end = _end(agent, state)
    sections = (
        [*loaded_lines, *([f"Ended in: {end}"] if end else [])],
        [
            *(f"{step}: worked on {_times(state.phase_visits.get(step, 0))}" for step in steps),
            *done[:MOST_LINES],
            *([f"and {left} more lines: journey_status(view='report') has them"] if left > 0 else []),
        ],
        [f"{LABELS[0]}: what the step overview tells", *(f"{label}: none was named" for label in LABELS[1:])],
        ["Rest on what the step overview tells; journey_status(view='report') has the works themselves."],
    )
    about = cut(" ".join(state.brief.split()), ABOUT_TOKENS)
    told = [f"# {expected.heading} {about}"]
    for title, lines in zip(TITLES, sections, strict=True):
        told += [f"## {title}", "\n".join(f"- {line}" for line in lines)]
    return "\n\n".join([*told, f"{RULE}\n**{expected.marker}**"])


def _end(agent: Agent, state: JourneyState) -> str:
    """Return the phase in which the agent would be complete if it were alone, "" if that is not known."""
    if not state.transition_history:
        return ""
    moved = state.transition_history[-1]
    ends = [way for way in agent.graph.transitions if way.source == moved.source and way.target in agent.graph.complete]
    # In the whole a condition has the prefix of its part.
    return next((way.target for way in ends if f".{moved.reason}".endswith(f".{way.condition}")), "")


def _in_a_list(line: str) -> str:
    """Return the line so that it begins nothing else inside an item of a list: no fence, heading, rule or comment."""
    return line if line[:1].isalpha() else f"({line})"


def _times(visits: int) -> str:
    return {0: "not at all", 1: "once"}.get(visits, f"{visits} times")
