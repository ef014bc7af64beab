"""The answers of the reading tools: projects, lists of tasks, one task. Texts are Markdown, and ids become names."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field

from anyio import to_thread

from knowledge.errors import BadCursor
from knowledge.wire.cursors import question, seal, unseal
from mcp_server.connectors.errors import one_line
from mcp_server.connectors.plane.board import Board
from mcp_server.connectors.plane.model import Comment, PlaneTask, Project, Relation
from mcp_server.connectors.plane.pagination import Listing
from mcp_server.connectors.plane.text.html_markdown import markdown_of
from mcp_server.toolsets.plane.queries import exact
from mcp_server.toolsets.plane.schemas import (
    CommentAnswer,
    GetArguments,
    ProjectLine,
    Projects,
    SubTask,
    TaskView,
    Tied,
)
from mcp_server.toolsets.plane.task_names import SOMEBODY, names_of, states_shown

LONGEST_ABOUT = 300  # characters of a project's description
LONGEST_TEXT = 20_000
"""Characters of a task's text and comments in one answer."""
MOST_RELATIONS = 30
PagesOf = Callable[[str, str, str, Sequence[str]], Awaitable[Sequence[str]]]
"""Takes a task's origin, title, address and texts, and returns the pages that they name, or that hold evidence from it."""
NO_PROJECT = "no project can be used; check whether the key's owner belongs to one, and what PLANE_PROJECTS allows"


async def list_projects(board: Board, asked: str | None) -> Projects:
    """Return the projects that may be used, by key; or the one asked for, with the names that its tasks can have.

    Only the answer about a single project holds text that anyone may have written. So the list of keys taints no
    caller.
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
    (named,) = await names_of(board, project, [task])
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
    """The requested parts of a task that Plane keeps outside of it."""

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
        names = {state.id: state.name for state in await states_shown(board, project, below)}
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
    """Return the text with which an answer begins (0 is the description, 1 the first comment), and the character to start at."""
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
    wanted: dict[str, list[Relation]] = {}
    for relation in relations[:MOST_RELATIONS]:
        wanted.setdefault(relation.project_id or project.id, []).append(relation)
    # Not the name of a task in a project that may not be used.
    found = {
        project_id: await board.tasks_by_id(usable[project_id], {one.task_id for one in some})
        for project_id, some in wanted.items()
        if project_id in usable
    }
    shown: list[Tied] = []
    for relation in relations[:MOST_RELATIONS]:
        other = relation.project_id or project.id
        if (related := found.get(other, {}).get(relation.task_id)) is not None:
            shown.append(Tied(relation.kind, board.key(usable[other], related), related.name))
    missing = len(relations) - len(shown)
    note = f"relations not shown: {missing} (too many, gone, or in projects that may not be used)"
    return shown, note if missing else None
