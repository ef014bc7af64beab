"""A contradiction ends when a person settles it or a page changes, and opens again when both statements are back."""

from __future__ import annotations

import random
import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import anyio
import pytest

from knowledge.contradictions.settlement import CHOICES, CannotSettle, Choice, ContradictionNow
from knowledge.contradictions.statement_place import places_of
from knowledge.errors import EffectChanged, NotOpen
from knowledge.history.audit.chain import fields_of
from knowledge.history.ports import Actor, Flag, HistoryEntry
from knowledge.merge.model import Contradiction, Side
from knowledge.trust.ports import Note
from mcp_server.app.settings.settings import Settings
from mcp_server.approvals.approvers import Approver, CannotDecide
from mcp_server.approvals.contradictions.settle import ContradictionDecisions
from tests.support.hosts.persons import KEY
from tests.support.hosts.writers import Writer, writing
from tests.support.knowledge_bases.folders import write

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
ANA = "ana (page)"
LIMITS = "limits.md"
TEXT = "# Limits\n\nThe upload service accepts files of up to 64 MiB. Ask Ada.\n"
CLAIM = "The upload service accepts files of up to 32 MiB."


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(kb=write(tmp_path / "kb", {LIMITS: TEXT}), state_dir=tmp_path / "state")


async def claimed(host: Writer) -> int:
    """Have the host send evidence that contradicts the page, and return the number of the contradiction."""
    base = await host.revision(LIMITS)
    await host.merge(LIMITS, CLAIM, section="Limits", source="wiki:limits", base_revision=base)
    (found,) = (await host.call("kb_contradictions"))["contradictions"]
    return int(found["id"])


async def test_a_contradiction_whose_page_changed_is_settled_and_opens_again_when_the_text_is_back(
    settings: Settings,
) -> None:
    async with writing(settings) as host:
        number, contradictions = await claimed(host), host.app.services.contradictions
        (host.root / LIMITS).write_text(TEXT.replace("64 MiB", "48 MiB"), encoding="utf-8")
        assert (await contradictions.listed(None, limit=9, cursor=None)).contradictions == []
        (flag,) = await contradictions.settled(None, limit=9)
        assert flag.settlement is not None
        assert (flag.id, flag.settlement.how, flag.settlement.by) == (number, "changed", "knowledge-forge")
        with pytest.raises(NotOpen, match="is settled: a page no longer has one of the statements"):
            await contradictions.one(number)
        # A part of a sentence is not the statement: "up to 64 MiB on weekdays" says something else.
        weekdays = TEXT.replace("64 MiB.", "64 MiB on weekdays.")
        (host.root / LIMITS).write_text(weekdays, encoding="utf-8")
        assert [one.id for one in await contradictions.settled("limits.md", limit=9)] == [number]
        (host.root / LIMITS).write_text(TEXT.replace("up to 64", "up\nto 64"), encoding="utf-8")
        assert [one.id for one in (await contradictions.listed(None, limit=9, cursor=None)).contradictions] == [number]
        assert await contradictions.settled(None, limit=9) == []
        assert (await contradictions.one(number)).settlement is None


async def disputed(host: Writer, *sides: tuple[str, str]) -> int:
    """Record that these two statements of pages contradict each other, each with its path, and return the number."""
    known = []
    for path, text in sides:
        revision = await host.revision(path)
        known.append(Side(path, "", text, f"wiki:{path}", 0.6, NOW, 0.7, revision))
    found = Contradiction("number", "limits", "They differ.", known[0], known[1])
    await host.app.base.state.ledger.commit(
        HistoryEntry(NOW, Actor("x@y", "check", ""), outcome="flagged", contradictions=[found])
    )
    return max(flag.id for flag in await host.app.base.state.ledger.flags(None, limit=99))


async def look(host: Writer, number: int) -> ContradictionNow:
    return await host.app.services.settlements.look(await host.app.services.contradictions.found(number))


async def open_numbers(host: Writer) -> list[int]:
    return [int(one["id"]) for one in (await host.call("kb_contradictions"))["contradictions"]]


