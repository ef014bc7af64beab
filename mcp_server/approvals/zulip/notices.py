"""Announces waiting proposals in Zulip: one message each, kept up to date, which listed people may answer by reactions.

One process does it, by a lease. Everything it posted is on record in the outbox, so that the process that takes over after a
crash neither repeats nor forgets a notice. Zulip's failures never disturb the server.
"""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import anyio

from knowledge.errors import KnowledgeError
from knowledge.outbox.ports import OutboxEntry
from knowledge.trust.ports import Proposal
from mcp_server.app.settings.services import ZulipAccess
from mcp_server.approvals.approvers import Approver, CannotDecide, requirement
from mcp_server.approvals.decisions import Decisions
from mcp_server.approvals.zulip import notice_cards as cards
from mcp_server.approvals.zulip.notice_cards import Card, PostNotice, ReactionKey, key_of, text_digest
from mcp_server.approvals.zulip.notice_record import ABOUT, POWERLESS, powerless_mark
from mcp_server.approvals.zulip.notice_text import APPROVES, REJECTS, ended, waiting
from mcp_server.approvals.zulip.reviewers import listed_reviewers, person_name, principal_of_account
from mcp_server.connectors.errors import Denied, Missing, ServiceRefused, UnknownName
from mcp_server.connectors.outbox_dispatcher import DeliveryAttempt
from mcp_server.connectors.text.name_match import folded
from mcp_server.connectors.zulip.chat import chat_of
from mcp_server.connectors.zulip.client import ZulipClient
from mcp_server.connectors.zulip.model import (
    ChatPlace,
    Message,
    QueueEvents,
    Reaction,
    ZulipUser,
    reviewer_name,
)
from mcp_server.connectors.zulip.text.place_names import place_name
from mcp_server.connectors.zulip.wire import MOST_MESSAGES, SERVICE, QueueGone
from mcp_server.ports import NoticeServices

logger = logging.getLogger("knowledge_forge.notices")

LEASE: Final = "zulip-notices"
PRINCIPAL: Final = "knowledge-forge"
TOOL: Final = "zulip_notice"
NEWEST = 200
"""Proposals whose notices are brought up to date when a process begins."""
MOST_WATCHED = 500
APPLIED_MARK: Final = "check"
"""Added to the notice of an applied proposal that can no longer be edited.

Source: https://zulip.com/help/restrict-message-editing-and-deletion (ten minutes, unless an organisation says otherwise).
"""
NOT_APPLIED_MARK: Final = "cross_mark"


@dataclass(frozen=True, slots=True)
class Pace:
    """Times in seconds.

    `start`: the first moments of a process belong to its host. `lease`: how long a dead process keeps others waiting.
    `retry` to `longest_retry`: the wait after a failure. `look`: how often reactions are fetched even without events,
    because a bot that is not subscribed to the channel gets none. `rest`: the pause after events that concern no
    reviewer, so that many clicks, or a service that never blocks, cannot cause a flood of requests.
    """

    start: float = 1.0
    lease: float = 15.0
    renew: float = 5.0
    ask: float = 5.0
    retry: float = 5.0
    longest_retry: float = 300.0
    look: float = 60.0
    rest: float = 1.0


class NotYet(KnowledgeError):
    """A notice could not be posted yet; it is tried again."""


async def run(services: NoticeServices, approvals: Decisions, access: ZulipAccess, *, pace: Pace | None = None) -> None:
    """Announce proposals whenever this process holds the lease, until cancelled. No failure ends it, or anything else."""
    pace = pace or Pace()
    if access.reviews is None:
        return
    holder = f"{LEASE}-{secrets.token_hex(8)}"

    async def acquired() -> bool:
        lease = await services.state.acquire_lease(LEASE, holder, now=services.now(), ttl_s=pace.lease)
        return lease is not None

    await anyio.sleep(pace.start)
    while True:
        try:
            if await acquired():
                notices = Notices(services, approvals, access, pace=pace)
                try:
                    async with anyio.create_task_group() as tasks:
                        tasks.start_soon(notices.follow)
                        if access.reviewers:
                            tasks.start_soon(notices.listen)
                        while True:
                            await anyio.sleep(pace.renew)
                            if not await acquired():
                                break
                        tasks.cancel_scope.cancel()
                finally:
                    # So that another process need not wait until the lease expires.
                    with anyio.move_on_after(1.0, shield=True):
                        await services.state.release_lease(LEASE, holder)
        except Exception:
            logger.exception("proposals cannot be announced in Zulip now; trying again")
            await anyio.sleep(pace.retry)
        await anyio.sleep(pace.ask)


