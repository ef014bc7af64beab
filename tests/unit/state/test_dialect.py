"""Statements are written for PostgreSQL and translated for SQLite; bodies of transactions run in SQLite without a break."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest

from knowledge.state.sqlite.dialect import in_sqlite
from knowledge.state.sqlite.store import SqliteStateStore
from knowledge.state.sqlite.tables import bindings, completed
from knowledge.state.tables import LOCK, ManyRows, SqlPair, StateTransaction

TWO = SqlPair(lambda _c, one, two: [(one + two,)], "SELECT %s + %s")


@pytest.mark.parametrize(
    ("written", "translated"),
    [
        ("SELECT a FROM forge.run WHERE id = %s FOR UPDATE", "SELECT a FROM run WHERE id = ?"),
        ("%(state)s::text IS NULL OR state = %(state)s", ":state IS NULL OR state = :state"),
        ("id = ANY(%s::text[])", "id IN (SELECT value FROM json_each(?))"),
        ("digest = ANY(%(d)s::bytea[])", "digest IN (SELECT unhex(value) FROM json_each(:d))"),
        ("source LIKE 'plane:%%'", "source LIKE 'plane:%'"),
        ("begun_at < %s AND l.seen_at > l.started_at", "begun_us < ? AND l.at_us > l.started_us"),
        ("held_until, runs_until, user_name", "held_us, runs_until_us, user"),
        ("greatest(a, b), strpos(marks, %s)", "max(a, b), instr(marks, ?)"),
        ("path_key = %(path_key)s AND public_key = 1", "path = :path AND public_key = 1"),
        ("coalesce(sum(x), 0)::bigint, 'infinity'::timestamptz", f"coalesce(sum(x), 0), {2**62}"),
        ('ORDER BY path COLLATE "C"', "ORDER BY path"),
    ],
)
def test_a_statement_is_translated(written: str, translated: str) -> None:
    assert in_sqlite(written) == translated


def test_times_are_bound_as_microseconds_and_lists_as_json() -> None:
    at = datetime(1970, 1, 1, 0, 0, 1, 5, tzinfo=UTC)
    assert bindings((at, "a", None, True, b"\x01")) == [1_000_005, "a", None, True, b"\x01"]
    assert bindings({"ids": ["a", "ż"], "digests": [b"\x01\xff"]}) == {"ids": '["a", "\\u017c"]', "digests": '["01ff"]'}
    with pytest.raises(ValueError, match="without its zone"):
        bindings((at.replace(tzinfo=None),))


def test_a_body_that_waits_for_anything_else_is_refused() -> None:
    async def body() -> None:
        await asyncio.sleep(0)

    with pytest.raises(RuntimeError, match="may not wait"):
        completed(body())


async def test_a_transaction_in_sqlite_is_done_or_not_and_calls_functions(tmp_path: Path) -> None:
    store = await SqliteStateStore.open(tmp_path / "state.db")
    put = "INSERT INTO forge.enrolment (host, secret_digest, created_at) VALUES (%s, %s, %s)"
    at = datetime(2026, 3, 1, tzinfo=UTC)

    async def body(t: StateTransaction) -> int:
        await t.execute(LOCK, ("anything",))
        await t.execute(put, ManyRows([(host, b"1", at) for host in "ab"]))
        ((added,),) = await t.execute(TWO, (1, 2))
        return int(added)

    async def failing(t: StateTransaction) -> None:
        await t.execute(put, ("c", b"1", at))
        raise KeyError

    assert await store.tables.transact(body) == 3
    with pytest.raises(KeyError):
        await store.tables.transact(failing)
    assert [one.host for one in await store.enrolments()] == ["a", "b"]
    assert await store.tables.read(TWO, (2, 3)) == [(5,)]
    with pytest.raises(TypeError, match="once for its arguments"):
        await store.tables.write((TWO, ManyRows([(1, 2)])))
    await store.close()
