"""Keyword search by SQLite's FTS5, for machines without a tantivy build. Slower, with the same results."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import anyio.to_thread
import apsw

from knowledge.index.engines.catch_up import NOWHERE
from knowledge.index.ports import PageField, QueryTerm, Scored
from knowledge.private_files import private_folder
from knowledge.state.ports import Delta, Filters, IndexPosition, IndexStore, NameRow, TextRow

BATCH = 2_000
SHAPE = 2
"""Raise it when the tables or the spelling of terms change; a file of another shape is replaced."""

_COUNTED = {"chunks": "count(*)", "page_text": "sum(begins_page)", "page_names": "sum(begins_page)"}
"""The tables, each with the SQL that counts its rows in `rows`, because a contentless table can't count them.

Chunks have a table, and so has each field of whole pages, since `bm25()` measures the length of a row over all its columns. A
page's row has the number of its first chunk.
"""
_SCHEMA = "\n".join(
    (
        "create table if not exists applied (generation text not null, seq integer not null);",
        "create table if not exists rows (seq integer primary key, doc integer not null, begins_page integer not null);",
        *(
            f"create virtual table if not exists {table} using fts5 (terms, content='', contentless_delete=1, tokenize='ascii');"
            f"create virtual table if not exists {table}_postings using fts5vocab ({table}, row);"
            for table in _COUNTED
        ),
        f"pragma user_version = {SHAPE};",
    )
)

# FTS5's bm25() has our k1 and b, but lets the idf of a common word vanish; `factor` puts the right idf in its place.
# Materialized, because bm25() works only where its table is scanned, not under an aggregate.
_SEARCH = """
with asked as (
    select value ->> 0 as word, value ->> 1 as term, value ->> 2 as factor from json_each(:asked)
), hits as materialized (
    select asked.word, {0}.rowid as seq, -bm25({0}) * asked.factor as score
    from asked cross join {0} where {0} match asked.term
), best as (
    select word, seq, max(score) as score from hits group by word, seq
)
select rows.seq, rows.doc, sum(best.score) as score from best join rows on rows.seq = best.seq
where :docs is null or rows.doc in (select value from json_each(:docs))
group by rows.seq order by score desc, rows.seq limit :limit
"""


class Fts5KeywordIndex:
    """Indexes the terms of chunks and of pages' names in one SQLite file, shared by any number of processes."""

    def __init__(
        self, path: Path, terms: Callable[[TextRow], Sequence[str]], names: Callable[[NameRow], Sequence[str]]
    ) -> None:
        self._path, self._terms, self._names = path, terms, names
        # One connection, one user at a time: the fallback is simple rather than fast.
        self._using = threading.Lock()
        self._connection: apsw.Connection | None = None

    async def catch_up(self, store: IndexStore) -> int:
        """Add the store's rows that this index lacks, and return their number.

        Each batch is stored in one transaction, together with the position that it reaches. Of several processes one
        works and the others return at once.
        """
        try:
            return await self._take_all(store)
        except _Unusable as found:
            return await self._take_all(store) if found.discarded else 0

    async def _take_all(self, store: IndexStore) -> int:
        taken = 0
        while True:
            applied = await self.position()
            delta = await store.delta(applied, limit=BATCH, texts=True)
            if delta.upto == applied or not await anyio.to_thread.run_sync(self._take, applied, delta):
                return taken
            taken += len(delta.texts) + len(delta.removed)

    async def position(self) -> IndexPosition:
        """Return the position up to which searches find the store's rows."""

        def read() -> IndexPosition:
            with self._opened() as connection:
                return _position(connection)

        return await anyio.to_thread.run_sync(read)

    async def search(
        self,
        terms: Sequence[QueryTerm],
        *,
        limit: int,
        docs: frozenset[int] | None = None,
        filters: Filters | None = None,  # noqa: ARG002 - `docs` says the same
    ) -> Sequence[Scored]:
        """Return at most `limit` chunks that have any of the terms, best first, equal ones by `seq`."""
        return await self._asked("chunks", terms, limit, docs)

    async def pages(
        self, terms: Sequence[QueryTerm], *, by: PageField, limit: int, docs: frozenset[int] | None = None
    ) -> Sequence[Scored]:
        """Return at most `limit` pages that have any of the terms in that field, best first, equal ones by `seq`."""
        return await self._asked(f"page_{by}", terms, limit, docs)

    async def _asked(
        self, table: str, terms: Sequence[QueryTerm], limit: int, docs: frozenset[int] | None
    ) -> Sequence[Scored]:
        if not terms or limit <= 0 or (docs is not None and not docs):
            return []
        try:
            return await anyio.to_thread.run_sync(self._search, table, terms, limit, docs)
        except _Unusable:
            return []  # the next catch-up restores what was discarded

    async def close(self) -> None:
        """Close the file."""
        with self._using:
            self._forget()

    def _take(self, after: IndexPosition, delta: Delta) -> bool:
        """Store `delta` and return True, or False if another process has moved the file past `after`."""
        rows = [(row.seq, row.doc, spelled(self._terms(row))) for row in delta.texts]
        names = {page.doc: spelled(self._names(page)) for page in delta.names}
        with self._opened() as connection:
            # Takes the write lock at once, so that the position cannot change before the rows are stored.
            connection.execute("begin immediate")
            try:
                if fits := _position(connection) == after:
                    _store(connection, after, delta, rows, names)
                connection.execute("commit")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("rollback")
                raise
            return fits

    def _search(self, table: str, terms: Sequence[QueryTerm], limit: int, docs: frozenset[int] | None) -> list[Scored]:
        found: list[Scored] = []
        # In one transaction, so that all parts of the answer are of one state.
        with self._opened() as connection, connection:
            (total,) = next(connection.execute(f"select coalesce({_COUNTED[table]}, 0) from rows"))  # noqa: S608 - our own names
            asked = [
                (number, f'"{_spell(term)}"', weight * factor)
                for number, query in enumerate(terms)
                for term, weight in query.alternatives
                if (factor := _idf_factor(connection, table, term, total))
            ]
            admitted = None if docs is None else json.dumps(sorted(docs))
            bindings = {"asked": json.dumps(asked), "docs": admitted, "limit": limit}
            found += [
                Scored(seq, doc, score) for seq, doc, score in connection.execute(_SEARCH.format(table), bindings)
            ]
        return found

    @contextmanager
    def _opened(self) -> Iterator[apsw.Connection]:
        """Yield the connection; a damaged or foreign file is deleted, and `_Unusable` raised."""
        with self._using:
            try:
                # Another process has discarded the file.
                if self._connection is not None and not self._path.exists():
                    self._forget()
                self._connection = self._connection or _connected(self._path)
                yield self._connection
            except apsw.BusyError as error:
                raise _Unusable(discarded=False) from error
            except (apsw.CorruptError, apsw.NotADBError, apsw.IOError, apsw.SQLError, _OtherShape) as error:
                self._forget()
                for suffix in ("", "-wal", "-shm"):
                    Path(f"{self._path}{suffix}").unlink(missing_ok=True)
                raise _Unusable(discarded=True) from error

    def _forget(self) -> None:
        if self._connection is not None:
            self._connection.close(force=True)
            self._connection = None


