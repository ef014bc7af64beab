"""Large pages are indexed, checked and compared in worker processes, with the same results as in the server itself.

A process that should stay small, such as a site, has all pages indexed there.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from knowledge.contradictions import page_pair
from knowledge.index import page_rows as prepare
from knowledge.index.engines import tantivy_keywords
from knowledge.index.indexer import Indexer
from knowledge.index.store.sqlite import SqliteIndexStore
from knowledge.pages import document
from knowledge.pages.document import Document
from knowledge.state.ports import Delta, IndexPosition
from knowledge.writing import writer
from mcp_server.app.knowledge_base import KnowledgeBase, open_base
from mcp_server.app.settings.settings import Settings
from mcp_server.workers.index_steps import LARGE_BYTES as BYTES_APART
from mcp_server.workers.pool import INLINE_CHARACTERS
from tests.contract.workers.test_hostile_calls import until, workers
from tests.support.hosts.writers import writing
from tests.support.knowledge_bases.folders import write
from tests.support.knowledge_bases.hostile_markdown import FAMILIES

FENCE = 1
DEEP, DATED = FAMILIES["headings ever deeper"], FAMILIES["dated entries"]
LARGE = "# Uploads\n\n" + DEEP(BYTES_APART * 11 // 10)
"""Large enough to be indexed in another process."""
PAGES = {"small.md": "# Small\n\nText.\n", "large.md": LARGE, "notes/log.md": DATED(BYTES_APART * 11 // 10)}
MERGED = "# Uploads\n\n" + DEEP(INLINE_CHARACTERS * 5 // 4)
"""Large enough to be merged and checked in another process."""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the kernel is asked which processes there are")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(kb=write(tmp_path / "kb", PAGES), state_dir=tmp_path / "state")


@pytest.fixture
def merged(tmp_path: Path) -> Settings:
    pages = {"small.md": PAGES["small.md"], "large.md": MERGED}
    return Settings(kb=write(tmp_path / "kb", pages), state_dir=tmp_path / "state")


@pytest.fixture
def _only_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this process fail if it reads a large page."""

    def never(*_: object, **__: object) -> None:
        raise AssertionError("worked out in the server")

    monkeypatch.setattr(writer, "find_damage", never)
    monkeypatch.setattr(page_pair, "contradictions", never)


@asynccontextmanager
async def opened(settings: Settings, *, lean: bool = False) -> AsyncIterator[KnowledgeBase]:
    async with open_base(settings, lean=lean) as base:
        await base.index.begin(base.embedding.wanted)
        yield base


async def stored(index: SqliteIndexStore) -> tuple[list[str], Delta, list[bytes]]:
    """Return the paths, the chunks with their vectors' codes, and the vectors."""
    delta = await index.delta(IndexPosition("", 0), limit=100_000, texts=True, codes=True)
    return list(await index.paths(limit=100)), delta, list(await index.halves([row.seq for row in delta.codes]))


def test_the_large_pages_here_are_large() -> None:
    assert min(len(PAGES["large.md"]), len(PAGES["notes/log.md"])) >= BYTES_APART
    assert len(MERGED) > INLINE_CHARACTERS


@pytest.mark.parametrize("lean", [False, True], ids=["large pages", "all pages"])
async def test_another_process_stores_the_same_as_the_server_would(
    settings: Settings, tmp_path: Path, *, lean: bool
) -> None:
    async with opened(settings, lean=lean) as base:
        outcomes = await base.indexer.reconcile(FENCE)
        assert set(outcomes.changed) == set(PAGES)
        apart = await stored(base.index)
        assert await (await base.engines()).keyword.position() == await base.index.position()
        alone = await SqliteIndexStore.open(tmp_path / "alone.db")
        try:
            await alone.begin(base.embedding.wanted)
            here = Indexer(
                base.vault,
                alone,
                keyword=base.indexer._keyword_factory,
                embedder=base.embedding.passages,
                now_ns=time.time_ns,
            )
            here.catch_up = _caught_up  # type: ignore[method-assign]
            await here.reconcile(FENCE)
            inside = await stored(alone)
        finally:
            await alone.close()
    by_text = [
        sorted(
            zip(
                [(r.section, r.text, r.language) for r in delta.texts],
                [r.code for r in delta.codes],
                halves,
                strict=True,
            )
        )
        for _, delta, halves in (apart, inside)
    ]
    assert apart[0] == inside[0] == sorted(PAGES)
    assert by_text[0] == by_text[1]


async def _caught_up() -> bool:
    return True


@pytest.mark.parametrize(("lean", "here"), [(False, ["small.md"]), (True, [])], ids=["large pages", "all pages"])
async def test_the_server_parses_no_large_page_to_index_it(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, here: list[str], *, lean: bool
) -> None:
    parsed: list[str] = []
    parse = document.parse

    def noted(path: str, raw: bytes) -> Document:
        parsed.append(path)
        return parse(path, raw)

    monkeypatch.setattr(prepare, "parse", noted)
    async with opened(settings, lean=lean) as base:
        await base.indexer.reconcile(FENCE)
        assert parsed == here
        assert (await base.index.progress()).done == len(PAGES)


