"""A language model's server: Anthropic's Messages, OpenAI's Chat Completions and Responses, over HTTP, with scripted answers.

It checks requests as strictly as the vendors do: a history that one of them refuses is refused here with their words.
Run it with `served(model)` of `tests/doubles/serving.py`, which adds the faults of the network.

    model = Model()
    model.will("find the plan", uses("kb_find", query="plan"), said("It is there."))

Each conversation takes the next step of the script whose words are in its first user message. Source: as in
`provider_shapes.py`; errors https://platform.claude.com/docs/en/api/errors,
https://platform.openai.com/docs/guides/error-codes
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from tests.doubles.provider_shapes import Chat, Event, Messages, Responses
from tests.doubles.provider_turns import Raw, Script, Trouble, Turn

KEY = "sk-test-0123456789abcdef"
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
KNOWN = {
    "messages": {
        "model", "max_tokens", "messages", "system", "tools", "tool_choice", "stream", "temperature", "cache_control",
        "output_config", "metadata", "thinking", "stop_sequences",
    },
    "chat": {
        "model", "messages", "tools", "tool_choice", "stream", "stream_options", "temperature", "max_tokens",
        "max_completion_tokens", "response_format", "seed", "stop", "user", "store", "reasoning_effort",
    },
    "responses": {
        "model", "input", "instructions", "tools", "tool_choice", "stream", "temperature", "max_output_tokens", "text",
        "include", "store", "reasoning", "previous_response_id",
    },
}  # fmt: skip


class _Wrong(Exception):
    """The request is refused; `param` is its wrong part."""

    def __init__(self, message: str, param: str | None = None) -> None:
        self.message, self.param = message, param
        super().__init__(message)


@dataclass
class Model:
    """The server as an ASGI application. `refuses` names parts that it claims not to know.

    `asked` holds the answered bodies, oldest first. With `key` None it accepts requests without a key. With `streams`
    False it always answers in one piece. `between_s` is the pause between events of a stream. `thinks` is a model that
    accepts tools in Chat Completions only with thinking switched off, as OpenAI's newer ones do. `orders` is one that
    accepts no user message right after a tool's, as Mistral's do.
    """

    key: str | None = KEY
    refuses: frozenset[str] = frozenset()
    streams: bool = True
    between_s: float = 0.0
    thinks: bool = False
    orders: bool = False
    asked: list[Mapping[str, Any]] = field(default_factory=list)
    _scripts: dict[str, list[Script]] = field(default_factory=dict)
    _number: int = 0

    def __post_init__(self) -> None:
        """Set up the paths."""
        self._app = Starlette(
            routes=[
                Route("/v1/messages", self._messages, methods=["POST"]),
                Route("/v1/chat/completions", self._chat, methods=["POST"]),
                Route("/v1/responses", self._responses, methods=["POST"]),
            ]
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        await self._app(scope, receive, send)

    def will(self, words: str, *script: Script) -> None:
        """Set the answers, step by step, for conversations whose first message contains `words`."""
        self._scripts[words] = list(script)

    @property
    def left(self) -> int:
        """Return how many steps have not been requested yet."""
        return sum(len(script) for script in self._scripts.values())

    async def _messages(self, request: Request) -> Response:
        shape = Messages()
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        if self.key is not None and self.key not in (bearer, request.headers.get("x-api-key")):
            return self._failed(shape, Trouble(401, "authentication_error", "invalid authentication"))
        body = await request.json()
        try:
            self._known(body, "messages")
            _check_messages(body, request.headers.get("anthropic-version"))
        except _Wrong as wrong:
            return self._failed(shape, Trouble(400, "invalid_request_error", wrong.message))
        first = "".join(block["text"] for block in body["messages"][0]["content"] if block["type"] == "text")
        return await self._answer(shape, body, first)

    async def _chat(self, request: Request) -> Response:
        return await self._openai(request, Chat(), "chat")

    async def _responses(self, request: Request) -> Response:
        return await self._openai(request, Responses(), "responses")

    async def _openai(self, request: Request, shape: Chat | Responses, kind: str) -> Response:
        if self.key is not None and request.headers.get("authorization") != f"Bearer {self.key}":
            trouble = Trouble(401, "invalid_request_error", "Incorrect API key provided", code="invalid_api_key")
            return self._failed(shape, trouble)
        body = await request.json()
        try:
            self._known(body, kind)
            first = _check_chat(body) if kind == "chat" else _check_responses(body)
            if kind == "chat":
                self._check_ways(body)
        except _Wrong as wrong:
            code = "unsupported_parameter" if wrong.param in self.refuses else None
            trouble = Trouble(400, "invalid_request_error", wrong.message, code=code, param=wrong.param)
            return self._failed(shape, trouble)
        return await self._answer(shape, body, first)

    def _known(self, body: Mapping[str, Any], kind: str) -> None:
        names = set(body) | set(_formats(body))
        for name in sorted(names):
            if name in self.refuses:
                instead = " Use 'max_completion_tokens' instead." if name == "max_tokens" else ""
                raise _Wrong(f"Unsupported parameter: '{name}' is not supported with this model.{instead}", name)
            if name in body and name not in KNOWN[kind]:
                raise _Wrong(f"{name}: Extra inputs are not permitted", name)

    def _check_ways(self, body: Mapping[str, Any]) -> None:
        """Check the request against the rules of single models, with their servers' words."""
        if self.thinks and body.get("tools") and body.get("reasoning_effort") != "none":
            raise _Wrong(
                "Function tools with reasoning_effort are not supported for this model in /v1/chat/completions. "
                "To use function tools, use /v1/responses or set reasoning_effort to 'none'.",
                "reasoning_effort",
            )
        roles = [message["role"] for message in body["messages"]]
        if self.orders and ("tool", "user") in pairwise(roles):
            raise _Wrong("Unexpected role 'user' after role 'tool'")

    async def _answer(self, shape: Messages | Chat | Responses, body: Mapping[str, Any], first: str) -> Response:
        script = next((script for words, script in self._scripts.items() if words in first and script), None)
        if script is None:
            return self._failed(shape, Trouble(400, "invalid_request_error", "the script is at its end"))
        self._number += 1
        self.asked.append(body)
        step = script.pop(0)
        step = step(body) if callable(step) else step
        streamed = bool(body.get("stream")) and self.streams
        number, model = self._number, str(body["model"])
        if isinstance(step, Raw):
            return Response(step.content, step.status, dict(step.headers), media_type=step.content_type)
        if isinstance(step, Trouble):
            if step.inside and streamed:
                return self._streamed(shape.inside(step, number, model))
            return self._failed(shape, step)
        if not streamed:
            return JSONResponse(shape.reply(step, number, model), headers=self._head())
        if isinstance(shape, Chat):
            usage = bool((body.get("stream_options") or {}).get("include_usage"))
            return self._streamed(shape.stream(step, number, model, usage=usage), step)
        return self._streamed(shape.stream(step, number, model), step)

    def _failed(self, shape: Messages | Chat | Responses, trouble: Trouble) -> Response:
        headers = {**self._head(), **trouble.headers}
        return JSONResponse(shape.error(trouble, self._number), trouble.status, headers)

    def _head(self) -> dict[str, str]:
        return {"request-id": f"req_{self._number:06}", "x-request-id": f"req_{self._number:06}"}

    def _streamed(self, events: Iterator[Event], turn: Turn | None = None) -> Response:
        async def written() -> AsyncIterator[str]:
            for number, (name, data) in enumerate(events):
                if turn and turn.cut is not None and number >= turn.cut:
                    return
                if self.between_s:
                    await asyncio.sleep(self.between_s)
                told = data if isinstance(data, str) else json.dumps(data)
                yield (f"event: {name}\n" if name else "") + f"data: {told}\n\n"

        return StreamingResponse(written(), media_type="text/event-stream", headers=self._head())


