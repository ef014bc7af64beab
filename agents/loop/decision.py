"""The meaning of a model's reply: calls, a question, the end, or nothing that can be carried out. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256

from agents.engine.events import Json, canonical
from agents.engine.work.markdown import one_line
from agents.loop.answer.goal_check import DO, WHY, Answered, lack, repeats_itself
from agents.loop.answer.written_calls import calls_in
from agents.loop.model.ports import ModelReply, ToolDefinition, ToolUse
from agents.loop.record.frames import Action, Control, PersonAnswered, RequestCost, ToolResult
from agents.loop.record.run import Run
from agents.loop.record.transcript import ASK, GIVE_UP, OWN_TOOLS

OBSERVED_CHARS, MOST_STRUCTURED_CHARS = 160, 100_000
MOST_SAID_CHARS, MOST_ARGUMENTS_CHARS, MOST_CALLS = 200_000, 1_000_000, 32
"""Limits of one reply: its text, one call's arguments, and the calls made. We ask for far less, but a server may ignore that."""
MOST_NAME_CHARS, MOST_REPEATED = 200, 500
MOST_NOTED = 2 * MOST_CALLS
"""Calls of one reply that are recorded."""
TOO_MANY = f"one answer may call {MOST_CALLS} tools; call it again in the next one"
_OWN: Mapping[str, tuple[Action, str]] = {ASK: ("ask", "question"), GIVE_UP: ("give_up", "reason")}
"""For each of our own tools: the decision that calling it means, and the argument with its text."""


@dataclass(frozen=True, slots=True)
class WantedTool:
    """A call that the model wants; `problem` says why it is not made."""

    use: ToolUse
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """A model's decision. `text` is the text of its reply, `said` the question or the response.

    `use`: the id of the call that asks. `problem`: why none of the reply can be carried out. `lacks`: why a response does not achieve
    the goal. The other fields are as in `PlanFrame`.
    """

    action: Action
    text: str
    wanted: tuple[WantedTool, ...] = ()
    said: str = ""
    use: str = ""
    problem: str = ""
    lacks: str = ""
    cost: RequestCost = field(default_factory=RequestCost)
    echo: Mapping[str, str] | None = None
    observations: tuple[str, ...] = ()
    offered: str = ""


def interpret_reply(reply: ModelReply, offered: Sequence[ToolDefinition], run: Run) -> Decision:
    """Return the decision in a reply to a request of the run that offered these tools."""
    text, cut = reply.text[:MOST_SAID_CHARS], reply.stop == "length" or len(reply.text) > MOST_SAID_CHARS
    names = [tool.name for tool in offered]
    written, said = _written_uses(text, names, run) if not reply.uses and not cut else ((), text)
    uses = [_storable_use(use) for use in reply.uses or written]
    text = said if written else text
    # First, because a call that asks a person or gives up contradicts any other call beside it: then none is made.
    if any(use.name in _OWN for use in uses):
        decision = _interpret_own(text, uses)
    elif uses:
        wanted = [WantedTool(use, _problem(use, names)) for use in uses[:MOST_CALLS]]
        # Recorded as well, so that the model gets an answer to each call that it made.
        wanted += [WantedTool(use, TOO_MANY) for use in uses[MOST_CALLS:MOST_NOTED]]
        decision = Decision("call", text, tuple(wanted))
        # One call that can be made is enough: the model learns about the others from their results.
        if all(one.problem for one in wanted):
            decision = replace(decision, action="correct", problem=wanted[0].problem)
    elif repeats_itself(text):
        # Without the repetitions, which a model that reads them would continue.
        decision = Decision("correct", text[:MOST_REPEATED], problem=f"{WHY['loop']}; {DO['loop']}")
    elif cut:  # only without calls: a call whose arguments were cut off says so itself
        decision = Decision("correct", text, problem="it was cut off because it was too long; say less at once")
    elif not text.strip():
        decision = Decision("correct", text, problem="it had neither words nor a tool call")
    else:
        decision = _interpret_answer(text, offered, run)
    echo = reply.echo
    if echo is None or len(echo.content) > MOST_ARGUMENTS_CHARS:
        return decision
    return replace(decision, echo={"provider": echo.provider, "model": echo.model, "content": echo.content})


def _interpret_answer(text: str, offered: Sequence[ToolDefinition], run: Run) -> Decision:
    """Return the decision in an answer without a call: the end of the run, or one chance to do better."""
    lacks = lack(text, measured_by(run, offered))
    if lacks is None:
        return Decision("respond", text, said=text)
    # An honest "I do not know" is an end. For anything else there is one chance, if there is another iteration.
    if lacks != "unknown" and not run.invalid_answers and run.iterations + 1 < run.header.limits.iterations:
        return Decision("correct", text, problem=f"{WHY[lacks]}; {DO[lacks]}")
    return Decision("respond", text, said=text, lacks=WHY[lacks])


