"""Anthropic's Messages API: requests made, replies and streams read. Pure.

Source: https://platform.claude.com/docs/en/api/messages, https://platform.claude.com/docs/en/build-with-claude/streaming
and the types of the vendor's package (anthropic/types/message.py, raw_message_stream_event.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from agents.loop.model.ports import Echo, ModelReply, ModelRequest, ModelUsage, Shape, Stop
from agents.loop.providers.history import ModelTurn, UserTurn, echoed, tool_name, turns_of
from agents.loop.providers.wire.reply_text import (
    WrittenUse,
    arguments_of,
    count,
    mapping,
    objects,
    text_of,
    tool_uses,
)
from agents.loop.providers.wire.request import (
    ECHO,
    ModelRefused,
    ProviderRequest,
    RequestDraft,
    UnusableReply,
    Without,
)
from agents.loop.providers.wire.strict_schema import closed

NAME = "anthropic"
STOPS: Mapping[str, Stop] = {
    "end_turn": "end",
    "stop_sequence": "end",
    "tool_use": "tools",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
}
NOTHING = "(no text)"
"""The API refuses an error without text, so a result always has some."""
GROWING = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}
PARTS = {
    "temperature": ("temperature",),
    "tool_choice": ("tool_choice",),
    "cache_control": ("cache_control",),
    ECHO: ("signature", "thinking block", "redacted_thinking"),
    "format": ("output_config", "output_format", "schema"),
}


class AnthropicWire:
    """The format of requests to `model`."""

    def __init__(self, model: str) -> None:
        self._model = model

    def request(
        self, request: ModelRequest, without: Without, shape: Shape | None, *, streamed: bool
    ) -> ProviderRequest:
        """Return the request; it is the same whether or not the reply is streamed."""
        del streamed
        draft = RequestDraft(request, without, PARTS)
        echo = draft.may_echo(NAME, self._model)
        draft.body |= {
            "model": self._model,
            "max_tokens": request.most_tokens,
            "messages": self._messages(request, echo=echo),
        }
        if request.tools:
            draft.body["tools"] = [
                {"name": tool.name, "description": tool.description, "input_schema": dict(tool.schema)}
                for tool in request.tools
            ]
            if request.only:
                draft.choose_tools({"type": "tool", "name": request.only})
            else:
                draft.choose_tools({"some": {"type": "any"}, "none": {"type": "none"}}.get(request.tool_choice))
        if shape and draft.may_have("format"):
            draft.body["output_config"] = {"format": {"type": "json_schema", "schema": closed(shape.schema)}}
        elif shape:
            draft.describe(shape)
        if draft.system:
            draft.body["system"] = "\n\n".join(draft.system)
        # The history only grows at its end, so everything but the last turn is read from the cache. A single request without tools
        # would only pay the quarter more that writing to the cache costs.
        if request.tools and draft.may_have("cache_control"):
            draft.body["cache_control"] = {"type": "ephemeral"}
        # Newer models accept none, and the package no longer has an argument for it.
        if request.temperature is not None and draft.may_have("temperature"):
            draft.extra["temperature"] = request.temperature
        return draft.finished()

    def read(self, reply: Mapping[str, Any], request: ModelRequest) -> ModelReply:
        """Return the reply; reasoning is kept as its echo and not among its text."""
        stop = reply.get("stop_reason")
        if stop == "refusal":
            raise ModelRefused(text_of(mapping(reply.get("stop_details")).get("category")))
        if not isinstance(reply.get("content"), list) or not isinstance(stop, str):
            raise UnusableReply("it is not a message")
        blocks, cut = objects(reply["content"]), STOPS.get(stop) == "length"
        uses = tool_uses(
            (
                WrittenUse(
                    place, block.get("id"), block.get("name"), block.get("input"), cut and place == len(blocks) - 1
                )
                for place, block in enumerate(blocks)
                if block.get("type") == "tool_use"
            ),
            request,
        )
        # If any block is reasoning, all go back unchanged, signatures included, as the types of the vendor's package
        # say (anthropic/types/thinking_block.py and redacted_thinking_block.py).
        plain = all(block.get("type") in ("text", "tool_use") for block in blocks)
        return ModelReply(
            text="".join(text_of(block.get("text")) for block in blocks if block.get("type") == "text"),
            uses=uses,
            stop="tools" if uses and STOPS.get(stop) == "end" else STOPS.get(stop, "other"),
            usage=self.used(reply),
            model=text_of(reply.get("model")) or self._model,
            request=text_of(reply.get("id")),
            echo=None if plain else Echo(NAME, self._model, json.dumps(blocks)),
        )

    def error_in(self, reply: Mapping[str, Any]) -> object | None:
        """Return an error that came with status 200, as from some gateways."""
        return reply if reply.get("type") == "error" else None

    def used(self, reply: Mapping[str, Any]) -> ModelUsage:
        """Return the usage. Anthropic's `input_tokens` are only those that no cache read or wrote.

        Source: anthropic/types/message.py, on `usage`: the whole input is the sum of the three.
        """
        usage = mapping(reply.get("usage"))
        if not isinstance(usage.get("input_tokens"), int):
            return ModelUsage(known=False)
        plain, cached, written, output = (
            count(usage.get(name))
            for name in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens")
        )
        return ModelUsage(plain + cached + written, output, cached, written)

    def assembly(self) -> AnthropicAssembly:
        """Return an empty assembly."""
        return AnthropicAssembly()

    def _messages(self, request: ModelRequest, *, echo: bool) -> list[dict[str, Any]]:
        """Return the history as alternating messages. Tool results come first in the message after their uses.

        Source: https://platform.claude.com/docs/en/agents-and-tools/tool-use/handle-tool-calls
        """
        messages: list[dict[str, Any]] = []

        def add(role: str, content: list[dict[str, Any]]) -> None:
            if content and messages and messages[-1]["role"] == role:
                messages[-1]["content"].extend(content)  # the roles must alternate
            elif content:
                messages.append({"role": role, "content": content})

        for turn in turns_of(request):
            if isinstance(turn, UserTurn):
                add("user", [{"type": "text", "text": text} for text in turn.texts])
                continue
            add("assistant", self._model_content(turn, echo=echo))
            results = list[dict[str, Any]]()
            for result in turn.results:
                text = result.text if result.text.strip() else NOTHING
                failed = {"is_error": True} if result.failed else {}
                results.append({"type": "tool_result", "tool_use_id": _id(result.use), "content": text, **failed})
            add("user", results)
        return messages

    def _model_content(self, turn: ModelTurn, *, echo: bool) -> list[dict[str, Any]]:
        kept = echoed(turn, NAME, self._model, "tool_use") if echo else None
        if kept is None:
            text = [{"type": "text", "text": turn.text}] if turn.text.strip() else []
            return text + [
                {"type": "tool_use", "id": _id(use.id), "name": tool_name(use.name), "input": dict(use.arguments)}
                for use in turn.uses
            ]
        content, uses = list[dict[str, Any]](), iter(turn.uses)
        for block in kept:
            if block.get("type") == "tool_use":
                # The result refers to this id, which may differ from the vendor's.
                content.append({**block, "id": _id(next(uses).id), "input": mapping(block.get("input"))})
            elif block.get("type") != "text" or text_of(block.get("text")).strip():
                content.append(block)  # the API sends blank text blocks but refuses them in requests
        return content


class AnthropicAssembly:
    """A message put together from its events. Tool arguments stay text here: the wire reads them."""

    def __init__(self) -> None:
        self.over = self.complete = False
        self._message: dict[str, Any] = {}
        self._blocks: dict[int, dict[str, Any]] = {}

    def add(self, event: Mapping[str, Any]) -> None:
        """Take the next event; unknown kinds are ignored, as the vendor asks."""
        index = event.get("index")
        place = index if isinstance(index, int) else 0
        match event.get("type"):
            case "message_start":
                self._message = dict(mapping(event.get("message")))
            case "content_block_start":
                self._blocks[place] = dict(mapping(event.get("content_block")))
            case "content_block_delta":
                block, delta = self._blocks.setdefault(place, {"type": "text"}), mapping(event.get("delta"))
                if delta.get("type") == "signature_delta":
                    block["signature"] = delta.get("signature")
                elif name := GROWING.get(str(delta.get("type"))):
                    block[name] = text_of(block.get(name)) + text_of(delta.get(name))
            case "message_delta":
                self._message |= _without_nulls(event.get("delta"))
                # The counts are totals; those that are missing stay as the first event said.
                usage = {**mapping(self._message.get("usage")), **_without_nulls(event.get("usage"))}
                self._message["usage"] = usage
            case "message_stop":
                self.over = self.complete = True

    @property
    def reply(self) -> Mapping[str, Any]:
        """The message so far."""
        blocks = []
        for index in sorted(self._blocks):
            block = dict(self._blocks[index])
            if "partial_json" in block:
                written = block.pop("partial_json")
                arguments, problem = arguments_of(written)
                block["input"] = written if problem else arguments
            blocks.append(block)
        return {**self._message, "content": blocks}


def _id(use: str) -> str:
    """Return an id as the API accepts it: letters, digits, `_` and `-`. Another vendor's may have other characters."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", use)


def _without_nulls(part: object) -> dict[str, Any]:
    return {name: value for name, value in mapping(part).items() if value is not None}
