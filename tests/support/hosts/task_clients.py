"""A client with tasks, as the SDK's client extensions are written.

It polls until a task is over, and answers its questions.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal

import anyio
import httpx
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match
from mcp.client.extension import ClaimContext, ClientExtension, NotificationBinding, ResultClaim
from mcp.client.session import ClientSession
from mcp_types import CallToolResult, Request, RequestParams, Result
from pydantic import BaseModel, ConfigDict

from mcp_server.app.composition import App
from mcp_server.transport.http import http_app
from tests.support.roads.road import address, over_http

IDENTIFIER = "io.modelcontextprotocol/tasks"
PATIENCE_S = 60.0
OVER = ("completed", "cancelled", "failed")
Answer = Callable[[str, Mapping[str, Any]], "Mapping[str, Any] | None"]
"""Answers a task's question by its key and request; None leaves it open."""


class Handle(Result):
    """The answer of a call that became a task."""

    model_config = ConfigDict(alias_generator=Result.model_config["alias_generator"], extra="allow")
    result_type: Literal["task"] = "task"
    task_id: str
    status: str


class _Params(RequestParams):
    task_id: str


class _UpdateParams(_Params):
    input_responses: dict[str, Any]


class _Get(Request[_Params, Literal["tasks/get"]]):
    name_param: ClassVar[str | None] = "taskId"
    method: Literal["tasks/get"] = "tasks/get"
    params: _Params


class _Update(Request[_UpdateParams, Literal["tasks/update"]]):
    name_param: ClassVar[str | None] = "taskId"
    method: Literal["tasks/update"] = "tasks/update"
    params: _UpdateParams


class _Cancel(Request[_Params, Literal["tasks/cancel"]]):
    name_param: ClassVar[str | None] = "taskId"
    method: Literal["tasks/cancel"] = "tasks/cancel"
    params: _Params


class Told(Result):
    """The server's answer about a task."""

    model_config = ConfigDict(alias_generator=Result.model_config["alias_generator"], extra="allow")


class Noted(BaseModel):
    """A notification about a task."""

    model_config = ConfigDict(extra="allow")


async def task_get(session: ClientSession, task: str) -> dict[str, Any]:
    told = await session.send_request(_Get(params=_Params(task_id=task)), Told)
    return told.model_dump(by_alias=True, exclude={"meta"})


async def task_update(session: ClientSession, task: str, **answers: Any) -> dict[str, Any]:
    params = _UpdateParams(task_id=task, input_responses=answers)
    return (await session.send_request(_Update(params=params), Told)).model_dump(by_alias=True, exclude={"meta"})


async def task_cancel(session: ClientSession, task: str) -> dict[str, Any]:
    told = await session.send_request(_Cancel(params=_Params(task_id=task)), Told)
    return told.model_dump(by_alias=True, exclude={"meta"})


async def task_until(session: ClientSession, task: str, *statuses: str) -> dict[str, Any]:
    """Return the task once it has one of these statuses; a test polls more often than a client should."""
    with anyio.fail_after(PATIENCE_S):
        while True:
            told = await task_get(session, task)
            if told["status"] in statuses:
                return told
            assert told["status"] not in OVER, told
            await anyio.sleep(0.02)


class Ended(Exception):
    """A task did not complete."""


@dataclass(eq=False)
class KnowsTasks(ClientExtension):
    """Finishes calls that became tasks; if it doesn't wait for them, their result is an empty error.

    `answer` is the person, `handles` are the received ones, `noted` the notifications.
    """

    answer: Answer | None = None
    waits: bool = True
    handles: list[dict[str, Any]] = field(default_factory=list)
    noted: list[dict[str, Any]] = field(default_factory=list)
    _news: anyio.Event = field(default_factory=anyio.Event)
    identifier: str = IDENTIFIER

    def claims(self) -> Sequence[ResultClaim[Any]]:
        return (ResultClaim(result_type="task", model=Handle, resolve=self._finish),)

    def notifications(self) -> Sequence[NotificationBinding[Any]]:
        return (NotificationBinding(method="notifications/tasks", params_type=Noted, handler=self._note),)

    async def _note(self, noted: Noted) -> None:
        self.noted.append(dict(noted.model_extra or {}))
        self._news.set()

    async def told(self) -> None:
        """Return at the next notification."""
        self._news = anyio.Event()
        await self._news.wait()

    async def _finish(self, handle: Handle, ctx: ClaimContext) -> CallToolResult:
        self.handles.append(handle.model_dump(by_alias=True))
        answered: set[str] = set()
        while self.waits:
            told = await task_until(ctx.session, handle.task_id, "completed", "cancelled", "failed", "input_required")
            if told["status"] == "completed":
                return CallToolResult.model_validate(told["result"])
            if told["status"] != "input_required":
                raise Ended(told["status"])
            for key, request in told["inputRequests"].items():
                answer = self.answer(key, request) if self.answer and key not in answered else None
                if answer is not None:
                    answered.add(key)
                    await task_update(ctx.session, handle.task_id, **{key: answer})
            await anyio.sleep(0.02)
        return CallToolResult(content=[], is_error=True)


