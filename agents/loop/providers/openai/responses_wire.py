"""OpenAI's Responses: requests made, replies and streams read. Nothing is kept at the vendor (`store` is false). Pure.

Source: https://platform.openai.com/docs/api-reference/responses and the types of the vendor's package
(openai/types/responses/response.py, response_create_params.py, response_stream_event.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from agents.loop.model.ports import Echo, ModelReply, ModelRequest, ModelUsage, Shape, Stop, ToolUse
from agents.loop.providers.history import ModelTurn, UserTurn, echoed, holds_echo, made_id, tool_name, turns_of
from agents.loop.providers.wire.reply_text import (
    CUT_OFF,
    arguments_of,
    in_words,
    mapping,
    objects,
    text_of,
    used_of,
    without_thoughts,
)
from agents.loop.providers.wire.request import (
    ECHO,
    ModelRefused,
    ProviderRequest,
    UnusableReply,
    Without,
    choice_in_words,
)

NAME = "openai"
FEWEST_TOKENS = 16
"""The API refuses a smaller bound on an answer."""
PARTS = {
    "temperature": ("temperature",),
    "tool_choice": ("tool_choice", "tool choice"),
    ECHO: ("encrypted content",),
    "include": ("include", "encrypted"),
    "store": ("store",),
    "format": ("text.format", "json_schema"),
}
ENDS = {"response.completed": "completed", "response.incomplete": "incomplete", "response.failed": "failed"}


class ResponsesWire:
    """Speaks of `model`."""

    def __init__(self, model: str) -> None:
        self._model = model

    def request(self, asked: ModelRequest, without: Without, shape: Shape | None, *, streamed: bool) -> ProviderRequest:
        """Return the request; whether it is streamed makes no difference to it."""
        del streamed
        words = [asked.system] if asked.system.strip() else []
        body: dict[str, Any] = {
            "model": self._model,
            "input": self._items(asked, without),
            "max_output_tokens": max(FEWEST_TOKENS, asked.most_tokens),
            "store": False,
            # Thoughts come sealed, so that they can be given back although nothing is kept there.
            "include": ["reasoning.encrypted_content"],
        }
        if asked.temperature is not None:
            body["temperature"] = asked.temperature
        _tell_tools(body, asked, without, words)
        if shape and "format" not in without:
            # Held loosely: the strict form knows only a part of JSON Schema, and every answer is checked anyway.
            named = {"type": "json_schema", "name": shape.name, "schema": dict(shape.schema), "strict": False}
            body["text"] = {"format": named}
        elif shape:
            words.append(in_words(shape))
        if words:
            body["instructions"] = "\n\n".join(words)
        for name in without & body.keys():
            del body[name]
        there = body.keys() | ({"format"} if "text" in body else set())
        if ECHO not in without and holds_echo(asked, NAME, self._model):
            there |= {ECHO}
        return ProviderRequest(body, {}, {name: PARTS[name] for name in PARTS if name in there})

    def read(self, reply: Mapping[str, Any], asked: ModelRequest) -> ModelReply:
        """Return the answer; thoughts are kept as echo and are no text."""
        if not isinstance(reply.get("output"), list):
            raise UnusableReply("it holds no output")
        items, status = objects(reply["output"]), reply.get("status")
        reason = mapping(reply.get("incomplete_details")).get("reason")
        parts = [part for item in items if item.get("type") == "message" for part in _parts(item)]
        if reason == "content_filter" or any(part.get("type") == "refusal" for part in parts):
            raise ModelRefused("content_filter" if reason == "content_filter" else "")
        stop: Stop = "end" if status in ("completed", None) else "length" if reason == "max_output_tokens" else "other"
        uses = tuple(_uses(items, asked, cut=stop == "length"))
        text = "".join(text_of(part.get("text")) for part in parts if part.get("type") == "output_text")
        return ModelReply(
            text=without_thoughts(text),
            uses=uses,
            stop="tools" if uses and stop == "end" else stop,
            usage=self.used(reply),
            model=text_of(reply.get("model")) or self._model,
            request=text_of(reply.get("id")),
            echo=self._echo(items),
        )

    def error_in(self, reply: Mapping[str, Any]) -> object | None:
        """Return why the response failed: it comes with status 200."""
        return reply if reply.get("error") else None

    def used(self, reply: Mapping[str, Any]) -> ModelUsage:
        """Return the usage."""
        usage = mapping(reply.get("usage"))
        if not isinstance(usage.get("input_tokens"), int):
            return ModelUsage(known=False)
        details = mapping(usage.get("input_tokens_details"))
        cached, written = details.get("cached_tokens"), details.get("cache_write_tokens")
        return used_of(usage["input_tokens"], usage.get("output_tokens"), cached, written)

    def assembly(self) -> ResponsesAssembly:
        """Return a fresh assembly."""
        return ResponsesAssembly()

    def _items(self, asked: ModelRequest, without: Without) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = []
        for turn in turns_of(asked):
            if isinstance(turn, UserTurn):
                items.append({"role": "user", "content": "\n\n".join(turn.texts)})
                continue
            items.extend(self._said(turn, without))
            for result in turn.results:
                text = f"Error: {result.text}" if result.failed else result.text
                items.append({"type": "function_call_output", "call_id": result.use, "output": text})
        return items

    def _said(self, turn: ModelTurn, without: Without) -> Iterator[dict[str, Any]]:
        kept = None if ECHO in without else echoed(turn, NAME, self._model, "function_call")
        if kept is not None:
            uses = iter(turn.uses)
            yield from (_as_told(item, next(uses)) if item.get("type") == "function_call" else item for item in kept)
            return
        if turn.text.strip():
            yield {"role": "assistant", "content": turn.text}
        for use in turn.uses:
            arguments = json.dumps(dict(use.arguments), ensure_ascii=False)
            yield {"type": "function_call", "call_id": use.id, "name": tool_name(use.name), "arguments": arguments}

    def _echo(self, items: list[dict[str, Any]]) -> Echo | None:
        """Return all items, if thoughts are among them, or what a message is for: they come back in their places, without their ids.

        An id, also that of a message beside them, would be looked up there, and nothing is kept there.
        Source: https://platform.openai.com/docs/guides/reasoning, https://github.com/vercel/ai/issues/7543 and
        https://github.com/langchain-ai/langchain/pull/38372
        """
        if not any(item.get("encrypted_content") or item.get("phase") for item in items):
            return None
        kept = [item for item in items if item.get("type") != "reasoning" or item.get("encrypted_content")]
        return Echo(NAME, self._model, json.dumps([_without(item, "id", "status") for item in kept]))


class ResponsesAssembly:
    """A response from its events: the last one holds all of it."""

    def __init__(self) -> None:
        self._response: dict[str, Any] = {}
        self._items: dict[int, Any] = {}
        self._over = False

    def add(self, event: Mapping[str, Any]) -> None:
        """Take the next event. Items are kept as they are done, for servers whose last event leaves them out."""
        kind = str(event.get("type"))
        if kind == "response.output_item.done":
            index = event.get("output_index")
            self._items[index if isinstance(index, int) else len(self._items)] = event.get("item")
        elif kind == "error":
            self._response = {**self._response, "error": dict(event)}
            self._over = True
        elif isinstance(event.get("response"), dict):
            self._response = dict(event["response"])
            if kind in ENDS:
                self._response["status"] = ENDS[kind]
                self._over = True

    @property
    def over(self) -> bool:
        """Return whether the end was announced."""
        return self._over

    @property
    def whole(self) -> bool:
        """Return whether the end was announced."""
        return self._over

    @property
    def reply(self) -> Mapping[str, Any]:
        """Return the response so far."""
        items = self._response.get("output") or [self._items[index] for index in sorted(self._items)]
        return {**self._response, "output": items}


def _as_told(item: dict[str, Any], use: ToolUse) -> dict[str, Any]:
    """Return an item under the id by which its result is told: callers may have ids of their own."""
    return {**item, "call_id": use.id, "arguments": "{}" if use.problem else item.get("arguments")}


def _tell_tools(body: dict[str, Any], asked: ModelRequest, without: Without, words: list[str]) -> None:
    if not asked.tools:
        return
    choice: Any = {"some": "required", "none": "none"}.get(asked.freedom)
    if asked.only:
        choice = {"type": "function", "name": asked.only}
    if choice == "none" and "tool_choice" in without:
        # Nothing can be called that is not told.
        return
    body["tools"] = [
        {
            "type": "function",
            "name": tool.name,
            "description": tool.description,
            "parameters": dict(tool.schema),
            # Here, unlike in Chat Completions, strict is what is meant if nothing is said.
            "strict": False,
        }
        for tool in asked.tools
    ]
    if choice and "tool_choice" not in without:
        body["tool_choice"] = choice
    elif choice:
        words.append(choice_in_words(asked))


def _parts(item: Mapping[str, Any]) -> list[dict[str, Any]]:
    content = item.get("content")
    if isinstance(content, str):
        return [{"type": "output_text", "text": content}]
    return objects(content)


def _uses(items: list[dict[str, Any]], asked: ModelRequest, *, cut: bool) -> Iterator[ToolUse]:
    seen = set[str]()
    for place, item in enumerate(items):
        if item.get("type") != "function_call":
            continue
        arguments, problem = arguments_of(item.get("arguments"))
        if item.get("status") == "incomplete" or (cut and place == len(items) - 1):
            arguments, problem = {}, CUT_OFF
        # The item's own `id` is another thing: results go by `call_id`.
        told = item.get("call_id")
        use = (
            told
            if isinstance(told, str) and told and told not in seen
            else made_id(asked.conversation, len(asked.messages), place)
        )
        seen.add(use)
        yield ToolUse(use, text_of(item.get("name")), arguments, problem)


def _without(item: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name not in names}
