"""The answers of the reading tools: projects, lists of tasks, one task. Texts are Markdown, and ids become names."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC
from functools import partial

from anyio import to_thread

from knowledge.errors import BadCursor
from knowledge.wire.cursors import question, seal, unseal
from mcp_server.connectors.errors import ConnectorError, Denied, Missing, UnknownName, one_line
from mcp_server.connectors.parallel import in_parallel
from mcp_server.connectors.plane.board import Board
from mcp_server.connectors.plane.model import Comment, PlaneTask, Project, Relation
from mcp_server.connectors.plane.names import CLOSED
from mcp_server.connectors.plane.pagination import Listing
from mcp_server.connectors.plane.text.html_markdown import markdown_of
from mcp_server.connectors.plane.wire import SERVICE
from mcp_server.toolsets.plane.queries import (
    OVERDUE,
    TaskFilter,
    day_of,
    exact,
    moment_of,
    remaining_tasks,
    words_of,
)
from mcp_server.toolsets.plane.schemas import (
    CommentAnswer,
    GetArguments,
    ProjectLine,
    Projects,
    QueryArguments,
    SubTask,
    TaskLine,
    TaskList,
    TaskView,
    Tied,
)

AT_ONCE = 4
"""Projects that are searched at the same time; Plane allows 60 requests a minute."""
MOST_FOUND = 1_000  # with as many hits there may be more, and every project is listed
LONGEST_ABOUT = 300  # characters of a project's description
LONGEST_TEXT = 20_000
"""Characters of a task's text and comments in one answer."""
MOST_RELATIONS = 30  # each costs a request
PagesOf = Callable[[str, str, str, Sequence[str]], Awaitable[Sequence[str]]]
"""Takes a task's origin, title, address and texts, and returns the pages that they name, or that hold evidence from it."""
NO_PROJECT = "no project can be used; check whether the key's owner belongs to one, and what PLANE_PROJECTS allows"
CHANGED = "tasks changed or created since the first page, perhaps on no page: {}; call without a cursor to see them"
SOMEBODY = "somebody"
"""A person who is no longer a member of the project."""


async def list_projects(board: Board, asked: str | None) -> Projects:
    """Return the projects that may be used, by key; or the one asked for, with the names that its tasks can have.

    Only the latter holds text that anyone may have written, so listing the keys taints no caller.
    """
    if asked is None:
        lines = [ProjectLine(project.key, project.name, "") for project in await board.projects()]
        return Projects(lines, tainted=False, note=None if lines else NO_PROJECT)
    project = await board.project(asked)
    names = [
        [state.name for state in (await board.states.by_id(project)).values()],
        [label.name for label in (await board.labels.by_id(project)).values()],
        [person.name or person.email for person in (await board.people.by_id(project)).values()],
        [cycle.name for cycle in (await board.cycles.by_id(project)).values()],
        [module.name for module in (await board.modules.by_id(project)).values()],
    ]
    about = one_line(project.description, LONGEST_ABOUT)
    return Projects([ProjectLine(project.key, project.name, about, *names)], tainted=True)


@dataclass(frozen=True, slots=True)
class _FoundTasks:
    """The tasks of one project that match. `note` or `error` says why some may be missing."""

    project: Project
    tasks: Sequence[PlaneTask] = ()
    note: str | None = None
    error: ConnectorError | None = None


async def query_tasks(board: Board, arguments: QueryArguments) -> TaskList:
    """Return the tasks that match, last changed first.

    Raises:
        BadCursor: it belongs to another question.
        BadDate, UnknownName, AmbiguousServiceName: an argument does not say what is meant.
        ConnectorError: no project could be searched.
    """
    filters = arguments.model_dump(exclude={"limit", "cursor", "journey_id"})
    key = question(filters | {"workspace": board.access.workspace})
    # A cursor or date that is wrong is refused before Plane is asked for anything.
    remaining_tasks((), arguments.cursor, key)
    if arguments.due is not None and arguments.due.strip().casefold() != OVERDUE:
        day_of("due", arguments.due, also="'overdue' or ")
    if arguments.updated_since is not None:
        moment_of("updated_since", arguments.updated_since)
    projects = await _projects_to_search(board, arguments)
    if projects is None:
        return TaskList([], None, tainted=False, note=NO_PROJECT)
    found = await in_parallel(
        [partial(_search_project, board, arguments, project) for project in projects], at_most=AT_ONCE
    )
    errors = [one.error for one in found if one.error is not None]
    if errors and len(errors) == len(found):
        raise _common_error(errors)
    project_of = {task.id: one.project for one in found for task in one.tasks}
    remaining = remaining_tasks((task for one in found for task in one.tasks), arguments.cursor, key)
    shown = remaining.tasks[: arguments.limit]
    lines = await _task_lines(board, shown, project_of)
    more = remaining.cursor_after(shown[-1], key) if len(remaining.tasks) > len(shown) else None
    notes = [_incomplete_note(found), CHANGED.format(remaining.changed) if remaining.changed else None]
    return TaskList(lines, more, tainted=bool(lines), note="; ".join(filter(None, notes)) or None)


