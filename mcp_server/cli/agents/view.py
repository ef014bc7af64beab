"""Lay out an agent as lines of a terminal, with every character that others wrote visible. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agents.engine.agent import Agent, ModelAdvice
from agents.engine.events import canonical
from mcp_server.cli.terminal.escape import visible


def shown(agent: Agent, diagram: str, phases: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return an agent's purpose, inputs, models, phases and diagram as lines."""
    lines = [f"{agent.title} ({agent.name}, {agent.origin})", agent.summary, *_inputs(agent)]
    lines += [*profile_lines(agent.profile), *_models(agent.models)]
    for phase in phases:
        lines += _phase(agent, phase)
    lines += ["", "Diagram (Mermaid):", diagram.rstrip()]
    return [visible(line).rstrip() for text in lines for line in text.split("\n")]


def _inputs(agent: Agent) -> Iterator[str]:
    required = agent.inputs.get("required", ())
    for name, described in agent.inputs.get("properties", {}).items():
        yield f"input {name}{' (required)' if name in required else ''}: {described.get('description', '')}"


def profile_lines(profile: Mapping[str, Any]) -> list[str]:
    """Return an agent's profile: its purpose, steps and budget, and the order in which its context is trimmed."""
    lines = [f"{name}: {_value(name, value)}" for name, value in profile.items() if name != "parts"]
    return lines + [_part(part) for part in profile.get("parts", ())]


def _value(name: str, value: Any) -> str:
    if name == "budget" and isinstance(value, Mapping):
        limits = ((value.get("input"), "in"), (value.get("output"), "out"))
        return ", ".join(f"{tokens:,} tokens {where}" for tokens, where in limits if tokens)
    if name == "priority" and isinstance(value, list | tuple):
        return f"{', '.join(map(str, value))} (trimmed last, in this order)"
    if name == "steps" and isinstance(value, list | tuple):
        return f"{len(value)}: {', '.join(map(str, value))}"
    if isinstance(value, list | tuple) and all(isinstance(one, str) for one in value):
        return ", ".join(value)
    return value if isinstance(value, str) else canonical(value)


def _part(part: Mapping[str, Any]) -> str:
    """Return a part of a larger agent as one line."""
    steps = part.get("steps", ())
    count = len(steps) if isinstance(steps, list | tuple) else steps
    facts = [str(part["function"])] if part.get("function") else []
    facts += [f"{count} steps"] if count else []
    facts += [_value("budget", part["budget"])] if part.get("budget") else []
    return f"part {part['part']}: {part['agent']}" + (f" ({', '.join(facts)})" if facts else "")


def _models(models: Mapping[str, ModelAdvice]) -> Iterator[str]:
    for whose, advice in models.items():
        example = f", such as {advice.example}" if advice.example else ""
        yield f"model{f' of {whose}' if whose else ''}: {advice.model_class}{example}: {advice.reason}"


def _phase(agent: Agent, phase: Mapping[str, Any]) -> Iterator[str]:
    name = str(phase["phase"])
    begins = " (starts here)" if name == agent.graph.initial else ""
    ends = " (complete)" if name in agent.graph.complete else ""
    yield ""
    yield f"{name}{begins}{ends}" + (f": {phase['purpose']}" if phase["purpose"] else "")
    if phase["automatic"]:
        yield "  automatic: run by the server"
    yield from _asked(phase)
    if phase["speaker"]:
        yield f"  conversation: {phase['speaker']}{', a new one with each visit' if phase['fresh'] else ''}"
    if phase["budget"]:
        yield f"  budget: {_value('budget', phase['budget'])}"
    if not phase["automatic"]:
        yield f"  tools: {', '.join(phase['allowed_tools']) or 'none'}"
    if phase["work_schema"]:
        yield f"  work: {', '.join(phase['work_schema'].get('properties', {}))}"
    yield from map(_transition, phase["transitions"])
    for title, text in (("prompt", phase["prompt"]), ("prompt on a return", phase["prompt_again"])):
        if text:
            yield f"  {title}:"
            yield from (f"    {line}" for line in str(text).splitlines())


def _asked(phase: Mapping[str, Any]) -> Iterator[str]:
    hand = ", answered by the person only" if phase["verified"] else ""
    if phase["checkpoint"] != "none":
        yield f"  checkpoint: {phase['checkpoint']}{hand}: {phase['question']}"
    elif phase["question"] or hand:  # only some of its transitions ask
        yield f"  a person is asked{hand}: {phase['question']}"


def _transition(one: Mapping[str, Any]) -> str:
    verb = "returns" if one["is_backward"] else "moves"
    asks = f", once a person has answered the questions in `{one['asks']}`" if one["asks"] else ""
    checkpoint = f", checkpoint: {one['checkpoint']}" if one["checkpoint"] else ""
    anew = ", and every conversation starts over" if one["anew"] else ""
    return f"  {verb} to {one['to']} on {one['condition']}{asks}{checkpoint}{anew}"
