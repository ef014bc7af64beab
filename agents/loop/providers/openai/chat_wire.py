"""OpenAI's Chat Completions, as OpenAI and the many servers that follow it speak it. Pure.

Source: https://platform.openai.com/docs/api-reference/chat, the types of the vendor's package
(openai/types/chat/chat_completion.py, chat_completion_chunk.py), and what servers of one's own send instead.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from itertools import pairwise
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

ECHOED = "openai-chat"
"""Whose echo it is: what Responses keeps has another form."""
THOUGHTS, SIGNED = "reasoning_content", "extra_content"
"""What DeepSeek's models want back with each message, empty or not, and what Gemini's want back with each use of a tool.

OpenAI's own send neither. Without them both refuse the next question.
Source: https://api-docs.deepseek.com/guides/thinking_mode and https://ai.google.dev/gemini-api/docs/thought-signatures
"""
UNSIGNED = {"google": {"thought_signature": "skip_thought_signature_validator"}}
"""What Gemini takes with a use whose signature is not known any more. Source: as above."""
READ = "I have the results."
"""Stands between results and a word of the user where none may follow the other.

Source: https://github.com/mistralai/mistral-vibe/issues/578, and the templates of Mistral's models on servers of one's own.
"""
STOPS: Mapping[str, Stop] = {"stop": "end", "tool_calls": "tools", "function_call": "tools", "length": "length"}
PARTS = {
    "temperature": ("temperature",),
    "tool_choice": ("tool_choice", "tool choice"),
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
    """Speaks of `model`. `bound` is the name under which the server takes the most tokens of an answer.

    OpenAI's reasoning models take `max_completion_tokens` only, older servers know `max_tokens` only and do not complain
    about the other: they just write on. So the vendor itself is given the new name, all others the old one.
    """

    def __init__(self, model: str, bound: str = "max_tokens") -> None:
        self._model, self._bound = model, bound

    def request(self, asked: ModelRequest, without: Without, shape: Shape | None, *, streamed: bool) -> ProviderRequest:
        """Return the request."""
        words = [asked.system] if asked.system.strip() else []
        bound = self._bound if self._bound not in without else _other(self._bound)
        body: dict[str, Any] = {"model": self._model, bound: asked.most_tokens}
        parts = {bound} if _other(bound) not in without else set[str]()
        if asked.temperature is not None and "temperature" not in without:
            body["temperature"] = asked.temperature
            parts.add("temperature")
        if streamed and "stream_options" not in without:
            # Without it a stream does not tell what it used.
            body["stream_options"] = {"include_usage": True}
            parts.add("stream_options")
        parts |= self._tools(body, asked, without, words)
        parts |= self._shaped(body, shape, without, words)
        if ECHO not in without and holds_echo(asked, ECHOED, self._model):
            parts.add(ECHO)
        messages = _messages(asked, "" if ECHO in without else self._model, bridged="order" in without)
        if any((one["role"], next_one["role"]) == ("tool", "user") for one, next_one in pairwise(messages)):
            parts.add("order")
        body["messages"] = ([{"role": "system", "content": "\n\n".join(words)}] if words else []) + messages
        return ProviderRequest(body, {}, {name: PARTS[name] for name in PARTS if name in parts})

    def read(self, reply: Mapping[str, Any], asked: ModelRequest) -> ModelReply:
        """Return the answer of the first choice. Why it ended is what it holds: several servers say `stop` with tool calls."""
        choice: Mapping[str, Any] = next(iter(objects(reply.get("choices"))), {})
        message = choice.get("message")
        if not isinstance(message, dict):
            raise UnusableReply("it holds no choice")
        finish = choice.get("finish_reason")
        if finish == "content_filter" or message.get("refusal"):
            raise ModelRefused("content_filter" if finish == "content_filter" else "")
        stop = STOPS.get(str(finish), "other")
        uses = tuple(_uses(message, asked, cut=stop == "length"))
        if stop in ("end", "tools", "other") and (uses or stop == "tools"):
            stop = "tools" if uses else "end"
        return ModelReply(
            text=without_thoughts(_text(message.get("content"))),
            uses=uses,
            stop=stop,
            usage=self.used(reply),
            model=text_of(reply.get("model")) or self._model,
            request=text_of(reply.get("id")),
            echo=self._echo(message),
        )

    def error_in(self, reply: Mapping[str, Any]) -> object | None:
        """Return the error that a gateway sends with status 200."""
        return reply if reply.get("error") and not reply.get("choices") else None

    def used(self, reply: Mapping[str, Any]) -> ModelUsage:
        """Return the usage; many servers tell none in streams, some none at all."""
        usage = mapping(reply.get("usage"))
        if not isinstance(usage.get("prompt_tokens"), int):
            return ModelUsage(known=False)
        details = mapping(usage.get("prompt_tokens_details"))
        cached, written = details.get("cached_tokens"), details.get("cache_write_tokens")
        return used_of(usage["prompt_tokens"], usage.get("completion_tokens"), cached, written)

    def assembly(self) -> ChatAssembly:
        """Return a fresh assembly."""
        return ChatAssembly()

    def _echo(self, message: Mapping[str, Any]) -> Echo | None:
        """Return what the server wants back with its message, and with each use of a tool in it; None if nothing."""
        calls = [{"type": "call"} | _named(call, SIGNED) for call in _calls(message)]
        kept = [{"type": "message"} | _named(message, THOUGHTS), *calls]
        return Echo(ECHOED, self._model, json.dumps(kept)) if any(len(part) > 1 for part in kept) else None

    @staticmethod
    def _tools(body: dict[str, Any], asked: ModelRequest, without: Without, words: list[str]) -> set[str]:
        if not asked.tools:
            return set()
        choice = _choice(asked)
        known = "tool_choice" not in without
        if choice == "none" and not known:
            # Nothing can be called that is not told.
            return set()
        body["tools"] = [
            {
                "type": "function",
                "function": {"name": tool.name, "description": tool.description, "parameters": dict(tool.schema)},
            }
            for tool in asked.tools
        ]
        parts = {"effort"}
        if "effort" in without:
            # OpenAI's newer models do not think beside tools here, and refuse what does not say so.
            body["reasoning_effort"] = "none"
            parts.clear()
        if choice and known:
            body["tool_choice"] = choice
            parts.add("tool_choice")
        elif choice:
            words.append(choice_in_words(asked))
        return parts

    @staticmethod
    def _shaped(body: dict[str, Any], shape: Shape | None, without: Without, words: list[str]) -> set[str]:
        """Ask for JSON: held to the schema, else to be JSON, else in words only."""
        if shape is None:
            return set()
        if "json_schema" not in without:
            named = {"name": shape.name, "schema": dict(shape.schema)}
            body["response_format"] = {"type": "json_schema", "json_schema": named}
            return {"json_schema"}
        words.append(in_words(shape))
        if "json_object" not in without:
            body["response_format"] = {"type": "json_object"}
            return {"json_object"}
        return set()


class ChatAssembly:
    """A completion from its chunks."""

    def __init__(self) -> None:
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
        # Some servers count along in every chunk: the last one counts.
        self._usage = event.get("usage") or self._usage
        choice: Mapping[str, Any] = next(iter(objects(event.get("choices"))), {})
        self._finish = text_of(choice.get("finish_reason")) or self._finish
        delta = mapping(choice.get("delta"))
        self._text.append(_text(delta.get("content")))
        self._refusal.append(_text(delta.get("refusal")))
        self._thoughts += [thought for thought in (delta.get(THOUGHTS),) if isinstance(thought, str)]
        for call in objects(delta.get("tool_calls")):
            self._grow(call)

    @property
    def over(self) -> bool:
        """Return False: usage comes behind the last choice, and `[DONE]` never gets here."""
        return False

    @property
    def whole(self) -> bool:
        """Return whether a chunk said why it ended."""
        return self._finish is not None

    @property
    def reply(self) -> Mapping[str, Any]:
        """Return the completion so far."""
        message = {"content": "".join(self._text), "refusal": "".join(self._refusal), "tool_calls": self._calls}
        if self._thoughts:
            message[THOUGHTS] = "".join(self._thoughts)
        return {**self._head, "choices": [{"message": message, "finish_reason": self._finish}], "usage": self._usage}

    def _grow(self, piece: Mapping[str, Any]) -> None:
        """Add a piece to the call that it belongs to.

        That is the one with its index; but some servers leave indexes out or give every call the index 0, and then a new
        id with a name begins a new call.
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