def accepting(**content: Any) -> dict[str, Any]:
    return {"action": "accept", "content": content}


SCHEMA: dict[str, Any] = json.loads((Path(__file__).parents[2] / "samples" / "tasks" / "schema.json").read_text())
"""The schema of a server's messages, from the extension's own repository."""
VERSION = "2026-07-28"
META = "io.modelcontextprotocol/"


def fitting(kind: str, message: Mapping[str, Any]) -> None:
    """Fail if the message doesn't match the extension's own schema for that kind."""
    error = best_match(_wanted(kind).iter_errors(message))
    assert error is None, error


@cache
def _wanted(kind: str) -> Draft202012Validator:
    schema = {"$ref": f"#/$defs/{kind}", "$defs": SCHEMA["$defs"]}
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


@dataclass(frozen=True)
class Wire:
    """A client that speaks the 2026 protocol over HTTP by hand, as the holder of `secret`."""

    http: httpx.AsyncClient
    secret: str
    tasks: bool = True
    forms: bool = False

    async def post(
        self, method: str, params: Mapping[str, Any], *, named: str | None = None, version: str = VERSION
    ) -> dict[str, Any]:
        """Return the whole answer to a request; `named` is its `Mcp-Name` header, by default the name in its body."""
        capabilities: dict[str, Any] = {"extensions": {IDENTIFIER: {}}} if self.tasks else {}
        capabilities |= {"elicitation": {"form": {}}} if self.forms else {}
        meta = {f"{META}protocolVersion": version, f"{META}clientCapabilities": capabilities}
        name = (params.get("taskId") or params.get("name")) if named is None else named
        headers = {
            "accept": "application/json, text/event-stream",
            **({"authorization": f"Bearer {self.secret}"} if self.secret else {}),
            "mcp-protocol-version": version,
            "mcp-method": method,
            **({"mcp-name": str(name)} if name else {}),
        }
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
        answer = await self.http.post("/mcp", json=body, headers=headers)
        text = answer.text
        if answer.headers["content-type"].startswith("text/event-stream"):
            text = next(line for line in text.splitlines() if line.startswith("data: {")).removeprefix("data: ")
        told: dict[str, Any] = json.loads(text)
        return told

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Return the result of a request."""
        told = await self.post(method, params)
        assert "result" in told, told
        result: dict[str, Any] = told["result"]
        return result

    async def error(self, method: str, **params: Any) -> dict[str, Any]:
        """Return a request's error."""
        told = await self.post(method, params)
        assert "error" in told, told
        error: dict[str, Any] = told["error"]
        return error

    async def tool(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        """Return the result of a call of that tool."""
        return await self.ask("tools/call", name=name, arguments=arguments)

    async def until(self, task: str, *statuses: str) -> dict[str, Any]:
        """Return the task once it has one of these statuses."""
        with anyio.fail_after(PATIENCE_S):
            while True:
                told = await self.ask("tasks/get", taskId=task)
                fitting("GetTaskResult", told)
                if told["status"] in statuses:
                    return told
                assert told["status"] not in OVER, told
                await anyio.sleep(0.02)


@asynccontextmanager
async def wired(app: App, secret: str) -> AsyncIterator[Wire]:
    """Yield a client that speaks to that server by hand."""
    if over_http():
        async with httpx.AsyncClient(base_url=address(app).removesuffix("/mcp"), timeout=PATIENCE_S) as http:
            yield Wire(http, secret)
        return
    transport = httpx.ASGITransport(http_app(app.server))
    async with (
        app.server.session_manager.run(),
        httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8321") as http,
    ):
        yield Wire(http, secret)
