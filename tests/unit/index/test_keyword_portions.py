"""When a long run brings the keyword index up to date."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from knowledge.index.engines.tantivy_keywords import TantivyKeywordIndex
from knowledge.index.ports import QueryTerm
from tests.unit.index.test_indexer import FENCE, Overworked, PageContext, terms

if TYPE_CHECKING:
    from pathlib import Path

    from knowledge.state.ports import IndexIdentity, IndexStore


@pytest.fixture
def house(tmp_path: Path) -> PageContext:
    (tmp_path / "kb").mkdir()
    return PageContext(tmp_path / "kb")


class EverythingApart(Overworked):
    """Indexes all pages as if in another process."""

    def takes(self, size: int, embedder: IndexIdentity) -> bool:  # noqa: ARG002 - the port's shape
        return True


@pytest.mark.parametrize("pages", [90, 144, 240])
async def test_a_long_run_leaves_few_parts_in_the_keyword_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pages: int
) -> None:
    """A search looks up its words in each part."""
    monkeypatch.setattr("knowledge.index.indexer.ONCE_BYTES", 0)
    monkeypatch.setattr("knowledge.index.indexer.APART_BYTES", 100)
    apart = EverythingApart()
    (tmp_path / "kb").mkdir()
    house = PageContext(tmp_path / "kb", apart)
    apart.indexer = house.indexer
    keyword = TantivyKeywordIndex(tmp_path / "keyword", terms, lambda page: [page.title])
    monkeypatch.setattr(house.indexer, "_keyword", keyword)
    for number in range(pages):
        house.put(f"{number:03}.md", f"# Page {number}\n\nfruit\n")
    await house.indexer.reconcile(FENCE)
    assert len(apart.steps) > pages / 6
    parts = list((tmp_path / "keyword").glob("data-*/*.term"))
    assert 1 <= len(parts) <= 3
    assert len(await keyword.search([QueryTerm("fruit", (("fruit", 1.0),))], limit=500)) == pages


async def test_a_run_in_this_process_brings_the_keyword_index_up_to_date_after_equal_portions(
    house: PageContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("knowledge.index.indexer.ONCE_BYTES", 0)
    monkeypatch.setattr("knowledge.index.indexer.BATCH_DOCUMENTS", 5)
    sizes: list[int] = []
    catch_up = house.keyword.catch_up

    async def counted(store: IndexStore) -> int:
        sizes.append(await catch_up(store))
        return sizes[-1]

    monkeypatch.setattr(house.keyword, "catch_up", counted)
    for number in range(90):
        house.put(f"{number:03}.md", "fruit")
    await house.indexer.reconcile(FENCE)
    taken = [size for size in sizes if size]
    assert sum(taken) == await house.hits("fruit") == 90
    assert 7 <= len(taken) <= 10


async def test_many_removals_bring_the_keyword_index_up_to_date_once(
    house: PageContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(30):
        house.put(f"{number:03}.md", "fruit")
    await house.indexer.reconcile(FENCE)
    monkeypatch.setattr("knowledge.index.indexer.BATCH_REMOVALS", 5)
    calls = 0
    catch_up = house.keyword.catch_up

    async def counted(store: IndexStore) -> int:
        nonlocal calls
        calls += 1
        return await catch_up(store)

    monkeypatch.setattr(house.keyword, "catch_up", counted)
    for file in house.root.glob("*.md"):
        file.unlink()
    await house.indexer.reconcile(FENCE)
    assert (calls, await house.hits("fruit")) == (1, 0)
