from __future__ import annotations

import itertools
import os
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import pytest

from knowledge.errors import LeaseLost, TooMuchWork, VaultUnavailable, WorkerEnded
from knowledge.index.indexer import Indexer
from knowledge.index.page_rows import DirectoryTrust
from knowledge.index.ports import IndexedPages, PageBatch, QueryTerm
from knowledge.pages.vault import Vault
from knowledge.search.query.analysis import Analyzer
from knowledge.state.ports import IndexChange, IndexIdentity, IndexPosition, IndexStore, Progress, TextRow
from tests.support.index.memory_embedder import MemoryEmbedder
from tests.support.index.memory_engines import MemoryKeywordIndex
from tests.support.state.memory.index import MemoryIndexStore

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from knowledge.index.ports import Apart

FENCE = 7
LONG_AGO_NS = 1_600_000_000_000_000_000


def terms(row: TextRow) -> list[str]:
    return Analyzer(row.language).terms(" ".join((*row.section, row.text)))


class CountingEmbedder(MemoryEmbedder):
    """Counts texts; a text with `poison` in it fails."""

    def __init__(self) -> None:
        super().__init__()
        self.texts = 0

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if any("poison" in text for text in texts):
            raise ValueError("poisoned")
        self.texts += len(texts)
        return await super().embed(texts)


class PageContext:
    """A knowledge base with everything in memory except its files."""

    def __init__(self, root: Path, apart: Apart | None = None) -> None:
        self.root = root
        self.embedder = CountingEmbedder()
        self.keyword = MemoryKeywordIndex(terms)
        self.index = MemoryIndexStore()
        self.progress: list[Progress] = []
        self.clock = itertools.count(LONG_AGO_NS + 10**12, 10**6)
        self.indexer = Indexer(
            Vault.open(root),
            self.index,
            keyword=self._keyword,
            embedder=self._embedder,
            now_ns=partial(next, self.clock),
            on_progress=self.progress.append,
            apart=apart,
        )

    async def _keyword(self) -> MemoryKeywordIndex:
        return self.keyword

    async def _embedder(self, _: IndexIdentity) -> CountingEmbedder:
        return self.embedder

    def put(self, path: str, text: str | bytes) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        os.utime(file, ns=(LONG_AGO_NS, LONG_AGO_NS + next(self.clock) % 10**9))

    async def untrusted(self) -> dict[str, bool]:
        stamps = await self.index.stamps()
        return {path: bool((r := await self.index.document(path)) and r.untrusted) for path in stamps}

    async def hits(self, word: str) -> int:
        return len(await self.keyword.search([QueryTerm(word, ((word, 1.0),))], limit=100))


@pytest.fixture
def house(tmp_path: Path) -> PageContext:
    (tmp_path / "kb").mkdir()
    return PageContext(tmp_path / "kb")


async def contents(index: IndexStore) -> dict[str, str]:
    return {path: revision for path, (_, revision, _) in (await index.stamps()).items()}


async def test_everything_is_indexed_once_and_then_nothing_is_done(house: PageContext) -> None:
    house.put("a.md", "# Apples\n\nred fruit\n")
    house.put("b/c.md", "# Berries\n\nblue fruit\n")
    first = await house.indexer.reconcile(FENCE)
    assert set(first.changed) == {"a.md", "b/c.md"}
    assert await house.hits("fruit") == 2
    assert await house.index.progress() == house.progress[-1] == Progress(2, 2)
    again = await house.indexer.reconcile(FENCE)
    assert (again.changed, again.touched, again.embedded) == ((), 0, 0)


async def test_the_same_bytes_with_another_time_only_touch_the_stamp(house: PageContext) -> None:
    house.put("a.md", "text")
    await house.indexer.reconcile(FENCE)
    before = await house.index.position()
    house.put("a.md", "text")
    outcome = await house.indexer.reconcile(FENCE)
    assert (outcome.changed, outcome.touched) == ((), 1)
    assert (await house.index.position()).generation == before.generation
    assert (await house.indexer.reconcile(FENCE)).touched == 0


