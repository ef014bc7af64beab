"""The transitions between the phases of a team's agent, and their conditions. Pure."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field

from agents.engine.decide import REJECTED
from agents.engine.graph import ALWAYS, CHECKPOINT_KINDS, CheckpointKind, Transition
from agents.spec.predicates.conditions import read_condition
from agents.spec.problems import meant, short
from agents.spec.schema.json_schema import described
from agents.spec.yaml.block import FileBlock, known, read_block
from agents.spec.yaml.reader import AgentFileReading, ReadTransition, listed
from agents.spec.yaml.values import Marked

CONDITION_NAME = re.compile(r"[a-z][a-z0-9_]{0,59}")
MOST_TRANSITIONS, MOST_CONDITIONS = 60, 60


class TransitionBlock(FileBlock):
    """A transition as its file writes it."""

    source: str = Field(alias="from", min_length=1)
    target: str = Field(alias="to", min_length=1)
    condition: str = Field(default=ALWAYS, max_length=60)
    is_backward: bool = False
    priority: int = Field(default=0, ge=-100, le=100)
    asks: str = Field(default="", max_length=60)
    anew: bool = False
    checkpoint: Annotated[CheckpointKind | Literal[""], known(CHECKPOINT_KINDS, "has the unknown checkpoint {}")] = ""


def read_transitions(top: Marked, reading: AgentFileReading) -> None:
    """Read the transitions between phases."""
    for item in listed(top, "transitions", MOST_TRANSITIONS, reading.problems):
        block = read_block(TransitionBlock, item, _named(item), reading.problems)
        if block is None:
            reading.transitions_broken = True
            continue
        _check_transition(block, item, reading)
        fields = {name: getattr(block, name) for name in TransitionBlock.model_fields}
        reading.transitions.append(ReadTransition(Transition(**fields), item.line, item.line_at(["condition"])))
    for need in reading.needs:
        leaving = [read.transition for read in reading.transitions if read.transition.source == need.phase]
        asks_person = any(one.checkpoint in need.kinds or (need.asks and one.asks) for one in leaving)
        # A transition that could not be read may be the one that asks.
        if not asks_person and not reading.transitions_broken:
            reading.problems.add(need.line, need.text)


def _named(item: Marked) -> str:
    """Return a transition's name in messages: its phases, if it has both."""
    ends = [item.entries[key].value for key in ("from", "to") if key in item.entries]
    return f"the transition {ends[0]} -> {ends[1]}" if len(ends) == 2 else "a transition"


def _check_transition(block: TransitionBlock, item: Marked, reading: AgentFileReading) -> None:
    """Report what does not fit together, in the transition or with the rest of the agent."""
    what, problems = f"the transition {block.source} -> {block.target}", reading.problems
    for key, end in (("from", block.source), ("to", block.target)):
        if reading.phases and end not in reading.names:
            text = f"a transition names {short(end)}, which is not a phase{meant(end, reading.names)}"
            problems.add(item.line_at([key]), text)
    if block.checkpoint and block.is_backward:
        text = f"{what} is backward, so it can't have a checkpoint: leave it out"
        problems.add(item.line_at(["checkpoint"]), text)
    if block.condition == REJECTED and not block.is_backward:
        text = f"{what} on {REJECTED} is forward: a rejection only leads back (is_backward)"
        problems.add(item.line_at(["condition"]), text)
    for read in reading.transitions:
        t = read.transition
        if (t.source, t.target, t.condition) == (block.source, block.target, block.condition):
            problems.add(item.line, f"{what} is a duplicate, first at line {read.line}")
            break
    form = reading.forms.get(block.source)
    for parts in ([block.asks], [block.asks, "id"], [block.asks, "question"]) if block.asks and form else ():
        if form is not None and (lacking := described(form.described, parts)) is not None:
            part, there = lacking
            text = (
                f"the transition asks the questions in {short(block.asks)}, a list of objects with `id` and `question`; the work "
                f"of {block.source} has no {short(part)} there{meant(part, there)}"
            )
            problems.add(item.line_at(["asks"]), text)
            return


def read_conditions(top: Marked, reading: AgentFileReading) -> None:
    """Read the conditions, and report those that no transition uses and those that do not exist."""
    found = top.take("conditions") or Marked({}, top.line)
    entries, line = found.entries, top.line_at(["conditions"])
    if not isinstance(found.value, dict):
        reading.problems.add(line, f"'conditions' must be a mapping of names to predicates, not {found.kind}")
    if len(entries) > MOST_CONDITIONS:
        reading.problems.add(line, f"there are {len(entries)} conditions, at most {MOST_CONDITIONS} are allowed")
        return
    used = {read.transition.condition for read in reading.transitions}
    for name, marked in entries.items():
        line = found.key_lines[name]
        reading.condition_lines[name] = line
        if name in (ALWAYS, REJECTED) or not CONDITION_NAME.fullmatch(name):
            text = (
                f"a condition cannot be called {short(name)}: use small letters, digits and underscores, and not {ALWAYS} or "
                f"{REJECTED}"
            )
            reading.problems.add(line, text)
        # A transition that could not be read may be the one that uses it.
        if name not in used and not reading.transitions_broken:
            reading.problems.add(
                line, f"condition {short(name)} is used by no transition{meant(name, used, otherwise='')}"
            )
        read = read_condition(name, marked, reading.names, reading.tools, reading.problems)
        if read is not None:
            reading.conditions[name] = read
    for one in reading.transitions:
        t = one.transition
        if t.condition not in (ALWAYS, REJECTED, *entries, *reading.checks):
            text = f"the transition {t.source} -> {t.target} has the unknown condition {short(t.condition)}"
            reading.problems.add(one.condition_line, text + meant(t.condition, entries))
