"""The requirements for a person's decision to count, and the interface through which people decide."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from knowledge.errors import KnowledgeError
from knowledge.state.ports import StateStore
from knowledge.trust.ports import Channel, Passkey, Proposal, TrustRecords
from mcp_server.approvals.proposals import principal_of
from mcp_server.approvals.views.present import PATIENCE_S, Present
from mcp_server.gate.host_registration import is_signed_in
from mcp_server.gate.policy import Trust
from mcp_server.gate.trust.people import PeopleAct
from mcp_server.gate.trust.scores import grant_of, trust_record_of

if TYPE_CHECKING:
    from knowledge.writing.undo.past_act import PastAct, Take
    from knowledge.writing.undo.undo import UndoDone, UndoPlan

WEAK: Final[Collection[Channel]] = ("host", "zulip")
"""Channels whose decisions count only below `LOWEST_SIGNED` and raise no score. Some hosts accept every form by themselves.
Somebody who reacts in Zulip may not have read the proposal, and any program that has their key can react, too."""
LOWEST_SIGNED = 4
"""From this level on a passkey is required if one is registered: a program of the same account can imitate anything else."""

AdminAct = Literal[
    "trust.grant",
    "trust.thaw",
    "host.enrol",
    "host.forms",
    "token.create",
    "passkey.add",
    "passkey.remove",
    "place.trust",
    "person.login",
    PeopleAct,
]

Requirement = Literal["word", "advisory", "passkey", "elsewhere"]
"""The requirement for deciding in a channel: a person's decision; a decision that nothing proves to be a person's; a
passkey's signature; or no decision is possible there."""


class CannotDecide(KnowledgeError):
    """The decision doesn't count in this channel or state; the message says what to do instead. Nothing was changed."""


@dataclass(frozen=True, slots=True)
class Approver:
    """The person who decides, and where. `signed` is the passkey whose signature over the proposal's hash was verified.

    `principal` is the person's principal, if that is not `NAME@CHANNEL`.
    """

    name: str
    channel: Channel
    signed: str = ""
    principal: str = ""

    @property
    def principal_id(self) -> str:
        """The principal of the person who decides.

        On the site it is the principal of their login, such as `8f1c@corp:http` or `ada@page`.
        """
        # Somebody who logged in at a sign-in server has the name of their principal.
        return self.principal or (self.name if self.signed_in else f"{self.name}@{self.channel}")

    @property
    def signed_in(self) -> bool:
        """Whether the person logged in on the site with a sign-in server. Their name is that of their principal over MCP."""
        return self.channel == "page" and is_signed_in(self.name)


async def own_passkeys(trust: TrustRecords, user: str) -> Sequence[Passkey]:
    """Return the passkeys that sign for this user: the owner's if it is an account of the server's machine, otherwise their own."""
    found = await trust.passkeys()
    return [one for one in found if (one.user == user if is_signed_in(user) else not is_signed_in(one.user))]


async def must_sign(trust: TrustRecords, user: str) -> bool:
    """Return whether a passkey has to sign this user's approvals from `LOWEST_SIGNED` on.

    The owner's word counts until they have a passkey. Everybody else needs one: only the owner can be asked at the machine.
    """
    return is_signed_in(user) or bool(await own_passkeys(trust, user))


def requirement(proposal: Proposal, channel: Channel, *, passkeys: bool) -> Requirement:
    """Return the requirement for approving `proposal` in `channel`; `passkeys` says whether one must sign.

    A rejection counts in every channel. Pure.
    """
    level = Trust.HIGH_STAKES if proposal.kind == "admin" else proposal.level_needed
    return requirement_at(level, channel, passkeys=passkeys)


def requirement_at(level: int, channel: Channel, *, passkeys: bool) -> Requirement:
    """Return the requirement for an act that needs this level, like `requirement` for a proposal. Pure."""
    if level < LOWEST_SIGNED:
        return "word"
    if channel in WEAK or (channel == "terminal" and passkeys):
        return "elsewhere"
    return "passkey" if passkeys else "advisory"


async def require_trust(state: StateStore, proposal: Proposal, channel: Channel, *, now: datetime) -> None:
    """Check that the principal that proposed is still trusted enough for an approval to count.

    Raises:
        CannotDecide: it is frozen; or it is no longer allowed to propose, and the channel is a weak one.
    """
    # Acts on trust are requested by a person, who has no trust record.
    if proposal.kind == "admin":
        return
    grant = grant_of(await trust_record_of(state, principal_of(proposal), now=now))
    if grant.frozen:
        raise CannotDecide(
            f"{proposal.principal} is frozen, so none of its proposals can be executed: reject it, or lift the freeze first "
            "(knowledge-forge trust thaw)"
        )
    if channel in WEAK and grant.level < Trust.PROPOSE:
        what = "a form in that host" if channel == "host" else "a reaction in Zulip"
        raise CannotDecide(
            f"{proposal.principal} is no longer allowed to propose, so {what} has no effect: use the review page"
        )


