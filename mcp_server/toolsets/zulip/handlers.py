"""What the tools on messages in Zulip do. Imported with the first call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mcp_server.connectors.outbox_dispatcher import WITHIN
from mcp_server.connectors.replay import done_earlier
from mcp_server.gate.caller import Call
from mcp_server.gate.policy import Trust
from mcp_server.ports import ActServices
from mcp_server.toolsets.spec import CallPlan, CallPreview, ToolSpec
from mcp_server.toolsets.zulip import message_views as reading
from mcp_server.toolsets.zulip.act_execution import carried_out, recalled
from mcp_server.toolsets.zulip.act_model import answered, changes, sentence
from mcp_server.toolsets.zulip.act_plan import MessageWish, planned_message, planned_reaction, sent_earlier
from mcp_server.toolsets.zulip.message_views import origins
from mcp_server.toolsets.zulip.schemas import (
    SEND,
    Channels,
    ChannelsArguments,
    MessageActed,
    Messages,
    ReactArguments,
    ReadMessagesArguments,
    SearchMessagesArguments,
    SendArguments,
)

if TYPE_CHECKING:
    from mcp_server.toolsets.zulip.act_model import MessagePlan


async def channels(services: ActServices, call: Call, asked: ChannelsArguments) -> Channels:
    """Answer which channels there are, or what one is for and its topics."""
    del call
    return await reading.channels(services.zulip, asked.channel)


async def read(services: ActServices, call: Call, asked: ReadMessagesArguments) -> Messages:
    """Answer messages of a place."""
    del call
    wanted = reading.MessageQuery(
        asked.channel, asked.topic, tuple(asked.people), asked.anchor, asked.since, asked.limit, asked.cursor
    )
    told = await reading.read(services.zulip, wanted)
    await reading.remember_mentions(services, told)
    return told


async def search(services: ActServices, call: Call, asked: SearchMessagesArguments) -> Messages:
    """Answer messages with words."""
    del call
    sought = reading.Sought(asked.query, asked.channel, asked.topic, asked.sender, asked.limit, asked.cursor)
    return await reading.search(services.zulip, sought)


async def read_from(_services: ActServices, told: Messages | Channels) -> Sequence[str]:
    """Return where the text in an answer comes from."""
    return origins(told)


async def plan_send(services: ActServices, call: Call, asked: SendArguments) -> CallPlan[MessageActed]:
    """Work out what would be sent, and where. Changes nothing."""
    return _call_plan(services, await planned_sending(services, call, asked))


async def plan_react(services: ActServices, _call: Call, asked: ReactArguments) -> CallPlan[MessageActed]:
    """Work out what would be added or taken back. Changes nothing."""
    return _call_plan(services, await _reaction(services, asked))


def _call_plan(services: ActServices, plan: MessagePlan) -> CallPlan[MessageActed]:
    """Return what the gate has to know of an act in Zulip."""
    if plan.halted is not None:
        return CallPlan(answer=plan.halted, origins=plan.quotes)
    return CallPlan(
        execute=lambda call: carried_out(services, call, plan),
        preview=CallPreview(
            answer=answered(plan, "analysis"),
            sentence=sentence(plan),
            effect=plan.effect,
            documents=(),
            files=changes(plan),
        ),
        # Where people decide on proposals only the server speaks for itself.
        level=Trust.HIGH_STAKES if plan.among_reviews else Trust.NONE,
        origins=plan.quotes,
        destination=plan.destination,
    )


async def planned_sending(services: ActServices, call: Call, asked: SendArguments) -> MessagePlan:
    """Return the plan of the message, halted if a person agreed to this very call a while ago and it was done."""
    wish = MessageWish(
        asked.text,
        asked.channel,
        asked.topic,
        tuple(asked.people),
        asked.too_long,
        rehearsal=asked.dry_run,
        arguments_hash=ToolSpec.hash_of(asked),
    )
    plan = await planned_message(services.zulip, wish)
    if plan.halted is not None:
        return plan
    earlier = await done_earlier(services, call, SEND, asked.model_dump(mode="json"), WITHIN)
    return sent_earlier(plan, earlier) if earlier else plan


async def _reaction(services: ActServices, asked: ReactArguments) -> MessagePlan:
    return await planned_reaction(
        services.zulip,
        asked.message_id,
        asked.emoji,
        remove=asked.remove,
        rehearsal=asked.dry_run,
        arguments_hash=ToolSpec.hash_of(asked),
    )


async def recall_send(services: ActServices, call: Call, asked: SendArguments) -> MessageActed | None:
    """Return what became of an approved message whose process died over it."""
    return await recalled(services, call, await planned_sending(services, call, asked))


async def recall_react(services: ActServices, call: Call, asked: ReactArguments) -> MessageActed | None:
    """Return the same of a reaction."""
    return await recalled(services, call, await _reaction(services, asked))
