"""Carries out acts in other services, each once: recorded before it is sent, looked up in the service if its reply is lost.

A service that honours keys does not do the same act twice; any other service is asked whether it did the act. If that
cannot be determined, the answer is "unsure", and nothing is sent a second time. The reasons are in the handbook's
decision 37.
"""

from __future__ import annotations

import hashlib
import json
import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final, Literal, Protocol

import anyio

from knowledge.errors import DocumentBusy, KnowledgeError, StorageError
from knowledge.history.timestamps import utc_text
from knowledge.outbox.ports import CALL, Fate, Outbox, OutboxEntry
from knowledge.writing.locks.page_locks import PageLocks
from mcp_server.connectors.errors import ReplyLost
from mcp_server.gate.caller import Call

logger = logging.getLogger("knowledge_forge.outbox")

REPEAT_WINDOW = timedelta(minutes=10)
"""The same call within this time counts as a repetition, not as a request to do it twice."""
LOOK_UP_WAITS_S: Final = (0.0, 0.5, 1.0, 2.0, 4.0)
"""Waits before each look-up: the service may still be at work although the reply is lost."""
LONGEST_IN_FLIGHT = timedelta(minutes=5)
"""This long after it was sent, no request is still under way, so an act that is still missing did not happen.

Source: Zulip ends a request's process after 20 s (`harakiri` in its puppet/zulip/templates/uwsgi.ini.template.erb); before that
it may wait in line, there and in proxies on the way.
"""
LONGEST_ACT_S = 100.0
"""An act that takes longer ends as unsure. PostgreSQL takes the lock of an idle holder away after 120 s (`postgres_locks`)."""
SLOW_SEND = timedelta(seconds=5)
"""After a longer attempt without a reply, the service may still be working on the request. Plane looks for the key before
it writes, so a second attempt would not see the first.
"""
SENT_AGAIN, SLOWLY, ASKED_BY = "again_at", "slowly", "asked_by."
"""Marks of the dispatcher: when an act was sent again, that an attempt was slow, and which later calls asked for the same act."""
BUSY = "the same is being sent by another call right now; ask again in a moment"
SLOW = "it took too long to find out"
UNEXPECTED = "its reply was not understood"
NOT_FOUND = "it was not found there"
MOST_OPEN = 1_000
"""How many open acts are searched for an equal one."""

Json = dict[str, Any]


class PartlyDone(KnowledgeError):
    """Part of an act is done, and the rest cannot be done now; the same call again continues it."""


class CallAbandoned(KnowledgeError):
    """The process of this call seemed to have died, so the call was recorded as never sent; then the process came back."""

    def __init__(self) -> None:
        super().__init__("the call was given up meanwhile, because its process seemed to have died; nothing was sent")


class TargetBusy(KnowledgeError):
    """Another act that must not run at the same time takes too long."""

    def __init__(self) -> None:
        super().__init__(
            "another call has been changing the same thing for too long; nothing was sent. Try again in a moment"
        )


@dataclass
class DeliveryAttempt:
    """One attempt at an outbox entry. The act can be looked up by its marks, which include those of earlier attempts."""

    outbox_entry: OutboxEntry
    _mark: Callable[[str, Mapping[str, str]], Awaitable[None]]

    @property
    def id(self) -> str:
        """The id of the entry, never used twice: the key, for services that honour keys."""
        return self.outbox_entry.id

    @property
    def marks(self) -> Mapping[str, str]:
        """All marks of the entry."""
        return self.outbox_entry.marks

    async def mark(self, marks: Mapping[str, str]) -> None:
        """Record marks; they are durable when this returns."""
        await self._mark(self.outbox_entry.id, marks)
        self.outbox_entry = replace(self.outbox_entry, marks={**self.outbox_entry.marks, **marks})


class OutboxAct(Protocol):
    """One act in another service, which can be sent and looked up. Results hold ids, names of places and addresses, but no text."""

    @property
    def keyed(self) -> bool:
        """Whether an act that `look` does not find may be sent again at once without being done twice.

        This is true if the service honours the attempt's id as a key, or if `look` raises for an act that may still arrive.
        """
        ...

    async def send(self, attempt: DeliveryAttempt) -> Json:
        """Do the act, or the part of it that is missing according to the marks, and return its result.

        An act without a key marks its attempt before it sends: an attempt without marks counts as never sent.

        Raises:
            ReplyLost: it is unknown whether it happened.
            PartlyDone: only a part was done.
            KnowledgeError: any other error means that the act certainly did not happen.
        """
        ...

    async def look(self, attempt: DeliveryAttempt) -> Json | None:
        """Return the act's result as found in the service; None if the act is not there (yet), or not completely.

        Raises:
            KnowledgeError: nobody can tell.
        """
        ...


