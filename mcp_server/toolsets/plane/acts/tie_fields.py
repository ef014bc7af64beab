"""Reads an act's arguments about a task's lists and ties: people added or removed, its parent, cycle, modules, relations, links.

Resolves names and asks Plane for the present values. Changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar
from urllib.parse import urlsplit

from mcp_server.connectors.errors import one_line
from mcp_server.connectors.plane.board import Board
from mcp_server.connectors.plane.model import Cycle, Module, PlaneTask, Project
from mcp_server.connectors.plane.names import CLOSED
from mcp_server.connectors.plane.wire import RELATIONS
from mcp_server.connectors.text.name_match import folded
from mcp_server.toolsets.plane.acts.model import TaskField, Unfit
from mcp_server.toolsets.plane.acts.ties import relation_key, relations_now
from mcp_server.toolsets.plane.schemas import CreateArguments, UpdateArguments

MOST_ANCESTORS = 10
LONGEST_SHOWN = 60
ARCHIVED = "yes"
KINDS: Mapping[str, str] = {
    **{name.replace("_", " "): ours for name, ours in RELATIONS.items()},
    **{ours: ours for ours in RELATIONS.values()},
}
"""Relations as people name them, each with our name for it."""


class HasId(Protocol):
    """A person, a label, a module."""

    @property
    def id(self) -> str:
        """Plane's id."""
        ...


T = TypeVar("T", bound=HasId)


@dataclass(frozen=True, slots=True)
class ListChange(Generic[T]):
    """The requested list. If `whole`, it is `added` alone; else it is the current list with `added` and without `removed`."""

    added: Sequence[T]
    removed: Sequence[T] = ()
    whole: bool = True

    def applied_to(self, before: Iterable[str]) -> list[str]:
        """Return the new ids, sorted."""
        kept = set() if self.whole else set(before) - {one.id for one in self.removed}
        return sorted(kept | {one.id for one in self.added})


def is_signed(entries: object) -> bool:
    """Return whether a list changes the present one: each of its entries begins with `+` or `-`."""
    return isinstance(entries, list) and bool(entries) and all(one.strip()[:1] in ("+", "-") for one in entries)


async def resolved(
    what: str,
    entries: Sequence[str],
    task: PlaneTask | None,
    find: Callable[[str], Awaitable[T]],
    known: Iterable[str],
) -> ListChange[T]:
    """Return the change that the entries mean.

    For a new task (`task` is None) they are the whole list, and signs are part of names.

    Raises:
        Unfit: some entries have a sign and others have none, a signed entry is itself an existing name (`known`), or
            the same value is both added and removed.
    """
    signed = [one for one in entries if one.strip()[:1] in ("+", "-")] if task is not None else []
    if not signed:
        return ListChange([await find(one) for one in entries])
    names = {folded(name) for name in known}
    if clash := next((one for one in signed if folded(one) in names), None):
        shown = one_line(clash, LONGEST_SHOWN)
        raise Unfit(
            f"{what}: {shown!r} is a name here, so the sign is ambiguous; use ids, or give the whole list by ids"
        )
    if len(signed) < len(entries):
        raise Unfit(f"{what} mixes names with and without a sign; give the whole list, or only +name and -name")
    added = [await find(one.strip()[1:]) for one in signed if one.strip()[0] == "+"]
    removed = [await find(one.strip()[1:]) for one in signed if one.strip()[0] == "-"]
    if {one.id for one in added} & {one.id for one in removed}:
        raise Unfit(f"{what} both adds and removes the same value")
    return ListChange(added, removed, whole=False)


