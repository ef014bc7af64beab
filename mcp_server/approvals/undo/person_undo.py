"""Undo by a person: whether their word is enough for it, and the proposal that they sign with a passkey where it is not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final, Protocol

from knowledge.trust.ports import Proposal, ProposalVerdict
from mcp_server.approvals.approvers import Approver, CannotDecide, must_sign, requirement_at
from mcp_server.approvals.proposals import ProposalDraft, calls_of
from mcp_server.gate.trust import admin
from mcp_server.gate.trust.act_levels import level_of_undo
from mcp_server.ports import HasState, HasTools, HasWriting
from mcp_server.toolsets.spec import CallPreview

if TYPE_CHECKING:
    from knowledge.writing.undo.past_act import PastAct, Take
    from knowledge.writing.undo.undo import UndoDone, UndoPlan

UNDO_PAGES: Final = "pages.undo"
"""The act of a proposal that takes changes back."""
CHANGED = "the pages have changed since this was proposed, so it would do something else now; undo it again"
NEEDS_PASSKEY = "this undo needs level {level}: sign it with a passkey on the review page"


class UndoServices(HasState, HasTools, HasWriting, Protocol):
    """To take changes back."""


async def plan_undo(
    services: UndoServices, acts: Sequence[PastAct], person: Approver, take: Take, take_at: Mapping[str, Take]
) -> UndoPlan:
    """Return what would happen if this person took the acts back. Changes nothing."""
    return await services.undo.plan(acts, by=admin.asking(person).id, take=take, take_at=take_at)


async def undo(services: UndoServices, plan: UndoPlan, person: Approver) -> UndoDone:
    """Take the acts back as planned.

    Raises:
        CannotDecide: it takes a passkey: `draft_of` makes the proposal to sign.
        EffectChanged: by now it would do something else.
    """
    level = await level_of_undo(services, plan)
    passkeys = await must_sign(services.state.trust, person.name)
    needs = requirement_at(level, person.channel, passkeys=passkeys)
    if needs in ("passkey", "elsewhere") and not person.signed:
        raise CannotDecide(NEEDS_PASSKEY.format(level=int(level)))
    how = "signed" if person.signed else "advisory" if needs == "advisory" else "by word"
    return await services.undo.execute(plan, decision=f"approved by {person.name} ({person.channel}, {how})")


async def draft_of(services: UndoServices, plan: UndoPlan, person: Approver) -> ProposalDraft:
    """Return the proposal of the undo, which a person signs on the review page."""
    request = plan.write.request
    arguments: dict[str, Any] = {
        "changes": [act.name for act in plan.acts],
        "take": request.take,
        "take_at": dict(request.take_at or {}),
    }
    count = len(plan.acts)
    by = sorted({act.by for act in plan.acts if act.by})
    sentence = f"undo {count} change{'s' if count > 1 else ''}" + (f" by {', '.join(by)}" if by else "")
    shown = CallPreview(
        {"act": UNDO_PAGES, **arguments},
        sentence,
        plan.digest,
        documents=(f"{UNDO_PAGES}:{plan.acts[0].name}",),
        files=[asdict(file) for file in plan.files],
        revisions=dict(plan.write.effect.revisions) if plan.write.effect else {},
    )
    level = await level_of_undo(services, plan)
    why = f"requested by {person.name}; it needs level {int(level)}"
    return ProposalDraft("admin", [arguments], shown, int(level), 0, why)


async def perform(services: UndoServices, proposal: Proposal, verdict: ProposalVerdict) -> Mapping[str, Any]:
    """Take back what a person approved, and return the outcome.

    Raises:
        CannotDecide: it would do something else than approved. Nothing was changed.
    """
    arguments = calls_of(proposal)[0]
    acts = [act for change in arguments["changes"] for act in await services.undo.of_change(change)]
    plan = await services.undo.plan(acts, by=proposal.principal, take=arguments["take"], take_at=arguments["take_at"])
    if plan.digest != proposal.effect:
        raise CannotDecide(CHANGED)
    how = "signed" if verdict.signed else "advisory" if verdict.advisory else "by word"
    decision = f"approved by {verdict.by} ({verdict.channel}, {how})"
    done = await services.undo.execute(plan, decision=decision, proposal=proposal.id)
    return {"status": done.answer.status, "pages": done.answer.pages, "gone": done.answer.gone, "change": done.change}
