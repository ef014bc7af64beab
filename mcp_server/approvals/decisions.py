"""Records a person's decision, if it counts, and carries out its consequences."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from knowledge.errors import ProposalSettled
from knowledge.trust.ports import Note, Proposal, ProposalVerdict, TrustRecords
from mcp_server.approvals.approvers import (
    WEAK,
    AdminAct,
    Approver,
    CannotDecide,
    must_sign,
    require_trust,
    requirement,
)
from mcp_server.approvals.contradictions.claims import answer_claims, both_hold, settled_note
from mcp_server.approvals.proposal_executor import ProposalExecutor
from mcp_server.approvals.proposals import ProposalDraft, Proposing, calls_of, hash_of, of_its_run, principal_of
from mcp_server.approvals.reviewers.deciders import paths_of, require_pages, why_barred
from mcp_server.approvals.undo import person_undo
from mcp_server.approvals.views.askers import of_each_asker
from mcp_server.approvals.views.present import PATIENCE_S, Present
from mcp_server.approvals.views.replan import present
from mcp_server.gate.caller import Call
from mcp_server.gate.dispatch import CallFailed, UnknownTool
from mcp_server.gate.host_registration import forms_count
from mcp_server.gate.policy import POLICY, Trust
from mcp_server.gate.trust import admin
from mcp_server.gate.trust.scores import count, freeze
from mcp_server.ports import AllServices

if TYPE_CHECKING:
    from knowledge.writing.undo.past_act import PastAct, Take
    from knowledge.writing.undo.undo import UndoDone, UndoPlan


class Decisions:
    """How people decide: they approve, reject, edit, and ask for acts on trust. See `Approvals`."""

    def __init__(
        self, proposal_executor: ProposalExecutor, proposing: Proposing, *, prevent_self_review: bool = False
    ) -> None:
        """`prevent_self_review`: nobody decides on what their own hosts ask for."""
        self._executor, self._proposing = proposal_executor, proposing
        self._prevent_self_review = prevent_self_review

    @property
    def _services(self) -> AllServices:
        return self._executor.services

    @property
    def _seen(self) -> AllServices:
        """The services as the person who decides may use them: on the site that person is bound as the caller."""
        return self._executor.for_callers

    @property
    def _trust(self) -> TrustRecords:
        return self._services.state.trust

    async def approve(self, proposal_id: str, shown_hash: str, person: Approver, note: str = "") -> Proposal:
        """Approve the proposal as shown, execute it, and return it.

        Raises:
            CannotDecide: the decision doesn't count here and now. Nothing was changed.
        """
        proposal = await self._pending(proposal_id, shown_hash)
        await self._require_decider(proposal, person)
        advisory = await self._require(proposal, person)
        await require_trust(self._services.state, proposal, person.channel, now=self._services.now())
        if proposal.policy != POLICY:
            raise CannotDecide(f"{proposal_id} was proposed under older trust rules; it must be proposed again")
        verdict = ProposalVerdict(
            approved=True,
            by=person.name,
            channel=person.channel,
            at=self._services.now(),
            hash=shown_hash,
            note=note,
            signed=person.signed,
            advisory=advisory,
        )
        # The store decides only a pending proposal, in one statement. Somebody may have decided since it was read above.
        if await self._trust.decide(proposal_id, verdict) is None:
            raise CannotDecide(await self._why_not(proposal_id))
        # A weak channel proves no person: a host that answers its own forms must not raise its own score.
        if person.channel not in WEAK and proposal.kind == "call":
            await self._count(proposal, person, approved=True)
        done = await self._executor.carry_out(proposal_id)
        if done.state == "executed" and done.tool == "kb_dismiss":
            await self._answer_claims(done, person)
        return done

    async def _answer_claims(self, dismissal: Proposal, person: Approver) -> None:
        """Close the proposals of a claim if a person approved that both it and the existing statement hold."""
        call = calls_of(dismissal)[-1]
        flag = await self._services.state.ledger.flag(int(call["contradiction_id"]))
        if flag is not None and flag.dismissal is not None:
            note = f"{settled_note(flag.id)}{both_hold(flag.dismissal.reason)}"
            await answer_claims(self._services.state, self, flag.contradiction, person, note)

    async def request_changes(self, proposal_id: str, shown_hash: str, person: Approver, comment: str) -> Proposal:
        """Close the proposal with a comment that says what the host should change. Nothing is applied.

        The host's trust stays as it is, and contradictions of the proposal stay open.

        Raises:
            CannotDecide: it is no longer pending, the comment is empty, or a person asked for it. Nothing was changed.
        """
        proposal = await self._pending(proposal_id, shown_hash)
        await self._require_decider(proposal, person)
        if proposal.kind == "admin":
            raise CannotDecide(f"{proposal_id} was requested by a person, so there is no host to change it: reject it")
        if not comment.strip():
            raise CannotDecide("say what the host should change: the comment is empty")
        verdict = ProposalVerdict(
            approved=False,
            by=person.name,
            channel=person.channel,
            at=self._services.now(),
            hash=shown_hash,
            note=comment,
            changes=True,
        )
        closed = await self._trust.decide(proposal_id, verdict)
        if closed is None:
            raise CannotDecide(await self._why_not(proposal_id))
        return closed

    async def reject(
        self, proposal_id: str, shown_hash: str, person: Approver, note: str = "", *, harmful: bool = False
    ) -> Proposal:
        """Reject the proposal; `harmful` also removes all trust from every principal that asks for it.

        Raises:
            CannotDecide: it is no longer pending, or the decision doesn't count here. Nothing was changed.
        """
        proposal = await self._pending(proposal_id, shown_hash)
        await self._require_decider(proposal, person)
        # Neither a passkey nor the principal's trust is checked: a rejection only takes something away.
        verdict = ProposalVerdict(
            approved=False, by=person.name, channel=person.channel, at=self._services.now(), hash=shown_hash, note=note
        )
        rejected = await self._trust.decide(proposal_id, verdict)
        if rejected is None:
            raise CannotDecide(await self._why_not(proposal_id))
        asked = await of_each_asker(self._trust, proposal)
        if harmful:
            # A freeze sets the score to 0, so the rejection is not counted besides.
            for one in asked:
                await self.freeze(one.principal, person, f"{proposal_id} was marked harmful: {note}".rstrip(": "))
        elif proposal.kind == "call":
            await self._count(proposal, person, approved=False)
        if proposal.kind == "flag":
            for one in asked:
                await self._executor.dismiss(one, by=f"{person.name} ({person.channel})", reason=note)
        return rejected

    async def edit(self, proposal_id: str, arguments: Sequence[Mapping[str, Any]], person: Approver) -> Proposal:
        """Replace a pending proposal by one with these arguments, and return the new one.

        Raises:
            CannotDecide: it is no longer pending, or its kind can't be edited.
            BadArguments: they don't fit the tool.
        """
        proposal = await self._pending(proposal_id)
        if proposal.kind != "call" or not arguments:
            raise CannotDecide(f"{proposal_id} cannot be edited; reject it and say why")
        await self._require_decider(proposal, person)
        await self._require_equal(proposal)
        edited = replace(proposal, arguments=json.dumps(list(arguments)))
        planned = await self._executor.plan(edited)
        if planned.shown.changes_nothing:
            raise CannotDecide("with these arguments nothing would change")
        why = f"{proposal.why}; edited by {person.name}"
        # An edit must not make the proposal easier to approve than it was.
        needed = max(proposal.level_needed, int(planned.spec.level_for(planned.plan)))
        draft = ProposalDraft("call", arguments, planned.shown, needed, proposal.level_held, why, origin=proposal_id)
        spec = planned.spec
        call = of_its_run(planned.call, proposal)
        try:
            return await self._proposing.put(spec.name, spec.definition_hash, call, draft, replacing=[proposal_id])
        except ProposalSettled:  # somebody decided while this was planned
            raise CannotDecide(await self._why_not(proposal_id)) from None

    async def present(self, proposal: Proposal, *, patience_s: float = PATIENCE_S) -> Present | None:
        """Return a pending proposal's present state if a page that it depends on has changed; else None. Changes nothing.

        Planning takes at most `patience_s`.
        """
        return await present(self._executor, proposal, patience_s=patience_s)

    async def renew(self, proposal_id: str, shown_hash: str, person: Approver) -> Proposal:
        """Replace a pending proposal by one with the effect that its calls have now, and return the new one.

        Raises:
            CannotDecide: it is no longer pending, has the same effect as before, or can no longer be made.
        """
        proposal = await self._pending(proposal_id, shown_hash)
        if proposal.kind == "admin":
            raise CannotDecide(f"{proposal_id} rests on no page")
        await self._require_equal(proposal)
        try:
            return await self._executor.renew(proposal, by=person.name)
        except ProposalSettled:  # somebody decided while this was planned
            raise CannotDecide(await self._why_not(proposal_id)) from None

    async def propose_again(self, proposal_id: str, person: Approver, why: str) -> Proposal:
        """Propose the calls of a rejected proposal again, for everyone who asked.

        The new proposal has their present effect.

        Raises:
            CannotDecide: it was not rejected, its host is frozen, or nothing would change. Nothing was proposed.
            BadArguments, KnowledgeError: its calls are no longer possible.
        """
        proposal = await self._executor.found(proposal_id)
        if proposal.state != "rejected" or proposal.kind == "admin":
            raise CannotDecide(f"{proposal_id} can't be proposed again, because it was not rejected")
        await self._require_equal(proposal)
        await require_trust(self._services.state, proposal, person.channel, now=self._services.now())
        return await self._executor.propose_again(proposal, why)

    async def ask(self, act: AdminAct, arguments: Mapping[str, Any], person: Approver) -> Proposal:
        """Return a pending proposal for an act on trust itself.

        Raises:
            CannotDecide: the act is not possible.
        """
        shown = await admin.shown(self._services, act, arguments)
        principal = admin.asking(person)
        why = f"requested by {person.name}; acts on trust itself need the highest level"
        draft = ProposalDraft("admin", [arguments], shown, int(Trust.HIGH_STAKES), 0, why)
        return await self._proposing.put(act, admin.definition(act), Call(principal), draft)

    async def keep(self, journey: str, path: str, base_revision: str | None, person: Approver) -> Mapping[str, Any]:
        """Merge the result of a journey into a page through the gate, and return the tool's answer, which may be a proposal.

        Raises:
            CannotDecide: the call was refused, or failed.
        """
        arguments = {"path": path, "source": f"journey:{journey}", "intent": f"result of {journey}"}
        if base_revision is not None:
            arguments["base_revision"] = base_revision
        outcome = await self._executor.call("kb_merge", arguments, admin.asking(person))
        if isinstance(outcome, CallFailed):
            raise CannotDecide(outcome.why)
        return outcome.content

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
        """Merge a person's text of a whole page into it through the gate, as that person, and return the tool's answer.

        Raises:
            CannotDecide: the call was refused, failed, or pages can't be written with these settings.
        """
        arguments: dict[str, Any] = {
            "path": path,
            "content": text,
            "source": "user",
            "intent": intent,
            "dry_run": dry_run,
        }
        if base_revision is not None:
            arguments |= {"base_revision": base_revision, "section": "*"}
        try:
            outcome = await self._executor.call("kb_merge", arguments, admin.asking(person))
        except UnknownTool:
            raise CannotDecide(
                "this server only reads pages (FORGE_READ_ONLY, FORGE_TOOLSETS), so they can't be edited here"
            ) from None
        if isinstance(outcome, CallFailed):
            raise CannotDecide(outcome.why)
        return outcome.content

    async def plan_undo(
        self, acts: Sequence[PastAct], person: Approver, *, take: Take = "", take_at: Mapping[str, Take] | None = None
    ) -> UndoPlan:
        """Return what taking these acts back would do. Changes nothing."""
        return await person_undo.plan_undo(self._seen, acts, person, take, take_at or {})

    async def undo(self, plan: UndoPlan, person: Approver) -> UndoDone:
        """Take the acts back as planned, as one act of this person.

        Raises:
            CannotDecide: it takes a passkey, or others decide about a page. Nothing was changed.
        """
        await require_pages(self._services.state, paths_of(plan.files), person)
        return await person_undo.undo(self._seen, plan, person)

    async def ask_undo(self, plan: UndoPlan, person: Approver) -> Proposal:
        """Return a pending proposal for the undo."""
        draft = await person_undo.draft_of(self._seen, plan, person)
        definition = admin.definition(person_undo.UNDO_PAGES)
        return await self._proposing.put(person_undo.UNDO_PAGES, definition, Call(admin.asking(person)), draft)

    async def distrust(self, place: str, person: Approver) -> bool:
        """Stop trusting the place; False if it wasn't trusted.

        Raises:
            CannotDecide: it is not a place.
        """
        known = admin.checked_place(place)
        note = Note(person.name, "place.distrust", known, self._services.now())
        return await self._trust.distrust_place(known, note=note)

    async def freeze(self, principal: str, person: Approver, reason: str) -> None:
        """Remove all trust from the principal until a person thaws it."""
        await freeze(self._services.state, principal, by=person.name, now=self._services.now(), reason=reason)

    async def revoke_token(self, token_id: str, person: Approver) -> bool:
        """Make a bearer token invalid; False if there is none with that id, or it was revoked before."""
        return await self._trust.revoke_token(
            token_id, note=Note(person.name, "token.revoke", token_id, self._services.now())
        )

    async def forbid_forms(self, host: str, person: Approver) -> None:
        """Stop counting forms that the host shows."""
        state, now = self._services.state, self._services.now()
        for enrolment in await state.enrolments():
            if enrolment.host == host:
                note = Note(person.name, "host.forms", host, now, "forms decide nothing")
                await state.trust.allow_forms(host, enrolment.secret_digest, allowed=False, note=note)

    async def _require(self, proposal: Proposal, person: Approver) -> bool:
        """Check that the decision counts in its channel, and return whether it is only advisory.

        Raises:
            CannotDecide: it doesn't count.
        """
        wanted = requirement(proposal, person.channel, passkeys=await must_sign(self._trust, person.name))
        if wanted == "elsewhere":
            raise CannotDecide(
                f"{proposal.id} needs level {proposal.level_needed}: it is decided on the review page "
                "(knowledge-forge review --web)"
            )
        if wanted == "passkey" and not person.signed:
            raise CannotDecide(
                f"{proposal.id} needs level {proposal.level_needed}: sign it with a passkey on the review page"
            )
        return wanted == "advisory"

    async def why_barred(self, proposal: Proposal, person: Approver) -> str:
        """Return why others than this person decide on the proposal, as the end of a sentence; "" if this person may."""
        return await why_barred(self._services.state, proposal, person, prevent_self_review=self._prevent_self_review)

    async def _require_decider(self, proposal: Proposal, person: Approver) -> None:
        """Check that this is somebody who may decide on the proposal.

        Raises:
            CannotDecide: it has other reviewers, this person's own host asks for it, or a form in the host doesn't count: a client can
                answer its own forms.
        """
        if why := await self.why_barred(proposal, person):
            raise CannotDecide(f"you can't decide on {proposal.id}: {why}")
        if person.channel == "host" and not await forms_count(self._services.state, principal_of(proposal)):
            raise CannotDecide(
                f"a form in {proposal.principal} has no effect: the host is not registered, or forms are not allowed for it "
                "(knowledge-forge trust forms NAME on)"
            )

    async def _require_equal(self, proposal: Proposal) -> None:
        """Check that this person may have the proposal planned again: that is done with the pages that its principal may read.

        Raises:
            CannotDecide: the person may not read them all. Nothing was planned.
        """
        if not await self._seen.may_see_work_of(proposal.principal):
            raise CannotDecide(
                f"{proposal.principal} may read pages that you may not, so you can't have {proposal.id} planned again: approve it, "
                "reject it, or request changes"
            )

    async def _pending(self, proposal_id: str, shown_hash: str | None = None) -> Proposal:
        proposal = await self._seen.state.trust.proposal(proposal_id)
        if proposal is None or proposal.state != "pending":
            raise CannotDecide(await self._why_not(proposal_id))
        # Both, because a row that was edited in the database no longer matches its own hash.
        if shown_hash is not None and (proposal.hash != shown_hash or hash_of(proposal) != proposal.hash):
            raise CannotDecide(f"{proposal_id} has changed since it was shown; look at it again")
        return proposal

    async def _why_not(self, proposal_id: str) -> str:
        proposal = await self._seen.state.trust.proposal(proposal_id)
        if proposal is None:
            return f"there is no proposal {proposal_id[:40]!r}"
        if proposal.state == "pending":
            return f"{proposal_id} has expired, or has changed since it was shown"
        after = f" by {proposal.successor}" if proposal.successor else ""
        return f"{proposal_id} is no longer pending: it is {proposal.state}{after}"

    async def _count(self, proposal: Proposal, person: Approver, *, approved: bool) -> None:
        now = self._services.now()
        await count(
            self._services.state, proposal.principal, approved=approved, by=person.name, proposal=proposal.id, now=now
        )