async def parent_field(
    board: Board, project: Project, task: PlaneTask | None, asked: str, names: MutableMapping[str, str]
) -> TaskField:
    """Return the field of the parent; an empty name removes it.

    Raises:
        Unfit: the parent is in another project, or the task is above the parent.
    """
    before = task.parent_id if task else None
    was = ""
    if task and before:
        was = f"{project.key}-{task.parent_number}" if task.parent_number else before
        names[before] = was
    if not asked.strip():
        return TaskField("parent", before, None, was, "")
    home, parent = await board.task(asked)
    key = board.key(home, parent)
    if home.id != project.id:
        raise Unfit(f"{key} is in another project; a parent must be in {project.key}")
    above, looked = parent, 0
    while task is not None:
        if above.id == task.id:
            raise Unfit(f"{key} is {board.key(project, task)} or below it, so it cannot be its parent")
        # Plane would store a circle.
        looked += 1
        if above.parent_id is None or looked > MOST_ANCESTORS:
            break
        above = await board.client.task(project.id, above.parent_id)
    names[parent.id] = key
    return TaskField("parent", before, parent.id, was, key)


async def tie_fields(
    board: Board,
    project: Project,
    task: PlaneTask | None,
    arguments: CreateArguments | UpdateArguments,
    names: MutableMapping[str, str],
) -> list[TaskField]:
    """Return the fields of the cycle, modules, relations, links and the archive that the arguments name.

    Raises:
        UnknownName, AmbiguousServiceName, Unfit: they cannot be carried out.
    """
    fields = []
    if arguments.cycle or (task and arguments.cycle is not None):
        fields.append(await _cycle_field(board, project, task, arguments.cycle, names))
    if arguments.modules or (task and arguments.modules is not None):
        fields.append(await _modules_field(board, project, task, arguments.modules, names))
    if arguments.relations:
        fields.append(await _relations_field(board, project, task, arguments.relations, names))
    if arguments.links:
        fields.append(await _links_field(board, project, task, arguments.links, names))
    if task and isinstance(arguments, UpdateArguments) and arguments.archived is not None:
        fields.append(await _archived_field(board, project, task, arguments))
    return fields


async def _cycle_field(
    board: Board, project: Project, task: PlaneTask | None, asked: str, names: MutableMapping[str, str]
) -> TaskField:
    wanted: Cycle | None = None
    if asked.strip():
        wanted = await board.cycle(project, asked, near=False)
        names[wanted.id] = wanted.name
        if wanted.ends is not None and wanted.ends < board.now():
            raise Unfit(f"cycle {one_line(wanted.name, LONGEST_SHOWN)!r} has ended, so Plane adds no tasks to it")
    has = await board.cycle_with(project, task.id) if task else None
    if has is not None:
        names[has.id] = has.name
    before, after = has.id if has else None, wanted.id if wanted else None
    return TaskField("cycle", before, after, has.name if has else "", wanted.name if wanted else "")


async def _modules_field(
    board: Board, project: Project, task: PlaneTask | None, asked: Sequence[str], names: MutableMapping[str, str]
) -> TaskField:
    known = await board.modules.by_id(project)
    change: ListChange[Module] = await resolved(
        "modules",
        asked,
        task,
        lambda one: board.modules.named(project, one, near=False),
        [one.name for one in known.values()],
    )
    touched = [*change.added, *change.removed]
    if task is None:
        has: Sequence[Module] = ()
    elif change.whole:
        has = await board.modules_with(project, task.id)
    else:
        has = [one for one in touched if await board.is_in(project, "module", one.id, task.id)]
    names.update({one.id: one.name for one in (*touched, *has)})
    before, after = sorted({one.id for one in has}), change.applied_to(one.id for one in has)
    return TaskField("modules", before, after, *_shown_lists(before, after, names, whole=change.whole))


