"""Token usage by conversation, and its cost if a team configured prices. Pure: nothing is kept beyond the object.

There are no built-in prices: they would be outdated by the time somebody reads them.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import TypeVar

from agents.loop.model.errors import ProviderError
from agents.loop.model.ports import JsonReply, ModelReply, ModelRequest, ModelUsage, Provider, ProviderWrapper, Shape

CONVERSATION = re.compile(r"(?P<agent>.+)_iter(?P<iteration>\d+)_(?P<random>[0-9a-f]{8})")
MILLION = Decimal(1_000_000)
MOST_CONVERSATIONS = 1_000

Reply = TypeVar("Reply", ModelReply, JsonReply)


@dataclass(frozen=True, slots=True)
class Price:
    """The price of a million tokens, in the team's currency. A kind without a price costs as much as `input`."""

    input: Decimal
    output: Decimal
    cached: Decimal | None = None
    written: Decimal | None = None

    def of(self, usage: ModelUsage) -> Decimal:
        """Return the cost of `usage`. `cached` and `written` are parts of its input."""
        cached = self.input if self.cached is None else self.cached
        written = self.input if self.written is None else self.written
        plain = usage.input - usage.cached - usage.written
        total = plain * self.input + usage.cached * cached + usage.written * written + usage.output * self.output
        return total / MILLION


@dataclass(frozen=True, slots=True)
class UsageEntry:
    """The usage of one model in one conversation, over `questions` requests."""

    conversation: str
    model: str
    usage: ModelUsage
    questions: int = 1


def conversation_id(agent: str, iteration: int, random: str) -> str:
    """Return `{agent}_iter{n}_{8 hex}`; the caller supplies the eight random digits.

    Raises:
        ValueError: the result would not be such an id.
    """
    made = f"{agent}_iter{iteration}_{random}"
    if not CONVERSATION.fullmatch(made):
        raise ValueError(f"{made!r} is not the id of a conversation")
    return made


def agent_of(conversation: str) -> str:
    """Return the agent in a conversation's id, or the whole id if it has another form."""
    found = CONVERSATION.fullmatch(conversation)
    return found["agent"] if found else conversation


class UsageBook:
    """Adds up usage. `prices` go by model name or pattern (`some-model-*`); the first match counts, and without one a cost is unknown.

    Above `most` conversations, the oldest are merged into one entry per agent: all sums stay the same, and the book stays small
    even in a process that runs for months.
    """

    def __init__(self, prices: Mapping[str, Price] | None = None, *, most: int = MOST_CONVERSATIONS) -> None:
        self._prices, self._most = dict(prices or {}), most
        self._entries: dict[tuple[str, str], UsageEntry] = {}
        self._merged: dict[tuple[str, str], UsageEntry] = {}

    def add(self, conversation: str, model: str, usage: ModelUsage) -> None:
        """Record one request."""
        _add(self._entries, UsageEntry(conversation, model, usage))
        while len(self._entries) > self._most:
            oldest = self._entries.pop(next(iter(self._entries)))
            _add(self._merged, replace(oldest, conversation=agent_of(oldest.conversation)))

    def entries(self, conversation: str = "", agent: str = "") -> tuple[UsageEntry, ...]:
        """Return the entries, oldest first: all, those of one conversation, or those of one agent."""
        return tuple(
            entry
            for entry in (*self._merged.values(), *self._entries.values())
            if conversation in ("", entry.conversation) and agent in ("", agent_of(entry.conversation))
        )

    def total(self, conversation: str = "", agent: str = "") -> ModelUsage:
        """Return the sum of these entries' usage."""
        return sum((entry.usage for entry in self.entries(conversation, agent)), ModelUsage())

    def cost(self, conversation: str = "", agent: str = "") -> Decimal | None:
        """Return the cost of these entries; None if a model has no price or a server did not report its usage."""
        costs = [self.cost_of(entry.model, entry.usage) for entry in self.entries(conversation, agent)]
        known = [cost for cost in costs if cost is not None]
        return sum(known, Decimal()) if len(known) == len(costs) else None

    def cost_of(self, model: str, usage: ModelUsage) -> Decimal | None:
        """Return the cost of `usage` of `model`; None if it is unknown."""
        # Without known usage there is no cost either: 0 tokens would look free.
        price = next((price for name, price in self._prices.items() if fnmatchcase(model, name)), None)
        return price.of(usage) if price and usage.known else None


def _add(entries: dict[tuple[str, str], UsageEntry], entry: UsageEntry) -> None:
    key = (entry.conversation, entry.model)
    if before := entries.get(key):
        entry = replace(before, usage=before.usage + entry.usage, questions=before.questions + entry.questions)
    entries[key] = entry


class Accounted(ProviderWrapper):
    """A provider whose every request is recorded in a book, failed ones too."""

    def __init__(self, provider: Provider, book: UsageBook) -> None:
        super().__init__(provider)
        self._book = book

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Return the reply, with its usage recorded.

        Raises:
            ProviderError: as the port says.
        """
        return await self._record(request, self._provider.complete(request))

    async def complete_json(self, request: ModelRequest, shape: Shape) -> JsonReply:
        """Return the JSON, with its usage recorded.

        Raises:
            ProviderError: as the port says.
        """
        return await self._record(request, self._provider.complete_json(request, shape))

    async def _record(self, request: ModelRequest, answer: Awaitable[Reply]) -> Reply:
        try:
            reply = await answer
        except ProviderError as error:
            self._book.add(request.conversation, self.model, error.usage)
            raise
        self._book.add(request.conversation, self.model, reply.usage)
        return reply
