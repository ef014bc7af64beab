"""The pages that only tell: the audit log, and claims that contradict each other."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from knowledge.history.audit.chain import fields_of
from knowledge.history.ports import AuditRecord, Ledger
from mcp_server.web.access.sessions import Session
from mcp_server.web.page_context import PageContext
from mcp_server.web.proposals.views import disagreement_of
from mcp_server.web.text.sanitize import sanitize, sanitize_line

PAGE = 50
BLOCK = 500
LOOKED_THROUGH = 20_000
"""Records that one search looks through; the rest is one click further."""
LISTED = 20


@dataclass(frozen=True, slots=True)
class RecordView:
    """One audit record. `proposal` is "" where there is none that can be shown, `places` are pages, or a place in another service."""

    seq: int
    at: Markup
    principal: Markup
    tool: Markup
    outcome: Markup
    places: Sequence[Markup]
    proposal: Markup
    body: Markup
    digest: str


async def audit(page_context: PageContext, request: Request, session: Session) -> Response:
    """Show the records that have the text in them, newest first."""
    ledger, query = page_context.services.state.ledger, request.query_params.get("q", "").strip()
    end, digest = await ledger.chain_end()
    before = request.query_params.get("before", "")
    first = min(int(before), end + 1) if before.isdecimal() and len(before) < 19 else end + 1
    shown, older = await _found(ledger, query.casefold(), first)
    return await page_context.show(
        "audit.html",
        session,
        lambda: {
            "here": "/audit",
            "query": query,
            "query_raw": query,
            "rows": [_view(record) for record in shown],
            "older": older,
            "end": f"{end}:{digest.hex()}" if end else "",
        },
    )


async def _found(ledger: Ledger, query: str, before: int) -> tuple[list[AuditRecord], int]:
    """Return at most a page of records below `before`, newest first, and below which to go on, 0 at the end."""
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


def _view(record: AuditRecord) -> RecordView:
    said = fields_of(record)
    return RecordView(
        seq=record.seq,
        at=sanitize_line(str(said.get("at", ""))[:19].replace("T", " ")),
        principal=sanitize_line(str(said.get("principal", ""))),
        tool=sanitize_line(str(said.get("tool", ""))),
        outcome=sanitize_line(str(said.get("outcome", ""))),
        places=[sanitize_line(place) for place in (*_pages(said), *_elsewhere(said))],
        proposal=sanitize_line(str(said.get("proposal") or "")),
        body=sanitize(record.body),
        digest=record.digest.hex(),
    )


def _pages(said: dict[str, Any]) -> list[str]:
    changes = said.get("changes")
    named = [change for change in changes if isinstance(change, dict)] if isinstance(changes, list) else []
    return list(dict.fromkeys(str(change["path"]) for change in named if change.get("path")))


def _elsewhere(said: dict[str, Any]) -> list[str]:
    delivery = said.get("delivery")
    target = delivery.get("target") if isinstance(delivery, dict) else None
    run = said.get("run")
    model = run.get("model") if isinstance(run, dict) else None
    return [str(place) for place in (target, model and f"model:{model}") if place]


async def contradictions(page_context: PageContext, request: Request, session: Session) -> Response:
    """Show open contradictions, newest first, both sides of each."""
    cursor, now = request.query_params.get("cursor"), page_context.services.now()
    found = await page_context.services.page_history.contradictions(None, limit=LISTED, cursor=cursor)
    return await page_context.show(
        "contradictions.html",
        session,
        lambda: {
            "here": "/contradictions",
            "disagreements": [disagreement_of(one, now) for one in found.contradictions],
            "next": found.next_cursor,
        },
    )
