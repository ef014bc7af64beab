"""Trust records that end with the process: slow, obvious, and the specification of the others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

from knowledge.history.acts import storable
from knowledge.history.ports import HistoryEntry
from knowledge.history.timestamps import aware
from knowledge.leases import holds
from knowledge.state.quota.bounds import Quotas
from knowledge.state.retention.cuts import Shortened
from knowledge.state.retention.passages import MOST_PASSAGES, PASSAGES_KEPT
from knowledge.trust.audit_entries import (
    decided,
    forms_noted,
    joined,
    left,
    passkey_noted,
    place_noted,
    token_noted,
    trust_updated,
    withdrawn,
)
from knowledge.trust.codec import (
    RECENT,
    TAINT_KEPT,
    asker_of,
    asker_text,
    asks_the_same,
    change_line,
    counted_size,
    kept_by_now,
    line_of,
    only_time_differs,
    proposal_from,
    proposal_text,
    shortened_asker,
    storable_or_none,
    storable_passkey,
    superseded,
)
from knowledge.trust.ports import (
    LONGEST_CLAIM_S,
    AskerLine,
    BearerToken,
    JoinedAsker,
    Joins,
    Note,
    Passkey,
    Proposal,
    ProposalLine,
    ProposalVerdict,
    Purpose,
    State,
    TrustChange,
    TrustedPlace,
    TrustRecord,
    TrustUpdate,
)
from tests.support.state.memory.quotas import Used


@dataclass(frozen=True)
class _Secret:
    value: str
    expires_at: datetime


class MemoryTrust:
    """Proposals, trust records, passkeys, secrets and taint in this process.

    `tell` publishes, `append` adds to the audit chain; `proposals`, by id, are shared with the ledger, which ends them.
    """

    def __init__(
        self,
        tell: Callable[[str, Sequence[str]], object],
        append: Callable[[HistoryEntry], object],
        proposals: dict[str, Proposal],
    ) -> None:
        self._tell, self._append, self._proposals = tell, append, proposals
        self._askers: dict[str, list[JoinedAsker]] = {}
        self.trust_records: dict[str, TrustRecord] = {}
        self.changes: list[TrustChange] = []
        self._passkeys: dict[bytes, Passkey] = {}
        self._forms: dict[str, tuple[bytes, bool, datetime]] = {}
        self._secrets: dict[tuple[bytes, Purpose], _Secret] = {}
        self._taint: dict[tuple[str, str, str], datetime] = {}
        self._used = Used()
        self._kept: dict[str, int] = {}
        self._tokens: dict[str, BearerToken] = {}
        self._places: dict[str, TrustedPlace] = {}
        self._read: dict[str, dict[bytes, tuple[datetime, str]]] = {}

    async def propose(
        self,
        proposal: Proposal,
        *,
        most_pending: int,
        replacing: Collection[str] = (),
        quotas: Quotas | None = None,
        joins: Joins | None = None,
    ) -> Proposal:
        """Record the proposal, or join one; supersede the pending ones of `replacing` with the same principal."""
        fresh = proposal_from(proposal_text(proposal))
        pending = [p for p in self._proposals.values() if p.state == "pending"]
        alike = [p for p in pending if joins is not None and asks_the_same(p, fresh) and joins(p)]
        asker = asker_of(fresh)
        size = len(asker_text(asker)) if alike else None
        own = [(p.id, p.kind, len(proposal_text(p))) for p in pending if p.principal == fresh.principal]
        also = [(p.id, len(asker_text(one))) for p in pending for one in self._asking(p.id, fresh.principal)]
        gone = superseded(fresh, own, replacing, most_pending, quotas, joined=also, size=size)
        if fresh.id in self._proposals and not alike:
            raise ValueError(f"proposal {fresh.id} exists already")
        if quotas is not None and fresh.kind != "admin":
            self._used.charge(quotas.proposed, fresh.principal, counted_size(fresh, size), fresh.created_at)
        result = alike[0] if alike else fresh
        for id_ in gone:
            old = self._proposals[id_]
            self._proposals[id_] = replace(old, state="superseded", ended_at=fresh.created_at, successor=result.id)
            self._shorten(id_, None, is_origin=id_ == fresh.origin)
        if not alike:
            self._proposals[fresh.id] = fresh
        elif not self._asking(result.id, fresh.principal):
            others = [one for one in self._askers.get(result.id, []) if one.principal != fresh.principal]
            self._askers[result.id] = [*others, asker]
            self._append(joined(result, asker))
        self._tell("proposal", [*gone, result.id])
        return result

    def _asking(self, proposal_id: str, principal: str | None = None) -> list[JoinedAsker]:
        """Return the active joiners of the proposal; of one principal or of all."""
        askers = self._askers.get(proposal_id, [])
        return [one for one in askers if one.left_at is None and principal in (None, one.principal)]

    async def askers(self, proposal_id: str) -> Sequence[JoinedAsker]:
        """Return the joiners of the proposal, in the order in which they asked."""
        return list(self._askers.get(proposal_id, []))

    async def asking(self, proposal_ids: Collection[str]) -> Mapping[str, Sequence[AskerLine]]:
        """Return the active joiners of each of these."""
        found = {id_: [AskerLine(one.principal, one.asked_at) for one in self._asking(id_)] for id_ in proposal_ids}
        return {id_: lines for id_, lines in found.items() if lines}

    async def proposal(self, proposal_id: str) -> Proposal | None:
        """Return it, or None."""
        return self._proposals.get(proposal_id)

    async def proposals(
        self,
        *,
        principal: str | None = None,
        states: tuple[State, ...] = (),
        limit: int = 100,
        before: str | None = None,
    ) -> Sequence[Proposal]:
        """Return full proposals, newest first, from the one after `before`."""
        ids = list(self._proposals)
        below = ids[: ids.index(before)] if before in ids else [] if before is not None else ids
        found = [self._proposals[id_] for id_ in reversed(below)]
        return [p for p in found if self._is_of(p, principal) and (not states or p.state in states)][:limit]

    def _is_of(self, proposal: Proposal, principal: str | None) -> bool:
        return principal in (None, proposal.principal) or bool(self._asking(proposal.id, principal))

    async def lines(
        self,
        *,
        principal: str | None = None,
        states: tuple[State, ...] = (),
        limit: int = 100,
        before: str | None = None,
    ) -> Sequence[ProposalLine]:
        """Return the same as lines."""
        found = await self.proposals(principal=principal, states=states, limit=limit, before=before)
        return [line_of(proposal) for proposal in found]

    async def shorten(self, *, ended_before: datetime | None, limit: int) -> Shortened:
        """Shorten at most `limit` ended proposals that are longer than needed."""
        due = [
            p.id
            for p in self._proposals.values()
            if p.ended_at is not None
            and not p.open
            and (self._kept.get(p.id, 0) < 1 or (self._kept[p.id] < 2 and _over(p.ended_at, ended_before)))
        ][:limit]
        return Shortened(len(due), sum(self._shorten(id_, ended_before) for id_ in due))

    def _shorten(self, proposal_id: str, ended_before: datetime | None, *, is_origin: bool = False) -> int:
        before = self._proposals[proposal_id]
        self._kept[proposal_id], after = kept_by_now(before, ended_before, is_origin=is_origin)
        self._proposals[proposal_id] = after
        askers = self._askers.get(proposal_id, [])
        short = [shortened_asker(before, one, ended_before, is_origin=is_origin) for one in askers]
        if askers:
            self._askers[proposal_id] = short
        freed = sum(len(asker_text(one)) for one in askers) - sum(len(asker_text(one)) for one in short)
        freed += len(proposal_text(before)) - len(proposal_text(after))
        return freed + len(before.result or "") - len(after.result or "")

    async def pending(self, principal: str | None = None) -> int:
        """Return how many are pending."""
        return len(await self.proposals(principal=principal, states=("pending",), limit=len(self._proposals)))

    async def unfinished(self, *, now: datetime) -> bool:
        """Return whether there is an approved proposal that nobody executes."""
        aware(now)
        return any(_neglected(proposal, now) for proposal in self._proposals.values())

    async def decide(self, proposal_id: str, verdict: ProposalVerdict) -> Proposal | None:
        """Make a pending proposal approved or rejected, unless it has expired or differs from the one shown."""
        aware(verdict.at)
        proposal = self._pending(proposal_id)
        if proposal is None or proposal.expires_at <= verdict.at or proposal.hash != verdict.hash:
            return None
        self._append(decided(proposal_id, verdict))
        if verdict.approved:
            return self._become(replace(proposal, state="approved", verdict=verdict))
        return self._become(replace(proposal, state="rejected", verdict=verdict, ended_at=verdict.at))

    def _pending(self, proposal_id: str) -> Proposal | None:
        proposal = self._proposals.get(proposal_id)
        return proposal if proposal is not None and proposal.state == "pending" else None

    def _become(self, proposal: Proposal) -> Proposal:
        self._proposals[proposal.id] = proposal
        if not proposal.open:
            self._shorten(proposal.id, None, is_origin=proposal.state == "superseded")
        self._tell("proposal", [proposal.id])
        return proposal

    async def claim(self, proposal_id: str, runner: str, *, now: datetime, lease_s: float) -> Proposal | None:
        """Let `runner` execute an approved proposal until the lease ends, unless another one does."""
        until = aware(now) + timedelta(seconds=lease_s)
        proposal = self._proposals.get(proposal_id)
        if proposal is None or proposal.state != "approved":
            return None
        until_then = proposal.runs_until
        if until_then is not None and holds(until_then, now, lease_s) and proposal.runner != runner:
            return None
        return self._become(replace(proposal, runner=runner, runs_until=until))

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
        aware(at)
        proposal = self._proposals.get(proposal_id)
        if proposal is not None and proposal.state == "executed" and proposal.result is None:
            return self._become(replace(proposal, result=storable_or_none(result)))
        if proposal is None or proposal.state != "approved":
            return None
        ended = replace(proposal, state=state, ended_at=at, successor=successor)
        return self._become(replace(ended, result=storable_or_none(result), error=storable_or_none(error)))

    async def withdraw(self, proposal_id: str, principal: str, *, at: datetime) -> Proposal | None:
        """Withdraw a pending proposal, in its principal's name."""
        aware(at)
        proposal = self._pending(proposal_id)
        if proposal is None:
            return None
        if self._asking(proposal_id, principal):
            self._askers[proposal_id] = [
                replace(one, left_at=at) if one.principal == principal else one for one in self._askers[proposal_id]
            ]
            self._append(left(proposal_id, principal, at))
            self._tell("proposal", [proposal_id])
            return proposal
        if proposal.principal != principal or self._asking(proposal_id):
            return None
        self._append(withdrawn(proposal_id, principal, at))
        return self._become(replace(proposal, state="withdrawn", ended_at=at))

    async def expire(self, *, now: datetime) -> Sequence[str]:
        """Expire every pending proposal whose time is up, and return their ids."""
        aware(now)
        over = [p for p in self._proposals.values() if p.state == "pending" and p.expires_at <= now]
        for proposal in over:
            self._become(replace(proposal, state="expired", ended_at=now))
        return [proposal.id for proposal in over]

    async def update_trust_record(
        self, principal: str, change: TrustUpdate, *, note: Note, unseen: float = 0.0
    ) -> TrustRecord:
        """Replace the principal's trust record by the result of `change`, with a line of history and an audit record."""
        aware(note.at)
        before = self.trust_records.get(principal)
        own = [one for one in reversed(self.changes) if one.principal == principal]
        after = change(before, [one for one in own if one.at > note.at - RECENT])
        line = change_line(principal, before, after, note, unseen=unseen)
        if before is not None and only_time_differs(before, after):
            return before
        self._append(trust_updated(line, after, note))
        self.trust_records[principal] = after
        self.changes.append(replace(line, id=len(self.changes) + 1))
        return after

    async def add_passkey(self, passkey: Passkey, *, note: Note) -> None:
        """Register a credential and record that in the chain."""
        aware(note.at)
        if passkey.id in self._passkeys:
            raise ValueError("that passkey is registered already")
        self._passkeys[passkey.id] = storable_passkey(passkey)
        self._append(passkey_noted(passkey.id, note, public_key=passkey.public_key))

    async def passkeys(self) -> Sequence[Passkey]:
        """Return all, oldest first."""
        return sorted(self._passkeys.values(), key=lambda passkey: (passkey.created_at, passkey.id))

    async def use_passkey(self, passkey_id: bytes, *, sign_count: int, at: datetime) -> bool:
        """Record a use; False if it is unknown, or its count did not grow although it counts."""
        aware(at)
        known = self._passkeys.get(passkey_id)
        if known is None or not (sign_count > known.sign_count or sign_count == known.sign_count == 0):
            return False
        self._passkeys[passkey_id] = replace(known, sign_count=sign_count, used_at=at)
        return True

    async def remove_passkey(self, passkey_id: bytes, *, note: Note) -> bool:
        """Remove it and record that in the chain; False if it is unknown."""
        aware(note.at)
        if self._passkeys.pop(passkey_id, None) is None:
            return False
        self._append(passkey_noted(passkey_id, note))
        return True

    async def allow_forms(self, host: str, secret_digest: bytes, *, allowed: bool, note: Note) -> bool:
        """Record whether a form of the host counts, also in the chain.

        False if that is already so, or a later refusal is.
        """
        aware(note.at)
        known = self._forms.get(host)
        if allowed and known is not None and (known[:2] == (secret_digest, True) or note.at <= known[2]):
            return False
        decided_at = note.at if known is None else max(note.at, known[2])
        self._forms[host] = (secret_digest, allowed, decided_at)
        self._append(forms_noted(host, secret_digest, note, allowed=allowed))
        return True

    def forms_of(self, host: str) -> bytes | None:
        """Return the digest of the secret with which the host's forms are allowed, None if they are not."""
        known = self._forms.get(host)
        return known[0] if known is not None and known[1] else None

    async def put_secret(self, digest: bytes, purpose: Purpose, value: str, *, expires_at: datetime) -> None:
        """Keep a secret's value, under its digest, until then."""
        self._secrets[digest, purpose] = _Secret(value, aware(expires_at))

    async def secret(self, digest: bytes, purpose: Purpose, *, now: datetime) -> str | None:
        """Return the secret's value, or None."""
        aware(now)
        found = self._secrets.get((digest, purpose))
        return found.value if found is not None and found.expires_at > now else None

    async def take_secret(self, digest: bytes, purpose: Purpose, *, now: datetime) -> str | None:
        """Return its value, and forget it and all secrets that have expired."""
        value = await self.secret(digest, purpose, now=now)
        self._secrets.pop((digest, purpose), None)
        self._secrets = {key: kept for key, kept in self._secrets.items() if kept.expires_at > now}
        return value

    async def note_taint(self, principal: str, journey: str, origins: Collection[str], *, at: datetime) -> None:
        """Record that the caller has read text from there; for the same origin the newest time is kept."""
        aware(at)
        for origin in origins:
            key = (principal, journey, storable(origin))
            self._taint[key] = max(at, self._taint.get(key, at))
        self._taint = {key: read for key, read in self._taint.items() if key[1] or read >= at - TAINT_KEPT}

    async def taints(self, principal: str, journey: str, *, since: datetime) -> Mapping[str, datetime]:
        """Return the untrusted origins that the caller read since then, in this journey (any time) or outside of one."""
        aware(since)
        found: dict[str, datetime] = {}
        for (who, which, origin), at in self._taint.items():
            counts = at >= since if which == "" else which == journey
            if who == principal and counts:
                found[origin] = max(at, found.get(origin, at))
        return found

    async def add_token(self, token: BearerToken, *, note: Note) -> None:
        """Register a bearer token."""
        aware(note.at), aware(token.created_at), token.expires_at and aware(token.expires_at)
        if token.id in self._tokens:
            raise ValueError(f"the token {token.id} is registered already")
        self._tokens[token.id] = replace(token, by=storable(token.by))
        self._append(token_noted(token, note))

    async def token(self, token_id: str) -> BearerToken | None:
        """Return the token with that id, or None."""
        return self._tokens.get(token_id)

    async def tokens(self) -> Sequence[BearerToken]:
        """Return all tokens, by name and age."""
        return sorted(self._tokens.values(), key=lambda one: (one.name, one.created_at, one.id))

    async def revoke_token(self, token_id: str, *, note: Note) -> bool:
        """Make the token invalid; False if that changes nothing."""
        aware(note.at)
        found = self._tokens.get(token_id)
        if found is None or found.revoked_at is not None:
            return False
        self._append(token_noted(found, note))
        self._tokens[token_id] = replace(found, revoked_at=note.at)
        return True

    async def trust_place(self, place: str, *, note: Note) -> bool:
        """Record that a person trusts the place."""
        aware(note.at)
        if place in self._places:
            return False
        self._places[place] = TrustedPlace(place, storable(note.by), note.at)
        self._append(place_noted(place, note))
        return True

    async def distrust_place(self, place: str, *, note: Note) -> bool:
        """Take that back."""
        aware(note.at)
        if self._places.pop(place, None) is None:
            return False
        self._append(place_noted(place, note))
        return True

    async def trusted_places(self) -> Sequence[TrustedPlace]:
        """Return them all, by place."""
        return [self._places[place] for place in sorted(self._places)]

    async def note_passages(self, principal: str, passages: Mapping[bytes, str], *, at: datetime) -> None:
        """Record the digests of the sentences shown to the caller."""
        aware(at)
        own = self._read.setdefault(principal, {})
        own |= {digest: (at, storable(origin)) for digest, origin in passages.items()}
        newest = sorted(own.items(), key=lambda one: (one[1][0], one[0]), reverse=True)[:MOST_PASSAGES]
        self._read[principal] = dict(newest)
        for who, read in self._read.items():
            self._read[who] = {digest: one for digest, one in read.items() if one[0] >= at - PASSAGES_KEPT}

    async def passages(self, principal: str, digests: Collection[bytes], *, since: datetime) -> Mapping[bytes, str]:
        """Return those of these passages that were shown to the caller since then."""
        aware(since)
        own = self._read.get(principal, {})
        return {one: own[one][1] for one in digests if one in own and own[one][0] >= since}


def _over(ended_at: datetime, ended_before: datetime | None) -> bool:
    return ended_before is not None and ended_at < ended_before


def _neglected(proposal: Proposal, now: datetime) -> bool:
    if proposal.state == "pending":
        return proposal.expires_at <= now
    waits = proposal.state == "approved" or (proposal.state == "executed" and proposal.result is None)
    return waits and (proposal.runs_until is None or not holds(proposal.runs_until, now, LONGEST_CLAIM_S))
