"""`knowledge-forge VERB ...`: finds the verb's file, runs it, and turns every expected failure into one sentence."""

from __future__ import annotations

import os
import sys


def _forget_the_working_directory() -> None:
    """Remove the working directory from Python's path, unless the program itself is in it.

    Hosts start servers in the open project, which may be a stranger's repository: a `yaml.py` there would run in our process.
    `python -m` puts that folder first, and an empty entry of PYTHONPATH means it too.
    """
    packages = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))  # noqa: PTH120 - pathlib is not imported yet
    sys.path[:] = [part for part in sys.path if os.path.isabs(part)]  # noqa: PTH117 - as above
    try:
        here = os.getcwd()  # noqa: PTH109 - as above
    except OSError:  # the folder was deleted
        return
    if sys.path[0] == here != packages:
        del sys.path[0]


# Before any other import, of the standard library too: `os` and `sys` are what Python itself has loaded by now.
_forget_the_working_directory()

import difflib
import importlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from io import TextIOWrapper
from types import ModuleType
from typing import NamedTuple, TextIO, cast

from knowledge.errors import KnowledgeError
from mcp_server import VERSION
from mcp_server.app.settings.loader import BadSetting, load
from mcp_server.app.settings.settings import BY_FIELD
from mcp_server.app.settings.several import require_one
from mcp_server.cli.terminal.commands import as_commands, forget, remember
from mcp_server.cli.terminal.escape import EscapedStream
from mcp_server.cli.terminal.options import Parser, WronglyAsked, add_common
from mcp_server.cli.terminal.output import log_to_stderr


class Verb(NamedTuple):
    """A command: the folder of `mcp_server/cli` with its file, and a line of help. The file is named after the verb, unless given."""

    folder: str
    help: str
    file: str = ""


VERBS: Mapping[str, Verb] = {
    "serve": Verb("server", "serve a knowledge base to an MCP host (stdio, or --http HOST:PORT)"),
    "demo": Verb("demo", "watch a real client talk to a real server"),
    "install": Verb("server", "connect an MCP host, such as claude-desktop"),
    "index": Verb("search", "update the index, and say what changed and how long it took"),
    "search": Verb("search", "search from the terminal"),
    "embedder": Verb("embedder", "list models for semantic search, and change to another"),
    "reranker": Verb("reranker", "show the model that reranks the first passages, and change it"),
    "eval": Verb("search", "measure search quality with queries whose answers you know"),
    "read": Verb("search", "read a page from the terminal"),
    "map": Verb("search", "show the map in the terminal"),
    "history": Verb("history", "list what changed, who changed it and why; --lines: who wrote each line"),
    "new": Verb("history", "write a new page in your editor, or from a file"),
    "edit": Verb("history", "change a page in your editor; what others wrote meanwhile is merged"),
    "diff": Verb("history", "show what changed in a page, or compare two of its states"),
    "check": Verb("contradictions", "find contradictions between pages"),
    "contradictions": Verb("contradictions", "list contradictions, and dismiss those that are not"),
    "undo": Verb("undo", "undo a change of a page, an import, or all that a host did, and keep what came later"),
    "export": Verb("inout", "copy the knowledge base to a folder, a static site, or one file of JSON lines"),
    "import": Verb("inout", "bring in pages from elsewhere, after showing what would be written", "import_pages"),
    "sync": Verb("inout", "merge what a Git remote has, and send it what it lacks"),
    "mirror": Verb("inout", "mirror pages of a database in a folder, and store what people edit there"),
    "agents": Verb("agents", "list agents, and check your team's own"),
    "enroll": Verb("trust", "give a host its own name and secret"),
    "trust": Verb("trust", "show and change how far each host is trusted"),
    "token": Verb("trust", "create, list and revoke bearer tokens for people on other machines"),
    "people": Verb("people", "add, remove and list the people who use this knowledge base"),
    "group": Verb("people", "put people into groups"),
    "rule": Verb("people", "say what people and groups may read, propose and write in a folder"),
    "reviewers": Verb("people", "choose who decides on proposals that touch a folder"),
    "review": Verb("review", "review what needs your approval; --web opens the page in a browser"),
    "run": Verb("runs", "run a goal with the server's own model, and watch it"),
    "runs": Verb("runs", "list, follow, answer, resume and cancel such runs"),
    "journeys": Verb("journeys", "list journeys, decide, fork, export and measure them"),
    "audit": Verb("trust", "verify and show the audit log"),
    "state": Verb("server", "show the state database and its size; move, save, restore and compact it"),
    "doctor": Verb("doctor", "check configuration, services and index, and say how to fix problems"),
    "reference": Verb("server", "print the reference of tools or settings, made from the declarations"),
}
COULD_NOT = 1
USAGE_ERROR = 2
INTERRUPTED = 130  # 128 + 2, as shells report a program that SIGINT ended
NOBODY_READS = 141
"""The exit code that a shell reports for a program ended by SIGPIPE, as by `| head`."""
_COMMON_WITH_VALUE = ("--kb", "--state-dir")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit code: 0 done, 1 failed, 2 wrong usage, 130 interrupted, 141 the output's reader is gone."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    streams = _escape_output(arguments)
    try:
        code = _dispatch(arguments)
        sys.stdout.flush()
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - what is not expected is raised again
        # The escaped streams stay, because the interpreter prints the traceback to them.
        code = explained(error)
    sys.stdout, sys.stderr = streams
    forget()
    return code


