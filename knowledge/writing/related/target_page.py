"""Which page a write means, and what its directories say of it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, Protocol

import anyio.to_thread

from knowledge.errors import AmbiguousName, InvalidPath, KnowledgeError, NoSuchPath, NotUtf8
from knowledge.merge.document.units import front_matter
from knowledge.merge.evidence.confidence import Rules, rules_of
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
"""Keys of an `_index.md` by which it configures the server for everything below."""
MOST_REMEMBERED = 500

log = logging.getLogger(__name__)

_YES = frozenset({"true", "yes", "on", "1"})


class PageNames(Protocol):
    """Finds a page by what it is called."""

    async def locate(self, path: str) -> str:
        """Return the path of the page that `path` names, raising `NoSuchPath` or `AmbiguousName`."""
        ...


@dataclass(frozen=True, slots=True)
class Target:
    """What a path means to a write: a page that is there, one that is to be made, or a directory to be placed in."""

    path: str
    kind: Literal["page", "new", "directory"]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the directories above a page say: how evidence is weighed, and `append`, of the nearest that says it."""

    rules: Rules
    append: object = None

    def appends(self, own: Mapping[str, object]) -> bool:
        """Return whether the page takes appends; what its `own` front matter says goes before."""
        return _is_yes(own.get("append", self.append))


class PageLookup:
    """Reads nothing but names and the front matter of directories; what those say is remembered while they do not change."""

    def __init__(self, vault: Vault, names: PageNames) -> None:
        self._vault, self._names = vault, names
        self._heads: dict[str, tuple[Stamp, Mapping[str, object]]] = {}
        self._told: set[str] = set()

    async def existing(self, asked: str) -> str:
        """Return the path of the page that `asked` names.

        Raises:
            InvalidPath, NoSuchPath, AmbiguousName: there is no such page, with what there is instead.
        """
        return await self._names.locate(asked)

    async def target(self, asked: str) -> Target:
        """Return what a merge into `asked` is about.

        Raises:
            InvalidPath, AmbiguousName: it can be no page, or several.
        """
        path = clean_path(asked)
        if path and is_markdown(path):
            return Target(path, "page") if self._vault.look(path) else await self._linked_or_new(path)
        beside = [path + suffix for suffix in MARKDOWN_SUFFIXES] if path else []
        there = next((candidate for candidate in beside if self._vault.look(candidate)), None)
        if there is not None:
            return Target(there, "page")
        if await self._is_directory(path):
            return Target(path, "directory")
        try:
            return Target(await self._names.locate(path), "page")
        except NoSuchPath:
            return Target(await self.made_at(path + MARKDOWN_SUFFIXES[0]), "new")
        except AmbiguousName as error:
            raise AmbiguousName(asked, error.candidates) from error

    async def _linked_or_new(self, path: str) -> Target:
        """Return the page that a link inside the knowledge base leads to, by the path where it really lies, or a new one."""
        try:
            real = await anyio.to_thread.run_sync(self._vault.resolve, path)
        except NoSuchPath:
            return Target(await self.made_at(path), "new")
        return Target(real if is_markdown(real) else path, "page")

    async def made_at(self, path: str) -> str:
        """Return where a page at `path` would really lie if it were made: folders that are links are followed.

        Raises:
            InvalidPath: a link leads out of the knowledge base.
        """
        for above in ancestors(path):
            try:
                real = await anyio.to_thread.run_sync(self._vault.resolve, above)
            except NoSuchPath:
                continue
            return f"{real}/{path[len(above) :].lstrip('/')}".lstrip("/")
        return path

    async def _is_directory(self, path: str) -> bool:
        try:
            await anyio.to_thread.run_sync(self._vault.list_dir, path)
        except (NoSuchPath, KnowledgeError):
            return False
        return True

    def modified(self, path: str) -> datetime | None:
        """Return when the page's file was last written; None if there is none."""
        found = self._vault.look(path)
        return datetime.fromtimestamp(found.stamp.mtime_ns / 1e9, tz=UTC) if found else None

    async def surroundings(self, path: str) -> Surroundings:
        """Return what holds for the page at `path`."""
        heads = [self._head(f"{folder}/{INDEX_NAME}" if folder else INDEX_NAME) for folder in ancestors(path)]
        rules, problems = rules_of(heads)
        for problem in set(problems) - self._told:
            log.warning("in an _index.md above %s: %s", path, problem)
            self._told.add(problem)
        said = [head["append"] for head in heads if "append" in head]
        return Surroundings(rules, said[0] if said else None)

    def _head(self, path: str) -> Mapping[str, object]:
        found = self._vault.look(path)
        if found is None or not self._vault.is_plain(path):
            return {}
        known = self._heads.get(path)
        if known is None or known[0] != found.stamp:
            if len(self._heads) >= MOST_REMEMBERED:
                self._heads.clear()
            known = self._heads[path] = (found.stamp, self._read_head(path))
        return known[1]

    def _read_head(self, path: str) -> Mapping[str, object]:
        try:
            return front_matter_of(self._vault.read(path, plain=True).raw.decode("utf-8", "replace"))
        except KnowledgeError:
            return {}


def text_of(path: str, raw: bytes) -> str:
    """Return the text of a page exactly as it is, byte order mark and line ends included.

    Raises:
        NotUtf8: writing it back would harm what cannot be read.
    """
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise NotUtf8(path, error.start) from None


def front_matter_of(text: str) -> Mapping[str, object]:
    """Return what the front matter of a page says."""
    return front_matter(text).metadata


def may_configure(path: str) -> bool:
    """Return whether a page at `path` may configure the server, whatever it says."""
    return in_configuring_folder(path) or is_index(path)


def teaches(path: str) -> bool:
    """Return whether what stands on a page at `path` is told to agents before they begin."""
    return file_system_key(path.partition("/")[0]) == LEARNINGS_FOLDER


def configures(path: str, before: str | None, after: str | None) -> bool:
    """Return whether the change concerns what configures the server: an agent, a skill, or such a key of an `_index.md`."""
    if in_configuring_folder(path):
        return True
    if not is_index(path):
        return False
    heads = [front_matter_of(text) if text is not None else {} for text in (before, after)]
    return any(heads[0].get(key) != heads[1].get(key) for key in CONFIGURING_KEYS)


def in_configuring_folder(path: str) -> bool:
    """Return whether a file at `path` lies among agents or skills, on whatever file system."""
    # Some take `_Agents` for `_agents`; on the others asking a person once too often does no harm.
    return not CONFIGURING_FOLDERS.isdisjoint(file_system_key(part) for part in path.split("/")[:-1])


def is_index(path: str) -> bool:
    """Return whether a page at `path` speaks for its folder, on whatever file system."""
    return file_system_key(path.rpartition("/")[2]) == INDEX_NAME


def new_page_path(asked: str) -> str:
    """Return `asked` as the path of a page that may be made.

    Raises:
        InvalidPath: it cannot be one.
    """
    path = clean_path(asked)
    if not path:
        raise InvalidPath(asked, "it names the root; name a page")
    new_name(path)
    return path if is_markdown(path) else path + MARKDOWN_SUFFIXES[0]


def _is_yes(value: object) -> bool:
    return str(value).strip().lower() in _YES
