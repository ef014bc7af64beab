"""The pages that the links of a text lead to, and how links are rewritten when a page moves. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from knowledge.merge.document.link_spans import LinkSpan, links_in
from knowledge.pages.links import LinkTargets, called_by, in_order, resolve_path, unescaped_path
from knowledge.pages.map_view import readable
from knowledge.pages.markdown.inline import formulas
from knowledge.pages.obsidian.canvas import is_canvas, moved_in_canvas
from knowledge.pages.paths import INDEX_NAME, is_markdown, joined, parent, without_suffix

# Characters that end a target, or begin an escape, an entity, an anchor or a scheme. A percent sign or an ampersand that begins
# none of these stays: people write `R&D.md`.
_NEVER_BARE = re.compile(r"[\x00-\x20\x7f<>\\`|\[\]#?:]|%(?=[0-9A-Fa-f]{2})|&(?=#?\w+;)")
_NEVER_BRACKETED = re.compile(r"[\x00-\x1f\x7f<>\\`|#?:]|%(?=[0-9A-Fa-f]{2})|&(?=#?\w+;)")
_NEVER_IN_HTML = re.compile(r"[\x00-\x20\x7f<>\"'#?:&]|%(?=[0-9A-Fa-f]{2})")
_NEVER_IN_WIKI = re.compile(r"[\[\]|#^\n]")
_PARENTHESES = re.compile(r"[()]")
_ESCAPED = re.compile(r"\\.")
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]+")
_ENCODED_BEYOND_ASCII = re.compile(r"%[89A-Fa-f][0-9A-Fa-f]")
_LABEL_SIGNS = re.compile(r"([\[\]\\`*_<])")


def resolve(page: str, link: LinkSpan, names: LinkTargets) -> str | None:
    """Return the path that a link of `page` leads to, or None; of several pages with the name, that of the nearest."""
    return resolve_path(page, link.path, names, wiki=link.wiki)


def broken_links(text: str, page: str, names: LinkTargets) -> set[str]:
    """Return the paths of the links of `page` that lead nowhere.

    A wiki link that is only a name never counts: such links may name pages that are still to be written.
    """
    math = formulas(text)
    return {
        link.path
        for link in links_in(text)
        if not (link.wiki and "/" not in link.path)
        and resolve(page, link, names) is None
        and not _is_within(link, math)
    }


def update_links(
    text: str,
    *,
    page: str,
    moves: Mapping[str, str],
    names: LinkTargets,
    only: Callable[[LinkSpan], bool] = lambda _: True,
) -> str:
    """Return the text of `page`, which may itself move, with its links rewritten so that they keep their targets.

    `moves` gives the new paths by the old ones. `names` finds the targets of links as they are before the move. A link
    keeps its form: relative or from the root, with its suffix or without it, and with the words it shows. A link by
    name stays a link by name as long as only one page has that name. A link that still leads to its target, and every
    other character, stays the same. In a canvas, the links of its cards and the paths of its files are rewritten. Links
    for which `only` returns False stay as they are.
    """
    if is_canvas(page):
        return moved_in_canvas(text, moves, lambda card: _updated(card, page, moves, names, only))
    return _updated(text, page, moves, names, only)


def _updated(
    text: str, page: str, moves: Mapping[str, str], names: LinkTargets, only: Callable[[LinkSpan], bool]
) -> str:
    move = _Move(page, moves.get(page, page), moves, names, _names_after(names, moves))
    parts: list[str] = []
    at, math = 0, formulas(text)
    for link in filter(only, links_in(text)):
        start, end, written = move.rewrite(text, link)
        if text[start:end] == written or start < at:
            continue
        if _is_within(link, math) and resolve(page, link, names) is None:
            continue  # `$f[a](x)$`: in a formula, a link that leads nowhere is no link
        parts += [text[at:start], written]
        at = end
    return "".join([*parts, text[at:]]) if parts else text


def _is_within(link: LinkSpan, spans: Sequence[tuple[int, int]]) -> bool:
    return any(start < link.start < end for start, end in spans)


@dataclass(frozen=True, slots=True)
class _Move:
    """A move as one page sees it.

    `page` is the path of that page before the move, and `now` its path afterwards; the two are equal if only other
    pages move. `moves` gives new paths by old ones. `names` finds the targets of links before the move, and `after`
    those after it.
    """

    page: str
    now: str
    moves: Mapping[str, str]
    names: LinkTargets
    after: LinkTargets

    def rewrite(self, text: str, link: LinkSpan) -> tuple[int, int, str]:
        """Return the span to replace and its new text, so that the link keeps its target."""
        written = text[link.at : link.to]
        led = resolve(self.page, link, self.names)
        if led is None:
            return link.at, link.to, self._lost(link, written)
        leads = self.moves.get(led, led)
        if self._stays(link, led, leads):
            return link.at, link.to, written
        if link.wiki and _NEVER_IN_WIKI.search(leads):
            return link.start, link.end, _as_inline(text, link, self.now, leads)
        # The first spelling that leads to the page and can mean no other. If two pages have the name, that is a path.
        wanted = list(_wiki_paths(link, self.now, leads) if link.wiki else self._paths(link, led, leads))
        fits = (path for path in wanted if _leads_only(self.now, link._replace(path=path), leads, self.after))
        path = next(fits, wanted[-1])
        return link.at, link.to, path if link.wiki else _written(link, written, path)

    def _stays(self, link: LinkSpan, led: str, leads: str) -> bool:
        """Return whether the link needs no change, because it still leads to its target in the same way."""
        if led == leads and parent(self.page) == parent(self.now):
            # Not if the move brings a page that has the name in the link and is nearer.
            return resolve(self.now, link, self.after) == leads
        beside = joined(parent(self.now), link.path)
        if self._is_beside(link, led) and (beside is None or leads not in in_order(beside)):
            return False
        return _leads_only(self.now, link, leads, self.after)

    def _is_beside(self, link: LinkSpan, led: str) -> bool:
        """Return whether an ordinary link is relative to its page, and not to the root."""
        beside = None if link.wiki or link.path.startswith("/") else joined(parent(self.page), link.path)
        return beside is not None and led in in_order(beside)

    def _lost(self, link: LinkSpan, written: str) -> str:
        """Return the path of a broken link, written so that it still leads to the same missing page.

        Others may see that page, or it may be created later.
        """
        # A relative link would point somewhere else from the new folder.
        if link.wiki or link.path.startswith("/") or parent(self.page) == parent(self.now):
            return written
        there = joined(parent(self.page), link.path)
        return written if there is None else _written(link, written, _relative(parent(self.now), there, link.path))

    def _paths(self, link: LinkSpan, led: str, leads: str) -> Iterator[str]:
        """Yield paths for an ordinary link to `leads`, the one closest to how it was written first."""
        rooted = link.path.startswith("/")
        from_root = not rooted and not self._is_beside(link, led)
        by_name = from_root and led not in in_order(joined("", link.path) or "")
        for target in _shortened(link.path, led, leads):
            if by_name and "/" not in link.path:
                yield target.rpartition("/")[2]
            if rooted:
                yield "/" + target
            elif from_root:
                yield target
            else:
                yield _relative(parent(self.now), target, link.path)
        yield _relative(parent(self.now), leads, link.path)
        yield "/" + leads


def _leads_only(page: str, link: LinkSpan, path: str, names: LinkTargets) -> bool:
    """Return whether a link leads to `path` and can't mean another page."""
    if resolve(page, link, names) != path:
        return False
    if not link.wiki and resolve(page, link, replace(names, by_name=False)) == path:
        return True
    named = called_by(page, link.path, names)
    return path not in named or len(named) == 1


