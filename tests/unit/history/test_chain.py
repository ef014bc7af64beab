"""The audit chain detects every edit except a complete rewrite, and names the place."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.history.audit.chain import START, body_around, body_of, digest_of, verify
from knowledge.history.ports import Actor, AuditRecord, HistoryEntry
from tests.support.state.ledgers import MINUTE, NOW, change, entry

Records = list[AuditRecord]
End = tuple[int, bytes]
LENGTH = 9


def links(entries: Sequence[HistoryEntry]) -> tuple[Records, End]:
    """Return the chain of these acts and its end."""
    records: Records = []
    for seq, one in enumerate(entries, 1):
        body = body_of(one, seq)
        records.append(AuditRecord(seq, body, digest_of(records[-1].digest if records else START, body)))
    return records, (len(records), records[-1].digest if records else START)


def chain(length: int = LENGTH) -> tuple[Records, End]:
    acts = [entry(change(f"p{n}.md", b"a", b"b"), at=NOW + n * MINUTE) for n in range(1, length + 1)]
    return links(acts)


def renumbered(records: Sequence[AuditRecord]) -> Records:
    return [replace(record, seq=seq) for seq, record in enumerate(records, 1)]


def edited(record: AuditRecord) -> AuditRecord:
    return replace(record, body=record.body.replace("ada@", "eve@"))


@pytest.mark.parametrize("length", [0, 1, 2, 50])
def test_a_chain_that_nobody_touched_is_sound(length: int) -> None:
    records, end = chain(length)
    assert verify(records, end) == []


@pytest.mark.parametrize("at", range(LENGTH))
def test_an_edited_record_is_named_with_its_act_and_no_other_is(at: int) -> None:
    records, end = chain()
    records[at] = edited(records[at])
    (found,) = verify(records, end)
    assert (found.seq, found.tool, found.paths) == (at + 1, "kb_merge", (f"p{at + 1}.md",))
    assert found.at == f"2026-03-01T12:0{at + 1}:00.123456+00:00"
    assert "edited" in found.reason


@pytest.mark.parametrize("at", range(LENGTH - 1))
def test_an_edited_record_with_a_new_hash_breaks_the_link_to_the_next(at: int) -> None:
    records, end = chain()
    body = edited(records[at]).body
    records[at] = AuditRecord(at + 1, body, digest_of(records[at - 1].digest if at else START, body))
    (found,) = verify(records, end)
    assert found.seq == at + 2
    assert f"record {at + 1} was, together with its hash" in found.reason


def test_the_last_record_edited_with_a_new_hash_does_not_fit_the_end() -> None:
    records, end = chain()
    body = edited(records[-1]).body
    records[-1] = AuditRecord(LENGTH, body, digest_of(records[-2].digest, body))
    (found,) = verify(records, end)
    assert found.seq == LENGTH
    assert "end of the chain" in found.reason


@pytest.mark.parametrize("at", range(LENGTH - 1))
def test_a_missing_record_is_named_by_its_number(at: int) -> None:
    records, end = chain()
    del records[at]
    (found,) = verify(records, end)
    assert (found.seq, found.reason) == (at + 1, "is missing")


@pytest.mark.parametrize("at", range(LENGTH - 1))
def test_a_record_removed_by_renumbering_is_located(at: int) -> None:
    records, end = chain()
    del records[at]
    found = verify(renumbered(records), end)
    assert [broken.seq for broken in found] == [at + 1, LENGTH]
    assert f"contains what was recorded as {at + 2}" in found[0].reason
    assert found[1].reason == "is missing"


@pytest.mark.parametrize(("one", "other"), [(0, 1), (2, 7), (7, 8), (0, 8)])
def test_records_that_change_places_are_both_named(one: int, other: int) -> None:
    records, end = chain()
    records[one], records[other] = records[other], records[one]
    found = verify(renumbered(records), end)
    named = {broken.seq for broken in found}
    assert {one + 1, other + 1} <= named <= {one + 1, other + 1, LENGTH}
    assert found[0].reason == f"contains what was recorded as {other + 1}: reordered, inserted or renumbered"


@pytest.mark.parametrize("at", range(LENGTH))
def test_an_inserted_record_is_located(at: int) -> None:
    records, end = chain()
    body = body_of(entry(actor=Actor("eve", "kb_delete", "")), at + 1)
    records.insert(at, AuditRecord(0, body, digest_of(records[at - 1].digest if at else START, body)))
    found = verify(renumbered(records), end)
    # Its own hash fits: only the next record shows that it was there before.
    assert found[0].seq == at + 2
    assert f"recorded as {at + 1}" in found[0].reason
    assert found[-1].seq == LENGTH + 1


def test_a_record_added_behind_the_end_should_not_be_there() -> None:
    records, end = chain()
    body = body_of(entry(), LENGTH + 1)
    (found,) = verify([*records, AuditRecord(LENGTH + 1, body, digest_of(records[-1].digest, body))], end)
    assert found.seq == LENGTH + 1


@pytest.mark.parametrize("kept", range(LENGTH))
def test_a_tail_that_was_cut_off_is_missed(kept: int) -> None:
    records, end = chain()
    (found,) = verify(records[:kept], end)
    assert found.seq == kept + 1
    assert "missing" in found.reason


@pytest.mark.parametrize("end", [(LENGTH, b"x" * 32), (LENGTH + 3, b"x" * 32), (3, b"x" * 32), (0, b"")])
def test_an_edited_end_is_found(end: End) -> None:
    records, _ = chain()
    (found,) = verify(records, end)
    assert found.seq == min(end[0], LENGTH) + (end[0] != LENGTH)


def test_breaks_that_have_nothing_to_do_with_each_other_are_all_named() -> None:
    records, end = chain()
    records[1] = edited(records[1])
    records[6] = edited(records[6])
    del records[4]
    assert [broken.seq for broken in verify(records, end)] == [2, 5, 7]


@pytest.mark.parametrize(
    "body", ["", "[]", "null", "{", '{"seq":"5"}', '{"seq":5,"changes":7}', '{"seq":5,"changes":[1,{}]}']
)
def test_an_unreadable_record_is_still_named(body: str) -> None:
    records, end = chain()
    records[4] = replace(records[4], body=body)
    (found,) = verify(records, end)
    assert found.seq == 5


def _edit(records: Records, at: int) -> Records:
    records[at] = edited(records[at])
    return records


def _drop(records: Records, at: int) -> Records:
    return records[:at] + records[at + 1 :]


def _drop_and_renumber(records: Records, at: int) -> Records:
    return renumbered(_drop(records, at))


def _rehash_all_after(records: Records, at: int) -> Records:
    """Rewrite the rest of the chain: only the end shows it."""
    body, previous = edited(records[at]).body, records[at - 1].digest if at else START
    made = records[:at]
    for one in (body, *(record.body for record in records[at + 1 :])):
        previous = digest_of(previous, one)
        made.append(AuditRecord(len(made) + 1, one, previous))
    return made


@given(
    st.integers(1, 12),
    st.data(),
    st.sampled_from([_edit, _drop, _drop_and_renumber, _rehash_all_after]),
)
def test_nothing_that_is_done_to_a_chain_goes_unnoticed(
    length: int, data: st.DataObject, harm: Callable[[Records, int], Records]
) -> None:
    records, end = chain(length)
    at = data.draw(st.integers(0, length - 1))
    found = verify(harm(records, at), end)
    assert found
    assert found[0].seq >= at + 1 or harm is _rehash_all_after


@given(st.text(), st.text(), st.none() | st.text(), st.none() | st.floats(0, 1), st.integers(1, 2**53))
def test_a_body_is_canonical_whatever_it_holds(
    intent: str, path: str, proposal: str | None, confidence: float | None, seq: int
) -> None:
    """Anyone can make the same text from the exported fields, and so the same hash."""
    made = entry(change(path, b"a", None), intent=intent, proposal=proposal, confidence=confidence)
    body = body_of(made, seq)
    assert body == json.dumps(json.loads(body), sort_keys=True, separators=(",", ":"))
    assert json.loads(body)["seq"] == seq
    assert json.loads(body)["intent"] == intent
    head, tail = body_around(made)
    assert head + str(seq) + tail == body


def test_the_same_moment_in_another_zone_makes_the_same_record() -> None:
    from datetime import timedelta, timezone

    there = NOW.astimezone(timezone(timedelta(hours=9)))
    assert body_of(entry(at=there), 1) == body_of(entry(at=NOW), 1)
