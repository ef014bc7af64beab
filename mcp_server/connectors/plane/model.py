"""Projects and tasks as we call them. Pure values: ids are Plane's, times aware UTC, texts HTML where the name says so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import Enum
from typing import Final, Generic, Literal, TypeVar

T = TypeVar("T")

Priority = Literal["urgent", "high", "medium", "low", "none"]


class Clear(Enum):
    """The value that empties a field, because None means that the field is not changed."""

    CLEAR = ""


CLEAR: Final = Clear.CLEAR


@dataclass(frozen=True, slots=True)
class Project:
    """A project; its tasks' keys begin with `key`.

    `member`: the key's owner belongs to it. Plane lists a public project for everybody in the workspace, but refuses its tasks
    to people who do not belong to it.
    """

    id: str
    key: str
    name: str
    description: str = ""
    archived: bool = False
    member: bool = True


@dataclass(frozen=True, slots=True)
class PlaneMember:
    """A member. `name` is what Plane shows, `full_name` first and last name; either may be empty."""

    id: str
    name: str
    full_name: str
    email: str


@dataclass(frozen=True, slots=True)
class State:
    """A state that tasks of one project can be in."""

    id: str
    name: str
    group: str
    default: bool = False


@dataclass(frozen=True, slots=True)
class Label:
    """A label of one project."""

    id: str
    name: str


@dataclass(frozen=True, slots=True)
class Cycle:
    """A stretch of time that tasks are planned for; a draft has no times."""

    id: str
    name: str
    starts: datetime | None = None
    ends: datetime | None = None
    count: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Module:
    """A part of a project. `count` is how many tasks it had when it was read, as for a cycle; None if Plane does not say."""

    id: str
    name: str
    count: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class PlaneTask:
    """A task.

    `html` is None if only the lean fields were requested; `parent_number` is also None if the reply had only the
    parent's id. `parent_id` is the task above it. `state`, `assignees` and `labels` are filled if the reply held them
    as objects.
    """

    id: str
    number: int
    project_id: str
    name: str
    priority: str
    state_id: str | None
    assignee_ids: tuple[str, ...]
    label_ids: tuple[str, ...]
    starts: date | None
    due: date | None
    created_at: datetime
    updated_at: datetime
    html: str | None = None
    external_id: str | None = None
    external_source: str | None = None
    parent_id: str | None = None
    parent_number: int | None = None
    created_by: str | None = None
    state: State | None = None
    assignees: tuple[PlaneMember, ...] = ()
    labels: tuple[Label, ...] = ()


@dataclass(frozen=True, slots=True)
class TaskLink:
    """An address that a task links to."""

    id: str
    url: str
    title: str


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file of a task, without its contents: Plane keeps those at another address."""

    id: str
    name: str
    kind: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class FoundTask:
    """A task in a search result."""

    id: str
    number: int
    name: str
    project_id: str
    project_key: str


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment on a task. `external_id` is our key, if this server wrote it."""

    id: str
    html: str
    at: datetime
    by: str | None
    external_id: str | None = None


@dataclass(frozen=True, slots=True)
class Relation:
    """A related task; `kind` is in our words: `blocks`, `blocked by`, `relates to`, `duplicate of`...

    `project_id` is None on an older Plane, which does not return it.
    """

    kind: str
    task_id: str
    project_id: str | None = None


@dataclass(frozen=True, slots=True)
class TaskFields:
    """Fields to set in a task, new or not; ids are resolved. None leaves a field as it is, CLEAR empties it."""

    name: str | None = None
    html: str | None = None
    priority: str | None = None
    state_id: str | None = None
    assignee_ids: tuple[str, ...] | None = None
    label_ids: tuple[str, ...] | None = None
    starts: date | Clear | None = None
    due: date | Clear | None = None
    parent_id: str | Clear | None = None
    archived: date | Clear | None = None


@dataclass(frozen=True, slots=True)
class KeyTaken:
    """Nothing was created: `id` was created with the same key before."""

    id: str


@dataclass(frozen=True, slots=True)
class ListPage(Generic[T]):
    """One page of a list. `next_cursor` is None on the last one; `total` is the length of the list, if Plane says it."""

    items: Sequence[T]
    next_cursor: str | None
    total: int | None = None