async def test_keeping_a_claim_that_was_never_written_writes_it_as_the_persons_act(settings: Settings) -> None:
    async with writing(settings) as host:
        number, settlements = await claimed(host), host.app.services.settlements
        now = await look(host, number)
        assert [side.state for side in now.sides] == ["here", "unwritten"]
        assert now.keeps["first"].pages == {}
        done = await settlements.keep(number, "second", by=ANA, shown=now.shown)
        assert host.text(LIMITS) == TEXT.replace("64", "32")
        assert (done.pages, done.diff) == ((LIMITS,), now.keeps["second"].diff)
        assert done.flag.settlement is not None
        assert (done.flag.settlement.how, done.flag.settlement.by) == ("second", ANA)
        assert await open_numbers(host) == []
        newest = (await host.call("kb_history", path=LIMITS))["revisions"][0]
        assert (newest["by"], newest["tool"]) == ("ana@page", "contradiction.settle")
        assert newest["intent"] == f"contradiction {number}: keeps “{CLAIM}”"
        with pytest.raises(NotOpen, match=r"is settled: ana \(page\) kept the second statement"):
            await settlements.keep(number, "first", by=ANA)


async def test_keeping_the_text_against_a_claim_that_was_never_written_writes_nothing_and_keeps_it_out(
    settings: Settings,
) -> None:
    async with writing(settings) as host:
        number, settlements = await claimed(host), host.app.services.settlements
        done = await settlements.keep(number, "first", by=ANA)
        assert (done.pages, done.diff, host.text(LIMITS)) == ((), "", TEXT)
        base = await host.revision(LIMITS)
        answer = await host.merge(LIMITS, CLAIM, section="Limits", source="wiki:limits", base_revision=base)
        assert [block["verdict"] for block in answer["blocks"]] == ["retain"]
        assert await open_numbers(host) == []
        await settlements.undo(number, by=ANA)
        assert await open_numbers(host) == [number]


async def test_a_settlement_taken_back_restores_the_text_keeps_later_edits_and_opens_it_again(
    settings: Settings,
) -> None:
    async with writing(settings) as host:
        number, settlements = await claimed(host), host.app.services.settlements
        await settlements.keep(number, "second", by=ANA)
        base = await host.revision(LIMITS)
        await host.merge(LIMITS, host.text(LIMITS) + "\n## Contact\n\nCall Bob.\n", base_revision=base)
        done = await settlements.undo(number, by=ANA)
        assert host.text(LIMITS) == TEXT + "\n## Contact\n\nCall Bob.\n"
        assert (list(done.pages), done.flag.settlement) == ([LIMITS], None)
        assert await open_numbers(host) == [number]
        await settlements.keep(number, "second", by=ANA)
        (host.root / LIMITS).write_text(host.text(LIMITS).replace("32 MiB", "16 MiB"), encoding="utf-8")
        with pytest.raises(CannotSettle, match=r"limits\.md was changed in the same place since; undo change \d+"):
            await settlements.undo(number, by=ANA)
        assert "16 MiB" in host.text(LIMITS)


async def test_an_undo_of_its_change_opens_a_contradiction_again(settings: Settings) -> None:
    async with writing(settings) as host:
        number, services = await claimed(host), host.app.services
        done = await services.settlements.keep(number, "second", by=ANA)
        assert done.record is not None
        plan = await services.undo.plan(await services.undo.of_change(str(done.record)), by="bob@terminal")
        undone = await services.undo.execute(plan, decision="decided by bob")
        assert await open_numbers(host) == [number]
        # An undo of the undo is the settlement again, now noticed by the change of the page.
        assert undone.record is not None
        plan = await services.undo.plan(await services.undo.of_change(undone.change), by="bob@terminal")
        await services.undo.execute(plan, decision="decided by bob")
        assert await open_numbers(host) == []
        (flag,) = await services.contradictions.settled(None, limit=9)
        assert flag.settlement is not None
        assert flag.settlement.how == "changed"


async def test_an_undo_of_an_approved_claim_opens_the_contradiction_again(settings: Settings) -> None:
    async with writing(settings) as host:
        number, services = await claimed(host), host.app.services
        (proposal,) = await host.app.base.state.trust.proposals(states=("pending",))
        assert (
            await host.app.approvals.approve(proposal.id, proposal.hash, Approver("ana", "page"))
        ).state == "executed"
        (flag,) = await services.contradictions.settled(None, limit=9)
        assert flag.settlement is not None
        assert (flag.settlement.how, flag.settlement.by) == ("approved", ANA)
        assert flag.settlement.reason == f"{proposal.id} was approved"
        with pytest.raises(CannotSettle, match="no choice of a person settled it"):
            await services.settlements.undo(number, by=ANA)
        plan = await services.undo.plan(await services.undo.of_page(LIMITS), by="bob@terminal")
        await services.undo.execute(plan, decision="decided by bob")
        assert host.text(LIMITS) == TEXT
        assert await open_numbers(host) == [number]


