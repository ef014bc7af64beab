"""The policy: may this call pass? Pure: no clock, no store, no network."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Trust(IntEnum):
    """What each level of trust allows."""

    NONE = 0
    READ = 1
    PROPOSE = 2
    EDIT = 3
    ROUTINE = 4
    HIGH_STAKES = 5

    @property
    def meaning(self) -> str:
        """Say what the level is for, in a few words."""
        return _MEANINGS[self]


_MEANINGS = {
    Trust.NONE: "ask about itself",
    Trust.READ: "read",
    Trust.PROPOSE: "propose changes",
    Trust.EDIT: "edit, with every write checked",
    Trust.ROUTINE: "act on its own in routine matters",
    Trust.HIGH_STAKES: "act on its own where much is at stake",
}


@dataclass(frozen=True, slots=True)
class Grant:
    """What a principal holds at this moment."""

    principal: str
    score: float
    frozen: bool

    @property
    def level(self) -> Trust:
        """Return the level that the score reaches: 2.9 is level 2."""
        return Trust(int(self.score)) if not self.frozen else Trust.NONE


@dataclass(frozen=True, slots=True)
class Allow:
    """The call may run."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """The call may not run; `why` is one plain sentence for the caller."""

    why: str


Decision = Allow | Refuse


def decide(grant: Grant, tool: str, needed: Trust, *, taint: int = 0) -> Decision:
    """Return whether `grant` suffices for `tool`, which needs level `needed` plus `taint`.

    There are no proposals yet, so whatever lies above the level is refused.
    """
    level = min(needed + taint, Trust.HIGH_STAKES)
    if grant.level >= level:
        return Allow()
    if grant.frozen and level > Trust.NONE:
        return Refuse(
            f"{tool} is refused: {grant.principal} is frozen until a person lifts it (knowledge-forge trust grant)"
        )
    return Refuse(
        f"{tool} is refused: it needs trust level {int(level)} ({Trust(level).meaning}) and {grant.principal} holds "
        f"level {int(grant.level)}; a person can raise it with `knowledge-forge trust grant`"
    )
