"""Carries out planned acts on tasks: how each is sent, looked up after a lost reply, and answered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import date, timedelta

from anyio import to_thread

from knowledge.errors import EffectChanged
from mcp_server.connectors.errors import ConnectorError, Missing, ReplyLost
from mcp_server.connectors.outbox_dispatcher import Delivered, DeliveryAttempt, OutboxAct, PartlyDone
from mcp_server.connectors.page_mentions import remember_mentions
from mcp_server.connectors.plane.board import Board, board_of
from mcp_server.connectors.plane.model import CLEAR, Clear, Comment, KeyTaken, PlaneTask, TaskFields
from mcp_server.connectors.plane.text.markdown import same_words
from mcp_server.connectors.plane.wire import SERVICE
from mcp_server.ports import ActServices
from mcp_server.toolsets.plane.acts.model import LONG, FieldName, Kind, TaskPlan, answered, undo_of
from mcp_server.toolsets.plane.acts.readback import (
    ReadbackDifference,
    Ties,
    difference,
    is_as_before,
    is_between,
    is_done,
    is_set,
    text_difference,
)
from mcp_server.toolsets.plane.acts.ties import tie, ties_now
from mcp_server.toolsets.plane.queries import exact
from mcp_server.toolsets.plane.schemas import TaskActed
from mcp_server.toolsets.service_act import ServiceAct, repetition_note

Result = dict[str, str | None]
"""The outbox's record of an act: ids and keys, no text."""
Recent = Callable[[TaskPlan], Awaitable[PlaneTask | None]]
"""Returns the plan's task as it was some seconds ago, without its text; None if that is not known."""
SENT = "sent"
"""The mark of an outbox entry whose change may have reached Plane."""
WINDOWS: Mapping[Kind, timedelta] = {
    "create": timedelta(hours=24),
    "update": timedelta(minutes=10),
    "comment": timedelta(hours=1),
    "edit": timedelta(0),
    "delete": timedelta(0),
}
"""How long the same call counts as a repetition. If the task has been changed since, the call is a new act."""
TOOLS: Mapping[Kind, str] = {
    "create": "plane_create_task",
    "update": "plane_update_task",
    "comment": "plane_comment_task",
    "edit": "plane_comment_task",
    "delete": "plane_comment_task",
}
NOT_READ_BACK = (
    "done, but the result could not be read back, so it is not known whether Plane dropped or changed anything"
)
GONE = "The task has since been deleted or archived in Plane; to create another one, change the wording"
LATE = "an earlier attempt did it, but its reply was lost"


@dataclass(frozen=True)
class CreateComment:
    """Adds a comment under the outbox entry's id as its key, by which Plane finds it again."""

    board: Board
    plan: TaskPlan
    task: PlaneTask
    keyed = True

    async def send(self, attempt: DeliveryAttempt) -> Result:
        """Add it and return its result."""
        html = self.plan.text("comment") or ""
        return self._result(
            await self.board.client.create_comment(self.plan.project.id, self.task.id, html, attempt.id)
        )

    async def look(self, attempt: DeliveryAttempt) -> Result | None:
        """Return the result of the comment with the attempt's key; None if there is no such comment now."""
        found = await self.board.client.comment_by_external(self.plan.project.id, self.task.id, attempt.id)
        return self._result(found) if found else None

    def _result(self, made: Comment | KeyTaken) -> Result:
        return {"task_id": self.task.id, "key": self.plan.key, "comment_id": made.id}