async def _projects_to_search(board: Board, arguments: QueryArguments) -> Sequence[Project] | None:
    """Return the named project, or all in which a search finds the text; None if none may be used."""
    if arguments.project is not None:
        return [await board.project(arguments.project)]
    projects = await board.projects()
    words = words_of(arguments.text)
    if len(projects) < 2 or not words:
        return projects or None
    # One search spares listing most projects. It finds more than matches (keys, numbers), but every name with the word.
    hits = await board.client.search(max(words, key=len), None, MOST_FOUND)
    if len(hits) >= MOST_FOUND:  # there may be more
        return projects
    ids = {hit.project_id for hit in hits}
    return [project for project in projects if project.id in ids]


async def _search_project(board: Board, arguments: QueryArguments, project: Project) -> _FoundTasks:
    try:
        wanted = await _task_filter(board, arguments, project)
        listing = await _tasks_to_filter(board, arguments, project)
    except ConnectorError as error:
        return _FoundTasks(project, error=error)
    fitting = [task for task in listing.items if wanted.fits(task, board.key(project, task))]
    return _FoundTasks(project, fitting, listing.note)


def _common_error(errors: Sequence[ConnectorError]) -> ConnectorError:
    """Return the error to raise if no project could be searched: an unknown name with the names of all, else the first."""
    unknown = [error for error in errors if isinstance(error, UnknownName)]
    if len(errors) == 1 or len(unknown) < len(errors):
        return next((error for error in errors if not isinstance(error, UnknownName)), errors[0])
    first = unknown[0]
    same = [error for error in unknown if error.kind == first.kind]
    candidates = tuple(dict.fromkeys(name for error in same for name in error.candidates))
    return UnknownName(SERVICE, first.kind, first.asked, candidates)


async def _task_filter(board: Board, arguments: QueryArguments, project: Project) -> TaskFilter:
    """Return the filter with the ids of this project."""
    overdue = arguments.due is not None and arguments.due.strip().casefold() == OVERDUE
    assignee = arguments.assignee.strip().casefold() if arguments.assignee is not None else None
    assignee_id = None
    if arguments.assignee is not None and assignee == "me":
        # Not `board.person`: the owner of the key need not be a member of every project.
        assignee_id = (await board.me()).id
    elif arguments.assignee is not None and assignee != "none":
        assignee_id = (await board.person(project, arguments.assignee)).id
    states = (await board.states.by_id(project)).values() if overdue else ()
    return TaskFilter(
        words=words_of(arguments.text),
        state_ids=await board.states_meant(project, arguments.state) if arguments.state is not None else None,
        assignee_id=assignee_id,
        nobody=assignee == "none",
        label_id=(await board.labels.named(project, arguments.label)).id if arguments.label is not None else None,
        priority=arguments.priority,
        due_by=day_of("due", arguments.due) if arguments.due is not None and not overdue else None,
        overdue_at=board.now().astimezone(UTC).date() if overdue else None,
        closed_ids=frozenset(state.id for state in states if state.group in CLOSED),
        updated_since=moment_of("updated_since", arguments.updated_since)
        if arguments.updated_since is not None
        else None,
    )


async def _tasks_to_filter(board: Board, arguments: QueryArguments, project: Project) -> Listing[PlaneTask]:
    """Return the tasks that are both in the named cycle and module, or all of the project."""
    lists: list[Listing[PlaneTask]] = []
    if arguments.cycle is not None:
        lists.append(await board.tasks_of(project, await board.cycle(project, arguments.cycle)))
    if arguments.module is not None:
        lists.append(await board.tasks_of(project, await board.modules.named(project, arguments.module)))
    if not lists:
        return await board.tasks_of(project)
    shared = set.intersection(*({task.id for task in listing.items} for listing in lists))
    note = "; ".join(listing.note for listing in lists if listing.note) or None
    return Listing(tuple(task for task in lists[0].items if task.id in shared), note)


