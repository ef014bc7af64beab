"""The promises of all trust records: one suite for every engine."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from knowledge.errors import ProposalSettled, TooManyPending
from knowledge.state.ports import StateStore
from knowledge.state.retention.passages import MOST_PASSAGES
from knowledge.trust.ports import AskerLine, BearerToken, JoinedAsker, Proposal, TrustChange, TrustRecord, TrustRecords
from tests.support.state.decisions import ADA, ODD, approved, no, note, passkey, proposal, put, sound, yes
from tests.support.state.ledgers import DAY, MINUTE, NOW, change, entry, intent, revision
from tests.support.state.stores import bodies

BOB = "bob@cursor"
SECOND = timedelta(seconds=1)


@pytest.fixture
def trust(store: StateStore) -> TrustRecords:
    return store.trust


async def told(store: StateStore) -> list[str]:
    """Return which proposals had change notices, oldest first."""
    return [event.key for event in await store.events_after(0) if event.topic == "proposal"]


async def ids(trust: TrustRecords, **asked: Any) -> list[str]:
    return [one.id for one in await trust.proposals(**asked)]


# --- proposing --------------------------------------------------------------------------------------------------------


async def test_a_proposal_is_returned_as_made_to_the_last_character(trust: TrustRecords) -> None:
    """A person must see the request unchanged, and its hash must match: no engine may normalise anything."""
    odd = proposal(
        "p-odd",
        kind="flag",
        arguments=json.dumps([{"content": ODD}]),
        why=ODD,
        documents=(ODD,),
        revisions={ODD: None},
        preview=json.dumps(ODD) * 20_000,
        journey="j-1",
        origin="p-0",
    )
    for made in (proposal(), odd):
        assert await trust.propose(made, most_pending=9) == made
        assert await trust.proposal(made.id) == made
    assert await trust.proposal("p-2") is None


async def test_proposals_are_listed_newest_first_by_principal_and_state_and_page_by_page(store: StateStore) -> None:
    for n in range(5):
        # Proposed in this order, whatever their clocks say.
        await put(store, f"p-{n}", created_at=NOW - n * MINUTE, principal=BOB if n == 3 else ADA)
    await store.trust.decide("p-1", yes("p-1"))
    await store.trust.decide("p-2", no("p-2"))
    trust = store.trust
    assert await ids(trust) == ["p-4", "p-3", "p-2", "p-1", "p-0"]
    assert await ids(trust, principal=ADA) == ["p-4", "p-2", "p-1", "p-0"]
    assert await ids(trust, states=("approved", "rejected")) == ["p-2", "p-1"]
    assert await ids(trust, principal=ADA, states=("pending",)) == ["p-4", "p-0"]
    assert await ids(trust, limit=2) == ["p-4", "p-3"]
    assert await ids(trust, limit=2, before="p-3") == ["p-2", "p-1"]
    assert await ids(trust, before="p-0") == await ids(trust, before="unknown") == []
    assert (await trust.pending(), await trust.pending(ADA), await trust.pending("nobody")) == (3, 2, 0)


async def test_an_id_has_one_proposal(store: StateStore) -> None:
    await put(store)
    with pytest.raises(ValueError, match="p-1 exists already"):
        await put(store, why="another", principal=BOB)
    assert await store.trust.proposal("p-1") == proposal()
    assert await told(store) == ["p-1"]


async def test_a_principal_has_a_limited_number_of_pending_calls(store: StateStore) -> None:
    """Design, section 6: at most 20 pending per principal; flags and checkpoints do not count."""
    trust = store.trust
    for n in range(3):
        await trust.propose(proposal(f"p-{n}"), most_pending=3)
    with pytest.raises(TooManyPending, match=ADA):
        await trust.propose(proposal("p-3"), most_pending=3)
    assert await trust.proposal("p-3") is None
    await trust.propose(proposal("f-1", kind="flag"), most_pending=3)
    await trust.propose(proposal("p-4", principal=BOB), most_pending=3)
    assert await trust.pending(ADA) == 4
    await trust.withdraw("p-0", ADA, at=NOW)
    await trust.propose(proposal("p-5"), most_pending=3)
    assert await told(store) == ["p-0", "p-1", "p-2", "f-1", "p-4", "p-0", "p-5"]


async def test_a_replaced_proposal_is_superseded_and_makes_room(store: StateStore) -> None:
    trust = store.trust
    for n in range(3):
        await trust.propose(proposal(f"p-{n}"), most_pending=3)
    await put(store, "b-1", principal=BOB)
    await trust.decide("p-2", yes("p-2"))
    newer = proposal("p-3", created_at=NOW + MINUTE)
    with pytest.raises(TooManyPending):
        await trust.propose(newer, most_pending=2)
    await trust.propose(newer, most_pending=2, replacing=["p-0", "p-2", "b-1", "unknown", "p-3"])
    old = await trust.proposal("p-0")
    assert old == replace(proposal("p-0"), state="superseded", ended_at=NOW + MINUTE, successor="p-3")
    states = {one.id: one.state for one in await trust.proposals()}
    assert states == {"p-3": "pending", "b-1": "pending", "p-2": "approved", "p-1": "pending", "p-0": "superseded"}
    assert (await told(store))[-2:] == ["p-0", "p-3"]


async def test_one_that_is_made_from_a_decided_proposal_does_not_take_its_place(store: StateStore) -> None:
    trust = store.trust
    await put(store, "p-1")
    await trust.decide("p-1", yes("p-1"))
    with pytest.raises(ProposalSettled, match="p-1"):
        await trust.propose(proposal("p-2", origin="p-1"), most_pending=9, replacing=["p-1"])
    assert await trust.proposal("p-2") is None
    await trust.propose(proposal("p-3", origin="p-1"), most_pending=9)


# --- hosts that ask for the same --------------------------------------------------------------------------------------


def same(id_: str, principal: str = BOB, **more: Any) -> Proposal:
    """Return a flag with the same question as every other one, in the words of its own call."""
    told = {"arguments": f'[{{"content":"of {id_}"}}]', "why": f"{id_} says so", "preview": f'{{"sentence":"{id_}"}}'}
    return proposal(id_, **{"kind": "flag", "principal": principal, **told, **more})


async def ask(store: StateStore, id_: str, principal: str = BOB, *, most: int = 9, **more: Any) -> Proposal:
    """Propose it, or join the proposal with the same question."""
    return await store.trust.propose(same(id_, principal, **more), most_pending=most, joins=lambda _: True)


async def test_the_same_question_joins_the_proposal_and_leaves_it_unchanged(store: StateStore) -> None:
    """ADR 0056: one question, one proposal. Its hash covers what the person sees."""
    trust = store.trust
    first = await ask(store, "p-1", ADA)
    at = NOW + MINUTE
    assert await ask(store, "p-2", BOB, created_at=at, level_held=3, journey="j-2") == first
    assert await trust.proposal("p-1") == first
    assert await trust.proposal("p-2") is None
    (bob,) = await trust.askers("p-1")
    own = same("p-2")
    assert bob == JoinedAsker(BOB, at, own.arguments, 3, own.why, own.preview, "j-2")
    assert await trust.asking(["p-1", "p-2"]) == {"p-1": [AskerLine(BOB, at)]}
    for principal in (ADA, BOB):
        assert await ids(trust, principal=principal, states=("pending",)) == ["p-1"]
        assert [one.id for one in await trust.lines(principal=principal)] == ["p-1"]
        assert await trust.pending(principal) == 1
    assert (await trust.pending(), await ids(trust, principal="eve@zed")) == (1, [])
    (said,) = await bodies(store)
    assert (said["principal"], said["tool"], said["proposal"], said["outcome"]) == (
        BOB,
        "proposal.join",
        "p-1",
        "joined",
    )
    assert await told(store) == ["p-1", "p-1"]
    assert await sound(store)


async def test_asking_again_joins_once(store: StateStore) -> None:
    await ask(store, "p-1", ADA)
    for n in range(2, 5):
        await ask(store, f"p-{n}", BOB)
    assert [one.principal for one in await store.trust.askers("p-1")] == [BOB]
    assert len(await bodies(store)) == 1
    assert await store.trust.pending(BOB) == 1


@pytest.mark.parametrize(
    "other",
    [
        {"kind": "call"},
        {"tool": "kb_move"},
        {"effect": "dd" * 32},
        {"principal": BOB},
    ],
)
async def test_only_the_same_question_of_another_principal_is_joined(store: StateStore, other: dict[str, Any]) -> None:
    await store.trust.propose(same("p-1", **{"principal": ADA, **other}), most_pending=9)
    assert (await ask(store, "p-2", BOB)).id == "p-2"
    assert await store.trust.asking(["p-1"]) == {}


async def test_nobody_joins_unasked_or_against_the_callers_check(store: StateStore) -> None:
    await ask(store, "p-1", ADA)
    assert (await store.trust.propose(same("p-2"), most_pending=9)).id == "p-2"
    refused = await store.trust.propose(same("p-3", "eve@zed"), most_pending=9, joins=lambda one: one.id == "p-2")
    assert refused.id == "p-2"
    assert (await store.trust.propose(same("p-4", "cy@zed"), most_pending=9, joins=lambda _: False)).id == "p-4"


@pytest.mark.parametrize("end", [yes, no])
async def test_a_decided_proposal_is_joined_by_nobody(store: StateStore, end: Any) -> None:
    await ask(store, "p-1", ADA)
    await store.trust.decide("p-1", end("p-1"))
    assert (await ask(store, "p-2", BOB)).id == "p-2"
    assert await store.trust.askers("p-1") == []


async def test_joining_counts_towards_the_limit_of_pending_ones(store: StateStore) -> None:
    await ask(store, "p-1", ADA)
    await ask(store, "p-2", BOB, effect="dd" * 32)
    with pytest.raises(TooManyPending, match=BOB):
        await ask(store, "p-3", BOB, most=1)
    assert await store.trust.askers("p-1") == []
    await ask(store, "p-3", BOB, most=2)
    with pytest.raises(TooManyPending, match=BOB):
        await ask(store, "p-4", BOB, most=2, effect="ee" * 32)
    await store.trust.withdraw("p-1", BOB, at=NOW)
    assert (await ask(store, "p-4", BOB, most=2, effect="ee" * 32)).id == "p-4"


async def test_a_joiner_withdraws_only_itself_and_the_maker_waits_for_the_others(store: StateStore) -> None:
    trust = store.trust
    first = await ask(store, "p-1", ADA)
    await ask(store, "p-2", BOB)
    assert await trust.withdraw("p-1", ADA, at=NOW) is None
    assert await trust.withdraw("p-1", "eve@zed", at=NOW) is None
    assert await trust.withdraw("p-1", BOB, at=NOW + MINUTE) == first
    (bob,) = await trust.askers("p-1")
    assert bob.left_at == NOW + MINUTE
    assert (await trust.asking(["p-1"]), await ids(trust, principal=BOB), await trust.pending(BOB)) == ({}, [], 0)
    assert await trust.withdraw("p-1", BOB, at=NOW) is None
    # It may ask again, and then comes last.
    await ask(store, "p-3", "cy@zed")
    assert (await ask(store, "p-4", BOB, created_at=NOW + DAY)).id == "p-1"
    assert [one.principal for one in (await trust.asking(["p-1"]))["p-1"]] == ["cy@zed", BOB]
    for principal in (BOB, "cy@zed"):
        await trust.withdraw("p-1", principal, at=NOW)
    ended = await trust.withdraw("p-1", ADA, at=NOW)
    assert ended is not None
    assert ended.state == "withdrawn"
    said = [(one["principal"], one["tool"], one["outcome"]) for one in await bodies(store)]
    assert said == [
        (BOB, "proposal.join", "joined"),
        (BOB, "proposal.withdraw", "withdrawn"),
        ("cy@zed", "proposal.join", "joined"),
        (BOB, "proposal.join", "joined"),
        (BOB, "proposal.withdraw", "withdrawn"),
        ("cy@zed", "proposal.withdraw", "withdrawn"),
        (ADA, "proposal.withdraw", "withdrawn"),
    ]


async def test_a_joining_proposal_supersedes_what_it_replaces(store: StateStore) -> None:
    await ask(store, "p-1", ADA)
    await ask(store, "p-2", BOB, effect="dd" * 32)
    joined = await store.trust.propose(same("p-3"), most_pending=1, replacing=["p-2"], joins=lambda _: True)
    assert joined.id == "p-1"
    old = await store.trust.proposal("p-2")
    assert old is not None
    assert (old.state, old.successor) == ("superseded", "p-1")


async def test_all_askers_texts_are_shortened_with_the_proposal(store: StateStore) -> None:
    long = json.dumps([{"content": "x" * 50_000}])
    await ask(store, "p-1", ADA)
    await ask(store, "p-2", BOB, arguments=long)
    await store.trust.decide("p-1", no("p-1"))
    (bob,) = await store.trust.askers("p-1")
    assert len(bob.arguments) < 5_000
    shortened = await store.trust.shorten(ended_before=NOW + DAY, limit=9)
    assert shortened.records == 1
    (later,) = await store.trust.askers("p-1")
    assert len(later.arguments) < 700


async def test_of_many_concurrent_equal_questions_one_proposes_and_the_others_join(store: StateStore) -> None:
    who = [f"one@host-{n}" for n in range(8)]
    asked = await asyncio.gather(*(ask(store, f"p-{n}", principal) for n, principal in enumerate(who)))
    (id_,) = {one.id for one in asked}
    first = await store.trust.proposal(id_)
    assert first is not None
    others = [one.principal for one in (await store.trust.asking([id_]))[id_]]
    assert sorted([first.principal, *others]) == who
    assert await sound(store)


async def test_one_that_joins_while_it_is_decided_asks_for_one_that_waits_or_was_decided(store: StateStore) -> None:
    """Nobody joins a proposal that ended before they asked."""
    for n in range(12):
        effect = f"{n:02}" * 32
        await ask(store, f"a-{n}", ADA, most=99, effect=effect)
        got, decided = await asyncio.gather(
            ask(store, f"b-{n}", BOB, most=99, effect=effect), store.trust.decide(f"a-{n}", no(f"a-{n}"))
        )
        assert decided is not None
        others = [one.principal for one in await store.trust.askers(f"a-{n}")]
        assert (got.id, others) in [(f"a-{n}", [BOB]), (f"b-{n}", [])]
    assert await sound(store)


# --- deciding ---------------------------------------------------------------------------------------------------------


async def test_an_approval_is_recorded_with_approver_channel_and_hash_and_put_on_the_chain(store: StateStore) -> None:
    verdict = yes(note="as discussed", signed="blue key")
    await put(store)
    assert await store.trust.decide("p-1", verdict) == replace(proposal(), state="approved", verdict=verdict)
    assert await store.trust.proposal("p-1") == replace(proposal(), state="approved", verdict=verdict)
    (said,) = await bodies(store)
    assert len(said.pop("arguments_hash")) == 64
    assert said == {
        "seq": 1,
        "at": "2026-03-01T12:01:00.123456+00:00",
        "principal": "ann",
        "tool": "proposal.decide",
        "changes": [],
        "source": "user",
        "confidence": None,
        "proposal": "p-1",
        "decision": "approved by ann on the page, signed",
        "intent": "as discussed",
        "outcome": "approved",
    }
    assert await sound(store)
    assert await told(store) == ["p-1", "p-1"]


async def test_a_rejection_ends_the_proposal(store: StateStore) -> None:
    verdict = no(channel="terminal", advisory=True, note=ODD)
    await put(store)
    ended = replace(proposal(), state="rejected", verdict=verdict, ended_at=verdict.at)
    assert await store.trust.decide("p-1", verdict) == ended
    assert await store.trust.proposal("p-1") == ended
    (said,) = await bodies(store)
    assert (said["outcome"], said["intent"]) == ("rejected", ODD)
    assert said["decision"] == "rejected by ann in a terminal, advisory"
    assert await sound(store)


async def test_a_decision_over_anything_else_than_the_pending_hash_has_no_effect(store: StateStore) -> None:
    """A person's approval means exactly what they saw."""
    trust = store.trust
    await put(store, expires_at=NOW + MINUTE)
    await put(store, "p-2")
    for word in (yes("p-1", hash="another"), yes("p-1", at=NOW + MINUTE), no("p-1", at=NOW + DAY)):
        assert await trust.decide("p-1", word) is None
    assert await trust.decide("p-3", yes("p-3")) is None
    assert await trust.proposal("p-1") == proposal(expires_at=NOW + MINUTE)
    assert await trust.decide("p-1", yes(at=NOW + MINUTE - SECOND)) is not None
    await trust.withdraw("p-2", ADA, at=NOW)
    for id_ in ("p-1", "p-2"):
        before = await trust.proposal(id_)
        for word in (yes(id_), no(id_)):
            assert await trust.decide(id_, word) is None
        assert await trust.proposal(id_) == before
    assert [said["outcome"] for said in await bodies(store)] == ["approved", "withdrawn"]
    assert await told(store) == ["p-1", "p-2", "p-1", "p-2"]


