"""Carries out several planned changes of tasks in order, each exactly once, and answers with the outcome of each."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal

import anyio
from anyio import to_thread

from knowledge.errors import KnowledgeError
from knowledge.outbox.ports import OutboxEntry
from mcp_server.connectors.errors import ServiceLimited, one_line
from mcp_server.connectors.outbox_dispatcher import outbox_entry_for
from mcp_server.connectors.plane.board import Board, board_of
from mcp_server.connectors.plane.model import PlaneTask, Project
from mcp_server.gate.caller import Call
from mcp_server.ports import ActServices
from mcp_server.toolsets.plane import TOOLSET
from mcp_server.toolsets.plane.acts.batch import (
    FEWEST_TO_LIST,
    LONGEST_PROBLEM,
    NOT_SENT,
    REFUSED,
    Batch,
    Outcome,
    PlannedChange,
    listed_tasks,
    outcome_of,
    plan_batch,
    unsent,
)
from mcp_server.toolsets.plane.acts.execution import task_act
from mcp_server.toolsets.plane.acts.model import TaskPlan, answered
from mcp_server.toolsets.plane.acts.readback import difference
from mcp_server.toolsets.plane.schemas import ChangesArguments, ChangesMade
from mcp_server.toolsets.spec import ToolSpec

TOOL = "plane_change_tasks"
RECENT_S = 20.0
"""The greatest age of a list that gives the values of tasks before a change."""
MOST_ATTEMPTS = 20
"""The most attempts at one change, each with its own key."""
LONGEST_WAIT_S = 61.0
"""The longest wait until Plane accepts requests again: a little more than the minute in which it counts them."""
MOST_WAITS = 5
"""How often an approved batch waits until Plane accepts requests again; a direct call returns an error instead."""
EFFECT = "effect."
"""The prefix of the mark for one change in the batch's outbox entry. The mark has the effect of that change as approved."""
CHANGED = "its task was changed since this was approved; nothing was sent"
LIMITED = "Plane accepts no more requests for now; the same call in {wait_s:.0f} s continues here"


async def carry_out_batch(services: ActServices, call: Call, batch: Batch) -> ChangesMade:
    """Carry out the planned changes in order, and return the outcome of each.

    With an approval or a key, the whole batch is recorded first, with the effect of each change, so that another
    process can finish it.
    """
    if not (call.approval or call.key):
        return await _BatchRun(services, call, batch, None).to_the_end()
    entry = outbox_entry_for(
        call,
        tool=TOOL,
        target=batch.destination or TOOLSET,
        digest=batch.effect,
        arguments_hash=ToolSpec.hash_of(batch.arguments),
        at=services.now(),
    )
    effects = {f"{EFFECT}{one.number}": one.effect for one in batch.items if one.effect}
    entry = await services.dispatcher.begin_group(replace(entry, marks={**entry.marks, **effects}))
    return await _BatchRun(services, call, batch, entry).to_the_end()


async def recall_batch(services: ActServices, call: Call, arguments: ChangesArguments) -> ChangesMade | None:
    """Finish the changes of a process that died, and return the outcome of each; None if it had sent nothing."""
    entry = await services.dispatcher.group_of(call)
    if entry is None:
        return None
    batch = await plan_batch(services, call, arguments, all_of_them=False)
    return await _BatchRun(services, call, batch, entry).to_the_end()


@dataclass
class _Compared:
    """A change that was done, and that is still to be compared with its task in a new list."""

    outcome: Outcome
    plan: TaskPlan
    task_id: str


