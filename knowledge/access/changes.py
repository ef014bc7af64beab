"""Changes of the directory: what may be added and removed, and what else then changes. Pure.

Every change is a function from a directory to the next one. If it changes nothing, it returns an equal one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from knowledge.access.directory import ANY_HOST, Directory, DirectoryEntry, EntryKind
from knowledge.access.rules import EVERYBODY, GROUP_MARK, Right
from knowledge.errors import InvalidPath, KnowledgeError
from knowledge.history.acts import storable
from knowledge.pages.paths import ACTING, clean_path, new_name

DirectoryChange = Callable[[Directory], Directory]

RIGHTS = tuple(right.name.lower() for right in Right)
MOST_ENTRIES = 2_000
MOST_NAMES = 500
"""Names that one entry may have: the principals of a person, the people of a group."""
LONGEST_PRINCIPAL = 300
LONGEST_FOLDER = 1_000
"""Bytes. An index of PostgreSQL can't hold more than about 2,700."""
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_UNSEEN = re.compile(rf"[{ACTING}\s\ud800-\udfff]")


class BadDirectoryChange(KnowledgeError):
    """The people, groups, rules or reviewers can't be changed like that. Nothing was changed."""


@dataclass(frozen=True, slots=True)
class Changing:
    """Who changes the directory, and when."""

    by: str
    at: datetime

    def person_added(self, name: str, principals: Sequence[str]) -> DirectoryChange:
        """Return the change that assigns each of the principals to that person, who may be new."""

        def change(before: Directory) -> Directory:
            checked_name(name, "a person")
            checked = [checked_principal(one) for one in principals]
            for one in checked:
                if (other := before.people_with(one)) not in ("", name):
                    raise BadDirectoryChange(f"{one} is {other} already; remove it there first")
            return self._with(before, "person", name, "", (*before.people.get(name, ()), *checked))

        return change

    def person_removed(self, name: str, principals: Sequence[str]) -> DirectoryChange:
        """Return the change that takes these principals from the person; without principals it removes the person everywhere."""

        def change(before: Directory) -> Directory:
            if principals:
                return self._less(before, "person", name, principals)
            after = _without(before, "person", name)
            for group in before.groups:
                after = self._less(after, "group", group, (name,))
            return self._unnamed(after, name)

        return change

    def group_added(self, name: str, people: Sequence[str]) -> DirectoryChange:
        """Return the change that adds the people to the group, which may be new."""

        def change(before: Directory) -> Directory:
            _require_people(before, people)
            group = group_name(name)
            return self._with(before, "group", group, "", (*before.groups.get(group, ()), *people))

        return change

    def group_removed(self, name: str, people: Sequence[str]) -> DirectoryChange:
        """Return the change that takes the people out of the group; without people it removes the group everywhere."""

        def change(before: Directory) -> Directory:
            group = group_name(name)
            if people:
                return self._less(before, "group", group, people)
            return self._unnamed(_without(before, "group", group), f"{GROUP_MARK}{group}")

        return change

    def rule_set(self, who: str, folder: str, right: str) -> DirectoryChange:
        """Return the change that gives a person, a group (`@group`) or everybody (`*`) that right in the folder."""

        def change(before: Directory) -> Directory:
            if who != EVERYBODY:
                _require_known(before, [who])
            if right not in RIGHTS:
                raise BadDirectoryChange(f"{right[:40]!r} is no right; the rights are {', '.join(RIGHTS)}")
            return self._with(before, "rule", who, before.spelled(checked_folder(folder)), (right,))

        return change

    def rule_removed(self, who: str, folder: str) -> DirectoryChange:
        """Return the change that removes the rule for `who` in the folder."""
        return lambda before: _without(before, "rule", who, before.spelled(checked_folder(folder)))

    def reviewers_set(self, folder: str, names: Sequence[str]) -> DirectoryChange:
        """Return the change that makes these people and groups the folder's reviewers.

        Without names, the folder has no reviewers of its own.
        """

        def change(before: Directory) -> Directory:
            spelled = before.spelled(checked_folder(folder))
            if not names:
                return _without(before, "reviewers", "", spelled)
            _require_known(before, names)
            return self._with(before, "reviewers", "", spelled, names)

        return change

    def _with(self, before: Directory, kind: EntryKind, who: str, folder: str, names: Iterable[str]) -> Directory:
        """Return the directory with the entry, each name once."""
        entry = DirectoryEntry(kind, who, folder, tuple(dict.fromkeys(names)), storable(self.by), self.at)
        if len(entry.names) > MOST_NAMES:
            raise BadDirectoryChange(
                f"{entry.label} would have {len(entry.names)} names; at most {MOST_NAMES} are allowed"
            )
        found = next((one for one in before.entries if one.key == entry.key), None)
        if found is not None and found.names == entry.names:
            return before
        others = (one for one in before.entries if one.key != entry.key)
        after = Directory(tuple(sorted((*others, entry), key=lambda one: one.key)))
        if len(after.entries) > MOST_ENTRIES:
            raise BadDirectoryChange(f"at most {MOST_ENTRIES:,} people, groups, rules and reviewers are allowed")
        return after

    def _less(self, before: Directory, kind: EntryKind, who: str, names: Collection[str]) -> Directory:
        """Return the directory without these names in that entry; an entry may be left without names."""
        found = next((one for one in before.entries if one.key == (kind, who, "")), None)
        if found is None:
            return before
        return self._with(before, kind, who, "", (one for one in found.names if one not in names))

    def _unnamed(self, before: Directory, name: str) -> Directory:
        """Return the directory without any rule for that person or group, and without them as a reviewer.

        Raises:
            BadDirectoryChange: a folder would lose its only reviewer, so that anybody could decide there, or its only rule, so that
                others could get in.
        """
        after = before
        for folder, names in before.reviewers.items():
            if name in names and not (left := tuple(one for one in names if one != name)):
                raise BadDirectoryChange(f"{name} is the only reviewer of {folder}/; name another one there first")
            if name in names:
                after = self._with(after, "reviewers", "", folder, left)
        for one in before.rules:
            if one.who == name:
                if all(other.who == name for other in before.rules if other.folder == one.folder):
                    raise BadDirectoryChange(
                        f"{one.folder}/ has no rule except that for {name}, and without it others could get in; "
                        "set another one there first, such as none for '*'"
                    )
                after = _without(after, "rule", name, one.folder)
        return after


