"""Our real server over HTTP with the tools that the conformance suite's scenarios of the Tasks extension call.

Here a call becomes a task by waiting for a person, so each of these waits for one, who approves after the time that the
tool is to take.

python -m tests.external.task_server PORT KNOWLEDGE_BASE STATE_DIR
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import anyio
import uvicorn
from mcp_types import ContentBlock
from starlette.types import ASGIApp, Receive, Scope, Send

from mcp_server.app.composition import App, open_app
from mcp_server.app.dependencies import Services
from mcp_server.app.knowledge_base import utc_now
from mcp_server.app.settings.access import HttpAccess
from mcp_server.app.settings.loader import load
from mcp_server.approvals.approvers import Approver, CannotDecide
from mcp_server.approvals.proposals import calls_of
from mcp_server.gate.caller import Call
from mcp_server.gate.host_registration import enrol
from mcp_server.gate.policy import Trust
from mcp_server.toolsets.spec import Arguments, CallPlan, CallPreview, ToolSpec
from mcp_server.transport.http import http_app
from tests.external.fixture_offers import extend
from tests.external.fixture_tools import Request
from tests.external.fixtures import IntendedFailure, spec, text
from tests.support.hosts.writers import allow_forms
from tests.support.roads.road import PUBLIC_URL

LOOK_S = 0.05


class Greeted(Arguments):
    """Arguments of greet."""

    name: str


class Slow(Arguments):
    """Arguments of slow_compute."""

    seconds: float = 0
    label: str = ""


class Failing(Arguments):
    """Arguments of failing_job."""

    label: str = ""


class Deleting(Arguments):
    """Arguments of confirm_delete."""

    filename: str


@dataclass(frozen=True, slots=True)
class Done:
    """What they answer."""

    status: str
    said: str
    proposal: Mapping[str, Any] | None = None


async def greet(_request: Request, asked: Greeted) -> list[ContentBlock]:
    return [text(f"Hello, {asked.name}!")]


async def planned(_services: Services, _call: Call, asked: Slow | Failing | Deleting) -> CallPlan[Done]:
    async def execute(_call: Call) -> Done:
        if isinstance(asked, Failing):
            raise IntendedFailure("this job always fails")
        return Done("done", f"computed {asked.label}" if isinstance(asked, Slow) else f"deleted {asked.filename}")

    told = json.dumps(asked.model_dump())
    return CallPlan(execute=execute, preview=CallPreview(Done("analysis", ""), told, effect=told, documents=()))


TOOLS = (
    spec("greet", "Greets.", greet, Greeted),
    ToolSpec[Any, Slow, Done](
        "slow_compute",
        "Compute slowly",
        Trust.ROUTINE,
        "fixtures",
        "Takes seconds.",
        Slow,
        Done,
        plan=planned,
    ),
    ToolSpec[Any, Failing, Done](
        "failing_job",
        "Fail",
        Trust.ROUTINE,
        "fixtures",
        "Fails.",
        Failing,
        Done,
        plan=planned,
    ),
    ToolSpec[Any, Deleting, Done](
        "confirm_delete",
        "Delete",
        Trust.EDIT,
        "fixtures",
        "A person is asked first: by a form of the call, where the client shows forms.",
        Deleting,
        Done,
        plan=planned,
    ),
)


async def agree(app: App) -> None:
    """Approve every call after the time that it is to take, forever."""
    state, seen = app.services.state, set[str]()
    async with anyio.create_task_group() as group:
        while True:
            for proposal in await state.trust.proposals(states=("pending",)):
                if proposal.id not in seen:
                    seen.add(proposal.id)
                    group.start_soon(_agree, app, proposal.id)
            await anyio.sleep(LOOK_S)


async def _agree(app: App, proposal_id: str) -> None:
    proposal = await app.services.state.trust.proposal(proposal_id)
    assert proposal is not None
    await anyio.sleep(float(calls_of(proposal)[-1].get("seconds", 0.5)))
    with suppress(CannotDecide):  # the call was cancelled in the meantime
        await app.approvals.approve(proposal_id, proposal.hash, Approver("the suite", "terminal"))


def authorized(app: ASGIApp, token: str) -> ASGIApp:
    """Return an application for clients that send no token: each request gets this one."""

    async def with_token(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope = {**scope, "headers": [*scope["headers"], (b"authorization", f"Bearer {token}".encode())]}
        await app(scope, receive, send)

    return with_token


async def serve(port: int, kb: str, state_dir: str) -> None:
    """Serve until the process is stopped."""
    settings = load({"kb": kb, "state_dir": state_dir}, {})
    async with open_app(settings, extra_tools=TOOLS, extend=extend) as app, anyio.create_task_group() as group:
        group.start_soon(agree, app)
        token = await enrol(app.base.state, "suite", now=utc_now())
        await allow_forms(
            app.base.state, "suite"
        )  # the suite answers the form of a call, and has no setting for a token
        config = uvicorn.Config(
            authorized(http_app(app.server, HttpAccess(PUBLIC_URL)), token),
            host="127.0.0.1",
            port=port,
            log_level="warning",
            access_log=False,
            ws="none",
        )
        await uvicorn.Server(config).serve()
        group.cancel_scope.cancel()


def main() -> None:
    """Serve what the command line names."""
    port, kb, state_dir = sys.argv[1:]
    anyio.run(serve, int(port), kb, state_dir)


if __name__ == "__main__":
    main()
