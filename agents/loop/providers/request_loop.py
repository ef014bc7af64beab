"""One question asked over one wire format, with all the patience that it needs: the part that all vendors share."""

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
from agents.loop.model.ports import FromModel, FromUser, ModelReply, ModelRequest, ModelUsage, Shape, Told
from agents.loop.providers.access import Access, RequestPatience
from agents.loop.providers.failures import MENDABLE, RequestFailed, RequestFailure
from agents.loop.providers.wire.reply_text import json_in, misfit, whole_characters
from agents.loop.providers.wire.request import ECHO, ModelRefused, ProviderRequest, UnusableReply, Wire, Without

LONGEST_JSON = 200_000
"""Characters of JSON that was asked for: some thousand are expected, and nobody else is served while all are checked."""
TRIES_OF_THE_UNUSABLE = 2
"""What no try could read twice it will not read the third time."""


class RequestChannel(Protocol):
    """What carries a request to one server and its reply back."""

    async def send(self, request: ProviderRequest, wire: Wire, *, streamed: bool) -> tuple[Mapping[str, Any], str]:
        """Return the whole reply and the vendor's id of the request, after one try.

        Raises:
            Failed: an error came, or nothing, or nothing whole.
        """
        ...

    async def aclose(self) -> None:
        """Close the connections."""
        ...


@dataclass
class _Spent:
    """What one question took so far."""

    tries: int = 0
    waited_s: float = 0.0
    usage: ModelUsage = field(default_factory=ModelUsage)