def _names_after(names: LinkTargets, moves: Mapping[str, str]) -> LinkTargets:
    """Return the names as they are after these moves."""
    there = set(moves.values())

    def exists(path: str) -> bool:
        if path in there or any(new.startswith(path + "/") for new in there):
            return True
        return path not in moves and names.exists(path)

    def called(name: str) -> list[str]:
        wanted = _folded(name)
        # A page keeps its title and aliases; its old file name, which may also have been made its title, stays behind.
        stays = [
            moves.get(path, path)
            for path in names.called(name)
            if path not in moves or wanted not in (_folded(_stem(path)), _folded(readable(path.rpartition("/")[2])))
        ]
        comes = [new for new in moves.values() if is_markdown(new) and _folded(_stem(new)) == wanted]
        return list(dict.fromkeys([*stays, *comes]))

    return LinkTargets(exists, called, names.by_name)


# Paths in links


def _relative(directory: str, path: str, like: str) -> str:
    """Return the relative path from `directory` to `path`; it starts with `./` if `like` does and it does not go up."""
    here = directory.split("/") if directory else []
    parts = path.split("/") if path else []
    common = 0
    while common < min(len(here), len(parts)) and here[common] == parts[common]:
        common += 1
    way = [".."] * (len(here) - common) + parts[common:]
    if not any(way):
        return "./"
    return "./" + "/".join(way) if like.startswith("./") and way[0] != ".." else "/".join(way)


