"""Proposals that wait are told where people are: one message each, kept true, and answered by reactions of those on a list.

One process does it, by a lease. What was told is on record in the outbox, so that whoever takes over, after whatever crash, neither
tells it twice nor forgets it. What Zulip does or does not do never disturbs the server.
"""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

import anyio

from knowledge.errors import KnowledgeError
from knowledge.outbox.ports import OutboxEntry
from mcp_server.approvals.approvers import Approver, CannotDecide, requirement
from mcp_server.approvals.zulip import notice_cards as cards
from mcp_server.approvals.zulip.notice_cards import Card, Word, word_of
from mcp_server.approvals.zulip.notice_post import Posting, digest_of
from mcp_server.approvals.zulip.notice_text import APPROVES, REJECTS, ended, waiting
from mcp_server.connectors.errors import Denied, Missing, ServiceRefused, UnknownName
from mcp_server.connectors.outbox_dispatcher import DeliveryAttempt
from mcp_server.connectors.text.name_match import folded
from mcp_server.connectors.zulip.mailbox import mailbox
from mcp_server.connectors.zulip.model import ChatPlace, Message, QueueEvents, Reaction
from mcp_server.connectors.zulip.model import ZulipUser as User
from mcp_server.connectors.zulip.text.place_names import place_name
from mcp_server.connectors.zulip.wire import MOST_MESSAGES, QueueGone

if TYPE_CHECKING:
    from knowledge.trust.ports import Proposal
    from mcp_server.app.settings.access import ZulipAccess
    from mcp_server.connectors.zulip.client import ZulipClient
    from mcp_server.ports import NoticeServices

logger = logging.getLogger("knowledge_forge.notices")

LEASE: Final = "zulip-notices"
PRINCIPAL: Final = "knowledge-forge"
TOOL: Final = "zulip_notice"
ABOUT: Final = "notice:"
"""Before a proposal's id it names the outbox entry that tells of it: not the one that carries it out."""
SWEPT = 200
"""Of so many newest proposals it is seen to that their notices say how they ended."""
MOST_WATCHED = 500
DECIDED_MARK: Final = "check"
"""Added to a notice that cannot be edited any more, where it was carried out; the other one where it was not.

Source: https://zulip.com/help/restrict-message-editing-and-deletion (ten minutes, unless an organisation says otherwise).
"""
UNDONE_MARK: Final = "cross_mark"


@dataclass(frozen=True, slots=True)
class Pace:
    """How long what takes, in seconds.

    `start`: the first moments of a process belong to the host. `lease`: how long a process that died keeps others waiting.
    `retry` to `longest_retry`: how soon it is tried again after trouble. `look`: how often reactions are looked at besides
    being heard of, for a bot that is not subscribed hears of none. `rest`: how long nothing is asked after events that concern
    no reviewer, so that neither people who click nor a service that never waits set our pace.
    """

    start: float = 1.0
    lease: float = 15.0
    renew: float = 5.0
    ask: float = 5.0
    retry: float = 5.0
    longest_retry: float = 300.0
    look: float = 60.0
    rest: float = 1.0


class ReactionApprovals(Protocol):
    """What a reaction can say."""

    async def approve(self, proposal_id: str, shown_hash: str, person: Approver, note: str = "") -> Proposal:
        """Approve what was shown."""
        ...

    async def reject(self, proposal_id: str, shown_hash: str, person: Approver, note: str = "") -> Proposal:
        """Reject it."""
        ...


class NotYet(KnowledgeError):
    """A notice is not where it should be; it is tried again."""


