"""The steps of a run as frozen values, and the form in which each is stored. Pure.

A run is its header and its frames, nothing else: the messages to the model, the texts for people, and the state of the run are all
computed from them. A recorded frame never changes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from datetime import UTC, datetime
from functools import cache
from typing import Any, ClassVar, Literal, TypeVar, cast, get_args, get_type_hints

from agents.engine.events import Json, canonical
from agents.engine.work.field_types import fits
from agents.loop.errors import UnknownFrame
from knowledge.history.timestamps import utc_text

Action = Literal["call", "ask", "respond", "give_up", "correct"]
"""The model's decision; `correct`: nothing in its answer can be carried out, so it is sent back with the reason."""
Limit = Literal["", "iterations", "seconds", "tokens", "cost", "day", "stored"]
"""The limit that was reached; `day`: that of all runs together, `stored`: how much its principal may store in runs in a day."""
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
    """The limits of a run. None: no limit of that kind.

    `iterations` are answers of the model, `seconds` those in which a process led the run (waiting for a person does not count),
    `tokens` those in and out together. `cost_micros` are millionths of the currency of the prices. `context_tokens` limits what the
    model is sent, in tokens as the project estimates them, and `answer_tokens` each of its answers.
    """

    iterations: int = 5
    seconds: float = 60.0
    tokens: int | None = 200_000
    cost_micros: int | None = None
    context_tokens: int = 24_000
    answer_tokens: int = 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What a run begins with. `context` is what is known already, `model` the model to ask, as `vendor:model`."""

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
    """The place of a frame: `number` counts a run's frames from 0 without gaps, `iteration` the model's answers from 1."""

    id: str
    run: str
    number: int
    at: datetime
    iteration: int


@dataclass(frozen=True, kw_only=True)  # no slots: a class can have only one base with them
class RequestCost:
    """What a request to the model took. `counted`: the vendor reported nothing, and the tokens are estimates.

    `cost_micros` None: nobody knows the price. `model` is the one that answered, `request` the vendor's id of the request.
    """

    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0
    counted: bool = False
    cost_micros: int | None = None
    milliseconds: float = 0.0
    model: str = ""
    request: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFrame(_PlacedFrame, RequestCost):
    """An answer of the model: its text (`reasoning`) and its decision. Its calls, question or response link to this frame.

    `observations` are the results since the previous plan, one line each. `limit` is the run's number of iterations. `problem` says
    why nothing in the answer could be carried out. `echo` is what the provider wants back unchanged with it. `offered` is a digest of
    the tools that the model could choose from.
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
    """A call to make, recorded before it is made; `use` is the model's own id of the call.

    `problem`: why it is not made, for example because there is no such tool. `unread`: why the arguments could not be read, in the
    provider's words. `reasoning` is why the model wants it.
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
        """Return the key under which the call can be looked up where it was carried out; it is unique and never changes."""
        return f"{self.run}/{self.id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult(_PlacedFrame):
    """The outcome of a call. `text` is what the model gets; `error` says what went wrong if it was no success.

    `unsure`: nobody knows whether it was done. `proposal`: not done yet, a person decides about it. `called` is false if the tool was
    never called.
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
    """The end: the run's answer. `trace` is the run in a few lines."""

    TYPE: ClassVar[str] = "response"
    plan: str
    text: str
    goal_achieved: bool
    iterations: int
    tools_called: tuple[str, ...] = ()
    trace: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskUser(_PlacedFrame):
    """A question to a person; the run waits for the answer. It is the model's question (`plan`, `use`) or a tool's (`call`)."""

    TYPE: ClassVar[str] = "ask_user"
    question: str
    plan: str = ""
    use: str = ""
    call: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonAnswered(_PlacedFrame):
    """A person's answer. `by` is the person, or the host that relays the answer."""

    TYPE: ClassVar[str] = "answered"
    ask: str
    text: str
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Control(_PlacedFrame, RequestCost):
    """The run stops, waits or continues for a reason outside the model, which `detail` says in a sentence.

    `suspended` names the `proposal` that a person decides about, `resumed` says what became of it. `taken_up`: another process
    continues the run. `left`: its process cannot ask the model now; another process may, or any process later. `shortened`: the
    history did not fit into the model, so from now on it is sent at most `context_tokens`.
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
    """Return the frame as JSON with its type, without the fields that have their default.

    Raises:
        ValueError: something in it is not JSON, or its time has no zone: a mistake of the caller.
    """
    return canonical({"type": frame.TYPE, **_changed_fields(frame)})


def frame_of(text: str) -> Frame:
    """Return the frame from which `frame_text` made that text.

    Raises:
        UnknownFrame: there is no such frame.
    """
    form = _object(text)
    type_ = form.pop("type", "")
    kind = _BY_TYPE.get(type_) if isinstance(type_, str) else None
    if kind is None:
        raise UnknownFrame(str(type_), "there is no such type")
    return _build(kind, type_, form)


def header_text(header: Header) -> str:
    """Return the header as JSON, with all of its limits, and without the other fields that have their default.

    Raises:
        ValueError: its time has no zone: a mistake of the caller.
    """
    return canonical({**_changed_fields(header), "limits": asdict(header.limits)})


def header_of(text: str) -> Header:
    """Return the header from which `header_text` made that text.

    Raises:
        UnknownFrame: it is not a header.
    """
    form = _object(text)
    limits = form.get("limits")
    if not isinstance(limits, dict):
        raise UnknownFrame(Header.TYPE, "it has no limits")
    return _build(Header, Header.TYPE, {**form, "limits": _build(RunLimits, "limits", limits)})


def _changed_fields(record: Frame | Header) -> dict[str, Json]:
    # Without defaults, a field that a later version adds does not change the text of older frames. Those are compared when the
    # reply of an append was lost.
    changed = {}
    for one in fields(record):
        value = getattr(record, one.name)
        default = one.default_factory() if one.default_factory is not MISSING else one.default
        if value != default:
            changed[one.name] = utc_text(value) if isinstance(value, datetime) else value
    return changed


def _object(text: str) -> dict[str, Json]:
    # Not pydantic's reader: it refuses JSON with half a character, and models write such halves.
    try:
        return dict(json.loads(text))
    except (TypeError, ValueError) as error:
        raise UnknownFrame("", "it is no JSON object") from error


def _build(kind: type[_T], type_: str, form: Mapping[str, Json]) -> _T:
    hints = _hints(cast("type", kind))
    values = {name: _value(hints[name][0], value) if name in hints else value for name, value in form.items()}
    try:
        built = kind(**values)
    except TypeError as error:
        # "PlanFrame.__init__() got an unexpected keyword argument 'x'": the part that names the field.
        raise UnknownFrame(type_, str(error).rpartition("() ")[2]) from error
    for name, (_, of_kind) in hints.items():
        if not of_kind(getattr(built, name)):
            raise UnknownFrame(type_, f"its {name} is of another kind")
    return built


@cache
def _hints(kind: type) -> Mapping[str, tuple[Any, Any]]:
    """Return for each field its type, and a predicate: is this value of that type?"""
    hints = get_type_hints(kind)
    return {one.name: (hints[one.name], fits(hints[one.name])) for one in fields(kind)}


def _value(hint: Any, value: Json) -> Any:
    """Return a value from JSON as the field has it: JSON has neither times nor tuples."""
    if hint is datetime and isinstance(value, str):
        try:
            at = datetime.fromisoformat(value)
            return at.astimezone(UTC) if at.tzinfo else value
        except (ValueError, OverflowError):
            return value
    return tuple(value) if isinstance(value, list) and hint is not Any else value
