"""How much one principal may store, and how fast.

On every engine, among several processes, and through a real client.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import apsw
import pytest

from agents.engine.decide import decision_steps, submit_steps
from agents.engine.events import ToolStart, ToolSuccess
from agents.loop.errors import NoSuchRun
from agents.loop.record.frames import Control, PersonAnswered, frame_text
from agents.loop.store.ports import Hold
from knowledge.errors import OverQuota
from knowledge.history.audit.chain import verify
from knowledge.state.ports import StateStore
from knowledge.state.quota.bounds import Quotas
from knowledge.trust.codec import MOST_KEPT
from knowledge.trust.ports import Proposal
from mcp_server.app.knowledge_base import utc_now
from mcp_server.app.settings.settings import Settings
from mcp_server.approvals.proposals import LONGEST, hash_of
from tests.doubles.provider_turns import uses
from tests.support.hosts.writers import writing
from tests.support.journeys.graphs import RESEARCH, begun, word, work
from tests.support.knowledge_bases.folders import write
from tests.support.runs.hosts import run_host
from tests.support.runs.records import ADA as RUNS_ADA
from tests.support.runs.records import Walk, header, hold
from tests.support.state.decisions import ADA, approved, no, proposal, yes
from tests.support.state.engines import journeys_in, runs_in
from tests.support.state.ledgers import MINUTE, NOW, open_shared
from tests.support.web.review_pages import forms, shown

BOB = "bob@cursor"
HOUR = timedelta(hours=1)


def long(id_: str, size: int = 20_000, **more: Any) -> Proposal:
    """Return a proposal that shows about this many characters."""
    preview = json.dumps({"sentence": f"write {id_}", "answer": {"status": "done", "diff": "x" * size}, "files": []})
    return proposal(id_, preview=preview, **more)


async def kept_bytes(store: StateStore) -> int:
    return sum(one.size_bytes for one in await store.held() if one.kind == "proposals")


# --- proposals --------------------------------------------------------------------------------------------------------


async def test_a_principal_proposes_no_more_bytes_in_a_day_than_its_quota(store: StateStore) -> None:
    quotas = Quotas(pending_bytes=10**9, proposed_bytes=50_000)
    for n in range(2):
        await store.trust.propose(long(f"p-{n}"), most_pending=99, quotas=quotas)
    with pytest.raises(OverQuota) as refused:
        await store.trust.propose(long("p-2"), most_pending=99, quotas=quotas)
    assert await store.trust.proposal("p-2") is None
    told = str(refused.value)
    assert "50.0 kB a day" in told
    assert "FORGE_QUOTA_PROPOSED" in told
    assert refused.value.free_at is not None
    assert NOW + 24 * HOUR < refused.value.free_at <= NOW + 26 * HOUR

    await store.trust.propose(long("b-1", principal=BOB), most_pending=99, quotas=quotas)
    later = refused.value.free_at
    await store.trust.propose(
        long("p-3", created_at=later, expires_at=later + 24 * HOUR), most_pending=99, quotas=quotas
    )


async def test_waiting_bytes_are_limited_and_replaced_ones_do_not_count(
    store: StateStore,
) -> None:
    quotas = Quotas(pending_bytes=50_000)
    for n in range(2):
        await store.trust.propose(long(f"p-{n}"), most_pending=99, quotas=quotas)
    with pytest.raises(OverQuota, match="proposal_withdraw"):
        await store.trust.propose(long("p-2"), most_pending=99, quotas=quotas)
    await store.trust.propose(long("p-2"), most_pending=99, quotas=quotas, replacing=["p-0"])
    assert await store.trust.pending() == 2


async def test_concurrent_proposals_exceed_no_limit(where: str, schema: str) -> None:
    quotas, taken = Quotas(proposed_bytes=50_000), []
    stores = [await open_shared(where, schema) for _ in range(2)]

    async def propose(number: int) -> None:
        try:
            await stores[number % 2].trust.propose(long(f"p-{number}"), most_pending=99, quotas=quotas)
            taken.append(number)
        except OverQuota:
            pass

    async with anyio.create_task_group() as tasks:
        for number in range(12):
            tasks.start_soon(propose, number)
    assert len(taken) == 2
    assert await stores[0].trust.pending() == 2
    for one in stores:
        await one.close()


async def test_one_page_proposed_again_and_again_keeps_one_long_text(store: StateStore) -> None:
    """A replaced proposal can no longer be decided: its full text would only fill the disk."""
    for n in range(12):
        await store.trust.propose(long(f"p-{n}", 50_000), most_pending=9, replacing=[f"p-{n - 1}"])
    assert await kept_bytes(store) < 60_000 + 12 * (MOST_KEPT + 2_000)
    first = await store.trust.proposal("p-0")
    assert first is not None
    assert (first.state, first.successor, first.hash) == ("superseded", "p-1", "hash of p-0")
    assert first.cut is not None
    assert first.cut.size_bytes > 50_000
    shown = json.loads(first.preview)
    assert shown["sentence"] == "write p-0"
    assert shown["answer"]["status"] == "done"
    assert "more characters removed when it ended]" in shown["answer"]["diff"]
    newest = await store.trust.proposal("p-11")
    assert newest is not None
    assert newest.cut is None
    assert "x" * 50_000 in newest.preview


async def test_an_ended_proposal_keeps_its_verdict_its_result_and_little_else(store: StateStore) -> None:
    for id_ in ("p-done", "p-no", "p-back", "p-late"):
        await store.trust.propose(long(id_, 50_000), most_pending=9)
    assert await store.trust.decide("p-no", no("p-no"))
    assert await store.trust.withdraw("p-back", ADA, at=NOW + MINUTE)
    assert await store.trust.decide("p-done", yes("p-done"))
    underway = await store.trust.proposal("p-done")
    assert underway is not None
    assert underway.cut is None, "it is still to be carried out, and its hash to be checked"
    result = json.dumps({"status": "done", "diff": "y" * 9_000})
    await store.trust.finish("p-done", "executed", at=NOW + MINUTE, result=result)
    assert list(await store.trust.expire(now=NOW + timedelta(days=8))) == ["p-late"]

    for id_ in ("p-done", "p-no", "p-back", "p-late"):
        found = await store.trust.proposal(id_)
        assert found is not None
        assert found.cut is not None, id_
        assert len(found.preview) + len(found.arguments) <= MOST_KEPT
    done = await store.trust.proposal("p-done")
    assert done is not None
    assert done.result == result, "whoever asks again is answered the same"
    assert done.verdict == yes("p-done")
    assert not verify(await store.ledger.records(limit=99), await store.ledger.chain_end())


async def test_an_edited_proposal_stays_complete_for_its_successor(store: StateStore) -> None:
    """The origin of text in a proposal is looked up by the arguments of its source."""
    await store.trust.propose(long("p-1", 50_000), most_pending=9)
    await store.trust.propose(long("p-2", 50_000, origin="p-1"), most_pending=9, replacing=["p-1"])
    await store.trust.shorten(ended_before=None, limit=99)
    found = await store.trust.proposal("p-1")
    assert found is not None
    assert (found.state, found.cut) == ("superseded", None)
    await store.trust.shorten(ended_before=NOW + MINUTE, limit=99)
    found = await store.trust.proposal("p-1")
    assert found is not None
    assert found.cut is not None


async def test_an_act_on_trust_itself_stays_whole(store: StateStore) -> None:
    """A host's secret is reconciled with the arguments of the act that registered it."""
    await approved(store, "a-1", kind="admin", tool="host.enrol", preview=long("x", 30_000).preview)
    await store.trust.finish("a-1", "executed", at=NOW, result="null")
    found = await store.trust.proposal("a-1")
    assert found is not None
    assert found.cut is None


