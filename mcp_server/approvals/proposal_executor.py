"""Executes exactly what was approved, and only once, even if processes die while executing it."""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import anyio

from knowledge.errors import EffectChanged, KnowledgeError, NotOpen, ProposalSettled, StorageError
from knowledge.history.acts import APPROVED_BY
from knowledge.history.ports import Flag, Settlement
from knowledge.offload import CALLER
from knowledge.trust.ports import LONGEST_CLAIM_S, Proposal, ProposalLine, ProposalVerdict, State, TrustRecords
from mcp_server.approvals.approvers import CannotDecide, require_trust
from mcp_server.approvals.contradictions.claims import MOST_FLAGS, is_claim_of
from mcp_server.approvals.proposals import (
    AGAINST,
    ProposalDraft,
    Proposing,
    calls_of,
    doubts_in,
    hash_of,
    of_its_run,
    places_of,
    principal_of,
    repeats_in,
    run_of,
    with_plain_answer,
)
from mcp_server.approvals.undo import person_undo
from mcp_server.approvals.views.askers import of_each_asker
from mcp_server.approvals.views.present import CHANGED
from mcp_server.approvals.wait import until
from mcp_server.gate.caller import Call
from mcp_server.gate.dispatch import Gate, Outcome, crashed
from mcp_server.gate.host_registration import Principal
from mcp_server.gate.journey_hook import JourneyHook
from mcp_server.gate.trust import admin
from mcp_server.gate.trust.folder_rights import require_right
from mcp_server.late_module import LateModule
from mcp_server.ports import AllServices
from mcp_server.toolsets.registry import declared
from mcp_server.toolsets.spec import AnySpec, BadArguments, CallPlan, CallPreview, CallsDoNotJoin

if TYPE_CHECKING:
    from knowledge.writing import requests
    from knowledge.writing.requests import Approval
else:
    requests = LateModule("knowledge.writing.requests")  # takes 60 ms to load, and is needed after an approval only

logger = logging.getLogger("knowledge_forge.gate")

LEASE_S = LONGEST_CLAIM_S
"""How long one process has to execute a proposal before another one checks on it."""
PATIENCE_S = 30.0
"""How long the approving process waits for another one that began first."""
HANDED_S = 10.0
"""How long the approving process waits if only another one can execute the proposal, which may not be running."""
UNSURE = "it is not known whether this was done: the process died while doing it. Check, and propose it again if it was not done"
LEFT = "no server connected to its service has run since; propose it again if you still want it"
DONE_ALREADY = "already applied, or the page has changed since"
UNSURE_AT = "it is not known whether this was done: {why}. {next}"
LOOK_THERE = "Look at {where}, and propose it again if it was not done"
PROPOSE_AGAIN = "Propose it again if it is not"
WHERE: Final = ("url", "place", "key", "path")
"""Fields of an answer that say where to look, the most useful first."""
TAMPERED = "the stored proposal differs from the one that was decided; nothing was done"


@dataclass(frozen=True, slots=True)
class Planned:
    """A proposal's calls, planned against the current state."""

    spec: AnySpec
    call: Call
    asked: Any
    plan: CallPlan[Any]

    @property
    def shown(self) -> CallPreview:
        """The preview, its answer as plain JSON."""
        if self.plan.preview is None:
            raise TypeError(f"{self.spec.name} made no preview")
        return with_plain_answer(self.spec, self.plan.preview)

    def is_as(self, proposal: Proposal) -> bool:
        """Return whether the effect is the one that was proposed and needs no higher level."""
        return self.shown.effect == proposal.effect and int(self.spec.level_for(self.plan)) <= proposal.level_needed


