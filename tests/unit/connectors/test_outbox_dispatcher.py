"""One act in another service: executed once, whatever becomes of its reply, its process, or repeated requests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from knowledge.errors import DatabaseUnavailable, KnowledgeError
from knowledge.history.audit.chain import verify
from knowledge.outbox.codec import KEPT
from knowledge.outbox.ports import OutboxEntry
from knowledge.outbox.retention import put_away
from knowledge.writing.locks.page_locks import Locks
from knowledge.writing.requests import Approval
from mcp_server.connectors.errors import NoAnswer, ReplyLost, ServiceRefused, Unreachable
from mcp_server.connectors.outbox_dispatcher import (
    BUSY,
    LONGEST_ACT_S,
    LONGEST_IN_FLIGHT,
    LOOK_UP_WAITS_S,
    NOT_FOUND,
    REPEAT_WINDOW,
    SLOW,
    SLOW_SEND,
    UNEXPECTED,
    CallAbandoned,
    Delivered,
    DeliveryAttempt,
    Json,
    OutboxDispatcher,
    PartlyDone,
    TargetBusy,
    outbox_entry_for,
)
from mcp_server.gate.caller import Call
from mcp_server.gate.host_registration import Principal
from tests.support.state.ledgers import NOW
from tests.support.state.memory.state import MemoryStateStore

ME = Call(Principal("ada", "desktop"))
LOST = ReplyLost("Zulip", "cut")
AWAY = Unreachable("Zulip", "https://chat.example", "refused")
LOOKED_S = sum(LOOK_UP_WAITS_S)


@dataclass
class Place:
    """A service that stores what it receives.

    `arriving` are its reactions to the next requests, `ears` to the next look-ups.
    """

    arriving: list[Callable[[], None]] = field(default_factory=list)
    looking: list[KnowledgeError | None] = field(default_factory=list)
    held: list[str] = field(default_factory=list)
    looked: int = 0


@dataclass
class Message:
    """Sends one text. Errors raised `before` and `after` it happens, one for each attempt; None for no error."""

    place: Place
    keyed: bool = False
    before: list[Exception | None] = field(default_factory=list)
    after: list[Exception | None] = field(default_factory=list)
    late: int = 0
    """How many look-ups don't find it yet."""

    takes: Callable[[], None] = lambda: None

    async def send(self, attempt: DeliveryAttempt) -> Json:
        if not self.keyed:
            await attempt.mark({"queue": "q-1"})
        self.takes()
        _raise_next(self.before)
        if not (self.keyed and attempt.id in self.place.held):
            self.place.held.append(attempt.id)
        _raise_next(self.after)
        return {"id": attempt.id}

    async def look(self, attempt: DeliveryAttempt) -> Json | None:
        self.place.looked += 1
        if self.place.looking and (error := self.place.looking.pop(0)) is not None:
            raise error
        self.late -= 1
        return {"id": attempt.id} if attempt.id in self.place.held and self.late < 0 else None


def _raise_next(errors: list[Exception | None]) -> None:
    if errors and (error := errors.pop(0)) is not None:
        raise error


class World:
    """A state, a clock and a dispatcher of one knowledge base."""

    def __init__(self, folder: Path) -> None:
        self.state, self.folder = MemoryStateStore(), folder
        self.now, self.slept = NOW, 0.0
        self.place = Place()
        self.dispatcher = self.another()

    def another(self, *, longest_wait_s: float = 5.0) -> OutboxDispatcher:
        """Return the dispatcher of another process."""

        async def sleep(seconds: float) -> None:
            self.slept += seconds
            await anyio.lowlevel.checkpoint()

        locks = Locks(self.folder / "errands", longest_wait_s=longest_wait_s)
        return OutboxDispatcher(self.state.outbox, locks, now=lambda: self.now, sleep=sleep)

    def outbox_entry(self, digest: str = "dd", *, call: Call = ME) -> OutboxEntry:
        return outbox_entry_for(
            call, tool="zulip_send_message", target="zulip:design/merge", digest=digest, arguments_hash="", at=self.now
        )

    async def send(self, message: Message, digest: str = "dd", *, call: Call = ME) -> Delivered:
        return await self.dispatcher.deliver(self.outbox_entry(digest, call=call), message)

    def message(self, **more: Any) -> Message:
        return Message(self.place, **more)

    async def outcomes(self) -> list[str]:
        """Return the audit chain's records of all acts, oldest first."""
        records = await self.state.ledger.records()
        assert not verify(records, await self.state.ledger.chain_end())
        return [json.loads(record.body)["outcome"] for record in records]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


