"""OpenAI's Chat Completions, for OpenAI and the many servers that imitate it. Pure.

Source: https://platform.openai.com/docs/api-reference/chat, the types of the vendor's package
(openai/types/chat/chat_completion.py, chat_completion_chunk.py), and what self-hosted servers send instead.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from agents.loop.model.ports import Echo, ModelReply, ModelRequest, ModelUsage, Shape, Stop
from agents.loop.providers.history import ModelTurn, UserTurn, echoed, tool_name, turns_of
from agents.loop.providers.wire.reply_text import (
    WrittenUse,
    mapping,
    objects,
    openai_usage,
    own_turn,
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

ECHOED = "openai-chat"
"""The provider of an echo; Responses keeps another form."""
THOUGHTS, SIGNED = "reasoning_content", "extra_content"
"""DeepSeek's models want the first back with each message, empty or not; Gemini's want the second back with each tool use.

OpenAI's own send neither. Without them both refuse the next request.
Source: https://api-docs.deepseek.com/guides/thinking_mode and https://ai.google.dev/gemini-api/docs/thought-signatures
"""
UNSIGNED = {"google": {"thought_signature": "skip_thought_signature_validator"}}
"""Gemini accepts this for a use whose signature is no longer known. Source: as above."""
READ = "I have the results."
"""Put between results and a message of the user where the two may not be adjacent.

