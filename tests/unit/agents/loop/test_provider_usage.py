"""Tokens used, by conversation, and their cost if prices are set."""

from __future__ import annotations

from decimal import Decimal

import pytest

from agents.loop.model.errors import Refusal
from agents.loop.model.ports import FromUser, JsonReply, ModelReply, ModelRequest, ModelUsage, Shape
from agents.loop.providers.usage import Accounted, Price, UsageBook, agent_of, conversation_id

FIRST, SECOND = conversation_id("router", 1, "0a1b2c3d"), conversation_id("router", 2, "ffffffff")


def test_a_conversation_is_named_by_agent_iteration_and_eight_digits() -> None:
    assert FIRST == "router_iter1_0a1b2c3d"
    assert agent_of(conversation_id("my_iter_agent", 12, "00000000")) == "my_iter_agent"
    assert agent_of("something else") == "something else"
    for wrong in ("123", "0A1B2C3D", "0a1b2c3d4"):
        with pytest.raises(ValueError, match="not the id"):
            conversation_id("router", 1, wrong)


def test_usage_adds_up_by_conversation_and_by_agent() -> None:
    book = UsageBook()
    book.add(FIRST, "big", ModelUsage(100, 10, 50))
    book.add(FIRST, "big", ModelUsage(10, 1))
    book.add(SECOND, "small", ModelUsage(1, 1))
    book.add(conversation_id("judge", 1, "00000001"), "big", ModelUsage(7, 7))
    assert book.total(FIRST) == ModelUsage(110, 11, 50)
    assert book.total(agent="router") == ModelUsage(111, 12, 50)
    assert book.total() == ModelUsage(118, 19, 50)
    assert [(entry.model, entry.questions) for entry in book.entries(FIRST)] == [("big", 2)]


def test_cost_follows_the_teams_prices_and_is_unknown_otherwise() -> None:
    """A missing price is not 0, and neither is an uncounted number."""
    book = UsageBook({"big-*": Price(Decimal(3), Decimal(15), cached=Decimal("0.3"), written=Decimal("3.75"))})
    book.add(FIRST, "big-2", ModelUsage(1_000_000, 100_000, cached=400_000, written=200_000))
    assert book.cost(FIRST) == Decimal("1.2") + Decimal("0.12") + Decimal("0.75") + Decimal("1.5")
    assert book.cost_of("big-2", ModelUsage(known=False)) is None
    book.add(FIRST, "small", ModelUsage(1, 1))
    assert book.cost(FIRST) is None
    assert book.cost("nobody_iter1_00000000") == 0


def test_months_of_usage_stay_small_and_keep_their_sums() -> None:
    book = UsageBook({"big": Price(Decimal(3), Decimal(15))}, most=3)
    for number in range(50):
        book.add(conversation_id("run", 1, f"{number:08x}"), "big", ModelUsage(100, 10))
        book.add(conversation_id("router", 1, f"{number:08x}"), "big", ModelUsage(10, 1))
    assert len(book.entries()) == 5
    assert book.total() == ModelUsage(5_500, 550)
    assert book.total(agent="run") == ModelUsage(5_000, 500)
    assert sum(entry.questions for entry in book.entries(agent="router")) == 50
    assert book.cost(agent="run") == 50 * Price(Decimal(3), Decimal(15)).of(ModelUsage(100, 10))


def test_tokens_without_their_own_price_cost_as_input() -> None:
    assert Price(Decimal(2), Decimal(4)).of(ModelUsage(1_000_000, 500_000, cached=900_000)) == 4


class Scripted:
    """Answers once and then refuses."""

    name, model = "scripted", "big"

    def __init__(self) -> None:
        self.closed = False

    async def complete(self, asked: ModelRequest) -> ModelReply:
        if asked.system:
            raise Refusal("scripted", "big", "", ModelUsage(5, 1))
        return ModelReply("yes", (), "end", ModelUsage(10, 2), "big-dated")

    async def complete_json(self, asked: ModelRequest, shape: Shape) -> JsonReply:
        if asked.system:
            raise Refusal("scripted", shape.name, "", ModelUsage(6, 1))
        return JsonReply({}, ModelUsage(20, 3), "big-dated")

    async def aclose(self) -> None:
        self.closed = True


async def test_every_question_is_taken_down_those_that_failed_too() -> None:
    book, scripted = UsageBook(), Scripted()
    provider = Accounted(scripted, book)
    fine, refused = ModelRequest(FIRST, (FromUser("?"),)), ModelRequest(FIRST, (FromUser("?"),), system="no")
    await provider.complete(fine)
    await provider.complete_json(fine, Shape("x", {}))
    with pytest.raises(Refusal):
        await provider.complete(refused)
    with pytest.raises(Refusal):
        await provider.complete_json(refused, Shape("x", {}))
    await provider.aclose()
    assert book.total(FIRST) == ModelUsage(41, 7)
    assert [(entry.model, entry.questions) for entry in book.entries()] == [("big", 4)]
    assert (provider.name, provider.model, scripted.closed) == ("scripted", "big", True)
