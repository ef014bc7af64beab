"""What a run wants from a language model, in our words: one question with its history, one answer, what it used.

A provider keeps nothing between two questions: the whole history goes out each time. Vendors' words (`tool_use`,
`function_call`, `finish_reason`) stop in `providers/`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

Freedom = Literal["free", "some", "none"]
"""May the model call tools: as it likes, at least one, or none at all (the definitions are still told)."""

Stop = Literal["end", "tools", "length", "other"]
"""Why an answer ended: it is complete, it calls tools, it was cut off (by its bound or the model's room), or a word we do not know."""


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A tool that the model may call. `schema` is the JSON Schema of its arguments, always of an object."""

    name: str
    description: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolUse:
    """The model wants a tool called. `id` is unique in its answer, whatever the vendor sent.

    `problem` is "" where `arguments` are what the model wrote; else it says in a few words why they could not be read
    (no JSON, no object), and `arguments` are empty: the tool must not be called, the model is told so instead.
    """

    id: str
    name: str
    arguments: Mapping[str, Any]
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Echo:
    """What a provider wants back, word for word, with the message that it came with: signed or sealed reasoning.

    `provider` and `model` are who understands it; any other is not told it, and nobody is when its message's uses are not all
    there any more. `content` is JSON and nobody else's business; ids in it need not be those of the uses.
    """

    provider: str
    model: str
    content: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class FromUser:
    """What the model is told from outside: the goal, context, a correction."""

    text: str


@dataclass(frozen=True, slots=True)
class FromModel:
    """What the model said before. An empty one (no text, no uses) is left out when the history is told."""

    text: str
    uses: tuple[ToolUse, ...] = ()
    echo: Echo | None = None


@dataclass(frozen=True, slots=True)
class FromTool:
    """What came of one tool use, `use` being its id. Every use is answered before anything else is said."""

    use: str
    text: str
    failed: bool = False


Message = FromUser | FromModel | FromTool


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One question. `conversation` is what its usage is accounted under, see `providers/usage.py`.

    `only`, where given, is the one tool that must be called, and goes before `freedom`. `temperature` None leaves it to
    the model; a model that takes none is asked without.
    """

    conversation: str
    messages: tuple[Message, ...]
    system: str = ""
    tools: tuple[ToolDefinition, ...] = ()
    freedom: Freedom = "free"
    only: str = ""
    most_tokens: int = 4_096
    temperature: float | None = None


@dataclass(frozen=True, slots=True)
class ModelUsage:
    """Tokens as the vendor counts them. `cached` are those of `input` that were read from a cache, `written` those kept in one.

    `input` holds both. `known` is False where a server did not say anything: then all are 0 and mean nothing.
    """

    input: int = 0
    output: int = 0
    cached: int = 0
    written: int = 0
    known: bool = True

    def __add__(self, other: ModelUsage) -> ModelUsage:
        """Return both together; known only where both are."""
        return ModelUsage(
            self.input + other.input,
            self.output + other.output,
            self.cached + other.cached,
            self.written + other.written,
            known=self.known and other.known,
        )


@dataclass(frozen=True, slots=True)
class ModelReply:
    """One answer. `model` is the one that really answered, `request` the vendor's id of the request ("" where it gives none)."""

    text: str
    uses: tuple[ToolUse, ...]
    stop: Stop
    usage: ModelUsage
    model: str
    request: str = ""
    echo: Echo | None = None

    def as_message(self) -> FromModel:
        """Return it as it is told in the next question."""
        return FromModel(self.text, self.uses, self.echo)


@dataclass(frozen=True, slots=True)
class Shape:
    """The JSON that is wanted: a name (letters, digits, `_`, `-`) and a JSON Schema of an object."""

    name: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Told:
    """JSON that fits the shape that was asked for. `usage` is of all tries together."""

    value: Mapping[str, Any]
    usage: ModelUsage
    model: str
    request: str = ""


class Provider(Protocol):
    """A language model behind its vendor's interface. Safe to use by several tasks at once."""

    @property
    def name(self) -> str:
        """Return what a person calls the vendor: `anthropic`, `openai`."""
        ...

    @property
    def model(self) -> str:
        """Return the model that is asked."""
        ...

    async def complete(self, asked: ModelRequest) -> ModelReply:
        """Return the model's answer. Cancelling ends the request; what it had used by then is not known.

        What passes (429, 529, 5xx, a broken connection) is tried again here, for a bounded time; what is raised has been.

        Raises:
            ProviderError: one of those in `provider_errors.py`; its `usage` is what was used in spite of it.
        """
        ...

    async def complete_json(self, asked: ModelRequest, shape: Shape) -> Told:
        """Return JSON that fits `shape`; tools in `asked` are not told. One answer that does not fit is corrected once.

        Raises:
            Malformed: the second answer did not fit either.
            ProviderError: as above.
        """
        ...

    async def aclose(self) -> None:
        """Close its connections."""
        ...
