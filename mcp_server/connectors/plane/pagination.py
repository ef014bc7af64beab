"""Reads a list that comes in pages to its end, or as far as the pages lead, and says why it may be incomplete. Pure.

Plane counts pages from the start of the list (a cursor is size, number, direction). So a list that grows while it is read shows
things twice, and only their ids show it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from mcp_server.connectors.plane.model import ListPage


class Identified(Protocol):
    """A thing with an id."""

    @property
    def id(self) -> str:
        """Plane's id."""
        ...


T_co = TypeVar("T_co", bound=Identified, covariant=True)
T = TypeVar("T", bound=Identified)
MOST_PAGES = 100  # even if a server always announces another one


@dataclass(frozen=True, slots=True)
class Listing(Generic[T_co]):
    """The things found, each once, in the order of the pages. `note` says why some may be missing, None if none is.

    `aged_s` is set if a newer list could not be requested: the age of this one.
    """

    items: tuple[T_co, ...]
    note: str | None = None
    aged_s: float | None = None


@dataclass(slots=True)
class PagesRead(Generic[T]):
    """The part of a list that has come so far. If a page fails, reading can continue with it."""

    found: dict[str, T] = field(default_factory=dict)
    cursor: str | None = None
    cursors: set[str] = field(default_factory=set)


async def read_all(
    page: Callable[[str | None], Awaitable[ListPage[T]]],
    *,
    most: int = 20_000,
    until: Callable[[T], bool] = lambda _item: False,
    begun: PagesRead[T] | None = None,
) -> Listing[T]:
    """Return the things of all pages, at most `most`. Reading ends early at a page with a thing for which `until` is true.

    `page` is called with None for the first page, then with the cursor of each next page. The pages are added to `begun`.

    Reading also ends, and the list gets a note, if a cursor repeats, if a page has nothing new although more are announced, or if
    the last page came before as many things as Plane counts. Otherwise a faulty server could keep us reading forever, or pass for
    an empty project.
    """
    begun = begun or PagesRead[T]()
    found, cursors = begun.found, begun.cursors
    for _ in range(MOST_PAGES):
        cursor = begun.cursor
        got = await page(cursor)
        before = len(found)
        for item in got.items:
            found.setdefault(item.id, item)  # if the list grew, the next page repeats the last entries of this one
        items = tuple(found.values())
        if any(until(item) for item in got.items):
            return Listing(items)
        if len(found) >= most and (len(found) > most or got.next_cursor is not None):
            return _incomplete(items[:most], got.total, f"only the first {most} were read")
        if got.next_cursor is None:
            ended_early = got.total is not None and len(found) < got.total
            return _incomplete(items, got.total, "the pages ended early") if ended_early else Listing(items)
        if len(found) == before:
            return _incomplete(items, got.total, "a page had nothing new, although more were promised")
        if got.next_cursor in cursors or got.next_cursor == cursor:
            return _incomplete(items, got.total, "the pages led in a circle")
        cursors.add(got.next_cursor)
        begun.cursor = got.next_cursor
    return _incomplete(items, got.total, f"only the first {MOST_PAGES} pages were read")


def _incomplete(items: tuple[T, ...], total: int | None, why: str) -> Listing[T]:
    if total == len(items):  # the pages went wrong after everything had come
        return Listing(items)
    of = f" of {total}" if total is not None else ""
    return Listing(items, f"{why}: {len(items)}{of} came from Plane")
