"""Several processes on one knowledge base, and the indexing one is killed again and again."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import time
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from knowledge.index import indexing_service as watch
from knowledge.index.engines.tantivy_keywords import TantivyKeywordIndex
from knowledge.index.indexer import Indexer
from knowledge.index.indexing_service import IndexingService
from knowledge.index.ports import QueryTerm
from knowledge.index.store.sqlite import SqliteIndexStore
from knowledge.pages.vault import Vault
from knowledge.search.query.analysis import Analyzer
from knowledge.state.ports import IndexIdentity, IndexPosition, TextRow
from knowledge.state.sqlite.store import SqliteStateStore
from tests.support.index.memory_embedder import MemoryEmbedder

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerProcess
    from multiprocessing.synchronize import Event
    from pathlib import Path

PROCESSES = 4
KILLS = int(os.environ.get("FORGE_TEST_KILLS", "6"))
IDENTITY = IndexIdentity("hashed", 64, 1)
WORDS = ("apple", "berry", "cherry", "damson", "elder", "fig", "grape", "hazel")
FORK = multiprocessing.get_context("forkserver")


def terms(row: TextRow) -> list[str]:
    return Analyzer(row.language).terms(" ".join((*row.section, row.text)))


def asked(word: str) -> list[QueryTerm]:
    return [QueryTerm(word, ((Analyzer("").terms(word)[0], 1.0),))]


class Engines:
    """What one process opens: its own connections to shared files."""

    def __init__(self, root: Path, home: Path) -> None:
        self.root, self.home = root, home
        self.keyword = TantivyKeywordIndex(home / "keyword", terms, lambda page: page.title.split())

    async def open(self) -> Indexer:
        async def keyword() -> TantivyKeywordIndex:
            return self.keyword

        async def embedder(_: IndexIdentity) -> MemoryEmbedder:
            return MemoryEmbedder()

        self.index = await SqliteIndexStore.open(self.home / "index.db")
        return Indexer(Vault.open(self.root), self.index, keyword=keyword, embedder=embedder, now_ns=time.time_ns)


def process(root: Path, home: Path, stop: Event, report: Path) -> None:
    """Index if allowed to, and search all the time; report the result at the end."""
    # A tenth of the real times, so that twenty successions take seconds.
    watch.TTL_S, watch.RENEW_S, watch.ASK_S, watch.HEARTBEAT_S = 0.4, 0.1, 0.05, 0.1
    anyio.run(_live, root, home, stop, report)


async def _live(root: Path, home: Path, stop: Event, report: Path) -> None:
    engines = Engines(root, home)
    indexer = await engines.open()
    state = await SqliteStateStore.open(home / "state.db")
    service = IndexingService(
        state,
        indexer,
        wanted=lambda: IDENTITY,
        holder=str(os.getpid()),
        now=partial(datetime.now, UTC),
        rebuild=engines.index.rebuild,
        settle_s=0.1,
    )
    searches, longest_s = 0, 0.0
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(service.run)
        while not stop.is_set():
            began = time.perf_counter()
            hits = await engines.keyword.search(asked(WORDS[searches % len(WORDS)]), limit=5)
            await engines.index.chunks([hit.seq for hit in hits])
            searches, longest_s = searches + 1, max(longest_s, time.perf_counter() - began)
            await anyio.sleep(0.02)
        tasks.cancel_scope.cancel()
    problems = [f"{problem.path}: {problem.reason}" for problem in service.problems]
    text = json.dumps({"searches": searches, "longest_s": longest_s, "problems": problems})
    await anyio.Path(report).write_text(text, encoding="utf-8")


class Editor:
    """Someone who works on the files: writes, renames, deletes, moves folders, changes whom to trust."""

    def __init__(self, root: Path) -> None:
        self._root, self._random, self._number = root, random.Random(20), 0  # noqa: S311  seeded, not secret

    def work(self, acts: int) -> None:
        for _ in range(acts):
            files = sorted(self._root.rglob("*.md"))
            choice = self._random.random()
            if choice < 0.6 or len(files) < 20:
                self._write(files)
            elif choice < 0.75:
                self._random.choice(files).unlink()
            elif choice < 0.9:
                self._rename(self._random.choice(files))
            else:
                self._trust()

    def _write(self, files: list[Path]) -> None:
        self._number += 1
        old = self._random.random() < 0.5 and files
        file = self._random.choice(files) if old else self._root / f"d{self._number % 5}" / f"{self._number}.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        sections = (f"## Part {n}\n\n{' '.join(self._random.choices(WORDS, k=30))} {self._number}\n" for n in range(4))
        file.write_text("# Title\n\n" + "\n".join(sections), encoding="utf-8")

    def _rename(self, file: Path) -> None:
        self._number += 1
        if self._random.random() < 0.3 and file.parent != self._root:
            file.parent.rename(self._root / f"moved{self._number}")
        else:
            file.rename(file.with_name(f"renamed{self._number}.md"))

    def _trust(self) -> None:
        folder = self._root / f"d{self._random.randrange(5)}"
        folder.mkdir(exist_ok=True)
        flag = self._random.choice(("true", "false"))
        (folder / "_index.md").write_text(f"---\nuntrusted: {flag}\n---\n# Index\n", encoding="utf-8")


async def contents(index: SqliteIndexStore) -> dict[str, Any]:
    """Return the contents of an index, without the numbers that depend on its history."""
    everything = await index.delta(IndexPosition("", 0), limit=10**9, codes=True)
    codes = {row.seq: row.code for row in everything.codes}
    rows = await index.chunks(list(codes))
    halves = dict(zip(codes, await index.halves(list(codes)), strict=True))
    paths = list(await index.stamps())
    records = [await index.document(path) for path in paths]
    folders = {folder for path in paths for folder in _above(path)}
    return {
        "documents": sorted(
            (r.path, r.title, r.sections, r.tags, r.untrusted, r.revision, r.tokens, r.stamp) for r in records if r
        ),
        "chunks": sorted(
            (r.path, r.ordinal, r.section, r.line_start, r.line_end, r.text, codes[s], halves[s])
            for s, r in rows.items()
        ),
        "vocabulary": await index.vocabulary(),
        "directories": [await index.directory(folder) for folder in sorted(folders)],
    }


def _above(path: str) -> list[str]:
    parts = path.split("/")[:-1]
    return ["/".join(parts[:end]) for end in range(len(parts) + 1)]


async def found(engines: Engines) -> dict[str, list[tuple[str, int]]]:
    result = {}
    for word in WORDS:
        hits = await engines.keyword.search(asked(word), limit=10**5)
        rows = await engines.index.chunks([hit.seq for hit in hits])
        # A hit whose chunk is gone shows that the keyword index is still behind.
        known = [rows.get(hit.seq) for hit in hits]
        result[word] = sorted((row.path, row.ordinal) if row else ("gone", 0) for row in known)
    return result


class Team:
    """The processes, each replaced when it is killed."""

    def __init__(self, root: Path, home: Path) -> None:
        self._root, self._home = root, home
        self._stop = FORK.Event()
        self._members: dict[str, tuple[ForkServerProcess, Path]] = {}
        self._started = 0

    def start(self) -> None:
        self._started += 1
        report = self._home / f"report{self._started}.json"
        member = FORK.Process(target=process, args=(self._root, self._home, self._stop, report), daemon=True)
        member.start()
        self._members[str(member.pid)] = (member, report)

    def kill(self, holder: str) -> None:
        member, _ = self._members.pop(holder)
        os.kill(int(holder), signal.SIGKILL)
        member.join(10)

    def finish(self) -> list[dict[str, Any]]:
        self._stop.set()
        for member, _ in self._members.values():
            member.join(20)
        assert [member.exitcode for member, _ in self._members.values()] == [0] * PROCESSES
        return [json.loads(report.read_text(encoding="utf-8")) for _, report in self._members.values()]

    def abandon(self) -> None:
        for member, _ in self._members.values():
            member.kill()


async def _holder(state: SqliteStateStore, *, above: int) -> tuple[str, int]:
    with anyio.fail_after(60):
        while True:
            lease = await state.lease(watch.LEASE)
            if lease is not None and lease.fence > above:
                return lease.holder, lease.fence
            await anyio.sleep(0.01)


@pytest.mark.skipif(os.name == "nt", reason="kills with a signal that Windows has not")
@pytest.mark.external
async def test_killing_the_indexing_process_loses_nothing_and_stops_no_search(tmp_path: Path) -> None:
    """Our promise: an index never stays wrong. `FORGE_TEST_KILLS` sets how often (60 in the benchmark run)."""
    root, home = tmp_path / "kb", tmp_path / "home"
    root.mkdir()
    home.mkdir()
    editor, chance = Editor(root), random.Random(4)  # noqa: S311  seeded, not secret
    await anyio.to_thread.run_sync(editor.work, 60)
    FORK.set_forkserver_preload([__name__])
    team = Team(root, home)
    state = await SqliteStateStore.open(home / "state.db")
    try:
        for _ in range(PROCESSES):
            team.start()
        fence = 0
        for _ in range(KILLS):
            holder, fence = await _holder(state, above=fence)
            await anyio.to_thread.run_sync(editor.work, 8)
            await anyio.sleep(chance.random() * 0.3)  # the point of death is drawn at random
            team.kill(holder)
            team.start()
        await _equals_one_built_from_scratch(root, home, tmp_path / "fresh")
        reports = await anyio.to_thread.run_sync(team.finish)
    finally:
        team.abandon()
        await state.close()
    for report in reports:
        assert report["searches"] > 0
        assert report["longest_s"] < 2.0, "a search never waits for indexing"
        assert report["problems"] == []


async def _equals_one_built_from_scratch(root: Path, home: Path, fresh: Path) -> None:
    await anyio.Path(fresh).mkdir()
    scratch, survived = Engines(root, fresh), Engines(root, home)
    builder, _ = await scratch.open(), await survived.open()
    await scratch.index.begin(IDENTITY)
    await builder.reconcile(1)
    wanted, wanted_hits = await contents(scratch.index), await found(scratch)
    assert wanted["chunks"]
    assert all(wanted_hits.values())
    with anyio.move_on_after(60):
        while await contents(survived.index) != wanted or await found(survived) != wanted_hits:  # noqa: ASYNC110  they tell nobody
            await anyio.sleep(0.1)
    has = await contents(survived.index)
    for part, value in wanted.items():
        assert has[part] == value, part
    assert await found(survived) == wanted_hits
    await scratch.index.close()
    await survived.index.close()
