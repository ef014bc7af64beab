"""What can happen in a run, as frozen values, and the form in which each is kept. Pure.

A run is its header and its frames, nothing else: what a model is told, what a person is told, and where the run stands are all
made of them. A frame that is recorded never changes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from datetime import UTC, datetime
from functools import cache
from typing import Any, ClassVar, Literal, TypeVar, cast, get_args, get_type_hints

from agents.engine.events import Json, canonical
from agents.engine.work.field_types import fits
from agents.loop.errors import UnknownFrame
from knowledge.history.timestamps import utc_text

Action = Literal["call", "ask", "respond", "give_up", "correct"]
"""What a model decided; `correct`: nothing that could be carried out, so it is told what was wrong."""
Limit = Literal["", "iterations", "seconds", "tokens", "cost", "day", "stored"]
"""Which bound was reached; `day`: that of all runs together, `stored`: what its principal may store in runs in a day."""
Signal = Literal[
    "limit_reached",
    "cancelled",
    "suspended",
    "resumed",
    "taken_up",
    "left",
    "shortened",
    "provider_failed",
    "failed",
]


@dataclass(frozen=True, slots=True)
class RunLimits:
    """How far a run may go. None: no bound of that kind.

    `iterations` are answers of a model, `seconds` those in which the run was led and did not wait for a person, `tokens` those in
    and out together. `cost_micros` are millionths of the currency in which prices are told. `context_tokens` is how much of a
    model's room is used for what it is told, by the project's measure, and `answer_tokens` the longest answer.
    """

    iterations: int = 5
    seconds: float = 60.0
    tokens: int | None = 200_000
    cost_micros: int | None = None
    context_tokens: int = 24_000
    answer_tokens: int = 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What a run begins with. `context` is what is known already; `model` is who is asked, as `vendor:model`."""

    TYPE: ClassVar[str] = "run"
    id: str
    goal: str
    principal: str
    begun_at: datetime
    context: str = ""
    toolsets: tuple[str, ...] = ()
    model: str = ""
    limits: RunLimits = field(default_factory=RunLimits)


@dataclass(frozen=True, slots=True, kw_only=True)
class _PlacedFrame:
    """A frame in its place: `number` counts a run's frames from 0 without gaps, `iteration` a model's answers, 0 before the first."""

    id: str
    run: str
    number: int
    at: datetime
    iteration: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asking(_PlacedFrame):
    """What asking a model took. `counted`: it did not say, and the tokens are those of the texts. None: nobody knows the price."""

    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0
    counted: bool = False
    cost_micros: int | None = None
    milliseconds: float = 0.0
    model: str = ""
    request: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFrame(_Asking):
    """A model's answer: what it said (`reasoning`), and what it decided to do next. Its calls, question or response are linked to it.

    `observations` are the results since the plan before, a line each. `limit` is the number of iterations that the run has.
    `problem` says why nothing of it could be carried out. `echo` is what the provider wants back with the answer, word for word.
    `offered` is a digest of the definitions of the tools that it could choose from.
    """

    TYPE: ClassVar[str] = "plan"
    goal: str
    reasoning: str
    next_action: Action
    limit: int
    observations: tuple[str, ...] = ()
    problem: str = ""
    offered: str = ""
    echo: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallFrame(_PlacedFrame):
    """A tool is to be called. On record before it is; `use` is the model's own name for the call.

    `problem`: why it is not: there is no such tool, say. `unread`: the arguments could not be read, in the provider's words.
    `reasoning` is why the model wants it.
    """

    TYPE: ClassVar[str] = "tool_call"
    plan: str
    tool: str
    use: str
    arguments: Mapping[str, Json] = field(default_factory=dict)
    reasoning: str = ""
    problem: str = ""
    unread: str = ""

    @property
    def key(self) -> str:
        """Return what the call can be looked up by where it was carried out: the same for ever, and no other's."""
        return f"{self.run}/{self.id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult(_PlacedFrame):
    """What came of a call, as the model is told it (`text`). `error` says in a sentence what went wrong where it was no success.

    `unsure`: nobody knows whether it was done. `proposal`: it was not done, a person decides about it. `called` is false where the
    tool was never called.
    """

    TYPE: ClassVar[str] = "tool_result"
    call: str
    tool: str
    success: bool
    text: str
    structured: Json = None
    error: str = ""
    milliseconds: float = 0.0
    proposal: str = ""
    unsure: bool = False
    called: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseFrame(_PlacedFrame):
    """The end: what the run has to say. `trace` is the run in a few lines."""

    TYPE: ClassVar[str] = "response"
    plan: str
    text: str
    goal_achieved: bool
    iterations: int
    tools_called: tuple[str, ...] = ()
    trace: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskUser(_PlacedFrame):
    """A person is asked, and the run waits. The question is the model's (`plan`, `use`), or that of a tool (`call`)."""

    TYPE: ClassVar[str] = "ask_user"
    question: str
    plan: str = ""
    use: str = ""
    call: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonAnswered(_PlacedFrame):
    """What a person answered. `by` is who they are, or the host that relays it."""

    TYPE: ClassVar[str] = "answered"
    ask: str
    text: str
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Control(_Asking):
    """The run stops, waits or goes on for a reason outside of the model. `detail` says it in a sentence.

    `suspended` names the `proposal` that a person decides about, `resumed` says what became of it. `taken_up`: another process
    goes on. `left`: who led it cannot ask the model, and another process may, or any may later. `shortened`: a model has no room
    for what it is told, from now on it is told `context_tokens` at most.
    """

    TYPE: ClassVar[str] = "control"
    signal: Signal
    detail: str
    limit: Limit = ""
    proposal: str = ""
    context_tokens: int = 0


