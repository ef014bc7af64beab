"""The promises of every state store: one suite for all engines."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest

from knowledge.state.ports import ReadingMark, StateStore
from knowledge.trust.ports import Note, TrustRecord
from tests.support.processes.forked import forked
from tests.support.state.ledgers import open_shared
from tests.support.state.postgres import PASSWORD
from tests.support.state.trust_levels import stand

NOW = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def trust_record(principal: str = "ada@desktop", score: float = 2.5, at: datetime = NOW) -> TrustRecord:
    return TrustRecord(principal, score, 2.0, 3.9, frozen=False, updated_at=at)


def forms_note(at: datetime) -> Note:
    return Note("ann", "host.forms", "desktop", at)


async def test_an_enrolled_host_is_known_by_the_digest_of_its_secret(store: StateStore) -> None:
    await store.enrol("desktop", b"digest-1", at=NOW)
    assert await store.host_of(b"digest-1") == "desktop"
    assert await store.host_of(b"digest-2") is None


async def test_enrolling_again_replaces_the_secret_and_keeps_the_standing(store: StateStore) -> None:
    await store.enrol("desktop", b"old", at=NOW)
    await stand(store, trust_record(), reason="met", by="server")
    await store.enrol("desktop", b"new", at=NOW + MINUTE)
    assert await store.host_of(b"old") is None
    assert await store.host_of(b"new") == "desktop"
    assert [(e.host, e.created_at) for e in await store.enrolments()] == [("desktop", NOW + MINUTE)]
    assert await store.trust_record("ada@desktop") == trust_record()


async def test_forms_count_for_the_secret_for_which_a_person_allowed_them_and_for_no_other(store: StateStore) -> None:
    await store.enrol("desktop", b"old", at=NOW)
    await store.enrol("cursor", b"other", at=NOW)
    assert await store.trust.allow_forms("desktop", b"old", allowed=True, note=forms_note(NOW))
    assert not await store.trust.allow_forms("desktop", b"old", allowed=True, note=forms_note(NOW + MINUTE))
    assert [(e.host, e.forms) for e in await store.enrolments()] == [("cursor", False), ("desktop", True)]
    await store.enrol("desktop", b"new", at=NOW + MINUTE)
    assert not any(e.forms for e in await store.enrolments())
    assert await store.trust.allow_forms("desktop", b"new", allowed=True, note=forms_note(NOW + MINUTE))
    assert [e.host for e in await store.enrolments() if e.forms] == ["desktop"]


async def test_a_no_to_forms_counts_even_if_the_clock_was_set_back_and_an_older_yes_does_not_undo_it(
    store: StateStore,
) -> None:
    await store.enrol("desktop", b"secret", at=NOW)
    assert await store.trust.allow_forms("desktop", b"secret", allowed=True, note=forms_note(NOW + MINUTE))
    assert await store.trust.allow_forms("desktop", b"secret", allowed=False, note=forms_note(NOW))
    assert not await store.trust.allow_forms("desktop", b"secret", allowed=True, note=forms_note(NOW + MINUTE))
    assert not any(e.forms for e in await store.enrolments())
    assert await store.trust.allow_forms("desktop", b"secret", allowed=True, note=forms_note(NOW + 2 * MINUTE))
    last, _ = await store.ledger.chain_end()
    assert last == 3


async def test_enrolments_are_listed_by_host_name(store: StateStore) -> None:
    for host in ("zed", "cursor", "desktop"):
        await store.enrol(host, host.encode(), at=NOW)
    assert [e.host for e in await store.enrolments()] == ["cursor", "desktop", "zed"]


async def test_a_principal_that_was_never_seen_has_no_standing(store: StateStore) -> None:
    assert await store.trust_record("nobody") is None
    assert list(await store.trust_records()) == []
    assert list(await store.history("nobody", limit=5)) == []


async def test_a_trust_record_is_returned_as_set_to_the_microsecond(store: StateStore) -> None:
    frozen = TrustRecord("ada", 0.0, 2.0, 5.0, frozen=True, updated_at=NOW)
    await stand(store, frozen, reason="harmful", by="ada")
    await stand(store, trust_record("abe"), reason="met", by="server")
    assert await store.trust_record("ada") == frozen
    assert list(await store.trust_records()) == [trust_record("abe"), frozen]


async def test_every_change_of_a_standing_leaves_one_line_of_history_newest_first(store: StateStore) -> None:
    for minute, score in enumerate((2.0, 2.1, 2.4)):
        await stand(store, trust_record(score=score, at=NOW + minute * MINUTE), reason=f"r{minute}", by="ada")
    await stand(store, trust_record("other"), reason="x", by="y")
    changes = await store.history("ada@desktop", limit=2)
    assert [(c.score_before, c.score_after, c.reason, c.by, c.at) for c in changes] == [
        (2.1, 2.4, "r2", "ada", NOW + 2 * MINUTE),
        (2.0, 2.1, "r1", "ada", NOW + MINUTE),
    ]
    assert changes[0].id > changes[1].id
    assert (await store.history("ada@desktop", limit=9))[-1].score_before == 0.0


async def test_the_first_change_begins_at_the_score_that_an_unseen_principal_holds(store: StateStore) -> None:
    for minute, score in enumerate((3.0, 1.0)):
        change = trust_record(score=score, at=NOW + minute * MINUTE)
        await stand(store, change, reason="granted", by="ada", unseen=2.0)
    found = [(c.score_before, c.score_after) for c in await store.history("ada@desktop", limit=9)]
    assert found == [(3.0, 1.0), (2.0, 3.0)]


async def test_a_lease_has_one_holder_until_it_expires(store: StateStore) -> None:
    mine = await store.acquire_lease("index", "a", now=NOW, ttl_s=30)
    assert mine is not None
    assert (mine.holder, mine.expires_at) == ("a", NOW + timedelta(seconds=30))
    assert await store.acquire_lease("index", "b", now=NOW + timedelta(seconds=29), ttl_s=30) is None
    assert await store.lease("index") == mine
    theirs = await store.acquire_lease("index", "b", now=NOW + timedelta(seconds=30), ttl_s=30)
    assert theirs is not None
    assert theirs.fence > mine.fence


async def test_the_holder_extends_its_lease_under_the_same_fence(store: StateStore) -> None:
    first = await store.acquire_lease("index", "a", now=NOW, ttl_s=30)
    again = await store.acquire_lease("index", "a", now=NOW + MINUTE, ttl_s=30)
    assert first is not None
    assert again is not None
    assert (again.fence, again.expires_at) == (first.fence, NOW + MINUTE + timedelta(seconds=30))


async def test_a_released_lease_is_free_immediately_and_its_fence_continues(store: StateStore) -> None:
    first = await store.acquire_lease("index", "a", now=NOW, ttl_s=30)
    await store.release_lease("index", "stranger")
    assert await store.lease("index") == first
    await store.release_lease("index", "a")
    assert await store.lease("index") is None
    second = await store.acquire_lease("index", "a", now=NOW, ttl_s=30)
    assert first is not None
    assert second is not None
    assert second.fence > first.fence


async def test_a_fence_grows_even_when_the_clock_went_back(store: StateStore) -> None:
    first = await store.acquire_lease("index", "a", now=NOW, ttl_s=1)
    await store.release_lease("index", "a")
    second = await store.acquire_lease("index", "b", now=NOW - timedelta(days=400), ttl_s=1)
    assert first is not None
    assert second is not None
    assert second.fence > first.fence


async def test_a_store_that_lost_everything_gives_higher_fences_than_before(where: str, schema: str) -> None:
    """The index remembers the highest fence it has seen; it must not refuse every writer after the state was lost."""
    async with contextlib.AsyncExitStack() as stack:
        first, fresh = [await open_shared(where, name) for name in (schema, schema + "_fresh")]
        stack.push_async_callback(first.close)
        stack.push_async_callback(fresh.close)
        before = await first.acquire_lease("index", "a", now=NOW, ttl_s=1)
        after = await fresh.acquire_lease("index", "a", now=NOW + MINUTE, ttl_s=1)
    assert before is not None
    assert after is not None
    assert after.fence > before.fence


async def test_a_lease_that_ends_later_than_it_could_is_void(store: StateStore) -> None:
    """A process was killed while the clock was an hour ahead.

    Nobody else indexed, or served the page, for that hour.
    """
    ahead = await store.acquire_lease("index", "a", now=NOW + timedelta(hours=1), ttl_s=30)
    taken = await store.acquire_lease("index", "b", now=NOW, ttl_s=30)
    assert ahead is not None
    assert taken is not None
    assert (taken.holder, taken.expires_at) == ("b", NOW + timedelta(seconds=30))
    assert taken.fence > ahead.fence


async def test_machines_with_slightly_different_clocks_keep_each_others_leases(store: StateStore) -> None:
    assert await store.acquire_lease("index", "a", now=NOW + timedelta(seconds=45), ttl_s=30)
    assert await store.acquire_lease("index", "b", now=NOW, ttl_s=30) is None


async def test_leases_of_different_names_do_not_meet(store: StateStore) -> None:
    assert await store.acquire_lease("index", "a", now=NOW, ttl_s=30)
    assert await store.acquire_lease("page", "b", now=NOW, ttl_s=30)
    assert await store.lease("other") is None


async def test_of_many_concurrent_callers_exactly_one_gets_the_lease(store: StateStore) -> None:
    asked = (store.acquire_lease("index", f"h{i}", now=NOW, ttl_s=30) for i in range(20))
    assert sum(lease is not None for lease in await asyncio.gather(*asked)) == 1


async def test_events_come_in_order_after_the_number_asked_for(store: StateStore) -> None:
    assert await store.last_event() == 0
    assert await store.publish("doc", []) == 0
    last = await store.publish("doc", ["a.md", "b.md"])
    assert await store.last_event() == last
    newest = await store.publish("map", ["guides"])
    assert newest > last
    everything = await store.events_after(0)
    assert [(e.topic, e.key) for e in everything] == [("doc", "a.md"), ("doc", "b.md"), ("map", "guides")]
    assert [e.seq for e in everything] == sorted({e.seq for e in everything})
    assert await store.events_after(last) == everything[2:]
    assert await store.events_after(0, limit=1) == everything[:1]
    assert list(await store.events_after(newest)) == []
    assert await store.publish("doc", []) == newest


async def test_waiting_for_a_change_ends_with_it_and_not_before(store: StateStore) -> None:
    """The port: `changed` returns as soon as there is a newer event."""
    before = await store.publish("doc", ["old.md"])
    woken = asyncio.create_task(store.changed(before))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(woken), 0.2)
    newest = await store.publish("doc", ["a.md"])
    await asyncio.wait_for(woken, 60)
    await asyncio.wait_for(store.changed(before), 60)
    await asyncio.wait_for(store.changed(newest + 7), 60)


async def test_several_may_wait_for_a_change_and_one_may_stop_waiting(store: StateStore) -> None:
    waiting = [asyncio.create_task(store.changed(0)) for _ in range(4)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await store.publish("doc", ["a.md"])
    with pytest.raises(asyncio.CancelledError):
        await waiting[0]
    await asyncio.wait_for(asyncio.gather(*waiting[1:]), 60)


async def test_a_sound_store_says_where_it_is_and_finds_nothing_wrong(store: StateStore) -> None:
    assert list(await store.check()) == []
    assert store.place
    assert PASSWORD not in store.place


async def test_a_time_without_its_zone_is_a_mistake_of_the_caller(where: str, schema: str) -> None:
    opened = await open_shared(where, schema)
    with pytest.raises(ValueError, match="without its zone"):
        await opened.enrol("desktop", b"digest", at=NOW.replace(tzinfo=None))
    await opened.close()


# --- several stores on one database -----------------------------------------------------------------------------------


async def test_one_stores_write_is_visible_to_another_immediately(where: str, schema: str) -> None:
    one, two = await open_shared(where, schema), await open_shared(where, schema)
    assert await two.last_event() == 0
    newest = await one.publish("doc", ["a.md"])
    assert await two.last_event() == newest
    await stand(two, trust_record(), reason="met", by="server")
    assert await one.trust_record("ada@desktop") == trust_record()
    assert await one.acquire_lease("index", "one", now=NOW, ttl_s=9)
    assert await two.acquire_lease("index", "two", now=NOW, ttl_s=9) is None
    await one.close()
    await two.close()


async def test_a_look_is_remembered_by_caller_journey_and_circle(store: StateStore) -> None:
    """Design, section 4: the reading ledger says what this caller (and journey) has read."""
    await store.note_looks("ada@desktop", "", [ReadingMark("guides", "map"), ReadingMark("guides", "search")], at=NOW)
    await store.note_looks("ada@desktop", "j1", [ReadingMark("guides", "map")], at=NOW + MINUTE)
    await store.note_looks("bob@desktop", "", [ReadingMark("guides/a.md", "read")], at=NOW)
    seen = await store.looks("ada@desktop", "", ["guides", "guides/a.md"])
    assert seen == {ReadingMark("guides", "map"): NOW, ReadingMark("guides", "search"): NOW}
    assert await store.looks("ada@desktop", "j1", ["guides"]) == {ReadingMark("guides", "map"): NOW + MINUTE}
    assert await store.looks("bob@desktop", "", ["guides"]) == {}


async def test_the_newest_look_counts_whatever_the_order_of_telling(store: StateStore) -> None:
    await store.note_looks("ada", "", [ReadingMark("", "map")], at=NOW + MINUTE)
    await store.note_looks("ada", "", [ReadingMark("", "map")], at=NOW)
    assert await store.looks("ada", "", [""]) == {ReadingMark("", "map"): NOW + MINUTE}


async def test_a_nudge_is_given_once_per_place_and_hour(store: StateStore) -> None:
    """Design, section 4."""

    async def given(principal: str, path: str, minutes: int, journey: str = "") -> bool:
        return await store.give_nudge(principal, journey, path, now=NOW + minutes * MINUTE, quiet_s=3600)

    assert await given("ada", "guides", 0)
    assert not await given("ada", "guides", 59)
    assert await given("ada", "concepts", 59)
    assert await given("bob", "guides", 59)
    assert await given("ada", "guides", 59, journey="j1")
    assert await given("ada", "guides", 60)
    assert not await given("ada", "guides", 61)


async def test_of_concurrent_callers_exactly_one_is_nudged(store: StateStore) -> None:
    asked = (store.give_nudge("ada", "", "guides", now=NOW, quiet_s=3600) for _ in range(20))
    assert sum(await asyncio.gather(*asked)) == 1


async def _acquire(opened: StateStore, holder: str) -> int:
    lease = await opened.acquire_lease("index", holder, now=NOW, ttl_s=60)
    return lease.fence if lease else 0


async def _nudge(opened: StateStore, holder: str) -> int:
    del holder
    return int(await opened.give_nudge("ada", "", "guides", now=NOW, quiet_s=3600))


async def _publish(opened: StateStore, holder: str) -> int:
    for turn in range(PUBLISHED_EACH):
        await opened.publish("doc", [f"{holder}/{turn}.md"])
    return 1


ACTS = {"acquire": _acquire, "nudge": _nudge, "publish": _publish}
PUBLISHED_EACH = 40


def _act(where: str, name: str, act: str, holder: str, meeting: tuple[object, object]) -> None:
    barrier, answers = meeting

    async def run() -> int:
        barrier.wait(60)  # type: ignore[attr-defined]  # multiprocessing's proxies have no public type
        opened = await open_shared(where, name)
        answer = await ACTS[act](opened, holder)
        await opened.close()
        return answer

    answers.put(asyncio.run(run()))  # type: ignore[attr-defined]  # as above


@contextlib.contextmanager
def processes(where: str, name: str, act: str, count: int) -> Iterator[Callable[[], list[int]]]:
    """Run this many processes that open the store at once and do `act`.

    Yields a function that waits for their answers.
    """
    context = forked()
    barrier, answers = context.Barrier(count), context.Queue()
    workers = [context.Process(target=_act, args=(where, name, act, f"p{i}", (barrier, answers))) for i in range(count)]
    for worker in workers:
        worker.start()

    def answered() -> list[int]:
        return [answers.get(timeout=60) for _ in workers]

    yield answered
    for worker in workers:
        worker.join(30)
    assert [worker.exitcode for worker in workers] == [0] * count


@pytest.mark.parametrize("act", ["acquire", "nudge"])
def test_of_processes_that_open_and_migrate_together_exactly_one_wins(where: str, schema: str, act: str) -> None:
    """Design, section 2: exactly one process watches and indexes. The database is new, so all of them also migrate."""
    with processes(where, schema, act, 8 if act == "acquire" else 4) as answered:
        assert sum(answer > 0 for answer in answered()) == 1


async def test_a_reader_that_continues_from_the_newest_number_misses_no_event_of_several_processes(
    where: str, schema: str
) -> None:
    """An event that commits later must not have a lower number than one that was already read."""
    opened = await open_shared(where, schema)
    heard: list[str] = []
    seen, publishers = 0, 3
    with processes(where, schema, "publish", publishers) as answered:
        async with asyncio.timeout(60):
            while len(heard) < publishers * PUBLISHED_EACH:
                await opened.changed(seen)
                events = await opened.events_after(seen)
                heard += [event.key for event in events]
                seen = events[-1].seq
        await asyncio.to_thread(answered)
    assert sorted(heard) == sorted(f"p{p}/{turn}.md" for p in range(publishers) for turn in range(PUBLISHED_EACH))
    await opened.close()
