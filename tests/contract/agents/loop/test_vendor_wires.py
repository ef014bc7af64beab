"""Runs whose model is a vendor's, on the wire: each vendor accepts what the loop makes of its frames."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agents.loop.executor import Executor
from agents.loop.processor import Processor
from agents.loop.providers.request_loop import ModelProvider
from agents.loop.record.frames import PlanFrame, RunLimits, ToolCallFrame, ToolResult
from agents.loop.tools import CallOutcome
from tests.doubles.provider_turns import Call, Turn, said
from tests.support.runs.providers import KINDS, Place, double_of
from tests.support.runs.records import header
from tests.support.runs.scripts import ActsOnRecord, Led, Scripted, sound

GOAL = "Put the cap on record."
PROPOSED = CallOutcome(success=True, text="A person decides about it first: proposal p-1.", proposal="p-1")


@pytest.fixture(scope="module", params=KINDS)
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    with double_of(request.param) as opened:
        yield opened


def executor(led: Led, provider: ModelProvider) -> Executor:
    return Executor(
        led.store, Processor(provider), led.tools, now=led.now, sleep=led.sleep, chance=led.chance, progress=led.look
    )


async def test_two_answers_that_cannot_be_used_end_a_run_with_any_vendor(place: Place) -> None:
    place.will(GOAL, Turn(calls=(Call("kb_read", "{no json"), Call("kb_nothing"))), Turn(" "))
    led = Led(Scripted())
    async with place.provider() as provider:
        run = await executor(led, provider).start(header(goal=GOAL))
    assert (run.state, len(led.tools.done)) == ("failed", 0)
    assert "neither words nor a tool call" in run.why


async def test_a_run_spans_three_processes_and_each_vendor_accepts_its_history(place: Place) -> None:
    """Signed thoughts, two uses at once, unreadable arguments, a question, an empty answer, a proposal, and their history."""
    place.will(
        GOAL,
        Turn(
            "I look.",
            calls=(Call("kb_search", {"text": "cap"}), Call("kb_read", {"text": "a.md"})),
            thoughts="where is it",
        ),
        Turn(calls=(Call("kb_read", "{no json"), Call("kb_nothing"))),
        Turn(calls=(Call("ask_user", {"question": "Which team?"}),), thoughts="whose cap"),
        Turn(" "),
        Turn("So I write it.", calls=(Call("kb_merge", {"text": "20"}), Call("kb_read", {"text": "b.md"}))),
        said("It is on record."),
    )
    led = Led(Scripted(), ActsOnRecord(kb_merge=PROPOSED))
    async with place.provider() as provider:
        run = await executor(led, provider).start(header(goal=GOAL, limits=RunLimits(iterations=9)))
        assert (run.state, run.why) == ("asking", "")
    led = led.elsewhere(kb_merge=PROPOSED)
    async with place.provider() as provider:
        run = await executor(led, provider).answer("run-1", "Blue.", "ada@page")
        assert (run.state, run.why) == ("suspended", "")
    led = led.elsewhere()
    async with place.provider() as provider:
        run = await executor(led, provider).resume("run-1", "p-1", "it was approved and is done")
    assert (run.state, run.why) == ("done", "")
    assert run.response is not None
    assert run.response.text == "It is on record."
    assert await sound(led.store, "run-1") == run
    plans = [frame for frame in run.frames if isinstance(frame, PlanFrame)]
    assert len(plans) == 6
    assert (plans[0].echo is None) == (place.kind == "chat")
    assert all(plan.tokens_in == 100 and plan.model for plan in plans)
    assert len([call for call in run.frames if isinstance(call, ToolCallFrame) and call.problem]) == 2
    assert len([result for result in run.frames if isinstance(result, ToolResult)]) == 6