async def test_a_file_written_within_the_clocks_grain_is_looked_at_again(house: PageContext) -> None:
    """Same size, same time, same inode: only the bytes differ (the racy timestamp known from git)."""
    house.put("a.md", "old!")
    file = house.root / "a.md"
    racy = next(house.clock)
    os.utime(file, ns=(racy, racy))
    await house.indexer.reconcile(FENCE)
    file.write_text("new!", encoding="utf-8")
    os.utime(file, ns=(racy, racy))
    assert (await house.indexer.reconcile(FENCE)).changed == ("a.md",)


@pytest.mark.parametrize("live", [False, True])
async def test_a_rename_embeds_nothing(house: PageContext, *, live: bool) -> None:
    house.put("old/a.md", "# A\n\none\n\n## B\n\ntwo\n")
    await house.indexer.reconcile(FENCE)
    texts = house.embedder.texts
    (house.root / "old").rename(house.root / "new")
    outcome = await (house.indexer.update({"old", "new"}, FENCE) if live else house.indexer.reconcile(FENCE))
    assert (set(outcome.changed), outcome.embedded) == ({"old/a.md", "new/a.md"}, 0)
    assert house.embedder.texts == texts
    assert set(await contents(house.index)) == {"new/a.md"}


async def test_one_changed_section_embeds_one_chunk(house: PageContext) -> None:
    parts = [f"## Part {n}\n\n" + f"word{n} " * 150 + "\n\n" for n in range(5)]
    house.put("a.md", "".join(parts))
    await house.indexer.reconcile(FENCE)
    parts[2] = parts[2].replace("word2", "other")
    house.put("a.md", "".join(parts))
    assert (await house.indexer.update({"a.md"}, FENCE)).embedded == 1


async def test_live_changes_reach_files_and_folders_that_are_gone(house: PageContext) -> None:
    for path in ("a.md", "dir/b.md", "dir/sub/c.md", "DIR/d.md"):
        house.put(path, path)
    await house.indexer.reconcile(FENCE)
    (house.root / "a.md").unlink()
    for path in ("dir/sub/c.md", "dir/b.md"):
        (house.root / path).unlink()
    (house.root / "dir" / "sub").rmdir()
    (house.root / "dir").rmdir()
    outcome = await house.indexer.update({"a.md", "dir", ".git/x.md", "nothing.md"}, FENCE)
    assert set(outcome.changed) == {"a.md", "dir/b.md", "dir/sub/c.md"}
    assert set(await contents(house.index)) == {"DIR/d.md"}
    assert await house.index.progress() == Progress(1, 1)


UNTRUSTED = "---\nuntrusted: true\n---\n# Index\n"


@pytest.mark.parametrize("live", [False, True])
async def test_a_directory_that_loses_or_gains_trust_takes_along_all_below(house: PageContext, *, live: bool) -> None:
    """The design's taint: text under a path marked untrusted is data; marking it costs no embedding."""

    async def run() -> int:
        return (
            await (house.indexer.update({"in/_index.md"}, FENCE) if live else house.indexer.reconcile(FENCE))
        ).embedded

    house.put("in/_index.md", "# Index\n")
    house.put("in/sub/a.md", "text a")
    house.put("in/sub/_index.md", "# Sub\n")
    house.put("out.md", "text out")
    await house.indexer.reconcile(FENCE)
    assert not any((await house.untrusted()).values())
    house.put("in/_index.md", UNTRUSTED)
    texts = house.embedder.texts
    await run()
    assert [p for p, flag in sorted((await house.untrusted()).items()) if flag] == [
        "in/_index.md",
        "in/sub/_index.md",
        "in/sub/a.md",
    ]
    assert house.embedder.texts == texts
    (house.root / "in" / "_index.md").unlink()
    await run()
    assert not any((await house.untrusted()).values())


async def interrupted(house: PageContext, monkeypatch: pytest.MonkeyPatch) -> None:
    """Index until the process is killed between its first two batches."""
    apply, calls = house.index.apply, itertools.count()

    async def dying(changes: Sequence[IndexChange], *, fence: int) -> IndexPosition:
        if next(calls):
            raise LeaseLost("indexer", fence)
        return await apply(changes, fence=fence)

    with monkeypatch.context() as killed:
        killed.setattr(house.index, "apply", dying)
        with pytest.raises(LeaseLost):
            await house.indexer.reconcile(FENCE)


