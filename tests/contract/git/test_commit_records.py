"""The promises of the record of commits: one suite for both databases."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from knowledge.git.commit_records import ActCommit, CommitRecords
from tests.support.state.ledgers import NOW, open_shared

MADE = ActCommit(5, "made", "c" * 40, "b" * 40, "5" * 64)
PREPARED = replace(MADE, outcome="prepared")


@pytest.fixture
async def records(where: str, schema: str) -> AsyncIterator[CommitRecords]:
    """Yield the record of commits in each database."""
    state = await open_shared(where, schema)
    yield CommitRecords(state.tables)
    await state.close()


async def test_commits_begin_once(records: CommitRecords) -> None:
    assert await records.position() is None
    await records.begin(3, at=NOW)
    await records.begin(9, at=NOW)
    assert await records.position() == 3
    assert await records.of([3, 9]) == {}


async def test_a_commit_is_prepared_and_then_made_or_forgotten(records: CommitRecords) -> None:
    await records.begin(3, at=NOW)
    await records.put(PREPARED, at=NOW)
    assert await records.prepared() == [PREPARED]
    assert (await records.position(), await records.of([5])) == (3, {})
    await records.put(MADE, at=NOW)
    assert (len(await records.prepared()), await records.position(), await records.of([5, 6])) == (0, 5, {5: MADE})
    await records.forget()
    assert await records.of([5]) == {5: MADE}, "only a commit that was never made is forgotten"
    await records.put(replace(PREPARED, record=6), at=NOW)
    await records.forget()
    assert await records.prepared() == []


async def test_the_acts_of_an_import_share_a_commit_and_are_settled_together(records: CommitRecords) -> None:
    await records.begin(3, at=NOW)
    acts = [replace(PREPARED, record=number) for number in range(4, 304)]
    await records.put(*acts, at=NOW)
    assert (await records.prepared(), await records.position()) == (acts, 3)
    done = [replace(one, outcome="made") for one in acts]
    await records.put(*done, at=NOW)
    assert await records.of(range(4, 304)) == {one.record: one for one in done}
    assert (await records.prepared(), await records.position()) == ([], 303)


async def test_reasons_with_odd_characters_are_stored(records: CommitRecords) -> None:
    skipped = ActCommit(7, "skipped", reason="no\x00\ud800 text")
    await records.put(skipped, at=NOW)
    assert (await records.of([7]))[7].reason == "no\ufffd? text"
    assert await records.of([]) == {}
