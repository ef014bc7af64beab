"""Scores: how far each principal is trusted, and who changed that, when and why."""

from __future__ import annotations

from datetime import datetime

from knowledge.errors import KnowledgeError
from knowledge.storage.ports import StateStore
from knowledge.trust.ports import Standing
from mcp_server.gate.enrolment import UNENROLLED, Principal
from mcp_server.gate.policy import Grant

FIRST_FLOOR = 2.0
FIRST_CEILING = 3.9
UNENROLLED_CEILING = 2.9
"""Levels 4 and 5 come only by a person's grant; a host that nobody enrolled cannot reach 3 even so."""

HIGHEST = 5.0


class BadGrant(KnowledgeError):
    """A grant that cannot be made."""


def first_standing(principal: str, *, now: datetime) -> Standing:
    """Return where a principal begins that was never seen: at its floor."""
    ceiling = UNENROLLED_CEILING if is_unenrolled(principal) else FIRST_CEILING
    return Standing(principal, FIRST_FLOOR, FIRST_FLOOR, ceiling, frozen=False, updated_at=now)


def is_unenrolled(principal: str) -> bool:
    """Return whether `principal` stands for every host without a secret."""
    return principal.rpartition("@")[2] == UNENROLLED


async def standing_of(state: StateStore, principal: Principal, *, now: datetime) -> Standing:
    """Return what `principal` holds; nothing is recorded for one that only reads."""
    return await state.standing(principal.id) or first_standing(principal.id, now=now)


def held(standing: Standing) -> Grant:
    """Return the part of a standing that the policy looks at."""
    return Grant(standing.principal, min(max(standing.score, standing.floor), standing.ceiling), standing.frozen)


async def grant(state: StateStore, principal: str, level: float, *, by: str, now: datetime) -> Standing:
    """Set the principal's floor and score to `level`, lift a freeze, and return the new standing.

    The ceiling rises with the grant where it must; below level 2 it falls to just under the next level, so that
    nothing but another grant leads out again.

    Raises:
        BadGrant: not 0..5, or more than the shared unenrolled host may ever have.
    """
    if not 0 <= level <= HIGHEST:
        raise BadGrant(f"level {level:g} does not exist; levels go from 0 to 5")
    if is_unenrolled(principal) and level > UNENROLLED_CEILING:
        raise BadGrant(
            f"level {level:g} cannot be granted to {principal}, which is every host without a secret; "
            "enrol the host first: knowledge-forge enroll NAME"
        )
    usual = UNENROLLED_CEILING if is_unenrolled(principal) else FIRST_CEILING
    ceiling = max(usual, level) if level >= FIRST_FLOOR else int(level) + 0.9
    standing = Standing(principal, float(level), float(level), float(ceiling), frozen=False, updated_at=now)
    # Of a principal that only read nothing is recorded, but it held something.
    unseen = first_standing(principal, now=now).score
    await state.set_standing(standing, reason=f"granted level {level:g}", by=by, unseen=unseen)
    return standing
