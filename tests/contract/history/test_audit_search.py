"""A search of the audit chain finds in every engine what reading every record finds, and has a bound."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from knowledge.history.audit import search
from knowledge.history.audit.search import KINDS, OUTCOMES, AuditQuery, find, record_at
from knowledge.history.ports import Actor, AuditRecord, AuditScan, Delivery, HistoryEntry, Ledger, RunNote, TrustMove
from knowledge.state.ports import StateStore
from tests.support.state.ledgers import DAY, MINUTE, NOW, change, entry

ODD = 'Pläne [draft]/日本 🗺 "100%"\\u00e9.md'
ACTS = (
    entry(change("guides/a.md", None, b"one"), intent="Begin the GUIDE"),
    entry(change(ODD, b"x", b"y"), confidence=0.74, proposal="p-1", actor=Actor("zoë@cursor", "kb_append", "cd" * 32)),
    entry(change("notes/b.md", None, b"one", moved_from="guides/b.md")),
    entry(actor=Actor("ann", "proposal.decide", ""), proposal="p-1", decision="ann (page)", outcome="approved"),
    entry(actor=Actor("ann", "trust.grant", ""), outcome="trust", trust_record=TrustMove("bob@cursor", 2.0, 3.0, frozen=False)),
    entry(actor=Actor("bob@cursor", "zulip_send_message", ""), outcome="sent", delivery=Delivery("zulip:design/merge", "kf-1")),
    entry(actor=Actor("ann@corp@codex", "agent_run", ""), outcome="begun", run=RunNote("r-1", "test:small")),
    entry(actor=Actor("ann (page)", "contradiction.dismiss", ""), outcome="dismissed", intent="Straße 5 \u212aelvin, Σίσυφος, İ"),
    entry(change("guides/a.md", b"one", None), actor=Actor("bob@cursor", "kb_delete", "ab" * 32), intent='"principal":"eve"'),
)  # fmt: skip

VALUES = (
    *("Begin the GUIDE", ODD, "zoë@cursor", "ann@corp@codex", "zulip:design/merge", "test:small", "bob@cursor: 2.0"),
    *("Straße 5 \u212aelvin, Σίσυφος, İ", '"principal":"eve"', "ab" * 32, "0.74", "approved", "2026-03-04T12:00"),
)

NO_FILTER = [""] * 20


@pytest.fixture
async def ledger(store: StateStore) -> Ledger:
    for number, act in enumerate(ACTS):
        await store.ledger.commit(replace(act, at=NOW + number * DAY))
    return store.ledger


async def found(ledger: Ledger, **asked: Any) -> list[int]:
    return [record.seq for record in (await find(ledger, AuditQuery(**asked), limit=100)).records]


@pytest.mark.parametrize(
    ("asked", "seqs"),
    [
        ({}, [9, 8, 7, 6, 5, 4, 3, 2, 1]),
        ({"words": "begin guide"}, [1]),
        ({"words": "PLÄNE 日本 [Draft]"}, [2]),
        ({"words": "0.74"}, [2]),
        ({"words": "\\u00E9"}, [2]),
        ({"words": "KELVIN"}, [8]),
        ({"words": "ΣΊΣΥΦΟΣ"}, [8]),
        ({"words": "straße i"}, [8]),
        ({"words": "principal"}, [9]),
        ({"words": "moved_from"}, []),
        ({"by": "bob@cursor"}, [9, 6]),
        ({"by": "cursor"}, [9, 6, 2]),
        ({"by": "zoë"}, [2]),
        ({"by": "ann"}, [5, 4]),
        ({"by": "ann@corp"}, [7]),
        ({"by": "eve"}, []),
        ({"tool": "kb_delete"}, [9]),
        ({"outcome": "sent"}, [6]),
        ({"about": "guides"}, [9, 3, 1]),
        ({"about": "/guides/a/"}, [9, 1]),
        ({"about": ODD}, [2]),
        ({"about": "zulip:design"}, [6]),
        ({"kind": "pages"}, [9, 3, 2, 1]),
        ({"kind": "decisions"}, [4]),
        ({"kind": "trust"}, [5]),
        ({"kind": "services"}, [6]),
        ({"kind": "runs"}, [7]),
        ({"kind": "contradictions"}, [8]),
        ({"since": NOW + 2 * DAY, "until": NOW + 4 * DAY}, [4, 3]),
        ({"by": "cursor", "since": NOW + 2 * DAY, "kind": "pages", "words": "delete"}, [9]),
        ({"words": "p-1 " + "1 " * 50}, [4, 2]),
    ],
)
async def test_every_filter_finds_its_records_newest_first(
    ledger: Ledger, asked: dict[str, Any], seqs: list[int]
) -> None:
    assert await found(ledger, **asked) == seqs


async def test_a_thousand_random_searches_find_what_reading_every_record_finds(ledger: Ledger) -> None:
    every = list(reversed(await ledger.records()))
    chance = random.Random(26)  # noqa: S311 - a fixed series, not a secret
    texts = [*VALUES, *(value.swapcase() for value in VALUES)]

    def piece() -> str:
        text = chance.choice(texts)
        start = chance.randrange(len(text))
        return text[start : start + chance.randint(1, 6)]

    hits = 0
    for _ in range(1_000):
        query = AuditQuery(
            words=" ".join(piece() for _ in range(chance.randint(0, 2))),
            by=chance.choice([*NO_FILTER, "cursor", "ann", "ann@corp", "zoë"]),
            about=chance.choice([*NO_FILTER, "guides", "Pläne [draft]", "zulip:design"]),
            kind=chance.choice([*NO_FILTER, *KINDS]),
            since=chance.choice([None, NOW + 3 * DAY]),
        )
        found = await find(ledger, query, limit=100)
        assert [record.seq for record in found.records] == [r.seq for r in every if query.matches(r)], query
        hits += len(found.records)
    assert hits > 1_000, "most of them would otherwise compare nothing with nothing"


async def test_each_kind_and_each_outcome_is_searched_for_by_its_own_name(store: StateStore) -> None:
    for outcome in OUTCOMES:
        await store.ledger.commit(entry(outcome=outcome))
    for seq, outcome in enumerate(OUTCOMES, 1):
        assert await found(store.ledger, outcome=outcome) == [seq]
    for kind in KINDS:
        assert await found(store.ledger, kind=kind, words="kb_merge") == await found(store.ledger, kind=kind)


async def test_pages_follow_one_another_without_gap_or_repetition(ledger: Ledger) -> None:
    query, seen, before = AuditQuery(by="cursor"), list[int](), None
    while before != 0:
        page = await find(ledger, query, limit=1, before=before)
        seen += [record.seq for record in page.records]
        before = page.older
    assert seen == [9, 6, 2]


class Counting:
    """A ledger that counts what leaves the database."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.returned, self.stretches = 0, list[tuple[int, int]]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    async def scan(self, wanted: AuditScan, *, limit: int) -> Sequence[AuditRecord]:
        records = await self._ledger.scan(wanted, limit=limit)
        self.returned += len(records)
        self.stretches.append((wanted.down_to, wanted.before))
        return records


