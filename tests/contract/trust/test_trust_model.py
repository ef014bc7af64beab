"""After any decisions in any order, every engine answers like the trust records in memory."""

from __future__ import annotations

import asyncio
import secrets
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge.errors import ProposalSettled, TooManyPending
from knowledge.state.ports import StateStore
from knowledge.state.sqlite.store import SqliteStateStore
from knowledge.trust.ports import Joins, TrustRecord, TrustUpdate
from tests.support.state.decisions import ADA, no, note, passkey, proposal, yes
from tests.support.state.ledgers import MINUTE, NOW, change, entry, open_shared
from tests.support.state.postgres import PostgresServer
from tests.support.state.stores import alike

IDS = ("p-0", "p-1", "p-2", "p-3")
WHO = (ADA, "bob@cursor", "cy@zed")
KEYS = (b"one", b"two")
EXPECTED = (ProposalSettled, TooManyPending, ValueError)

Act = Callable[[StateStore, int], Awaitable[object]]

ids, who, keys, minutes = st.sampled_from(IDS), st.sampled_from(WHO), st.sampled_from(KEYS), st.integers(-3, 9)


def _propose(id_: str, principal: str, kind: Any, replacing: list[str], *, lives: int, most: int, joining: bool) -> Act:
    def act(store: StateStore, minute: int) -> Awaitable[object]:
        at = NOW + minute * MINUTE
        made = proposal(id_, principal=principal, kind=kind, created_at=at, expires_at=at + lives * MINUTE)
        joins: Joins | None = (lambda one: one.expires_at > at) if joining else None
        return store.trust.propose(made, most_pending=most, replacing=replacing, joins=joins)

    return act


def _decide(id_: str, word: Any, late: int) -> Act:
    return lambda store, minute: store.trust.decide(id_, word(id_, at=NOW + (minute + late) * MINUTE))


def _claim(id_: str, runner: str, lives: int) -> Act:
    return lambda store, minute: store.trust.claim(id_, runner, now=NOW + minute * MINUTE, lease_s=lives * 60)


def _finish(id_: str, state: Any, result: str | None) -> Act:
    return lambda store, minute: store.trust.finish(id_, state, at=NOW + minute * MINUTE, result=result, error=result)


def _carry_out(id_: str, outcome: str) -> Act:
    def act(store: StateStore, minute: int) -> Awaitable[object]:
        return store.ledger.commit(
            entry(change("a.md", None, b"x"), at=NOW + minute * MINUTE, proposal=id_, outcome=outcome)
        )

    return act


def _withdraw(id_: str, principal: str) -> Act:
    return lambda store, minute: store.trust.withdraw(id_, principal, at=NOW + minute * MINUTE)


def _expire() -> Act:
    return lambda store, minute: store.trust.expire(now=NOW + minute * MINUTE)


def _update(principal: str, step: float, floor: float) -> Act:
    def change_(at: Any) -> TrustUpdate:
        def changed(before: TrustRecord | None, recent: Sequence[object]) -> TrustRecord:
            score = (before.score if before else 2.0) + step * len(recent)
            return TrustRecord(principal, score, floor, 3.9, frozen=step < 0, updated_at=at)

        return changed

    def act(store: StateStore, minute: int) -> Awaitable[object]:
        at = NOW + minute * 300 * MINUTE
        return store.trust.update_trust_record(principal, change_(at), note=note("trust.decided", at=at), unseen=2.0)

    return act


def _add_passkey(id_: bytes, count: int) -> Act:
    return lambda store, minute: store.trust.add_passkey(
        passkey(id_, sign_count=count, created_at=NOW + minute * MINUTE), note=note()
    )


def _use_passkey(id_: bytes, count: int) -> Act:
    return lambda store, minute: store.trust.use_passkey(id_, sign_count=count, at=NOW + minute * MINUTE)


def _remove_passkey(id_: bytes) -> Act:
    return lambda store, _: store.trust.remove_passkey(id_, note=note("passkey.remove"))


def _put_secret(digest: bytes, purpose: Any, value: str, lives: int) -> Act:
    return lambda store, minute: store.trust.put_secret(
        digest, purpose, value, expires_at=NOW + (minute + lives) * MINUTE
    )


