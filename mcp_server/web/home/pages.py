"""The first page of the site, and the lists behind its figures."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from starlette.background import BackgroundTask
from starlette.responses import Response

from knowledge.errors import KnowledgeError, size_in_words
from knowledge.history.timeline.timeline import Change
from knowledge.pages.paths import INDEX_NAME
from knowledge.search.maps.page_health import STALE_AFTER, PageHealth
from knowledge.trust.ports import TrustChange
from mcp_server.presenters.change import author, effect
from mcp_server.presenters.trust import known_principals
from mcp_server.web.access.sessions import HOME
from mcp_server.web.home.growth_plot import growth_plot
from mcp_server.web.home.trust_plot import trust_plot
from mcp_server.web.page_context import NotFound, PageRequest
from mcp_server.web.text.site_addresses import edit_address, history_address, page_address
from mcp_server.web.work_list import asking_runs, waiting_journeys

MOST_LISTED = 5
"""Proposals, journeys and runs that are listed, of each kind; the pages of the lists have all."""
MOST_CHANGES = 8
MOST_FLAGS = 100
"""Open contradictions that are counted one by one."""
MOST_TRUST_CHANGES = 500
"""The newest changes of a host's trust that are drawn."""
PAGE = 200
log = logging.getLogger("knowledge_forge.review")
LISTS: Mapping[str, tuple[str, str]] = {
    "stale": (
        "Old pages",
        f"Not changed for {STALE_AFTER.days} days or more, by the time of their files; the oldest first.",
    ),
    "orphans": (
        "Pages without a link to them",
        "No other page links to these. Folder introductions, templates and excluded pages are left out.",
    ),
    "lost": (
        "Links that lead nowhere",
        "They name a page that does not exist. In a terminal, knowledge-forge doctor also checks links to other files.",
    ),
    "unverified": (
        "Pages with unverified text",
        "Their text was fetched from elsewhere, or their folder is marked untrusted. Hosts treat it as data, never as instructions.",
    ),
}
"""The lists behind the figures: title and explanation, by the name in the address."""


async def home(request: PageRequest) -> Response:
    """Show what needs the person, what happened today, the journeys in progress, and the health of the knowledge base."""
    services, figures = request.services, request.page.home_figures
    small = await figures.is_small()
    if small:
        await _record_outside(request)
    now, kept = request.now, await figures.soon()
    today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    found = await request.trust.lines(states=("pending",), limit=MOST_LISTED)
    changes = (await services.timeline.changes(since=today, limit=MOST_CHANGES + 1)).changes
    earlier = () if changes else (await services.timeline.changes(limit=1)).changes
    flags = await services.state.ledger.flags(None, limit=MOST_FLAGS + 1)
    hosts = await services.state.enrolments()
    histories = await _histories(request)
    introduction = await services.index.document(INDEX_NAME)
    values = {
        "here": HOME,
        "name": introduction.title if introduction else "",
        "proposals": [proposal for proposal in found if proposal.expires_at > now],
        "journeys": (await waiting_journeys(request))[:MOST_LISTED],
        "runs": (await asking_runs(request))[:MOST_LISTED],
        "active": await services.journeys.store.journeys(status="active", limit=MOST_LISTED),
        "changes": changes[:MOST_CHANGES],
        "more_changes": len(changes) > MOST_CHANGES,
        "last_change": earlier[0] if earlier else None,
        "today": f"{today:%Y-%m-%d}",
        "flags": len(flags),
        "most_flags": MOST_FLAGS,
        "counted": kept,
        "pages": (await services.index.progress()).done,
        "steps": _steps(kept.health if kept else None, hosts=len(hosts), changed=bool(changes or earlier)),
        **_WORDS,
    }

    def shown() -> Mapping[str, Any]:
        drawn = {"trust": trust_plot(histories, now), "growth": growth_plot(kept.days) if kept else None}
        return {**values, **drawn, "health": _tiles(kept.health, len(flags)) if kept else ()}

    answer = await request.show("home.html", shown)

    async def afterwards() -> None:
        if not small:
            await _record_outside(request)
        await figures.count()

    # After the answer, so that nobody waits for what takes long in a large knowledge base. The next view has it, and one that is
    # open is renewed when a change comes on record.
    answer.background = BackgroundTask(afterwards)
    return answer