async def run(
    services: NoticeServices, approvals: ReactionApprovals, access: ZulipAccess, *, pace: Pace | None = None
) -> None:
    """Tell of proposals in turn with other processes, until cancelled. Nothing that goes wrong ends it, or anything else."""
    pace = pace or Pace()
    if access.reviews is None:
        return
    holder = f"{LEASE}-{secrets.token_hex(8)}"
    await anyio.sleep(pace.start)
    while True:
        try:
            if await _acquired(services, holder, pace):
                await _lead(services, approvals, access, holder, pace)
        except Exception:
            logger.exception("proposals cannot be told in Zulip now; it is tried again")
            await anyio.sleep(pace.retry)
        await anyio.sleep(pace.ask)


async def _acquired(services: NoticeServices, holder: str, pace: Pace) -> bool:
    lease = await services.state.acquire_lease(LEASE, holder, now=services.now(), ttl_s=pace.lease)
    return lease is not None


async def _lead(
    services: NoticeServices, approvals: ReactionApprovals, access: ZulipAccess, holder: str, pace: Pace
) -> None:
    """Tell of proposals as long as this process holds the lease."""
    notices = Notices(services, approvals, access, pace=pace)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(notices.follow)
            if access.reviewers:
                tasks.start_soon(notices.listen)
            await _keep(services, holder, pace)
            tasks.cancel_scope.cancel()
    finally:
        with anyio.move_on_after(1.0, shield=True):
            await services.state.release_lease(LEASE, holder)


async def _keep(services: NoticeServices, holder: str, pace: Pace) -> None:
    """Return when the lease is lost."""
    while True:
        await anyio.sleep(pace.renew)
        if not await _acquired(services, holder, pace):
            return


