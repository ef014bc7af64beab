"""The people who use a knowledge base, their groups, the rules on their folders, and the reviewers of folders. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Literal

from knowledge.access.rules import GROUP_MARK, AccessRules, PathAccess, PathRule, Right, folder_key
from knowledge.pages.paths import ancestors

EntryKind = Literal["person", "group", "rule", "reviewers"]
ANY_HOST = "*"
"""The host part of `user@*`: every host of that account on the server's machine, and the account at a terminal and on the site."""


@dataclass(frozen=True, slots=True)
class DirectoryEntry:
    """A stored line.

    By `kind`: the principals of the person `who`, the people of the group `who`, the right of `who` in a folder, or the
    reviewers of a folder.

    `folder` is "" for people and groups, and for the whole knowledge base. `names` are what the line assigns; those of
    a rule are one name, the right.
    """

    kind: EntryKind
    who: str
    folder: str
    names: tuple[str, ...]
    by: str
    at: datetime

    @property
    def key(self) -> tuple[EntryKind, str, str]:
        """The key of the entry; no two entries have the same."""
        return self.kind, self.who, self.folder

    @property
    def label(self) -> str:
        """A few words that name the entry. No two entries have the same."""
        where = f"{self.folder}/"
        match self.kind:
            case "rule":
                return f"rule {self.who} in {where}"
            case "reviewers":
                return f"reviewers of {where}"
            case "group":
                return f"group {GROUP_MARK}{self.who}"
        return f"person {self.who}"


@dataclass(frozen=True, slots=True)
class FolderReviewers:
    """The people and groups (`@group`) who decide on proposals that touch a folder. `folder` is "" for the whole knowledge base."""

    folder: str
    names: tuple[str, ...]

    @property
    def where(self) -> str:
        """The folder as people read it."""
        return f"{self.folder}/" if self.folder else "the whole knowledge base"


@dataclass(frozen=True)
class Directory:
    """All entries at one moment, by kind and name. It never changes: a change makes another one."""

    entries: tuple[DirectoryEntry, ...] = ()

    @cached_property
    def people(self) -> Mapping[str, tuple[str, ...]]:
        """The principals of each person."""
        return {one.who: one.names for one in self.entries if one.kind == "person"}

    @cached_property
    def groups(self) -> Mapping[str, tuple[str, ...]]:
        """The people of each group, whose name has no mark here."""
        return {one.who: one.names for one in self.entries if one.kind == "group"}

    @cached_property
    def rules(self) -> Sequence[DirectoryEntry]:
        """The entries of the rules on folders."""
        return tuple(one for one in self.entries if one.kind == "rule")

    @cached_property
    def access_rules(self) -> AccessRules:
        """The rules on folders, to be applied. A right that is misspelt in the database counts as none."""
        return AccessRules(PathRule(one.who, one.folder, _right(one.names)) for one in self.rules)

    @cached_property
    def _access(self) -> dict[str, PathAccess]:
        return {}

    @cached_property
    def reviewers(self) -> Mapping[str, tuple[str, ...]]:
        """The reviewers of each folder that has some."""
        return {one.folder: one.names for one in self.entries if one.kind == "reviewers"}

    @cached_property
    def _reviewers_by_key(self) -> Mapping[str, FolderReviewers]:
        return {folder_key(folder): FolderReviewers(folder, names) for folder, names in self.reviewers.items()}

    @cached_property
    def _holders(self) -> Mapping[str, str]:
        return {principal: person for person, principals in self.people.items() for principal in principals}

    def person_of(self, principal: str) -> str:
        """Return the name of the person who has the principal (`user@host`), "" if nobody has it."""
        found = self._holders.get(principal)
        if found is None:
            user, _, host = principal.rpartition("@")
            # A colon marks callers over HTTP, who may have the name of an account of this machine by chance.
            found = None if ":" in host else self._holders.get(f"{user}@{ANY_HOST}")
        return found or ""

    def people_with(self, principal: str) -> str:
        """Return the person who has exactly this principal, "" if nobody has."""
        return self._holders.get(principal, "")

    def groups_of(self, person: str) -> frozenset[str]:
        """Return the groups that the person is in, without their mark."""
        return frozenset(group for group, people in self.groups.items() if person in people)

    def access_of(self, principal: str) -> PathAccess:
        """Return where the principal (`user@host`) may read, propose and write."""
        person = self.person_of(principal)
        if (found := self._access.get(person)) is None:
            found = self._access[person] = self.access_rules.access(person or None, self.groups_of(person))
        return found

    def among(self, person: str, names: Collection[str]) -> bool:
        """Return whether these people and groups include the person."""
        return bool(person) and (
            person in names or any(f"{GROUP_MARK}{one}" in names for one in self.groups_of(person))
        )

    def people_in(self, names: Collection[str]) -> tuple[str, ...]:
        """Return the people whom these people and groups include, by name."""
        return tuple(person for person in self.people if self.among(person, names))

    def spelled(self, folder: str) -> str:
        """Return the folder as its rules or reviewers already spell it: `HR` and `hr` are one folder.

        Raises:
            InvalidPath: it can't be a folder.
        """
        key = folder_key(folder)
        known = (one.folder for one in self.entries if one.kind in ("rule", "reviewers"))
        return next((one for one in known if folder_key(one) == key), folder)

    def reviewers_of(self, path: str) -> FolderReviewers | None:
        """Return the reviewers of the page: those of the nearest folder above it that has some, None if none has.

        If reviewers are recorded for the path itself, they are the page's. Reviewers of a folder apply to every spelling of its path.

        Raises:
            InvalidPath: it can't be a path.
        """
        key = folder_key(path)
        for folder in (key, *ancestors(key)):
            if (found := self._reviewers_by_key.get(folder)) is not None:
                return found
        return None


def _right(names: tuple[str, ...]) -> Right:
    return Right.__members__.get(names[0].upper(), Right.NONE) if names else Right.NONE
