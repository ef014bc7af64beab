"""The file of each page, folder, tag and attachment in a static site, and relative links between them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from knowledge.pages.paths import ancestors, without_suffix
from mcp_server.imports.names.page_names import FreePaths, usable_path
from mcp_server.web.knowledge_pages.files import INLINE, PICTURE_ONLY

INERT = frozenset({*INLINE, "pdf", "zip", "gz", "tar", "docx", "xlsx", "pptx", "odt", "ods", "odp", "epub"})
"""Suffixes of files that a browser shows or saves without running anything. Others get `.txt`, so that it shows them as text."""
AS_TEXT = ".txt"
HOME, SEARCH, TAGS, GRAPH = "index.html", "search.html", "tags/index.html", "graph.html"


@dataclass(frozen=True, slots=True)
class SitePlaces:
    """Paths in the site: of pages, folders ("" is the home page), tags, and attachments, by their names here."""

    pages: Mapping[str, str]
    folders: Mapping[str, str]
    tags: Mapping[str, str]
    files: Mapping[str, str]


def places_of(pages: Sequence[str], tags: Iterable[str], files: Mapping[str, bool]) -> SitePlaces:
    """Return a place for everything; `files` says of each attachment whether its content is what its name promises a browser.

    Names are safe and short enough on every system, and differ even where case is ignored.
    """
    free = FreePaths()
    for reserved in (HOME, SEARCH, TAGS, GRAPH):
        free.free(reserved)
    # Pages first: one called `index` is what people expect at its folder's address, and the folder's list can be anywhere.
    places = {path: free.free(f"pages/{usable_path(without_suffix(path))}.html") for path in sorted(pages)}
    above = {folder for path in pages for folder in ancestors(path)} - {""}
    return SitePlaces(
        pages=places,
        folders={"": HOME, **{path: free.free(f"pages/{usable_path(path)}/index.html") for path in sorted(above)}},
        tags={tag: free.free(f"tags/{usable_path(tag.replace('/', '-'))}.html") for tag in sorted(set(tags))},
        files={
            path: free.free(f"files/{usable_path(path)}" + ("" if inert else AS_TEXT))
            for path, inert in sorted(files.items())
        },
    )


def is_inert(path: str) -> bool:
    """Return whether a file of that name runs nothing in a browser; for a picture that may have scripts, its content decides."""
    return path.rpartition(".")[2].lower() in INERT


def is_drawing(path: str) -> bool:
    """Return whether the file is a picture that may have scripts in it."""
    return path.rpartition(".")[2].lower() in PICTURE_ONLY


def relative(place: str, target: str, anchor: str = "") -> str:
    """Return the link from the file at `place` to the one at `target`."""
    here, there = place.split("/")[:-1], target.split("/")
    common = 0
    while common < len(here) and common < len(there) - 1 and here[common] == there[common]:
        common += 1
    way = "/".join([".."] * (len(here) - common) + [quote(part) for part in there[common:]])
    # A colon in the first part would make it the scheme of an address; `quote` has encoded it.
    return way + (f"#{quote(anchor)}" if anchor else "")
