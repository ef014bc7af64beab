"""The pages of the audit log."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import Response

from knowledge.history.audit.chain import fields_of
from knowledge.history.audit.search import KINDS, OUTCOMES, AuditQuery, FoundRecords, find
from mcp_server.presenters.audit import audit_summary, audited_act
from mcp_server.presenters.trust import known_principals
from mcp_server.presenters.typed_time import since_of, until_of
from mcp_server.web.page_context import NotFound, PageRequest

PAGE = 50
FILTERS = ("q", "by", "tool", "about", "kind", "outcome", "since", "until")
KIND_TITLES = {
    "pages": "Changes of pages",
    "decisions": "Decisions",
    "trust": "Trust",
    "services": "Plane and Zulip",
    "runs": "Runs",
    "contradictions": "Contradictions",
}
LISTED = 20


async def audit(request: PageRequest) -> Response:
    """Show the records that match the filters, newest first."""
    asked = request.filters(FILTERS)
    problem = ""
    try:
        query = _query(request, asked)
    except ValueError as error:
        problem, query = str(error), AuditQuery()
    state = request.services.state
    end, digest = await state.ledger.chain_end()
    before = request.number("before")
    found = await find(state.ledger, query, limit=PAGE, before=before) if not problem else FoundRecords((), 0)
    people = await known_principals(state, request.session.user)
    kept = {name: text for name, text in asked.items() if text}
    return await request.show(
        "audit.html",
        lambda: {
            "here": "/audit",
            "asked": asked,
            "kept": kept,
            "problem": problem,
            "people": people,
            "kinds": KIND_TITLES,
            "outcomes": OUTCOMES,
            "rows": [(record, audit_summary(fields_of(record))) for record in found.records],
            "older": found.older,
            "later": before is not None,
            "end": f"{end}:{digest.hex()}" if end else "",
        },
        422 if problem else 200,
    )


def _query(request: PageRequest, asked: Mapping[str, str]) -> AuditQuery:
    """Return what the filters ask for.

    Raises:
        ValueError: one of them is not what it must be; the message is for the person.
    """
    if asked["kind"] and asked["kind"] not in KINDS:
        raise ValueError(f"{asked['kind']!r} is not a kind of act; choose one of {', '.join(KINDS)}")
    return AuditQuery(
        words=asked["q"],
        by=asked["by"],
        tool=asked["tool"],
        about=asked["about"],
        kind=asked["kind"],
        outcome=asked["outcome"],
        since=request.time(asked["since"], since_of),
        until=request.time(asked["until"], until_of),
    )


async def act(request: PageRequest) -> Response:
    """Show one act with everything about it."""
    seq = int(request.id) if request.id.isascii() and request.id.isdecimal() and len(request.id) < 19 else 0
    found = await audited_act(request.services.state.ledger, seq)
    if found is None:
        raise NotFound("No such record", "The audit log has no record with that number.", "/audit")
    people = await known_principals(request.services.state, request.session.user)
    return await request.show("audit_act.html", lambda: {"here": "/audit", "act": found, "people": people})
