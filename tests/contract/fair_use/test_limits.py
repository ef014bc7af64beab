"""Limits on the calls of one caller, as a client over HTTP meets them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from mcp.shared.exceptions import MCPError

from knowledge.errors import TooManyAtOnce
from mcp_server.app.settings.settings import Settings
from mcp_server.fair_use.admission import FairUse
from mcp_server.fair_use.limits import FOR_A_TEAM, CallLimits
from tests.contract.gate.test_tokens import ANN, holding, refused
from tests.contract.gate.test_trust_gradient import ERAS, call
from tests.support.knowledge_bases.folders import write

PAGES = {"page.md": "# Page\n\nFirst.\n"}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(kb=write(tmp_path / "kb", PAGES), state_dir=tmp_path / "state", open_browser=False)


def test_one_persons_program_has_no_limits_and_a_teams_server_has() -> None:
    alone = Settings(kb=Path("/kb"))
    assert alone.call_limits == CallLimits()
    team = replace(alone, http_url="https://kb.example.com/mcp")
    assert team.call_limits == FOR_A_TEAM
    assert replace(team, limit_calls=None).call_limits == replace(FOR_A_TEAM, calls=None)
    assert replace(alone, limit_heavy=7).call_limits == CallLimits(heavy=7)


@pytest.mark.parametrize("era", ERAS)
async def test_a_call_beyond_a_limit_says_which_when_to_try_again_and_that_nothing_was_done(
    settings: Settings, era: str
) -> None:
    """Decision 116."""
    async with holding(replace(settings, limit_heavy=2, limit_calls=100), era) as (app, client):
        for _ in range(2):
            await call(client, "kb_search", query="first")
        new = {"path": "new.md", "content": "# New\n"}
        said = await refused(client, "kb_merge", **new)
        assert said.startswith(
            f"kb_merge: {ANN} has searched or changed pages 2 times in the last minute, of 2 a minute allowed."
        )
        assert ". Nothing was done. Try again at " in said
        assert said.endswith("or a person can raise FORGE_LIMIT_HEAVY")
        assert not await app.base.state.trust.lines(limit=1)
        assert "First." in (await call(client, "kb_read", path="page.md"))["text"]


async def test_resources_and_lists_count_as_calls(settings: Settings) -> None:
    async with holding(replace(settings, limit_calls=3), ERAS[0]) as (_, client):
        for _ in range(3):
            with suppress(MCPError):  # connecting may count, too
                await client.read_resource("kb://doc/page.md")
        with pytest.raises(MCPError, match=r"resources/read: .* has made 3 calls in the last minute") as error:
            await client.read_resource("kb://doc/page.md")
        assert "Nothing was done" in str(error.value)
        with pytest.raises(MCPError, match=r"tools/list: .*FORGE_LIMIT_CALLS"):
            await client.list_tools()


async def test_calls_at_once_are_limited_and_a_caller_that_was_answered_may_call_again() -> None:
    fair, end = FairUse(most_at_once=2), anyio.Event()

    async def hold() -> None:
        async with fair.admitted("ann", "none"):
            await end.wait()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(hold)
        tasks.start_soon(hold)
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(
            TooManyAtOnce, match=r"^ann has 2 calls in progress, .* Nothing was done\. .* FORGE_LIMIT_AT_ONCE$"
        ):
            async with fair.admitted("ann", "read"):
                pass
        async with fair.admitted("bob", "read"):
            pass
        end.set()
    async with fair.admitted("ann", "read"):
        pass