async def test_a_pending_proposal_is_taken_back_by_its_principal_only(store: StateStore) -> None:
    await put(store)
    assert await store.trust.withdraw("p-1", BOB, at=NOW) is None
    assert await store.trust.withdraw("p-2", ADA, at=NOW) is None
    ended = replace(proposal(), state="withdrawn", ended_at=NOW + MINUTE)
    assert await store.trust.withdraw("p-1", ADA, at=NOW + MINUTE) == ended
    assert await store.trust.withdraw("p-1", ADA, at=NOW + MINUTE) is None
    assert await store.trust.proposal("p-1") == ended
    (said,) = await bodies(store)
    assert (said["principal"], said["tool"], said["proposal"]) == (ADA, "proposal.withdraw", "p-1")
    assert (said["outcome"], said["decision"]) == ("withdrawn", f"withdrawn by {ADA}")
    assert await told(store) == ["p-1", "p-1"]


async def test_an_overdue_proposal_expires_once(store: StateStore) -> None:
    for n, days in enumerate((7, 1, 2, 1)):
        await put(store, f"p-{n}", expires_at=NOW + days * DAY)
    await store.trust.decide("p-3", yes("p-3"))
    assert await store.trust.expire(now=NOW + DAY - SECOND) == []
    assert await store.trust.expire(now=NOW + 2 * DAY) == ["p-1", "p-2"]
    assert await store.trust.expire(now=NOW + 2 * DAY) == []
    ended = await store.trust.proposal("p-2")
    assert ended == proposal("p-2", expires_at=NOW + 2 * DAY, state="expired", ended_at=NOW + 2 * DAY)
    assert await store.trust.pending() == 1
    assert (await told(store))[-2:] == ["p-1", "p-2"]


