"""Acts in other services, done once: begun on record before they are sent, looked up when their reply is lost.

A service that knows keys does not do the same twice; of any other one it is asked whether it did it. Where nobody can tell, the
answer is "unsure", and nothing is sent a second time.
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
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

import anyio

from knowledge.errors import DocumentBusy, KnowledgeError, StorageError
from knowledge.history.timestamps import utc_text
from knowledge.outbox.ports import CALL, OutboxEntry
from mcp_server.connectors.errors import ReplyLost

if TYPE_CHECKING:
    from knowledge.outbox.ports import Fate, Outbox
    from knowledge.writing.locks.page_locks import PageLocks
    from mcp_server.gate.caller import Call

logger = logging.getLogger("knowledge_forge.outbox")

WITHIN = timedelta(minutes=10)
"""The same call again, so soon after the first, is a repetition and not a wish to have it twice."""
LOOKED_AFTER_S: Final = (0.0, 0.5, 1.0, 2.0, 4.0)
"""When it is looked whether it happened: what was sent may be at work there although the reply is lost."""
SETTLED = timedelta(minutes=5)
"""So long after it was sent nothing is under way any more: what is not there then did not happen.

Source: Zulip ends a request's process after 20 s (`harakiri` in its puppet/zulip/templates/uwsgi.ini.template.erb); before that
it may wait in line, there and in proxies on the way.
"""
LONGEST_S = 100.0
"""An act that takes longer is given up as unsure, before the database takes its lock away (`writing.postgres_locks`)."""
SLOW_SEND = timedelta(seconds=5)
"""An attempt that took longer without a reply was perhaps not cut but is at work there: it may come to its end much later.

What knows a key looks for it and then writes (Plane), so a second attempt must not overtake the first.
"""
SENT_AGAIN, SLOWLY, ASKED_BY = "again_at", "slowly", "asked_by."
"""Our own marks: when it was sent again, that an attempt may be under way for long, and which later calls ask for it, too."""
BUSY = "the same is being sent by another call right now; ask again in a moment"
SLOW = "it took too long to find out"
UNEXPECTED = "its reply was not understood"
NOT_FOUND = "it was not found there"

MOST_OPEN = 1_000
"""Open acts among which the same one is looked for."""

Json = dict[str, Any]


class Halfway(KnowledgeError):
    """Part of an act is done, and the rest cannot be done now; the same call again goes on from there."""

    def __init__(self, told: str) -> None:
        self.told = told
        super().__init__(told)


class Renounced(KnowledgeError):
    """A call that was given up as never made: its process was believed dead, and came back."""

    def __init__(self) -> None:
        super().__init__("the call was given up meanwhile, because its process was believed dead; nothing was sent")


class Occupied(KnowledgeError):
    """Another act that must not run beside this one took too long."""

    def __init__(self) -> None:
        super().__init__("another call is at work there and takes long; nothing was sent. Call again in a moment")


@dataclass
class DeliveryAttempt:
    """One attempt at an outbox entry: what is known of it, and where what it can be looked up by is put on record."""

    outbox_entry: OutboxEntry
    _mark: Callable[[str, Mapping[str, str]], Awaitable[None]]

    @property
    def id(self) -> str:
        """Return the id that is never used twice: a key, for services that know keys."""
        return self.outbox_entry.id

    @property
    def marks(self) -> Mapping[str, str]:
        """Return what it can be looked up by, earlier attempts' marks included."""
        return self.outbox_entry.marks

    @property
    def begun_at(self) -> datetime:
        """Return when it was begun."""
        return self.outbox_entry.begun_at

    async def mark(self, marks: Mapping[str, str]) -> None:
        """Put on record what it can be looked up by; that is durable before this returns."""
        await self._mark(self.outbox_entry.id, marks)
        self.outbox_entry = replace(self.outbox_entry, marks={**self.outbox_entry.marks, **marks})


