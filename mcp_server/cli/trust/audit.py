"""`audit verify|export|search`: check that the log of all acts is unaltered, and show it."""

from __future__ import annotations

import argparse
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import anyio

from knowledge.history.audit.chain import Broken, fields_of, recorded_at
from knowledge.history.audit.inspection import Inspection, inspect, records_of
from knowledge.history.audit.mentions import mentions
from knowledge.history.ports import AuditRecord, Ledger
from knowledge.pages.paths import within
from knowledge.state.ports import StateStore
from mcp_server.app.knowledge_base import open_state
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.terminal.console import print_table
from mcp_server.cli.terminal.escape import visible
from mcp_server.cli.terminal.options import add_actions, integer, nonempty
from mcp_server.cli.terminal.output import json_text, print_json
from mcp_server.presenters.audit import audit_summary, pages_of

if TYPE_CHECKING:
    from mcp_server.gate.trust.reconcile import Unaccounted

DIGEST_DIGITS = 64  # of a SHA-256 in hexadecimal
MOST_SHOWN = 10_000
PAGES_SHOWN = 3

Action = Callable[[StateStore, argparse.Namespace, Settings], Coroutine[Any, Any, int]]


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    actions = add_actions(parser, ACTIONS)
    actions["verify"].add_argument(
        "--noted", metavar="SEQ:DIGEST", type=_noted, help="the end of the chain that you noted earlier"
    )
    actions["export"].add_argument(
        "--jsonl", action="store_true", help="one JSON object per line: the only format, and the default"
    )
    searching = actions["search"]
    searching.add_argument("text", metavar="TEXT", nargs="*", help="only records that contain these words")
    searching.add_argument("--path", metavar="PATH", type=nonempty, help="only acts on this page, or on pages below it")
    searching.add_argument("--principal", metavar="NAME", type=nonempty, help="only acts of this USER@HOST, or HOST")
    searching.add_argument("--tool", metavar="TOOL", type=nonempty, help="only acts of this tool")
    searching.add_argument(
        "--limit", metavar="N", type=integer(1, MOST_SHOWN), default=50, help="maximum number (default 50)"
    )
    for name in ("export", "search"):
        actions[name].add_argument(
            "--since",
            metavar="ISO",
            type=_moment,
            help="only acts since this date or time: 2026-03-01, optionally with time (UTC) or zone",
        )


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Run the action; exit code 1 if the chain is broken, the trust scores don't match it, or a search finds nothing."""
    return anyio.run(_run, args, settings)


async def _run(args: argparse.Namespace, settings: Settings) -> int:
    _, action = ACTIONS[args.action]
    async with open_state(settings) as state:
        return await action(state, args, settings)


async def _verify(state: StateStore, args: argparse.Namespace, settings: Settings) -> int:
    from mcp_server.gate.trust.reconcile import (
        unaccounted,  # loads the tools' declarations, which a search need not wait for
    )

    found, loose = await inspect(state.ledger, noted=args.noted), await unaccounted(state)
    if settings.json:
        seq, digest = found.end
        print_json(
            {
                "sound": not found.broken and not loose,
                "records": found.records,
                "end": {"seq": seq, "digest": digest.hex()},
                "broken": [asdict(broken) for broken in found.broken],
                "others": found.others,
                "unaccounted": [asdict(one) for one in loose],
            }
        )
    else:
        _print_verdict(found, loose)
    return 1 if found.broken or loose else 0


def _print_verdict(found: Inspection, loose: Sequence[Unaccounted]) -> None:
    seq, digest = found.end
    if found.broken:
        print(f"the audit chain is broken ({found.records} records)")
    elif seq:
        print(f"{found.records} records, all intact; the chain ends with {seq}:{digest.hex()}")
    elif not loose:
        print("no records yet")
    for broken in found.broken:
        print(visible(_break_line(broken)))
    if found.others:
        print(f"and {found.others} more")
    if loose:
        print("trust scores don't match the records: the state was edited by hand")
    for one in loose:
        print(visible(f"{one.what} {one.reason}"))


async def _export(state: StateStore, args: argparse.Namespace, _settings: Settings) -> int:
    async for record in _since(state.ledger, args.since):
        print(json_text(_fields(record)))  # ASCII: a line is the same bytes on every terminal
    return 0


async def _search(state: StateStore, args: argparse.Namespace, settings: Settings) -> int:
    # The chain is read from its beginning; the newest that match stay.
    newest: deque[dict[str, Any]] = deque(maxlen=args.limit)
    async for record in _since(state.ledger, args.since):
        fields = _fields(record)
        if _wanted(fields, args):
            newest.append(fields)
    rows = list(reversed(newest))
    if settings.json:
        print_json(rows)
    else:
        _print_table(rows)
    return 0 if rows else 1


async def _since(ledger: Ledger, since: datetime | None) -> AsyncIterator[AuditRecord]:
    """Yield the records since that time, and those whose time cannot be read: they may belong to it."""
    async for record in records_of(ledger):
        at = None if since is None else recorded_at(record)
        if since is None or at is None or at >= since:
            yield record


def _fields(record: AuditRecord) -> dict[str, Any]:
    """Return the record's fields and hash; if the record was made unreadable, its text is under `body` instead."""
    fields = fields_of(record) or {"body": record.body}
    return {**fields, "seq": record.seq, "digest": record.digest.hex()}


def _wanted(fields: Mapping[str, Any], args: argparse.Namespace) -> bool:
    if not mentions(fields, " ".join(args.text)):
        return False
    principal = str(fields.get("principal", ""))
    if args.principal is not None and args.principal not in (principal, principal.rpartition("@")[2]):
        return False
    if args.tool is not None and args.tool != fields.get("tool"):
        return False
    return args.path is None or any(within(path, args.path.strip("/")) for path in pages_of(fields))


def _break_line(broken: Broken) -> str:
    facts = [f"{broken.tool} by {broken.principal}"] if broken.tool else []
    facts += [f"on {_first(broken.paths)}"] if broken.paths else []
    facts += [f"at {broken.at}"] if broken.at else []
    about = f" ({' '.join(facts)})" if facts else ""
    return f"record {broken.seq}{about}: {broken.reason}"


def _first(pages: Sequence[str]) -> str:
    more = len(pages) - PAGES_SHOWN
    return ", ".join(pages[:PAGES_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _print_table(rows: list[dict[str, Any]]) -> None:
    if not rows:
        print("nothing recorded")
        return
    cells = []
    for row in rows:
        one = audit_summary(row)
        about = _first(pages_of(row)) or "; ".join(one.subjects)
        cells.append((row["seq"], one.at, one.principal, one.tool, one.outcome, about))
    print_table(("seq", "at", "principal", "tool", "outcome", "about"), cells)


def _moment(text: str) -> datetime:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a date or time such as 2026-03-01T12:00") from None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _noted(text: str) -> tuple[int, bytes]:
    seq, _, digest = text.partition(":")
    if not (seq.isdecimal() and len(digest) == DIGEST_DIGITS and set(digest) <= set("0123456789abcdef")):
        raise argparse.ArgumentTypeError(f"{text!r} is not in the form that `audit verify` prints: SEQ:DIGEST")
    return int(seq), bytes.fromhex(digest)


ACTIONS: Mapping[str, tuple[str, Action]] = {
    "verify": ("check that every record is present and unchanged", _verify),
    "export": ("print all records, oldest first, one JSON object per line", _export),
    "search": ("list records, newest first", _search),
}
"""The actions with their help texts."""
