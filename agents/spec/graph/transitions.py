"""The ways between the phases of a team's agent, and the conditions on which they are taken. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Literal, cast

from agents.engine.decide import REJECTED
from agents.engine.graph import ALWAYS, CHECKPOINT_KINDS, CheckpointKind, Transition
from agents.spec.predicates.conditions import read_condition
from agents.spec.problems import meant, short
from agents.spec.schema.json_schema import described
from agents.spec.yaml.block import MappingReader
from agents.spec.yaml.reader import AgentFileReading, ReadTransition, listed

CONDITION_NAME = re.compile(r"[a-z][a-z0-9_]{0,59}")
MOST_TRANSITIONS, MOST_CONDITIONS = 60, 60


def read_ends(top: MappingReader, initial: str, complete: Sequence[tuple[str, int]], reading: AgentFileReading) -> None:
    """Note where the agent begins or is complete in a phase that there is not."""
    ends = [(initial, top.line("initial"), "begins")] if initial else []
    for name, line, verb in [*ends, *((name, line, "is complete") for name, line in complete)]:
        if reading.phases and name not in reading.names:
            reading.problems.add(
                line, f"the agent {verb} in {short(name)}, which is no phase of it{meant(name, reading.names)}"
            )


def read_transitions(top: MappingReader, reading: AgentFileReading) -> None:
    """Read the ways between phases."""
    for item in listed(top, "transitions", MOST_TRANSITIONS):
        block = MappingReader(item, "a transition", reading.problems)
        source, target = block.text("from", most=40, needed=True), block.text("to", most=40, needed=True)
        condition = block.text("condition", most=60) or ALWAYS
        backward = block.flag("is_backward")
        priority = block.number("priority", least=-100, most=100, usual=0)
        asks, anew = block.text("asks", most=60), block.flag("anew")
        kind = _checkpoint(block, source, target, reading, backward=backward)
        block.done()
        for key, end in (("from", source), ("to", target)):
            if end and reading.phases and end not in reading.names:
                text = f"a transition names {short(end)}, which is no phase{meant(end, reading.names)}"
                reading.problems.add(block.line(key), text)
        if condition == REJECTED and not backward:
            text = f"the transition {source} -> {target} on {REJECTED} leads forward: a rejection only leads back (is_backward)"
            reading.problems.add(block.line("condition"), text)
        if asks:
            _asking(asks, block, source, reading)
        _once(source, target, condition, item.line, reading)
        way = Transition(source, target, condition, backward, priority, asks, anew, kind)
        reading.ways.append(ReadTransition(way, item.line, block.line("condition")))
    _unneeded(reading)


def _checkpoint(
    block: MappingReader, source: str, target: str, reading: AgentFileReading, *, backward: bool
) -> CheckpointKind | Literal[""]:
    kind = block.text("checkpoint", most=40)
    if kind and kind not in CHECKPOINT_KINDS:
        text = f"the transition {source} -> {target} has the unknown checkpoint {short(kind)}{meant(kind, CHECKPOINT_KINDS)}"
        reading.problems.add(block.line("checkpoint"), text)
    elif kind and backward:
        text = (
            f"the transition {source} -> {target} leads back, and nobody is asked before that: leave its checkpoint out"
        )
        reading.problems.add(block.line("checkpoint"), text)
    return cast("CheckpointKind", kind)


def _unneeded(reading: AgentFileReading) -> None:
    """Note what a phase says for a person whom neither it nor a way out of it asks."""
    for need in reading.needing:
        ways = [way.transition for way in reading.ways if way.transition.source == need.phase]
        if not any(way.checkpoint in need.kinds or (need.asks and way.asks) for way in ways):
            reading.problems.add(need.line, need.text)


def _asking(asks: str, block: MappingReader, source: str, reading: AgentFileReading) -> None:
    """Note where a way asks what its phase has no questions for."""
    line = block.line("asks")
    form = reading.forms.get(source)
    if form is None:
        return
    for parts in ([asks], [asks, "id"], [asks, "question"]):
        lacking = described(form.described, parts)
        if lacking is not None:
            part, known = lacking
            text = (
                f"the transition asks what stands in {short(asks)}, a list of objects with `id` and `question`; the work of "
                f"{source} has no {short(part)} there{meant(part, known)}"
            )
            reading.problems.add(line, text)
            return


def _once(source: str, target: str, condition: str, line: int, reading: AgentFileReading) -> None:
    for way in reading.ways:
        t = way.transition
        if (t.source, t.target, t.condition) == (source, target, condition):
            reading.problems.add(line, f"the transition {source} -> {target} is there twice, first at line {way.line}")
            return


def read_conditions(top: MappingReader, reading: AgentFileReading) -> None:
    """Read the conditions, and note those that no way uses and those that there are not."""
    found = top.take("conditions")
    entries = found.entries if found is not None else {}
    if found is not None and not isinstance(found.value, dict):
        reading.problems.add(
            top.line("conditions"), f"'conditions' must be a mapping of names to predicates, not {found.kind}"
        )
    if found is not None and len(entries) > MOST_CONDITIONS:
        reading.problems.add(
            top.line("conditions"), f"there are {len(entries)} conditions, at most {MOST_CONDITIONS} are taken"
        )
        return
    used = {way.transition.condition for way in reading.ways}
    for name, marked in entries.items():
        line = found.key_lines[name] if found else 1
        reading.condition_lines[name] = line
        if name in (ALWAYS, REJECTED) or not CONDITION_NAME.fullmatch(name):
            text = f"a condition cannot be called {short(name)}: small letters, digits and underscores, and not {ALWAYS} or {REJECTED}"
            reading.problems.add(line, text)
        if name not in used:
            reading.problems.add(line, f"condition {short(name)} is used by no transition{_near(name, used)}")
        read = read_condition(name, marked, reading.names, reading.tools, reading.problems)
        if read is not None:
            reading.conditions[name] = read
    for way in reading.ways:
        name = way.transition.condition
        if name not in (ALWAYS, REJECTED) and name not in entries and name not in reading.checks:
            t = way.transition
            text = (
                f"the transition {t.source} -> {t.target} has the unknown condition {short(name)}{meant(name, entries)}"
            )
            reading.problems.add(way.condition_line, text)


def _near(name: str, known: Collection[str]) -> str:
    near = meant(name, known)
    return near if "did you mean" in near else ""
