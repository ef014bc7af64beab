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
    Trust.HIGH_STAKES: "act on its own in high-stakes matters",
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
class Propose:
    """The call waits for a person; `why` is one plain sentence for both, `needed` and `held` are levels.

    `places` are those for which a person could vouch, so that what was read there would hold nothing up.
    """

    why: str
    needed: Trust
    held: Trust
    places: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Refuse:
    """The call may not run; `why` is one plain sentence for the caller."""

    why: str


Decision = Allow | Propose | Refuse

POLICY = 1
"""The version of these rules; what was proposed under other rules is not carried out."""


def decide(grant: Grant, tool: str, needed: Trust, *, taint: str = "", person: str = "") -> Decision:
    """Return what becomes of a call of `tool`, which needs level `needed`, and one more if there is a `taint` (its reason).

    What lies above the level waits for a person, from level 2 on; a caller below level 2 is refused, and so is one that may
    not even read. What only a `person` decides (the reason) waits whatever the level is.
    """
    level = Trust(min(needed + (1 if taint else 0), Trust.HIGH_STAKES))
    if grant.level >= level and not person:
        return Allow()
    if grant.frozen:
        return Refuse(
            f"{tool} is refused: {grant.principal} is frozen until a person lifts it (knowledge-forge trust thaw)"
        )
    held = grant.level
    told = _lacking(grant.principal, level, held)
    if level < Trust.PROPOSE or held < Trust.PROPOSE:
        return Refuse(f"{tool} is refused: {told}; a person can raise it with `knowledge-forge trust grant`")
    why = waiting(tool, grant.principal, level, held) if held < level else f"{tool} needs a person's approval"
    if taint:
        why = f"{why}. {taint}, so this act needs level {int(level)}"
    return Propose(f"{why}. {person}" if person else why, level, held)


def waiting(tool: str, principal: str, needed: Trust, held: Trust) -> str:
    """Return why a call of `tool` waits for a person, in one plain sentence."""
    return f"{tool} needs a person's approval: {_lacking(principal, needed, held)}"


def _lacking(principal: str, needed: Trust, held: Trust) -> str:
    return f"it needs trust level {int(needed)} ({needed.meaning}) and {principal} has level {int(held)}"
