"""Answers plane_query_tasks: chooses the projects to read, finds the ids that the filters mean, leaves the rest for a later part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from datetime import UTC
from functools import partial
from typing import Literal, TypeVar

from knowledge.wire.cursors import question
from mcp_server.connectors.errors import ConnectorError, NoAnswer, ServiceLimited, UnknownName, Unreachable
from mcp_server.connectors.parallel import in_parallel
from mcp_server.connectors.plane.board import INTAKE, KEPT_S, LISTING_MANY_S, LISTING_S, Board, names_of_person
from mcp_server.connectors.plane.model import PlaneMember, PlaneTask, Project, State
from mcp_server.connectors.plane.names import CLOSED, states_meant
from mcp_server.connectors.plane.pagination import Listing
from mcp_server.connectors.plane.wire import INTAKE_STATES, SERVICE
from mcp_server.connectors.text.name_match import chosen, folded, unaccented
from mcp_server.toolsets.plane.queries import (
    OVERDUE,
    PagePlace,
    TaskFilter,
    TaskOrder,
    day_of,
    exact,
    moment_of,
    remaining_tasks,
    words_of,
)
from mcp_server.toolsets.plane.schemas import QueryArguments, TaskLine, TaskList
from mcp_server.toolsets.plane.task_names import TaskNames, labels_shown, named, people_shown, states_shown
from mcp_server.toolsets.plane.task_views import NO_PROJECT

AT_ONCE = 4
"""Projects that are read at the same time; Plane allows 60 requests a minute."""
MOST_FOUND = 1_000  # with as many hits there may be more, and every project is listed
PASSING = (ServiceLimited, NoAnswer, Unreachable)
"""Errors of a project that a later part of the answer reads again."""
CHANGED = "tasks changed or created since the first page, perhaps on no page: {}; call without a cursor to see them"
ME, NONE = "me", "none"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _ReadProject:
    """The tasks of one project, to be filtered. `error` says why they could not be read."""

    project: Project
    listing: Listing[PlaneTask] = field(default_factory=lambda: Listing(()))
    error: ConnectorError | None = None


@dataclass(frozen=True, slots=True)
class _FoundTasks:
    """The tasks of one project that match. `error` says why there are none."""

    read: _ReadProject
    tasks: Sequence[PlaneTask] = ()
    error: ConnectorError | None = None


async def query_tasks(board: Board, arguments: QueryArguments) -> TaskList:
    """Return the tasks that match, in the order asked for.

    If Plane accepts no more requests for now, the answer has the tasks of the projects that could be read. The cursor
    after the last of these tasks continues with the other projects, and only those are requested then.

    Raises:
        BadCursor: it belongs to another question.
        BadDate, UnknownName, AmbiguousServiceName: an argument is not a date, or names nothing or several things.
        ConnectorError: no project could be searched.
    """
    filters = arguments.model_dump(exclude={"limit", "cursor", "journey_id", "count_by"})
    key = question(filters | {"workspace": board.access.workspace})
    order = TaskOrder(arguments.sort, arguments.reverse)
    place = PagePlace.of(arguments.cursor, key)
    # A cursor or date that is wrong is refused before Plane is asked for anything.
    remaining_tasks((), place, order, arguments.cursor or "")
    _require_dates(arguments)
    parent = None
    if arguments.parent is not None and folded(arguments.parent) != NONE:
        parent = await board.task(arguments.parent)
    projects = await _projects_to_search(board, arguments, parent[0] if parent else None)
    if projects is None:
        return TaskList([], None, tainted=False, note=NO_PROJECT)
    now = [one for one in projects if (one.key in place.searched or not place.searched) and one.key not in place.later]
    # Before the lists, which may leave no request for these.
    if ME in map(folded, (*arguments.assignee, arguments.created_by or "")):
        await board.me()
    several = len(projects) > 1
    everyone: Mapping[str, PlaneMember] = {}
    if several:
        with suppress(ConnectorError):  # then each project says who its people are
            everyone = await board.everyone()
    async with board.reading_much() if len(now) > 1 else nullcontext():
        read = await _read_projects(board, arguments, now, first_page=arguments.cursor is None)
        meanings = _Meanings(board, read, everyone, several=several)
        found = await _matching_tasks(board, arguments, read, meanings, parent[1] if parent else None)
        errors = [one.error for one in found if one.error is not None]
        if errors and len(errors) == len(found):
            raise _common_error(errors)
        project_of = {task.id: one.read.project for one in found for task in one.tasks}
        remaining = remaining_tasks((task for one in found for task in one.tasks), place, order, arguments.cursor or "")
        shown = remaining.tasks[: arguments.limit]
        to_name = [task for one in found for task in one.tasks] if arguments.count_by else shown
        names, unnamed = await _names(board, to_name, project_of, everyone)
    lines = [_line(board.key(project_of[task.id], task), task, names[task.id]) for task in shown]
    counts = _counts(arguments.count_by, names.values())
    failed = [one.read.project.key for one in found if isinstance(one.error, PASSING)]
    later = tuple(dict.fromkeys([*place.later, *failed]))
    rest = PagePlace(searched=later) if later else None
    if len(remaining.tasks) > len(shown):
        rest = PagePlace(remaining.seen_to, order.position(shown[-1]), shown[-1].id, place.searched, later)
    return TaskList(
        lines,
        rest.cursor(key) if rest else None,
        tainted=bool(lines or counts),
        note=_note(found, later, unnamed, remaining.changed),
        total=sum(len(one.tasks) for one in found),
        counts=counts,
        counted=[one.read.project.key for one in found if one.tasks] if counts else (),
    )


def _require_dates(arguments: QueryArguments) -> None:
    if arguments.due is not None and arguments.due.strip().casefold() != OVERDUE:
        day_of("due", arguments.due, also="'overdue' or ")
    if arguments.starts_by is not None:
        day_of("starts_by", arguments.starts_by)
    if arguments.updated_since is not None:
        moment_of("updated_since", arguments.updated_since)


async def _projects_to_search(
    board: Board, arguments: QueryArguments, of_parent: Project | None
) -> Sequence[Project] | None:
    """Return the named project, the project of the parent, or all projects in which a search finds the text.

    None if no project may be used.
    """
    if arguments.project is not None:
        return [await board.project(arguments.project)]
    if of_parent is not None:  # Plane keeps sub-tasks in the project of their parent
        return [of_parent]
    projects = await board.projects()
    words = words_of(arguments.text)
    if len(projects) < 2 or not words or arguments.intake:
        return projects or None
    # One search spares listing most projects. It finds more than matches (keys, numbers), but every name with the word.
    hits = await board.client.search(max(words, key=len), None, MOST_FOUND)
    if len(hits) >= MOST_FOUND:  # there may be more
        return projects
    ids = {hit.project_id for hit in hits}
    return [project for project in projects if project.id in ids]


async def _read_projects(
    board: Board, arguments: QueryArguments, projects: Sequence[Project], *, first_page: bool
) -> list[_ReadProject]:
    """Return the tasks of each project.

    The projects with the oldest lists, or with none, are read first: they need the requests that are left. The list of
    a single project is read again after half a minute. With several projects, the first page reads a list
    again after two minutes; further pages read only projects of which no list is kept.
    """

    def age(project: Project) -> float:
        listed_s = board.listed_s(project, INTAKE if arguments.intake else None)
        return KEPT_S if listed_s is None else listed_s

    at_most_s = LISTING_S if len(projects) == 1 else LISTING_MANY_S if first_page else KEPT_S

    async def read(project: Project) -> _ReadProject:
        try:
            return _ReadProject(project, await _tasks_to_filter(board, arguments, project, at_most_s))
        except ConnectorError as error:
            return _ReadProject(project, error=error)

    oldest_first = sorted(projects, key=age, reverse=True)
    read_of = {
        one.project.id: one for one in await in_parallel([partial(read, p) for p in oldest_first], at_most=AT_ONCE)
    }
    return [read_of[project.id] for project in projects]


async def _tasks_to_filter(
    board: Board, arguments: QueryArguments, project: Project, at_most_s: float
) -> Listing[PlaneTask]:
    """Return the tasks to filter: those in the intake, those in the named cycle and the named module, or all of the project."""
    if arguments.intake:
        return await board.tasks_of(project, INTAKE, at_most_s=at_most_s)
    lists: list[Listing[PlaneTask]] = []
    if arguments.cycle is not None:
        cycle = await board.cycle(project, arguments.cycle)
        lists.append(await board.tasks_of(project, cycle, at_most_s=at_most_s))
    if arguments.module is not None:
        module = await board.modules.named(project, arguments.module)
        lists.append(await board.tasks_of(project, module, at_most_s=at_most_s))
    if not lists:
        return await board.tasks_of(project, at_most_s=at_most_s)
    shared = set.intersection(*({task.id for task in listing.items} for listing in lists))
    note = "; ".join(listing.note for listing in lists if listing.note) or None
    aged_s = max((listing.aged_s for listing in lists if listing.aged_s is not None), default=None)
    return Listing(tuple(task for task in lists[0].items if task.id in shared), note, aged_s)


async def _matching_tasks(
    board: Board,
    arguments: QueryArguments,
    read: Sequence[_ReadProject],
    meanings: _Meanings,
    parent: PlaneTask | None,
) -> list[_FoundTasks]:
    """Return the tasks of each project that match.

    Raises:
        UnknownName: one of the names in the filters exists in no project.
    """

    async def match(one: _ReadProject) -> _FoundTasks:
        if one.error is not None:
            return _FoundTasks(one, error=one.error)
        try:
            wanted = await _task_filter(board, arguments, one, meanings, parent)
        except ConnectorError as error:
            return _FoundTasks(one, error=error)
        fitting = [task for task in one.listing.items if wanted.fits(task, board.key(one.project, task))]
        return _FoundTasks(one, fitting)

    found = await in_parallel([partial(match, one) for one in read], at_most=AT_ONCE)
    if not any(isinstance(one.error, PASSING) for one in found):
        meanings.require_known()
    return found


async def _task_filter(
    board: Board, arguments: QueryArguments, one: _ReadProject, meanings: _Meanings, parent: PlaneTask | None
) -> TaskFilter:
    """Return the filter with the ids of this project."""
    overdue = arguments.due is not None and arguments.due.strip().casefold() == OVERDUE
    states = await states_shown(board, one.project, one.listing.items) if overdue else ()
    people = [asked for asked in arguments.assignee if folded(asked) != NONE]
    return TaskFilter(
        words=words_of(arguments.text),
        state_ids=await meanings.states(one, arguments.state, intake=arguments.intake) if arguments.state else None,
        assignee_ids=await meanings.people(one, people) if people else None,
        nobody=len(people) < len(arguments.assignee),
        creator_id=await meanings.creator(one, arguments.created_by) if arguments.created_by is not None else None,
        label_ids=await meanings.labels(one, arguments.label) if arguments.label else None,
        priorities=frozenset(arguments.priority),
        parent_id=(parent.id if parent else "") if arguments.parent is not None else None,
        starts_by=day_of("starts_by", arguments.starts_by) if arguments.starts_by is not None else None,
        due_by=day_of("due", arguments.due) if arguments.due is not None and not overdue else None,
        overdue_at=board.now().astimezone(UTC).date() if overdue else None,
        closed_ids=frozenset(state.id for state in states if state.group in CLOSED),
        updated_since=moment_of("updated_since", arguments.updated_since)
        if arguments.updated_since is not None
        else None,
    )


class _Meanings:
    """The meaning of the names in the filters, in each project.

    In one project, its lists of states, people and labels define the meaning of names. For several projects, requesting
    all these lists would use up a minute's requests. So if a listed task shows the name of a state or a person, that
    name has the same meaning in all projects. Only other names are looked up in the lists, where a mistyped or
    shortened name can be recognised.
    """

    def __init__(
        self, board: Board, read: Sequence[_ReadProject], everyone: Mapping[str, PlaneMember], *, several: bool
    ) -> None:
        self._board, self._several = board, several
        states = {state for one in read for state in _states(one)} if several else set()
        self._states_known = {unaccented(name) for state in states for name in (state.name, state.id)}
        assigned = {id_ for one in read for task in one.listing.items for id_ in task.assignee_ids}
        self._assigned = [person for id_, person in everyone.items() if id_ in assigned]
        # A caller may not even learn that people outside of PLANE_PROJECTS exist.
        self._people = self._assigned if board.access.projects is not None else list(everyone.values())
        self._found: set[tuple[str, str]] = set()
        self._unknown: dict[tuple[str, str], list[UnknownName]] = {}

    async def states(self, one: _ReadProject, asked: Sequence[str], *, intake: bool) -> frozenset[str]:
        """Return the ids of the states that the names and groups mean."""
        shown = [State(name, name, group) for name, group in INTAKE_STATES.values()] if intake else _states(one)

        async def look_up(name: str) -> Iterable[str]:
            meant = states_meant(name, shown) if intake or self._several else None
            if meant is not None:
                return meant
            if intake:
                return [chosen(SERVICE, "state", name, shown, lambda state: (state.name,)).id]
            if unaccented(name) in self._states_known:
                return []
            return await self._board.states_meant(one.project, name)

        return await self._union("state", asked, look_up)

    async def labels(self, one: _ReadProject, asked: Sequence[str]) -> frozenset[str]:
        """Return the ids of the labels of these names."""

        async def look_up(name: str) -> Iterable[str]:
            return [(await self._board.labels.named(one.project, name)).id]

        return await self._union("label", asked, look_up)

    async def people(self, one: _ReadProject, asked: Sequence[str]) -> frozenset[str]:
        """Return the ids of these people; `me` is the owner of the key."""

        async def look_up(name: str) -> Iterable[str]:
            if folded(name) == ME:
                # Not `board.person`: the owner of the key need not be a member of every project.
                return [(await self._board.me()).id]
            exact = [one for one in self._people if unaccented(name) in map(unaccented, names_of_person(one))]
            if not exact:
                return [(await self._board.person(one.project, name)).id]
            # If several people have that name, those without a task make no difference.
            of_tasks = [person for person in exact if person in self._assigned]
            if len(of_tasks) > 1:
                return [chosen(SERVICE, "member", name, of_tasks, names_of_person, near=False).id]
            return [person.id for person in of_tasks or exact]

        return await self._union("member", asked, look_up)

    async def creator(self, one: _ReadProject, asked: str) -> str:
        """Return the id of the person; "" if nobody in this project has that name.

        This always uses the list of people, because no listed task may show the person who created it.
        """

        async def look_up(name: str) -> Iterable[str]:
            return [(await self._board.me() if folded(name) == ME else await self._board.person(one.project, name)).id]

        return next(iter(await self._union("member", [asked], look_up)), "")

    def require_known(self) -> None:
        """Check that every name is known in some project. Raises: UnknownName: with the names of all projects."""
        for asked, errors in self._unknown.items():
            if asked not in self._found:
                raise _common_error(errors)

    async def _union(
        self, kind: str, asked: Sequence[str], look_up: Callable[[str], Awaitable[Iterable[str]]]
    ) -> frozenset[str]:
        ids: set[str] = set()
        for name in asked:
            try:
                ids.update(await look_up(name))
                self._found.add((kind, name))
            except UnknownName as unknown:
                # Another project may have it.
                self._unknown.setdefault((kind, name), []).append(unknown)
        return frozenset(ids)


def _states(one: _ReadProject) -> Collection[State]:
    return {task.state for task in one.listing.items if task.state is not None}


def _common_error(errors: Sequence[ConnectorError]) -> ConnectorError:
    """Return the error to raise if no project could be searched: an unknown name with the names of all, else the first."""
    unknown = [error for error in errors if isinstance(error, UnknownName)]
    if len(errors) == 1 or len(unknown) < len(errors):
        return next((error for error in errors if not isinstance(error, UnknownName)), errors[0])
    first = unknown[0]
    same = [error for error in unknown if error.kind == first.kind]
    candidates = tuple(dict.fromkeys(name for error in same for name in error.candidates))
    return UnknownName(SERVICE, first.kind, first.asked, candidates)


def _note(found: Iterable[_FoundTasks], later: Sequence[str], unnamed: Iterable[str], changed: int) -> str | None:
    """Return why tasks or names may be missing; projects with the same reason are named together."""
    notes = [f"{one.read.project.key}: {one.read.listing.note}" for one in found if one.read.listing.note]
    failed: dict[str, list[str]] = {}
    wait_s = 0.0
    for one in found:
        if isinstance(one.error, ServiceLimited):
            wait_s = max(wait_s, one.error.wait_s)
        elif one.error is not None:
            why = "no such name" if isinstance(one.error, UnknownName) else f"not searched ({one.error})"
            failed.setdefault(why, []).append(one.read.project.key)
    notes += [f"{', '.join(keys)}: {why}" for why, keys in failed.items()]
    if later:
        when = f" in {wait_s:.0f} s, when Plane accepts requests again" if wait_s else ""
        left = f"{len(later)} projects are not searched yet" if len(later) > 1 else f"{later[0]} is not searched yet"
        notes.append(f"{left}, and total leaves them out: next_cursor continues with them{when}")
    aged = {one.read.project.key: one.read.listing.aged_s for one in found if one.read.listing.aged_s is not None}
    if aged:
        notes.append(
            f"{', '.join(aged)}: data from {max(aged.values()):.0f} s ago, because Plane accepts no more requests for now"
        )
    if missing := ", ".join(unnamed):
        notes.append(f"{missing}: some names of people or labels could not be read; call again to get them")
    if changed:
        notes.append(CHANGED.format(changed))
    return "; ".join(notes) or None


async def _names(
    board: Board,
    tasks: Sequence[PlaneTask],
    project_of: Mapping[str, Project],
    people: Mapping[str, PlaneMember],
) -> tuple[dict[str, TaskNames], list[str]]:
    """Return the names in each task, by its id, and the keys of the projects in which some could not be read.

    A task is shown without them rather than not at all. People's names are requested before labels.
    """
    tasks_in: dict[str, list[PlaneTask]] = {}
    for task in tasks:
        tasks_in.setdefault(project_of[task.id].id, []).append(task)
    names: dict[str, TaskNames] = {}
    unnamed: dict[str, None] = {}

    async def read(shown: Callable[..., Awaitable[Collection[T]]], some: Sequence[PlaneTask]) -> Collection[T]:
        project = project_of[some[0].id]
        try:
            return await shown(board, project, some)
        except ConnectorError:
            unnamed[project.key] = None
            return ()

    known = {}
    for project_id, some in tasks_in.items():
        members = people.values() or await read(people_shown, some)
        known[project_id] = await read(states_shown, some), members
    for project_id, some in tasks_in.items():
        labels = await read(labels_shown, some)
        names |= {task.id: own for task, own in zip(some, named(some, *known[project_id], labels), strict=True)}
    return names, list(unnamed)


def _line(key: str, task: PlaneTask, names: TaskNames) -> TaskLine:
    due = task.due.isoformat() if task.due else None
    return TaskLine(
        key, task.name, names.state, task.priority, names.assignees, names.labels, due, exact(task.updated_at)
    )


def _counts(by: Literal["state", "assignee", "label"] | None, names: Iterable[TaskNames]) -> Mapping[str, int] | None:
    """Return how many of the matching tasks have each state, assignee or label, the most frequent first."""
    if by is None:
        return None
    counts: Counter[str] = Counter()
    for own in names:
        counts.update({"state": [own.state], "assignee": own.assignees, "label": own.labels}[by] or [NONE])
    return dict(counts.most_common())