def _shortened(written: str, led: str, leads: str) -> Iterator[str]:
    """Yield `leads` without its suffix or its index name, if the link left that out; then yield it in full."""
    name = led.rpartition("/")[2]
    said = written.rstrip("/").rpartition("/")[2]
    if said == _stem(led) and is_markdown(name):
        yield without_suffix(leads)
    elif name == INDEX_NAME and said != name and leads.rpartition("/")[2] == INDEX_NAME:
        yield parent(leads) + "/" * (written.endswith("/") and bool(parent(leads)))
    yield leads


def _wiki_paths(link: LinkSpan, now: str, leads: str) -> Iterator[str]:
    """Yield paths for a wiki link to `leads`: first one of the link's own kind (name, relative, rooted), then any others."""
    short = leads if is_markdown(link.path) or not is_markdown(leads) else without_suffix(leads)
    if "/" not in link.path:
        yield short.rpartition("/")[2]
    if link.path.startswith(("./", "../")):
        yield _relative(parent(now), short, link.path)
    if link.path.startswith("/"):
        yield "/" + short
    yield short
    yield leads
    yield "/" + short
    yield "/" + leads


# How a link is written


def _as_inline(text: str, link: LinkSpan, now: str, leads: str) -> str:
    """Rewrite a wiki link as an ordinary link, because its new path has a character that a wiki link can't contain."""
    shown = text[link.start : link.end].strip("![]").partition("|")[2].strip() or _stem(link.path)
    inline = link._replace(form="image" if link.form == "embed" else "inline")
    target = _written(inline, "", _relative(parent(now), leads, ""))
    mark = "!" if link.form == "embed" else ""
    words = _LABEL_SIGNS.sub(r"\\\1", shown)
    return f"{mark}[{words}]({target}{link.anchor})"


def _written(link: LinkSpan, before: str, path: str) -> str:
    """Return `path` in the link's spelling.

    Folder and file names that are also in `before` stay as written there; others are escaped as needed.
    """
    kept = {unescaped_path(part, link.form): part for part in before.split("/")}
    never = _NEVER_IN_HTML if link.form == "html" else _NEVER_BARE
    if link.bracketed and "%20" not in before:
        never = _NEVER_BRACKETED
    encoded = [never.sub(_percent, part) for part in path.split("/")]
    if _ENCODED_BEYOND_ASCII.search(before):
        encoded = [_BEYOND_ASCII.sub(_percent, part) for part in encoded]
    written = "/".join(kept.get(part, new) for part, new in zip(path.split("/"), encoded, strict=True))
    if link.form == "html" or link.bracketed or _is_balanced(written):
        return written
    written = "/".join(encoded)
    return written if _is_balanced(written) else _PARENTHESES.sub(_percent, written)


def _percent(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode("utf-8", "surrogatepass"))


def _is_balanced(path: str) -> bool:
    depth = 0
    for char in _ESCAPED.sub("", path):
        depth += (char == "(") - (char == ")")
        if depth < 0:
            return False
    return not depth


def _stem(path: str) -> str:
    """Return the file name without the suffix of a page."""
    return without_suffix(path.rpartition("/")[2])


def _folded(name: str) -> str:
    return " ".join(name.split()).casefold()