class _BatchRun:
    """One run through all changes. `entry` is the outbox entry of the whole batch; None without an approval or a key."""

    def __init__(self, services: ActServices, call: Call, batch: Batch, entry: OutboxEntry | None) -> None:
        self._services, self._call, self._batch, self._entry = services, call, batch, entry
        self._board = board_of(services)
        self._recent = RecentTasks(self._board, batch.acts, anyio.current_time)
        self._base = call.approval.proposal if call.approval else call.key
        self._compared: list[_Compared] = []
        self._waits = 0

    async def to_the_end(self) -> ChangesMade:
        """Carry out what is not done yet, compare what was stored, and return the outcomes."""
        outcomes: list[Outcome] = []
        limited = ""
        for one in self._batch.items:
            outcome = unsent(one)
            if limited and one.act:
                outcome = {**outcome, "status": NOT_SENT, "note": limited}
            elif not limited:
                try:
                    outcome = await self._outcome(one)
                except ServiceLimited as error:
                    limited = LIMITED.format(wait_s=error.wait_s)
                    outcome = {**outcome, "status": NOT_SENT, "note": limited}
            outcomes.append(outcome)
            total = len(self._batch.items)
            await self._call.report(one.number, total, f"{one.number} of {total} changes")
        await self._compare()
        made = _made(outcomes)
        if self._entry is not None:
            await self._services.dispatcher.end_group(self._entry, known=made.status != "unsure")
        return made

    async def _outcome(self, one: PlannedChange) -> Outcome:
        """Carry out one change, if it is not done yet, and return its outcome.

        Raises:
            ServiceLimited: Plane accepts no more requests, and a caller waits for the answer.
        """
        while True:
            try:
                return await self._try(one)
            except ServiceLimited as error:
                # Nobody waits for an approved batch, and it must not stop half way.
                if self._call.approval is None or self._waits == MOST_WAITS:
                    raise
                self._waits += 1
                await self._services.dispatcher.pause(min(error.wait_s, LONGEST_WAIT_S))
            except KnowledgeError as error:
                return {**unsent(one), "status": REFUSED, "note": one_line(str(error), LONGEST_PROBLEM)}

    async def _try(self, one: PlannedChange) -> Outcome:
        key = await self._open_key(one)
        call = replace(self._call, key=key, approval=None)
        known = await self._services.dispatcher.entry_of_call(key)
        plan = one.plan
        if plan is None:
            return unsent(one) if known is None else _as_recorded(known, one.problem)
        act = task_act(self._services, plan, recent=self._recent, read_back=not self._recent.worth_it(plan))
        answer = await act.recall(self._services, call) if known is not None else None
        if answer is None and plan.halted is not None:
            return outcome_of(plan.halted)
        if answer is None and self._was_approved_otherwise(one):
            return outcome_of(answered(plan, "conflict", CHANGED))
        if answer is None:
            answer = await act.carry_out(self._services, call)
        outcome = outcome_of(answer)
        if answer.status == "done" and self._recent.worth_it(plan):
            self._compared.append(_Compared(outcome, plan, answer.task_id or ""))
        return outcome

    def _was_approved_otherwise(self, one: PlannedChange) -> bool:
        marks = self._entry.marks if self._entry else {}
        return marks.get(f"{EFFECT}{one.number}", one.effect) != one.effect

    async def _open_key(self, one: PlannedChange) -> str:
        """Return the key of the first attempt at the change that did not fail, or that is still to be made.

        An attempt that failed certainly changed nothing. "" for a call without an approval or a key.
        """
        if not self._base:
            return ""
        for number in range(MOST_ATTEMPTS):
            key = f"{self._base}/{one.number}/{number}"
            known = await self._services.dispatcher.entry_of_call(key)
            if known is None or known.fate != "failed":
                break
        return key

    async def _compare(self) -> None:
        """Add to each outcome how its task differs from what was sent. The tasks are read back as one list for each project."""
        for project in {one.plan.project.id: one.plan.project for one in self._compared}.values():
            tasks: Mapping[str, PlaneTask] = {}
            names: Mapping[str, str] = {}
            try:
                tasks = await self._recent.tasks(project, at_most_s=0.0)
                names = await self._board.names_of_people(project)
            except KnowledgeError:
                pass  # each outcome says that it could not be read back
            for one in self._compared:
                if one.plan.project.id == project.id:
                    await self._compare_one(one, tasks.get(one.task_id), names)

    async def _compare_one(self, one: _Compared, task: PlaneTask | None, names: Mapping[str, str]) -> None:
        if task is None:
            one.outcome["note"] = "; ".join(filter(None, [one.outcome.get("note"), "it could not be read back"]))
            return
        plan = replace(one.plan, names={**names, **one.plan.names})
        found = await to_thread.run_sync(difference, plan, task)
        one.outcome |= {name: list(value) for name, value in asdict(found).items() if value}


class RecentTasks:
    """Tasks as lists give them, read again when a list is older than RECENT_S."""

    def __init__(self, board: Board, acts: Sequence[TaskPlan], monotonic: Callable[[], float]) -> None:
        self._board, self._monotonic = board, monotonic
        self._counts = Counter(act.project.id for act in acts if is_in_lists(act))
        self._read: dict[str, tuple[float, dict[str, PlaneTask]]] = {}

    def worth_it(self, plan: TaskPlan) -> bool:
        """Return whether so many tasks of the project are changed that listing all of them costs less than reading each."""
        return is_in_lists(plan) and self._counts[plan.project.id] >= FEWEST_TO_LIST

    async def __call__(self, plan: TaskPlan) -> PlaneTask | None:
        """Return the plan's task as it was some seconds ago, or None."""
        if plan.task is None or not self.worth_it(plan):
            return None
        return (await self.tasks(plan.project)).get(plan.task.id)

    async def tasks(self, project: Project, *, at_most_s: float = RECENT_S) -> Mapping[str, PlaneTask]:
        """Return the tasks of a project by id, from a list that is at most that old."""
        at, known = self._read.get(project.id, (0.0, {}))
        began = self._monotonic()
        if not known or began - at >= at_most_s:
            known = {one.id: one for one in await listed_tasks(self._board, project, self._counts[project.id])}
            self._read[project.id] = began, known
        return known


def is_in_lists(plan: TaskPlan) -> bool:
    """Return whether a list of tasks shows every value that the plan sets.

    Lists lack texts, and everything that Plane keeps outside of the task.
    """
    names = {one.name for one in plan.fields}
    return plan.kind in ("create", "update") and not names & {"description", "archived"} and not plan.ties


def _as_recorded(known: OutboxEntry, problem: str) -> Outcome:
    """Return the outcome of a change that was begun and can no longer be planned."""
    if known.fate == "done":
        key = json.loads(known.result or "{}").get("key")
        return {"status": "done", **({"key": key} if key else {})}
    return {"status": "unsure", "note": f"it was started, and cannot be looked up now: {problem}"}


def _made(outcomes: Sequence[Outcome]) -> ChangesMade:
    counts = Counter(str(one["status"]) for one in outcomes)
    status: Literal["done", "unchanged", "conflict", "unsure"] = "done"
    if counts["unsure"]:
        status = "unsure"
    elif counts["conflict"] or counts[REFUSED] or counts[NOT_SENT]:
        status = "conflict"
    elif counts["unchanged"] == len(outcomes):
        status = "unchanged"
    note = ", ".join(f"{count} {name}" for name, count in counts.most_common())
    if counts[NOT_SENT] or counts["unsure"]:
        note += "; repeat the same call: it does only what is missing"
    return ChangesMade(status, None, outcomes, "", note)