async def test_lists_read_no_long_text(tmp_path: Path, schema: str) -> None:
    """A list's texts are stored separately: it doesn't even notice that the full text is gone."""
    store = await open_shared(str(tmp_path), schema)
    await store.trust.propose(long("p-0", 50_000), most_pending=9)
    other = apsw.Connection(str(tmp_path / schema / "state.db"))
    other.execute("UPDATE proposal SET told = 'nobody reads this'").fetchall()
    (line,) = await store.trust.lines(states=("pending",))
    assert (line.id, line.sentence, line.documents) == ("p-0", "write p-0", ("guides/a.md", "guides/new.md"))
    other.close()
    await store.close()


async def test_lines_match_their_proposals(store: StateStore) -> None:
    for n in range(5):
        await store.trust.propose(long(f"p-{n}"), most_pending=9, replacing=["p-1"] if n == 3 else [])
    await store.trust.decide("p-0", yes("p-0"))
    for asked in ({}, {"states": ("pending",)}, {"principal": ADA, "limit": 2}, {"before": "p-3"}):
        whole = await store.trust.proposals(**asked)
        lines = await store.trust.lines(**asked)
        names = ("id", "state", "hash", "effect", "documents", "verdict", "successor", "expires_at", "ended_at")
        assert [[getattr(one, name) for name in names] for one in lines] == [
            [getattr(one, name) for name in names] for one in whole
        ]


