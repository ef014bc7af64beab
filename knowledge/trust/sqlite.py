"""Records of trust in the state database's file: what a person decided survives a power cut."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Literal

import apsw

from knowledge.history.acts import storable
from knowledge.history.audit.sqlite_chain import append
from knowledge.history.ports import HistoryEntry
from knowledge.history.timestamps import micros, moment
from knowledge.leases import latest_end
from knowledge.state.quota.bounds import Quotas
from knowledge.state.quota.sqlite import charge
from knowledge.state.retention.cuts import Shortened
from knowledge.state.sqlite.database import Database
from knowledge.state.sqlite.events import publish
from knowledge.trust.audit_entries import decided, forms_noted, passkey_noted, place_noted, restood, withdrawn
from knowledge.trust.forms import (
    MOST_PASSAGES,
    PASSAGES_KEPT,
    TAINT_KEPT,
    after_its_end,
    changed_standing,
    charged,
    kept_passkey,
    line_text,
    proposed,
    replaced,
    said,
    same_trust_record,
    told,
    verdict_text,
)
from knowledge.trust.ports import (
    LONGEST_CLAIM_S,
    Note,
    Passkey,
    Proposal,
    ProposalLine,
    ProposalVerdict,
    Purpose,
    Restand,
    State,
    TrustedPlace,
    TrustRecord,
)
from knowledge.trust.sqlite_rows import LINE, PROPOSAL, known_standing, lines, passkey, proposals, stand

_PUT = """
INSERT INTO proposal (id, kind, principal, hash, expires_us, told, state, runner) VALUES (?, ?, ?, ?, ?, ?, 'pending', '')
ON CONFLICT (id) DO NOTHING
"""
# Not by the index in that order, which holds all that the principal ever proposed.
_PENDING = (
    "SELECT id, kind, octet_length(told) FROM proposal WHERE state = 'pending' AND principal = ? ORDER BY +number"
)
_SUPERSEDE = "UPDATE proposal SET state = 'superseded', ended_us = ?, successor = ? WHERE id = ?"
_OVERDUE = "SELECT 1 FROM proposal WHERE state = 'pending' AND expires_us <= ? LIMIT 1"
# By that index, which holds nothing of the many that are executed and answered.
_ABANDONED = """
SELECT 1 FROM proposal INDEXED BY proposal_unfinished WHERE (state = 'approved' OR (state = 'executed' AND result IS NULL))
AND (runs_until_us IS NULL OR runs_until_us <= ?1 OR runs_until_us > ?2) LIMIT 1
"""
_DECIDE = f"""
UPDATE proposal SET state = :state, verdict = :verdict, ended_us = :ended
WHERE id = :id AND state = 'pending' AND hash = :hash AND expires_us > :at RETURNING {PROPOSAL}
"""  # noqa: S608 - as above
_CLAIM = f"""
UPDATE proposal SET runner = :runner, runs_until_us = :until
WHERE id = :id AND state = 'approved'
AND (runs_until_us IS NULL OR runs_until_us <= :now OR runs_until_us > :latest OR runner = :runner)
RETURNING {PROPOSAL}
"""  # noqa: S608 - as above
_FINISH = f"""
UPDATE proposal SET result = :result,
    error = CASE state WHEN 'approved' THEN :error END,
    successor = CASE state WHEN 'approved' THEN :successor END,
    ended_us = CASE state WHEN 'approved' THEN :at ELSE ended_us END,
    state = CASE state WHEN 'approved' THEN :state ELSE state END
