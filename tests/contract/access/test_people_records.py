"""The promises of the directory of people: one suite for every engine."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from knowledge.access.changes import BadDirectoryChange, Changing, DirectoryChange
from knowledge.access.directory import Directory
from knowledge.access.sql import REMEMBERED_S, SqlPeople
from knowledge.errors import DatabaseUnavailable
from knowledge.history.acts import storable
from knowledge.state.ports import StateStore
from mcp_server.gate.trust.reconcile import unaccounted
from tests.support.state.decisions import ODD, note, sound
from tests.support.state.ledgers import NOW, open_shared
from tests.support.state.stores import bodies

BY = Changing(ODD, NOW)


async def put(store: StateStore, *changes: DirectoryChange, act: str = "person.add") -> Directory:
    for change in changes:
        directory = await store.people.change(change, note=note(act))
    return directory


async def told(store: StateStore) -> list[str]:
    return [event.key for event in await store.events_after(0) if event.topic == "people"]


async def test_changes_are_returned_as_made_recorded_on_the_chain_and_announced(store: StateStore) -> None:
    assert await store.people.directory() == Directory()
    made = await put(
        store, BY.person_added("ann", ["Ünï@x"]), BY.group_added("all", ["ann"]), BY.rule_set("*", "日本/🗺", "none")
    )
    assert await store.people.directory() == made
    assert {one.by for one in made.entries} == {storable(ODD)}
    gone = await put(store, BY.group_removed("all", []), act="group.remove")
    assert (await store.people.directory()).groups == gone.groups == {}
    records = [(one["tool"], one["decision"], one["intent"]) for one in await bodies(store)]
    assert records == [
        ("person.add", "person ann", "Ünï@x"),
        ("person.add", "group @all", "ann"),
        ("person.add", "rule * in 日本/🗺/", "none"),
        ("group.remove", "group @all", "removed"),
    ]
    assert await told(store) == ["person ann", "group @all", "rule * in 日本/🗺/", "group @all"]
    assert await sound(store)


async def test_a_person_who_leaves_changes_several_entries_in_one_step(store: StateStore) -> None:
    await put(
        store,
        BY.person_added("ann", ["ann@x"]),
        BY.person_added("bob", []),
        BY.group_added("all", ["ann", "bob"]),
        BY.rule_set("ann", "hr", "read"),
        BY.rule_set("*", "hr", "none"),
        BY.reviewers_set("hr", ["ann", "bob"]),
    )
    await put(store, BY.person_removed("ann", []), act="person.remove")
    records = [one["decision"] for one in await bodies(store) if one["tool"] == "person.remove"]
    assert records == ["group @all", "person ann", "reviewers of hr/", "rule ann in hr/"]
    assert await unaccounted(store) == []


async def test_a_change_that_is_refused_or_changes_nothing_leaves_no_trace(store: StateStore) -> None:
    before = await put(store, BY.person_added("ann", ["ann@x"]))
    with pytest.raises(BadDirectoryChange):
        await put(store, BY.person_added("bob", ["ann@x"]))
    assert await put(store, BY.person_added("ann", ["ann@x"])) == before
    assert (len(await bodies(store)), len(await told(store))) == (1, 1)
    with pytest.raises(ValueError, match="time"):
        await store.people.change(BY.person_added("bob", []), note=note(at=NOW.replace(tzinfo=None)))


async def test_concurrent_changes_all_count(store: StateStore) -> None:
    await asyncio.gather(*(put(store, BY.person_added(f"p-{n}", [f"p-{n}@x"])) for n in range(8)))
    assert len((await store.people.directory()).people) == 8
    assert await sound(store)


async def test_another_process_sees_a_change_at_once_and_the_same_object_until_then(where: str, schema: str) -> None:
    one, other = await open_shared(where, schema), await open_shared(where, schema)
    try:
        await put(one, BY.person_added("ann", ["ann@x"]))
        known = await other.people.directory()
        assert known.person_of("ann@x") == "ann"
        await one.publish("doc", ["a.md", "b.md"])
        assert await other.people.directory() is known
        await put(one, BY.person_removed("ann", ["ann@x"]))
        assert (await other.people.directory()).person_of("ann@x") == ""
    finally:
        await one.close()
        await other.close()


async def test_what_was_edited_in_the_database_is_named(where: str, schema: str) -> None:
    store = await open_shared(where, schema)
    try:
        await put(store, BY.person_added("ann", ["ann@x"]), BY.rule_set("*", "hr", "none"), act="rule.set")
        assert await unaccounted(store) == []
        insert = "INSERT INTO forge.directory (kind, who, folder, names, changed_by, changed_at) VALUES (%s, %s, %s, %s, %s, %s)"
        rows = ("group", "all", "", '["ann"]', "eve", NOW)
        await store.tables.write(
            ("UPDATE forge.directory SET names = %s WHERE kind = %s", ('["eve@x"]', "person")),
            ("DELETE FROM forge.directory WHERE kind = %s", ("rule",)),
            (insert, rows),
        )
        await store.publish("people", ["by hand"])
        found = {one.what: one.reason for one in await unaccounted(store)}
        assert sorted(found) == ["the group @all", "the person ann", "the rule * in hr/"]
        assert "is gone" in found["the rule * in hr/"]
    finally:
        await store.close()


class Events:
    """The events of a database that can be unreachable."""

    def __init__(self, store: StateStore) -> None:
        self._store, self.away = store, False

    async def last_event(self) -> int:
        if self.away:
            raise DatabaseUnavailable("the test's database", "it is away")
        return await self._store.last_event()

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)


async def test_while_the_database_is_away_the_last_known_directory_counts_for_a_minute(where: str, schema: str) -> None:
    store, now = await open_shared(where, schema), 1000.0
    try:
        events = Events(store)
        people = SqlPeople(store.tables, events, lambda: now)  # type: ignore[arg-type]  # hands on what it does not have
        made = await people.change(BY.person_added("ann", ["ann@x"]), note=note())
        assert await people.directory() == made
        events.away = True
        now += REMEMBERED_S
        assert await people.directory() == made
        now += 1
        with pytest.raises(DatabaseUnavailable):
            await people.directory()
        events.away = False
        assert await people.directory() == made
    finally:
        await store.close()


async def test_after_many_events_or_lost_ones_the_directory_is_read_again(where: str, schema: str) -> None:
    one, other = await open_shared(where, schema), await open_shared(where, schema)
    try:
        known = await other.people.directory()
        await put(one, BY.person_added("ann", ["ann@x"]))
        await one.publish("doc", [f"{n}.md" for n in range(1_200)])
        assert (await other.people.directory()).person_of("ann@x") == "ann"
        assert known == Directory()
        later = NOW + timedelta(hours=1)
        await one.people.change(Changing("ada", later).group_added("all", []), note=note())
        await one.tables.write(("DELETE FROM forge.event", ()))
        await one.publish("doc", ["last.md"])
        assert (await other.people.directory()).groups == {"all": ()}
    finally:
        await one.close()
        await other.close()