def _without(before: Directory, kind: EntryKind, who: str, folder: str = "") -> Directory:
    return replace(before, entries=tuple(one for one in before.entries if one.key != (kind, who, folder)))


def _require_people(directory: Directory, names: Sequence[str]) -> None:
    for one in names:
        if one not in directory.people:
            raise BadDirectoryChange(f"there is no person {one[:64]!r}; knowledge-forge people list shows all")


def _require_known(directory: Directory, names: Sequence[str]) -> None:
    """Check that these are people and groups of the directory.

    Raises:
        BadDirectoryChange: one is not.
    """
    for one in names:
        if not one.startswith(GROUP_MARK):
            _require_people(directory, [one])
        elif one[1:] not in directory.groups:
            raise BadDirectoryChange(f"there is no group {one[:65]!r}; knowledge-forge group list shows all")


def checked_name(name: str, whose: str) -> str:
    """Return the name of a person or group if it has the form of one.

    `whose` says in the error's message whose name it is ("a group").

    Raises:
        BadDirectoryChange: it can't be one.
    """
    if not _NAME.fullmatch(name):
        raise BadDirectoryChange(
            f"{name[:100]!r} cannot be the name of {whose}: use up to 64 lower-case letters, digits, '.', '_' or '-', as in ann"
        )
    return name


def group_name(name: str) -> str:
    """Return the name of a group without its mark, which may be left out."""
    return checked_name(name.removeprefix(GROUP_MARK), "a group")


def checked_principal(principal: str) -> str:
    """Return the name of a principal if it has the form of one.

    The name of a Zulip account (`ann@example.org@zulip`) is changed to lower case.

    Raises:
        BadDirectoryChange: it has another form, or belongs to everybody without a token.
    """
    user, _, host = principal.rpartition("@")
    if not user or not host or len(principal) > LONGEST_PRINCIPAL or _UNSEEN.search(principal):
        raise BadDirectoryChange(
            f"{principal[:100]!r} is no principal: write USER@HOST as knowledge-forge trust list shows it, such as ann@token:http, "
            f"or 'USER@{ANY_HOST}' for all hosts of an account on this machine"
        )
    if host == "unenrolled:http":
        raise BadDirectoryChange(f"{principal[:100]} is everybody who sends no token, so it can't be one person")
    return principal.lower() if host == "zulip" else principal


def checked_folder(folder: str) -> str:
    """Return the folder's path if it is valid. The whole knowledge base is "", and may also be written as `/` or `.`.

    Raises:
        BadDirectoryChange: it can't be a folder of pages.
    """
    try:
        found = new_name(clean_path("" if folder == "/" else folder))
        if len(found.encode()) > LONGEST_FOLDER:
            raise BadDirectoryChange(f"the name of a folder has at most {LONGEST_FOLDER:,} bytes here")
    except InvalidPath as error:
        raise BadDirectoryChange(str(error)) from None
    except UnicodeEncodeError:
        raise BadDirectoryChange(f"the name of the folder {folder[:100]!r} is not valid Unicode") from None
    return found