TWO = {
    "a.md": "# A\n\nIntro. Uploads may have\n64 MiB at most. Outro.\n",
    "b.md": "# B\n\n- first\n- Uploads may have 32 MiB at most\n- last\n",
}
A, B = ("a.md", "Uploads may have 64 MiB at most."), ("b.md", "Uploads may have 32 MiB at most")


async def test_of_two_pages_only_the_statement_of_the_other_page_is_rewritten(tmp_path: Path) -> None:
    settings = Settings(kb=write(tmp_path / "kb", TWO), state_dir=tmp_path / "state")
    async with writing(settings) as host:
        number, settlements = await disputed(host, A, B), host.app.services.settlements
        now = await look(host, number)
        assert [(side.state, side.places[0].line) for side in now.sides] == [("here", 3), ("here", 4)]
        await settlements.keep(number, "first", by=ANA, shown=now.shown)
        assert host.text("a.md") == TWO["a.md"]
        assert host.text("b.md") == "# B\n\n- first\n- Uploads may have 64 MiB at most.\n- last\n"
        # The item is nothing but the kept statement, so it keeps that one's source, confirmed by the person.
        (item,) = [one for one in (await host.call("kb_history", path="b.md"))["origins"] if one["lines"] == "4"]
        assert (item["source"], item["corroborated_by"], item["by"]) == ("wiki:a.md", ["user"], "ana@page")
        await settlements.undo(number, by=ANA)
        assert [host.text(path) for path in TWO] == list(TWO.values())
        await settlements.keep(number, "second", by=ANA)
        assert host.text("a.md") == "# A\n\nIntro. Uploads may have 32 MiB at most. Outro.\n"
        assert host.text("b.md") == TWO["b.md"]


async def test_of_two_statements_of_one_page_the_other_one_is_removed(tmp_path: Path) -> None:
    text = "# A\n\nUploads may have 64 MiB at most.\n\nMore.\n\nNote. Uploads may have 32 MiB at most. End.\n"
    settings = Settings(kb=write(tmp_path / "kb", {"a.md": text}), state_dir=tmp_path / "state")
    async with writing(settings) as host:
        number = await disputed(host, A, ("a.md", "Uploads may have 32 MiB at most."))
        await host.app.services.settlements.keep(number, "first", by=ANA)
        assert host.text("a.md") == "# A\n\nUploads may have 64 MiB at most.\n\nMore.\n\nNote. End.\n"
        await host.app.services.settlements.undo(number, by=ANA)
        await host.app.services.settlements.keep(number, "second", by=ANA)
        assert host.text("a.md") == "# A\n\nMore.\n\nNote. Uploads may have 32 MiB at most. End.\n"


async def test_nothing_is_settled_if_a_side_changed_since_the_person_looked(tmp_path: Path) -> None:
    settings = Settings(kb=write(tmp_path / "kb", TWO), state_dir=tmp_path / "state")
    async with writing(settings) as host:
        number, settlements = await disputed(host, A, B), host.app.services.settlements
        now = await look(host, number)
        # An edit elsewhere in the page does not matter, and is kept.
        (host.root / "b.md").write_text(TWO["b.md"].replace("first", "FIRST"), encoding="utf-8")
        assert (await look(host, number)).shown == now.shown
        (host.root / "b.md").write_text(TWO["b.md"].replace("32 MiB", "48 MiB"), encoding="utf-8")
        changed = (await look(host, number)).sides[1]
        assert changed.state == "changed"
        assert changed.instead is not None
        assert "48 MiB" in changed.instead.block
        for choice in CHOICES:
            with pytest.raises(CannotSettle, match="have changed since you looked"):
                await settlements.keep(number, choice, by=ANA, shown=now.shown)
            with pytest.raises(CannotSettle, match=r"b\.md no longer has this statement"):
                await settlements.keep(number, choice, by=ANA)
        with pytest.raises(CannotSettle, match="have changed since you looked"):
            await settlements.edit(number, {0: "x"}, by=ANA, shown=now.shown)
        (host.root / "b.md").unlink()
        assert (await look(host, number)).keeps["first"].why_not == "there is no page b.md now"
        assert host.text("a.md") == TWO["a.md"]


