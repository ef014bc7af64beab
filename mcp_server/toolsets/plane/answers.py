"""What the Plane tools answer: frozen values, cheap to import, for they are part of the tool list. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcp_server.connectors.text.answers import ActStatus


@dataclass(frozen=True, slots=True)
class ProjectLine:
    """A project; description and lists are filled when one project was asked for."""

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
    """Tasks that fit, last changed first. `note` says what could not be looked through."""

    tasks: Sequence[TaskLine]
    next_cursor: str | None
    tainted: bool
    note: str | None = None


@dataclass(frozen=True, slots=True)
class CommentAnswer:
    """A comment, as Markdown."""

    by: str
    at: str
    text: str


@dataclass(frozen=True, slots=True)
class Tied:
    """Another task that this one is tied to."""

    kind: str
    key: str
    name: str


@dataclass(frozen=True, slots=True)
class TaskView:
    """One task. `text` is its description as Markdown; `pages` are pages here that it names, or that have evidence from it."""

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


@dataclass(frozen=True, slots=True)
class TaskActed:
    """What became of an act on a task.

    `preview` is what would be sent, as a person reads it (of a rehearsal or a proposal). `dropped` names what Plane did not take,
    `differs` what it has otherwise than it was sent: both were found by reading it back.
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
