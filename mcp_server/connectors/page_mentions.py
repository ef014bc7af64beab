"""Links between pages and other services, in both directions: the pages that a text names, and the known texts that name a page."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from knowledge.errors import InvalidPath, KnowledgeError, StorageError
from knowledge.outbox.ports import Mention
from knowledge.pages.claim_source import source_kind
from knowledge.pages.paths import INDEX_NAME, MARKDOWN_SUFFIXES, is_markdown
from knowledge.search.answers import Citing
from mcp_server.connectors.text.mentions import MentionedPage, mentions_in
from mcp_server.ports import MentionServices

logger = logging.getLogger("knowledge_forge.connectors")

MOST_PAGES = 20
MOST_CITING = 10
MOST_READ = 50
"""Mentions that are read to find MOST_CITING of them: some may be in places that this server may not read."""


async def remember_mentions(
    services: MentionServices, origin: str, *, url: str, texts: Iterable[str], title: str = ""
) -> tuple[str, ...]:
    """Record that `origin` (`plane:KB-12`, `zulip:design/merge`) names the pages in the texts, and return their paths.

    An error is logged, and the result is empty: a task can be read even if its citations are unknown.
    """
    try:
        pages = await _pages_in(services, texts)
        if pages:
            now = services.now()
            await services.state.outbox.mention([Mention(path, origin, title, url, now) for path in pages])
    except KnowledgeError:
        logger.warning("could not record which pages %s names", origin, exc_info=True)
        return ()
    return pages


async def related_pages(services: MentionServices, origin: str, texts: Iterable[str]) -> tuple[str, ...]:
    """Return the paths of the pages that the texts name, and of the pages with knowledge from `origin`."""
    try:
        named = await _pages_in(services, texts)
        # People cite a task as KB-12 or kb-12.
        citing = await services.state.ledger.told_by({origin, origin.lower()}, limit=MOST_PAGES)
        return tuple(dict.fromkeys([*named, *[path for path in citing if await _is_page(services, path)]]))[:MOST_PAGES]
    except KnowledgeError:
        logger.warning("could not find the pages that belong to %s", origin, exc_info=True)
        return ()


async def citations_of(services: MentionServices, path: str) -> Sequence[Citing]:
    """Return the known mentions of the page, newest first, limited to places that may be read from here.

    Every process on this knowledge base records what it read, and their settings may allow more than ours.
    """
    try:
        mentions = await services.state.outbox.mentions(path, limit=MOST_READ)
    except StorageError:
        logger.warning("could not find what cites %s", path, exc_info=True)
        return ()
    shown = [citation for mention in mentions if (citation := _citation(services, mention)) is not None]
    # Two topics of one channel are shown as the channel, once.
    return list(dict.fromkeys(shown))[:MOST_CITING]


def _citation(services: MentionServices, mention: Mention) -> Citing | None:
    load = services.connectors.get(source_kind(mention.origin))
    try:
        return load().citation(mention) if load else None
    except KnowledgeError:  # its settings are unusable
        return None


async def _pages_in(services: MentionServices, texts: Iterable[str]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for mention in mentions_in(texts):
        path = await _find_page(services, mention)
        if path is not None:
            found[path] = None
        if len(found) == MOST_PAGES:
            break  # each costs a look at the index, and strangers write these texts
    return tuple(found)


async def _find_page(services: MentionServices, mention: MentionedPage) -> str | None:
    for written in mention.paths:
        without_suffix = [*(written + suffix for suffix in MARKDOWN_SUFFIXES), f"{written.rstrip('/')}/{INDEX_NAME}"]
        for path in [written] if is_markdown(written) else without_suffix:
            if await _is_page(services, path):
                return path
    if not mention.title:
        return None
    # Headings are not titles, and a title that two pages share identifies neither.
    matches = [match for match in await services.index.named(mention.title, limit=5) if match.by != "heading"]
    paths = {match.path for match in matches}
    return paths.pop() if len(paths) == 1 else None


async def _is_page(services: MentionServices, path: str) -> bool:
    try:
        return await services.tiers.place(path) == "page"
    except InvalidPath:
        return False
