"""Proposals in the state database, and the principals that joined one. A person's decision survives a power cut.

For the order of locks see `knowledge.trust.sql`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Literal

from knowledge.errors import Unstorable
from knowledge.history.audit.chain_end import HOLD_THE_END, appending
from knowledge.history.ports import HistoryEntry
from knowledge.history.timestamps import aware, moment
from knowledge.leases import latest_end
from knowledge.state.change_events import PUBLISH
from knowledge.state.quota.bounds import Quotas
from knowledge.state.quota.usage import charge
from knowledge.state.retention.cuts import Shortened
from knowledge.state.tables import LOCK, SqlPair, StateTables, StateTransaction
from knowledge.trust.audit_entries import (
    decided,
    joined,
    left,
    withdrawn,
)
from knowledge.trust.codec import (
    asker_from,
    asker_of,
    asker_text,
    asks_the_same,
    counted_size,
    kept_by_now,
    line_text,
    proposal_from,
    proposal_line,
    proposal_of,
    proposal_text,
    readable,
    shortened_asker,
    storable_or_none,
    superseded,
    verdict_text,
)
from knowledge.trust.ports import (
    LONGEST_CLAIM_S,
    AskerLine,
    JoinedAsker,
    Joins,
    Proposal,
    ProposalLine,
    ProposalVerdict,
    State,
)

# Columns by name: a program that was overtaken by a migration still reads tables that may have more of them.
_PROPOSAL = """
told, state, verdict, result, error, ended_at, successor, runner, runs_until,
(SELECT l.line FROM forge.proposal_line l WHERE l.number = proposal.number)
"""
# `told` is read only where there is no line; `coalesce` would read it in any case.
_LINE = """
line, CASE WHEN line IS NULL THEN told END, state, verdict, result IS NOT NULL, ended_at, successor, runs_until
FROM forge.proposal LEFT JOIN forge.proposal_line l ON l.number = proposal.number
"""
_FIND = f"SELECT {_PROPOSAL} FROM forge.proposal WHERE id = %s"  # noqa: S608 - constants
_HOLD_PROPOSAL = f"{_FIND} FOR UPDATE"
_COUNT = "SELECT count(*) FROM forge.proposal WHERE state = 'pending'"
_COUNT_OF = f"""
SELECT ({_COUNT} AND principal = %(principal)s) + (SELECT count(*) FROM forge.proposal_asker a
    JOIN forge.proposal ON proposal.number = a.number
    WHERE a.principal = %(principal)s AND a.left_at IS NULL AND proposal.state = 'pending')
