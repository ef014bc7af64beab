"""Records of trust in the schema of a PostgreSQL database.

Whoever holds more than one thing takes them in this order: trust records, the end of the chain, proposals by their number, the
counter of events. So nobody waits for somebody who waits for him.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Literal

from knowledge.errors import Unstorable
from knowledge.history.acts import storable
from knowledge.history.audit.postgres_chain import HOLD_THE_END, appending
from knowledge.history.ports import HistoryEntry
from knowledge.history.timestamps import aware
from knowledge.leases import latest_end
from knowledge.state.postgres.events import publishing
from knowledge.state.postgres.tables import Ask, Tables
from knowledge.state.quota.bounds import Quotas
from knowledge.state.quota.postgres import charging, explained
from knowledge.state.retention.cuts import Shortened
from knowledge.trust import postgres_sql as sql
from knowledge.trust.audit_entries import decided, forms_noted, passkey_noted, place_noted, restood, withdrawn
from knowledge.trust.forms import (
    MOST_PASSAGES,
    PASSAGES_KEPT,
    RECENT,
    TAINT_KEPT,
    after_its_end,
    changed_standing,
    charged,
    kept_passkey,
    line_text,
    proposal_line,
    proposal_of,
    proposed,
    readable,
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
    TrustChange,
    TrustedPlace,
    TrustRecord,
)


class PostgresTrust:
    """Proposals, trust records, passkeys, secrets and taint, shared by processes on any number of machines."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

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

        async def work(ask: Ask) -> None:
            await ask((sql.HOLD_THE_PRINCIPAL, (self._tables.schema, p.principal)))
            own: Any = await ask((sql.PENDING, (p.principal,)))
            gone = replaced(p, own, replacing, most_pending, quotas)
            if bounded is not None:
                await ask(charging(bounded, p.principal, charged(p), p.created_at))
            if not await ask((sql.PUT, (p.id, p.kind, p.principal, p.hash, p.expires_at, text))):
                raise ValueError(f"there is a proposal {p.id} already")
            await ask((sql.PUT_LINE, (0, line_text(p), p.id)))
            if gone:
                await ask((sql.SUPERSEDE, (p.created_at, p.id, list(gone))))
            for id_ in gone:
                await _shorten(ask, id_, is_origin=id_ == p.origin)
            await self._tell(ask, *gone, p.id)

        bounded = quotas.proposed if quotas is not None and p.kind != "admin" else None
        uses = [(bounded, charged(p))] if bounded else []
        await explained(lambda: self._tables.decide(work), self._tables, uses, p.principal, p.created_at)
        return proposed(text)

    async def _tell(self, ask: Ask, *proposals: str) -> None:
        await ask(publishing("proposal", proposals, self._tables.schema))

    async def proposal(self, proposal_id: str) -> Proposal | None:
        """Return it, or None."""
        try:
            found = _proposals(await self._tables.read(sql.FIND, (proposal_id,)))
        except Unstorable:  # a caller may name what no id can be
            return None
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
        asked = {"principal": principal, "states": list(states), "before": before, "limit": limit}
        return _proposals(await self._tables.read(sql.LIST, asked))

    async def lines(
        self,
        *,
        principal: str | None = None,
        states: tuple[State, ...] = (),
        limit: int = 100,
        before: str | None = None,
    ) -> Sequence[ProposalLine]:
        """Return the same as lines."""
        asked = {"principal": principal, "states": list(states), "before": before, "limit": limit}
        return readable(proposal_line, await self._tables.read(sql.LINES, asked))

    async def shorten(self, *, ended_before: datetime | None, limit: int) -> Shortened:
        """Shorten at most `limit` ended proposals of which more is kept than need be."""
        before = None if ended_before is None else aware(ended_before)
        found: Any = await self._tables.read(sql.TO_SHORTEN, {"before": before, "limit": limit})
        freed = 0
        for id_, size in found:  # each in a transaction of its own: whoever wants to decide waits for one at most
            freed += size - await self._tables.decide(partial(_shorten, proposal_id=id_, ended_before=before))
        return Shortened(len(found), freed)

    async def pending(self, principal: str | None = None) -> int:
        """Return how many are pending."""
        asked = (sql.COUNT, ()) if principal is None else (sql.COUNT_OF, (principal,))
        return int((await self._tables.read(*asked))[0][0])

    async def unfinished(self, *, now: datetime) -> bool:
        """Return whether something waits that nobody sees to."""
        return bool(
            (await self._tables.read(sql.UNFINISHED, {"now": aware(now), "latest": latest_end(now, LONGEST_CLAIM_S)}))[
                0
            ][0]
        )

    async def decide(self, proposal_id: str, verdict: ProposalVerdict) -> Proposal | None:
        """Make a pending proposal approved or rejected, unless it has expired or is another one than was shown."""
        values = {
            "id": proposal_id,
            "state": "approved" if verdict.approved else "rejected",
            "verdict": verdict_text(verdict),
            "ended": None if verdict.approved else verdict.at,
            "hash": verdict.hash,
            "at": aware(verdict.at),
        }
        return await self._change(sql.DECIDE, values, proposal_id, decided(proposal_id, verdict))

    async def _change(
        self, statement: str, values: Any, proposal_id: str, entry: HistoryEntry | None = None
    ) -> Proposal | None:
        """Change one proposal by a statement that returns it if it may be changed, and put the entry on the chain with it."""

        async def work(ask: Ask) -> Proposal | None:
            if entry is not None:
                await ask((HOLD_THE_END, ()))
            found = _proposals(await ask((statement, values)))
            if not found:
                return None
            if entry is not None:
                await ask(appending(entry))
            if not found[0].open:
                await _shorten(ask, proposal_id, is_origin=found[0].state == "superseded")
            await self._tell(ask, proposal_id)
            return found[0]

        return await self._tables.decide(work)

    async def claim(self, proposal_id: str, runner: str, *, now: datetime, lease_s: float) -> Proposal | None:
        """Let `runner` execute an approved proposal until the lease ends, unless another one does."""
        until = aware(now) + timedelta(seconds=lease_s)
        values = {"id": proposal_id, "runner": runner, "until": until, "now": now, "latest": latest_end(now, lease_s)}
        return await self._change(sql.CLAIM, values, proposal_id)

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
            "at": aware(at),
            "result": said(result),
            "error": said(error),
            "successor": successor,
        }
        return await self._change(sql.FINISH, values, proposal_id)

    async def withdraw(self, proposal_id: str, principal: str, *, at: datetime) -> Proposal | None:
        """Take a pending proposal back, in its principal's name."""
        values = (aware(at), proposal_id, principal)
        return await self._change(sql.WITHDRAW, values, proposal_id, withdrawn(proposal_id, principal, at))

    async def expire(self, *, now: datetime) -> Sequence[str]:
        """Make every pending proposal whose time is over expired, and return their ids."""
        at = aware(now)
        if not await self._tables.read(sql.ANY_OVERDUE, (at,)):
            return []

        async def work(ask: Ask) -> list[str]:
            over = [id_ for (id_,) in await ask((sql.OVERDUE, (at,)))]
            if over:
                await ask((sql.EXPIRE, (at, over)))
                for id_ in over:
                    await _shorten(ask, id_)
                await self._tell(ask, *over)
            return over

        return await self._tables.decide(work)

    async def restand(self, principal: str, change: Restand, *, note: Note, unseen: float = 0.0) -> TrustRecord:
        """Replace the principal's standing by what `change` makes of it, with a line of history and an audit record."""
        aware(note.at)

        async def work(ask: Ask) -> TrustRecord:
            await ask((sql.HOLD_STANDINGS, ()))
            rows = await ask((f"{sql.STANDING} WHERE principal = %s", (principal,)))
            before = TrustRecord(*rows[0]) if rows else None
            changes = await ask((sql.CHANGES_SINCE, (principal, note.at - RECENT)))
            recent = [TrustChange(*row) for row in changes]
            after = change(before, recent)
            line = changed_standing(principal, before, after, note, unseen=unseen)
            if before is not None and same_trust_record(before, after):
                return before
            await self._stand(ask, after, line, restood(line, after, note))
            return after

        return await self._tables.decide(work)

    async def _stand(self, ask: Ask, after: TrustRecord, line: TrustChange, entry: HistoryEntry) -> None:
        s, h = after, line
        await ask((sql.NOTE, (h.principal, h.at, h.score_before, h.score_after, h.reason, h.by)))
        await ask((sql.STAND, (s.principal, s.score, s.floor, s.ceiling, s.frozen, s.updated_at)))
        await ask(appending(entry))

    async def add_passkey(self, passkey: Passkey, *, note: Note) -> None:
        """Enrol a credential and put that on the chain."""
        p = kept_passkey(passkey)
        row = (p.id, p.public_key, p.sign_count, p.name, p.user, p.created_at, p.used_at)
        if not await self._noted(sql.ADD_PASSKEY, row, passkey_noted(p.id, note, public_key=p.public_key)):
            raise ValueError("that passkey is enrolled already")

    async def _noted(self, statement: str, values: Any, entry: HistoryEntry) -> bool:
        """Return whether the statement changed something, which the entry says on the chain."""

        async def work(ask: Ask) -> bool:
            await ask((HOLD_THE_END, ()))
            done = bool(await ask((statement, values)))
            if done:
                await ask(appending(entry))
            return done

        return await self._tables.decide(work)

    async def passkeys(self) -> Sequence[Passkey]:
        """Return all, oldest first."""
        return [Passkey(*row) for row in await self._tables.read(sql.PASSKEYS)]

    async def use_passkey(self, passkey_id: bytes, *, sign_count: int, at: datetime) -> bool:
        """Note a use; False if there is no such one, or its count did not grow although it counts."""
        values = {"id": passkey_id, "count": sign_count, "at": aware(at)}
        return bool(await self._tables.write((sql.USE, values)))

    async def remove_passkey(self, passkey_id: bytes, *, note: Note) -> bool:
        """Remove it and put that on the chain; False if there is no such one."""
        return await self._noted(sql.REMOVE_PASSKEY, (passkey_id,), passkey_noted(passkey_id, note))

    async def allow_forms(self, host: str, secret_digest: bytes, *, allowed: bool, note: Note) -> bool:
        """Note whether a form of the host counts, and put that on the chain; False if it holds, or a later no does."""
        row = (host, secret_digest, allowed, aware(note.at))
        return await self._noted(sql.ALLOW_FORMS, row, forms_noted(host, secret_digest, note, allowed=allowed))

    async def put_secret(self, digest: bytes, purpose: Purpose, value: str, *, expires_at: datetime) -> None:
        """Keep what a secret stands for, under its digest, until then."""
        await self._tables.write((sql.KEEP, (digest, purpose, value, aware(expires_at))))

    async def secret(self, digest: bytes, purpose: Purpose, *, now: datetime) -> str | None:
        """Return what the secret stands for, or None."""
        rows = await self._tables.read(sql.STANDS_FOR, (digest, purpose, aware(now)))
        return rows[0][0] if rows else None

    async def take_secret(self, digest: bytes, purpose: Purpose, *, now: datetime) -> str | None:
        """Return what it stands for and forget it, and all that has expired."""
        old = (sql.FORGET_SECRETS, (aware(now), digest, purpose))
        rows = await self._tables.write(old, (sql.TAKE, (digest, purpose)))
        return next((value for value, expires_at in rows if expires_at > now), None)

    async def note_taint(self, principal: str, journey: str, origins: Collection[str], *, at: datetime) -> None:
        """Remember that the caller has read text from there; of the same origin the newest time is kept."""
        if not origins:
            return
        # In one order, so that two callers cannot wait for each other.
        once = sorted((_origin_key(origin), origin) for origin in {storable(origin) for origin in origins})
        values = {
            "principal": principal,
            "journey": journey,
            "at": aware(at),
            "keys": [key for key, _ in once],
            "origins": [origin for _, origin in once],
        }
        await self._tables.write((sql.TAINT, values), light=True)
        await self._tables.write((sql.FORGET_TAINT, (principal, at - TAINT_KEPT)), light=True)

    async def taints(self, principal: str, journey: str, *, since: datetime) -> Mapping[str, datetime]:
        """Return what untrusted origins the caller read since then, in this journey (any time) or outside of one."""
        asked = {"principal": principal, "journey": journey, "since": aware(since)}
        return dict(await self._tables.read(sql.TAINTS, asked))

    async def trust_place(self, place: str, *, note: Note) -> bool:
        """Record that a person vouches for the place."""
        row = (place, storable(note.by), aware(note.at))
        return await self._noted(sql.TRUST_PLACE, row, place_noted(place, note))

    async def distrust_place(self, place: str, *, note: Note) -> bool:
        """Take that back."""
        return await self._noted(sql.DISTRUST_PLACE, (place,), place_noted(place, note))

    async def trusted_places(self) -> Sequence[TrustedPlace]:
        """Return them all, by place."""
        return [TrustedPlace(*row) for row in await self._tables.read(sql.TRUSTED_PLACES)]

    async def note_passages(self, principal: str, passages: Mapping[bytes, str], *, at: datetime) -> None:
        """Remember what sentences of the text are known by that the caller was shown."""
        if not passages:
            return
        once = sorted(passages.items())  # in one order, so that two of one caller cannot wait for each other
        values = {
            "principal": principal,
            "at": aware(at),
            "digests": [digest for digest, _ in once],
            "origins": [storable(origin) for _, origin in once],
        }
        await self._tables.write((sql.PASSAGE, values), light=True)
        old = {"principal": principal, "oldest": at - PASSAGES_KEPT, "most": MOST_PASSAGES}
        await self._tables.write((sql.FORGET_PASSAGES, old), light=True)

    async def passages(self, principal: str, digests: Collection[bytes], *, since: datetime) -> Mapping[bytes, str]:
        """Return which of these the caller was shown since then."""
        asked = {"principal": principal, "since": aware(since), "digests": list(digests)}
        return {bytes(digest): origin for digest, origin in await self._tables.read(sql.PASSAGES, asked)}


async def _shorten(ask: Ask, proposal_id: str, ended_before: datetime | None = None, *, is_origin: bool = False) -> int:
    """Keep no more of a proposal than need be by now, and return how many bytes that is."""
    found = _proposals(await ask((sql.HOLD_PROPOSAL, (proposal_id,))))
    if not found:
        return 0
    kept, short = after_its_end(found[0], ended_before, is_origin=is_origin)
    text = told(short)
    if short is not found[0]:
        await ask((sql.SHORTEN, (text, short.result, proposal_id)))
    await ask((sql.PUT_LINE, (kept, line_text(short, short.cut), proposal_id)))
    return len(text) + len((short.result or "").encode())


def _proposals(rows: Sequence[Any]) -> list[Proposal]:
    return readable(proposal_of, rows)


def _origin_key(origin: str) -> bytes:
    return hashlib.sha256(origin.encode()).digest()
