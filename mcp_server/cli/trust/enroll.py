"""`enroll NAME`: gives a host its own name and secret."""

from __future__ import annotations

import argparse
from functools import partial

import anyio

from mcp_server.app.settings.settings import Settings
from mcp_server.cli.terminal.output import print_json
from mcp_server.cli.trust.acts import enrol


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    parser.add_argument("name", metavar="NAME", help="the host, for example claude-desktop")
    parser.add_argument(
        "--allow-forms",
        dest="forms",
        action="store_true",
        help="count forms in this host as your approval up to level 3; only for a host that shows its forms to you",
    )


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Print `FORGE_ENROLMENT=...` for that host; exit code 1 if a passkey was needed and nobody signed."""
    secret = anyio.run(partial(enrol, settings, args.name, forms=args.forms))
    if settings.json:
        print_json({"host": args.name, "FORGE_ENROLMENT": secret, "forms": args.forms})
    else:
        print(f"FORGE_ENROLMENT={secret}")
    return 0
