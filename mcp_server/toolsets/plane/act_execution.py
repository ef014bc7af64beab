"""Carrying out what was planned on a task: how it is sent, how one finds out whether it happened, and what is told of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING

from anyio import to_thread

from knowledge.errors import EffectChanged
from mcp_server.connectors.errors import ConnectorError, Missing, ReplyLost
from mcp_server.connectors.outbox_dispatcher import outbox_entry_for
from mcp_server.connectors.page_mentions import noted
from mcp_server.connectors.plane.model import CLEAR, Clear, KeyTaken, PlaneTask, TaskChanges, TaskDraft
from mcp_server.connectors.plane.readback import (
    ReadbackDifference,
    difference,
    is_as_before,
    is_between,
    is_done,
    is_set,
    text_difference,
)
from mcp_server.toolsets.plane.act_model import LONG, Kind, TaskField, TaskPlan, answered
from mcp_server.toolsets.plane.schemas import TaskActed

if TYPE_CHECKING:
    from mcp_server.connectors.outbox_dispatcher import Delivered, DeliveryAttempt
    from mcp_server.connectors.plane.board import Board
    from mcp_server.gate.caller import Call
    from mcp_server.ports import ActServices

Result = dict[str, str | None]
"""What is remembered of an act: ids and keys, no text."""
SENT = "sent"
"""Marks an outbox entry whose change may have reached Plane."""
WITHIN: Mapping[Kind, timedelta] = {
    "create": timedelta(hours=24),
    "update": timedelta(minutes=10),
    "comment": timedelta(hours=1),
}
"""How long the same call is taken for the same act. A change is another one as soon as the task was changed since."""
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


class Creating:
    """Creates a task under the outbox entry's id as key, by which Plane knows it again."""

    keyed = True

    def __init__(self, board: Board, plan: TaskPlan) -> None:
        self._board, self._plan, self._project = board, plan, plan.project

    async def send(self, attempt: DeliveryAttempt) -> Result:
        """Create it and return what it is known by."""
        made = await self._board.client.create_task(self._project.id, draft_of(self._plan, attempt.id))
        return {"task_id": made.id, "key": None} if isinstance(made, KeyTaken) else self._told(made)

    async def look(self, attempt: DeliveryAttempt) -> Result | None:
        """Return what the task with that key is known by; None if there is none now."""
        found = await self._board.client.task_by_external(self._project.id, attempt.id)
        return self._told(found) if found else None

    def _told(self, task: PlaneTask) -> Result:
        return {"task_id": task.id, "key": f"{self._project.key}-{task.number}"}


class Changing:
    """Sets fields of a task to values, which does the same when it is done twice."""

    keyed = True

    def __init__(self, board: Board, plan: TaskPlan, task: PlaneTask) -> None:
        self._board, self._plan, self._task = board, plan, task

    async def send(self, attempt: DeliveryAttempt) -> Result:
        """Change it and return what it is known by.

        Raises:
            EffectChanged: its fields have something else by now than when it was planned; nothing was sent.
        """
        now = await self._now()
        sent = SENT in attempt.marks
        if is_set(self._plan, now) or (sent and is_done(self._plan, now)):
            return self._told()
        if sent:
            self._require_ours(now)
        elif not is_as_before(self._plan, now):
            raise EffectChanged(self._plan.place)
        await attempt.mark({SENT: "yes"})
        await self._board.client.update_task(self._plan.project.id, self._task.id, changes_of(self._plan))
        return self._told()

    async def look(self, attempt: DeliveryAttempt) -> Result | None:
        """Return what the task is known by if it is as it was to be; None if it certainly never was."""
        now = await self._now()
        sent = SENT in attempt.marks
        if is_set(self._plan, now) or (sent and is_done(self._plan, now)):
            return self._told()
        if sent:
            self._require_ours(now)
        return None

    def _require_ours(self, now: PlaneTask) -> None:
        """Return if the task has nothing but what it had and what it was to get, so that to set that again harms nobody."""
        if not is_between(self._plan, now):
            raise ReplyLost("Plane", f"somebody else changed {self._plan.key} meanwhile")

    async def _now(self) -> PlaneTask:
        return await self._board.client.task(self._plan.project.id, self._task.id)

    def _told(self) -> Result:
        return {"task_id": self._task.id, "key": self._plan.key}


