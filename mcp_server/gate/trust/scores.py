"""Scores: how far each principal is trusted, and how that changes. The rules are pure; the store applies and records them.

A score lies between the floor that a person granted and a ceiling. Decisions on a host's proposals move it between the two, and an
idle score sinks back to the floor. Nothing that a client claims about itself affects it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from knowledge.errors import KnowledgeError
from knowledge.state.ports import StateStore
from knowledge.trust.ports import Note, TrustChange, TrustRecord, TrustUpdate
from mcp_server.gate.host_registration import PERSONS, TOKENLESS, UNENROLLED, UNREGISTERED, Principal
from mcp_server.gate.policy import Grant

# Every host may propose without a grant. Levels 4 and 5 come only by a grant, however often a person approves.
FIRST_FLOOR = 2.0
FIRST_CEILING = 3.9
UNENROLLED_CEILING = 2.9
"""An unregistered host never reaches level 3, not even by a grant."""
PERSON_LEVEL = 3.0
"""The level of a person at a terminal or on the page: what their decision is worth without a signature (decision 30)."""

HIGHEST = 5.0
# These numbers are also in concepts/trust-levels.md of the handbook.
APPROVED = 0.1
REJECTED = -0.1
MOST_A_DAY = 0.3
HALF_LIFE = timedelta(days=30)
ANY_HOST = "*"
"""The host part of a grant to a person, which is the floor of every host that the person registered."""

APPROVED_REASON = "a proposal was approved"
REJECTED_REASON = "a proposal was rejected"


class BadGrant(KnowledgeError):
    """The level can't be granted to this principal."""


def first_trust_record(principal: str, *, now: datetime) -> TrustRecord:
    """Return the trust record of a principal that was never seen before: it begins at its floor."""
    if is_present_person(principal):
        return TrustRecord(principal, PERSON_LEVEL, PERSON_LEVEL, PERSON_LEVEL, frozen=False, updated_at=now)
    ceiling = UNENROLLED_CEILING if is_unenrolled(principal) else FIRST_CEILING
    return TrustRecord(principal, FIRST_FLOOR, FIRST_FLOOR, ceiling, frozen=False, updated_at=now)


def is_unenrolled(principal: str) -> bool:
    """Return whether `principal` is every host without a secret, or every HTTP caller without a token."""
    return principal.rpartition("@")[2] in UNREGISTERED


def is_present_person(principal: str) -> bool:
    """Return whether `principal` is a person at a terminal or on the page. Their level is fixed: no decision moves it."""
    return principal.rpartition("@")[2] in PERSONS


def is_person(principal: str) -> bool:
    """Return whether `principal` means all registered hosts of a person."""
    return principal.rpartition("@")[2] == ANY_HOST


def decayed(trust_record: TrustRecord, *, now: datetime) -> TrustRecord:
    """Return the trust record with its score as of now: the part above the floor halves in 30 idle days."""
    above = trust_record.score - trust_record.floor
    if above <= 0 or trust_record.frozen:
        return trust_record
    idle = max(timedelta(), now - trust_record.updated_at)
    # min(): floating point could otherwise give an idle score a little more than it had.
    return replace(trust_record, score=min(trust_record.score, trust_record.floor + above * 0.5 ** (idle / HALF_LIFE)))


async def trust_record_of(state: StateStore, principal: Principal, *, now: datetime) -> TrustRecord:
    """Return the principal's trust record as of now, with its person's grant applied. Nothing is recorded."""
    own = await state.trust_record(principal.id) or first_trust_record(principal.id, now=now)
    own = decayed(own, now=now)
    if principal.host == TOKENLESS:
        # A person may have lowered or frozen `unenrolled` when it still included callers over HTTP. That must still apply to them.
        other = await state.trust_record(f"{principal.user}@{UNENROLLED}")
    elif (
        principal.enrolled and not principal.signed_in
    ):  # somebody else may have this account's name at a sign-in server
        other = await state.trust_record(f"{principal.user}@{ANY_HOST}")
    else:
        other = None
    if other is None:
        return own
    if other.frozen:
        return replace(own, frozen=True, score=0.0)
    if principal.host == TOKENLESS:
        other = decayed(other, now=now)
        floor, ceiling = min(own.floor, other.floor), min(own.ceiling, other.ceiling)
        return replace(own, floor=floor, ceiling=ceiling, score=min(own.score, other.score))
    # A grant to a person raises the floor of each of their hosts. It never lowers a host that has more.
    floor = max(own.floor, other.floor)
    return replace(own, floor=floor, score=max(own.score, floor), ceiling=max(own.ceiling, other.ceiling))


def grant_of(trust_record: TrustRecord) -> Grant:
    """Return the grant that the policy decides on."""
    return Grant(
        trust_record.principal,
        min(max(trust_record.score, trust_record.floor), trust_record.ceiling),
        trust_record.frozen,
    )


