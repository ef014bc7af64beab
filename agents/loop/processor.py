"""Decides the next step of a run by asking a language model. What it is told is made of the run's frames alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import ROUND_CEILING, Decimal
from hashlib import sha256

from agents.loop.decision import Decision, Took, decided, digest, observed
from agents.loop.model.errors import Malformed, ProviderError
from agents.loop.model.ports import ModelReply, ModelRequest, ModelUsage, Provider, ToolDefinition
from agents.loop.record.run import Run
from agents.loop.record.transcript import OWN_TOOLS, SYSTEM, message_tokens, transcript, transcript_tokens

AGENT = "run"
MICROS = 1_000_000
Cost = Callable[[str, ModelUsage], Decimal | None]
"""Returns what a model's answer costs, None where nobody knows."""


def unknown_cost(_model: str, _usage: ModelUsage) -> Decimal | None:
    """Return that nobody knows what it costs."""
    return None


def asked_of(run: Run, tools: Sequence[ToolDefinition]) -> ModelRequest:
    """Return what a model is asked next: the same for the same header, frames and tools."""
    limits, messages = run.header.limits, transcript(run)
    left = limits.answer_tokens
    if limits.tokens is not None:
        left = min(left, limits.tokens - run.spent.tokens - transcript_tokens(messages))
    return ModelRequest(_conversation(run), messages, SYSTEM, (*tools, *OWN_TOOLS), most_tokens=max(1, left))


class Processor:
    """Asks one provider. `cost` says what its answers cost; models are priced by the name by which they are asked."""

    def __init__(self, provider: Provider, cost: Cost = unknown_cost) -> None:
        self._provider, self._cost = provider, cost

    async def decide(self, run: Run, tools: Sequence[ToolDefinition]) -> Decision:
        """Return what the model decides, for which these tools are offered. One that cannot be carried out says what was wrong.

        Raises:
            ProviderError: it could not be asked, or refuses; `took` says what that took nevertheless.
        """
        asked = asked_of(run, tools)
        try:
            said = await self._provider.complete(asked)
        except Malformed as error:
            found = Decision("correct", "", problem=error.why)
            took = self.took(error.usage, self._provider.model)
        else:
            found = decided(said, tools)
            took = replace(self._of(asked, said), model=said.model, request=said.request)
        return replace(found, took=took, observations=observed(run), offered=digest(tools))

    def failed(self, error: ProviderError) -> Took:
        """Return what it took to be told that."""
        return self.took(error.usage, self._provider.model)

    def took(self, usage: ModelUsage, model: str) -> Took:
        """Return what that usage comes to. What a vendor does not say is counted by who knows the texts."""
        cost = self._cost(self._provider.model, usage)
        micros = None if cost is None else int((cost * MICROS).to_integral_value(ROUND_CEILING))
        return Took(usage.input, usage.output, usage.cached, counted=not usage.known, cost_micros=micros, model=model)

    def _of(self, asked: ModelRequest, said: ModelReply) -> Took:
        took = self.took(said.usage, said.model)
        if said.usage.known:
            return took
        inside, out = transcript_tokens(asked.messages), message_tokens(said.as_message())
        # What is told of several tries may be that of some: never less than is plain to see.
        return replace(took, tokens_in=max(took.tokens_in, inside), tokens_out=max(took.tokens_out, out))


def _conversation(run: Run) -> str:
    """Return the id under which the usage of this answer is accounted, as design and providers have it."""
    return f"{AGENT}_iter{run.iterations + 1}_{sha256(run.id.encode()).hexdigest()[:8]}"