# --- journeys and runs ------------------------------------------------------------------------------------------------


async def test_a_principal_starts_no_more_journeys_and_runs_in_a_minute_than_its_quota(store: StateStore) -> None:
    quotas = Quotas(starts=3)
    journeys, runs = journeys_in(store, quotas), runs_in(store, quotas)
    for n in range(3):
        await journeys.start(f"j-{n}", begun(f"brief {n}"), by=ADA, at=NOW + timedelta(seconds=n))
    with pytest.raises(OverQuota, match=r"3 in the last minute.*FORGE_QUOTA_STARTS") as refused:
        await journeys.start("j-3", begun("brief 3"), by=ADA, at=NOW + timedelta(seconds=4))
    assert not [line for line in await journeys.journeys() if line.id == "j-3"]
    assert (await journeys.start("j-0", begun("brief 0"), by=ADA, at=NOW)).repeated, "what is on record costs nothing"
    await journeys.start("b-0", begun(principal=BOB), by=BOB, at=NOW)
    assert refused.value.free_at is not None
    await journeys.start("j-3", begun("brief 3"), by=ADA, at=refused.value.free_at)

    at = NOW + HOUR
    for n in range(3):
        await runs.begin(header(f"run-{n}", begun_at=at), hold(at=at))
    with pytest.raises(OverQuota):
        await runs.begin(header("run-3", begun_at=at), hold(at=at))


async def test_concurrent_starts_of_journeys_exceed_no_limit(where: str, schema: str) -> None:
    stores, begins = [await open_shared(where, schema) for _ in range(2)], []
    journeys = [journeys_in(store, Quotas(starts=4)) for store in stores]

    async def start(number: int) -> None:
        try:
            await journeys[number % 2].start(f"j-{number}", begun(f"brief {number}"), by=ADA, at=NOW)
            begins.append(number)
        except OverQuota:
            pass

    async with anyio.create_task_group() as tasks:
        for number in range(16):
            tasks.start_soon(start, number)
    assert len(begins) == 4
    assert len(await journeys[0].journeys(limit=99)) == 4
    for one in stores:
        await one.close()


