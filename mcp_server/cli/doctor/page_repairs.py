"""Repairs of pages that have only one reading: a link whose page is elsewhere, and a front matter value without quotes. Pure."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from knowledge.merge.document.link_spans import LinkSpan, links_in
from knowledge.merge.document.links import resolve, update_links
from knowledge.pages.front_matter import read_front_matter
from knowledge.pages.links import LinkTargets, in_order
from knowledge.pages.markdown.inline import formulas
from knowledge.pages.paths import FOLDER_PAGES, is_markdown, joined, parent, without_suffix
from knowledge.state.document_names import name_key

_ATTACHMENT = re.compile(
    r"\.(?:avif|bmp|gif|jpe?g|png|svg|webp|flac|m4a|mp3|ogg|wav|3gp|mkv|mov|mp4|ogv|webm|pdf|canvas|base)$",
    re.IGNORECASE,
)
"""The suffixes of files that Obsidian embeds. After any other dot, the text may be part of a page's name."""
_COMMENT = re.compile(r"%%(?:[^%\n]|%(?!%)|\n(?!\n))*+%%")
_PLAIN_VALUE = re.compile(r"([A-Za-z_][\w -]{0,63}?)([ \t]*:[ \t]+)([^\s\"'\[{&*|>!%@`#][^\n]*?)([ \t]*)$")


@dataclass(frozen=True, slots=True)
class BrokenLink:
    """A link that leads nowhere: its path as written, the path of the missing page, and the pages that it may have meant."""

    written: str
    missing: str
    candidates: Sequence[str]


@dataclass(frozen=True, slots=True)
class FormerPaths:
    """Paths at which there is no page now: `moves` says where the page was moved, `states` has the revision of its last text."""

    moves: Mapping[str, str] = field(default_factory=dict)
    states: Mapping[str, str] = field(default_factory=dict)


class LostPageNames:
    """Finds the pages that a lost link may have meant: by a former path, a file name or an alias.

    `pages` has the aliases of each page and the revision of its text, by path. `titles` are the titles of all pages.
    """

    def __init__(
        self,
        pages: Mapping[str, tuple[Sequence[str], str]],
        former: FormerPaths | None = None,
        titles: Iterable[str] = (),
    ) -> None:
        self._paths, self._former = pages.keys(), former or FormerPaths()
        self._called: defaultdict[str, set[str]] = defaultdict(set)
        self._having: defaultdict[str, set[str]] = defaultdict(set)
        for path, (aliases, revision) in pages.items():
            self._having[revision].add(path)
            for name in (_stem(path), *aliases):
                self._called[name_key(name)].add(path)
        self._known = {*self._called, *map(name_key, titles)}
        self._left: defaultdict[str, list[str]] = defaultdict(list)
        for path in sorted({*self._former.moves, *self._former.states} - self._paths):
            if is_markdown(path):
                self._left[name_key(_stem(path))].append(path)

    def renamed(self, name: str) -> tuple[str, str] | None:
        """Return the former path of the one page that had this file name, and its path now.

        None if a page still has the name, or if several pages may be meant.
        """
        key = name_key(without_suffix(name))
        if key in self._known or key in FOLDER_PAGES:  # in another folder it is a different page
            return None
        found = {one: path for path in self._left.get(key, ()) for one in self._known_to_history(path)}
        return next(((path, one) for one, path in found.items()), None) if len(found) == 1 else None

    def meant(self, missing: str) -> Sequence[str]:
        """Return the pages that a link to the missing page may mean, sorted; only one if the history knows that it was renamed."""
        for path in in_order(missing):
            if known := self._known_to_history(path):
                return known
        name = name_key(_stem(missing))
        return [] if name in FOLDER_PAGES else sorted(self._called.get(name, ()))

    def _known_to_history(self, path: str) -> Sequence[str]:
        """Return where the page at `path` was moved, or the pages that have its last text."""
        moved = self._moved(path)
        return [moved] if moved is not None else sorted(self._having.get(self._former.states.get(path, ""), ()))

    def _moved(self, path: str) -> str | None:
        """Return where the page at `path` is now, after all its moves; None if it never moved, or is gone."""
        seen = set[str]()
        while path in self._former.moves and path not in seen:
            seen.add(path)
            path = self._former.moves[path]
        return path if seen and path in self._paths else None


