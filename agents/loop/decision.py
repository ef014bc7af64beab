"""What a model's answer means: calls, a question, the end, or nothing that could be carried out. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

from agents.engine.events import Json, canonical
from agents.engine.work.markdown import one_line
from agents.loop.model.ports import ModelReply, ToolDefinition, ToolUse
from agents.loop.record.frames import Action, Control, Frame, PersonAnswered, ToolResult
from agents.loop.record.run import Run
from agents.loop.record.transcript import ASK, GIVE_UP, OWN_TOOLS

OBSERVED_CHARS, MOST_STRUCTURED_CHARS = 160, 100_000
MOST_SAID_CHARS, MOST_ARGUMENTS_CHARS, MOST_CALLS = 200_000, 1_000_000, 32
"""Of one answer: of what a model said, of what a tool is given, and how many calls are made. Vendors are told far less; a server may
not care."""
MOST_NAME_CHARS = 200
MOST_NOTED = 2 * MOST_CALLS
"""Calls of one answer that are on record."""
TOO_MANY = f"one answer may call {MOST_CALLS} tools; call it again in the next one"
_OWN = {ASK: ("ask", "question"), GIVE_UP: ("give_up", "reason")}
"""What a tool of our own means, and the argument that says it."""


@dataclass(frozen=True, slots=True)
class Took:
    """What asking a model took, as frames tell it."""

    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0
    counted: bool = False
    cost_micros: int | None = None
    milliseconds: float = 0.0
    model: str = ""
    request: str = ""


@dataclass(frozen=True, slots=True)
class WantedTool:
    """A tool that the model wants called; `problem` says why it is not."""

    use: ToolUse
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """What a model decided. `text` is what it said, `said` the question or the response, `use` its name for the call that asks.

    `problem`: nothing of it can be carried out, and why. The other fields are as in `Plan`.
    """

    action: Action
    text: str
    wanted: tuple[WantedTool, ...] = ()
    said: str = ""
    use: str = ""
    problem: str = ""
    took: Took = Took()
    echo: Mapping[str, str] | None = None
    observations: tuple[str, ...] = ()
    offered: str = ""


def decided(said: ModelReply, offered: Sequence[ToolDefinition]) -> Decision:
    """Return what an answer means, to which these tools were offered."""
    uses = [_plain(use) for use in said.uses]
    said = _cut(said)
    echo = None
    if said.echo is not None and len(said.echo.content) <= MOST_ARGUMENTS_CHARS:
        echo = {"provider": said.echo.provider, "model": said.echo.model, "content": said.echo.content}
    if not uses:
        return replace(_spoken(said), echo=echo)
    if any(use.name in _OWN for use in uses):
        return replace(_own(said.text, uses), echo=echo)
    names = [tool.name for tool in offered]
    wanted = tuple(WantedTool(use, _problem(use, names)) for use in uses[:MOST_CALLS])
    wanted += tuple(WantedTool(use, TOO_MANY) for use in uses[MOST_CALLS:MOST_NOTED])
    if all(one.problem for one in wanted):
        return Decision("correct", said.text, wanted, problem=wanted[0].problem, echo=echo)
    return Decision("call", said.text, wanted, echo=echo)


def observed(run: Run) -> tuple[str, ...]:
    """Return what became known since the newest plan, a line each."""
    since = run.frames[run.frames.index(run.plan) + 1 :] if run.plan else run.frames
    return tuple(line for line in map(_observed, since) if line)


def digest(offered: Sequence[ToolDefinition]) -> str:
    """Return what tells these definitions from others: the beginning of their SHA-256."""
    told = [[tool.name, tool.description, dict(tool.schema)] for tool in offered]
    return sha256(canonical(told).encode()).hexdigest()[:16]


def _cut(said: ModelReply) -> ModelReply:
    """Return the answer with a text that can be kept."""
    if len(said.text) <= MOST_SAID_CHARS:
        return said
    return replace(said, text=said.text[:MOST_SAID_CHARS], stop="length")


def _spoken(said: ModelReply) -> Decision:
    if said.stop == "length":
        return Decision("correct", said.text, problem="it was cut off because it was too long; say less at once")
    if not said.text.strip():
        return Decision("correct", said.text, problem="it had neither words nor a tool call")
    return Decision("respond", said.text, said=said.text)


def _own(text: str, uses: Sequence[ToolUse]) -> Decision:
    """Return what an answer means that calls a tool of our own."""
    problem = f"{' and '.join(sorted(_OWN))} are called alone, or not at all"
    if len(uses) == 1:
        use = uses[0]
        action, argument = _OWN[use.name]
        words = use.arguments.get(argument)
        if not use.problem and isinstance(words, str) and words.strip():
            return Decision("ask" if action == "ask" else "give_up", text, said=words[:MOST_SAID_CHARS], use=use.id)
        problem = use.problem or f"{use.name} takes {argument!r}, a text"
    return Decision("correct", text, tuple(WantedTool(use, problem) for use in uses), problem=problem)


def _plain(use: ToolUse) -> ToolUse:
    """Return the use with arguments that can be kept: JSON has no infinite numbers, Python's reader takes them."""
    problem, use = "", replace(use, name=use.name[:MOST_NAME_CHARS])
    try:
        if len(canonical(dict(use.arguments))) > MOST_ARGUMENTS_CHARS:
            problem = f"they have more than {MOST_ARGUMENTS_CHARS:,} characters"
    except (TypeError, ValueError, RecursionError):
        problem = "they hold what JSON does not have"
    return replace(use, arguments={}, problem=use.problem or problem) if problem else use


def _problem(use: ToolUse, names: Sequence[str]) -> str:
    """Return why this cannot be called; "" if it can."""
    if use.name not in names:
        near = difflib.get_close_matches(use.name, names, n=3)
        return f"there is no tool {use.name[:60]!r}; {'nearest are' if near else 'there are'} {', '.join(near or names) or 'none'}"
    return f"its arguments could not be read ({use.problem})" if use.problem else ""


def _observed(frame: Frame) -> str:
    match frame:
        case ToolResult(tool=tool, text=text):
            return one_line(f"{tool}: {text}", OBSERVED_CHARS)
        case PersonAnswered(text=text):
            return one_line(f"the person answered: {text}", OBSERVED_CHARS)
        case Control(signal="resumed", proposal=proposal, detail=detail):
            return one_line(f"proposal {proposal}: {detail}", OBSERVED_CHARS)
        case _:
            return ""


def require_ours_free(offered: Sequence[ToolDefinition]) -> None:
    """Return if no tool has a name that we use ourselves, or that of another.

    Raises:
        ValueError: one has: a mistake of whoever offers them.
    """
    names = [tool.name for tool in (*offered, *OWN_TOOLS)]
    if len(set(names)) < len(names):
        raise ValueError("two tools have one name")


def storable_json(value: Json) -> Json:
    """Return the value if it can be kept, else None: what it says in words is kept anyway."""
    try:
        return value if len(canonical(value)) <= MOST_STRUCTURED_CHARS else None
    except (TypeError, ValueError, RecursionError):
        return None
