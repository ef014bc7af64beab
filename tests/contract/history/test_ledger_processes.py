"""Several processes on one ledger, killed ones among them, and what a check finds after edits of its tables by hand."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from knowledge.errors import CorruptDatabase, UnknownIntent
from knowledge.history.audit.chain import verify
from knowledge.history.audit.inspection import inspect
from knowledge.history.ports import Ledger
from knowledge.state.ports import StateStore
from tests.support.processes.forked import forked
from tests.support.state.ledgers import MINUTE, NOW, change, entry, intent, open_shared, revision
from tests.support.state.stores import Older

ROOT = Path(__file__).parents[3]
WRITERS = 4
ACTS_EACH = 25
RECORDS = 9


@pytest.fixture
async def store(where: str, schema: str) -> AsyncIterator[StateStore]:
    opened = await open_shared(where, schema)
    yield opened
    await opened.close()


# --- at once ----------------------------------------------------------------------------------------------------------


async def _commit_many(where: str, name: str, writer: int) -> None:
    opened = await open_shared(where, name)
    ledger, path = opened.ledger, f"w{writer}.md"
    for n in range(ACTS_EACH):
        made = change(path, f"{writer} {n - 1}".encode() if n else None, f"{writer} {n}".encode())
        await ledger.intend(intent(f"{writer}/{n}", made), [f"{writer} {n}".encode()])
        await ledger.commit(entry(made, at=NOW + n * MINUTE), intent_id=f"{writer}/{n}")
        await ledger.keep("shared.md", f"outside {n}".encode(), how="outside", at=NOW)
    await opened.close()


def _writer(where: str, name: str, writer: int, barrier: Any) -> None:
    barrier.wait(60)
    asyncio.run(_commit_many(where, name, writer))


async def test_concurrent_commits_of_processes_make_one_chain_and_lose_nothing(where: str, schema: str) -> None:
    processes = forked()
    barrier = processes.Barrier(WRITERS)
    workers = [processes.Process(target=_writer, args=(where, schema, n, barrier)) for n in range(WRITERS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        await asyncio.to_thread(worker.join, 60)
    assert [worker.exitcode for worker in workers] == [0] * WRITERS
    opened = await open_shared(where, schema)
    ledger = opened.ledger
    records = await ledger.records(limit=10_000)
    assert [record.seq for record in records] == list(range(1, WRITERS * ACTS_EACH + 1))
    assert verify(records, await ledger.chain_end()) == []
    for writer in range(WRITERS):
        lines = await ledger.history(f"w{writer}.md", limit=999)
        assert [line.revision for line in reversed(lines)] == [
            revision(f"{writer} {n}".encode()) for n in range(ACTS_EACH)
        ]
    shared = await ledger.history("shared.md", limit=999)
    for newer, older in itertools.pairwise(shared):
        assert newer.before == older.revision != newer.revision
    events = await opened.events_after(0)
    assert len(events) == WRITERS * ACTS_EACH
    assert list(await ledger.intents()) == []
    await opened.close()


async def test_of_two_that_finish_the_same_act_one_succeeds_and_the_other_gets_an_error(
    where: str, schema: str
) -> None:
    one, two = await open_shared(where, schema), await open_shared(where, schema)
    made = change("a.md", None, b"one")
    for n in range(20):
        await one.ledger.intend(intent(f"act {n}", made), [b"one"])
        both = (store.ledger.commit(entry(made), intent_id=f"act {n}") for store in (one, two))
        ended = await asyncio.gather(*both, return_exceptions=True)
        assert sum(isinstance(end, UnknownIntent) for end in ended) == 1, ended
        assert (await one.ledger.chain_end())[0] == n + 1
    await one.close()
    await two.close()


async def test_one_processs_commit_wakes_another(where: str, schema: str) -> None:
    one, two = await open_shared(where, schema), await open_shared(where, schema)
    woken = asyncio.create_task(two.changed(await two.last_event()))
    await one.ledger.commit(entry(change("a.md", None, b"one")))
    await asyncio.wait_for(woken, 60)
    assert [event.key for event in await two.events_after(0)] == ["a.md"]
    await one.close()
    await two.close()


# --- a database of an earlier version ---------------------------------------------------------------------------------


async def test_a_state_from_before_there_was_a_ledger_is_taken_over(where: str, schema: str) -> None:
    older = Older(
        postgres=1,
        sqlite=2,
        postgres_row="INSERT INTO forge.enrolment VALUES ('desktop', 'digest', now())",
        sqlite_row="INSERT INTO enrolment VALUES ('desktop', x'646967657374', 0)",
    )
    await older.make(where, schema)
    opened = await open_shared(where, schema)
    assert await opened.host_of(b"digest") == "desktop"
    assert await opened.ledger.chain_end() == (0, b"")
    assert (await opened.ledger.commit(entry(change("a.md", None, b"one")))).seq == 1
    assert list(await opened.check()) == []
    await opened.close()


# --- killed -----------------------------------------------------------------------------------------------------------

_BEGIN_AND_WAIT = """
import asyncio, sys
from tests.support.state.ledgers import change, entry, intent, open_shared