def _take_secret(digest: bytes, purpose: Any) -> Act:
    return lambda store, minute: store.trust.take_secret(digest, purpose, now=NOW + minute * MINUTE)


def _note_taint(principal: str, journey: str, origins: list[str], late: int) -> Act:
    return lambda store, minute: store.trust.note_taint(principal, journey, origins, at=NOW + (minute + late) * MINUTE)


purposes, journeys = st.sampled_from(["login", "form"]), st.sampled_from(["", "j"])
acts = st.one_of(
    st.builds(
        _propose,
        ids,
        who,
        st.sampled_from(["call", "flag", "flag"]),
        st.lists(ids, max_size=2),
        lives=minutes,
        most=st.integers(1, 3),
        joining=st.booleans(),
    ),
    st.builds(_decide, ids, st.sampled_from([yes, yes, no]), st.integers(-1, 2)),
    st.builds(_claim, ids, st.sampled_from(["one", "two"]), st.integers(0, 3)),
    st.builds(_finish, ids, st.sampled_from(["executed", "failed", "superseded"]), st.sampled_from([None, "{}"])),
    st.builds(_carry_out, ids, st.sampled_from(["done", "done", "undone"])),
    st.builds(_withdraw, ids, who),
    st.builds(_expire),
    st.builds(_update, who, st.sampled_from([0.0, 0.1, -0.1]), st.sampled_from([2.0, 3.0])),
    st.builds(_add_passkey, keys, st.integers(0, 2)),
    st.builds(_use_passkey, keys, st.integers(0, 3)),
    st.builds(_remove_passkey, keys),
    st.builds(_put_secret, keys, purposes, st.sampled_from(["x", "y"]), st.integers(0, 4)),
    st.builds(_take_secret, keys, purposes),
    st.builds(_note_taint, who, journeys, st.lists(st.sampled_from(["plane", "zulip"]), max_size=2), minutes),
)


async def _done(act: Act, store: StateStore, minute: int) -> object:
    try:
        return await act(store, minute)
    except EXPECTED as error:
        return str(error)


async def _everything(store: StateStore, minute: int) -> list[object]:
    """Return everything that can be read at that minute."""
    trust, now = store.trust, NOW + minute * MINUTE
    seen: list[object] = [(await trust.proposal(id_), await trust.askers(id_)) for id_ in IDS]
    seen += [await trust.asking(IDS), await trust.asking(())]
    seen += [await trust.proposals(), await trust.proposals(before="p-1"), await trust.proposals(limit=2)]
    seen += [
        await trust.proposals(states=("pending", "executed")),
        await trust.unfinished(now=now),
        await trust.pending(),
    ]
    for principal in WHO:
        seen += [await trust.proposals(principal=principal, states=("pending",)), await trust.pending(principal)]
        seen += [await trust.proposals(principal=principal, limit=2), await trust.lines(principal=principal)]
        seen += [await store.trust_record(principal), await trust.taints(principal, "j", since=now)]
        seen += [await trust.taints(principal, "", since=now)]
        history = await store.history(principal, limit=99)
        seen.append([(one.at, one.score_before, one.score_after, one.reason, one.by) for one in history])
    for digest in KEYS:
        seen += [await trust.secret(digest, "login", now=now), await trust.secret(digest, "form", now=now)]
    seen += [
        await trust.passkeys(),
        await store.trust_records(),
        await store.ledger.records(),
        await store.ledger.chain_end(),
    ]
    return seen


@given(st.lists(acts, max_size=25))
@settings(max_examples=20)
def test_sqlite_agrees_with_memory(some: list[Act]) -> None:
    async def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            await alike(some, await SqliteStateStore.open(Path(folder) / "state.db"), _done, _everything)

    asyncio.run(run())


@pytest.mark.external
@given(some=st.lists(acts, max_size=25))
@settings(max_examples=20)
def test_postgresql_agrees_with_memory(some: list[Act], postgres: PostgresServer) -> None:
    async def run() -> None:
        await alike(some, await open_shared(postgres.url(), f"t_{secrets.token_hex(6)}"), _done, _everything)

    asyncio.run(run())