# --- carrying out -----------------------------------------------------------------------------------------------------


async def test_an_approved_proposal_is_run_by_one_until_its_time_is_over(store: StateStore) -> None:
    trust = store.trust
    made = await approved(store)
    held = replace(made, runner="one", runs_until=NOW + MINUTE)
    assert await trust.claim("p-1", "one", now=NOW, lease_s=60) == held
    assert await trust.proposal("p-1") == held
    assert await trust.claim("p-1", "two", now=NOW + MINUTE - SECOND, lease_s=60) is None
    longer = await trust.claim("p-1", "one", now=NOW + 30 * SECOND, lease_s=60)
    assert longer == replace(made, runner="one", runs_until=NOW + 90 * SECOND)
    taken = await trust.claim("p-1", "two", now=NOW + 90 * SECOND, lease_s=60)
    assert taken == replace(made, runner="two", runs_until=NOW + 150 * SECOND)
    assert await trust.claim("p-1", "one", now=NOW + 91 * SECOND, lease_s=60) is None


async def test_a_claim_that_ends_later_than_it_could_is_void(store: StateStore) -> None:
    """The process died, and its clock, which had been an hour ahead, was corrected.

    Nobody executed the proposal for that hour.
    """
    trust = store.trust
    await approved(store)
    assert await trust.claim("p-1", "one", now=NOW + 60 * MINUTE, lease_s=60)
    assert await trust.unfinished(now=NOW)
    taken = await trust.claim("p-1", "two", now=NOW, lease_s=60)
    assert taken is not None
    assert (taken.runner, taken.runs_until) == ("two", NOW + MINUTE)
    assert not await trust.unfinished(now=NOW)


