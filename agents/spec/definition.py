"""From a team's file to an agent that is equal in rights to those of this program. Pure.

Nothing raises: whatever is wrong is noted with its file and line, all of it at once, and then there is no agent.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

from agents.engine.agent import Agent, Condition, ModelAdvice, WorkForm
from agents.engine.decide import REJECTED
from agents.engine.events import Json
from agents.engine.graph import PhaseGraph, checked
from agents.engine.runner import AT_VERSION, FORK_OF
from agents.errors import BadGraph
from agents.prompts.prompt import COMMON, PLACEHOLDER
from agents.spec.description import ANSWERS, done, told, values
from agents.spec.graph.phases import read_phases
from agents.spec.graph.transitions import read_conditions, read_ends, read_transitions
from agents.spec.grounds import INPUTS
from agents.spec.predicates.conditions import FieldLook
from agents.spec.problems import Problems, SpecProblem, meant, short
from agents.spec.schema.json_schema import described, read_schema
from agents.spec.yaml.block import MappingReader
from agents.spec.yaml.reader import AgentFileReading
from agents.spec.yaml.values import Marked, UnreadableFile, read_marked

NAME = re.compile(r"[a-z][a-z0-9-]{0,39}")
MODEL_CLASSES = ("largest", "balanced", "fastest")
PROMPTS = ("continue", "route")
"""Prompts of the server that no agent has: every agent is a prompt, too."""
_TRANSITION = re.compile(r"the transition (\S+) -> (\S+)")
_PHASE = re.compile(r"phase '([^']+)'")


@dataclass(frozen=True)
class Definition:
    """A file, read: the agent, or why there is none. `reads` are the other files it rests on, whether they are there or not."""

    name: str
    file: str
    agent: Agent | None
    problems: tuple[SpecProblem, ...]
    reads: frozenset[str] = frozenset()


def name_of(file: str) -> str:
    """Return the name of the agent in that file."""
    return file.rpartition("/")[2].rpartition(".")[0]


def defined(
    file: str, files: Mapping[str, bytes], tools: Collection[str], reserved: Collection[str] = ()
) -> Definition:
    """Return the agent of that file, or what is wrong with it.

    `files` has the bytes of every file of `_agents/` by its path; `tools` are the names of those that there are, `reserved`
    those of agents of this program.
    """
    name, problems = name_of(file), Problems(file)
    if not NAME.fullmatch(name):
        problems.add(1, f"an agent cannot be called {short(name)}: lower-case letters, digits and hyphens, at most 40")
    if name in reserved:
        problems.add(1, f"there is an agent {name!r} of this program already; give the file another name")
    if name in PROMPTS:
        problems.add(1, f"there is a prompt {name!r} of this program already; give the file another name")
    reading = AgentFileReading(name, file, files, tools, problems)
    agent = None
    try:
        agent = read_agent(read_marked(files[file]), reading)
    except UnreadableFile as error:
        problems.add(error.line, error.reason)
    return Definition(name, file, None if problems else agent, tuple(problems.told()), frozenset(reading.reads))


def read_agent(marked: Marked, reading: AgentFileReading) -> Agent | None:
    """Return the agent that is written there; None if it cannot be used, with the reasons noted."""
    top = MappingReader(marked, "the agent", reading.problems)
    title = top.text("title", most=60, needed=True)
    summary = " ".join(top.text("summary", most=300, needed=True).split())
    reading.inputs = read_inputs(top.take("inputs"), reading)
    complete = top.words("complete", needed=True)
    initial = top.text("initial", most=40, needed=True)
    models = _models(top, reading) if reading.built_in else {}
    read_phases(top, {name for name, _ in complete}, reading)
    read_ends(top, initial, complete, reading)
    read_transitions(top, reading)
    read_conditions(top, reading)
    top.done()
    _placeholders(reading)
    _fields(reading)
    if reading.problems:
        return None
    graph = _graph(initial, [name for name, _ in complete], marked, reading)
    own: dict[str, Condition] = {name: read.condition for name, read in reading.conditions.items()}
    return Agent(
        name=reading.name,
        title=title,
        summary=summary,
        graph=graph,
        forms=cast("Mapping[str, WorkForm]", reading.forms),
        conditions={**reading.checks, **own},
        texts={name: text.text for name, text in reading.texts.items()},
        questions=reading.questions,
        values=values,
        done=partial(done, phases=reading.names),
        told=told,
        origin=reading.file,
        inputs=reading.inputs,
        models=models,
    )


def _models(top: MappingReader, reading: AgentFileReading) -> Mapping[str, ModelAdvice]:
    """Return the model advised for each speaker."""
    found = top.take("models")
    entries = found.entries if found else {}
    return {
        name: model_advice(MappingReader(one, f"model {name!r}", reading.problems)) for name, one in entries.items()
    }


def model_advice(block: MappingReader) -> ModelAdvice:
    """Return the class of model that a file advises, and why."""
    kind = block.text("class", most=20, needed=True)
    if kind and kind not in MODEL_CLASSES:
        text = f"there is no class of models {short(kind)}{meant(kind, MODEL_CLASSES)}"
        block.problems.add(block.line("class"), text)
    example, reason = block.text("example", most=60), block.text("reason", most=300, needed=True)
    block.done()
    return ModelAdvice(kind, " ".join(reason.split()), example)


def read_inputs(marked: Marked | None, reading: AgentFileReading) -> Mapping[str, Json]:
    """Return the JSON Schema of what is taken beside the brief; nothing if there is none that can be used."""
    if marked is None:
        return {}
    schema = read_schema(marked, "'inputs'", reading.problems)
    if schema is None:
        reading.broken_inputs = True
        return {}
    named = marked.entries.get("properties", Marked({}, marked.line))
    for name in named.entries:
        if name in (FORK_OF, AT_VERSION) or not re.fullmatch(r"[\w-]{1,60}", name):
            text = (
                f"an input cannot be called {short(name)}: letters, digits, - and _, and not {FORK_OF} or {AT_VERSION}"
            )
            reading.problems.add(named.key_lines[name], text)
    for number, name in enumerate(schema.get("required", ())):
        if name not in schema.get("properties", {}):
            line = marked.line_at(["required", number])
            reading.problems.add(line, f"'inputs' requires {short(name)}, which it does not describe")
    return schema


def _placeholders(reading: AgentFileReading) -> None:
    inputs = {f"inputs.{name}" for name in reading.inputs.get("properties", {})}
    fields = {
        f"{phase}.{name}" for phase, form in reading.forms.items() for name in form.described.get("properties", {})
    }
    known = [*sorted(COMMON | {ANSWERS} | set(reading.values)), *sorted(inputs), *sorted(fields)]
    for template in reading.texts.values():
        for found in PLACEHOLDER.finditer(template.text):
            name = found.group(1)
            group = name.partition(".")[0]
            if name in known or group in reading.broken_forms or (group == "inputs" and reading.broken_inputs):
                continue
            line = template.line + template.text[: found.start()].count("\n")
            reading.problems.add(
                line, f"the prompt has the unknown placeholder {short(name)}{meant(name, known)}", template.file
            )


def _fields(reading: AgentFileReading) -> None:
    """Note fields at which a condition looks though no work has them: it could never be met."""
    for name, read in reading.conditions.items():
        sources = [way.transition.source for way in reading.ways if way.transition.condition == name]
        for looked in read.looked:
            for phase in [looked.path.phase] if looked.path.phase else dict.fromkeys(sources):
                _field(name, looked, phase, reading)


def _field(name: str, looked: FieldLook, phase: str, reading: AgentFileReading) -> None:
    form = reading.forms.get(phase)
    what = f"condition {short(name)} looks at {short(str(looked.path))}"
    if phase == INPUTS:
        _input(what, looked, reading)
        return
    if looked.own and looked.path.phase:
        reading.problems.add(
            looked.line, f"{what}, which no submit of another phase brings: `given` takes fields of its own phase"
        )
        return
    if form is None:
        if phase in reading.names and phase not in reading.broken_forms:
            reading.problems.add(looked.line, f"{what}, but {phase} takes no work")
        return
    for parts in [looked.path.parts, *((*looked.path.parts, *inner.split(".")) for inner in looked.inside)]:
        lacking = described(form.described, parts)
        if lacking is not None:
            part, known = lacking
            text = f"{what}; the work of {phase} has no {short(part)} there{meant(part, known)}"
            reading.problems.add(looked.line, text)
            return


def _input(what: str, looked: FieldLook, reading: AgentFileReading) -> None:
    lacking = described(reading.inputs or {"properties": {}}, looked.path.parts)
    if lacking is not None and not reading.broken_inputs:
        part, known = lacking
        reading.problems.add(looked.line, f"{what}; there is no input {short(part)}{meant(part, known)}")


def _graph(initial: str, complete: Sequence[str], marked: Marked, reading: AgentFileReading) -> PhaseGraph:
    """Return the graph. What only shows when ways are followed is noted where it stands."""
    graph = PhaseGraph(
        reading.name,
        tuple(reading.phases),
        tuple(way.transition for way in reading.ways),
        initial,
        tuple(complete),
    )
    try:
        return checked(graph, [*reading.conditions, *reading.checks, REJECTED], reading.tools)
    except BadGraph as error:
        for text in error.problems:
            reading.problems.add(_line_of(text, marked, reading), text)
    return graph


def _line_of(text: str, marked: Marked, reading: AgentFileReading) -> int:
    way = _TRANSITION.match(text)
    if way:
        ends = (way.group(1), way.group(2))
        return next((w.line for w in reading.ways if (w.transition.source, w.transition.target) == ends), marked.line)
    phase = _PHASE.search(text)
    if phase and phase.group(1) in reading.lines:
        return reading.lines[phase.group(1)]
    return marked.line_at(["complete"]) if "is complete in" in text else marked.line_at(["initial"])
