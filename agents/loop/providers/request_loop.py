"""One request to a model over one wire format, with retries and corrections: the part that all vendors share."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from agents.loop.model.errors import (
    BadKey,
    ContextTooLong,
    Malformed,
    Overloaded,
    ProviderAway,
    ProviderError,
    ProviderLimited,
    Refusal,
    Rejected,
    SpentUp,
)
from agents.loop.model.ports import FromModel, FromUser, JsonReply, ModelReply, ModelRequest, ModelUsage, Shape
from agents.loop.providers.access import Access, RequestPatience
from agents.loop.providers.failures import MENDABLE, RequestFailed, RequestFailure
from agents.loop.providers.wire.reply_text import json_in, misfit, whole_characters
from agents.loop.providers.wire.request import ECHO, ModelRefused, ProviderRequest, UnusableReply, Wire, Without
from knowledge.telemetry.operations import recorded

LONGEST_JSON = 200_000
"""The longest requested JSON: a few thousand characters are expected, and no other caller is served while they are checked."""
TRIES_OF_THE_UNUSABLE = 2
"""After two unreadable replies, a third try is unlikely to help."""


class RequestChannel(Protocol):
    """Carries a request to one server and its reply back."""

    async def send(self, request: ProviderRequest, wire: Wire, *, streamed: bool) -> tuple[Mapping[str, Any], str]:
        """Return the complete reply and the vendor's id of the request, after one try.

        Raises:
            RequestFailed: an error came, or nothing, or an incomplete reply.
        """
        ...

    async def aclose(self) -> None:
        """Close the connections."""
        ...


@dataclass
class _Attempts:
    """The tries and usage of one request so far."""

    tries: int = 0
    waited_s: float = 0.0
    usage: ModelUsage = field(default_factory=ModelUsage)


class ModelProvider:
    """Asks one model. `sleep` waits between tries; `chance` returns a random number between two bounds, to spread the waits."""

    def __init__(
        self,
        name: str,
        access: Access,
        wire: Wire,
        channel: RequestChannel,
        *,
        patience: RequestPatience,
        sleep: Callable[[float], Awaitable[None]],
        chance: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self._name, self._access, self._wire, self._channel = name, access, wire, channel
        self._patience, self._sleep, self._chance = patience, sleep, chance
        # Remembered, so that later requests leave out parts that the server does not know.
        self._without: Without = frozenset()

    def __repr__(self) -> str:
        """Return vendor and model, without the key."""
        return f"ModelProvider({self._name!r}, {self._access.model!r})"

    @property
    def name(self) -> str:
        """The vendor's name."""
        return self._name

    @property
    def model(self) -> str:
        """The requested model."""
        return self._access.model

    async def aclose(self) -> None:
        """Close its connections."""
        await self._channel.aclose()

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Return the reply. Its usage includes that of failed tries.

        Raises:
            ProviderError: as the port says.
        """
        return await self._answer(request, None)

    async def complete_json(self, request: ModelRequest, shape: Shape) -> JsonReply:
        """Return JSON that fits, checked here whatever the vendor promises, and corrected once.

        Raises:
            Malformed: it does not fit, twice.
            ProviderError: as the port says.
        """
        # A history with tool uses is only understood beside the definitions of the tools.
        uses_tools = any(isinstance(message, FromModel) and message.uses for message in request.messages)
        plain = replace(request, tools=request.tools if uses_tools else (), tool_choice="none", only="")
        first = await self._answer(plain, shape)
        value, problem = _fitting(first, shape)
        if value is not None:
            return JsonReply(value, first.usage, first.model, first.request)
        correction = FromUser(f"That does not fit: {problem}. Answer again with the JSON object alone.")
        messages = (*plain.messages, FromModel(first.text[:LONGEST_JSON]), correction)
        try:
            second = await self._answer(replace(plain, messages=messages), shape)
        except ProviderError as error:
            error.usage = first.usage + error.usage
            raise
        value, _ = _fitting(second, shape)
        usage = first.usage + second.usage
        if value is None:
            why = "it was cut off" if second.stop == "length" else "it does not have the requested shape"
            raise Malformed(self._name, why, usage)
        return JsonReply(value, usage, second.model, second.request)

    @recorded("model", elsewhere=True)
    async def _answer(self, request: ModelRequest, shape: Shape | None) -> ModelReply:
        """Return the reply to the request, after as many tries as it takes and `RequestPatience` allows."""
        attempts, without = _Attempts(), self._without
        streamed = request.most_tokens > self._patience.stream_above
        while True:
            outgoing = self._wire.request(request, without, shape, streamed=streamed)
            outgoing = replace(outgoing, body=whole_characters(outgoing.body))
            try:
                reply = await self._try_once(outgoing, request, streamed=streamed)
            except RequestFailed as failed:
                failure = failed.failure
            except ModelRefused as refused:
                # The vendor's word, or nothing: a sentence may quote the prompt.
                category = refused.category if refused.category.isidentifier() else ""
                raise Refusal(self._name, self.model, category, attempts.usage + refused.usage) from None
            else:
                # Checked last: the server may have named a part of the request for another reason.
                self._without |= without - {ECHO}
                return replace(reply, usage=attempts.usage + reply.usage)
            attempts.usage += failure.usage
            # This does not count as another try: the request has changed, and each part can be left out only once.
            if unknown := _unknown_part(outgoing, failure):
                without |= {unknown}
                continue
            attempts.tries += 1
            wait_s = self._wait_s(failure, attempts)
            if wait_s is None:
                error = self._error(failure, attempts.tries)
                error.usage = attempts.usage
                # The packages' errors quote the request or the reply, which must not get into a traceback.
                raise error from None
            attempts.waited_s += wait_s
            await self._sleep(wait_s)

    async def _try_once(self, outgoing: ProviderRequest, request: ModelRequest, *, streamed: bool) -> ModelReply:
        reply, request_id = await self._channel.send(outgoing, self._wire, streamed=streamed)
        try:
            read = self._wire.read(whole_characters(reply), request)
        except (UnusableReply, RecursionError) as error:
            why = error.why if isinstance(error, UnusableReply) else "it is nested too deeply"
            raise RequestFailed(RequestFailure(status=200, why=why, usage=self._wire.used(reply))) from None
        except ModelRefused as refused:
            refused.usage = self._wire.used(reply)
            raise
        return replace(read, request=request_id or read.request)

    def _wait_s(self, failure: RequestFailure, attempts: _Attempts) -> float | None:
        """Return how long to wait before the next try; None for no further try."""
        bounds = self._patience
        tries = TRIES_OF_THE_UNUSABLE if failure.kind == "malformed" else bounds.tries
        if not failure.passing or attempts.tries >= tries:
            return None
        # Clients that failed together must not come back together, and none before the server allows it.
        if failure.wait_s:
            if failure.wait_s > bounds.longest_wait_s:
                return None
            wait_s = failure.wait_s + self._chance(0.0, min(1.0, 0.1 * failure.wait_s))
        else:
            pause_s = min(bounds.longest_wait_s, bounds.first_wait_s * 2.0 ** (attempts.tries - 1))
            wait_s = self._chance(0.5 * pause_s, pause_s)
        return wait_s if attempts.waited_s + wait_s <= bounds.waits_s else None

    def _error(self, failure: RequestFailure, tries: int) -> ProviderError:
        access, name = self._access, self._name
        match failure.kind:
            case "away":
                mend = f"check that it runs and that {access.address_setting} is right"
                return ProviderAway(name, access.shown_address, failure.why, tries, mend)
            case "malformed":
                return Malformed(name, failure.why)
            case "spent":
                return SpentUp(name)
            case "long":
                return ContextTooLong(name, access.model, failure.room)
            case "key":
                return BadKey(name, access.key_setting, str(failure.status))
            case "limited":
                return ProviderLimited(name, failure.wait_s, tries)
            case "refused":
                return Refusal(name, access.model, failure.code)
            case "overloaded":
                return Overloaded(name, failure.status, tries)
            case "rejected":
                return Rejected(name, failure.status, failure.code, self._advice(failure))

    def _advice(self, failure: RequestFailure) -> str:
        access = self._access
        if 300 <= failure.status < 400:
            return f"it redirects elsewhere, which was not followed; set {access.address_setting} to its real address"
        if failure.long_answer:
            return f"its answers are never that long; reduce {access.bound_setting}"
        if failure.no_model:
            return f"check {access.model_setting} (does the model exist there?) and {access.address_setting}"
        return f"check {access.model_setting}; its server's log says more"


def _fitting(reply: ModelReply, shape: Shape) -> tuple[Mapping[str, Any] | None, str]:
    """Return the JSON in a reply; None, and why, if it does not fit the shape."""
    value = json_in(reply.text) if len(reply.text) <= LONGEST_JSON else None
    problem = misfit(value, shape)
    return (None if problem else value), problem


def _unknown_part(outgoing: ProviderRequest, failure: RequestFailure) -> str:
    """Return the part of the request that the server complains about and that it can do without; "" for none."""
    if failure.status not in MENDABLE or failure.kind not in ("rejected", "overloaded"):
        return ""
    for text in (failure.param, failure.message.lower()):
        for part, words in outgoing.parts.items():
            if any(word in text for word in words):
                return part
    return ""
