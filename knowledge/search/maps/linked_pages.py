"""The pages that a page links to, and those that link to it, from the index."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from knowledge.pages.links import LinkTargets, resolve_path
from knowledge.pages.paths import PageLink, is_markdown, without_suffix
from knowledge.state.document_names import keys_of_links_to, name_key
from knowledge.state.ports import IndexStore, LinkRow

MOST_SHOWN = 12
MOST_CHARACTERS = 600
"""The most paths in one list, and the most characters of them. The other paths are only counted."""
MOST_FOLLOWED = 200
"""Links of a page that are followed."""
MOST_NAMES = 40
"""Links by name that are looked up, since each needs its own query."""
MOST_LINKING = 200
"""Links to a page that are checked."""
MOST_OF_A_NAME = 20


@dataclass(frozen=True, slots=True)
class LinkedPages:
    """The paths to show in each direction, and a note on how many more there are, "" if none."""

    links: Sequence[str]
    backlinks: Sequence[str]
    note: str


async def linked_pages(
    index: IndexStore,
    path: str,
    names: Sequence[str],
    links: Sequence[PageLink],
    *,
    by_name: bool = False,
    files: Mapping[str, Sequence[str]] = MappingProxyType({}),
    canvases: Sequence[str] = (),
) -> LinkedPages:
    """Return the pages that the page at `path` links to, in the order of `links`, and the pages that link to it, by path.

    `links` are the links of the page, and `names` its title and aliases. `resolve_path` decides where a link leads;
    with `by_name`, it finds ordinary links by name too. Pages that no longer exist are left out. `files` are files
    other than pages, by the key of their name. `canvases` are paths of canvases that also link to the page.
    """
    led = await led_to(index, path, links[:MOST_FOLLOWED], by_name=by_name)
    out = list(dict.fromkeys(page for page in led.values() if page != path))
    back, complete = await pages_linking_to(index, path, names, by_name=by_name, files=files)
    back = sorted({*back, *canvases} - {path})
    shown_out, shown_back = _shown(out), _shown(back)
    notes = []
    if more := len(out) - len(shown_out):
        least = "at least " if len(links) >= MOST_FOLLOWED else ""
        notes.append(f"it links to {least}{more} more page{'' if more == 1 else 's'}")
    if more := len(back) - len(shown_back):
        notes.append(f"{'' if complete else 'at least '}{more} more page{' links' if more == 1 else 's link'} to it")
    return LinkedPages(shown_out, shown_back, " and ".join(notes))


async def led_to(
    index: IndexStore, path: str, links: Sequence[PageLink], *, by_name: bool = False
) -> dict[PageLink, str]:
    """Return the page that each of the links of the page at `path` leads to, in their order; those that lead to none are left out."""
    led = await followed(index, [LinkRow(path, link) for link in links], most_names=MOST_NAMES, by_name=by_name)
    return {link: page for link, page in zip(links, led, strict=True) if page is not None}


async def followed(
    index: IndexStore, rows: Sequence[LinkRow], *, most_names: int, by_name: bool = False
) -> list[str | None]:
    """Return the page that each link leads to, None for one that leads to no page. At most `most_names` links are looked up by name.

    With `by_name`, ordinary links are found by name too, as in an Obsidian folder.
    """
    called = await _called(index, (row.link for row in rows if row.link.wiki or by_name), most_names)
    # All paths that the links could mean are collected first, so that one query looks them up.
    possible: set[str] = set()
    for row in rows:
        resolve_path(row.page, row.link.path, LinkTargets(_collecting(possible), called), wiki=row.link.wiki)
    existing = await index.existing(set(filter(is_markdown, possible)))
    names = LinkTargets(existing.__contains__, called, by_name)
    return [resolve_path(row.page, row.link.path, names, wiki=row.link.wiki) for row in rows]


async def pages_linking_to(
    index: IndexStore,
    path: str,
    names: Sequence[str],
    *,
    by_name: bool = False,
    files: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> tuple[list[str], bool]:
    """Return the other pages that link to the page at `path`, by path, and whether these are all of them.

    `names` are the page's title and aliases.
    """
    rows = [row for row in await index.linking(keys_of_links_to(path, names), limit=MOST_LINKING) if row.page != path]
    return await _linking(index, path, rows, by_name=by_name, files=files), len(rows) < MOST_LINKING


async def _linking(
    index: IndexStore, path: str, rows: Sequence[LinkRow], *, by_name: bool, files: Mapping[str, Sequence[str]]
) -> list[str]:
    """Return the pages of those links that really lead to `path`."""
    called = await _called(index, (row.link for row in rows if row.link.wiki or by_name), MOST_NAMES)
    called.add(files)
    # Only paths that a link would prefer over this page are looked up; most links have none.
    preferred: set[str] = set()
    names = LinkTargets(_collecting(preferred, until=path), called)
    for row in rows:
        resolve_path(row.page, row.link.path, names, wiki=row.link.wiki)
    existing = await index.existing(set(filter(is_markdown, preferred))) | {path}
    names = LinkTargets(existing.__contains__, called, by_name)
    leading = (row.page for row in rows if resolve_path(row.page, row.link.path, names, wiki=row.link.wiki) == path)
    return list(dict.fromkeys(leading))


def _collecting(paths: set[str], *, until: str | None = None) -> Callable[[str], bool]:
    """Return an `exists` for `resolve_path` that records each path it is asked about in `paths` and finds only `until`."""

    def exists(path: str) -> bool:
        if path != until:
            paths.add(path)
        return path == until

    return exists


class _Called:
    """Looks up the pages that a link by name can mean, from results that are already there."""

    def __init__(self, paths: Mapping[str, Sequence[str]]) -> None:
        self._paths = dict(paths)

    def add(self, files: Mapping[str, Sequence[str]]) -> None:
        """Add files by the key of their name."""
        for key, paths in files.items():
            self._paths[key] = [*self._paths.get(key, ()), *paths]

    def __call__(self, name: str) -> Sequence[str]:
        return self._paths.get(name_key(name), ())


async def _called(index: IndexStore, links: Iterable[PageLink], most: int) -> _Called:
    found: dict[str, Sequence[str]] = {}
    # A link with folders is mostly found by its path.
    wanted = sorted(links, key=lambda link: "/" in link.path)
    names = dict.fromkeys(name_key(without_suffix(link.path.rpartition("/")[2])) for link in wanted)
    for name in [name for name in names if name][:most]:
        matches = await index.named(name, limit=MOST_OF_A_NAME)
        found[name] = list(dict.fromkeys(match.path for match in matches if match.by != "heading"))
    return _Called(found)


def _shown(paths: Sequence[str]) -> list[str]:
    shown: list[str] = []
    room = MOST_CHARACTERS
    for path in paths[:MOST_SHOWN]:
        room -= len(path) + 3
        if room < 0 and shown:
            break
        shown.append(path)
    return shown
