"""What the three wire formats have in common: a request as a value, and what reads its reply. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from agents.loop.model.ports import ModelReply, ModelRequest, ModelUsage, Shape

Without = frozenset[str]
"""Parts of a request that a server was found not to know, by the names that its wire module gives them."""
ECHO = "echo"
"""The part that is thoughts given back. A seal may be broken in one history (another account, a new key) and whole in the next."""


@dataclass(frozen=True, slots=True)
class ProviderRequest:
    """One request. `extra` goes into the body beside `body`: what the vendor's package has no argument for.

    `parts` are those of its parts that it can do without, each with the words by which a server that does not know it
    complains.
    """

    body: Mapping[str, Any]
    extra: Mapping[str, Any] = field(default_factory=dict)
    parts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class UnusableReply(Exception):
    """A reply that came and cannot be read; `why` in our words."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(why)


class ModelRefused(Exception):
    """The model does not want to; `category` is the vendor's word, "" where there is none. It is paid for all the same."""

    def __init__(self, category: str = "") -> None:
        self.category, self.usage = category, ModelUsage()
        super().__init__(category)


class Assembly(Protocol):
    """The pieces of a streamed reply, put together into what the reply would have been in one piece."""

    def add(self, event: Mapping[str, Any]) -> None:
        """Take the next event."""
        ...

    @property
    def over(self) -> bool:
        """Return whether nothing more comes, so that a connection that stays open is not waited for."""
        ...

    @property
    def whole(self) -> bool:
        """Return whether what came is a whole reply: the model said why it ended."""
        ...

    @property
    def reply(self) -> Mapping[str, Any]:
        """Return what came so far as a reply in one piece."""
        ...


class Wire(Protocol):
    """One wire format."""

    def request(self, asked: ModelRequest, without: Without, shape: Shape | None, *, streamed: bool) -> ProviderRequest:
        """Return the request that asks it. With `shape`, tools are not told and JSON is wanted."""
        ...

    def read(self, reply: Mapping[str, Any], asked: ModelRequest) -> ModelReply:
        """Return the answer in a reply.

        Raises:
            Unusable: it holds none.
            Refused: the model refuses.
        """
        ...

    def error_in(self, reply: Mapping[str, Any]) -> object | None:
        """Return the error that a reply with status 200 holds instead of an answer, or None."""
        ...

    def used(self, reply: Mapping[str, Any]) -> ModelUsage:
        """Return the usage that a reply tells, also one that is not whole or not usable."""
        ...

    def assembly(self) -> Assembly:
        """Return a fresh assembly."""
        ...


def choice_in_words(asked: ModelRequest) -> str:
    """Return what the choice of tools is, for a model that can only be told."""
    if asked.only:
        return f"Call the tool {asked.only} now."
    return "Call one of the tools now." if asked.freedom == "some" else "Call no tool now; answer in words."
