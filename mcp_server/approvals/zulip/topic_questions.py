"""The question of a journey's checkpoint, asked once in the topic that its agent names, and the answer of a listed reviewer there.

The outbox knows which message is the question, so any process asks it at most once and finds the answer. The message
has only words from the agent's file: people without access to the knowledge base may read the channel, and the recorded
work was written by a model.
"""

from __future__ import annotations

import json
import logging
import re
import secrets
from dataclasses import dataclass
from typing import Final

from agents.engine.events import Decision
from agents.engine.progress.position import JourneyPosition
from agents.engine.runner import JourneyDecision
from agents.errors import AgentError
from knowledge.errors import KnowledgeError
from knowledge.outbox.ports import OutboxEntry
from mcp_server.approvals.approvers import CannotDecide
from mcp_server.approvals.reviewers.work_deciders import decide_on_journey
from mcp_server.approvals.zulip.notice_cards import PLACE, PostNotice, first_marks, place_mark, text_digest
from mcp_server.approvals.zulip.notice_text import code_span
from mcp_server.approvals.zulip.reviewers import listed_reviewers, person_name, principal_of_account
from mcp_server.connectors.errors import Missing, NotAllowed, one_line
from mcp_server.connectors.zulip.chat import Chat, chat_of
from mcp_server.connectors.zulip.model import ChatPlace, Message
from mcp_server.connectors.zulip.text.place_names import place_name
from mcp_server.connectors.zulip.wire import MOST_MESSAGES, SERVICE
from mcp_server.ports import AskingServices

logger = logging.getLogger("knowledge_forge.notices")

PRINCIPAL: Final = "knowledge-forge"
TOOL: Final = "zulip_question"
ABOUT: Final = "question:"
"""The prefix of the outbox key of a question."""
LONGEST_WORDS = 2_000
DECIDES: Final = re.compile(
    r"(?P<word>approve|reject)[\s*`]+(?P<code>[0-9a-f]{6})(?P<more>(?:\W.*)?)", re.IGNORECASE | re.DOTALL
)
"""The code identifies the question: a plain "yes" in the topic could answer any earlier message."""
HOW: Final = (
    "* a listed reviewer answers with a message here: `approve {0}`, or `reject {0}` and why; other messages, and edited or moved "
    "ones, don't count"
)
_MENTION: Final = re.compile(r"^@_?\*\*[^*]+\*\*[\s:,]*")


@dataclass(frozen=True, slots=True)
class AskedIn:
    """The place where the question of a checkpoint is asked.

    `url` leads to it; `trouble` says why the question could not be asked or answered.
    """

    place: str
    url: str = ""
    trouble: str = ""


class NotAsked(KnowledgeError):
    """The question could not be posted; it is tried again when the journey is looked at."""


async def asked_in(services: AskingServices, here: JourneyPosition) -> tuple[JourneyPosition, AskedIn | None]:
    """Ask the question of a waiting checkpoint in its topic, unless it was asked, and apply a reviewer's answer to it.

    Returns the resulting position, and where the question still waits; None if it no longer waits, or if its agent
    names no topic. Failures in Zulip are never raised, because people can decide elsewhere.
    """
    waits = here.state.checkpoint
    place = next((phase.ask_in for phase in here.agent.graph.phases if waits and phase.name == waits.phase), "")
    if waits is None or here.state.status != "waiting" or not place or waits.asks:
        return here, None
    try:
        question = _Question(services, chat_of(services), here, place)
        message = await question.ask()
        after = await question.answered(message)
        if after is not None:
            return after, None
        return here, AskedIn(place, await question.chat.url_of(message), question.trouble)
    except KnowledgeError as error:
        logger.warning("the question of %s is not asked in Zulip now: %s", here.journey, error)
        return here, AskedIn(place, trouble=str(error))


