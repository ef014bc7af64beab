"""`knowledge-forge VERB ...`: finds the verb's file, runs it, and turns every expected failure into one sentence."""

from __future__ import annotations

import difflib
import importlib
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, TextIO, cast

if TYPE_CHECKING:
    import argparse

VERBS = {
    "serve": "serve a knowledge base to an MCP host (stdio, or --http HOST:PORT)",
    "demo": "watch a real client talk to a real server",
    "install": "connect a host: claude-desktop, claude-code, cursor, vscode",
    "index": "update the index and report what it took",
    "search": "search from the terminal",
    "eval": "measure search quality with queries whose answers you know",
    "read": "read a page from the terminal",
    "map": "show the map in the terminal",
    "agents": "list agents, and check your team's own",
    "enroll": "give a host its own name and secret",
    "trust": "show and change how far each host is trusted",
    "review": "review what needs your approval; --web opens the page in a browser",
    "run": "run a goal with the server's own model, and watch it",
    "runs": "list, follow, answer, resume and cancel such runs",
    "journeys": "list journeys, decide, fork, export and measure them",
    "audit": "verify and show the audit log",
    "state": "show what uses space in the state database, and free it",
    "doctor": "check configuration, services and index, and say how to fix problems",
    "reference": "print the reference of tools or settings, made from the declarations",
}
FOLDERS = {
    "serve": "server",
    "demo": "demo",
    "install": "server",
    "index": "search",
    "search": "search",
    "eval": "search",
    "read": "search",
    "map": "search",
    "agents": "agents",
    "enroll": "trust",
    "trust": "trust",
    "review": "review",
    "run": "runs",
    "runs": "runs",
    "journeys": "journeys",
    "audit": "trust",
    "state": "server",
    "doctor": "doctor",
    "reference": "server",
}
"""The folder of `mcp_server/cli` that each verb's file is in."""
COULD_NOT = 1
USAGE_ERROR = 2
INTERRUPTED = 130
NOBODY_READS = 141
"""What a shell reports of a program that SIGPIPE ended: `| head` has seen enough."""
_COMMON_WITH_VALUE = ("--kb", "--state-dir")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit code: 0 done, 1 could not, 2 wrongly asked, 130 interrupted, 141 nobody reads."""
    _forget_the_working_directory()  # before anything is imported
    arguments = list(sys.argv[1:] if argv is None else argv)
    streams = _speak_any_text(arguments)
    try:
        code = _dispatch(arguments)
        sys.stdout.flush()
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - what is not expected is raised again
        code = _explained(error)  # which the interpreter then tells of, through the same streams
    sys.stdout, sys.stderr = streams
    return code


def _dispatch(arguments: list[str]) -> int:
    common, rest = _common_first(arguments)
    verb = rest[0] if rest else ""
    if verb not in VERBS:
        return _overview(verb)
    module = module_of(verb)
    parsed = _parser(verb, module).parse_args([*common, *rest[1:]])
    from mcp_server.cli.terminal.output import log_to_stderr

    log_to_stderr(tracebacks=verb == "serve")  # whose log is read by those who look for causes
    return _run(module, parsed)


def module_of(verb: str) -> ModuleType:
    """Import the file of a verb, a key of `VERBS`."""
    return importlib.import_module(f"mcp_server.cli.{FOLDERS[verb]}.{verb}")


def _common_first(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Return the options of every verb that stand before the verb, and the rest."""
    at = 0
    while at < len(arguments):
        name = arguments[at].partition("=")[0]
        if name not in (*_COMMON_WITH_VALUE, "--json"):
            break
        at += 2 if arguments[at] in _COMMON_WITH_VALUE else 1
    return arguments[:at], arguments[at:]


def _run(module: ModuleType, parsed: argparse.Namespace) -> int:
    from mcp_server.app.settings.loader import load
    from mcp_server.app.settings.settings import BY_FIELD

    flags = {field: getattr(parsed, field, None) for field in BY_FIELD}
    chosen = load({**flags, "json": getattr(parsed, "json", None)})
    for note in chosen.notes:
        _say(note)
    code: int = module.run(parsed, chosen)
    return code


