"""Plans webhooks, sends them and answers. Imported with the first call."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, Literal

from mcp_server.app.settings.services import WebhookTarget
from mcp_server.connectors.errors import ConnectorError
from mcp_server.connectors.outbox_dispatcher import LONGEST_IN_FLIGHT, REPEAT_WINDOW, Delivered, DeliveryAttempt, Json
from mcp_server.connectors.text.preview import shown_change
from mcp_server.connectors.webhook.receivers import Receivers, receivers_of
from mcp_server.connectors.webhook.wire import SERVICE
from mcp_server.gate.caller import Call
from mcp_server.ports import ActServices
from mcp_server.toolsets.service_act import ServiceAct, digest_of, earlier_act, repetition_note
from mcp_server.toolsets.spec import CallPlan, CallPreview, ToolSpec
from mcp_server.toolsets.webhook import SEND, TOOLSET
from mcp_server.toolsets.webhook.schemas import SendWebhookArguments, WebhookSent

LARGEST_BODY = 256 * 1024
"""Bytes. Receivers want less: 20 kB (Standard Webhooks, "Payload size")."""
TEXT = "text"


@dataclass(frozen=True, slots=True)
class PlannedWebhook:
    """A webhook to send: exactly the bytes of `body`. `halted` is the answer of a call that sends nothing."""

    target: WebhookTarget
    event: str
    body: str
    arguments_hash: str
    halted: WebhookSent | None = None

    @property
    def destination(self) -> str:
        """The receiver: it gets all of the text."""
        return f"{TOOLSET}:{self.target.name}"

    @property
    def effect(self) -> str:
        """A hash over what would be sent, and where; it changes if a person points the name at another address."""
        return digest_of([self.target.name, self.target.url, self.body])

    def answered(
        self,
        status: Literal["analysis", "unchanged", "unsure", "done"],
        webhook_id: str | None,
        note: str | None = None,
    ) -> WebhookSent:
        """Return the answer with that status."""
        preview = self.body if status == "analysis" else None
        return WebhookSent(status, None, self.target.name, webhook_id, preview=preview, note=note)


@dataclass(frozen=True)
class SendWebhook:
    """Sends the webhook. Nobody can look up whether it arrived, but it can be sent again under its id."""

    receivers: Receivers
    plan: PlannedWebhook
    # The receiver honours the id: that is what a person configures with a receiver of Standard Webhooks.
    keyed = True

    async def send(self, attempt: DeliveryAttempt) -> Json:
        """Send it, and return its id."""
        await self.receivers.deliver(self.plan.target, attempt.id, self.plan.body.encode())
        return {"webhook_id": attempt.id}

    async def look(self, attempt: DeliveryAttempt) -> Json | None:
        """Return None: a receiver cannot be asked."""
        del attempt
        return None


async def plan_send(services: ActServices, call: Call, arguments: SendWebhookArguments) -> CallPlan[WebhookSent]:
    """Plan a webhook. Changes nothing."""
    plan = await _planned(services, call, arguments)
    if plan.halted is not None:
        return CallPlan(answer=plan.halted)
    return CallPlan(
        execute=lambda call: _act(services, plan).carry_out(services, call),
        preview=CallPreview(
            answer=plan.answered("analysis", None),
            sentence=f"send the webhook {plan.event} to {plan.target.name}",
            effect=plan.effect,
            documents=(),  # none: of two webhooks to one receiver, the newer does not replace the older
            files=[shown_change(f"{plan.destination} {plan.event}", None, plan.body)],
        ),
        destination=plan.destination,
    )


async def recall_send(services: ActServices, call: Call, arguments: SendWebhookArguments) -> WebhookSent | None:
    """Return the outcome of a webhook whose process died; None if it is not known to have arrived, and can be sent (again)."""
    return await _act(services, await _planned(services, call, arguments)).recall(services, call)


async def _planned(services: ActServices, call: Call, arguments: SendWebhookArguments) -> PlannedWebhook:
    """Return the plan; it is halted for a dry run, or if a person approved this very call a while ago and it was sent.

    Raises:
        UnknownName, TargetGone: about the receiver.
        ConnectorError: there is nothing to send, or it is too large.
    """
    target = receivers_of(services).target(arguments.target)
    plan = PlannedWebhook(target, arguments.event, _body(arguments), ToolSpec.hash_of(arguments))
    if arguments.dry_run:
        return replace(plan, halted=plan.answered("analysis", None))
    earlier = await earlier_act(services, call, SEND, arguments, REPEAT_WINDOW)
    if earlier is None:
        return plan
    sent_id = str(earlier.answer.get("webhook_id") or "") or None
    return replace(plan, halted=plan.answered("unchanged", sent_id, earlier.note))


def _body(arguments: SendWebhookArguments) -> str:
    """Return the body: readable JSON, because a person approves exactly these characters.

    It has `type` and `data`. The recommended `timestamp` is left out: it would be known only after the approval, and the signed
    header `webhook-timestamp` has the time. Source: Standard Webhooks, "Payload structure".
    """
    data: dict[str, Any] = dict(arguments.data)
    if arguments.text is not None:
        if TEXT in data:
            raise ConnectorError(SERVICE, "give the text either as text or as data.text, not both")
        data = {TEXT: arguments.text, **data}
    if not data:
        raise ConnectorError(SERVICE, "there is nothing to send: give text or data")
    body = json.dumps({"type": arguments.event, "data": data}, ensure_ascii=False, indent=2, allow_nan=False)
    # Half of a surrogate pair cannot be encoded.
    body = body.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if (size := len(body.encode())) > LARGEST_BODY:
        raise ConnectorError(SERVICE, f"the webhook has {size:,} bytes, at most {LARGEST_BODY:,} are sent: send a link")
    return body


def _act(services: ActServices, plan: PlannedWebhook) -> ServiceAct[WebhookSent]:
    async def conclude(delivered: Delivered) -> WebhookSent:
        entry = delivered.outbox_entry
        if delivered.status == "unsure":
            minutes = LONGEST_IN_FLIGHT.total_seconds() / 60
            why = (
                f"{plan.target.name} may have received it. The same call sends it again as {entry.id}, if need be "
                f"{minutes:.0f} minutes after the first attempt; a receiver that knows this id drops the copy"
            )
            return plan.answered("unsure", entry.id, why)
        if delivered.status == "unchanged":
            return plan.answered("unchanged", entry.id, repetition_note(entry))
        return plan.answered("done", entry.id)

    return ServiceAct(
        tool=SEND,
        target=plan.destination,
        digest=plan.effect,
        arguments_hash=plan.arguments_hash,
        window=REPEAT_WINDOW,
        act=SendWebhook(receivers_of(services), plan),
        conclude=conclude,
    )
