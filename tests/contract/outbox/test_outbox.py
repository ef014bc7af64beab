"""The promises of every outbox: one suite for all engines."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from knowledge.errors import UnknownOutboxEntry
from knowledge.outbox import sql as sql_outbox
from knowledge.outbox.codec import LONGEST_TITLE, MENTIONS_OF_A_PAGE
from knowledge.outbox.ports import Mention, Outbox, OutboxEntry
from knowledge.state.ports import StateStore
from tests.support.processes.forked import forked
from tests.support.state.decisions import ADA, ODD, approved, sound
from tests.support.state.ledgers import DAY, MINUTE, NOW, open_shared
from tests.support.state.memory import outbox as memory_outbox
from tests.support.state.stores import SHARED, Older, bodies

BOB = "bob@cursor"
HOUR = timedelta(hours=1)
PROCESSES = 3
EACH = 25
"""How many outbox entries each process begins."""

PLAIN = OutboxEntry(
    id="e-1",
    principal=ADA,
    tool="zulip_send_message",
    target="zulip:design/merge",
    digest="dd" * 32,
    begun_at=NOW,
    arguments_hash="ab" * 32,
)


def outbox_entry(id_: str = "e-1", **more: Any) -> OutboxEntry:
    return replace(PLAIN, **{"id": id_, **more})


def mention(origin: str = "plane:KB-12", path: str = "guides/a.md", **more: Any) -> Mention:
    told = {"title": "Merge by block", "url": "https://plane.example/kb/KB-12", "at": NOW, **more}
    return Mention(path, origin, **told)


@pytest.fixture
def outbox(store: StateStore) -> Outbox:
    return store.outbox


async def ids(outbox: Outbox, **asked: Any) -> list[str]:
    return [one.id for one in await outbox.open(**asked)]


# --- beginning --------------------------------------------------------------------------------------------------------


async def test_an_entry_is_returned_as_begun_to_the_last_character(outbox: Outbox) -> None:
    odd = outbox_entry(
        "e-odd", principal="zoë@claude", target="zulip:déjà 日本/🗺", digest="ee" * 32, marks={"local_id": "1 日"}
    )
    for begun in (outbox_entry(), odd):
        assert await outbox.begin(begun, within=HOUR) == begun
        assert await outbox.outbox_entry(begun.id) == begun
    assert await outbox.outbox_entry("e-2") is None


async def test_characters_no_database_can_store_are_replaced_by_marks(outbox: Outbox) -> None:
    begun = await outbox.begin(outbox_entry(target=ODD, marks={ODD: ODD}), within=HOUR)
    assert begun.target == ODD.replace("\x00", "\ufffd").replace("\ud800", "?")
    assert begun.marks == {begun.target: begun.target}
    assert await outbox.outbox_entry("e-1") == begun


async def test_the_same_act_again_gives_the_first_ones_errand_back(outbox: Outbox) -> None:
    """A lost reply never leads to a second message."""
    first = await outbox.begin(outbox_entry(), within=HOUR)
    assert await outbox.begin(outbox_entry("e-2", begun_at=NOW + MINUTE), within=HOUR) == first
    await outbox.end("e-1", "done", at=NOW + MINUTE, result="[17]")
    again = await outbox.begin(outbox_entry("e-3", begun_at=NOW + HOUR), within=HOUR)
    assert (again.id, again.fate, again.result) == ("e-1", "done", "[17]")
    assert await outbox.outbox_entry("e-2") is None


@pytest.mark.parametrize(
    "other",
    [
        {"principal": BOB},
        {"tool": "zulip_react"},
        {"digest": "ff" * 32},
    ],
    ids=lambda other: next(iter(other)),
)
async def test_another_act_has_its_own_entry(outbox: Outbox, other: dict[str, Any]) -> None:
    await outbox.begin(outbox_entry(), within=HOUR)
    second = outbox_entry("e-2", **other)
    assert await outbox.begin(second, within=HOUR) == second
    assert await ids(outbox) == ["e-2", "e-1"]


async def test_the_same_act_later_is_another_one_unless_the_firsts_outcome_is_unknown(outbox: Outbox) -> None:
    later = outbox_entry("e-2", begun_at=NOW + HOUR + timedelta(microseconds=1))
    for fate in ("begun", "unsure"):
        await outbox.begin(outbox_entry(), within=HOUR)
        if fate == "unsure":
            await outbox.end("e-1", fate, at=NOW)
        assert (await outbox.begin(later, within=HOUR)).id == "e-1"
    await outbox.end("e-1", "done", at=NOW)
    assert await outbox.begin(later, within=HOUR) == later


async def test_an_act_that_was_certainly_not_done_may_be_begun_again(outbox: Outbox) -> None:
    for proposal in ("", "p-1"):
        failed, anew = (outbox_entry(f"{name}{proposal}", proposal=proposal) for name in ("failed", "anew"))
        await outbox.begin(failed, within=HOUR)
        await outbox.end(failed.id, "failed", at=NOW)
        assert await outbox.begin(anew, within=HOUR) == anew
        await outbox.end(anew.id, "failed", at=NOW)


async def test_an_act_with_an_unknown_outcome_is_returned(outbox: Outbox) -> None:
    await outbox.begin(outbox_entry(), within=HOUR)
    await outbox.end("e-1", "unsure", at=NOW)
    again = await outbox.begin(outbox_entry("e-2"), within=HOUR)
    assert (again.id, again.fate) == ("e-1", "unsure")


async def test_the_newest_of_several_counts(outbox: Outbox) -> None:
    await outbox.begin(outbox_entry(), within=HOUR)
    await outbox.end("e-1", "done", at=NOW)
    await outbox.begin(outbox_entry("e-2", begun_at=NOW + 2 * HOUR), within=HOUR)
    assert (await outbox.begin(outbox_entry("e-3", begun_at=NOW + 2 * HOUR), within=DAY)).id == "e-2"


async def test_an_approved_proposal_has_one_entry_however_late_it_is_requested(outbox: Outbox) -> None:
    first = await outbox.begin(outbox_entry(proposal="p-1"), within=MINUTE)
    late = outbox_entry("e-2", proposal="p-1", begun_at=NOW + 30 * DAY, digest="ff" * 32)
    assert await outbox.begin(late, within=MINUTE) == first
    done = await outbox.end("e-1", "done", at=NOW)
    assert await outbox.begin(late, within=MINUTE) == done
    assert await outbox.outbox_entry_of("p-1") == done


async def test_each_approval_counts_once_also_right_after_the_same_was_done(outbox: Outbox) -> None:
    for n in range(3):
        asked = outbox_entry(f"e-{n}", proposal=f"p-{n}" if n else "")
        assert await outbox.begin(asked, within=HOUR) == asked
        await outbox.end(asked.id, "done", at=NOW)
    assert (await outbox.begin(outbox_entry("e-3"), within=HOUR)).id == "e-2"


async def test_an_approved_act_does_not_begin_while_the_same_acts_outcome_is_unknown(outbox: Outbox) -> None:
    """After the answer "unsure" the caller proposes it again: an approval must not send it twice."""
    await outbox.begin(outbox_entry(proposal="p-1"), within=HOUR)
    again = outbox_entry("e-2", proposal="p-2", begun_at=NOW + DAY)
    assert (await outbox.begin(again, within=HOUR)).id == "e-1"
    await outbox.end("e-1", "unsure", at=NOW)
    assert (await outbox.begin(again, within=HOUR)).id == "e-1"
    await outbox.end("e-1", "failed", at=NOW)
    assert await outbox.begin(again, within=HOUR) == again


async def test_without_a_proposal_there_is_no_entry_for_one(outbox: Outbox) -> None:
    await outbox.begin(outbox_entry(), within=HOUR)
    assert await outbox.outbox_entry_of("") is None
    assert await outbox.outbox_entry_of("p-1") is None


async def test_a_proposals_newest_entry_has_its_outcome(outbox: Outbox) -> None:
    for id_ in ("e-1", "e-2"):
        await outbox.begin(outbox_entry(id_, proposal="p-1"), within=HOUR)
        await outbox.end(id_, "failed", at=NOW)
    found = await outbox.outbox_entry_of("p-1")
    assert found is not None
    assert (found.id, found.fate) == ("e-2", "failed")


async def test_an_entry_is_found_by_a_marks_name_and_not_by_its_value(outbox: Outbox) -> None:
    for number, name in enumerate(("asked_by.a", "asked_by.ab", 'odd "日%_')):
        await outbox.begin(outbox_entry(f"e-{number}", digest=f"{number}" * 64), within=HOUR)
        await outbox.mark(f"e-{number}", {name: "yes", "says": '"asked_by.b":'})
    for number, name in enumerate(("asked_by.a", "asked_by.ab", 'odd "日%_')):
        found = await outbox.marked(name)
        assert found is not None
        assert found.id == f"e-{number}"
    assert await outbox.marked("asked_by.b") is None
    assert await outbox.marked("asked_by.%") is None
    newest = await outbox.marked("says")
    assert newest is not None
    assert newest.id == "e-2"


async def test_an_id_is_never_used_twice(outbox: Outbox) -> None:
    await outbox.begin(outbox_entry(), within=HOUR)
    with pytest.raises(ValueError, match="outbox entry e-1 already exists"):
        await outbox.begin(outbox_entry(digest="ff" * 32), within=HOUR)
    assert (await outbox.begin(outbox_entry("e-2", digest="ff" * 32), within=HOUR)).id == "e-2"


@pytest.mark.parametrize(
    "wrong",
    [{"id_": ""}, {"fate": "done"}, {"result": "x"}, {"ended_at": NOW}, {"begun_at": NOW.replace(tzinfo=None)}],
    ids=lambda wrong: next(iter(wrong)),
)
async def test_an_errand_that_cannot_begin_is_refused(outbox: Outbox, wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"a new outbox entry has an id|without its zone"):
        await outbox.begin(outbox_entry(**wrong), within=HOUR)
    assert not await outbox.open()


# --- marks and ends ---------------------------------------------------------------------------------------------------


async def test_marks_add_up_and_of_one_name_the_newest_counts(outbox: Outbox) -> None:
    await outbox.begin(outbox_entry(marks={"queue": "q-1"}), within=HOUR)
    await outbox.mark("e-1", {"newest": "40", "queue": "q-2"})
    await outbox.mark("e-1", {"part": "1"})
    found = await outbox.outbox_entry("e-1")
    assert found is not None
    assert found.marks == {"queue": "q-2", "newest": "40", "part": "1"}
    with pytest.raises(UnknownOutboxEntry, match="'e-2'"):
        await outbox.mark("e-2", {"part": "1"})


async def test_the_end_of_an_errand_is_on_the_audit_chain_with_its_place_and_no_text(store: StateStore) -> None:
    """An act in another service is recorded like any other; the reply is not."""
    for n, (fate, outcome) in enumerate([("done", "sent"), ("unsure", "unsure"), ("failed", "failed")]):
        begun = outbox_entry(f"e-{n}", digest=f"{n:064}", proposal="p-1" if fate == "done" else "")
        await store.outbox.begin(begun, within=HOUR)
        ended = await store.outbox.end(begun.id, fate, at=NOW + MINUTE, result='{"answer":"secret words"}')  # type: ignore[arg-type]  # the three of them
        assert ended == replace(begun, fate=fate, ended_at=NOW + MINUTE, result='{"answer":"secret words"}')  # type: ignore[arg-type]  # likewise
        assert await store.outbox.outbox_entry(begun.id) == ended
        told = (await bodies(store))[-1]
        assert (told["principal"], told["tool"], told["arguments_hash"]) == (ADA, "zulip_send_message", "ab" * 32)
        assert told["outcome"] == outcome
        assert told["proposal"] == (begun.proposal or None)
        assert told["delivery"] == {"errand": begun.id, "target": "zulip:design/merge"}
        assert "secret words" not in json.dumps(told)
    assert await sound(store)


async def test_records_of_acts_on_pages_say_nothing_of_deliveries(store: StateStore) -> None:
    """Existing records must stay as they are, byte for byte."""
    await approved(store)
    assert all("delivery" not in body for body in await bodies(store))


async def test_an_ended_entry_stays_unchanged_and_has_one_record(store: StateStore) -> None:
    for fate in ("done", "failed"):
        begun = outbox_entry(fate, digest=f"{fate:>64}")
        await store.outbox.begin(begun, within=HOUR)
        first = await store.outbox.end(fate, fate, at=NOW, result="[17]")
        for again in ("done", "unsure", "failed"):
            assert await store.outbox.end(fate, again, at=NOW + MINUTE, result="[18]") == first
    assert [body["outcome"] for body in await bodies(store)] == ["sent", "failed"]


async def test_an_unsure_entry_can_become_known_and_both_are_recorded(store: StateStore) -> None:
    await store.outbox.begin(outbox_entry(), within=HOUR)
    unsure = await store.outbox.end("e-1", "unsure", at=NOW)
    assert await store.outbox.end("e-1", "unsure", at=NOW + MINUTE) == unsure
    done = await store.outbox.end("e-1", "done", at=NOW + HOUR, result="[17]")
    assert (done.fate, done.ended_at, done.result) == ("done", NOW + HOUR, "[17]")
    assert [body["outcome"] for body in await bodies(store)] == ["unsure", "sent"]
    assert await sound(store)


async def test_nothing_is_recorded_of_an_end_that_cannot_be(store: StateStore) -> None:
    await store.outbox.begin(outbox_entry(), within=HOUR)
    with pytest.raises(UnknownOutboxEntry):
        await store.outbox.end("e-2", "done", at=NOW)
    with pytest.raises(ValueError, match="does not end as begun"):
        await store.outbox.end("e-1", "begun", at=NOW)
    with pytest.raises(ValueError, match="without its zone"):
        await store.outbox.end("e-1", "done", at=NOW.replace(tzinfo=None))
    assert not await bodies(store)
    assert await ids(store.outbox) == ["e-1"]


async def test_open_entries_are_listed_newest_first(outbox: Outbox) -> None:
    for n, fate in enumerate(["", "done", "unsure", "failed", ""]):
        await outbox.begin(outbox_entry(f"e-{n}", digest=f"{n:064}", begun_at=NOW - n * MINUTE), within=HOUR)
        if fate:
            await outbox.end(f"e-{n}", fate, at=NOW)  # type: ignore[arg-type]  # a fate
    assert await ids(outbox) == ["e-4", "e-2", "e-0"]
    assert await ids(outbox, limit=2) == ["e-4", "e-2"]


async def test_old_ended_entries_are_dropped_oldest_first_and_open_ones_are_not(outbox: Outbox) -> None:
    for n, days in enumerate([3, 1, 2, 5]):
        await outbox.begin(outbox_entry(f"e-{n}", digest=f"{n:064}"), within=HOUR)
        await outbox.end(f"e-{n}", "unsure" if n == 1 else "done", at=NOW + days * DAY)
    await outbox.begin(outbox_entry("never", digest="ff" * 32), within=HOUR)
    assert await outbox.forget(ended_before=NOW + DAY) == 0
    assert await outbox.forget(ended_before=NOW + 4 * DAY, limit=2) == 2
    assert [id_ for id_ in ("e-0", "e-1", "e-2", "e-3", "never") if await outbox.outbox_entry(id_)] == [
        "e-0",
        "e-3",
        "never",
    ]
    assert await outbox.forget(ended_before=NOW + 9 * DAY) == 2
    assert await ids(outbox) == ["never"]


# --- mentions ---------------------------------------------------------------------------------------------------------


async def test_a_pages_mentions_are_listed_newest_first(outbox: Outbox) -> None:
    told = [mention(f"plane:KB-{n}", title=f"{n} 日本 🗺", at=NOW + n * MINUTE) for n in range(4)]
    await outbox.mention([*told[:2], mention(path="guides/b.md")])
    await outbox.mention(told[2:])
    await outbox.mention([])
    assert list(await outbox.mentions("guides/a.md")) == told[::-1]
    assert list(await outbox.mentions("guides/a.md", limit=2)) == [told[3], told[2]]
    assert list(await outbox.mentions("guides/b.md")) == [mention(path="guides/b.md")]
    assert not await outbox.mentions("guides")


async def test_of_one_origin_a_page_has_the_newest_mention(outbox: Outbox) -> None:
    newest = mention(title="renamed", url="https://plane.example/kb/KB-12?new", at=NOW + MINUTE)
    await outbox.mention([mention(), newest, mention(title="older", at=NOW - MINUTE)])
    await outbox.mention([mention(title="old")])
    assert list(await outbox.mentions("guides/a.md")) == [newest]


async def test_strangers_cannot_fill_the_database_with_mentions_of_one_page(outbox: Outbox) -> None:
    many = [mention(f"plane:KB-{n:03}", at=NOW + n * MINUTE) for n in range(MENTIONS_OF_A_PAGE + 30)]
    await outbox.mention([mention(path="guides/b.md", at=NOW - DAY)])
    await outbox.mention(many[20:])
    await outbox.mention([replace(one, title="long " * 200) for one in many[:40]])
    found = await outbox.mentions("guides/a.md", limit=999)
    assert [one.origin for one in found] == [one.origin for one in many[: -MENTIONS_OF_A_PAGE - 1 : -1]]
    assert max(len(one.title) for one in found) == LONGEST_TITLE
    assert len(await outbox.mentions("guides/b.md")) == 1


async def test_strangers_cannot_fill_it_with_mentions_of_many_pages(
    outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    for engine in (memory_outbox, sql_outbox):
        monkeypatch.setattr(engine, "MENTIONS_IN_ALL", 30)
    await outbox.mention([mention(path=f"p/{n:02}.md", at=NOW + n * MINUTE) for n in range(40)])
    kept = [n for n in range(40) if await outbox.mentions(f"p/{n:02}.md")]
    assert kept == list(range(10, 40))


# --- concurrent attempts ----------------------------------------------------------------------------------------------


async def test_of_several_concurrent_attempts_exactly_one_begins_and_one_ends_it(store: StateStore) -> None:
    begun = await asyncio.gather(*(store.outbox.begin(outbox_entry(f"e-{n}"), within=HOUR) for n in range(8)))
    assert len({one.id for one in begun}) == 1
    await asyncio.gather(*(store.outbox.end(begun[0].id, "done", at=NOW, result=str(n)) for n in range(8)))
    assert len(await bodies(store)) == 1
    assert await sound(store)


def _begin(where: str, name: str, me: int, meeting: tuple[Any, Any]) -> None:
    barrier, answers = meeting

    async def run() -> list[int]:
        store = await open_shared(where, name)
        own = []
        barrier.wait(60)
        for n in range(EACH):
            asked = outbox_entry(f"{n}-{me}", digest=f"{n:064}", proposal=f"p-{n}" if n % 2 else "")
            if (await store.outbox.begin(asked, within=HOUR)).id == asked.id:
                own.append(n)
                await store.outbox.mark(asked.id, {"by": str(me)})
                await store.outbox.end(asked.id, "done", at=NOW)
            await store.outbox.mention([mention(f"plane:KB-{n}", path=f"p/{p}.md", at=NOW) for p in (me, 7 - me)])
        await store.close()
        return own

    answers.put(asyncio.run(run()))


@pytest.mark.parametrize("engine", ["sqlite", pytest.param("postgres", marks=pytest.mark.external)])
async def test_of_several_processes_exactly_one_gets_its_own_errand_back(
    engine: str, request: pytest.FixtureRequest, tmp_path: Path, schema: str
) -> None:
    where = request.getfixturevalue("postgres").url() if engine == "postgres" else str(tmp_path)
    store = await open_shared(where, schema)
    processes = forked()
    meeting = processes.Barrier(PROCESSES), processes.Queue()
    workers = [processes.Process(target=_begin, args=(where, schema, me, meeting)) for me in range(PROCESSES)]
    for worker in workers:
        worker.start()
    own = [await asyncio.to_thread(meeting[1].get, timeout=120) for _ in workers]
    for worker in workers:
        await asyncio.to_thread(worker.join, 30)
    assert [worker.exitcode for worker in workers] == [0] * PROCESSES
    assert sorted(n for one in own for n in one) == list(range(EACH))
    assert len(await store.ledger.records()) == EACH
    assert await sound(store)
    await store.close()


# --- taken over -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", SHARED)
async def test_a_state_from_before_there_was_an_outbox_is_taken_over(
    engine: str, request: pytest.FixtureRequest, tmp_path: Path, schema: str
) -> None:
    where = request.getfixturevalue("postgres").url() if engine == "postgres" else str(tmp_path)
    older = Older(postgres=5, sqlite=5)
    await older.make(where, schema)
    store = await open_shared(where, schema)
    assert await store.outbox.begin(outbox_entry(), within=HOUR) == outbox_entry()
    await store.outbox.mention([mention()])
    assert list(await store.check()) == []
    await store.close()
