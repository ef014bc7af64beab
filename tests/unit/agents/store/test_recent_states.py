"""States that a store caches: handed out once, only if they are still the newest, and to nobody else."""

from __future__ import annotations

from datetime import timedelta

from agents.engine.state import JourneyState
from agents.store.recent import MOST, Recent
from tests.support.journeys.graphs import Walk

SECOND = timedelta(seconds=1)


def _state() -> JourneyState:
    return Walk().submit(content={"notes": ["one"]})


def test_a_state_is_handed_out_once_including_later_notes() -> None:
    recent, state = Recent(), _state()
    recent.keep("j-1", state)
    taken = recent.take("j-1", state.version, state.seq + 3, state.moved_at)
    assert taken is not None
    assert (taken.version, taken.seq, taken.work) == (state.version, state.seq + 3, state.work)
    assert recent.take("j-1", state.version, state.seq, state.moved_at) is None


def test_an_outdated_state_is_forgotten() -> None:
    recent, state = Recent(), _state()
    for version, moved_at in ((state.version + 1, state.moved_at), (state.version, state.moved_at + SECOND)):
        recent.keep("j-1", state)
        assert recent.take("j-1", version, state.seq, moved_at) is None
        assert recent.take("j-1", state.version, state.seq, state.moved_at) is None


def test_others_changes_to_a_handed_out_state_have_no_effect() -> None:
    recent, state = Recent(), _state()
    recent.keep("j-1", state)
    state.work["DECOMPOSE"].content["notes"].append("two")
    taken = recent.take("j-1", state.version, state.seq, state.moved_at)
    assert taken is not None
    assert taken.work["DECOMPOSE"].content == {"notes": ["one"]}


def test_only_the_journeys_that_moved_last_are_remembered() -> None:
    recent, state = Recent(), _state()
    for number in range(MOST + 1):
        recent.keep(f"j-{number}", state)
    assert recent.take("j-0", state.version, state.seq, state.moved_at) is None
    assert recent.take("j-1", state.version, state.seq, state.moved_at) is not None
