"""Calls of tools in a text for hosts, such as `kb_map('guides')`, which people read as a command or a link. Pure."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

_TOOL_CALL = re.compile(r"""kb_(map|read|search)\(((?:'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|[^()'"\n])*)\)""")


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of `kb_map`, `kb_read` or `kb_search`; `verb` is its name without the prefix."""

    verb: str
    words: Sequence[str]
    options: Mapping[str, str]


def replaced(text: str, written: Callable[[ToolCall], str | None]) -> str:
    """Return the text with each call as `written` says; a call stays as it is where that is None."""

    def one(found: re.Match[str]) -> str:
        call = _read(found)
        return (written(call) if call else None) or found[0]

    return _TOOL_CALL.sub(one, text)


def first_call(text: str) -> ToolCall | None:
    """Return the first call in the text."""
    found = _TOOL_CALL.search(text)
    return _read(found) if found else None


def _read(found: re.Match[str]) -> ToolCall | None:
    try:
        call = ast.parse(f"call({found[2]})", mode="eval").body
        if not isinstance(call, ast.Call):
            return None
        words = [str(ast.literal_eval(one)) for one in call.args]
        options = {str(one.arg): str(ast.literal_eval(one.value)) for one in call.keywords}
    except (SyntaxError, ValueError):  # an example in words, such as kb_read(path)
        return None
    return ToolCall(found[1], words, options)
