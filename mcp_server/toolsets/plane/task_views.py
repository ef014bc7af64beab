"""What the reading tools answer: projects, lists of tasks, one task. All texts are Markdown, all names are names."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC

import anyio

from knowledge.errors import BadCursor
from knowledge.wire.cursors import question, seal, unseal
from mcp_server.connectors.errors import ConnectorError, Denied, Missing, UnknownName
from mcp_server.connectors.plane.board import Board
from mcp_server.connectors.plane.errors import SERVICE
from mcp_server.connectors.plane.model import Comment, PlaneTask, Project, Relation
from mcp_server.connectors.plane.pagination import Walked
from mcp_server.connectors.plane.text.html_markdown import markdown_of
from mcp_server.toolsets.plane.queries import (
    OVERDUE,
    TaskFilter,
    closed_states,
    day_of,
    moment_of,
    rest_of,
    told,
    words_of,
)
from mcp_server.toolsets.plane.schemas import CommentAnswer, ProjectLine, Projects, TaskLine, TaskList, TaskView, Tied

AT_ONCE = 4
"""Projects that are asked about at the same time; Plane allows 60 requests a minute."""
MOST_FOUND = 1_000
LONGEST_ABOUT = 300
LONGEST_TEXT = 20_000
"""Characters of a task's text and comments in one answer."""
MOST_RELATIONS = 30
PagesOf = Callable[[str, str, str, Sequence[str]], Awaitable[Sequence[str]]]
"""Told a task's lineage, title, address and texts, returns the pages that it names, or that have evidence from it."""
NO_PROJECT = (
    "there is no project that may be used; see whether the key's owner belongs to one, and what PLANE_PROJECTS allows"
)
CHANGED = "changed or made since the first page, and perhaps on none: {}; ask without a cursor to see them"
SOMEBODY = "somebody"
"""Who is no member of the project any more."""


@dataclass(frozen=True, slots=True)
class TaskQuery:
    """What a caller asks of tasks, by names."""

    project: str | None = None
    text: str | None = None
    state: str | None = None
    assignee: str | None = None
    label: str | None = None
    priority: str | None = None
    cycle: str | None = None
    module: str | None = None
    due: str | None = None
    updated_since: str | None = None


async def projects_told(board: Board, asked: str | None) -> Projects:
    """Return the projects that may be used, by key; or the one that was asked for, with the names its tasks can have.

    Only the latter has text that anybody may have written: whoever has just listed what there is has read nothing of it.
    """
    if asked is None:
        lines = [ProjectLine(project.key, project.name, "") for project in await board.projects()]
        return Projects(lines, tainted=False, note=None if lines else NO_PROJECT)
    project = await board.project(asked)
    names = [
        [state.name for state in (await board.states_of(project)).values()],
        [label.name for label in (await board.labels_of(project)).values()],
        [person.name or person.email for person in (await board.people_of(project)).values()],
        [cycle.name for cycle in (await board.cycles_of(project)).values()],
        [module.name for module in (await board.modules_of(project)).values()],
    ]
    about = " ".join(project.description.split())
    shown = about if len(about) <= LONGEST_ABOUT else f"{about[: LONGEST_ABOUT - 3]}..."
    return Projects([ProjectLine(project.key, project.name, shown, *names)], tainted=True)


@dataclass(frozen=True, slots=True)
class _FoundTasks:
    """Tasks of one project that fit, and why they may not be all."""

    project: Project
    tasks: Sequence[PlaneTask] = ()
    note: str | None = None
    error: ConnectorError | None = None


async def tasks_told(board: Board, query: TaskQuery, limit: int, cursor: str | None) -> TaskList:
    """Return the tasks that fit, last changed first, at most `limit`.

    Raises:
        BadCursor: it belongs to another question.
        BadDate, UnknownName, AmbiguousName: what was asked does not say what is meant.
    """
    key = question({name: getattr(query, name) for name in TaskQuery.__slots__} | {"workspace": board.access.workspace})
    rest_of((), cursor, key)
    _check_dates(query)
    projects = await _asked_projects(board, query)
    if projects is None:
        return TaskList([], None, tainted=False, note=NO_PROJECT)
    found = await _in_each(board, query, projects)
    of = {task.id: one.project for one in found for task in one.tasks}
    rest = rest_of((task for one in found for task in one.tasks), cursor, key)
    shown = rest.tasks[:limit]
    lines = await _lines(board, shown, of)
    more = rest.cursor_behind(shown[-1], key) if len(rest.tasks) > len(shown) else None
    notes = [_noted(found), CHANGED.format(rest.changed) if rest.changed else None]
    return TaskList(lines, more, tainted=bool(lines), note="; ".join(filter(None, notes)) or None)