@dataclass(frozen=True, slots=True)
class Delivered:
    """The outcome of an act. `found`: the act had already happened when it was looked up, or when it was asked for again.

    The status `unchanged` means that the same call did the act before, and nothing was sent. `why` is the reason for `unsure`.
    """

    status: Literal["done", "unchanged", "unsure"]
    outbox_entry: OutboxEntry
    result: Json | None = None
    found: bool = False
    why: str = ""


def outbox_entry_for(
    call: Call, *, tool: str, target: str, digest: str, arguments_hash: str, at: datetime
) -> OutboxEntry:
    """Return an outbox entry for the act of this call. Its id is new, or follows from the call's key."""
    return OutboxEntry(
        id=_entry_id(call.key) if call.key else f"kf-{secrets.token_hex(16)}",
        principal=call.principal.id,
        tool=tool,
        target=target,
        digest=digest,
        begun_at=at,
        proposal=call.approval.proposal if call.approval else "",
        arguments_hash=arguments_hash,
        marks={CALL: call.key or call.run} if call.run else {},
    )


def _entry_id(key: str) -> str:
    return f"kf-{hashlib.sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


class OutboxDispatcher:
    """Carries out acts in other services for all callers of one knowledge base.

    `locks` keep two callers from the same act. A lock ends with the process that holds it, so a caller that gets one knows that
    no process of ours is sending that act.
    """

    def __init__(
        self,
        outbox: Outbox,
        locks: PageLocks,
        *,
        now: Callable[[], datetime],
        sleep: Callable[[float], Awaitable[None]],
        longest_in_flight: timedelta = LONGEST_IN_FLIGHT,
    ) -> None:
        self._outbox, self._locks = outbox, locks
        self._now, self._sleep, self._longest_in_flight = now, sleep, longest_in_flight

    async def deliver(
        self,
        outbox_entry: OutboxEntry,
        act: OutboxAct,
        *,
        within: timedelta = REPEAT_WINDOW,
        alone_with: Sequence[str] = (),
    ) -> Delivered:
        """Do the act unless the same one was done within `within`. An earlier one without an outcome is looked up first.

        Calls that have a text of `alone_with` in common run one after the other: if a service has no conditional update, at
        least our own calls do not overwrite each other. A caller that goes away does not stop an act that is being sent.

        Raises:
            TargetBusy: another caller took too long; nothing was sent.
            CallAbandoned: the call was recorded as never sent; nothing was sent.
            KnowledgeError: it certainly was not done.
        """
        try:
            async with self._alone(outbox_entry, alone_with):
                # Durable before anything is sent: after a crash the act is looked up instead of sent again.
                recorded = await self._begin(outbox_entry, within)
                attempt = DeliveryAttempt(recorded, self._outbox.mark)
                if recorded.id == outbox_entry.id:
                    return await self._send(attempt, act)
                if recorded.fate != "done":
                    # So that this call, too, finds the act by its own key after a crash.
                    await attempt.mark({ASKED_BY + outbox_entry.id: "yes"})
                return await self._look_up(attempt, act) or await self._send_again(attempt, act)
        except DocumentBusy:
            # The lock may be that of another act with the same `alone_with`.
            same = (outbox_entry.principal, outbox_entry.tool, outbox_entry.digest)
            begun = await self._outbox.open(limit=MOST_OPEN)
            if all((one.principal, one.tool, one.digest) != same for one in begun):
                raise TargetBusy from None
            return Delivered("unsure", outbox_entry, why=BUSY)

    async def _begin(self, outbox_entry: OutboxEntry, within: timedelta) -> OutboxEntry:
        try:
            return await self._outbox.begin(outbox_entry, within=within)
        except ValueError:  # that id is on record already
            recorded = await self._outbox.outbox_entry(outbox_entry.id)
            if recorded is not None and recorded.fate == "failed":
                raise CallAbandoned from None
            raise

    async def begin_group(self, outbox_entry: OutboxEntry) -> OutboxEntry:
        """Record a group of acts, each of which has its own entry, and return the group's entry, or the one recorded before.

        Raises:
            CallAbandoned: the call was recorded as never sent; nothing was sent.
        """
        return await self._begin(outbox_entry, timedelta(0))

    async def end_group(self, outbox_entry: OutboxEntry, *, known: bool) -> None:
        """Record the end of a group of acts; `known` says whether the outcome of each act is known."""
        fate: Fate = "done" if known else "unsure"
        await self._end(DeliveryAttempt(outbox_entry, self._outbox.mark), fate, {} if known else None)

    async def pause(self, seconds: float) -> None:
        """Wait before a service is asked again."""
        await self._sleep(seconds)

    async def group_of(self, call: Call) -> OutboxEntry | None:
        """Return the entry of the group of acts that the call began; None if the call sent nothing."""
        if call.approval is not None:
            return await self._outbox.outbox_entry_of(call.approval.proposal)
        return await self.entry_of_call(call.key)

    async def recall(self, call: Call, act: OutboxAct) -> Delivered | None:
        """Return the outcome of a call whose process died, as the service reports it; None if the act can be done (again).

        The act is found by the call's proposal if a person approved it, else by the call's key.
        """
        if call.approval is not None:
            known = await self._outbox.outbox_entry_of(call.approval.proposal)
        else:
            known = await self.entry_of_call(call.key)
        if known is None or known.fate == "failed":
            return None
        try:
            async with self._alone(known):
                # Its process may have finished the act while we waited for the lock.
                now = await self._outbox.outbox_entry(known.id) or known
                found = await self._look_up(DeliveryAttempt(now, self._outbox.mark), act)
                # "unchanged" is for a repetition; here the act was done by this very call.
                return replace(found, status="done") if found and found.status == "unchanged" else found
        except DocumentBusy:
            return Delivered("unsure", known, why=BUSY)

    async def entry_of_call(self, key: str) -> OutboxEntry | None:
        """Return the act that the call with that key began, or found already begun; None if it sent nothing."""
        if not key:
            return None
        own = _entry_id(key)
        return await self._outbox.outbox_entry(own) or await self._outbox.marked(ASKED_BY + own)

    async def abandon(self, call: Call, tool: str, target: str) -> OutboxEntry | None:
        """Record that the call sent nothing and never will, and return None; or return the act if it has begun after all.

        If its process comes back, it finds the record and sends nothing.
        """
        # With the id that the act itself would have: the one of the two that is recorded first excludes the other.
        outbox_entry = outbox_entry_for(
            call, tool=tool, target=target, digest=f"renounced {call.key}", arguments_hash="", at=self._now()
        )
        try:
            begun = await self._outbox.begin(outbox_entry, within=timedelta(0))
        except ValueError:  # that id is on record already
            recorded = await self.entry_of_call(call.key)
            return None if recorded is None or recorded.fate == "failed" else recorded
        await self._outbox.end(begun.id, "failed", at=self._now())
        return None

    @asynccontextmanager
    async def _alone(self, outbox_entry: OutboxEntry, others: Sequence[str] = ()) -> AsyncIterator[None]:
        async with self._locks.held([f"{outbox_entry.principal}\0{outbox_entry.tool}\0{outbox_entry.digest}", *others]):
            # A caller that goes away must not leave an act without an outcome on record.
            with anyio.CancelScope(shield=True):
                yield

    async def _look_up(self, attempt: DeliveryAttempt, act: OutboxAct) -> Delivered | None:
        """Return the outcome of an act that was begun before; None if it is to be sent."""
        if attempt.outbox_entry.fate == "done":
            return Delivered("unchanged", attempt.outbox_entry, _json_object(attempt.outbox_entry.result), found=True)
        if _is_unsent(attempt, act):
            return None
        again = attempt.marks.get(SENT_AGAIN)
        sent_at = datetime.fromisoformat(again) if again else attempt.outbox_entry.begun_at
        has_landed = self._now() - sent_at >= self._longest_in_flight

        # After so long, a single look is enough: waiting would show nothing new.
        waits_s = LOOK_UP_WAITS_S[:1] if has_landed else LOOK_UP_WAITS_S
        outcome = await _limited(self._look(attempt, act, waits_s))
        if outcome == NOT_FOUND and (has_landed or _may_repeat(attempt, act)):
            return None
        return await self._settle(attempt, outcome)

    async def _send(self, attempt: DeliveryAttempt, act: OutboxAct) -> Delivered:
        async def send() -> Delivered | str:
            outcome = await self._try(attempt, act, first=True)
            if outcome == NOT_FOUND and _may_repeat(attempt, act):
                # Only once: if a service loses two replies, the next call asks it, minutes later.
                return await self._try(attempt, act, first=False)
            return outcome

        return await self._settle(attempt, await _limited(send()))

    async def _send_again(self, attempt: DeliveryAttempt, act: OutboxAct) -> Delivered:
        """Do an act that an earlier attempt did not do, or not completely."""
        if _is_unsent(attempt, act):
            return await self._send(attempt, act)
        await attempt.mark({SENT_AGAIN: utc_text(self._now())})
        return await self._settle(attempt, await _limited(self._try(attempt, act, first=False)))

    async def _settle(self, attempt: DeliveryAttempt, outcome: Delivered | str) -> Delivered:
        """Return the outcome. If `outcome` is a sentence, the outcome is unknown for that reason, and is recorded as unsure."""
        if isinstance(outcome, str):
            return Delivered("unsure", await self._end(attempt, "unsure", None), why=outcome)
        return outcome

    async def _try(self, attempt: DeliveryAttempt, act: OutboxAct, *, first: bool) -> Delivered | str:
        """Return the outcome of one attempt, or a sentence that says why it is unknown.

        Only the error of a first attempt means that nothing was done: before a later attempt, an earlier one may have succeeded.
        """
        began = self._now()
        try:
            return await self._done(attempt, await act.send(attempt), found=False)
        except PartlyDone as partly:
            return str(partly)
        except (ReplyLost, StorageError):
            pass  # even if our own database failed while a mark was written: the request may have been sent
        except KnowledgeError as error:
            if not first:
                return str(error)
            await self._end(attempt, "failed", None)
            raise
        except Exception:
            logger.exception("outbox entry %s was sent, and its reply was not understood", attempt.id)
        if self._now() - began >= SLOW_SEND:
            try:
                await attempt.mark({SLOWLY: "yes"})
            except StorageError:  # at least this process knows that the attempt was slow
                attempt.outbox_entry = replace(attempt.outbox_entry, marks={**attempt.marks, SLOWLY: "yes"})
        return await self._look(attempt, act, LOOK_UP_WAITS_S)

    async def _look(self, attempt: DeliveryAttempt, act: OutboxAct, waits_s: Sequence[float]) -> Delivered | str:
        """Return the outcome if the service has it after one of the waits, else a sentence that says why not."""
        why = UNEXPECTED
        for wait_s in waits_s:
            await self._sleep(wait_s)
            try:
                result = await act.look(attempt)
            except KnowledgeError as error:
                why = str(error)
                continue
            except Exception:
                # A bug here is no proof that nothing was done: the outcome stays unsure, and nothing is sent again.
                logger.exception("outbox entry %s cannot be looked up", attempt.id)
                return UNEXPECTED
            if result is not None:
                return await self._done(attempt, result, found=True)
            why = NOT_FOUND
        return why

    async def _done(self, attempt: DeliveryAttempt, result: Json, *, found: bool) -> Delivered:
        return Delivered("done", await self._end(attempt, "done", result), result, found=found)

    async def _end(self, attempt: DeliveryAttempt, fate: Fate, result: Json | None) -> OutboxEntry:
        text = None if result is None else json.dumps(result, ensure_ascii=False, separators=(",", ":"))
        try:
            return await self._outbox.end(attempt.id, fate, at=self._now(), result=text)
        except StorageError:
            # The caller learns what happened all the same; the same call again looks it up.
            logger.exception("the end of outbox entry %s as %s could not be recorded", attempt.id, fate)
            return attempt.outbox_entry


async def _limited(work: Awaitable[Delivered | str]) -> Delivered | str:
    with anyio.move_on_after(LONGEST_ACT_S):
        return await work
    return SLOW


def _may_repeat(attempt: DeliveryAttempt, act: OutboxAct) -> bool:
    return act.keyed and SLOWLY not in attempt.marks


def _is_unsent(attempt: DeliveryAttempt, act: OutboxAct) -> bool:
    """Return whether the act's process died before it sent anything: an act without a key marks its attempt before it sends."""
    return not act.keyed and all(name == CALL or name.startswith(ASKED_BY) for name in attempt.marks)


def _json_object(text: str | None) -> Json | None:
    found = None if text is None else json.loads(text)
    return found if isinstance(found, dict) else None
