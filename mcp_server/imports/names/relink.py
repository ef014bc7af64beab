"""Keeps the links of imported pages leading where they led, although names and folders change on the way. Pure."""

from __future__ import annotations

import posixpath
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from knowledge.merge.document.link_spans import LinkSpan, links_in
from knowledge.merge.document.links import resolve, update_links
from knowledge.pages.links import LinkTargets
from knowledge.pages.paths import is_markdown, without_suffix
from knowledge.state.document_names import name_key
from mcp_server.imports.model import LostLink

OtherNames = Callable[[str, LinkSpan], str | None]


def nowhere(_page: str, _link: LinkSpan) -> str | None:
    """Return None: the source has no other names for files."""
    return None


@dataclass(slots=True)
class Relinker:
    """Rewrites links from the paths in the source to those in the knowledge base, and counts what it did.

    `places` gives the new path of each file by its path in the source. `names` are further names of pages, such as titles.
    `other` returns the file that a link means, by its path in the source, for links that only this kind of source can resolve.
    `by_name` is as in `LinkTargets`. `there` are pages that the knowledge base has already: no link may lead to one of them by its
    name. `spelled_out`: the knowledge base is no vault, so Markdown links by name are written as paths.
    """

    places: Mapping[str, str]
    names: Mapping[str, Iterable[str]]
    other: OtherNames = nowhere
    by_name: bool = False
    there: Sequence[str] = ()
    spelled_out: bool = False
    rewritten: int = 0
    lost: list[LostLink] = field(default_factory=list)
    _places: dict[str, str] = field(init=False)
    _folders: set[str] = field(init=False)
    _called: dict[str, list[str]] = field(init=False)
    _all: LinkTargets = field(init=False)

    def __post_init__(self) -> None:
        """Prepare the look-ups. Some systems decompose accents in names, and links to them are written either way."""
        self._places = {_composed(path): new for path, new in self.places.items()}
        self._folders = {""} | {above for path in self._places for above in _above(path)}
        called: defaultdict[str, list[str]] = defaultdict(list)
        for path in self.places:
            file = path.rpartition("/")[2]
            known = (without_suffix(file), *self.names.get(path, ())) if is_markdown(path) else (file,)
            for name in dict.fromkeys(map(name_key, known)):
                called[name].append(path)
        self._called = dict(called)
        self._all = self._targets_with(self.there)

    def _targets_with(self, there: Sequence[str]) -> LinkTargets:
        """Return what links in the knowledge base may lead to after the import."""
        files = {*self.places.values(), *there}
        folders = {"", *(above for path in files for above in _above(path))}
        called: defaultdict[str, list[str]] = defaultdict(list)
        for name, sources in self._called.items():
            called[name] += [self._place(path) for path in sources]
        for path in files if self.there else ():
            name = path.rpartition("/")[2]
            called[name_key(without_suffix(name) if is_markdown(name) else name)].append(path)
        return LinkTargets(
            lambda path: path in files or path in folders, lambda name: called.get(name_key(name), ()), self.by_name
        )

    def page(self, path: str, raw: bytes) -> bytes:
        """Return the page, which is at `path` in the source, with its links rewritten; one that is not UTF-8 stays as it is."""
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError:
            return raw
        after = self.text(path, text)
        return raw if after == text else after.encode()

    def text(self, path: str, text: str) -> str:
        """Return the text of a page with its links rewritten."""
        targets = LinkTargets(self._exists, lambda name: self._called.get(name_key(name), ()), self.by_name)
        text = self._by_other_names(path, text, targets)
        before = links_in(text)
        led = [resolve(path, link, targets) for link in before]
        moves = {path: self._place(path), **{one: self._place(one) for one in led if one is not None and one in self}}
        missing = [link.path for link, one in zip(before, led, strict=True) if one is None and link.path.strip()]
        self.lost += [LostLink(self._place(path), target) for target in missing]
        after = text
        if any(old != new for old, new in moves.items()):
            after = update_links(text, page=path, moves=moves, names=targets)
        now = links_in(after)
        # Otherwise it is unknown which link was which.
        if len(now) == len(before):
            after = self._to_these(self._place(path), after, now, [moves.get(one or "") for one in led])
            changed = zip(before, links_in(after), strict=False)
            self.rewritten += sum(text[old.at : old.to] != after[new.at : new.to] for old, new in changed)
        return after

    def _to_these(self, page: str, text: str, links: Sequence[LinkSpan], wanted: Sequence[str | None]) -> str:
        """Return the text with each link that would lead elsewhere in the knowledge base, or nowhere, written as a path."""
        parts: list[str] = []
        at = 0
        by_path = replace(self._all, by_name=False)
        for link, target in zip(links, wanted, strict=True):
            if self.spelled_out and target is not None and not link.wiki and resolve(page, link, by_path) is None:
                folder = page.rpartition("/")[0]
                parts += [text[at : link.at], _quoted(posixpath.relpath(target, folder or "."))]
                at = link.to
                continue
            if target is not None and link.wiki and resolve(page, link, self._all) not in (target, None):
                parts += [text[at : link.at], without_suffix(target) if not is_markdown(link.path) else target]
                at = link.to
        return "".join([*parts, text[at:]]) if parts else text

    def __contains__(self, path: str) -> bool:
        """Return whether the source has a file at `path`."""
        return _composed(path) in self._places

    def _place(self, path: str) -> str:
        return self._places[_composed(path)]

    def _exists(self, path: str) -> bool:
        return path in self or _composed(path) in self._folders

    def _by_other_names(self, path: str, text: str, targets: LinkTargets) -> str:
        """Return the text with links that only the source understands written as paths in the source."""
        parts: list[str] = []
        at = 0
        for link in links_in(text):
            # The first: it is inside a link that was just rewritten, such as a picture in the label of one.
            if link.at < at or resolve(path, link, targets) is not None:
                continue
            meant = self.other(path, link)
            if meant is not None and meant in self:
                target = without_suffix(meant) if link.wiki else _quoted(meant)
                parts += [text[at : link.at], target if link.wiki else f"/{target}"]
                at = link.to
        return "".join([*parts, text[at:]]) if parts else text


def _quoted(path: str) -> str:
    return "".join(char if char not in " ()<>%\\\"'" else f"%{ord(char):02X}" for char in path)


def _composed(path: str) -> str:
    return unicodedata.normalize("NFC", path)


def _above(path: str) -> Iterable[str]:
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path
