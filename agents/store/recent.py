"""States that a store has just written, so that the next step of the same journey need not read them back. Pure.

A state is copied when it is kept, and handed out once: its holder may change it without affecting the record or the next holder.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from agents.engine.events import Json
from agents.engine.state import JourneyState

MOST = 16
"""The most journeys whose states are kept. The one that moved longest ago is dropped."""


class Recent:
    """The newest states of the journeys that moved last."""

    def __init__(self) -> None:
        self._states: dict[str, JourneyState] = {}

    def keep(self, journey: str, state: JourneyState) -> None:
        """Remember the journey's state; the caller may change `state` afterwards."""
        # A dict keeps the place of a key that is set again: removed first, the journey counts as the newest.
        self._states.pop(journey, None)
        work = {phase: replace(one, content=_copy(one.content)) for phase, one in state.work.items()}
        word = state.word and replace(state.word, changes=_copy(state.word.changes))
        inputs, answers = _copy(dict(state.inputs)), _copy(dict(state.answers))
        self._states[journey] = replace(state, inputs=inputs, answers=answers, work=work, word=word)
        if len(self._states) > MOST:
            del self._states[next(iter(self._states))]

    def take(self, journey: str, version: int, seq: int, moved_at: datetime) -> JourneyState | None:
        """Forget the journey's state, and return it if it has this version and this time; else return None.

        Notes added in the meantime change only its `seq`.
        """
        state = self.claim(journey)
        if state is None or (state.version, state.moved_at) != (version, moved_at):
            return None
        return replace(state, seq=seq)

    def at(self, journey: str, version: int) -> JourneyState | None:
        """Forget the state, and return it, if it is at that version; it may be out of date. Else return None."""
        state = self._states.get(journey)
        return self.claim(journey) if state is not None and state.version == version else None

    def claim(self, journey: str) -> JourneyState | None:
        """Return the state, which may be out of date, and forget it."""
        return self._states.pop(journey, None)


def _copy(value: Json) -> Json:
    if isinstance(value, dict):
        return {name: _copy(inside) for name, inside in value.items()}
    return [_copy(inside) for inside in value] if isinstance(value, list) else value