async def main():
    opened = await open_shared(sys.argv[1], sys.argv[2])
    made = change("a.md", b"one", b"two")
    await opened.ledger.intend(intent("act", made), [b"one", b"two"])
    if sys.argv[3] == "committed":
        await opened.ledger.commit(entry(made), intent_id="act")
    print("ready", flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


async def _killed(where: str, name: str, stage: str) -> None:
    """Run a process until it reaches this point, and kill it."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _BEGIN_AND_WAIT, where, name, stage), cwd=ROOT, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    async with asyncio.timeout(60):
        assert await process.stdout.readline() == b"ready\n"
        os.kill(process.pid, signal.SIGKILL)
        await process.communicate()


async def test_an_orphaned_act_can_be_finished_by_another_process(where: str, schema: str) -> None:
    await _killed(where, schema, "begun")
    opened = await open_shared(where, schema)
    ledger = opened.ledger
    (left,) = await ledger.intents()
    assert left == intent("act", change("a.md", b"one", b"two"))
    assert await ledger.content("a.md", revision(b"one")) == b"one"
    assert await ledger.content("a.md", revision(b"two")) == b"two"
    assert list(await ledger.records()) == []
    await ledger.commit(left.entry, intent_id=left.id)
    assert [line.revision for line in await ledger.history("a.md", limit=9)] == [revision(b"two")]
    await opened.close()


async def test_a_committed_act_is_complete_after_a_kill(where: str, schema: str) -> None:
    await _killed(where, schema, "committed")
    opened = await open_shared(where, schema)
    ledger = opened.ledger
    assert list(await ledger.intents()) == []
    assert len(await ledger.records()) == len(await ledger.history("a.md", limit=9)) == 1
    assert verify(await ledger.records(), await ledger.chain_end()) == []
    assert len(await opened.events_after(0)) == 1
    await opened.close()


# --- edited by hand ---------------------------------------------------------------------------------------------------


def by_hand(where: str, name: str, *statements: str) -> None:
    """Edit the tables as someone with another program could; `{s}` precedes each table."""
    if where.startswith("postgresql://"):
        with psycopg.connect(where, autocommit=True) as connection:
            for statement in statements:
                connection.execute(SQL(statement.replace("x'", "'\\x")).format(s=Identifier(name)))
    else:
        with closing(apsw.Connection(str(Path(where) / name / "state.db"))) as connection:
            for statement in statements:
                connection.execute(statement.replace("{s}.", ""))


async def _filled(ledger: Ledger) -> None:
    for n in range(1, RECORDS + 1):
        await ledger.commit(entry(change(f"p{n}.md", None, b"one"), at=NOW + n * MINUTE))


HARMS = {
    "edited": (["UPDATE {s}.audit SET body = replace(body, 'ada@', 'eve@') WHERE seq = 5"], [5]),
    "deleted": (["DELETE FROM {s}.audit WHERE seq = 5"], [5]),
    "swapped": (
        [
            "UPDATE {s}.audit SET seq = 99 WHERE seq = 3",
            "UPDATE {s}.audit SET seq = 3 WHERE seq = 6",
            "UPDATE {s}.audit SET seq = 6 WHERE seq = 99",
        ],
        [3, 6],
    ),
    "cut off": (["DELETE FROM {s}.audit WHERE seq > 6"], [7]),
    "all deleted": (["DELETE FROM {s}.audit"], [1]),
    "inserted": (
        [
            "UPDATE {s}.audit SET seq = -seq - 1 WHERE seq >= 5",
            "UPDATE {s}.audit SET seq = -seq WHERE seq < 0",
            "INSERT INTO {s}.audit SELECT 5, body, digest FROM {s}.audit WHERE seq = 4",
        ],
        [5, RECORDS + 1],
    ),
    "added behind": (
        ["INSERT INTO {s}.audit SELECT 10, body, digest FROM {s}.audit WHERE seq = 1"],
        [RECORDS + 1],
    ),
    "digest edited": (["UPDATE {s}.audit SET digest = x'00' WHERE seq = 5"], [5, 6]),
    "end set back": (["UPDATE {s}.chain_end SET seq = 3"], [4]),
    "end edited": (["UPDATE {s}.chain_end SET digest = x'00'"], [RECORDS]),
    "end deleted": (["DELETE FROM {s}.chain_end"], [1]),
}


@pytest.mark.parametrize("harm", HARMS)
async def test_whatever_is_edited_by_hand_is_found_and_named(
    where: str, schema: str, store: StateStore, harm: str
) -> None:
    """An edited, missing or reordered record is found and named."""
    statements, places = HARMS[harm]
    await _filled(store.ledger)
    assert (await inspect(store.ledger)).broken == ()
    by_hand(where, schema, *statements)
    found = await inspect(store.ledger)
    assert sorted({broken.seq for broken in found.broken}) == places
    assert found.others == 0


async def test_a_cut_tail_stays_missing_when_more_is_recorded(where: str, schema: str, store: StateStore) -> None:
    await _filled(store.ledger)
    by_hand(where, schema, "DELETE FROM {s}.audit WHERE seq > 6")
    record = await store.ledger.commit(entry())
    assert record.seq == RECORDS + 1
    assert [broken.seq for broken in (await inspect(store.ledger)).broken] == [7]


async def test_a_tail_cut_off_together_with_the_end_is_found_by_anyone_who_noted_it(
    where: str, schema: str, store: StateStore
) -> None:
    """The chain alone can't prove this."""
    await _filled(store.ledger)
    noted = await store.ledger.chain_end()
    cut = "UPDATE {s}.chain_end SET seq = 6, digest = (SELECT digest FROM {s}.audit WHERE seq = 6)"
    by_hand(where, schema, "DELETE FROM {s}.audit WHERE seq > 6", cut)
    assert (await inspect(store.ledger)).broken == ()
    assert [broken.seq for broken in (await inspect(store.ledger, noted=noted)).broken] == [RECORDS]
    for _ in range(5):
        await store.ledger.commit(entry())
    assert (await inspect(store.ledger)).broken == ()
    assert [broken.seq for broken in (await inspect(store.ledger, noted=noted)).broken] == [RECORDS]


async def test_a_chain_is_inspected_while_others_add_to_it(store: StateStore) -> None:
    stop = asyncio.Event()

    async def add() -> None:
        while not stop.is_set():
            await store.ledger.commit(entry())

    await _filled(store.ledger)
    adding = asyncio.create_task(add())
    for _ in range(4):
        assert (await inspect(store.ledger)).broken == ()
    stop.set()
    await adding


async def test_a_hopeless_chain_is_reported_in_a_bounded_list(where: str, schema: str, store: StateStore) -> None:
    for _ in range(130):
        await store.ledger.commit(entry())
    by_hand(where, schema, "UPDATE {s}.audit SET body = 'gone'")
    found = await inspect(store.ledger)
    assert (found.records, len(found.broken), found.others) == (130, 100, 30)


@pytest.mark.parametrize("packed", ["x'00'", "(SELECT packed FROM {s}.content ORDER BY size LIMIT 1)"])
async def test_bytes_that_are_not_those_that_were_kept_are_never_handed_out(
    where: str, schema: str, store: StateStore, packed: str
) -> None:
    """A merge against a wrong base would write text that nobody meant."""
    for raw in (b"one", b"twenty-two"):
        await store.ledger.keep("a.md", raw, how="outside", at=NOW)
    by_hand(where, schema, f"UPDATE {{s}}.content SET packed = {packed} WHERE size > 5")  # noqa: S608 - two constants
    assert await store.ledger.content("a.md", revision(b"one")) == b"one"
    with pytest.raises(CorruptDatabase, match=revision(b"twenty-two")):
        await store.ledger.content("a.md", revision(b"twenty-two"))


@pytest.mark.parametrize("harm", ["end deleted", "added behind"])
async def test_on_a_chain_without_a_sound_end_nothing_is_recorded_in_any_place(
    where: str, schema: str, store: StateStore, harm: str
) -> None:
    """A record without its place in the chain is rolled back, with history, origins and events."""
    await _filled(store.ledger)
    by_hand(where, schema, *HARMS[harm][0])
    made = change("a.md", None, b"one")
    await store.ledger.intend(intent("act", made), [b"one"])
    with pytest.raises(CorruptDatabase, match="end of the audit chain"):
        await store.ledger.commit(entry(made), intent_id="act")
    assert [left.id for left in await store.ledger.intents()] == ["act"]
    assert list(await store.ledger.history("a.md", limit=9)) == []
    assert await store.last_event() == RECORDS
