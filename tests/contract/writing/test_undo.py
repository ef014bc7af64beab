"""Taking changes back on the real server: pages that hosts change through a real client, and a person who undoes some of it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from knowledge.errors import EffectChanged, NoSuchChange, NoSuchPath
from knowledge.history.audit.chain import verify
from knowledge.writing.undo.past_act import Take
from knowledge.writing.undo.undo import UndoDone
from mcp_server.app.settings.settings import Settings
from tests.support.hosts.writers import Writer, writing
from tests.support.knowledge_bases.folders import write

LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
TEA = "# Tea\n\nGreen tea takes two minutes.\n\n## Cups\n\nThere are six cups.\n\n## Shop\n\nThe shop opens at nine.\n"
PAGES = {
    "tea.md": TEA,
    "a/plan.md": "# The plan\n\nSee [the budget](money.md).\n",
    "a/money.md": "# Money\n\nThere is enough.\n",
    "home.md": "# Home\n\nSee [the plan](a/plan.md).\n",
}


def settings_in(home: Path) -> Settings:
    return Settings(kb=write(home / "kb", PAGES), state_dir=home / "s")


async def edit(host: Writer, path: str, old: str, new: str) -> None:
    """Change one passage of the page as the host."""
    text = host.text(path)
    assert old in text
    revision = await host.revision(path)
    answer = await host.merge(path, text.replace(old, new), base_revision=revision, section="*")
    assert answer["status"] == "done"


async def undo(host: Writer, path: str, change: str = "", take: Take = "") -> UndoDone:
    """Undo a change of the page as a person."""
    service = host.app.services.undo
    plan = await service.plan(await service.of_page(path, change), by="ana@terminal", take=take)
    return await service.execute(plan, decision="approved by ana (terminal, by word)")


async def undo_again(host: Writer, done: UndoDone) -> UndoDone:
    """Undo an undo."""
    service = host.app.services.undo
    plan = await service.plan(await service.of_change(done.change), by="ana@terminal")
    return await service.execute(plan, decision="approved by ana (terminal, by word)")


async def newest(host: Writer, path: str) -> str:
    """Return the name of the newest change of the page."""
    return (await host.app.services.undo.of_page(path))[0].name


def files(root: Path) -> dict[str, bytes]:
    return {str(file.relative_to(root)): file.read_bytes() for file in sorted(root.rglob("*.md"))}


async def sound(host: Writer) -> bool:
    ledger = host.app.services.state.ledger
    return not verify(await ledger.records(limit=10_000), await ledger.chain_end())


def sentences(done: UndoDone) -> Sequence[str]:
    return [one.sentence for one in done.answer.conflicts]


async def test_one_change_is_taken_back_and_later_ones_stay(tmp_path: Path) -> None:
    async with writing(settings_in(tmp_path)) as host:
        await edit(host, "tea.md", "two minutes", "five minutes")
        wrong = await newest(host, "tea.md")
        await edit(host, "tea.md", "six cups", "eight cups")
        (host.root / "tea.md").write_text(host.text("tea.md").replace("at nine", "at ten"))
        done = await undo(host, "tea.md", wrong)
        assert done.answer.status == "done"
        assert host.text("tea.md") == TEA.replace("six cups", "eight cups").replace("at nine", "at ten")
        assert await sound(host)


async def test_the_newest_change_is_taken_back_if_none_is_named_and_an_undo_of_that_brings_it_back(
    tmp_path: Path,
) -> None:
    async with writing(settings_in(tmp_path)) as host:
        await edit(host, "tea.md", "two minutes", "five minutes")
        changed = host.text("tea.md")
        assert (await undo(host, "tea.md")).answer.status == "done"
        assert host.text("tea.md") == TEA
        await undo(host, "tea.md")
        assert host.text("tea.md") == changed


async def test_text_that_was_changed_again_is_a_conflict_with_both_sides_and_the_rest_is_taken_back(
    tmp_path: Path,
) -> None:
    async with writing(settings_in(tmp_path)) as host:
        changed = TEA.replace("two minutes", "five minutes").replace("six cups", "seven cups")
        revision = await host.revision("tea.md")
        await host.merge("tea.md", changed, base_revision=revision, section="*")
        wrong = await newest(host, "tea.md")
        await edit(host, "tea.md", "five minutes", "four minutes")
        done = await undo(host, "tea.md", wrong)
        assert done.answer.status == "partial"
        (conflict,) = done.answer.conflicts
        assert (conflict.before, conflict.now) == ("Green tea takes two minutes.\n", "Green tea takes four minutes.\n")
        assert host.text("tea.md") == TEA.replace("two minutes", "four minutes")
        done = await undo(host, "tea.md", wrong, take="before")
        assert (done.answer.status, list(done.answer.conflicts)) == ("done", [])
        assert host.text("tea.md") == TEA


async def test_the_current_text_can_be_taken_for_a_conflict(tmp_path: Path) -> None:
    async with writing(settings_in(tmp_path)) as host:
        await edit(host, "tea.md", "two minutes", "five minutes")
        wrong = await newest(host, "tea.md")
        await edit(host, "tea.md", "five minutes", "four minutes")
        before = host.text("tea.md")
        assert (await undo(host, "tea.md", wrong)).answer.status == "conflict"
        done = await undo(host, "tea.md", wrong, take="now")
        assert (done.answer.status, list(done.answer.conflicts), done.change) == ("unchanged", [], "")
        assert host.text("tea.md") == before


async def test_a_created_page_goes_away_unless_somebody_changed_it(tmp_path: Path) -> None:
    async with writing(settings_in(tmp_path)) as host:
        await host.merge("new.md", "# New\n\nA page.\n")
        made = await newest(host, "new.md")
        done = await undo(host, "new.md")
        assert (done.answer.status, list(done.answer.gone)) == ("done", ["new.md"])
        await undo_again(host, done)
        assert host.text("new.md") == "# New\n\nA page.\n"
        await edit(host, "new.md", "A page.", "A better page.")
        done = await undo(host, "new.md", made)
        assert done.answer.status == "conflict"
        assert sentences(done) == ["new.md can't go away: it has changed since it was created"]
        assert (await undo(host, "new.md", made, take="before")).answer.gone == ["new.md"]
        assert not (host.root / "new.md").exists()


async def test_a_deleted_page_comes_back_and_links_lead_to_it_again(tmp_path: Path) -> None:
    async with writing(settings_in(tmp_path)) as host:
        await host.call("kb_delete", path="a/plan.md", base_revision=await host.revision("a/plan.md"))
        await host.call("kb_move", path="a/money.md", to="b/cash.md")
        await undo(host, "a/plan.md")
        # Its own link follows the page that moved while it was gone.
        assert host.text("a/plan.md") == "# The plan\n\nSee [the budget](../b/cash.md).\n"


async def test_a_page_made_where_one_was_deleted_is_a_conflict(tmp_path: Path) -> None:
    async with writing(settings_in(tmp_path)) as host:
        await host.call("kb_delete", path="tea.md", base_revision=await host.revision("tea.md"))
        gone = await newest(host, "tea.md")
        await host.merge("tea.md", "# Coffee\n")
        done = await undo(host, "tea.md", gone)
        assert sentences(done) == ["tea.md can't come back: another page is there now"]
        assert (done.answer.conflicts[0].before, done.answer.conflicts[0].now) == (TEA, "# Coffee\n")
        await undo(host, "tea.md", gone, take="before")
        assert host.text("tea.md") == TEA


async def test_a_moved_page_returns_with_the_links_of_the_move_and_those_made_since(tmp_path: Path) -> None:
    async with writing(settings_in(tmp_path)) as host:
        before = files(host.root)
        await host.call("kb_move", path="a/plan.md", to="b/strategy.md")
        moved = await newest(host, "b/strategy.md")
        after = files(host.root)
        done = await undo(host, "b/strategy.md", moved)
        assert files(host.root) == before
        await undo_again(host, done)
        assert files(host.root) == after
        # Somebody links to the new path, and writes to the page and to one that linked to it.
        await host.merge("late.md", "# Late\n\nRead [it](b/strategy.md).\n")
        await edit(host, "home.md", "# Home\n", "# Home\n\nWelcome.\n")
        await edit(host, "b/strategy.md", "# The plan\n", "# The plan\n\nIt grew, see [late](../late.md).\n")
        done = await undo(host, "b/strategy.md", moved)
        assert done.answer.status == "done"
        assert (
            host.text("a/plan.md") == "# The plan\n\nIt grew, see [late](../late.md).\n\nSee [the budget](money.md).\n"
        )
        assert host.text("home.md") == "# Home\n\nWelcome.\n\nSee [the plan](a/plan.md).\n"
        assert host.text("late.md") == "# Late\n\nRead [it](a/plan.md).\n"
        assert not (host.root / "b/strategy.md").exists()


async def test_a_page_that_moved_on_or_whose_place_is_taken_stays_with_its_links(tmp_path: Path) -> None:
    async with writing(settings_in(tmp_path)) as host:
        await host.call("kb_move", path="a/plan.md", to="b/strategy.md")
        first = await newest(host, "b/strategy.md")
        await host.call("kb_move", path="b/strategy.md", to="c/later.md")
        there = files(host.root)
        done = await undo(host, "c/later.md", first)
        assert sentences(done) == [
            "c/later.md can't return to a/plan.md: b/strategy.md was moved again later, to c/later.md"
        ]
        assert files(host.root) == there
        await undo(host, "c/later.md", first, take="before")
        assert files(host.root) == {path: text.encode() for path, text in PAGES.items()}
        await host.call("kb_move", path="a/plan.md", to="b/strategy.md")
        await host.merge("a/plan.md", "# Another plan\n")
        there = files(host.root)
        done = await undo(host, "b/strategy.md")
        assert sentences(done) == ["b/strategy.md can't return to a/plan.md: another page is at a/plan.md now"]
        assert done.answer.conflicts[0].choices == ("now",)
        assert files(host.root) == there


async def test_all_that_a_host_did_since_a_time_is_one_act_and_other_changes_stay(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    async with writing(settings, host="other") as other, writing(settings, host="wild") as wild:
        await edit(wild, "tea.md", "two minutes", "three minutes")
        since = datetime.now(UTC)
        before = files(wild.root)
        await edit(wild, "tea.md", "three minutes", "five minutes")
        await edit(other, "tea.md", "six cups", "eight cups")
        await edit(wild, "tea.md", "at nine", "at noon")
        await wild.call("kb_move", path="a/plan.md", to="b/strategy.md")
        await wild.merge("new.md", "# New\n\nSee [it](b/strategy.md).\n")
        await edit(wild, "b/strategy.md", "# The plan\n", "# The strategy\n")
        await wild.call("kb_delete", path="a/money.md", base_revision=await wild.revision("a/money.md"))
        service = other.app.services.undo
        acts = await service.of_host("wild", since)
        assert [act.tool for act in acts] == ["kb_delete", "kb_merge", "kb_merge", "kb_move", "kb_merge", "kb_merge"]
        after = files(wild.root)
        plan = await service.plan(acts, by="ana@terminal")
        assert files(wild.root) == after
        done = await service.execute(plan, decision="approved by ana (terminal, by word)")
        wanted = before | {"tea.md": before["tea.md"].replace(b"six cups", b"eight cups")}
        assert (files(wild.root), done.answer.status) == (wanted, "done")
        assert await service.of_host("wild", since) == []
        # The undo is one act, so that one more undo brings all of it back.
        await undo_again(other, done)
        assert files(wild.root) == after
        assert len(await service.of_host("wild", since)) == 6
        assert await sound(other)


async def test_changes_of_one_passage_in_a_row_are_one_conflict_with_the_text_before_all_of_them(
    tmp_path: Path,
) -> None:
    settings = settings_in(tmp_path)
    async with writing(settings, host="other") as other, writing(settings, host="wild") as wild:
        await edit(wild, "tea.md", "two minutes", "three minutes")
        await edit(wild, "tea.md", "three minutes", "five minutes")
        await edit(other, "tea.md", "five minutes", "four minutes")
        service = other.app.services.undo
        acts = await service.of_host("wild", LONG_AGO)
        plan = await service.plan(acts, by="ana@terminal")
        (conflict,) = plan.answer.conflicts
        assert (conflict.before, conflict.now) == ("Green tea takes two minutes.\n", "Green tea takes four minutes.\n")
        taken = await service.plan(acts, by="ana@terminal", take_at={"tea.md": "before"})
        await service.execute(taken, decision="approved by ana (terminal, by word)")
        assert other.text("tea.md") == TEA


async def test_the_record_names_the_person_the_decision_and_the_acts_taken_back(tmp_path: Path) -> None:
    async with writing(settings_in(tmp_path)) as host:
        await edit(host, "tea.md", "two minutes", "five minutes")
        (wrong,) = await host.app.services.undo.of_page("tea.md")
        done = await undo(host, "tea.md")
        (act,) = await host.app.services.undo.of_change(done.change)
        assert (act.by, act.tool, act.undoes) == ("ana@terminal", "undo", (wrong.seq,))
        record = (await host.app.services.state.ledger.records(after=(act.seq or 0) - 1, limit=1))[0]
        assert '"decision":"approved by ana (terminal, by word)"' in record.body


async def test_an_edit_in_an_editor_can_be_taken_back(tmp_path: Path) -> None:
    async with writing(settings_in(tmp_path)) as host:
        await edit(host, "tea.md", "two minutes", "three minutes")
        there = host.text("tea.md")
        (host.root / "tea.md").write_text(there.replace("six", "no"))
        done = await undo(host, "tea.md")
        assert host.text("tea.md") == there
        await undo_again(host, done)
        assert host.text("tea.md") == there.replace("six", "no")


async def test_a_page_that_changed_after_the_rehearsal_is_planned_again(tmp_path: Path) -> None:
    async with writing(settings_in(tmp_path)) as host:
        await edit(host, "tea.md", "two minutes", "five minutes")
        service = host.app.services.undo
        plan = await service.plan(await service.of_page("tea.md"), by="ana@terminal")
        await edit(host, "tea.md", "five minutes", "four minutes")
        with pytest.raises(EffectChanged):
            await service.execute(plan, decision="approved by ana (terminal, by word)")
        assert "four minutes" in host.text("tea.md")


async def test_what_is_no_change_of_the_page_is_named(tmp_path: Path) -> None:
    async with writing(settings_in(tmp_path)) as host:
        service = host.app.services.undo
        with pytest.raises(NoSuchPath):
            await service.of_page("never.md")
        with pytest.raises(NoSuchChange, match="no change that can be taken back"):
            await service.of_page("tea.md")
        await edit(host, "tea.md", "two minutes", "five minutes")
        with pytest.raises(NoSuchChange, match="'4711'"):
            await service.of_page("tea.md", "4711")
        with pytest.raises(NoSuchChange, match="the knowledge base"):
            await service.of_change("4711")
        assert await service.of_host("nobody", datetime.now(UTC) - timedelta(days=1)) == []
