"""Lone surrogates, which JSON can hold and UTF-8 cannot.

From a model, from a page, and in later messages to a model.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from agents.loop.model.ports import FromModel, FromTool, FromUser, Message, ModelRequest, Shape, ToolDefinition, ToolUse
from tests.doubles.provider_shapes import Chat, Messages, Responses
from tests.doubles.provider_turns import Call, Raw, Turn, said
from tests.support.runs.hosts import run_host
from tests.support.runs.providers import IN_ONE, IN_PIECES, KINDS, Place, double_of

HALF = "\ud83d"
SHAPES: Mapping[str, Messages | Chat | Responses] = {"anthropic": Messages(), "chat": Chat(), "responses": Responses()}
THOUGHT = Turn("look: " + HALF, (Call("kb_search", {"query": f"a {HALF}"}),), thoughts="hm " + HALF)


LINE = Shape("line", {"type": "object", "properties": {"line": {"type": "string"}}})
SEARCH = ToolDefinition("kb_search", "Find pages.", {"type": "object", "properties": {"query": {"type": "string"}}})


def asked(*messages: Message) -> ModelRequest:
    return ModelRequest("test_iter1_0a1b2c3d", messages, tools=(SEARCH,))


def escaped(kind: str, turn: Turn) -> Raw:
    """Return the turn with lone surrogates as JSON escapes, which is how they travel."""
    return Raw(json.dumps(SHAPES[kind].reply(turn, 1, "some-model")).encode())


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    with double_of(request.param) as place:
        yield place


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_lone_surrogate_in_an_answer_is_replaced_and_can_be_sent_again(place: Place, *, streamed: bool) -> None:
    place.will("goal", THOUGHT if streamed else escaped(place.kind, THOUGHT), said("done"))
    goal = FromUser(f"goal {HALF}")
    async with place.provider(IN_PIECES if streamed else IN_ONE) as provider:
        first = await provider.complete(asked(goal))
        (use,) = first.uses
        result = FromTool(use.id, f"a page {HALF}")
        second = await provider.complete(asked(goal, first.as_message(), result))
    assert (first.text, use.arguments, use.problem) == ("look: \ufffd", {"query": "a \ufffd"}, "")
    assert second.text == "done"
    assert place.slept == [], "nothing of it is a fault that is tried again"


async def test_half_a_character_in_json_that_was_asked_for_is_replaced(place: Place) -> None:
    place.will("goal", said('{"line": "look: \\ud83d"}'))
    async with place.provider() as provider:
        told = await provider.complete_json(ModelRequest("test_iter1_0a1b2c3d", (FromUser("goal"),)), LINE)
    assert told.value == {"line": "look: \ufffd"}


async def test_adjacent_surrogates_are_one_character(place: Place) -> None:
    place.will("goal", escaped(place.kind, said("\ud83d\ude00")), said("done"))
    use = ToolUse("u1", "kb_search", {"query": "\ud83d\ude00"})
    history = (FromUser("goal"), FromModel("", (use,)), FromTool("u1", "nothing"))
    async with place.provider() as provider:
        assert (await provider.complete(asked(FromUser("goal")))).text == "\U0001f600"
        await provider.complete(asked(*history))
    assert "\U0001f600" in json.dumps(place.double.asked[-1], ensure_ascii=False)


async def test_a_run_whose_model_writes_a_lone_surrogate_continues(tmp_path: Path) -> None:
    async with run_host(tmp_path) as host:
        host.will("goal", escaped("chat", THOUGHT), said("done"))
        answer = await host.call("agent_run", goal="goal")
    assert (answer["status"], answer["text"]) == ("done", "done")
