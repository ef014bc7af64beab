"""Rows of trust records and proposals in SQLite, and what they stand for."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import apsw

from knowledge.history.timestamps import micros, moment
from knowledge.trust.forms import RECENT, proposal_line, proposal_of, readable
from knowledge.trust.ports import Passkey, Proposal, ProposalLine, TrustChange, TrustRecord

PROPOSAL = """
told, state, verdict, result, error, ended_us, successor, runner, runs_until_us,
(SELECT line FROM proposal_line WHERE proposal_line.number = proposal.number)
"""
# What was told is read only where there is no line: `coalesce` would read it all the same.
LINE = """
line, CASE WHEN line IS NULL THEN told END, state, verdict, result IS NOT NULL, ended_us, successor, runs_until_us
FROM proposal LEFT JOIN proposal_line ON proposal_line.number = proposal.number
"""
STANDING = "SELECT principal, score, floor, ceiling, frozen, updated_us FROM standing"
CHANGE = "SELECT id, principal, at_us, score_before, score_after, reason, decided_by FROM standing_change"
_STAND = "INSERT OR REPLACE INTO standing VALUES (?, ?, ?, ?, ?, ?)"
_NOTE = """
INSERT INTO standing_change (principal, at_us, score_before, score_after, reason, decided_by) VALUES (?, ?, ?, ?, ?, ?)
"""


def proposals(rows: Sequence[Any]) -> list[Proposal]:
    """Return the proposals in rows with the columns `PROPOSAL`."""
    return readable(_proposal, rows)


def lines(rows: Sequence[Any]) -> list[ProposalLine]:
    """Return the proposals in rows with the columns `LINE`."""
    return readable(_proposal_line, rows)


def _proposal(row: Any) -> Proposal:
    *fixed, ended_us, successor, runner, runs_until_us, line = row
    return proposal_of((*fixed, _moment(ended_us), successor, runner, _moment(runs_until_us), line))


def _proposal_line(row: Any) -> ProposalLine:
    *fixed, ended_us, successor, runs_until_us = row
    return proposal_line((*fixed, _moment(ended_us), successor, _moment(runs_until_us)))


def _moment(us: int | None) -> datetime | None:
    return None if us is None else moment(us)


def trust_record(row: Any) -> TrustRecord:
    """Return the trust record in a row of `STANDING`."""
    principal, score, floor, ceiling, frozen, updated_us = row
    return TrustRecord(principal, score, floor, ceiling, bool(frozen), moment(updated_us))


def standing_change(row: Any) -> TrustChange:
    """Return the change in a row of `CHANGE`."""
    id_, principal, at_us, *rest = row
    return TrustChange(id_, principal, moment(at_us), *rest)


def passkey(row: Any) -> Passkey:
    """Return the passkey in a row of the table."""
    id_, public_key, sign_count, name, user, created_us, used_us = row
    return Passkey(id_, public_key, sign_count, name, user, moment(created_us), _moment(used_us))


def known_standing(c: apsw.Connection, principal: str, at: datetime) -> tuple[TrustRecord | None, list[TrustChange]]:
    """Return what is recorded of the principal, and its changes of the day before `at`, newest first."""
    rows: Any = c.execute(f"{STANDING} WHERE principal = ?", (principal,)).fetchall()
    sql = f"{CHANGE} WHERE principal = ? AND at_us > ? ORDER BY id DESC"
    recent: Any = c.execute(sql, (principal, micros(at - RECENT))).fetchall()
    return (trust_record(rows[0]) if rows else None), [standing_change(row) for row in recent]


def stand(c: apsw.Connection, trust_record: TrustRecord, change: TrustChange) -> None:
    """Record the trust record and its line of history."""
    s, h = trust_record, change
    c.execute(_NOTE, (h.principal, micros(h.at), h.score_before, h.score_after, h.reason, h.by))
    c.execute(_STAND, (s.principal, s.score, s.floor, s.ceiling, int(s.frozen), micros(s.updated_at)))