class Commenting:
    """Adds a comment under the outbox entry's id as key, by which Plane knows it again."""

    keyed = True

    def __init__(self, board: Board, plan: TaskPlan, task: PlaneTask) -> None:
        self._board, self._plan, self._task = board, plan, task

    async def send(self, attempt: DeliveryAttempt) -> Result:
        """Add it and return what it is known by."""
        html = _text(self._plan.field("comment")) or ""
        made = await self._board.client.create_comment(self._plan.project.id, self._task.id, html, attempt.id)
        return self._told(made.id)

    async def look(self, attempt: DeliveryAttempt) -> Result | None:
        """Return what the comment with that key is known by; None if there is none now."""
        found = await self._board.client.comment_by_external(self._plan.project.id, self._task.id, attempt.id)
        return self._told(found.id) if found else None

    def _told(self, comment_id: str) -> Result:
        return {"task_id": self._task.id, "key": self._plan.key, "comment_id": comment_id}


def act_of(board: Board, plan: TaskPlan) -> Creating | Changing | Commenting:
    """Return how the plan is carried out."""
    if plan.task is None:
        return Creating(board, plan)
    return Commenting(board, plan, plan.task) if plan.kind == "comment" else Changing(board, plan, plan.task)


async def carried_out(services: ActServices, call: Call, plan: TaskPlan) -> TaskActed:
    """Do what the plan says, once, and return what Plane made of it.

    Raises:
        EffectChanged: a person agreed to something else than what would happen now.
        ConnectorError: it was certainly not done.
    """
    outbox_entry = outbox_entry_for(
        call,
        tool=TOOLS[plan.kind],
        target=plan.destination,
        digest=plan.digest,
        arguments_hash=plan.arguments_hash,
        at=services.now(),
    )
    changed = [f"plane {plan.task.id}"] if plan.task and plan.kind == "update" else []
    act = act_of(services.plane, plan)
    try:
        delivered = await services.dispatcher.deliver(outbox_entry, act, within=WITHIN[plan.kind], alone_with=changed)
    except EffectChanged:
        if call.approval:
            raise
        return answered(plan, "conflict", f"{plan.key} was changed meanwhile; nothing was sent. Read it and call again")
    return await _concluded(services, plan, delivered)


async def recalled(services: ActServices, call: Call, plan: TaskPlan) -> TaskActed | None:
    """Return the answer of an act that a process began and did not end; None if it is not there.

    Raises:
        KnowledgeError: nobody can tell.
    """
    delivered = await services.dispatcher.recall_for(call, act_of(services.plane, plan))
    if delivered is None:
        return None
    # A record that says that it was done answers for the process that did it.
    known = replace(delivered, status="done") if delivered.status == "unchanged" else delivered
    return await _concluded(services, plan, known)


async def _concluded(services: ActServices, plan: TaskPlan, delivered: Delivered) -> TaskActed:
    """Return the answer, and remember which pages the text names that is in Plane now."""
    answer = await told(services.plane, plan, delivered)
    texts = [one.will_be for one in plan.fields if one.name in LONG]
    if answer.status == "done" and texts and answer.key:
        name = plan.field("name")
        title = name.will_be if name else plan.task.name if plan.task else ""
        await noted(services, f"plane:{answer.key}", url=answer.url or "", texts=texts, title=f"{answer.key} {title}")
    return answer


def draft_of(plan: TaskPlan, key: str) -> TaskDraft:
    """Return what a new task is sent as."""
    people, labels = plan.field("assignees"), plan.field("labels")
    return TaskDraft(
        name=_text(plan.field("name")) or "",
        key=key,
        html=_text(plan.field("description")),
        priority=_text(plan.field("priority")),
        state_id=_text(plan.field("state")),
        assignee_ids=people.ids if people else None,
        label_ids=labels.ids if labels else None,
        starts=_date(plan.field("start")),
        due=_date(plan.field("due")),
    )


