"""Proposals that wait are told where people are: one message each, kept true, and answered by reactions of those on a list.

One process does it, by a lease. What was told is on record in the outbox, so that whoever takes over, after whatever crash, neither
tells it twice nor forgets it. What Zulip does or does not do never disturbs the server.
"""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

import anyio

from knowledge.errors import KnowledgeError
from knowledge.outbox.ports import Errand
from mcp_server.connectors.courier import Trip
from mcp_server.connectors.errors import Denied, Missing, Refused, UnknownName
from mcp_server.connectors.names import folded
from mcp_server.gate.deciding import CannotDecide, Person, requirement
from mcp_server.zulip.model import Message, Reaction, Where
from mcp_server.zulip.model import Person as User
from mcp_server.zulip.notice_posting import Posting, digest_of
from mcp_server.zulip.notice_text import APPROVES, REJECTS, ended, waiting
from mcp_server.zulip.places import place_of
from mcp_server.zulip.wire import MOST_MESSAGES, QueueGone

if TYPE_CHECKING:
    from knowledge.trust.ports import Proposal
    from mcp_server.services import Services
    from mcp_server.settings import ZulipAccess
    from mcp_server.zulip.client import ZulipClient

logger = logging.getLogger("knowledge_forge.notices")

LEASE: Final = "zulip-notices"
PRINCIPAL: Final = "knowledge-forge"
TOOL: Final = "zulip_notice"
ABOUT: Final = "notice:"
"""Before a proposal's id it names the errand that tells of it: not the one that carries it out."""
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
    being heard of, for a bot that is not subscribed hears of none.
    """

    start: float = 1.0
    lease: float = 15.0
    renew: float = 5.0
    ask: float = 5.0
    retry: float = 5.0
    longest_retry: float = 300.0
    look: float = 60.0


class Desk(Protocol):
    """What a reaction can say."""

    async def approve(self, proposal_id: str, shown_hash: str, person: Person, note: str = "") -> Proposal:
        """Approve what was shown."""
        ...

    async def reject(self, proposal_id: str, shown_hash: str, person: Person, note: str = "") -> Proposal:
        """Reject it."""
        ...


class NotYet(KnowledgeError):
    """A notice is not where it should be; it is tried again."""


async def run(services: Services, desk: Desk, access: ZulipAccess, *, pace: Pace | None = None) -> None:
    """Tell of proposals in turn with other processes, until cancelled. Nothing that goes wrong ends it, or anything else."""
    pace = pace or Pace()
    if access.reviews is None:
        return
    holder = f"{LEASE}-{secrets.token_hex(8)}"
    await anyio.sleep(pace.start)
    while True:
        try:
            if await _acquired(services, holder, pace):
                await _lead(services, desk, access, holder, pace)
        except Exception:
            logger.exception("proposals cannot be told in Zulip now; it is tried again")
            await anyio.sleep(pace.retry)
        await anyio.sleep(pace.ask)


async def _acquired(services: Services, holder: str, pace: Pace) -> bool:
    lease = await services.state.acquire_lease(LEASE, holder, now=services.now(), ttl_s=pace.lease)
    return lease is not None


async def _lead(services: Services, desk: Desk, access: ZulipAccess, holder: str, pace: Pace) -> None:
    """Tell of proposals as long as this process holds the lease."""
    notices = Notices(services, desk, access, pace=pace)
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


async def _keep(services: Services, holder: str, pace: Pace) -> None:
    """Return when the lease is lost."""
    while True:
        await anyio.sleep(pace.renew)
        if not await _acquired(services, holder, pace):
            return


@dataclass(frozen=True, slots=True)
class Watched:
    """A notice on which a reaction counts, and what it says yes or no to. `shown` is a hash over its text."""

    proposal: str
    hash: str
    shown: str


class Notices:
    """The notices of one knowledge base, in one channel and topic."""

    def __init__(
        self,
        services: Services,
        desk: Desk,
        access: ZulipAccess,
        *,
        pace: Pace,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        self._services, self._desk, self._access, self._pace, self._sleep = services, desk, access, pace, sleep
        self._place: Where | None = None
        self._watched: dict[int, Watched] = {}
        self._watching = anyio.Event()
        self._due: dict[str, None] = {}
        self._troubles: dict[str, str] = {}
        self._weighed: set[tuple[int, int, str]] = set()
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
        proposal = await self._services.state.trust.proposal(proposal_id)
        if proposal is None:
            return
        errand = await self._errand(proposal_id)
        if errand is None and proposal.state != "pending":
            return
        if errand is None or errand.fate != "done":
            errand = await self._delivered(proposal, errand)
            if errand is None:
                return
        number = int(json.loads(errand.result or "{}")["message_id"])
        shown = await self._brought_up_to_date(proposal, errand, number)
        if proposal.state == "pending" and self._decidable(proposal):
            self._watched[number] = Watched(proposal.id, errand.marks.get("hash", ""), shown)
            self._watching.set()
            await self._look_at(number)
        else:
            self._watched.pop(number, None)

    async def _errand(self, proposal_id: str) -> Errand | None:
        """Return the errand of a notice, if one was begun and did not fail."""
        errand = await self._services.state.outbox.errand_of(ABOUT + proposal_id)
        return None if errand is None or errand.fate == "failed" else errand

    async def _delivered(self, proposal: Proposal, begun: Errand | None) -> Errand | None:
        """Post the notice, or find that it was; None if there is none and nothing waits any more.

        Raises:
            KnowledgeError: it is not there now.
        """
        where = await self._where()
        newest = await self._client.messages(replace(where, topic=None), anchor="newest", before=1)
        after = newest.messages[-1].id if newest.messages else 0
        act = Posting(self._client, where, await self._text(proposal), proposal.hash, after=after)
        if proposal.state != "pending":
            return await self._found(begun, act) if begun else None
        errand = Errand(
            id=f"kf-{secrets.token_hex(16)}",
            principal=PRINCIPAL,
            tool=TOOL,
            target=f"zulip:{place_of(where)}",
            digest=digest_of(f"{self._access.site}\0{proposal.id}"),
            begun_at=self._services.now(),
            proposal=ABOUT + proposal.id,
        )
        delivered = await self._services.courier.deliver(errand, act)
        if delivered.result is None:
            raise NotYet(delivered.why)
        return await self._services.state.outbox.errand(delivered.errand.id)

    async def _found(self, begun: Errand, act: Posting) -> Errand | None:
        """Return the errand of a notice of which nobody knew whether it is there; what is over is not told anew."""
        outbox = self._services.state.outbox
        found = await act.look(Trip(begun, outbox.mark))
        if found is None:
            return None
        return await outbox.end(begun.id, "done", at=self._services.now(), result=json.dumps(found))

    async def _where(self) -> Where:
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
            self._place = Where(found[0], topic)
        return self._place

    async def _text(self, proposal: Proposal) -> str:
        if proposal.state != "pending":
            return ended(proposal)
        return waiting(
            proposal,
            page=await self._page(),
            reacting=self._decidable(proposal),
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

    async def _brought_up_to_date(self, proposal: Proposal, errand: Errand, number: int) -> str:
        """Have the notice say what is true now, by its text, or by an emoji where that cannot be edited any more.

        Return a hash over the text that it has.
        """
        text, marks = await self._text(proposal), errand.marks
        says, shown = digest_of(text), marks.get("shown", "")
        if marks.get("says") == says:
            return shown
        try:
            await self._client.edit(number, text)
            shown = says
        except (Denied, Refused, Missing) as refused:
            logger.info("the notice of %s cannot be edited: %s", proposal.id, refused)
            if not proposal.open:
                await self._mark_as_ended(proposal, number)
        await self._services.state.outbox.mark(errand.id, {"says": says, "shown": shown})
        return shown

    async def _mark_as_ended(self, proposal: Proposal, number: int) -> None:
        try:
            await self._client.react(number, DECIDED_MARK if proposal.state == "executed" else UNDONE_MARK)
        except (Denied, Refused, Missing) as refused:
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
            try:
                await self._listened()
                pause_s = self._pace.retry
            except KnowledgeError as error:
                self._place = None
                logger.warning("reactions in Zulip are not heard now: %s", error)
                await self._sleep(pause_s)
                pause_s = min(2 * pause_s, self._pace.longest_retry)
            except Exception:
                logger.exception("reactions in Zulip cannot be heard")
                await self._sleep(self._pace.longest_retry)

    async def _listened(self) -> None:
        """Hear of reactions until nothing is watched any more. What happened before a queue was there is looked at."""
        queue = await self._client.register(await self._where(), reactions=True)
        after = queue.last_event_id
        try:
            await self._look_at_all()
            while self._watched:
                heard = None
                with anyio.move_on_after(self._pace.look):
                    heard = await self._client.heard(queue, after, block=True)
                if heard is None:
                    await self._look_at_all()
                    continue
                after = heard.last_event_id
                for number in set(heard.reactions) & set(self._watched):
                    # Whoever reacts once more means it once more.
                    self._weighed = {one for one in self._weighed if one[0] != number}
                    await self._look_at(number)
        except QueueGone:
            return
        finally:
            with anyio.move_on_after(1.0, shield=True):
                await self._client.drop(queue)
        self._watching = anyio.Event()
        if self._watched:
            self._watching.set()

    async def _look_at_all(self) -> None:
        """Look at the reactions to every message on which one counts."""
        if not self._watched:
            return
        me, where = await self._client.me(), await self._where()
        window = await self._client.messages(
            Where(where.channel), anchor=min(self._watched), after=MOST_MESSAGES, sender=me
        )
        spoken = [message for message in window.messages if message.id in self._watched and _words(message)]
        listed = await self._listed(me) if spoken else {}
        for message in spoken:
            await self._weigh(message, me, listed)

    async def _look_at(self, number: int) -> None:
        """Look at the reactions to one message, if nobody has deleted it."""
        try:
            message = await self._client.message(number)
        except Missing:
            self._watched.pop(number, None)
            return
        if _words(message):
            me = await self._client.me()
            await self._weigh(message, me, await self._listed(me))

    async def _weigh(self, message: Message, me: User, listed: Mapping[int, User]) -> None:
        """Take the word of those on the list; a no outweighs a yes."""
        watched, words = self._watched.get(message.id), _words(message)
        if watched is None or message.sender_id != me.id or digest_of(message.text) != watched.shown:
            return
        for codes in (REJECTS, APPROVES):
            for one in words:
                if one.code in codes and one.user_id in listed:
                    await self._decide(message.id, watched, listed[one.user_id], one)
                    return

    async def _listed(self, me: User) -> dict[int, User]:
        """Return those whose word counts: people on the list whose accounts are active; never a bot, nor who we are there.

        With a person's own key the server could else be made to say yes to itself.
        """
        names = {name.casefold() for name in self._access.reviewers}
        return {
            user.id: user
            for user in await self._client.people()
            if user.active
            and not user.bot
            and user.id != me.id
            and names & {user.email.casefold(), (user.delivery_email or "").casefold()}
        }

    async def _decide(self, number: int, watched: Watched, user: User, word: Reaction) -> None:
        """Put a person's word on record, once. What does not count is said in the notice."""
        key = (number, user.id, word.code)
        if key in self._weighed:
            return
        self._weighed.add(key)
        person = Person(user.delivery_email or user.email, "zulip")
        note = f"reacted :{word.emoji}: to message {number} in Zulip"
        say = self._desk.reject if word.code in REJECTS else self._desk.approve
        try:
            await say(watched.proposal, watched.hash, person, note)
        except CannotDecide as error:
            logger.info("a reaction did not decide %s: %s", watched.proposal, error)
            self._troubles[watched.proposal] = str(error)
            await self.tell(watched.proposal)
        except BaseException:
            self._weighed.discard(key)
            raise


def _words(message: Message) -> Sequence[Reaction]:
    """Return the reactions to a message that say yes or no, whosever they are."""
    return [one for one in message.reactions if one.code in (*APPROVES, *REJECTS)]
