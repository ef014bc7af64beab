"""`trust list|grant|history`: sees and sets how far each host is trusted."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import anyio

from knowledge.errors import KnowledgeError
from knowledge.storage.ports import StateStore
from knowledge.trust.ports import Standing
from mcp_server.cli.options import add_common
from mcp_server.cli.terminal import output, print_json
from mcp_server.gate.enrolment import UNENROLLED, Principal, enrolled_hosts, os_user
from mcp_server.gate.scores import first_standing, grant, held
from mcp_server.settings import Settings


class UnknownHost(KnowledgeError):
    """Nobody enrolled a host of that name; `known` are the ones there are."""

    def __init__(self, asked: str, known: Sequence[str]) -> None:
        self.asked, self.known = asked, tuple(known)
        there = f"there are {', '.join(known)}" if known else "none is"
        super().__init__(f"no host {asked!r} is enrolled; {there} (knowledge-forge enroll NAME)")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add what only this verb takes."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="list|grant|history")
    listing = actions.add_parser("list", help="every host and what it holds")
    granting = actions.add_parser("grant", help="set a host's level")
    granting.add_argument(
        "name", metavar="NAME", help=f"an enrolled host, or {UNENROLLED}; USER@HOST for another person's"
    )
    granting.add_argument("level", metavar="LEVEL", type=float, help="0 to 5; 3 lets it edit")
    past = actions.add_parser("history", help="who changed a host's score, when and why")
    past.add_argument("name", metavar="NAME", help="the host")
    for action in (listing, granting, past):
        add_common(action)


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Do what is asked and print the outcome."""
    actions = {"list": _list, "grant": _grant, "history": _history}
    rows = anyio.run(_with_state, settings, actions[args.action], args)
    if settings.json:
        print_json(rows)
    else:
        _print_table(rows)
    return 0


async def _with_state(settings: Settings, action: object, args: argparse.Namespace) -> list[dict[str, object]]:
    from mcp_server.base import open_state

    async with open_state(settings) as state:
        return await action(state, args)  # type: ignore[operator, no-any-return]  # one of the three below


async def _list(state: StateStore, _args: argparse.Namespace) -> list[dict[str, object]]:
    from mcp_server.base import utc_now

    hosts = [enrolment.host for enrolment in await enrolled_hosts(state)]
    known = {standing.principal: standing for standing in await state.standings()}
    for host in [*hosts, UNENROLLED]:
        name = Principal(os_user(), host).id
        known.setdefault(name, first_standing(name, now=utc_now()))
    return [_row(standing) for _, standing in sorted(known.items())]


async def _grant(state: StateStore, args: argparse.Namespace) -> list[dict[str, object]]:
    from mcp_server.base import utc_now

    name = _principal(args.name)
    await _require_host(state, name)
    return [_row(await grant(state, name, args.level, by=os_user(), now=utc_now()))]


async def _history(state: StateStore, args: argparse.Namespace) -> list[dict[str, object]]:
    name = _principal(args.name)
    changes = await state.history(name, limit=100)
    if not changes:
        await _require_host(state, name)
    return [
        {
            "at": c.at.isoformat(timespec="seconds"),
            "from": c.score_before,
            "to": c.score_after,
            "by": c.by,
            "reason": c.reason,
        }
        for c in changes
    ]


async def _require_host(state: StateStore, principal: str) -> None:
    host = principal.rpartition("@")[2]
    hosts = [enrolment.host for enrolment in await enrolled_hosts(state)]
    if host not in (*hosts, UNENROLLED):
        raise UnknownHost(host, hosts)


def _principal(name: str) -> str:
    return name if "@" in name else Principal(os_user(), name).id


def _row(standing: Standing) -> dict[str, object]:
    holds = held(standing)
    return {
        "principal": standing.principal,
        "score": round(holds.score, 2),
        "level": int(holds.level),
        "may": holds.level.meaning,
        "floor": standing.floor,
        "ceiling": standing.ceiling,
        "frozen": standing.frozen,
    }


def _print_table(rows: Sequence[dict[str, object]]) -> None:
    from rich.table import Table

    if not rows:
        print("nothing recorded")
        return
    table = Table(*rows[0], box=None, pad_edge=False)
    for row in rows:
        table.add_row(*(str(value) for value in row.values()))
    output().print(table)
