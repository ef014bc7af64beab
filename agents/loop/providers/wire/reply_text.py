"""Reads models' output tolerantly: tool arguments, requested JSON, usage. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from agents.loop.model.lenient_json import read_json
from agents.loop.model.ports import ModelRequest, ModelUsage, Shape, ToolUse
from agents.loop.providers.history import made_id

CUT_OFF = "the answer was cut off within them"
FENCED = re.compile(r"```(?:json|JSON)?[^\S\n]*\n(.*?)```", re.DOTALL)
THOUGHT = re.compile(r"\A\s*<think(?:ing)?>.*?</think(?:ing)?>\s*", re.DOTALL)
END_OF_TURN = re.compile(
    r"<\|(?:im_end|im_start|eot_id|end_of_text|endoftext|end|user|start_header_id)\|>|<(?:end|start)_of_turn>|</s>|\[/INST\]"
)
UNOPENED = re.compile(r"\A(?:(?!</?think).)*\n</think(?:ing)?>(?:\s*\n\s*|\s*\Z)", re.DOTALL)


class WrittenUse(NamedTuple):
    """A tool use in a vendor's reply: its place there, and fields of any type. `cut_off`: the arguments are incomplete."""

    place: int
    id: object
    name: object
    arguments: object
    cut_off: bool


def tool_uses(written: Iterable[WrittenUse], request: ModelRequest) -> tuple[ToolUse, ...]:
    """Return the tool uses of a reply. Missing and repeated ids are replaced: Ollama and others send none, or one for all."""
    uses, seen = list[ToolUse](), set[str]()
    for one in written:
        arguments, problem = ({}, CUT_OFF) if one.cut_off else arguments_of(one.arguments)
        use = one.id if isinstance(one.id, str) else ""
        if not use or use in seen:
            use = made_id(request.conversation, len(request.messages), one.place)
        seen.add(use)
        uses.append(ToolUse(use, text_of(one.name), arguments, problem))
    return tuple(uses)


def arguments_of(written: object) -> tuple[Mapping[str, Any], str]:
    """Return the arguments of a tool use, and their problem ("" for none).

    OpenAI sends JSON as text, "and the model does not always generate valid JSON"; some servers send the object itself, nothing at
    all for a tool without arguments, or JSON within JSON.
    Source: openai/types/chat/chat_completion_message_function_tool_call.py
    """
    value = written
    # Twice, for JSON within JSON.
    for _ in range(2):
        if not isinstance(value, str):
            break
        if not value.strip():
            return {}, ""
        try:
            value = read_json(value, open_ended=True)
        except ValueError:
            return {}, "they are not JSON"
    if value is None:
        return {}, ""
    if not isinstance(value, dict):
        return {}, "they are not an object"
    return whole_characters(value), ""


def whole_characters(value: Any) -> Any:
    """Return JSON whose texts can be sent: adjacent halves of a character are joined, single ones become U+FFFD.

    JSON may hold halves as escapes, and a model that is cut off within an emoji writes one; UTF-8 cannot express them.
    """
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return _mended(value)
    return value


def _mended(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, Mapping):
        return {_mended(name): _mended(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_mended(inner) for inner in value]
    return value


def own_turn(text: str) -> str:
    """Return a text up to the first mark that ends a model's turn; after it small models write the other turns themselves.

    Servers leave these marks in if they do not know the model's template.
    """
    end = END_OF_TURN.search(text)
    return text[: end.start()].rstrip() if end else text


def without_thoughts(text: str) -> str:
    """Return a text without the block of reasoning that self-hosted models may write before it.

    If a server's template opens the block for the model, the model only closes it, on a separate line.
    Source: https://github.com/vllm-project/vllm/issues/13125
    """
    return (THOUGHT if THOUGHT.match(text) else UNOPENED).sub("", text, count=1)


def json_in(text: str) -> Mapping[str, Any] | None:
    """Return the JSON object in a text: the whole text, in a fence, or between other words; None if there is no object."""
    fenced = FENCED.search(text)
    inside = text[text.find("{") : text.rfind("}") + 1]
    for candidate in (text, fenced[1] if fenced else "", inside):
        try:
            value = read_json(candidate)
        except ValueError:
            continue
        if isinstance(value, dict):
            mended: dict[str, Any] = whole_characters(value)
            return mended
    return None


def mapping(value: object) -> Mapping[str, Any]:
    """Return a mapping unchanged, and an empty one for anything else, because a reply may hold anything."""
    return value if isinstance(value, Mapping) else {}


def objects(value: object) -> list[dict[str, Any]]:
    """Return the objects in a list; none for anything else."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def text_of(value: object) -> str:
    """Return a text unchanged, and "" for anything else."""
    return value if isinstance(value, str) else ""


def count(value: object) -> int:
    """Return a number of tokens unchanged, and 0 for anything else."""
    return value if isinstance(value, int) and value > 0 else 0


def openai_usage(reply: Mapping[str, Any], input_name: str, output_name: str) -> ModelUsage:
    """Return the usage in a reply of OpenAI's formats, which count the cached tokens among the input.

    Gateways to Anthropic's models count them separately. Then they can exceed the input, and a run would have a negative cost.
    """
    usage = mapping(reply.get("usage"))
    if not isinstance(usage.get(input_name), int):
        return ModelUsage(known=False)
    details = mapping(usage.get(f"{input_name}_details"))
    cached, written = count(details.get("cached_tokens")), count(details.get("cache_write_tokens"))
    stated = count(usage[input_name])
    whole = stated if stated >= cached + written else stated + cached + written
    return ModelUsage(whole, count(usage.get(output_name)), cached, written)


def misfit(value: Mapping[str, Any] | None, shape: Shape) -> str:
    """Return why `value` does not fit the shape, for the model that wrote it; "" if it fits."""
    if value is None:
        return "it is not a JSON object"
    # Importing it takes a fifth of a second, and most runs ask for no shape.
    from jsonschema import Draft202012Validator

    found = Draft202012Validator(shape.schema).iter_errors(value)
    error = min(found, key=lambda error: [str(step) for step in error.absolute_path], default=None)
    if error is None:
        return ""
    where = "/".join(str(step) for step in error.absolute_path) or "the whole"
    return f"{where}: {error.validator} is {json.dumps(error.validator_value)[:200]}"


def in_words(shape: Shape) -> str:
    """Return the instruction for a model that cannot be held to a shape in another way."""
    schema = json.dumps(shape.schema, ensure_ascii=False)
    return f"Answer with one JSON object and nothing else. It must fit this JSON Schema:\n{schema}"
