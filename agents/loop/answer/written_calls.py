"""Tool calls that a model wrote as text, because its server has no parser for its family. Pure.

Source: the chat templates of the families and the parsers of vLLM (vllm/entrypoints/openai/tool_parsers) and llama.cpp
(common/chat.cpp): Hermes and Qwen, Mistral, Llama 3 and 4, Granite, Phi, Command R, DeepSeek, Gemma, and ReAct prompts.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agents.loop.model.lenient_json import first_value, read_json

NAMES, ARGUMENTS = (
    ("name", "function", "tool", "tool_name", "action"),
    ("arguments", "parameters", "args", "input", "action_input"),
)
UNREADABLE = "they are not JSON"
MOST_BESIDE = 300
"""Characters beside a call without marks. With more, the text is an answer that shows a call."""
_MARKED = re.compile(
    r"<\|?tool_calls?\|?>|<function_calls?>|<\|python_tag\|>|\[TOOL_CALLS\]|<\|action_start\|>(?:<\|plugin\|>)?"
    "|<\uff5ctool\u2581calls?\u2581begin\uff5c>|```tool_(?:code|call)s?\\b|<tool_code>|<function=|^Action:",
    re.MULTILINE,
)
_CLOSING = re.compile(
    r"</?\|?/?(?:tool_calls?|function_calls?|tool_code|function)\|?>|\[/TOOL_CALLS\]|<\|(?:eom_id|eot_id|im_end|action_end)\|>"
    "|<\uff5ctool\u2581calls?\u2581end\uff5c>|```"
)
_QWEN_CODER = re.compile(r"<function=([\w.-]+)>\s*(.*?)(?:</function>|\Z)", re.DOTALL)
_PARAMETER = re.compile(r"<parameter=([\w.-]+)>\n?(.*?)\n?(?:</parameter>|(?=<parameter=)|\Z)", re.DOTALL)
_NAMED = re.compile(
    r"(?:function\s*<\uff5ctool\u2581sep\uff5c>)?\s*([A-Za-z_][\w.-]*)\s*(?:\[ARGS\]|```json|\n)?\s*(?=\{)"
)
_REACT = re.compile(r"^Action:\s*([\w.-]+)\s*\nAction Input:\s*", re.MULTILINE)
_NAME_IN_JSON = re.compile(r'"(?:name|function|tool|tool_name)"\s*:\s*"([^"]+)"')
_AROUND = ("call", "default_api", "functions", "tools")
_FENCE = re.compile(r"```(?:json|python)?\s*\n?(.*?)(?:```|\Z)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class WrittenCall:
    """A call in a text. `problem` says why its arguments cannot be read."""

    name: str
    arguments: Mapping[str, Any]
    problem: str = ""


def calls_in(text: str, tools: Collection[str]) -> tuple[Sequence[WrittenCall], str]:
    """Return the calls that a text makes, and the text before them.

    A call with the marks of a family counts, whatever its name. One without counts if it names one of the tools and there is
    little else in the text.
    """
    marked = _MARKED.search(text)
    if marked:
        found = list(_marked_calls(text[marked.start() :], tools))
        return (found, text[: marked.start()].strip()) if found else ((), text)
    fence = _FENCE.search(text)
    for start, body in ((fence.start(), fence[1]) if fence else (-1, ""), _bare(text)):
        calls, rest = _calls(body, tools) if start >= 0 else ([], "")
        found = [call for call in calls if call.name in tools]
        if found and len(text) - len(body) + len(rest) <= MOST_BESIDE:
            return found, text[:start].strip()
    return (), text


def _bare(text: str) -> tuple[int, str]:
    """Return where JSON or a Python call may begin in a text, and the text from there."""
    found = re.search(r"[\[{]|^(?:print\()?(?:default_api\.)?[a-z_]\w*\(", text, re.MULTILINE)
    return (found.start(), text[found.start() :].strip()) if found else (-1, "")


def _marked_calls(text: str, tools: Collection[str]) -> Iterator[WrittenCall]:
    """Yield the calls in a text that begins with the mark of a call."""
    if "<function=" in text:
        for found in _QWEN_CODER.finditer(text):
            parameters = {name: _scalar(value) for name, value in _PARAMETER.findall(found[2])}
            yield WrittenCall(found[1], parameters) if parameters else _of_text(found[1], found[2])
        return
    if _REACT.search(text):
        for found in _REACT.finditer(text):
            yield _of_text(found[1], first_value(text[found.end() :].strip())[0])
        return
    for part in _MARKED.split(text):
        body = (
            _CLOSING.split(part.strip(), maxsplit=1)[0].strip()
            or part.replace("```json", "").replace("```", "").strip()
        )
        if body:
            yield from _calls(body, tools)[0] or _named_calls(part.strip())


def _calls(body: str, tools: Collection[str]) -> tuple[list[WrittenCall], str]:
    """Return the calls in JSON or in Python with which a text begins, and the text after them."""
    body = body.strip()
    found = list[WrittenCall]()
    while body.startswith(("{", "[")):
        raw, length = first_value(body)
        try:
            value = read_json(raw, open_ended=True)
        except ValueError:
            name = _NAME_IN_JSON.search(raw)
            python = _python_calls(body)
            return [*found, *(python or ([WrittenCall(name[1], {}, UNREADABLE)] if name else []))], ""
        listed = value if isinstance(value, list) else [value]
        calls = [call for one in listed if isinstance(one, dict) and (call := _of_object(one)) is not None]
        if not calls:
            break
        found += calls
        body = body[length:].lstrip(" \n,;")
    return (found, body) if found else ([call for call in _python_calls(body) if call.name in tools], "")


def _of_object(value: Mapping[str, Any]) -> WrittenCall | None:
    """Return the call in an object that has a name and arguments, in any of the families' words."""
    inner = value.get("function")
    if isinstance(inner, dict):
        value = inner
    name = next((value[key] for key in NAMES if isinstance(value.get(key), str)), "")
    given = next((value[key] for key in ARGUMENTS if key in value), None)
    if not name or (given is None and set(value) - {*NAMES, "type", "id"}):
        return None
    if isinstance(given, str):
        return _of_text(name, given)
    if given is None or isinstance(given, dict):
        return WrittenCall(name, given or {})
    return WrittenCall(name, {}, "they are not an object")


