"""Appends records to the audit chain, in the same transaction as the act that each records."""

from __future__ import annotations

from datetime import datetime

import apsw

from knowledge.errors import CorruptDatabase, ProposalSettled
from knowledge.history.audit.chain import body_around, digest_of
from knowledge.history.ports import HistoryEntry
from knowledge.history.timestamps import micros
from knowledge.state.change_events import publish_in_sqlite
from knowledge.state.tables import Part, Row, SqlPair

HOLD_THE_END = "SELECT seq FROM forge.chain_end FOR UPDATE"
"""The first statement of a transaction that may append. Others wait at it, before they hold any lock that this one needs."""


def appending(entry: HistoryEntry) -> Part:
    """Return the statement that adds the next link, after the recorded end, so that a tail cut off earlier still shows as missing.

    The statement raises CorruptDatabase if the end of the chain is gone, or records follow it.
    """
    return _APPEND, body_around(entry)


def _append_in_sqlite(c: apsw.Connection, head: str, tail: str) -> list[Row]:
    rows: list[Row] = c.execute("SELECT seq, digest FROM chain_end").fetchall()
    if not rows:
        raise CorruptDatabase(c.filename, "the end of the audit chain is gone")
    seq, previous = rows[0]
    body = f"{head}{seq + 1}{tail}"
    digest = digest_of(previous, body)
    c.execute("INSERT OR IGNORE INTO audit VALUES (?, ?, ?)", (seq + 1, body, digest))
    if not c.changes():
        raise CorruptDatabase(c.filename, "there are records after the end of the audit chain")
    c.execute("UPDATE chain_end SET seq = ?, digest = ?", (seq + 1, digest))
    return []


_APPEND = SqlPair(_append_in_sqlite, "SELECT forge.append(%s, %s)")


def _carry_out_in_sqlite(c: apsw.Connection, proposal: str, at: datetime) -> list[Row]:
    sql = "UPDATE proposal SET state = 'executed', ended_us = ? WHERE id = ? AND state = 'approved'"
    c.execute(sql, (micros(at), proposal))
    if c.changes():
        publish_in_sqlite(c, "proposal", [proposal])
    elif c.execute("SELECT 1 FROM proposal WHERE id = ?", (proposal,)).fetchall():
        raise ProposalSettled(proposal)
    return []


CARRY_OUT = SqlPair(_carry_out_in_sqlite, "SELECT forge.carry_out(%s, %s, 'forge')")
"""End the proposal with this id, if any, as executed at that time. Raises ProposalSettled if it is not approved."""
