"""What comes after the present phase, for a host that submits the work of several phases at once. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from agents.engine.agent import Agent
from agents.engine.events import Json
from agents.engine.graph import Phase
from agents.engine.work.form import DROP
from agents.engine.work.several import Recorded, beginning, stretch
from agents.prompts.prompt import COMMON, INPUT_TOKENS, input_values, placeholders, render
from knowledge.tokens import count_tokens

AHEAD_TOKENS = 1_800
"""Tokens of the phases described at once: enough for all steps of each agent here. The rest is described when the work gets there."""
TOGETHER = (
    'These phases come next. Submit their work with this one if you can: `work` is then {{"{first}": {{...}}, "{second}": {{...}}}}, '
    "in this order. Each is judged and recorded by itself; the first that is not enough, or at which a person is asked, ends it."
)
TOLD = "Next, as described before: {names}. Submit their work together with this one if you can."
ACTS = "{names}: only once {phase} is the present phase; submit the work before it first if you need it."
"""For a tool that changes something: an act is made after the work before it is recorded."""
OWN = "(what you record)"
"""Shown in place of the work of a phase that is still to be done."""
LONG = "(an input of this journey)"
"""Shown in place of an input that is too long to repeat here."""


def described(agent: Agent, phase: str) -> Sequence[Phase]:
    """Return the phases after `phase` that `ahead` describes, whatever the journey's texts are.

    The phases of a stretch are described in fixed groups, each of as many phases as fit. A host in any phase of a group
    was given the instructions for the later ones.
    """
    group, left = [beginning(agent, phase)], AHEAD_TOKENS
    for one in stretch(agent, group[0]):
        left -= count_tokens(_template(agent, one)) + count_tokens(form_text(agent.forms[one.name].schema))
        if left < 0:
            if phase in group:
                break
            group, left = [], AHEAD_TOKENS
        group.append(one.name)
    return [agent.graph.phase(name) for name in group[group.index(phase) + 1 :]] if phase in group else []


def tools_here(agent: Agent, phase: str, listed: Collection[str], acting: Collection[str]) -> Sequence[str]:
    """Return the listed tools of the phase, and those of the phases described with it that change nothing."""
    following = [name for one in described(agent, phase) for name in one.tools if name not in acting]
    return [name for name in dict.fromkeys([*agent.graph.phase(phase).tools, *following]) if name in listed]


def told_with(agent: Agent, phase: str) -> Collection[str]:
    """Return the phases that a host has instructions for when it works on `phase`: that one, and those described with it."""
    return [phase, *(one.name for one in described(agent, phase))]


def ahead(
    agent: Agent,
    phase: str,
    acting: Collection[str],
    *,
    known: Collection[str] = (),
    inputs: Mapping[str, Json] | None = None,
) -> str:
    """Return instructions and forms of the phases that can be submitted with `phase`; "" if there are none.

    The host was given those of the phases `known`, so they are only named. Short `inputs` of the journey are shown in full.
    """
    phases = described(agent, phase)
    told = [one.name for one in phases if one.name in known] if phase in known else []
    new = [one for one in phases if one.name not in told]
    parts = [TOLD.format(names=", ".join(told))] if told else []
    if new:
        parts.append(TOGETHER.format(first=phase, second=phases[0].name))
        parts += [_shown(agent, one, acting, inputs or {}) for one in new]
    return "\n\n".join(parts)


def outcome(recorded: Recorded) -> str:
    """Return how far a submission for several phases came; "" if it was for one phase."""
    if len(recorded.phases) < 2 and not recorded.unused:
        return ""
    said = f"Recorded: {', '.join(recorded.phases)}."
    if recorded.why:
        said += f" {recorded.unused[0]} was not: {recorded.why}."
    left = recorded.unused[1:] if recorded.why else recorded.unused
    return f"{said} Not used: {', '.join(left)}." if left else said


def form_text(schema: Mapping[str, Json]) -> str:
    """Return a JSON schema of a work in short: `{parts: [{id, text, needs?: [string]}]}`; text is the usual type."""
    return _form(schema, top=True)


def _shown(agent: Agent, phase: Phase, acting: Collection[str], inputs: Mapping[str, Json]) -> str:
    title = f"## {phase.name}" + (f": {phase.purpose}" if phase.purpose else "")
    done = f"Enough when: {phase.exit}" if phase.exit else ""
    template = _template(agent, phase)
    given = {name: text if count_tokens(text) <= INPUT_TOKENS else LONG for name, text in input_values(inputs).items()}
    later = dict.fromkeys((name for name in placeholders(template) - COMMON if not name.startswith("inputs.")), OWN)
    text = render(template, {**later, **given, "agent": agent.title, "phase": phase.name}).strip()
    form = f"Work: {form_text(agent.forms[phase.name].schema)}"
    acts = ", ".join(name for name in phase.tools if name in acting)
    apart = ACTS.format(names=acts, phase=phase.name) if acts else ""
    return "\n".join(part for part in (title, done, text, apart, form) if part)


def _template(agent: Agent, phase: Phase) -> str:
    return agent.texts.get(phase.prompt, "")


def _form(schema: Json, *, top: bool = False) -> str:
    if not isinstance(schema, Mapping):
        return "anything"
    if isinstance(values := schema.get("enum"), list):
        return "|".join(str(value) for value in values)
    if isinstance(fields := schema.get("properties"), Mapping):
        needed = schema.get("required")
        return "{" + ", ".join(_fields(fields, needed if isinstance(needed, list) else [], top=top)) + "}"
    if isinstance(items := schema.get("items"), Mapping):
        return f"[{_form(items)}]"
    return str(schema.get("type", "anything"))


def _fields(fields: Mapping[str, Json], needed: Collection[Json], *, top: bool) -> Sequence[str]:
    found = []
    for name, field in fields.items():
        if top and name == DROP:
            continue
        form = _form(field)
        said = field.get("description") if isinstance(field, Mapping) else None
        # At the top, whether a field may be left out is up to the phase's conditions.
        optional = "" if top or name in needed else "?"
        found.append(f"{name}{optional}" + (f": {form}" if form != "string" else "") + (f" ({said})" if said else ""))
    return found
