"""What models write, read with care: arguments of tools, and JSON that was asked for. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from agents.loop.model.ports import ModelUsage, Shape

CUT_OFF = "the answer was cut off within them"
FENCED = re.compile(r"```(?:json|JSON)?[^\S\n]*\n(.*?)```", re.DOTALL)
THOUGHT = re.compile(r"\A\s*<think(?:ing)?>.*?</think(?:ing)?>\s*", re.DOTALL)
UNOPENED = re.compile(r"\A(?:(?!</?think).)*\n</think(?:ing)?>(?:\s*\n\s*|\s*\Z)", re.DOTALL)


def arguments_of(written: object) -> tuple[Mapping[str, Any], str]:
    """Return the arguments of a tool use and what is wrong with them, "" if nothing is.

    OpenAI gives JSON as text, "and the model does not always generate valid JSON"; some servers give the object itself,
    nothing at all for a tool without arguments, or JSON within JSON.
    Source: openai/types/chat/chat_completion_message_function_tool_call.py
    """
    value = written
    for _ in range(2):
        if not isinstance(value, str):
            break
        if not value.strip():
            return {}, ""
        try:
            # Line breaks inside of texts, written as they are, are the commonest slip of small models.
            value = json.loads(value, strict=False, parse_constant=_no_number)
        except (ValueError, RecursionError):
            return {}, "they are no JSON"
    if value is None:
        return {}, ""
    if not isinstance(value, dict):
        return {}, "they are no object"
    return whole_characters(value), ""


def whole_characters(value: Any) -> Any:
    """Return JSON whose texts can be sent: halves of a character that stand together are joined, others become U+FFFD.

    JSON may hold halves as escapes, and models that are cut off within an emoji write them; no UTF-8 can.
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


def without_thoughts(text: str) -> str:
    """Return a text without the block of thoughts that models on servers of one's own may put before it.

    Where a template begins the thought for them, they only end it, on a line of its own.
    Source: https://github.com/vllm-project/vllm/issues/13125
    """
    return (THOUGHT if THOUGHT.match(text) else UNOPENED).sub("", text, count=1)


def json_in(text: str) -> Mapping[str, Any] | None:
    """Return the JSON object that a text is, holds in a fence, or holds between other words; None where there is none."""
    fenced = FENCED.search(text)
    inside = text[text.find("{") : text.rfind("}") + 1]
    for candidate in (text, fenced[1] if fenced else "", inside):
        try:
            value = json.loads(candidate, strict=False, parse_constant=_no_number)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            whole: dict[str, Any] = whole_characters(value)
            return whole
    return None


def mapping(value: object) -> Mapping[str, Any]:
    """Return an object as it is, and an empty one for anything else: replies hold whatever a server sends."""
    return value if isinstance(value, Mapping) else {}


def objects(value: object) -> list[dict[str, Any]]:
    """Return the objects in a list; none for anything else."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def text_of(value: object) -> str:
    """Return a text as it is, and "" for anything else."""
    return value if isinstance(value, str) else ""


def count(value: object) -> int:
    """Return a count of tokens; 0 for what is none."""
    return value if isinstance(value, int) and value > 0 else 0


def used_of(told: int, output: object, cached: object, written: object) -> ModelUsage:
    """Return the usage of which the caches' parts are in what is `told`, as OpenAI has it.

    Gateways to Anthropic's models tell them beside it: then they are more than it.
    """
    of_cache = count(cached) + count(written)
    whole = count(told)
    return ModelUsage(whole if whole >= of_cache else whole + of_cache, count(output), count(cached), count(written))


def misfit(value: Mapping[str, Any] | None, shape: Shape) -> str:
    """Return what keeps `value` from fitting the shape, for the model that wrote it; "" where it fits."""
    if value is None:
        return "it is no JSON object"
    # A fifth of a second to import, and most runs ask for no shape.
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


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no JSON")
