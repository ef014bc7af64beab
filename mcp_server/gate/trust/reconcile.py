"""Compares the trust tables with the audit chain. A row that somebody inserted into the database has no record in the chain."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from knowledge.access.audit_entries import assignment_digest
from knowledge.access.directory import DirectoryEntry
from knowledge.history.audit.chain import fields_of
from knowledge.history.audit.inspection import records_of
from knowledge.state.ports import Enrolment, StateStore
from knowledge.trust.audit_entries import decided, forms_noted, passkey_noted, place_noted, token_noted, trust_updated
from knowledge.trust.ports import BearerToken, Note, Passkey, Proposal, State, TrustChange, TrustedPlace, TrustRecord
from mcp_server.approvals.proposals import hash_of
from mcp_server.gate.trust.people import PEOPLE_ACTS

STRETCH = 500  # proposals listed at a time
DONE: tuple[State, ...] = ("approved", "executed")


@dataclass(frozen=True, slots=True)
class Unaccounted:
    """A row in the trust tables that no audit record explains. `what` names it, `reason` is the rest of the sentence."""

    what: str
    reason: str


@dataclass(slots=True)
class _Recorded:
    """The newest audit record of each row of the trust tables and of the directory, and each proposal's decision."""

    trust_records: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    passkeys: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    decisions: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    forms: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    places: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    tokens: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    directory: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def take(self, record: Mapping[str, Any]) -> None:
        """Add the next record of the chain."""
        act, move = record.get("tool"), record.get("standing")
        if isinstance(move, dict):
            self.trust_records[str(move.get("principal"))] = record
        elif act in ("passkey.add", "passkey.remove"):
            self.passkeys[str(record.get("arguments_hash"))] = record
        elif act == "host.forms":
            self.forms[str(record.get("decision"))] = record
        elif act in ("place.trust", "place.distrust"):
            self.places[str(record.get("arguments_hash"))] = record
        elif act in ("token.create", "token.revoke"):
            self.tokens[str(record.get("arguments_hash"))] = record
        elif act in PEOPLE_ACTS:
            self.directory[str(record.get("decision"))] = record
        elif act == "proposal.decide":
            self.decisions[str(record.get("proposal"))] = record


async def unaccounted(state: StateStore) -> Sequence[Unaccounted]:
    """Return the rows of the trust tables that no audit record explains. The chain itself is not verified."""
    recorded = _Recorded()
    async for record in records_of(state.ledger):
        recorded.take(fields_of(record) or {})
    found: list[Unaccounted] = []
    enrolled: set[tuple[str, str]] = set()
    async for one in _carried_out(state):
        problems = list(_proposal(one, recorded))
        found += problems
        # A proposal that no record explains must not explain a registration in turn.
        if one.tool == "host.enrol" and not problems:
            enrolled.add(_enrolment_key(one))
    found += [problem for one in await state.trust_records() for problem in _trust_record(one, recorded)]
    found += [problem for one in await state.trust.passkeys() for problem in _passkey(one, recorded)]
    found += [problem for one in await state.trust.trusted_places() for problem in _place(one, recorded)]
    found += [problem for one in await state.trust.tokens() for problem in _token(one, recorded)]
    found += _directory((await state.people.directory()).entries, recorded)
    hosts = await state.enrolments()
    found += [problem for one in hosts for problem in (*_enrolment(one, enrolled), *_forms(one, recorded))]
    return found


async def _carried_out(state: StateStore) -> AsyncIterator[Proposal]:
    """Yield every proposal that was approved, whatever its state is now."""
    before: str | None = None
    while stretch := await state.trust.lines(states=DONE, limit=STRETCH, before=before):
        for line in stretch:
            # One at a time, because each may be megabytes long.
            proposal = await state.trust.proposal(line.id)
            if proposal is not None:
                yield proposal
        before = stretch[-1].id


def _proposal(proposal: Proposal, recorded: _Recorded) -> Iterator[Unaccounted]:
    what, record = f"proposal {proposal.id}", recorded.decisions.get(proposal.id)
    if record is None or proposal.verdict is None:
        yield Unaccounted(what, f"is {proposal.state}, but no audit record has the decision")
    elif decided(proposal.id, proposal.verdict).actor.arguments_hash != record.get("arguments_hash"):
        yield Unaccounted(what, "has a decision that differs from its audit record")
    elif proposal.hash != proposal.verdict.hash or not (_is_shortened(proposal) or proposal.hash == hash_of(proposal)):
        yield Unaccounted(what, "differs from the proposal that was decided on")


def _is_shortened(proposal: Proposal) -> bool:
    """Return whether retention removed the texts that its hash covers. The decision's record still names that hash.

    Proposals that are still to be executed, and acts on trust, are never shortened.
    """
    return proposal.cut is not None and not proposal.open and proposal.kind != "admin"