Frame = PlanFrame | ToolCallFrame | ToolResult | ResponseFrame | AskUser | PersonAnswered | Control
_BY_TYPE: Mapping[str, type[Frame]] = {kind.TYPE: kind for kind in get_args(Frame)}
_T = TypeVar("_T")


def frame_text(frame: Frame) -> str:
    """Return the frame as JSON with its type; what it leaves at its default is left out.

    Raises:
        ValueError: something in it is no JSON, or its time has no zone: a mistake of the caller.
    """
    return canonical({"type": frame.TYPE, **_form(frame)})


def frame_of(text: str) -> Frame:
    """Return the frame of which `frame_text` made that text.

    Raises:
        UnknownFrame: it is none of ours.
    """
    form = _object(text)
    type_ = form.pop("type", "")
    kind = _BY_TYPE.get(type_) if isinstance(type_, str) else None
    if kind is None:
        raise UnknownFrame(str(type_), "there is no such type")
    return _made(kind, type_, form)


def header_text(header: Header) -> str:
    """Return the header as JSON; what it leaves at its default is left out, its limits are told whole.

    Raises:
        ValueError: its time has no zone: a mistake of the caller.
    """
    limits = {f.name: getattr(header.limits, f.name) for f in fields(RunLimits)}
    return canonical({**_form(header), "limits": limits})


def header_of(text: str) -> Header:
    """Return the header of which `header_text` made that text.

    Raises:
        UnknownFrame: it is none.
    """
    form = _object(text)
    limits = form.get("limits")
    if not isinstance(limits, dict):
        raise UnknownFrame(Header.TYPE, "it has no limits")
    return _made(Header, Header.TYPE, {**form, "limits": _made(RunLimits, "limits", limits)})


def _form(record: Frame | Header) -> dict[str, Json]:
    told = {}
    for one in fields(record):
        value = getattr(record, one.name)
        usual = one.default_factory() if one.default_factory is not MISSING else one.default
        if value != usual:
            told[one.name] = utc_text(value) if isinstance(value, datetime) else value
    return told


def _object(text: str) -> dict[str, Json]:
    try:
        return dict(json.loads(text))
    except (TypeError, ValueError) as error:
        raise UnknownFrame("", "it is no JSON object") from error


def _made(kind: type[_T], type_: str, form: Mapping[str, Json]) -> _T:
    hints = _hints(cast("type", kind))
    told = {name: _value(hints[name][0], value) if name in hints else value for name, value in form.items()}
    try:
        made = kind(**told)
    except TypeError as error:
        raise UnknownFrame(type_, str(error).rpartition("() ")[2]) from error
    for name, (_, of_kind) in hints.items():
        if not of_kind(getattr(made, name)):
            raise UnknownFrame(type_, f"its {name} is of another kind")
    return made


@cache
def _hints(kind: type) -> Mapping[str, tuple[Any, Any]]:
    """Return for each field its type, and what tells whether a value is of it."""
    hints = get_type_hints(kind)
    return {one.name: (hints[one.name], fits(hints[one.name])) for one in fields(kind)}


def _value(hint: Any, value: Json) -> Any:
    """Return a value from JSON as the field has it: times and tuples have no JSON of their own."""
    if hint is datetime and isinstance(value, str):
        try:
            at = datetime.fromisoformat(value)
            return at.astimezone(UTC) if at.tzinfo else value
        except (ValueError, OverflowError):
            return value
    return tuple(value) if isinstance(value, list) and hint is not Any else value
