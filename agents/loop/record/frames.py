"""The steps of a run as frozen values, and the form in which each is stored. Pure.

A run is its header and its frames, nothing else: the messages to the model, the texts for people, and the state of the run are all
computed from them. A recorded frame never changes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar, Literal, TypeVar, get_args

from agents.engine.events import Json, canonical
from agents.loop.errors import UnknownFrame
from agents.records import BadRecord, codec

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
    """The first frame of a run. `context` is the knowledge given with the goal, `model` the model to ask, as `vendor:model`."""

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
    """The usage and cost of a request to the model. `counted`: the vendor reported nothing, and the tokens are estimates.

    `cost_micros` None: the price is unknown. `model` is the one that answered, `request` the vendor's id of the request.
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
    why nothing in the answer could be carried out. `echo` has to be sent back to the provider unchanged. `offered` is a digest of
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
    """A call, recorded before it is made; `use` is the model's own id of the call.

    `problem`: why it was not made, for example an unknown tool. `unread`: why the arguments could not be read, in the
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
        """The key under which the call can be looked up where it was carried out; it is unique and never changes."""
        return f"{self.run}/{self.id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult(_PlacedFrame):
    """The outcome of a call. `text` is for the model; `error` says what went wrong if the call failed.

    `unsure`: it is unknown whether it was done. `proposal`: not done yet, a person decides about it. `called` is false if the tool was
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
    """The end: the run's answer. `trace` is the run in a few lines; `why` says why an answer does not achieve the goal."""

    TYPE: ClassVar[str] = "response"
    plan: str
    text: str
    goal_achieved: bool
    iterations: int
    tools_called: tuple[str, ...] = ()
    trace: str = ""
    why: str = ""


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

    `suspended` names the `proposal` that a person decides about, `resumed` has its outcome. `taken_up`: another process
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
    return canonical({"type": frame.TYPE, **codec(type(frame)).short_form(frame)})


def frame_of(text: str) -> Frame:
    """Return the frame that `frame_text` wrote as that text.

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
    # A run keeps the limits that it began with, even if a later version of the program has other defaults.
    return canonical({**codec(Header).short_form(header), "limits": codec(RunLimits).form(header.limits)})


def header_of(text: str) -> Header:
    """Return the header that `header_text` wrote as that text.

    Raises:
        UnknownFrame: it is not a header.
    """
    form = _object(text)
    if "limits" not in form:
        raise UnknownFrame(Header.TYPE, "it has no limits")
    return _build(Header, Header.TYPE, form)


def _object(text: str) -> dict[str, Json]:
    try:
        return dict(json.loads(text))
    except (TypeError, ValueError) as error:
        raise UnknownFrame("", "it is not a JSON object") from error


def _build(kind: type[_T], type_: str, form: Mapping[str, Json]) -> _T:
    try:
        return codec(kind).record(form)
    except BadRecord as error:
        raise UnknownFrame(type_, str(error)) from error
