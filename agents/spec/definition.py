"""A team's agent, read from its file; it can do everything that a built-in agent can. Pure.

Nothing raises: all problems are reported at once, with file and line, and then there is no agent.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal, cast

from pydantic import Field

from agents.engine.agent import Agent, Condition, ModelAdvice, WorkForm
from agents.engine.decide import REJECTED
from agents.engine.events import Json
from agents.engine.graph import PhaseGraph, checked
from agents.engine.runner import AT_VERSION, FORK_OF
from agents.errors import BadGraph
from agents.prompts.prompt import COMMON, PLACEHOLDER
from agents.spec.description import ANSWERS, done, notes, values
from agents.spec.graph.phases import read_phases
from agents.spec.graph.transitions import read_conditions, read_transitions
from agents.spec.predicates.conditions import FieldLook
from agents.spec.predicates.grounds import INPUTS
from agents.spec.problems import Problems, SpecProblem, meant, short
from agents.spec.result import default_result, read_declared
from agents.spec.schema.json_schema import described, read_schema
from agents.spec.yaml.block import FileBlock, Words, known, read_block
from agents.spec.yaml.reader import AgentFileReading
from agents.spec.yaml.values import Marked, UnreadableFile, read_marked

NAME = re.compile(r"[a-z][a-z0-9-]{0,39}")
PROMPTS = ("continue", "route")
"""The server's own prompts. Every agent is a prompt too, so none can have these names."""
# A graph knows no lines, and reports its faults as sentences. These find what a fault is about, and so its line in the file.
_TRANSITION = re.compile(r"the transition (\S+) -> (\S+)")
_PHASE = re.compile(r"phase '([^']+)'")


class ModelBlock(FileBlock):
    """The class of model that suits a phase."""

    model_class: Annotated[
        Literal["largest", "balanced", "fastest"],
        known(("largest", "balanced", "fastest"), "names the unknown class {}"),
    ] = Field(alias="class")
    reason: str = Field(min_length=1, max_length=300)
    example: str = Field(default="", max_length=60)

    def advice(self) -> ModelAdvice:
        """Return the advice, with its reason on one line."""
        return ModelAdvice(self.model_class, " ".join(self.reason.split()), self.example)


class AgentBlock(FileBlock):
    """An agent as its file writes it. Parts with problems of their own are read from the marked lines instead."""

    title: str = Field(min_length=1, max_length=60)
    summary: str = Field(min_length=1, max_length=300)
    inputs: Json = None
    complete: Words[str]
    initial: str = Field(min_length=1, max_length=40)
    phases: Json = Field()
    transitions: Json = Field()
    conditions: Json = None
    result: Json = None


class BuiltInAgentBlock(AgentBlock):
    """A built-in agent. `cognitive` is read by `agents.library.cognitive.definition`."""

    models: dict[str, ModelBlock] = Field(default_factory=dict)
    cognitive: Json = None


@dataclass(frozen=True)
class Definition:
    """The agent in a file, or the problems that prevent it. `reads` are the other files that it names, existing or not."""

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
    """Return the agent of that file, or its problems.

    `files` has the bytes of every file of `_agents/` by its path; `tools` are the names of all tools, `reserved` those of built-in
    agents.
    """
    name, problems = name_of(file), Problems(file)
    if not NAME.fullmatch(name):
        problems.add(
            1, f"an agent cannot be called {short(name)}: use lower-case letters, digits and hyphens, at most 40"
        )
    if name in reserved:
        problems.add(1, f"this program already has an agent {name!r}: give the file another name")
    if name in PROMPTS:
        problems.add(1, f"this program already has a prompt {name!r}: give the file another name")
    reading = AgentFileReading(name, file, files, tools, problems)
    agent = None
    try:
        agent = read_agent(read_marked(files[file]), reading)
    except UnreadableFile as error:
        problems.add(error.line, error.reason)
    return Definition(name, file, None if problems else agent, tuple(problems.in_order()), frozenset(reading.reads))