async def test_a_change_of_trust_that_was_interrupted_is_done_again(
    house: PageContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page that says so is stored last, so a run that died in between is repeated."""
    house.put("_index.md", "# Index\n")
    for number in range(100):
        house.put(f"{number:03}.md", f"text {number}")
    await house.indexer.reconcile(FENCE)
    house.put("_index.md", UNTRUSTED)
    await interrupted(house, monkeypatch)
    assert set((await house.untrusted()).values()) == {True, False}
    await house.indexer.reconcile(FENCE)
    assert all((await house.untrusted()).values())


@pytest.mark.parametrize("place", ["", "in/"])
@pytest.mark.parametrize(
    ("before", "between"),
    [("# Index\n", UNTRUSTED), (None, UNTRUSTED), (UNTRUSTED, "# Index\n"), (UNTRUSTED, None)],
    ids=["loses trust", "loses trust by a new page", "gains trust", "gains trust, its page deleted"],
)
async def test_a_change_of_trust_that_was_interrupted_and_taken_back_leaves_nothing_behind(
    house: PageContext, monkeypatch: pytest.MonkeyPatch, place: str, before: str | None, between: str | None
) -> None:
    """`_index.md` then equals the indexed one, and only the pages do not. Found by killing servers."""

    def describe(text: str | None) -> None:
        if text is None:
            (house.root / f"{place}_index.md").unlink(missing_ok=True)
        else:
            house.put(f"{place}_index.md", text)

    describe(before)
    for number in range(100):
        house.put(f"{place}{number:03}.md", f"text {number}")
    await house.indexer.reconcile(FENCE)
    describe(between)
    await interrupted(house, monkeypatch)
    pages = {path: flag for path, flag in (await house.untrusted()).items() if not path.endswith("_index.md")}
    assert (before == UNTRUSTED) != all(pages.values()), "the run got as far as the pages"
    describe(before)
    await house.indexer.reconcile(FENCE)
    assert set((await house.untrusted()).values()) == {before == UNTRUSTED}
    assert not (await house.indexer.reconcile(FENCE)).changed


async def test_a_directory_whose_trust_changes_between_two_looks_is_noticed_at_the_next(
    house: PageContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by killing servers.

    The directory's own record had the new trust, its pages did not, and nothing checked again.
    """
    house.put("in/_index.md", "# Index\n")
    house.put("in/a.md", "text a")
    await house.indexer.reconcile(FENCE)
    house.put("in/_index.md", "# Index, changed\n")
    look = DirectoryTrust._says_untrusted

    def change_after_the_look(trust: DirectoryTrust, directory: str) -> bool:
        said = look(trust, directory)
        if directory == "in":
            house.put("in/_index.md", UNTRUSTED)
        return said

    monkeypatch.setattr(DirectoryTrust, "_says_untrusted", change_after_the_look)
    await house.indexer.reconcile(FENCE)
    monkeypatch.undo()
    assert len(set((await house.untrusted()).values())) == 1, "nobody's record says more than its neighbours'"
    house.put("in/_index.md", UNTRUSTED)
    await house.indexer.update({"in/_index.md"}, FENCE)
    assert all((await house.untrusted()).values())


async def test_odd_files_are_reported_and_stop_nobody(house: PageContext, monkeypatch: pytest.MonkeyPatch) -> None:
    house.put("good.md", "# Good\n\nfine words\n")
    house.put("garbage.md", bytes(range(256)) * 40)
    house.put("invalid.md", b"caf\xe9 \xff\xfe text")
    house.put("front.md", "---\ntitle: [broken\n: : :\n---\nbody words\n")
    house.put("surrogate.md", '---\ntitle: "\\ud83d"\n---\nbody words\n')
    house.put("empty.md", "")
    house.put("poison.md", "poison words")
    house.put("locked.md", "locked words")
    house.put("line.md", "x" * 10_000_000)
    read = house.indexer.vault.read

    def refuse(path: str) -> object:
        if path == "locked.md":
            raise RuntimeError("nobody expected this")
        return read(path)

    monkeypatch.setattr(house.indexer.vault, "read", refuse)
    await house.indexer.reconcile(FENCE)
    assert {"good.md", "garbage.md", "invalid.md", "front.md", "empty.md", "line.md"} <= set(
        await contents(house.index)
    )
    reasons = {problem.path: problem.reason for problem in house.indexer.problems}
    assert "poisoned" in reasons["poison.md"]
    assert "nobody expected this" in reasons["locked.md"]
    assert await house.hits("fine") == 1
    progress = await house.index.progress()
    assert progress.done == progress.total, "nobody waits for what cannot be indexed"
    monkeypatch.undo()
    house.put("poison.md", "healed words")
    assert set((await house.indexer.reconcile(FENCE)).changed) == {"locked.md", "poison.md"}
    assert not {"locked.md", "poison.md"} & {problem.path for problem in house.indexer.problems}


async def test_an_embedder_that_is_down_is_an_error_and_loses_nothing(house: PageContext) -> None:
    house.put("a.md", "poison one")
    house.put("b.md", "poison two")
    with pytest.raises(ValueError, match="poisoned"):
        await house.indexer.reconcile(FENCE)
    assert await contents(house.index) == {}


async def test_a_failing_keyword_index_loses_no_document(house: PageContext, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(_: object) -> int:
        raise OSError(28, "No space left on device")

    house.put("a.md", "fruit")
    monkeypatch.setattr(house.keyword, "catch_up", fail)
    await house.indexer.reconcile(FENCE)
    assert set(await contents(house.index)) == {"a.md"}
    assert "keyword index is behind" in house.indexer.problems[0].reason
    monkeypatch.undo()
    assert await house.indexer.catch_up()
    assert house.indexer.problems == ()
    assert await house.hits("fruit") == 1


async def test_a_folder_that_went_away_leaves_what_is_indexed(house: PageContext, tmp_path: Path) -> None:
    house.put("a.md", "fruit")
    await house.indexer.reconcile(FENCE)
    house.root.rename(tmp_path / "away")
    for run in (house.indexer.reconcile(FENCE), house.indexer.update({"a.md"}, FENCE)):
        with pytest.raises(VaultUnavailable):
            await run
    assert set(await contents(house.index)) == {"a.md"}


async def test_a_writer_that_was_overtaken_stops(house: PageContext) -> None:
    await house.index.apply([], fence=FENCE + 1)
    house.put("a.md", "fruit")
    with pytest.raises(LeaseLost):
        await house.indexer.reconcile(FENCE)
    assert await contents(house.index) == {}


QUIET = """
import asyncio, sys, time
from pathlib import Path
from knowledge.index.ports import IndexedPages, PageBatch
from knowledge.index.indexer import Indexer
from knowledge.index.store.sqlite import SqliteIndexStore
from knowledge.pages.vault import Vault

async def main(root, database, engines):
    async def keyword():
        if not engines: raise AssertionError("the keyword index was asked for")
        from tests.support.index.memory_engines import MemoryKeywordIndex
        return MemoryKeywordIndex(lambda row: row.text.split())
    async def embedder(identity):
        if not engines: raise AssertionError("the embedder was asked for")
        from tests.support.index.memory_embedder import MemoryEmbedder
        return MemoryEmbedder()
    index = await SqliteIndexStore.open(Path(database))
    indexer = Indexer(Vault.open(Path(root)), index, keyword=keyword, embedder=embedder, now_ns=time.time_ns)
    outcome = await indexer.reconcile(1)
    print(len(outcome.changed), sorted({"numpy", "tantivy", "tokenizers", "yaml", "watchfiles"} & set(sys.modules)))
    await index.close()

asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3] == "engines"))
"""


def test_a_start_with_nothing_new_loads_no_engine(house: PageContext, tmp_path: Path) -> None:
    """A process that starts beside a host must not pay for work that it won't do."""
    house.put("a.md", "fruit")

    def run(mode: str) -> str:
        command = [sys.executable, "-c", textwrap.dedent(QUIET), str(house.root), str(tmp_path / "index.db"), mode]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.strip()

    assert run("engines").startswith("1 ['numpy'")
    assert run("none") == "0 []"


LARGE = "# Fruit\n\n" + "red apples\n" * 6_000


class Overworked:
    """Indexes large pages in this process, except one that is too much work; the first `killed` steps end as if they were killed."""

    takes_all = False

    def __init__(self, too_much: str = "", killed: int = 0) -> None:
        self.too_much, self.killed = too_much, killed
        self.indexer: Indexer | None = None
        self.steps: list[list[str]] = []

    def takes(self, size: int, embedder: IndexIdentity) -> bool:  # noqa: ARG002 - the port's shape
        return size >= len(LARGE)

    async def index(self, pages: PageBatch, *, size: int) -> IndexedPages:
        paths = [path for path, _ in pages.jobs]
        self.steps.append(paths)
        if self.indexer is None:
            raise FileNotFoundError("no process can be started")
        if self.killed:
            self.killed -= 1
            raise WorkerEnded("indexing", "the worker process ended (status -9)")
        if self.too_much and self.too_much in paths:
            raise TooMuchWork("indexing", f"{size} bytes take more than 1 s")
        return await self.indexer.index_here(pages)


def apart_in(tmp_path: Path, apart: Overworked, *paths: str) -> PageContext:
    """Return a knowledge base with these large pages and a small one."""
    (tmp_path / "kb").mkdir()
    house = PageContext(tmp_path / "kb", apart)
    apart.indexer = house.indexer
    for path in paths:
        house.put(path, LARGE)
    house.put("small.md", "# Small\n\nfruit\n")
    return house


async def test_a_page_beyond_its_budget_is_left_out_and_named_and_all_others_are_indexed(tmp_path: Path) -> None:
    apart = Overworked("b.md")
    house = apart_in(tmp_path, apart, "a.md", "b.md", "c.md")
    outcomes = await house.indexer.reconcile(FENCE)
    assert set(outcomes.changed) == set(await contents(house.index)) == {"a.md", "c.md", "small.md"}
    assert apart.steps == [["a.md", "b.md", "c.md"], ["a.md"], ["b.md", "c.md"], ["b.md"], ["c.md"]]
    (problem,) = house.indexer.problems
    assert (problem.path, "too much work to index" in problem.reason) == ("b.md", True)
    assert house.progress[-1] == Progress(4, 4)


async def test_after_a_page_beyond_its_budget_steps_grow_again(tmp_path: Path) -> None:
    apart = Overworked("p00.md")
    house = apart_in(tmp_path, apart, *(f"p{number:02}.md" for number in range(16)))
    await house.indexer.reconcile(FENCE)
    assert [len(step) for step in apart.steps] == [16, 8, 4, 2, 1, 2, 4, 8, 1]
    assert len(await contents(house.index)) == 16


@pytest.mark.parametrize(
    ("paths", "steps"),
    [
        (["a.md"], [["a.md"], ["a.md"]]),
        (["a.md", "b.md", "c.md"], [["a.md", "b.md", "c.md"], ["a.md"], ["b.md", "c.md"]]),
    ],
    ids=["one", "several"],
)
async def test_a_process_that_was_killed_costs_no_page(
    tmp_path: Path, paths: list[str], steps: list[list[str]]
) -> None:
    apart = Overworked(killed=1)
    house = apart_in(tmp_path, apart, *paths)
    await house.indexer.reconcile(FENCE)
    assert apart.steps == steps
    assert set(await contents(house.index)) == {*paths, "small.md"}
    assert house.indexer.problems == ()
    assert house.progress[-1] == Progress(len(paths) + 1, len(paths) + 1)


async def test_a_page_whose_process_is_killed_twice_is_left_out_and_named(tmp_path: Path) -> None:
    apart = Overworked(killed=2)
    house = apart_in(tmp_path, apart, "a.md")
    await house.indexer.reconcile(FENCE)
    assert apart.steps == [["a.md"], ["a.md"]]
    (problem,) = house.indexer.problems
    assert (problem.path, "too much work to index" in problem.reason) == ("a.md", True)


async def test_where_no_process_can_be_started_large_pages_are_indexed_here(tmp_path: Path) -> None:
    apart = Overworked()
    house = apart_in(tmp_path, apart, "a.md")
    apart.indexer = None
    await house.indexer.reconcile(FENCE)
    assert set(await contents(house.index)) == {"a.md", "small.md"}
