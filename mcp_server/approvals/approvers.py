"""Deciding: what a person's word needs to count, and what follows from it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, Protocol

from knowledge.errors import KnowledgeError
from knowledge.state.ports import StateStore
from knowledge.trust.ports import Channel, Proposal
from mcp_server.approvals.proposals import principal_of
from mcp_server.gate.policy import Trust
from mcp_server.gate.trust.scores import grant_of, trust_record_of

WEAK: Final[Collection[Channel]] = ("host", "zulip")
"""Where a word counts below `LOWEST_SIGNED` only, and raises nobody's score. Some hosts accept every form by themselves; whoever
reacts in Zulip may have seen no more than that something waits, and any program with their key can do it, too."""
LOWEST_SIGNED = 4
"""From here on a passkey is asked for, once there is one: a program of the same account can imitate anything else."""

AdminAct = Literal[
    "trust.grant", "trust.thaw", "host.enrol", "host.forms", "passkey.add", "passkey.remove", "place.trust"
]

Requirement = Literal["word", "advisory", "passkey", "elsewhere"]
"""What it takes to decide here: a person's word; that too, but nothing proves that it was a person; a signature of a passkey;
nothing, because it cannot be decided here."""


class CannotDecide(KnowledgeError):
    """The word does not count here and now; the message says what to do instead. Nothing was changed."""


@dataclass(frozen=True, slots=True)
class Approver:
    """Who decides, and where. `signed` names the passkey whose signature over the proposal's hash was verified."""

    name: str
    channel: Channel
    signed: str = ""


def requirement(proposal: Proposal, channel: Channel, *, passkeys: bool) -> Requirement:
    """Return what it takes to approve `proposal` in `channel`; `passkeys`: at least one is enrolled. Pure.

    Rejecting takes a person's word, wherever it is said.
    """
    high = proposal.kind == "admin" or proposal.level_needed >= LOWEST_SIGNED
    if not high:
        return "word"
    if channel in WEAK or (channel == "terminal" and passkeys):
        return "elsewhere"
    return "passkey" if passkeys else "advisory"


async def require_trust(state: StateStore, proposal: Proposal, channel: Channel, *, now: datetime) -> None:
    """Do nothing if who proposed is still trusted enough for a yes to count: what was proposed before does not outlive that.

    What concerns trust itself is asked for by a person.

    Raises:
        CannotDecide: it is frozen; or it may not propose any more, and the word was said where it proves little.
    """
    if proposal.kind == "admin":
        return
    grant = grant_of(await trust_record_of(state, principal_of(proposal), now=now))
    if grant.frozen:
        raise CannotDecide(
            f"{proposal.principal} is frozen, so none of its proposals can be carried out: reject it, or lift the freeze first "
            "(knowledge-forge trust thaw)"
        )
    if channel in WEAK and grant.level < Trust.PROPOSE:
        what = "a form in that host" if channel == "host" else "a reaction in Zulip"
        raise CannotDecide(
            f"{proposal.principal} is no longer allowed to propose, so {what} has no effect: use the review page"
        )


class Approvals(Protocol):
    """Where people decide. Every method raises `CannotDecide` when the word does not count, and then nothing was changed."""

    async def approve(self, proposal_id: str, shown_hash: str, person: Approver, note: str = "") -> Proposal:
        """Approve what was shown (`proposal.hash`), carry it out, and return how it ended: executed, failed or superseded."""
        ...

    async def reject(
        self, proposal_id: str, shown_hash: str, person: Approver, note: str = "", *, harmful: bool = False
    ) -> Proposal:
        """Reject it; `harmful` also sets its principal's score to 0 and freezes it."""
        ...

    async def edit(self, proposal_id: str, arguments: Sequence[Mapping[str, Any]], person: Approver) -> Proposal:
        """Replace a pending proposal by one with these arguments (of each call), planned anew, and return the new one, pending.

        Raises:
            BadArguments: they do not fit.
        """
        ...

    async def ask(self, act: AdminAct, arguments: Mapping[str, Any], person: Approver) -> Proposal:
        """Return a pending proposal of kind `admin`, for an act on trust itself; whoever may approves it like any other."""
        ...

    async def distrust(self, place: str, person: Approver) -> bool:
        """Take back that a person vouches for the place; False if nobody does. Taking trust away needs nobody's signature.

        Raises:
            CannotDecide: it is no place.
        """
        ...

    async def freeze(self, principal: str, person: Approver, reason: str) -> None:
        """Set the principal's score to 0 until a person lifts it. Taking trust away needs nobody's signature."""
        ...

    async def forbid_forms(self, host: str, person: Approver) -> None:
        """Let forms that the host shows decide nothing from now on, which needs nobody's signature either."""
        ...
