"""Keeps the index equal to the files: reads, cuts, embeds and stores changed pages, in overlapping batches."""

from __future__ import annotations

import logging
import math
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import TypeVar

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from knowledge.errors import CorruptDatabase, EmbedderUnavailable, StorageError, TooMuchWork, WorkerEnded
from knowledge.index.embed.ports import EmbedderOf
from knowledge.index.page_rows import NO_INODE, DirectoryTrust, Outcome, Prepared, UnusablePage, index_of, prepare
from knowledge.index.ports import Apart, IndexedPages, KeywordIndex, Known, PageBatch
from knowledge.index.preparation_process import PreparingLost, PreparingProcess, is_worth_it
from knowledge.index.vector_renewal import NO_VECTOR, Renewal, packed
from knowledge.pages.paths import INDEX_NAME, is_hidden, parent, within
from knowledge.pages.vault import Vault, VaultProblem
from knowledge.search.query.analysis import forget_words
from knowledge.state.ports import IndexChange, IndexIdentity, IndexStore, Progress, Remove, Stamp, Touch
from knowledge.task_groups import first_error
from knowledge.telemetry.operations import recorded

log = logging.getLogger(__name__)

BATCH_DOCUMENTS = 256
BATCH_PIECES = 1_500
BATCH_BESIDE = 128
"""Documents requested at a time from the process that prepares them in a long run."""
BATCH_REMOVALS = 1_000
APART_BYTES = 4_000_000
"""Bytes of pages that another process indexes in one step; a run can be stopped between steps."""
KEYWORD_EVERY_S = 20.0
"""Seconds after which a slow run brings the keyword index up to date, so that searches find what is stored."""
KEYWORD_BYTES = 12_000_000
"""The most bytes of pages after which a run does so: about 16,000 passages, as many as the index's writer keeps in memory."""
ONCE_BYTES = 8_000_000
"""Up to this many bytes it is done once, at the end."""
JOINED_PARTS = 8
"""The parts of about equal size that the keyword index joins into one. It has a part for each time it was brought up to date."""
EMBED_S = 30.0
"""Seconds that pages wait for the vectors of a batch. After that, they are stored without vectors and get them
later."""
TURN_S = 0.001
RACY_NS = 2_000_000_000
"""A file modified this shortly before it was read may have been written again with the same timestamp: clocks are coarse."""
MANY_PATHS = 1_000
LOOKED_AT_ONCE = 500
EVERYTHING = 2**31 - 1
MOST_PROBLEMS = 200

T = TypeVar("T")
Vectors = dict[bytes, tuple[bytes, bytes]]
"""`(half, code)` by the digest of the embedded text."""


@dataclass(frozen=True, slots=True)
class Outcomes:
    """The result of a run: the changed or removed documents, and how many chunks were embedded and documents only restamped."""

    changed: tuple[str, ...] = ()
    embedded: int = 0
    touched: int = 0


@dataclass(frozen=True, slots=True)
class _PageApart:
    """A page that another process indexes."""

    path: str
    known: Known | None
    size: int


@dataclass(slots=True)
class _IndexingRun:
    """One run: its remaining work and its results. `late` jobs wait until everything else is stored."""

    fence: int
    jobs: deque[tuple[str, Known | None]]
    removals: deque[str]
    trust: DirectoryTrust
    stored: frozenset[str]
    reuse: bool
    """Whether the index may have vectors of the same texts."""
    embedder: IndexIdentity
    """The identity of the vectors in use during the whole run."""
    total: int
    portion: int
    """The number of documents after which the keyword index is brought up to date."""
    late: deque[tuple[str, Known | None]] = field(default_factory=deque)
    marks: list[Touch] = field(default_factory=list)
    """Changes, stored before all others, that give the documents of `late` jobs a stamp that no file has."""
    new_marks: set[str] = field(default_factory=set)
    """Documents of `late` jobs that are not in the index yet: they are recorded with a stamp that no file has, and
    again at the end."""
    apart: deque[_PageApart] = field(default_factory=deque)
    """Pages that another process indexes once `jobs` are done; removals and `late` jobs wait until these pages are
    stored."""
    apart_late: deque[_PageApart] = field(default_factory=deque)
    done: int = 0
    changed: list[str] = field(default_factory=list)
    embedded: int = 0
    touched: int = 0
    beside: PreparingProcess | None = None
    """The second process that prepares documents; None in a run too short to profit from one."""
    no_vectors: str = ""
    """Why the embedder is no longer called in this run; the remaining pages are stored without vectors and get them later."""

    @property
    def has_work(self) -> bool:
        """Whether anything is left to be read or removed, or to be marked in the index."""
        return bool(self.jobs or self.removals or self.late or self.marks)


