"""Several proposals on one page: each is shown in full, and decided and recorded by itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import anyio.to_thread
from starlette.responses import Response

from knowledge.errors import KnowledgeError
from knowledge.trust.ports import Proposal
from mcp_server.approvals.approvers import CannotDecide
from mcp_server.presenters.proposal import ending, proposal_summary, sentence_of
from mcp_server.web.access.sessions import WAITING, same
from mcp_server.web.page_context import Form, NotFound, PageRequest
from mcp_server.web.proposals.page_changes import DiffOptions
from mcp_server.web.proposals.pages import MOST_TOGETHER, change_of, origins_of, values_of, why_not

CHOSEN = "take."
"""The beginning of the fields that say which proposals of the page are decided; the id follows."""
GONE = "it does not exist"
TOO_LONG = "it is too long to be shown here"
TO_SIGN = "it must be signed with a passkey"
CHANGED = "its page has changed since it was proposed"


@dataclass(frozen=True, slots=True)
class ProposalApart:
    """A proposal that this page can't decide, and why."""

    id: str
    sentence: str
    why: str


@dataclass(frozen=True, slots=True)
class DecidedTogether:
    """The outcome of one of several decisions. `done`: the decision succeeded. `to` is the id of the proposal to look at."""

    to: str
    sentence: str
    done: bool
    outcome: str
    change: str = ""


async def together(request: PageRequest) -> Response:
    """Show the chosen proposals in full, with one form for all that can be decided here."""
    chosen = list(dict.fromkeys(request.query.getlist("p")))
    if not chosen:
        raise NotFound(
            "No proposal is selected", "Select proposals in the list, then choose what to do with them.", WAITING
        )
    shown: list[Mapping[str, Any]] = []
    apart = [ProposalApart(one, one, f"at most {MOST_TOGETHER} are shown at once") for one in chosen[MOST_TOGETHER:]]
    for proposal_id in chosen[:MOST_TOGETHER]:
        proposal = await request.trust.proposal(proposal_id)
        if proposal is None:
            apart.append(ProposalApart("", proposal_id, GONE))
            continue
        values, why = await _shown(request, proposal, len(shown) + 1)
        if why:
            apart.append(ProposalApart(proposal.id, sentence_of(proposal), why))
        else:
            shown.append(values)
    rejects = request.query.get("decision") == "reject"
    same_again = [("p", one) for one in chosen] + [("decision", "reject" if rejects else "approve")]
    values = {
        "shown": shown,
        "apart": apart,
        "rejects": rejects,
        "none_checked": request.query.get("check") == "none",
        "all_checked": "/together?" + urlencode(same_again),
        "uncheck": "/together?" + urlencode([*same_again, ("check", "none")]),
    }
    return await request.show("together.html", lambda: values)


async def _shown(request: PageRequest, proposal: Proposal, number: int) -> tuple[Mapping[str, Any], str]:
    """Return the values for the template of one proposal, and why it can't be decided here, "" if it can."""
    present = await request.page.approvals.present(proposal)
    state = request.services.state
    summary = await proposal_summary(
        state, proposal, "page", now=request.now, present=present, user=request.session.user
    )
    if not summary.waits:
        return {}, ending(proposal)
    if not summary.approvable:
        return {}, CHANGED
    if why := await why_not(request, proposal):
        return {}, f"you can't decide on it: {why}"
    if summary.needs == "passkey":
        return {}, TO_SIGN
    showing = DiffOptions()
    origins = {path: await origins_of(request, path) for path in proposal.documents if proposal.kind != "admin"}
    values = await anyio.to_thread.run_sync(values_of, summary, origins, showing)
    if values["left_out"]:
        return {}, TOO_LONG
    trusted = await request.services.taints.trusted()
    return {**values, "nth": f"-{number}", "showing": showing, "trusted": trusted, "powerless": (), "pieces": ""}, ""


async def decide(request: PageRequest, form: Form) -> Response:
    """Decide each chosen proposal by itself, as it was shown, and say which succeeded and which need another look."""
    decision = form.get("decision")
    if decision not in ("approve", "reject"):
        raise CannotDecide("choose Approve or Reject")
    chosen = [name.removeprefix(CHOSEN) for name in form if name.startswith(CHOSEN)][:MOST_TOGETHER]
    if not chosen:
        raise CannotDecide("no proposal was selected")
    outcomes = [await _decided(request, form, proposal_id, approves=decision == "approve") for proposal_id in chosen]
    return await request.show("together_decided.html", {"outcomes": outcomes, "approves": decision == "approve"})


async def _decided(request: PageRequest, form: Form, proposal_id: str, *, approves: bool) -> DecidedTogether:
    proposal = await request.trust.proposal(proposal_id)
    if proposal is None:
        return DecidedTogether("", proposal_id, done=False, outcome=GONE)
    approvals, note = request.page.approvals, form.get("note", "")
    shown_hash, version = form.get(f"hash.{proposal_id}", ""), form.get(f"version.{proposal_id}", "")
    try:
        if why := await why_not(request, proposal):
            raise CannotDecide(f"you can't decide on it: {why}")
        if approves:
            # As on its own page: only a page that hides nothing of the proposal carries this token.
            if not same(form.get(f"opened.{proposal_id}", ""), request.session.opened(proposal.hash, version)):
                raise CannotDecide("you have not seen all of it")
            after = await approvals.approve(proposal_id, shown_hash, request.person(), note)
        else:
            after = await approvals.reject(proposal_id, shown_hash, request.person(), note)
    except KnowledgeError as error:
        return DecidedTogether(proposal_id, sentence_of(proposal), done=False, outcome=str(error))
    done = after.state == ("executed" if approves else "rejected")
    change = await change_of(request, after) if done else ""
    return DecidedTogether(after.successor or after.id, sentence_of(proposal), done, ending(after), change)
