"""Which acts become one commit: those of an import that follow each other and change different files."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from knowledge.git.pending_acts import AT_ONCE, count_acts, pending_acts
from knowledge.history.acts import FOLLOW, IMPORT, IMPORT_FINISHED, IMPORT_TOOL
from knowledge.history.ports import Actor, FileChange, HistoryEntry, Ledger
from tests.support.state.ledgers import NOW, open_shared

HOST = Actor("ann@cursor", "kb_merge", "ab" * 32)


@pytest.fixture
async def ledger(where: str, schema: str) -> AsyncIterator[Ledger]:
    state = await open_shared(where, schema)
    yield state.ledger
    await state.close()


def importer(number: int = 1) -> Actor:
    return Actor("ann@terminal", IMPORT_TOOL, "ab" * 32, f"{IMPORT}ab-{number}")


async def changed(ledger: Ledger, actor: Actor, path: str) -> None:
    await ledger.commit(HistoryEntry(NOW, actor, (FileChange(path, None, "1" * 16),), source="notion:1"))


async def ended(ledger: Ledger, number: int = 1) -> None:
    await ledger.commit(HistoryEntry(NOW, importer(number), source="notion:notes", intent=f"{IMPORT_FINISHED} ab"))


async def test_an_import_of_any_size_is_one_act_once_it_has_ended(ledger: Ledger) -> None:
    count = AT_ONCE + 20
    await changed(ledger, HOST, "a.md")
    for number in range(count):
        await changed(ledger, importer(), f"{number}.md")
    found = await pending_acts(ledger, 1)
    assert ([len(act.changes) for act in found.acts], found.may_grow) == ([count], True)
    await ended(ledger)
    found = await pending_acts(ledger, 1)
    assert ([(len(act.recorded), act.source) for act in found.acts], found.may_grow) == (
        [(count, "notion:notes")],
        False,
    )
    assert await count_acts(ledger, 0) == count + 1


async def test_acts_of_others_other_imports_and_the_same_page_begin_another_commit(ledger: Ledger) -> None:
    for actor, path in [
        (importer(), "a.md"),
        (importer(), "b.md"),
        (HOST, "c.md"),
        (HOST, "d.md"),
        (importer(), "e.md"),
        (importer(), "e.md"),
        (importer(2), "f.md"),
    ]:
        await changed(ledger, actor, path)
    found = await pending_acts(ledger, 0)
    assert [[change.path for change in act.changes] for act in found.acts] == [
        ["a.md", "b.md"],
        ["c.md"],
        ["d.md"],
        ["e.md"],
        ["e.md"],
        ["f.md"],
    ]
    assert found.may_grow


async def test_records_that_need_no_commit_are_passed(ledger: Ledger) -> None:
    await changed(ledger, Actor("knowledge-forge", FOLLOW, "ab" * 32), "a.md")
    await ended(ledger)
    assert (await pending_acts(ledger, 0)).passed == 2
    assert await count_acts(ledger, 0) == 0
