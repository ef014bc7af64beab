"""Plane's calls, awaited: each is made and read by `wire`, and sent by a `Sender`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from mcp_server.connectors.errors import Missing, NoAnswer
from mcp_server.connectors.plane import reply_check as judging
from mcp_server.connectors.plane import wire
from mcp_server.connectors.plane.model import (
    Comment,
    Cycle,
    FoundTask,
    KeyTaken,
    Label,
    ListPage,
    Module,
    PlaneMember,
    PlaneTask,
    Project,
    Relation,
    State,
    TaskChanges,
    TaskDraft,
)
from mcp_server.connectors.plane.pagination import Walked, everything
from mcp_server.connectors.request.wire import ServiceReply, ServiceRequest

if TYPE_CHECKING:
    from mcp_server.connectors.http import Sender

T = TypeVar("T")
NEWEST_CHANGED = "-updated_at"


class PlaneClient:
    """One workspace of Plane as the owner of a key sees it. Ids are Plane's; nothing is kept between calls.

    Every call raises the errors of `connectors.errors`: Denied, Missing, Refused, Limited, Unreachable, WrongAddress; and
    NoAnswer, or ReplyLost for one that writes.
    """

    def __init__(self, sender: Sender, workspace: str) -> None:
        self._sender = sender
        self.workspace = workspace

    async def me(self) -> PlaneMember:
        """Return the owner of the key."""
        return await self._ask(wire.me(), wire.read_person, "account")

    async def projects(self) -> Walked[Project]:
        """Return the owner's projects and those that are public to the workspace."""

        async def page(cursor: str | None) -> ListPage[Project]:
            return await self._page(wire.projects(self.workspace, cursor), wire.read_project, self._here)

        return await everything(page)

    async def members(self, project_id: str) -> tuple[PlaneMember, ...]:
        """Return the people of a project; guests are among them, and cannot be assigned."""
        request = wire.members(self.workspace, project_id)
        return tuple((await self._page(request, wire.read_person, "project")).items)

    async def states(self, project_id: str) -> Walked[State]:
        """Return the states of a project."""

        async def page(cursor: str | None) -> ListPage[State]:
            return await self._page(wire.states(self.workspace, project_id, cursor), wire.read_state, "project")

        return await everything(page)

    async def labels(self, project_id: str) -> Walked[Label]:
        """Return the labels of a project."""

        async def page(cursor: str | None) -> ListPage[Label]:
            return await self._page(wire.labels(self.workspace, project_id, cursor), wire.read_label, "project")

        return await everything(page)

    async def cycles(self, project_id: str) -> Walked[Cycle]:
        """Return the cycles of a project that are not archived."""

        async def page(cursor: str | None) -> ListPage[Cycle]:
            return await self._page(wire.cycles(self.workspace, project_id, cursor), wire.read_cycle, "project")

        return await everything(page)

    async def modules(self, project_id: str) -> Walked[Module]:
        """Return the modules of a project that are not archived."""

        async def page(cursor: str | None) -> ListPage[Module]:
            return await self._page(wire.modules(self.workspace, project_id, cursor), wire.read_module, "project")

        return await everything(page)

    async def tasks(
        self,
        project_id: str,
        cursor: str | None = None,
        per_page: int = wire.TASKS_A_PAGE,
        order_by: str = NEWEST_CHANGED,
    ) -> ListPage[PlaneTask]:
        """Return a page of a project's tasks without their texts; archived ones and drafts are not among them."""
        request = wire.tasks(self.workspace, project_id, cursor, per_page, order_by)
        return await self._page(request, wire.read_task, "project")

    async def cycle_tasks(
        self, project_id: str, cycle_id: str, cursor: str | None = None, per_page: int = wire.TASKS_A_PAGE
    ) -> ListPage[PlaneTask]:
        """Return a page of a cycle's tasks without their texts, oldest first."""
        request = wire.cycle_tasks(self.workspace, project_id, cycle_id, cursor, per_page)
        return await self._page(request, wire.read_task, "cycle")

    async def module_tasks(
        self, project_id: str, module_id: str, cursor: str | None = None, per_page: int = wire.TASKS_A_PAGE
    ) -> ListPage[PlaneTask]:
        """Return a page of a module's tasks without their texts, oldest first."""
        request = wire.module_tasks(self.workspace, project_id, module_id, cursor, per_page)
        return await self._page(request, wire.read_task, "module")

    async def search(self, text: str, project_id: str | None = None, limit: int = 100) -> tuple[FoundTask, ...]:
        """Return tasks whose name has `text`, in any case, or whose number it names; unordered, at most `limit`.

        As many as `limit` means that there may be more.
        """
        return await self._ask(wire.search(self.workspace, text, project_id, limit), wire.read_search, self._here)

    async def task(self, project_id: str, task_id: str) -> PlaneTask:
        """Return one task with its text."""
        return await self._ask(wire.task(self.workspace, project_id, task_id), wire.read_task, "task")

    async def task_by_key(self, key: str) -> PlaneTask:
        """Return the task that people call `key` (KB-1); the project's key is taken in capital letters, as Plane has it."""
        return await self._ask(wire.task_by_key(self.workspace, key.upper()), wire.read_task, f"task {key.upper()}")

    async def task_by_external(self, project_id: str, key: str) -> PlaneTask | None:
        """Return the task that was created with our `key`, None where there is none (or it was deleted)."""
        try:
            return await self._ask(wire.task_by_external(self.workspace, project_id, key), wire.read_task, "task")
        except Missing:
            return None

    async def create_task(self, project_id: str, draft: TaskDraft) -> PlaneTask | KeyTaken:
        """Return the new task as Plane answered it, or which one was created with that key before.

        What Plane answers is what it has, but for `created_at`: people that may not be assigned are dropped without a word.
        """
        return await self._create(wire.create_task(self.workspace, project_id, draft), wire.read_task, "project")

    async def update_task(self, project_id: str, task_id: str, changes: TaskChanges) -> PlaneTask:
        """Return the task as it is after `changes`."""
        request = wire.update_task(self.workspace, project_id, task_id, changes)
        return await self._ask(request, wire.read_task, "task")

    async def comments(
        self, project_id: str, task_id: str, cursor: str | None = None, per_page: int = 100
    ) -> ListPage[Comment]:
        """Return a page of a task's comments, last first."""
        request = wire.comments(self.workspace, project_id, task_id, cursor, per_page)
        return await self._page(request, wire.read_comment, "task")

    async def comment(self, project_id: str, task_id: str, comment_id: str) -> Comment:
        """Return one comment."""
        request = wire.comment(self.workspace, project_id, task_id, comment_id)
        return await self._ask(request, wire.read_comment, "comment")

    async def comment_by_external(self, project_id: str, task_id: str, key: str) -> Comment | None:
        """Return the comment on this task that was created with our `key`, None where there is none.

        Plane has no question for it: the comments of the task are read, last first, until it comes.

        Raises:
            NoAnswer: not all comments could be read, and it is not among those that were.
        """

        async def page(cursor: str | None) -> ListPage[Comment]:
            return await self.comments(project_id, task_id, cursor)

        walked = await everything(page, until=lambda comment: comment.external_id == key)
        found = next((comment for comment in walked.items if comment.external_id == key), None)
        if found is None and walked.note is not None:
            raise NoAnswer(wire.SERVICE, walked.note)
        return found

    async def create_comment(self, project_id: str, task_id: str, html: str, key: str) -> Comment | KeyTaken:
        """Return the new comment, or which one was created with that key before (in the project, on any task)."""
        request = wire.create_comment(self.workspace, project_id, task_id, html, key)
        return await self._create(request, wire.read_comment, "task")

    async def relations(self, project_id: str, task_id: str) -> tuple[Relation, ...]:
        """Return what a task is tied to."""
        request = wire.relations(self.workspace, project_id, task_id)
        return await self._ask(request, wire.read_relations, "task")

    @property
    def _here(self) -> str:
        return f"workspace {self.workspace}"

    async def _page(self, request: ServiceRequest, read: Callable[[Any], T], what: str) -> ListPage[T]:
        return await self._ask(request, lambda body: wire.read_page(body, read), what)

    async def _ask(self, request: ServiceRequest, read: Callable[[Any], T], what: str) -> T:
        return self._told(request, await self._sender.send(request), read, what)

    async def _create(self, request: ServiceRequest, read: Callable[[Any], T], what: str) -> T | KeyTaken:
        reply = await self._sender.send(request)
        return wire.read_taken(reply) or self._told(request, reply, read, what)

    def _told(self, request: ServiceRequest, reply: ServiceReply, read: Callable[[Any], T], what: str) -> T:
        judging.judge(request, reply, what)
        try:
            return read(reply.body)
        except wire.UnreadableReply as odd:
            raise judging.unreadable(request, odd) from odd