@dataclass(slots=True)
class _Ready:
    """A batch for the database: the number of documents it finishes, the changes, and the number of embedded chunks."""

    documents: int
    changes: list[IndexChange]
    embedded: int


class Indexer:
    """Makes an `IndexStore` and a keyword index equal to the files.

    `keyword` and `embedder` build the engines when they are first needed, because loading them takes time and memory
    that a run without work should not cost. `apart` indexes the pages that it takes; without it, all pages are indexed
    here.
    """

    def __init__(
        self,
        vault: Vault,
        index: IndexStore,
        *,
        keyword: Callable[[], Awaitable[KeywordIndex]],
        embedder: EmbedderOf,
        now_ns: Callable[[], int],
        on_progress: Callable[[Progress], None] = lambda _: None,
        on_renewal: Callable[[Progress], None] = lambda _: None,
        apart: Apart | None = None,
    ) -> None:
        self.vault, self.index = vault, index
        self._apart = apart
        self._keyword_factory, self._embedder = keyword, embedder
        self._keyword: KeywordIndex | None = None
        self._now_ns, self._on_progress = now_ns, on_progress
        self._problems: dict[str, str] = {}
        self._catching_up = anyio.Lock()
        self._turn = anyio.Lock()
        self._renewal = Renewal(index, embedder, turn=self._turn, on_progress=on_renewal)

    @property
    def problems(self) -> tuple[VaultProblem, ...]:
        """The pages that were left out or have a problem, as far as this process knows; the first few hundred."""
        return (*self.vault.problems, *(VaultProblem(path, reason) for path, reason in self._problems.items()))

    async def reconcile(self, fence: int) -> Outcomes:
        """Compare every file with the index and store the differences.

        Raises:
            VaultUnavailable: the folder does not exist; the index is not changed.
            LeaseLost: a writer with a higher fence has been here.
            StorageError: the index cannot be written.
        """
        if await self._is_settled():
            await self._all_is_done()
            return Outcomes()
        found = await _in_thread(lambda: {scanned.path: scanned.stamp for scanned in self.vault.scan()})
        known = await self.index.stamps()
        self._problems = {path: reason for path, reason in self._problems.items() if path in found}
        return await self._settle(found, known, fence=fence, everything=True)

    async def _is_settled(self) -> bool:
        """Return whether the index matches the files: the usual case at a start, checked with little memory."""
        scan = self.vault.scan()
        seen = 0
        while batch := await _in_thread(lambda: list(islice(scan, LOOKED_AT_ONCE))):
            known = await self.index.stamps([scanned.path for scanned in batch])
            if not all(_settled(scanned.stamp, known.get(scanned.path)) for scanned in batch):
                return False
            seen += len(batch)
        return seen == (await self.index.progress()).done

    async def update(self, paths: Iterable[str], fence: int) -> Outcomes:
        """Do the same as `reconcile` for documents at or below `paths`, which may name removed files and directories."""
        asked = {path for path in paths if not any(is_hidden(part) for part in path.split("/"))}
        if "" in asked or len(asked) > MANY_PATHS:
            return await self.reconcile(fence)

        def look() -> dict[str, Stamp]:
            self.vault.check()
            found: dict[str, Stamp] = {}
            for path in asked:
                scanned = self.vault.find(path)
                found |= {one.path: one.stamp for one in ([scanned] if scanned else self.vault.scan(path))}
            return found

        return await self._settle(await _in_thread(look), await self._known(asked), fence=fence, everything=False)

    async def catch_up(self) -> bool:
        """Bring the keyword index up to date with the store; return whether that worked. A failure is reported as a problem."""
        try:
            async with self._catching_up:
                if self._keyword is None:
                    self._keyword = await self._keyword_factory()
                await self._catch_up_apart(self._keyword)
                await self._keyword.catch_up(self.index)
        # A damaged index is rebuilt by the service; any other failure may be over at the next try.
        except CorruptDatabase:
            raise
        except Exception as error:
            log.exception("the keyword index is behind")
            self._report("", f"the keyword index is behind ({type(error).__name__}: {error}); it will be tried again")
            return False
        self._problems.pop("", None)
        return True

    async def _catch_up_apart(self, keyword: KeywordIndex) -> None:
        """Have another process bring the keyword index up to date, if this one should stay small; a failure is only logged."""
        if self._apart is None or not self._apart.takes_all or await keyword.position() == await self.index.position():
            return
        nothing = PageBatch((), (), frozenset(), reuse=False, embedder=IndexIdentity("", 0, 0), fence=0)
        try:
            await self._apart.index(nothing, size=0)
        except (TooMuchWork, OSError):
            log.warning("the keyword index is brought up to date in this process", exc_info=True)

    async def renew(self, fence: int) -> bool:
        """Give every chunk a vector of the wanted embedder, then use those; return whether vectors were exchanged.

        May run at the same time as `update`. A run that was killed is continued. `on_renewal` gets the number of finished chunks.

        Raises:
            EmbedderUnavailable: the embedder cannot be asked now; the vectors in use stay.
            LeaseLost, StorageError: as for `reconcile`.
        """
        exchanged = await self._renewal.run(fence)
        if exchanged:
            await self.catch_up()
        return exchanged

    # --- planning -----------------------------------------------------------------------------------------------------

    async def _known(self, paths: Iterable[str]) -> dict[str, Known]:
        known: dict[str, Known] = {}
        for path in paths:
            for stored in [path, *await self._stored_below(path)]:
                # That many single queries take longer than reading the stamps of the whole index.
                if len(known) > MANY_PATHS:
                    everything = await self.index.stamps()
                    return {p: k for p, k in everything.items() if any(within(p, path) for path in paths)}
                record = await self.index.document(stored)
                if record is not None:
                    known[stored] = (record.stamp, record.revision, record.indexed_at_ns)
        return known

    async def _stored_below(self, directory: str) -> list[str]:
        prefix = f"{directory}/" if directory else ""
        # The store ignores case, paths do not.
        return [p for p in await self.index.paths(prefix=prefix, limit=EVERYTHING) if p.startswith(prefix)]

    @recorded("index", says=lambda found: {"documents": len(found.changed)})
    async def _settle(
        self, found: Mapping[str, Stamp], known: Mapping[str, Known], *, fence: int, everything: bool
    ) -> Outcomes:
        """Index what differs between `found` (the files) and `known` (the index)."""
        todo = [path for path, stamp in found.items() if not _settled(stamp, known.get(path))]
        gone = [path for path in known if path not in found]
        if not todo and not gone:
            if everything:
                await self._all_is_done()
            return Outcomes()
        async with self._turn:
            run = await self._planned(found, known, todo, gone, fence=fence)
            progress = await self.index.progress()
            jobs = len(run.jobs) + len(run.apart)
            if everything:
                await self.index.set_total(len(found))
            elif jobs > BATCH_DOCUMENTS:
                planned = [*(path for path, _ in run.jobs), *(page.path for page in run.apart)]
                await self.index.set_total(progress.done + sum(path not in known for path in planned))
            with _turns_for_others():
                try:
                    if run.apart:
                        await self._pipeline(run)
                        await self._index_apart(run, run.apart)
                    await self._pipeline(run)
                    await self._index_apart(run, run.apart_late)
                    if run.jobs:  # no other process could be started for them
                        await self._pipeline(run)
                    if run.changed:
                        await self.catch_up()
                finally:
                    forget_words()
            await self._all_is_done()
            return Outcomes(tuple(run.changed), run.embedded, run.touched)

    async def _planned(
        self,
        found: Mapping[str, Stamp],
        known: Mapping[str, Known],
        todo: list[str],
        gone: list[str],
        *,
        fence: int,
    ) -> _IndexingRun:
        trust = DirectoryTrust(self.vault)
        flipped = await self._flipped([*todo, *gone], known, trust)
        below = {path for directory in flipped for path in await self._stored_below(directory)}
        late = {index_of(directory) for directory in flipped}
        # Pages that describe a directory come first, for the map of a half-indexed knowledge base. Those that change its
        # trust come last, so that a run that dies is repeated until all pages below them are recorded again.
        todo.sort(key=lambda path: (not path.endswith(INDEX_NAME), path))
        jobs = dict.fromkeys([*(p for p in todo if p not in late), *sorted(below - late - set(gone))])
        last = sorted(late, key=len, reverse=True)
        embedder = (await self.index.space()).identity
        taken = {}
        if self._apart is not None:
            taken = await _in_thread(partial(self._taken_apart, [*jobs, *last], found, embedder))
        stored = frozenset(below.union(known))

        # Unknown on purpose: pages whose trust has changed are recorded again although their bytes are the same.
        def of(path: str) -> Known | None:
            return None if path in below else known.get(path)

        # Each of these is marked as unsettled before its pages are stored. Otherwise, if this run dies and the file is changed back
        # before the next run, nothing would show that some pages were recorded with the trust of the short-lived version.
        new = [path for path in last if path in found and path not in known]
        marks = [Touch(p, replace(known[p][0], inode=NO_INODE), known[p][2]) for p in last if p in known]
        return _IndexingRun(
            fence=fence,
            jobs=deque([*((path, None) for path in new), *((p, of(p)) for p in jobs if p not in taken)]),
            new_marks=set(new),
            marks=marks,
            apart=deque(_PageApart(path, of(path), taken[path]) for path in jobs if path in taken),
            removals=deque(path for path in gone if path not in late),
            late=deque((path, None) for path in last if path not in taken),
            apart_late=deque(_PageApart(path, None, taken[path]) for path in last if path in taken),
            trust=trust,
            stored=stored,
            reuse=bool(stored),
            embedder=embedder,
            total=len(new) + len(marks) + len(jobs) + len(gone) + len(late - set(gone)),
            portion=_portion(len(jobs), sum(found[path].size for path in jobs if path in found)),
        )

    def _taken_apart(self, paths: Iterable[str], found: Mapping[str, Stamp], embedder: IndexIdentity) -> dict[str, int]:
        """Return the size of each page that another process indexes."""
        taken: dict[str, int] = {}
        for path in paths if self._apart is not None else ():
            stamp = found.get(path)
            if stamp is None:
                scanned = self.vault.find(path)
                stamp = scanned.stamp if scanned else None
            if self._apart is not None and stamp is not None and self._apart.takes(stamp.size, embedder):
                taken[path] = stamp.size
        return taken

    async def _all_is_done(self) -> None:
        """Set the total to the number of indexed documents: the rest is in `problems`, and progress must not wait for it."""
        progress = await self.index.progress()
        if progress.total != progress.done:
            await self.index.set_total(progress.done)

    async def _flipped(self, paths: Iterable[str], known: Mapping[str, Known], trust: DirectoryTrust) -> list[str]:
        """Return the directories whose trust differs between the index and the files."""
        if not known:
            return []
        flipped = []
        for directory in [parent(path) for path in paths if path == index_of(parent(path))]:
            # The nearest indexed `_index.md` above has the trust that was recorded for this directory.
            above = directory
            record = await self.index.document(index_of(above))
            while record is None and above:
                above = parent(above)
                record = await self.index.document(index_of(above))
            stored = record is not None and record.untrusted
            # A run that died may have recorded some pages with a trust that the files no longer say.
            unfinished = record is not None and above == directory and record.stamp.inode == NO_INODE
            if unfinished or stored != await _in_thread(partial(trust.untrusted, directory)):
                flipped.append(directory)
        return flipped

    # --- three stages that overlap: read and cut, embed, store ---------------------------------------------------------

    async def _pipeline(self, run: _IndexingRun) -> None:
        """Do all jobs of `run`; the first error of any stage stops the others."""
        # A buffer of one batch lets the stages overlap, and makes a slow stage hold up those before it.
        to_embed, embeds = anyio.create_memory_object_stream[list[Outcome]](1)
        to_store, stores = anyio.create_memory_object_stream[_Ready](1)
        async with first_error() as stages:
            stages.start_soon(self._read_stage, run, to_embed)
            stages.start_soon(self._embed_stage, run, embeds, to_store)
            stages.start_soon(self._store_stage, run, stores, stages)

    async def _read_stage(self, run: _IndexingRun, send: MemoryObjectSendStream[list[Outcome]]) -> None:
        async with send:
            if is_worth_it(len(run.jobs)):
                run.beside = await _in_thread(self._start_beside)
            try:
                while run.has_work and (batch := await _in_thread(partial(self._next_batch, run))):
                    await send.send(batch)
            finally:
                if run.beside is not None:
                    # Shielded: it is a process, which would outlive a cancelled pass.
                    with anyio.CancelScope(shield=True):
                        await _in_thread(run.beside.close)

    def _next_batch(self, run: _IndexingRun) -> list[Outcome]:
        batch = self._prepared_beside(run) if run.beside else self._prepared_here(run)
        if run.marks or run.new_marks:
            batch = [*run.marks, *(_marked(run, outcome) for outcome in batch)]
            run.marks.clear()
        if run.jobs or run.apart:
            return batch
        # Removals come last, so that a renamed page finds the vectors of its old name; and in the same batch if possible,
        # so that nobody sees neither name or both.
        batch += [Remove(run.removals.popleft()) for _ in range(min(len(run.removals), BATCH_REMOVALS))]
        if not batch and run.late:
            batch = [prepare(self.vault, *job, run.trust, at_ns=self._now_ns()) for job in run.late]
            run.late.clear()
        return batch

    def _start_beside(self) -> PreparingProcess | None:
        try:
            return PreparingProcess(self.vault.root)
        except (OSError, PreparingLost):
            log.warning("documents are prepared in this process: no other can be started", exc_info=True)
            return None

    def _prepared_here(self, run: _IndexingRun) -> list[Outcome]:
        batch: list[Outcome] = []
        pieces = 0
        while run.jobs and len(batch) < BATCH_DOCUMENTS and pieces < BATCH_PIECES:
            outcome = prepare(self.vault, *run.jobs.popleft(), run.trust, at_ns=self._now_ns())
            pieces += len(outcome.pieces) if isinstance(outcome, Prepared) else 0
            batch.append(outcome)
        return batch

    def _prepared_beside(self, run: _IndexingRun) -> list[Outcome]:
        jobs = [run.jobs.popleft() for _ in range(min(len(run.jobs), BATCH_BESIDE))]
        if not jobs or run.beside is None:
            return []
        try:
            return run.beside.prepare(jobs, at_ns=self._now_ns())
        except PreparingLost:
            if run.beside.closed:
                return []  # the run was cancelled, and nobody waits for this thread
            log.warning("the process that prepares documents is gone; this one continues", exc_info=True)
            run.beside.close()
            run.beside = None
            run.jobs.extendleft(reversed(jobs))
            return self._prepared_here(run)

    async def _embed_stage(
        self, run: _IndexingRun, receive: MemoryObjectReceiveStream[list[Outcome]], send: MemoryObjectSendStream[_Ready]
    ) -> None:
        async with receive, send:
            async for batch in receive:
                await send.send(await self._with_vectors(run, batch))

    async def _with_vectors(self, run: _IndexingRun, batch: list[Outcome]) -> _Ready:
        prepared = [outcome for outcome in batch if isinstance(outcome, Prepared)]
        texts = {piece.digest: piece.embedded for one in prepared for piece in one.pieces}
        vectors: Vectors = dict(await self.index.vectors(list(texts))) if texts and run.reuse else {}
        missing = {digest: text for digest, text in texts.items() if digest not in vectors}
        failed: dict[str, str] = {}
        try:
            vectors |= await self._embed(run, missing)
        except StorageError:
            raise
        except Exception as error:  # noqa: BLE001 - raised again unless single documents caused it
            failed = await self._embed_one_by_one(run, prepared, vectors, error)
        changes: list[IndexChange] = []
        for outcome in batch:
            if isinstance(outcome, Touch):
                changes.append(outcome)
                continue
            if isinstance(outcome, Prepared) and outcome.path not in failed:
                changes.append(outcome.with_vectors(vectors))
                reason = "; ".join(outcome.problems)
            else:
                reason = outcome.reason if isinstance(outcome, UnusablePage) else failed.get(outcome.path, "")
                # What the index has of it can no longer be read, so searches must not find it.
                if outcome.path in run.stored:
                    changes.append(Remove(outcome.path))
            self._note(outcome.path, reason)
        return _Ready(len(batch), changes, 0 if run.no_vectors else len(missing))

    async def _embed(self, run: _IndexingRun, texts: Mapping[bytes, str]) -> Vectors:
        """Return the vectors of `texts`; empty ones if the embedder is unavailable, so that keyword search need not wait for it."""
        if not texts:
            return {}
        if not run.no_vectors:
            try:
                with anyio.move_on_after(EMBED_S):
                    embedder = await self._embedder(run.embedder)
                    vectors = await embedder.embed(list(texts.values()))
                    return dict(zip(texts, await _in_thread(partial(packed, vectors)), strict=True))
                # Only reached when the time has run out.
                run.no_vectors = f"{run.embedder.embedder} takes longer than {EMBED_S:.0f} s"
            except EmbedderUnavailable as error:
                run.no_vectors = str(error)
            log.warning("pages are stored without vectors, so only their words are found: %s", run.no_vectors)
        return dict.fromkeys(texts, NO_VECTOR)

    async def _embed_one_by_one(
        self, run: _IndexingRun, prepared: Sequence[Prepared], vectors: Vectors, error: Exception
    ) -> dict[str, str]:
        """Embed document by document into `vectors`; return the reasons, by path, of those that cannot be embedded.

        If none of several can, the embedder is at fault: raise `error`.
        """
        failed = {}
        for one in prepared:
            texts = {piece.digest: piece.embedded for piece in one.pieces if piece.digest not in vectors}
            try:
                vectors |= await self._embed(run, texts)
            except Exception as odd:  # noqa: BLE001 - reported for this document
                failed[one.path] = f"cannot be embedded ({type(odd).__name__}: {odd})"
        if len(failed) == len(prepared) and len(prepared) > 1:
            raise error
        return failed

    async def _store_stage(
        self, run: _IndexingRun, receive: MemoryObjectReceiveStream[_Ready], stages: TaskGroup
    ) -> None:
        last_catch_up, waiting = anyio.current_time(), 0
        async with receive:
            async for ready in receive:
                if ready.changes:
                    await self._store(ready.changes, run.fence)
                run.embedded += ready.embedded
                run.touched += sum(isinstance(change, Touch) for change in ready.changes)
                run.changed += [_changed_path(change) for change in ready.changes if not isinstance(change, Touch)]
                self._advance(run, ready.documents)
                waiting += ready.documents
                is_due = waiting >= run.portion or anyio.current_time() - last_catch_up > KEYWORD_EVERY_S
                if is_due and run.done < run.total and not self._catching_up.locked():
                    stages.start_soon(self.catch_up)
                    last_catch_up, waiting = anyio.current_time(), 0

    async def _store(self, changes: Sequence[IndexChange], fence: int) -> None:
        """Store all changes in one transaction; if that fails, one by one, removing pages that cannot be stored."""
        try:
            await self.index.apply(changes, fence=fence)
        except StorageError:
            raise
        except Exception as error:
            # Not even a removal works: the database is at fault, not a page.
            if len(changes) == 1 and isinstance(changes[0], Remove):
                raise
            log.exception("a batch cannot be stored; trying its documents one by one")
            if len(changes) == 1:
                path = _changed_path(changes[0])
                self._report(path, f"cannot be stored ({type(error).__name__}: {error})")
                await self._store([Remove(path)], fence)
                return
            for change in changes:
                await self._store([change], fence)

    # --- all three stages in another process ----------------------------------------------------------------------------

    async def _index_apart(self, run: _IndexingRun, pages: deque[_PageApart]) -> None:
        """Index these pages in steps of bounded size, each in another process. A page that takes too much is left out."""
        # If there is nothing else to do, removals join the first step, so that a renamed page always has one of its names.
        nothing_else = run.total == len(pages) + len(run.removals)
        with_removals = nothing_else and len(run.removals) <= BATCH_REMOVALS and _bytes(pages) <= APART_BYTES
        most, tried, waiting = len(pages), set[str](), 0
        while pages and self._apart is not None:
            step = _next_step(pages, min(most, run.portion - waiting))
            is_portion = not pages or waiting + len(step) >= run.portion
            removals = tuple(run.removals) if with_removals else ()
            batch = PageBatch(
                jobs=tuple((page.path, page.known) for page in step),
                removals=removals,
                stored=run.stored.intersection([*(page.path for page in step), *removals]),
                reuse=run.reuse,
                embedder=run.embedder,
                fence=run.fence,
                catch_up=is_portion,
            )
            try:
                indexed = await self._apart.index(batch, size=_bytes(step))
            except OSError:
                log.warning("pages are indexed in this process: no other can be started", exc_info=True)
                run.jobs.extend((page.path, page.known) for page in [*step, *pages])
                pages.clear()
                return
            except TooMuchWork as error:
                again = isinstance(error, WorkerEnded) and step[0].path not in tried
                if len(step) > 1 or again:
                    # Half as many pages, until the one page that is too much is found. A process that was killed gets a
                    # second try.
                    tried.add(step[0].path)
                    pages.extendleft(reversed(step))
                    most = max(1, len(step) // 2)
                    continue
                # The removals were not done in this step: `_next_batch` does them at the end.
                with_removals = False
                await self._leave_out(run, step[0].path, error.why)
                most = 2
                continue
            most = 2 * max(most, len(step))
            waiting = 0 if is_portion else waiting + len(step)
            for _ in removals:
                run.removals.popleft()
            self._take_over(run, [*(page.path for page in step), *removals], indexed)

    async def _leave_out(self, run: _IndexingRun, path: str, why: str) -> None:
        """Report that the page takes too much work; searches must not find what the index has of it."""
        self._report(path, f"it takes too much work to index: {why}; split the page")
        if path in run.stored:
            await self._store([Remove(path)], run.fence)
            run.changed.append(path)
        self._advance(run, 1)

    def _take_over(self, run: _IndexingRun, paths: Sequence[str], indexed: IndexedPages) -> None:
        """Add the result of another process, which has indexed or removed the pages at `paths`, to that of the run."""
        for path in paths:
            self._note(path, indexed.problems.get(path, ""))
        run.changed += indexed.changed
        run.embedded += indexed.embedded
        run.touched += indexed.touched
        self._advance(run, len(paths))

    async def index_here(self, pages: PageBatch) -> IndexedPages:
        """Do the work of `Apart` in this process.

        Raises:
            LeaseLost, StorageError, VaultUnavailable: as for `reconcile`.
        """
        run = _IndexingRun(
            fence=pages.fence,
            jobs=deque(pages.jobs),
            removals=deque(pages.removals),
            trust=DirectoryTrust(self.vault),
            stored=pages.stored,
            reuse=pages.reuse,
            embedder=pages.embedder,
            total=len(pages.jobs) + len(pages.removals),
            portion=EVERYTHING,
        )
        try:
            await self._pipeline(run)
            if pages.catch_up:
                await self.catch_up()
        finally:
            if pages.catch_up:
                forget_words()
        problems = {path: self._problems[path] for path, _ in pages.jobs if path in self._problems}
        return IndexedPages(tuple(run.changed), run.embedded, run.touched, problems)

    # --- reporting ----------------------------------------------------------------------------------------------------

    def _advance(self, run: _IndexingRun, documents: int) -> None:
        run.done += documents
        self._on_progress(Progress(run.done, max(run.total, run.done)))

    def _note(self, path: str, reason: str) -> None:
        """Record a problem of a page, or with an empty `reason` that it no longer has one."""
        if reason:
            self._report(path, reason)
        else:
            self._problems.pop(path, None)

    def _report(self, path: str, reason: str) -> None:
        if path in self._problems or len(self._problems) < MOST_PROBLEMS:
            self._problems[path] = reason


@contextmanager
def _turns_for_others() -> Iterator[None]:
    """Shorten the interpreter's switch interval: a search during a long run switches threads a dozen times, waiting each time."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(min(usual, TURN_S))
    try:
        yield
    finally:
        sys.setswitchinterval(usual)


def _marked(run: _IndexingRun, outcome: Outcome) -> Outcome:
    """Return `outcome`.

    If its page is one of `new_marks`, it gets a stamp that no file has, so that the page counts as changed.
    """
    if not isinstance(outcome, Prepared) or outcome.path not in run.new_marks:
        return outcome
    run.new_marks.discard(outcome.path)
    stamp = replace(outcome.record.stamp, inode=NO_INODE)
    return replace(outcome, record=outcome.record._replace(stamp=stamp))


def _settled(stamp: Stamp, known: Known | None) -> bool:
    return known is not None and known[0] == stamp and stamp.mtime_ns < known[2] - RACY_NS


def _next_step(pages: deque[_PageApart], most: int) -> list[_PageApart]:
    """Take the first of `pages`, and those after it, up to `most`, that fit into one step together."""
    step = [pages.popleft()]
    while pages and len(step) < most and _bytes(step) + pages[0].size <= APART_BYTES:
        step.append(pages.popleft())
    return step


def _bytes(pages: Iterable[_PageApart]) -> int:
    return sum(page.size for page in pages)


def _portion(documents: int, size: int) -> int:
    """Return after how many of the documents of a run, which have `size` bytes, the keyword index is brought up to date.

    Each search looks up its words in every part of that index. So there are as many portions as are joined, and one more,
    because portions are not exactly equal.
    """
    if size <= ONCE_BYTES:
        return EVERYTHING
    portions = JOINED_PARTS * math.ceil(size / (JOINED_PARTS * KEYWORD_BYTES)) + 1
    return math.ceil(documents / portions)


def _changed_path(change: IndexChange) -> str:
    return change.path if isinstance(change, Touch | Remove) else change.record.path


async def _in_thread(work: Callable[[], T]) -> T:
    # These threads only read, so a cancelled run need not wait for a slow disk.
    return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