async def test_a_hosts_daily_bytes_in_journeys_are_limited_and_a_persons_decision_is_accepted(
    store: StateStore,
) -> None:
    quotas = Quotas(journey_bytes=30_000)
    journeys = journeys_in(store, quotas)
    await journeys.start("j-1", begun(), by=ADA, at=NOW)
    state = await journeys.journey("j-1")
    steps = submit_steps(RESEARCH, "j-1", state, work("x" * 40_000), ())
    for before in (state, None):
        with pytest.raises(OverQuota, match="FORGE_QUOTA_JOURNEYS"):
            await journeys.append("j-1", steps, expected=1, key="k", by=ADA, at=NOW + MINUTE, before=before)
    assert await journeys.journey("j-1") == state

    text = "y" * 15_000
    await journeys.note("j-1", [ToolStart("c", "kb_read", "00", summary=text)], by=ADA, at=NOW + MINUTE)
    with pytest.raises(OverQuota):
        await journeys.note("j-1", [ToolStart("d", "kb_read", "00", summary=text)], by=ADA, at=NOW + MINUTE)
    # The outcome of a call is noted all the same, and so is a person's own decision.
    await journeys.note("j-1", [ToolSuccess("c", "kb_read", 1.0, summary=text)], by=ADA, at=NOW + MINUTE)
    state = await journeys.journey("j-1")
    said = decision_steps(RESEARCH, "j-1", state, word("cancel", note="z" * 9_000), ())
    done = await journeys.append("j-1", said, expected=1, key="w", by=ADA, at=NOW + MINUTE, before=state)
    assert done.version == 2


async def test_a_hosts_daily_bytes_in_runs_are_limited(store: StateStore) -> None:
    """A model's next call is refused.

    A call's outcome, the run's end and a person's own answer are stored all the same.
    """
    runs = runs_in(store, Quotas(run_bytes=30_000))

    async def add(walk: Walk, by: Hold | None = None) -> None:
        there = await runs.run(walk.run.id)
        await runs.append(there, walk.run.frames[there.count :], by or hold())

    await runs.begin(header(), hold())
    walk = Walk()
    walk.call("kb_search", query="x" * 15_000)
    await add(walk)
    before = walk.run
    walk.result("z" * 40_000)
    await add(walk)
    full = walk.run
    for wish in (lambda: walk.call("kb_read", path="a" * 20), walk.correct, walk.ask):
        wish()
        with pytest.raises(
            OverQuota, match=r"in runs in the last 24 hours, of 30\.0 kB a day.*FORGE_QUOTA_RUNS"
        ) as refused:
            await add(walk)
        assert await runs.run("run-1") == full
        walk.run = full
    assert refused.value.free_at is not None
    walk.respond("The cap is 20.")
    await add(walk)
    assert (await runs.run("run-1")).state == "done"
    again = await runs.append(before, walk.run.frames[before.count :], hold())
    assert again == walk.run, "what is on record costs nothing"

    with pytest.raises(OverQuota):
        await runs.begin(header("run-2", begun_at=NOW + MINUTE), hold(at=NOW + MINUTE))
    with pytest.raises(NoSuchRun):
        await runs.run("run-2")
    await runs.begin(header("run-b", principal=BOB), hold())
    with pytest.raises(OverQuota):
        await runs.begin(header("run-c", principal="carl@cli", context="c" * 40_000), hold())
    later = refused.value.free_at
    await runs.begin(header("run-2", begun_at=later), hold(at=later))


@pytest.mark.parametrize(("by", "taken"), [(RUNS_ADA, False), ("ada, a person", True)])
async def test_a_persons_own_answer_is_taken_and_one_that_a_host_relays_counts(
    store: StateStore, by: str, *, taken: bool
) -> None:
    runs, walk = runs_in(store, Quotas(run_bytes=30_000)), Walk()
    await runs.begin(header(), hold())
    walk.ask()
    asked = await runs.append(await runs.run("run-1"), walk.run.frames, hold())
    assert asked.ask is not None
    answer = PersonAnswered(**walk.place(), ask=asked.ask.id, text="y" * 40_000, by=by)
    if taken:
        assert (await runs.append(asked, [answer], hold())).state == "running"
    else:
        with pytest.raises(OverQuota):
            await runs.append(asked, [answer], hold())
        assert await runs.run("run-1") == asked


