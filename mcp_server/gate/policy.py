"""The policy: whether a call runs, waits for a person, or is refused. Pure: no clock, no store, no network."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum


class Trust(IntEnum):
    """Trust levels, each with what it allows."""

    NONE = 0
    READ = 1
    PROPOSE = 2
    EDIT = 3
    ROUTINE = 4
    HIGH_STAKES = 5

    @property
    def meaning(self) -> str:
        """The acts that the level allows, in a few words."""
        return _MEANINGS[self]


_MEANINGS = {
    Trust.NONE: "ask about itself",
    Trust.READ: "read",
    Trust.PROPOSE: "propose changes",
    Trust.EDIT: "edit, with every write checked",
    Trust.ROUTINE: "act on its own in routine matters",
    Trust.HIGH_STAKES: "act on its own in high-stakes matters",
}


ALWAYS = "trust"
"""The toolset that every credential reaches: a caller may ask about itself and its own proposals."""


@dataclass(frozen=True, slots=True)
class Reach:
    """What a token, or one of its scopes, allows: acts up to level `ceiling` with the tools of `toolsets`, None for all."""

    ceiling: Trust
    toolsets: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """How far a caller's credential reaches, whatever its trust. It only takes away: no credential raises trust.

    `why` ends the sentence that refuses a call because of these limits. `scoped`: a client can ask its sign-in server for more scopes.
    """

    reaches: tuple[Reach, ...]
    why: str
    scoped: bool = False

    def ceiling(self, toolset: str | None = None) -> Trust:
        """Return the highest level for tools of `toolset`, or of any toolset if that is None. Level 0: the toolset is out of reach."""
        reached = [
            one.ceiling
            for one in self.reaches
            if toolset in (None, ALWAYS) or one.toolsets is None or toolset in one.toolsets
        ]
        return max(reached, default=Trust.NONE)

    def allows(self, toolset: str) -> bool:
        """Return whether tools of that toolset are within reach at all."""
        return toolset == ALWAYS or self.ceiling(toolset) > Trust.NONE


@dataclass(frozen=True, slots=True)
class Grant:
    """The trust that a principal has at this moment. `limit` says why it is less than the principal's own, "" if it is not."""

    principal: str
    score: float
    frozen: bool
    limit: str = ""

    @property
    def level(self) -> Trust:
        """The level that the score reaches: 2.9 is level 2."""
        return Trust(int(self.score)) if not self.frozen else Trust.NONE


@dataclass(frozen=True, slots=True)
class Allow:
    """The call may run."""


@dataclass(frozen=True, slots=True)
class Propose:
    """The call needs a person's approval. `why` is one plain sentence for the person and the host.

    `places` are sources that the person could trust from now on, so that text from there no longer raises the level of acts.
    """

    why: str
    needed: Trust
    held: Trust
    places: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Refuse:
    """The call is refused; `why` is one plain sentence for the caller."""

    why: str


Decision = Allow | Propose | Refuse

POLICY = 1
"""The version of these rules. A proposal made under another version is not executed."""


def decide(grant: Grant, tool: str, needed: Trust, *, taint: str = "", person: str = "") -> Decision:
    """Decide on a call of `tool`, which needs level `needed`.

    From level 2 on, a caller may propose an act above its level; any other call above its level is refused.

    `taint` says why the call needs one level more, `person` why only a person can decide on it, whatever the caller's level.
    """
    # Nobody can be granted a level above 5, so requiring one would refuse the act for good.
    level = Trust(min(needed + (1 if taint else 0), Trust.HIGH_STAKES))
    if grant.level >= level and not person:
        return Allow()
    if grant.frozen:
        return Refuse(
            f"{tool} is refused: {grant.principal} is frozen until a person unfreezes it (knowledge-forge trust thaw)"
        )
    held = grant.level
    if level < Trust.PROPOSE or held < Trust.PROPOSE:
        lacking = _lacking(grant.principal, level, held, grant.limit)
        how = "" if grant.limit else "; a person can raise it with `knowledge-forge trust grant`"
        return Refuse(f"{tool} is refused: {lacking}{how}")
    why = (
        waiting(tool, grant.principal, level, held, grant.limit)
        if held < level
        else f"{tool} needs a person's approval"
    )
    if taint:
        why = f"{why}. {taint}, so this act needs level {int(level)}"
    return Propose(f"{why}. {person}" if person else why, level, held)


def limited(grant: Grant, limits: Limits | None, toolset: str | None = None) -> Grant:
    """Return the grant as far as a credential with these limits reaches for tools of `toolset`."""
    if limits is None or grant.level <= limits.ceiling(toolset):
        return grant
    return replace(grant, score=float(limits.ceiling(toolset)), limit=limits.why)


def waiting(tool: str, principal: str, needed: Trust, held: Trust, limit: str = "") -> str:
    """Return why a call of `tool` needs approval, in one plain sentence."""
    return f"{tool} needs a person's approval: {_lacking(principal, needed, held, limit)}"


def _lacking(principal: str, needed: Trust, held: Trust, limit: str) -> str:
    because = f", because {limit}" if limit else ""
    return f"it needs trust level {int(needed)} ({needed.meaning}) and {principal} has level {int(held)}{because}"
