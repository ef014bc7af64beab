"""Finds the page that a write refers to, and the settings of its directories."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Literal, Protocol

import anyio.to_thread

from knowledge.errors import AmbiguousName, InvalidPath, KnowledgeError, NoSuchPath, NotUtf8
from knowledge.merge.document.units import front_matter
from knowledge.merge.evidence.confidence import Rules, rules_of
from knowledge.pages.front_matter import is_yes
from knowledge.pages.paths import (
    AGENTS_FOLDER,
    INDEX_NAME,
    LEARNINGS_FOLDER,
    MARKDOWN_SUFFIXES,
    SKILLS_FOLDER,
    ancestors,
    clean_path,
    file_system_key,
    is_markdown,
    new_name,
)
from knowledge.pages.vault import Vault
from knowledge.state.ports import Stamp

CONFIGURING_FOLDERS = frozenset({AGENTS_FOLDER, SKILLS_FOLDER})
CONFIGURING_KEYS = ("router", "merge", "untrusted", "append")
"""Keys of an `_index.md` that configure the server for everything below it."""
MOST_HEADS = 500
LONGEST_SLUG = 80

log = logging.getLogger(__name__)


class PageNames(Protocol):
    """Finds pages by their names."""

    async def locate(self, path: str) -> str:
        """Return the path of the page that `path` names; raises `NoSuchPath` or `AmbiguousName`."""
        ...


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a write's path: an existing page, a new one, or a directory to place the text in."""

    path: str
    kind: Literal["page", "new", "directory"]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The settings of the directories above a page: how evidence is weighed, and `append` of the nearest that sets it."""

    rules: Rules
    append: object = None

    def appends(self, own: Mapping[str, object]) -> bool:
        """Return whether the page takes appends; its `own` front matter takes precedence."""
        return is_yes(own.get("append", self.append))


class PageLookup:
    """Finds pages by name, and settings in the front matter of directories, which is cached until the files change."""

    def __init__(self, vault: Vault, names: PageNames) -> None:
        self._vault, self._names = vault, names
        self._heads: dict[str, tuple[Stamp, Mapping[str, object]]] = {}
        self._logged: set[str] = set()

    async def existing(self, name: str) -> str:
        """Return the path of the page that `name` means.

        Raises:
            InvalidPath, NoSuchPath, AmbiguousName: there is no such page; the message names similar ones.
        """
        return await self._names.locate(name)

    def is_gone(self, path: str) -> bool:
        """Return whether no page is at `path`."""
        return self._vault.find(path) is None

    async def target(self, name: str) -> Target:
        """Return the target of a merge into `name`.

        Raises:
            InvalidPath, AmbiguousName: it can't be a page, or means several.
        """
        path = clean_path(name)
        if path and is_markdown(path):
            if self._vault.find(path):
                return Target(path, "page")
            try:
                real = await anyio.to_thread.run_sync(self._vault.resolve, path)
            except NoSuchPath:
                return Target(await self.made_at(path), "new")
            # A link inside the knowledge base means the page that it leads to.
            return Target(real if is_markdown(real) else path, "page")
        for suffix in MARKDOWN_SUFFIXES if path else ():
            if self._vault.find(path + suffix):
                return Target(path + suffix, "page")
        try:
            await anyio.to_thread.run_sync(self._vault.list_dir, path)
        except KnowledgeError:
            pass
        else:
            return Target(path, "directory")
        try:
            return Target(await self._names.locate(path), "page")
        except NoSuchPath:
            return Target(await self.made_at(path + MARKDOWN_SUFFIXES[0]), "new")
        except AmbiguousName as error:
            raise AmbiguousName(name, error.candidates) from error

    async def first_pages(self, directory: str, most: int) -> list[str]:
        """Return the paths of the first `most` pages under a directory, in the order of its files."""
        found = await anyio.to_thread.run_sync(lambda: list(islice(self._vault.scan(directory), most)))
        return [file.path for file in found]

    async def made_at(self, path: str) -> str:
        """Return the real path that a new page at `path` would have, following folders that are links.

        Raises:
            InvalidPath: a link leads out of the knowledge base.
        """
        return await anyio.to_thread.run_sync(self._vault.resolve_new, path)

    def modified(self, path: str) -> datetime | None:
        """Return when the page's file was last written, or None."""
        found = self._vault.find(path)
        return datetime.fromtimestamp(found.stamp.mtime_ns / 1e9, tz=UTC) if found else None

    async def surroundings(self, path: str) -> Surroundings:
        """Return the settings of the directories above the page at `path`."""
        heads = [self._head(f"{folder}/{INDEX_NAME}" if folder else INDEX_NAME) for folder in ancestors(path)]
        rules, problems = rules_of(heads)
        for problem in set(problems) - self._logged:
            log.warning("in an _index.md above %s: %s", path, problem)
            self._logged.add(problem)
        return Surroundings(rules, next((head["append"] for head in heads if "append" in head), None))

    def _head(self, path: str) -> Mapping[str, object]:
        found = self._vault.find(path)
        # Links are not followed here: otherwise anyone who may edit a link's target could configure the server.
        if found is None or not self._vault.is_plain(path):
            return {}
        known = self._heads.get(path)
        if known is None or known[0] != found.stamp:
            if len(self._heads) >= MOST_HEADS:
                self._heads.clear()
            try:
                head = front_matter_of(self._vault.read(path, plain=True).raw.decode("utf-8", "replace"))
            except KnowledgeError:
                head = {}
            known = self._heads[path] = (found.stamp, head)
        return known[1]