KEYED = pytest.mark.parametrize("keyed", [False, True], ids=["no key", "keyed"])


def approved(proposal: str = "p-1") -> Call:
    return replace(ME, approval=Approval(proposal, "approved by ann", "dd"))


# --- acts that are done, or certainly not done ------------------------------------------------------------------------


@KEYED
async def test_a_repeated_request_is_done_once_and_answered_from_the_record(world: World, *, keyed: bool) -> None:
    first = await world.send(world.message(keyed=keyed))
    world.now += REPEAT_WINDOW
    second = await world.send(world.message(keyed=keyed))
    assert (first.status, first.found, first.result) == ("done", False, {"id": first.outbox_entry.id})
    assert (second.status, second.found, second.result) == ("unchanged", True, first.result)
    assert world.place.held == [first.outbox_entry.id]
    assert await world.outcomes() == ["sent"]
    assert world.slept == 0


async def test_another_text_another_caller_and_the_same_text_later_are_acts_of_their_own(world: World) -> None:
    await world.send(world.message())
    await world.send(world.message(), "ee")
    await world.send(world.message(), call=Call(Principal("bob", "cursor")))
    world.now += REPEAT_WINDOW + timedelta(seconds=1)
    assert (await world.send(world.message())).status == "done"
    assert len(world.place.held) == 4


async def test_the_same_text_approved_twice_is_sent_twice(world: World) -> None:
    for proposal in ("p-1", "p-2"):
        assert (await world.send(world.message(), call=approved(proposal))).status == "done"
    assert (await world.send(world.message(), call=approved("p-2"))).status == "unchanged"
    assert len(world.place.held) == 2


@KEYED
async def test_an_act_that_was_certainly_not_done_says_so_and_can_be_tried_again(world: World, *, keyed: bool) -> None:
    with pytest.raises(Unreachable) as raised:
        await world.send(world.message(keyed=keyed, before=[AWAY]))
    assert raised.value is AWAY
    assert world.place.looked == 0
    assert (await world.send(world.message(keyed=keyed))).status == "done"
    assert await world.outcomes() == ["failed", "sent"]


# --- lost replies -----------------------------------------------------------------------------------------------------


@KEYED
@pytest.mark.parametrize("late", range(len(LOOK_UP_WAITS_S)))
@pytest.mark.parametrize("lost", [LOST, RuntimeError("the reply has no id"), DatabaseUnavailable("state.db", "full")])
async def test_a_lost_reply_is_found_there_even_if_the_service_is_slow(
    world: World, lost: Exception, late: int, *, keyed: bool
) -> None:
    """0 duplicates, and 0 wrong "failed"."""
    told = await world.send(world.message(keyed=keyed, after=[lost], late=late))
    assert (told.status, told.found, told.result) == ("done", True, {"id": told.outbox_entry.id})
    assert world.slept == sum(LOOK_UP_WAITS_S[: late + 1])
    assert world.place.held == [told.outbox_entry.id]
    assert await world.outcomes() == ["sent"]


async def test_without_a_key_an_unfound_act_is_not_sent_again_while_it_may_be_in_progress(world: World) -> None:
    first = await world.send(world.message(before=[LOST]))
    assert (first.status, first.why, first.result) == ("unsure", NOT_FOUND, None)
    assert world.slept == LOOKED_S
    world.now += LONGEST_IN_FLIGHT - timedelta(seconds=1)
    assert (await world.send(world.message())).status == "unsure"
    assert world.place.held == []
    world.now += timedelta(seconds=1)
    later = await world.send(world.message())
    assert (later.status, later.found) == ("done", False)
    assert world.place.held == [first.outbox_entry.id]
    assert await world.outcomes() == ["unsure", "sent"]