"""  # noqa: S608 - constants
# The plus keeps SQLite from the index in that order, which holds all that the principal ever proposed.
_PENDING = """
SELECT id, kind, octet_length(told) FROM forge.proposal
WHERE state = 'pending' AND principal = %s ORDER BY +number FOR UPDATE
"""
# The effect is a hash, and quotes within a text are escaped: nothing else in a line has this form.
_ALIKE = """
SELECT proposal.id FROM forge.proposal JOIN forge.proposal_line l ON l.number = proposal.number
WHERE state = 'pending' AND kind = 'flag' AND principal <> %s AND strpos(l.line, %s) > 0 ORDER BY proposal.number
"""
_PENDING_OR_ALIKE = """
SELECT id, kind, octet_length(told) FROM forge.proposal
WHERE state = 'pending' AND (principal = %s OR id = %s) ORDER BY +number FOR UPDATE
"""
_JOINED_PENDING = """
SELECT proposal.id, octet_length(a.told) FROM forge.proposal_asker a
JOIN forge.proposal ON proposal.number = a.number
WHERE a.principal = %s AND a.left_at IS NULL AND proposal.state = 'pending'
"""
_ASKERS = """
SELECT a.principal, a.asked_at, a.left_at, a.told FROM forge.proposal_asker a
WHERE a.number = (SELECT p.number FROM forge.proposal p WHERE p.id = %s) ORDER BY a.id
"""
_ASKING = """
SELECT p.id, a.principal, a.asked_at FROM forge.proposal_asker a JOIN forge.proposal p ON p.number = a.number
WHERE p.id = ANY(%s::text[]) AND a.left_at IS NULL ORDER BY a.id
"""
# One that asks again after it withdrew comes last.
_FORGET_ASKER = """
DELETE FROM forge.proposal_asker
WHERE principal = %s AND number = (SELECT p.number FROM forge.proposal p WHERE p.id = %s)
"""
_JOIN = """
INSERT INTO forge.proposal_asker (number, principal, asked_at, told)
SELECT p.number, %s, %s, %s FROM forge.proposal p WHERE p.id = %s
"""
_LEAVE = """
UPDATE forge.proposal_asker SET left_at = %s WHERE principal = %s AND left_at IS NULL
AND number = (SELECT p.number FROM forge.proposal p WHERE p.id = %s AND p.state = 'pending') RETURNING 1
"""
_SHORTEN_ASKER = """
UPDATE forge.proposal_asker SET told = %s
WHERE principal = %s AND number = (SELECT p.number FROM forge.proposal p WHERE p.id = %s)
"""
_PUT = """
INSERT INTO forge.proposal (id, kind, principal, hash, expires_at, told, state, runner)
VALUES (%s, %s, %s, %s, %s, %s, 'pending', '') ON CONFLICT (id) DO NOTHING RETURNING 1
"""
_SUPERSEDE = "UPDATE forge.proposal SET state = 'superseded', ended_at = %s, successor = %s WHERE id = ANY(%s::text[])"
_TO_SHORTEN = """
SELECT id, octet_length(told) + coalesce(octet_length(result), 0) FROM forge.proposal
WHERE NOT EXISTS (SELECT 1 FROM forge.proposal_line l WHERE l.number = proposal.number) OR number IN (
    SELECT p.number FROM forge.proposal_line l JOIN forge.proposal p ON p.number = l.number
    WHERE l.kept < 2 AND p.ended_at IS NOT NULL AND NOT (p.state = 'executed' AND p.result IS NULL)
    AND (l.kept < 1 OR p.ended_at < %(before)s)
) ORDER BY number LIMIT %(limit)s
"""
_SHORTEN = "UPDATE forge.proposal SET told = %s, result = %s WHERE id = %s"
_PUT_LINE = """
INSERT INTO forge.proposal_line (number, kept, line) SELECT number, %s, %s FROM forge.proposal WHERE id = %s
ON CONFLICT (number) DO UPDATE SET kept = excluded.kept, line = excluded.line
"""
_UNFINISHED = SqlPair(
    # By that index, which leaves out the many that are executed and have their result.
    """
SELECT EXISTS (SELECT 1 FROM proposal WHERE state = 'pending' AND expires_us <= :now)
OR EXISTS (SELECT 1 FROM proposal INDEXED BY proposal_unfinished
    WHERE (state = 'approved' OR (state = 'executed' AND result IS NULL))
    AND (runs_until_us IS NULL OR runs_until_us <= :now OR runs_until_us > :latest))
""",
    """
SELECT EXISTS (SELECT FROM forge.proposal WHERE state = 'pending' AND expires_at <= %(now)s)
OR EXISTS (SELECT FROM forge.proposal WHERE (state = 'approved' OR (state = 'executed' AND result IS NULL))
    AND (runs_until IS NULL OR runs_until <= %(now)s OR runs_until > %(latest)s))
