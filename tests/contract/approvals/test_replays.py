"""An answered form allows one execution of exactly the call shown: not two, not another call, not for another host."""

from __future__ import annotations

import random
import string
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, ElicitResult, InputRequiredResult, InputResponses

from mcp_server.app.knowledge_base import open_state, utc_now
from mcp_server.app.settings.settings import Settings
from mcp_server.gate.host_registration import Principal, enrol, os_user
from mcp_server.gate.trust.scores import grant
from tests.contract.gate.test_trust_gradient import Forms, connected
from tests.support.hosts.reviewers import reviewing
from tests.support.hosts.writers import allow_forms
from tests.support.knowledge_bases.folders import write
from tests.support.roads.road import connect, opened, over_http

pytestmark = pytest.mark.security

PAGE, TEXT = "page.md", "# Page\n\nFirst.\n"
YES: InputResponses = {"decision": ElicitResult(action="accept", content={"decision": "approve"})}
PROCESSES = 3
FEW, MANY = 1000, 10_000


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(kb=write(tmp_path / "kb", {PAGE: TEXT}), state_dir=tmp_path / "state")


async def host(settings: Settings, name: str, level: float = 2) -> str:
    async with open_state(settings) as state:
        secret = await enrol(state, name, now=utc_now())
        await allow_forms(state, name)
        await grant(state, Principal(os_user(), name).id, level, by="ann", now=utc_now())
    return secret


async def asked(client: Client, line: str) -> tuple[dict[str, Any], str]:
    """Return the arguments of a call that asks, and the state of its question."""
    read = await client.call_tool("kb_read", {"path": PAGE})
    base = dict(read.structured_content or {})["revision"]
    arguments = {"path": PAGE, "content": f"{TEXT}\n{line}\n", "base_revision": base}
    question = await client.session.call_tool("kb_merge", arguments, allow_input_required=True)
    assert isinstance(question, InputRequiredResult)
    assert question.request_state
    return arguments, question.request_state


async def answered(
    client: Client, arguments: dict[str, Any], state: str, answer: InputResponses | None = None
) -> CallToolResult:
    result = await client.session.call_tool(
        "kb_merge", arguments, input_responses=answer or YES, request_state=state, allow_input_required=True
    )
    assert isinstance(result, CallToolResult)
    return result


@pytest.mark.parametrize("replays", [60, pytest.param(1000, marks=pytest.mark.slow)])
async def test_any_number_of_replays_from_three_processes_are_one_execution(settings: Settings, replays: int) -> None:
    """1,000 concurrent replays of one approval from 3 processes: exactly 1 execution."""
    secret = await host(settings, "host")
    async with AsyncExitStack() as stack:
        person = await stack.enter_async_context(reviewing(settings))
        clients = []
        for _ in range(PROCESSES):  # over HTTP, servers of this process; several processes: test_round_robin.py
            way = beside(settings, secret) if over_http() else connected(settings, secret, "stdio", "auto", Forms())
            clients.append(await stack.enter_async_context(way))
        arguments, state = await asked(clients[0], "Once.")
        results: list[CallToolResult] = []

        async def replay(client: Client) -> None:
            results.append(await answered(client, arguments, state))

        async with anyio.create_task_group() as tasks:
            for number in range(replays):
                tasks.start_soon(replay, clients[number % PROCESSES])
        assert len(results) == replays
        told = {str((result.structured_content or {}).get("status")) for result in results}
        assert told == {"done"}
        revisions = {str((result.structured_content or {}).get("revision")) for result in results}
        assert len(revisions) == 1
        (proposal,) = await person.app.base.state.trust.proposals()
        assert len(await person.acts(proposal.id)) == 1
    assert (settings.kb / PAGE).read_text(encoding="utf-8").count("Once.") == 1


@asynccontextmanager
async def beside(settings: Settings, secret: str) -> AsyncIterator[Client]:
    async with (
        opened(replace(settings, enrolment=secret), indexing=False) as app,
        connect(app, elicitation_callback=Forms()) as client,
    ):
        yield client


@pytest.mark.parametrize("mutations", [FEW, pytest.param(MANY, marks=pytest.mark.slow)])
async def test_no_mutation_of_an_answered_call_runs(settings: Settings, mutations: int) -> None:
    """10,000 random mutations of an approved call: 0 run. Tampered and foreign-principal `request_state`: rejected."""
    chance = random.Random(7)  # noqa: S311 - what to change, not a secret
    mine, theirs = await host(settings, "mine"), await host(settings, "theirs")
    async with beside(settings, mine) as client, beside(settings, theirs) as stranger:
        arguments, state = await asked(client, "Agreed.")
        with pytest.raises(MCPError, match="requestState"):
            await answered(stranger, arguments, state)
        for _ in range(mutations):
            changed, token = mutated(chance, arguments, state)
            with pytest.raises(MCPError):
                await answered(client, changed, token)
        assert (settings.kb / PAGE).read_text(encoding="utf-8") == TEXT
        done = await answered(client, arguments, state)
        assert dict(done.structured_content or {})["status"] == "done"
        assert (settings.kb / PAGE).read_text(encoding="utf-8").count("Agreed.") == 1


def mutated(chance: random.Random, arguments: dict[str, Any], state: str) -> tuple[dict[str, Any], str]:
    """Return the call with one thing changed: a character of the state, or part of the arguments."""
    letter = chance.choice(string.ascii_letters + string.digits)
    kind = chance.randrange(4)
    if kind == 0:
        at = chance.randrange(len(state))
        changed = state[:at] + letter + state[at + 1 :]
        return arguments, changed if changed != state else state[:-1]
    if kind == 1:
        at = chance.randrange(len(arguments["content"]))
        text = arguments["content"]
        return {**arguments, "content": text[:at] + letter + text[at:]}, state
    if kind == 2:
        return {**arguments, "path": f"{letter}/{PAGE}"}, state
    name, value = chance.choice(
        [("source", f"code:{letter}"), ("intent", letter), ("section", letter), ("authority", 0.5)]
    )
    return {**arguments, name: value}, state


async def test_a_question_that_was_answered_too_late_is_rejected(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_server.app.factories.protocol_server.QUESTION_S", 0.2)
    secret = await host(settings, "host")
    async with beside(settings, secret) as client:
        arguments, state = await asked(client, "Late.")
        await anyio.sleep(1.3)
        with pytest.raises(MCPError, match="requestState"):
            await answered(client, arguments, state)
    assert (settings.kb / PAGE).read_text(encoding="utf-8") == TEXT


async def test_a_form_that_was_dismissed_leaves_the_proposal_waiting_and_one_declined_rejects_it(
    settings: Settings,
) -> None:
    secret = await host(settings, "host")
    async with beside(settings, secret) as client, reviewing(settings) as person:
        arguments, state = await asked(client, "Maybe.")
        dismissed: InputResponses = {"decision": ElicitResult(action="cancel")}
        told = dict((await answered(client, arguments, state, dismissed)).structured_content or {})
        assert (told["status"], told["proposal"]["state"]) == ("proposed", "pending")
        declined: InputResponses = {"decision": ElicitResult(action="decline")}
        told = dict((await answered(client, arguments, state, declined)).structured_content or {})
        assert (told["status"], told["proposal"]["state"]) == ("proposed", "rejected")
        told = dict((await answered(client, arguments, state)).structured_content or {})
        assert told["proposal"]["state"] == "rejected"
        assert not await person.waiting()
    assert (settings.kb / PAGE).read_text(encoding="utf-8") == TEXT