async def test_each_attempt_has_its_own_time_until_nothing_can_be_under_way(world: World) -> None:
    await world.send(world.message(before=[LOST]))
    world.now += LONGEST_IN_FLIGHT
    assert (await world.send(world.message(before=[LOST]))).status == "unsure"
    world.now += LONGEST_IN_FLIGHT - timedelta(seconds=1)
    assert (await world.send(world.message())).status == "unsure"
    assert world.place.held == []


async def test_a_late_arrival_is_found_by_a_repeated_request(world: World) -> None:
    first = await world.send(world.message(before=[LOST]))
    world.place.held.append(first.outbox_entry.id)
    again = await world.send(world.message())
    assert (again.status, again.found, again.outbox_entry.id) == ("done", True, first.outbox_entry.id)
    assert len(world.place.held) == 1
    assert await world.outcomes() == ["unsure", "sent"]


async def test_with_a_key_an_unfound_act_is_sent_again_once_under_the_same_key(world: World) -> None:
    told = await world.send(world.message(keyed=True, before=[LOST]))
    assert (told.status, told.found) == ("done", False)
    assert world.place.held == [told.outbox_entry.id]
    assert world.slept == LOOKED_S
    lost = await world.send(world.message(keyed=True, before=[LOST, LOST, LOST]), "ee")
    assert (lost.status, lost.why) == ("unsure", NOT_FOUND)
    assert world.slept == 3 * LOOKED_S


async def test_a_slow_request_may_still_be_in_progress_and_is_not_overtaken_even_with_a_key(world: World) -> None:
    """Plane checks the key and then writes: a second request would find none while the first is in progress."""

    def takes() -> None:
        world.now += SLOW_SEND

    first = await world.send(world.message(keyed=True, before=[LOST], takes=takes))
    assert (first.status, first.why) == ("unsure", NOT_FOUND)
    assert (await world.send(world.message(keyed=True))).status == "unsure"
    world.place.held.append(first.outbox_entry.id)
    assert (await world.send(world.message(keyed=True))).status == "done"
    other = await world.send(world.message(keyed=True, before=[LOST], takes=takes), "ee")
    world.now += LONGEST_IN_FLIGHT
    assert (await world.send(world.message(keyed=True), "ee")).status == "done"
    assert world.place.held == [first.outbox_entry.id, other.outbox_entry.id]


async def test_that_it_took_long_is_heeded_though_it_cannot_be_noted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def takes() -> None:
        world.now += SLOW_SEND

    monkeypatch.setattr(world.state.outbox, "mark", _full)
    told = await world.dispatcher.deliver(world.outbox_entry(), world.message(keyed=True, before=[LOST], takes=takes))
    assert (told.status, told.why) == ("unsure", NOT_FOUND)
    assert world.place.held == []


@KEYED
async def test_where_nobody_can_tell_the_answer_is_unsure_and_nothing_is_sent_again(
    world: World, *, keyed: bool
) -> None:
    deaf = NoAnswer("Zulip", "timeout")
    world.place.looking = [deaf] * len(LOOK_UP_WAITS_S)
    told = await world.send(world.message(keyed=keyed, after=[LOST]))
    assert (told.status, told.why) == ("unsure", str(deaf))
    world.place.looking = [deaf]
    world.now += 3 * LONGEST_IN_FLIGHT
    assert (await world.send(world.message(keyed=keyed))).status == "unsure"
    assert (await world.send(world.message(keyed=keyed))).status == "done"
    assert len(world.place.held) == 1
    assert await world.outcomes() == ["unsure", "sent"]