async def test_only_approved_proposals_are_executed(store: StateStore) -> None:
    await put(store, "p-1")
    await put(store, "p-2")
    await store.trust.decide("p-2", no("p-2"))
    for id_ in ("p-1", "p-2", "p-3"):
        assert await store.trust.claim(id_, "one", now=NOW, lease_s=60) is None
        assert await store.trust.finish(id_, "executed", at=NOW, result="{}") is None


@pytest.mark.parametrize("state", ["executed", "failed", "superseded"])
async def test_an_approved_proposal_ends_once_with_its_outcome(store: StateStore, state: Any) -> None:
    made = await approved(store)
    told_of_it: dict[str, Any] = {"result": '{"é":"🗺"}', "error": "no\x00t now", "successor": "p-2"}
    ended = replace(made, state=state, ended_at=NOW + DAY, **{**told_of_it, "error": "no\ufffdt now"})
    assert await store.trust.finish("p-1", state, at=NOW + DAY, **told_of_it) == ended
    assert await store.trust.proposal("p-1") == ended
    assert await store.trust.finish("p-1", "failed", at=NOW, error="late") is None
    assert await store.trust.claim("p-1", "one", now=NOW, lease_s=60) is None
    assert await store.trust.proposal("p-1") == ended
    assert await told(store) == ["p-1"] * 3


async def test_the_act_that_carries_it_out_ends_the_proposal_in_the_same_transaction(store: StateStore) -> None:
    """Decision 27: an execution happens once because its act commits once."""
    made = await approved(store)
    held = await store.trust.claim("p-1", "one", now=NOW, lease_s=60)
    assert held is not None
    act = entry(change("a.md", None, b"one"), at=NOW + MINUTE, proposal="p-1", decision="approved by ann")
    await store.ledger.commit(act)
    executed = replace(made, state="executed", ended_at=NOW + MINUTE, runner="one", runs_until=held.runs_until)
    assert await store.trust.proposal("p-1") == executed
    assert [(e.topic, e.key) for e in await store.events_after(0)][-2:] == [("proposal", "p-1"), ("doc", "a.md")]
    with pytest.raises(ProposalSettled, match="p-1"):
        await store.ledger.commit(entry(change("a.md", b"one", b"two"), proposal="p-1"))
    assert len(await bodies(store)) == 2
    assert len(await store.ledger.history("a.md", limit=9)) == 1
    assert await sound(store)


async def test_a_proposal_ended_by_the_ledger_only_gets_its_result_once(store: StateStore) -> None:
    await approved(store)
    await store.ledger.commit(entry(at=NOW + MINUTE, proposal="p-1"))
    ended = await store.trust.finish("p-1", "failed", at=NOW + DAY, result="[1]", error="crashed", successor="p-2")
    assert ended is not None
    assert (ended.state, ended.result, ended.ended_at) == ("executed", "[1]", NOW + MINUTE)
    assert (ended.error, ended.successor) == (None, None)
    assert await store.trust.finish("p-1", "executed", at=NOW, result="[2]") is None
    assert await store.trust.proposal("p-1") == ended


@pytest.mark.parametrize("end", ["pending", "rejected", "withdrawn", "failed", "executed"])
async def test_an_act_for_a_proposal_that_is_not_approved_is_not_recorded_and_stays_under_way(
    store: StateStore, end: str
) -> None:
    await put(store)
    if end in ("failed", "executed"):
        await store.trust.decide("p-1", yes())
        await store.trust.finish("p-1", end, at=NOW)  # type: ignore[arg-type]  # one of the two
    elif end == "rejected":
        await store.trust.decide("p-1", no())
    elif end == "withdrawn":
        await store.trust.withdraw("p-1", ADA, at=NOW)
    before = await store.trust.proposal("p-1"), await store.ledger.records(), await store.last_event()
    begun = intent("act", change("a.md", None, b"one"), proposal="p-1")
    await store.ledger.intend(begun, [b"one"])
    with pytest.raises(ProposalSettled):
        await store.ledger.commit(begun.entry, intent_id="act")
    assert (await store.trust.proposal("p-1"), await store.ledger.records(), await store.last_event()) == before
    assert list(await store.ledger.history("a.md", limit=9)) == []
    assert list(await store.ledger.intents()) == [begun]


