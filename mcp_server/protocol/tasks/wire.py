"""The Tasks extension on the wire: its methods, its shapes, and who speaks it. Pure.

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

from knowledge.history.timestamps import utc_text

IDENTIFIER = "io.modelcontextprotocol/tasks"
GET, UPDATE, CANCEL, TOLD = "tasks/get", "tasks/update", "tasks/cancel", "notifications/tasks"
VERSIONS = frozenset(MODERN_PROTOCOL_VERSIONS)
"""Protocol versions in which a request says what its client can do. In older ones there is no such extension."""
MOST_LISTENED = 100
"""Tasks of one `subscriptions/listen`."""
MOST_ID = 200
"""Characters of an id that are looked at."""
WORKING_MS, WAITING_MS = 1_000, 5_000
"""How often a client should ask: while something is done, and while something is waited for."""

Status = Literal["working", "input_required", "completed", "cancelled"]
"""The protocol knows `failed`, too: an error of JSON-RPC after the handle. Here each of those is answered before there is one."""
OVER: tuple[Status, ...] = ("completed", "cancelled")


class TaskParams(RequestParams):
    """Parameters of `tasks/get` and `tasks/cancel`."""

    model_config = ConfigDict(defer_build=True)  # a server that nobody asks for tasks starts without it

    task_id: str


class UpdateParams(TaskParams):
    """Parameters of `tasks/update`. An answer is read only once its key is known to belong to an open question."""

    input_responses: dict[str, Any]


@dataclass(frozen=True, slots=True)
class TaskForm:
    """A question to a person: a text, and the fields below it. `key` names it in its task, for ever."""

    key: str
    text: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ProtocolTask:
    """The state of a task. `message` says it in a sentence. `lasts`: how long it can be asked about, None: without end.

    `forms` are what a person is asked (input_required), `result` is what the call would have returned (completed).
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
        """Return whether nothing more is to happen to it."""
        return self.status in OVER


def handle(task: ProtocolTask) -> dict[str, Any]:
    """Return the answer of a call that is a task (CreateTaskResult)."""
    return {"resultType": ProtocolTask.IS_HANDLE, **_plain(task)}


def detailed(task: ProtocolTask) -> dict[str, Any]:
    """Return everything that a client sees of a task (DetailedTask)."""
    told = _plain(task)
    if task.status == "input_required":
        told["inputRequests"] = {form.key: _asked(form) for form in task.forms}
    elif task.status == "completed":
        told["result"] = dict(task.result)
    return told


def _plain(task: ProtocolTask) -> dict[str, Any]:
    told: dict[str, Any] = {
        "taskId": task.id,
        "status": task.status,
        "createdAt": utc_text(task.created_at),
        "lastUpdatedAt": utc_text(max(task.created_at, task.updated_at)),
        "ttlMs": None if task.lasts is None else max(0, task.lasts // timedelta(milliseconds=1)),
    }
    if task.message:
        told["statusMessage"] = task.message
    if not task.over:
        told["pollIntervalMs"] = task.poll_ms
    return told


def _asked(form: TaskForm) -> dict[str, Any]:
    params = ElicitRequestFormParams(message=form.text, requested_schema=dict(form.schema))
    return ElicitRequest(params=params).model_dump(by_alias=True, mode="json", exclude_none=True)


def declared(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Return whether this very request says that its client knows tasks."""
    capabilities = ctx.session.client_capabilities
    extensions = capabilities.extensions if capabilities is not None else None
    return ctx.protocol_version in VERSIONS and IDENTIFIER in (extensions or {})


def require_declared(ctx: ServerRequestContext[Any, Any]) -> None:
    """Return if this very request says that its client knows tasks.

    Raises:
        MCPError: -32021, with what is missing.
    """
    require_client_extension(ctx, IDENTIFIER)


def require_named(ctx: ServerRequestContext[Any, Any], task: str) -> None:
    """Return if the `Mcp-Name` header of a request over HTTP, by which it may have been routed, names the task that its body names.

    Raises:
        MCPError: -32020, it names another one, or none.
    """
    if ctx.request is not None and decode_header_value(ctx.request.headers.get(MCP_NAME_HEADER)) != task:
        raise MCPError(HEADER_MISMATCH, f"the {MCP_NAME_HEADER} header does not name the task that params.taskId names")