WHERE id = :id AND (state = 'approved' OR (state = 'executed' AND result IS NULL)) RETURNING {PROPOSAL}
"""  # noqa: S608 - as above
_WITHDRAW = f"""
UPDATE proposal SET state = 'withdrawn', ended_us = ? WHERE id = ? AND principal = ? AND state = 'pending'
RETURNING {PROPOSAL}
"""  # noqa: S608 - as above
_EXPIRE = "UPDATE proposal SET state = 'expired', ended_us = ?1 WHERE state = 'pending' AND expires_us <= ?1 RETURNING number, id"
_SHORTEN = "UPDATE proposal SET told = ?, result = ? WHERE id = ?"
_PUT_LINE = """
INSERT INTO proposal_line SELECT number, ?, ? FROM proposal WHERE id = ?
ON CONFLICT (number) DO UPDATE SET kept = excluded.kept, line = excluded.line
"""
_TO_SHORTEN = """
SELECT id, octet_length(told) + ifnull(octet_length(result), 0) FROM proposal
WHERE NOT EXISTS (SELECT 1 FROM proposal_line l WHERE l.number = proposal.number) OR number IN (
    SELECT p.number FROM proposal_line l JOIN proposal p ON p.number = l.number
    WHERE l.kept < 2 AND p.ended_us IS NOT NULL AND NOT (p.state = 'executed' AND p.result IS NULL)
    AND (l.kept < 1 OR p.ended_us < :before)
) ORDER BY number LIMIT :limit
"""
_PASSKEYS = "SELECT id, public_key, sign_count, name, user, created_us, used_us FROM passkey ORDER BY created_us, id"
_USE = """
UPDATE passkey SET sign_count = ?2, used_us = ?3 WHERE id = ?1 AND (sign_count < ?2 OR (sign_count = 0 AND ?2 = 0))
RETURNING 1
"""
_ALLOW_FORMS = """
INSERT INTO host_forms AS known VALUES (?, ?, ?, ?)
ON CONFLICT (host) DO UPDATE SET
    secret_digest = excluded.secret_digest,
    allowed = excluded.allowed,
    decided_us = max(known.decided_us, excluded.decided_us)
WHERE NOT excluded.allowed
OR (excluded.decided_us > known.decided_us AND (known.secret_digest != excluded.secret_digest OR NOT known.allowed))
"""
_STANDS_FOR = "SELECT value FROM secret WHERE digest = ? AND purpose = ? AND expires_us > ?"
_TAKE = "DELETE FROM secret WHERE digest = ? AND purpose = ? RETURNING value, expires_us"
_TAINT = """
INSERT INTO taint VALUES (?, ?, ?, ?)
ON CONFLICT (principal, journey, origin) DO UPDATE SET at_us = max(at_us, excluded.at_us)
"""
_TAINTS = """
SELECT origin, max(at_us) FROM taint
WHERE principal = :principal AND ((journey = '' AND at_us >= :since) OR (journey != '' AND journey = :journey))
GROUP BY origin
"""

_TRUST_PLACE = "INSERT INTO trusted_place VALUES (?, ?, ?) ON CONFLICT (place) DO NOTHING"
_PASSAGE = """
INSERT INTO read_passage VALUES (?, ?, ?, ?)
ON CONFLICT (principal, digest) DO UPDATE SET origin = excluded.origin, at_us = excluded.at_us
"""
_OLD_PASSAGES = "DELETE FROM read_passage WHERE at_us < ?"
_PASSAGES_TOO_MANY = """
DELETE FROM read_passage WHERE principal = ?1 AND digest IN (
    SELECT digest FROM read_passage WHERE principal = ?1 ORDER BY at_us DESC, digest DESC LIMIT -1 OFFSET ?2)
