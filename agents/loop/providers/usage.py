"""What was used, by conversation, and what it costs where a team says its prices. Pure: nothing is kept beyond the object.

There are no prices here: they would be wrong by the time that somebody reads them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from fnmatch import fnmatchcase

from agents.loop.model.errors import ProviderError
from agents.loop.model.ports import ModelReply, ModelRequest, ModelUsage, Provider, Shape, Told
from agents.loop.providers.wrapper import ProviderWrapper

CONVERSATION = re.compile(r"(?P<agent>.+)_iter(?P<iteration>\d+)_(?P<random>[0-9a-f]{8})")
MILLION = Decimal(1_000_000)


@dataclass(frozen=True, slots=True)
class Price:
    """What a million tokens cost, in whatever money the team reckons in. A kind that has no price costs as `input`."""

    input: Decimal
    output: Decimal
    cached: Decimal | None = None
    written: Decimal | None = None

    def of(self, usage: ModelUsage) -> Decimal:
        """Return what `usage` costs. `cached` and `written` are parts of its input."""
        cached = self.input if self.cached is None else self.cached
        written = self.input if self.written is None else self.written
        plain = usage.input - usage.cached - usage.written
        total = plain * self.input + usage.cached * cached + usage.written * written + usage.output * self.output
        return total / MILLION


@dataclass(frozen=True, slots=True)
class UsageEntry:
    """What one model used in one conversation, over `questions` questions."""

    conversation: str
    model: str
    usage: ModelUsage
    questions: int = 1


def conversation_id(agent: str, iteration: int, random: str) -> str:
    """Return `{agent}_iter{n}_{8 hex}`; `random` are the eight digits, from a caller that may roll dice.

    Raises:
        ValueError: it would be no such id.
    """
    made = f"{agent}_iter{iteration}_{random}"
    if not CONVERSATION.fullmatch(made):
        raise ValueError(f"{made!r} is no id of a conversation")
    return made


def agent_of(conversation: str) -> str:
    """Return the agent that a conversation belongs to, or all of a name that is built otherwise."""
    found = CONVERSATION.fullmatch(conversation)
    return found["agent"] if found else conversation


MOST_CONVERSATIONS = 1_000


class UsageBook:
    """Adds up. `prices` by model name or pattern (`some-model-*`), the first that fits; what fits none has no known cost.

    Of more than `most` conversations the oldest are kept as sums under their agents' names: all sums stay what they are, and the
    book of a process that lives for months stays small.
    """

    def __init__(self, prices: Mapping[str, Price] | None = None, *, most: int = MOST_CONVERSATIONS) -> None:
        self._prices, self._most = dict(prices or {}), most
        self._entries: dict[tuple[str, str], UsageEntry] = {}
        self._earlier: dict[tuple[str, str], UsageEntry] = {}

    def add(self, conversation: str, model: str, usage: ModelUsage) -> None:
        """Take one question down."""
        _added(self._entries, UsageEntry(conversation, model, usage))
        while len(self._entries) > self._most:
            oldest = self._entries.pop(next(iter(self._entries)))
            _added(self._earlier, replace(oldest, conversation=agent_of(oldest.conversation)))

    def entries(self, conversation: str = "", agent: str = "") -> tuple[UsageEntry, ...]:
        """Return the entries in the order in which they began: all, of one conversation, or of one agent."""
        return tuple(
            entry
            for entry in (*self._earlier.values(), *self._entries.values())
            if conversation in ("", entry.conversation) and agent in ("", agent_of(entry.conversation))
        )

    def total(self, conversation: str = "", agent: str = "") -> ModelUsage:
        """Return all of it together."""
        return sum((entry.usage for entry in self.entries(conversation, agent)), ModelUsage())

    def cost(self, conversation: str = "", agent: str = "") -> Decimal | None:
        """Return what it cost; None where a model has no price or a server did not say what it used."""
        costs = [self.cost_of(entry.model, entry.usage) for entry in self.entries(conversation, agent)]
        known = [cost for cost in costs if cost is not None]
        return sum(known, Decimal()) if len(known) == len(costs) else None

    def cost_of(self, model: str, usage: ModelUsage) -> Decimal | None:
        """Return what `usage` of `model` costs, None where that is not known."""
        price = next((price for name, price in self._prices.items() if fnmatchcase(model, name)), None)
        return price.of(usage) if price and usage.known else None


def _added(entries: dict[tuple[str, str], UsageEntry], entry: UsageEntry) -> None:
    """Put the entry to those of its conversation and model."""
    key = (entry.conversation, entry.model)
    before = entries.get(key)
    if before is not None:
        usage, questions = before.usage + entry.usage, before.questions + entry.questions
        entry = replace(before, usage=usage, questions=questions)
    entries[key] = entry


class Accounted(ProviderWrapper):
    """A provider whose every question is taken down in a book, those that failed too."""

    def __init__(self, provider: Provider, book: UsageBook) -> None:
        super().__init__(provider)
        self._book = book

    async def complete(self, asked: ModelRequest) -> ModelReply:
        """Return the answer, its usage taken down.

        Raises:
            ProviderError: as the port says.
        """
        try:
            said = await self._provider.complete(asked)
        except ProviderError as error:
            self._book.add(asked.conversation, self.model, error.usage)
            raise
        self._book.add(asked.conversation, self.model, said.usage)
        return said

    async def complete_json(self, asked: ModelRequest, shape: Shape) -> Told:
        """Return the JSON, its usage taken down.

        Raises:
            ProviderError: as the port says.
        """
        try:
            told = await self._provider.complete_json(asked, shape)
        except ProviderError as error:
            self._book.add(asked.conversation, self.model, error.usage)
            raise
        self._book.add(asked.conversation, self.model, told.usage)
        return told
