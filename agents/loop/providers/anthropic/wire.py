"""Anthropic's Messages API: requests made, replies and streams read. Pure.

Source: https://platform.claude.com/docs/en/api/messages, https://platform.claude.com/docs/en/build-with-claude/streaming
and the types of the vendor's package (anthropic/types/message.py, raw_message_stream_event.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from agents.loop.model.ports import Echo, ModelReply, ModelRequest, ModelUsage, Shape, Stop, ToolUse
from agents.loop.providers.history import ModelTurn, UserTurn, echoed, holds_echo, made_id, tool_name, turns_of
from agents.loop.providers.wire.reply_text import CUT_OFF, arguments_of, count, in_words, mapping, objects, text_of
from agents.loop.providers.wire.request import (
    ECHO,
    ModelRefused,
    ProviderRequest,
    UnusableReply,
    Without,
    choice_in_words,
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
"""An error without text is refused by the API, so a result always has some."""
PARTS = {
    "temperature": ("temperature",),
    "tool_choice": ("tool_choice",),
    "cache_control": ("cache_control",),
    ECHO: ("signature", "thinking block", "redacted_thinking"),
    "format": ("output_config", "output_format", "schema"),
}


class AnthropicWire:
    """Speaks of `model`."""

    def __init__(self, model: str) -> None:
        self._model = model

    def request(self, asked: ModelRequest, without: Without, shape: Shape | None, *, streamed: bool) -> ProviderRequest:
        """Return the request; whether it is streamed makes no difference to it."""
        del streamed
        words = [asked.system] if asked.system.strip() else []
        body: dict[str, Any] = {
            "model": self._model,
            "max_tokens": asked.most_tokens,
            "messages": self._messages(asked, without),
        }
        if asked.tools:
            body["tools"] = [
                {"name": tool.name, "description": tool.description, "input_schema": dict(tool.schema)}
                for tool in asked.tools
            ]
            choice = _choice(asked)
            if choice and "tool_choice" not in without:
                body["tool_choice"] = choice
            elif choice:
                words.append(choice_in_words(asked))
        if shape and "format" not in without:
            body["output_config"] = {"format": {"type": "json_schema", "schema": closed(shape.schema)}}
        elif shape:
            words.append(in_words(shape))
        if words:
            body["system"] = "\n\n".join(words)
        if asked.tools and "cache_control" not in without:
            # The history grows at its end only, so all of it but the last turn is read from the cache. What is asked once, without
            # tools, would only pay for being written there: a quarter more.
            body["cache_control"] = {"type": "ephemeral"}
        extra = {}
        if asked.temperature is not None and "temperature" not in without:
            # Newer models take none, and the package has no argument for it any more.
            extra["temperature"] = asked.temperature
        there = body.keys() | extra.keys() | ({"format"} if "output_config" in body else set())
        if ECHO not in without and holds_echo(asked, NAME, self._model):
            there |= {ECHO}
        return ProviderRequest(body, extra, {name: PARTS[name] for name in PARTS if name in there})

    def read(self, reply: Mapping[str, Any], asked: ModelRequest) -> ModelReply:
        """Return the answer; thoughts are kept as echo and are no text."""
        stop = reply.get("stop_reason")
        if stop == "refusal":
            raise ModelRefused(_category(reply))
        if not isinstance(reply.get("content"), list) or not isinstance(stop, str):
            raise UnusableReply("it is no message")
        blocks = objects(reply["content"])
        uses = tuple(_uses(blocks, asked, cut=STOPS.get(stop) == "length"))
        return ModelReply(
            text="".join(text_of(block.get("text")) for block in blocks if block.get("type") == "text"),
            uses=uses,
            stop="tools" if uses and STOPS.get(stop) == "end" else STOPS.get(stop, "other"),
            usage=self.used(reply),
            model=text_of(reply.get("model")) or self._model,
            request=text_of(reply.get("id")),
            echo=self._echo(blocks),
        )

    def error_in(self, reply: Mapping[str, Any]) -> object | None:
        """Return the error that came as if it were a message; gateways do that."""
        return reply if reply.get("type") == "error" else None

    def used(self, reply: Mapping[str, Any]) -> ModelUsage:
        """Return the usage. `input_tokens` are only those that no cache had to do with.

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
        """Return a fresh assembly."""
        return AnthropicAssembly()

    def _messages(self, asked: ModelRequest, without: Without) -> list[dict[str, Any]]:
        """Return the turns, alternating. Results stand before any text in the message that follows their uses.

        Text blocks that are blank are refused. Source: https://platform.claude.com/docs/en/agents-and-tools/tool-use/handle-tool-calls
        """
        messages: list[dict[str, Any]] = []
        for turn in turns_of(asked):
            if isinstance(turn, UserTurn):
                _say(messages, "user", [{"type": "text", "text": text} for text in turn.texts])
            else:
                _say(messages, "assistant", self._content(turn, without))
                _say(messages, "user", _results(turn))
        return messages

    def _content(self, turn: ModelTurn, without: Without) -> list[dict[str, Any]]:
        kept = None if ECHO in without else echoed(turn, NAME, self._model, "tool_use")
        if kept is not None:
            uses, said = iter(turn.uses), [block for block in kept if not _blank(block)]
            return [_as_told(block, next(uses)) if block.get("type") == "tool_use" else block for block in said]
        text = [{"type": "text", "text": turn.text}] if turn.text.strip() else []
        return text + [
            {"type": "tool_use", "id": _id(use.id), "name": tool_name(use.name), "input": dict(use.arguments)}
            for use in turn.uses
        ]

    def _echo(self, blocks: list[dict[str, Any]]) -> Echo | None:
        """Return all blocks, if some hold what the model wants back unchanged, signatures included.

        Source: anthropic/types/thinking_block.py and redacted_thinking_block.py
        """
        if all(block.get("type") in ("text", "tool_use") for block in blocks):
            return None
        return Echo(NAME, self._model, json.dumps(blocks))