Source: https://github.com/mistralai/mistral-vibe/issues/578, and the templates of Mistral's models on self-hosted servers.
"""
CALL = "<tool_call>{}</tool_call>"
STOPS: Mapping[str, Stop] = {"stop": "end", "tool_calls": "tools", "function_call": "tools", "length": "length"}
BOUNDS = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
"""The two names of the limit on an answer, each with the other one."""
PARTS = {
    "temperature": ("temperature",),
    "tool_choice": ("tool_choice", "tool choice"),
    # Ollama, llama.cpp without --jinja, vLLM without a parser, and gateways to models without tools.
    "tools": (
        "not support tools",
        "tools param requires",
        "enable-auto-tool-choice",
        "support function calling",
        "support tool calling",
        "support tool use",
    ),
    "stream_options": ("stream_options", "include_usage"),
    "max_tokens": ("use 'max_completion_tokens'", "max_tokens is not supported"),
    "max_completion_tokens": ("max_completion_tokens",),
    "effort": ("reasoning_effort",),
    "order": ("after role 'tool'", "roles must alternate"),
    ECHO: (THOUGHTS, SIGNED, "thought_signature", "thought signature"),
    "json_schema": ("json_schema", "response_format", "grammar", "guided"),
    "json_object": ("json_object", "response_format"),
}


class ChatWire:
    """The format of requests to `model`. `bound` is the server's name for the limit on an answer.

    OpenAI's reasoning models accept only `max_completion_tokens`. Older servers know only `max_tokens` and ignore the
    other without an error, so the answer would have no limit. So OpenAI itself gets the new name, and all other servers the old one.
    """

    def __init__(self, model: str, bound: str = "max_tokens") -> None:
        self._model, self._bound = model, bound

    def request(
        self, request: ModelRequest, without: Without, shape: Shape | None, *, streamed: bool
    ) -> ProviderRequest:
        """Return the request."""
        draft = RequestDraft(request, without, PARTS)
        body = draft.body
        bound = self._bound if self._bound not in without else BOUNDS[self._bound]
        if BOUNDS[bound] not in without:  # otherwise the server refused both names, and there is no third
            draft.may_have(bound)
        body |= {"model": self._model, bound: request.most_tokens}
        if request.temperature is not None and draft.may_have("temperature"):
            body["temperature"] = request.temperature
        if streamed and draft.may_have("stream_options"):
            # Without this option a stream does not report its usage.
            body["stream_options"] = {"include_usage": True}
        tools = [
            {
                "type": "function",
                "function": {"name": tool.name, "description": tool.description, "parameters": dict(tool.schema)},
            }
            for tool in request.tools
        ]
        spelled = bool(tools) and not draft.may_have("tools")
        if spelled and request.tool_choice != "none":
            draft.system.append(tools_in_words(request))
        only = {"type": "function", "function": {"name": request.only}}
        offered = not spelled and draft.offer_tools(tools, only)
        if offered and not draft.may_have("effort"):
            # OpenAI's newer models do not reason beside tools in this format, and refuse requests that do not say so.
            body["reasoning_effort"] = "none"
        if shape and draft.may_have("json_schema"):
            named = {"name": shape.name, "schema": dict(shape.schema)}
            body["response_format"] = {"type": "json_schema", "json_schema": named}
        elif shape:
            draft.describe(shape)
            if draft.may_have("json_object"):
                body["response_format"] = {"type": "json_object"}
        model = self._model if draft.may_echo(ECHOED, self._model) else ""
        messages = _spelled_messages(request) if spelled else _messages(request, model, bridged="order" in without)
        if any((one["role"], following["role"]) == ("tool", "user") for one, following in pairwise(messages)):
            draft.may_have("order")
        body["messages"] = [{"role": "system", "content": "\n\n".join(draft.system)}] if draft.system else []
        body["messages"] += messages
        return draft.finished()

    def read(self, reply: Mapping[str, Any], request: ModelRequest) -> ModelReply:
        """Return the reply in the first choice."""
        choice: Mapping[str, Any] = next(iter(objects(reply.get("choices"))), {})
        message = choice.get("message")
        if not isinstance(message, dict):
            raise UnusableReply("it holds no choice")
        finish = choice.get("finish_reason")
        if finish == "content_filter" or message.get("refusal"):
            raise ModelRefused("content_filter" if finish == "content_filter" else "")
        stop, calls = STOPS.get(str(finish), "other"), _calls(message)
        uses = tool_uses(
            (
                WrittenUse(
                    place,
                    call.get("id"),
                    call["function"].get("name"),
                    call["function"].get("arguments"),
                    stop == "length" and place == len(calls) - 1,
                )
                for place, call in enumerate(calls)
            ),
            request,
        )
        # Several servers say `stop` with tool calls, and some `tool_calls` without any: the content counts.
        if stop != "length" and (uses or stop == "tools"):
            stop = "tools" if uses else "end"
        kept = [{"type": "message"} | _named(message, THOUGHTS)]
        kept += [{"type": "call"} | _named(call, SIGNED) for call in calls]
        echo = any(len(part) > 1 for part in kept)
        return ModelReply(
            text=own_turn(without_thoughts(_text(message.get("content")))),
            uses=uses,
            stop=stop,
            usage=self.used(reply),
            model=text_of(reply.get("model")) or self._model,
            request=text_of(reply.get("id")),
            echo=Echo(ECHOED, self._model, json.dumps(kept)) if echo else None,
        )

    def error_in(self, reply: Mapping[str, Any]) -> object | None:
        """Return an error that a gateway sends with status 200."""
        return reply if reply.get("error") and not reply.get("choices") else None

    def used(self, reply: Mapping[str, Any]) -> ModelUsage:
        """Return the usage; many servers send none in streams, some none at all."""
        return openai_usage(reply, "prompt_tokens", "completion_tokens")

    def assembly(self) -> ChatAssembly:
        """Return an empty assembly."""
        return ChatAssembly()


class ChatAssembly:
    """A completion put together from its chunks."""

    def __init__(self) -> None:
        # Never `over`: usage comes after the last choice, and the package does not pass `[DONE]` on.
        self.over = self.complete = False
        self._head: dict[str, Any] = {}
        self._text: list[str] = []
        self._refusal: list[str] = []
        self._thoughts: list[str] = []
        self._calls: list[dict[str, Any]] = []
        self._finish: str | None = None
        self._usage: Any = None

    def add(self, event: Mapping[str, Any]) -> None:
        """Take the next chunk; the last one with usage has no choice."""
        self._head |= {name: event[name] for name in ("id", "model") if event.get(name)}
        # Some servers send a running total in every chunk: the last one counts.
        self._usage = event.get("usage") or self._usage
        choice: Mapping[str, Any] = next(iter(objects(event.get("choices"))), {})
        self._finish = text_of(choice.get("finish_reason")) or self._finish
        self.complete = self._finish is not None
        delta = mapping(choice.get("delta"))
        self._text.append(_text(delta.get("content")))
        self._refusal.append(_text(delta.get("refusal")))
        if isinstance(delta.get(THOUGHTS), str):  # an empty one counts too: DeepSeek wants it back
            self._thoughts.append(delta[THOUGHTS])
        for piece in objects(delta.get("tool_calls")):
            self._add_call(piece)

    def _add_call(self, piece: Mapping[str, Any]) -> None:
        """Add a piece to its call.

        That is the call with the same index. But some servers send no index, or the index 0 for every call; then a new id with a
        name begins a new call.
        """
        function = mapping(piece.get("function"))
        use, name, index = text_of(piece.get("id")), text_of(function.get("name")), piece.get("index")
        call = next((call for call in reversed(self._calls) if index is None or call["index"] == index), None)
        if call is None or (name and (use not in ("", call["id"]) if call["id"] else index is None)):
            call = {"index": index, "id": use, "function": {"name": "", "arguments": ""}}
            self._calls.append(call)
        call |= _named(piece, SIGNED)
        call["id"] = call["id"] or use
        call["function"]["name"] = call["function"]["name"] or name
        written = function.get("arguments")
        if isinstance(written, dict):
            written = json.dumps(written)
        call["function"]["arguments"] += text_of(written)

    @property
    def reply(self) -> Mapping[str, Any]:
        """The completion so far."""
        message = {"content": "".join(self._text), "refusal": "".join(self._refusal), "tool_calls": self._calls}
        if self._thoughts:
            message[THOUGHTS] = "".join(self._thoughts)
        return {**self._head, "choices": [{"message": message, "finish_reason": self._finish}], "usage": self._usage}


def _messages(request: ModelRequest, model: str, *, bridged: bool) -> list[dict[str, Any]]:
    """Return the history. `model` is the one whose echo is sent, "" for none. `bridged`: no message of the user follows a tool's."""
    messages: list[dict[str, Any]] = []
    turns = turns_of(request)
    echoes = [echoed(turn, ECHOED, model, "call") if isinstance(turn, ModelTurn) else None for turn in turns]
    wanted = {name for kept in echoes for part in kept or () for name in part}
    for turn, kept in zip(turns, echoes, strict=True):
        if isinstance(turn, UserTurn):
            if bridged and messages and messages[-1]["role"] == "tool":
                messages.append({"role": "assistant", "content": READ})
            messages.append({"role": "user", "content": "\n\n".join(turn.texts)})
            continue
        # This turn's echo may have been left out to save room. A vendor that wants it with one turn wants it with all.
        parts: list[dict[str, Any]] = kept or [{"type": "message"}, *({"type": "call"} for _ in turn.uses)]
        if kept is None and THOUGHTS in wanted:
            parts[0][THOUGHTS] = ""
        if kept is None and SIGNED in wanted and turn.uses:
            parts[1][SIGNED] = UNSIGNED  # of several uses at once only the first is signed
        messages.extend(_model_messages(turn, parts))
    return messages


