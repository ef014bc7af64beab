"""Every tool that acts, over every transport and era, one level below its requirement.

Nothing happens before a person approves.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import product
from pathlib import Path
from typing import Any

import anyio
import jsonschema
import pytest
from mcp import Client, StdioServerParameters
from mcp.client import ClientRequestContext
from mcp.client.stdio import stdio_client
from mcp_types import ElicitRequestParams, ElicitResult, TextContent

from mcp_server.app.composition import open_app
from mcp_server.app.knowledge_base import open_state, utc_now
from mcp_server.app.settings.settings import Settings
from mcp_server.app.settings.values import HttpAddress
from mcp_server.gate.host_registration import Principal, enrol, os_user
from mcp_server.gate.trust.scores import grant
from tests.support.hosts.reviewers import Reviewer, reviewing
from tests.support.hosts.writers import allow_forms
from tests.support.knowledge_bases.folders import write

ROOT = Path(__file__).parents[3]
PAGES = {
    "merge.md": "# Merge\n\nOne.\n",
    "move.md": "# Move\n",
    "delete.md": "# Delete\n",
    "revert.md": "# Revert\n\nNow.\n",
}
ERAS = ("auto", "legacy")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(kb=write(tmp_path / "kb", PAGES), state_dir=tmp_path / "state")


PAIRWISE = (
    ("stdio", ERAS[0], True),
    ("stdio", ERAS[1], False),
    ("http", ERAS[0], False),
    ("http", ERAS[1], True),
)


class Forms:
    """A host that accepts every form by itself."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def __call__(self, context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        del context
        self.seen.append(params.message)
        return ElicitResult(action="accept", content={"decision": "approve"})


@asynccontextmanager
async def connected(
    settings: Settings, secret: str, transport: str, era: str, forms: Forms | None
) -> AsyncIterator[Client]:
    """Connect to a server process over stdio, or to one over HTTP."""
    arguments = ["-m", "mcp_server", "serve", "--kb", str(settings.kb), "--state-dir", str(settings.state_dir)]
    if transport == "stdio":
        env = {**os.environ, "FORGE_ENROLMENT": secret, "FORGE_OPEN_BROWSER": "0"}
        server = StdioServerParameters(command=sys.executable, args=arguments, env=env, cwd=ROOT)
        async with Client(stdio_client(server), mode=era, elicitation_callback=forms) as client:
            yield client
        return
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared._httpx_utils import create_mcp_http_client

    async with (
        serving(settings) as address,
        create_mcp_http_client(headers={"authorization": f"Bearer {secret}"}) as http,
    ):
        wire = streamable_http_client(f"http://{address}/mcp", http_client=http)
        async with Client(wire, mode=era, elicitation_callback=forms) as client:
            yield client


@asynccontextmanager
async def serving(settings: Settings, **more: Any) -> AsyncIterator[HttpAddress]:
    """Serve HTTP in this process on a free port."""
    import uvicorn

    from mcp_server.transport.http import http_app
    from mcp_server.transport.shared_port import bound

    async with open_app(settings, indexing=False, **more) as app:
        with bound(HttpAddress("127.0.0.1", 0)) as listening:
            config = uvicorn.Config(http_app(app.server), log_level="warning", access_log=False, ws="none")
            server = uvicorn.Server(config)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(server.serve, [listening])
                yield HttpAddress("127.0.0.1", listening.getsockname()[1])
                server.should_exit = True


async def call(client: Client, tool: str, **arguments: object) -> dict[str, Any]:
    result = await client.call_tool(tool, dict(arguments))
    assert isinstance(result.content[0], TextContent)
    assert not result.is_error, result.content[0].text
    return dict(result.structured_content or {})


