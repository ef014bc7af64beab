"""The Tasks extension on the wire: methods, shapes, and the checks of a request. Pure.

Source: MCP extension `io.modelcontextprotocol/tasks` (SEP-2663), draft of 2026-07.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, ClassVar, Literal

from mcp.server.context import ServerRequestContext
from mcp.server.mcpserver.server import require_client_extension
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
from mcp_types import HEADER_MISMATCH, ElicitRequest, ElicitRequestFormParams, RequestParams
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ConfigDict

from knowledge.errors import KnowledgeError
from knowledge.history.timestamps import utc_text

IDENTIFIER = "io.modelcontextprotocol/tasks"
GET, UPDATE, CANCEL, TOLD = "tasks/get", "tasks/update", "tasks/cancel", "notifications/tasks"
VERSIONS = frozenset(MODERN_PROTOCOL_VERSIONS)
"""Protocol versions in which each request declares its client's features. Older ones have no extensions."""
MOST_LISTENED = 100
"""The limit of tasks in one `subscriptions/listen`."""
MOST_ID = 200
"""Characters. A longer id counts as unknown, without a database lookup."""
WORKING_MS, WAITING_MS = 1_000, 5_000
"""How often a client should poll while work is done, and while the task waits for a person."""

Status = Literal["working", "input_required", "completed", "cancelled"]
"""The protocol also has `failed`, for a JSON-RPC error after the handle. Here such errors are answered before a handle is given."""
OVER: tuple[Status, ...] = ("completed", "cancelled")


class NoSuchTask(KnowledgeError):
    """The caller has no task with that handle."""

    def __init__(self, task: str, also: str = "") -> None:
        self.task = task
        super().__init__(
            f"you have no task {task[:60]!r}{also}; a task can be used only by the caller that was given its handle"
        )


class BadAnswer(KnowledgeError):
    """A client's answer to a form isn't the result of an elicitation."""

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(f"the answer to {key[:60]!r} is not the result of an elicitation; nothing was decided")


class TaskParams(RequestParams):
    """Parameters of `tasks/get` and `tasks/cancel`."""

    model_config = ConfigDict(defer_build=True)  # built at the first use: most servers are never asked about a task

    task_id: str


class UpdateParams(TaskParams):
    """Parameters of `tasks/update`. The answers are validated later, and only those whose key is an open form's."""

    input_responses: dict[str, Any]


@dataclass(frozen=True, slots=True)
class TaskForm:
    """A form for a person: a text, and the fields below it. `key` names it within its task and is never used again."""

    key: str
    text: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ProtocolTask:
    """A task as it is now. `message` is its status in a sentence; `lasts` is how long it can be fetched, None forever.

    `forms` are open (input_required); `result` is what the call would have returned (completed).
    """

    IS_HANDLE: ClassVar[str] = "task"
    id: str
    status: Status
    created_at: datetime
    updated_at: datetime
    message: str = ""
    lasts: timedelta | None = None
    poll_ms: int = WORKING_MS
    forms: tuple[TaskForm, ...] = ()
    result: Mapping[str, Any] = field(default_factory=dict)

    @property
    def over(self) -> bool:
        """Whether the task has ended."""
        return self.status in OVER


def handle(task: ProtocolTask) -> dict[str, Any]:
    """Return the task as the result of the call (CreateTaskResult)."""
    return {"resultType": ProtocolTask.IS_HANDLE, **_plain(task)}


def detailed(task: ProtocolTask) -> dict[str, Any]:
    """Return the task with its forms or its result (DetailedTask)."""
    wire = _plain(task)
    if task.status == "input_required":
        wire["inputRequests"] = {form.key: _elicitation(form) for form in task.forms}
    elif task.status == "completed":
        wire["result"] = dict(task.result)
    return wire


def _plain(task: ProtocolTask) -> dict[str, Any]:
    wire: dict[str, Any] = {
        "taskId": task.id,
        "status": task.status,
        "createdAt": utc_text(task.created_at),
        # The clocks of two processes can differ, and no update may come before the creation.
        "lastUpdatedAt": utc_text(max(task.created_at, task.updated_at)),
        "ttlMs": None if task.lasts is None else max(0, task.lasts // timedelta(milliseconds=1)),
    }
    if task.message:
        wire["statusMessage"] = task.message
    if not task.over:
        wire["pollIntervalMs"] = task.poll_ms
    return wire


def _elicitation(form: TaskForm) -> dict[str, Any]:
    params = ElicitRequestFormParams(message=form.text, requested_schema=dict(form.schema))
    return ElicitRequest(params=params).model_dump(by_alias=True, mode="json", exclude_none=True)


def declared(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Return whether this request declares that its client knows tasks. An earlier request of the client doesn't count."""
    capabilities = ctx.session.client_capabilities
    extensions = capabilities.extensions if capabilities is not None else None
    return ctx.protocol_version in VERSIONS and IDENTIFIER in (extensions or {})


def require_declared(ctx: ServerRequestContext[Any, Any]) -> None:
    """Check that this request declares that its client knows tasks.

    Raises:
        MCPError: -32021, with the missing extension.
    """
    require_client_extension(ctx, IDENTIFIER)


def require_named(ctx: ServerRequestContext[Any, Any], task: str) -> None:
    """Check that the `Mcp-Name` header of a request over HTTP names the task of its body.

    Raises:
        MCPError: -32020: it names another one, or is missing.
    """
    # A proxy may have routed the request by the header alone.
    if ctx.request is not None and decode_header_value(ctx.request.headers.get(MCP_NAME_HEADER)) != task:
        raise MCPError(HEADER_MISMATCH, f"the {MCP_NAME_HEADER} header does not name the task that params.taskId names")
