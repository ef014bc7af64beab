"""Whether what the tables of trust say is what the audit chain says was decided. What was put there by hand has no record."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from knowledge.history.audit.chain import fields_of
from knowledge.history.audit.inspection import records_of
from knowledge.state.ports import Enrolment, StateStore
from knowledge.trust.audit_entries import decided, forms_noted, passkey_noted, place_noted, restood
from knowledge.trust.ports import Note, Passkey, Proposal, State, TrustChange, TrustedPlace, TrustRecord
from mcp_server.approvals.proposals import hash_of

STRETCH = 500
DONE: tuple[State, ...] = ("approved", "executed")


@dataclass(frozen=True, slots=True)
class Unaccounted:
    """Something that holds without a record that says so. `what` names it, `reason` is the rest of the sentence."""

    what: str
    reason: str


@dataclass(slots=True)
class _Said:
    """The newest record of each standing, passkey, place and host's forms on the chain, and the decision of each proposal."""

    trust_records: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    passkeys: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    decisions: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    forms: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    places: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def take(self, record: Mapping[str, Any]) -> None:
        """Take in the next record."""
        act, move = record.get("tool"), record.get("standing")
        if isinstance(move, dict):
            self.trust_records[str(move.get("principal"))] = record
        elif act in ("passkey.add", "passkey.remove"):
            self.passkeys[str(record.get("arguments_hash"))] = record
        elif act == "host.forms":
            self.forms[str(record.get("decision"))] = record
        elif act in ("place.trust", "place.distrust"):
            self.places[str(record.get("arguments_hash"))] = record
        elif act == "proposal.decide":
            self.decisions[str(record.get("proposal"))] = record


async def unaccounted(state: StateStore) -> Sequence[Unaccounted]:
    """Return what holds in the tables of trust and follows from no record of the chain; the chain itself is not looked at."""
    said = _Said()
    async for record in records_of(state.ledger):
        said.take(fields_of(record) or {})
    found: list[Unaccounted] = []
    enrolled: set[tuple[str, str]] = set()
    async for one in _carried_out(state):
        problems = list(_proposal(one, said))
        found += problems
        if one.tool == "host.enrol" and not problems:
            enrolled.add(_enrolment_key(one))
    found += [problem for one in await state.trust_records() for problem in _standing(one, said)]
    found += [problem for one in await state.trust.passkeys() for problem in _passkey(one, said)]
    found += [problem for one in await state.trust.trusted_places() for problem in _place(one, said)]
    hosts = await state.enrolments()
    found += [problem for one in hosts for problem in (*_enrolment(one, enrolled), *_forms(one, said))]
    return found


async def _carried_out(state: StateStore) -> AsyncIterator[Proposal]:
    """Yield every proposal that was approved, whatever became of it then."""
    before: str | None = None
    while stretch := await state.trust.lines(states=DONE, limit=STRETCH, before=before):
        for line in stretch:
            proposal = await state.trust.proposal(line.id)  # one at a time: each may be megabytes long
            if proposal is not None:
                yield proposal
        before = stretch[-1].id


def _proposal(proposal: Proposal, said: _Said) -> Iterator[Unaccounted]:
    what, record = f"proposal {proposal.id}", said.decisions.get(proposal.id)
    if record is None or proposal.verdict is None:
        yield Unaccounted(what, f"is {proposal.state}, and nobody decided about it on record")
    elif decided(proposal.id, proposal.verdict).actor.arguments_hash != record.get("arguments_hash"):
        yield Unaccounted(what, "has another decision than the one on record")
    elif proposal.hash != proposal.verdict.hash or not (_is_shortened(proposal) or proposal.hash == hash_of(proposal)):
        yield Unaccounted(what, "is another one than was decided about")


def _is_shortened(proposal: Proposal) -> bool:
    """Return whether the texts under its hash are no longer kept; the record of the decision names that hash all the same.

    What is still to be carried out, and what concerns trust itself, is never shortened.
    """
    return proposal.cut is not None and not proposal.open and proposal.kind != "admin"


def _standing(trust_record: TrustRecord, said: _Said) -> Iterator[Unaccounted]:
    what, record = f"the trust of {trust_record.principal}", said.trust_records.get(trust_record.principal)
    if record is None:
        yield Unaccounted(what, f"is {trust_record.score:g}, and no record says why: grant it again")
        return
    at = trust_record.updated_at
    change = TrustChange(0, trust_record.principal, at, 0.0, trust_record.score, "", "")
    entry = restood(change, trust_record, Note("", "", str(record.get("decision") or ""), at))
    if entry.actor.arguments_hash != record.get("arguments_hash"):
        yield Unaccounted(
            what, f"is {trust_record.score:g}, which is not what was last decided (record {record.get('seq')})"
        )


def _passkey(passkey: Passkey, said: _Said) -> Iterator[Unaccounted]:
    what = f"the passkey {passkey.name!r}"
    about = {str(r.get("decision") or "") for r in said.passkeys.values()}
    notes = [Note("", "", one, passkey.created_at) for one in about]
    entries = [passkey_noted(passkey.id, note, public_key=key) for note in notes for key in (passkey.public_key, b"")]
    records = [said.passkeys[e.actor.arguments_hash] for e in entries if e.actor.arguments_hash in said.passkeys]
    newest = max(records, key=lambda record: int(record.get("seq", 0)), default=None)
    if newest is None or newest.get("tool") != "passkey.add":
        yield Unaccounted(what, "may sign, and no record says that it was added")


def _place(place: TrustedPlace, said: _Said) -> Iterator[Unaccounted]:
    entry = place_noted(place.place, Note(place.by, "place.trust", place.place, place.at))
    record = said.places.get(entry.actor.arguments_hash)
    if record is None or record.get("tool") != "place.trust":
        yield Unaccounted(f"the place {place.place}", "is trusted, and no record says that a person vouches for it")


def _enrolment(enrolment: Enrolment, enrolled: set[tuple[str, str]]) -> Iterator[Unaccounted]:
    if (enrolment.host, enrolment.secret_digest.hex()) not in enrolled:
        yield Unaccounted(f"the host {enrolment.host}", "has a secret that no record accounts for: enrol it again")


def _forms(enrolment: Enrolment, said: _Said) -> Iterator[Unaccounted]:
    host, digest = enrolment.host, enrolment.secret_digest
    entry = forms_noted(host, digest, Note("", "host.forms", host, enrolment.created_at), allowed=True)
    if enrolment.forms and said.forms.get(host, {}).get("arguments_hash") != entry.actor.arguments_hash:
        yield Unaccounted(
            f"the host {host}", f"may decide by forms, and no record says so: knowledge-forge trust forms {host} off"
        )


def _enrolment_key(proposal: Proposal) -> tuple[str, str]:
    (arguments,) = json.loads(proposal.arguments)
    return str(arguments.get("host")), str(arguments.get("secret_digest"))