async def test_an_act_that_was_taken_back_leaves_its_proposal_approved(store: StateStore) -> None:
    made = await approved(store)
    await store.ledger.commit(entry(proposal="p-1", outcome="undone"))
    assert await store.trust.proposal("p-1") == made


async def test_an_act_may_name_an_unknown_proposal(store: StateStore) -> None:
    """Records from before there were proposals, and the flags of an act, name an id that was never proposed."""
    await store.ledger.commit(entry(change("a.md", None, b"one"), proposal=f"flag {ODD}"))
    assert await told(store) == []
    assert len(await bodies(store)) == 1


async def test_something_is_unfinished_while_nobody_sees_to_it(store: StateStore) -> None:
    trust = store.trust
    assert not await trust.unfinished(now=NOW)
    await put(store, "p-1", expires_at=NOW + DAY)
    assert not await trust.unfinished(now=NOW)
    assert await trust.unfinished(now=NOW + DAY)
    await trust.decide("p-1", yes())
    assert await trust.unfinished(now=NOW)
    await trust.claim("p-1", "one", now=NOW, lease_s=60)
    assert not await trust.unfinished(now=NOW + MINUTE - SECOND)
    assert await trust.unfinished(now=NOW + MINUTE)
    await store.ledger.commit(entry(proposal="p-1"))
    assert not await trust.unfinished(now=NOW)
    assert await trust.unfinished(now=NOW + MINUTE)
    await trust.finish("p-1", "executed", at=NOW, result="{}")
    assert not await trust.unfinished(now=NOW + 99 * DAY)
    await put(store, "p-2")
    await trust.decide("p-2", no("p-2"))
    assert not await trust.unfinished(now=NOW + 99 * DAY)


# --- standing ---------------------------------------------------------------------------------------------------------


def trust_record(score: float = 2.5, **more: Any) -> TrustRecord:
    known = TrustRecord(ADA, score, floor=2.0, ceiling=3.9, frozen=False, updated_at=NOW)
    return replace(known, **more)


async def test_a_trust_change_sees_the_record_and_is_in_history_and_on_the_chain(store: StateStore) -> None:
    seen: list[tuple[TrustRecord | None, list[float]]] = []

    def raised(before: TrustRecord | None, recent: Sequence[TrustChange]) -> TrustRecord:
        seen.append((before, [one.score_after for one in recent]))
        return trust_record((before.score if before else 2.0) + 0.25)

    for hours in (0, 1, 24, 30):
        said = note("trust.decided", ADA, at=NOW + timedelta(hours=hours), reason="p-1 was approved")
        await store.trust.update_trust_record(ADA, raised, note=said, unseen=2.0)
    assert seen == [
        (None, []),
        (trust_record(2.25), [2.25]),
        (trust_record(2.5), [2.5]),
        (trust_record(2.75), [2.75]),
    ]
    newest, *_, oldest = await store.history(ADA, limit=9)
    assert (newest.score_before, newest.score_after, newest.reason, newest.by) == (2.75, 3.0, "p-1 was approved", "ann")
    assert (oldest.score_before, oldest.at) == (2.0, NOW)
    assert await store.trust_record(ADA) == trust_record(3.0)
    *_, said_last = await bodies(store)
    assert said_last["standing"] == {"principal": ADA, "before": 2.75, "after": 3.0, "frozen": False}
    assert (said_last["principal"], said_last["tool"], said_last["outcome"]) == ("ann", "trust.decided", "trust")
    assert (said_last["intent"], said_last["decision"]) == ("p-1 was approved", ADA)
    assert await sound(store)


async def test_the_changes_of_other_principals_are_not_looked_back_at(store: StateStore) -> None:
    other = TrustRecord(BOB, 3.0, floor=2.0, ceiling=3.9, frozen=False, updated_at=NOW)
    await store.trust.update_trust_record(BOB, lambda _b, _r: other, note=note("trust.grant"))
    looked: list[object] = []

    def change_(before: TrustRecord | None, recent: Sequence[TrustChange]) -> TrustRecord:
        looked.append((before, list(recent)))
        return trust_record()

    await store.trust.update_trust_record(ADA, change_, note=note("trust.grant"))
    assert looked == [(None, [])]
    assert list(await store.trust_records()) == [trust_record(), other]


async def test_where_nothing_but_the_time_changes_nothing_is_recorded(store: StateStore) -> None:
    await store.trust.update_trust_record(ADA, lambda _b, _r: trust_record(), note=note("trust.grant"))
    same = await store.trust.update_trust_record(
        ADA, lambda _b, _r: trust_record(updated_at=NOW + DAY), note=note("trust.grant")
    )
    assert same == await store.trust_record(ADA) == trust_record()
    assert len(await store.history(ADA, limit=9)) == len(await bodies(store)) == 1
    frozen = trust_record(frozen=True)
    assert await store.trust.update_trust_record(ADA, lambda _b, _r: frozen, note=note("trust.freeze")) == frozen
    assert (await bodies(store))[-1]["standing"]["frozen"] is True


async def test_a_failed_change_leaves_everything_unchanged(store: StateStore) -> None:
    await store.trust.update_trust_record(ADA, lambda _b, _r: trust_record(), note=note("trust.grant"))

    def broken(_before: TrustRecord | None, _recent: Sequence[TrustChange]) -> TrustRecord:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await store.trust.update_trust_record(ADA, broken, note=note("trust.grant"))
    with pytest.raises(ValueError, match="cannot replace one of"):
        await store.trust.update_trust_record(BOB, lambda _b, _r: trust_record(), note=note("trust.grant"))
    assert list(await store.trust_records()) == [trust_record()]
    assert len(await bodies(store)) == 1
    assert (
        await store.trust.update_trust_record(ADA, lambda _b, _r: trust_record(3.0), note=note("trust.grant"))
    ).score == 3.0


# --- passkeys ---------------------------------------------------------------------------------------------------------


