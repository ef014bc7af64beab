"""A contradiction ends when a page no longer has one of the statements, and opens again when both are back."""

from __future__ import annotations

from pathlib import Path

import pytest

from knowledge.contradictions.record import NotOpen
from mcp_server.app.settings.settings import Settings
from tests.support.hosts.writers import Writer, writing
from tests.support.knowledge_bases.folders import write

LIMITS = "limits.md"
TEXT = "# Limits\n\nThe upload service accepts files of up to 64 MiB. Ask Ada.\n"
CLAIM = "The upload service accepts files of up to 32 MiB."


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(kb=write(tmp_path / "kb", {LIMITS: TEXT}), state_dir=tmp_path / "state")


async def claimed(host: Writer) -> int:
    """Have the host send evidence that contradicts the page, and return the number of the contradiction."""
    base = await host.revision(LIMITS)
    await host.merge(LIMITS, CLAIM, section="Limits", source="wiki:limits", base_revision=base)
    (found,) = (await host.call("kb_contradictions"))["contradictions"]
    return int(found["id"])


async def test_a_contradiction_whose_page_changed_is_settled_and_opens_again_when_the_text_is_back(
    settings: Settings,
) -> None:
    async with writing(settings) as host:
        number, contradictions = await claimed(host), host.app.services.contradictions
        (host.root / LIMITS).write_text(TEXT.replace("64 MiB", "48 MiB"), encoding="utf-8")
        assert (await contradictions.listed(None, limit=9, cursor=None)).contradictions == []
        (flag,) = await contradictions.settled(None, limit=9)
        assert flag.settlement is not None
        assert (flag.id, flag.settlement.how, flag.settlement.by) == (number, "changed", "knowledge-forge")
        with pytest.raises(NotOpen, match="is settled: a page no longer has one of the statements"):
            await contradictions.one(number)
        # A part of a sentence is not the statement: "up to 64 MiB on weekdays" says something else.
        weekdays = TEXT.replace("64 MiB.", "64 MiB on weekdays.")
        (host.root / LIMITS).write_text(weekdays, encoding="utf-8")
        assert [one.id for one in await contradictions.settled("limits.md", limit=9)] == [number]
        (host.root / LIMITS).write_text(TEXT.replace("up to 64", "up\nto 64"), encoding="utf-8")
        assert [one.id for one in (await contradictions.listed(None, limit=9, cursor=None)).contradictions] == [number]
        assert await contradictions.settled(None, limit=9) == []
        assert (await contradictions.one(number)).settlement is None