def _check_dates(query: TaskQuery) -> None:
    if query.due is not None and query.due.strip().casefold() != OVERDUE:
        day_of("due", query.due, also="'overdue' or ")
    if query.updated_since is not None:
        moment_of("updated_since", query.updated_since)


async def _asked_projects(board: Board, query: TaskQuery) -> Sequence[Project] | None:
    """Return where to look: the project that is named, or all in which a search finds the text; None if none may be used."""
    if query.project is not None:
        return [await board.project(query.project)]
    projects = await board.projects()
    words = words_of(query.text)
    if len(projects) < 2 or not words:
        return projects or None
    # A search knows names only in part (and numbers, and keys), but what has the word in its name is among what it finds.
    longest = max(words, key=len)
    hits = await board.client.search(longest, None, MOST_FOUND)
    if len(hits) >= MOST_FOUND:
        return projects
    ids = {hit.project_id for hit in hits}
    return [project for project in projects if project.id in ids]


async def _in_each(board: Board, query: TaskQuery, projects: Sequence[Project]) -> list[_FoundTasks]:
    """Return what fits in each project, a few projects at a time.

    Raises:
        ConnectorError: in none of them could be looked.
    """
    found: dict[str, _FoundTasks] = {}
    room = anyio.CapacityLimiter(AT_ONCE)

    async def look(project: Project) -> None:
        async with room:
            found[project.id] = await _looked(board, query, project)

    async with anyio.create_task_group() as tasks:
        for project in projects:
            tasks.start_soon(look, project)
    ordered = [found[project.id] for project in projects]
    errors = [one.error for one in ordered if one.error is not None]
    if errors and len(errors) == len(ordered):
        raise _one_of(errors)
    return ordered


async def _looked(board: Board, query: TaskQuery, project: Project) -> _FoundTasks:
    try:
        wanted = await _wanted(board, query, project)
        walked = await _listed(board, query, project)
    except ConnectorError as error:
        return _FoundTasks(project, error=error)
    fitting = [task for task in walked.items if wanted.fits(task, board.key(project, task))]
    return _FoundTasks(project, fitting, walked.note)


def _one_of(errors: Sequence[ConnectorError]) -> ConnectorError:
    """Return what to tell when no project could be looked through: an unknown name with all that there is, or the first."""
    unknown = [error for error in errors if isinstance(error, UnknownName)]
    if len(errors) == 1 or len(unknown) < len(errors):
        return next((error for error in errors if not isinstance(error, UnknownName)), errors[0])
    first = unknown[0]
    same = [error for error in unknown if error.kind == first.kind]
    candidates = tuple(dict.fromkeys(name for error in same for name in error.candidates))
    return UnknownName(SERVICE, first.kind, first.asked, candidates)


async def _wanted(board: Board, query: TaskQuery, project: Project) -> TaskFilter:
    """Return what is asked with the ids of this project."""
    overdue = query.due is not None and query.due.strip().casefold() == OVERDUE
    nobody = query.assignee is not None and query.assignee.strip().casefold() == "none"
    state_ids = await board.states_meant(project, query.state) if query.state is not None else None
    assignee_id = await _assignee(board, project, query.assignee) if query.assignee is not None and not nobody else None
    return TaskFilter(
        words=words_of(query.text),
        state_ids=state_ids,
        assignee_id=assignee_id,
        nobody=nobody,
        label_id=(await board.label(project, query.label)).id if query.label is not None else None,
        priority=query.priority,
        due_by=day_of("due", query.due) if query.due is not None and not overdue else None,
        overdue_at=board.now().astimezone(UTC).date() if overdue else None,
        closed_ids=closed_states((await board.states_of(project)).values()) if overdue else frozenset(),
        updated_since=moment_of("updated_since", query.updated_since) if query.updated_since is not None else None,
    )