"""
_FEW = 500


class SqliteTrust:
    """Proposals, trust records, passkeys, secrets and taint in a file that several processes share."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def propose(
        self,
        proposal: Proposal,
        *,
        most_pending: int,
        replacing: Collection[str] = (),
        quotas: Quotas | None = None,
    ) -> Proposal:
        """Record the proposal, and that it supersedes those of `replacing` that are its principal's and still pending."""
        p, text = proposal, told(proposal)
        row = (p.id, p.kind, p.principal, p.hash, micros(p.expires_at), text)

        def work(c: apsw.Connection) -> None:
            own: Any = c.execute(_PENDING, (p.principal,)).fetchall()
            gone = replaced(p, own, replacing, most_pending, quotas)
            if quotas is not None and p.kind != "admin":
                charge(c, quotas.proposed, p.principal, charged(p), p.created_at)
            c.execute(_PUT, row)
            if not c.changes():
                raise ValueError(f"there is a proposal {p.id} already")
            c.execute(_PUT_LINE, (0, line_text(p), p.id))
            c.executemany(_SUPERSEDE, [(micros(p.created_at), p.id, id_) for id_ in gone])
            for id_ in gone:
                _shorten(c, id_, is_origin=id_ == p.origin)
            _tell(c, *gone, p.id)

        await self._database.write(work)
        return proposed(text)

    async def proposal(self, proposal_id: str) -> Proposal | None:
        """Return it, or None."""
        found = proposals(self._database.query(f"SELECT {PROPOSAL} FROM proposal WHERE id = ?", (proposal_id,)))  # noqa: S608 - a constant above
        return found[0] if found else None

    async def proposals(
        self,
        *,
        principal: str | None = None,
        states: tuple[State, ...] = (),
        limit: int = 100,
        before: str | None = None,
    ) -> Sequence[Proposal]:
        """Return them whole, newest first, from the one after `before`."""
        where, values = _conditions(principal, states, before)
        sql = f"SELECT {PROPOSAL} FROM proposal WHERE {where} ORDER BY number DESC LIMIT ?"  # noqa: S608 - constants above
        return proposals(self._database.query(sql, (*values, limit)))

    async def lines(
        self,
        *,
        principal: str | None = None,
        states: tuple[State, ...] = (),
        limit: int = 100,
        before: str | None = None,
    ) -> Sequence[ProposalLine]:
        """Return the same as lines."""
        where, values = _conditions(principal, states, before)
        sql = f"SELECT {LINE} WHERE {where} ORDER BY proposal.number DESC LIMIT ?"
        return lines(self._database.query(sql, (*values, limit)))

    async def shorten(self, *, ended_before: datetime | None, limit: int) -> Shortened:
        """Shorten at most `limit` ended proposals of which more is kept than need be."""
        asked = {"before": None if ended_before is None else micros(ended_before), "limit": limit}
        found: Any = await self._database.bulk(lambda c: c.execute(_TO_SHORTEN, asked).fetchall())
        freed = 0
        for id_, size in found:  # each in a transaction of its own: writers wait for one proposal at most
            freed += size - await self._database.write(partial(_shorten, proposal_id=id_, ended_before=ended_before))
        return Shortened(len(found), freed)

    async def pending(self, principal: str | None = None) -> int:
        """Return how many are pending."""
        sql, asked = "SELECT count(*) FROM proposal WHERE state = 'pending'", ()
        rows: Any = (
            self._database.query(sql, asked)
            if principal is None
            else self._database.query(f"{sql} AND principal = ?", (principal,))
        )
        return int(rows[0][0])

    async def unfinished(self, *, now: datetime) -> bool:
        """Return whether something waits that nobody sees to."""
        at, latest = micros(now), micros(latest_end(now, LONGEST_CLAIM_S))
        return bool(self._database.query(_OVERDUE, (at,)) or self._database.query(_ABANDONED, (at, latest)))

    async def decide(self, proposal_id: str, verdict: ProposalVerdict) -> Proposal | None:
        """Make a pending proposal approved or rejected, unless it has expired or is another one than was shown."""
        at = micros(verdict.at)
        values = {
            "id": proposal_id,
            "state": "approved" if verdict.approved else "rejected",
            "verdict": verdict_text(verdict),
            "ended": None if verdict.approved else at,
            "hash": verdict.hash,
            "at": at,
        }
        return await self._change(_DECIDE, values, proposal_id, decided(proposal_id, verdict))

    async def _change(
        self, sql: str, values: Any, proposal_id: str, entry: HistoryEntry | None = None
    ) -> Proposal | None:
        """Change one proposal by a statement that returns it if it may be changed, and put the entry on the chain with it."""

        def work(c: apsw.Connection) -> Proposal | None:
            found = proposals(c.execute(sql, values).fetchall())
            if not found:
                return None
            if entry is not None:
                append(c, str(self._database.path), entry)
            if not found[0].open:
                _shorten(c, proposal_id, is_origin=found[0].state == "superseded")
            _tell(c, proposal_id)
            return found[0]

        return await self._database.write(work)

    async def claim(self, proposal_id: str, runner: str, *, now: datetime, lease_s: float) -> Proposal | None:
        """Let `runner` execute an approved proposal until the lease ends, unless another one does."""
        until, latest = micros(now + timedelta(seconds=lease_s)), micros(latest_end(now, lease_s))
        values = {"id": proposal_id, "runner": runner, "until": until, "now": micros(now), "latest": latest}
        return await self._change(_CLAIM, values, proposal_id)

    async def finish(
        self,
        proposal_id: str,
        state: Literal["executed", "failed", "superseded"],
        *,
        at: datetime,
        result: str | None = None,
        error: str | None = None,
        successor: str | None = None,
    ) -> Proposal | None:
        """End an approved proposal; one that the ledger has ended as executed only gets its result, once."""
        values = {
            "id": proposal_id,
            "state": state,
            "at": micros(at),
            "result": said(result),
            "error": said(error),
            "successor": successor,
        }
        return await self._change(_FINISH, values, proposal_id)

    async def withdraw(self, proposal_id: str, principal: str, *, at: datetime) -> Proposal | None:
        """Take a pending proposal back, in its principal's name."""
        values = (micros(at), proposal_id, principal)
        return await self._change(_WITHDRAW, values, proposal_id, withdrawn(proposal_id, principal, at))

    async def expire(self, *, now: datetime) -> Sequence[str]:
        """Make every pending proposal whose time is over expired, and return their ids."""
        at = (micros(now),)
        if not self._database.query(_OVERDUE, at):
            return []

        def work(c: apsw.Connection) -> list[str]:
            rows: Any = c.execute(_EXPIRE, at).fetchall()
            over = [id_ for _, id_ in sorted(rows)]
            for id_ in over:
                _shorten(c, id_)
            _tell(c, *over)
            return over

        return await self._database.write(work)

    async def restand(self, principal: str, change: Restand, *, note: Note, unseen: float = 0.0) -> TrustRecord:
        """Replace the principal's standing by what `change` makes of it, with a line of history and an audit record."""

        def work(c: apsw.Connection) -> TrustRecord:
            before, recent = known_standing(c, principal, note.at)
            after = change(before, recent)
            line = changed_standing(principal, before, after, note, unseen=unseen)
            if before is not None and same_trust_record(before, after):
                return before
            append(c, str(self._database.path), restood(line, after, note))
            stand(c, after, line)
            return after

        return await self._database.write(work)

    async def add_passkey(self, passkey: Passkey, *, note: Note) -> None:
        """Enrol a credential and put that on the chain."""
        p = kept_passkey(passkey)
        row = (p.id, p.public_key, p.sign_count, p.name, p.user, micros(p.created_at), _micros(p.used_at))
        insert = "INSERT INTO passkey VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING"
        if not await self._noted(insert, row, passkey_noted(p.id, note, public_key=p.public_key)):
            raise ValueError("that passkey is enrolled already")

    async def _noted(self, sql: str, values: Any, entry: HistoryEntry) -> bool:
        """Return whether the statement changed something, which the entry says on the chain."""

        def work(c: apsw.Connection) -> bool:
            c.execute(sql, values)
            done = c.changes() > 0
            if done:
                append(c, str(self._database.path), entry)
            return done

        return await self._database.write(work)

    async def passkeys(self) -> Sequence[Passkey]:
        """Return all, oldest first."""
        return [passkey(row) for row in self._database.query(_PASSKEYS)]

    async def use_passkey(self, passkey_id: bytes, *, sign_count: int, at: datetime) -> bool:
        """Note a use; False if there is no such one, or its count did not grow although it counts."""
        return bool(await self._rows(_USE, (passkey_id, sign_count, micros(at))))

    async def remove_passkey(self, passkey_id: bytes, *, note: Note) -> bool:
        """Remove it and put that on the chain; False if there is no such one."""
        return await self._noted("DELETE FROM passkey WHERE id = ?", (passkey_id,), passkey_noted(passkey_id, note))

    async def allow_forms(self, host: str, secret_digest: bytes, *, allowed: bool, note: Note) -> bool:
        """Note whether a form of the host counts, and put that on the chain; False if it holds, or a later no does."""
        row = (host, secret_digest, int(allowed), micros(note.at))
        return await self._noted(_ALLOW_FORMS, row, forms_noted(host, secret_digest, note, allowed=allowed))

    async def put_secret(self, digest: bytes, purpose: Purpose, value: str, *, expires_at: datetime) -> None:
        """Keep what a secret stands for, under its digest, until then."""
        await self._rows(
            "INSERT OR REPLACE INTO secret VALUES (?, ?, ?, ?)", (digest, purpose, value, micros(expires_at))
        )

    async def secret(self, digest: bytes, purpose: Purpose, *, now: datetime) -> str | None:
        """Return what the secret stands for, or None."""
        rows: Any = self._database.query(_STANDS_FOR, (digest, purpose, micros(now)))
        return rows[0][0] if rows else None

    async def take_secret(self, digest: bytes, purpose: Purpose, *, now: datetime) -> str | None:
        """Return what it stands for and forget it, and all that has expired."""
        at = micros(now)

        def work(c: apsw.Connection) -> str | None:
            rows: Any = c.execute(_TAKE, (digest, purpose)).fetchall()
            c.execute("DELETE FROM secret WHERE expires_us <= ?", (at,))
            return next((value for value, expires_us in rows if expires_us > at), None)

        return await self._database.write(work)

    async def note_taint(self, principal: str, journey: str, origins: Collection[str], *, at: datetime) -> None:
        """Remember that the caller has read text from there; of the same origin the newest time is kept."""
        rows = [(principal, journey, storable(origin), micros(at)) for origin in origins]
        if rows:
            await self._database.write(partial(_note_taint, rows, micros(at - TAINT_KEPT)), durable=False)

    async def taints(self, principal: str, journey: str, *, since: datetime) -> Mapping[str, datetime]:
        """Return what untrusted origins the caller read since then, in this journey (any time) or outside of one."""
        asked = {"principal": principal, "journey": journey, "since": micros(since)}
        rows: Any = self._database.read(lambda c: c.execute(_TAINTS, asked).fetchall())
        return {origin: moment(at_us) for origin, at_us in rows}

    async def trust_place(self, place: str, *, note: Note) -> bool:
        """Record that a person vouches for the place."""
        row = (place, storable(note.by), micros(note.at))
        return await self._noted(_TRUST_PLACE, row, place_noted(place, note))

    async def distrust_place(self, place: str, *, note: Note) -> bool:
        """Take that back."""
        return await self._noted("DELETE FROM trusted_place WHERE place = ?", (place,), place_noted(place, note))

    async def trusted_places(self) -> Sequence[TrustedPlace]:
        """Return them all, by place."""
        rows: Any = self._database.query("SELECT place, trusted_by, at_us FROM trusted_place ORDER BY place")
        return [TrustedPlace(place, by, moment(at_us)) for place, by, at_us in rows]

    async def note_passages(self, principal: str, passages: Mapping[bytes, str], *, at: datetime) -> None:
        """Remember what sentences of the text are known by that the caller was shown."""
        rows = [(principal, digest, storable(origin), micros(at)) for digest, origin in passages.items()]

        def work(c: apsw.Connection) -> None:
            c.executemany(_PASSAGE, rows)
            c.execute(_OLD_PASSAGES, (micros(at - PASSAGES_KEPT),))
            c.execute(_PASSAGES_TOO_MANY, (principal, MOST_PASSAGES))

        if rows:
            await self._database.write(work, durable=False)

    async def passages(self, principal: str, digests: Collection[bytes], *, since: datetime) -> Mapping[bytes, str]:
        """Return which of these the caller was shown since then."""
        asked = set(digests)
        # A long text has more sentences than the caller has passages.
        few = f" AND digest IN ({', '.join('?' * len(asked))})" if len(asked) <= _FEW else ""
        sql = f"SELECT digest, origin FROM read_passage WHERE principal = ? AND at_us >= ?{few}"  # noqa: S608 - question marks
        rows: Any = self._database.query(sql, (principal, micros(since), *(asked if few else ())))
        return {digest: origin for digest, origin in rows if digest in asked}

    async def _rows(self, sql: str, values: Any) -> list[Any]:
        done: Callable[[apsw.Connection], list[Any]] = lambda c: c.execute(sql, values).fetchall()  # noqa: E731 - it needs its type
        return await self._database.write(done)


