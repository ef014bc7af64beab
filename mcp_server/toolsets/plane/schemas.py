"""Arguments and answers of the tools on tasks in Plane."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from mcp_server.connectors.plane.model import Priority
from mcp_server.toolsets.plane.queries import SortBy
from mcp_server.toolsets.spec import ActStatus, Arguments, DryRun, InJourney

LONGEST_NAME = 255
"""Characters of a task's name in Plane."""
LONGEST_TEXT = 100_000


def _one_or_several(value: object) -> object:
    return [value] if isinstance(value, str) else value


OneOrSeveral = BeforeValidator(_one_or_several)
"""A single text counts as a list with that text alone: hosts that know an earlier form of the tool send one."""
SomeNames = Annotated[list[str], OneOrSeveral]
NONE: Any = Field(default_factory=list)
IsoDate = Annotated[str | None, Field(description="ISO date, e.g. 2026-03-31.")]


class ProjectsArguments(Arguments):
    """Arguments of plane_list_projects."""

    project: Annotated[str | None, Field(description="Key or name, e.g. 'KB': only this project, with its names.")] = (
        None
    )
    journey_id: InJourney = None


class QueryArguments(Arguments):
    """Arguments of plane_query_tasks."""

    project: Annotated[str | None, Field(description="Key or name, e.g. 'KB'; omit it for all.")] = None
    text: Annotated[str | None, Field(description="Words in the task name.")] = None
    state: Annotated[SomeNames, Field(description="Names or groups; 'open' means not done.")] = NONE
    assignee: Annotated[SomeNames, Field(description="Names, e-mails, 'me', 'none'.")] = NONE
    created_by: str | None = None
    label: SomeNames = NONE
    priority: Annotated[list[Priority], OneOrSeveral] = NONE
    cycle: str | None = None
    module: str | None = None
    parent: str | None = None
    starts_by: str | None = None
    due: Annotated[str | None, Field(description="'overdue', or due by this ISO date.")] = None
    updated_since: IsoDate = None
    intake: bool = False
    sort: SortBy = "updated"
    reverse: bool = False
    count_by: Literal["state", "assignee", "label"] | None = None
    limit: Annotated[int, Field(ge=1, le=100)] = 20
    cursor: str | None = None
    journey_id: InJourney = None


class GetArguments(Arguments):
    """Arguments of plane_get_task."""

    task: Annotated[str, Field(min_length=1, description="Key, id or URL, e.g. KB-12.")]
    include: list[Literal["comments", "relations", "subtasks", "cycle", "modules", "links", "attachments"]] = Field(
        default_factory=list
    )
    cursor: Annotated[str | None, Field(description="next_cursor of the previous answer.")] = None
    journey_id: InJourney = None


class CreateArguments(Arguments):
    """Arguments of plane_create_task."""

    project: Annotated[str, Field(min_length=1, description="Key or name, e.g. 'KB'.")]
    name: Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)]
    description: Annotated[
        str, Field(max_length=LONGEST_TEXT, description="Markdown; cite a page as kb:guides/backup.md.")
    ] = ""
    priority: Priority = "none"
    assignees: Annotated[list[str], Field(description="Names or email addresses.")] = Field(default_factory=list)
    state: str | None = None
    labels: list[str] = Field(default_factory=list)
    start: IsoDate = None
    due: str | None = None
    parent: str | None = None
    cycle: str | None = None
    modules: list[str] = Field(default_factory=list)
    relations: list[str] = Field(default_factory=list)
    links: list[str] = Field(default_factory=list)
    dry_run: DryRun = False
    journey_id: InJourney = None


class UpdateArguments(Arguments):
    """Arguments of plane_update_task."""

    task: Annotated[str, Field(min_length=1, description="Key, id or URL, e.g. KB-12.")]
    name: Annotated[str | None, Field(min_length=1, max_length=LONGEST_NAME)] = None
    description: Annotated[
        str | None, Field(max_length=LONGEST_TEXT, description="The whole new text; needs seen_at.")
    ] = None
    seen_at: Annotated[str | None, Field(description="updated_at of the task you read.")] = None
    priority: Priority | None = None
    assignees: Annotated[list[str] | None, Field(description="Whole list, or only +name and -name.")] = None
    state: str | None = None
    labels: list[str] | None = None
    start: Annotated[str | None, Field(description="ISO date; '' removes it.")] = None
    due: str | None = None
    parent: str | None = None
    cycle: str | None = None
    modules: list[str] | None = None
    relations: Annotated[list[str] | None, Field(description="'blocks KB-3'")] = None
    links: Annotated[list[str] | None, Field(description="'https://a.org Title'; '-' before it removes.")] = None
    archived: bool | None = None
    dry_run: bool = False
    journey_id: str | None = None


