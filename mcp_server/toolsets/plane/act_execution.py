"""Carries out planned acts on tasks: how each is sent, looked up after a lost reply, and answered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Generic, TypeVar

from anyio import to_thread

from knowledge.errors import EffectChanged
from mcp_server.connectors.errors import ConnectorError, Missing, ReplyLost
from mcp_server.connectors.outbox_dispatcher import Delivered, DeliveryAttempt, OutboxAct
from mcp_server.connectors.page_mentions import remember_mentions
from mcp_server.connectors.plane.board import Board, board_of
from mcp_server.connectors.plane.model import CLEAR, Clear, Comment, KeyTaken, PlaneTask, TaskFields
from mcp_server.connectors.plane.wire import SERVICE
from mcp_server.ports import ActServices
from mcp_server.toolsets.plane.act_model import LONG, FieldName, Kind, TaskPlan, answered
from mcp_server.toolsets.plane.queries import exact
from mcp_server.toolsets.plane.readback import (
    ReadbackDifference,
    difference,
    is_as_before,
    is_between,
    is_done,
    is_set,
    text_difference,
)
from mcp_server.toolsets.plane.schemas import TaskActed
from mcp_server.toolsets.service_act import ServiceAct, repetition_note

Made = TypeVar("Made")
Result = dict[str, str | None]
"""The outbox's record of an act: ids and keys, no text."""
SENT = "sent"
"""The mark of an outbox entry whose change may have reached Plane."""
WINDOWS: Mapping[Kind, timedelta] = {
    "create": timedelta(hours=24),
    "update": timedelta(minutes=10),
    "comment": timedelta(hours=1),
}
"""How long the same call counts as a repetition. A change is due again as soon as the task was changed since."""
TOOLS: Mapping[Kind, str] = {
    "create": "plane_create_task",
    "update": "plane_update_task",
    "comment": "plane_comment_task",
}
NOT_READ_BACK = (
    "done, but the result could not be read back, so it is not known whether Plane dropped or changed anything"
)
GONE = "The task has since been deleted or archived in Plane; to create another one, change the wording"
LATE = "an earlier attempt did it, but its reply was lost"


@dataclass(frozen=True)
class CreateByKey(Generic[Made]):
    """Creates something under the outbox entry's id as its key, by which Plane finds it again."""

    create: Callable[[str], Awaitable[Made | KeyTaken]]
    find: Callable[[str], Awaitable[Made | None]]
    result: Callable[[Made | KeyTaken], Result]
    keyed = True

    async def send(self, attempt: DeliveryAttempt) -> Result:
        """Create it and return its result."""
        return self.result(await self.create(attempt.id))

    async def look(self, attempt: DeliveryAttempt) -> Result | None:
        """Return the result of what has that key, None if nothing has it now."""
        found = await self.find(attempt.id)
        return self.result(found) if found else None


@dataclass(frozen=True)
class UpdateTask:
    """Sets fields of a task to values. Plane has no conditional update, so the task is compared with the plan first."""

    board: Board
    plan: TaskPlan
    task: PlaneTask
    # Not by a key: setting the same values again does no harm, and `look` raises if they may have been overwritten.
    keyed = True

    async def send(self, attempt: DeliveryAttempt) -> Result:
        """Change it and return its id and key.

        Raises:
            EffectChanged: its fields have other values than when the change was planned; nothing was sent.
            ReplyLost: an earlier attempt may have changed it, and somebody else certainly did.
        """
        now = await self._current()
        if not self._is_done(attempt, now):
            if SENT not in attempt.marks and not is_as_before(self.plan, now):
                raise EffectChanged(self.plan.place)
            await attempt.mark({SENT: "yes"})
            await self.board.client.update_task(self.plan.project.id, self.task.id, fields_of(self.plan))
        return self._result()

    async def look(self, attempt: DeliveryAttempt) -> Result | None:
        """Return its id and key if it has the new values; None if it certainly has not had them yet.

        Raises:
            ReplyLost: as for `send`.
        """
        return self._result() if self._is_done(attempt, await self._current()) else None

    def _is_done(self, attempt: DeliveryAttempt, now: PlaneTask) -> bool:
        sent = SENT in attempt.marks
        if is_set(self.plan, now) or (sent and is_done(self.plan, now)):
            return True
        # Setting the values again would overwrite what somebody else wrote after our first attempt.
        if sent and not is_between(self.plan, now):
            raise ReplyLost(SERVICE, f"somebody else changed {self.plan.key} meanwhile")
        return False

    async def _current(self) -> PlaneTask:
        return await self.board.client.task(self.plan.project.id, self.task.id)

    def _result(self) -> Result:
        return {"task_id": self.task.id, "key": self.plan.key}


