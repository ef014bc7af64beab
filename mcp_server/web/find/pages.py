"""The page that answers a search."""

from __future__ import annotations

from starlette.responses import Response

from mcp_server.web.page_context import PageRequest
from mcp_server.web.text.site_addresses import page_address

LONGEST_QUESTION = 1_000
MOST_HITS = 20


async def found(request: PageRequest) -> Response:
    """Show the passages that answer a question best, in the order of `kb_search`."""
    question = request.query.get("q", "").strip()[:LONGEST_QUESTION]
    answer = await request.services.finder.search(question, limit=MOST_HITS) if question else None
    return await request.show(
        "find.html", {"here": "/find", "question": question, "answer": answer, "page_address": page_address}
    )