async def test_a_lean_process_leaves_the_keyword_index_to_another_one(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("the keyword index was written in this process")

    monkeypatch.setattr(tantivy_keywords, "_TantivyCatchUp", never)
    async with opened(settings, lean=True) as base:
        keyword = (await base.engines()).keyword
        await base.indexer.reconcile(FENCE)
        (settings.kb / "small.md").unlink()
        await base.indexer.reconcile(FENCE)  # nothing but a removal, which is stored here
        assert await keyword.position() == await base.index.position()
        assert base.indexer.problems == ()
        assert list(await base.index.paths(limit=9)) == ["large.md", "notes/log.md"]


async def test_an_index_with_other_vectors_is_filled_in_the_process_that_has_the_embedder(settings: Settings) -> None:
    """Another process would store the page without a vector, and each change would then exchange all vectors."""
    async with opened(settings, lean=True) as base:
        other = replace(base.embedding.wanted, embedder="endpoint:somewhere")
        assert base.indexer._taken_apart(["small.md"], {}, base.embedding.wanted) == {"small.md": 15}
        assert base.indexer._taken_apart(["small.md", "large.md"], {}, other).keys() == {"large.md"}


async def test_an_index_is_completed_although_its_process_is_killed(settings: Settings) -> None:
    async with opened(settings, lean=True) as base:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(base.indexer.reconcile, FENCE)
            await until(lambda: bool(workers()))
            for process in workers():
                os.kill(process, signal.SIGKILL)
        assert list(await base.index.paths(limit=9)) == sorted(PAGES)
        assert base.indexer.problems == ()
        assert await (await base.engines()).keyword.position() == await base.index.position()


async def test_a_renamed_large_page_keeps_its_vectors_and_loses_its_old_name(settings: Settings) -> None:
    async with opened(settings) as base:
        await base.indexer.reconcile(FENCE)
        (settings.kb / "large.md").rename(settings.kb / "larger.md")
        outcomes = await base.indexer.update(["large.md", "larger.md"], FENCE)
        assert (set(outcomes.changed), outcomes.embedded) == ({"large.md", "larger.md"}, 0)
        assert list(await base.index.paths(limit=9)) == ["larger.md", "notes/log.md", "small.md"]


async def test_indexing_that_is_cancelled_ends_its_process_and_is_taken_up_again(settings: Settings) -> None:
    async with opened(settings) as base:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(base.indexer.reconcile, FENCE)
            await until(lambda: bool(workers()))
            tasks.cancel_scope.cancel()
        await until(lambda: not workers())
        await base.indexer.reconcile(FENCE)
        assert (await base.index.progress()).done == len(PAGES)


@pytest.mark.usefixtures("_only_elsewhere")
async def test_the_check_after_a_large_write_runs_in_another_process(merged: Settings) -> None:
    async with writing(merged, level=3) as host:
        edited = MERGED.replace("Text 77.", "Text 77, and [more](small.md) about [[small]].")
        answer = await host.merge("large.md", edited, base_revision=await host.revision("large.md"))
        assert (answer["status"], answer["verified"]) == ("done", True)
        assert host.text("large.md") == edited


@pytest.mark.usefixtures("_only_elsewhere")
async def test_a_large_write_of_evidence_that_leads_nowhere_is_still_taken_back(merged: Settings) -> None:
    async with writing(merged, level=3) as host:
        base = await host.revision("large.md")
        with pytest.raises(Exception, match="leads nowhere"):
            await host.merge(
                "large.md", f"{MERGED}\nSee [more](nowhere/at-all.md).\n", source="wiki:x", base_revision=base
            )
        assert host.text("large.md") == MERGED


@pytest.mark.external
@pytest.mark.usefixtures("_only_elsewhere")
async def test_a_large_page_is_compared_with_the_written_bytes_in_another_process(settings: Settings) -> None:
    claim = "The payment service retries a failed call 5 times."
    async with writing(settings, level=3) as host:
        await host.merge("limits.md", f"# Limits\n\n{claim}\n\n{LARGE[2:]}", source="official:limits")
        with anyio.fail_after(60):
            while "limits.md" not in {hit["path"] for hit in (await host.call("kb_search", query=claim))["hits"]}:  # noqa: ASYNC110  the index tells nobody
                await anyio.sleep(0.05)
        await host.merge("notes/one.md", f"# Notes\n\n{claim.replace('5', '9')}\n")
        await host.app.services.load_writing().elsewhere.settled()
        (found,) = (await host.call("kb_contradictions"))["contradictions"]
        assert (found["existing"]["path"], found["new"]["path"]) == ("limits.md", "notes/one.md")
