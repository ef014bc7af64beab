"""Finds the tasks that match a query, their order, and where the next page of a long answer begins. Pure.

Plane's public API can filter only by `external_id` (github.com/makeplane/plane, apps/api/plane/api/views/issue.py), so all
tasks are listed and filtered here.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, Final, Literal, get_args

from knowledge.errors import BadCursor
from knowledge.wire.cursors import seal, unseal
from mcp_server.connectors.errors import ConnectorError, one_line
from mcp_server.connectors.plane.model import PlaneTask, Priority
from mcp_server.connectors.plane.wire import SERVICE
from mcp_server.connectors.text.dates import in_utc
from mcp_server.connectors.text.name_match import folded

OVERDUE = "overdue"
SortBy = Literal["updated", "created", "due", "priority", "name"]
PRIORITIES: Final[tuple[str, ...]] = get_args(Priority)
"""The most urgent first."""
LONGEST_POSITION = 80  # characters of a name in a cursor; the id tells equal beginnings apart


class BadDate(ConnectorError):
    """The argument is not a date."""

    def __init__(self, argument: str, asked: str, fitting: str) -> None:
        self.argument, self.asked = argument, asked
        shown = one_line(asked, 60)
        super().__init__(SERVICE, f"{argument} {shown!r} is not {fitting}; nothing was requested from Plane")


@dataclass(frozen=True, slots=True)
class TaskFilter:
    """The properties that a project's tasks must have; None or empty admits any. Ids are resolved.

    All `words` must be in the task's name, or the only word must be its key. With `nobody`, a task without an assignee
    matches, too. `parent_id` is "" for tasks that are no part of another one. With `overdue_at`, the task must be due
    before that day and be in none of the states `closed_ids`.
    """

    words: tuple[str, ...] = ()
    state_ids: frozenset[str] | None = None
    assignee_ids: frozenset[str] | None = None
    nobody: bool = False
    creator_id: str | None = None
    label_ids: frozenset[str] | None = None
    priorities: frozenset[str] = frozenset()
    parent_id: str | None = None
    starts_by: date | None = None
    due_by: date | None = None
    overdue_at: date | None = None
    closed_ids: frozenset[str] = frozenset()
    updated_since: datetime | None = None

    def fits(self, task: PlaneTask, key: str) -> bool:
        """Return whether a task has all these properties; `key` is its readable key."""
        return (
            self._has_words(task, key)
            and (self.state_ids is None or task.state_id in self.state_ids)
            and self._is_assigned(task)
            and (self.creator_id is None or task.created_by == self.creator_id)
            and (self.label_ids is None or not self.label_ids.isdisjoint(task.label_ids))
            and (not self.priorities or task.priority in self.priorities)
            and (self.parent_id is None or (task.parent_id or "") == self.parent_id)
            and (self.starts_by is None or (task.starts is not None and task.starts <= self.starts_by))
            and (self.updated_since is None or task.updated_at >= self.updated_since)
            and self._is_due(task)
        )

    def _has_words(self, task: PlaneTask, key: str) -> bool:
        name = _lower(task.name)
        return self.words == (_lower(key),) or all(word in name for word in self.words)

    def _is_assigned(self, task: PlaneTask) -> bool:
        if self.assignee_ids is None:
            return not (self.nobody and task.assignee_ids)
        return not self.assignee_ids.isdisjoint(task.assignee_ids) or (self.nobody and not task.assignee_ids)

    def _is_due(self, task: PlaneTask) -> bool:
        if self.overdue_at is not None:
            return task.due is not None and task.due < self.overdue_at and task.state_id not in self.closed_ids
        return self.due_by is None or (task.due is not None and task.due <= self.due_by)


def words_of(text: str | None) -> tuple[str, ...]:
    """Return the words that a task's name must have, in lower case."""
    return tuple(_lower(text or "").split())


def _lower(text: str) -> str:
    # As Plane's own search compares: a project that it finds has every task that matches here.
    return unicodedata.normalize("NFC", text).lower()


def day_of(argument: str, text: str, *, also: str = "") -> date:
    """Return an ISO date. `also` names the other accepted values for the message. Raises: BadDate: it is not a date."""
    try:
        return date.fromisoformat(text.strip())
    except ValueError:
        raise BadDate(argument, text, f"{also}an ISO date like 2026-11-30") from None


def moment_of(argument: str, text: str) -> datetime:
    """Return the moment of an ISO time, or of an ISO date: its midnight, in UTC.

    Raises:
        BadDate: it is neither.
    """
    try:
        return in_utc(text)
    except ValueError:
        raise BadDate(argument, text, "an ISO date or time like 2026-11-30 or 2026-11-30T14:00:00Z") from None


