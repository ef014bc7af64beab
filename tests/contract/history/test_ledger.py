"""The promises of every ledger: one suite for all engines."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from knowledge.errors import UnknownIntent
from knowledge.history.acts import act_name
from knowledge.history.audit.chain import digest_of, fields_of, verify
from knowledge.history.ports import Actor, ActsWanted, FileChange, Intent, Ledger, RecordedAct, Settlement, Tracked
from knowledge.history.retention import KEPT, collect
from knowledge.merge.model import Dismissal
from knowledge.state.ports import StateStore
from tests.support.state.ledgers import ADA, DAY, MINUTE, NOW, change, contradiction, entry, intent, origin, revision

ODD = 'Pläne/日本 🗺/it\'s a "100%" _x_ \\ page [1]/' + "long" * 230 + ".md"


@pytest.fixture
def ledger(store: StateStore) -> Ledger:
    return store.ledger


async def write(ledger: Ledger, path: str, before: bytes | None, after: bytes | None, minute: int = 0) -> None:
    """Apply an act to one page."""
    made, at = change(path, before, after), NOW + minute * MINUTE
    await ledger.intend(intent(f"{path}@{minute}", made, at=at), [raw for raw in (before, after) if raw is not None])
    await ledger.commit(entry(made, at=at), intent_id=f"{path}@{minute}")


async def sound(ledger: Ledger) -> bool:
    return not verify(await ledger.records(limit=10_000), await ledger.chain_end())


# --- contents -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["a.md", ODD], ids=["plain", "odd"])
@pytest.mark.parametrize("raw", [b"", b"# A\r\n\x00\xff", os.urandom(3_000_000)], ids=["empty", "bytes", "large"])
async def test_a_seen_state_is_returned_byte_for_byte(ledger: Ledger, raw: bytes, path: str) -> None:
    assert await ledger.keep(path, raw, how="seen", at=NOW) == revision(raw)
    assert await ledger.content(path, revision(raw)) == raw


async def test_the_sizes_of_all_kept_states_are_known_by_revision(ledger: Ledger) -> None:
    assert await ledger.content_sizes() == {}
    await ledger.keep("a.md", b"one", how="seen", at=NOW)
    await write(ledger, "b.md", None, b"longer")
    await write(ledger, "b.md", b"longer", b"one", minute=1)
    assert await ledger.content_sizes() == {revision(b"one"): 3, revision(b"longer"): 6}


async def test_a_page_has_only_the_states_that_it_had_itself(ledger: Ledger) -> None:
    one = await ledger.keep("a.md", b"one", how="seen", at=NOW)
    assert await ledger.content("b.md", one) is None
    for asked in ("", "0" * 16, one[:8], one.upper(), one + "00", "not hexadecimal!"):
        assert await ledger.content("a.md", asked) is None


async def test_a_state_that_was_only_seen_is_no_history(ledger: Ledger) -> None:
    await ledger.keep("a.md", b"one", how="seen", at=NOW)
    assert list(await ledger.history("a.md", limit=9)) == []
    assert list(await ledger.recent("a.md", limit=9)) == []
    assert await ledger.tracked("a.md") is None
    assert list(await ledger.records()) == []


async def test_an_outside_edit_is_one_line_of_history(ledger: Ledger) -> None:
    await write(ledger, "a.md", None, b"one")
    for minute in (1, 2):
        await ledger.keep("a.md", b"two", how="outside", at=NOW + minute * MINUTE)
    newest, first = await ledger.history("a.md", limit=9)
    assert (newest.revision, newest.before, newest.how, newest.at) == (
        revision(b"two"),
        revision(b"one"),
        "outside",
        NOW + MINUTE,
    )
    assert (newest.principal, newest.tool, newest.source, newest.seq) == ("", "", "unknown", None)
    assert (first.how, first.seq) == ("written", 1)
    assert len(await ledger.records()) == 1
    await ledger.keep("a.md", b"one", how="outside", at=NOW + 3 * MINUTE)
    assert [line.how for line in await ledger.history("a.md", limit=9)] == ["outside", "outside", "written"]


async def test_a_removal_outside_is_one_line_of_history(ledger: Ledger) -> None:
    await ledger.removed("never.md", at=NOW)
    await write(ledger, "a.md", None, b"one")
    for minute in (1, 2):
        await ledger.removed("a.md", at=NOW + minute * MINUTE)
    gone, written = await ledger.history("a.md", limit=9)
    assert (gone.revision, gone.before, gone.how, gone.at) == (None, revision(b"one"), "outside", NOW + MINUTE)
    assert (gone.principal, gone.seq, written.seq) == ("", None, 1)
    assert list(await ledger.history("never.md", limit=9)) == []
    assert await ledger.content("a.md", revision(b"one")) == b"one"
    await ledger.keep("a.md", b"one", how="outside", at=NOW + 3 * MINUTE)
    back = (await ledger.history("a.md", limit=1))[0]
    assert (back.revision, back.before) == (revision(b"one"), None)


async def test_the_newest_line_of_every_page_is_listed(ledger: Ledger) -> None:
    assert await ledger.newest_lines() == []
    assert await ledger.begun() is None
    await ledger.keep("seen.md", b"one", how="seen", at=NOW - DAY)
    await write(ledger, "a.md", None, b"one", 0)
    await write(ledger, ODD, None, b"one", 1)
    await move(ledger, "a.md", "b.md", b"one", 2)
    await ledger.keep("b.md", b"two", how="outside", at=NOW + 3 * MINUTE)
    newest = {line.path: line.revision for line in await ledger.newest_lines()}
    assert newest == {"a.md": None, ODD: revision(b"one"), "b.md": revision(b"two")}
    assert await ledger.begun() == NOW - DAY


async def test_recent_states_are_listed_once_in_the_order_of_the_history(ledger: Ledger) -> None:
    await write(ledger, "a.md", None, b"one", 1)
    await write(ledger, "a.md", b"one", b"two", 2)
    await ledger.keep("a.md", b"three", how="outside", at=NOW + 3 * MINUTE)
    await write(ledger, "a.md", b"three", b"one", 4)
    await ledger.keep("a.md", b"two", how="seen", at=NOW + 9 * MINUTE)
    await write(ledger, "a.md", b"one", None, 10)
    found = [(kept.revision, kept.at, kept.how) for kept in await ledger.recent("a.md", limit=9)]
    assert found == [
        (revision(b"one"), NOW + 4 * MINUTE, "written"),
        (revision(b"three"), NOW + 3 * MINUTE, "outside"),
        (revision(b"two"), NOW + 2 * MINUTE, "written"),
    ]
    assert [kept.revision for kept in await ledger.recent("a.md", limit=2)] == [revision(b"one"), revision(b"three")]


# --- acts -----------------------------------------------------------------------------------------------------------


async def test_an_act_that_was_begun_is_known_with_all_its_parts_until_it_ends(ledger: Ledger) -> None:
    """The next process to start must be able to finish it."""
    begun = intent(
        "act-1",
        change(ODD, b"one", b"two", staged=".a.md.forge", lines_added=2, lines_removed=1),
        change("b.md", None, b"new", moved_from="c.md"),
        at=NOW + MINUTE,
        source="plane:PROJ-12",
        confidence=0.74,
        proposal="p-1",
        decision="d-1",
        intent="say how long it takes",
        outcome="partial",
        origins={ODD: (origin(), origin("other", corroborated_by=("wiki:a", "kb:b"), by=""))},
        contradictions=(contradiction(),),
        undoes=(3, 1),
    )
    earlier = intent("act-2", change("d.md", b"four", None), at=NOW)
    await ledger.intend(begun, [b"one", b"two", b"new"])
    await ledger.intend(earlier, [b"four"])
    assert list(await ledger.intents()) == [earlier, begun]
    for path, raw in ((ODD, b"one"), (ODD, b"two"), ("b.md", b"new"), ("d.md", b"four")):
        assert await ledger.content(path, revision(raw)) == raw
    await ledger.drop("act-2")
    await ledger.drop("never-begun")
    await ledger.commit(begun.entry, intent_id="act-1")
    assert list(await ledger.intents()) == []


async def test_an_act_begun_again_replaces_the_first_attempt(ledger: Ledger) -> None:
    await ledger.intend(intent("act", change("a.md", b"one", b"two")), [b"one", b"two"])
    again = intent("act", change("a.md", b"outside", b"merged"))
    await ledger.intend(again, [b"outside", b"merged"])
    assert list(await ledger.intents()) == [again]


async def test_an_act_names_all_that_is_to_be_kept_for_it(ledger: Ledger) -> None:
    with pytest.raises(ValueError, match="no change of the act names"):
        await ledger.intend(intent("act", change("a.md", b"one", b"two")), [b"one", b"stray"])
    with pytest.raises(ValueError, match="leaves behind"):
        await ledger.commit(entry(change("a.md", b"one", None), origins={"a.md": [origin()]}))
    assert list(await ledger.intents()) == []
    assert list(await ledger.records()) == []


async def test_an_act_is_recorded_in_all_places_atomically(store: StateStore) -> None:
    ledger = store.ledger
    made = change("guides/a.md", b"one", b"two", lines_added=3, lines_removed=1)
    await ledger.intend(intent("act", made), [b"one", b"two"])
    done = entry(
        made,
        source="plane:PROJ-12",
        confidence=0.74,
        proposal="p-1",
        intent="say how long it takes",
        outcome="partial",
        origins={"guides/a.md": [origin()]},
        contradictions=[contradiction()],
    )
    record = await ledger.commit(done, intent_id="act")
    assert [record] == list(await ledger.records())
    (line,) = await ledger.history("guides/a.md", limit=9)
    assert (line.path, line.revision, line.before, line.at) == ("guides/a.md", revision(b"two"), revision(b"one"), NOW)
    assert (line.how, line.principal, line.tool, line.source) == ("written", ADA.principal, ADA.tool, "plane:PROJ-12")
    assert (line.confidence, line.proposal, line.intent) == (0.74, "p-1", "say how long it takes")
    assert (line.lines_added, line.lines_removed, line.moved_from, line.seq) == (3, 1, None, record.seq)
    assert await ledger.tracked("guides/a.md") == Tracked(revision(b"two"), (origin(),))
    (flag,) = await ledger.flags(None, limit=9)
    assert (flag.contradiction, flag.at, flag.principal) == (contradiction(), NOW, ADA.principal)
    assert [(event.topic, event.key) for event in await store.events_after(0)] == [("doc", "guides/a.md")]


async def test_waiting_for_changes_ends_with_an_act(store: StateStore) -> None:
    """The port: change events come with the commit, so that other processes reload the page."""
    before = await store.last_event()
    woken = asyncio.create_task(store.changed(before))
    await write(store.ledger, "a.md", None, b"one")
    await asyncio.wait_for(woken, 60)


async def test_an_act_that_someone_else_has_ended_records_nothing(store: StateStore) -> None:
    ledger = store.ledger
    await ledger.intend(intent("act", change("a.md", None, b"one")), [b"one"])
    await ledger.commit(entry(change("a.md", None, b"one")), intent_id="act")
    done = entry(change("a.md", b"one", b"two"), origins={"a.md": [origin()]}, contradictions=[contradiction()])
    with pytest.raises(UnknownIntent, match="'act' is no longer in progress"):
        await ledger.commit(done, intent_id="act")
    assert len(await ledger.records()) == 1
    assert len(await ledger.history("a.md", limit=9)) == 1
    assert await ledger.tracked("a.md") is None
    assert list(await ledger.flags(None, limit=9)) == []
    assert len(await store.events_after(0)) == 1
    assert (await ledger.chain_end())[0] == 1


async def test_an_act_without_changes_is_on_record_and_in_no_history(store: StateStore) -> None:
    """A flag writes nothing; mere corroboration leaves the page unchanged and raises its confidence."""
    ledger = store.ledger
    await ledger.commit(entry(outcome="flagged", contradictions=[contradiction()]))
    same = change("a.md", b"one", b"one")
    await ledger.commit(entry(same, origins={"a.md": [origin(corroborated_by=("wiki:x",))]}))
    assert len(await ledger.records()) == 2
    assert list(await ledger.history("a.md", limit=9)) == []
    assert await ledger.tracked("a.md") == Tracked(revision(b"one"), (origin(corroborated_by=("wiki:x",)),))
    assert await store.last_event() == 0


async def test_the_origins_of_a_long_page_are_replaced_and_come_back_in_order(ledger: Ledger) -> None:
    many = tuple(origin(f"unit {n}", section=("A", str(n % 40)), source=f"zulip:a/{n % 7}") for n in range(5_000))
    await ledger.commit(entry(change("a.md", None, b"one"), origins={"a.md": [origin("old")]}))
    await ledger.commit(entry(change("a.md", b"one", b"two"), origins={"a.md": many}))
    assert await ledger.tracked("a.md") == Tracked(revision(b"two"), many)
    await ledger.commit(entry(change("a.md", b"two", b"three"), origins={"a.md": ()}))
    assert await ledger.tracked("a.md") == Tracked(revision(b"three"), ())


async def test_a_page_that_changes_without_new_origins_keeps_those_of_the_revision_they_belong_to(
    ledger: Ledger,
) -> None:
    await ledger.commit(entry(change("a.md", None, b"one"), origins={"a.md": [origin()]}))
    await write(ledger, "a.md", b"one", b"two")
    await write(ledger, "a.md", b"two", None, 1)
    assert await ledger.tracked("a.md") == Tracked(revision(b"one"), (origin(),))


# --- history ----------------------------------------------------------------------------------------------------------


async def test_history_is_paged_newest_first(ledger: Ledger) -> None:
    texts = [str(n).encode() for n in range(7)]
    for minute, (before, after) in enumerate(zip([None, *texts], texts, strict=False)):
        await write(ledger, "a.md", before, after, minute)
        await write(ledger, "b.md", before, after, minute)
    whole = await ledger.history("a.md", limit=99)
    assert [line.revision for line in whole] == [revision(raw) for raw in reversed(texts)]
    first = await ledger.history("a.md", limit=3)
    assert [*first, *await ledger.history("a.md", limit=99, before=first[-1].id)] == list(whole)
    assert list(await ledger.history("a.md", limit=9, before=whole[-1].id)) == []
    assert list(await ledger.history("", limit=9)) == []


async def test_the_lines_of_all_pages_are_listed_by_time_and_only_moves_if_asked(ledger: Ledger) -> None:
    await write(ledger, "a.md", None, b"one", 0)
    await ledger.keep("b.md", b"saved", how="outside", at=NOW + MINUTE)
    await move(ledger, "a.md", "c.md", b"one", 2)
    await write(ledger, "b.md", b"saved", b"two", 3)
    whole = await ledger.lines_after(0, limit=99)
    assert [line.path for line in whole] == ["a.md", "b.md", "a.md", "c.md", "b.md"]
    assert list(await ledger.lines_after(whole[1].id, limit=2)) == list(whole[2:4])
    assert list(await ledger.lines_after(0, limit=99, since=NOW + 2 * MINUTE)) == list(whole[2:])
    assert [line.path for line in await ledger.lines_after(0, limit=99, moves=True)] == ["c.md"]
    assert list(await ledger.lines_after(whole[3].id, limit=99, moves=True)) == []


async def test_a_record_names_the_acts_that_an_act_takes_back(ledger: Ledger) -> None:
    taken = await ledger.commit(entry(change("a.md", None, b"one"), undoes=(2, 1)))
    assert json.loads(taken.body)["undoes"] == [2, 1]
    plain = await ledger.commit(entry(change("a.md", b"one", b"two")))
    assert "undoes" not in json.loads(plain.body)


def moved(old: str, new: str, raw: bytes, after: bytes | None = None) -> tuple[FileChange, ...]:
    return change(old, raw, None), change(new, None, raw if after is None else after, moved_from=old)


async def move(ledger: Ledger, old: str, new: str, raw: bytes, minute: int) -> None:
    at, made = NOW + minute * MINUTE, moved(old, new, raw)
    await ledger.intend(intent(f"move {minute}", *made, at=at), [raw])
    await ledger.commit(entry(*made, at=at), intent_id=f"move {minute}")


async def test_history_and_contents_follow_a_page_back_through_its_moves(store: StateStore) -> None:
    ledger = store.ledger
    await ledger.keep("a.md", b"zero", how="seen", at=NOW - MINUTE)
    await write(ledger, "a.md", None, b"one", 0)
    await move(ledger, "a.md", "b.md", b"one", 1)
    await write(ledger, "b.md", b"one", b"two", 2)
    await move(ledger, "b.md", "deep/c.md", b"two", 3)
    await write(ledger, "a.md", None, b"another page", 4)
    found = [(line.path, line.revision, line.moved_from) for line in await ledger.history("deep/c.md", limit=9)]
    assert found == [
        ("deep/c.md", revision(b"two"), "b.md"),
        ("b.md", revision(b"two"), None),
        ("b.md", revision(b"one"), "a.md"),
        ("a.md", revision(b"one"), None),
    ]
    newest, second = await ledger.history("deep/c.md", limit=2)
    assert [line.id for line in await ledger.history("deep/c.md", limit=1, before=newest.id)] == [second.id]
    for raw in (b"zero", b"one", b"two"):
        assert await ledger.content("deep/c.md", revision(raw)) == raw
    assert await ledger.content("deep/c.md", revision(b"another page")) is None
    assert [kept.revision for kept in await ledger.recent("deep/c.md", limit=9)] == [revision(b"two"), revision(b"one")]
    assert [event.key for event in await store.events_after(0)][1:3] == ["a.md", "b.md"]


async def test_a_page_that_is_moved_back_and_forth_has_each_line_once(ledger: Ledger) -> None:
    await write(ledger, "a.md", None, b"one", 0)
    for minute in range(1, 9):
        old, new = ("a.md", "b.md") if minute % 2 else ("b.md", "a.md")
        await move(ledger, old, new, b"one", minute)
    lines = await ledger.history("a.md", limit=99)
    assert len({line.id for line in lines}) == len(lines)
    assert [line.id for line in lines] == sorted((line.id for line in lines), reverse=True)
    assert lines[-1].before is None
    assert {line.path for line in lines} == {"a.md", "b.md"}


# --- timeline ---------------------------------------------------------------------------------------------------------


def paths_of(acts: Sequence[RecordedAct]) -> list[list[str]]:
    return [[line.path for line in act.lines] for act in acts]


async def test_a_timeline_has_the_acts_on_all_pages_newest_first(ledger: Ledger) -> None:
    await write(ledger, "a.md", None, b"one", 0)
    await move(ledger, "a.md", "guides/b.md", b"one", 2)
    await ledger.keep("c.md", b"by an editor", how="outside", at=NOW + MINUTE)
    await write(ledger, "guides/d.md", None, b"three", 3)
    acts = await ledger.timeline(ActsWanted(), limit=9)
    assert paths_of(acts) == [["guides/d.md"], ["a.md", "guides/b.md"], ["c.md"], ["a.md"]]
    assert [act.outcome for act in acts] == ["done", "done", "", "done"]
    for size in (1, 2, 3):
        pages: list[RecordedAct] = []
        after: tuple[datetime, int] | None = None
        while page := await ledger.timeline(ActsWanted(), limit=size, after=after):
            pages += page
            after = page[-1].place
        assert pages == list(acts)


async def test_acts_of_the_same_time_are_paged_by_their_ids(ledger: Ledger) -> None:
    for number in range(5):
        await ledger.commit(entry(change(f"{number}.md", None, b"one"), change(f"{number}-too.md", None, b"two")))
    first = await ledger.timeline(ActsWanted(), limit=2)
    rest = await ledger.timeline(ActsWanted(), limit=9, after=first[-1].place)
    assert [act.lines[0].path for act in (*first, *rest)] == ["4.md", "3.md", "2.md", "1.md", "0.md"]


async def test_an_act_on_several_pages_is_one_and_is_found_by_its_name(ledger: Ledger) -> None:
    rewritten = change("index.md", b"[a](a.md)", b"[b](b.md)")
    await ledger.commit(entry(*moved("a.md", "b.md", b"one"), rewritten, intent="rename", decision="d"))
    (act,) = await ledger.timeline(ActsWanted(), limit=9)
    assert [(line.path, line.moved_from) for line in act.lines] == [
        ("a.md", None),
        ("b.md", "a.md"),
        ("index.md", None),
    ]
    assert {act_name(line) for line in act.lines} == {"1"}
    assert (act.decision, await ledger.act("1")) == ("d", act)
    await ledger.keep("b.md", b"two", how="outside", at=NOW + MINUTE)
    outside = (await ledger.timeline(ActsWanted(), limit=1))[0]
    assert await ledger.act(act_name(outside.lines[0])) == outside
    for name in ("2", "0", "e1", "e", "", "-1", "01", "e99", "²", "9" * 19, "e" + "9" * 40):
        assert await ledger.act(name) is None


async def test_a_pages_timeline_has_the_acts_on_it_at_its_earlier_paths(ledger: Ledger) -> None:
    await write(ledger, "a.md", None, b"one", 0)
    await move(ledger, "a.md", "b.md", b"one", 1)
    await write(ledger, "a.md", None, b"another page", 2)
    assert paths_of(await ledger.timeline(ActsWanted(page="b.md"), limit=9)) == [["a.md", "b.md"], ["a.md"]]
    assert paths_of(await ledger.timeline(ActsWanted(page="a.md"), limit=1)) == [["a.md"]]
    assert paths_of(await ledger.timeline(ActsWanted(page="c.md"), limit=9)) == []


async def test_a_folders_timeline_has_what_came_left_and_changed_there(ledger: Ledger) -> None:
    await write(ledger, "guides/a.md", None, b"one", 0)
    await write(ledger, "guides-too/a.md", None, b"one", 1)
    await move(ledger, "guides/a.md", "b.md", b"one", 2)
    await move(ledger, "guides-too/a.md", "guides/deep/c.md", b"one", 3)
    await ledger.keep(f"guides/{ODD}", b"one", how="outside", at=NOW + 4 * MINUTE)
    assert paths_of(await ledger.timeline(ActsWanted(folder="guides"), limit=9)) == [
        [f"guides/{ODD}"],
        ["guides-too/a.md", "guides/deep/c.md"],
        ["guides/a.md", "b.md"],
        ["guides/a.md"],
    ]
    assert len(await ledger.timeline(ActsWanted(folder="guides/deep"), limit=9)) == 1
    assert paths_of(await ledger.timeline(ActsWanted(folder="guides%"), limit=9)) == []


@pytest.mark.parametrize(
    ("who", "pages"),
    [
        ("ada@desktop", ["host.md"]),
        ("desktop", ["host.md"]),
        ("ana", ["page.md", "person.md", "approved.md"]),
        ("page", ["page.md"]),
        ("ada", []),
        ("", ["editor.md"]),
        ("a_a@desktop", []),
        ('"} (x', []),
        ("an\x00a\ud800", []),
    ],
)
async def test_a_timeline_is_filtered_by_host_and_by_person(ledger: Ledger, who: str, pages: list[str]) -> None:
    await ledger.commit(entry(change("host.md", None, b"one"), intent='"decision":"approved by ana (page)"'))
    await ledger.commit(
        entry(
            change("approved.md", None, b"one"),
            actor=Actor("bo@laptop", "kb_merge", ""),
            decision="approved by ana (page, signed)",
            at=NOW + MINUTE,
        )
    )
    person = Actor("ana (terminal)", "edit", "")
    await ledger.commit(entry(change("person.md", None, b"one"), actor=person, at=NOW + 2 * MINUTE))
    person = Actor("ana@page", "undo", "")
    await ledger.commit(entry(change("page.md", None, b"one"), actor=person, at=NOW + 3 * MINUTE))
    await ledger.keep("editor.md", b"one", how="outside", at=NOW + 4 * MINUTE)
    acts = await ledger.timeline(ActsWanted(who=who), limit=9)
    assert [act.lines[0].path for act in acts] == pages


async def test_a_timeline_is_cut_at_times(ledger: Ledger) -> None:
    for minute in range(5):
        await write(ledger, f"{minute}.md", None, b"one", minute)
    wanted = ActsWanted(since=NOW + MINUTE, until=NOW + 3 * MINUTE)
    assert paths_of(await ledger.timeline(wanted, limit=9)) == [["2.md"], ["1.md"]]
    assert paths_of(await ledger.timeline(ActsWanted(since=NOW + 3 * MINUTE), limit=1)) == [["4.md"]]
    with pytest.raises(ValueError, match="zone"):
        await ledger.timeline(ActsWanted(since=NOW.replace(tzinfo=None)), limit=9)


async def test_origins_move_with_their_page_also_when_two_change_places(ledger: Ledger) -> None:
    for path in ("a.md", "b.md"):
        await ledger.commit(entry(change(path, None, path.encode()), origins={path: [origin(path)]}))
    swap = (
        change("a.md", b"a.md", b"b.md", moved_from="b.md"),
        change("b.md", b"b.md", b"a.md", moved_from="a.md"),
    )
    await ledger.commit(entry(*swap))
    assert await ledger.tracked("a.md") == Tracked(revision(b"b.md"), (origin("b.md"),))
    assert await ledger.tracked("b.md") == Tracked(revision(b"a.md"), (origin("a.md"),))
    await ledger.commit(entry(*moved("a.md", "c.md", b"b.md"), origins={"c.md": [origin("new")]}))
    assert await ledger.tracked("a.md") is None
    assert await ledger.tracked("c.md") == Tracked(revision(b"b.md"), (origin("new"),))


async def test_pages_with_knowledge_from_a_task_are_found_where_they_are_now(ledger: Ledger) -> None:
    task, thread = "plane:PROJ-12", "zulip:design/merge/4711"

    async def told(path: str, source: str, minute: int, before: bytes | None = None) -> None:
        made = change(path, before, f"{path} {minute}".encode())
        await ledger.commit(entry(made, at=NOW + minute * MINUTE, source=source))

    await told("stays.md", task, 0)
    await told("other.md", "code:src/a.py", 1)
    await told("thread.md", thread, 2)
    await told("moves.md", task, 3)
    await told("swapped.md", task, 4)
    await told("both.md", task, 5)
    await told("both.md", thread, 6, b"both.md 5")
    await ledger.keep("outside.md", b"somebody's", how="outside", at=NOW)
    await move(ledger, "moves.md", "there.md", b"moves.md 3", 7)
    await move(ledger, "there.md", "deep/there.md", b"moves.md 3", 8)
    await told("moves.md", "user", 9)  # another page where it was before
    swap = (
        change("swapped.md", b"swapped.md 4", b"other.md 1", moved_from="other.md"),
        change("other.md", b"other.md 1", b"swapped.md 4", moved_from="swapped.md"),
    )
    await ledger.commit(entry(*swap, at=NOW + 10 * MINUTE))
    await move(ledger, "stays.md", "away.md", b"stays.md 0", 11)
    await move(ledger, "away.md", "stays.md", b"stays.md 0", 12)
    assert await ledger.told_by([task], limit=9) == ["both.md", "other.md", "deep/there.md", "stays.md"]
    assert await ledger.told_by([task], limit=2) == ["both.md", "other.md"]
    assert await ledger.told_by([task, thread], limit=2) == ["both.md", "other.md"]
    assert await ledger.told_by([thread], limit=9) == ["both.md", "thread.md"]
    assert await ledger.told_by(["plane:PROJ-1", "code:src/a.py", "user", "plane:%"], limit=9) == []
    assert await ledger.told_by([], limit=9) == []


# --- contradictions -----------------------------------------------------------------------------------------------------


async def test_open_contradictions_are_listed_newest_first_by_place(ledger: Ledger) -> None:
    found = [contradiction("guides/a.md", "notes/x.md", n) for n in range(3)]
    elsewhere = contradiction("guides2/a.md", "b%_.md", 9)
    await ledger.commit(entry(contradictions=found))
    await ledger.commit(entry(contradictions=[elsewhere], at=NOW + MINUTE))

    async def listed(path: str | None, after: tuple[int, int] | None = None) -> list[str]:
        return [flag.contradiction.reason for flag in await ledger.flags(path, limit=9, after=after)]

    everything = [c.reason for c in (elsewhere, *reversed(found))]
    assert await listed(None) == await listed("") == everything
    assert await listed("guides") == await listed("guides/a.md") == await listed("notes") == everything[1:]
    assert await listed("guides2") == await listed("b%_.md") == everything[:1]
    assert await listed("guide") == await listed("guides/a") == await listed("b%x.md") == []
    first = await ledger.flags(None, limit=2)
    assert await listed(None, after=(first[-1].rank, first[-1].id)) == everything[2:]


async def test_a_settled_contradiction_is_not_listed_and_may_come_again(ledger: Ledger) -> None:
    await ledger.commit(entry(contradictions=[contradiction(), contradiction()]))
    await ledger.commit(entry(contradictions=[contradiction()], actor=Actor("bob", "kb_merge", "")))
    (flag,) = await ledger.flags(None, limit=9)
    assert flag.principal == ADA.principal
    await ledger.settle([flag.id, 4711], Settlement("changed", "", NOW + MINUTE))
    await ledger.settle([], Settlement("changed", "", NOW + MINUTE))
    assert list(await ledger.flags(None, limit=9)) == []
    await ledger.commit(entry(contradictions=[contradiction()], at=NOW + DAY))
    (again,) = await ledger.flags(None, limit=9)
    assert again.id > flag.id


async def test_a_settlement_is_on_record_and_a_persons_own_replaces_a_noticed_change(ledger: Ledger) -> None:
    two = [contradiction("a.md", "b.md"), contradiction("docs/c.md", "docs/d.md")]
    await ledger.commit(entry(contradictions=two))
    flags = {flag.contradiction.new.path: flag for flag in await ledger.flags(None, limit=9)}
    b, d = flags["b.md"], flags["docs/d.md"]
    noticed = Settlement("changed", "", NOW + MINUTE)
    kept = Settlement("second", "ana (page)", NOW + 2 * MINUTE, "keeps “60”")
    await ledger.settle([b.id, d.id], noticed)
    await ledger.settle([b.id], kept)
    await ledger.settle([b.id], replace(kept, how="first", by="bob"))
    await ledger.settle([b.id], replace(noticed, at=NOW + DAY))
    of_b, of_d = replace(b, settled_at=kept.at, settlement=kept), replace(d, settled_at=noticed.at, settlement=noticed)
    assert list(await ledger.settled(None, limit=9)) == [of_b, of_d]
    assert list(await ledger.settled("docs", limit=9)) == [of_d]
    assert list(await ledger.settled(None, limit=1)) == [await ledger.flag(b.id)] == [of_b]
    assert await ledger.dismissals("b.md") == {}


async def test_a_settled_contradiction_is_opened_again_unless_it_was_recorded_again(ledger: Ledger) -> None:
    one, again = contradiction("a.md", "b.md"), entry(outcome="reopened", at=NOW + DAY)
    await ledger.commit(entry(contradictions=[one]))
    (flag,) = await ledger.flags(None, limit=9)
    assert not await ledger.revive(flag.id, again), "it is open"
    await ledger.settle([flag.id], Settlement("first", "ana", NOW + MINUTE))
    # It follows its page while it is settled.
    moved = replace(change("moved.md", None, b"one"), moved_from="a.md")
    await ledger.commit(entry(change("a.md", b"one", None), moved))
    assert await ledger.revive(flag.id, again)
    assert not await ledger.revive(4711, again)
    (back,) = await ledger.flags("moved.md", limit=9)
    assert (back.id, back.settled_at, back.settlement) == (flag.id, None, None)
    assert [fields_of(record)["outcome"] for record in await ledger.records()] == ["done", "done", "reopened"]
    await ledger.settle([flag.id], Settlement("first", "ana", NOW + MINUTE))
    await ledger.commit(entry(contradictions=[replace(one, existing=replace(one.existing, path="moved.md"))]))
    assert not await ledger.revive(flag.id, again), "it has a new number"
    assert len(await ledger.flags(None, limit=9)) == 1


async def test_the_surest_contradiction_of_the_best_believed_statements_comes_first(ledger: Ledger) -> None:
    sure, believed = contradiction(minutes=1), contradiction(minutes=2)
    sure = replace(sure, sure=0.9)
    believed = replace(
        believed,
        sure=0.8,
        existing=replace(believed.existing, confidence=0.9),
        new=replace(believed.new, confidence=0.9),
    )
    guess = replace(contradiction(minutes=3), sure=0.1)
    await ledger.commit(entry(contradictions=[guess, sure, believed]))
    flags = await ledger.flags(None, limit=9)
    assert [flag.contradiction for flag in flags] == [believed, sure, guess]
    assert [flag.rank for flag in flags] == [round(1000 * one.confidence) for one in (believed, sure, guess)]
    assert list(await ledger.flags(None, limit=9, after=(flags[0].rank, flags[0].id))) == list(flags[1:])


async def test_a_dismissed_contradiction_is_not_raised_again_until_it_is_reopened(ledger: Ledger) -> None:
    one = contradiction("a.md", "b.md")
    await ledger.commit(entry(contradictions=[one]))
    (flag,) = await ledger.flags(None, limit=9)
    word = Dismissal("both", "ana", NOW + MINUTE, "two products")
    act = entry(actor=Actor("ana", "contradiction.dismiss", ""), outcome="dismissed", at=NOW + MINUTE)
    assert await ledger.dismiss(flag.id, word, act)
    assert not await ledger.dismiss(flag.id, word, act), "it is dismissed already"
    assert not await ledger.dismiss(4711, word, act)
    assert [fields_of(record)["outcome"] for record in await ledger.records()] == ["done", "dismissed"]
    assert await ledger.flags(None, limit=9) == []
    (kept,) = await ledger.flags("b.md", limit=9, dismissed=True)
    assert kept == await ledger.flag(flag.id) == replace(flag, dismissal=word)
    # In the other order, with other line ends, by somebody else, from another source: it is still the same pair.
    swapped = replace(
        one, existing=replace(one.new, source="wiki:x"), new=replace(one.existing, text=f" {one.existing.text}\n")
    )
    await ledger.commit(entry(contradictions=[one, swapped], actor=Actor("bob", "kb_merge", "")))
    await ledger.settle([flag.id], Settlement("changed", "", NOW + DAY))
    assert await ledger.flags(None, limit=9) == []
    assert len(await ledger.flags(None, limit=9, dismissed=True)) == 1
    # The same two statements on another page are another contradiction.
    await ledger.commit(entry(contradictions=[replace(one, new=replace(one.new, path="c.md"))]))
    assert [found.contradiction.new.path for found in await ledger.flags(None, limit=9)] == ["c.md"]
    assert await ledger.reopen(flag.id, replace(act, outcome="reopened"))
    assert not await ledger.reopen(flag.id, replace(act, outcome="reopened"))
    assert flag.id in [found.id for found in await ledger.flags("b.md", limit=9)]
    assert await ledger.flags(None, limit=9, dismissed=True) == []


async def test_a_page_s_dismissals_are_those_between_its_own_statements(ledger: Ledger) -> None:
    own, foreign = contradiction("a.md", "a.md", 1), contradiction("a.md", "b.md", 2)
    await ledger.commit(entry(contradictions=[own, foreign]))
    word = Dismissal("existing", "ana", NOW, "checked with the vendor")
    for flag in await ledger.flags(None, limit=9):
        assert await ledger.dismiss(flag.id, word, entry(outcome="dismissed"))
    assert await ledger.dismissals("a.md") == {own.pair: word}
    assert await ledger.dismissals("b.md") == {}


async def test_contradictions_follow_pages_that_move(ledger: Ledger) -> None:
    kept, open_ = contradiction("a.md", "b.md", 1), contradiction("b.md", "c.md", 2)
    await ledger.commit(entry(contradictions=[kept, open_]))
    flags = {flag.contradiction.pair: flag for flag in await ledger.flags(None, limit=9)}
    word = Dismissal("both", "ana", NOW, "two regions")
    assert await ledger.dismiss(flags[kept.pair].id, word, entry(outcome="dismissed"))
    # Two pages change places, and the third one moves away.
    swapped = (
        change("a.md", b"a", b"b", moved_from="b.md"),
        change("b.md", b"b", b"a", moved_from="a.md"),
        change("c.md", b"c", None),
        change("d/c.md", None, b"c", moved_from="c.md"),
    )
    await ledger.commit(entry(*swapped))
    (found,) = await ledger.flags(None, limit=9)
    assert (found.contradiction.existing.path, found.contradiction.new.path) == ("a.md", "d/c.md")
    await ledger.commit(entry(contradictions=[contradiction("b.md", "a.md", 1), contradiction("a.md", "d/c.md", 2)]))
    assert list(await ledger.flags(None, limit=9)) == [found]
    assert len(await ledger.flags("b.md", limit=9, dismissed=True)) == 1
    # Another page at a former path has its own contradictions.
    await ledger.commit(entry(contradictions=[contradiction("b.md", "c.md", 2)]))
    assert {flag.contradiction.new.path for flag in await ledger.flags(None, limit=9)} == {"d/c.md", "c.md"}


# --- audit --------------------------------------------------------------------------------------------------------------


async def test_each_act_is_one_link_of_a_chain(ledger: Ledger) -> None:
    assert await ledger.chain_end() == (0, b"")
    for n in range(5):
        await write(ledger, "a.md", str(n - 1).encode() if n else None, str(n).encode(), n)
    records = await ledger.records()
    assert [record.seq for record in records] == [1, 2, 3, 4, 5]
    previous = b""
    for record in records:
        assert record.digest == digest_of(previous, record.body)
        previous = record.digest
    assert await ledger.chain_end() == (5, previous)
    assert await sound(ledger)
    assert list(await ledger.records(after=1, limit=2)) == list(records)[1:3]


async def test_a_record_says_who_did_what_and_nothing_of_pages_texts(ledger: Ledger) -> None:
    made = (change(ODD, b"# secret one", b"# secret two"), change("b.md", None, b"x", moved_from="c.md"))
    done = entry(
        *made,
        source="plane:PROJ-12",
        confidence=0.74,
        proposal="p-1",
        decision="d-1",
        intent="why",
        origins={ODD: [origin("secret")]},
        contradictions=[contradiction()],
    )
    record = await ledger.commit(done)
    assert json.loads(record.body) == {
        "seq": 1,
        "at": "2026-03-01T12:00:00.123456+00:00",
        "principal": "ada@desktop",
        "tool": "kb_merge",
        "arguments_hash": "ab" * 32,
        "changes": [
            {
                "path": ODD,
                "before": revision(b"# secret one"),
                "after": revision(b"# secret two"),
                "moved_from": None,
            },
            {"path": "b.md", "before": None, "after": revision(b"x"), "moved_from": "c.md"},
        ],
        "source": "plane:PROJ-12",
        "confidence": 0.74,
        "proposal": "p-1",
        "decision": "d-1",
        "intent": "why",
        "outcome": "done",
    }
    assert record.body == json.dumps(json.loads(record.body), sort_keys=True, separators=(",", ":"))
    assert "secret" not in record.body


async def test_a_models_text_is_recorded_whatever_characters_it_has(ledger: Ledger) -> None:
    """By then the files are written: the act must not be lost because a database refuses a character."""
    odd = "a\x00b \ud800 \U0001f5fa \n 'x'"
    done = entry(
        change("a.md", None, b"one"),
        actor=Actor(odd, odd, ""),
        source=odd,
        intent=odd,
        proposal=odd,
        origins={"a.md": (origin(by=odd, source=odd),)},
        contradictions=(contradiction(), replace(contradiction(minutes=7), subject=odd)),
    )
    await ledger.intend(Intent("odd", NOW, done), [b"one"])
    assert list(await ledger.intents()) == [Intent("odd", NOW, done)]
    record = await ledger.commit(done, intent_id="odd")
    assert json.loads(record.body)["intent"] == odd
    (line,) = await ledger.history("a.md", limit=9)
    assert line.intent == line.tool == "a\ufffdb ? \U0001f5fa \n 'x'"
    assert await ledger.tracked("a.md") == Tracked(revision(b"one"), (origin(by=odd, source=odd),))
    assert [flag.contradiction.subject for flag in await ledger.flags(None, limit=9)] == [odd, "it takes"]
    assert await sound(ledger)


async def test_an_intent_that_looks_like_the_form_of_a_record_changes_nothing(ledger: Ledger) -> None:
    record = await ledger.commit(entry(intent=',"seq":0,', proposal='","seq":0,"source":"'))
    assert json.loads(record.body)["seq"] == 1
    assert await sound(ledger)


# --- keeping and forgetting -------------------------------------------------------------------------------------------


async def test_states_that_were_only_seen_are_forgotten_after_a_month_and_nothing_else(ledger: Ledger) -> None:
    """A policy that never drops a base younger than 30 days. Nor what a history or an act in progress needs."""
    old = NOW - KEPT - MINUTE
    for path, raw, at in (
        ("a.md", b"old", old),
        ("b.md", b"old", old),
        ("a.md", b"young", NOW - timedelta(days=30)),
        ("a.md", b"seen again", old),
        ("a.md", b"before", old),
        ("a.md", b"under way", old),
    ):
        await ledger.keep(path, raw, how="seen", at=at)
    await ledger.keep("a.md", b"seen again", how="seen", at=NOW)
    await ledger.keep("a.md", b"seen again", how="seen", at=old)
    await ledger.keep("b.md", b"outside", how="outside", at=old)
    made = change("a.md", b"before", b"after")
    await ledger.intend(intent("one", made, at=old), [b"before", b"after"])
    await ledger.commit(entry(made, at=old), intent_id="one")
    await ledger.intend(intent("two", change("a.md", b"under way", b"next"), at=old), [b"under way", b"next"])
    assert await collect(ledger, NOW) == 2
    assert await collect(ledger, NOW) == 0
    for path in ("a.md", "b.md"):
        assert await ledger.content(path, revision(b"old")) is None
    for raw in (b"young", b"seen again", b"before", b"after", b"under way", b"next"):
        assert await ledger.content("a.md", revision(raw)) == raw
    assert await ledger.content("b.md", revision(b"outside")) == b"outside"
    await ledger.drop("two")
    assert await collect(ledger, NOW) == 2


async def test_bytes_shared_by_two_pages_stay_as_long_as_one_needs_them(ledger: Ledger) -> None:
    await ledger.keep("a.md", b"same", how="seen", at=NOW - 40 * DAY)
    await ledger.keep("b.md", b"same", how="seen", at=NOW)
    assert await collect(ledger, NOW) == 1
    assert await ledger.content("a.md", revision(b"same")) is None
    assert await ledger.content("b.md", revision(b"same")) == b"same"
    await ledger.keep("a.md", b"same", how="seen", at=NOW)
    assert await ledger.content("a.md", revision(b"same")) == b"same"


async def test_forgetting_takes_the_oldest_first_in_limited_batches(ledger: Ledger) -> None:
    for n in range(5):
        await ledger.keep("a.md", str(n).encode(), how="seen", at=NOW - (40 + n) * DAY)
    assert await ledger.forget(seen_before=NOW, limit=2) == 2
    kept = [n for n in range(5) if await ledger.content("a.md", revision(str(n).encode()))]
    assert kept == [0, 1, 2]
    assert await collect(ledger, NOW) == 3


async def test_a_time_without_its_zone_is_a_mistake_of_the_caller(ledger: Ledger) -> None:
    naive = NOW.replace(tzinfo=None)
    for asked in (
        ledger.keep("a.md", b"one", how="seen", at=naive),
        ledger.intend(intent("act", at=naive), []),
        ledger.commit(entry(at=naive)),
        ledger.commit(entry(change("a.md", None, b"one"), origins={"a.md": [origin(observed_at=naive)]})),
        ledger.settle([1], Settlement("changed", "", naive)),
        ledger.forget(seen_before=naive),
    ):
        with pytest.raises(ValueError, match="without its zone"):
            await asked
    assert list(await ledger.records()) == []