@dataclass(frozen=True)
class CreateTask:
    """Creates a task under the outbox entry's id as its key, and then ties it to what the plan names."""

    board: Board
    plan: TaskPlan
    keyed = True

    async def send(self, attempt: DeliveryAttempt) -> Result:
        """Create it, unless it is there, tie it, and return its result.

        Raises: PartlyDone: it exists, but a tie could not be made.
        """
        project = self.plan.project
        made = await self.board.client.create_task(project.id, fields_of(self.plan), attempt.id)
        if self.plan.ties:
            try:
                await tie(self.board, self.plan, made.id, await ties_now(self.board, self.plan, made.id))
            except ReplyLost:
                raise
            except ConnectorError as error:
                raise PartlyDone(f"the task was created, but these could not be connected to it: {error}") from error
        return self._result(made)

    async def look(self, attempt: DeliveryAttempt) -> Result | None:
        """Return the result of the task with the attempt's key; None if there is none now, or if it lacks one of the plan's ties."""
        found = await self.board.client.task_by_external(self.plan.project.id, attempt.id)
        if found is None:
            return None
        ties = await ties_now(self.board, self.plan, found.id)
        complete = all(ties[one.name] == one.after for one in self.plan.ties)
        return self._result(found) if complete else None

    def _result(self, made: PlaneTask | KeyTaken) -> Result:
        key = None if isinstance(made, KeyTaken) else self.board.key(self.plan.project, made)
        return {"task_id": made.id, "key": key}


@dataclass(frozen=True)
class UpdateTask:
    """Sets fields of a task to values. Plane has no conditional update, so the task is compared with the plan first."""

    board: Board
    plan: TaskPlan
    task: PlaneTask
    recent: Recent | None = None
    # Not by a key: setting the same values again does no harm, and `look` raises if they may have been overwritten.
    keyed = True

    async def send(self, attempt: DeliveryAttempt) -> Result:
        """Change it and return its id and key. It is archived last: an archived task cannot be read.

        Raises:
            EffectChanged: its fields have other values than when the change was planned; nothing was sent.
            ReplyLost: an earlier attempt may have changed it, and somebody else certainly did.
            PartlyDone: some of the requests were refused after another one was carried out.
        """
        plan, project, sent = self.plan, self.plan.project, False
        state = await self._state(attempt)
        if state is None or self._is_done(attempt, *state):
            return self._result()
        now, ties = state
        if SENT not in attempt.marks and not is_as_before(plan.without_archive, now, ties):
            raise EffectChanged(plan.place)
        # Before the first request: the next attempt must not take what this one changed for somebody else's change.
        await attempt.mark({SENT: "yes"})
        try:
            if plan.own_fields and not is_set(plan.with_only(plan.own_fields), now):
                await self.board.client.update_task(project.id, self.task.id, fields_of(plan))
                sent = True
            if plan.ties:
                # Of several requests one may fail after another was carried out.
                sent = sent or len(plan.ties) > 1
                await tie(self.board, plan, self.task.id, ties)
                sent = True
            if plan.field("archived"):
                day = self.board.now().date()
                await self.board.client.update_task(project.id, self.task.id, TaskFields(archived=day))
        except ReplyLost:
            raise
        except ConnectorError as error:
            if not sent:
                raise
            raise PartlyDone(f"part of it was done, then: {error}") from error
        return self._result()

    async def look(self, attempt: DeliveryAttempt) -> Result | None:
        """Return its id and key if it has the new values; None if it certainly has not had them yet.

        Raises:
            ReplyLost: as for `send`.
        """
        state = await self._state(attempt)
        return self._result() if state is None or self._is_done(attempt, *state) else None

    def _is_done(self, attempt: DeliveryAttempt, now: PlaneTask, ties: Ties) -> bool:
        sent, plan = SENT in attempt.marks, self.plan
        # It can be read, so it is not archived.
        if plan.field("archived") is None and (is_set(plan, now, ties) or (sent and is_done(plan, now, ties))):
            return True
        # Setting the values again would overwrite what somebody else wrote after our first attempt.
        if sent and not is_between(plan.without_archive, now, ties):
            raise ReplyLost(SERVICE, f"somebody else changed {plan.key} meanwhile")
        return False

    async def _state(self, attempt: DeliveryAttempt) -> tuple[PlaneTask, Ties] | None:
        """Return the task and its ties as they are now; None if it has been archived by an earlier attempt."""
        known = await self.recent(self.plan) if self.recent and SENT not in attempt.marks else None
        try:
            now = known or await self.board.client.task(self.plan.project.id, self.task.id)
        except Missing:
            if SENT in attempt.marks and self.plan.field("archived"):
                return None
            raise
        return now, await ties_now(self.board, self.plan, self.task.id)

    def _result(self) -> Result:
        return {"task_id": self.task.id, "key": self.plan.key}


