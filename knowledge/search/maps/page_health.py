"""What may need care among the pages: old ones, those that nothing links to, lost links, and text from unverified sources."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

import anyio.to_thread

from knowledge.pages.claim_source import is_tainted
from knowledge.pages.links import LinkTargets, resolve_path
from knowledge.pages.own_pages import OwnPages
from knowledge.pages.paths import INDEX_NAME, PageLink, is_markdown, joined, parent, without_suffix
from knowledge.state.document_names import name_key
from knowledge.state.ports import IndexStore, LinkedDocument, SourcedDocument

STALE_AFTER = timedelta(days=365)
OwnPagesOf = Callable[[Sequence[str]], OwnPages]
"""Returns which of the pages at these paths are the person's own; it reads files."""


@dataclass(frozen=True, slots=True)
class LinkToNowhere:
    """A link of a page to a page that does not exist; `target` is as it is written."""

    page: str
    target: str


@dataclass(frozen=True, slots=True)
class PageHealth:
    """The number of pages, the bytes of their files, and the pages that may need care, each list by path, `stale` oldest first.

    `stale` pages were not changed for `STALE_AFTER`. No other page links to `orphans`. `unverified` pages hold text
    that was fetched from elsewhere, or are in a folder that is marked untrusted. All lists but `unverified` hold only
    pages that are the person's own.
    """

    pages: int
    size: int
    stale: Sequence[SourcedDocument]
    orphans: Sequence[str]
    lost: Sequence[LinkToNowhere]
    unverified: Sequence[SourcedDocument]


async def page_health(index: IndexStore, own_pages_of: OwnPagesOf, *, now_ns: int, by_name: bool) -> PageHealth:
    """Return the health of all indexed pages.

    With `by_name`, ordinary links are found by name too, as in an Obsidian folder.

    Raises:
        VaultUnavailable: the folder is gone.
    """
    linked, sourced = await index.linked_documents(), await index.sourced_documents()

    def all_judged() -> PageHealth:
        own = own_pages_of([page.path for page in sourced])
        return judged(linked, sourced, own, now_ns=now_ns, by_name=by_name)

    return await anyio.to_thread.run_sync(all_judged)


def judged(
    linked: Sequence[LinkedDocument],
    sourced: Sequence[SourcedDocument],
    own: OwnPages,
    *,
    now_ns: int,
    by_name: bool,
) -> PageHealth:
    """Return the health of these pages, of which those in `own` are the person's own."""
    names = _targets(linked, by_name=by_name)
    reached, lost = set[str](), list[LinkToNowhere]()
    for page in linked:
        for link in page.links:
            target = resolve_path(page.path, link.path, names, wiki=link.wiki)
            if target is not None and target != page.path:
                reached.add(target)
            elif target is None and page.path in own and _counts(page.path, link):
                lost.append(LinkToNowhere(page.path, link.path))
    texts = [page for page in sourced if page.path in own and page.path.rpartition("/")[2] != INDEX_NAME]
    before = now_ns - int(STALE_AFTER.total_seconds()) * 1_000_000_000
    return PageHealth(
        pages=len(sourced),
        size=sum(page.size for page in sourced),
        stale=sorted((page for page in texts if page.modified_ns < before), key=lambda page: page.modified_ns),
        orphans=[page.path for page in texts if page.path not in reached],
        lost=lost,
        unverified=[page for page in sourced if is_tainted(page.source, untrusted=page.untrusted)],
    )


def _targets(linked: Sequence[LinkedDocument], *, by_name: bool) -> LinkTargets:
    called = defaultdict[str, dict[str, None]](dict)
    there = {""}
    for page in linked:
        for name in (without_suffix(page.path.rpartition("/")[2]), page.title, *page.aliases):
            called[name_key(name)][page.path] = None
        there.update(_beginnings(page.path))
    return LinkTargets(there.__contains__, lambda name: tuple(called.get(name_key(name), ())), by_name)


def _beginnings(path: str) -> Iterator[str]:
    """Yield the path, and each folder above it."""
    while path:
        yield path
        path = parent(path)


def _counts(page: str, link: PageLink) -> bool:
    """Return whether a link that leads to no page was meant to lead to one.

    A link to another file was not, and the index does not know other files. Nor is a wiki link counted that is only a
    name: it may name a page that is still to be written.
    """
    last = link.path.rpartition("/")[2]
    if (link.wiki and "/" not in link.path) or not (is_markdown(link.path) or "." not in last):
        return False
    target = joined("" if link.wiki or link.path.startswith("/") else parent(page), link.path)
    return bool(target) and not any(part.startswith(".") for part in str(target).split("/"))
