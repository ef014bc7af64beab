"""Turns and errors in the shapes of Anthropic's Messages, OpenAI's Chat Completions and OpenAI's Responses.

Source: the types of the vendors' packages, anthropic 2.12 (types/message.py, types/raw_message_stream_event.py) and openai 3.54
(types/chat/chat_completion.py, chat_completion_chunk.py, types/responses/response.py, response_stream_event.py), and
https://platform.claude.com/docs/en/build-with-claude/streaming, https://platform.openai.com/docs/api-reference/responses-streaming.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tests.doubles.provider_turns import Call, Trouble, Turn

Event = tuple[str, Mapping[str, Any] | str]
"""A name ("" for none) and its data."""
PIECE = 7
CREATED = 1_790_000_000


def written(call: Call) -> str:
    """Return the arguments as a model writes them."""
    return call.arguments if isinstance(call.arguments, str) else json.dumps(dict(call.arguments))


def pieces(text: str) -> list[str]:
    """Return a text cut into small pieces, as streams deliver it; in the middle of words, escapes and numbers."""
    return [text[start : start + PIECE] for start in range(0, len(text), PIECE)]


class Messages:
    """Anthropic's shape."""

    def reply(self, turn: Turn, number: int, model: str) -> dict[str, Any]:
        """Return the message."""
        stop = turn.stop or ("refusal" if turn.refusal else "tool_use" if turn.calls else "end_turn")
        return {
            "id": f"msg_{number:06}",
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": list(self._blocks(turn, number)),
            "stop_reason": stop,
            "stop_sequence": None,
            "stop_details": {"type": "refusal", "category": turn.refusal, "explanation": None}
            if turn.refusal
            else None,
            "usage": {
                "input_tokens": turn.input - turn.cached,
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": turn.cached,
                "output_tokens": turn.output,
                "service_tier": "standard",
            },
        }

    def stream(self, turn: Turn, number: int, model: str) -> Iterator[Event]:
        """Yield the events of the same message."""
        whole = self.reply(turn, number, model)
        start = {**whole, "content": [], "stop_reason": None, "stop_details": None}
        start["usage"] = {**whole["usage"], "output_tokens": 1}
        yield "message_start", {"type": "message_start", "message": start}
        yield "ping", {"type": "ping"}
        for index, block in enumerate(whole["content"]):
            yield from self._block_events(index, block, turn)
        delta = {name: whole[name] for name in ("stop_reason", "stop_sequence", "stop_details")}
        usage = {"output_tokens": turn.output}
        yield "message_delta", {"type": "message_delta", "delta": delta, "usage": usage}
        yield "message_stop", {"type": "message_stop"}

    def error(self, trouble: Trouble, number: int) -> dict[str, Any]:
        """Return an error's body."""
        error: dict[str, Any] = {"type": trouble.type, "message": trouble.message}
        if trouble.code:
            error["details"] = {"error_code": trouble.code}
        return {"type": "error", "error": error, "request_id": f"req_{number:06}"}

    def inside(self, trouble: Trouble, number: int, model: str) -> Iterator[Event]:
        """Yield a stream in which the error occurs."""
        yield from list(self.stream(Turn("So far", input=100, output=20), number, model))[:4]
        yield "error", self.error(trouble, number)

    @staticmethod
    def _blocks(turn: Turn, number: int) -> Iterator[dict[str, Any]]:
        if turn.thoughts:
            yield {"type": "thinking", "thinking": turn.thoughts, "signature": f"signed-{number}"}
        if turn.text:
            yield {"type": "text", "text": turn.text, "citations": None}
        for place, call in enumerate(turn.calls):
            use = call.id or f"toolu_{number:06}_{place}"
            yield {"type": "tool_use", "id": use, "name": call.name, "input": call.arguments}

    @staticmethod
    def _block_events(index: int, block: dict[str, Any], turn: Turn) -> Iterator[Event]:
        def delta(kind: str, name: str, value: str) -> Event:
            told = {"type": kind, name: value}
            return "content_block_delta", {"type": "content_block_delta", "index": index, "delta": told}

        empty: dict[str, dict[str, Any]] = {
            "text": {"text": ""},
            "thinking": {"thinking": "", "signature": ""},
            "tool_use": {"input": {}},
        }
        kind = block["type"]
        begun = block | empty[kind]
        yield "content_block_start", {"type": "content_block_start", "index": index, "content_block": begun}
        if kind == "text":
            yield from (delta("text_delta", "text", piece) for piece in pieces(block["text"]))
        elif kind == "thinking":
            yield from (delta("thinking_delta", "thinking", piece) for piece in pieces(block["thinking"]))
            yield delta("signature_delta", "signature", block["signature"])
        else:
            text = written(Call(block["name"], block["input"]))
            if turn.stop == "max_tokens":
                text = text[: len(text) // 2]
            yield from (delta("input_json_delta", "partial_json", piece) for piece in ["", *pieces(text)])
        yield "content_block_stop", {"type": "content_block_stop", "index": index}


class Chat:
    """OpenAI's older shape, with the quirks of servers that follow it only nearly.

    Quirks: `no_ids`, `same_ids`, `same_index`, `no_index`, `objects` (arguments as an object), `stop` (as the reason although
    tools are called), `no_usage`, `parts` (content as a list), `legacy` (function_call), `usage_in_all`, `no_null` (empty text
    beside calls), `deepseek` (thoughts beside the text), `gemini` (each call signed).
    """

    def reply(self, turn: Turn, number: int, model: str) -> dict[str, Any]:
        """Return the completion."""
        message: dict[str, Any] = {"role": "assistant", "content": turn.text or None, "refusal": None}
        if "parts" in turn.quirks:
            message["content"] = [{"type": "text", "text": turn.text}]
        if "no_null" in turn.quirks:
            message["content"] = turn.text
        if turn.refusal:
            message |= {"content": None, "refusal": "I cannot help with that."}
        if "legacy" in turn.quirks:
            call = turn.calls[0]
            message["function_call"] = {"name": call.name, "arguments": written(call)}
        elif turn.calls:
            message["tool_calls"] = self._calls(turn, number)
        if "deepseek" in turn.quirks:
            message["reasoning_content"] = turn.thoughts
        finish = self._finish(turn)
        reply = {
            "id": f"chatcmpl-{number:06}",
            "object": "chat.completion",
            "created": CREATED,
            "model": model,
            "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": finish}],
            "system_fingerprint": "fp_0",
        }
        return reply if "no_usage" in turn.quirks else {**reply, "usage": self._usage(turn)}

    def stream(self, turn: Turn, number: int, model: str, *, usage: bool) -> Iterator[Event]:
        """Yield the chunks of the same completion; usage only if requested."""
        whole = self.reply(turn, number, model)
        message = whole["choices"][0]["message"]

        def chunk(delta: Mapping[str, Any], finish: str | None = None) -> Event:
            choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
            head = {"id": whole["id"], "object": "chat.completion.chunk", "created": CREATED, "model": model}
            told = {"usage": self._usage(turn)} if "usage_in_all" in turn.quirks else {"usage": None} if usage else {}
            return "", {**head, "choices": [choice], **told}

        yield chunk({"role": "assistant", "content": "", "refusal": None})
        if message["refusal"]:
            yield from (chunk({"refusal": piece}) for piece in pieces(message["refusal"]))
        if "reasoning_content" in message:
            told = ["", *pieces(message["reasoning_content"])]
            yield from (chunk({"reasoning_content": piece}) for piece in told)
        content = message["content"] or ""
        if isinstance(content, list):
            content = content[0]["text"]
        yield from (chunk({"content": piece}) for piece in pieces(content))
        for place, call in enumerate(message.get("tool_calls") or []):
            yield from (chunk({"tool_calls": [delta]}) for delta in self._deltas(call, place, turn))
        yield chunk({}, whole["choices"][0]["finish_reason"])
        if usage and "no_usage" not in turn.quirks:
            head = {"id": whole["id"], "object": "chat.completion.chunk", "created": CREATED, "model": model}
            yield "", {**head, "choices": [], "usage": self._usage(turn)}
        yield "", "[DONE]"

    def error(self, trouble: Trouble, number: int) -> dict[str, Any]:
        """Return an error's body."""
        del number
        error = {"message": trouble.message, "type": trouble.type, "param": trouble.param, "code": trouble.code}
        return {"error": {**error, **trouble.more}}

    def inside(self, trouble: Trouble, number: int, model: str) -> Iterator[Event]:
        """Yield a stream in which the error occurs."""
        yield from list(self.stream(Turn("So far"), number, model, usage=True))[:2]
        yield "", self.error(trouble, number)

    @staticmethod
    def _finish(turn: Turn) -> str:
        if turn.stop:
            return turn.stop
        if "legacy" in turn.quirks:
            return "function_call"
        return "tool_calls" if turn.calls and "stop" not in turn.quirks else "stop"

    @staticmethod
    def _calls(turn: Turn, number: int) -> list[dict[str, Any]]:
        calls = []
        for place, call in enumerate(turn.calls):
            use = "call_0" if "same_ids" in turn.quirks else call.id or f"call_{number:06}_{place}"
            arguments: Any = call.arguments if "objects" in turn.quirks else written(call)
            told = {"id": use, "type": "function", "function": {"name": call.name, "arguments": arguments}}
            if "gemini" in turn.quirks:
                told["extra_content"] = {"google": {"thought_signature": f"signed {use}"}}
            calls.append({name: value for name, value in told.items() if name != "id" or "no_ids" not in turn.quirks})
        return calls

    @staticmethod
    def _deltas(call: dict[str, Any], place: int, turn: Turn) -> Iterator[dict[str, Any]]:
        number = {} if "no_index" in turn.quirks else {"index": 0 if "same_index" in turn.quirks else place}
        function = call["function"]
        if not isinstance(function["arguments"], str):
            yield {**number, **call}
            return
        yield {**number, **call, "function": {"name": function["name"], "arguments": ""}}
        yield from ({**number, "function": {"arguments": piece}} for piece in pieces(function["arguments"]))

    @staticmethod
    def _usage(turn: Turn) -> dict[str, Any]:
        return {
            "prompt_tokens": turn.input,
            "completion_tokens": turn.output,
            "total_tokens": turn.input + turn.output,
            "prompt_tokens_details": {"cached_tokens": turn.cached, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 0},
        }