def _incomplete_note(found: Iterable[_FoundTasks]) -> str | None:
    """Return why tasks may be missing; projects that failed for the same reason are named together."""
    notes = [f"{one.project.key}: {one.note}" for one in found if one.note]
    failed: dict[str, list[str]] = {}
    for one in found:
        if one.error is not None:
            why = "no such name" if isinstance(one.error, UnknownName) else f"not searched ({one.error})"
            failed.setdefault(why, []).append(one.project.key)
    notes += [f"{', '.join(keys)}: {why}" for why, keys in failed.items()]
    return "; ".join(notes) or None


async def _task_lines(board: Board, shown: Sequence[PlaneTask], project_of: Mapping[str, Project]) -> list[TaskLine]:
    tasks_in: dict[str, list[PlaneTask]] = {}
    for task in shown:
        tasks_in.setdefault(project_of[task.id].id, []).append(task)
    lines: dict[str, TaskLine] = {}
    for tasks in tasks_in.values():
        project = project_of[tasks[0].id]
        for task, named in zip(tasks, await _with_names(board, project, tasks), strict=True):
            due = task.due.isoformat() if task.due else None
            key, updated_at = board.key(project, task), exact(task.updated_at)
            lines[task.id] = TaskLine(
                key, task.name, named.state, task.priority, named.assignees, named.labels, due, updated_at
            )
    return [lines[task.id] for task in shown]


@dataclass(frozen=True, slots=True)
class _TaskNames:
    """The names of a task's state, assignees and labels."""

    state: str
    assignees: Sequence[str]
    labels: Sequence[str]


async def _with_names(board: Board, project: Project, tasks: Sequence[PlaneTask]) -> list[_TaskNames]:
    """Return these names for each task. Lists that no task needs are not requested: they count against the rate limit."""
    assigned = {person for task in tasks for person in task.assignee_ids}
    labelled = {label for task in tasks for label in task.label_ids}
    states = await board.states.by_id(project, {task.state_id for task in tasks if task.state_id})
    people = await board.names_of_people(project, assigned) if assigned else {}
    labels = await board.labels.by_id(project, labelled) if labelled else {}
    state_names = {id_: state.name for id_, state in states.items()}
    return [
        _TaskNames(
            state_names.get(task.state_id or "", ""),
            [people.get(person, SOMEBODY) for person in task.assignee_ids],
            [labels[label].name for label in task.label_ids if label in labels],
        )
        for task in tasks
    ]


async def get_task(board: Board, arguments: GetArguments, pages_of: PagesOf) -> TaskView:
    """Return one task as it is now; a long one in parts.

    Raises:
        BadCursor: it belongs to another task, or the task was changed since.
        BadReference, Missing, UnknownName, NotAllowed, ClosedProject: as for `Board.task`.
    """
    project, task = await board.task(arguments.task)
    board.remember(task)
    # Parts of a text that was changed in between would not fit together, so the cursor belongs to this version of the task.
    key = question({"task": task.id, "at": exact(task.updated_at), "include": sorted(set(arguments.include))})
    start = _start(arguments.cursor, key)
    (named,) = await _with_names(board, project, [task])
    with_comments = "comments" in arguments.include
    people = await board.names_of_people(project) if task.html or with_comments else {}
    comments: Listing[Comment] = await board.comments(project, task) if with_comments else Listing(())
    htmls = [task.html, *(comment.html for comment in comments.items)]
    texts = [await to_thread.run_sync(markdown_of, html, people) for html in htmls]
    parts, next_start = _parts(texts, *start)
    ties = _Ties()
    if arguments.cursor is None:  # on the first page only: each costs a request
        ties = await _ties_of(board, project, task, set(arguments.include))
    task_key, url = board.key(project, task), board.url(project, task.number)
    pages = await pages_of(f"plane:{task_key}", f"{task_key} {task.name}", url, [task.name, *texts])
    return TaskView(
        id=task.id,
        key=task_key,
        url=url,
        project=project.name,
        name=task.name,
        state=named.state,
        priority=task.priority,
        assignees=named.assignees,
        labels=named.labels,
        start=task.starts.isoformat() if task.starts else None,
        due=task.due.isoformat() if task.due else None,
        created_at=exact(task.created_at),
        updated_at=exact(task.updated_at),
        text=parts.get(0, ""),
        comments=[
            CommentAnswer(people.get(comment.by or "", SOMEBODY), exact(comment.at), parts[number], comment.id)
            for number, comment in enumerate(comments.items, 1)
            if number in parts
        ],
        relations=ties.related,
        pages=pages,
        next_cursor=seal(key, next_start) if next_start else None,
        tainted=True,
        note="; ".join(note for note in (comments.note, *ties.notes) if note) or None,
        parent=f"{project.key}-{task.parent_number}" if task.parent_number else "",
        subtasks=ties.subtasks,
        cycle=ties.cycle,
        modules=ties.modules,
        links=ties.links,
        attachments=ties.attachments,
    )