def text_of(path: str, raw: bytes) -> str:
    """Return the text of a page unchanged, with its byte order mark and line ends.

    Raises:
        NotUtf8: writing it back would damage the bytes that can't be decoded.
    """
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise NotUtf8(path, error.start) from None


def front_matter_of(text: str) -> Mapping[str, object]:
    """Return the metadata in the front matter of a page."""
    return front_matter(text).metadata


def may_configure(path: str) -> bool:
    """Return whether a page at `path` could configure the server, whatever its content."""
    return in_configuring_folder(path) or is_index(path)


def teaches(path: str) -> bool:
    """Return whether the text of a page at `path` is given to agents when they start."""
    return file_system_key(path.partition("/")[0]) == LEARNINGS_FOLDER


def configures(path: str, before: str | None, after: str | None) -> bool:
    """Return whether the change affects the configuration: an agent, a skill, or one of the keys of an `_index.md`."""
    if in_configuring_folder(path):
        return True
    if not is_index(path):
        return False
    old, new = [front_matter_of(text) if text is not None else {} for text in (before, after)]
    return any(old.get(key) != new.get(key) for key in CONFIGURING_KEYS)


def in_configuring_folder(path: str) -> bool:
    """Return whether a file at `path` is among the agents or skills, on any file system."""
    # Some take `_Agents` for `_agents`; on the others, asking a person once too often does no harm.
    return not CONFIGURING_FOLDERS.isdisjoint(file_system_key(part) for part in path.split("/")[:-1])


def is_index(path: str) -> bool:
    """Return whether a page at `path` is the index of its folder, on any file system."""
    return file_system_key(path.rpartition("/")[2]) == INDEX_NAME


def new_page_path(path: str) -> str:
    """Return `path`, with a suffix, as the path of a page that may be made.

    Raises:
        InvalidPath: it may not.
    """
    cleaned = clean_path(path)
    if not cleaned:
        raise InvalidPath(path, "it is the root folder; name a page")
    new_name(cleaned)
    return cleaned if is_markdown(cleaned) else cleaned + MARKDOWN_SUFFIXES[0]


def slug(title: str) -> str:
    """Return a file name, or an anchor, for a title: lower case, words joined by dashes."""
    words = "".join(c if c.isalnum() else " " for c in title.casefold()).split()
    return "-".join(words)[:LONGEST_SLUG].strip("-") or "page"