async def test_records_that_do_not_match_stay_in_the_database(ledger: Ledger) -> None:
    counting = Counting(ledger)
    await find(counting, AuditQuery(about="notes", since=NOW), limit=50)
    assert counting.returned == 1


async def test_a_bounded_search_says_where_to_continue_and_an_unbounded_one_reads_on(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "MOST_SCANNED", 4)
    first = await find(ledger, AuditQuery(tool="kb_append"), limit=50)
    assert (first.records, first.older) == ([], 6)
    second = await find(ledger, AuditQuery(tool="kb_append"), limit=50, before=first.older)
    assert [record.seq for record in second.records] == [2]
    assert second.older == 2
    assert (await find(ledger, AuditQuery(tool="kb_append"), limit=50, before=2)).older == 0
    whole = await find(ledger, AuditQuery(tool="kb_append"), limit=50, bounded=False)
    assert ([record.seq for record in whole.records], whole.older) == ([2], 0)


async def test_records_that_match_only_at_first_sight_are_bounded_too(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name of a field is in every body, but no word of a record."""
    monkeypatch.setattr(search, "BLOCK", 2)
    monkeypatch.setattr(search, "MOST_READ", 4)
    counting = Counting(ledger)
    page = await find(counting, AuditQuery(words="arguments_hash"), limit=50)
    assert (page.records, page.older, counting.returned) == ([], 6, 4)


async def test_times_are_compared_to_the_microsecond_in_any_zone(store: StateStore) -> None:
    tick = timedelta(microseconds=1)
    for at in (NOW - tick, NOW, NOW + tick, NOW + MINUTE):
        await store.ledger.commit(HistoryEntry(at, ACTS[0].actor))
    assert await found(store.ledger, since=NOW) == [4, 3, 2]
    assert await found(store.ledger, until=NOW) == [1]
    assert await found(store.ledger, since=NOW, until=NOW + tick) == [2]


async def test_one_record_is_found_by_its_number(ledger: Ledger) -> None:
    record = await record_at(ledger, 3)
    assert record is not None
    assert record.seq == 3
    assert await record_at(ledger, 0) is None
    assert await record_at(ledger, 10) is None