def measured_by(run: Run, offered: Sequence[ToolDefinition]) -> Answered:
    """Return what an answer of the run is measured by."""
    results = [frame.text for frame in run.frames if isinstance(frame, ToolResult) and frame.success]
    decided = [frame.detail for frame in run.frames if isinstance(frame, Control) and frame.signal == "resumed"]
    answers = [frame.text for frame in run.frames if isinstance(frame, PersonAnswered)]
    return Answered(
        run.header.goal,
        read=[run.header.context, *results, *decided, *answers],
        tools=[f"{tool.name}: {tool.description.partition('.')[0]}" for tool in offered],
        acted=bool(results or decided),
    )


def _written_uses(text: str, names: Sequence[str], run: Run) -> tuple[Sequence[ToolUse], str]:
    """Return the calls that the model wrote as text, and its text before them. A call that it read somewhere is a quotation."""
    calls, before = calls_in(text, {*names, *_OWN})
    if not calls:
        return (), text
    region = text.replace(before, "", 1).strip()
    if any(region in one for one in measured_by(run, ()).read):
        return (), text
    # Nine letters and digits, because Mistral's servers accept no other ids.
    ids = (sha256(f"{run.id}/{run.count}/{place}".encode()).hexdigest()[:9] for place in range(len(calls)))
    uses = [ToolUse(id_, call.name, call.arguments, call.problem) for id_, call in zip(ids, calls, strict=False)]
    return uses, before


def _interpret_own(text: str, uses: Sequence[ToolUse]) -> Decision:
    """Return the decision in a reply that calls a tool of our own."""
    problem = f"{' and '.join(sorted(_OWN))} are called alone, or not at all"
    if len(uses) == 1:
        use = uses[0]
        action, argument = _OWN[use.name]
        said = use.arguments.get(argument)
        if not use.problem and isinstance(said, str) and said.strip():
            return Decision(action, text, said=said[:MOST_SAID_CHARS], use=use.id)
        problem = use.problem or f"{use.name} takes {argument!r}, a text"
    return Decision("correct", text, tuple(WantedTool(use, problem) for use in uses), problem=problem)


def _storable_use(use: ToolUse) -> ToolUse:
    """Return the use with arguments that can be stored: JSON has no infinite numbers, but Python's decoder accepts them."""
    use, problem = replace(use, name=use.name[:MOST_NAME_CHARS]), ""
    try:
        if len(canonical(dict(use.arguments))) > MOST_ARGUMENTS_CHARS:
            problem = f"they have more than {MOST_ARGUMENTS_CHARS:,} characters"
    except (TypeError, ValueError, RecursionError):
        problem = "they hold values that JSON does not have"
    return replace(use, arguments={}, problem=use.problem or problem) if problem else use


def _problem(use: ToolUse, names: Sequence[str]) -> str:
    """Return why this cannot be called; "" if it can."""
    if use.name not in names:
        near = difflib.get_close_matches(use.name, names, n=3)
        return f"there is no tool {use.name[:60]!r}; {'nearest are' if near else 'there are'} {', '.join(near or names) or 'none'}"
    return f"its arguments could not be read ({use.problem})" if use.problem else ""


def new_observations(run: Run) -> tuple[str, ...]:
    """Return the results, answers and decisions since the newest plan, one line each."""
    lines = []
    for frame in run.frames[run.frames.index(run.plan) + 1 :] if run.plan else run.frames:
        match frame:
            case ToolResult(tool=tool, text=text):
                lines.append(one_line(f"{tool}: {text}", OBSERVED_CHARS))
            case PersonAnswered(text=text):
                lines.append(one_line(f"the person answered: {text}", OBSERVED_CHARS))
            case Control(signal="resumed", proposal=proposal, detail=detail):
                lines.append(one_line(f"proposal {proposal}: {detail}", OBSERVED_CHARS))
            case _:
                pass
    return tuple(lines)


def tools_digest(offered: Sequence[ToolDefinition]) -> str:
    """Return the beginning of the SHA-256 of these definitions."""
    listed = [[tool.name, tool.description, dict(tool.schema)] for tool in offered]
    return sha256(canonical(listed).encode()).hexdigest()[:16]


def check_tool_names(offered: Sequence[ToolDefinition]) -> None:
    """Check that no two tools, including our own, have the same name.

    Raises:
        ValueError: two tools have one name: a mistake of the caller.
    """
    names = [tool.name for tool in (*offered, *OWN_TOOLS)]
    if len(set(names)) < len(names):
        raise ValueError("two tools have the same name")


def storable_json(value: Json) -> Json:
    """Return the value if it can be stored; else None, because the text that is stored with it has the same content."""
    try:
        return value if len(canonical(value)) <= MOST_STRUCTURED_CHARS else None
    except (TypeError, ValueError, RecursionError):
        return None