class Approvals(Protocol):
    """How people decide. Every method raises `CannotDecide` if the decision doesn't count; then nothing was changed."""

    async def approve(self, proposal_id: str, shown_hash: str, person: Approver, note: str = "") -> Proposal:
        """Approve the proposal as shown (`proposal.hash`), execute it, and return it: executed, failed or superseded."""
        ...

    async def why_barred(self, proposal: Proposal, person: Approver) -> str:
        """Return why others than this person decide on the proposal, as the end of a sentence; "" if this person may."""
        ...

    async def reject(
        self, proposal_id: str, shown_hash: str, person: Approver, note: str = "", *, harmful: bool = False
    ) -> Proposal:
        """Reject the proposal; `harmful` also sets the score of every principal that asks for it to 0 and freezes it."""
        ...

    async def request_changes(self, proposal_id: str, shown_hash: str, person: Approver, comment: str) -> Proposal:
        """Close the proposal with a comment for the host, which says what to change. Its trust stays as it is."""
        ...

    async def edit(self, proposal_id: str, arguments: Sequence[Mapping[str, Any]], person: Approver) -> Proposal:
        """Replace a pending proposal by one with these arguments, one set for each call, and return the new one, pending.

        Raises:
            BadArguments: they don't fit the tool.
        """
        ...

    async def present(self, proposal: Proposal, *, patience_s: float = PATIENCE_S) -> Present | None:
        """Return a pending proposal's present state if a page that it depends on has changed; else None. Changes nothing.

        Planning takes at most `patience_s`.
        """
        ...

    async def renew(self, proposal_id: str, shown_hash: str, person: Approver) -> Proposal:
        """Replace a pending proposal by one with the effect that its calls have now, and return the new one, pending."""
        ...

    async def propose_again(self, proposal_id: str, person: Approver, why: str) -> Proposal:
        """Propose the calls of a rejected proposal again, for everyone who asked. The new proposal has their present effect."""
        ...

    async def ask(self, act: AdminAct, arguments: Mapping[str, Any], person: Approver) -> Proposal:
        """Return a pending proposal of kind `admin`, for an act on trust itself. It is approved like any other."""
        ...

    async def keep(self, journey: str, path: str, base_revision: str | None, person: Approver) -> Mapping[str, Any]:
        """Merge the result of a journey into a page through the gate, and return the tool's answer, which may be a proposal.

        `base_revision` is the revision of the page that the person sees, None for a new page.
        """
        ...

    async def write(
        self,
        path: str,
        text: str,
        base_revision: str | None,
        person: Approver,
        *,
        intent: str = "",
        dry_run: bool = False,
    ) -> Mapping[str, Any]:
        """Merge a person's text of a whole page into it through the gate, as `USER@page`, and return the answer of kb_merge.

        `base_revision` is the one that the text was made from, None for a new page. The answer may be a proposal.
        """
        ...

    async def plan_undo(
        self, acts: Sequence[PastAct], person: Approver, *, take: Take = "", take_at: Mapping[str, Take] | None = None
    ) -> UndoPlan:
        """Return what taking these acts back would do: pages with diffs, and conflicts with both sides.

        Changes nothing. `services.undo` finds the acts: `of_page`, `of_change`, `of_host`. `take` is the side for all
        conflicts. `take_at` has the sides for single conflicts by id, or for all conflicts of a page by path.
        """
        ...

    async def undo(self, plan: UndoPlan, person: Approver) -> UndoDone:
        """Take the acts back as planned, as one act of this person. `UndoDone.change` names it, so that it can be undone in turn.

        Raises:
            EffectChanged: by now it would do something else than planned. Plan it again.
            CannotDecide: it takes a passkey. `ask_undo` makes the proposal to sign.
        """
        ...

    async def ask_undo(self, plan: UndoPlan, person: Approver) -> Proposal:
        """Return a pending proposal of kind `admin` for the undo, which is approved like any other."""
        ...

    async def distrust(self, place: str, person: Approver) -> bool:
        """Stop trusting the place; False if it wasn't trusted. Removing trust needs no signature.

        Raises:
            CannotDecide: it is not a place.
        """
        ...

    async def freeze(self, principal: str, person: Approver, reason: str) -> None:
        """Set the principal's score to 0 until a person thaws it. Removing trust needs no signature."""
        ...

    async def revoke_token(self, token_id: str, person: Approver) -> bool:
        """Make a bearer token invalid; False if it wasn't valid before. Removing trust needs no signature."""
        ...

    async def forbid_forms(self, host: str, person: Approver) -> None:
        """Stop counting forms that the host shows. Removing trust needs no signature."""
        ...