def exact(moment: datetime) -> str:
    """Return a time to the last digit: an update compares `seen_at` with it."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


@dataclass(frozen=True, slots=True)
class TaskOrder:
    """An order of tasks: `updated` and `created` newest first, `due` and `priority` the most urgent first, `name` from A to Z.

    `reverse` reverses it; tasks without a due date are last in both directions.
    """

    by: SortBy = "updated"
    reverse: bool = False

    def of(self, tasks: Iterable[PlaneTask]) -> list[PlaneTask]:
        """Return the tasks in this order."""
        # The id decides between tasks that a script changed in one moment, so that no page repeats or skips one.
        ordered = sorted(tasks, key=lambda task: task.id)
        ordered.sort(key=lambda task: self._value(task)[1], reverse=self._descends)
        return sorted(ordered, key=lambda task: self._value(task)[0])

    def position(self, task: PlaneTask) -> str:
        """Return the place of a task in this order, for a cursor."""
        return json.dumps(self._value(task))

    def after(self, tasks: Iterable[PlaneTask], position: str, task_id: str) -> list[PlaneTask]:
        """Return those of the tasks that follow the task `task_id` at `position` in this order.

        That task may be gone by now.

        Raises:
            ValueError, TypeError: there can be no such position.
        """
        lacks_at, value_at = json.loads(position)
        kind = str if self.by == "name" else (int, float)
        if not isinstance(lacks_at, bool) or not isinstance(value_at, kind):
            raise TypeError(position)

        def is_after(task: PlaneTask) -> bool:
            lacks, value = self._value(task)
            if lacks != lacks_at:
                return lacks
            if value != value_at:
                return bool(value < value_at) == self._descends
            return task.id > task_id

        return [task for task in tasks if is_after(task)]

    @property
    def _descends(self) -> bool:
        return (self.by in ("updated", "created")) != self.reverse

    def _value(self, task: PlaneTask) -> tuple[bool, Any]:
        """Return whether the task lacks the value that it is sorted by, and that value.

        In one order all values are numbers, or all are texts.
        """
        match self.by:
            case "updated":
                return False, task.updated_at.timestamp()
            case "created":
                return False, task.created_at.timestamp()
            case "due":
                return task.due is None, task.due.toordinal() if task.due else 0
            case "priority":
                return False, PRIORITIES.index(task.priority) if task.priority in PRIORITIES else len(PRIORITIES)
            case "name":
                return False, folded(task.name)[:LONGEST_POSITION]


@dataclass(frozen=True, slots=True)
class PagePlace:
    """Where a page of an answer begins: after the task `task_id` at `position`; at the first task if both are "".

    `seen_to` is the newest change when the first page was made, "" for none. An answer that could not read all projects
    comes in parts. This part reads the projects with the keys `searched`; if that is empty, all projects except those
    in `later`, which a later part reads.
    """

    seen_to: str = ""
    position: str = ""
    task_id: str = ""
    searched: tuple[str, ...] = ()
    later: tuple[str, ...] = ()

    @classmethod
    def of(cls, cursor: str | None, key: str) -> PagePlace:
        """Return the place that a cursor of the query `key` names.

        Raises:
            BadCursor: it belongs to another query.
        """
        if cursor is None:
            return cls()
        seen_to, position, task_id, searched, later = map(str, unseal(cursor, key, str, str, str, str, str))
        return cls(seen_to, position, task_id, _keys(searched), _keys(later))

    def cursor(self, key: str) -> str:
        """Return this place as a cursor of the query `key`."""
        return seal(key, (self.seen_to, self.position, self.task_id, ",".join(self.searched), ",".join(self.later)))


@dataclass(frozen=True, slots=True)
class RemainingTasks:
    """The matching tasks that no page has shown yet, in order.

    `changed` counts tasks that were changed or created since the first page: they may now be on a page that was already read.
    """

    tasks: Sequence[PlaneTask]
    seen_to: str
    changed: int = 0


def remaining_tasks(tasks: Iterable[PlaneTask], place: PagePlace, order: TaskOrder, cursor: str) -> RemainingTasks:
    """Return the tasks from `place` on, in `order`.

    Raises:
        BadCursor: `place` cannot be a place in this order. The error names `cursor`, from which it was read.
    """
    ordered = order.of(tasks)
    if not place.task_id:
        newest = max((task.updated_at for task in ordered), default=None)
        return RemainingTasks(ordered, exact(newest) if newest else "")
    try:
        seen_to = datetime.fromisoformat(place.seen_to).timestamp()
        left = order.after(ordered, place.position, place.task_id)
    except (ValueError, OverflowError, TypeError, RecursionError):
        raise BadCursor(cursor) from None
    return RemainingTasks(left, place.seen_to, sum(task.updated_at.timestamp() > seen_to for task in ordered))


def _keys(text: str) -> tuple[str, ...]:
    return tuple(filter(None, text.split(",")))
