"""Journeys stored before their agents became folders of data: they continue with today's agents."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from agents.catalogue import built_in
from agents.engine.events import Json
from agents.engine.fold import fold
from agents.engine.state import JourneyState
from agents.store.export_file import imported
from tests.support.agents.agent_harness import Led, Pages, Remembering, nobody, runner_of, sound
from tests.unit.agents.library import test_build_agent, test_research_agent, test_understand_agent
from tests.unit.agents.library.curate import test_walks as curate
from tests.unit.agents.library.orchestrate import test_walks as orchestrate

SAMPLES = Path(__file__).parents[3] / "samples" / "journeys"
Good = Callable[[JourneyState], Sequence[tuple[Mapping[str, Json], tuple[str, ...]]]]
HOSTS: Mapping[str, tuple[Good, Callable[[], Pages]]] = {
    "build": (test_build_agent.good, Pages),
    "research": (test_research_agent.good, Pages),
    "understand": (test_understand_agent.good, Pages),
    "curate": (curate.good, curate.seen),
    "orchestrate": (orchestrate.good, Pages),
}


@pytest.mark.parametrize("name", HOSTS)
async def test_a_journey_stored_by_an_earlier_release_is_continued_to_its_end(name: str) -> None:
    """Our promise: agents change how they are written, never what is stored. Each file was exported midway, after a way back."""
    good, seen = HOSTS[name]
    journey, log = imported((SAMPLES / f"{name}.jsonl").read_text(encoding="utf-8"))
    agent, store, look = built_in(name), Remembering(nobody), seen()
    runner = runner_of(agent, store, look)
    await store.adopt(journey, log)
    led = Led(runner, journey, look)
    assert await led.state() == fold(log)
    assert (await led.told()).startswith(f"{agent.title}: {fold(log).phase}")
    for _ in range(20):
        state = await led.state()
        if state.status == "complete":
            break
        if state.status == "waiting":
            asks = state.checkpoint is not None and state.checkpoint.asks
            await led.decide("answer" if asks else "approve", "so I say")
        else:
            work, signals = good(state)[0]
            await led.submit(*signals, **work)
    assert (await led.state()).version > fold(log).version
    await sound(agent, led)