@dataclass(frozen=True)
class ChangeComment:
    """Changes the text of a comment, or deletes it, if it still has the text that the plan shows."""

    board: Board
    plan: TaskPlan
    task: PlaneTask
    comment_id: str
    # As for `UpdateTask`: doing it again does no harm.
    keyed = True

    async def send(self, attempt: DeliveryAttempt) -> Result:
        """Change or delete it, and return the task's id and key and the comment's id.

        Raises:
            EffectChanged: it has another text than when this was planned; nothing was sent.
            ReplyLost: an earlier attempt may have changed it, and somebody else certainly did.
        """
        client, ids = self.board.client, (self.plan.project.id, self.task.id, self.comment_id)
        if not await self._is_done(attempt):
            await attempt.mark({SENT: "yes"})
            if self.plan.kind == "delete":
                await client.delete_comment(*ids)
            else:
                await client.update_comment(*ids, self.plan.text("comment") or "")
        return self._result()

    async def look(self, attempt: DeliveryAttempt) -> Result | None:
        """Return the result if the comment is changed or gone, as planned; None if it certainly is not."""
        return self._result() if await self._is_done(attempt) else None

    async def _is_done(self, attempt: DeliveryAttempt) -> bool:
        field, sent = self.plan.fields[0], SENT in attempt.marks
        try:
            now = (await self.board.client.comment(self.plan.project.id, self.task.id, self.comment_id)).html
        except Missing:
            if self.plan.kind == "delete":
                return True
            raise
        if self.plan.kind == "edit" and (now == field.after or (sent and same_words(field.text or "", now))):
            return True
        if now != field.before:
            raise ReplyLost(SERVICE, "somebody else changed it") if sent else EffectChanged(self.plan.place)
        return False

    def _result(self) -> Result:
        return {"task_id": self.task.id, "key": self.plan.key, "comment_id": self.comment_id}


