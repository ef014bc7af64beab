"""The page that rewrites the links which broke because somebody moved a page outside the server."""

from __future__ import annotations

from urllib.parse import urlencode

from starlette.responses import Response

from knowledge.errors import EffectChanged
from knowledge.writing.related.followed_moves import RelinkPlan
from mcp_server.approvals.approvers import CannotDecide
from mcp_server.approvals.reviewers.deciders import paths_of, require_pages
from mcp_server.gate.trust import admin
from mcp_server.presenters.proposal import ChangedFile
from mcp_server.web.page_context import Form, PageRequest, see
from mcp_server.web.proposals.page_changes import DiffOptions, files_of

CHANGED_SINCE = "Nothing was written: the pages have changed since you looked. This is what would be written now."


async def rehearsal(request: PageRequest) -> Response:
    """Show which links would be rewritten, and the form that does it."""
    return await _shown(request, await _plan(request, request.query.get("change", "")))


async def rewrite(request: PageRequest, form: Form) -> Response:
    """Rewrite the links exactly as they were shown."""
    plan = await _plan(request, form.get("change", ""))
    if plan.refused:
        raise CannotDecide(plan.refused)
    if not plan.files:
        raise CannotDecide("no link to the former path is left")
    if plan.digest != form.get("digest"):
        return await _shown(request, plan, CHANGED_SINCE)
    who = request.person()
    await require_pages(request.services.state, paths_of(plan.files), who)
    try:
        record = await request.services.followed_moves.execute(
            plan, decision=f"approved by {who.name} ({who.channel}, by word)"
        )
    except EffectChanged:
        return await _shown(request, await _plan(request, plan.move.change), CHANGED_SINCE)
    return see("/history?" + urlencode({"undone": str(record)}))


async def _plan(request: PageRequest, change: str) -> RelinkPlan:
    return await request.services.followed_moves.plan(change, by=admin.asking(request.person()).id)


async def _shown(request: PageRequest, plan: RelinkPlan, problem: str = "") -> Response:
    files = [ChangedFile(file.path, "", "changes", file.diff, sent=False) for file in plan.files]
    values = {
        "here": "/history",
        "plan": plan,
        "files": files_of(files, {}, DiffOptions(whole=False, layout="inline")),
        "problem": problem,
    }
    return await request.show("moved_links.html", lambda: values, 409 if problem else 200)