def _formats(body: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of formats that nested parts ask for."""
    wanted = body.get("response_format") or (body.get("text") or {}).get("format") or {}
    if wanted:
        yield str(wanted.get("type"))


def _check_messages(body: Mapping[str, Any], version: str | None) -> None:
    """Check the request against the API's rules for messages, with its words.

    Source: https://platform.claude.com/docs/en/agents-and-tools/tool-use/handle-tool-calls
    """
    if not version:
        raise _Wrong("anthropic-version: header is required")
    if not isinstance(body.get("max_tokens"), int) or body["max_tokens"] < 1:
        raise _Wrong("max_tokens: Field required")
    messages = body["messages"]
    if not messages or messages[0]["role"] != "user":
        raise _Wrong("messages: first message must use the user role")
    open_uses: list[str] = []
    for index, message in enumerate(messages):
        content = message["content"]
        if not content:
            raise _Wrong(f"messages.{index}: all messages must have non-empty content")
        if index and message["role"] == messages[index - 1]["role"]:
            raise _Wrong("messages: roles must alternate between user and assistant")
        results = [block["tool_use_id"] for block in content if block["type"] == "tool_result"]
        if results != open_uses or [block["type"] for block in content[: len(results)]] != ["tool_result"] * len(
            results
        ):
            raise _Wrong(f"messages.{index}: `tool_use` ids were found without `tool_result` blocks immediately after")
        _check_blocks(index, content, body)
        open_uses = [block["id"] for block in content if block["type"] == "tool_use"]
    if messages[-1]["role"] != "user":
        raise _Wrong("This model does not support assistant message prefill.")
    _check_tools(body, [tool["name"] for tool in body.get("tools", ())], (body.get("tool_choice") or {}).get("name"))


def _check_blocks(index: int, content: list[Mapping[str, Any]], body: Mapping[str, Any]) -> None:
    for block in content:
        if block["type"] == "text" and not block["text"].strip():
            raise _Wrong("messages: text content blocks must contain non-whitespace text")
        if block["type"] == "tool_use":
            if not body.get("tools"):
                raise _Wrong("Requests which include `tool_use` or `tool_result` blocks must define tools")
            if not NAME.fullmatch(block["id"]) or not isinstance(block["input"], dict):
                raise _Wrong(f"messages.{index}.content: tool_use: Input should be a valid dictionary, id a valid id")
        if block["type"] == "tool_result" and block.get("is_error") and not block.get("content"):
            raise _Wrong("content cannot be empty if `is_error` is true")
        if block["type"] == "thinking" and not re.fullmatch(r"signed-\d+", block["signature"]):
            raise _Wrong("Invalid `signature` in `thinking` block")


def _check_tools(body: Mapping[str, Any], names: list[str], chosen: str | None) -> None:
    if any(not NAME.fullmatch(name) for name in names) or len(set(names)) != len(names):
        raise _Wrong("tools: names must be unique and match '^[a-zA-Z0-9_-]{1,64}$'", "tools")
    if (body.get("tool_choice") and not names) or (chosen and chosen not in names):
        raise _Wrong("'tool_choice' is only allowed when 'tools' are specified", "tool_choice")


def _check_chat(body: Mapping[str, Any]) -> str:
    """Check the request against the API's rules for messages, and return the first user message."""
    open_calls: list[str] = []
    first = ""
    for index, message in enumerate(body["messages"]):
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_calls:
                raise _Wrong("messages with role 'tool' must be a response to a preceeding message with 'tool_calls'")
            open_calls.remove(message["tool_call_id"])
            continue
        if open_calls:
            raise _Wrong(
                "An assistant message with 'tool_calls' must be followed by tool messages for each 'tool_call_id'"
            )
        calls = message.get("tool_calls", [])
        if message["role"] == "assistant" and not calls and not message.get("content"):
            raise _Wrong(f"Invalid value for 'messages.[{index}].content': expected a string, got null.")
        for call in calls:
            if not NAME.fullmatch(call["function"]["name"]):
                raise _Wrong(f"Invalid 'messages[{index}].tool_calls[0].function.name': string does not match pattern")
            json.loads(call["function"]["arguments"])
        open_calls = [call["id"] for call in calls]
        first = first or (message["content"] if message["role"] == "user" else "")
    if open_calls:
        raise _Wrong("An assistant message with 'tool_calls' must be followed by tool messages for each 'tool_call_id'")
    choice = body.get("tool_choice")
    chosen = choice["function"]["name"] if isinstance(choice, dict) else None
    _check_tools(body, [tool["function"]["name"] for tool in body.get("tools", ())], chosen)
    wanted = body.get("response_format", {})
    if wanted.get("type") == "json_object" and "json" not in json.dumps(body["messages"]).lower():
        raise _Wrong("'messages' must contain the word 'json' in some form", "messages")
    return first


def _check_responses(body: Mapping[str, Any]) -> str:
    """Check the request against the API's rules for items, and return the first user message."""
    if body.get("max_output_tokens", 16) < 16:
        raise _Wrong(
            "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16", "max_output_tokens"
        )
    items = body["input"]
    calls = [item["call_id"] for item in items if item.get("type") == "function_call"]
    outputs = [item["call_id"] for item in items if item.get("type") == "function_call_output"]
    for call in calls:
        if call not in outputs:
            raise _Wrong(f"No tool output found for function call {call}.", "input")
    for output in outputs:
        if output not in calls:
            raise _Wrong(f"No tool call found for function call output with call_id {output}.", "input")
    for item in items:
        if item.get("id") and not body.get("store", True):
            raise _Wrong(
                f"Item with id '{item['id']}' not found. Items are not persisted when `store` is set to false."
            )
    choice = body.get("tool_choice")
    _check_tools(
        body, [tool["name"] for tool in body.get("tools", ())], choice["name"] if isinstance(choice, dict) else None
    )
    return next(str(item["content"]) for item in items if item.get("role") == "user")
