"""The commands that messages tell a person to type: for the same folder as this command, and as verbs instead of tools."""

from __future__ import annotations

import argparse
import shlex
from contextvars import ContextVar

from mcp_server.presenters.tool_calls import ToolCall, replaced

COMMON = ("kb", "state_dir")
"""Options that every verb takes, and that a command for the person to type needs as well."""
OPTIONS = {"map": ("depth",), "read": ("section",), "search": ("path", "limit")}
"""For each verb that answers as a tool does, the arguments of the tool that are options of the verb."""
_given: ContextVar[tuple[str, ...]] = ContextVar("_given", default=())


def remember(parsed: argparse.Namespace) -> None:
    """Remember the common options of this command line."""
    named = ((f"--{name.replace('_', '-')}", getattr(parsed, name, None)) for name in COMMON)
    _given.set(tuple(word for option, value in named if value is not None for word in (option, str(value))))


def forget() -> None:
    """Forget the common options: the next command line of this process, if there is one, has its own."""
    _given.set(())


def given() -> str:
    """Return the common options of this command line as they are typed, "" if there were none."""
    return shlex.join(_given.get())


def command(verb: str, *words: str) -> str:
    """Return a command line to type, for the same folder as this one."""
    return shlex.join(["knowledge-forge", verb, *words, *_given.get()])


def as_commands(text: str) -> str:
    """Return the text with calls of tools that have a verb, such as `kb_map('guides')`, written as commands."""
    return replaced(text, _command)


def _command(call: ToolCall) -> str | None:
    if not call.options.keys() <= set(OPTIONS[call.verb]):
        return None
    options = (word for name, value in call.options.items() for word in (f"--{name}", value))
    return command(call.verb, *filter(None, call.words), *options)
