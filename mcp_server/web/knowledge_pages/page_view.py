"""Everything that the page of one page shows: its text, links, origins, and the tasks and threads that cite it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from knowledge.contradictions.statement_place import places_of
from knowledge.history.ports import Flag
from knowledge.history.timeline.line_authors import AuthoredPage
from knowledge.history.timeline.timeline import Change
from knowledge.merge.evidence.confidence import Rules
from knowledge.outbox.ports import Mention
from knowledge.pages.claim_source import SERVICES, is_tainted, source_kind
from knowledge.pages.document import Document
from knowledge.pages.paths import parent
from knowledge.search.maps.linked_pages import led_to, pages_linking_to
from knowledge.state.ports import DocumentRecord, IndexStore
from mcp_server.web.knowledge_pages.passages import OpenContradiction
from mcp_server.web.page_context import PageRequest

MOST_LINKS = 200
"""At most this many links of a page are listed, and at most this many pages that link to it."""
MOST_FLAGS = 50
MOST_MENTIONS = 50
STALE_HALF_LIVES = 2
"""After this many half-lives a claim has a quarter of its recency left."""


@dataclass(frozen=True, slots=True)
class NamedPage:
    """A page in a list of links, by its title."""

    path: str
    title: str
    summary: str


@dataclass(frozen=True, slots=True)
class PageLinksView:
    """The pages that a page links to, and those that link to it. `back_complete`: no others link to it."""

    out: Sequence[NamedPage]
    back: Sequence[NamedPage]
    back_complete: bool


@dataclass(frozen=True, slots=True)
class Citations:
    """The tasks and threads that name a page, and the sources of its claims in services."""

    mentions: Sequence[Mention]
    sources: Sequence[str]


async def links_of(index: IndexStore, document: Document, names: Sequence[str], *, by_name: bool) -> PageLinksView:
    """Return the links of the page in both directions. With `by_name`, Markdown links may name a page without its folder."""
    led = await led_to(index, document.path, document.page_links[:MOST_LINKS], by_name=by_name)
    back, complete = await pages_linking_to(index, document.path, names, by_name=by_name)
    out = list(dict.fromkeys(path for path in led.values() if path != document.path))
    return PageLinksView(await named_pages(index, out), await named_pages(index, back[:MOST_LINKS]), complete)


async def named_pages(index: IndexStore, paths: Sequence[str]) -> list[NamedPage]:
    """Return the pages with their titles, in this order. A page that is not indexed is called by its path."""
    found = []
    for path in paths:
        record = await index.document(path)
        found.append(NamedPage(path, record.title, record.summary) if record else NamedPage(path, path, ""))
    return found


async def citations_of(request: PageRequest, path: str, authored: AuthoredPage) -> Citations:
    """Return the tasks and threads that name the page, and those that its lines come from."""
    sources = dict.fromkeys(
        source
        for run in authored.runs
        for source in (run.origin.source, *run.origin.corroborated_by)
        if source_kind(source) in SERVICES
    )
    mentions = await request.services.state.outbox.mentions(path, limit=MOST_MENTIONS)
    return Citations([one for one in mentions if one.url.startswith(("https://", "http://"))], list(sources))


async def contradictions_of(request: PageRequest, path: str, text: str) -> Sequence[OpenContradiction]:
    """Return the page's open contradictions, each at the line that has its statement; at line 1 if none has it."""
    flags, _ = await request.services.contradictions.flags(path, limit=MOST_FLAGS, cursor=None)
    return [
        OpenContradiction(line, flag.id, flag.contradiction.reason)
        for flag in flags
        for line in _lines_of(flag, path, text)
    ]


def _lines_of(flag: Flag, path: str, text: str) -> list[int]:
    sides = [side for side in (flag.contradiction.existing, flag.contradiction.new) if side.path == path]
    lines = {place.line for side in sides for place in places_of(text, side)[:1]}
    return sorted(lines) or ([1] if sides else [])


def newest(authored: AuthoredPage) -> Change | None:
    """Return the newest change that brought any of the page's lines; None if none is on record."""
    changes = [run.change for run in authored.runs if run.change]
    return max(changes, key=lambda change: change.at, default=None)


def is_stale(changed: datetime | None, rules: Rules, now: datetime) -> bool:
    """Return whether nothing on the page is newer than two half-lives of its directory; unknown times don't count."""
    return changed is not None and now - changed > timedelta(days=STALE_HALF_LIVES * rules.half_life_days)


def is_from_elsewhere(document: Document, record: DocumentRecord | None) -> bool:
    """Return whether the page's text is not trusted: it was fetched, or lies in a folder that is marked untrusted."""
    untrusted = document.untrusted or (record is not None and record.untrusted)
    return is_tainted(document.source, untrusted=untrusted)


def folders_above(path: str) -> Sequence[tuple[str, str]]:
    """Return the folders above a page or folder, from the top, as their path and their name."""
    found: list[tuple[str, str]] = []
    above = parent(path)
    while above:
        found.insert(0, (above, above.rpartition("/")[2]))
        above = parent(above)
    return found