async def test_passkeys_are_enrolled_listed_oldest_first_and_removed_on_the_chain(store: StateStore) -> None:
    trust = store.trust
    keys = [passkey(b"\x00\xff", created_at=NOW + MINUTE, sign_count=2**31), passkey(b"key-2", name="grün 🔑")]
    for key in keys:
        await trust.add_passkey(key, note=note(about=key.name, reason="new telephone"))
    with pytest.raises(ValueError, match="already"):
        await trust.add_passkey(passkey(b"key-2", public_key=b"other"), note=note())
    assert list(await trust.passkeys()) == [keys[1], keys[0]]
    assert await trust.remove_passkey(b"\x00\xff", note=note("passkey.remove"))
    assert not await trust.remove_passkey(b"\x00\xff", note=note("passkey.remove"))
    assert list(await trust.passkeys()) == [keys[1]]
    assert [(one["tool"], one["outcome"], one["decision"]) for one in await bodies(store)] == [
        ("passkey.add", "trust", "blue key"),
        ("passkey.add", "trust", "grün 🔑"),
        ("passkey.remove", "trust", "blue key"),
    ]
    assert await sound(store)


async def test_the_record_of_a_passkey_is_bound_to_its_public_key(store: StateStore) -> None:
    """So a key exchanged by hand in the table has no record, which `audit verify` reports."""
    for key in (b"one", b"two", b"one"):
        await store.trust.add_passkey(passkey(public_key=key), note=note())
        await store.trust.remove_passkey(b"key-1", note=note("passkey.remove"))
    one, two, again = [said["arguments_hash"] for said in await bodies(store) if said["tool"] == "passkey.add"]
    assert one == again != two


async def test_a_passkey_whose_count_does_not_grow_is_not_used(trust: TrustRecords) -> None:
    """W3C Web Authentication, section 6.1.1: a count that doesn't grow suggests a copied authenticator."""
    await trust.add_passkey(passkey(b"counts", sign_count=5), note=note())
    await trust.add_passkey(passkey(b"never"), note=note())
    for count, accepted in ((5, False), (0, False), (6, True), (6, False), (9, True)):
        assert await trust.use_passkey(b"counts", sign_count=count, at=NOW + count * MINUTE) is accepted
    for count, accepted in ((0, True), (0, True), (1, True), (0, False)):
        assert await trust.use_passkey(b"never", sign_count=count, at=NOW + DAY) is accepted
    assert not await trust.use_passkey(b"unknown", sign_count=1, at=NOW)
    used = {key.id: (key.sign_count, key.used_at) for key in await trust.passkeys()}
    assert used == {b"counts": (9, NOW + 9 * MINUTE), b"never": (1, NOW + DAY)}


# --- secrets ----------------------------------------------------------------------------------------------------------


async def test_a_secret_has_its_value_and_purpose_until_it_expires(trust: TrustRecords) -> None:
    await trust.put_secret(b"\x00digest", "session", "ann", expires_at=NOW + MINUTE)
    await trust.put_secret(b"\x00digest", "form", "p-1", expires_at=NOW + MINUTE)
    assert await trust.secret(b"\x00digest", "session", now=NOW) == "ann"
    assert await trust.secret(b"\x00digest", "form", now=NOW) == "p-1"
    assert await trust.secret(b"\x00digest", "login", now=NOW) is None
    assert await trust.secret(b"other", "session", now=NOW) is None
    assert await trust.secret(b"\x00digest", "session", now=NOW + MINUTE) is None
    await trust.put_secret(b"\x00digest", "session", "bob", expires_at=NOW + DAY)
    assert await trust.secret(b"\x00digest", "session", now=NOW + MINUTE) == "bob"


async def test_a_taken_secret_is_gone_and_so_are_expired_ones(trust: TrustRecords) -> None:
    for digest, minutes in ((b"one", 9), (b"old", 1), (b"two", 9)):
        await trust.put_secret(digest, "login", digest.decode(), expires_at=NOW + minutes * MINUTE)
    assert await trust.take_secret(b"one", "form", now=NOW) is None
    assert await trust.take_secret(b"one", "login", now=NOW) == "one"
    assert await trust.take_secret(b"one", "login", now=NOW) is None
    assert await trust.take_secret(b"old", "login", now=NOW + 2 * MINUTE) is None
    assert await trust.secret(b"old", "login", now=NOW) is None
    assert await trust.take_secret(b"two", "login", now=NOW + 9 * MINUTE) is None
    assert await trust.take_secret(b"two", "login", now=NOW) is None


# --- taint ------------------------------------------------------------------------------------------------------------


async def test_reading_is_remembered_by_caller_and_journey(trust: TrustRecords) -> None:
    """Design, section 6: for that journey, or, outside of one, for an hour."""
    await trust.note_taint(ADA, "", ["plane", "zulip:general"], at=NOW)
    await trust.note_taint(ADA, "j-1", ["https://example.org/"], at=NOW - DAY)
    await trust.note_taint(ADA, "j-2", ["inbox/mail.md"], at=NOW)
    await trust.note_taint(BOB, "", ["plane"], at=NOW)
    hour = NOW - timedelta(hours=1)
    assert await trust.taints(ADA, "", since=hour) == {"plane": NOW, "zulip:general": NOW}
    assert await trust.taints(ADA, "", since=NOW + SECOND) == {}
    assert await trust.taints(ADA, "j-1", since=NOW + SECOND) == {"https://example.org/": NOW - DAY}
    assert await trust.taints(ADA, "j-1", since=NOW) == {
        "plane": NOW,
        "zulip:general": NOW,
        "https://example.org/": NOW - DAY,
    }
    assert await trust.taints("nobody", "", since=hour) == {}


async def test_the_newest_reading_counts_whatever_the_order_of_telling(trust: TrustRecords) -> None:
    long = "https://example.org/" + "long/" * 2_000 + ODD.replace("\x00", "")
    for minute in (0, 5, 3):
        await trust.note_taint(ADA, "j", ["plane", "plane", long], at=NOW + minute * MINUTE)
    await trust.note_taint(ADA, "j", [], at=NOW)
    await trust.note_taint(ADA, "", ["plane"], at=NOW + 9 * MINUTE)
    found = await trust.taints(ADA, "j", since=NOW)
    assert found["plane"] == NOW + 9 * MINUTE
    assert sorted(found.values()) == [NOW + 5 * MINUTE, NOW + 9 * MINUTE]


