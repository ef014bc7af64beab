"""Our entry in a host's list of servers: how it is written, named and recognised. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

NAME = "knowledge-forge"
MODULE = "mcp_server"
SECRET = "FORGE_ENROLMENT"  # noqa: S105 - the variable's name
MASKED = "(kept secret)"
NO_SECRETS = ("PYTHONPATH", "FORGE_CONFIG", "FORGE_HTTP")
"""Variables that only say where something is."""
_LONGEST_SUFFIX = 24
"""Hosts put the server's name in front of every tool's, and some allow 64 characters for both."""


@dataclass(frozen=True, slots=True)
class Launch:
    """How the server's process is started, whatever it serves."""

    command: str
    arguments: tuple[str, ...] = ()
    environ: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Served:
    """The served knowledge base and its state directory. Both are absolute; `state_dir` None is the platform's default."""

    kb: str
    state_dir: str | None = None


def server_entry(
    launch: Launch, served: Served, secret: str, *, typed: bool, earlier: object = None
) -> dict[str, object]:
    """Return the entry. A person's additions to the `earlier` one (flags, variables, a host's own fields) are kept."""
    old = earlier if isinstance(earlier, dict) else {}
    old_environ = old.get("env")
    args = [*launch.arguments, "serve", "--kb", served.kb]
    if served.state_dir is not None:
        args += ["--state-dir", served.state_dir]
    ours: dict[str, object] = {"type": "stdio"} if typed else {}
    ours |= {"command": launch.command, "args": [*args, *added_flags(old.get("args"))]}
    kept = {**old_environ} if isinstance(old_environ, dict) else {}
    ours["env"] = kept | dict(launch.environ or {}) | {SECRET: secret}
    return ours | {key: value for key, value in old.items() if key not in ours}


def masked(entry: Mapping[str, object]) -> dict[str, object]:
    """Return the entry in a form that may be shown: without our secret and any that a person put into `env`."""
    environ = entry.get("env")
    names = environ if isinstance(environ, dict) else {}
    return {**entry, "env": {name: value if name in NO_SECRETS else MASKED for name, value in names.items()}}


def kb_of(entry: object) -> str | None:
    """Return the knowledge base that `entry` serves; None if it is not an entry of ours or names none."""
    if not isinstance(entry, dict):
        return None
    args = _texts(entry.get("args"))
    # Our program may be the command itself, an argument of `uvx`, or a module of Python.
    words = {re.split(r"[/\\]", text)[-1].removesuffix(".exe") for text in (str(entry.get("command", "")), *args)}
    if "serve" not in args or not words & {NAME, MODULE}:
        return None
    environ = entry.get("env")
    named = _value_of("--kb", args) or (environ.get("FORGE_KB") if isinstance(environ, dict) else None)
    return named if isinstance(named, str) else None


def key_for(servers: Mapping[str, object], kb_name: str, *, same: Callable[[str], bool]) -> tuple[str, bool]:
    """Return the key for a knowledge base whose folder is called `kb_name`, and whether its entry exists already.

    `same` says whether a folder that an entry names is this knowledge base. The first knowledge base of a host gets the key
    `knowledge-forge`; others get their folder's name after it, and a number if that is taken too.
    """
    for key, entry in servers.items():
        kb = kb_of(entry)
        if kb is not None and same(kb):
            return key, True
    if NAME not in servers:
        return NAME, False
    suffix = re.sub(r"[^a-z0-9_]+", "-", kb_name.lower()).strip("-")[:_LONGEST_SUFFIX].rstrip("-") or "kb"
    wanted = f"{NAME}-{suffix}"
    number = 2
    while wanted in servers:
        wanted, number = f"{NAME}-{suffix}-{number}", number + 1
    return wanted, False


def added_flags(arguments: object) -> list[str]:
    """Return the flags of `serve` that a person added besides the folders, for example `--read-only`."""
    args = _texts(arguments)
    if "serve" not in args:
        return []
    rest = iter(args[args.index("serve") + 1 :])
    kept = []
    for text in rest:
        if text in ("--kb", "--state-dir"):
            next(rest, None)
        elif not text.startswith(("--kb=", "--state-dir=")):
            kept.append(text)
    return kept


def _texts(args: object) -> list[str]:
    return [text for text in args if isinstance(text, str)] if isinstance(args, list) else []


def _value_of(flag: str, args: Sequence[str]) -> str | None:
    for place, text in enumerate(args):
        if text == flag and place + 1 < len(args):
            return args[place + 1]
        if text.startswith(flag + "="):
            return text.removeprefix(flag + "=")
    return None