def task_act(services: ActServices, plan: TaskPlan) -> ServiceAct[TaskActed]:
    """Return the execution of the plan and its answer."""
    board, project, task = board_of(services), plan.project, plan.task
    client = board.client

    def created(made: PlaneTask | KeyTaken) -> Result:
        return {"task_id": made.id, "key": None if isinstance(made, KeyTaken) else board.key(project, made)}

    act: OutboxAct
    if task is None:
        act = CreateByKey[PlaneTask](
            lambda key: client.create_task(project.id, fields_of(plan), key),
            lambda key: client.task_by_external(project.id, key),
            created,
        )
    elif plan.kind == "comment":
        html = plan.text("comment") or ""
        act = CreateByKey[Comment](
            lambda key: client.create_comment(project.id, task.id, html, key),
            lambda key: client.comment_by_external(project.id, task.id, key),
            lambda made: {"task_id": task.id, "key": plan.key, "comment_id": made.id},
        )
    else:
        act = UpdateTask(board, plan, task)
    conflict = f"{plan.key} was changed meanwhile; nothing was sent. Read it and call again"
    return ServiceAct(
        tool=TOOLS[plan.kind],
        target=plan.destination,
        digest=plan.digest,
        arguments_hash=plan.arguments_hash,
        window=WINDOWS[plan.kind],
        act=act,
        conclude=lambda delivered: _conclude(services, plan, delivered),
        # Two changes of one task at once would both find it unchanged.
        alone_with=[f"plane {task.id}"] if task and plan.kind == "update" else [],
        conflict=answered(plan, "conflict", conflict),
    )


def fields_of(plan: TaskPlan) -> TaskFields:
    """Return the plan's fields as they are sent."""
    people, labels = plan.field("assignees"), plan.field("labels")

    def day(name: FieldName) -> date | Clear | None:
        field = plan.field(name)
        if field is None or (field.text is None and plan.task is None):
            return None
        return date.fromisoformat(field.text) if field.text else CLEAR

    return TaskFields(
        name=plan.text("name"),
        html=plan.text("description"),
        priority=plan.text("priority"),
        state_id=plan.text("state"),
        assignee_ids=people.ids if people else None,
        label_ids=labels.ids if labels else None,
        starts=day("start"),
        due=day("due"),
    )


async def _conclude(services: ActServices, plan: TaskPlan, delivered: Delivered) -> TaskActed:
    """Return the answer, and record which pages the text names that is in Plane now."""
    answer = await _answer(board_of(services), plan, delivered)
    texts = [one.will_be for one in plan.fields if one.name in LONG]
    if answer.status == "done" and texts and answer.key:
        name = plan.field("name")
        title = name.will_be if name else plan.task.name if plan.task else ""
        await remember_mentions(
            services, f"plane:{answer.key}", url=answer.url or "", texts=texts, title=f"{answer.key} {title}"
        )
    return answer


async def _answer(board: Board, plan: TaskPlan, delivered: Delivered) -> TaskActed:
    # Whatever the outcome: a list that is half a minute old may not have the change.
    board.forget(plan.project.id)
    if delivered.status == "unsure":
        # `why` says that the look-up changed nothing; in this note that would seem to be about the act itself.
        why = delivered.why.partition("; nothing was ")[0]
        where = plan.url or f"project {plan.project.key}"
        note = f"{why}; look at {where} to see whether it was done. The same call again looks first, and does it once"
        return answered(plan, "unsure", note)
    result = delivered.result or {}
    key = result.get("key") or plan.key
    # After KeyTaken only the task's id is known; the readback below finds its key.
    number = (key or "").rpartition("-")[2]
    url = board.url(plan.project, int(number)) if number.isdigit() else plan.url
    answer = TaskActed(delivered.status, None, result.get("task_id"), key, plan.project.id, url)
    if delivered.status == "unchanged":
        return await still_there(board, plan, replace(answer, note=repetition_note(delivered.outbox_entry)))
    notes = [LATE] if delivered.found else []
    try:
        number_now, found, updated_at = await _read_back(board, plan, result)
    except ConnectorError:  # it is done, whether it can be read back or not
        return replace(answer, note="; ".join([*notes, NOT_READ_BACK]))
    return replace(
        answer,
        key=f"{plan.project.key}-{number_now}",
        url=board.url(plan.project, number_now),
        dropped=found.dropped,
        differs=found.differs,
        note="; ".join(notes) or None,
        updated_at=updated_at,
    )


async def still_there(board: Board, plan: TaskPlan, answer: TaskActed) -> TaskActed:
    """Return the answer of an act that was done before; if its task is gone by now, the note says so.

    It is not created again: somebody may have deleted it on purpose.
    """
    try:
        task = await board.client.task(plan.project.id, answer.task_id or "")
    except Missing:
        return replace(answer, note=f"{answer.note}. {GONE}")
    except ConnectorError:
        return answer
    return replace(answer, key=board.key(plan.project, task), url=board.url(plan.project, task.number))


async def _read_back(
    board: Board, plan: TaskPlan, result: Mapping[str, str | None]
) -> tuple[int, ReadbackDifference, str | None]:
    """Return the task's number, how it or its new comment differs from what was sent, and when the task was changed."""
    task_id, comment_id = result.get("task_id") or "", result.get("comment_id")
    if comment_id and plan.task:
        comment = await board.client.comment(plan.project.id, task_id, comment_id)
        sent = plan.text("comment") or ""
        differs = await to_thread.run_sync(text_difference, "comment", sent, comment.html)
        return plan.task.number, ReadbackDifference(differs=differs), None
    task = await board.client.task(plan.project.id, task_id)
    board.remember(task)
    # The task may have an assignee whom the plan does not name, such as the project's default one.
    if not set(task.assignee_ids) <= set(plan.names):
        plan = replace(plan, names={**await board.names_of_people(plan.project), **plan.names})
    return task.number, await to_thread.run_sync(difference, plan, task), exact(task.updated_at)