def broken_links(page: str, text: str, targets: LinkTargets, names: LostPageNames) -> list[BrokenLink]:
    """Return the links of `page` to missing pages or files, each once.

    A wiki link that is only a name may name a page that is still to be written, unless the history knows that this page was renamed. A
    link that leaves the folder isn't ours to check.
    With `targets.by_name` the folder is Obsidian's, where every attachment is known by its name.
    """
    found = dict[str, BrokenLink]()
    for link in links_to_check(text):
        if link.path in found or resolve(page, link, targets) is not None:
            continue
        if missing := _missing(page, link, files_by_name=targets.by_name):
            found[link.path] = BrokenLink(link.path, missing, [one for one in names.meant(missing) if one != page])
        elif link.wiki and "/" not in link.path and (renamed := names.renamed(link.path.strip())):
            found[link.path] = BrokenLink(link.path, renamed[0], [renamed[1]])
    return list(found.values())


def missing_blocks(
    page: str, text: str, targets: LinkTargets, block_ids: Callable[[str], Collection[str]]
) -> list[tuple[str, str]]:
    """Return the links of `page` to blocks that are not there: the link's target and the block's id, each once."""
    found = dict[tuple[str, str], None]()
    for link in links_to_check(text) if "#^" in text else ():
        name = link.anchor.removeprefix("#^") if link.anchor.startswith("#^") else ""
        leads = resolve(page, link, targets) if name and link.path else None
        if leads is not None and is_markdown(leads) and name.strip().casefold() not in block_ids(leads):
            found[f"{link.path}#^{name}", name] = None
    return list(found)


def links_to_check(text: str) -> Iterator[LinkSpan]:
    """Yield the links of a page, without those in comments of Obsidian and in formulas."""
    if "[" not in text and "href" not in text:
        return
    hidden = [*formulas(text), *(found.span() for found in (_COMMENT.finditer(text) if "%%" in text else ()))]
    for link in links_in(text):
        if not any(start < link.start < end for start, end in hidden):
            yield link


def relinked(
    page: str,
    text: str,
    links: Iterable[BrokenLink],
    exists: Callable[[str], bool],
    called: Callable[[str], Sequence[str]] = lambda _: (),
) -> str:
    """Return the text in which each broken link with exactly one candidate leads to that. The form of the link is kept.

    `called` returns the files with a name.
    """
    for link in links:
        if len(link.candidates) == 1:
            # As if the missing page had been there and had just moved.
            lost = link.missing if is_markdown(link.missing) else f"{link.missing}.md"
            names = LinkTargets(partial(_exists_or_is, exists, lost), partial(_called_or_is, called, lost))
            text = update_links(text, page=page, moves={lost: link.candidates[0]}, names=names)
    return text


def _exists_or_is(exists: Callable[[str], bool], lost: str, path: str) -> bool:
    return path == lost or exists(path)


def _called_or_is(called: Callable[[str], Sequence[str]], lost: str, name: str) -> Sequence[str]:
    return [*called(name), *([lost] if name_key(without_suffix(name)) == name_key(_stem(lost)) else [])]


def quoted(text: str) -> str:
    """Return the text with quotes around the front matter values that break its YAML; unchanged if they may mean something else.

    The only reading is the one that pages with broken YAML get anyway: each `key: value` line by itself.
    """
    written = text.split("\n")
    lines = [line.removesuffix("\r") for line in written]
    before = read_front_matter(lines)
    if "broken YAML" not in before.problem:
        return text
    mended, changed = [*lines], dict[str, str]()
    for number in range(1, before.body - 1):
        pair = _PLAIN_VALUE.match(lines[number])
        if pair and (": " in pair[3] or pair[3].endswith(":") or " #" in pair[3]):
            mended[number] = f"{pair[1]}{pair[2]}{json.dumps(pair[3], ensure_ascii=False)}{pair[4]}"
            changed[pair[1]] = pair[3]
    after = read_front_matter(mended)
    same = before.metadata.keys() <= after.metadata.keys() and changed.items() <= after.metadata.items()
    if after.problem or not same:
        return text
    return "\n".join(new + old[len(line) :] for new, line, old in zip(mended, lines, written, strict=True))


def is_attachment(path: str) -> bool:
    """Return whether the path is that of a file that Obsidian embeds."""
    return _ATTACHMENT.search(path.strip()) is not None


def _missing(page: str, link: LinkSpan, *, files_by_name: bool) -> str | None:
    """Return the path at which the link expects its target; None if it is outside, hidden, or still to be written."""
    path = link.path.strip()
    if not path:
        return None
    if link.wiki and "/" not in path and not (is_attachment(path) and files_by_name):
        return None
    expected = joined("" if link.wiki or path.startswith("/") else parent(page), path)
    # Editors find an attachment by its name alone, wherever it is.
    if "/" not in path and "." in path and not is_markdown(path) and not files_by_name:
        return None
    if expected is None or any(part.startswith(".") for part in expected.split("/")):
        return None
    return expected


def _stem(path: str) -> str:
    return without_suffix(path.rpartition("/")[2])