async def _assignee(board: Board, project: Project, asked: str) -> str:
    """Return the id of who is meant; the owner of the key needs not be a member to be asked about."""
    if asked.strip().casefold() == "me":
        return (await board.me()).id
    return (await board.person(project, asked)).id


async def _listed(board: Board, query: TaskQuery, project: Project) -> Walked[PlaneTask]:
    """Return the tasks to look through: those of the cycle and the module that are named, or all of the project."""
    lists: list[Walked[PlaneTask]] = []
    if query.cycle is not None:
        lists.append(await board.tasks_in_cycle(project, await board.cycle(project, query.cycle)))
    if query.module is not None:
        lists.append(await board.tasks_in_module(project, await board.module(project, query.module)))
    if not lists:
        return await board.tasks_of(project)
    shared = set.intersection(*({task.id for task in walked.items} for walked in lists))
    note = "; ".join(walked.note for walked in lists if walked.note) or None
    return Walked(tuple(task for task in lists[0].items if task.id in shared), note)


def _noted(found: Iterable[_FoundTasks]) -> str | None:
    """Return why there may be more tasks than were found; projects that failed alike together."""
    notes = [f"{one.project.key}: {one.note}" for one in found if one.note]
    failed: dict[str, list[str]] = {}
    for one in found:
        if one.error is not None:
            why = "no such name" if isinstance(one.error, UnknownName) else f"not looked through ({one.error})"
            failed.setdefault(why, []).append(one.project.key)
    notes += [f"{', '.join(keys)}: {why}" for why, keys in failed.items()]
    return "; ".join(notes) or None


async def _lines(board: Board, shown: Sequence[PlaneTask], of: Mapping[str, Project]) -> list[TaskLine]:
    """Return the tasks with names for ids; only what they have is asked for."""
    tasks_in: dict[str, list[PlaneTask]] = {}
    for task in shown:
        tasks_in.setdefault(of[task.id].id, []).append(task)
    worded: dict[str, _ProjectWords] = {}
    for project_id, tasks in tasks_in.items():
        worded[project_id] = await _words(board, of[tasks[0].id], tasks)
    return [_line(board, of[task.id], task, worded[of[task.id].id]) for task in shown]


@dataclass(frozen=True, slots=True)
class _ProjectWords:
    """Names by id of what tasks of one project have."""

    states: Mapping[str, str]
    people: Mapping[str, str]
    labels: Mapping[str, str]

    def state(self, task: PlaneTask) -> str:
        """Return the name of the task's state."""
        return self.states.get(task.state_id or "", "")

    def assignees(self, task: PlaneTask) -> Sequence[str]:
        """Return the names of who the task is assigned to."""
        return [self.people.get(person, SOMEBODY) for person in task.assignee_ids]

    def labels_of(self, task: PlaneTask) -> Sequence[str]:
        """Return the names of the task's labels."""
        return [self.labels[label] for label in task.label_ids if label in self.labels]


async def _words(board: Board, project: Project, tasks: Sequence[PlaneTask]) -> _ProjectWords:
    assigned = {person for task in tasks for person in task.assignee_ids}
    labelled = {label for task in tasks for label in task.label_ids}
    states = await board.states_of(project, {task.state_id for task in tasks if task.state_id})
    people = await board.names_of_people(project, assigned) if assigned else {}
    labels = await board.labels_of(project, labelled) if labelled else {}
    return _ProjectWords(
        {state_id: state.name for state_id, state in states.items()},
        people,
        {label_id: label.name for label_id, label in labels.items()},
    )


def _line(board: Board, project: Project, task: PlaneTask, words: _ProjectWords) -> TaskLine:
    return TaskLine(
        board.key(project, task),
        task.name,
        words.state(task),
        task.priority,
        words.assignees(task),
        words.labels_of(task),
        task.due.isoformat() if task.due else None,
        told(task.updated_at),
    )


@dataclass(frozen=True, slots=True)
class _TaskTextPart:
    """A stretch of a task's text or of one comment; `index` is 0 for the text, and counts comments from 1."""

    index: int
    text: str