def _other(bound: str) -> str:
    return "max_tokens" if bound == "max_completion_tokens" else "max_completion_tokens"


def _choice(asked: ModelRequest) -> Any:
    if asked.only:
        return {"type": "function", "function": {"name": asked.only}}
    return {"some": "required", "none": "none"}.get(asked.freedom)


def _messages(asked: ModelRequest, model: str, *, bridged: bool) -> list[dict[str, Any]]:
    """Return the history; `model` is whose echo is told, "" for nobody's. `bridged`: no user speaks right behind a tool."""
    messages: list[dict[str, Any]] = []
    turns = turns_of(asked)
    echoes = [echoed(turn, ECHOED, model, "call") if isinstance(turn, ModelTurn) else None for turn in turns]
    wanted = {name for kept in echoes for part in kept or () for name in part}
    for turn, kept in zip(turns, echoes, strict=True):
        if isinstance(turn, UserTurn):
            if bridged and messages and messages[-1]["role"] == "tool":
                messages.append({"role": "assistant", "content": READ})
            messages.append({"role": "user", "content": "\n\n".join(turn.texts)})
        else:
            messages.extend(_model_messages(turn, kept if kept is not None else _stand_in(turn, wanted)))
    return messages


def _stand_in(turn: ModelTurn, wanted: Collection[str]) -> list[dict[str, Any]]:
    """Return what goes back with a turn whose echo was left out, where its neighbours' was not: those who want it want all."""
    kept: list[dict[str, Any]] = [{"type": "message"}, *({"type": "call"} for _ in turn.uses)]
    if THOUGHTS in wanted:
        kept[0][THOUGHTS] = ""
    if SIGNED in wanted and turn.uses:
        # Of uses at once only the first is signed.
        kept[1][SIGNED] = UNSIGNED
    return kept


