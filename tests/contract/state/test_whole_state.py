"""A whole state is copied and moved between SQLite files and PostgreSQL, row for row, whatever tables there are."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from knowledge.errors import MoveRefused, MoveUnfinished, StateInUse, StateMoved, StorageError
from knowledge.state.postgres.database import PostgresAddress
from knowledge.state.postgres.store import PostgresStateStore
from knowledge.state.sqlite.store import SqliteStateStore
from knowledge.state.transfer.layout import FOREVER_US, UnmatchedLayout, matched, tables
from knowledge.state.transfer.move import Contents, contents, copy, move, plan
from knowledge.state.transfer.ports import WholeState
from knowledge.state.transfer.postgres_state import PostgresWholeState
from knowledge.state.transfer.sqlite_state import SqliteWholeState
from tests.support.state.ledgers import change, entry, intent
from tests.support.state.postgres import PostgresServer

pytestmark = pytest.mark.external

TIMES = (1_772_366_400_123_456, 0, -1, FOREVER_US, 253_402_300_799_999_999)
NO_TIMES = (1, 2, 3)


class Places:
    """SQLite files in a folder, and schemas of a server, by name."""

    def __init__(self, folder: Path, server: PostgresServer, prefix: str) -> None:
        self._folder, self._server, self._prefix = folder, server, prefix

    def file(self, name: str) -> Path:
        return self._folder / name / "state.db"

    async def migrate(self, name: str) -> None:
        """Make the database, or raise what a server gets that opens it."""
        if name.startswith("file"):
            await (await SqliteStateStore.open(self.file(name))).close()
        else:
            await (await PostgresStateStore.open(self._server.url(), self.schema(name))).close()

    def schema(self, name: str) -> str:
        return f"{self._prefix}_{name}"

    def whole(self, name: str) -> WholeState:
        if name.startswith("file"):
            return SqliteWholeState(self.file(name))
        return PostgresWholeState(PostgresAddress(self._server.url(), self.schema(name)), self.schema(name))

    @asynccontextmanager
    async def begun(self, *names: str, alone: bool = True) -> AsyncIterator[list[WholeState]]:
        """Yield the states, each in a transaction that is not committed in the end."""
        async with AsyncExitStack() as stack:
            states = [self.whole(name) for name in names]
            for state in states:
                stack.push_async_callback(state.close)
                await state.begin(alone=alone)
            yield states

    async def contents(self, name: str) -> Contents:
        async with self.begun(name, alone=False) as (state,):
            return await contents(state)

    async def move(self, source: str, target: str) -> str:
        """Move the state and return the step that was planned."""
        async with self.begun(source, target) as (old, new):
            planned = await plan(old, new)
            await move(old, new, planned)
            return planned.step


@pytest.fixture
def places(tmp_path: Path, postgres: PostgresServer, schema: str) -> Places:
    return Places(tmp_path, postgres, schema)


def value(type_: str, column: str, n: int, *, boolean: bool) -> Any:
    """Return a value for row `n` that differs from that of other rows, except for columns that are true or false."""
    if boolean or column == "only_row":
        return n % 2
    if type_ == "INTEGER":
        return TIMES[n % len(TIMES)] + (n if n % len(TIMES) < 3 else 0) if column.endswith("_us") else n
    if type_ == "REAL":
        return n + 0.1
    return f"Grüße 🗺 {n}\t\\ '%s' \x7f" if type_ == "TEXT" else bytes([0, n, 255])


async def fill(places: Places, name: str, *, rows: int = 7) -> None:
    """Fill every column of every table of the new file `name`, whatever they mean; the audit chain is sound."""
    await places.migrate(name)
    await places.migrate("like")
    async with places.begun("like") as (like,):
        booleans = {
            (table, column.source)
            for table, columns in getattr(like, "_columns").items()  # noqa: B009 - the test looks inside
            for column in columns
            if column.type == "boolean"
        }
    file = apsw.Connection(str(places.file(name)))
    for table in tables():
        if table.name in ("audit", "chain_end"):
            continue
        types = {row[1]: row[2] for row in file.execute(f"PRAGMA table_info({table.name})")}
        made = [
            [value(types[c], c, n, boolean=(table.name, c) in booleans) for c in table.columns]
            for n in range(1, rows + 1)
        ]
        if table.name == "page_state":
            digest = table.columns.index("digest")
            assert all(row[digest] == bytes([0, n, 255]) for n, row in enumerate(made, 1))  # `content` has the same
        if table.name == "lease":  # a move releases them
            made = [
                [None if c == "holder" else each for c, each in zip(table.columns, row, strict=True)] for row in made
            ]
        file.executemany(
            f"INSERT INTO {table.name} ({', '.join(table.columns)}) VALUES ({', '.join('?' * len(types))})",  # noqa: S608 - our names
            made,
        )
        if table.numbered:
            file.execute("UPDATE sqlite_sequence SET seq = 1000 WHERE name = ?", (table.name,))
    end = b""
    for seq in range(1, rows + 1):
        end = hashlib.sha256(end + f"record {seq}".encode()).digest()
        file.execute("INSERT INTO audit VALUES (?, ?, ?)", (seq, f"record {seq}", end))
    file.execute("UPDATE chain_end SET seq = ?, digest = ?", (rows, end))
    file.close()


async def test_every_column_of_every_table_is_the_same_in_postgresql_and_back_in_a_file(places: Places) -> None:
    """The tables are read from the schema, so a table that a migration adds is filled, moved and compared without a change here."""
    await fill(places, "file")
    before = await places.contents("file")
    assert all(before.rows.values())
    assert before.chain.broken is None
    await places.migrate("there")
    assert await places.move("file", "there") == "copy"
    assert await places.contents("there") == before
    await places.migrate("file_back")
    assert await places.move("there", "file_back") == "copy"
    assert await places.contents("file_back") == before
    assert set(before.numbers.values()) == {1000}
    rows = {}
    for name in ("file", "file_back"):
        with closing(apsw.Connection(str(places.file(name)))) as file:
            rows[name] = {
                table.name: sorted(file.execute(f"SELECT * FROM {table.name}"), key=repr)  # noqa: S608 - our names
                for table in tables()
                if table.name != "lease"  # one has the mark
            }
    assert rows["file"] == rows["file_back"]


async def test_a_table_that_only_one_database_has_stops_every_copy() -> None:
    whole = {table.name: [(column, "text") for column in table.columns] for table in tables()}
    assert set(matched(whole)) == set(whole)
    with pytest.raises(UnmatchedLayout, match="newest_idea"):
        matched({**whole, "newest_idea": [("id", "bigint")]})
    with pytest.raises(UnmatchedLayout, match="proposal"):
        matched({name: columns for name, columns in whole.items() if name != "proposal"})
    with pytest.raises(UnmatchedLayout, match=r"audit\.mood"):
        matched({**whole, "audit": [*whole["audit"], ("mood", "text")]})
    with pytest.raises(UnmatchedLayout, match="the columns of audit differ"):
        matched({**whole, "audit": whole["audit"][1:]})


async def record(places: Places, name: str, n: int) -> None:
    """Record an act on a page, as a server does."""
    raw = f"text {n}".encode()
    store: SqliteStateStore | PostgresStateStore
    if name.startswith("file"):
        store = await SqliteStateStore.open(places.file(name))
    else:
        store = await PostgresStateStore.open(places._server.url(), places.schema(name))
    try:
        made = change(f"page-{n}.md", None, raw)
        await store.ledger.intend(intent(f"i-{n}", made), [raw])
        await store.ledger.commit(entry(made), intent_id=f"i-{n}")
    finally:
        await store.close()


async def test_work_continues_on_each_side_and_the_state_can_be_moved_back_into_the_file_it_left(
    places: Places,
) -> None:
    await places.migrate("file")
    await record(places, "file", 1)
    for turn in (2, 4):
        await places.migrate("there") if turn == 2 else None
        assert await places.move("file", "there") == "copy"
        with pytest.raises(StateMoved, match=r"PostgreSQL at 127\.0\.0\.1"):
            await places.migrate("file")
        await record(places, "there", turn)
        assert await places.move("there", "file") == "copy"
        with pytest.raises(StateMoved, match=r"state\.db"):
            await places.migrate("there")
        await record(places, "file", turn + 1)
    found = await places.contents("file")
    assert found.chain.records == 5
    assert found.chain.broken is None


async def test_a_move_that_is_done_is_not_done_again(places: Places) -> None:
    await fill(places, "file")
    await places.migrate("there")
    await places.move("file", "there")
    before = await places.contents("there")
    assert await places.move("file", "there") == "done"
    assert await places.contents("there") == before


async def test_another_state_in_the_target_is_not_replaced_and_the_same_one_is_taken_for_the_copy(
    places: Places,
) -> None:
    await fill(places, "file")
    await places.migrate("there")
    await record(places, "there", 1)
    kept = await places.contents("there")
    with pytest.raises(MoveRefused, match="holds another state already"):
        await places.move("file", "there")
    assert await places.contents("there") == kept
    await places.migrate("same")
    async with places.begun("file", "same") as (old, new):
        await copy(old, new)
        await new.commit()
    assert await places.move("file", "same") == "leave"
    with pytest.raises(StateMoved):
        await places.migrate("file")


async def test_a_file_that_was_left_for_one_database_is_not_replaced_by_the_state_of_another(places: Places) -> None:
    await fill(places, "file")
    await places.migrate("there")
    await places.move("file", "there")
    await places.migrate("elsewhere")
    await record(places, "elsewhere", 1)
    with pytest.raises(StateMoved):
        await places.move("elsewhere", "file")
    with pytest.raises(StateMoved):
        await places.move("file", "elsewhere")


@pytest.mark.parametrize(
    ("source", "target"), [("file", "there"), ("there", "file"), ("file", "file_2"), ("there", "there_2")]
)
async def test_a_database_that_others_use_is_neither_moved_nor_replaced(
    places: Places, source: str, target: str
) -> None:
    """A process that has the file open, or listens to the schema's changes, would go on writing to the state that was left."""
    for name in (source, target):
        await places.migrate(name)
    for used in (source, target):
        store: Any
        if used.startswith("file"):
            store = await SqliteStateStore.open(places.file(used))
        else:
            store = await PostgresStateStore.open(places._server.url(), places.schema(used))
            await store._listener.open()
        with pytest.raises(StateInUse, match="is in use"):
            await places.move(source, target)
        await store.close()
    assert await places.move(source, target) == "copy"