""",
)
# Whether it may be decided is a condition of the statement itself: of any number of decisions at once exactly one changes the row.
_DECIDE = f"""
UPDATE forge.proposal SET state = %(state)s, verdict = %(verdict)s, ended_at = %(ended)s
WHERE id = %(id)s AND state = 'pending' AND hash = %(hash)s AND expires_at > %(at)s RETURNING {_PROPOSAL}
"""  # noqa: S608 - constants
# A claim that ends after `latest` was made before the clock was set back.
_CLAIM = f"""
UPDATE forge.proposal SET runner = %(runner)s, runs_until = %(until)s
WHERE id = %(id)s AND state = 'approved'
AND (runs_until IS NULL OR runs_until <= %(now)s OR runs_until > %(latest)s OR runner = %(runner)s) RETURNING {_PROPOSAL}
"""  # noqa: S608 - constants
# The ledger ends a proposal as executed in the transaction of its act: then only the result is missing.
_FINISH = f"""
UPDATE forge.proposal SET result = %(result)s,
    error = CASE state WHEN 'approved' THEN %(error)s END,
    successor = CASE state WHEN 'approved' THEN %(successor)s END,
    ended_at = CASE state WHEN 'approved' THEN %(at)s ELSE ended_at END,
    state = CASE state WHEN 'approved' THEN %(state)s ELSE state END