def _named_calls(text: str) -> list[WrittenCall]:
    """Return calls of the form `name{...}`, with the marks that Mistral and DeepSeek put between."""
    found, place = list[WrittenCall](), 0
    while named := _NAMED.search(text, place):
        raw, length = first_value(text[named.end() :])
        found.append(_of_text(named[1], raw))
        place = named.end() + max(1, length)
    return found


def _of_text(name: str, raw: str) -> WrittenCall:
    raw = _CLOSING.split(raw, maxsplit=1)[0].strip()
    try:
        value = read_json(raw, open_ended=True) if raw else {}
    except ValueError:
        return WrittenCall(name, {}, UNREADABLE)
    return WrittenCall(name, value) if isinstance(value, dict) else WrittenCall(name, {}, "they are not an object")


def _python_calls(text: str) -> list[WrittenCall]:
    """Return calls in Python's syntax, `kb_search(query="x")`, alone or in a list, also inside `print`."""
    try:
        tree = ast.parse(text.strip().strip("`"))
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return []
    values = [statement.value if isinstance(statement, ast.Expr) else None for statement in tree.body]
    nodes = [node for value in values for node in (value.elts if isinstance(value, ast.List) else [value])]
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    return [_python_call(call) for call in calls] if len(calls) == len(nodes) else []


def _python_call(call: ast.Call) -> WrittenCall:
    inner = call.args[0] if len(call.args) == 1 else None
    if isinstance(call.func, ast.Name) and call.func.id == "print" and isinstance(inner, ast.Call):
        call = inner
    # `kb_search.call(...)` is Llama's form, `default_api.kb_search(...)` is Gemma's.
    path = [part for part in ast.unparse(call.func).split(".") if part not in _AROUND]
    name = path[-1] if path else ""
    if call.args:
        return WrittenCall(name, {}, "they have no names")
    try:
        return WrittenCall(name, {one.arg: ast.literal_eval(one.value) for one in call.keywords if one.arg})
    except (ValueError, SyntaxError):
        return WrittenCall(name, {}, "they are not plain values")


def _scalar(text: str) -> Any:
    """Return the value of a parameter that is written without quotes: JSON if it is, else the text."""
    try:
        return read_json(text) if text[:1] in '{["-0123456789tfn' else text
    except ValueError:
        return text