def _model_messages(turn: ModelTurn, kept: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield what the model said, with what is kept of it beside that, and what came of it.

    Arguments that were no JSON go back as `{}`.

    Servers that render the history by a template parse them again, and fail over what their own model wrote.
    """
    said: dict[str, Any] = {"role": "assistant", "content": turn.text if turn.text.strip() else None}
    if turn.uses:
        said["tool_calls"] = [
            {
                "id": use.id,
                "type": "function",
                "function": {
                    "name": tool_name(use.name),
                    "arguments": json.dumps(dict(use.arguments), ensure_ascii=False),
                },
            }
            for use in turn.uses
        ]
    said |= _named(kept[0], THOUGHTS)
    for call, part in zip(said.get("tool_calls", ()), kept[1:], strict=True):
        call.update(_named(part, SIGNED))
    yield said
    for result in turn.results:
        # There is no field for failure, so it is said.
        text = f"Error: {result.text}" if result.failed else result.text
        yield {"role": "tool", "tool_call_id": result.use, "content": text}


def _uses(message: Mapping[str, Any], asked: ModelRequest, *, cut: bool) -> Iterator[ToolUse]:
    """Yield the calls. Ids that are missing or double are made: Ollama and others leave them out."""
    calls = _calls(message)
    seen = set[str]()
    for place, call in enumerate(calls):
        arguments, problem = arguments_of(call["function"].get("arguments"))
        if cut and place == len(calls) - 1:
            arguments, problem = {}, CUT_OFF
        told = call.get("id")
        use = (
            told
            if isinstance(told, str) and told and told not in seen
            else made_id(asked.conversation, len(asked.messages), place)
        )
        seen.add(use)
        yield ToolUse(use, text_of(call["function"].get("name")), arguments, problem)


def _calls(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    old = message.get("function_call")
    calls = objects(message.get("tool_calls")) or ([{"function": old}] if isinstance(old, dict) else [])
    return [call for call in calls if isinstance(call.get("function"), dict)]


def _named(part: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return that entry of the part alone; nothing where there is none."""
    return {name: part[name]} if part.get(name) is not None else {}


def _text(content: object) -> str:
    """Return a content as text; it may be null, or a list of parts (Mistral)."""
    if isinstance(content, list):
        return "".join(text_of(part.get("text")) for part in objects(content))
    return text_of(content)
