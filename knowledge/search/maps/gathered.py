"""Maps that gather pages from all directories: those with a tag, and those around a page.

Also puts tags into the lines of any map.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from knowledge.pages.map_view import MapEntry, short_summary
from knowledge.pages.paths import PageLink
from knowledge.search.answers import MapView
from knowledge.search.map_lines import document_entry, when
from knowledge.search.maps.linked_pages import led_to, pages_linking_to
from knowledge.search.maps.parts import (
    MAP_TOKENS,
    NOTE_CHARACTERS,
    entry_length,
    joined_length,
    map_length,
    text_length,
)
from knowledge.search.maps.walk import cursor_of_tag, path_in
from knowledge.state.ports import DocumentRecord, IndexStore

MOST_TAGS = 3
LONGEST_TAGS = 40
"""The most tags in one line of a map, and the most characters that they may take."""
MOST_KNOWN_TAGS = 2_000
MOST_LISTED = 200
"""Pages with a tag that are read for one map. An entry takes 90 characters at least, so fewer fit."""
MOST_AROUND = 60
"""Pages around a page that are looked up in each direction."""


def with_tags(view: MapView, tags: Mapping[str, Sequence[str]]) -> MapView:
    """Return the map with tags behind the summaries of its pages, as many as have room in it; `tags` are those of each page."""
    if not tags:
        return view
    room = MAP_TOKENS * 4 - map_length(view)
    tagged: Sequence[str] = [tagged_summary(entry.summary, tags.get(entry.path, ())) for entry in view.children]
    # Summaries are counted as they are written in JSON, which escapes some characters.
    if joined_length(tagged) - joined_length(entry.summary for entry in view.children) > room:
        tagged = _within(room, [entry.summary for entry in view.children], tagged)
    shown = zip(view.children, tagged, strict=True)
    return replace(view, children=[one.with_summary(text) if text != one.summary else one for one, text in shown])


def _within(room: int, plain: Sequence[str], tagged: Sequence[str]) -> Sequence[str]:
    """Return the first tagged summaries as far as their tags fit in `room` characters, and the plain ones behind them."""
    for at, (short, long) in enumerate(zip(plain, tagged, strict=True)):
        room -= text_length(long) - text_length(short)
        if room < 0:
            return [*tagged[:at], *plain[at:]]
    return tagged


def tagged_summary(summary: str, tags: Sequence[str]) -> str:
    """Return a summary with the first tags of its page behind it."""
    if not tags:
        return summary
    shown, room = [], LONGEST_TAGS
    written = summary.split()
    for tag in [tag for tag in tags if f"#{tag}" not in written][:MOST_TAGS]:
        room -= len(tag) + 2
        if room < 0:
            break
        shown.append(f"#{tag}")
    return " ".join(filter(None, (summary, *shown)))


async def known_tags(index: IndexStore, tags: Sequence[str]) -> tuple[str, ...]:
    """Return the tags, those that no page has in the spelling of the commonest one that differs from them in case only."""
    known = [tag for tag, _ in await index.tags(limit=MOST_KNOWN_TAGS)]
    spelling = {tag.casefold(): tag for tag in reversed(known)}
    return tuple(tag if tag in known else spelling.get(tag.casefold(), tag) for tag in tags)


async def map_of_tag(index: IndexStore, asked: str, cursor: str | None = None) -> MapView | None:
    """Return the pages with the tag `asked` or one below it (`a/b` is below `a`), whatever its case; None if no page has it.

    Raises:
        BadCursor: `cursor` belongs to another map.
    """
    wanted, after = asked.casefold(), path_in(cursor, asked) if cursor else ""
    known = [tag for tag, _ in await index.tags(limit=MOST_KNOWN_TAGS)]
    below = [tag for tag in known if tag.casefold() == wanted or tag.casefold().startswith(f"{wanted}/")]
    levels = asked.count("/") + 1
    tags = list(dict.fromkeys((asked, *("/".join(tag.split("/")[:levels]) for tag in below))))
    found = await index.count_tagged(tags)
    if not found.documents:
        return None
    nested = [tag for tag in below if tag.casefold() != wanted]
    summary = f"Pages with this tag{' or one below it: ' + _few(nested) if nested else ''}."
    note = f"to search these pages: kb_search(query, filters={{'tags': [{asked!r}]}})"
    head = _head(f"#{asked}", f"#{asked}", summary, note)
    waiting = await index.count_tagged(tags, after=after) if after else found
    records = await index.tagged(tags, after=after, limit=MOST_LISTED)
    return _gathered(
        replace(head, count=found.documents, modified=when(found.newest_ns) if found.newest_ns else None),
        *(records, waiting.documents),
        cursor_behind=lambda path: cursor_of_tag(path, asked),
    )


async def map_of_page(
    index: IndexStore, record: DocumentRecord, links: Sequence[PageLink], *, by_name: bool
) -> MapView:
    """Return the page with its tags, the pages that it links to, and then those that link to it."""
    led = await led_to(index, record.path, links[:MOST_AROUND], by_name=by_name)
    out = [path for path in dict.fromkeys(led.values()) if path != record.path]
    back, _ = await pages_linking_to(index, record.path, (record.title, *record.aliases), by_name=by_name)
    further = [path for path in back[:MOST_AROUND] if path not in out]
    around = [found for path in (*out, *further) if (found := await index.document(path)) is not None]
    linked = sum(one.path in out for one in around)
    note = f"{_neighbours(linked, len(around) - linked)}; read it with kb_read({record.path!r})"
    head = _head(record.path, record.title, tagged_summary(record.summary, record.tags), note)
    return _gathered(replace(head, count=len(around), modified=when(record.stamp.mtime_ns)), around, len(around))


def _neighbours(linked: int, linking: int) -> str:
    """Return a phrase about the links of a page, for the note of its map.

    The map lists the `linked` pages that the page links to, then the `linking` pages that link to it.
    """
    if not linked and not linking:
        return "this is a page, not a directory; it has no links, and no page links to it"
    if not linking:
        return "this is a page, so the pages that it links to are listed"
    if not linked:
        return "this is a page, so the pages that link to it are listed"
    return (
        f"this is a page, so its links are listed: it links to the first {linked}, and the other {linking} link to it"
    )


def _head(path: str, title: str, summary: str, note: str) -> MapView:
    """Return a map without pages."""
    return MapView(path, title, summary, derived=True, children=(), count=0, modified=None, truncated=False, note=note)


def _gathered(
    head: MapView, records: Sequence[DocumentRecord], waiting: int, *, cursor_behind: Callable[[str], str] | None = None
) -> MapView:
    """Return the map with as many of these pages as fit; `waiting` is how many there are, including those not in `records`.

    `cursor_behind` returns the cursor behind a path, for the rest.
    """
    room = MAP_TOKENS * 4 - NOTE_CHARACTERS - map_length(head)
    shown: list[MapEntry] = []
    for record in records:
        entry = document_entry(record)
        summary = short_summary(entry.summary)
        room -= entry_length(entry, summary)
        if room < (len(cursor_behind(entry.path)) if cursor_behind else 0):
            break
        shown.append(entry.with_summary(summary))
    left = waiting - len(shown)
    return replace(
        head,
        children=shown,
        truncated=left > 0,
        note=f"{left} more pages; {head.note}" if left else head.note,
        next_cursor=cursor_behind(shown[-1].path) if cursor_behind and left and shown else None,
    )


def _few(tags: Sequence[str]) -> str:
    return ", ".join(f"#{tag}" for tag in tags[:MOST_TAGS]) + (", ..." if len(tags) > MOST_TAGS else "")