class ModelProvider:
    """Asks one model. `sleep` waits between tries; `chance` spreads waits between two bounds."""

    def __init__(
        self,
        name: str,
        access: Access,
        wire: Wire,
        line: RequestChannel,
        *,
        patience: RequestPatience,
        sleep: Callable[[float], Awaitable[None]],
        chance: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self._name, self._access, self._wire, self._line = name, access, wire, line
        self._patience, self._sleep, self._chance = patience, sleep, chance
        # What the server was found not to know is not tried again in every question.
        self._without: Without = frozenset()

    def __repr__(self) -> str:
        """Return who is asked, without the key."""
        return f"ModelProvider({self._name!r}, {self._access.model!r})"

    @property
    def name(self) -> str:
        """Return what a person calls the vendor."""
        return self._name

    @property
    def model(self) -> str:
        """Return the model that is asked."""
        return self._access.model

    async def aclose(self) -> None:
        """Close its connections."""
        await self._line.aclose()

    async def complete(self, asked: ModelRequest) -> ModelReply:
        """Return the answer. Its usage holds what tries took that came to nothing.

        Raises:
            ProviderError: as the port says.
        """
        return await self._answered(asked, None)

    async def complete_json(self, asked: ModelRequest, shape: Shape) -> Told:
        """Return JSON that fits, checked here whatever the vendor promises; corrected once.

        Raises:
            Malformed: it does not fit, twice.
            ProviderError: as the port says.
        """
        # A history with uses of tools is understood only by those who know the tools.
        known = any(isinstance(message, FromModel) and message.uses for message in asked.messages)
        plain = replace(asked, tools=asked.tools if known else (), freedom="none", only="")
        first = await self._answered(plain, shape)
        value = _json_in(first)
        problem = misfit(value, shape)
        if value is not None and not problem:
            return Told(value, first.usage, first.model, first.request)
        correction = FromUser(f"That does not fit: {problem}. Answer again with the JSON object alone.")
        said = FromModel(first.text[:LONGEST_JSON])
        try:
            second = await self._answered(replace(plain, messages=(*plain.messages, said, correction)), shape)
        except ProviderError as error:
            error.usage = first.usage + error.usage
            raise
        value, usage = _json_in(second), first.usage + second.usage
        if value is None or misfit(value, shape):
            why = "it was cut off" if second.stop == "length" else "it does not have the shape that was asked for"
            raise Malformed(self._name, why, usage)
        return Told(value, usage, second.model, second.request)

    async def _answered(self, asked: ModelRequest, shape: Shape | None) -> ModelReply:
        spent, without = _Spent(), self._without
        streamed = asked.most_tokens > self._patience.stream_above
        while True:
            request = self._wire.request(asked, without, shape, streamed=streamed)
            request = replace(request, body=whole_characters(request.body))
            try:
                said = await self._tried(request, asked, streamed=streamed)
            except RequestFailed as failed:
                failure = failed.failure
            except ModelRefused as refused:
                category = refused.category if refused.category.isidentifier() else ""
                raise Refusal(self._name, self.model, category, spent.usage + refused.usage) from None
            else:
                # What helped is remembered; a part may also have been named for another reason.
                self._without |= without - {ECHO}
                return replace(said, usage=spent.usage + said.usage)
            spent.usage += failure.usage
            unknown = _unknown_part(request, failure)
            if unknown:
                without |= {unknown}
                continue
            spent.tries += 1
            wait_s = self._wait_s(failure, spent)
            if wait_s is None:
                # What a package raises quotes the request or the reply: it is in no traceback.
                raise self._told(failure, spent) from None
            spent.waited_s += wait_s
            await self._sleep(wait_s)

    async def _tried(self, request: ProviderRequest, asked: ModelRequest, *, streamed: bool) -> ModelReply:
        reply, named = await self._line.send(request, self._wire, streamed=streamed)
        try:
            said = self._wire.read(whole_characters(reply), asked)
        except UnusableReply as unusable:
            raise RequestFailed(RequestFailure(status=200, why=unusable.why, usage=self._wire.used(reply))) from None
        except RecursionError:
            raise RequestFailed(
                RequestFailure(status=200, why="it is nested too deeply", usage=self._wire.used(reply))
            ) from None
        except ModelRefused as refused:
            refused.usage = self._wire.used(reply)
            raise
        return replace(said, request=named or said.request)

    def _wait_s(self, failure: RequestFailure, spent: _Spent) -> float | None:
        """Return how long to wait before the next try; None where there is none."""
        tries = TRIES_OF_THE_UNUSABLE if failure.kind == "malformed" else self._patience.tries
        if not failure.passing or spent.tries >= tries:
            return None
        bounds = self._patience
        pause_s = min(bounds.longest_wait_s, bounds.first_wait_s * 2.0 ** (spent.tries - 1))
        # Those that failed together must not come back together; and never before it is allowed.
        wait_s = self._chance(0.5 * pause_s, pause_s)
        if failure.wait_s:
            wait_s = failure.wait_s + self._chance(0.0, min(1.0, 0.1 * failure.wait_s))
            if failure.wait_s > bounds.longest_wait_s:
                return None
        return wait_s if spent.waited_s + wait_s <= bounds.waits_s else None

    def _told(self, failure: RequestFailure, spent: _Spent) -> ProviderError:
        error = self._error(failure, spent.tries)
        error.usage = spent.usage
        return error

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
                return Rejected(name, failure.status, failure.code, self._mend(failure))

    def _mend(self, failure: RequestFailure) -> str:
        access = self._access
        if 300 <= failure.status < 400:
            return f"it points elsewhere, which was not followed; set {access.address_setting} to where it really is"
        if failure.long_answer:
            return f"its answers are never that long; make {access.bound_setting} less"
        if failure.no_model:
            return f"check {access.model_setting} (is the model there?) and {access.address_setting}"
        return f"check {access.model_setting}; its server's log says more"


def _json_in(said: ModelReply) -> Mapping[str, Any] | None:
    return json_in(said.text) if len(said.text) <= LONGEST_JSON else None


def _unknown_part(request: ProviderRequest, failure: RequestFailure) -> str:
    """Return the part of the request that the server complains about and that it can go without; "" for none."""
    if failure.status not in MENDABLE or failure.kind not in ("rejected", "overloaded"):
        return ""
    for text in (failure.param, failure.message.lower()):
        for part, words in request.parts.items():
            if any(word in text for word in words):
                return part
    return ""