def changes_of(plan: TaskPlan) -> TaskChanges:
    """Return what a change is sent as."""
    people, labels = plan.field("assignees"), plan.field("labels")
    return TaskChanges(
        name=_text(plan.field("name")),
        html=_text(plan.field("description")),
        priority=_text(plan.field("priority")),
        state_id=_text(plan.field("state")),
        assignee_ids=people.ids if people else None,
        label_ids=labels.ids if labels else None,
        starts=_date_or_clear(plan.field("start")),
        due=_date_or_clear(plan.field("due")),
    )


async def told(board: Board, plan: TaskPlan, delivered: Delivered) -> TaskActed:
    """Return the answer of an act that was carried out, with what Plane made of it."""
    board.forget(plan.project.id)
    if delivered.status == "unsure":
        return answered(plan, "unsure", _unsure(plan, delivered))
    result = delivered.result or {}
    key = result.get("key") or plan.key
    number = (key or "").rpartition("-")[2]
    url = board.url(plan.project, int(number)) if number.isdigit() else plan.url
    answer = TaskActed(delivered.status, None, result.get("task_id"), key, plan.project.id, url)
    if delivered.status == "unchanged":
        note = f"the same call already did this on {_minute(delivered.outbox_entry.begun_at)}; nothing was sent again"
        return await still_there(board, plan, replace(answer, note=note))
    notes = [*plan.heard, *([LATE] if delivered.found else [])]
    return await _compared(board, plan, result, replace(answer, note="; ".join(notes) or None))


async def still_there(board: Board, plan: TaskPlan, answer: TaskActed) -> TaskActed:
    """Return the answer of an act that was done before; where its task is gone by now, the note says so.

    It is not made anew: whoever took it away may have meant it.
    """
    try:
        task = await board.client.task(plan.project.id, answer.task_id or "")
    except Missing:
        return replace(answer, note=f"{answer.note}. {GONE}")
    except ConnectorError:
        return answer
    return replace(answer, key=f"{plan.project.key}-{task.number}", url=board.url(plan.project, task.number))


async def _compared(board: Board, plan: TaskPlan, result: Mapping[str, str | None], answer: TaskActed) -> TaskActed:
    """Return the answer with what was found by reading it back; what is done is done, whether that works or not."""
    try:
        found = await _read_back(board, plan, result)
    except ConnectorError:
        return replace(answer, note="; ".join(filter(None, [answer.note, NOT_READ_BACK])))
    key, url = f"{plan.project.key}-{found.number}", board.url(plan.project, found.number)
    return replace(answer, key=key, url=url, dropped=found.difference.dropped, differs=found.difference.differs)


def _unsure(plan: TaskPlan, delivered: Delivered) -> str:
    # The question whether it happened changed nothing; to say so here would be taken for the act itself.
    why = delivered.why.partition("; nothing was ")[0]
    where = plan.url or f"project {plan.project.key}"
    return f"{why}; whether it was done is to be seen at {where}. The same call again looks first, and does it once"


def _minute(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M UTC")


@dataclass(frozen=True, slots=True)
class _ReadBack:
    number: int
    difference: ReadbackDifference


async def _read_back(board: Board, plan: TaskPlan, result: Mapping[str, str | None]) -> _ReadBack:
    task_id, comment_id = result.get("task_id") or "", result.get("comment_id")
    if comment_id and plan.task:
        comment = await board.client.comment(plan.project.id, task_id, comment_id)
        sent = _text(plan.field("comment")) or ""
        return _ReadBack(
            plan.task.number,
            ReadbackDifference(differs=await to_thread.run_sync(text_difference, "comment", sent, comment.html)),
        )
    task = await board.client.task(plan.project.id, task_id)
    if not set(task.assignee_ids) <= set(plan.names):
        plan = replace(plan, names={**await board.names_of_people(plan.project), **plan.names})
    return _ReadBack(task.number, await to_thread.run_sync(difference, plan, task))


def _text(field: TaskField | None) -> str | None:
    return field.text if field else None


def _date(field: TaskField | None) -> date | None:
    return date.fromisoformat(field.text) if field and field.text else None


def _date_or_clear(field: TaskField | None) -> date | Clear | None:
    return CLEAR if field and field.text is None else _date(field)
