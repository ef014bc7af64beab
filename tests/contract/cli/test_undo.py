"""`knowledge-forge undo` as a person uses it: a real terminal, and pages that hosts changed through a real client."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from knowledge.history.audit.chain import fields_of, verify
from knowledge.state.ports import StateStore
from mcp_server.gate.trust.reconcile import unaccounted
from tests.support.hosts.persons import ME, Person
from tests.support.hosts.writers import Writer, writing
from tests.support.knowledge_bases.folders import write

pytestmark = pytest.mark.skipif(os.name == "nt", reason="there are no pseudo-terminals")

TEA = "# Tea\n\nGreen tea takes two minutes.\n\n## Cups\n\nThere are six cups.\n"


@pytest.fixture
def ann(tmp_path: Path) -> Person:
    write(tmp_path / "kb", {"tea.md": TEA, "home.md": "# Home\n\n[Tea](tea.md)\n"})
    return Person(tmp_path)


def hosted(ann: Person, work: Callable[[Writer], Awaitable[object]], host: str = "wild") -> None:
    """Let a host of level 4 work on the pages."""

    async def connected() -> None:
        async with writing(ann.settings, host=host, level=4) as writer:
            await work(writer)

    asyncio.run(connected())


async def edit(host: Writer, old: str, new: str) -> None:
    base = await host.revision("tea.md")
    answer = await host.merge("tea.md", host.text("tea.md").replace(old, new), base_revision=base, section="*")
    assert answer["status"] == "done"


async def hour(host: Writer) -> None:
    """Do what a host does in an hour."""
    await edit(host, "two minutes", "five minutes")
    await host.merge("new.md", "# New\n\nA page.\n")
    await host.call("kb_move", path="tea.md", to="drinks/tea.md")


def pages(ann: Person) -> dict[str, str]:
    return {str(file.relative_to(ann.kb)): file.read_text() for file in sorted(ann.kb.rglob("*.md"))}


def newest(ann: Person) -> dict[str, Any]:
    """Return the newest audit record."""

    async def last(state: StateStore) -> dict[str, Any]:
        seq, _ = await state.ledger.chain_end()
        return dict(fields_of((await state.ledger.records(after=seq - 1))[0]) or {})

    return ann.asked(last)


def test_a_change_is_shown_confirmed_undone_recorded_for_the_person_and_undone_again(ann: Person) -> None:
    hosted(ann, lambda host: edit(host, "two minutes", "five minutes"))
    (ann.kb / "tea.md").write_text(pages(ann)["tea.md"].replace("six", "no"))
    assert "no change that can be taken back" in ann.here("undo", "home.md", "--dry-run").stderr
    listed = json.loads(ann.here("undo", "tea.md", "--dry-run", "--json").stdout)
    assert (listed["dry_run"], listed["changes"][0]["by"], listed["files"][0]["path"]) == (True, "", "tea.md")
    wrong = ann.asked(lambda state: state.ledger.history("tea.md", limit=2))[1]
    with ann.at("undo", "tea", "--change", str(wrong.seq)) as screen:
        screen.until(
            f"kb_merge by {ME}@wild", "-Green tea takes five", "+Green tea takes two", "Undo 1 change on 1 page?"
        )
        screen.type("y\n")
        screen.until("1 change undone on 1 page; to take that back: knowledge-forge undo tea.md --change")
        assert screen.left() == 0
    assert pages(ann)["tea.md"] == TEA.replace("six", "no")
    record = newest(ann)
    assert (record["principal"], record["tool"], record["undoes"]) == (f"{ME}@terminal", "undo", [wrong.seq])
    assert record["decision"] == f"approved by {ME} (terminal, by word)"
    with ann.at("undo", "tea.md", "--yes") as screen:
        assert screen.left() == 0
    assert pages(ann)["tea.md"] == TEA.replace("six", "no").replace("two", "five")


def test_without_a_terminal_or_a_yes_nothing_is_undone(ann: Person) -> None:
    hosted(ann, lambda host: edit(host, "two minutes", "five minutes"))
    before = pages(ann)
    refused = ann.here("undo", "tea.md", "--yes")
    assert refused.returncode == 1
    assert "only a person at a terminal" in refused.stderr
    with ann.at("undo", "tea.md") as screen:
        screen.until("Undo 1 change")
        screen.type("\n")
        assert screen.left() == 1
    rehearsed = ann.here("undo", "tea.md", "--dry-run")
    assert (rehearsed.returncode, pages(ann)) == (0, before)
    assert "+Green tea takes two minutes." in rehearsed.stdout


def test_a_conflict_is_shown_with_both_sides_and_the_earlier_one_can_be_taken(ann: Person) -> None:
    async def twice(host: Writer) -> None:
        await edit(host, "two minutes", "five minutes")
        await edit(host, "five minutes", "four minutes")

    hosted(ann, twice)
    wrong = ann.asked(lambda state: state.ledger.history("tea.md", limit=2))[1].seq
    shown = ann.here("undo", "tea.md", "--change", str(wrong))
    assert shown.returncode == 1
    assert "before: Green tea takes two minutes." in shown.stdout
    assert "now:    Green tea takes four minutes." in shown.stdout
    assert "--take before" in shown.stderr
    with ann.at("undo", "tea.md", "--change", str(wrong), "--take", "before", "--yes") as screen:
        assert screen.left() == 0
    assert pages(ann)["tea.md"] == TEA


def test_each_conflict_takes_a_side_of_its_own_typed_or_named_by_its_id(ann: Person) -> None:
    async def often(host: Writer) -> None:
        await edit(host, "two minutes", "five minutes")
        base = await host.revision("tea.md")
        changed = host.text("tea.md").replace("five", "four").replace("six", "seven")
        await host.merge("tea.md", changed, base_revision=base, section="*")
        await edit(host, "four minutes", "three minutes")
        await edit(host, "seven cups", "eight cups")

    hosted(ann, often)
    wrong = ann.asked(lambda state: state.ledger.history("tea.md", limit=3))[2].seq
    change = ("undo", "tea.md", "--change", str(wrong))
    rehearsed = json.loads(ann.here(*change, "--dry-run", "--json").stdout)
    minutes, cups = rehearsed["conflicts"]
    assert (minutes["before"], cups["now"]) == ("Green tea takes five minutes.\n", "There are eight cups.\n")
    chosen = json.loads(ann.here(*change, "--dry-run", "--json", "--take", f"{cups['id']}=before").stdout)
    assert [one["id"] for one in chosen["conflicts"]] == [minutes["id"]], "ids stay"
    assert [(one["id"], one["take"]) for one in chosen["decided"]] == [(cups["id"], "before")]
    assert "+There are six cups." in chosen["files"][0]["diff"]
    assert "no conflict nope" in ann.here(*change, "--take", "nope=now").stderr
    with ann.at(*change) as screen:
        screen.until(f"conflict 1 ({minutes['id']})", "Conflict 1: [b] takes the text from before")
        screen.type("?\n")
        screen.until("Conflict 1: [b]", "Conflict 1: [b]")
        screen.type("\n")
        screen.until("Conflict 2: [b]")
        screen.type("b\n")
        screen.until("With your choices:", "+There are six cups.", "Undo 1 change on 1 page?")
        screen.type("y\n")
        screen.until("1 change undone on 1 page, except 1 part in conflict, which stays")
        assert screen.left() == 0
    assert pages(ann)["tea.md"] == TEA.replace("two", "three")


def test_all_that_a_host_did_is_undone_at_once_and_as_advisory_from_level_4_on(ann: Person) -> None:
    before = pages(ann)
    hosted(ann, hour)
    after = pages(ann)
    hosted(ann, lambda host: host.merge("other.md", "# Other\n"), host="other")
    with ann.at("undo", "--host", "wild", "--since", "2h") as screen:
        screen.until("new.md: goes away", "tea.md: moves back from drinks/tea.md", "Undo 3 changes on 3 pages?")
        screen.type("y\n")
        screen.until("3 changes undone")
        assert screen.left() == 0
    assert pages(ann) == {**before, "other.md": "# Other\n"}
    assert newest(ann)["decision"] == f"approved by {ME} (terminal, advisory)"
    again = ann.here("undo", "--host", "wild", "--since", "today")
    assert (again.returncode, again.stderr) == (1, "no change of wild since then is left to undo\n")
    with ann.at("undo", "tea.md", "--yes") as screen:
        assert screen.left() == 0
    assert pages(ann) == {**after, "other.md": "# Other\n"}


def test_with_a_passkey_an_undo_of_level_4_is_signed_on_the_page(ann: Person) -> None:
    before = pages(ann)
    hosted(ann, hour)
    after = pages(ann)
    ann.enrol_passkey()
    with ann.at("undo", "--host", "wild", "--since", "1d", "--yes") as screen:
        assert screen.left() == 1
        assert "sign it with a passkey on the review page" in screen.shown
    assert pages(ann) == after
    (proposal,) = ann.asked(lambda state: state.trust.proposals(states=("pending",)))
    assert (proposal.tool, proposal.level_needed) == ("pages.undo", 4)
    shown = ann.here("review", "--show", proposal.id)
    assert "undo 3 changes" in shown.stdout
    assert ann.signs(proposal.id).state == "executed"
    assert pages(ann) == before
    assert newest(ann)["decision"] == "approved by ann (page, signed)"

    async def sound(state: StateStore) -> bool:
        chain = verify(await state.ledger.records(limit=1_000), await state.ledger.chain_end())
        return not chain and not [one for one in await unaccounted(state) if "passkey" not in one.what]

    assert ann.asked(sound)


def test_an_undo_to_sign_that_would_do_something_else_by_then_does_nothing(ann: Person) -> None:
    hosted(ann, hour)
    ann.enrol_passkey()
    with ann.at("undo", "--host", "wild", "--since", "1d", "--yes") as screen:
        assert screen.left() == 1
    (proposal,) = ann.asked(lambda state: state.trust.proposals(states=("pending",)))
    (ann.kb / "new.md").write_text("# New\n\nMine now.\n")
    after = pages(ann)
    signed = ann.signs(proposal.id)
    assert (signed.state, pages(ann)) == ("failed", after)
    assert "the pages have changed" in (signed.error or "")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "name a page"),
        (["tea.md", "--host", "wild", "--since", "today"], "name a page"),
        (["--host", "wild"], "--host and --since belong together"),
        (["--host", "wild", "--since", "today", "--change", "3"], "--change belongs to a page"),
        (["--host", "wild", "--since", "yesterdayish"], "is not a time"),
        (["tea.md", "--take", "after"], "'after' is no side: write before, now"),
        (["tea.md", "--take", "=now"], "is no side"),
    ],
)
def test_a_wrong_command_line_is_explained(ann: Person, words: list[str], says: str) -> None:
    done = ann.here("undo", *words)
    assert (done.returncode, says in done.stderr) == (2, True)
