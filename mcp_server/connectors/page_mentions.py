"""Links between pages and what is said elsewhere, both ways: pages that a text names, and what was found to name a page."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Sequence

from knowledge.errors import InvalidPath, KnowledgeError, StorageError
from knowledge.outbox.ports import Mention
from knowledge.pages.claim_source import source_kind
from knowledge.pages.paths import INDEX_NAME, MARKDOWN_SUFFIXES, is_markdown
from knowledge.search.answers import Citing
from mcp_server.connectors.text.mentions import MentionedPage, names_in
from mcp_server.ports import MentionServices

logger = logging.getLogger("knowledge_forge.connectors")

MOST_PAGES = 20
MOST_CITING = 10
MOST_NOTED = 50
"""Looked through for those: some may lie where nobody may read from here."""
_TOPIC = re.compile(r"/topic/[^/]*")
"""The part of an address that is a topic's name; Zulip finds a message without it."""


async def noted(
    services: MentionServices, origin: str, *, url: str, texts: Iterable[str], title: str = ""
) -> tuple[str, ...]:
    """Return the paths of the pages that the texts name, and remember that `origin` names them.

    `origin` is a lineage: `plane:KB-12`, `zulip:design/merge`. What cannot be remembered or looked up now is left out: a
    task is read although nobody can say what it cites.
    """
    try:
        pages = await _named(services, texts)
        if pages:
            now = services.now()
            await services.state.outbox.mention([Mention(path, origin, title, url, now) for path in pages])
    except KnowledgeError:
        logger.warning("it is not remembered which pages %s names", origin, exc_info=True)
        return ()
    return pages


async def pages_of(services: MentionServices, origin: str, texts: Iterable[str]) -> tuple[str, ...]:
    """Return the paths of the pages that the texts name, and of those that hold knowledge from `origin`."""
    try:
        named = await _named(services, texts)
        # In capitals or not: both are written by those who cite a task.
        told = await services.state.ledger.told_by({origin, origin.lower()}, limit=MOST_PAGES)
        return tuple(dict.fromkeys([*named, *[path for path in told if await _is_page(services, path)]]))[:MOST_PAGES]
    except KnowledgeError:
        logger.warning("it cannot be said now which pages belong to %s", origin, exc_info=True)
        return ()


async def cited_by(services: MentionServices, path: str) -> Sequence[Citing]:
    """Return what is known to name the page, newest first, of what may be read from here: others note what they read, too.

    What it is called there is left out, also the topic of a thread, which anybody may write: nobody vouches for it, and
    reading the page must not count as reading that.
    """
    try:
        found = await services.state.outbox.mentions(path, limit=MOST_NOTED)
    except StorageError:
        logger.warning("it cannot be said now what cites %s", path, exc_info=True)
        return ()
    told = [_told(mention) for mention in found if _may_be_told(services, mention.origin)]
    return list(dict.fromkeys(told))[:MOST_CITING]


def _told(mention: Mention) -> Citing:
    if source_kind(mention.origin) != "zulip":
        return Citing(mention.origin, mention.url)
    return Citing(mention.origin.partition("/")[0], _TOPIC.sub("", mention.url))


def _may_be_told(services: MentionServices, origin: str) -> bool:
    """Return whether the settings here let the task or the topic be read."""
    place = origin.partition(":")[2]
    try:
        if source_kind(origin) == "zulip":
            return services.zulip.may_name(place.partition("/")[0])
        return services.plane.may_name(place.rpartition("-")[0])
    except KnowledgeError:  # it is not configured here, or in a way that cannot be used
        return False


async def _named(services: MentionServices, texts: Iterable[str]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for named in names_in(texts):
        path = await _page(services, named)
        if path is not None:
            found[path] = None
        if len(found) == MOST_PAGES:
            break
    return tuple(found)


async def _page(services: MentionServices, named: MentionedPage) -> str | None:
    for asked in named.paths:
        for path in _spellings(asked):
            if await _is_page(services, path):
                return path
    if not named.called:
        return None
    matches = [match for match in await services.index.named(named.called, limit=5) if match.by != "heading"]
    paths = {match.path for match in matches}
    return paths.pop() if len(paths) == 1 else None


async def _is_page(services: MentionServices, path: str) -> bool:
    try:
        return await services.tiers.place(path) == "page"
    except InvalidPath:
        return False


def _spellings(path: str) -> Sequence[str]:
    if is_markdown(path):
        return [path]
    return [*(path + suffix for suffix in MARKDOWN_SUFFIXES), f"{path.rstrip('/')}/{INDEX_NAME}"]