WHERE id = %(id)s AND (state = 'approved' OR (state = 'executed' AND result IS NULL)) RETURNING {_PROPOSAL}
"""  # noqa: S608 - constants
_WITHDRAW = f"""
UPDATE forge.proposal SET state = 'withdrawn', ended_at = %s WHERE id = %s AND principal = %s AND state = 'pending'
AND NOT EXISTS (SELECT 1 FROM forge.proposal_asker a WHERE a.number = proposal.number AND a.left_at IS NULL)
RETURNING {_PROPOSAL}
"""  # noqa: S608 - constants
_ANY_OVERDUE = "SELECT 1 FROM forge.proposal WHERE state = 'pending' AND expires_at <= %s LIMIT 1"
_OVERDUE = """
SELECT id FROM forge.proposal WHERE state = 'pending' AND expires_at <= %s ORDER BY number FOR UPDATE
"""
_EXPIRE = "UPDATE forge.proposal SET state = 'expired', ended_at = %s WHERE id = ANY(%s::text[])"


class SqlProposals:
    """Proposals, shared by all processes that use the state database."""

    def __init__(self, tables: StateTables) -> None:
        self._tables = tables

    async def propose(
        self,
        proposal: Proposal,
        *,
        most_pending: int,
        replacing: Collection[str] = (),
        quotas: Quotas | None = None,
        joins: Joins | None = None,
    ) -> Proposal:
        """Record the proposal, or join another one, and supersede the principal's pending proposals among `replacing`."""
        p, text = proposal, proposal_text(proposal)

        async def work(t: StateTransaction) -> Proposal:
            # If two propose at once for one principal, the second must count what the first added, in its quota too.
            await t.execute(LOCK, (p.principal,))
            alike, own = await _alike_and_own(t, p, joins)
            also: Any = await t.execute(_JOINED_PENDING, (p.principal,))
            size = None if alike is None else len(asker_text(asker_of(p)))
            gone = superseded(p, own, replacing, most_pending, quotas, joined=also, size=size)
            if quotas is not None and p.kind != "admin":
                await charge(t, quotas.proposed, p.principal, counted_size(p, size), p.created_at)
            if alike is not None:
                await _join(t, alike, asker_of(p))
                await _supersede(t, gone, p, alike.id)
                await t.execute(PUBLISH, ("proposal", [*gone, alike.id]))
                return alike
            if not await t.execute(_PUT, (p.id, p.kind, p.principal, p.hash, p.expires_at, text)):
                raise ValueError(f"proposal {p.id} exists already")
            await t.execute(_PUT_LINE, (0, line_text(p), p.id))
            await _supersede(t, gone, p, p.id)
            await t.execute(PUBLISH, ("proposal", [*gone, p.id]))
            return proposal_from(text)

        return await self._tables.transact(work)

    async def proposal(self, proposal_id: str) -> Proposal | None:
        """Return the proposal, or None."""
        try:
            found = readable(proposal_of, await self._tables.read(_FIND, (proposal_id,)))
        except Unstorable:  # a caller may pass any text as an id
            return None
        return found[0] if found else None

    async def askers(self, proposal_id: str) -> Sequence[JoinedAsker]:
        """Return the principals that joined the proposal, in the order in which they asked."""
        return readable(asker_from, await self._tables.read(_ASKERS, (proposal_id,)))

    async def asking(self, proposal_ids: Collection[str]) -> Mapping[str, Sequence[AskerLine]]:
        """Return the principals that joined each of these proposals and did not withdraw."""
        found: dict[str, list[AskerLine]] = {}
        for id_, principal, asked_at in await self._tables.read(_ASKING, (list(proposal_ids),)):
            found.setdefault(id_, []).append(AskerLine(principal, moment(asked_at)))
        return found

    async def proposals(
        self,
        *,
        principal: str | None = None,
        states: tuple[State, ...] = (),
        limit: int = 100,
        before: str | None = None,
    ) -> Sequence[Proposal]:
        """Return proposals with all their texts, newest first, from the one after `before`."""
        sql, values = _listing(f"{_PROPOSAL} FROM forge.proposal", principal, states, before, limit)
        return readable(lambda row: proposal_of(row[1:]), await self._tables.read(sql, values))

    async def lines(
        self,
        *,
        principal: str | None = None,
        states: tuple[State, ...] = (),
        limit: int = 100,
        before: str | None = None,
    ) -> Sequence[ProposalLine]:
        """Return the same proposals as lines, without reading their long texts."""
        sql, values = _listing(_LINE, principal, states, before, limit)
        return readable(lambda row: proposal_line(row[1:]), await self._tables.read(sql, values))

    async def shorten(self, *, ended_before: datetime | None, limit: int) -> Shortened:
        """Shorten at most `limit` ended proposals whose texts are longer than necessary."""
        before = None if ended_before is None else aware(ended_before)
        found = await self._tables.read(_TO_SHORTEN, {"before": before, "limit": limit}, long=True)
        freed = 0
        for id_, size in found:  # each in its own transaction: a decision waits for one of them at most
            freed += size - await self._tables.transact(partial(_shorten, proposal_id=id_, ended_before=before))
        return Shortened(len(found), freed)

    async def pending(self, principal: str | None = None) -> int:
        """Return the number of pending proposals."""
        if principal is None:
            return int((await self._tables.read(_COUNT))[0][0])
        return int((await self._tables.read(_COUNT_OF, {"principal": principal}))[0][0])

    async def unfinished(self, *, now: datetime) -> bool:
        """Return whether a proposal has to be expired or carried out, and no process is doing it."""
        rows = await self._tables.read(_UNFINISHED, {"now": aware(now), "latest": latest_end(now, LONGEST_CLAIM_S)})
        return bool(rows[0][0])

    async def decide(self, proposal_id: str, verdict: ProposalVerdict) -> Proposal | None:
        """Make a pending proposal approved or rejected, unless it has expired or differs from the one that was shown."""
        values = {
            "id": proposal_id,
            "state": "approved" if verdict.approved else "rejected",
            "verdict": verdict_text(verdict),
            "ended": None if verdict.approved else verdict.at,
            "hash": verdict.hash,
            "at": aware(verdict.at),
        }
        return await self._change(_DECIDE, values, proposal_id, decided(proposal_id, verdict))

    async def _change(
        self, statement: str, values: Any, proposal_id: str, entry: HistoryEntry | None = None
    ) -> Proposal | None:
        """Run a statement that changes one proposal, and put the entry on the audit chain with it; None if it changed nothing."""

        async def work(t: StateTransaction) -> Proposal | None:
            if entry is not None:
                await t.execute(HOLD_THE_END)
            found = readable(proposal_of, await t.execute(statement, values))
            if not found:
                return None
            if entry is not None:
                await t.execute(*appending(entry))
            if not found[0].open:
                await _shorten(t, proposal_id, is_origin=found[0].state == "superseded")
            await t.execute(PUBLISH, ("proposal", [proposal_id]))
            return found[0]

        return await self._tables.transact(work)

    async def claim(self, proposal_id: str, runner: str, *, now: datetime, lease_s: float) -> Proposal | None:
        """Let `runner` execute an approved proposal until the lease ends, unless another runner holds it."""
        until = aware(now) + timedelta(seconds=lease_s)
        values = {"id": proposal_id, "runner": runner, "until": until, "now": now, "latest": latest_end(now, lease_s)}
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
        """End an approved proposal; a proposal that the ledger has ended as executed only gets its result, once."""
        values = {
            "id": proposal_id,
            "state": state,
            "at": aware(at),
            "result": storable_or_none(result),
            "error": storable_or_none(error),
            "successor": successor,
        }
        return await self._change(_FINISH, values, proposal_id)

    async def withdraw(self, proposal_id: str, principal: str, *, at: datetime) -> Proposal | None:
        """Withdraw a pending proposal of the principal, or stop asking for one that it joined."""
        values = (aware(at), proposal_id, principal)
        done = await self._change(_WITHDRAW, values, proposal_id, withdrawn(proposal_id, principal, at))
        return done or await self._leave(proposal_id, principal, at)

    async def _leave(self, proposal_id: str, principal: str, at: datetime) -> Proposal | None:
        async def work(t: StateTransaction) -> Proposal | None:
            await t.execute(HOLD_THE_END)
            if not await t.execute(_LEAVE, (at, principal, proposal_id)):
                return None
            await t.execute(*appending(left(proposal_id, principal, at)))
            await t.execute(PUBLISH, ("proposal", [proposal_id]))
            return readable(proposal_of, await t.execute(_FIND, (proposal_id,)))[0]

        return await self._tables.transact(work)

    async def expire(self, *, now: datetime) -> Sequence[str]:
        """Expire every pending proposal whose time is up, and return their ids."""
        at = aware(now)
        # Usually none has expired, and a writing transaction would make others wait.
        if not await self._tables.read(_ANY_OVERDUE, (at,)):
            return []

        async def work(t: StateTransaction) -> list[str]:
            over = [id_ for (id_,) in await t.execute(_OVERDUE, (at,))]
            if over:
                await t.execute(_EXPIRE, (at, over))
                for id_ in over:
                    await _shorten(t, id_)
                await t.execute(PUBLISH, ("proposal", over))
            return over

        return await self._tables.transact(work)