class Responses:
    """OpenAI's newer shape.

    Quirks: `bare_end` (the last event omits the output), `phase` (messages name their purpose).
    """

    def reply(self, turn: Turn, number: int, model: str) -> dict[str, Any]:
        """Return the response."""
        cut = {"max_output_tokens": "max_output_tokens", "content_filter": "content_filter"}.get(turn.stop)
        return {
            "id": f"resp_{number:06}",
            "object": "response",
            "created_at": CREATED,
            "status": "incomplete" if cut else "completed",
            "error": None,
            "incomplete_details": {"reason": cut} if cut else None,
            "instructions": None,
            "model": model,
            "output": list(self._items(turn, number)),
            "parallel_tool_calls": True,
            "store": False,
            "tool_choice": "auto",
            "tools": [],
            "usage": {
                "input_tokens": turn.input,
                "input_tokens_details": {"cached_tokens": turn.cached, "cache_write_tokens": 0},
                "output_tokens": turn.output,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": turn.input + turn.output,
            },
        }

    def stream(self, turn: Turn, number: int, model: str) -> Iterator[Event]:
        """Yield the events of the same response."""
        whole = self.reply(turn, number, model)
        begun = {**whole, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
        events: list[dict[str, Any]] = [
            {"type": "response.created", "response": begun},
            {"type": "response.in_progress", "response": begun},
        ]
        for index, item in enumerate(whole["output"]):
            events.extend(self._item_events(index, item))
        last = {**whole, "output": []} if "bare_end" in turn.quirks else whole
        events.append({"type": f"response.{whole['status']}", "response": last})
        for sequence, event in enumerate(events):
            yield event["type"], {**event, "sequence_number": sequence}

    def error(self, trouble: Trouble, number: int) -> dict[str, Any]:
        """Return an error's body."""
        return Chat().error(trouble, number)

    def inside(self, trouble: Trouble, number: int, model: str) -> Iterator[Event]:
        """Yield a stream in which the response fails."""
        yield from list(self.stream(Turn("So far"), number, model))[:3]
        failed = {**self.reply(Turn(), number, model), "status": "failed", "output": [], "usage": None}
        failed["error"] = {"code": trouble.code or trouble.type, "message": trouble.message}
        yield "response.failed", {"type": "response.failed", "sequence_number": 3, "response": failed}

    @staticmethod
    def _items(turn: Turn, number: int) -> Iterator[dict[str, Any]]:
        if turn.thoughts:
            yield {"id": f"rs_{number}", "type": "reasoning", "summary": [], "encrypted_content": f"sealed-{number}"}
        if turn.refusal or turn.text:
            part: dict[str, Any] = {"type": "output_text", "text": turn.text, "annotations": []}
            if turn.refusal:
                part = {"type": "refusal", "refusal": "I cannot help with that."}
            message = {"id": f"msg_{number}", "type": "message", "role": "assistant", "status": "completed"}
            phase = {"phase": "commentary" if turn.calls else "final_answer"} if "phase" in turn.quirks else {}
            yield {**message, "content": [part], **phase}
        for place, call in enumerate(turn.calls):
            use = call.id or f"call_{number:06}_{place}"
            item = {"id": f"fc_{number}_{place}", "type": "function_call", "status": "completed"}
            yield {**item, "call_id": use, "name": call.name, "arguments": written(call)}

    @staticmethod
    def _item_events(index: int, item: dict[str, Any]) -> Iterator[dict[str, Any]]:
        at = {"output_index": index, "item_id": item["id"]}
        yield {"type": "response.output_item.added", "output_index": index, "item": {**item, "status": "in_progress"}}
        if item["type"] == "function_call":
            for piece in pieces(item["arguments"]):
                yield {"type": "response.function_call_arguments.delta", **at, "delta": piece}
            yield {"type": "response.function_call_arguments.done", **at, "arguments": item["arguments"]}
        elif item["type"] == "message" and item["content"][0]["type"] == "output_text":
            for piece in pieces(item["content"][0]["text"]):
                yield {"type": "response.output_text.delta", **at, "content_index": 0, "delta": piece, "logprobs": []}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
