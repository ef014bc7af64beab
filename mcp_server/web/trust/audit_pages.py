"""The pages that only show: the audit log, and claims that contradict each other."""

from __future__ import annotations

from collections.abc import AsyncIterator

from starlette.responses import Response

from knowledge.history.audit.chain import fields_of
from knowledge.history.ports import AuditRecord, Ledger
from mcp_server.presenters.audit import audit_summary
from mcp_server.web.page_context import PageRequest

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
    """Show open contradictions, newest first, both sides of each."""
    cursor = request.query.get("cursor")
    found = await request.services.contradictions.listed(None, limit=LISTED, cursor=cursor)
    return await request.show(
        "contradictions.html",
        {"here": "/contradictions", "disagreements": found.contradictions, "next": found.next_cursor},
    )