def _listing(
    columns: str, principal: str | None, states: Sequence[State], before: str | None, limit: int
) -> tuple[str, list[Any]]:
    """Return a statement that lists proposals, newest first, each row beginning with its number; and its arguments."""
    own, values = _listed(columns, "principal = %s", principal, states, before)
    if principal is None:
        return f"{own} LIMIT %s", [*values, limit]
    # Two lists that each follow an index: one condition with OR would read everything that the principal ever proposed.
    mine = (
        "proposal.number IN (SELECT a.number FROM forge.proposal_asker a WHERE a.principal = %s AND a.left_at IS NULL)"
    )
    joined_, more = _listed(columns, mine, principal, states, before)
    sql = (
        f"SELECT * FROM ({own} LIMIT %s) AS made UNION ALL SELECT * FROM ({joined_} LIMIT %s) AS also "  # noqa: S608 - constants
        "ORDER BY number DESC LIMIT %s"
    )
    return sql, [*values, limit, *more, limit, limit]


def _listed(
    columns: str, whose: str, principal: str | None, states: Sequence[State], before: str | None
) -> tuple[str, list[Any]]:
    """Return the statement with only the conditions that are given: one like `x = ? OR ? IS NULL` would defeat SQLite's indexes."""
    conditions: dict[str, Sequence[str]] = {
        whose: [principal] if principal is not None else [],
        f"state IN ({', '.join(['%s'] * len(states))})": list(states),
        "proposal.number < (SELECT b.number FROM forge.proposal b WHERE b.id = %s)": [] if before is None else [before],
    }
    where = " AND ".join(["TRUE", *(condition for condition, given in conditions.items() if given)])
    values = [value for given in conditions.values() for value in given]
    sql = f"SELECT proposal.number, {columns} WHERE {where} ORDER BY proposal.number DESC"
    return sql, values


