"""Answers the calls of the tools on messages in Zulip. Imported with the first call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from knowledge.pages.document import Document
from mcp_server.connectors.errors import ConnectorError
from mcp_server.connectors.outbox_dispatcher import REPEAT_WINDOW
from mcp_server.connectors.page_mentions import remember_mentions
from mcp_server.connectors.zulip.chat import chat_of
from mcp_server.connectors.zulip.errors import Unclear
from mcp_server.connectors.zulip.text.place_names import DIRECT, channel_word
from mcp_server.gate.caller import Call
from mcp_server.gate.policy import Trust
from mcp_server.gate.taint import origin_of
from mcp_server.ports import ActServices
from mcp_server.toolsets.service_act import earlier_act
from mcp_server.toolsets.spec import CallPlan, CallPreview
from mcp_server.toolsets.zulip import SEND, TOOLSET, UPDATE, channel_views, message_views, people_views
from mcp_server.toolsets.zulip.messages.execution import message_act, with_deletions
from mcp_server.toolsets.zulip.messages.model import MessagePlan, answered, changes, sent_before, sentence
from mcp_server.toolsets.zulip.messages.plan import plan_message, plan_reaction
from mcp_server.toolsets.zulip.schemas import (
    Channels,
    ChannelsArguments,
    ChatUpdateArguments,
    ChatUpdated,
    FindPeopleArguments,
    MessageActed,
    MessageLine,
    Messages,
    PeopleFound,
    ReactArguments,
    ReadMessages,
    ReadMessagesArguments,
    SearchMessagesArguments,
    SendArguments,
)
from mcp_server.toolsets.zulip.updates import model as updates_model
from mcp_server.toolsets.zulip.updates.execution import update_act
from mcp_server.toolsets.zulip.updates.model import updated
from mcp_server.toolsets.zulip.updates.plan import plan_update

PAGE = "kb:"
LONGEST_PAGE = 1_000_000
"""Characters of a page that is sent as a file. A person who approves it sees all of them."""


async def channels(services: ActServices, _call: Call, arguments: ChannelsArguments) -> Channels:
    """Answer zulip_list_channels."""
    return await channel_views.channels(chat_of(services), arguments.channel, unread=arguments.unread)


async def read(services: ActServices, _call: Call, arguments: ReadMessagesArguments) -> ReadMessages:
    """Answer zulip_read_messages, and record which pages the topics name. Conversations name none for others."""
    if arguments.anchor == message_views.SCHEDULED:
        return await message_views.scheduled(chat_of(services))
    answer = await message_views.read(chat_of(services), arguments)
    by_place: dict[str, list[MessageLine]] = {}
    for line in answer.messages:
        by_place.setdefault(line.place, []).append(line)
    for place, lines in by_place.items():
        if not place.startswith(f"{DIRECT}/"):
            title, texts = f"#{place.replace('/', ' > ', 1)}", [line.text for line in lines]
            await remember_mentions(services, f"{TOOLSET}:{place}", url=lines[-1].url, texts=texts, title=title)
    return answer


async def find_people(services: ActServices, _call: Call, arguments: FindPeopleArguments) -> PeopleFound:
    """Answer zulip_find_people."""
    return await people_views.people(chat_of(services), arguments.query)


async def search(services: ActServices, _call: Call, arguments: SearchMessagesArguments) -> Messages:
    """Answer zulip_search_messages."""
    return await message_views.search(chat_of(services), arguments)


async def read_from(_services: ActServices, _call: Call, answer: Messages | Channels) -> Sequence[str]:
    """Return the origin of the text in an answer."""
    if isinstance(answer, Messages):
        return tuple(dict.fromkeys(f"{TOOLSET}:{line.place}" for line in answer.messages))
    if not answer.tainted:
        return ()
    places = [line.place for line in answer.places]
    return tuple(
        dict.fromkeys(f"{TOOLSET}:{one}" for one in (*(channel_word(c.name) for c in answer.channels), *places))
    )


async def plan_send(services: ActServices, call: Call, arguments: SendArguments) -> CallPlan[MessageActed]:
    """Plan a message. Changes nothing."""
    return _call_plan(services, await planned_sending(services, call, arguments))


async def plan_react(services: ActServices, _call: Call, arguments: ReactArguments) -> CallPlan[MessageActed]:
    """Plan a reaction. Changes nothing."""
    return _call_plan(services, await plan_reaction(chat_of(services), arguments))


async def plan_change(services: ActServices, call: Call, arguments: ChatUpdateArguments) -> CallPlan[ChatUpdated]:
    """Plan a change of what is in Zulip. Changes nothing."""
    try:
        plan = await plan_update(chat_of(services), arguments)
    except ConnectorError:
        # A topic that was moved, or a message that was deleted: perhaps by this very call, when a person approved it.
        earlier = await earlier_act(services, call, UPDATE, arguments, REPEAT_WINDOW)
        if earlier is None:
            raise
        place, url = (str(earlier.answer.get(name) or "") for name in ("place", "url"))
        return CallPlan(answer=ChatUpdated("unchanged", None, place=place, url=url, note=earlier.note))
    if plan.halted is not None:
        return CallPlan(answer=plan.halted, origins=plan.quotes)
    return CallPlan(
        execute=lambda call: update_act(services, plan).carry_out(services, call),
        preview=CallPreview(
            answer=updated(plan, "analysis"),
            sentence=updates_model.sentence(plan),
            effect=plan.effect,
            documents=(),
            files=updates_model.changes(plan),
        ),
        level=plan.level,
        origins=plan.quotes,
        destination=plan.destination,
    )


async def recall_change(services: ActServices, call: Call, arguments: ChatUpdateArguments) -> ChatUpdated | None:
    """Return the outcome of a change whose process died."""
    plan = await plan_update(chat_of(services), arguments, recalled=True)
    return await update_act(services, plan).recall(services, call)


async def recall_send(services: ActServices, call: Call, arguments: SendArguments) -> MessageActed | None:
    """Return the outcome of a message whose process died."""
    return await message_act(services, await planned_sending(services, call, arguments)).recall(services, call)


async def recall_react(services: ActServices, call: Call, arguments: ReactArguments) -> MessageActed | None:
    """Return the outcome of a reaction whose process died."""
    return await message_act(services, await plan_reaction(chat_of(services), arguments)).recall(services, call)


async def planned_sending(services: ActServices, call: Call, arguments: SendArguments) -> MessagePlan:
    """Return the plan of the message, halted if a person approved this very call a while ago and it was done."""
    page = await _page(services, arguments.file) if arguments.file and arguments.file.startswith(PAGE) else None
    plan = await plan_message(chat_of(services), arguments, page)
    if page is not None and (source := await services.tiers.tainted(page.path)) is not None:
        # The gate then asks whether text from there may go to this channel.
        plan = replace(plan, quotes=(*plan.quotes, origin_of(page.path, source)))
    if plan.halted is not None:
        return plan
    earlier = await earlier_act(services, call, SEND, arguments, REPEAT_WINDOW)
    if earlier is None:
        return plan
    return replace(plan, halted=await with_deletions(chat_of(services), sent_before(plan, earlier)))


async def _page(services: ActServices, asked: str) -> Document:
    """Return the page to attach, by its exact path.

    Raises:
        Unclear: only a page with a similar path was found, or the page is too long for a person to look through before
            it is sent.
        KnowledgeError: there is no such page.
    """
    path = asked.removeprefix(PAGE).strip()
    page = await services.tiers.document(path)
    if path not in (page.path, page.path.rpartition(".")[0]):
        raise Unclear(f"no page {path[:60]!r}; the nearest is kb:{page.path}")
    if len(page.text) > LONGEST_PAGE:
        raise Unclear(f"kb:{page.path} has {len(page.text):,} characters; at most {LONGEST_PAGE:,} are sent as a file")
    return page


def _call_plan(services: ActServices, plan: MessagePlan) -> CallPlan[MessageActed]:
    if plan.halted is not None:
        return CallPlan(answer=plan.halted, origins=plan.quotes)
    return CallPlan(
        execute=lambda call: message_act(services, plan).carry_out(services, call),
        preview=CallPreview(
            answer=answered(plan, "analysis"),
            sentence=sentence(plan),
            effect=plan.effect,
            documents=(),  # none: of two messages to one topic, the newer does not replace the older
            files=changes(plan),
        ),
        # Where people decide on proposals, the bot's name is the server's: a host must not speak in it. And a message that calls
        # everybody in a channel cannot be taken back.
        level=Trust.HIGH_STAKES if plan.among_reviews or plan.to_everybody else Trust.NONE,
        origins=plan.quotes,
        destination=plan.destination,
    )