def _dispatch(arguments: list[str]) -> int:
    common, rest = _common_first(arguments)
    verb = rest[0] if rest else ""
    if verb not in VERBS:
        return _overview(verb)
    module = module_of(verb)
    parser = Parser(prog=f"knowledge-forge {verb}", description=VERBS[verb].help)
    add_common(parser)
    module.arguments(parser)
    parsed = parser.parse_args([*common, *rest[1:]])
    remember(parsed)
    # A server's log needs the cause of a failure; a person at a terminal needs only the sentence.
    log_to_stderr(tracebacks=verb == "serve")
    flags = {field: getattr(parsed, field, None) for field in BY_FIELD}
    settings = load({**flags, "json": getattr(parsed, "json", None)})
    for note in settings.notes:
        _say(note)
    if verb not in ("serve", "reference"):
        require_one(settings, verb)
    code: int = module.run(parsed, settings)
    return code


def module_of(verb: str) -> ModuleType:
    """Import the file of a verb, a key of `VERBS`."""
    return importlib.import_module(f"mcp_server.cli.{VERBS[verb].folder}.{VERBS[verb].file or verb}")


def _common_first(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Return the common options before the verb, and the rest."""
    at = 0
    while at < len(arguments):
        name = arguments[at].partition("=")[0]
        if name not in (*_COMMON_WITH_VALUE, "--json"):
            break
        # `--kb DIR` is two words, `--kb=DIR` is one.
        at += 2 if arguments[at] in _COMMON_WITH_VALUE else 1
    return arguments[:at], arguments[at:]


def explained(error: BaseException) -> int:
    """Print the reason in one sentence and return the exit code; raise the error if it is a bug and not a person's mistake."""
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
        _say(as_commands(str(cause)))
        return COULD_NOT
    if isinstance(cause, OSError):
        _say(f"the operating system refused: {str(cause) or type(cause).__name__}")
        if cause.filename is None:
            _leave_stdout()  # a full disk behind stdout would fail again when the process ends
        return COULD_NOT
    raise error


def _cause(error: BaseException) -> BaseException:
    """Return the error inside a group: task groups wrap even a single one."""
    while isinstance(error, BaseExceptionGroup):
        # If nobody reads the output, the other errors in the group only follow from that.
        broken = error.subgroup(BrokenPipeError)
        if broken is None and len(error.exceptions) > 1:
            break
        error = (broken or error).exceptions[0]
    return error


def _leave_stdout() -> None:
    """Send buffered output to the null device; otherwise Python tries to write it at exit, and complains."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _escape_output(arguments: list[str]) -> tuple[TextIO, TextIO]:
    """Make stdout and stderr mark characters that would act on a terminal, and return the original streams."""
    before = sys.stdout, sys.stderr
    for stream in before:
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without UTF-8 shows a question mark, and nothing fails
    _, rest = _common_first(arguments)
    if rest[:1] != ["serve"]:  # its stdout carries the protocol
        sys.stdout = cast("TextIO", EscapedStream(sys.stdout))
    sys.stderr = cast("TextIO", EscapedStream(sys.stderr, remarks=True))
    return before


def _say(sentence: str) -> None:
    with suppress(OSError):
        # Further lines are indented: a text that is quoted in a sentence could otherwise forge another sentence of ours.
        told = "\n  ".join(sentence.splitlines())
        print(f"knowledge-forge: {told}", file=sys.stderr)


def _overview(asked: str) -> int:
    """Print the list of verbs or the version; for an unknown verb, name the nearest one."""
    if asked in ("-V", "--version", "version"):
        print(f"knowledge-forge {VERSION}")
        return 0
    if asked not in ("", "-h", "--help", "help"):
        near = difflib.get_close_matches(asked, VERBS, n=1)
        what = (
            "the command comes first, then its options" if asked.startswith("-") else f"there is no command {asked!r}"
        )
        hint = f"; did you mean {near[0]}?" if near else f"; the commands are {', '.join(VERBS)}"
        _say(what + hint)
        return USAGE_ERROR
    lines = [f"  {verb:<14} {says}" for verb, (_, says, _) in VERBS.items()]
    print("usage: knowledge-forge VERB [options]   (VERB --help lists the options)\n\n" + "\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
