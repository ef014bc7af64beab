"""Several changes of tasks as one act: planned together, approved together, carried out in order, each exactly once.

Each change is the same act as if it were alone, with its own outbox entry. If the process dies, the changes that were
done are found by their entries, and the others follow. Plane allows 60 requests a minute: tasks are read as lists,
before and after, not one by one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError

from knowledge.errors import KnowledgeError
from mcp_server.connectors.errors import Missing, NotAllowed, ServiceLimited, UnknownName, one_line
from mcp_server.connectors.plane.board import Board, board_of
from mcp_server.connectors.plane.model import PlaneTask, Project
from mcp_server.connectors.plane.names import BadReference, ClosedProject
from mcp_server.connectors.plane.pagination import read_all
from mcp_server.connectors.text.name_match import folded
from mcp_server.connectors.text.preview import Change
from mcp_server.gate.caller import Call
from mcp_server.gate.policy import Trust
from mcp_server.ports import ActServices
from mcp_server.protocol.wire_errors import explain, loosen
from mcp_server.toolsets.plane.acts.execution import TOOLS
from mcp_server.toolsets.plane.acts.model import (
    LONGEST_PREVIEW,
    Kind,
    TaskPlan,
    Unfit,
    changes,
    preview,
    sentence,
)
from mcp_server.toolsets.plane.acts.plan import REHEARSED, FindTask, plan_comment, plan_creation, plan_update
from mcp_server.toolsets.plane.schemas import (
    ChangesArguments,
    ChangesMade,
    CommentArguments,
    CreateArguments,
    TaskActed,
    UpdateArguments,
)
from mcp_server.toolsets.service_act import digest_of
from mcp_server.toolsets.spec import Arguments, stored_schemas

FEWEST_TO_LIST = 3
"""The fewest tasks of a project for which its list is read; fewer are read one by one."""
LONGEST_PROBLEM = 300
NOT_SENT = "not sent"
REFUSED = "refused"
SHOWN: Final = ("key", "url", "dropped", "differs", "note", "undo")
Outcome = dict[str, Any]
MODELS: Mapping[Kind, type[CreateArguments | UpdateArguments | CommentArguments]] = {
    "create": CreateArguments,
    "update": UpdateArguments,
    "comment": CommentArguments,
}
WHOLE = ("dry_run", "journey_id")
"""Arguments of the whole call, not of one change."""


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """One change: its number from 1, its plan, or why it has none."""

    number: int
    plan: TaskPlan | None = None
    problem: str = ""

    @property
    def act(self) -> TaskPlan | None:
        """The plan, if something is to be sent."""
        return self.plan if self.plan and self.plan.halted is None else None

    @property
    def effect(self) -> str:
        """A hash of what would be sent; "" for nothing."""
        return self.act.effect if self.act else ""


@dataclass(frozen=True, slots=True)
class Batch:
    """All changes of a call, planned."""

    arguments: ChangesArguments
    items: Sequence[PlannedChange]

    @property
    def acts(self) -> Sequence[TaskPlan]:
        """The plans of the changes that are to be sent."""
        return [one.act for one in self.items if one.act]

    @property
    def effect(self) -> str:
        """A hash of all that would be sent, in order."""
        return digest_of([one.effect for one in self.items]) if self.acts else ""

    @property
    def origins(self) -> tuple[str, ...]:
        """The tasks whose text the preview quotes."""
        return tuple(dict.fromkeys(one.plan.place for one in self.items if one.plan and one.plan.quotes))

    @property
    def destination(self) -> str:
        """The project that all texts go to; "" for several."""
        places = {act.destination for act in self.acts}
        return places.pop() if len(places) == 1 else ""

    @property
    def level(self) -> Trust:
        """The highest level that one of the changes needs."""
        return max((act.level for act in self.acts), default=Trust.NONE)

    @property
    def sentence(self) -> str:
        """All changes in one line, without any existing text of a task."""
        counts = Counter(TOOLS[act.kind].split("_")[1] for act in self.acts)
        words = {"create": "new", "update": "changed", "comment": "commented"}
        parts = [f"{counts[name]} {word}" for name, word in words.items() if counts[name]]
        projects = sorted({act.project.key for act in self.acts})
        return one_line(f"{len(self.acts)} changes of tasks in Plane ({', '.join(projects)}): {', '.join(parts)}", 200)

    @property
    def files(self) -> list[Change]:
        """The texts that go out, each with the number of its change."""
        shown: list[Change] = []
        for one in self.items:
            if one.act:
                shown += [{**file, "path": f"{one.number}. {file['path']}"} for file in changes(one.act)]
        return shown

    def answer(self) -> ChangesMade:
        """Return the answer of a call of which nothing has been sent."""
        lines = [
            f"{one.number}. {sentence(one.act)}\n{preview(one.act)}" if one.act else f"{one.number}. {_why(one)}"
            for one in self.items
        ]
        shown = "\n\n".join(lines)
        if len(shown) > LONGEST_PREVIEW:
            shown = f"{shown[:LONGEST_PREVIEW]}\n... {len(shown) - LONGEST_PREVIEW:,} characters more, as given"
        results = [unsent(one) for one in self.items]
        return ChangesMade("analysis", None, results, shown, REHEARSED if self.arguments.dry_run else "")


async def plan_batch(
    services: ActServices, call: Call, arguments: ChangesArguments, *, all_of_them: bool = True
) -> Batch:
    """Return the plan of each change. Changes nothing. Without `all_of_them`, unclear changes are not an error.

    Raises:
        WrongChanges: some changes are unclear and `partial` is not asked for, or all are unclear.
    """
    board = board_of(services)
    asked = [_parsed(one) for one in arguments.changes]
    find = await _finder(board, [one for one in asked if isinstance(one, UpdateArguments)])
    items = []
    for number, one in enumerate(asked, 1):
        items.append(await _planned(board, call, number, one, find))
    items = _without_clashes(items)
    problems = [f"change {one.number}: {one.problem}" for one in items if one.problem]
    if problems and all_of_them and (not arguments.partial or len(problems) == len(items)):
        raise WrongChanges(problems, len(items))
    return Batch(arguments, items)


class WrongChanges(Unfit):
    """Some changes of a batch cannot be carried out; the message names each."""

    MOST_CHARS = 50 * (LONGEST_PROBLEM + 20)

    def __init__(self, problems: Sequence[str], count: int) -> None:
        super().__init__(f"{len(problems)} of {count} changes cannot be carried out: {'; '.join(problems)}")


def _parsed(change: Mapping[str, Any]) -> CreateArguments | UpdateArguments | CommentArguments | str:
    """Return the arguments of a change, or why they are wrong. The names of the arguments say which tool they are for."""
    kind: Kind = "update"
    if "project" in change:
        kind = "create"
    elif {"text", "comment_id", "delete"} & change.keys():
        kind = "comment"
    if named := [name for name in WHOLE if name in change]:
        return f"{named[0]} belongs to the whole call, not to one change"
    schema = stored_schemas()[TOOLS[kind]]["input"]
    try:
        return MODELS[kind].model_validate(loosen(dict(change), schema))
    except ValidationError as error:
        return explain(TOOLS[kind], error, schema)


async def _planned(board: Board, call: Call, number: int, asked: Arguments | str, find: FindTask) -> PlannedChange:
    try:
        match asked:
            case CreateArguments():
                plan = await plan_creation(board, asked)
            case UpdateArguments():
                plan = await plan_update(board, call, asked, find)
            case CommentArguments():
                plan = await plan_comment(board, asked)
            case _:
                return PlannedChange(number, problem=one_line(str(asked), LONGEST_PROBLEM))
    except ServiceLimited:
        raise
    except KnowledgeError as error:
        why = str(error).removesuffix("; nothing was sent")
        return PlannedChange(number, problem=one_line(why, LONGEST_PROBLEM))
    if plan.halted is not None and plan.halted.status == "conflict":
        why = (plan.halted.note or "").replace("; nothing was sent. preview has", "; plane_get_task has")
        return PlannedChange(number, problem=one_line(why, LONGEST_PROBLEM))
    return PlannedChange(number, plan)


def _without_clashes(items: Sequence[PlannedChange]) -> list[PlannedChange]:
    """Return the changes.

    A change that repeats an earlier one, or sets a field that an earlier one sets, has a problem instead of a plan.
    """
    seen: dict[object, int] = {}
    checked = []
    for one in items:
        act = one.act
        marks: list[object] = []
        if act and act.task and act.kind != "comment":
            marks = [(act.task.id, act.comment_id, field.name) for field in act.fields]
        elif act:
            marks = [act.effect]
        clash = next((seen[mark] for mark in marks if mark in seen), None)
        seen.update(dict.fromkeys(marks, one.number))
        why = f"it is the same as change {clash}, or sets the same field of its task"
        checked.append(one if clash is None else PlannedChange(one.number, problem=why))
    return checked


async def _finder(board: Board, updates: Sequence[UpdateArguments]) -> FindTask:
    """Return a function that finds the tasks to change: several of one project from its list, others one by one."""
    with_text = {one.task for one in updates if _needs_text(one)}
    wanted: dict[str, list[str]] = defaultdict(list)
    for one in updates:
        with suppress(BadReference):  # planning the change says what is wrong with it
            if one.task not in with_text:
                wanted[folded(board.reference(one.task).project_key)].append(one.task)
    listed: dict[tuple[str, int], tuple[Project, PlaneTask]] = {}
    for key, asked in wanted.items():
        if not key or len(asked) < FEWEST_TO_LIST:
            continue
        with suppress(Missing, UnknownName, NotAllowed, ClosedProject):  # here, too
            # Looked up by its key: the project may have been renamed since its name was cached, and the key may belong to another one.
            project, task = await board.task(asked[0])
            listed[key, task.number] = project, task
            if folded(project.key) == key:
                tasks = await listed_tasks(board, project, len(asked))
                listed |= {(key, one.number): (project, one) for one in tasks if one.id != task.id}

    async def find(asked: str) -> tuple[Project, PlaneTask]:
        if asked not in with_text:
            meant = board.reference(asked)
            if found := listed.get((folded(meant.project_key), meant.number)):
                return found
        return await board.task(asked)

    return find


def _needs_text(one: UpdateArguments) -> bool:
    # Lists contain neither texts nor the numbers of parent tasks.
    return one.description is not None or one.parent is not None


async def listed_tasks(board: Board, project: Project, wanted: int) -> Sequence[PlaneTask]:
    """Return the tasks of a project as they are now, without their texts.

    If the whole list takes more than half as many requests as `wanted`, only the first page with the newest tasks is
    read.
    """
    first = await board.client.tasks(project.id, order_by="-created_at")
    pages = (first.total or 0) / max(1, len(first.items))
    if first.next_cursor is None or pages > wanted / 2:
        return first.items
    listing = await read_all(lambda cursor: board.client.tasks(project.id, cursor, order_by="-created_at"))
    return listing.items


def unsent(one: PlannedChange) -> Outcome:
    """Return the outcome of a change of which nothing has been sent."""
    if one.problem:
        return {"status": REFUSED, "note": one.problem}
    if one.plan and one.plan.halted is not None and one.plan.halted.status == "unchanged":
        return outcome_of(one.plan.halted)
    return {"status": "analysis", **({"key": one.plan.key} if one.plan and one.plan.key else {})}


def outcome_of(answer: TaskActed) -> Outcome:
    """Return the parts of an answer that are not empty."""
    told = {name: getattr(answer, name) for name in SHOWN}
    shown = {name: list(value) if isinstance(value, tuple) else value for name, value in told.items() if value}
    return {"status": answer.status, **shown}


def _why(one: PlannedChange) -> str:
    return one.problem or (one.plan.halted.note if one.plan and one.plan.halted else "") or "nothing to do"
