"""The shared shape of all three wire formats: a request as a value, its assembly, and the reading of its reply. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from agents.loop.model.ports import FromModel, FromTool, ModelReply, ModelRequest, ModelUsage, Shape
from agents.loop.providers.wire.reply_text import in_words

Without = frozenset[str]
"""Parts of a request that a server rejected as unknown, by their names in the wire module's `PARTS`."""
Parts = Mapping[str, tuple[str, ...]]
"""The parts that a request can do without, each with the words in which a server that does not know it complains."""
ECHO = "echo"
"""The part that is reasoning sent back. Never left out for good: it may be invalid in one history (another account, a new key) and
valid in the next."""


@dataclass(frozen=True, slots=True)
class ProviderRequest:
    """One request. `extra` goes into the JSON body beside `body`: fields that the vendor's package has no argument for."""

    body: Mapping[str, Any]
    extra: Mapping[str, Any] = field(default_factory=dict)
    parts: Parts = field(default_factory=dict)


class UnusableReply(Exception):
    """A reply that cannot be read; `why` in our words."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(why)


class ModelRefused(Exception):
    """The model refuses; `category` is the vendor's word, "" if there is none. The refusal costs tokens, too."""

    def __init__(self, category: str = "") -> None:
        self.category, self.usage = category, ModelUsage()
        super().__init__(category)


class RequestDraft:
    """A request under construction: `body`, `extra`, the paragraphs of the `system` prompt, and its optional parts."""

    def __init__(self, request: ModelRequest, without: Without, parts: Parts) -> None:
        self.body: dict[str, Any] = {}
        self.extra: dict[str, Any] = {}
        self.system = [request.system] if request.system.strip() else []
        self._request, self._without, self._parts, self._used = request, without, parts, set[str]()

    def may_have(self, part: str) -> bool:
        """Return whether to put that part in, and remember it as optional: if a server rejects it, the request is sent without it."""
        if part in self._without:
            return False
        self._used.add(part)
        return True

    def may_echo(self, provider: str, model: str) -> bool:
        """Return whether reasoning in the history is sent back to that model."""
        echoes = [message.echo for message in self._request.messages if isinstance(message, FromModel) and message.echo]
        if any((echo.provider, echo.model) == (provider, model) for echo in echoes):
            return self.may_have(ECHO)
        return ECHO not in self._without

    def choose_tools(self, choice: object) -> None:
        """Say which tools the model may call: as `choice`, or in words to a server without a field for it."""
        if choice and self.may_have("tool_choice"):
            self.body["tool_choice"] = choice
        elif choice and self._request.only:
            self.system.append(f"Call the tool {self._request.only} now.")
        elif choice:
            some = self._request.tool_choice == "some"
            self.system.append("Call one of the tools now." if some else "Call no tool now; answer in words.")

    def offer_tools(self, tools: list[dict[str, Any]], only: Mapping[str, Any]) -> bool:
        """Put the tools into the request in the form of OpenAI's formats, with the choice among them.

        `only` is the choice of a single tool. Return whether the tools are in: they are left out if there are none, or
        if the model may call none and the server does not know `tool_choice`.
        """
        choice: object = {"some": "required", "none": "none"}.get(self._request.tool_choice)
        if self._request.only:
            choice = only
        # To a server without `tool_choice`, "none" can only be said by offering no tools.
        if not tools or (choice == "none" and "tool_choice" in self._without):
            return False
        self.body["tools"] = tools
        self.choose_tools(choice)
        return True

    def describe(self, shape: Shape) -> None:
        """Say in words which JSON is wanted, to a server that cannot hold the model to it."""
        self.system.append(in_words(shape))

    def finished(self) -> ProviderRequest:
        """Return the request. Its parts are in the order of the wire module's list: of two complaints the first one counts."""
        used = {part: words for part, words in self._parts.items() if part in self._used}
        return ProviderRequest(self.body, self.extra, used)


class Assembly(Protocol):
    """Joins the pieces of a streamed reply into one reply.

    `over`: nothing more will come, so there is no wait for a connection that stays open. `complete`: nothing of the reply is
    missing, and the model said why it ended.
    """

    over: bool
    complete: bool

    def add(self, event: Mapping[str, Any]) -> None:
        """Take the next event."""
        ...

    @property
    def reply(self) -> Mapping[str, Any]:
        """The reply so far, as if it had come in one piece."""
        ...


class Wire(Protocol):
    """One wire format."""

    def request(
        self, request: ModelRequest, without: Without, shape: Shape | None, *, streamed: bool
    ) -> ProviderRequest:
        """Return the vendor's request. With `shape`, JSON is wanted."""
        ...

    def read(self, reply: Mapping[str, Any], request: ModelRequest) -> ModelReply:
        """Return a vendor's reply in our own form.

        Raises:
            UnusableReply: it has no answer.
            ModelRefused: the model refuses.
        """
        ...

    def error_in(self, reply: Mapping[str, Any]) -> object | None:
        """Return the error that a reply with status 200 holds instead of an answer, or None."""
        ...

    def used(self, reply: Mapping[str, Any]) -> ModelUsage:
        """Return the usage in a reply, even in one that is incomplete or unusable."""
        ...

    def assembly(self) -> Assembly:
        """Return an empty assembly."""
        ...


def result_text(result: FromTool) -> str:
    """Return a tool's result as OpenAI's formats send it: they have no field for failure, so the text says it."""
    return f"Error: {result.text}" if result.failed else result.text