def _conditions(principal: str | None, states: Sequence[State], before: str | None) -> tuple[str, list[str]]:
    """Return only what is asked for: a condition that may hold anyway would keep the indexes from being used."""
    conditions: dict[str, Sequence[str]] = {
        "principal = ?": [principal] if principal is not None else [],
        f"state IN ({', '.join('?' * len(states))})": list(states),
        "proposal.number < (SELECT number FROM proposal WHERE id = ?)": [before] if before is not None else [],
    }
    where = " AND ".join(["TRUE", *(condition for condition, given in conditions.items() if given)])
    return where, [value for given in conditions.values() for value in given]


def _shorten(
    c: apsw.Connection, proposal_id: str, ended_before: datetime | None = None, *, is_origin: bool = False
) -> int:
    """Keep no more of a proposal than need be by now, and return how many bytes that is."""
    found = proposals(c.execute(f"SELECT {PROPOSAL} FROM proposal WHERE id = ?", (proposal_id,)).fetchall())  # noqa: S608 - as above
    if not found:
        return 0
    kept, short = after_its_end(found[0], ended_before, is_origin=is_origin)
    text = told(short)
    if short is not found[0]:
        c.execute(_SHORTEN, (text, short.result, proposal_id))
    c.execute(_PUT_LINE, (kept, line_text(short, short.cut), proposal_id))
    return len(text) + len((short.result or "").encode())


def _tell(c: apsw.Connection, *proposals: str) -> None:
    if proposals:
        publish([("proposal", id_) for id_ in proposals], c)


def _note_taint(rows: Sequence[tuple[str, str, str, int]], oldest_us: int, c: apsw.Connection) -> None:
    c.executemany(_TAINT, rows)
    c.execute("DELETE FROM taint WHERE journey = '' AND at_us < ?", (oldest_us,))


def _micros(at: datetime | None) -> int | None:
    return None if at is None else micros(at)
