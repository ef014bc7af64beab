"""Plane's calls, awaited: `wire` makes each request and reads its reply, a `Sender` sends it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from mcp_server.connectors.errors import Missing, NoAnswer
from mcp_server.connectors.http import Sender
from mcp_server.connectors.plane import wire
from mcp_server.connectors.plane.model import (
    Attachment,
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
    TaskFields,
    TaskLink,
)
from mcp_server.connectors.plane.pagination import Identified, Listing, read_all
from mcp_server.connectors.plane.reply_check import no_usable_reply, require_success
from mcp_server.connectors.request.wire import ServiceReply, ServiceRequest

T = TypeVar("T")
Named = TypeVar("Named", bound=Identified)
NEWEST_CHANGED = "-updated_at"


class PlaneClient:
    """One workspace of Plane as the owner of a key sees it. Ids are Plane's; nothing is cached.

    Every call raises the errors of `connectors.errors`: Denied, Missing, ServiceRefused, ServiceLimited, Unreachable,
    WrongAddress; and NoAnswer for a read, ReplyLost for a write.
    """

    def __init__(self, sender: Sender, workspace: str) -> None:
        self._sender = sender
        self.workspace = workspace

    async def me(self) -> PlaneMember:
        """Return the owner of the key."""
        return await self._ask(wire.me(), wire.read_person, "account")

    async def projects(self) -> Listing[Project]:
        """Return the owner's projects and those that are public to the workspace."""
        return await self._all(lambda cursor: wire.projects(self.workspace, cursor), wire.read_project, self._here)

    async def members(self, project_id: str) -> Listing[PlaneMember]:
        """Return the people of a project. Guests are among them, and cannot be assigned."""
        return await self._all(lambda _cursor: wire.members(self.workspace, project_id), wire.read_person, "project")

    async def people(self) -> Listing[PlaneMember]:
        """Return everybody in the workspace. Guests are denied that."""
        return await self._all(lambda _cursor: wire.people(self.workspace), wire.read_person, self._here)

    async def states(self, project_id: str) -> Listing[State]:
        """Return the states of a project."""
        return await self._project_list(project_id, "states", wire.read_state)

    async def labels(self, project_id: str) -> Listing[Label]:
        """Return the labels of a project."""
        return await self._project_list(project_id, "labels", wire.read_label)

    async def cycles(self, project_id: str) -> Listing[Cycle]:
        """Return the cycles of a project that are not archived."""
        return await self._project_list(project_id, "cycles", wire.read_cycle)

    async def modules(self, project_id: str) -> Listing[Module]:
        """Return the modules of a project that are not archived."""
        return await self._project_list(project_id, "modules", wire.read_module)

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

    async def group_tasks(
        self,
        project_id: str,
        kind: wire.TaskGroup,
        group_id: str,
        cursor: str | None = None,
        per_page: int = wire.TASKS_A_PAGE,
    ) -> ListPage[PlaneTask]:
        """Return a page of the tasks of a cycle or module without their texts, oldest first."""
        request = wire.group_tasks(self.workspace, project_id, kind, group_id, cursor=cursor, per_page=per_page)
        return await self._page(request, wire.read_task, kind)

    async def intake(
        self, project_id: str, cursor: str | None = None, per_page: int = wire.TASKS_A_PAGE
    ) -> ListPage[PlaneTask]:
        """Return a page of the tasks in a project's intake, newest first; none if the project has no intake."""
        return await self._page(
            wire.intake(self.workspace, project_id, cursor, per_page), wire.read_intake_task, "project"
        )

    async def search(self, text: str, project_id: str | None = None, limit: int = 100) -> tuple[FoundTask, ...]:
        """Return tasks whose name contains `text`, ignoring case, or whose number it names; unordered, at most `limit`.

        As many as `limit` means that there may be more.
        """
        return await self._ask(wire.search(self.workspace, text, project_id, limit), wire.read_search, self._here)

    async def task(self, project_id: str, task_id: str) -> PlaneTask:
        """Return one task with its text."""
        return await self._ask(wire.task(self.workspace, project_id, task_id), wire.read_task, "task")

    async def task_by_key(self, key: str) -> PlaneTask:
        """Return the task that people call `key` (KB-1), in any case: Plane knows keys in capital letters only."""
        return await self._ask(wire.task_by_key(self.workspace, key.upper()), wire.read_task, f"task {key.upper()}")

    async def task_by_external(self, project_id: str, key: str) -> PlaneTask | None:
        """Return the task that was created with our `key`; None if no task was, or it was deleted."""
        try:
            return await self._ask(wire.task_by_external(self.workspace, project_id, key), wire.read_task, "task")
        except Missing:
            return None

    async def create_task(self, project_id: str, fields: TaskFields, key: str) -> PlaneTask | KeyTaken:
        """Return the new task as Plane answered, or the task that was created with that key before.

        The answer is what Plane stored, except for `created_at`: people who cannot be assigned are dropped without a warning.
        """
        return await self._create(wire.create_task(self.workspace, project_id, fields, key), wire.read_task, "project")

    async def update_task(self, project_id: str, task_id: str, fields: TaskFields) -> PlaneTask:
        """Set fields of a task, and return the task as it is afterwards."""
        request = wire.update_task(self.workspace, project_id, task_id, fields)
        return await self._ask(request, wire.read_task, "task")

    async def comments(
        self, project_id: str, task_id: str, cursor: str | None = None, per_page: int = 100
    ) -> ListPage[Comment]:
        """Return a page of a task's comments, newest first."""
        request = wire.comments(self.workspace, project_id, task_id, cursor, per_page)
        return await self._page(request, wire.read_comment, "task")

    async def comment(self, project_id: str, task_id: str, comment_id: str) -> Comment:
        """Return one comment."""
        request = wire.comment(self.workspace, project_id, task_id, comment_id)
        return await self._ask(request, wire.read_comment, "comment")

    async def comment_by_external(self, project_id: str, task_id: str, key: str) -> Comment | None:
        """Return the comment on this task that was created with our `key`, None if no comment was.

        Plane has no request for that, so the task's comments are read, newest first, until it is found.

        Raises:
            NoAnswer: not all comments could be read, and it is not among those that were.
        """
        # Newest first: it was just written, so it is usually on the first page.
        listing = await read_all(
            lambda cursor: self.comments(project_id, task_id, cursor), until=lambda comment: comment.external_id == key
        )
        found = next((comment for comment in listing.items if comment.external_id == key), None)
        if found is None and listing.note is not None:
            raise NoAnswer(wire.SERVICE, listing.note)
        return found

    async def create_comment(self, project_id: str, task_id: str, html: str, key: str) -> Comment | KeyTaken:
        """Return the new comment, or the one that was created with that key before (in the project, on any task)."""
        request = wire.create_comment(self.workspace, project_id, task_id, html, key)
        return await self._create(request, wire.read_comment, "task")

    async def relations(self, project_id: str, task_id: str) -> tuple[Relation, ...]:
        """Return the tasks that a task is related to."""
        request = wire.relations(self.workspace, project_id, task_id)
        return await self._ask(request, wire.read_relations, "task")

    async def add_relation(self, project_id: str, task_id: str, kind: str, other_id: str) -> None:
        """Relate a task to another one. Plane may report success although it did nothing."""
        request = wire.add_relation(self.workspace, project_id, task_id, kind, other_id)
        await self._ask(request, wire.read_related, "task")

    async def links(self, project_id: str, task_id: str) -> Listing[TaskLink]:
        """Return the links of a task, newest first."""
        return await self._all(
            lambda cursor: wire.links(self.workspace, project_id, task_id, cursor), wire.read_link, "task"
        )

    async def add_link(self, project_id: str, task_id: str, url: str, title: str) -> None:
        """Add a link to a task that does not have it yet."""
        request = wire.add_link(self.workspace, project_id, task_id, url, title)
        await self._ask(request, wire.read_link, "task")

    async def remove_link(self, project_id: str, task_id: str, link_id: str) -> None:
        """Remove a link from a task."""
        await self._ask(wire.remove_link(self.workspace, project_id, task_id, link_id), wire.read_deleted, "link")

    async def attachments(self, project_id: str, task_id: str) -> tuple[Attachment, ...]:
        """Return the names, types and sizes of a task's files."""
        request = wire.attachments(self.workspace, project_id, task_id)
        return await self._ask(request, wire.read_attachments, "task")

    async def put_in_group(self, project_id: str, kind: wire.TaskGroup, group_id: str, task_id: str) -> None:
        """Put a task into a cycle or module; it leaves its other cycle, but no module."""
        request = wire.put_in_group(self.workspace, project_id, kind, group_id, task_id)
        await self._ask(request, lambda body: wire.read_held(body, task_id), kind)

    async def take_from_group(self, project_id: str, kind: wire.TaskGroup, group_id: str, task_id: str) -> None:
        """Take a task out of a cycle or module."""
        request = wire.take_from_group(self.workspace, project_id, kind, group_id, task_id)
        await self._ask(request, wire.read_deleted, f"task in that {kind}")

    async def update_comment(self, project_id: str, task_id: str, comment_id: str, html: str) -> None:
        """Change the text of a comment."""
        request = wire.update_comment(self.workspace, project_id, task_id, comment_id, html)
        await self._ask(request, wire.read_comment, "comment")

    async def delete_comment(self, project_id: str, task_id: str, comment_id: str) -> None:
        """Delete a comment for good."""
        request = wire.delete_comment(self.workspace, project_id, task_id, comment_id)
        await self._ask(request, wire.read_deleted, "comment")

    @property
    def _here(self) -> str:
        return f"workspace {self.workspace}"

    async def _project_list(
        self, project_id: str, kind: wire.ProjectList, read: Callable[[Any], Named]
    ) -> Listing[Named]:
        return await self._all(
            lambda cursor: wire.project_list(self.workspace, project_id, kind, cursor), read, "project"
        )

    async def _all(
        self, request_for: Callable[[str | None], ServiceRequest], read: Callable[[Any], Named], what: str
    ) -> Listing[Named]:
        return await read_all(lambda cursor: self._page(request_for(cursor), read, what))

    async def _page(self, request: ServiceRequest, read: Callable[[Any], T], what: str) -> ListPage[T]:
        return await self._ask(request, lambda body: wire.read_page(body, read), what)

    async def _ask(self, request: ServiceRequest, read: Callable[[Any], T], what: str) -> T:
        return _answer(request, await self._sender.send(request), read, what)

    async def _create(self, request: ServiceRequest, read: Callable[[Any], T], what: str) -> T | KeyTaken:
        reply = await self._sender.send(request)
        return wire.read_taken(reply) or _answer(request, reply, read, what)


def _answer(request: ServiceRequest, reply: ServiceReply, read: Callable[[Any], T], what: str) -> T:
    require_success(request, reply, what)
    try:
        return read(reply.body)
    except wire.UnreadableReply as odd:
        # A 200 that is not a task may have created one all the same.
        raise no_usable_reply(request, odd) from odd