async def test_concurrent_runs_exceed_no_limit(where: str, schema: str) -> None:
    stores, stored = [await open_shared(where, schema) for _ in range(2)], []
    runs = [runs_in(store, Quotas(run_bytes=50_000)) for store in stores]
    walks = [Walk(replace(Walk().run, header=header(f"run-{n}"))) for n in range(8)]
    for walk in walks:
        await runs[0].begin(walk.run.header, hold())
        walk.call("kb_search", query="x" * 12_000)

    async def add(number: int) -> None:
        walk = walks[number]
        with suppress(OverQuota):
            await runs[number % 2].append(await runs[0].run(walk.run.id), walk.run.frames, hold())
            stored.append(number)

    async with anyio.create_task_group() as tasks:
        for number in range(len(walks)):
            tasks.start_soon(add, number)
    assert len(stored) == 3
    for one in stores:
        await one.close()


# --- through a real client --------------------------------------------------------------------------------------------

PAGE = "guides/deploy.md"
SECTION = "The payment service is deployed with a canary first. " * 4_000


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(kb=write(tmp_path / "kb", {PAGE: f"# Deploying\n\n{SECTION}\n"}), state_dir=tmp_path / "s")


def told_bytes(settings: Settings) -> int:
    assert settings.state_dir is not None
    connection = apsw.Connection(str(settings.state_dir / "state.db"))
    ((size,),) = connection.execute("SELECT sum(octet_length(told)) FROM proposal").fetchall()
    connection.close()
    return int(str(size))


@pytest.mark.security
async def test_a_host_that_proposes_one_page_again_and_again_fills_no_disk(settings: Settings) -> None:
    """Before, each of these proposals was kept in full forever: 336 MB in 44 s."""
    async with writing(settings, level=2) as host:
        base, sizes = await host.revision(PAGE), []
        for n in range(6):
            answer = await host.merge(PAGE, f"# Deploying\n\n{SECTION}{n}\n", base_revision=base)
            assert answer["status"] == "proposed"
            sizes.append(told_bytes(settings))
        assert sizes[-1] < sizes[0] + 6 * 10_000
        first = (await host.call("proposal_status"))["pending"]
        assert len(first) == 1


@pytest.mark.security
async def test_a_host_over_its_quota_learns_limit_usage_time_and_setting(settings: Settings) -> None:
    async with writing(replace(settings, quota_proposed=1_000_000), level=2) as host:
        base, refusal = await host.revision(PAGE), ""
        for n in range(9):
            text = f"# Deploying\n\n{SECTION}{n}\n"
            rehearsed = await host.merge(PAGE, text, base_revision=base, dry_run=True)
            assert rehearsed["status"] == "analysis", "a rehearsal stores nothing"
            result = await host.client.call_tool("kb_merge", {"path": PAGE, "content": text, "base_revision": base})
            if result.is_error:
                refusal = result.content[0].text  # type: ignore[union-attr]
                break
        assert "of 1.0 MB a day allowed" in refusal
        assert "Try again at" in refusal
        assert refusal.endswith("FORGE_QUOTA_PROPOSED")
        assert len((await host.call("proposal_status"))["pending"]) == 1, "what waited goes on waiting"


@pytest.mark.security
async def test_a_host_that_starts_journeys_too_fast_is_slowed_down(settings: Settings) -> None:
    async with writing(replace(settings, quota_starts=5), level=2) as host:
        answers = [
            await host.client.call_tool("journey_start", {"agent": "research", "brief": f"question {n}: what is it?"})
            for n in range(12)
        ]
        refused = [one for one in answers if one.is_error]
        # The clock advances meanwhile, but by less than a minute.
        assert 6 <= len(refused) <= 7
        assert "FORGE_QUOTA_STARTS" in refused[0].content[0].text  # type: ignore[union-attr]