async def acting(client: Client, person: Reviewer) -> dict[str, tuple[int, dict[str, object]]]:
    """Return, by tool, the level below its requirement and a call of it."""
    # The host takes back what it wrote itself: what a person wrote would need more.
    before = await revision(client, "revert.md")
    await grant(person.app.base.state, Principal(os_user(), "host").id, 3, by="ann", now=utc_now())
    changed = {"content": "# Revert\n\nThen.\n", "base_revision": before, "section": "*"}
    assert (await call(client, "kb_merge", path="revert.md", **changed))["status"] == "done"
    merged = {
        "path": "merge.md",
        "content": "# Merge\n\nOne, and two.\n",
        "base_revision": await revision(client, "merge.md"),
    }
    return {
        "kb_merge": (2, dict(merged)),
        "kb_revert": (2, {"path": "revert.md", "revision": before}),
        "kb_move": (3, {"path": "move.md", "to": "moved.md"}),
        "kb_delete": (3, {"path": "delete.md", "base_revision": await revision(client, "delete.md")}),
    }


async def revision(client: Client, path: str) -> str:
    return str((await call(client, "kb_read", path=path))["revision"])


def files(settings: Settings) -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(settings.kb.rglob("*.md"))}


@pytest.mark.parametrize(
    ("transport", "era", "forms"),
    [
        # By default each pair of values occurs once; the other combinations run with the external tests.
        pytest.param(*way, marks=[] if way in PAIRWISE else pytest.mark.external)
        for way in product(("stdio", "http"), ERAS, (False, True))
    ],
)
async def test_below_the_level_nothing_happens_before_a_yes_and_then_once(
    settings: Settings, transport: str, era: str, *, forms: bool
) -> None:
    """Every tool x stdio/HTTP x both eras x with and without elicitation, one level below the requirement."""
    asked = Forms() if forms else None
    me = Principal(os_user(), "host").id
    async with open_state(settings) as state:
        secret = await enrol(state, "host", now=utc_now())
        await allow_forms(state, "host")
    async with reviewing(settings) as person, connected(settings, secret, transport, era, asked) as client:
        schemas = {tool.name: tool.output_schema or {} for tool in (await client.list_tools()).tools}
        for tool, (level, arguments) in (await acting(client, person)).items():
            await grant(person.app.base.state, me, level, by="ann", now=utc_now())
            before = files(settings)
            answer = await call(client, tool, **arguments)
            jsonschema.validate(answer, schemas[tool])
            proposal_id = answer["proposal"]["id"]
            if asked is not None and level == 2:
                assert answer["status"] == "done"
                verdict = (await person.proposal(proposal_id)).verdict
                assert verdict is not None
                assert verdict.channel == "host"
                assert await person.score(me) == level  # no form raises it
            else:
                assert answer["status"] == "proposed"
                assert files(settings) == before
                assert not await person.acts(proposal_id)
                assert (await person.approve(proposal_id)).state == "executed"
                told = (await call(client, "proposal_status", proposal_id=proposal_id, wait_seconds=5))["proposal"]
                jsonschema.validate(told["result"], schemas[tool])
                assert told["result"]["status"] == "done"
            assert files(settings) != before
            assert len(await person.acts(proposal_id)) == 1
        if asked is not None:
            assert len(asked.seen) == 2


async def test_a_host_that_accepts_every_form_approves_nothing_from_level_4_up(settings: Settings) -> None:
    """A client that accepts every form: 0 approvals from level 4 up."""
    forms = Forms()
    async with open_state(settings) as state:
        secret = await enrol(state, "host", now=utc_now())
        await allow_forms(state, "host")
        await grant(state, Principal(os_user(), "host").id, 3.9, by="ann", now=utc_now())
    async with reviewing(settings) as person, connected(settings, secret, "stdio", "auto", forms) as client:
        base = await revision(client, "delete.md")
        for _ in range(20):
            assert (await call(client, "kb_delete", path="delete.md", base_revision=base))["status"] == "proposed"
            assert (await call(client, "kb_move", path="move.md", to="moved.md"))["status"] == "proposed"
        assert not forms.seen
        assert len(await person.waiting()) == 2
        assert set(files(settings)) == set(PAGES)