def read_agent(marked: Marked, reading: AgentFileReading) -> Agent | None:
    """Return the agent; None if it has problems, which are reported."""
    kind = BuiltInAgentBlock if reading.built_in else AgentBlock
    block = read_block(kind, marked, "the agent", reading.problems)
    reading.inputs = read_inputs(marked, reading)
    complete = _ends(marked, "complete")
    read_phases(marked, complete, reading)
    for key, verb in (("initial", "begins"), ("complete", "is complete")):
        for number, name in enumerate(_ends(marked, key)):
            if reading.phases and name not in reading.names:
                text = f"the agent {verb} in {short(name)}, which is not a phase{meant(name, reading.names)}"
                reading.problems.add(marked.line_at([key, number]), text)
    read_transitions(marked, reading)
    read_conditions(marked, reading)
    _placeholders(reading)
    _fields(reading)
    declared = read_declared(marked, reading)
    if block is None or reading.problems:
        return None
    graph = _graph(block.initial, complete, marked, reading)
    own: dict[str, Condition] = {name: read.condition for name, read in reading.conditions.items()}
    models = block.models if isinstance(block, BuiltInAgentBlock) else {}
    return Agent(
        name=reading.name,
        title=block.title,
        summary=" ".join(block.summary.split()),
        graph=graph,
        forms=cast("Mapping[str, WorkForm]", reading.forms),
        conditions=own,
        texts={name: text.text for name, text in reading.texts.items()},
        questions=reading.questions,
        values=values,
        done=partial(done, phases=reading.names),
        notes=notes,
        origin=reading.file,
        inputs=reading.inputs,
        result=declared or default_result(graph, reading.forms),
        models={name: one.advice() for name, one in models.items()},
    )


def _ends(marked: Marked, key: str) -> list[str]:
    """Return the names of phases under a key that takes one or several."""
    found = marked.take(key)
    items = (found.items or [found]) if found else ()
    return [item.value for item in items if isinstance(item.value, str)]


def read_inputs(top: Marked, reading: AgentFileReading) -> Mapping[str, Json]:
    """Return the JSON Schema of the inputs besides the brief; {} without inputs, or if they have problems."""
    marked, shared = top.take("inputs") or Marked({}, top.line), reading.shared_inputs
    if not marked.entries and isinstance(marked.value, dict):
        return {"type": "object", "properties": shared} if shared else {}
    schema = read_schema(marked, "'inputs'", reading.problems)
    if schema is None:
        reading.broken_inputs = True
        return {}
    lines = marked.entries.get("properties", Marked({}, marked.line)).key_lines
    for name, line in lines.items():
        if name in (FORK_OF, AT_VERSION) or not re.fullmatch(r"[\w-]{1,60}", name):
            text = f"an input cannot be called {short(name)}: use letters, digits, - and _, and not {FORK_OF} or {AT_VERSION}"
            reading.problems.add(line, text)
        if name in shared:
            reading.problems.add(line, f"every cognitive agent takes the input {name!r}: leave it out")
    for number, name in enumerate(schema.get("required", ())):
        if name not in schema.get("properties", {}):
            text = f"'inputs' requires {short(name)}, which it does not describe"
            reading.problems.add(marked.line_at(["required", number]), text)
    return {**schema, "properties": {**shared, **schema.get("properties", {})}} if shared else schema


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
            # The fields of a form that could not be read are unknown here, and its own problem is already reported.
            if name in known or group in reading.broken_forms or (group == "inputs" and reading.broken_inputs):
                continue
            line = template.line + template.text[: found.start()].count("\n")
            reading.problems.add(
                line, f"the prompt has the unknown placeholder {short(name)}{meant(name, known)}", template.file
            )


def _fields(reading: AgentFileReading) -> None:
    """Report fields of conditions that no work has: such a condition could never be met."""
    for name, read in reading.conditions.items():
        sources = [one.transition.source for one in reading.transitions if one.transition.condition == name]
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
            looked.line, f"{what}, which belongs to another phase: `given` takes fields of its own phase"
        )
        return
    if form is None:
        if phase in reading.names and phase not in reading.broken_forms:
            reading.problems.add(looked.line, f"{what}, but {phase} takes no work")
        return
    for parts in looked.all_parts():
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
    """Return the graph, and report the problems that only following its transitions shows."""
    graph = PhaseGraph(
        reading.name,
        tuple(reading.phases),
        tuple(one.transition for one in reading.transitions),
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
    # The graph's checks know no lines, so their messages are traced back to the file by the names in them.
    if found := _TRANSITION.match(text):
        ends = (found.group(1), found.group(2))
        lines = [one.line for one in reading.transitions if (one.transition.source, one.transition.target) == ends]
        return lines[0] if lines else marked.line
    phase = _PHASE.search(text)
    if phase and phase.group(1) in reading.lines:
        return reading.lines[phase.group(1)]
    return marked.line_at(["complete"]) if "is complete in" in text else marked.line_at(["initial"])
