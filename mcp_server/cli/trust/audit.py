"""`audit verify|export|search|show`: check that the log of all acts is unaltered, and show it."""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

import anyio

from knowledge.history.audit.chain import Broken, fields_of, recorded_at
from knowledge.history.audit.inspection import Inspection, inspect, records_of
from knowledge.history.audit.search import KINDS, OUTCOMES, AuditQuery, find, pages_of
from knowledge.history.ports import AuditRecord, Ledger
from knowledge.state.ports import StateStore
from mcp_server.app.knowledge_base import open_state
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.terminal import times
from mcp_server.cli.terminal.console import print_table
from mcp_server.cli.terminal.escape import visible
from mcp_server.cli.terminal.options import add_actions, integer, nonempty
from mcp_server.cli.terminal.output import json_text, print_json, say
from mcp_server.presenters.audit import ActFile, AuditedAct, audit_summary, audited_act

if TYPE_CHECKING:
    from mcp_server.gate.trust.reconcile import Unaccounted

DIGEST_DIGITS = 64  # of a SHA-256 in hexadecimal
MOST_SHOWN = 10_000
PAGES_SHOWN = 3
MOST_SEQ = 2**62

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
    searching.add_argument(
        "--path", metavar="PATH", type=nonempty, help="only acts on this page or place in another service, or below it"
    )
    searching.add_argument(
        "--principal", metavar="NAME", type=nonempty, help="only acts of this USER@HOST, HOST or USER"
    )
    searching.add_argument("--tool", metavar="TOOL", type=nonempty, help="only acts of this tool")
    searching.add_argument("--kind", choices=tuple(KINDS), help="only acts of this kind")
    searching.add_argument(
        "--outcome", choices=OUTCOMES, metavar="OUTCOME", help="only acts with this outcome, such as sent"
    )
    searching.add_argument(
        "--until", metavar="TIME", type=times.until, help="only acts before then; a day counts whole"
    )
    searching.add_argument(
        "--limit", metavar="N", type=integer(1, MOST_SHOWN), default=50, help="maximum number (default 50)"
    )
    actions["show"].add_argument("seq", metavar="SEQ", type=integer(1, MOST_SEQ), help="the number of the record")
    for name in ("export", "search"):
        actions[name].add_argument(
            "--since",
            metavar="TIME",
            type=times.since,
            help=f"only acts since then: {times.FORMS}",
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
    query = AuditQuery(
        words=" ".join(args.text),
        by=args.principal or "",
        tool=args.tool or "",
        about=args.path or "",
        kind=args.kind or "",
        outcome=args.outcome or "",
        since=args.since,
        until=args.until,
    )
    found = await find(state.ledger, query, limit=args.limit, bounded=False)
    rows = [_fields(record) for record in found.records]
    if settings.json:
        print_json(rows)
    else:
        _print_table(rows)
    return 0 if rows else 1


async def _show(state: StateStore, args: argparse.Namespace, settings: Settings) -> int:
    act = await audited_act(state.ledger, args.seq)
    if act is None:
        end, _ = await state.ledger.chain_end()
        say(f"there is no record {args.seq}; the newest is {end}")
        return 1
    if settings.json:
        previous = None if act.previous is None else act.previous.hex()
        files = [asdict(file) for file in act.files]
        chain = {"previous": previous, "fits": act.fits, "end": act.end}
        print_json({**_fields(act.record), "files": files, "left_out": act.left_out, "chain": chain})
    else:
        _print_act(act)
    return 0


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
        # To the minute, and never wrapped: in 80 columns there is room for a time, but not for its seconds.
        cells.append((row["seq"], one.at[:16], one.principal, one.tool, one.outcome, about))
    print_table(
        ("seq", "at (UTC)", "principal", "tool", "outcome", "about"), cells, wrapped=("principal", "tool", "about")
    )
    say("to see one act with everything about it: knowledge-forge audit show SEQ")


def _print_act(act: AuditedAct) -> None:
    print(f"record {act.record.seq} of {act.end}")
    facts = [(fact.label.lower(), fact.value) for fact in act.facts] or [("body", act.record.body)]
    digests = [("hash", act.record.digest.hex()), ("hash before", "" if act.previous is None else act.previous.hex())]
    for label, value in [*facts, *((label, value) for label, value in digests if value)]:
        print(f"  {label}: {visible(value)}")
    print(f"  chain: {act.chain_sentence}")
    for file in act.files:
        print(f"  {visible(_file_line(file))}")
    if act.left_out:
        print(f"  and {act.left_out} more files")


def _file_line(file: ActFile) -> str:
    source = f" from {file.moved_from}" if file.moved_from else ""
    counts = "" if file.added is None else f", +{file.added} -{file.removed} lines"
    return f"{file.effect} {file.path}{source} ({file.before or 'no page'} -> {file.after or 'no page'}{counts})"


def _noted(text: str) -> tuple[int, bytes]:
    seq, _, digest = text.partition(":")
    if not (seq.isdecimal() and len(digest) == DIGEST_DIGITS and set(digest) <= set("0123456789abcdef")):
        raise argparse.ArgumentTypeError(f"{text!r} is not in the form that `audit verify` prints: SEQ:DIGEST")
    return int(seq), bytes.fromhex(digest)


ACTIONS: Mapping[str, tuple[str, Action]] = {
    "verify": ("check that every record is present and unchanged", _verify),
    "export": ("print all records, oldest first, one JSON object per line", _export),
    "search": ("list records, newest first", _search),
    "show": ("show one record with everything about the act", _show),
}
"""The actions with their help texts."""
