"""The process that prepares documents beside a long run."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from knowledge.errors import VaultUnavailable
from knowledge.index import indexer as indexing
from knowledge.index.indexer import Indexer
from knowledge.index.page_rows import DirectoryTrust, Outcome, Prepared, prepare
from knowledge.index.ports import KeywordIndex
from knowledge.index.preparation_process import Job, PreparingLost, PreparingProcess, is_worth_it
from knowledge.pages.vault import Vault
from knowledge.search.query.analysis import forget_words, remembered_words, words
from knowledge.state.ports import IndexIdentity
from mcp_server.app.factories.keywords import indexed_terms
from tests.support.index.memory_embedder import MemoryEmbedder
from tests.support.index.memory_engines import MemoryKeywordIndex
from tests.support.knowledge_bases.folders import PAGES, write
from tests.support.state.memory.index import MemoryIndexStore

ROOT = Path(__file__).parents[3]
MORE = {
    "bad.md": "---\na: [\n---\nx",
    "empty.md": "",
    "notes/_index.md": "---\nuntrusted: true\n---\n",
    "notes/a.md": "# A\n\nb",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "kb", {**PAGES, **MORE})
    (tmp_path / "kb" / "bytes.md").write_bytes(b"\xff\xfe\x00 \xc3\x28 bytes")
    return tmp_path / "kb"


async def new_indexer(folder: Path) -> Indexer:
    index, embedder, keyword = MemoryIndexStore(), MemoryEmbedder(), MemoryKeywordIndex(indexed_terms)

    async def load_keyword() -> KeywordIndex:
        return keyword

    async def load_embedder(_: IndexIdentity) -> MemoryEmbedder:
        return embedder

    await index.begin(IndexIdentity(embedder.name, embedder.dimensions, 1))
    return Indexer(Vault.open(folder), index, keyword=load_keyword, embedder=load_embedder, now_ns=time.time_ns)


def test_it_says_what_this_process_would_say(folder: Path) -> None:
    vault = Vault.open(folder)
    trust = DirectoryTrust(vault)
    jobs = [(found.path, None) for found in sorted(vault.scan(), key=lambda f: f.path)] + [("gone.md", None)]
    here = [prepare(vault, path, known, trust, at_ns=7) for path, known in jobs]
    process = PreparingProcess(vault.root)
    try:
        beside = process.prepare(jobs, at_ns=7)
    finally:
        process.close()
    assert [type(outcome) for outcome in beside] == [type(outcome) for outcome in here]
    for one, other in zip(here, beside, strict=True):
        if isinstance(one, Prepared) and isinstance(other, Prepared):
            assert other.record.untrusted == one.record.untrusted
            assert other.problems == one.problems
            assert [(p.chunk, p.digest, set(p.words)) for p in other.pieces] == [
                (p.chunk, p.digest, set(p.words)) for p in one.pieces
            ]
    assert any(isinstance(one, Prepared) and one.record.untrusted for one in beside)


def test_the_words_that_it_made_are_remembered_here(folder: Path) -> None:
    forget_words()
    process = PreparingProcess(folder)
    try:
        (outcome,) = process.prepare([("guides/deploy.md", None)], at_ns=1)
    finally:
        process.close()
    assert isinstance(outcome, Prepared)
    for piece in outcome.pieces:
        assert list(remembered_words(piece.embedded)) == list(words(piece.embedded))
    forget_words()


def test_a_folder_that_went_away_is_said_and_a_process_that_died_is_lost(folder: Path) -> None:
    process = PreparingProcess(folder)
    try:
        process.prepare([("long.md", None)], at_ns=1)
        folder.rename(folder.with_name("elsewhere"))
        with pytest.raises(VaultUnavailable):
            process.prepare([("long.md", None)], at_ns=1)
        process._child.kill()
        process._child.wait()
        with pytest.raises(PreparingLost):
            process.prepare([("long.md", None)], at_ns=1)
    finally:
        process.close()


async def test_a_run_that_is_stopped_does_not_say_that_its_process_is_gone(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A server that was stopped while it indexed logged a traceback, and a thread that nobody waited for went on preparing pages."""
    asked, ended = threading.Event(), threading.Event()

    class Waiting(PreparingProcess):
        def prepare(self, jobs: Sequence[Job], *, at_ns: int) -> list[Outcome]:
            asked.set()
            ended.wait(10)
            return super().prepare(jobs, at_ns=at_ns)

        def close(self) -> None:
            super().close()
            ended.set()

    def prepared_here(*_: object) -> list[Outcome]:
        again.set()
        return []

    again = threading.Event()
    monkeypatch.setattr(indexing, "is_worth_it", lambda _: True)
    monkeypatch.setattr(indexing, "PreparingProcess", Waiting)
    monkeypatch.setattr(Indexer, "_prepared_here", prepared_here)
    indexer = await new_indexer(folder)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(indexer.reconcile, 1)
        assert await anyio.to_thread.run_sync(asked.wait, 10)
        tasks.cancel_scope.cancel()
    assert ended.is_set()
    assert not again.wait(0.2)
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


@pytest.mark.parametrize("dies", [False, True])
async def test_a_long_run_ends_the_same_whether_the_process_lives_or_dies(
    folder: Path, *, dies: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexing, "is_worth_it", lambda _: True)
    monkeypatch.setattr(indexing, "BATCH_BESIDE", 2)
    made: list[PreparingProcess] = []

    def start(root: Path) -> PreparingProcess:
        made.append(PreparingProcess(root))
        if dies:
            made[0]._child.kill()
        return made[0]

    monkeypatch.setattr(indexing, "PreparingProcess", start)
    indexer = await new_indexer(folder)
    outcomes = await indexer.reconcile(1)
    assert len(outcomes.changed) == len(list(Vault.open(folder).scan()))
    assert made
    assert made[0]._child.poll() is not None, "it is gone after the run"


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
def test_a_parent_that_is_killed_leaves_no_process_behind(folder: Path) -> None:
    script = (
        "import sys, time\nfrom pathlib import Path\nfrom knowledge.index.preparation_process import PreparingProcess\n"
        f"p = PreparingProcess(Path({str(folder)!r}))\np.prepare([('long.md', None)], at_ns=1)\n"
        "print(p._child.pid, flush=True)\ntime.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, cwd=ROOT) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    for _ in range(200):
        try:
            os.kill(child, 0)
        except ProcessLookupError:
            return
        if Path(f"/proc/{child}/stat").exists() and Path(f"/proc/{child}/stat").read_text("ascii").split()[2] == "Z":
            return
        time.sleep(0.05)  # the kernel tells nobody but its parent that it ended
    pytest.fail("the child outlived its parent")


def test_a_short_run_is_not_worth_a_process() -> None:
    assert not is_worth_it(10)
