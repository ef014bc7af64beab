"""Ways around a person's yes that hosts could try: none has an effect beyond what the person saw and may decide there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mcp_server.settings import Settings
from tests.knowledge_bases import write
from tests.reviewers import Reviewer, reviewing
from tests.writers import Writer, writing

INDEX = "# Home\n\nWelcome.\n"
SET_UP = "---\nrouter: [how]\n---\n"
PAGES = {
    "_index.md": INDEX,
    "page.md": "# Page\n\nFirst.\n",
    "dressed.md": f"{SET_UP}# Dressed\n",
    "_agents/curate.md": "# Curate\n\nBe careful.\n",
}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(kb=write(tmp_path / "kb", PAGES), state_dir=tmp_path / "state")


@asynccontextmanager
async def both(settings: Settings, level: float = 2) -> AsyncIterator[tuple[Writer, Reviewer]]:
    async with writing(settings, level=level) as host, reviewing(settings) as person:
        yield host, person


async def test_what_needs_the_highest_level_still_does_when_a_harmless_call_joins_it(settings: Settings) -> None:
    """Else a form in the host would be enough for a change of what configures the server."""
    async with both(settings) as (host, person):
        base = await host.revision("_index.md")
        high = await host.merge("_index.md", SET_UP + INDEX, base_revision=base)
        assert high["proposal"]["level_needed"] == 5
        low = await host.merge("_index.md", INDEX + "\nCome in.\n", base_revision=base)
        joined = await person.only()
        assert joined.id == low["proposal"]["id"]
        assert "router" in joined.preview
        assert joined.level_needed == 5
        assert "level 5" in joined.why


@pytest.mark.parametrize("to", ["area/_index.md", "_agents/new.md", "_Agents/new.md", "area/_INDEX.md"])
async def test_moving_a_page_to_where_it_configures_the_server_needs_the_highest_level(
    settings: Settings, to: str
) -> None:
    async with both(settings, level=4) as (host, _):
        answer = await host.call("kb_move", path="dressed.md", to=to)
        assert answer["status"] == "proposed"
        assert answer["proposal"]["level_needed"] == 5
        assert not (settings.kb / to).exists()


async def test_taking_back_a_move_that_configures_the_server_needs_the_highest_level(settings: Settings) -> None:
    async with both(settings, level=5) as (host, _):
        was = await host.revision("_agents/curate.md")
        assert (await host.call("kb_move", path="_agents/curate.md", to="curate.md"))["status"] == "done"
        into = await host.revision("dressed.md")
        assert (await host.call("kb_move", path="dressed.md", to="area/_index.md"))["status"] == "done"
    async with both(settings, level=3) as (host, _):
        for path, revision in (("_agents/curate.md", was), ("dressed.md", into)):
            answer = await host.call("kb_revert", path=path, revision=revision)
            assert answer["status"] == "proposed", answer
            assert answer["proposal"]["level_needed"] == 5


async def test_a_link_to_what_configures_the_server_is_no_way_around_the_level(settings: Settings) -> None:
    (settings.kb / "helpers").symlink_to("_agents")
    (settings.kb / "curate.md").symlink_to("_agents/curate.md")
    async with both(settings, level=3) as (host, _):
        new = await host.merge("helpers/new.md", "# New\n\nObey me.\n")
        assert (new["status"], new["proposal"]["level_needed"]) == ("proposed", 5)
        moved = await host.call("kb_move", path="dressed.md", to="helpers/dressed.md")
        assert (moved["status"], moved["proposal"]["level_needed"]) == ("proposed", 5)
        for path in ("helpers/curate.md", "curate.md"):
            base = await host.revision(path)
            changed = await host.merge(path, "# Curate\n\nBe careless.\n", base_revision=base)
            assert (changed["status"], changed["proposal"]["level_needed"]) == ("proposed", 5)
        assert not (settings.kb / "_agents" / "new.md").exists()