def moved(principal: str, by: float, *, now: datetime) -> TrustUpdate:
    """Return the change of a score after a decision: never below the floor, at most +0.3 a day from approvals."""

    def change(known: TrustRecord | None, recent: Sequence[TrustChange]) -> TrustRecord:
        trust_record = decayed(known or first_trust_record(principal, now=now), now=now)
        if trust_record.frozen:
            return known or trust_record
        raised = sum(APPROVED for one in recent if one.reason.startswith(APPROVED_REASON))
        step = by if by < 0 else min(by, max(0.0, MOST_A_DAY - raised))
        # Rounded, because 3.3 minus three times 0.1 is 2.9999999999999996 in floating point, which would be level 2.
        score = round(min(max(trust_record.score + step, trust_record.floor), trust_record.ceiling), 6)
        if known is not None and score == known.score:
            return known
        return replace(trust_record, score=score, updated_at=now)

    return change


def frozen(principal: str, *, now: datetime) -> TrustUpdate:
    """Return the change that removes all trust until a person thaws the principal."""

    def change(known: TrustRecord | None, _: Sequence[TrustChange]) -> TrustRecord:
        trust_record = known or first_trust_record(principal, now=now)
        return replace(trust_record, score=0.0, frozen=True, updated_at=now)

    return change


def thawed(principal: str, *, now: datetime) -> TrustUpdate:
    """Return the change that thaws a principal: it is at its floor again."""

    def change(known: TrustRecord | None, _: Sequence[TrustChange]) -> TrustRecord:
        trust_record = known or first_trust_record(principal, now=now)
        return (
            replace(trust_record, score=trust_record.floor, frozen=False, updated_at=now)
            if trust_record.frozen
            else trust_record
        )

    return change


def granted(principal: str, level: float, *, now: datetime) -> TrustUpdate:
    """Return the change that sets floor and score to `level` and thaws the principal.

    The ceiling rises to the level if it is lower. Below level 2 it falls to just under the next level, so that approvals can't
    undo a person's decision to lower a host; only another grant can.

    Raises:
        BadGrant: the level is not between 0 and 5, or higher than an unregistered host may have.
    """
    if not 0 <= level <= HIGHEST:
        raise BadGrant(f"level {level:g} does not exist; levels go from 0 to 5")
    if is_unenrolled(principal) and level > UNENROLLED_CEILING:
        raise BadGrant(
            f"level {level:g} cannot be granted to {principal}, which is every host without a secret; "
            "enrol the host first: knowledge-forge enroll NAME"
        )
    if is_present_person(principal) and level > PERSON_LEVEL:
        raise BadGrant(
            f"level {level:g} cannot be granted to {principal}, which is a person without a signature: they act at level "
            f"{PERSON_LEVEL:g} at most, and approve each act above it"
        )
    usual = (
        PERSON_LEVEL
        if is_present_person(principal)
        else UNENROLLED_CEILING
        if is_unenrolled(principal)
        else FIRST_CEILING
    )
    ceiling = max(usual, level) if level >= FIRST_FLOOR else int(level) + 0.9
    trust_record = TrustRecord(principal, float(level), float(level), float(ceiling), frozen=False, updated_at=now)
    return lambda _known, _recent: trust_record


async def grant(state: StateStore, principal: str, level: float, *, by: str, now: datetime) -> TrustRecord:
    """Grant the principal a level and return its trust record.

    Raises:
        BadGrant: as `granted`.
    """
    change = granted(principal, level, now=now)
    note = Note(by, "trust.grant", principal, now, f"granted level {level:g}")
    return await state.trust.update_trust_record(principal, change, note=note, unseen=FIRST_FLOOR)


async def freeze(state: StateStore, principal: str, *, by: str, now: datetime, reason: str) -> TrustRecord:
    """Remove all trust from the principal until a person thaws it."""
    note = Note(by, "trust.freeze", principal, now, reason)
    return await state.trust.update_trust_record(principal, frozen(principal, now=now), note=note, unseen=FIRST_FLOOR)


async def thaw(state: StateStore, principal: str, *, by: str, now: datetime) -> TrustRecord:
    """Thaw the principal: it is at its floor again."""
    note = Note(by, "trust.thaw", principal, now, "the freeze was lifted")
    return await state.trust.update_trust_record(principal, thawed(principal, now=now), note=note, unseen=FIRST_FLOOR)


async def count(state: StateStore, principal: str, *, approved: bool, by: str, proposal: str, now: datetime) -> None:
    """Move the principal's score after a decision on one of its proposals. A person's level does not move."""
    if is_present_person(principal):
        return
    reason = f"{APPROVED_REASON if approved else REJECTED_REASON}: {proposal}"
    note = Note(by, "trust.decided", principal, now, reason)
    await state.trust.update_trust_record(
        principal, moved(principal, APPROVED if approved else REJECTED, now=now), note=note, unseen=FIRST_FLOOR
    )
