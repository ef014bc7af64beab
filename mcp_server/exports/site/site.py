"""Writes a knowledge base as a static site.

Every page can be opened from the file system, loads nothing from elsewhere, and runs no script, except the search, whose script and
words are files of the site.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio.from_thread
import anyio.to_thread
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from knowledge.pages.document import Document, anchors, parse
from knowledge.pages.map_view import readable
from knowledge.pages.markdown.tags import with_tags_above
from knowledge.pages.paths import INDEX_NAME, ancestors, is_markdown, parent
from knowledge.pages.vault import Vault
from mcp_server.exports.copies import FORM_VERSION, Exported, ExportSource, OnPage, copy_attachment, head_line
from mcp_server.exports.destination import MANIFEST, FolderWriter, new_folder
from mcp_server.exports.selection import PageCatalogue
from mcp_server.exports.site.drawings import only_draws
from mcp_server.exports.site.link_pictures import SiteLinkGraph
from mcp_server.exports.site.places import (
    GRAPH,
    HOME,
    SEARCH,
    TAGS,
    SitePlaces,
    is_drawing,
    is_inert,
    places_of,
    relative,
)
from mcp_server.exports.site.search_index import SearchWords, counts_of
from mcp_server.web.knowledge_pages.named_parts import anchor_named, part_named
from mcp_server.web.knowledge_pages.page_text import MOST_OUTLINE, title_heading
from mcp_server.web.markdown.renderer import render
from mcp_server.web.text.sanitize import sanitize_line, spelled_out

SITE_FORM = "knowledge-forge-site"
POLICY = "default-src 'none'; style-src 'self'; img-src 'self'; media-src 'self'; base-uri 'none'; form-action 'none'"
SEARCH_POLICY = f"{POLICY}; script-src 'self'"
LARGEST_DRAWING = 8 << 20
LONGEST_EMBEDDED = 100_000
HERE = Path(__file__).parent
STATIC = {
    "review.css": HERE.parents[1] / "web" / "static" / "review.css",
    "read.css": HERE.parents[1] / "web" / "static" / "read.css",
    "graph.css": HERE.parents[1] / "web" / "static" / "graph.css",
    "site.css": HERE / "static" / "site.css",
    "search.js": HERE / "static" / "search.js",
}


@dataclass(frozen=True, slots=True)
class ListedPage:
    """A page or folder in a list. `count` is the number of pages in a folder, 0 for a page."""

    title: str
    place: str
    summary: str = ""
    count: int = 0


@dataclass(frozen=True, slots=True)
class _PageFacts:
    """What other pages and the search need to know of a page."""

    title: str
    summary: str
    tags: Sequence[str]
    aliases: Sequence[str]
    links: Sequence[tuple[str, bool]]


async def export_site(source: ExportSource, destination: Path, on_page: OnPage, *, name: str) -> Exported:
    """Write the site; `name` is its title."""
    with new_folder(destination, SITE_FORM, source.vault.root) as folder:
        return await anyio.to_thread.run_sync(lambda: _Site(source, folder, name).write(_from_thread(on_page)))


def _from_thread(on_page: OnPage) -> OnPage:
    return lambda done, total: anyio.from_thread.run_sync(on_page, done, total)


class _Site:
    """One site while it is written."""

    def __init__(self, source: ExportSource, folder: FolderWriter, name: str) -> None:
        self._source, self._vault, self._folder, self._name = source, source.vault, folder, name
        self._facts = {path: _facts(self._vault, path) for path in source.selection.pages}
        named = {path: (facts.title, facts.aliases) for path, facts in self._facts.items()}
        self._catalogue = PageCatalogue(named, source.selection.attachments, by_name=self._vault.is_obsidian())
        tags = {tag for facts in self._facts.values() for tag in facts.tags}
        files = {path: is_inert(path) or self._is_harmless_drawing(path) for path in source.selection.attachments}
        self._places = places_of(source.selection.pages, tags, files)
        self._words = SearchWords()
        self._templates = _environment()

    def write(self, on_page: OnPage) -> Exported:
        """Write everything, and return what the site holds."""
        selection, size = self._source.selection, 0
        total = len(selection.pages) + len(selection.attachments)
        links = {path: self._led(path) for path in selection.pages}
        back = defaultdict[str, list[str]](list)
        for path, targets in links.items():
            for target in targets:
                if target != path:
                    back[target].append(path)
        titles = {path: facts.title for path, facts in self._facts.items()}
        graph = SiteLinkGraph(titles, links, {path: back[path] for path in selection.pages})
        for done, path in enumerate(selection.pages, 1):
            size += self._page(path, graph)
            on_page(done, total)
        for done, path in enumerate(selection.attachments, 1 + len(selection.pages)):
            size += copy_attachment(self._vault, path, self._folder, self._places.files[path])[1]
            on_page(done, total)
        for place, html in self._lists():
            size += self._put(place, html)
        size += self._graph(graph)
        for place, script in self._words.scripts():
            size += self._put(place, script)
        for file, origin in STATIC.items():
            size += self._put(f"static/{file}", origin.read_text(encoding="utf-8"))
        lines = [head_line(self._source, SITE_FORM) | {"version": FORM_VERSION}]
        lines += [{"path": path, "sha256": digest} for path, digest in self._folder.digests.items()]
        self._put(MANIFEST, "".join(json.dumps(line) + "\n" for line in lines))
        return Exported(len(selection.pages), len(selection.attachments), size, selection.excluded, selection.left_out)

    def _put(self, place: str, text: str) -> int:
        raw = text.encode("utf-8", "replace")
        self._folder.write(place, raw)
        return len(raw)

    def _led(self, path: str) -> list[str]:
        """Return the pages that the page links to, each once."""
        found = (self._catalogue.leads_to(path, target, wiki=wiki) for target, wiki in self._facts[path].links)
        return list(dict.fromkeys(target for target in found if target in self._facts))

    def _graph(self, graph: SiteLinkGraph) -> int:
        overview, picture = graph.whole()
        pages = {path: ListedPage(facts.title, self._places.pages[path]) for path, facts in self._facts.items()}
        return self._put(
            GRAPH,
            self._filled(
                "site_graph.html",
                GRAPH,
                title="Graph",
                overview=overview,
                picture=picture,
                pages=pages,
                folders=self._places.folders,
            ),
        )

    def _page(self, path: str, graph: SiteLinkGraph) -> int:
        place = self._places.pages[path]
        near = graph.around(path, lambda other: relative(place, self._places.pages[other]))
        document = parse(path, self._vault.read(path).raw)
        body = "\n".join(document.text.split("\n")[document.body_line - 1 :])
        counts = counts_of(document.title, [heading.text for heading in document.headings], body)
        self._words.add(document.title, place, document.summary, counts)
        links = _SiteLinks(self._vault, self._catalogue, self._places, document)
        rendered = render(document.text, links, lambda tag: _tag_link(self._places, place, tag))
        title = title_heading(document)
        anchor = next((one for one, heading in anchors(document.headings).items() if heading == title), "")
        outline = rendered.outline[1:] if title else rendered.outline
        blocks = rendered.blocks
        if title is not None:
            # The heading above the text says it already.
            blocks = tuple(block for block in blocks if not block.first <= title.line <= block.last)
        html = self._filled(
            "site_page.html",
            place,
            title=document.title,
            language=document.language or "en",
            document=document,
            heading=title,
            title_anchor=anchor,
            folders=self._above(parent(path)),
            outline=outline[:MOST_OUTLINE],
            blocks=blocks,
            footnotes=rendered.footnotes,
            tag_places=self._places.tags,
            near=near,
            back=self._listed(graph.back[path]),
            out=self._listed(graph.links[path]),
        )
        return self._put(place, html)

    def _lists(self) -> Iterator[tuple[str, str]]:
        """Yield the pages that list pages: folders, tags, and the search."""
        inside = defaultdict[str, list[str]](list)
        counts = defaultdict[str, int](int)
        for path in self._facts:
            inside[parent(path)].append(path)
            for folder in ancestors(path):
                counts[folder] += 1
        below = defaultdict[str, list[str]](list)
        for folder in filter(None, self._places.folders):
            below[parent(folder)].append(folder)
        for folder, place in self._places.folders.items():
            index = f"{folder}/{INDEX_NAME}" if folder else INDEX_NAME
            own = self._facts.get(index)
            subfolders = [
                ListedPage(self._folder_title(one), self._places.folders[one], self._folder_summary(one), counts[one])
                for one in sorted(below[folder])
            ]
            yield (
                place,
                self._filled(
                    "site_list.html",
                    place,
                    title=self._folder_title(folder),
                    lead=own.summary if own else "",
                    folders=self._above(parent(folder)) if folder else None,
                    own_page=self._places.pages.get(index, ""),
                    subfolders=subfolders,
                    pages=self._listed(sorted(path for path in inside[folder] if path != index)),
                    all_tags=(),
                ),
            )
        tagged = defaultdict[str, list[str]](list)
        for path, facts in self._facts.items():
            for tag in filter(self._places.tags.__contains__, with_tags_above(facts.tags)):
                tagged[tag].append(path)
        common = {"folders": None, "own_page": "", "subfolders": (), "lead": ""}
        for tag, paths in tagged.items():
            place = self._places.tags[tag]
            told = self._listed(sorted(paths))
            yield place, self._filled("site_list.html", place, title=f"#{tag}", pages=told, all_tags=(), **common)
        every = [(tag, self._places.tags[tag], len(paths)) for tag, paths in sorted(tagged.items())]
        yield TAGS, self._filled("site_list.html", TAGS, title="Tags", pages=(), all_tags=every, **common)
        yield SEARCH, self._filled("site_search.html", SEARCH, title="Search", policy=SEARCH_POLICY)

    def _filled(self, template: str, place: str, **values: Any) -> str:
        common = {
            "to": lambda target: relative(place, target),
            "here": place,
            "home": HOME,
            "tags_place": TAGS,
            "search_place": SEARCH,
            "graph_place": GRAPH,
            "site_name": self._name,
            "page_count": len(self._facts),
            "made_at": self._source.made_at,
            "policy": POLICY,
            "language": "en",
        }
        return self._templates.get_template(template).render({**common, **values})

    def _listed(self, paths: Sequence[str]) -> list[ListedPage]:
        return [
            ListedPage(self._facts[path].title, self._places.pages[path], self._facts[path].summary) for path in paths
        ]

    def _above(self, folder: str) -> list[tuple[str, str]]:
        """Return the place and the name of the folder and of each one above it, the outermost first, without the root."""
        found = [folder, *ancestors(folder)] if folder else []
        return [(self._places.folders[one], self._folder_title(one)) for one in reversed(found) if one]

    def _folder_title(self, folder: str) -> str:
        if not folder:
            return self._name
        own = self._facts.get(f"{folder}/{INDEX_NAME}")
        return own.title if own else readable(folder.rpartition("/")[2])

    def _folder_summary(self, folder: str) -> str:
        own = self._facts.get(f"{folder}/{INDEX_NAME}")
        return own.summary if own else ""

    def _is_harmless_drawing(self, path: str) -> bool:
        if not is_drawing(path) or (self._vault.root / path).lstat().st_size > LARGEST_DRAWING:
            return False
        return only_draws(self._vault.read(path, plain=True).raw)


class _SiteLinks:
    """The links of one page, as `PageLinks` of the renderer: relative addresses of other files of the site."""

    def __init__(
        self, vault: Vault, catalogue: PageCatalogue, places: SitePlaces, document: Document, here: str = ""
    ) -> None:
        self._vault, self._catalogue, self._places, self._document = vault, catalogue, places, document
        self._here = here or places.pages[document.path]
        self._wiki = {link.path for link in document.page_links if link.wiki}

    def page(self, target: str) -> str | None:
        """Return the address of the page or folder that the target means, None if the site has none."""
        path, _, anchor = target.partition("#")
        found = self._found(path.strip()) if path.strip() else self._document.path
        if found in self._places.pages:
            return relative(self._here, self._places.pages[found], anchor_named(anchor))
        return relative(self._here, self._places.folders[found]) if found in self._places.folders else None

    def file(self, target: str) -> str | None:
        """Return the address of an attachment, None if the site has none."""
        found = self._found(target)
        return relative(self._here, self._places.files[found]) if found in self._places.files else None

    def embedded(self, target: str) -> str | None:
        """Return the text of the page, section or block; None if there is none."""
        document = self._embedded_page(target)
        return None if document is None else part_named(document, target.partition("#")[2])

    def inside(self, target: str) -> _SiteLinks:
        """Return the links of the embedded page, relative to the file of the page that embeds it."""
        document = self._embedded_page(target)
        if document is None:
            return self
        return _SiteLinks(self._vault, self._catalogue, self._places, document, self._here)

    def _embedded_page(self, target: str) -> Document | None:
        path = target.partition("#")[0].strip()
        found = self._found(path) if path else self._document.path
        if found not in self._places.pages or not is_markdown(found):
            return None
        raw = self._vault.read(found).raw
        return parse(found, raw) if len(raw) <= LONGEST_EMBEDDED else None

    def _found(self, path: str) -> str:
        """Return the page, file or folder; a name that is no path and no page of the site is not found."""
        # Which of the two forms a target was written in is known only for links of the page's own text.
        first = path in self._wiki
        for wiki in (first, not first):
            found = self._catalogue.target(self._document.path, path, wiki=wiki)
            if found is not None:
                return found
        return "\0"  # the root is the empty path, and no path has this character


def _tag_link(places: SitePlaces, here: str, tag: str) -> str | None:
    return relative(here, places.tags[tag]) if tag in places.tags else None


def _facts(vault: Vault, path: str) -> _PageFacts:
    document = parse(path, vault.read(path).raw)
    links = [(link.path, link.wiki) for link in document.page_links]
    return _PageFacts(document.title, document.summary, document.tags, document.aliases, links)


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: sanitize_line(value) if type(value) is str else value,
    )
    environment.filters["spelled_out"] = spelled_out
    return environment