@pytest.mark.parametrize(
    ("text", "said", "why"),
    [
        ("# B\n\nUploads have 3 MiB.\n\nUploads have 3 MiB.\n", "Uploads have 3 MiB.", "has this statement 2 times"),
        ("# B\n\nUploads have 3 MiB on Sundays.\n", "Uploads have 3 MiB", "only a part of a sentence"),
        ("# B\n\n| x | size |\n|---|---|\n| up | 3 MiB |\n", "| up | 3 MiB |", "one is a row of a table"),
        ("# B\n\n```\nUploads have 3 MiB\n```\n", "Uploads have 3 MiB", "no prose"),
        ("# B\n\nUploads have 3 MiB\n", "Uploads have 3...", "only a part of a sentence"),
    ],
)
async def test_where_the_place_is_not_certain_nothing_is_kept_and_an_edit_is_offered(
    tmp_path: Path, text: str, said: str, why: str
) -> None:
    settings = Settings(kb=write(tmp_path / "kb", {**TWO, "c/b.md": text}), state_dir=tmp_path / "state")
    async with writing(settings) as host:
        number, settlements = await disputed(host, A, ("c/b.md", said)), host.app.services.settlements
        now = await look(host, number)
        assert why in now.keeps["first"].why_not
        with pytest.raises(CannotSettle, match=why):
            await settlements.keep(number, "first", by=ANA)
        blocks = [at for at, block in enumerate(now.blocks) if block.path == "c/b.md"]
        assert blocks
        await settlements.edit(number, dict.fromkeys(blocks, "Uploads have 5 MiB."), by=ANA, shown=now.shown)
        assert host.text("c/b.md").count("Uploads have 5 MiB.") == len(blocks)
        assert await open_numbers(host) == []


async def test_a_link_that_would_lead_elsewhere_is_not_copied(tmp_path: Path) -> None:
    said = "Uploads may have [64 MiB](limits.md) at most."
    pages = {"a.md": f"# A\n\n{said}\n", "limits.md": "# L\n", "c/b.md": TWO["b.md"]}
    settings = Settings(kb=write(tmp_path / "kb", pages), state_dir=tmp_path / "state")
    async with writing(settings) as host:
        number = await disputed(host, ("a.md", said), ("c/b.md", B[1]))
        now = await look(host, number)
        assert "lead elsewhere" in now.keeps["first"].why_not
        assert now.keeps["second"].why_not == ""


async def test_a_person_edits_both_pages_in_one_act(tmp_path: Path) -> None:
    settings = Settings(kb=write(tmp_path / "kb", TWO), state_dir=tmp_path / "state")
    async with writing(settings) as host:
        number, settlements = await disputed(host, A, B), host.app.services.settlements
        now = await look(host, number)
        with pytest.raises(CannotSettle, match="nothing was changed"):
            await settlements.edit(number, {0: now.blocks[0].place.block}, by=ANA)
        with pytest.raises(CannotSettle, match="both statements would still be"):
            await settlements.edit(number, {1: now.blocks[1].place.block + "- more"}, by=ANA)
        done = await settlements.edit(number, {0: "Uploads may have 48 MiB.\r\n\r\nOutro.", 1: ""}, by=ANA)
        assert host.text("a.md") == "# A\n\nUploads may have 48 MiB.\n\nOutro.\n"
        assert host.text("b.md") == "# B\n\n- first\n- last\n"
        assert done.flag.settlement is not None
        assert (done.flag.settlement.how, sorted(done.pages)) == ("edited", ["a.md", "b.md"])
        acts = [one for one in map(fields_of, await host.app.base.state.ledger.records()) if one["outcome"] == "done"]
        assert [change["path"] for change in acts[-1]["changes"]] == ["a.md", "b.md"]
        await settlements.undo(number, by=ANA)
        assert [host.text(path) for path in TWO] == list(TWO.values())
        assert await open_numbers(host) == [number]


async def test_of_two_people_who_keep_different_sides_at_the_same_time_one_settles_it(tmp_path: Path) -> None:
    settings = Settings(kb=write(tmp_path / "kb", TWO), state_dir=tmp_path / "state")
    async with writing(settings) as host:
        number, settlements = await disputed(host, A, B), host.app.services.settlements
        refused: list[str] = []

        async def keep(choice: Choice) -> None:
            try:
                await settlements.keep(number, choice, by=ANA)
            except (CannotSettle, NotOpen) as error:
                refused.append(str(error))

        async with anyio.create_task_group() as tasks:
            for choice in CHOICES:
                tasks.start_soon(keep, choice)
        assert len(refused) == 1
        said = [re.findall(r"\d+ MiB", host.text(path)) for path in TWO]
        assert said in ([["64 MiB"], ["64 MiB"]], [["32 MiB"], ["32 MiB"]])
        assert await open_numbers(host) == []