class Notices:
    """The notices of one knowledge base, in one channel and topic."""

    def __init__(
        self,
        services: NoticeServices,
        approvals: ReactionApprovals,
        access: ZulipAccess,
        *,
        pace: Pace,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        self._services, self._approvals, self._access, self._pace, self._sleep = (
            services,
            approvals,
            access,
            pace,
            sleep,
        )
        self._place: ChatPlace | None = None
        self._watched: dict[int, Card] = {}
        self._changing = anyio.Lock()
        """Held while a notice is changed or read: what is read beside a change of our own would look like somebody else's."""
        self._watching = anyio.Event()
        self._due: dict[str, None] = {}
        self._troubles: dict[str, str] = {}
        self._names = frozenset(map(mailbox, access.reviewers))
        self._known: frozenset[int] | None = None
        """The ids of those whose word counted when it was last asked; None before that."""
        self._ambiguous: set[str] = set()
        self._page_wanted = False

    @property
    def _client(self) -> ZulipClient:
        return self._services.zulip.client

    # --- following proposals ------------------------------------------------------------------------------------------

    async def follow(self) -> None:
        """Tell of what waits and of what became of it, for ever; after trouble later and later."""
        seen, pause_s = await self._begun(), 0.0
        while True:
            well = await self._told_all()
            pause_s = 0.0 if well else min(max(self._pace.retry, 2 * pause_s), self._pace.longest_retry)
            seen = await self._news(seen, pause_s)

    async def _begun(self) -> int:
        """Note what is to be told when this process begins to, and return the newest event before that."""
        trust = self._services.state.trust
        seen = await self._services.state.last_event()
        newest = list(await trust.lines(limit=SWEPT))
        pending = list(await trust.lines(states=("pending",), limit=MOST_WATCHED))
        for proposal in reversed([*newest, *pending]):
            self._due[proposal.id] = None
        return seen

    async def _news(self, seen: int, pause_s: float) -> int:
        """Wait for news, or for as long as trouble is to be left alone; note which proposals there are news of."""
        state = self._services.state
        if pause_s:
            await self._sleep(pause_s)
        else:
            await state.changed(seen)
        newest = await state.last_event()
        if newest < seen:  # restored from a backup
            return await self._begun()
        events = await state.events_after(seen)
        self._due |= {event.key: None for event in events if event.topic == "proposal"}
        return events[-1].seq if events else newest

    async def _told_all(self) -> bool:
        """Tell what is due, and return whether that went well."""
        for proposal_id in list(self._due):
            try:
                await self.tell(proposal_id)
            except KnowledgeError as error:
                self._place = None  # another channel may bear the name by now
                logger.warning("%s is not told in Zulip yet: %s", proposal_id, error)
            except Exception:
                logger.exception("%s cannot be told in Zulip", proposal_id)
            else:
                del self._due[proposal_id]
        return not self._due

    async def tell(self, proposal_id: str) -> None:
        """Have the notice of a proposal there, once, saying what is true now; and look at reactions to it.

        Raises:
            KnowledgeError: not now.
        """
        async with self._changing:
            await self._tell(proposal_id)

    async def _tell(self, proposal_id: str) -> None:
        proposal = await self._services.state.trust.proposal(proposal_id)
        if proposal is None:
            return
        outbox_entry = await self._errand(proposal_id)
        if outbox_entry is None and proposal.state != "pending":
            return
        if outbox_entry is None or outbox_entry.fate != "done":
            outbox_entry = await self._delivered(proposal, outbox_entry)
            if outbox_entry is None:
                return
        number = int(json.loads(outbox_entry.result or "{}")["message_id"])
        if proposal.state == "pending" and self._decidable(proposal):
            await self._offer(proposal, outbox_entry, number)
        else:
            self._watched.pop(number, None)
            await self._brought_up_to_date(proposal, outbox_entry, number)
            if Card(proposal.id, outbox_entry.id, outbox_entry.marks).listed:
                await self._noted(outbox_entry, cards.listed_mark(()))

    async def _offer(self, proposal: Proposal, outbox_entry: OutboxEntry, number: int) -> None:
        """Let those on the list decide by a reaction to the notice, as long as nobody but us has changed its message."""
        try:
            message = await self._client.message(number)
        except Missing:
            self._watched.pop(number, None)
            return
        card = Card(proposal.id, outbox_entry.id, outbox_entry.marks)
        if not card.touched and not card.is_as_left(message):
            outbox_entry = await self._noted(outbox_entry, {cards.TOUCHED: "yes"})
        if new := self._names - card.listed:
            # What these people clicked before it counted was no answer to the question.
            listed = await self._listed(await self._client.me()) if _words(message) else {}
            early = {word_of(one) for one in _words(message) if listed.get(one.user_id, ("", ""))[1] in new}
            outbox_entry = await self._noted(outbox_entry, cards.ignored_mark(card.ignored | early))
        if card.listed != self._names:
            outbox_entry = await self._noted(outbox_entry, cards.listed_mark(self._names))
        said = outbox_entry.marks.get(cards.SAYS)
        outbox_entry = await self._brought_up_to_date(proposal, outbox_entry, number)
        card = Card(proposal.id, outbox_entry.id, outbox_entry.marks)
        if card.touched:
            self._watched.pop(number, None)
            return
        self._watched[number] = card
        self._watching.set()
        await self._weigh(message if outbox_entry.marks.get(cards.SAYS) == said else await self._client.message(number))

    async def _noted(self, outbox_entry: OutboxEntry, marks: Mapping[str, str]) -> OutboxEntry:
        """Put marks of a notice on record and return its outbox entry with them."""
        await self._services.state.outbox.mark(outbox_entry.id, marks)
        return replace(outbox_entry, marks={**outbox_entry.marks, **marks})

    async def _errand(self, proposal_id: str) -> OutboxEntry | None:
        """Return the outbox entry of a notice, if one was begun and did not fail."""
        outbox_entry = await self._services.state.outbox.outbox_entry_of(await self._key(proposal_id))
        return None if outbox_entry is None or outbox_entry.fate == "failed" else outbox_entry

    async def _key(self, proposal_id: str) -> str:
        """Return what names the outbox entry of a notice. In another organisation the same number is another message."""
        first = await self._services.state.outbox.outbox_entry_of(ABOUT + proposal_id)
        digest = self._digest(proposal_id)
        return ABOUT + proposal_id + ("" if first is None or first.digest == digest else f"@{digest[:16]}")

    def _digest(self, proposal_id: str) -> str:
        return digest_of(f"{self._access.site}\0{proposal_id}")

    async def _delivered(self, proposal: Proposal, begun: OutboxEntry | None) -> OutboxEntry | None:
        """Post the notice, or find that it was; None if there is none and nothing waits any more.

        Raises:
            KnowledgeError: it is not there now.
        """
        where = await self._where()
        newest = await self._client.messages(replace(where, topic=None), anchor="newest", before=1)
        after = newest.messages[-1].id if newest.messages else 0
        listed = self._names if self._decidable(proposal) else ()
        marks = cards.new_marks(where, proposal.hash, listed)
        act = Posting(self._client, where, await self._text(proposal), marks, after=after)
        if proposal.state != "pending":
            return await self._found(begun, act) if begun else None
        outbox_entry = OutboxEntry(
            id=f"kf-{secrets.token_hex(16)}",
            principal=PRINCIPAL,
            tool=TOOL,
            target=f"zulip:{place_name(where)}",
            digest=self._digest(proposal.id),
            begun_at=self._services.now(),
            proposal=await self._key(proposal.id),
        )
        delivered = await self._services.dispatcher.deliver(outbox_entry, act)
        if delivered.result is None:
            raise NotYet(delivered.why)
        return await self._services.state.outbox.outbox_entry(delivered.outbox_entry.id)

    async def _found(self, begun: OutboxEntry, act: Posting) -> OutboxEntry | None:
        """Return the outbox entry of a notice of which nobody knew whether it is there; what is over is not told anew."""
        outbox = self._services.state.outbox
        found = await act.look(DeliveryAttempt(begun, outbox.mark))
        if found is None:
            return None
        return await outbox.end(begun.id, "done", at=self._services.now(), result=json.dumps(found))

    async def _where(self) -> ChatPlace:
        """Return the channel and topic that are told, as Zulip has them.

        Raises:
            UnknownName: there is no such channel, or not for this bot.
        """
        if self._place is None:
            name, topic = self._access.reviews or ("", "")
            channels = await self._client.channels()
            found = [one for one in channels if folded(one.name) == folded(name)]
            if not found:
                raise UnknownName("Zulip", "channel", name, [one.name for one in channels])
            self._place = ChatPlace(found[0], topic)
        return self._place

    async def _text(self, proposal: Proposal, *, touched: bool = False) -> str:
        if proposal.state != "pending":
            return ended(proposal)
        return waiting(
            proposal,
            page=await self._page(),
            reacting=self._decidable(proposal),
            touched=touched,
            trouble=self._troubles.get(proposal.id, ""),
        )

    async def _page(self) -> str | None:
        """Return where the review page is; the first time that nobody shows it, it is asked for."""
        page = await self._services.review_address()
        if page is None and not self._page_wanted:
            self._page_wanted = True
            await self._services.want_review()
            page = await self._services.review_address()
        return page

    async def _brought_up_to_date(self, proposal: Proposal, outbox_entry: OutboxEntry, number: int) -> OutboxEntry:
        """Have the notice say what is true now, by its text, or by an emoji where that cannot be edited any more."""
        text = await self._text(proposal, touched=bool(outbox_entry.marks.get(cards.TOUCHED)))
        says = digest_of(text)
        if outbox_entry.marks.get(cards.SAYS) == says:
            return outbox_entry
        # Announced first: if this process dies in between, the next one knows whose edit it was.
        outbox_entry = await self._noted(outbox_entry, {cards.NEXT: says})
        marks = {cards.SAYS: says, cards.NEXT: ""}
        try:
            await self._client.edit(number, text)
            marks[cards.SHOWN] = says
            if proposal.open:
                marks[cards.STAMP] = cards.stamp_of(await self._client.message(number))
        except (Denied, ServiceRefused, Missing) as refused:
            logger.info("the notice of %s cannot be edited: %s", proposal.id, refused)
            if not proposal.open:
                await self._mark_as_ended(proposal, number)
        return await self._noted(outbox_entry, marks)

    async def _mark_as_ended(self, proposal: Proposal, number: int) -> None:
        try:
            await self._client.react(number, DECIDED_MARK if proposal.state == "executed" else UNDONE_MARK)
        except (Denied, ServiceRefused, Missing) as refused:
            logger.info("the notice of %s cannot be marked: %s", proposal.id, refused)

    # --- reactions ----------------------------------------------------------------------------------------------------

    def _decidable(self, proposal: Proposal) -> bool:
        """Return whether a reaction could decide it: a yes up to level 3, and never one on trust itself."""
        weak = requirement(proposal, "zulip", passkeys=False) == "word"
        return bool(self._access.reviewers) and proposal.kind in ("call", "flag") and weak

    async def listen(self) -> None:
        """Hear of reactions, for ever, as long as there is a message on which one counts."""
        pause_s = self._pace.retry
        while True:
            await self._watching.wait()
            lasted = False
            try:
                lasted = await self._listened()
            except KnowledgeError as error:
                self._place = None
                logger.warning("reactions in Zulip are not heard now: %s", error)
            except Exception:
                logger.exception("reactions in Zulip cannot be heard")
                pause_s = self._pace.longest_retry
            if lasted:
                pause_s = self._pace.retry
                continue
            await self._sleep(pause_s)
            pause_s = min(2 * pause_s, self._pace.longest_retry)

    async def _listened(self) -> bool:
        """Hear of reactions until nothing is watched any more; return whether anything was heard before the queue was forgotten.

        What happened before a queue was there is looked at.
        """
        queue = await self._client.register(await self._where(), reactions=True)
        after, lasted = queue.last_event_id, False
        try:
            await self._look_at_all()
            while self._watched:
                heard = None
                with anyio.move_on_after(self._pace.look):
                    heard = await self._client.events(queue, after, block=True)
                lasted = True
                if heard is None:
                    await self._look_at_all()
                    continue
                after = heard.last_event_id
                if not await self._looked_at(heard):
                    await self._sleep(self._pace.rest)
        except QueueGone:
            return lasted
        finally:
            with anyio.move_on_after(1.0, shield=True):
                await self._client.drop(queue)
        self._watching = anyio.Event()
        if self._watched:
            self._watching.set()
        return True

    async def _looked_at(self, heard: QueueEvents) -> bool:
        """Look at the messages to which reviewers have reacted, and return whether there were any.

        An event says where to look, and no more: it may be an old one. A stranger's costs no request.
        """
        looked = False
        async with self._changing:
            for number, reactions in heard.removed.items():
                if number in self._watched:
                    await self._forget(number, {word_of(one) for one in reactions})
            for number, reactions in heard.reactions.items():
                if number in self._watched and any(self._may_count(one) for one in reactions):
                    await self._look_at(number)
                    looked = True
        return looked

    def _may_count(self, one: Reaction) -> bool:
        return _is_word(one) and (self._known is None or one.user_id in self._known)

    async def _forget(self, number: int, words: Collection[Word]) -> None:
        """Let reactions that decided nothing count if they come once more: they were taken back."""
        card = self._watched[number]
        if card.ignored & frozenset(words):
            marks = cards.ignored_mark(card.ignored - frozenset(words))
            await self._services.state.outbox.mark(card.outbox_entry, marks)
            self._watched[number] = replace(card, marks={**card.marks, **marks})

    async def _look_at_all(self) -> None:
        """Look at the reactions to every message on which one counts."""
        async with self._changing:
            if not self._watched:
                return
            me, where = await self._client.me(), await self._where()
            window = await self._client.messages(
                ChatPlace(where.channel), anchor=min(self._watched), after=MOST_MESSAGES, sender=me
            )
            there = [message for message in window.messages if message.id in self._watched]
            listed = await self._listed(me) if any(_words(message) for message in there) else {}
            for message in there:
                await self._weigh(message, listed)
            # One that is not in the channel was moved elsewhere or deleted, perhaps while nobody listened.
            reached = window.messages[-1].id if len(window.messages) >= MOST_MESSAGES else max(self._watched, default=0)
            for number in [one for one in self._watched if one <= reached and all(one != found.id for found in there)]:
                await self._look_at(number)

    async def _look_at(self, number: int) -> None:
        """Look at the reactions to one message, if nobody has deleted it."""
        try:
            message = await self._client.message(number)
        except Missing:
            self._watched.pop(number, None)
            return
        await self._weigh(message)

    async def _weigh(self, message: Message, listed: Mapping[int, tuple[User, str]] | None = None) -> None:
        """Take the word of those on the list; a no outweighs a yes. `listed` is asked for where it is not given."""
        card = self._watched.get(message.id)
        if card is None:
            return
        if not card.is_as_left(message):
            del self._watched[message.id]
            logger.warning("reactions to the notice of %s decide nothing: it was edited or moved", card.proposal)
            await self._services.state.outbox.mark(card.outbox_entry, {cards.TOUCHED: "yes"})
            await self._tell(card.proposal)
            return
        words = _words(message)
        await self._forget(message.id, card.ignored - {word_of(one) for one in words})
        words = [one for one in words if word_of(one) not in card.ignored]
        if not words:
            return
        me = await self._client.me()
        if message.sender_id != me.id:
            return
        if listed is None:
            listed = await self._listed(me)
        for codes in (REJECTS, APPROVES):
            for one in words:
                if one.code in codes and one.user_id in listed:
                    await self._decide(message.id, card, listed[one.user_id][0], one)
                    return

    async def _listed(self, me: User) -> dict[int, tuple[User, str]]:
        """Return those whose word counts, with the address by which they are on the list.

        They are people whose accounts are active; never a bot, nor who we are there: with a person's own key the server could else be
        made to say yes to itself. ChatPlace two accounts bear one address nobody can tell which was meant, so neither counts.
        """
        bearers: dict[str, list[User]] = {}
        for user in await self._client.people():
            for address in user.mailboxes & self._names:
                bearers.setdefault(address, []).append(user)
        for address in bearers.keys() - self._ambiguous:
            if len(bearers[address]) > 1:
                self._ambiguous.add(address)
                logger.warning("several accounts in Zulip have the address %s, so reactions of none decide", address)
        listed = {
            user.id: (user, address)
            for address, (user, *others) in bearers.items()
            if not others and user.active and not user.bot and user.id != me.id
        }
        self._known = frozenset(listed)
        return listed

    async def _decide(self, number: int, card: Card, user: User, word: Reaction) -> None:
        """Put a person's word on record. What does not count is said in the notice, and counts only once it was taken back."""
        person = Approver(user.delivery_email or user.email, "zulip")
        note = f"reacted :{word.emoji}: to message {number} in Zulip"
        say = self._approvals.reject if word.code in REJECTS else self._approvals.approve
        try:
            await say(card.proposal, card.hash, person, note)
        except CannotDecide as error:
            logger.info("a reaction did not decide %s: %s", card.proposal, error)
            self._troubles[card.proposal] = str(error)
            current = self._watched.get(number, card)
            marks = cards.ignored_mark(current.ignored | {word_of(word)})
            await self._services.state.outbox.mark(card.outbox_entry, marks)
            await self._tell(card.proposal)


def _is_word(one: Reaction) -> bool:
    return one.code in (*APPROVES, *REJECTS)


def _words(message: Message) -> Sequence[Reaction]:
    """Return the reactions to a message that say yes or no, whosever they are."""
    return [one for one in message.reactions if _is_word(one)]
