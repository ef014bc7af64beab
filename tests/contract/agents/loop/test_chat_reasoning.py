"""Fields that servers behind Chat Completions require back with their message.

Without them they refuse the next request.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agents.loop.model.ports import FromTool, FromUser, Message, ModelRequest, ToolDefinition
from agents.loop.providers.access import RequestPatience
from tests.doubles.provider_turns import Call, Step, Trouble, Turn, said
from tests.support.runs.hosts import run_host
from tests.support.runs.providers import IN_ONE, IN_PIECES, Place, double_of

SEARCH = ToolDefinition("kb_search", "Find pages.", {"type": "object", "properties": {"query": {"type": "string"}}})
CALLS = (Call("kb_search", {"query": "a"}), Call("kb_search", {"query": "b"}))
THINKING = Turn("I look.", CALLS, thoughts="two words, so two searches", quirks=frozenset({"deepseek"}))
SIGNING = Turn("I look.", CALLS, quirks=frozenset({"gemini"}))


def asked(*messages: Message) -> ModelRequest:
    return ModelRequest("test_iter1_0a1b2c3d", (FromUser("goal"), *messages), tools=(SEARCH,))


def model_message(body: Mapping[str, Any]) -> dict[str, Any]:
    return next(message for message in body["messages"] if message["role"] == "assistant")


def wants_thoughts(body: Mapping[str, Any]) -> Step:
    """Answer as DeepSeek does."""
    if model_message(body).get("reasoning_content") == THINKING.thoughts:
        return said("done")
    return Trouble(400, "invalid_request_error", "The `reasoning_content` in the thinking mode must be passed back.")


def wants_signatures(body: Mapping[str, Any]) -> Step:
    """Answer as Gemini does."""
    for call in model_message(body)["tool_calls"]:
        if call.get("extra_content") != {"google": {"thought_signature": f"signed {call['id']}"}}:
            return Trouble(400, "invalid_request_error", "Function call is missing a thought_signature.")
    return said("done")


def knows_neither(body: Mapping[str, Any]) -> Step:
    """Answer as a server that accepts only OpenAI's fields."""
    if "reasoning_content" in model_message(body):
        return Trouble(400, "invalid_request_error", "messages.1.reasoning_content: Extra inputs are not permitted")
    return said("done")


@pytest.fixture
def place() -> Iterator[Place]:
    with double_of("chat") as place:
        yield place


@pytest.mark.parametrize("patience", [IN_ONE, IN_PIECES], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    ("turn", "then"),
    [(THINKING, wants_thoughts), (SIGNING, wants_signatures), (THINKING, knows_neither)],
    ids=["thoughts", "signatures", "neither"],
)
async def test_fields_that_came_with_tool_uses_are_sent_back_with_them(
    place: Place, patience: RequestPatience, turn: Turn, then: Any
) -> None:
    place.will("goal", turn, *[then] * 2)
    async with place.provider(patience) as provider:
        first = await provider.complete(asked())
        results = [FromTool(use.id, "nothing") for use in first.uses]
        second = await provider.complete(asked(first.as_message(), *results))
    assert "two words" not in first.text
    assert second.text == "done"


@pytest.mark.parametrize("patience", [IN_ONE, IN_PIECES], ids=["whole", "streamed"])
@pytest.mark.parametrize("thoughts", ["long ones", ""])
async def test_thoughts_go_back_with_words_too_and_where_they_are_none(
    place: Place, patience: RequestPatience, thoughts: str
) -> None:
    place.will("goal", Turn("I look.", thoughts=thoughts, quirks=frozenset({"deepseek"})), said("done"))
    async with place.provider(patience) as provider:
        first = await provider.complete(asked())
        await provider.complete(asked(first.as_message(), FromUser("go on")))
    assert model_message(place.double.asked[-1])["reasoning_content"] == thoughts


def wants_all_thoughts(body: Mapping[str, Any]) -> Step:
    """Answer as DeepSeek does to a history of several steps."""
    if all("reasoning_content" in message for message in body["messages"] if message["role"] == "assistant"):
        return said("done")
    return Trouble(400, "invalid_request_error", "The `reasoning_content` in the thinking mode must be passed back.")


def wants_all_signatures(body: Mapping[str, Any]) -> Step:
    """Answer as Gemini does, which checks the first use of each step."""
    steps = [message["tool_calls"] for message in body["messages"] if message["role"] == "assistant"]
    if all(calls[0].get("extra_content", {}).get("google", {}).get("thought_signature") for calls in steps):
        return said("done")
    return Trouble(400, "invalid_request_error", "Function call is missing a thought_signature.")


@pytest.mark.parametrize(
    ("turn", "then"), [(THINKING, wants_all_thoughts), (SIGNING, wants_all_signatures)], ids=["thoughts", "signatures"]
)
async def test_a_step_without_its_thoughts_is_sent_in_an_accepted_form(place: Place, turn: Turn, then: Any) -> None:
    """The newest step keeps its signature."""
    place.will("goal", turn, turn, then)
    async with place.provider() as provider:
        first = await provider.complete(asked())
        history: list[Message] = [replace(first.as_message(), echo=None)]
        history += [FromTool(use.id, "nothing") for use in first.uses]
        second = await provider.complete(asked(*history))
        history += [second.as_message(), *(FromTool(use.id, "nothing") for use in second.uses)]
        assert (await provider.complete(asked(*history))).text == "done"


async def test_a_server_that_knows_no_thoughts_is_sent_none(place: Place) -> None:
    place.will("goal", said("I look."), said("done"))
    async with place.provider() as provider:
        first = await provider.complete(asked())
        await provider.complete(asked(first.as_message(), FromUser("go on")))
    assert first.echo is None
    assert model_message(place.double.asked[-1]).keys() == {"role", "content"}


async def test_a_run_continues_if_thoughts_have_to_be_sent_back(tmp_path: Path) -> None:
    async with run_host(tmp_path) as host:
        host.will("goal", THINKING, wants_thoughts)
        answer = await host.call("agent_run", goal="goal")
    assert (answer["status"], answer["text"]) == ("done", "done")