def _trust_record(trust_record: TrustRecord, recorded: _Recorded) -> Iterator[Unaccounted]:
    what, record = f"the trust of {trust_record.principal}", recorded.trust_records.get(trust_record.principal)
    if record is None:
        yield Unaccounted(what, f"is {trust_record.score:g}, but no audit record says why: grant it again")
        return
    at = trust_record.updated_at
    # The hash covers the trust record and what was decided, so the other fields of the change may hold anything.
    change = TrustChange(0, trust_record.principal, at, 0.0, trust_record.score, "", "")
    entry = trust_updated(change, trust_record, Note("", "", str(record.get("decision") or ""), at))
    if entry.actor.arguments_hash != record.get("arguments_hash"):
        yield Unaccounted(
            what, f"is {trust_record.score:g}, which differs from the last decision (audit record {record.get('seq')})"
        )


def _passkey(passkey: Passkey, recorded: _Recorded) -> Iterator[Unaccounted]:
    what = f"the passkey {passkey.name!r}"
    about = {str(r.get("decision") or "") for r in recorded.passkeys.values()}
    notes = [Note("", "", one, passkey.created_at) for one in about]
    # The chain holds only hashes. So both hashes are made again, of adding the passkey (with its key) and of removing it (without).
    entries = [passkey_noted(passkey.id, note, public_key=key) for note in notes for key in (passkey.public_key, b"")]
    records = [
        recorded.passkeys[e.actor.arguments_hash] for e in entries if e.actor.arguments_hash in recorded.passkeys
    ]
    newest = max(records, key=lambda record: int(record.get("seq", 0)), default=None)
    if newest is None or newest.get("tool") != "passkey.add":
        yield Unaccounted(what, "can sign, but no audit record says that it was added")


def _place(place: TrustedPlace, recorded: _Recorded) -> Iterator[Unaccounted]:
    entry = place_noted(place.place, Note(place.by, "place.trust", place.place, place.at))
    record = recorded.places.get(entry.actor.arguments_hash)
    if record is None or record.get("tool") != "place.trust":
        yield Unaccounted(f"the place {place.place}", "is trusted, but no audit record says that a person trusts it")


def _token(token: BearerToken, recorded: _Recorded) -> Iterator[Unaccounted]:
    entry = token_noted(token, Note(token.by, "token.create", "", token.created_at))
    record, what = recorded.tokens.get(entry.actor.arguments_hash), f"the token {token.id} of {token.name}"
    if record is None:
        yield Unaccounted(what, f"has no audit record that explains it: knowledge-forge token revoke {token.id}")
    elif record.get("tool") == "token.revoke" and token.revoked_at is None:
        yield Unaccounted(what, f"is valid, but was revoked (audit record {record.get('seq')}): revoke it again")


def _directory(entries: Sequence[DirectoryEntry], recorded: _Recorded) -> Iterator[Unaccounted]:
    """Yield the entries of the directory that differ from their newest audit record, and those that are missing.

    A missing entry matters: without a rule, more people see more.
    """
    for entry in entries:
        record = recorded.directory.pop(entry.label, None)
        if record is None or record.get("arguments_hash") != assignment_digest(entry.label, entry.names):
            yield Unaccounted(f"the {entry.label}", "differs from its last audit record: set it again, or remove it")
    for label, record in recorded.directory.items():
        if record.get("arguments_hash") != assignment_digest(label, None):
            yield Unaccounted(f"the {label}", f"is gone, but was set (audit record {record.get('seq')}): set it again")


def _enrolment(enrolment: Enrolment, enrolled: set[tuple[str, str]]) -> Iterator[Unaccounted]:
    if (enrolment.host, enrolment.secret_digest.hex()) not in enrolled:
        yield Unaccounted(f"the host {enrolment.host}", "has a secret that no audit record explains: register it again")


def _forms(enrolment: Enrolment, recorded: _Recorded) -> Iterator[Unaccounted]:
    host, digest = enrolment.host, enrolment.secret_digest
    entry = forms_noted(host, digest, Note("", "host.forms", host, enrolment.created_at), allowed=True)
    if enrolment.forms and recorded.forms.get(host, {}).get("arguments_hash") != entry.actor.arguments_hash:
        yield Unaccounted(
            f"the host {host}",
            f"may approve with forms, but no audit record says so: knowledge-forge trust forms {host} off",
        )


def _enrolment_key(proposal: Proposal) -> tuple[str, str]:
    (arguments,) = json.loads(proposal.arguments)
    return str(arguments.get("host")), str(arguments.get("secret_digest"))
