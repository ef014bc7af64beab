"""The commands that messages tell a person to type: with the folder that this command was given, and in the terminal's own words."""

from __future__ import annotations

import argparse
import ast
import re
import shlex
from contextvars import ContextVar

COMMON = ("kb", "state_dir")
"""Options that every verb takes, and that the next command needs, too."""
OPTIONS = {"map": ("depth",), "read": ("section",), "search": ("path", "limit")}
"""The verbs that answer as a tool does, and the tool's arguments that are their options."""
_TOOL_CALL = re.compile(r"""kb_(map|read|search)\(((?:'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|[^()'"\n])*)\)""")
_given: ContextVar[tuple[str, ...]] = ContextVar("_given", default=())


def remember(parsed: argparse.Namespace) -> None:
    """Remember the common options of this command line."""
    named = ((f"--{name.replace('_', '-')}", getattr(parsed, name, None)) for name in COMMON)
    _given.set(tuple(word for option, value in named if value is not None for word in (option, str(value))))


def forget() -> None:
    """Forget them: the next command line of this process, if there is one, has its own."""
    _given.set(())


def given() -> str:
    """Return the common options of this command line as they are typed, "" if there were none."""
    return shlex.join(_given.get())


def command(verb: str, *words: str) -> str:
    """Return a command line to type, for the same folder as this one."""
    return shlex.join(["knowledge-forge", verb, *words, *_given.get()])


def as_commands(text: str) -> str:
    """Return the text with calls of tools that have a verb, such as `kb_map('guides')`, written as commands."""
    return _TOOL_CALL.sub(_command, text)


def _command(found: re.Match[str]) -> str:
    verb = found[1]
    try:
        call = ast.parse(f"call({found[2]})", mode="eval").body
        if not isinstance(call, ast.Call):
            return found[0]
        words = [str(ast.literal_eval(one)) for one in call.args]
        options = {str(one.arg): str(ast.literal_eval(one.value)) for one in call.keywords}
    except (SyntaxError, ValueError):  # an example in words, such as kb_read(path)
        return found[0]
    if not options.keys() <= set(OPTIONS[verb]):
        return found[0]
    return command(
        verb, *filter(None, words), *(word for name, value in options.items() for word in (f"--{name}", value))
    )
