"""`subscriptions/listen` for tasks: a client that names its tasks gets the status of each, and again at each change."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import anyio
from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import SUBSCRIPTION_ID_META_KEY, ListenHandler, SubscriptionBus
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    RequestId,
    ServerNotification,
    SubscriptionFilter,
    SubscriptionsAcknowledgedNotification,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
)

from knowledge.errors import KnowledgeError
from knowledge.state.ports import StateStore
from mcp_server.approvals.elicitation.client_features import may_ask
from mcp_server.gate.dispatch import Gate
from mcp_server.gate.host_registration import Principal, UnknownSecret
from mcp_server.gate.policy import Refuse, Trust
from mcp_server.protocol.gate_extension import Identify
from mcp_server.protocol.tasks.extension import caller_of
from mcp_server.protocol.tasks.wire import MOST_LISTENED, TOLD, NoSuchTask, detailed, require_declared

if TYPE_CHECKING:
    from mcp_server.protocol.tasks.states import ProtocolTasks

logger = logging.getLogger("knowledge_forge.tasks")

TASK_IDS = "taskIds"
AFTER_TROUBLE_S = 1.0


class TaskListening(ListenHandler):
    """The SDK's handler, which also reports tasks. It acknowledges only the tasks that are the caller's own."""

    def __init__(
        self,
        bus: SubscriptionBus,
        load_tasks: Callable[[], ProtocolTasks],
        gate: Gate,
        state: StateStore,
        identify: Identify,
    ) -> None:
        super().__init__(bus)
        self._load_tasks, self._gate, self._state, self._identify = load_tasks, gate, state, identify

    @property
    def _tasks(self) -> ProtocolTasks:
        return self._load_tasks()

    async def __call__(
        self, ctx: ServerRequestContext[Any, Any], params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        """Serve one stream.

        Raises:
            MCPError: tasks are named, but the request doesn't declare that its client knows tasks; or `taskIds` is no list of ids.
        """
        named = _named(params.notifications)
        if not named:
            return await super().__call__(ctx, params)
        require_declared(ctx)
        who = caller_of(ctx)
        own = [task for task in named if await self._is_of(task, who)]
        session = _Acknowledging(ctx.session, own)
        served: list[SubscriptionsListenResult] = []
        failed: list[Exception] = []
        async with anyio.create_task_group() as group:
            group.start_soon(self._report, ctx, own, who, session.acknowledged)
            try:
                served.append(await super().__call__(replace(ctx, session=cast("ServerSession", session)), params))
            except Exception as error:  # noqa: BLE001 - raised below: a task group would wrap it, and the SDK would not know it
                failed.append(error)
            group.cancel_scope.cancel()
        if failed:
            raise failed[0]
        return served[0]

    async def _is_of(self, task: str, who: Principal) -> bool:
        try:
            await self._tasks.task(task, who, forms=False)
        except NoSuchTask:
            return False
        except KnowledgeError:  # the database is away; `_report_one` checks again
            return True
        return True

    async def _report(
        self, ctx: ServerRequestContext[Any, Any], tasks: Sequence[str], who: Principal, begin: anyio.Event
    ) -> None:
        """Send each task's status, now and at each change, until all tasks are over or the token is no longer this caller's."""
        await begin.wait()  # the protocol wants the acknowledgement first
        sent: dict[str, Any] = {}
        left = list(tasks)
        while left:
            try:
                seen = await self._state.last_event()
                # A stream can outlive its token and the trust of its caller, so both are checked at each change.
                if await self._identify(ctx) != who:
                    return
                if not isinstance(await self._gate.decide(TOLD, Trust.READ, who), Refuse):
                    left = [task for task in left if not await self._report_one(ctx, task, who, sent)]
                if left:
                    await self._state.changed(seen)
            except UnknownSecret:  # the host was registered again, with a new secret
                return
            except KnowledgeError:
                logger.warning("cannot read tasks now; clients get their changes later", exc_info=True)
                await anyio.sleep(AFTER_TROUBLE_S)

    async def _report_one(
        self, ctx: ServerRequestContext[Any, Any], task: str, who: Principal, sent: dict[str, Any]
    ) -> bool:
        """Send the task's status, unless it is the same as in `sent`, and return whether the task is over."""
        try:
            current = await self._tasks.task(task, who, forms=await may_ask(ctx, who, self._state))
        except NoSuchTask:
            return True
        now = detailed(current)
        if now != sent.get(task):
            sent[task] = now
            stamped = {**now, "_meta": {SUBSCRIPTION_ID_META_KEY: ctx.request_id}}
            notification = cast("ServerNotification", _TaskNotification(stamped))
            await ctx.session.send_notification(notification, related_request_id=ctx.request_id)
        return current.over


class _Acknowledging:
    """A session that adds the tasks to the SDK's acknowledgement, for which the SDK has no hook."""

    def __init__(self, session: ServerSession, tasks: Sequence[str]) -> None:
        self._session, self._tasks = session, tasks
        self.acknowledged = anyio.Event()

    async def send_notification(
        self, notification: ServerNotification, related_request_id: RequestId | None = None
    ) -> None:
        if isinstance(notification, SubscriptionsAcknowledgedNotification):
            params = notification.params
            honored = params.notifications.model_copy(update={TASK_IDS: list(self._tasks)})
            params = params.model_copy(update={"notifications": honored})
            notification = notification.model_copy(update={"params": params})
        await self._session.send_notification(notification, related_request_id)
        self.acknowledged.set()


class _TaskNotification:
    """A notification about one task. The SDK has no model for it, and drops null fields of models; `ttlMs` may be null."""

    def __init__(self, params: dict[str, Any]) -> None:
        self._params = params

    def model_dump(self, **_how: object) -> dict[str, Any]:
        return {"method": TOLD, "params": self._params}


def _named(asked: SubscriptionFilter) -> list[str]:
    """Return the ids in `taskIds`, each once."""
    named = (asked.model_extra or {}).get(TASK_IDS) or []
    if not isinstance(named, list) or not all(isinstance(task, str) for task in named) or len(named) > MOST_LISTENED:
        raise MCPError(INVALID_PARAMS, f"{TASK_IDS} must be a list of at most {MOST_LISTENED} task ids")
    return list(dict.fromkeys(named))