async def test_taint_within_thirty_days_is_never_forgotten(trust: TrustRecords) -> None:
    await trust.note_taint(ADA, "j", ["plane"], at=NOW)
    await trust.note_taint(ADA, "j", ["zulip"], at=NOW + 30 * DAY)
    assert set(await trust.taints(ADA, "j", since=NOW)) == {"plane", "zulip"}


async def test_taint_of_a_journey_or_run_is_not_forgotten_however_long_it_waits_for_a_person(
    trust: TrustRecords,
) -> None:
    for where in ("", "r-1"):
        await trust.note_taint(ADA, where, [f"plane of {where!r}"], at=NOW)
    for where in ("", "r-1", "r-2"):
        await trust.note_taint(ADA, where, ["zulip"], at=NOW + 300 * DAY)
    assert set(await trust.taints(ADA, "r-1", since=NOW)) == {"plane of 'r-1'", "zulip"}


# --- at once ----------------------------------------------------------------------------------------------------------


async def test_of_many_concurrent_decisions_exactly_one_counts(store: StateStore) -> None:
    await put(store)
    words = [yes(by=f"p{n}") if n % 2 else no(by=f"p{n}") for n in range(20)]
    counted = [one for one in await asyncio.gather(*(store.trust.decide("p-1", word) for word in words)) if one]
    assert len(counted) == 1
    assert await store.trust.proposal("p-1") == counted[0]
    assert len(await bodies(store)) == 1
    assert await sound(store)


async def test_of_many_concurrent_claims_exactly_one_executes(store: StateStore) -> None:
    await approved(store)
    claims = (store.trust.claim("p-1", f"r{n}", now=NOW, lease_s=60) for n in range(20))
    assert sum(claimed is not None for claimed in await asyncio.gather(*claims)) == 1


async def test_of_many_concurrent_executions_exactly_one_is_recorded(store: StateStore) -> None:
    await approved(store)
    acts = [entry(change(f"{n}.md", None, b"one"), proposal="p-1") for n in range(20)]
    ends = await asyncio.gather(*(store.ledger.commit(act) for act in acts), return_exceptions=True)
    assert sum(isinstance(end, ProposalSettled) for end in ends) == 19, ends
    assert len(await bodies(store)) == 2
    written = [await store.ledger.history(f"{n}.md", limit=2) for n in range(20)]
    assert sum(len(lines) for lines in written) == 1


async def test_of_many_concurrent_takers_of_a_secret_exactly_one_gets_it(store: StateStore) -> None:
    await store.trust.put_secret(b"digest", "login", "ann", expires_at=NOW + MINUTE)
    takes = (store.trust.take_secret(b"digest", "login", now=NOW) for _ in range(20))
    assert sorted(filter(None, await asyncio.gather(*takes))) == ["ann"]


async def test_many_concurrent_proposals_exceed_no_limit(store: StateStore) -> None:
    made = (store.trust.propose(proposal(f"p-{n}"), most_pending=5) for n in range(20))
    ends = await asyncio.gather(*made, return_exceptions=True)
    assert sum(isinstance(end, TooManyPending) for end in ends) == 15, ends
    assert await store.trust.pending(ADA) == 5
    assert len(await told(store)) == 5


async def test_of_many_concurrent_trust_changes_each_sees_the_previous_one(store: StateStore) -> None:
    def raised(before: TrustRecord | None, recent: Sequence[TrustChange]) -> TrustRecord:
        score = before.score if before else 0.0
        assert [one.score_after for one in recent][:1] == ([score] if before else [])
        return trust_record(score + 0.125)

    await asyncio.gather(*(store.trust.update_trust_record(ADA, raised, note=note("trust.decided")) for _ in range(20)))
    assert await store.trust_record(ADA) == trust_record(2.5)
    moves = [(one["standing"]["before"], one["standing"]["after"]) for one in await bodies(store)]
    assert moves == [(n * 0.125, (n + 1) * 0.125) for n in range(20)]
    assert await sound(store)


async def test_everything_concurrently_never_deadlocks_and_breaks_no_chain(store: StateStore) -> None:
    """Locks are taken in one order: decisions, claims, acts, expiries and changes of trust on the same proposals."""
    for n in range(6):
        await put(store, f"p-{n}", expires_at=NOW + DAY)

    async def life(n: int) -> None:
        await store.trust.decide(f"p-{n}", yes(f"p-{n}"))
        await store.trust.claim(f"p-{n}", "one", now=NOW, lease_s=60)
        await store.ledger.commit(entry(change(f"{n}.md", None, b"x"), proposal=f"p-{n}"))
        await store.trust.finish(f"p-{n}", "executed", at=NOW, result="{}")

    def change_(before: TrustRecord | None, _recent: object) -> TrustRecord:
        return trust_record((before.score if before else 0.0) + 0.125)

    async def other(n: int) -> None:
        await store.trust.propose(proposal(f"q-{n}", expires_at=NOW), most_pending=99, replacing=[f"q-{n - 1}"])
        await store.trust.expire(now=NOW)
        await store.trust.update_trust_record(ADA, change_, note=note("trust.decided"))
        await store.publish("doc", ["z.md"])

    async with asyncio.timeout(30):
        await asyncio.gather(*(life(n) for n in range(6)), *(other(n) for n in range(6)))
    states = {one.id: one.state for one in await store.trust.proposals()}
    assert [states[f"p-{n}"] for n in range(6)] == ["executed"] * 6
    assert await store.trust.pending() == 0
    assert await sound(store)
    assert await store.ledger.content("1.md", revision(b"x")) is None


# --- places that a person vouches for, and what callers have read ------------------------------------------------------


