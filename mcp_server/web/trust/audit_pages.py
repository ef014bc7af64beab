"""The pages of the audit log and of contradictions."""

from __future__ import annotations

from collections.abc import AsyncIterator

from starlette.responses import Response

from knowledge.contradictions.record import LONGEST_REASON
from knowledge.history.audit.chain import fields_of
from knowledge.history.ports import AuditRecord, Ledger
from knowledge.merge.model import Ruling
from mcp_server.presenters.audit import audit_summary
from mcp_server.web.page_context import Form, PageRequest, see

PAGE = 50
BLOCK = 500
LOOKED_THROUGH = 20_000
"""Records that one search looks through; the rest is one click further."""
LISTED = 20


async def audit(request: PageRequest) -> Response:
    """Show the records that contain the text, newest first."""
    ledger, query = request.services.state.ledger, request.query.get("q", "").strip()
    end, digest = await ledger.chain_end()
    before = request.number("before")
    first = end + 1 if before is None else min(before, end + 1)
    shown, older = await _found(ledger, query.casefold(), first)
    return await request.show(
        "audit.html",
        lambda: {
            "here": "/audit",
            "query": query,
            "rows": [(record, audit_summary(fields_of(record))) for record in shown],
            "older": older,
            "end": f"{end}:{digest.hex()}" if end else "",
        },
    )


async def _found(ledger: Ledger, query: str, before: int) -> tuple[list[AuditRecord], int]:
    """Return a page of records below number `before`, newest first, and the number below which to continue, 0 at the end."""
    found: list[AuditRecord] = []
    async for record in _backwards(ledger, before):
        if query in record.body.casefold():
            found.append(record)
        if len(found) == PAGE or before - record.seq >= LOOKED_THROUGH:
            return found, record.seq if record.seq > 1 else 0
    return found, 0


async def _backwards(ledger: Ledger, before: int) -> AsyncIterator[AuditRecord]:
    while before > 1:
        start = max(0, before - 1 - BLOCK)
        block = await ledger.records(after=start, limit=before - 1 - start)
        for record in reversed([record for record in block if record.seq < before]):
            yield record
        before = start + 1


async def contradictions(request: PageRequest) -> Response:
    """Show open or dismissed contradictions, those of the highest confidence first, both sides of each."""
    dismissed, cursor = request.query.get("dismissed") == "1", request.query.get("cursor")
    found = await request.services.contradictions.listed(None, limit=LISTED, cursor=cursor, dismissed=dismissed)
    return await request.show(
        "contradictions.html",
        {
            "here": "/contradictions",
            "disagreements": found.contradictions,
            "next": found.next_cursor,
            "dismissed": dismissed,
            "longest_reason": LONGEST_REASON,
        },
    )


async def dismiss(request: PageRequest, form: Form) -> Response:
    """Dismiss a contradiction: both claims hold, or the existing one stays."""
    ruling: Ruling = "existing" if form.get("ruling") == "existing" else "both"
    await request.services.contradictions.dismiss(
        _number(form), ruling, by=f"{request.person().name} (page)", reason=form.get("reason", "")
    )
    return see("/contradictions")


async def reopen(request: PageRequest, form: Form) -> Response:
    """Undo a dismissal."""
    await request.services.contradictions.reopen(_number(form), by=f"{request.person().name} (page)")
    return see("/contradictions")


def _number(form: Form) -> int:
    """Return the contradiction's id from a form, or 0, which no contradiction has, if the value was tampered with."""
    text = form.get("id", "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else 0
