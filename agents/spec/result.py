"""The result that an agent's file declares: which fields of the recorded work are the answer, and which are left open. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from agents.engine.events import Json
from agents.engine.graph import PhaseGraph
from agents.engine.state import JourneyState
from agents.engine.work.form import DROP
from agents.engine.work.result import KINDS, AgentResult, ResultKind, ResultPart
from agents.spec.problems import meant, short
from agents.spec.schema.json_schema import described
from agents.spec.schema.work_form import SchemaForm
from agents.spec.yaml.block import FileBlock, Some, Words, known, read_block
from agents.spec.yaml.field_path import FieldPath, located, narrowing, says_something, spread
from agents.spec.yaml.reader import AgentFileReading
from agents.spec.yaml.values import Marked

KEY = "result"
FORM = "write PHASE.field, as in `result: WRITE.summary`"
Fields = Annotated[Some[str], Field(max_length=12)]


class ResultBlock(FileBlock):
    """The result as a file writes it in full."""

    kind: Annotated[ResultKind, known(tuple(KINDS), "has the unknown kind {}")] = "answer"
    fields: Fields
    open: Annotated[Words[str], Field(max_length=12)] = ()


@dataclass(frozen=True, slots=True)
class DeclaredResult:
    """The fields of the result in order, and those of what it leaves open."""

    kind: ResultKind
    paths: tuple[FieldPath, ...]
    left_open: tuple[FieldPath, ...] = ()

    @property
    def fields(self) -> Sequence[str]:
        """The places of its parts, as texts."""
        return [str(path) for path in self.paths]

    def of(self, state: JourneyState) -> AgentResult:
        """Return what is recorded of it so far."""
        return AgentResult(self.kind, _found(state, self.paths), _found(state, self.left_open))


def _found(state: JourneyState, paths: Sequence[FieldPath]) -> tuple[ResultPart, ...]:
    parts = []
    for path in paths:
        values = located(state.works.get(path.phase, {}), path.parts)
        # Of a path through a list, all values are one list; a field by itself keeps its form.
        value: Json = values[0][1] if len(values) == 1 and len(values[0][0]) == len(path.parts) else None
        if value is None:
            value = [one for _, one in spread(values) if says_something(one)]
        if says_something(value):
            name = next(part for part in reversed(path.parts) if not narrowing(part))
            parts.append(ResultPart(str(path), name.replace("_", " ").capitalize(), value))
    return tuple(parts)


def read_declared(top: Marked, reading: AgentFileReading) -> DeclaredResult | None:
    """Return the declared result; None if there is none, or if it has problems, which are reported."""
    marked = top.take(KEY)
    if marked is None:
        return None
    if not isinstance(marked.value, dict):
        # The short form: one field, or a list of them.
        texts = [item.value for item in marked.items or [marked]]
        if not texts or not all(isinstance(text, str) for text in texts):
            reading.problems.add(marked.line, f"{KEY!r} must be a field, a list of fields or a mapping: {FORM}")
            return None
        return _checked("answer", [str(text) for text in texts], (), marked, reading)
    block = read_block(ResultBlock, marked, repr(KEY), reading.problems)
    return _checked(block.kind, block.fields, block.open, marked, reading) if block else None


def _checked(
    kind: ResultKind, fields: Sequence[str], left_open: Sequence[str], marked: Marked, reading: AgentFileReading
) -> DeclaredResult | None:
    before = len(reading.problems)
    paths = [
        [
            _path(text, marked.line_at([key, n] if isinstance(marked.value, dict) else [n]), reading)
            for n, text in enumerate(of)
        ]
        for key, of in (("fields", fields), ("open", left_open))
    ]
    if len(reading.problems) > before:
        return None
    return DeclaredResult(kind, tuple(filter(None, paths[0])), tuple(filter(None, paths[1])))


def _path(text: str, line: int, reading: AgentFileReading) -> FieldPath | None:
    """Return the field, or None with the problem reported."""
    phase, _, rest = text.partition(".")
    parts = tuple(rest.split(".")) if rest else ()
    if phase not in reading.names:
        reading.problems.add(
            line, f"{KEY!r} names {short(phase)}, which is not a phase{meant(phase, reading.names)}; {FORM}"
        )
    elif not parts or not all(narrowing(part) if set(part) & {"=", "!"} else part.strip() for part in parts):
        reading.problems.add(line, f"{KEY!r} names {short(text)}, which is not a field: {FORM}")
    elif (form := reading.forms.get(phase)) is None:
        # A form that could not be read has problems of its own.
        if phase not in reading.broken_forms:
            reading.problems.add(line, f"{KEY!r} names {short(text)}, but {phase} takes no work")
    elif (lacking := described(form.described, parts)) is not None:
        reading.problems.add(
            line, f"{KEY!r} names {short(text)}; the work of {phase} has no {short(lacking[0])} there{meant(*lacking)}"
        )
    else:
        return FieldPath(phase, parts)
    return None


def default_result(graph: PhaseGraph, forms: Mapping[str, SchemaForm]) -> DeclaredResult:
    """Return the fields of the phases from which the agent completes, without those of one submit only."""
    last = {way.source for way in graph.transitions if way.target in graph.complete and not way.is_backward}
    paths = [
        FieldPath(phase.name, (name,))
        for phase in graph.phases
        if phase.name in last and not phase.automatic and phase.name in forms
        for name in forms[phase.name].described.get("properties", {})
        if name not in forms[phase.name].asks and name != DROP
    ]
    return DeclaredResult("answer", tuple(paths))
