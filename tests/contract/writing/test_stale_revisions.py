"""A host that continues from an answer's revision removes nothing that others wrote meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mcp_server.app.settings.settings import Settings
from tests.support.hosts.writers import writing
from tests.support.knowledge_bases.folders import write

PAGE = "plan.md"
TEXT = "---\nowner: ann  # the lead\n---\n# Plan\n\n## Steps\n\nFirst we think.\nThen we build.\nThen we rest.\n\n## Money\n\nNone.\n"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(kb=write(tmp_path / "kb", {PAGE: TEXT}), state_dir=tmp_path / "s")


def whole(text: str) -> str:
    return text


def body(text: str) -> str:
    return text.split("---\n", 2)[2]


def steps(text: str) -> str:
    return text[text.index("## Steps") : text.index("## Money")]


@pytest.mark.parametrize(("sent", "section"), [(whole, None), (body, None), (steps, "Steps")])
async def test_others_text_between_two_edits_stays(
    settings: Settings, sent: Callable[[str], str], section: str | None
) -> None:
    """The description of kb_merge: continue from the revision it returns. The host never saw the other one's text."""
    async with writing(settings) as host:
        base = await host.revision(PAGE)
        await host.merge(PAGE, TEXT.replace("Then we rest.", "Then we celebrate."), base_revision=base)
        mine = TEXT
        for old, new in (("think.", "think hard."), ("build.", "build well."), ("well", "it")):
            mine = mine.replace(old, new)
            answer = await host.merge(PAGE, sent(mine), section=section, base_revision=base)
            base = answer["revision"]
            assert answer["status"] == "done"
            assert host.text(PAGE) == mine.replace("Then we rest.", "Then we celebrate.")
            assert (await host.call("kb_history", path=PAGE))["revision"] in answer["note"]


async def test_resolving_a_conflict_continues_from_the_shown_state(settings: Settings) -> None:
    async with writing(settings) as host:
        base = await host.revision(PAGE)
        theirs = TEXT.replace("None.", "Ten a month.").replace("Then we rest.", "Then we celebrate.")
        await host.merge(PAGE, theirs, base_revision=base)
        mine = TEXT.replace("None.", "Twenty a month.").replace("Then we build.", "Then we build well.")
        answer = await host.merge(PAGE, mine, base_revision=base)
        assert answer["status"] == "partial"
        (conflict,) = answer["conflicts"]
        settled = mine.replace(conflict["theirs"], conflict["ours"].replace("Ten", "Fifteen"))
        answer = await host.merge(PAGE, settled, base_revision=answer["revision"])
        assert answer["status"] == "done"
        assert host.text(PAGE) == settled.replace("Then we rest.", "Then we celebrate.")


async def test_a_host_that_read_the_page_in_between_may_remove_others_text(settings: Settings) -> None:
    async with writing(settings) as host:
        base = await host.revision(PAGE)
        await host.merge(PAGE, TEXT.replace("Then we rest.", "Then we celebrate."), base_revision=base)
        await host.merge(PAGE, TEXT.replace("First we think.", "First we think hard."), base_revision=base)
        answer = await host.merge(PAGE, TEXT, base_revision=await host.revision(PAGE))
        assert answer["status"] == "done"
        assert host.text(PAGE) == TEXT


async def test_bringing_evidence_does_not_count_as_reading_others_text(settings: Settings) -> None:
    async with writing(settings) as host:
        base = await host.revision(PAGE)
        await host.merge(PAGE, TEXT.replace("Then we rest.", "Then we celebrate."), base_revision=base)
        said = "The money comes from the autumn budget."
        answer = await host.merge(PAGE, said, section="Money", source="wiki:money", base_revision=base)
        assert answer["status"] == "done"
        mine = TEXT.replace("First we think.", "First we think hard.")
        await host.merge(PAGE, mine, base_revision=answer["revision"])
        assert said in host.text(PAGE)
        assert "Then we celebrate." in host.text(PAGE)
        assert "First we think hard." in host.text(PAGE)