class OutboxAct(Protocol):
    """One act in another service, which can be sent and be looked up. Results are ids, names of places and addresses: no text."""

    @property
    def keyed(self) -> bool:
        """Return whether what `look` does not find may be sent again at once, and counts once.

        So it is where the service knows the attempt's id as a key, or where `look` tells what is under way from what never began.
        """
        ...

    async def send(self, attempt: DeliveryAttempt) -> Json:
        """Do it, or what is left of it by its marks, and return what came of it.

        An act without key marks its attempt before it is sent: an attempt without marks counts as never sent.

        Raises:
            ReplyLost: nobody knows whether it happened.
            Halfway: a part of it happened.
            KnowledgeError: any other one: it certainly did not happen.
        """
        ...

    async def look(self, attempt: DeliveryAttempt) -> Json | None:
        """Return what came of it, found there; None if it is not there (yet), or not whole.

        Raises:
            KnowledgeError: nobody can tell.
        """
        ...


@dataclass(frozen=True, slots=True)
class Delivered:
    """What became of an act. `found`: it had happened already when it was looked up, or asked for again.

    `unchanged`: the same call did it before, and nothing was sent. `why` tells a person why nobody knows.
    """

    status: Literal["done", "unchanged", "unsure"]
    outbox_entry: OutboxEntry
    result: Json | None = None
    found: bool = False
    why: str = ""


def outbox_entry_for(
    call: Call, *, tool: str, target: str, digest: str, arguments_hash: str, at: datetime
) -> OutboxEntry:
    """Return an outbox entry for what this call does. Its id is new, or follows from the key of the call."""
    return OutboxEntry(
        id=entry_id(call.key) if call.key else f"kf-{secrets.token_hex(16)}",
        principal=call.principal.id,
        tool=tool,
        target=target,
        digest=digest,
        begun_at=at,
        proposal=call.approval.proposal if call.approval else "",
        arguments_hash=arguments_hash,
        marks={CALL: call.key or call.run} if call.run else {},
    )


def entry_id(key: str) -> str:
    """Return the id of the outbox entry that the call with that key begins, by which it is found when its process is gone."""
    return f"kf-{hashlib.sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


