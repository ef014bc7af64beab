"""What a person's choice of an embedder or a reranker writes to the configuration file about an endpoint."""

from __future__ import annotations

import argparse
from collections.abc import Collection
from pathlib import Path
from typing import Literal

from knowledge.wire.addresses import same_server
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.terminal.options import WronglyAsked
from mcp_server.cli.terminal.output import say

NO_KEY = (
    "the configured key is for another address and is not sent to this one; if this one needs a key: --key-file FILE"
)


def endpoint_values(
    what: Literal["embedder", "reranker"], args: argparse.Namespace, settings: Settings
) -> dict[str, str | int | None]:
    """Return the settings for `--url` and `--key-file`, None for those to remove. The key of another server is removed."""
    values: dict[str, str | int | None] = {}
    if args.url:
        values[f"{what}_url"] = args.url
        has_key = getattr(settings, f"{what}_key") is not None
        if has_key and not same_server(getattr(settings, f"{what}_url") or "", args.url):
            values |= {f"{what}_key": None, f"{what}_key_file": None}
            if not (settings.json or args.key_file):
                say(NO_KEY)
    if args.key_file:
        # A key that is set itself would win over that of the file.
        values |= {f"{what}_key_file": str(Path(args.key_file).expanduser().absolute()), f"{what}_key": None}
    return values


def file_for(keys: Collection[str], settings: Settings) -> Path:
    """Return the configuration file in which these settings take effect.

    Raises:
        WronglyAsked: the account has none, or the environment overrides it.
    """
    if settings.file_place is None:
        raise WronglyAsked("this account has no configuration folder; set FORGE_CONFIG to a file of yours")
    if names := {f"FORGE_{key.upper()}" for key in keys} & set(settings.in_environment):
        raise WronglyAsked(
            f"{', '.join(sorted(names))} is set in the environment, which takes precedence over {settings.file_place}; "
            "remove it there, and from the entry of each host that sets it, and try again"
        )
    return settings.file_place