@pytest.mark.security
async def test_a_run_that_meets_its_quota_ends_and_says_the_bound_and_the_next_one_is_refused(tmp_path: Path) -> None:
    """A model that obeys an order to search with a long text again and again: before, every word of it was stored."""
    turns = [uses("kb_search", query="x" * 1_900, path="guides") for _ in range(40)]
    async with run_host(tmp_path, quota_runs=40_000) as host:
        host.will("Search", *turns)
        answer = await host.call("agent_run", goal="Search on.", max_iterations=40)
        there = await host.app.services.runs.store.run(answer["run_id"])
        asked, last = len(host.model.asked), there.frames[-1]
        assert isinstance(last, Control)
        assert (answer["status"], last.signal, last.limit) == ("failed", "limit_reached", "stored")
        assert 2 < there.iterations < 30
        assert asked == there.iterations + 1, "the answer that was not stored was asked for"
        assert last.tokens_in + last.tokens_out == 120, "what it took is on record"
        for told in ("of 40.0 kB a day allowed", "Try again at", "FORGE_QUOTA_RUNS"):
            assert told in there.why
        size = sum(len(frame_text(frame)) for frame in there.frames)
        assert size < 40_000 + 25_000, "one result more than the bound, and the end"
        refusal = await host.refused("agent_run", goal="Once more.", context="c" * 9_000)
        assert refusal.endswith("FORGE_QUOTA_RUNS")
    assert len(host.model.asked) == asked


# --- the review page --------------------------------------------------------------------------------------------------


def largest(id_: str, created_at: datetime) -> Proposal:
    """Return a proposal of the largest size, for a page with a million short lines."""
    head = "--- a\n+++ a\n@@ -1,600000 +1,600000 @@\n"
    diff = head + "-x\n" * 600_000 + "+y\n" * 600_000
    files = [{"path": "guides/deploy.md", "before": "a", "after": "b", "diff": diff}]
    preview = json.dumps({"sentence": "change all of it", "answer": {"status": "done"}, "files": files})
    made = proposal(id_, preview=preview, created_at=created_at, expires_at=created_at + HOUR)
    assert LONGEST - 1_500_000 < len(preview) < LONGEST
    return replace(made, hash=hash_of(made))


async def test_the_page_of_the_largest_proposal_shows_its_beginning_and_lets_nobody_approve_the_rest_unseen(
    tmp_path: Path,
) -> None:
    async with shown(tmp_path) as place:
        made = largest("p-largest", utc_now())
        await place.app.base.state.trust.propose(made, most_pending=9)
        visitor = await place.visitor()
        html = await visitor.look("/proposals/p-largest")
        assert visitor.status == 200
        assert len(html) < 500_000
        assert "opened" not in forms(html).get("/proposals/p-largest/approve", {})
        await visitor.post(
            "/proposals/p-largest/approve", {"hash": made.hash, **forms(html)["/proposals/p-largest/reject"]}
        )
        assert "you have not seen all of this proposal" in visitor.html
        assert (await place.proposal("p-largest")).state == "pending"


async def test_the_page_reads_the_long_texts_of_the_one_proposal_that_it_shows(tmp_path: Path) -> None:
    """Opening one read everything that its principal had ever proposed: 710 MB."""
    async with shown(tmp_path) as place:
        trust, now = place.app.base.state.trust, utc_now()
        for n in range(3):
            made = replace(long(f"p-{n}"), created_at=now, expires_at=now + HOUR)
            await trust.propose(replace(made, hash=hash_of(made)), most_pending=9)
        assert place.settings.state_dir is not None
        other = apsw.Connection(str(place.settings.state_dir / "state.db"))
        other.execute("UPDATE proposal SET told = 'nobody reads this' WHERE id != 'p-0'").fetchall()
        other.close()
        visitor = await place.visitor()
        for path in ("/", "/decided", "/proposals/p-0"):
            html = await visitor.look(path)
            assert visitor.status == 200, path
        assert "write p-0" in html