class OutboxDispatcher:
    """Does acts in other services for all callers of one knowledge base.

    `locks` keep two callers from the same act at once, and die with their holder: whoever gets one knows that nobody of us is
    sending it.
    """

    def __init__(
        self,
        outbox: Outbox,
        locks: PageLocks,
        *,
        now: Callable[[], datetime],
        sleep: Callable[[float], Awaitable[None]],
        settled: timedelta = SETTLED,
    ) -> None:
        self._outbox, self._locks = outbox, locks
        self._now, self._sleep, self._settled = now, sleep, settled

    async def deliver(
        self, outbox_entry: OutboxEntry, act: OutboxAct, *, within: timedelta = WITHIN, alone_with: Sequence[str] = ()
    ) -> Delivered:
        """Do it, unless the same was done within `within` before; what was begun earlier is looked up first, however old.

        Nobody else who names one of `alone_with` is at work meanwhile: where a service cannot be told to change something only
        if it is as it was seen, two of us at least do not overwrite each other. A caller that goes away does not stop what is
        being sent.

        Raises:
            Occupied: somebody else was at it for too long; nothing was sent.
            Renounced: the call was given up; nothing was sent.
            KnowledgeError: it certainly was not done.
        """
        try:
            async with self._alone(outbox_entry, alone_with):
                known = await self._begun(outbox_entry, within)
                attempt = DeliveryAttempt(known, self._outbox.mark)
                if known.id == outbox_entry.id:
                    return await self._sent(attempt, act)
                if known.fate != "done":
                    await attempt.mark({ASKED_BY + outbox_entry.id: "yes"})
                return await self._looked_up(attempt, act) or await self._sent_again(attempt, act)
        except DocumentBusy:
            if not await self._is_under_way(outbox_entry):
                raise Occupied from None
            return Delivered("unsure", outbox_entry, why=BUSY)

    async def _is_under_way(self, outbox_entry: OutboxEntry) -> bool:
        """Return whether the same act is begun: a lock may be held for another one, too."""
        same = (outbox_entry.principal, outbox_entry.tool, outbox_entry.digest)
        return any((one.principal, one.tool, one.digest) == same for one in await self._outbox.open(limit=MOST_OPEN))

    async def _begun(self, outbox_entry: OutboxEntry, within: timedelta) -> OutboxEntry:
        """Return the outbox entry as it is on record now.

        Raises:
            Renounced: it is on record that it is not to be sent.
        """
        try:
            return await self._outbox.begin(outbox_entry, within=within)
        except ValueError:
            there = await self._outbox.outbox_entry(outbox_entry.id)
            if there is not None and there.fate == "failed":
                raise Renounced from None
            raise

    async def recall(self, proposal: str, act: OutboxAct) -> Delivered | None:
        """Return what became of the act that carries out a proposal, by asking the service; None if it is to be done (again)."""
        return await self._recalled(await self._outbox.outbox_entry_of(proposal), act)

    async def recall_for(self, call: Call, act: OutboxAct) -> Delivered | None:
        """Return what became of a call whose process died, likewise: of an approved one, or of the one with that key."""
        if call.approval is not None:
            return await self.recall(call.approval.proposal, act)
        return await self._recalled(await self.entry_of_call(call.key), act)

    async def entry_of_call(self, key: str) -> OutboxEntry | None:
        """Return what the call with that key began, or asked for when it was begun already; None: it sent nothing."""
        if not key:
            return None
        own = entry_id(key)
        return await self._outbox.outbox_entry(own) or await self._outbox.marked(ASKED_BY + own)

    async def renounce(self, call: Call, tool: str, target: str) -> OutboxEntry | None:
        """Put on record that the call sent nothing, and never will: return None then, or the outbox entry that it has begun after all.

        A process that was believed dead and comes back finds that, and sends nothing.
        """
        outbox_entry = outbox_entry_for(
            call, tool=tool, target=target, digest=f"renounced {call.key}", arguments_hash="", at=self._now()
        )
        try:
            begun = await self._outbox.begin(outbox_entry, within=timedelta(0))
        except ValueError:  # it is on record already
            there = await self.entry_of_call(call.key)
            return None if there is None or there.fate == "failed" else there
        await self._outbox.end(begun.id, "failed", at=self._now())
        return None

    async def _recalled(self, known: OutboxEntry | None, act: OutboxAct) -> Delivered | None:
        if known is None or known.fate == "failed":
            return None
        try:
            async with self._alone(known):
                now = await self._outbox.outbox_entry(known.id) or known
                found = await self._looked_up(DeliveryAttempt(now, self._outbox.mark), act)
                # It was asked for once, by a person's yes: that it was done before is that it is done.
                return replace(found, status="done") if found and found.status == "unchanged" else found
        except DocumentBusy:
            return Delivered("unsure", known, why=BUSY)

    @asynccontextmanager
    async def _alone(self, outbox_entry: OutboxEntry, others: Sequence[str] = ()) -> AsyncIterator[None]:
        async with self._locks.held([f"{outbox_entry.principal}\0{outbox_entry.tool}\0{outbox_entry.digest}", *others]):
            with anyio.CancelScope(shield=True):
                yield

    async def _looked_up(self, attempt: DeliveryAttempt, act: OutboxAct) -> Delivered | None:
        """Return what became of an outbox entry that was begun before; None if it is to be sent."""
        if attempt.outbox_entry.fate == "done":
            return Delivered("unchanged", attempt.outbox_entry, _read(attempt.outbox_entry.result), found=True)
        if _is_unsent(attempt, act):
            return None
        with anyio.move_on_after(LONGEST_S):
            why = await self._found(attempt, act, patient=not self._is_settled(attempt))
            if isinstance(why, Delivered):
                return why
            if why == NOT_FOUND and (_may_repeat(attempt, act) or self._is_settled(attempt)):
                return None
            return await self._unsure(attempt, why)
        return await self._unsure(attempt, SLOW)

    def _is_settled(self, attempt: DeliveryAttempt) -> bool:
        again = attempt.marks.get(SENT_AGAIN)
        sent_at = datetime.fromisoformat(again) if again else attempt.begun_at
        return self._now() - sent_at >= self._settled

    async def _sent(self, attempt: DeliveryAttempt, act: OutboxAct) -> Delivered:
        with anyio.move_on_after(LONGEST_S):
            why = await self._tried(attempt, act, first=True)
            if why == NOT_FOUND and _may_repeat(attempt, act):
                why = await self._tried(attempt, act, first=False)
            return why if isinstance(why, Delivered) else await self._unsure(attempt, why)
        return await self._unsure(attempt, SLOW)

    async def _sent_again(self, attempt: DeliveryAttempt, act: OutboxAct) -> Delivered:
        """Do what an earlier attempt did not do, or not to the end."""
        if _is_unsent(attempt, act):
            return await self._sent(attempt, act)
        await attempt.mark({SENT_AGAIN: utc_text(self._now())})
        with anyio.move_on_after(LONGEST_S):
            why = await self._tried(attempt, act, first=False)
            return why if isinstance(why, Delivered) else await self._unsure(attempt, why)
        return await self._unsure(attempt, SLOW)

    async def _tried(self, attempt: DeliveryAttempt, act: OutboxAct, *, first: bool) -> Delivered | str:
        """Return what became of it, or why nobody knows.

        What says that nothing was done says it of this attempt: of what an earlier one did there is only the look.
        """
        began = self._now()
        try:
            return await self._done(attempt, await act.send(attempt), found=False)
        except Halfway as half:
            return half.told
        except (ReplyLost, StorageError):
            pass
        except KnowledgeError as error:
            if not first:
                return str(error)
            await self._ended(attempt, "failed", None)
            raise
        except Exception:
            logger.exception("the errand %s was sent, and its reply not understood", attempt.id)
        if self._now() - began >= SLOW_SEND:
            await self._remember_slow(attempt)
        return await self._found(attempt, act, patient=True)

    async def _remember_slow(self, attempt: DeliveryAttempt) -> None:
        try:
            await attempt.mark({SLOWLY: "yes"})
        except StorageError:
            attempt.outbox_entry = replace(attempt.outbox_entry, marks={**attempt.marks, SLOWLY: "yes"})

    async def _found(self, attempt: DeliveryAttempt, act: OutboxAct, *, patient: bool) -> Delivered | str:
        """Return what came of it if it is found there, or why not; who is patient looks for a while."""
        why = UNEXPECTED
        for wait_s in LOOKED_AFTER_S if patient else LOOKED_AFTER_S[:1]:
            await self._sleep(wait_s)
            try:
                result = await act.look(attempt)
            except KnowledgeError as error:
                why = str(error)
                continue
            except Exception:
                logger.exception("the errand %s cannot be looked up", attempt.id)
                return UNEXPECTED
            if result is not None:
                return await self._done(attempt, result, found=True)
            why = NOT_FOUND
        return why

    async def _done(self, attempt: DeliveryAttempt, result: Json, *, found: bool) -> Delivered:
        return Delivered("done", await self._ended(attempt, "done", result), result, found=found)

    async def _unsure(self, attempt: DeliveryAttempt, why: str) -> Delivered:
        return Delivered("unsure", await self._ended(attempt, "unsure", None), why=why)

    async def _ended(self, attempt: DeliveryAttempt, fate: Fate, result: Json | None) -> OutboxEntry:
        """Put on record what became of it; where that cannot be done now it is looked up when it is asked for again."""
        told = None if result is None else json.dumps(result, ensure_ascii=False, separators=(",", ":"))
        try:
            return await self._outbox.end(attempt.id, fate, at=self._now(), result=told)
        except StorageError:
            logger.exception("it cannot be noted that the errand %s ended as %s", attempt.id, fate)
            return attempt.outbox_entry


def _may_repeat(attempt: DeliveryAttempt, act: OutboxAct) -> bool:
    """Return whether to send again what is not there harms nobody, as soon as it has been looked for."""
    return act.keyed and SLOWLY not in attempt.marks


def _is_unsent(attempt: DeliveryAttempt, act: OutboxAct) -> bool:
    """Return whether its process died before anything was sent."""
    return not act.keyed and all(name == CALL or name.startswith(ASKED_BY) for name in attempt.marks)


def _read(result: str | None) -> Json | None:
    found = None if result is None else json.loads(result)
    return found if isinstance(found, dict) else None
