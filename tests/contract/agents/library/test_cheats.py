"""Honest works and cheats, led through a real server: no honest work is refused on content, and no cheat reaches the end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agents.catalogue import built_in
from agents.engine.agent import Agent
from mcp_server.app.settings.settings import Settings
from tests.support.agents.adversary import PAGES, carry_out
from tests.support.agents.cheats import CHEATS
from tests.support.agents.cognitive.steps import own
from tests.support.agents.honest_works import ENDS, HONEST
from tests.support.agents.small_agents import Only
from tests.support.agents.team_agents import HANDBOOK, read
from tests.support.hosts.writers import Writer, let_in
from tests.support.knowledge_bases.folders import write
from tests.support.roads.road import connect, opened

OWN = ("clarification", "research-cognitive", "analysis", "synthesis", "generation", "validation")


def agents() -> list[Agent]:
    """Return the agents of the works; of cognitive ones their own steps."""
    decide = read((HANDBOOK / "_agents" / "decide.yaml").read_text(encoding="utf-8"), file="_agents/decide.yaml").agent
    assert decide is not None
    return [*map(built_in, ("research", "build", "understand")), *map(own, OWN), decide]


@asynccontextmanager
async def hosting(home: Path) -> AsyncIterator[Writer]:
    settings = await let_in(Settings(kb=write(home / "kb", dict(PAGES)), state_dir=home / "state"), "desktop", level=3)
    async with opened(settings, announcing=False, agents=Only(*agents())) as app, connect(app) as client:
        yield Writer(client, app, settings.kb)


@pytest.mark.slow
async def test_forty_honest_works_are_not_refused(tmp_path: Path) -> None:
    """Issue 25: short but true answers, numbers, code, tables, other scripts, words and quotes that are shared for a reason."""
    assert len(HONEST) >= 40
    assert len({work.name for work in HONEST}) == len(HONEST)
    async with hosting(tmp_path) as host:
        refused = dict[str, str]()
        for work in HONEST:
            came = await carry_out(host, work)
            if came.state != "complete" and came.phase != ENDS.get(work.agent):
                refused[work.name] = f"{came.phase}: {came.told[-600:]}"
    assert not refused, "\n\n".join(f"{name} -> {told}" for name, told in refused.items())


@pytest.mark.slow
async def test_no_cheat_reaches_the_end(tmp_path: Path) -> None:
    """Issue 25: forty ways of cheating; each is stopped by a sentence that says why."""
    assert len(CHEATS) >= 40
    assert len({cheat.name for cheat in CHEATS}) == len(CHEATS)
    async with hosting(tmp_path) as host:
        wrong = dict[str, str]()
        for cheat in CHEATS:
            came = await carry_out(host, cheat)
            there = came.state == "complete" or came.phase == ENDS.get(cheat.agent)
            if there or cheat.refused not in came.told:
                wrong[cheat.name] = "reached the end" if there else f"{came.phase}: {came.told[-500:]}"
    assert not wrong, "\n\n".join(f"{name} -> {told}" for name, told in wrong.items())