async def task_told(
    board: Board,
    asked: str,
    include: Sequence[str],
    cursor: str | None,
    pages_of: PagesOf | None = None,
) -> TaskView:
    """Return one task as it is now; a long one in parts. `pages_of` tells the pages that a task has to do with.

    Raises:
        BadCursor: it belongs to another task, or the task was changed since.
        BadReference, Missing, UnknownName, NotAllowed, ClosedProject: as for `Board.task`.
    """
    project, task = await board.task(asked)
    key = question({"task": task.id, "at": told(task.updated_at), "include": sorted(set(include))})
    start = _start(cursor, key)
    words = await _words(board, project, [task])
    people = await board.names_of_people(project) if task.html or "comments" in include else {}
    text = await anyio.to_thread.run_sync(markdown_of, task.html, people)
    said: Walked[Comment] = await board.comments(project, task) if "comments" in include else Walked(())
    texts = [text, *[await anyio.to_thread.run_sync(markdown_of, comment.html, people) for comment in said.items]]
    parts, behind = _parts(texts, *start)
    tied, left_out = await _tied(board, project, task) if "relations" in include and cursor is None else ((), None)
    task_key = board.key(project, task)
    cited = (f"plane:{task_key}", f"{task_key} {task.name}", board.url(project, task.number), [task.name, *texts])
    return TaskView(
        id=task.id,
        key=task_key,
        url=board.url(project, task.number),
        project=project.name,
        name=task.name,
        state=words.state(task),
        priority=task.priority,
        assignees=words.assignees(task),
        labels=words.labels_of(task),
        start=task.starts.isoformat() if task.starts else None,
        due=task.due.isoformat() if task.due else None,
        created_at=told(task.created_at),
        updated_at=told(task.updated_at),
        text=next((part.text for part in parts if part.index == 0), ""),
        comments=[_said(said.items[part.index - 1], part.text, people) for part in parts if part.index],
        relations=tied,
        pages=await pages_of(*cited) if pages_of is not None else (),
        next_cursor=seal(key, behind) if behind else None,
        tainted=True,
        note="; ".join(note for note in (said.note, left_out) if note) or None,
    )


def _start(cursor: str | None, key: str) -> tuple[int, int]:
    if cursor is None:
        return 0, 0
    index, offset = unseal(cursor, key, int, int)
    if not (isinstance(index, int) and isinstance(offset, int)) or index < 0 or offset < 0:
        raise BadCursor(cursor)
    return index, offset


def _parts(texts: Sequence[str], index: int, offset: int) -> tuple[list[_TaskTextPart], tuple[int, int] | None]:
    """Return as much as fits into one answer, from there on, and where to go on, None at the end."""
    parts: list[_TaskTextPart] = []
    room = LONGEST_TEXT
    for at in range(index, len(texts)):
        text = texts[at][offset if at == index else 0 :]
        if parts and len(text) > room:
            return parts, (at, offset if at == index else 0)
        cut = text if len(text) <= room else _cut(text, room)
        parts.append(_TaskTextPart(at, cut))
        if len(cut) < len(text):
            return parts, (at, (offset if at == index else 0) + len(cut))
        room -= len(cut)
    return parts, None


def _cut(text: str, room: int) -> str:
    """Return the beginning of a text that fits, whole lines if there is a line's end in its last tenth."""
    end = text.rfind("\n", room - room // 10, room)
    return text[: end + 1 if end >= 0 else room]


def _said(comment: Comment, text: str, people: Mapping[str, str]) -> CommentAnswer:
    return CommentAnswer(people.get(comment.by or "", SOMEBODY), told(comment.at), text)


async def _tied(board: Board, project: Project, task: PlaneTask) -> tuple[Sequence[Tied], str | None]:
    """Return the tasks that this one is tied to, by key and name, and how many are not told."""
    relations = await board.client.relations(project.id, task.id)
    usable = {one.id: one for one in await board.projects()}
    tied: list[Tied] = []
    for relation in relations[:MOST_RELATIONS]:
        other = usable.get(relation.project_id or project.id)
        found = await _tied_task(board, other, relation) if other is not None else None
        if other is not None and found is not None:
            tied.append(Tied(relation.kind, board.key(other, found), found.name))
    missing = len(relations) - len(tied)
    note = f"relations not shown: {missing} (too many, gone, or in projects that may not be used)"
    return tied, note if missing else None


async def _tied_task(board: Board, project: Project, relation: Relation) -> PlaneTask | None:
    try:
        return await board.client.task(project.id, relation.task_id)
    except (Missing, Denied):
        return None