def tools_in_words(request: ModelRequest) -> str:
    """Return the tools of a request for a server that has no field for them. `written_calls.py` reads the calls."""
    listed = [
        json.dumps({"name": tool.name, "description": tool.description, "parameters": tool.schema}, ensure_ascii=False)
        for tool in request.tools
    ]
    must = (
        f"Call the tool {request.only} now."
        if request.only
        else "Call one of them now."
        if request.tool_choice == "some"
        else ""
    )
    call = CALL.format(json.dumps({"name": "...", "arguments": {}}))
    return "\n".join(
        [
            "These tools can be called:",
            *listed,
            f"To call one, answer with {call} and nothing else; the next message has its result.",
            must,
        ]
    ).strip()


def _spelled_messages(request: ModelRequest) -> list[dict[str, Any]]:
    """Return the history with calls and results in words; the roles alternate, which many templates demand."""
    messages: list[dict[str, Any]] = []

    def add(role: str, text: str) -> None:
        if messages and messages[-1]["role"] == role:
            messages[-1]["content"] += f"\n\n{text}"
        else:
            messages.append({"role": role, "content": text})

    for turn in turns_of(request):
        if isinstance(turn, UserTurn):
            add("user", "\n\n".join(turn.texts))
            continue
        calls = [
            CALL.format(json.dumps({"name": use.name, "arguments": dict(use.arguments)}, ensure_ascii=False))
            for use in turn.uses
        ]
        add("assistant", "\n".join(filter(None, (turn.text.strip(), *calls))))
        for use, result in zip(turn.uses, turn.results, strict=True):
            add("user", f"Result of {use.name}:\n{result_text(result)}")
    return messages


def _model_messages(turn: ModelTurn, kept: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the model's message with the parts that the vendor wants back, and the results of its tools."""
    message: dict[str, Any] = {"role": "assistant", "content": turn.text if turn.text.strip() else None}
    message |= _named(kept[0], THOUGHTS)
    calls = []
    for use, part in zip(turn.uses, kept[1:], strict=True):
        # Unreadable arguments are `{}` here: servers that render the history by a template parse them again, and would fail on
        # their own model's output.
        arguments = json.dumps(dict(use.arguments), ensure_ascii=False)
        function = {"name": tool_name(use.name), "arguments": arguments}
        calls.append({"id": use.id, "type": "function", "function": function} | _named(part, SIGNED))
    if calls:
        message["tool_calls"] = calls
    yield message
    for result in turn.results:
        yield {"role": "tool", "tool_call_id": result.use, "content": result_text(result)}


def _calls(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    old = message.get("function_call")
    calls = objects(message.get("tool_calls")) or ([{"function": old}] if isinstance(old, dict) else [])
    return [call for call in calls if isinstance(call.get("function"), dict)]


def _named(part: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return only that entry of the part; nothing if it has none."""
    return {name: part[name]} if part.get(name) is not None else {}


def _text(content: object) -> str:
    """Return a message's content as text; it may be null, or a list of parts (Mistral)."""
    if isinstance(content, list):
        return "".join(text_of(part.get("text")) for part in objects(content))
    return text_of(content)
