"""Fits an agent that knows nothing of skills into its place in one. Pure.

The agent itself stays unchanged. Its prompts end with the skill's text, and after its end the server writes a memory document
from the recorded work.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from agents.engine.agent import Agent, Look, SubmitFacts
from agents.engine.events import Json
from agents.engine.graph import ALWAYS, Phase, PhaseGraph, Transition
from agents.engine.progress.composition import AgentPart, composed
from agents.engine.state import JourneyState
from agents.library.cognitive.model import CLOSING, DONE
from agents.library.cognitive.phases.material import loaded
from agents.library.cognitive.phases.memory_document import LABELS, Expected, digest, document_of
from agents.library.cognitive.setting import PhaseSetting
from agents.prompts.prompt import cut
from agents.spec.schema.work_form import SchemaForm

DOCUMENT, ENDED_IN = "document", "ended_in"
BEFORE = "skill.before"
TASK = "(this journey)"
"""The placeholder for the task's id in a document that is not recorded yet."""
_ENDED = re.compile(r"^- Ended in: (\w+)$", re.MULTILINE)
LONGEST = 60_000
MOST_LINES, LINE_CHARS, ABOUT_TOKENS, BEFORE_TOKENS = 40, 300, 40, 350


def seated(agent: Agent, setting: PhaseSetting) -> Agent:
    """Return the agent in that place of a skill. Its name and its works stay the same."""
    inner = replace(
        agent,
        graph=_with_speakers(agent),
        texts=_texts(agent, setting),
        values=partial(_values, agent.values, setting),
    )
    parts = [AgentPart("", inner), AgentPart("", _closing(agent, setting), aside=True)]
    return replace(
        composed(agent.name, agent.title, agent.summary, parts, Phase(DONE)),
        done=agent.done,
        documents=partial(_documents, agent, setting),
        models=agent.models,
        profile=agent.profile,
        origin=agent.origin,
    )


def _with_speakers(agent: Agent) -> PhaseGraph:
    """Return its graph with a speaker for each phase: without one, it would continue the previous agent's conversation."""
    graph = agent.graph
    silent = [phase.name for phase in graph.phases if phase.automatic or phase.name in graph.complete]
    phases = [p if p.speaker or p.name in silent else replace(p, speaker=agent.name) for p in graph.phases]
    return replace(graph, phases=tuple(phases))


# --- its prompts ------------------------------------------------------------------------------------------------------


def _texts(agent: Agent, setting: PhaseSetting) -> Mapping[str, str]:
    """Return the agent's texts, with the skill's text at the end of those that ask for work."""
    graph = agent.graph
    asking = {
        name
        for phase in graph.phases
        if phase.name not in graph.complete and not phase.automatic
        for name in (phase.prompt, phase.prompt_again)
    }
    told = [
        f"This is phase {setting.phase} of the skill {setting.title}.",
        setting.instructions,
        f"Look most at: {'; '.join(setting.focus)}." if setting.focus else "",
        f"Words to search for: {', '.join(setting.terms)}." if setting.terms else "",
        f"What the result needs:\n{setting.output}" if setting.output else "",
        f"{{{{ {BEFORE} }}}}" if setting.predecessors else "",
    ]
    said = "\n".join(line for line in told if line)
    return {name: f"{text.rstrip()}\n\n{said}" if name in asking else text for name, text in agent.texts.items()}


def _values(
    own: Callable[[JourneyState], Mapping[str, str]], setting: PhaseSetting, state: JourneyState
) -> Mapping[str, str]:
    """Return the agent's values, with digests of the loaded memory documents, newest first."""
    found = loaded(setting, state)
    room = BEFORE_TOKENS // max(len(found), 1)
    before = "\n".join(f"From {one.predecessor.phase}:\n{cut(digest(one.document), room)}" for one in found)
    return {**own(state), BEFORE: before}


# --- its memory document ----------------------------------------------------------------------------------------------


def _closing(agent: Agent, setting: PhaseSetting) -> Agent:
    """Return an agent of one automatic phase, in which the server writes the memory document."""
    phase = Phase(CLOSING, "Closing", "the server writes down what is on record", automatic=True)
    graph = PhaseGraph(agent.name, (phase, Phase(DONE)), (Transition(CLOSING, DONE, ALWAYS),), CLOSING, (DONE,))
    ends: dict[str, Json] = {"type": "string", "enum": list(agent.graph.complete)}
    document: dict[str, Json] = {"type": "string", "maxLength": LONGEST}
    form = SchemaForm({"type": "object", "properties": {DOCUMENT: document, ENDED_IN: ends}, "required": [DOCUMENT]})
    return Agent(
        name=agent.name,
        title=agent.title,
        summary="",
        graph=graph,
        forms={CLOSING: form},
        conditions={},
        texts={},
        provides={CLOSING: partial(_provided, setting.phase)},
    )


async def _provided(phase: str, facts: SubmitFacts, _look: Look) -> Mapping[str, Json]:
    # The journey's id is known only when the document is recorded.
    # Only in the task's own line: the title before it is cut from the brief, which may have these words.
    document = facts.documents[phase].replace(f"\n- Task: {TASK}\n", f"\n- Task: {facts.journey}\n", 1)
    # The first match is the server's own line: recorded text comes after the first section, which only the server writes.
    ended = _ENDED.search(document)
    return {DOCUMENT: document, **({ENDED_IN: ended.group(1)} if ended else {})}


def _documents(agent: Agent, setting: PhaseSetting, state: JourneyState) -> Mapping[str, str]:
    """Return the recorded document, or the one that is to be recorded now."""
    kept = state.work.get(CLOSING)
    if state.phase == CLOSING:
        return {agent.name: _document(agent, setting, state)}
    return {agent.name: str(kept.content[DOCUMENT])} if kept else {}


def _document(agent: Agent, setting: PhaseSetting, state: JourneyState) -> str:
    steps = [phase.name for phase in agent.graph.phases if phase.name not in agent.graph.complete]
    done = [" ".join(line.split())[:LINE_CHARS] for line in agent.done(state)]
    left, end = len(done) - MOST_LINES, _end(agent, state)
    sections = (
        [
            f"Task: {TASK}",
            f"Skill: {setting.skill}, phase: {setting.phase}, domain: {setting.domain or 'general'}",
            *([f"Ended in: {end}"] if end else []),
        ],
        [
            *(f"{step}: worked on {_times(state.phase_visits.get(step, 0))}" for step in steps),
            *done[:MOST_LINES],
            *([f"and {left} more lines: journey_status(view='report') has them"] if left > 0 else []),
        ],
        [f"{LABELS[0]}: what the step overview says", *(f"{label}: none was named" for label in LABELS[1:])],
        ["Rely on the step overview; journey_status(view='report') has the works themselves."],
    )
    about = cut(" ".join(state.brief.split()), ABOUT_TOKENS)
    return document_of(Expected(agent.title, f"{agent.name.upper()}_COMPLETE", steps, ()), about, sections)


def _end(agent: Agent, state: JourneyState) -> str:
    """Return the phase in which the agent would be complete on its own; "" if that is not known."""
    if not state.transition_history:
        return ""
    moved = state.transition_history[-1]
    ends = [way for way in agent.graph.transitions if way.source == moved.source and way.target in agent.graph.complete]
    # In a skill, conditions have the prefix of their part.
    return next((way.target for way in ends if f".{moved.reason}".endswith(f".{way.condition}")), "")


def _times(visits: int) -> str:
    return {0: "not at all", 1: "once"}.get(visits, f"{visits} times")