async def _alike_and_own(
    t: StateTransaction, fresh: Proposal, joins: Joins | None
) -> tuple[Proposal | None, Sequence[Any]]:
    """Lock and return the oldest pending proposal of another principal to join, if any, and the principal's own pending ones."""
    found = None if joins is None else await _alike(t, fresh, joins)
    if found is None:
        return None, await t.execute(_PENDING, (fresh.principal,))
    await t.execute(HOLD_THE_END)  # joining is put on the chain
    held = await t.execute(_PENDING_OR_ALIKE, (fresh.principal, found.id))
    # It may have been decided since it was found.
    still = any(row[0] == found.id for row in held)
    return found if still else None, [row for row in held if row[0] != found.id]


async def _alike(t: StateTransaction, fresh: Proposal, joins: Joins) -> Proposal | None:
    # Of two that ask the same at once, the second waits here, and then finds what the first one made.
    await t.execute(LOCK, (f"asked {fresh.tool} {fresh.effect}",))
    about = f'"effect":{json.dumps(fresh.effect)},'
    for (id_,) in await t.execute(_ALIKE, (fresh.principal, about)):
        found = readable(proposal_of, await t.execute(_FIND, (id_,)))
        if found and asks_the_same(found[0], fresh) and joins(found[0]):
            return found[0]
    return None


async def _join(t: StateTransaction, proposal: Proposal, asker: JoinedAsker) -> None:
    known = readable(asker_from, await t.execute(_ASKERS, (proposal.id,)))
    if any(one.principal == asker.principal and one.left_at is None for one in known):
        return
    await t.execute(_FORGET_ASKER, (asker.principal, proposal.id))
    await t.execute(_JOIN, (asker.principal, asker.asked_at, asker_text(asker), proposal.id))
    await t.execute(*appending(joined(proposal, asker)))


async def _supersede(t: StateTransaction, gone: Sequence[str], fresh: Proposal, successor: str) -> None:
    if gone:
        await t.execute(_SUPERSEDE, (fresh.created_at, successor, list(gone)))
    for id_ in gone:
        await _shorten(t, id_, is_origin=id_ == fresh.origin)


async def _shorten(
    t: StateTransaction, proposal_id: str, ended_before: datetime | None = None, *, is_origin: bool = False
) -> int:
    """Shorten a proposal to the part that is still kept, write it, and return its new size in bytes."""
    found = readable(proposal_of, await t.execute(_HOLD_PROPOSAL, (proposal_id,)))
    if not found:
        return 0
    kept, short = kept_by_now(found[0], ended_before, is_origin=is_origin)
    text = proposal_text(short)
    if short is not found[0]:
        await t.execute(_SHORTEN, (text, short.result, proposal_id))
    await t.execute(_PUT_LINE, (kept, line_text(short, short.cut), proposal_id))
    freed = await _shorten_askers(t, found[0], ended_before, is_origin=is_origin)
    return len(text) + len((short.result or "").encode()) - freed


async def _shorten_askers(
    t: StateTransaction, proposal: Proposal, ended_before: datetime | None, *, is_origin: bool
) -> int:
    """Shorten the texts of principals that joined the proposal by the same rules; return the bytes that this frees."""
    freed = 0
    for asker in readable(asker_from, await t.execute(_ASKERS, (proposal.id,))):
        short = asker_text(shortened_asker(proposal, asker, ended_before, is_origin=is_origin))
        if less := len(asker_text(asker)) - len(short):
            await t.execute(_SHORTEN_ASKER, (short, asker.principal, proposal.id))
            freed += less
    return freed
