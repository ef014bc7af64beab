"""The port to a language model, in words of our own: one request with its history, one reply, the tokens it used.

A provider keeps nothing between two requests: the whole history is sent each time. Vendors' words (`tool_use`, `function_call`,
`finish_reason`) stay inside `providers/`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

ToolChoice = Literal["free", "some", "none"]
"""Whether the model may call tools: as it likes, at least one, or none (the definitions are sent anyway)."""

Stop = Literal["end", "tools", "length", "other"]
"""Why a reply ended: complete, calls tools, cut off (by its limit or the context window), or a reason unknown to us."""


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A tool that the model may call. `schema` is the JSON Schema of its arguments, always of an object."""

    name: str
    description: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolUse:
    """The model wants to call a tool. `id` is unique in its reply, whatever the vendor sent.

    `problem` is "" if `arguments` are as the model wrote them. Otherwise it says why they cannot be read (not JSON, not an object),
    `arguments` are empty, and the tool must not be called: the model gets the problem instead.
    """

    id: str
    name: str
    arguments: Mapping[str, Any]
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Echo:
    """A part of a message that its provider wants back unchanged with it: signed or encrypted reasoning.

    Only the same `provider` and `model` understand it, and only while all tool uses of its message are still in the history; it is
    never sent to another one. `content` is JSON that only the provider reads; ids in it may differ from those of the uses.
    """

    provider: str
    model: str
    content: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class FromUser:
    """A message to the model from outside: the goal, context, a correction."""

    text: str


@dataclass(frozen=True, slots=True)
class FromModel:
    """An earlier message of the model. An empty one (no text, no uses) is left out of the history that is sent."""

    text: str
    uses: tuple[ToolUse, ...] = ()
    echo: Echo | None = None


@dataclass(frozen=True, slots=True)
class FromTool:
    """The result of the tool use with the id `use`. Every use gets its result before any other message."""

    use: str
    text: str
    failed: bool = False


Message = FromUser | FromModel | FromTool


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One request. `conversation` is the id under which its usage is accounted, see `providers/usage.py`.

    `only` names the one tool that must be called, and overrides `tool_choice`. With `temperature` None the model uses its own; a
    model that accepts none is asked without.
    """

    conversation: str
    messages: tuple[Message, ...]
    system: str = ""
    tools: tuple[ToolDefinition, ...] = ()
    tool_choice: ToolChoice = "free"
    only: str = ""
    most_tokens: int = 4_096
    temperature: float | None = None


@dataclass(frozen=True, slots=True)
class ModelUsage:
    """Tokens as the vendor counts them. `cached` and `written` are the parts of `input` read from and written to a cache.

    `known` is False if a server said nothing: then all are 0 and mean nothing.
    """

    input: int = 0
    output: int = 0
    cached: int = 0
    written: int = 0
    known: bool = True

    def __add__(self, other: ModelUsage) -> ModelUsage:
        """Return the sum; known only if both are."""
        return ModelUsage(
            self.input + other.input,
            self.output + other.output,
            self.cached + other.cached,
            self.written + other.written,
            known=self.known and other.known,
        )


@dataclass(frozen=True, slots=True)
class ModelReply:
    """One reply. `model` is the one that answered, `request` the vendor's id of the request ("" if it gives none)."""

    text: str
    uses: tuple[ToolUse, ...]
    stop: Stop
    usage: ModelUsage
    model: str
    request: str = ""
    echo: Echo | None = None

    def as_message(self) -> FromModel:
        """Return the reply as a message of the next request's history."""
        return FromModel(self.text, self.uses, self.echo)


@dataclass(frozen=True, slots=True)
class Shape:
    """The JSON that is wanted: a name (letters, digits, `_`, `-`) and a JSON Schema of an object."""

    name: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class JsonReply:
    """JSON that fits the requested shape. `usage` is the sum of all tries."""

    value: Mapping[str, Any]
    usage: ModelUsage
    model: str
    request: str = ""


class Provider(Protocol):
    """A language model behind its vendor's interface. Several tasks may use it at once."""

    @property
    def name(self) -> str:
        """The vendor's name as people say it: `anthropic`, `openai`."""
        ...

    @property
    def model(self) -> str:
        """The name by which the model is requested."""
        ...

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Return the model's reply. Cancelling ends the request; its usage is then unknown.

        Temporary failures (429, 529, 5xx, a broken connection) are retried here, for a limited time, before anything is raised.

        Raises:
            ProviderError: one of those in `model/errors.py`; its `usage` is what was used nevertheless.
        """
        ...

    async def complete_json(self, request: ModelRequest, shape: Shape) -> JsonReply:
        """Return JSON that fits `shape`; the request's tools are not offered. A reply that does not fit is corrected once.

        Raises:
            Malformed: the second reply did not fit either.
            ProviderError: as above.
        """
        ...

    async def aclose(self) -> None:
        """Close its connections."""
        ...


class ProviderWrapper:
    """A provider that passes requests on to another one: same vendor, model and connections."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider

    @property
    def name(self) -> str:
        """The vendor's name."""
        return self._provider.name

    @property
    def model(self) -> str:
        """The requested model; prices are looked up by it, because vendors answer with dated names."""
        return self._provider.model

    async def aclose(self) -> None:
        """Close the provider's connections."""
        await self._provider.aclose()
