"""`token create|list|revoke`: bearer tokens for people and programs on other machines."""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any

import anyio

from knowledge.errors import KnowledgeError
from knowledge.trust.ports import BearerToken
from mcp_server.app.knowledge_base import open_state, utc_now
from mcp_server.app.settings.services import TOOLSETS
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.review.review import open_review
from mcp_server.cli.terminal.console import print_table
from mcp_server.cli.terminal.options import add_actions, integer, nonempty
from mcp_server.cli.terminal.output import print_json, say
from mcp_server.cli.trust.acts import act_once
from mcp_server.gate.host_registration import digest
from mcp_server.gate.policy import Trust
from mcp_server.gate.trust.tokens import minted, state_of, token_of, token_principal

FIRST_DAYS = 90
MOST_DAYS = 3650
NEVER = "never"


class UnknownTokens(KnowledgeError):
    """No valid token has that id or name."""

    def __init__(self, asked: str) -> None:
        self.asked = asked
        super().__init__(f"no valid token has the id or name {asked[:60]!r}; knowledge-forge token list shows all")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    actions = add_actions(parser, ACTIONS)
    create, revoke = actions["create"], actions["revoke"]
    create.add_argument("name", metavar="NAME", type=nonempty, help="the person or program that gets it, such as ann")
    create.add_argument(
        "--level",
        metavar="N",
        type=integer(Trust.READ, Trust.HIGH_STAKES),
        default=int(Trust.EDIT),
        help="the highest trust level it may act at, 1 to 5; default 3",
    )
    create.add_argument(
        "--allow-toolsets", metavar="A,B", type=_toolsets, dest="allowed", help="only these toolsets; default: all"
    )
    create.add_argument(
        "--expires",
        metavar="DAYS",
        type=_days,
        default=str(FIRST_DAYS),
        help=f"days until it expires, or {NEVER}; default {FIRST_DAYS}",
    )
    revoke.add_argument("token", metavar="ID|NAME", type=nonempty, help="a token's id, or a name: all its tokens")


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Run the action; exit code 1 if a passkey was needed and nobody signed."""
    _, action = ACTIONS[args.action]
    return anyio.run(action, settings, args)


async def _create(settings: Settings, args: argparse.Namespace) -> int:
    """Create a token and print it, this once."""
    now, (token_id, secret) = utc_now(), minted()
    expires_at = None if args.expires == NEVER else now + timedelta(days=int(args.expires))
    wanted = {
        "name": args.name,
        "id": token_id,
        "secret_digest": digest(secret).hex(),
        "ceiling": args.level,
        "toolsets": None if args.allowed is None else list(args.allowed),
        "expires_at": None if expires_at is None else expires_at.isoformat(timespec="seconds"),
    }
    token = token_of(wanted, by="", now=now)
    await act_once(settings, "token.create", wanted, only_here=True)
    if settings.json:
        print_json({**_row(token), "token": secret})
        return 0
    print(secret)
    say(f"{token_principal(token).id} sends it as `Authorization: Bearer ...`. It is not shown again")
    return 0


async def _list(settings: Settings, _args: argparse.Namespace) -> int:
    """Print all tokens, without their secrets, which nobody has."""
    async with open_state(settings) as state:
        rows = [_row(token) for token in await state.trust.tokens()]
    if settings.json:
        print_json(rows)
    elif rows:
        print_table(list(rows[0]), [_cells(row) for row in rows], wrapped=("toolsets",))
    else:
        print("there are no tokens; knowledge-forge token create NAME makes one")
    return 0


async def _revoke(settings: Settings, args: argparse.Namespace) -> int:
    """Revoke one token, or all of a name. Each is refused from its next request on."""
    async with open_review(settings) as review:
        now, every = review.now(), await review.state.trust.tokens()
        chosen = [one for one in every if args.token in (one.id, one.name) and state_of(one, now=now) == "valid"]
        if not chosen:
            raise UnknownTokens(args.token)
        # Not a proposal, as creating one is: taking trust away needs no passkey and works at once.
        for token in chosen:
            await review.approvals.revoke_token(token.id, review.person)
        rows = [_row(one) for one in await review.state.trust.tokens() if one.id in {token.id for token in chosen}]
    if settings.json:
        print_json(rows)
    else:
        for row in rows:
            print(f"{row['id']} of {row['principal']} is revoked")
    return 0


def _row(token: BearerToken) -> dict[str, object]:
    return {
        "id": token.id,
        "principal": token_principal(token).id,
        "level": token.ceiling,
        "toolsets": None if token.toolsets is None else list(token.toolsets),
        "created": token.created_at.isoformat(timespec="seconds"),
        "expires": None if token.expires_at is None else token.expires_at.isoformat(timespec="seconds"),
        "state": state_of(token, now=utc_now()),
    }


def _cells(row: Mapping[str, Any]) -> list[object]:
    """Return a row for the table, with days instead of times."""
    toolsets = "all" if row["toolsets"] is None else ", ".join(row["toolsets"])
    days = {name: "never" if row[name] is None else str(row[name])[:10] for name in ("created", "expires")}
    return list({**row, "toolsets": toolsets, **days}.values())


def _toolsets(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not names or (unknown := [name for name in names if name not in TOOLSETS]):
        wrong = repr(unknown[0]) if names else "an empty list"
        raise argparse.ArgumentTypeError(f"{wrong} is no toolset; the toolsets are {', '.join(TOOLSETS)}")
    return names


def _days(text: str) -> str:
    if text != NEVER and not (text.removesuffix("d").isdecimal() and 1 <= int(text.removesuffix("d")) <= MOST_DAYS):
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number of days from 1 to {MOST_DAYS} nor {NEVER!r}")
    return text.removesuffix("d")


ACTIONS: Mapping[str, tuple[str, Callable[[Settings, argparse.Namespace], Awaitable[int]]]] = {
    "create": ("create a token and print it, once", _create),
    "list": ("list all tokens, with who they are for and when they expire", _list),
    "revoke": ("make a token invalid, at once", _revoke),
}
"""The actions with their help texts."""