@dataclass(slots=True)
class _Ties:
    """The parts of a task that Plane keeps outside of it, as far as they were asked for."""

    related: Sequence[Tied] = ()
    subtasks: Sequence[SubTask] = ()
    cycle: str = ""
    modules: Sequence[str] = ()
    links: Sequence[str] = ()
    attachments: Sequence[str] = ()
    notes: list[str | None] = field(default_factory=list)


async def _ties_of(board: Board, project: Project, task: PlaneTask, include: Collection[str]) -> _Ties:
    """Return the parts that are asked for. All but the sub-tasks come fresh from Plane."""
    ties, client = _Ties(), board.client
    if "relations" in include:
        ties.related, note = await _related(board, project, task)
        ties.notes.append(note)
    if "subtasks" in include:
        listing = await board.tasks_of(project)
        below = sorted((one for one in listing.items if one.parent_id == task.id), key=lambda one: one.number)
        ties.notes.append(listing.note)
        states = await board.states.by_id(project, {one.state_id for one in below if one.state_id}) if below else {}
        names = {id_: state.name for id_, state in states.items()}
        ties.subtasks = [SubTask(board.key(project, one), one.name, names.get(one.state_id or "", "")) for one in below]
    if "cycle" in include:
        cycle = await board.cycle_with(project, task.id)
        ties.cycle = cycle.name if cycle else ""
    if "modules" in include:
        ties.modules = [one.name for one in await board.modules_with(project, task.id)]
    if "links" in include:
        links = await client.links(project.id, task.id)
        ties.notes.append(links.note)
        ties.links = [f"{one.url} {one.title}".rstrip() for one in links.items]
    if "attachments" in include:
        files = await client.attachments(project.id, task.id)
        ties.attachments = [f"{one.name} ({one.kind or 'unknown type'}, {one.size_bytes:,} bytes)" for one in files]
    return ties


def _start(cursor: str | None, key: str) -> tuple[int, int]:
    """Return with which text an answer begins (0 is the description, 1 the first comment), and after how many characters."""
    if cursor is None:
        return 0, 0
    number, offset = unseal(cursor, key, int, int)
    if not (isinstance(number, int) and isinstance(offset, int)) or number < 0 or offset < 0:
        raise BadCursor(cursor)
    return number, offset


def _parts(texts: Sequence[str], number: int, offset: int) -> tuple[dict[int, str], tuple[int, int] | None]:
    """Return as many texts as fit into one answer, by number, and where the next answer begins, or None."""
    parts: dict[int, str] = {}
    room = LONGEST_TEXT
    for at in range(number, len(texts)):
        skipped = offset if at == number else 0
        text = texts[at][skipped:]
        # Only the first text of an answer is cut. A later one that does not fit begins the next answer.
        if parts and len(text) > room:
            return parts, (at, skipped)
        if len(text) > room:
            # Whole lines, if one ends in the last tenth.
            end = text.rfind("\n", room - room // 10, room)
            text = text[: end + 1 if end >= 0 else room]
        parts[at] = text
        if skipped + len(text) < len(texts[at]):
            return parts, (at, skipped + len(text))
        room -= len(text)
    return parts, None


async def _related(board: Board, project: Project, task: PlaneTask) -> tuple[Sequence[Tied], str | None]:
    """Return the related tasks by key and name, and a note about those that are not shown."""
    relations = await board.client.relations(project.id, task.id)
    usable = {one.id: one for one in await board.projects()}
    shown: list[Tied] = []
    for relation in relations[:MOST_RELATIONS]:
        # Not the name of a task in a project that may not be used.
        other = usable.get(relation.project_id or project.id)
        found = await _related_task(board, other, relation) if other is not None else None
        if other is not None and found is not None:
            shown.append(Tied(relation.kind, board.key(other, found), found.name))
    missing = len(relations) - len(shown)
    note = f"relations not shown: {missing} (too many, gone, or in projects that may not be used)"
    return shown, note if missing else None


async def _related_task(board: Board, project: Project, relation: Relation) -> PlaneTask | None:
    try:
        return await board.client.task(project.id, relation.task_id)
    except (Missing, Denied):  # deleted, archived, or hidden from a guest
        return None
