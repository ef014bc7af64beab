from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from knowledge.errors import EngineUnavailable
from knowledge.state.ports import IndexPosition
from mcp_server.app.factories.keywords import indexed_terms
from mcp_server.app.freshness.index_update import bring_up_to_date, held_lease
from mcp_server.app.knowledge_base import open_base
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.doctor.index_coverage import Coverage, EngineReport, ago, coverage, engine_reports
from tests.support.index.memory_engines import MemoryKeywordIndex
from tests.support.knowledge_bases.folders import PAGES, write
from tests.support.state.memory.index import MemoryIndexStore

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0, "a moment ago"), (61, "1 minute ago"), (7300, "2 hours ago"), (90_000, "1 day ago"), (-5, "a moment ago")],
)
def test_an_age_is_given_in_the_largest_unit(seconds: float, said: str) -> None:
    assert ago(seconds) == said


def test_an_incomplete_index_is_reported() -> None:
    found = Coverage(3, 5, 20, 12, NOW - timedelta(minutes=5))
    assert found.text(NOW) == "3 of 5 pages; 12 of 20 passages have vectors; last indexed 5 minutes ago"


async def test_an_index_that_was_never_filled_says_so() -> None:
    found = await coverage(MemoryIndexStore())
    assert (found.chunks, found.newest) == (0, None)
    assert found.text(NOW) == "no page was ever indexed"


async def test_coverage_and_engines_of_a_real_index(tmp_path: Path) -> None:
    write(tmp_path / "kb")
    async with open_base(Settings(kb=tmp_path / "kb", state_dir=tmp_path / "state")) as base:
        async with held_lease(base) as lease:
            assert lease is not None
            await bring_up_to_date(base, lease)
        (tmp_path / "kb/guides/deploy.md").unlink()
        async with held_lease(base) as lease:
            assert lease is not None
            await bring_up_to_date(base, lease)
        found = await coverage(base.index)
        assert found.documents == found.total == len(PAGES) - 1
        assert found.chunks == found.embedded > found.documents
        reports = await engine_reports(base.index, await base.engines())
        assert [report.kind for report in reports] == ["keywords", "vectors"]
        assert all(report.reachable and not report.behind for report in reports)


async def test_an_unreachable_or_late_engine_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "kb")
    async with open_base(Settings(kb=tmp_path / "kb", state_dir=tmp_path / "state")) as base:
        async with held_lease(base) as lease:
            assert lease is not None
            await bring_up_to_date(base, lease)
        engines = await base.engines()

        async def away() -> IndexPosition:
            raise EngineUnavailable("Qdrant", "nobody answers at 127.0.0.1:6333")

        late = MemoryKeywordIndex(indexed_terms)
        monkeypatch.setattr(engines.vectors, "position", away)
        object.__setattr__(engines, "keyword", late)
        keyword, vectors = await engine_reports(base.index, engines)
        assert keyword.behind == (await base.index.position()).seq
        assert not vectors.reachable
        assert "nobody answers" in str(vectors)


def test_a_report_is_one_line() -> None:
    assert str(EngineReport("Qdrant", "vectors", "http://db:6333", behind=7)) == (
        "vectors: Qdrant, http://db:6333, behind by 7 rows"
    )
    away = EngineReport("Qdrant", "vectors", "http://db:6333", reachable=False, problem="refused")
    assert str(away) == "vectors: Qdrant, http://db:6333: refused"
