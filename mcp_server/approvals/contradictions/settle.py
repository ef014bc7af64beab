"""A person settles a contradiction, on the page or in a terminal; the proposals that this answers are closed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from knowledge.contradictions.settlement import CHOICES, Choice, ContradictionNow, Settled
from knowledge.history.ports import Flag
from knowledge.merge.model import Ruling
from knowledge.pages.claim_source import FETCHED_KINDS, source_kind
from mcp_server.approvals.approvers import Approvals, Approver, CannotDecide, must_sign, requirement
from mcp_server.approvals.contradictions.claims import (
    answer_claims,
    both_hold,
    pending_claims,
    renew_claims,
    settled_note,
)
from mcp_server.approvals.reviewers.deciders import require_pages
from mcp_server.gate.taint import origin_of
from mcp_server.ports import WebServices


@dataclass(frozen=True, slots=True)
class SettledContradiction:
    """A contradiction that a person settled or reopened, and the ids of the proposals that this answered.

    `renewed` are the proposals that wait again because it was reopened; `not_renewed` says why others can't, by their ids.
    """

    settled: Settled
    closed: Sequence[str] = ()
    renewed: Sequence[str] = ()
    not_renewed: Mapping[str, str] = field(default_factory=dict)


class ContradictionDecisions:
    """The decisions of one person on contradictions. All of them can be taken back with `reopen`."""

    def __init__(self, services: WebServices, approvals: Approvals, person: Approver) -> None:
        self._services, self._approvals, self._person = services, approvals, person
        self._by = f"{person.name} ({person.channel})"

    async def keep(self, flag_id: int, choice: Choice, *, shown: str | None = None) -> SettledContradiction:
        """Keep one side, as `Settlements.keep` does.

        Raises:
            CannotDecide: it would write text that is not trusted, and a passkey is registered. Nothing was changed.
        """
        flag = await self._services.contradictions.one(flag_id)
        await self._require_pages(flag)
        await self._require_trusted(await self._services.settlements.look(flag), choice)
        done = await self._services.settlements.keep(flag_id, choice, by=self._by, shown=shown)
        return await self._answered(
            done, "the existing text was kept" if choice == CHOICES[0] else "the new text was kept"
        )

    async def edit(self, flag_id: int, texts: Mapping[int, str], *, shown: str | None = None) -> SettledContradiction:
        """Write blocks of its pages, as `Settlements.edit` does."""
        await self._require_pages(await self._services.contradictions.one(flag_id))
        done = await self._services.settlements.edit(flag_id, texts, by=self._by, shown=shown)
        return await self._answered(done, f"a person edited {' and '.join(done.pages)}")

    async def dismiss(self, flag_id: int, ruling: Ruling, reason: str) -> SettledContradiction:
        """Dismiss it: both statements hold, or the existing one does.

        The proposals of the new one are closed in both cases: approved, they would write it in place of the existing one.
        """
        await self._require_pages(await self._services.contradictions.one(flag_id))
        flag = await self._services.contradictions.dismiss(flag_id, ruling, by=self._by, reason=reason)
        done = Settled(flag, "", ())
        return await self._answered(done, both_hold(reason) if ruling == "both" else reason)

    async def reopen(self, flag_id: int) -> SettledContradiction:
        """Take a decision back, as `Settlements.undo` does, and propose again what it had closed."""
        await self._require_pages(await self._services.contradictions.found(flag_id))
        done = await self._services.settlements.undo(flag_id, by=self._by)
        return await self._renewed(done)

    async def propose_again(self, flag_id: int) -> SettledContradiction:
        """Propose again what a settlement of this open contradiction had closed.

        Raises:
            CannotDecide: nothing is closed, or none of it can be proposed again.
        """
        flag = await self._services.contradictions.one(flag_id)
        again = await self._renewed(Settled(flag, "", ()))
        if not again.renewed:
            whys = "; ".join(f"{one}: {why}" for one, why in again.not_renewed.items())
            raise CannotDecide(whys or f"contradiction {flag_id} has no closed proposal")
        return again

    async def _renewed(self, done: Settled) -> SettledContradiction:
        renewed, failed = await renew_claims(self._services.state, self._approvals, done.flag, self._person)
        return SettledContradiction(done, renewed=renewed, not_renewed=failed)

    async def _require_pages(self, flag: Flag) -> None:
        """Check that the person may decide about both pages.

        Raises:
            CannotDecide: a rule of a folder or its reviewers leave them out. Nothing was changed.
        """
        sides = (flag.contradiction.existing.path, flag.contradiction.new.path)
        await require_pages(self._services.state, sides, self._person)

    async def _require_trusted(self, now: ContradictionNow, choice: Choice) -> None:
        """Check that the person's word is enough to write the statement that they keep.

        Text that is not trusted raises the level of an act by one. From level 4 on a registered passkey has to sign, and only
        proposals can be signed.

        Raises:
            CannotDecide: it is not.
        """
        if not now.keeps[choice].pages or not await must_sign(self._services.state.trust, self._person.name):
            return
        for claim in await pending_claims(self._services.state, now.flag.contradiction):
            needed = requirement(claim.proposal, self._person.channel, passkeys=True)
            if choice == CHOICES[1] and needed in ("passkey", "elsewhere"):
                raise CannotDecide(
                    f"writing the second statement needs level {claim.proposal.level_needed}: sign {claim.proposal.id} with a "
                    "passkey on the review page, or edit the text yourself"
                )
        if origin := await self._untrusted_origin(now, choice):
            raise CannotDecide(
                f"the {choice} statement comes from {origin}, whose text is not trusted, so writing it needs level 4 and a "
                "passkey, which can't sign this: edit the text yourself"
            )

    async def _untrusted_origin(self, now: ContradictionNow, choice: Choice) -> str:
        """Return the origin of the kept statement if its text is not trusted and the other page is not marked; "" otherwise."""
        number = CHOICES.index(choice)
        kept, other = now.sides[number].side, now.sides[1 - number].side
        tiers = self._services.tiers
        if now.sides[number].places:
            source = await tiers.tainted(kept.path)
        else:
            source = kept.source if source_kind(kept.source) in FETCHED_KINDS else None
        if source is None or await tiers.tainted(other.path) is not None:
            return ""
        origin = origin_of(kept.path, source)
        return origin if await self._services.taints.counted({origin: self._services.now()}) else ""

    async def _answered(self, done: Settled, what: str) -> SettledContradiction:
        note = f"{settled_note(done.flag.id)}{what}"
        found = done.flag.contradiction
        return SettledContradiction(
            done, await answer_claims(self._services.state, self._approvals, found, self._person, note)
        )
