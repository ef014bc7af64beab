"""The conversations in which a journey was worked on, and the work done in each. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from agents.engine.events import Forked, Logged, PhaseChanged, Started, WorkRecorded


@dataclass(slots=True)
class Conversation:
    """A conversation: its phases in order without repeats, the number of its submits, and their tokens."""

    id: str
    phases: list[str] = field(default_factory=list)
    submits: int = 0
    tokens: int = 0


def conversations(log: Iterable[Logged]) -> Sequence[Conversation]:
    """Return the conversations in the order in which they began. The server's own work belongs to none of them."""
    found: dict[str, Conversation] = {}
    current, phase = "", ""
    for logged in log:
        match logged.event:
            case Started(phase=begun, conversation=conversation):
                current, phase = conversation, begun
            case Forked(conversation=conversation):
                current = conversation or current
            case PhaseChanged(target=target, conversation=conversation):
                current, phase = conversation or current, target
            case WorkRecorded() as work if not work.automatic:
                one = found.setdefault(current, Conversation(current))
                one.phases += [phase] if phase not in one.phases else []
                one.submits += 1
                one.tokens += work.usage.tokens_in + work.usage.tokens_out
    if current not in found and current:
        found[current] = Conversation(current, [phase])
    return [one for id_, one in found.items() if id_]
