"""`knowledge-forge VERB ...`: finds the verb's file and runs it."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from types import ModuleType

VERBS = {
    "serve": "serve a knowledge base to an MCP host (stdio, or --http HOST:PORT)",
    "demo": "see it work: a real client talks to a real server",
    "install": "connect a host: claude-desktop, claude-code, cursor, vscode",
    "index": "bring the index up to date and say what it cost",
    "search": "search from the terminal",
    "read": "read a page from the terminal",
    "map": "look at the map from the terminal",
    "enroll": "give a host its own name and secret",
    "trust": "see and set how far each host is trusted",
    "doctor": "say what is configured, reachable and stale, and how to mend it",
    "reference": "print the reference of tools or settings, made from the declarations",
}
USAGE_ERROR = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit code: 0 done, 1 could not, 2 wrongly asked."""
    from mcp_server.settings import BadSetting

    arguments = list(sys.argv[1:] if argv is None else argv)
    verb = arguments[0] if arguments else ""
    if verb not in VERBS:
        return _overview(verb)
    module = importlib.import_module(f"mcp_server.cli.{verb}")
    parsed = _parser(verb, module).parse_args(arguments[1:])
    try:
        return _run(module, parsed)
    except BadSetting as error:
        print(f"knowledge-forge: {error}", file=sys.stderr)  # noqa: T201 - the command line speaks
        return USAGE_ERROR
    except KeyboardInterrupt:
        return 130


def _run(module: ModuleType, parsed: argparse.Namespace) -> int:
    from knowledge.errors import KnowledgeError
    from mcp_server import settings

    flags = {v.field: getattr(parsed, v.field, None) for v in settings.VARIABLES}
    chosen = settings.load({**flags, "json": parsed.json or None})
    for note in chosen.notes:
        print(f"knowledge-forge: {note}", file=sys.stderr)  # noqa: T201
    try:
        code: int = module.run(parsed, chosen)
    except KnowledgeError as error:
        print(f"knowledge-forge: {error}", file=sys.stderr)  # noqa: T201
        return 1
    return code


def _parser(verb: str, module: ModuleType) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"knowledge-forge {verb}", description=VERBS[verb])
    parser.add_argument("--kb", metavar="DIR", help="the folder of Markdown (default: the handbook)")
    parser.add_argument(
        "--state-dir", metavar="DIR", help="where state and indexes live (default: the platform's place)"
    )
    parser.add_argument("--json", action="store_true", help="answer in JSON")
    module.arguments(parser)
    return parser


def _overview(asked: str) -> int:
    wanted = asked in ("", "-h", "--help", "help")
    out = sys.stdout if wanted else sys.stderr
    if asked in ("-V", "--version", "version"):
        from mcp_server.app import version

        print(f"knowledge-forge {version()}")  # noqa: T201
        return 0
    if not wanted:
        print(f"knowledge-forge: there is no verb {asked!r}\n", file=out)
    lines = [f"  {verb:<10} {says}" for verb, says in VERBS.items()]
    print("usage: knowledge-forge VERB [options]   (VERB --help says which)\n\n" + "\n".join(lines), file=out)
    return 0 if wanted else USAGE_ERROR


if __name__ == "__main__":
    sys.exit(main())
