"""Several processes on the same trust records: however many decide, run, propose or claim at once, one succeeds."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from knowledge.errors import ProposalSettled, TooManyPending
from knowledge.state.ports import StateStore
from knowledge.trust.ports import TrustChange, TrustRecord
from tests.support.processes.forked import forked
from tests.support.state.decisions import ADA, approved, no, note, proposal, put, sound, yes
from tests.support.state.ledgers import MINUTE, NOW, change, entry, open_shared
from tests.support.state.stores import Older

PROCESSES = 4
EACH = 25
"""How many proposals, secrets or changes each process tries."""


async def _decide(store: StateStore, me: int, n: int) -> bool:
    word = (yes if me % 2 else no)(f"decide-{n}", by=f"process {me}")
    return await store.trust.decide(f"decide-{n}", word) is not None


async def _claim(store: StateStore, me: int, n: int) -> bool:
    return await store.trust.claim(f"claim-{n}", f"process {me}", now=NOW, lease_s=60) is not None


async def _carry_out(store: StateStore, me: int, n: int) -> bool:
    try:
        await store.ledger.commit(entry(change(f"{n}-{me}.md", None, b"one"), proposal=f"carry_out-{n}"))
    except ProposalSettled:
        return False
    return True


async def _take(store: StateStore, _me: int, n: int) -> bool:
    return await store.trust.take_secret(f"take-{n}".encode(), "form", now=NOW) == str(n)


async def _propose(store: StateStore, me: int, n: int) -> bool:
    try:
        await store.trust.propose(proposal(f"q-{me}-{n}"), most_pending=EACH)
    except TooManyPending:
        return False
    return True


def _raised(before: TrustRecord | None, _recent: Sequence[TrustChange]) -> TrustRecord:
    return TrustRecord(ADA, (before.score if before else 0.0) + 2**-10, 0.0, 5.0, frozen=False, updated_at=NOW)


async def _update(store: StateStore, _me: int, _n: int) -> bool:
    await store.trust.update_trust_record(ADA, _raised, note=note("trust.decided"))
    return True


ACTS = {
    "decide": _decide,
    "claim": _claim,
    "carry_out": _carry_out,
    "take": _take,
    "propose": _propose,
    "update_trust_record": _update,
}


def _work(where: str, name: str, acts: Sequence[str], me: int, meeting: tuple[Any, Any]) -> None:
    barrier, answers = meeting

    async def run() -> list[list[int]]:
        store = await open_shared(where, name)
        done = []
        for act in acts:
            barrier.wait(60)
            done.append([n for n in range(EACH) if await ACTS[act](store, me, n)])
        await store.close()
        return done

    answers.put(asyncio.run(run()))


async def at_once(where: str, name: str, *acts: str) -> dict[str, list[int]]:
    """Let several processes do each act with each number, and return by act the numbers that succeeded, sorted."""
    processes = forked()
    meeting = processes.Barrier(PROCESSES), processes.Queue()
    workers = [processes.Process(target=_work, args=(where, name, acts, me, meeting)) for me in range(PROCESSES)]
    for worker in workers:
        worker.start()
    answers = [await asyncio.to_thread(meeting[1].get, timeout=120) for _ in workers]
    for worker in workers:
        await asyncio.to_thread(worker.join, 30)
    assert [worker.exitcode for worker in workers] == [0] * PROCESSES
    return {act: sorted(n for done in answers for n in done[which]) for which, act in enumerate(acts)}


async def test_of_several_processes_exactly_one_decides_executes_finishes_and_takes(where: str, schema: str) -> None:
    """1,000 replays of one approval from several processes have one effect."""
    store = await open_shared(where, schema)
    for n in range(EACH):
        await put(store, f"decide-{n}")
        await approved(store, f"claim-{n}")
        await approved(store, f"carry_out-{n}")
        await store.trust.put_secret(f"take-{n}".encode(), "form", str(n), expires_at=NOW + MINUTE)
    before = len(await store.ledger.records(limit=10_000))
    done = await at_once(where, schema, "decide", "claim", "carry_out", "take")
    assert done == {act: list(range(EACH)) for act in ("decide", "claim", "carry_out", "take")}
    assert len(await store.ledger.records(limit=10_000)) == before + 2 * EACH
    assert await sound(store)
    await store.close()


async def test_several_processes_exceed_no_limit_and_all_their_trust_changes_count(where: str, schema: str) -> None:
    store = await open_shared(where, schema)
    done = await at_once(where, schema, "propose", "update_trust_record")
    assert len(done["propose"]) == await store.trust.pending(ADA) == EACH
    trust_record = await store.trust_record(ADA)
    assert trust_record is not None
    assert trust_record.score == PROCESSES * EACH * 2**-10
    history = list(reversed(await store.history(ADA, limit=999)))
    assert [one.score_before for one in history] == [0.0, *(one.score_after for one in history[:-1])]
    assert await sound(store)
    await store.close()


async def test_one_processs_decision_wakes_another(where: str, schema: str) -> None:
    one, two = await open_shared(where, schema), await open_shared(where, schema)
    await put(one)
    woken = asyncio.create_task(two.changed(await two.last_event()))
    await one.trust.decide("p-1", yes())
    await asyncio.wait_for(woken, 60)
    found = await two.trust.proposal("p-1")
    assert found is not None
    assert found.state == "approved"
    await one.close()
    await two.close()


async def test_a_state_from_before_there_were_proposals_is_taken_over(where: str, schema: str) -> None:
    older = Older(
        postgres=2,
        sqlite=3,
        postgres_row="INSERT INTO forge.standing VALUES ('ada@desktop', 3, 3, 3.9, false, '2026-03-01 12:00Z')",
        sqlite_row="INSERT INTO standing VALUES ('ada@desktop', 3, 3, 3.9, 0, 0)",
    )
    await older.make(where, schema)
    store = await open_shared(where, schema)
    trust_record = await store.trust_record(ADA)
    assert trust_record is not None
    assert trust_record.score == 3.0
    assert (await approved(store)).state == "approved"
    assert list(await store.check()) == []
    await store.close()
