"""Walks a list that comes in pages: to its end, or as far as the pages lead, and then it is said why. Pure.

Pages are counted from the start of the list (`cursor` is size, number, direction), so a list that grows while it is read shows
things twice, and nothing but the ids tells.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from mcp_server.connectors.plane.model import ListPage


class Identified(Protocol):
    """What has an id."""

    @property
    def id(self) -> str:
        """What tells it from others."""
        ...


T_co = TypeVar("T_co", bound=Identified, covariant=True)
T = TypeVar("T", bound=Identified)
MOST_PAGES = 100


@dataclass(frozen=True, slots=True)
class Walked(Generic[T_co]):
    """What was found, each thing once, in the order of the pages; `note` says why it may not be all, None where it is."""

    items: tuple[T_co, ...]
    note: str | None = None


async def everything(
    page: Callable[[str | None], Awaitable[ListPage[T]]],
    *,
    most: int = 20_000,
    until: Callable[[T], bool] = lambda _item: False,
) -> Walked[T]:
    """Return what all pages hold together: at most `most` things, or what came up to a page with one that `until` fits.

    `page` is asked with None first, then with each cursor that it told. It ends, and the note says why, also when a cursor
    was told before, a page is empty or has nothing new while more is promised, and when fewer came than were promised.
    """
    found: dict[str, T] = {}
    cursor: str | None = None
    told: set[str] = set()
    for _ in range(MOST_PAGES):
        got = await page(cursor)
        before = len(found)
        for item in got.items:
            found.setdefault(item.id, item)
        if any(until(item) for item in got.items):
            return Walked(tuple(found.values()))
        if len(found) >= most and (len(found) > most or got.next_cursor is not None):
            return _stopped(list(found.values())[:most], got, f"only the first {most} were read")
        if got.next_cursor is None:
            return _ended(list(found.values()), got)
        if len(found) == before:
            return _stopped(list(found.values()), got, "a page had nothing new while more were promised")
        if got.next_cursor in told or got.next_cursor == cursor:
            return _stopped(list(found.values()), got, "the pages led in a circle")
        told.add(got.next_cursor)
        cursor = got.next_cursor
    return _stopped(list(found.values()), got, f"only the first {MOST_PAGES} pages were read")


def _ended(items: list[T], last: ListPage[T]) -> Walked[T]:
    if last.total is not None and len(items) < last.total:
        return _stopped(items, last, "the pages ended early")
    return Walked(tuple(items))


def _stopped(items: list[T], last: ListPage[T], why: str) -> Walked[T]:
    if last.total is not None and len(items) == last.total:
        return Walked(tuple(items))
    of = f" of {last.total}" if last.total is not None else ""
    return Walked(tuple(items), f"{why}: {len(items)}{of} came from Plane")
