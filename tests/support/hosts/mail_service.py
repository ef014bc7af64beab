"""A service without keys for tests of the gate, and a tool that sends messages through it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from mcp_server.app.dependencies import Services
from mcp_server.connectors.errors import ReplyLost
from mcp_server.connectors.outbox_dispatcher import Delivered, DeliveryAttempt, Json, outbox_entry_for
from mcp_server.gate.caller import Call
from mcp_server.gate.policy import Trust
from mcp_server.toolsets.spec import AnySpec, Arguments, CallPlan, CallPreview, ToolSpec

PLACE = "https://mail.example/all"


@dataclass(frozen=True)
class Sent:
    """The tool's answer."""

    status: str
    proposal: Mapping[str, Any] | None = None
    url: str | None = None
    note: str | None = None


class Message(Arguments):
    """The tool's arguments."""

    text: str


@dataclass
class Mail:
    """A service without keys, and a tool that sends through it."""

    held: list[str] = field(default_factory=list)
    reply: Exception | None = None
    looking: Exception | None = None
    takes: Callable[[], Awaitable[None]] | None = None

    def act(self, text: str) -> Posting:
        return Posting(self, text)

    async def apply(self, services: Services, call: Call, asked: Message) -> Sent:
        outbox_entry = outbox_entry_for(
            call,
            tool="send",
            target="mail:all",
            digest=sha256(asked.text.encode()).hexdigest(),
            arguments_hash=ToolSpec.hash_of(asked),
            at=services.now(),
        )
        return _told(await services.dispatcher.deliver(outbox_entry, self.act(asked.text)))

    async def recalled(self, services: Services, call: Call, asked: Message) -> Sent | None:
        found = await services.dispatcher.recall(call, self.act(asked.text))
        return None if found is None else _told(found)

    def spec(self) -> AnySpec:
        async def plan(services: Services, _call: Call, asked: Message) -> CallPlan[Sent]:
            return CallPlan(
                execute=lambda call: self.apply(services, call, asked),
                preview=CallPreview(Sent("proposed"), "a message", effect=asked.text, documents=()),
            )

        return ToolSpec[Any, Message, Sent](
            "send",
            "Send",
            Trust.ROUTINE,
            "mail",
            "Sends a message.",
            Message,
            Sent,
            plan=plan,
            recalled=self.recalled,
            open_world=True,
        )


@dataclass
class Posting:
    """One message."""

    mail: Mail
    text: str
    keyed: bool = False

    async def send(self, attempt: DeliveryAttempt) -> Json:
        await attempt.mark({"queue": "q-1"})
        if self.mail.takes is not None:
            await self.mail.takes()
        if self.mail.reply is None or isinstance(self.mail.reply, ReplyLost):
            self.mail.held.append(self.text)
        if self.mail.reply is not None:
            raise self.mail.reply
        return {"id": 1}

    async def look(self, attempt: DeliveryAttempt) -> Json | None:
        del attempt
        if self.mail.looking is not None:
            raise self.mail.looking
        return {"id": 1} if self.text in self.mail.held else None


def _told(delivered: Delivered) -> Sent:
    return Sent(delivered.status, url=PLACE, note=delivered.why or None)