async def seen(host: Writer, number: int) -> tuple[list[int], Flag, dict[str, str]]:
    """Return the open contradictions, this one, and the pages, all of one moment.

    The server merges a stale save with the act that it overwrote some seconds later, which can be while this looks.
    """
    while True:
        texts = {path: host.text(path) for path in TWO}
        listed, flag = await open_numbers(host), await host.app.services.contradictions.found(number)
        if texts == {path: host.text(path) for path in TWO}:
            return listed, flag, texts


UNTRUSTED = {**TWO, "a.md": "---\nsource: zulip:design/limits\n---\n" + TWO["a.md"]}


async def test_untrusted_text_is_kept_only_without_a_passkey_and_may_be_edited_with_one(tmp_path: Path) -> None:
    """Text that is not trusted raises an act by one level, and from level 4 on a registered passkey signs."""
    settings = Settings(kb=write(tmp_path / "kb", UNTRUSTED), state_dir=tmp_path / "state")
    async with writing(settings) as host:
        app, person = host.app, Approver("ana", "page")
        number, decisions = await disputed(host, A, B), ContradictionDecisions(app.services, app.approvals, person)
        await decisions.keep(number, "first")
        await decisions.reopen(number)
        await app.base.state.trust.add_passkey(KEY, note=Note("ana", "passkey.add", "key", NOW))
        with pytest.raises(CannotDecide, match="comes from zulip:design/limits, whose text is not trusted"):
            await decisions.keep(number, "first")
        assert host.text("b.md") == TWO["b.md"]
        await decisions.edit(number, {1: "- Uploads may have 64 MiB at most."})
        await decisions.reopen(number)
        await decisions.keep(number, "second")
        assert "32 MiB" in host.text("a.md")


@pytest.mark.parametrize("seed", range(12))
async def test_a_contradiction_is_open_exactly_while_both_statements_are_on_their_pages(
    tmp_path: Path, seed: int
) -> None:
    """Whatever people do, in whichever order, and however it is undone."""
    draw = random.Random(seed)  # noqa: S311 - a test's own order
    settings = Settings(kb=write(tmp_path / "kb", TWO), state_dir=tmp_path / "state")
    async with writing(settings) as host:
        number, services = await disputed(host, A, B), host.app.services
        contradictions, settlements = services.contradictions, services.settlements

        async def undo_newest() -> None:
            lines = [
                line for path in TWO for line in await host.app.base.state.ledger.history(path, limit=9) if line.seq
            ]
            if lines:
                acts = await services.undo.of_change(str(max(line.seq or 0 for line in lines)))
                plan = await services.undo.plan(acts, by="bob@terminal", take=draw.choice(("", "before", "now")))
                await services.undo.execute(plan, decision="decided by bob")

        async def save() -> None:
            path, text = draw.choice(list(TWO.items()))
            saved = draw.choice((text, text.replace("MiB", "GB"), text + "\nMore.\n"))
            (host.root / path).write_text(saved, encoding="utf-8")

        async def edit() -> None:
            text = draw.choice(("Gone.", "", "- Uploads may have 7 MiB"))
            await settlements.edit(number, {draw.randrange(2): text}, by=ANA)

        steps: Sequence[Callable[[], Awaitable[object]]] = (
            lambda: settlements.keep(number, draw.choice(CHOICES), by=ANA),
            lambda: settlements.undo(number, by=ANA),
            lambda: contradictions.dismiss(number, "both", by=ANA, reason="two"),
            undo_newest,
            save,
            edit,
        )
        for _ in range(10):
            with suppress(CannotSettle, NotOpen, EffectChanged):
                await draw.choice(steps)()
            listed, flag, texts = await seen(host, number)
            sides = (flag.contradiction.existing, flag.contradiction.new)
            there = [any(one.whole for one in places_of(texts[side.path], side)) for side in sides]
            assert flag.dismissal is not None or (number in listed) == all(there)
            assert (number in listed) == (flag.settled_at is None and flag.dismissal is None)