class CommentArguments(Arguments):
    """Arguments of plane_comment_task."""

    task: Annotated[str, Field(min_length=1, description="Key, id or URL, e.g. KB-12.")]
    text: Annotated[str, Field(max_length=LONGEST_TEXT, description="Markdown.")] = ""
    comment_id: Annotated[str | None, Field(description="Your own, to change.")] = None
    delete: bool = False
    dry_run: bool = False
    journey_id: str | None = None


class ChangesArguments(Arguments):
    """Arguments of plane_change_tasks."""

    changes: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=50)]
    partial: Annotated[bool, Field(description="Skip wrong ones.")] = False
    dry_run: bool = False
    journey_id: str | None = None


@dataclass(frozen=True, slots=True)
class ProjectLine:
    """A project; its description and lists are filled only if one project was asked for."""

    key: str
    name: str
    description: str
    states: Sequence[str] = ()
    labels: Sequence[str] = ()
    members: Sequence[str] = ()
    cycles: Sequence[str] = ()
    modules: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Projects:
    """Projects by key."""

    projects: Sequence[ProjectLine]
    tainted: bool
    note: str | None = None


@dataclass(frozen=True, slots=True)
class TaskLine:
    """A task in one line."""

    key: str
    name: str
    state: str
    priority: str
    assignees: Sequence[str]
    labels: Sequence[str]
    due: str | None
    updated_at: str


@dataclass(frozen=True, slots=True)
class TaskList:
    """Tasks that match, in order. `note` says which projects could not be searched.

    `total` counts all that match, on any page; `counts` by their state, assignee or label. `counted` has the keys of
    the projects that the names in `counts` come from, for the record of what the caller has read.
    """

    tasks: Sequence[TaskLine]
    next_cursor: str | None
    tainted: bool
    note: str | None = None
    total: int = 0
    counts: Mapping[str, int] | None = None
    counted: Annotated[Sequence[str], Field(exclude=True)] = ()


@dataclass(frozen=True, slots=True)
class CommentAnswer:
    """A comment, as Markdown."""

    by: str
    at: str
    text: str
    id: str


@dataclass(frozen=True, slots=True)
class Tied:
    """A related task."""

    kind: str
    key: str
    name: str


@dataclass(frozen=True, slots=True)
class SubTask:
    """A task below another one."""

    key: str
    name: str
    state: str


@dataclass(frozen=True, slots=True)
class TaskView:
    """One task. `text` is its description as Markdown; `pages` are pages that it names, or that hold evidence from it.

    `links` are addresses, each followed by its title; `attachments` are file names, each followed by its type and size.
    """

    id: str
    key: str
    url: str
    project: str
    name: str
    state: str
    priority: str
    assignees: Sequence[str]
    labels: Sequence[str]
    start: str | None
    due: str | None
    created_at: str
    updated_at: str
    text: str
    comments: Sequence[CommentAnswer]
    relations: Sequence[Tied]
    pages: Sequence[str]
    next_cursor: str | None
    tainted: bool
    note: str | None = None
    parent: str = ""
    subtasks: Sequence[SubTask] = ()
    cycle: str = ""
    modules: Sequence[str] = ()
    links: Sequence[str] = ()
    attachments: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class TaskActed:
    """The outcome of an act on a task.

    `preview` is what would be sent, as people read it (of a dry run or a proposal). `dropped` names values that Plane did not
    take, `differs` those that it stored differently. Both come from reading the task back, and so does `updated_at`, which is the
    `seen_at` of the next update. `undo` says what takes the act back.
    """

    status: ActStatus
    proposal: Mapping[str, Any] | None
    task_id: str | None
    key: str | None
    project_id: str | None
    url: str | None
    dropped: Sequence[str] = ()
    differs: Sequence[str] = ()
    preview: str | None = None
    note: str | None = None
    updated_at: str | None = None
    undo: str = ""


@dataclass(frozen=True, slots=True)
class ChangesMade:
    """The outcome of several changes of tasks.

    `results` has one object for each change, in order: its `status` (that of a single act, or `refused`, or `not sent`), and its
    `key`, `url`, `dropped`, `differs`, `note` and `undo`, if there are any. `preview` shows all changes, of a dry run or a proposal.
    """

    status: ActStatus
    proposal: Mapping[str, Any] | None
    results: Sequence[Mapping[str, Any]] = ()
    preview: str = ""
    note: str = ""