async def test_the_holder_of_a_lease_counts_as_a_user_of_postgresql(places: Places) -> None:
    """A pooler hides who listens; servers that index renew their lease all the time."""
    await places.migrate("there")
    await places.migrate("file")
    async with places.begun("there") as (state,):
        await getattr(state, "_ask")(  # noqa: B009 - the test looks inside
            "INSERT INTO forge.lease VALUES ('indexer:desk', '4711-1.0-ab', 1, now() + interval '1 minute')"
        )
        await state.commit()
    with pytest.raises(StateInUse, match="process 4711"):
        await places.move("there", "file")


STEPS = (
    "target emptied",
    "audit copied",
    "compared",
    "before the target's commit",
    "after the target's commit",
    "before the source's commit",
    "after the source's commit",
    "before the last commit",
    "after the last commit",
)


class Stopped(Exception):
    """The move ends here."""


def stopping(at: str) -> Callable[[str], None]:
    def on_step(name: str) -> None:
        if name == at:
            raise Stopped

    return on_step


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(("source", "target"), [("file", "there"), ("there", "file")])
async def test_a_move_that_ends_at_any_step_leaves_one_whole_state_in_use_and_the_same_move_finishes_it(
    places: Places, source: str, target: str, step: str
) -> None:
    await fill(places, "file")
    await places.migrate("there")
    if source == "there":
        await places.move("file", "there")
    before = await places.contents(source)
    with pytest.raises(Stopped):
        async with places.begun(source, target) as (old, new):
            await move(old, new, await plan(old, new), stopping(step))
    usable = []
    for name in (source, target):
        try:
            await places.migrate(name)
        except (StateMoved, MoveUnfinished):
            continue
        if (await places.contents(name)).rows == before.rows:
            usable.append(name)
    gone = step in ("after the source's commit", "before the last commit", "after the last commit")
    assert usable == ([target] if step == "after the last commit" else [] if gone else [source])
    if gone:
        assert await places.contents(target) == before
    assert await places.move(source, target) == (
        "done" if step == "after the last commit" else "finish" if gone else "copy"
    )
    assert await places.contents(target) == before
    await places.migrate(target)
    with pytest.raises(StateMoved):
        await places.migrate(source)


async def test_a_text_that_postgresql_cannot_hold_stops_the_move_before_anything_is_changed(places: Places) -> None:
    await places.migrate("file")
    with closing(apsw.Connection(str(places.file("file")))) as file:
        file.execute("INSERT INTO enrolment VALUES (?, x'00', 1)", ("bad \x00 name",))
    await places.migrate("there")
    with pytest.raises(StorageError, match="NUL"):
        await places.move("file", "there")
    await places.migrate("file")
    assert (await places.contents("there")).nothing
