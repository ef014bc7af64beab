"""The shared parts of the short questions that the language model is asked besides runs."""

from __future__ import annotations

import hashlib
import json
import logging
import secrets
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import Enum
from typing import Any, Generic, TypeVar

import anyio

from agents.loop.model.errors import ProviderError
from agents.loop.model.ports import FromUser, ModelRequest, Provider, Shape
from agents.loop.providers.usage import conversation_id

LONGEST_S = 8.0
"""How long an act waits for a model that only judges, including all tries."""
QUIET_S = 60.0
"""The pause after a failure, so that not every act waits in vain."""
AT_ONCE = 4
"""Questions of one kind that one process asks at a time. Waiting for a place counts as waiting for the model."""
SURE = 0.75
"""The least certainty of a finding; less certain ones are ignored, because people who get many false alarms stop looking."""
MOST_KEPT = 5_000
"""Opinions that are cached; the oldest is dropped first."""
MOST_TOKENS = 4_000
"""The limit of an answer, which has a few hundred; some models count their reasoning too."""
MOST_QUESTIONS, WITHIN_S = 200, 3_600.0
"""The most questions within a time, to limit the cost, because every caller may try acts as a dry run."""

log = logging.getLogger("knowledge_forge.models")
Opinion = TypeVar("Opinion")


def new_conversation(agent: str) -> str:
    """Return a new id under which the usage of that agent's questions is accounted."""
    return conversation_id(agent, 1, secrets.token_hex(4))


def closed_object(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of an object with exactly these properties."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


class QuestionLimit:
    """At most `most` questions within `within_s` seconds, so that nobody can make the model cost more. `clock` counts seconds."""

    def __init__(self, most: int, within_s: float, clock: Callable[[], float]) -> None:
        self._within_s, self._clock = within_s, clock
        self._asked_at: deque[float] = deque(maxlen=most)

    def take(self) -> bool:
        """Return whether one more question may be asked now, and count it."""
        now = self._clock()
        if len(self._asked_at) == self._asked_at.maxlen and now - self._asked_at[0] < self._within_s:
            return False
        self._asked_at.append(now)
        return True


class NoJudgement(Enum):
    """The reason why a model gave no answer."""

    AWAY = "it gave none in time, or recently failed"
    SPENT = "it was asked as often as allowed"


class BoundedQuestions:
    """Asks one model to judge numbered items: in bounded time, a bounded number of times, and without ever failing.

    `name` is the model's name for people, `agent` the name under which the usage is accounted, `topic` says in the log which
    judgement is missing, and `clock` counts seconds.
    """

    def __init__(
        self,
        provider: Callable[[], Awaitable[Provider]],
        name: str,
        agent: str,
        topic: str,
        *,
        clock: Callable[[], float],
        longest_s: float = LONGEST_S,
        most_questions: int = MOST_QUESTIONS,
    ) -> None:
        self._provider, self.name, self._topic = provider, name, topic
        self._clock, self._longest_s = clock, longest_s
        self._conversation = new_conversation(agent)
        self._quiet_until = float("-inf")
        self._limit = QuestionLimit(most_questions, WITHIN_S, clock)
        self._room = anyio.CapacityLimiter(AT_ONCE)

    async def ask(self, system: str, text: str, shape: Shape) -> Mapping[str, Any] | NoJudgement:
        """Return the answer, which has this shape, or why there is none."""
        if self._clock() < self._quiet_until:
            return NoJudgement.AWAY
        if not self._limit.take():
            return NoJudgement.SPENT
        question = ModelRequest(
            self._conversation, (FromUser(text),), system=system, most_tokens=MOST_TOKENS, temperature=0.0
        )
        try:
            with anyio.fail_after(self._longest_s):
                async with self._room:
                    return (await (await self._provider()).complete_json(question, shape)).value
        except Exception as error:  # noqa: BLE001  an act does not fail for a help that it can do without
            # A provider's own sentences never quote question or answer; other errors may.
            why = str(error) if isinstance(error, ProviderError) else type(error).__name__
            log.warning("%s gave no judgement on %s: %s", self.name, self._topic, why)
            self._quiet_until = self._clock() + QUIET_S
            return NoJudgement.AWAY


class KeptOpinions(Generic[Opinion]):
    """The newest opinions of a process by what they are about, so that nothing is asked twice. Only hashes of texts are kept."""

    def __init__(self) -> None:
        self._kept: OrderedDict[bytes, Opinion] = OrderedDict()

    def of(self, texts: Sequence[Any]) -> Opinion | None:
        """Return the opinion of these texts, or None if there is none, or newer ones have displaced it."""
        return self._kept.get(_hash(texts))

    def keep(self, texts: Sequence[Any], opinion: Opinion) -> None:
        """Keep the opinion of these texts."""
        self._kept[_hash(texts)] = opinion
        while len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)


def as_json(items: Sequence[Mapping[str, Any]]) -> str:
    """Return items for a model: as JSON, so that no text can pass for another item or for an instruction of ours."""
    text = json.dumps(items, ensure_ascii=False, indent=1)
    return text.encode("utf-8", "replace").decode()  # half a character cannot be sent


def _hash(texts: Sequence[Any]) -> bytes:
    return hashlib.blake2b(json.dumps(texts).encode(), digest_size=16).digest()