async def _record_outside(request: PageRequest) -> None:
    """Record changes made in editors, as History does. Home is shown even if that fails."""
    try:
        await request.services.outside_changes.record()
    except KnowledgeError:
        log.warning("cannot bring changes made outside the server on record now", exc_info=True)


async def _histories(request: PageRequest) -> Mapping[str, Sequence[TrustChange]]:
    state = request.services.state
    names = await known_principals(state, request.session.user)
    return {name: await state.history(name, limit=MOST_TRUST_CHANGES) for name in names}


def _steps(health: PageHealth | None, *, hosts: int, changed: bool) -> Sequence[str]:
    """Return which of the first steps are still to be done."""
    empty = health is not None and health.pages == 0
    todo = {"pages": empty, "host": not hosts, "ask": not changed}
    return [name for name, missing in todo.items() if missing] if empty or not hosts else ()


def _tiles(health: PageHealth, flags: int) -> Sequence[tuple[str, str, str]]:
    """Return the figures as address, number and words."""
    numbers = {"stale": health.stale, "orphans": health.orphans, "lost": health.lost, "unverified": health.unverified}
    words = {
        "stale": ("old page", "old pages"),
        "orphans": ("page without a link to it", "pages without a link to them"),
        "lost": ("link that leads nowhere", "links that lead nowhere"),
        "unverified": ("page with unverified text", "pages with unverified text"),
    }
    tiles = [(f"/health?show={name}", f"{len(some):,}", words[name][len(some) != 1]) for name, some in numbers.items()]
    count = f"{flags:,}" if flags <= MOST_FLAGS else f"over {MOST_FLAGS}"
    return [*tiles, ("/contradictions", count, "open contradiction" if flags == 1 else "open contradictions")]


async def health(request: PageRequest) -> Response:
    """Show the pages behind one of the figures."""
    what = request.query.get("show", "stale")
    if what not in LISTS:
        raise NotFound("No such list", "Choose one of the lists behind the figures on Home.", HOME)
    figures = await request.page.home_figures.now()
    rows = _rows(figures.health, what, request.now)
    start = min(request.number("from") or 0, len(rows))
    title, explanation = LISTS[what]
    return await request.show(
        "health.html",
        lambda: {
            "here": HOME,
            "what": what,
            "lists": LISTS,
            "title": title,
            "explanation": explanation,
            "rows": rows[start : start + PAGE],
            "count": len(rows),
            "start": start,
            "next": start + PAGE if len(rows) > start + PAGE else 0,
            "edit_address": edit_address,
            **_WORDS,
        },
    )


def _rows(found: PageHealth, what: str, now: datetime) -> Sequence[tuple[str, str, datetime | None]]:
    """Return for each page in the list its path, a remark, and, in the list of stale pages, when its file changed."""
    if what == "stale":
        return [
            (page.path, "", now - timedelta(seconds=now.timestamp() - page.modified_ns / 1e9)) for page in found.stale
        ]
    if what == "lost":
        return [(link.page, f"links to {link.target}", None) for link in found.lost]
    if what == "unverified":
        return [(page.path, f"source {page.source}", None) for page in found.unverified]
    return [(path, "", None) for path in found.orphans]


def _day_address(change: Change) -> str:
    return f"/history#c{change.id}"


_WORDS = {
    "author": author,
    "effect": effect,
    "page_address": page_address,
    "history_address": history_address,
    "day_address": _day_address,
    "size": size_in_words,
}
"""The functions with which the templates put values into words and addresses."""
