"""The rules of folders: what a person may read, propose and write. Pure.

1. The rules of one folder decide on a page: those of the nearest folder, at or above the page, that has any.
2. Among them a rule for the person comes first, then those for the person's groups (the highest right counts), then `*`.
3. Somebody that none of them names has no right there. So the rules of a folder are the whole list of those who may enter it.
4. Without rules on the way to the root, everybody may write, as in a knowledge base without rules.

A caller that is nobody in particular, such as an unenrolled host, is named by `*` alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType
from typing import Final

from knowledge.errors import InvalidPath, KnowledgeError
from knowledge.pages.paths import clean_path, file_system_key

EVERYBODY: Final = "*"
PAGE_SOURCE: Final = "kb:"
"""The beginning of a source that is a page."""
UNNAMED: Final = "unknown"
"""What a source is called to somebody from whom it is hidden."""
GROUP_MARK: Final = "@"


class NoRightThere(KnowledgeError):
    """The caller may neither read nor write there. The message doesn't say whether a page is there."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(
            f"you have no right to write at {path[:200]!r}; nothing was written, and the server doesn't say whether a page is there"
        )


class Right(IntEnum):
    """What somebody may do with the pages of a folder; a higher right includes those below it."""

    NONE = 0
    READ = 1
    PROPOSE = 2
    WRITE = 3


@dataclass(frozen=True, slots=True)
class PathRule:
    """One rule. `who` is a person's name, `@group`, or `*` for everybody; `folder` is "" for the whole knowledge base."""

    who: str
    folder: str
    right: Right


@dataclass(frozen=True, slots=True)
class PathAccess:
    """The folders in which one caller may read, propose and write. Two callers with equal rights are equal.

    Attributes:
        rights: The caller's right in each folder that has rules, by the folder's key (`folder_key`).
    """

    rights: Mapping[str, Right] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rights", MappingProxyType(dict(self.rights)))

    def __hash__(self) -> int:
        return hash(frozenset(self.rights.items()))

    @property
    def reads_all(self) -> bool:
        """Whether the caller may read everything."""
        return all(right >= Right.READ for right in self.rights.values())

    def right(self, path: str) -> Right:
        """Return the right on the page or folder at `path`, in any spelling; none if it can't be a path."""
        if not self.rights:
            return Right.WRITE
        try:
            key = folder_key(path)
        except InvalidPath:
            return Right.NONE
        while True:
            if (found := self.rights.get(key)) is not None:
                return found
            if not key:
                return Right.WRITE
            key = key.rpartition("/")[0]

    def may_read(self, path: str) -> bool:
        """Return whether the caller may read the page or folder at `path`."""
        return self.right(path) >= Right.READ

    def may_name(self, source: str) -> bool:
        """Return whether the caller may learn that text has this source.

        Only the names of hidden pages are kept from them.
        """
        if not source.startswith(PAGE_SOURCE):
            return True
        return self.may_read(source.removeprefix(PAGE_SOURCE).partition("#")[0].strip())

    def may_enter(self, folder: str) -> bool:
        """Return whether the caller may read the folder, or one below it that has rules of its own."""
        if self.may_read(folder):
            return True
        try:
            key = folder_key(folder)
        except InvalidPath:
            return False
        below = f"{key}/" if key else ""
        return any(right >= Right.READ and one.startswith(below) for one, right in self.rights.items())

    def filter(self, paths: Iterable[str]) -> list[str]:
        """Return the paths that the caller may read, in their order."""
        return [path for path in paths if self.may_read(path)] if self.rights else list(paths)

    def where_readable_for(self, other: PathAccess) -> PathAccess:
        """Return this access, with everything that `other` may not read hidden as well."""
        if self.reads_what(other) and other.reads_what(self):
            return self
        keys = {"", *self.rights, *other.rights}
        return PathAccess({key: self.right(key) if other.may_read(key) else Right.NONE for key in keys})

    def reads_what(self, other: PathAccess) -> bool:
        """Return whether the caller may read everything that `other` may read."""
        # Rights change only at folders that have rules, so looking there and at the root is enough.
        return all(self.may_read(key) or not other.may_read(key) for key in {"", *self.rights, *other.rights})

    @property
    def reading(self) -> tuple[tuple[str, bool], ...]:
        """The folders that the caller may read: the shortest such list, by key. Callers with equal lists see the same pages."""
        kept: dict[str, bool] = {}
        for key in sorted(self.rights, key=lambda one: (one.count("/") + bool(one), one)):
            readable = self.rights[key] >= Right.READ
            if readable != _kept_above(kept, key):
                kept[key] = readable
        return tuple(sorted(kept.items()))


UNRESTRICTED: Final = PathAccess()
"""The access of a caller in a knowledge base without rules."""


class AccessRules:
    """All rules of a knowledge base. Immutable."""

    def __init__(self, rules: Iterable[PathRule] = ()) -> None:
        by_folder: dict[str, list[PathRule]] = {}
        for rule in rules:
            by_folder.setdefault(folder_key(rule.folder), []).append(rule)
        self._by_folder: Mapping[str, Sequence[PathRule]] = by_folder

    def access(self, person: str | None, groups: Collection[str] = ()) -> PathAccess:
        """Return the access of a person who is in these groups (named with or without `@`).

        `person` is None for a caller that is nobody in particular.
        """
        names = {f"{GROUP_MARK}{group.removeprefix(GROUP_MARK)}" for group in groups} if person is not None else set()
        return PathAccess({folder: _right_in(rules, person, names) for folder, rules in self._by_folder.items()})


def folder_key(path: str) -> str:
    """Return `path` as the most lenient file system compares it, so that every spelling of a folder has the same rules.

    Raises:
        InvalidPath: as `clean_path`.
    """
    return "/".join(file_system_key(part) for part in clean_path(path).split("/"))


def _right_in(rules: Sequence[PathRule], person: str | None, groups: Collection[str]) -> Right:
    own = [rule.right for rule in rules if person is not None and rule.who == person]
    of_groups = [rule.right for rule in rules if rule.who in groups]
    of_all = [rule.right for rule in rules if rule.who == EVERYBODY]
    return max(own or of_groups or of_all, default=Right.NONE)


def _kept_above(kept: Mapping[str, bool], key: str) -> bool:
    """Return whether the folder above `key` may be read, by the list `kept` so far."""
    while key:
        key = key.rpartition("/")[0]
        if key in kept:
            return kept[key]
    return True