class AnthropicAssembly:
    """A message from its events. Texts of tool arguments stay text: reading them is for the reader."""

    def __init__(self) -> None:
        self._message: dict[str, Any] = {}
        self._blocks: dict[int, dict[str, Any]] = {}
        self._over = False

    def add(self, event: Mapping[str, Any]) -> None:
        """Take the next event; those of unknown kinds are ignored, as the vendor asks for."""
        match event.get("type"):
            case "message_start":
                self._message = dict(mapping(event.get("message")))
            case "content_block_start":
                self._blocks[_index(event)] = dict(mapping(event.get("content_block")))
            case "content_block_delta":
                self._grow(self._blocks.setdefault(_index(event), {"type": "text"}), mapping(event.get("delta")))
            case "message_delta":
                self._message |= _said(event.get("delta"))
                # The counts are totals, and those that are left out keep what the beginning said.
                self._message["usage"] = {**mapping(self._message.get("usage")), **_said(event.get("usage"))}
            case "message_stop":
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
        """Return the message so far."""
        blocks = [self._finished(self._blocks[index]) for index in sorted(self._blocks)]
        return {**self._message, "content": blocks}

    @staticmethod
    def _grow(block: dict[str, Any], delta: Mapping[str, Any]) -> None:
        grown = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}
        kind = str(delta.get("type"))
        if kind == "signature_delta":
            block["signature"] = delta.get("signature")
        elif kind in grown:
            name = grown[kind]
            block[name] = text_of(block.get(name)) + text_of(delta.get(name))

    @staticmethod
    def _finished(block: dict[str, Any]) -> dict[str, Any]:
        if "partial_json" not in block:
            return block
        written = block["partial_json"]
        arguments, problem = arguments_of(written)
        plain = {name: value for name, value in block.items() if name != "partial_json"}
        return {**plain, "input": written if problem else arguments}


def _blank(block: Mapping[str, Any]) -> bool:
    """Return whether it is a text that the API gives and does not take back."""
    return block.get("type") == "text" and not text_of(block.get("text")).strip()


def _as_told(block: dict[str, Any], use: ToolUse) -> dict[str, Any]:
    """Return a block under the id by which its result is told: callers may have ids of their own."""
    return {**block, "id": _id(use.id), "input": mapping(block.get("input"))}


def _choice(asked: ModelRequest) -> dict[str, str]:
    if asked.only:
        return {"type": "tool", "name": asked.only}
    return {"some": {"type": "any"}, "none": {"type": "none"}}.get(asked.freedom, {})


def _say(messages: list[dict[str, Any]], role: str, content: list[dict[str, Any]]) -> None:
    """Add to the last message if it has the same role: the roles must alternate."""
    if not content:
        return
    if messages and messages[-1]["role"] == role:
        messages[-1]["content"].extend(content)
    else:
        messages.append({"role": role, "content": content})


def _results(turn: ModelTurn) -> list[dict[str, Any]]:
    return [
        {
            "type": "tool_result",
            "tool_use_id": _id(result.use),
            "content": result.text if result.text.strip() else NOTHING,
        }
        | ({"is_error": True} if result.failed else {})
        for result in turn.results
    ]


def _uses(blocks: list[dict[str, Any]], asked: ModelRequest, *, cut: bool) -> Iterator[ToolUse]:
    seen = set[str]()
    for place, block in enumerate(blocks):
        if block.get("type") != "tool_use":
            continue
        arguments, problem = arguments_of(block.get("input"))
        if cut and place == len(blocks) - 1:
            arguments, problem = {}, CUT_OFF
        told = block.get("id")
        use = (
            told
            if isinstance(told, str) and told and told not in seen
            else made_id(asked.conversation, len(asked.messages), place)
        )
        seen.add(use)
        yield ToolUse(use, text_of(block.get("name")), arguments, problem)


def _id(use: str) -> str:
    """Return an id as the API takes it: letters, digits, `_` and `-`. One from another vendor may have others."""
    return "".join(letter if letter.isascii() and (letter.isalnum() or letter in "_-") else "_" for letter in use)


def _said(part: object) -> dict[str, Any]:
    return {name: value for name, value in mapping(part).items() if value is not None}


def _index(event: Mapping[str, Any]) -> int:
    index = event.get("index")
    return index if isinstance(index, int) else 0


def _category(reply: Mapping[str, Any]) -> str:
    return text_of(mapping(reply.get("stop_details")).get("category"))