def _explained(error: BaseException) -> int:
    """Say why in one sentence and return the exit code; raise what no person can have caused."""
    from knowledge.errors import KnowledgeError
    from mcp_server.app.settings.loader import BadSetting
    from mcp_server.cli.terminal.options import WronglyAsked

    cause = _cause(error)
    if isinstance(cause, KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(cause, BrokenPipeError):
        _leave_stdout()
        return NOBODY_READS
    if isinstance(cause, WronglyAsked | BadSetting):
        _say(str(cause))
        return USAGE_ERROR
    if isinstance(cause, KnowledgeError):
        _say(str(cause))
        return COULD_NOT
    if isinstance(cause, OSError):
        _say(f"the operating system refused: {str(cause) or type(cause).__name__}")
        if cause.filename is None:
            _leave_stdout()  # a full disk behind it would be met again when the process ends
        return COULD_NOT
    raise error


def _cause(error: BaseException) -> BaseException:
    """Return what a group of errors is about: task groups wrap even a single one."""
    while isinstance(error, BaseExceptionGroup):
        broken = error.subgroup(BrokenPipeError)
        if broken is None and len(error.exceptions) > 1:
            break
        error = (broken or error).exceptions[0]
    return error


def _leave_stdout() -> None:
    """Let what is still buffered go nowhere; otherwise Python tries again at exit and complains."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _forget_the_working_directory() -> None:
    """Import nothing from the folder that this was started in, which may be a stranger's.

    `python -m` puts that folder first, and an empty entry of PYTHONPATH means it, too.
    """
    packages = Path(__file__).resolve().parent.parent
    sys.path[:] = [part for part in sys.path if Path(part).is_absolute()]
    with suppress(OSError):
        if Path(sys.path[0]) == Path.cwd() != packages:
            del sys.path[0]


def _speak_any_text(arguments: list[str]) -> tuple[TextIO, TextIO]:
    """Mark what would act on a terminal, and make what it cannot show a question mark; return the streams as they were."""
    from mcp_server.cli.terminal.escape import EscapedStream

    before = sys.stdout, sys.stderr
    for stream in before:
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    _, rest = _common_first(arguments)
    if rest[:1] != ["serve"]:  # there it is the protocol's
        sys.stdout = cast("TextIO", EscapedStream(sys.stdout))
    sys.stderr = cast("TextIO", EscapedStream(sys.stderr, remarks=True))
    return before


def _say(sentence: str) -> None:
    with suppress(OSError):
        # Indented, or a text that is quoted in a sentence could begin another one of ours.
        told = "\n  ".join(sentence.splitlines())
        print(f"knowledge-forge: {told}", file=sys.stderr)  # noqa: T201 - the command line speaks


def _parser(verb: str, module: ModuleType) -> argparse.ArgumentParser:
    from mcp_server.cli.terminal.options import Parser, add_common

    parser = Parser(prog=f"knowledge-forge {verb}", description=VERBS[verb])
    add_common(parser)
    module.arguments(parser)
    return parser


def _overview(asked: str) -> int:
    if asked in ("-V", "--version", "version"):
        from mcp_server.app.composition import version

        print(f"knowledge-forge {version()}")  # noqa: T201 - as above
        return 0
    if asked not in ("", "-h", "--help", "help"):
        near = difflib.get_close_matches(asked, VERBS, n=1)
        what = (
            "the command comes first, then its options" if asked.startswith("-") else f"there is no command {asked!r}"
        )
        hint = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(VERBS)}"
        _say(what + hint)
        return USAGE_ERROR
    lines = [f"  {verb:<10} {says}" for verb, says in VERBS.items()]
    print("usage: knowledge-forge VERB [options]   (VERB --help says which)\n\n" + "\n".join(lines))  # noqa: T201 - the command line speaks
    return 0


if __name__ == "__main__":
    sys.exit(main())
