"""The double and our requests are checked against the vendors' own types, as their packages publish them.

Building those types takes seconds, so these tests run with the external ones.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from agents.loop.model.ports import Echo, FromModel, FromTool, FromUser, ModelRequest, Shape, ToolDefinition, ToolUse
from agents.loop.providers.anthropic.wire import AnthropicWire
from agents.loop.providers.openai.chat_wire import ChatWire
from agents.loop.providers.openai.responses_wire import ResponsesWire
from agents.loop.providers.wire.request import Wire
from tests.doubles.provider_shapes import Chat, Messages, Responses
from tests.doubles.provider_turns import Call, Trouble, Turn

pytestmark = pytest.mark.external

CALLS = (Call("kb_find", {"query": "ä"}), Call("kb_map"))
TURNS = [
    Turn("Yes"),
    Turn("I look.", calls=CALLS, thoughts="hm", cached=40),
    Turn("I look.", calls=CALLS, quirks=frozenset({"phase"})),
    Turn("", refusal="cyber"),
]
USE = ToolUse("call_1", "kb_find", {"query": "x"})
TOOL = ToolDefinition("kb_find", "Find.", {"type": "object", "properties": {"query": {"type": "string"}}})
SHAPE = Shape("verdict", {"type": "object", "properties": {"sure": {"type": "integer", "maximum": 5}}})
THOUGHT = Echo(
    "anthropic", "m", json.dumps(Messages().reply(Turn("So.", (CALLS[0],), thoughts="hm"), 1, "m")["content"])
)
HISTORY = (
    FromUser("the goal"),
    FromModel("So.", (replace(USE, id="call_0"),), THOUGHT),
    FromTool("call_0", "found"),
    FromModel("I look.", (USE,)),
    FromTool("call_1", "no", failed=True),
    FromUser("and?"),
)


def types_of(kind: str) -> tuple[Any, Any, Any]:
    """Return the types of a request, a reply and an event."""
    if kind == "anthropic":
        from anthropic.types import Message, RawMessageStreamEvent, message_create_params

        return message_create_params.MessageCreateParamsNonStreaming, Message, RawMessageStreamEvent
    if kind == "chat":
        from openai.types.chat import ChatCompletion, ChatCompletionChunk, completion_create_params

        return completion_create_params.CompletionCreateParamsNonStreaming, ChatCompletion, ChatCompletionChunk
    from openai.types.responses import Response, ResponseStreamEvent, response_create_params

    return response_create_params.ResponseCreateParamsNonStreaming, Response, ResponseStreamEvent


@pytest.mark.parametrize("kind", ["anthropic", "chat", "responses"])
def test_the_double_answers_in_the_vendors_types(kind: str) -> None:
    _request, reply, event = types_of(kind)
    replies, events = TypeAdapter(reply), TypeAdapter(event)
    shape: Messages | Chat | Responses = {"anthropic": Messages(), "chat": Chat(), "responses": Responses()}[kind]  # type: ignore[assignment]  # one of the three
    for turn in TURNS:
        replies.validate_python(shape.reply(turn, 1, "m"), strict=True)
        streamed = shape.stream(turn, 1, "m", usage=True) if isinstance(shape, Chat) else shape.stream(turn, 1, "m")
        for name, data in streamed:
            if name != "ping" and not isinstance(data, str):
                events.validate_python(data, strict=True)


@pytest.mark.parametrize("kind", ["anthropic", "chat", "responses"])
@pytest.mark.parametrize("freedom", ["free", "some", "none"])
@pytest.mark.parametrize("only", ["", "kb_find"])
@pytest.mark.parametrize("shape", [None, SHAPE])
@pytest.mark.parametrize("without", [frozenset(), frozenset({"json_schema", "effort", "order"})])
def test_requests_are_of_the_vendors_types(
    kind: str, freedom: Any, only: str, shape: Shape | None, without: frozenset[str]
) -> None:
    """A vendor refuses fields that its type doesn't name, or worse, ignores them."""
    wires: dict[str, Wire] = {"anthropic": AnthropicWire("m"), "chat": ChatWire("m"), "responses": ResponsesWire("m")}
    asked = ModelRequest("t_iter1_00000000", HISTORY, "Be kind", (TOOL,), freedom, only)
    request = wires[kind].request(asked, without, shape, streamed=False)
    named = types_of(kind)[0]
    assert set(request.body) <= {name for base in (named, *named.__orig_bases__) for name in base.__annotations__}
    # Kept while it is walked: what checks late needs it.
    adapter = TypeAdapter(named)
    walked(adapter.validate_python(json.loads(json.dumps(dict(request.body)))))


def test_a_request_that_is_not_of_the_vendors_type_is_found_deep_inside() -> None:
    """A declared iterable is checked only when it is iterated over: this shows that it is."""
    adapter = TypeAdapter(types_of("anthropic")[0])
    wrong = {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": [{"type": "tool_result"}]}]}
    with pytest.raises(ValidationError):
        walked(adapter.validate_python(wrong))


def walked(value: Any) -> None:
    """Walk through all of a value, including iterables that check their items lazily."""
    if isinstance(value, dict):
        value = value.values()
    if not isinstance(value, str) and isinstance(value, Iterable):
        for item in value:
            walked(item)


def test_the_doubles_errors_are_of_the_vendors_type() -> None:
    from anthropic.types.shared import ErrorResponse

    body = Messages().error(Trouble(529, "overloaded_error", "busy"), 1)
    assert TypeAdapter(ErrorResponse).validate_python(body).error.type == "overloaded_error"
