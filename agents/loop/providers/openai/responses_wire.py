"""OpenAI's Responses: requests made, replies and streams read. Nothing is kept at the vendor (`store` is false). Pure.

Source: https://platform.openai.com/docs/api-reference/responses and the types of the vendor's package
(openai/types/responses/response.py, response_create_params.py, response_stream_event.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from agents.loop.model.ports import Echo, ModelReply, ModelRequest, ModelUsage, Shape, Stop
from agents.loop.providers.history import ModelTurn, UserTurn, echoed, tool_name, turns_of
from agents.loop.providers.wire.reply_text import (
    WrittenUse,
    mapping,
    objects,
    openai_usage,
    text_of,
    tool_uses,
    without_thoughts,
)
from agents.loop.providers.wire.request import (
    ECHO,
    ModelRefused,
    ProviderRequest,
    RequestDraft,
    UnusableReply,
    Without,
    result_text,
)

NAME = "openai"
FEWEST_TOKENS = 16
"""The API refuses a smaller limit on an answer."""
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
    """The format of requests to `model`."""

    def __init__(self, model: str) -> None:
        self._model = model

    def request(
        self, request: ModelRequest, without: Without, shape: Shape | None, *, streamed: bool
    ) -> ProviderRequest:
        """Return the request; it is the same whether or not the reply is streamed."""
        del streamed
        draft = RequestDraft(request, without, PARTS)
        body, echo = draft.body, draft.may_echo(NAME, self._model)
        body |= {
            "model": self._model,
            "input": list(self._items(request, echo=echo)),
            "max_output_tokens": max(FEWEST_TOKENS, request.most_tokens),
        }
        if draft.may_have("store"):
            body["store"] = False
        if draft.may_have("include"):
            # Reasoning comes encrypted, so that it can be sent back although the vendor stores nothing.
            body["include"] = ["reasoning.encrypted_content"]
        if request.temperature is not None and draft.may_have("temperature"):
            body["temperature"] = request.temperature
        tools = [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": dict(tool.schema),
                # Here, unlike in Chat Completions, strict is the default.
                "strict": False,
            }
            for tool in request.tools
        ]
        draft.offer_tools(tools, {"type": "function", "name": request.only})
        if shape and draft.may_have("format"):
            # Not strict: the strict form knows only a part of JSON Schema, and every answer is checked anyway.
            named = {"type": "json_schema", "name": shape.name, "schema": dict(shape.schema), "strict": False}
            body["text"] = {"format": named}
        elif shape:
            draft.describe(shape)
        if draft.system:
            body["instructions"] = "\n\n".join(draft.system)
        return draft.finished()

    def read(self, reply: Mapping[str, Any], request: ModelRequest) -> ModelReply:
        """Return the reply; reasoning is kept as its echo and not among its text."""
        if not isinstance(reply.get("output"), list):
            raise UnusableReply("it holds no output")
        items, status = objects(reply["output"]), reply.get("status")
        reason = mapping(reply.get("incomplete_details")).get("reason")
        parts = list[dict[str, Any]]()
        for item in items:
            if item.get("type") == "message":
                content = item.get("content")
                whole = [{"type": "output_text", "text": content}] if isinstance(content, str) else []
                parts += whole or objects(content)
        if reason == "content_filter" or any(part.get("type") == "refusal" for part in parts):
            raise ModelRefused("content_filter" if reason == "content_filter" else "")
        stop: Stop = "end" if status in ("completed", None) else "length" if reason == "max_output_tokens" else "other"
        uses = tool_uses(
            (
                WrittenUse(
                    place,
                    item.get("call_id"),  # results refer to this one, not to the item's own `id`
                    item.get("name"),
                    item.get("arguments"),
                    item.get("status") == "incomplete" or (stop == "length" and place == len(items) - 1),
                )
                for place, item in enumerate(items)
                if item.get("type") == "function_call"
            ),
            request,
        )
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
        """Return why the response failed: the error comes with status 200."""
        return reply if reply.get("error") else None

    def used(self, reply: Mapping[str, Any]) -> ModelUsage:
        """Return the usage."""
        return openai_usage(reply, "input_tokens", "output_tokens")

    def assembly(self) -> ResponsesAssembly:
        """Return an empty assembly."""
        return ResponsesAssembly()

    def _items(self, request: ModelRequest, *, echo: bool) -> Iterator[dict[str, Any]]:
        for turn in turns_of(request):
            if isinstance(turn, UserTurn):
                yield {"role": "user", "content": "\n\n".join(turn.texts)}
                continue
            yield from self._model_items(turn, echo=echo)
            for result in turn.results:
                yield {"type": "function_call_output", "call_id": result.use, "output": result_text(result)}

    def _model_items(self, turn: ModelTurn, *, echo: bool) -> Iterator[dict[str, Any]]:
        kept = echoed(turn, NAME, self._model, "function_call") if echo else None
        if kept is None:
            if turn.text.strip():
                yield {"role": "assistant", "content": turn.text}
            for use in turn.uses:
                arguments = json.dumps(dict(use.arguments), ensure_ascii=False)
                yield {"type": "function_call", "call_id": use.id, "name": tool_name(use.name), "arguments": arguments}
            return
        uses = iter(turn.uses)
        for item in kept:
            if item.get("type") == "function_call":
                # The result refers to this id, which may differ from the vendor's.
                use = next(uses)
                yield {**item, "call_id": use.id, "arguments": "{}" if use.problem else item.get("arguments")}
            else:
                yield item

    def _echo(self, items: list[dict[str, Any]]) -> Echo | None:
        """Return all items if there is reasoning or a message's `phase` among them; they go back in their places, without ids.

        An id, even that of a message beside them, would be looked up at the vendor, where nothing is stored.
        Source: https://platform.openai.com/docs/guides/reasoning, https://github.com/vercel/ai/issues/7543 and
        https://github.com/langchain-ai/langchain/pull/38372
        """
        if not any(item.get("encrypted_content") or item.get("phase") for item in items):
            return None
        kept = [
            {name: value for name, value in item.items() if name not in ("id", "status")}
            for item in items
            if item.get("type") != "reasoning" or item.get("encrypted_content")
        ]
        return Echo(NAME, self._model, json.dumps(kept))


class ResponsesAssembly:
    """A response put together from its events: the last one has all of it."""

    def __init__(self) -> None:
        self.over = self.complete = False
        self._response: dict[str, Any] = {}
        self._items: dict[int, Any] = {}

    def add(self, event: Mapping[str, Any]) -> None:
        """Take the next event. Finished items are kept, for servers whose last event leaves them out."""
        kind = str(event.get("type"))
        if kind == "response.output_item.done":
            index = event.get("output_index")
            self._items[index if isinstance(index, int) else len(self._items)] = event.get("item")
        elif kind == "error":
            self._response = {**self._response, "error": dict(event)}
            self.over = self.complete = True
        elif isinstance(event.get("response"), dict):
            self._response = dict(event["response"])
            if kind in ENDS:
                self._response["status"] = ENDS[kind]
                self.over = self.complete = True

    @property
    def reply(self) -> Mapping[str, Any]:
        """The response so far."""
        items = self._response.get("output") or [self._items[index] for index in sorted(self._items)]
        return {**self._response, "output": items}