async def test_a_place_is_trusted_once_and_untrusted_once_each_on_the_chain(store: StateStore) -> None:
    trust = store.trust
    assert await trust.trust_place("zulip:d\u00e9sign/\u00fcber", note=note("place.trust"))
    assert await trust.trust_place("plane", note=note("place.trust", by=ODD))
    assert not await trust.trust_place("plane", note=note("place.trust"))
    assert [(one.place, one.at) for one in await trust.trusted_places()] == [
        ("plane", NOW),
        ("zulip:d\u00e9sign/\u00fcber", NOW),
    ]
    assert await trust.distrust_place("plane", note=note("place.distrust"))
    assert not await trust.distrust_place("plane", note=note("place.distrust"))
    assert [one.place for one in await trust.trusted_places()] == ["zulip:d\u00e9sign/\u00fcber"]
    acts = [(body["tool"], body["decision"]) for body in await bodies(store)]
    assert acts == [
        ("place.trust", "zulip:d\u00e9sign/\u00fcber"),
        ("place.trust", "plane"),
        ("place.distrust", "plane"),
    ]
    assert await sound(store)


def bearer(id_: str = "00112233aabb", **more: Any) -> BearerToken:
    fields: dict[str, Any] = {
        "name": "ann",
        "digest": b"d" * 32,
        "ceiling": 3,
        "toolsets": None,
        "by": ODD,
        "created_at": NOW,
    }
    return BearerToken(id_, **{**fields, **more})


async def test_a_token_is_created_and_revoked_once_each_on_the_chain(store: StateStore) -> None:
    trust = store.trust
    limited = bearer("ffeeddccbbaa", name="alf", toolsets=("knowledge", "runs"), expires_at=NOW + DAY, by="ann")
    await trust.add_token(bearer(), note=note("token.create"))
    await trust.add_token(limited, note=note("token.create"))
    with pytest.raises(ValueError, match="registered already"):
        await trust.add_token(bearer(name="eve", digest=b"e" * 32), note=note("token.create"))
    assert [one.id for one in await trust.tokens()] == ["ffeeddccbbaa", "00112233aabb"]
    assert await trust.token("ffeeddccbbaa") == limited
    assert await trust.token("000000000000") is None
    assert await trust.revoke_token("00112233aabb", note=note("token.revoke", at=NOW + SECOND))
    assert not await trust.revoke_token("00112233aabb", note=note("token.revoke"))
    assert not await trust.revoke_token("000000000000", note=note("token.revoke"))
    found = await trust.token("00112233aabb")
    assert found is not None
    assert (found.revoked_at, found.digest) == (NOW + SECOND, b"d" * 32)
    acts = [(body["tool"], body["decision"]) for body in await bodies(store)]
    assert acts == [
        ("token.create", "ann 00112233aabb"),
        ("token.create", "alf ffeeddccbbaa"),
        ("token.revoke", "ann 00112233aabb"),
    ]
    assert await sound(store)


async def test_passages_are_remembered_for_their_reader_for_a_day(trust: TrustRecords) -> None:
    one, two, three = b"\x00" * 8, b"\xff" * 8, b"three..."
    await trust.note_passages(ADA, {one: "plane:KB-1", two: ODD}, at=NOW)
    await trust.note_passages(ADA, {one: "zulip:design"}, at=NOW + MINUTE)
    await trust.note_passages(BOB, {three: "plane:KB-1"}, at=NOW)
    await trust.note_passages(ADA, {}, at=NOW)
    assert set(await trust.passages(ADA, [one, two, three], since=NOW)) == {one, two}
    assert (await trust.passages(ADA, [one], since=NOW))[one] == "zulip:design"
    assert await trust.passages(ADA, [one, two], since=NOW + SECOND) == {one: "zulip:design"}
    assert await trust.passages(ADA, [], since=NOW) == {}
    await trust.note_passages(ADA, {three: "plane:KB-2"}, at=NOW + DAY + SECOND)
    assert set(await trust.passages(ADA, [one, two, three], since=NOW)) == {one, three}


async def test_of_one_caller_the_newest_passages_are_kept(trust: TrustRecords) -> None:
    """Reading is free, and must not fill the database."""
    first = {n.to_bytes(8, "big"): "a" for n in range(MOST_PASSAGES)}
    await trust.note_passages(ADA, first, at=NOW)
    later = {n.to_bytes(8, "big"): "b" for n in range(MOST_PASSAGES, MOST_PASSAGES + 100)}
    await trust.note_passages(ADA, later, at=NOW + SECOND)
    found = await trust.passages(ADA, [*first, *later], since=NOW)
    assert len(found) == MOST_PASSAGES
    assert list(found.values()).count("b") == 100


async def test_a_time_without_its_zone_is_a_mistake_of_the_caller(store: StateStore) -> None:
    naive = NOW.replace(tzinfo=None)
    trust = store.trust
    await put(store)
    for asked in (
        trust.propose(proposal("p-2", created_at=naive), most_pending=9),
        trust.decide("p-1", yes(at=naive)),
        trust.claim("p-1", "one", now=naive, lease_s=1),
        trust.finish("p-1", "failed", at=naive),
        trust.withdraw("p-1", ADA, at=naive),
        trust.expire(now=naive),
        trust.unfinished(now=naive),
        trust.update_trust_record(ADA, lambda _b, _r: trust_record(), note=note(at=naive)),
        trust.update_trust_record(ADA, lambda _b, _r: trust_record(updated_at=naive), note=note()),
        trust.add_passkey(passkey(created_at=naive), note=note()),
        trust.add_passkey(passkey(), note=note(at=naive)),
        trust.use_passkey(b"key-1", sign_count=1, at=naive),
        trust.put_secret(b"d", "form", "x", expires_at=naive),
        trust.take_secret(b"d", "form", now=naive),
        trust.note_taint(ADA, "", ["plane"], at=naive),
        trust.taints(ADA, "", since=naive),
        trust.trust_place("plane", note=note(at=naive)),
        trust.distrust_place("plane", note=note(at=naive)),
        trust.add_token(bearer(), note=note(at=naive)),
        trust.add_token(bearer(created_at=naive), note=note()),
        trust.add_token(bearer(expires_at=naive), note=note()),
        trust.revoke_token("00112233aabb", note=note(at=naive)),
        trust.note_passages(ADA, {b"p": "plane"}, at=naive),
        trust.passages(ADA, [b"p"], since=naive),
    ):
        with pytest.raises(ValueError, match="without its zone"):
            await asked
    assert await trust.proposal("p-1") == proposal()
    assert list(await trust.passkeys()) == []
    assert await bodies(store) == []