class _Unusable(Exception):
    """The file cannot be read now; `discarded` if it was damaged and is deleted."""

    def __init__(self, *, discarded: bool) -> None:
        self.discarded = discarded
        super().__init__("discarded" if discarded else "busy")


class _OtherShape(Exception):
    """The file was written by another version of this module."""


def spelled(terms: Sequence[str]) -> str:
    """Return a text that FTS5's tokenizer splits into exactly `terms`."""
    return " ".join(map(_spell, terms))


def _spell(term: str) -> str:
    # The tokenizer folds case and splits at punctuation, so everything but plain words is written in hexadecimal; the
    # first letter tells the two apart.
    if term.isascii() and term.isalnum() and term == term.lower():
        return "w" + term
    return "x" + term.encode("utf-8", "surrogatepass").hex()


def _connected(path: Path) -> apsw.Connection:
    private_folder(path.parent)
    connection = apsw.Connection(str(path))
    try:
        connection.set_busy_timeout(5_000)
        connection.execute("pragma journal_mode = wal").fetchall()
        # A cache: a commit lost in a power cut is caught up again.
        connection.execute("pragma synchronous = normal").fetchall()
        (shape,) = next(connection.execute("pragma user_version"))
        (tables,) = next(connection.execute("select count(*) from sqlite_master"))
        if shape != SHAPE and (shape or tables):
            raise _OtherShape  # noqa: TRY301 - the connection must be closed in this case too
        if shape != SHAPE:
            with connection:
                connection.execute(_SCHEMA).fetchall()
    except BaseException:
        connection.close(force=True)
        raise
    return connection


def _position(connection: apsw.Connection) -> IndexPosition:
    row = connection.execute("select generation, seq from applied").fetchone()
    return IndexPosition(*row) if row else NOWHERE


def _store(
    connection: apsw.Connection,
    after: IndexPosition,
    delta: Delta,
    rows: Sequence[tuple[int, int, str]],
    names: Mapping[int, str],
) -> None:
    # The store has started over: the numbers mean other chunks now.
    started_over = delta.upto.generation != after.generation
    gone = [(seq,) for seq in delta.removed]
    # The chunks of a page have adjacent numbers. A page that a batch cuts in two has two rows, and both are deleted
    # with it.
    pages = [(doc, list(group)) for doc, group in groupby(rows, key=itemgetter(1))]
    first = {group[0][0] for _, group in pages}
    filled = {
        "chunks": [(seq, text) for seq, _, text in rows],
        "page_text": [(group[0][0], " ".join(text for _, _, text in group)) for _, group in pages],
        "page_names": [(group[0][0], names.get(doc, "")) for doc, group in pages],
    }
    for table, texts in filled.items():
        if started_over:
            connection.execute(f"insert into {table} ({table}) values ('delete-all')")  # noqa: S608 - our own table names
        connection.executemany(f"delete from {table} where rowid = ?", gone)  # noqa: S608 - our own table names
        connection.executemany(f"insert into {table} (rowid, terms) values (?, ?)", texts)  # noqa: S608 - our own table names
    if started_over:
        connection.execute("delete from rows")
    connection.executemany("delete from rows where seq = ?", gone)
    connection.executemany("insert into rows values (?, ?, ?)", [(seq, doc, seq in first) for seq, doc, _ in rows])
    connection.execute("delete from applied")
    connection.execute("insert into applied values (?, ?)", (delta.upto.generation, delta.upto.seq))


def _idf_factor(connection: apsw.Connection, table: str, term: str, total: int) -> float:
    """Return our idf divided by FTS5's for `term`; 0 if no row has it."""
    sql = f"select doc from {table}_postings where term = ?"  # noqa: S608 - our own table names
    row = connection.execute(sql, (_spell(term),)).fetchone()
    if row is None or not row[0]:
        return 0.0
    n = row[0]
    # Source: SQLite, fts5_aux.c: an idf that is not above 0 is taken as 1e-6.
    theirs = max(math.log((total - n + 0.5) / (n + 0.5)), 0.0) or 1e-6
    return math.log(1 + (total - n + 0.5) / (n + 0.5)) / theirs