class ProposalExecutor:
    """Executes approved proposals.

    `services` are those of the server itself, so a caller's rights limit neither its records nor who decides. Calls are
    planned with `for_callers`, which show only what the present caller may read. `recover` finishes acts that dead
    processes left half done, so that an act that did happen is recorded before it is repeated.
    """

    def __init__(
        self,
        gate: Gate,
        proposing: Proposing,
        services: AllServices,
        for_callers: AllServices,
        *,
        runner: str,
        recover: Callable[[], Awaitable[None]],
    ) -> None:
        self.services, self.for_callers = services, for_callers
        self._gate, self._proposing, self._runner, self._recover = gate, proposing, runner, recover
        self._journey_hook = JourneyHook(services)

    @property
    def _trust(self) -> TrustRecords:
        return self.services.state.trust

    async def call(self, tool: str, arguments: Mapping[str, Any], who: Principal) -> Outcome:
        """Return the gate's answer to a call that a person makes on the review page."""
        return await self._gate.dispatch(tool, dict(arguments), Call(who))

    async def carry_out(self, proposal_id: str) -> Proposal:
        """Execute an approved proposal and return it. If another process is executing it, wait for that.

        A proposal whose service is configured only in other processes is left to them; it stays approved.

        Raises:
            StorageError: its end can't be put on record now. It stays approved, and a process that can record its end
                resumes it.
        """
        # A name for this attempt alone: a second claim under the same name would be granted, also to another task of this process.
        runner = f"{self._runner}-{secrets.token_hex(4)}"
        before = await self.found(proposal_id)
        if self.is_for_others(before):
            return await self._ended(proposal_id, HANDED_S)
        claimed = await self._trust.claim(proposal_id, runner, now=self.services.now(), lease_s=LEASE_S)
        if claimed is None:
            return await self._ended(proposal_id)
        # A person has decided, so no other work counts against it: an approved act waits for a worker and is not turned away.
        token = CALLER.set(f"approved {proposal_id}")
        unrecorded: StorageError | None = None
        try:
            # An approved act is executed even if the caller disconnects.
            with anyio.CancelScope(shield=True):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._keep_claimed, proposal_id, runner)
                    try:
                        await self._run_to_an_end(claimed, begun_before=bool(before.runner))
                    except StorageError as error:  # raised below, where no group of tasks wraps it
                        unrecorded = error
                    tasks.cancel_scope.cancel()
        finally:
            CALLER.reset(token)
        if unrecorded is not None:
            raise unrecorded
        return await self.found(proposal_id)

    def is_for_others(self, proposal: Proposal | ProposalLine) -> bool:
        """Return whether the proposal's tool exists but is not listed here.

        Then its service is configured only in other processes.
        """
        if proposal.kind == "admin" or self._gate.spec(proposal.tool) is not None:
            return False
        return proposal.tool in {spec.name for spec in declared()}

    async def _ended(self, proposal_id: str, patience_s: float = PATIENCE_S) -> Proposal:
        """Return the proposal once no process is executing it, or as it is if that takes too long."""

        async def is_done() -> bool:
            return not (await self.found(proposal_id)).underway

        with anyio.move_on_after(patience_s):
            await until(self.services.state, is_done)
        return await self.found(proposal_id)

    async def _keep_claimed(self, proposal_id: str, runner: str) -> None:
        while True:
            await anyio.sleep(LEASE_S / 3)
            try:
                await self._trust.claim(proposal_id, runner, now=self.services.now(), lease_s=LEASE_S)
            except StorageError:
                # The act continues: breaking it off half way would be worse than losing the claim.
                logger.warning("the claim on %s cannot be extended now", proposal_id, exc_info=True)

    async def _run_to_an_end(self, claimed: Proposal, *, begun_before: bool) -> None:
        try:
            await self._run(claimed, begun_before=begun_before)
        except (BadArguments, KnowledgeError) as error:
            await self._fail(claimed.id, str(error))
        except Exception as error:
            logger.exception("proposal %s failed", claimed.id)
            await self._fail(claimed.id, f"{claimed.tool} {crashed(error)}")

    async def resume(self) -> None:
        """Execute approved proposals whose process died, and expire those that nobody decided on in time."""
        now = self.services.now()
        await self._trust.expire(now=now)
        approved: tuple[State, ...] = ("approved",)
        for proposal in await self._trust.lines(states=approved):
            if self.is_for_others(proposal):
                if proposal.runs_until is None and proposal.expires_at <= now:
                    await self._fail(proposal.id, LEFT)
            elif proposal.runs_until is None or proposal.runs_until <= now:
                await self.carry_out(proposal.id)
        executed: tuple[State, ...] = ("executed",)
        # The newest are enough, because this is done every few seconds.
        for proposal in await self._trust.lines(states=executed, limit=20):
            if not proposal.answered and (proposal.runs_until is None or proposal.runs_until <= now):
                await self._answer_for(await self.found(proposal.id))

    async def _run(self, proposal: Proposal, *, begun_before: bool) -> None:
        if begun_before:
            # The dead process may have left its act half done: it is finished or undone first, and then on record.
            await self._recover()
            proposal = await self.found(proposal.id)
            if proposal.state == "executed":
                await self._answer_for(proposal)
            if proposal.state != "approved":
                return
        verdict = proposal.verdict
        if verdict is None or hash_of(proposal) != proposal.hash or verdict.hash != proposal.hash:
            await self._fail(proposal.id, TAMPERED)
            return
        if proposal.kind == "admin":
            if proposal.tool == person_undo.UNDO_PAGES:
                result = await person_undo.perform(self.for_callers, proposal, verdict)
            else:
                result = await admin.perform(self.services, proposal, verdict)
            await self._trust.finish(
                proposal.id, "executed", at=self.services.now(), result=json.dumps(result, ensure_ascii=False)
            )
            return
        spec = self._gate.spec(proposal.tool)
        if spec is None or spec.definition_hash != proposal.tool_hash:
            await self._fail(proposal.id, f"{proposal.tool} has changed since the decision; propose it again")
            return
        if begun_before and await self._seen_to(proposal, spec, verdict):
            return
        await self._act(proposal, verdict)

    async def _seen_to(self, proposal: Proposal, spec: AnySpec, verdict: ProposalVerdict) -> bool:
        """Close a proposal that may have been done before its process died; return False if it must be done now."""
        if spec.recalled is None:
            if spec.open_world and not spec.idempotent:
                await self._fail(proposal.id, UNSURE)
                return True
            return False
        approval = _approval(proposal, verdict)
        call = Call(principal_of(proposal), origin="approved", journey=proposal.journey, approval=approval)
        try:
            async with self._gate.as_caller(call.principal):
                recalled = await spec.recalled(self.for_callers, call, spec.parse(calls_of(proposal)[-1]))
        except Exception:
            # The dead process may have sent it. Reporting it as not done could make somebody send it twice.
            logger.exception("cannot find out whether %s was done", proposal.id)
            await self._fail(proposal.id, UNSURE)
            return True
        if recalled is None:
            return False
        await self._conclude(proposal, spec.as_json(recalled))
        return True

    async def _act(self, proposal: Proposal, verdict: ProposalVerdict) -> None:
        # The principal may have been frozen after the approval.
        await require_trust(self.services.state, proposal, verdict.channel, now=self.services.now())
        # What was approved was planned with the pages that its caller may read.
        async with self._gate.as_caller(principal_of(proposal)):
            await self._act_as_caller(proposal, verdict)

    async def _act_as_caller(self, proposal: Proposal, verdict: ProposalVerdict) -> None:
        planned = await self.plan(proposal, _approval(proposal, verdict))
        # Without a preview, the effect is compared under the page's lock, which raises `EffectChanged`.
        if planned.plan.preview is not None and not planned.is_as(proposal):
            await self._void(proposal, planned)
            return
        try:
            answered = await self._gate.carry_out(planned.spec, planned.call, planned.asked, planned.plan)
        except EffectChanged:
            await self._void(proposal, await self.plan(proposal))
            return
        except ProposalSettled:
            return  # another process has done it in the meantime
        await self._conclude(proposal, answered.content)

    async def _conclude(self, proposal: Proposal, answer: Mapping[str, Any]) -> None:
        """Close a proposal with its answer. If it may or may not have been done, close it as failed and say where to look."""
        if answer.get("status") == "unsure":
            await self._fail(proposal.id, _unsure(answer))
            return
        result = json.dumps(answer, ensure_ascii=False, separators=(",", ":"))
        asked = await of_each_asker(self._trust, replace(proposal, state="executed", result=result))
        await self._trust.finish(proposal.id, "executed", at=self.services.now(), result=result)
        for one in asked:
            if one.journey:
                await self._journey_hook.carried_out(one, json.loads(one.result or "null") or {})
            if one.kind == "flag":
                await self.settle(one)

    async def plan(self, proposal: Proposal, approval: Approval | None = None) -> Planned:
        """Plan the proposal's calls against the current state: to show them, or as a person approved them (`approval`).

        Raises:
            BadArguments, KnowledgeError: they are no longer possible.
        """
        spec = self._gate.spec(proposal.tool)
        if self.is_for_others(proposal):
            raise CannotDecide(
                f"{proposal.tool} is not listed here: start this with the settings of its service, or use the page"
            )
        if spec is None or spec.plan is None:
            raise CannotDecide(f"the tool {proposal.tool} no longer exists")
        calls = calls_of(proposal)
        against = tuple(calls[-1].pop(AGAINST, ())) if proposal.kind == "flag" else ()
        *earlier, last = [spec.parse(one) for one in calls]
        call = Call(
            principal_of(proposal),
            "approved",
            earlier=tuple(earlier) if spec.joins else (),
            against=against,
            doubts=doubts_in(proposal),
            repeats=repeats_in(proposal),
            approval=approval,
            journey=proposal.journey,
            run=run_of(proposal).get("id", ""),
        )
        try:
            async with self._gate.as_caller(call.principal) as access:
                plan = await spec.plan(self.for_callers, call, last)
        except CallsDoNotJoin:
            raise CannotDecide(f"{CHANGED}: its {len(calls)} calls no longer fit together") from None
        require_right(access, plan.writes)
        if plan.answer is not None:
            raise CannotDecide(f"{CHANGED}: {getattr(plan.answer, 'note', None) or 'nothing would happen'}")
        return Planned(spec, call, last, plan)

    async def _void(self, proposal: Proposal, planned: Planned) -> None:
        """Replace an approved proposal, which would now do something else, by a pending one with the new effect."""
        if planned.shown.changes_nothing:
            await self._fail(proposal.id, DONE_ALREADY)
            return
        joined = (await of_each_asker(self._trust, proposal))[1:]
        why = f"{CHANGED} than was approved"
        successor = await self._propose_again(proposal, planned, why)
        await self._trust.finish(
            proposal.id, "superseded", at=self.services.now(), error=CHANGED, successor=successor.id
        )
        await self._ask_again(joined, why)

    async def renew(self, proposal: Proposal, *, by: str) -> Proposal:
        """Replace a pending proposal whose effect has changed with one of the new effect, for everyone who asks; return it.

        Raises:
            CannotDecide: the effect is the same, or there is none left.
            BadArguments, KnowledgeError: its calls are no longer possible.
        """
        planned = await self.plan(proposal)
        if planned.shown.changes_nothing:
            raise CannotDecide(f"{proposal.id}: {DONE_ALREADY}; reject it")
        if planned.is_as(proposal):
            raise CannotDecide(f"{proposal.id} would still do the same: approve it or reject it")
        joined = (await of_each_asker(self._trust, proposal))[1:]
        why = f"{CHANGED} than was proposed (made again by {by})"
        successor = await self._propose_again(proposal, planned, why, replacing=[proposal.id])
        await self._ask_again(joined, why)
        return successor

    async def propose_again(self, proposal: Proposal, why: str) -> Proposal:
        """Propose the calls of a closed proposal again, with the effect that they have now, for everyone who asked for them.

        Raises:
            CannotDecide: nothing would change.
            BadArguments, KnowledgeError: its calls are no longer possible.
        """
        planned = await self.plan(proposal)
        if planned.shown.changes_nothing:
            raise CannotDecide(f"{proposal.id}: nothing would change")
        joined = (await of_each_asker(self._trust, proposal))[1:]
        successor = await self._propose_again(proposal, planned, why)
        await self._ask_again(joined, why)
        return successor

    async def _propose_again(
        self, proposal: Proposal, planned: Planned, why: str, *, replacing: Sequence[str] = ()
    ) -> Proposal:
        """Propose the effect that the proposal's calls have now, in the name of its principal."""
        needed = max(proposal.level_needed, int(planned.spec.level_for(planned.plan)))
        reason = f"{why}; {proposal.why.removeprefix(f'{why}; ')}"
        draft = ProposalDraft(
            proposal.kind,
            calls_of(proposal),
            planned.shown,
            needed,
            proposal.level_held,
            reason,
            origin=proposal.id,
            places=places_of(proposal),
        )
        call, spec = of_its_run(planned.call, proposal), planned.spec
        return await self._proposing.put(spec.name, spec.definition_hash, call, draft, replacing=replacing)

    async def _ask_again(self, joined: Sequence[Proposal], why: str) -> None:
        """Propose again for everyone who joined a superseded proposal. A claim that still agrees with the successor joins it."""
        for one in joined:
            try:
                planned = await self.plan(one)
                if not planned.shown.changes_nothing:
                    await self._propose_again(one, planned, why)
            except (BadArguments, KnowledgeError) as error:
                # It finds out from its proposal, which was superseded, and can still make the call again.
                logger.info("%s is not proposed again for %s: %s", one.id, one.principal, error)

    async def _fail(self, proposal_id: str, why: str) -> None:
        """Close the proposal as failed. If the database can't be written now, it stays approved, and `resume` finds it."""
        try:
            await self._trust.finish(proposal_id, "failed", at=self.services.now(), error=why)
        except StorageError:
            logger.exception("cannot record that %s failed", proposal_id)

    async def _answer_for(self, proposal: Proposal) -> None:
        """Store the answer for a process that died between act and answer: the act had the effect that the preview shows."""
        answer = json.loads(proposal.preview).get("answer")
        result = "null"
        if isinstance(answer, dict):
            status = answer.get("status") if answer.get("status") in ("done", "partial") else "done"
            note = "carried out by a process that ended before it could answer; this is the expected result"
            async with self._gate.as_caller(principal_of(proposal)):
                answered = self._gate.answered({**answer, "status": status, "note": note})
            result = json.dumps(answered.content, ensure_ascii=False)
        await self._trust.finish(proposal.id, "executed", at=self.services.now(), result=result)

    async def found(self, proposal_id: str) -> Proposal:
        """Return the proposal.

        Raises:
            CannotDecide: there is no such proposal.
        """
        proposal = await self._trust.proposal(proposal_id)
        if proposal is None:
            raise CannotDecide(f"there is no proposal {proposal_id[:40]!r}")
        return proposal

    async def settle(self, proposal: Proposal) -> None:
        """Close the contradictions of an approved claim, because the page now says it."""
        if ids := [flag.id for flag in await self._flags(proposal)]:
            by = "" if proposal.verdict is None else f"{proposal.verdict.by} ({proposal.verdict.channel})"
            settlement = Settlement("approved", by, self.services.now(), f"{proposal.id} was approved")
            await self.services.state.ledger.settle(ids, settlement)

    async def dismiss(self, proposal: Proposal, *, by: str, reason: str) -> None:
        """Dismiss the contradictions of a rejected claim: the existing text stays, and the same claim is not raised again."""
        for flag in await self._flags(proposal):
            with suppress(NotOpen):  # somebody has dismissed it in the meantime
                await self.services.contradictions.dismiss(
                    flag.id, "existing", by=by, reason=reason or f"{proposal.id} was rejected without a reason"
                )

    async def _flags(self, proposal: Proposal) -> list[Flag]:
        """Return the open contradictions of this claim, not those of other claims with the same sentence."""
        flags = [
            flag
            for path in proposal.documents
            for flag in await self.services.state.ledger.flags(path, limit=MOST_FLAGS)
        ]
        return [flag for flag in flags if is_claim_of(proposal, flag.contradiction)]


def _unsure(answer: Mapping[str, Any]) -> str:
    where = next((str(answer[name]) for name in WHERE if answer.get(name)), "the service itself")
    why = str(answer.get("note") or "no reply came").rstrip(".")
    return UNSURE_AT.format(why=why, next=PROPOSE_AGAIN if where in why else LOOK_THERE.format(where=where))


def _approval(proposal: Proposal, verdict: ProposalVerdict) -> Approval:
    how = "signed" if verdict.signed else "advisory" if verdict.advisory else "by word"
    return requests.Approval(proposal.id, f"{APPROVED_BY}{verdict.by} ({verdict.channel}, {how})", proposal.effect)
