"""The end of the audit chain in SQLite: adding a record within whichever transaction it belongs to."""

from __future__ import annotations

from typing import Any

import apsw

from knowledge.errors import CorruptDatabase, ProposalSettled
from knowledge.history.acts import carries_out
from knowledge.history.audit.chain import body_of, digest_of
from knowledge.history.ports import AuditRecord, HistoryEntry
from knowledge.history.timestamps import micros
from knowledge.state.sqlite.events import publish


def append(c: apsw.Connection, place: str, entry: HistoryEntry) -> AuditRecord:
    """Add the next link. It follows the end as kept, so that a tail cut off before stays missing.

    Raises:
        CorruptDatabase: the end of the chain in the database at `place` is gone, or there are records behind it.
    """
    rows: Any = c.execute("SELECT seq, digest FROM chain_end").fetchall()
    if not rows:
        raise CorruptDatabase(place, "the end of the audit chain is gone")
    seq, previous = rows[0]
    body = body_of(entry, seq + 1)
    record = AuditRecord(seq + 1, body, digest_of(previous, body))
    c.execute("INSERT OR IGNORE INTO audit VALUES (?, ?, ?)", (record.seq, record.body, record.digest))
    if not c.changes():
        raise CorruptDatabase(place, "there are records behind the end of the audit chain")
    c.execute("UPDATE chain_end SET seq = ?, digest = ?", (record.seq, record.digest))
    return record


def carry_out(c: apsw.Connection, entry: HistoryEntry) -> None:
    """End the proposal that the act carries out, if there is one, as executed.

    Raises:
        ProposalSettled: it is not approved (any more).
    """
    proposal = carries_out(entry)
    if proposal is None:
        return
    sql = "UPDATE proposal SET state = 'executed', ended_us = ? WHERE id = ? AND state = 'approved'"
    c.execute(sql, (micros(entry.at), proposal))
    if c.changes():
        publish([("proposal", proposal)], c)
    elif c.execute("SELECT 1 FROM proposal WHERE id = ?", (proposal,)).fetchall():
        raise ProposalSettled(proposal)