async def _relations_field(
    board: Board, project: Project, task: PlaneTask | None, asked: Sequence[str], names: MutableMapping[str, str]
) -> TaskField:
    has = await relations_now(board, project, task.id) if task else set()
    other_of = {one.rpartition(" ")[2]: one for one in has}
    wanted = []
    for entry in asked:
        kind, _, reference = " ".join(entry.split()).rpartition(" ")
        ours = KINDS.get(kind.casefold().lstrip("+-"))
        if ours is None:
            shown = one_line(entry, LONGEST_SHOWN)
            raise Unfit(
                f"{shown!r} is not a relation; write one of {', '.join(sorted(set(KINDS.values())))}, then a key"
            )
        home, other = await board.task(reference)
        key = board.key(home, other)
        if kind.startswith("-"):
            raise Unfit(f"Plane's API can't remove relations; remove '{ours} {key}' in Plane")
        if task is not None and other.id == task.id:
            raise Unfit(f"{key} cannot be related to itself")
        value = relation_key(ours, other.id)
        if (present := other_of.get(other.id)) and present != value:
            # Plane would answer that it added it, and keep the one that is there.
            kind_now = present.rpartition(" ")[0]
            raise Unfit(
                f"it already has '{kind_now} {key}'; Plane keeps one relation between two tasks, so remove that one in Plane first"
            )
        names[value] = f"{ours} {key}"
        wanted.append(value)
    after = sorted(set(wanted))
    if len({one.rpartition(" ")[2] for one in after}) < len(after):
        raise Unfit("relations names a task twice; Plane keeps one relation between two tasks")
    before = sorted(set(after) & has)
    return TaskField("relations", before, after, *_shown_lists(before, after, names, whole=False))


async def _links_field(
    board: Board, project: Project, task: PlaneTask | None, asked: Sequence[str], names: MutableMapping[str, str]
) -> TaskField:
    has = {link.url for link in (await board.client.links(project.id, task.id)).items} if task else set[str]()
    added, removed = set[str](), set[str]()
    for entry in asked:
        address, _, title = entry.strip().partition(" ")
        url = address.lstrip("+-")
        if not _is_web_address(url):
            shown = one_line(entry, LONGEST_SHOWN)
            raise Unfit(f"link {shown!r} does not begin with a web address; write https://example.org/page Title")
        if address.startswith("-"):
            if url not in has:
                raise Unfit(f"the task has no link {one_line(url, LONGEST_SHOWN)}")
            removed.add(url)
        else:
            added.add(url)
        names[url] = " ".join(title.split()) or url
    if added & removed:
        raise Unfit("links both adds and removes the same address")
    before = sorted(has & (added | removed))
    after = sorted((set(before) | added) - removed)
    was = ", ".join(before)
    shown_after = ", ".join(url if names[url] == url else f"{names[url]} <{url}>" for url in after)
    return TaskField("links", before, after, was, shown_after)


def _is_web_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    # As Django's URLValidator, which refuses names without a dot.
    return (
        parts.scheme in ("http", "https")
        and re.fullmatch(r"localhost|[^\s@]+\.[^\s@.]+", parts.hostname or "") is not None
    )


async def _archived_field(board: Board, project: Project, task: PlaneTask, arguments: UpdateArguments) -> TaskField:
    """Return the field that archives the task.

    Source: `IssueArchiveViewSet.archive` of github.com/makeplane/plane; its API would archive a task in any state.
    """
    if not arguments.archived:
        # A task that can be read is not archived.
        return TaskField("archived", None, None, "", "")
    if arguments.state:
        state = await board.state(project, arguments.state, near=False)
    else:
        state = (await board.states.by_id(project, {task.state_id or ""}))[task.state_id or ""]
    if state.group not in CLOSED:
        raise Unfit(
            f"{board.key(project, task)} is in {one_line(state.name, LONGEST_SHOWN)!r}; only a completed or cancelled task "
            "can be archived: set state, too"
        )
    return TaskField("archived", None, ARCHIVED, "no", "yes")


def _shown_lists(
    before: Sequence[str], after: Sequence[str], names: Mapping[str, str], *, whole: bool
) -> tuple[str, str]:
    """Return both lists for people; if only some are touched, the second says what is added and removed."""
    if whole:
        was, will_be = (", ".join(sorted(names[one] for one in ids)) for ids in (before, after))
        return was, will_be
    added = [f"+{names[one]}" for one in after if one not in before]
    removed = [f"-{names[one]}" for one in before if one not in after]
    return "", ", ".join(sorted(added) + sorted(removed))