def task_act(
    services: ActServices, plan: TaskPlan, *, recent: Recent | None = None, read_back: bool = True
) -> ServiceAct[TaskActed]:
    """Return how the plan is carried out and answered.

    If `recent` knows the task as it was before the act, that saves a request. Without `read_back` the task is not read
    back: the caller compares what Plane stored.
    """
    board, task = board_of(services), plan.task
    act: OutboxAct
    if task is None:
        act = CreateTask(board, plan)
    elif plan.kind == "comment":
        act = CreateComment(board, plan, task)
    elif plan.comment_id:
        act = ChangeComment(board, plan, task, plan.comment_id)
    else:
        act = UpdateTask(board, plan, task, recent)
    conflict = f"{plan.key} was changed meanwhile; nothing was sent. Read it and call again"
    return ServiceAct(
        tool=TOOLS[plan.kind],
        target=plan.destination,
        digest=plan.digest,
        arguments_hash=plan.arguments_hash,
        # A plan holds only changes that are not made yet, and a tie or a comment does not alter the task's `updated_at`.
        window=timedelta(0) if plan.comment_id or (task and plan.ties) else WINDOWS[plan.kind],
        act=act,
        conclude=lambda delivered: _conclude(services, plan, delivered, read_back=read_back),
        # Two changes of one task at once would both find it unchanged.
        alone_with=[f"plane {task.id}"] if task and plan.kind != "comment" else [],
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

    above = plan.field("parent")
    parent = (above.text or (CLEAR if plan.task else None)) if above else None
    return TaskFields(
        name=plan.text("name"),
        html=plan.text("description"),
        priority=plan.text("priority"),
        state_id=plan.text("state"),
        assignee_ids=people.ids if people else None,
        label_ids=labels.ids if labels else None,
        starts=day("start"),
        due=day("due"),
        parent_id=parent,
    )


async def _conclude(
    services: ActServices, plan: TaskPlan, delivered: Delivered, *, read_back: bool = True
) -> TaskActed:
    """Return the answer, and record which pages the text in Plane now names."""
    answer = await _answer(board_of(services), plan, delivered, read_back=read_back)
    texts = [one.will_be for one in plan.fields if one.name in LONG]
    if answer.status == "done" and texts and answer.key:
        name = plan.field("name")
        title = name.will_be if name else plan.task.name if plan.task else ""
        await remember_mentions(
            services, f"plane:{answer.key}", url=answer.url or "", texts=texts, title=f"{answer.key} {title}"
        )
    return answer


async def _answer(board: Board, plan: TaskPlan, delivered: Delivered, *, read_back: bool) -> TaskActed:
    # Whatever the outcome: a list that is half a minute old may not have the change.
    board.forget(plan.project.id)
    if delivered.status == "unsure":
        # `why` says that the look-up changed nothing; in this note that would seem to be about the act itself.
        why = delivered.why.partition("; nothing was ")[0]
        where = plan.url or f"project {plan.project.key}"
        note = f"{why}; look at {where} to see whether it was done. Repeat the same call: it looks first, and does this only once"
        return answered(plan, "unsure", note)
    result = delivered.result or {}
    key = result.get("key") or plan.key
    # After KeyTaken only the task's id is known; the readback below finds its key.
    number = (key or "").rpartition("-")[2]
    url = board.url(plan.project, int(number)) if number.isdigit() else plan.url
    answer = TaskActed(delivered.status, None, result.get("task_id"), key, plan.project.id, url)
    if delivered.status == "unchanged":
        return await still_there(board, plan, replace(answer, note=repetition_note(delivered.outbox_entry)))
    notes = [*([LATE] if delivered.found else []), *plan.remarks]
    if not read_back and key:
        undo = undo_of(plan, key, result.get("comment_id"))
        return replace(answer, note="; ".join(notes) or None, undo=undo)
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
        undo=undo_of(plan, f"{plan.project.key}-{number_now}", result.get("comment_id")),
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
    """Return the task's number, how it or its comment differs from what was sent, and when the task was changed."""
    task_id, comment_id = result.get("task_id") or "", result.get("comment_id")
    if comment_id and plan.task:
        return plan.task.number, await _comment_difference(board, plan, task_id, comment_id), None
    try:
        task = await board.client.task(plan.project.id, task_id)
    except Missing:
        if plan.task and plan.field("archived"):
            return plan.task.number, ReadbackDifference(), None
        raise
    board.remember(task)
    # The task may have an assignee whom the plan does not name, such as the project's default one.
    if not set(task.assignee_ids) <= set(plan.names):
        plan = replace(plan, names={**await board.names_of_people(plan.project), **plan.names})
    ties = await ties_now(board, plan, task_id)
    found = await to_thread.run_sync(difference, plan, task, ties)
    if plan.field("archived"):
        found = replace(found, differs=(*found.differs, "archived: no, not yes"))
    return task.number, found, exact(task.updated_at)


async def _comment_difference(board: Board, plan: TaskPlan, task_id: str, comment_id: str) -> ReadbackDifference:
    try:
        comment = await board.client.comment(plan.project.id, task_id, comment_id)
    except Missing:
        if plan.kind == "delete":
            return ReadbackDifference()
        raise
    if plan.kind == "delete":
        return ReadbackDifference(differs=("comment: it is still there",))
    differs = await to_thread.run_sync(text_difference, "comment", plan.text("comment") or "", comment.html)
    return ReadbackDifference(differs=differs)