class _Question:
    """The question of one checkpoint in one topic."""

    def __init__(self, services: AskingServices, chat: Chat, here: JourneyPosition, place: str) -> None:
        self.chat, self.trouble = chat, ""
        self._services, self._here, self._place = services, here, place
        since = here.state.checkpoint.since if here.state.checkpoint else here.state.moved_at
        # After a change of the address the same message id is another message.
        digest = text_digest(f"{chat.site}\0{here.journey}\0{since.isoformat()}")
        self._key, self._code = f"{ABOUT}{digest[:32]}", digest[:6]

    async def ask(self) -> Message:
        """Return the message that asks, and post it if no process did.

        Raises:
            KnowledgeError: it cannot be asked now, or somebody deleted or moved it.
        """
        outbox = self._services.state.outbox
        entry = await outbox.outbox_entry_of(self._key)
        if entry is None or entry.fate != "done":
            if self.chat.access.read_only:
                raise NotAllowed(SERVICE, "asking in a topic", "ZULIP_READ_ONLY or FORGE_READ_ONLY")
            entry = await self._post()
        try:
            message = await self.chat.message(int(json.loads(entry.result or "{}")["message_id"]))
        except Missing:
            raise NotAsked("the question was deleted in Zulip; a person decides elsewhere") from None
        # In another topic, words that were not meant for this question would answer it.
        if entry.marks.get(PLACE) != place_mark(message.channel_id, message.topic):
            raise NotAsked("the question was moved in Zulip; a person decides elsewhere")
        return message

    async def _post(self) -> OutboxEntry:
        name, _, topic = self._place.partition("/")
        where = ChatPlace(await self.chat.channel(name, to_act=True), topic)
        newest = await self.chat.client.messages(ChatPlace(where.channel), anchor="newest", before=1)
        after = newest.messages[-1].id if newest.messages else 0
        text = await self._text()
        act = PostNotice(self.chat.client, where, text, first_marks(where, self._key, ()), after=after)
        entry = OutboxEntry(
            id=f"kf-{secrets.token_hex(16)}",
            principal=PRINCIPAL,
            tool=TOOL,
            target=f"zulip:{place_name(where)}",
            digest=text_digest(self._key),
            begun_at=self._services.now(),
            proposal=self._key,
        )
        delivered = await self._services.dispatcher.deliver(entry, act)
        if delivered.result is None:
            raise NotAsked(f"it is not known whether the question was posted: {delivered.why}")
        return await self._services.state.outbox.outbox_entry(delivered.outbox_entry.id) or delivered.outbox_entry

    async def _text(self) -> str:
        agent, waits = self._here.agent, self._here.state.checkpoint
        phase = waits.phase if waits else self._here.state.phase
        page = self.chat.access.review_page
        terminal = f"`knowledge-forge journeys show {self._here.journey}` on the server's machine"
        work = f"{page}/journeys/{self._here.journey}, or {terminal}" if page else terminal
        return "\n".join(
            [
                f"**{agent.title}** asks ({code_span(self._here.journey)}, {code_span(phase)}):",
                *(f"> {line}" for line in agent.questions.get(phase, "").splitlines()),
                f"* the work: {work}",
                HOW.format(self._code),
            ]
        )

    async def answered(self, question: Message) -> JourneyPosition | None:
        """Apply the first answer of a listed reviewer, and return the position after it; None if nobody has answered."""
        everybody = await self.chat.people(fresh=True)
        listed = listed_reviewers(self.chat.access.reviewers, everybody, await self.chat.me())
        if not listed.people:
            self.trouble = "nobody can answer there: ZULIP_REVIEWERS lists nobody who can decide"
            return None
        window = await self.chat.client.messages(
            await self.chat.place_of(question), anchor=question.id, after=MOST_MESSAGES, with_anchor=False
        )
        for message in window.messages:
            # One that was moved here was said elsewhere, about something else.
            untouched = not message.edited_s and not message.moved_s
            opinion = opinion_in(message.text, self._code) if untouched and message.sender_id in listed.people else None
            if opinion is None:
                continue
            decision, words = opinion
            person, _ = listed.people[message.sender_id]
            note = f"{one_line(words, LONGEST_WORDS)} ({await self.chat.url_of(message)})"
            try:
                return await decide_on_journey(
                    self._services,
                    self._here.journey,
                    self._here.state.version,
                    JourneyDecision(decision, "zulip", note),
                    by=person_name(person),
                    principal=principal_of_account(person),
                )
            except CannotDecide as error:
                self.trouble = f"{person_name(person)}: {error}"
            except AgentError as error:  # another process was faster, or the agent's file has changed
                logger.info("an answer in Zulip did not decide %s: %s", self._here.journey, error)
                return await self._services.journeys.position(self._here.journey)
        return None


def opinion_in(text: str, code: str) -> tuple[Decision, str] | None:
    """Return the decision of a message on the question with that code, and the person's words; None if it decides nothing. Pure."""
    words = _MENTION.sub("", text.strip()).strip()
    found = DECIDES.fullmatch(words.lstrip("*`"))
    if found is None or found["code"].lower() != code:
        return None
    if found["word"].lower() == "reject":
        return "reject", words
    # "approve 1f2e3d, but only from Friday on" is no approval.
    return ("approve", words) if not found["more"].strip(" .!*`") else None
