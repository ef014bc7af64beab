"""The audit records of decisions. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime
from typing import Final

from knowledge.history.audit.chain import canonical
from knowledge.history.ports import Actor, HistoryEntry, TrustMove
from knowledge.history.timestamps import aware
from knowledge.trust.ports import (
    BearerToken,
    Channel,
    JoinedAsker,
    Note,
    Proposal,
    ProposalVerdict,
    TrustChange,
    TrustRecord,
)

PLACES: Final[Mapping[Channel, str]] = {
    "host": "in the host",
    "page": "on the page",
    "terminal": "in a terminal",
    "zulip": "by a reaction in Zulip",
}


def decided(proposal_id: str, verdict: ProposalVerdict) -> HistoryEntry:
    """Return the record of a decision: who decided on which proposal and hash, where, and how it was proven to be a person."""
    v = verdict
    outcome = "approved" if v.approved else "rejected"
    words = [f"{'changes requested' if v.changes else outcome} by {v.by} {PLACES[v.channel]}"]
    if v.signed:
        words.append("signed")
    if v.advisory:
        words.append("advisory")
    about: dict[str, object] = {
        "proposal": proposal_id,
        "hash": v.hash,
        "approved": v.approved,
        "channel": v.channel,
        "signed": v.signed,
        "advisory": v.advisory,
    }
    if v.changes:  # the digests of earlier records stay the same
        about["changes"] = True
    return HistoryEntry(
        at=v.at,
        actor=_actor(v.by, "proposal.decide", about),
        proposal=proposal_id,
        decision=", ".join(words),
        intent=v.note,
        outcome=outcome,
    )


def withdrawn(proposal_id: str, principal: str, at: datetime) -> HistoryEntry:
    """Return the record of a proposal that was withdrawn."""
    return HistoryEntry(
        at=at,
        actor=_actor(principal, "proposal.withdraw", {"proposal": proposal_id}),
        proposal=proposal_id,
        decision=f"withdrawn by {principal}",
        outcome="withdrawn",
    )


def joined(proposal: Proposal, asker: JoinedAsker) -> HistoryEntry:
    """Return the record of a principal that joins a pending proposal by asking for the same: the proposal's hash, and its call."""
    arguments = hashlib.sha256(asker.arguments.encode("utf-8", "surrogatepass")).hexdigest()
    about = {"proposal": proposal.id, "hash": proposal.hash, "arguments": arguments}
    return HistoryEntry(
        at=asker.asked_at,
        actor=_actor(asker.principal, "proposal.join", about),
        proposal=proposal.id,
        decision=f"{asker.principal} asks for the same",
        outcome="joined",
    )


def left(proposal_id: str, principal: str, at: datetime) -> HistoryEntry:
    """Return the record of a principal that withdrew from a proposal that another principal made."""
    return HistoryEntry(
        at=at,
        actor=_actor(principal, "proposal.withdraw", {"proposal": proposal_id, "joined": True}),
        proposal=proposal_id,
        decision=f"{principal} withdrew its request; others still ask for the same change",
        outcome="withdrawn",
    )


def trust_updated(change: TrustChange, after: TrustRecord, note: Note) -> HistoryEntry:
    """Return the record of an update of a trust record."""
    move = TrustMove(after.principal, change.score_before, after.score, after.frozen)
    about = {
        "about": note.about,
        "principal": after.principal,
        "score": after.score,
        "floor": after.floor,
        "ceiling": after.ceiling,
        "frozen": after.frozen,
    }
    return _noted(note, about, trust_record=move)


def passkey_noted(passkey_id: bytes, note: Note, *, public_key: bytes = b"") -> HistoryEntry:
    """Return the record of a passkey that is added, with a hash of its public key, or removed."""
    key = {"public_key": hashlib.sha256(public_key).hexdigest()} if public_key else {}
    return _noted(note, {"about": note.about, "passkey": passkey_id.hex(), **key})


def forms_noted(host: str, secret_digest: bytes, note: Note, *, allowed: bool) -> HistoryEntry:
    """Return the record of whether answers to forms of the host with that secret count as a person's decisions."""
    return _noted(note, {"about": note.about, "host": host, "secret": secret_digest.hex(), "allowed": allowed})


def token_noted(token: BearerToken, note: Note) -> HistoryEntry:
    """Return the record of a bearer token that a person created or revoked. It names the token's id, never the token."""
    about = {
        "token": token.id,
        "name": token.name,
        "digest": token.digest.hex(),
        "ceiling": token.ceiling,
        "toolsets": None if token.toolsets is None else list(token.toolsets),
        "expires_at": None if token.expires_at is None else aware(token.expires_at).isoformat(),
    }
    return HistoryEntry(
        at=aware(note.at),
        actor=_actor(note.by, note.act, about),
        decision=f"{token.name} {token.id}",
        intent=note.reason,
        outcome="trust",
    )


def place_noted(place: str, note: Note) -> HistoryEntry:
    """Return the record of a place that a person has begun or ceased to trust."""
    return HistoryEntry(
        at=aware(note.at),
        actor=_actor(note.by, note.act, {"place": place}),
        decision=place,
        intent=note.reason,
        outcome="trust",
    )


def _noted(note: Note, about: object, trust_record: TrustMove | None = None) -> HistoryEntry:
    return HistoryEntry(
        at=note.at,
        actor=_actor(note.by, note.act, about),
        decision=note.about or None,
        intent=note.reason,
        outcome="trust",
        trust_record=trust_record,
    )


def _actor(by: str, act: str, about: object) -> Actor:
    return Actor(by, act, hashlib.sha256(canonical(about).encode("ascii")).hexdigest())