class Notices:
    """The notices of one knowledge base, in one channel and topic."""

    def __init__(
        self,
        services: NoticeServices,
        approvals: Decisions,
        access: ZulipAccess,
        *,
        pace: Pace,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        self._services, self._approvals, self._access, self._pace = services, approvals, access, pace
        self._sleep = sleep
        self._place: ChatPlace | None = None
        self._watched: dict[int, Card] = {}
        """The notices on which reactions count, by message id."""
        self._changing = anyio.Lock()
        """Held while a notice is changed or read: otherwise our own change would look like somebody else's."""
        self._watching = anyio.Event()
        self._due: dict[str, None] = {}
        self._troubles: dict[str, str] = {}
        self._reviewers = frozenset(map(reviewer_name, access.reviewers))
        self._reviewer_ids: frozenset[int] | None = None
        """The accounts whose reactions counted when that was last checked; None before the first time."""
        self._powerless: frozenset[str] | None = None
        """The entries of the list that name nobody who can decide; None before that was first checked."""
        self._page_wanted = False

    @property
    def _client(self) -> ZulipClient:
        return chat_of(self._services).client

    # --- following proposals ------------------------------------------------------------------------------------------

    async def follow(self) -> None:
        """Announce proposals and their outcomes, forever, with growing pauses after failures."""
        seen, pause_s = await self._begin(), 0.0
        while True:
            for proposal_id in list(self._due):
                try:
                    await self.update(proposal_id)
                except KnowledgeError as error:
                    self._place = None  # another channel may have the name by now
                    logger.warning("%s is not announced in Zulip yet: %s", proposal_id, error)
                except Exception:
                    logger.exception("%s cannot be announced in Zulip", proposal_id)
                else:
                    del self._due[proposal_id]
            longer_s = min(max(self._pace.retry, 2 * pause_s), self._pace.longest_retry)
            pause_s = longer_s if self._due else 0.0
            seen = await self._wait_for_news(seen, pause_s)

    async def _begin(self) -> int:
        """Note the proposals to announce when this process begins, and return the newest event before that."""
        trust = self._services.state.trust
        seen = await self._services.state.last_event()
        newest = list(await trust.lines(limit=NEWEST))
        pending = list(await trust.lines(states=("pending",), limit=MOST_WATCHED))
        # Oldest first, so that the messages are in the order of their proposals.
        for proposal in reversed([*newest, *pending]):
            self._due[proposal.id] = None
        return seen

    async def _wait_for_news(self, seen: int, pause_s: float) -> int:
        """Wait for events, or for the pause after a failure, and note the proposals that changed."""
        state = self._services.state
        if pause_s:
            await self._sleep(pause_s)
        else:
            await state.changed(seen)
        newest = await state.last_event()
        if newest < seen:  # the database was restored from a backup
            return await self._begin()
        events = await state.events_after(seen)
        self._due |= {event.key: None for event in events if event.topic == "proposal"}
        return events[-1].seq if events else newest

    async def update(self, proposal_id: str) -> None:
        """Post the notice of a proposal, once, or bring it up to date; and look at the reactions to it.

        Raises:
            KnowledgeError: not now.
        """
        async with self._changing:
            await self._update(proposal_id)

    async def _update(self, proposal_id: str) -> None:
        proposal = await self._services.state.trust.proposal(proposal_id)
        if proposal is None:
            return
        entry = await self._services.state.outbox.outbox_entry_of(await self._key(proposal_id))
        if entry is not None and entry.fate == "failed":
            entry = None
        if entry is None or entry.fate != "done":
            entry = await self._post(proposal, entry)
            if entry is None:
                return
        number = int(json.loads(entry.result or "{}")["message_id"])
        if proposal.state == "pending" and self._reviewers:
            await self._offer(proposal, entry, number)
        else:
            self._watched.pop(number, None)
            await self._show(proposal, entry, number)
            if Card(proposal.id, entry.id, entry.marks).listed:
                await self._mark(entry, cards.listed_mark(()))

    async def _offer(self, proposal: Proposal, entry: OutboxEntry, number: int) -> None:
        """Let listed people decide by a reaction to the notice, as long as nobody but us has changed its message."""
        try:
            message = await self._client.message(number)
        except Missing:
            self._watched.pop(number, None)
            return
        card = Card(proposal.id, entry.id, entry.marks)
        if not card.touched and not card.is_untouched(message):
            entry = await self._mark(entry, {cards.TOUCHED: "yes"})
        if new := self._reviewers - card.listed:
            # Clicks from before a person was listed did not answer the question.
            listed = await self._find_reviewers() if _deciding(message) else {}
            early = {key_of(one) for one in _deciding(message) if listed.get(one.user_id, ("", ""))[1] in new}
            entry = await self._mark(entry, cards.ignored_mark(card.ignored | early))
        if card.listed != self._reviewers:
            entry = await self._mark(entry, cards.listed_mark(self._reviewers))
        said = entry.marks.get(cards.SAYS)
        entry = await self._show(proposal, entry, number)
        if entry.marks.get(POWERLESS) != (now := powerless_mark(self._powerless or ()))[POWERLESS]:
            entry = await self._mark(entry, now)
        card = Card(proposal.id, entry.id, entry.marks)
        if card.touched:
            self._watched.pop(number, None)
            return
        self._watched[number] = card
        self._watching.set()
        was_edited = entry.marks.get(cards.SAYS) != said
        await self._weigh(await self._client.message(number) if was_edited else message)

    async def _mark(self, entry: OutboxEntry, marks: Mapping[str, str]) -> OutboxEntry:
        await self._services.state.outbox.mark(entry.id, marks)
        return replace(entry, marks={**entry.marks, **marks})

    async def _key(self, proposal_id: str) -> str:
        """Return the key of a notice's outbox entry.

        After a change of `ZULIP_SITE` the same message id is another message, so the notice of a second site gets a longer key.
        """
        first = await self._services.state.outbox.outbox_entry_of(ABOUT + proposal_id)
        digest = self._digest(proposal_id)
        return ABOUT + proposal_id + ("" if first is None or first.digest == digest else f"@{digest[:16]}")

    def _digest(self, proposal_id: str) -> str:
        return text_digest(f"{self._access.site}\0{proposal_id}")

    async def _post(self, proposal: Proposal, begun: OutboxEntry | None) -> OutboxEntry | None:
        """Post the notice, or find the one that an earlier attempt posted; None if it was not posted and the proposal no longer waits.

        Raises:
            KnowledgeError: not now.
        """
        if begun is None and proposal.state != "pending":
            return None
        outbox = self._services.state.outbox
        where = await self._where()
        newest = await self._client.messages(replace(where, topic=None), anchor="newest", before=1)
        after = newest.messages[-1].id if newest.messages else 0
        text = await self._text(proposal)
        marks = cards.first_marks(where, proposal.hash, self._reviewers) | powerless_mark(self._powerless or ())
        act = PostNotice(self._client, where, text, marks, after=after)
        if begun is not None and proposal.state != "pending":
            # Look it up, but do not post it again: the question is closed.
            found = await act.look(DeliveryAttempt(begun, outbox.mark))
            if found is None:
                return None
            return await outbox.end(begun.id, "done", at=self._services.now(), result=json.dumps(found))
        entry = OutboxEntry(
            id=f"kf-{secrets.token_hex(16)}",
            principal=PRINCIPAL,
            tool=TOOL,
            target=f"zulip:{place_name(where)}",
            digest=self._digest(proposal.id),
            begun_at=self._services.now(),
            proposal=await self._key(proposal.id),
        )
        delivered = await self._services.dispatcher.deliver(entry, act)
        if delivered.result is None:
            raise NotYet(delivered.why)
        return await outbox.outbox_entry(delivered.outbox_entry.id)

    async def _where(self) -> ChatPlace:
        """Return the channel and topic of `ZULIP_REVIEWS`.

        Raises:
            UnknownName: there is no such channel, or this bot cannot see it.
        """
        if self._place is None:
            name, topic = self._access.reviews or ("", "")
            channels = await self._client.channels()
            # Only the exact name: a notice must not go to a channel with a similar name.
            found = [one for one in channels if folded(one.name) == folded(name)]
            if not found:
                raise UnknownName(SERVICE, "channel", name, [one.name for one in channels])
            self._place = ChatPlace(found[0], topic)
        return self._place

    async def _text(self, proposal: Proposal, *, touched: bool = False) -> str:
        joined = (await self._services.state.trust.asking([proposal.id])).get(proposal.id, ())
        if proposal.state != "pending":
            return ended(proposal, joined)
        if self._access.review_page and not self._page_wanted:
            # The link must lead somewhere: over stdio no process may show the page yet.
            self._page_wanted = True
            await self._services.want_review()
        if self._reviewers and self._powerless is None:
            await self._find_reviewers()
        return waiting(
            proposal,
            joined,
            page=self._access.review_page,
            reacting=bool(self._reviewers),
            approving=_can_be_approved(proposal),
            touched=touched,
            trouble=self._troubles.get(proposal.id, ""),
            powerless=len(self._powerless or ()),
        )

    async def _show(self, proposal: Proposal, entry: OutboxEntry, number: int) -> OutboxEntry:
        """Bring the notice's text up to date, or add an emoji if it can no longer be edited."""
        text = await self._text(proposal, touched=bool(entry.marks.get(cards.TOUCHED)))
        says = text_digest(text)
        if entry.marks.get(cards.SAYS) == says:
            return entry
        # Recorded before the edit: if this process dies in between, the next one knows whose edit it was.
        entry = await self._mark(entry, {cards.NEXT: says})
        marks = {cards.SAYS: says, cards.NEXT: ""}
        try:
            await self._client.edit(number, text)
            marks[cards.SHOWN] = says
            if proposal.open:
                marks[cards.STAMP] = cards.stamp_of(await self._client.message(number))
        except (Denied, ServiceRefused, Missing) as refused:
            logger.info("the notice of %s cannot be edited: %s", proposal.id, refused)
            if not proposal.open:
                try:
                    await self._client.react(number, APPLIED_MARK if proposal.state == "executed" else NOT_APPLIED_MARK)
                except (Denied, ServiceRefused, Missing) as error:
                    logger.info("the notice of %s cannot be marked: %s", proposal.id, error)
        return await self._mark(entry, marks)

    # --- reactions ----------------------------------------------------------------------------------------------------

    async def listen(self) -> None:
        """Receive reactions, forever, as long as there is a notice on which one counts."""
        pause_s = self._pace.retry
        while True:
            await self._watching.wait()
            received = False
            try:
                received = await self._listen()
            except KnowledgeError as error:
                self._place = None
                logger.warning("reactions in Zulip are not received now: %s", error)
            except Exception:
                logger.exception("reactions in Zulip cannot be received")
                pause_s = self._pace.longest_retry
            if received:
                pause_s = self._pace.retry
                continue
            await self._sleep(pause_s)
            pause_s = min(2 * pause_s, self._pace.longest_retry)

    async def _listen(self) -> bool:
        """Receive reactions until no notice is watched; return False if the queue was gone before anything was received."""
        queue = await self._client.register(await self._where(), reactions=True)
        after, received = queue.last_event_id, False
        try:
            # A queue begins now; reactions from before are only on the messages.
            await self._look_at_all()
            while self._watched:
                events = None
                with anyio.move_on_after(self._pace.look):
                    events = await self._client.events(queue, after, block=True)
                received = True
                if events is None:
                    await self._look_at_all()
                    continue
                after = events.last_event_id
                if not await self._handle(events):
                    await self._sleep(self._pace.rest)
        except QueueGone:
            return received
        finally:
            # Shielded, because Zulip would keep the queue of a stopped server and collect events in it.
            with anyio.move_on_after(1.0, shield=True):
                await self._client.drop(queue)
        self._watching = anyio.Event()
        if self._watched:  # a notice was posted while the queue was dropped
            self._watching.set()
        return True

    async def _handle(self, events: QueueEvents) -> bool:
        """Read the messages to which reviewers have reacted, and return whether there were any.

        An event may be outdated, so it only says which message to read. A stranger's reaction causes no request.
        """
        looked = False
        async with self._changing:
            for number, reactions in events.removed.items():
                if number in self._watched:
                    await self._stop_ignoring(number, {key_of(one) for one in reactions})
            for number, reactions in events.reactions.items():
                if number in self._watched and any(self._may_count(one) for one in reactions):
                    await self._look_at(number)
                    looked = True
        return looked

    def _may_count(self, one: Reaction) -> bool:
        return _decides(one) and (self._reviewer_ids is None or one.user_id in self._reviewer_ids)

    async def _stop_ignoring(self, number: int, removed: Collection[ReactionKey]) -> None:
        """Stop ignoring reactions that were removed, so that they count when they are given again."""
        card = self._watched[number]
        if card.ignored & frozenset(removed):
            marks = cards.ignored_mark(card.ignored - frozenset(removed))
            await self._services.state.outbox.mark(card.outbox_entry, marks)
            self._watched[number] = replace(card, marks={**card.marks, **marks})

    async def _look_at_all(self) -> None:
        """Look at the reactions to every watched notice, with one request for most of them."""
        async with self._changing:
            if not self._watched:
                return
            me, where = await self._client.me(), await self._where()
            window = await self._client.messages(
                ChatPlace(where.channel), anchor=min(self._watched), after=MOST_MESSAGES, sender=me
            )
            there = [message for message in window.messages if message.id in self._watched]
            listed = await self._find_reviewers() if any(_deciding(message) for message in there) else {}
            for message in there:
                await self._weigh(message, listed)
            # A message that is not in the channel was moved or deleted, perhaps while no process listened.
            reached = window.messages[-1].id if len(window.messages) >= MOST_MESSAGES else max(self._watched, default=0)
            found = {message.id for message in there}
            for number in [one for one in self._watched if one <= reached and one not in found]:
                await self._look_at(number)

    async def _look_at(self, number: int) -> None:
        try:
            message = await self._client.message(number)
        except Missing:
            self._watched.pop(number, None)
            return
        await self._weigh(message)

    async def _weigh(self, message: Message, listed: Mapping[int, tuple[ZulipUser, str]] | None = None) -> None:
        """Decide by the reactions of listed people; a rejection outweighs an approval. `listed` is fetched if it is not given."""
        card = self._watched.get(message.id)
        if card is None:
            return
        if not card.is_untouched(message):
            del self._watched[message.id]
            logger.warning("reactions to the notice of %s decide nothing: it was edited or moved", card.proposal)
            await self._services.state.outbox.mark(card.outbox_entry, {cards.TOUCHED: "yes"})
            await self._update(card.proposal)
            return
        reactions = _deciding(message)
        await self._stop_ignoring(message.id, card.ignored - {key_of(one) for one in reactions})
        reactions = [one for one in reactions if key_of(one) not in card.ignored]
        if not reactions or message.sender_id != (await self._client.me()).id:
            return
        if listed is None:
            listed = await self._find_reviewers()
        for codes in (REJECTS, APPROVES):
            for one in reactions:
                if one.code in codes and one.user_id in listed:
                    await self._decide(message.id, card, listed[one.user_id][0], one)
                    return

    async def _find_reviewers(self) -> Mapping[int, tuple[ZulipUser, str]]:
        """Return the accounts whose reactions count, with the entry by which they are listed."""
        found = listed_reviewers(self._reviewers, await self._client.people(), await self._client.me())
        for entry in sorted(found.powerless.keys() - (self._powerless or frozenset())):
            logger.warning("a listed reviewer cannot decide in Zulip: %s", found.powerless[entry])
        self._powerless = frozenset(found.powerless)
        self._reviewer_ids = frozenset(found.people)
        return found.people

    async def _decide(self, number: int, card: Card, user: ZulipUser, reaction: Reaction) -> None:
        """Record a person's decision. A refused reaction is reported in the notice, and ignored until it is removed."""
        person = Approver(person_name(user), "zulip", principal=principal_of_account(user))
        note = f"reacted :{reaction.emoji}: to message {number} in Zulip"
        decide = self._approvals.reject if reaction.code in REJECTS else self._approvals.approve
        try:
            await decide(card.proposal, card.hash, person, note)
        except CannotDecide as error:
            logger.info("a reaction did not decide %s: %s", card.proposal, error)
            self._troubles[card.proposal] = str(error)
            current = self._watched.get(number, card)
            marks = cards.ignored_mark(current.ignored | {key_of(reaction)})
            await self._services.state.outbox.mark(card.outbox_entry, marks)
            await self._update(card.proposal)


def _can_be_approved(proposal: Proposal) -> bool:
    """Return whether a reaction could approve it: up to level 3, and never about trust itself. A rejection always counts."""
    weak = requirement(proposal, "zulip", passkeys=False) == "word"
    return proposal.kind in ("call", "flag") and weak


def _decides(one: Reaction) -> bool:
    return one.code in (*APPROVES, *REJECTS)


def _deciding(message: Message) -> Sequence[Reaction]:
    """Return the reactions to a message that approve or reject, from any account."""
    return [one for one in message.reactions if _decides(one)]
