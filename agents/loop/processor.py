"""Decides the next step of a run by asking a language model. The request is built from the run's frames alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import ROUND_CEILING, Decimal
from hashlib import sha256

from agents.loop.decision import Decision, interpret_reply, new_observations, tools_digest
from agents.loop.model.errors import Malformed, ProviderError
from agents.loop.model.ports import ModelRequest, ModelUsage, Provider, ToolDefinition
from agents.loop.record.frames import RequestCost
from agents.loop.record.run import Run
from agents.loop.record.transcript import OWN_TOOLS, SYSTEM, build_transcript, message_tokens, transcript_tokens

AGENT = "run"
MICROS = 1_000_000
Cost = Callable[[str, ModelUsage], Decimal | None]
"""Returns the cost of a usage of a model, None if unknown."""


def unknown_cost(_model: str, _usage: ModelUsage) -> Decimal | None:
    """Return None: the cost is unknown."""
    return None


def next_request(run: Run, tools: Sequence[ToolDefinition]) -> ModelRequest:
    """Return the next request to the model; it is the same for the same header, frames and tools."""
    limits, messages = run.header.limits, build_transcript(run)
    # The answer may use no more than the run's remaining tokens after this request.
    left = limits.answer_tokens
    if limits.tokens is not None:
        left = min(left, limits.tokens - run.spent.tokens - transcript_tokens(messages))
    if run.shortened:
        # Servers with a small window count the longest answer as a part of the request.
        left = min(left, run.context_tokens // 2)
    # Digits from the run's id instead of random ones, so that the same run makes the same request.
    conversation = f"{AGENT}_iter{run.iterations + 1}_{sha256(run.id.encode()).hexdigest()[:8]}"
    # Vendors refuse a limit of 0.
    return ModelRequest(conversation, messages, SYSTEM, (*tools, *OWN_TOOLS), most_tokens=max(1, left))


class Processor:
    """Asks one provider. `cost` prices a usage by the name of the requested model, because vendors answer with dated names."""

    def __init__(self, provider: Provider, cost: Cost = unknown_cost) -> None:
        self._provider, self._cost = provider, cost

    async def decide(self, run: Run, tools: Sequence[ToolDefinition]) -> Decision:
        """Return the model's decision, with these tools offered. A decision that cannot be carried out gives the reason.

        Raises:
            ProviderError: the model cannot be asked, or refuses; `cost_of` returns the cost of the attempt.
        """
        request = next_request(run, tools)
        try:
            reply = await self._provider.complete(request)
        except Malformed as error:
            decision = Decision("correct", "", problem=error.why, cost=self.cost_of(error))
        else:
            cost = replace(self._priced(reply.usage), model=reply.model, request=reply.request)
            if not reply.usage.known:
                # Estimated from the texts, but never less than the tokens that some of the tries are known to have used.
                tokens_in = max(cost.tokens_in, transcript_tokens(request.messages))
                tokens_out = max(cost.tokens_out, message_tokens(reply.as_message()))
                cost = replace(cost, tokens_in=tokens_in, tokens_out=tokens_out)
            decision = replace(interpret_reply(reply, tools, run), cost=cost)
        return replace(decision, observations=new_observations(run), offered=tools_digest(tools))

    def cost_of(self, error: ProviderError) -> RequestCost:
        """Return the cost of a request that failed."""
        return self._priced(error.usage)

    def _priced(self, usage: ModelUsage) -> RequestCost:
        cost = self._cost(self._provider.model, usage)
        return RequestCost(
            tokens_in=usage.input,
            tokens_out=usage.output,
            tokens_cached=usage.cached,
            counted=not usage.known,
            # Rounded up: many small requests must not count as free.
            cost_micros=None if cost is None else int((cost * MICROS).to_integral_value(ROUND_CEILING)),
            model=self._provider.model,
        )
