"""Finds what earlier imports of the same source brought, in the audit log.

Every page of an import is one act under the import's id, `KEY-NUMBER`: the key is that of the source and the folder that takes
it, the number counts its imports. One more record ends an import; without it, the next one continues under the same id.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from knowledge.history.acts import IMPORT, IMPORT_FINISHED, IMPORT_TOOL
from knowledge.history.audit.chain import fields_of
from knowledge.history.ports import AuditScan, Ledger
from knowledge.pages.vault import REVISION_DIGITS

BATCH = 1_000
_KEY_DIGITS = 8


@dataclass(frozen=True, slots=True)
class EarlierPage:
    """The last import of a page: where it is by now, and the revision of the bytes that came from the source."""

    path: str
    brought: str


@dataclass(frozen=True, slots=True)
class EarlierImports:
    """`pages` by their origins, `id` for the next import, and whether it continues one that was interrupted."""

    pages: Mapping[str, EarlierPage]
    id: str
    continues: bool


def key_of(kind: str, name: str, into: str) -> str:
    """Return what all imports of the source into the folder have in common."""
    return hashlib.sha256(json.dumps([kind, name, into]).encode()).hexdigest()[:_KEY_DIGITS]


async def earlier_imports(ledger: Ledger, key: str) -> EarlierImports:
    """Return what earlier imports with this key brought."""
    found: dict[str, tuple[str, str, int]] = {}
    newest, finished = 0, False
    before = (await ledger.chain_end())[0] + 1
    wanted = ((f'"call":"{IMPORT}{key}-',),)
    while records := await ledger.scan(AuditScan(before, 1, wanted), limit=BATCH):
        before = records[-1].seq
        for record in records:
            fields = fields_of(record)
            number = _number(fields.get("call"), key)
            if number is None or fields.get("tool") != IMPORT_TOOL or fields.get("outcome") == "undone":
                continue
            if number > newest:
                newest, finished = number, str(fields.get("intent", "")).startswith(IMPORT_FINISHED)
            changes = fields.get("changes")
            if isinstance(changes, list) and changes:
                brought = str(fields.get("arguments_hash"))[:REVISION_DIGITS]
                # Records come newest first, so the first one of a page is its last import.
                found.setdefault(str(fields.get("source")), (str(changes[0].get("path")), brought, record.seq))
    moves = await _moves(ledger) if found else {}
    pages = {origin: EarlierPage(_now(path, seq, moves), brought) for origin, (path, brought, seq) in found.items()}
    number = newest + 1 if finished or not newest else newest
    return EarlierImports(pages, f"{key}-{number}", continues=bool(newest) and not finished)


async def _moves(ledger: Ledger) -> Mapping[str, list[tuple[int, str]]]:
    """Return where each page was moved, and by which record, oldest first."""
    moves: dict[str, list[tuple[int, str]]] = {}
    after = 0
    while lines := await ledger.lines_after(after, limit=BATCH, moves=True):
        after = lines[-1].id
        for line in lines:
            if line.moved_from is not None and line.seq is not None:
                moves.setdefault(line.moved_from, []).append((line.seq, line.path))
    return moves


def _now(path: str, seq: int, moves: Mapping[str, list[tuple[int, str]]]) -> str:
    """Return the present path of the page that was at `path` when record `seq` was made."""
    while (later := next((move for move in moves.get(path, ()) if move[0] > seq), None)) is not None:
        seq, path = later
    return path


def _number(call: object, key: str) -> int | None:
    head, dash, number = str(call).rpartition("-")
    return int(number) if dash and head == f"{IMPORT}{key}" and number.isdecimal() else None