async def test_a_second_attempt_that_is_refused_says_nothing_of_the_first(world: World) -> None:
    no = ServiceRefused("Plane", 400, "not so")
    told = await world.send(world.message(keyed=True, before=[LOST, no]))
    assert (told.status, told.why) == ("unsure", str(no))
    world.now += LONGEST_IN_FLIGHT
    assert (await world.send(world.message(keyed=True, before=[AWAY]))).status == "unsure"
    assert await world.outcomes() == ["unsure"]


async def test_an_error_during_a_look_up_is_unsure(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(_self: Message, _trip: DeliveryAttempt) -> None:
        raise RuntimeError("a reply without ids")

    monkeypatch.setattr(Message, "look", broken)
    told = await world.send(world.message(after=[LOST]))
    assert (told.status, told.why) == ("unsure", UNEXPECTED)


class Parts(Message):
    """Sends three texts, each marked when it is there."""

    async def send(self, attempt: DeliveryAttempt) -> Json:
        for n in range(3):
            if str(n) not in attempt.marks:
                try:
                    _raise_next(self.before)
                except Unreachable as error:
                    raise PartlyDone(f"{n} of 3 parts were sent") from error
                self.place.held.append(f"{attempt.id}.{n}")
                await attempt.mark({str(n): "there"})
        return {"id": attempt.id}

    async def look(self, attempt: DeliveryAttempt) -> Json | None:
        return {"id": attempt.id} if f"{attempt.id}.2" in self.place.held else None


async def test_an_act_that_stopped_halfway_continues_there(world: World) -> None:
    half = await world.send(Parts(world.place, before=[None, AWAY]))
    assert (half.status, half.why) == ("unsure", "1 of 3 parts were sent")
    world.now += LONGEST_IN_FLIGHT
    told = await world.send(Parts(world.place))
    assert told.status == "done"
    assert world.place.held == [f"{told.outbox_entry.id}.{n}" for n in range(3)]


# --- dead processes, several callers ----------------------------------------------------------------------------------


async def test_an_act_begun_and_never_sent_is_sent(world: World) -> None:
    begun = await world.state.outbox.begin(world.outbox_entry(), within=REPEAT_WINDOW)
    told = await world.send(world.message())
    assert (told.status, told.outbox_entry.id) == ("done", begun.id)
    assert (world.place.looked, world.slept) == (0, 0)


async def test_an_act_begun_and_never_sent_may_fail_for_certain(world: World) -> None:
    await world.state.outbox.begin(world.outbox_entry(), within=REPEAT_WINDOW)
    with pytest.raises(Unreachable):
        await world.send(world.message(before=[AWAY]))
    assert await world.outcomes() == ["failed"]


@KEYED
async def test_a_dead_processs_act_is_found(world: World, *, keyed: bool) -> None:
    begun = await world.state.outbox.begin(world.outbox_entry(), within=REPEAT_WINDOW)
    await world.state.outbox.mark(begun.id, {"queue": "q-1"})
    world.place.held.append(begun.id)
    told = await world.send(world.message(keyed=keyed, late=2))
    assert (told.status, told.found, told.outbox_entry.id) == ("done", True, begun.id)
    assert len(world.place.held) == 1


async def test_a_dead_processs_act_with_a_key_gets_time_to_arrive(world: World) -> None:
    begun = await world.state.outbox.begin(world.outbox_entry(), within=REPEAT_WINDOW)
    told = await world.send(world.message(keyed=True))
    assert (told.status, told.outbox_entry.id) == ("done", begun.id)
    assert world.slept == LOOKED_S


@KEYED
async def test_of_many_concurrent_callers_one_sends_and_the_others_wait_for_the_outcome(
    world: World, *, keyed: bool
) -> None:
    async def one() -> Delivered:
        return await world.another().deliver(world.outbox_entry(), world.message(keyed=keyed))

    told = await asyncio.gather(*(one() for _ in range(8)))
    assert sorted(one.status for one in told) == ["done", *["unchanged"] * 7]
    assert len(world.place.held) == 1
    assert await world.outcomes() == ["sent"]


class Slow(Message):
    """Takes until it is released."""

    sending: anyio.Event
    go: anyio.Event

    async def send(self, attempt: DeliveryAttempt) -> Json:
        self.sending.set()
        await self.go.wait()
        return await super().send(attempt)


def slow(world: World) -> Slow:
    message = Slow(world.place)
    message.sending, message.go = anyio.Event(), anyio.Event()
    return message


async def test_a_caller_that_cannot_wait_for_the_sender_is_told_so_and_sends_nothing(world: World) -> None:
    message = slow(world)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(world.send, message)
        await message.sending.wait()
        told = await world.another(longest_wait_s=0.05).deliver(world.outbox_entry(), world.message())
        assert (told.status, told.why) == ("unsure", BUSY)
        message.go.set()
    assert len(world.place.held) == 1
    assert await world.outcomes() == ["sent"]


async def test_an_exclusive_act_waits_and_after_too_long_reports_that_nothing_was_sent(
    world: World,
) -> None:
    impatient, message = world.another(longest_wait_s=0.01), slow(world)

    async def second() -> Delivered:
        return await impatient.deliver(world.outbox_entry("second"), world.message(), alone_with=["task 1"])

    async def first() -> None:
        await world.dispatcher.deliver(world.outbox_entry("first"), message, alone_with=["task 1"])

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(first)
        await message.sending.wait()
        with pytest.raises(TargetBusy, match="nothing was sent"):
            await second()
        message.go.set()
    assert len(world.place.held) == 1
    assert (await second()).status == "done"


async def test_a_caller_that_leaves_does_not_stop_a_send(world: World) -> None:
    message = slow(world)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(world.send, message)
        await message.sending.wait()
        tasks.cancel_scope.cancel()
        message.go.set()
    assert len(world.place.held) == 1
    assert await world.outcomes() == ["sent"]


async def test_an_act_that_never_ends_is_given_up_as_unsure(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_server.connectors.outbox_dispatcher.LONGEST_ACT_S", 0.05)
    told = await world.send(slow(world))
    assert (told.status, told.why) == ("unsure", SLOW)
    assert await world.outcomes() == ["unsure"]


def test_an_act_is_given_up_before_the_database_gives_its_lock_to_another_one() -> None:
    """`SET LOCAL idle_in_transaction_session_timeout = '120s'` in writing.postgres_locks."""
    assert LONGEST_ACT_S < 120


# --- an outbox that cannot be written ---------------------------------------------------------------------------------


async def test_an_act_whose_beginning_cannot_be_recorded_is_not_sent(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(world.state.outbox, "begin", _full)
    with pytest.raises(DatabaseUnavailable):
        await world.send(world.message())
    assert world.place.held == []


async def test_a_done_act_is_reported_as_done_even_if_that_cannot_be_recorded(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as full:
        full.setattr(world.state.outbox, "end", _full)
        assert (await world.send(world.message())).status == "done"
    again = await world.send(world.message())
    assert (again.status, again.found) == ("done", True)
    assert len(world.place.held) == 1


async def _full(*_: object, **__: object) -> None:
    raise DatabaseUnavailable("state.db", "the disk is full")


# --- proposals --------------------------------------------------------------------------------------------------------


async def test_an_approved_calls_effect_before_its_process_died_is_found(world: World) -> None:
    assert await world.dispatcher.recall(approved(), world.message()) is None
    begun = await world.state.outbox.begin(world.outbox_entry(call=approved()), within=REPEAT_WINDOW)
    assert await world.dispatcher.recall(approved(), world.message()) is None, "it was never sent"
    await world.state.outbox.mark(begun.id, {"queue": "q-1"})
    told = await world.dispatcher.recall(approved(), world.message())
    assert told is not None
    assert told.status == "unsure"
    world.place.held.append(begun.id)
    for _ in range(2):
        told = await world.dispatcher.recall(approved(), world.message())
        assert told is not None
        assert (told.status, told.found, told.result) == ("done", True, {"id": begun.id})
    assert await world.outcomes() == ["unsure", "sent"]


async def test_an_act_that_certainly_failed_or_did_not_happen_is_still_to_be_done(world: World) -> None:
    with pytest.raises(Unreachable):
        await world.send(world.message(before=[AWAY]), call=approved())
    assert await world.dispatcher.recall(approved(), world.message()) is None
    begun = await world.state.outbox.begin(world.outbox_entry(call=approved()), within=REPEAT_WINDOW)
    await world.state.outbox.mark(begun.id, {"queue": "q-1"})
    world.now += LONGEST_IN_FLIGHT
    assert await world.dispatcher.recall(approved(), world.message()) is None
    assert (await world.send(world.message(), call=approved())).status == "done"
    assert world.place.held == [begun.id]


# --- calls with a key -------------------------------------------------------------------------------------------------


def keyed_by(key: str) -> Call:
    return replace(ME, key=key)


async def test_a_calls_entry_is_found_by_its_key_and_by_no_other(world: World) -> None:
    first, other = keyed_by("r-1/f-1"), keyed_by("r-1/f-2")
    assert await world.dispatcher.recall(first, world.message()) is None
    sent = await world.send(world.message(), call=first)
    found = await world.dispatcher.recall(first, world.message())
    assert found is not None
    assert (found.status, found.outbox_entry.id) == ("done", sent.outbox_entry.id)
    assert await world.dispatcher.recall(other, world.message()) is None
    assert await world.dispatcher.recall(ME, world.message()) is None


@KEYED
async def test_a_call_that_asked_for_an_open_act_again_is_answered_from_that_one(world: World, *, keyed: bool) -> None:
    lost = world.message(keyed=keyed, after=[LOST, LOST])
    world.place.looking = [AWAY] * len(LOOK_UP_WAITS_S)
    assert (await world.send(lost, call=keyed_by("r-1/f-1"))).status == "unsure"
    again = await world.send(world.message(keyed=keyed), call=keyed_by("r-1/f-2"))
    assert again.status == "done"
    found = await world.dispatcher.recall(keyed_by("r-1/f-2"), world.message(keyed=keyed))
    assert found is not None
    assert found.outbox_entry.id == again.outbox_entry.id
    assert world.place.held == [again.outbox_entry.id]


async def test_an_act_that_was_never_sent_stays_so_when_requested_again(world: World) -> None:
    begun = await world.state.outbox.begin(world.outbox_entry(call=keyed_by("r-1/f-1")), within=REPEAT_WINDOW)
    again = await world.send(world.message(), call=keyed_by("r-1/f-2"))
    assert (again.status, again.outbox_entry.id, world.place.looked) == ("done", begun.id, 0)


async def test_a_process_believed_dead_does_not_send_a_given_up_act(world: World) -> None:
    late = keyed_by("r-1/f-1")
    assert await world.dispatcher.abandon(late, "zulip_send_message", "zulip") is None
    assert await world.dispatcher.abandon(late, "zulip_send_message", "zulip") is None
    with pytest.raises(CallAbandoned):
        await world.send(world.message(), call=late)
    assert world.place.held == []
    assert (await world.send(world.message(), call=keyed_by("r-1/f-2"))).status == "done"
    assert await world.outcomes() == ["failed", "sent"]


async def test_an_act_begun_before_it_was_given_up_is_reported(world: World) -> None:
    begun = await world.state.outbox.begin(world.outbox_entry(call=keyed_by("r-1/f-1")), within=REPEAT_WINDOW)
    assert await world.dispatcher.abandon(keyed_by("r-1/f-1"), "zulip_send_message", "zulip") == begun


# --- keeping ----------------------------------------------------------------------------------------------------------


async def test_errands_are_put_away_ninety_days_after_they_ended(world: World) -> None:
    for n in range(3):
        await world.send(world.message(), str(n))
        world.now += timedelta(days=1)
    assert await put_away(world.state.outbox, NOW + KEPT + timedelta(days=1, seconds=1)) == 2
    assert len(await world.outcomes()) == 3, "the audit chain keeps them"
