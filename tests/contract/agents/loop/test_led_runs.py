"""Runs led by a scripted model with tools, in each way that a run can go. The store is the one in memory."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from typing import Any

import anyio
import pytest

from agents.loop.errors import RunExists, RunNotThere, RunTaken
from agents.loop.explanation import explain
from agents.loop.limits import MOST_TAKEN_UP, DayLimitReached
from agents.loop.model.errors import ContextTooLong, Malformed, Overloaded
from agents.loop.model.ports import (
    FromModel,
    FromTool,
    FromUser,
    ModelReply,
    ModelRequest,
    ModelUsage,
    ToolDefinition,
    ToolUse,
)
from agents.loop.record.frames import (
    AskUser,
    Control,
    Frame,
    PlanFrame,
    ResponseFrame,
    RunLimits,
    ToolCallFrame,
    ToolResult,
)
from agents.loop.record.run import Run
from agents.loop.record.transcript import LAST_STEP, transcript_tokens
from agents.loop.store.ports import Hold
from agents.loop.tools import CallOutcome
from knowledge.errors import OutcomeUnknown
from tests.support.runs.records import SECOND, header, hold
from tests.support.runs.scripts import (
    ECHO,
    MISSING,
    ActsOnRecord,
    Answer,
    Led,
    Scripted,
    ask,
    at_once,
    forever,
    give_up,
    no_publishing,
    rebuilt,
    said,
    sound,
    use,
)
from tests.support.state.ledgers import MINUTE, NOW
from tests.support.state.memory.runs import MemoryRuns

FOUND = CallOutcome(success=True, text="The cap is 20 calls an hour.", structured={"hits": [{"path": "a.md"}]})
PROPOSED = CallOutcome(success=True, text="A person decides about it first: proposal p-1.", proposal="p-1")


def kinds(run: Any) -> list[str]:
    return [frame.TYPE for frame in run.frames]


async def test_a_goal_that_needs_no_tool_is_answered() -> None:
    led = Led(Scripted(said("Twenty.")))
    run = await led.start()
    assert kinds(run) == ["plan", "response"]
    assert run.state == "done"
    assert run.response is not None
    assert (run.response.text, run.response.goal_achieved, run.response.iterations) == ("Twenty.", True, 1)
    assert led.provider.asked[0].conversation.startswith("run_iter1_")
    assert await sound(led.store, "run-1") == run


async def test_a_tools_result_reaches_the_model_and_everything_is_linked() -> None:
    led = Led(
        Scripted(said("I look.", use("kb_search", text="cap"), echo=ECHO), said("20 an hour.")),
        ActsOnRecord(kb_search=FOUND),
    )
    run = await led.start()
    plan, call, result, _, response = run.frames
    assert isinstance(plan, PlanFrame)
    assert isinstance(call, ToolCallFrame)
    assert isinstance(result, ToolResult)
    assert isinstance(response, ResponseFrame)
    assert (call.plan, call.reasoning, call.arguments) == (plan.id, "I look.", {"text": "cap"})
    assert (result.call, result.success, result.text, result.structured) == (
        call.id,
        True,
        FOUND.text,
        FOUND.structured,
    )
    assert led.tools.done == [("kb_search", call.key, {"text": "cap"})]
    said_before, told = led.provider.asked[1].messages[1:3]
    assert said_before == FromModel("I look.", (ToolUse(call.use, "kb_search", {"text": "cap"}),), ECHO)
    assert told == FromTool(call.use, FOUND.text)
    assert run.frames[3].observations == (f"kb_search: {FOUND.text}",)  # type: ignore[union-attr]  # a plan
    assert response.tools_called == ("kb_search",)
    assert response.trace.splitlines() == ["1. kb_search (done)", "2. answered"]
    assert run.spent.tokens == 220


async def test_several_calls_of_one_answer_are_carried_out_one_after_the_other() -> None:
    led = Led(Scripted(said("", use("kb_search"), use("kb_read")), said("Twenty.")), ActsOnRecord(kb_search=MISSING))
    run = await led.start()
    assert kinds(run) == ["plan", "tool_call", "tool_call", "tool_result", "tool_result", "plan", "response"]
    assert [name for name, _, _ in led.tools.done] == ["kb_search", "kb_read"]
    failed, fine = (frame for frame in run.frames if isinstance(frame, ToolResult))
    assert (failed.success, failed.error, fine.success) == (False, str(MISSING), True)
    assert led.provider.asked[1].messages[2] == FromTool(failed_use(run), str(MISSING), failed=True)


def failed_use(run: Any) -> str:
    return str(next(frame.use for frame in run.frames if isinstance(frame, ToolCallFrame)))


async def test_an_unknown_tool_is_not_called_and_the_model_gets_the_known_ones() -> None:
    led = Led(Scripted(said("", use("kb_serch")), said("", use("kb_search")), said("Twenty.")))
    run = await led.start()
    assert run.state == "done"
    assert [name for name, _, _ in led.tools.done] == ["kb_search"]
    told = led.provider.asked[1].messages[-1]
    assert isinstance(told, FromTool)
    assert told.failed
    assert "no tool 'kb_serch'; nearest are kb_search" in told.text


async def test_arguments_that_could_not_be_read_are_not_called() -> None:
    unread = ToolUse("use-x", "kb_merge", {}, "no JSON")
    infinite = use("kb_merge", text=float("inf"))
    led = Led(Scripted(said("", unread), said("", use("kb_search"), infinite), said("Twenty.")))
    run = await led.start()
    assert run.state == "done"
    assert [name for name, _, _ in led.tools.done] == ["kb_search"]
    results = [frame.text for frame in run.frames if isinstance(frame, ToolResult)]
    assert "could not be read (no JSON)" in results[0]
    assert "values that JSON does not have" in results[2]
    assert led.provider.asked[1].messages[1] == FromModel("", (unread,))


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (said(" \n"), "neither words nor a tool call"),
        (said("The cap is", stop="length"), "cut off"),
        (said("", ask("Which?"), use("kb_search")), "called alone"),
        (said("", ask(" ")), "takes 'question'"),
        (Malformed("scripted", "it was no JSON", ModelUsage(5, 5)), "no JSON"),
    ],
)
async def test_an_answer_that_cannot_be_used_is_corrected_once_and_ends_the_run_the_second_time(
    answer: Any, problem: str
) -> None:
    led = Led(Scripted(answer, said("Twenty.")))
    run = await led.start()
    assert run.state == "done"
    assert problem in led.provider.asked[1].messages[-1].text
    assert led.tools.done == []
    again = Led(Scripted(answer, answer))
    failed = await again.start()
    assert failed.state == "failed"
    assert problem in failed.why
    assert kinds(failed)[-1] == "control"
    assert await rebuilt(again.store, "run-1") == again.provider.asked


async def test_the_model_may_ask_the_person_and_continues_with_the_answer_in_another_process() -> None:
    led = Led(Scripted(said("Hm.", ask("Which team?"))))
    run = await led.start()
    assert run.state == "asking"
    assert isinstance(run.frames[-1], AskUser)
    with pytest.raises(RunNotThere, match="waits for a person's answer"):
        await led.executor.resume("run-1", "p-1", "It was approved.")
    other = led.elsewhere(said("Blue has 20."))
    done = await other.executor.answer("run-1", "Team blue.", "ada@page")
    assert (done.state, kinds(done)[2:]) == ("done", ["answered", "plan", "response"])
    assert other.provider.asked[0].messages[-1] == FromTool(run.frames[-1].use, "Team blue.")
    with pytest.raises(RunNotThere, match="is done"):
        await other.executor.answer("run-1", "Team red.", "ada@page")


async def test_a_question_of_a_tool_is_put_to_the_person() -> None:
    asks = CallOutcome(success=False, text="Two pages fit.", asks="Which page: a.md or b.md?")
    led = Led(Scripted(said("", use("kb_read"), use("kb_merge"))), ActsOnRecord(kb_read=asks))
    run = await led.start()
    assert run.state == "asking"
    assert [name for name, _, _ in led.tools.done] == ["kb_read"]
    other = led.elsewhere(said("Fine."))
    await other.executor.answer("run-1", "a.md", "ada@page")
    last = other.provider.asked[0].messages[-1]
    assert last == FromUser("Asked: Which page: a.md or b.md?\nThe person answers: a.md")


async def test_a_proposal_suspends_the_run_and_the_decision_resumes_it_in_another_process() -> None:
    led = Led(Scripted(said("", use("kb_merge", text="x"), use("plane_create_task"))), ActsOnRecord(kb_merge=PROPOSED))
    run = await led.start()
    assert (run.state, run.proposal) == ("suspended", "p-1")
    assert [name for name, _, _ in led.tools.done] == ["kb_merge"]
    results = [frame for frame in run.frames if isinstance(frame, ToolResult)]
    assert [(result.success, result.proposal) for result in results] == [(False, "p-1"), (False, "")]
    assert "It was not called" in results[1].text
    with pytest.raises(RunNotThere, match="waits for a person's decision"):
        await led.executor.resume("run-1", "p-2", "It was approved.")
    other = led.elsewhere(said("It is in the page."))
    done = await other.executor.resume("run-1", "p-1", "it was approved and is done, revision abc")
    assert done.state == "done"
    assert done.response is not None
    assert done.response.tools_called == ("kb_merge",)
    assert done.response.trace.startswith("1. kb_merge (proposed), plane_create_task (not called)")
    assert other.tools.done == []
    assert other.provider.asked[0].messages[-1] == FromUser(
        "About proposal p-1: it was approved and is done, revision abc"
    )
    assert await rebuilt(led.store, "run-1") == [*led.provider.asked, *other.provider.asked]


async def test_the_model_may_give_up() -> None:
    run = await Led(Scripted(said("", give_up("There is no such page.")))).start()
    assert run.response is not None
    assert (run.state, run.response.goal_achieved, run.response.text) == ("done", False, "There is no such page.")
    assert "Gave up: There is no such page." in explain(run)


async def test_a_run_that_is_on_record_is_not_begun_again() -> None:
    led = Led(Scripted(said("Twenty.")))
    run = await led.start()
    assert await led.start() == run
    with pytest.raises(RunExists):
        await led.start(header(goal="Another one."))
    await led.store.begin(header("run-2"), hold("another"))
    with pytest.raises(RunTaken):
        await led.start(header("run-2"))


# --- bounds -----------------------------------------------------------------------------------------------------------


async def test_a_run_stops_asking_when_the_daily_limit_is_reached() -> None:
    spent = iter([None, None, DayLimitReached("so much is spent")])

    async def day(_run: Run) -> DayLimitReached | None:
        return next(spent)

    led = Led(Scripted(said("", use("kb_search")), said("", use("kb_search")), said("never")), day=day)
    run = await led.start()
    assert (run.state, run.why, len(led.provider.asked), len(led.tools.done)) == ("failed", "so much is spent", 2, 2)
    last = run.frames[-1]
    assert isinstance(last, Control)
    assert (last.signal, last.limit, await sound(led.store, run.id)) == ("limit_reached", "day", run)


async def test_a_run_ends_after_its_iterations_and_knows_which_is_the_last() -> None:
    led = Led(Scripted(said("", use("kb_search")), said("", use("kb_search")), said("never")))
    run = await led.start(header(limits=RunLimits(iterations=2)))
    assert (run.state, len(led.provider.asked), len(led.tools.done)) == ("failed", 2, 2)
    last = run.frames[-1]
    assert isinstance(last, Control)
    assert (last.signal, last.limit) == ("limit_reached", "iterations")
    assert LAST_STEP not in [getattr(message, "text", "") for message in led.provider.asked[0].messages]
    assert led.provider.asked[1].messages[-1] == FromUser(LAST_STEP)


async def test_time_that_is_up_while_the_model_thinks_ends_the_run() -> None:
    async def thinking(_asked: ModelRequest) -> ModelReply:
        await forever(0)
        raise AssertionError

    led = Led(Scripted(thinking), sleep=at_once)
    run = await led.start(header(limits=RunLimits(seconds=60)))
    assert isinstance(last := run.frames[-1], Control)
    assert (run.state, last.limit) == ("failed", "seconds")


async def test_time_that_is_up_while_a_tool_works_ends_the_run_and_nobody_knows_whether_it_was_done() -> None:
    async def working() -> CallOutcome:
        await forever(0)
        raise AssertionError

    led = Led(Scripted(said("", use("kb_merge"), use("kb_read"))), ActsOnRecord(kb_merge=working))

    async def sleep(_seconds: float) -> None:
        await (at_once(0) if led.tools.done else forever(0))

    led.sleep = sleep
    run = await led.start()
    merged, read = (frame for frame in run.frames if isinstance(frame, ToolResult))
    assert (merged.unsure, read.unsure) == (True, False)
    assert "It was not called" in read.text
    assert isinstance(last := run.frames[-1], Control)
    assert last.limit == "seconds"


async def test_time_that_is_up_between_two_steps_ends_the_run_before_the_next() -> None:
    async def slow(_asked: ModelRequest) -> ModelReply:
        led._looked += 60_000
        return said("", use("kb_merge"))

    led = Led(Scripted(slow))
    run = await led.start(header(limits=RunLimits(seconds=60)))
    assert (run.state, run.why) == ("failed", "the run used up its 60 seconds")
    assert led.tools.done == []
    assert "no time left" in next(frame.text for frame in run.frames if isinstance(frame, ToolResult))


async def test_tokens_bound_a_run_and_the_length_of_an_answer() -> None:
    led = Led(
        Scripted(said("", use("kb_search"), usage=ModelUsage(800, 50)), said("never")), ActsOnRecord(kb_search=FOUND)
    )
    run = await led.start(header(limits=RunLimits(tokens=1_000)))
    assert isinstance(last := run.frames[-1], Control)
    assert (run.state, last.limit, len(led.provider.asked)) == ("failed", "tokens", 1)
    first = led.provider.asked[0]
    assert first.most_tokens == 1_000 - transcript_tokens(first.messages)


async def test_tokens_that_a_provider_does_not_tell_are_counted() -> None:
    run = await Led(Scripted(said("Twenty.", usage=ModelUsage(known=False)))).start()
    assert isinstance(plan := run.frames[0], PlanFrame)
    assert plan.counted
    assert plan.tokens_in > 100
    assert plan.tokens_out == 2


async def test_cost_bounds_a_run_and_an_unknown_price_ends_one_with_such_a_bound() -> None:
    limits = RunLimits(cost_micros=150)
    led = Led(
        Scripted(*[said("", use("kb_search"))] * 3),
        cost=lambda model, usage: Decimal(usage.input) / 1_000_000 if model else None,
    )
    run = await led.start(header(limits=limits))
    assert isinstance(last := run.frames[-1], Control)
    assert (last.limit, run.spent.cost_micros, run.spent.unpriced, len(led.tools.done)) == ("cost", 200, False, 2)
    unpriced = await Led(Scripted(said("", use("kb_search")))).start(header(limits=limits))
    assert "the price of the model is unknown" in unpriced.why


# --- failures ---------------------------------------------------------------------------------------------------------


async def test_an_unreachable_model_fails_the_run_and_keeps_its_usage() -> None:
    gone = Overloaded("scripted", 529, 4)
    gone.usage = ModelUsage(7, 3)
    run = await Led(Scripted(gone)).start()
    assert (run.state, run.why, run.spent.tokens) == ("failed", str(gone), 10)


async def test_a_model_without_room_gets_less() -> None:
    led = Led(Scripted(ContextTooLong("scripted", "small"), said("Twenty.")))
    run = await led.start(header(context="word " * 4_000))
    assert run.state == "done"
    before, after = (transcript_tokens(asked.messages) for asked in led.provider.asked)
    assert after <= before / 2
    assert "the rest is left out to save room" in led.provider.asked[1].messages[0].text
    never = Led(Scripted(*[ContextTooLong("scripted", "small")] * 4))
    assert (await never.start()).state == "failed"


async def test_a_tool_that_breaks_ends_no_run_and_nobody_knows_whether_it_was_done(caplog: Any) -> None:
    led = Led(
        Scripted(said("", use("kb_merge")), said("I looked.")), ActsOnRecord(kb_merge=RuntimeError("secret text"))
    )
    run = await led.start()
    result = next(frame for frame in run.frames if isinstance(frame, ToolResult))
    assert (run.state, result.unsure, len(led.tools.done)) == ("done", True, 1)
    assert "secret text" not in f"{run}{caplog.text}"
    assert "RuntimeError" in caplog.text


async def test_a_tools_result_is_stored_up_to_a_limit() -> None:
    much = CallOutcome(success=True, text="x" * 150_000, structured={"text": "x" * 150_000})
    odd = CallOutcome(success=True, text="fine", structured={"score": float("nan")})
    led = Led(
        Scripted(said("", use("kb_read"), use("kb_search")), said("Twenty.")), ActsOnRecord(kb_read=much, kb_search=odd)
    )
    run = await led.start()
    read, search = (frame for frame in run.frames if isinstance(frame, ToolResult))
    assert read.text.endswith("(the rest was not kept: 50000 more characters)")
    assert (read.structured, search.structured) == (None, None)


async def test_two_tools_of_one_name_are_a_mistake_that_is_found() -> None:
    class Twice(ActsOnRecord):
        def definitions(self) -> list[ToolDefinition]:
            return [ToolDefinition("ask_user", "", {"type": "object"})]

    with pytest.raises(ValueError, match="the same name"):
        await Led(Scripted(), Twice()).start()


async def test_a_cancelled_request_cancels_the_run_and_names_unknown_outcomes() -> None:
    began = anyio.Event()

    async def working() -> CallOutcome:
        began.set()
        await forever(0)
        raise AssertionError

    led = Led(Scripted(said("", use("kb_merge"), use("kb_read"))), ActsOnRecord(kb_merge=working))
    async with anyio.create_task_group() as group:
        group.start_soon(led.start)
        await began.wait()
        group.cancel_scope.cancel()
    run = await sound(led.store, "run-1")
    merged, read = (frame for frame in run.frames if isinstance(frame, ToolResult))
    assert (run.state, merged.unsure, read.unsure) == ("cancelled", True, False)
    assert await led.store.claim("run-1", hold("anybody")) == run


async def test_a_person_may_cancel_a_running_run_and_the_pending_result_is_still_recorded() -> None:
    led = Led(Scripted(said("", use("kb_merge"), use("kb_read"))))

    async def working() -> CallOutcome:
        await led.elsewhere().executor.cancel("run-1", "ada wants no more of it")
        return FOUND

    led.tools = ActsOnRecord(kb_merge=working)
    run = await led.start()
    assert (run.state, run.why) == ("cancelled", "ada wants no more of it")
    assert kinds(run) == ["plan", "tool_call", "tool_call", "control", "tool_result"]
    assert [call.tool for call in run.open_calls] == ["kb_read"]
    assert "has no result on record" in explain(run)
    assert await led.executor.cancel("run-1", "again") == run


async def test_a_tool_that_works_long_is_stopped_when_a_person_cancels_the_run() -> None:
    led = Led(Scripted(said("", use("kb_merge"))))

    cancelled = anyio.Event()
    naps: list[float] = []

    async def working() -> CallOutcome:
        await led.elsewhere().executor.cancel("run-1", "enough")
        cancelled.set()
        await forever(0)
        raise AssertionError

    async def sleep(seconds: float) -> None:
        naps.append(seconds)
        await cancelled.wait()
        if len(naps) > 2:  # the first was that of the model
            await forever(0)

    led.tools, led.sleep = ActsOnRecord(kb_merge=working), sleep
    with anyio.fail_after(60):
        run = await led.start()
    assert (run.state, kinds(run)[-1]) == ("cancelled", "tool_result")
    assert isinstance(last := run.frames[-1], ToolResult)
    assert last.unsure


# --- taken up ---------------------------------------------------------------------------------------------------------


async def died(led: Led, frames: int) -> None:
    """Let the run's process die once this many frames are recorded."""

    class Dead(BaseException):
        pass

    async def look(run: Any, frame: Any) -> None:
        if frame.number == frames - 1 and run.count == frames:
            raise Dead

    led.look = look  # type: ignore[method-assign]  # this process's eyes
    with pytest.raises(Dead):
        await led.start()


@pytest.mark.parametrize("known", [FOUND, None])
async def test_a_call_in_progress_at_a_crash_is_looked_up_and_never_repeated(
    known: CallOutcome | None,
) -> None:
    led = Led(Scripted(said("", use("kb_merge"), use("kb_read"))))
    await died(led, 3)
    assert led.tools.done == []
    other = led.elsewhere(said("Twenty."))
    call = (await led.store.run("run-1")).open_calls[0]
    if known:
        other.tools.known[call.key] = known
    assert [line.id for line in await other.store.runs(adrift_at=other.now())] == ["run-1"]
    run = await other.executor.take_up("run-1")
    assert run.state == "done"
    assert other.tools.asked_about == [f"kb_merge {call.key}"]
    assert [name for name, _, _ in other.tools.done] == ["kb_read"]
    merged, read = (frame for frame in run.frames if isinstance(frame, ToolResult))
    assert (merged.success, merged.unsure, read.success) == (known is not None, known is None, True)
    assert await rebuilt(led.store, "run-1") == [*led.provider.asked, *other.provider.asked]


async def test_a_process_believed_dead_stops_its_work() -> None:
    led = Led(Scripted(said("", use("kb_merge"))))
    taken = anyio.Event()

    async def working() -> CallOutcome:
        assert await led.store.claim("run-1", hold("another", NOW + MINUTE))
        taken.set()
        await forever(0)
        raise AssertionError

    naps: list[float] = []

    async def sleep(seconds: float) -> None:
        naps.append(seconds)
        await taken.wait()
        if len(naps) > 2:  # the first was that of the model
            await forever(0)

    led.tools, led.sleep = ActsOnRecord(kb_merge=working), sleep
    with anyio.fail_after(60), pytest.raises(RunTaken):
        await led.start()
    run = await sound(led.store, "run-1")
    assert (run.state, len(run.open_calls)) == ("running", 1)
    assert await led.store.claim("run-1", hold("one", NOW + SECOND)) is None


async def test_a_frame_whose_commit_was_not_confirmed_is_recorded_once() -> None:
    class Silent(MemoryRuns):
        """Stores frames, and loses every other reply."""

        appends = 0

        async def append(self, before: Run, frames: Sequence[Frame], hold: Hold | None) -> Run:
            run = await super().append(before, frames, hold)
            self.appends += 1
            if self.appends % 2:
                raise OutcomeUnknown("state.db", "gone")
            return run

    led = Led(Scripted(said("", use("kb_search")), said("Twenty.")), store=Silent(no_publishing))
    run = await led.start()
    assert kinds(run) == ["plan", "tool_call", "tool_result", "plan", "response"]
    assert len(led.tools.done) == 1
    assert [frame for _, frame in led.seen] == list(run.frames)


async def test_a_run_that_was_taken_up_has_the_time_that_it_had_left() -> None:
    led = Led(Scripted(said("", use("kb_search"))))
    await died(led, 3)
    other = led.elsewhere(said("Twenty."))
    other._looked += 10_000_000
    run = await other.executor.take_up("run-1")
    assert run.state == "done"
    assert run.spent.seconds < 5


@pytest.mark.parametrize("later_s", [0, 100])
async def test_of_two_processes_that_take_over_a_run_one_leads_it(later_s: int) -> None:
    """This also holds if, by the second one's clock, the first has been silent for too long."""
    led = Led(Scripted(said("", use("kb_merge"), use("kb_read"))))
    await died(led, 3)
    first = led.elsewhere(said("Twenty."))
    second = first.elsewhere(said("Twenty."))
    second._looked = first._looked + later_s * 1_000
    taken: list[str] = []

    async def take(one: Led) -> None:
        try:
            taken.append((await one.executor.take_up("run-1")).state)
        except RunTaken:
            taken.append("taken")

    async with anyio.create_task_group() as group:
        group.start_soon(take, first)
        group.start_soon(take, second)
    assert sorted(taken) == ["done", "taken"]
    called = [name for name, _, _ in [*first.tools.done, *second.tools.done]]
    assert called in ([], ["kb_read"])
    run = await sound(led.store, "run-1")
    assert [frame.unsure for frame in run.frames if isinstance(frame, ToolResult)] == [True, not called]


async def test_a_run_that_kills_each_process_that_leads_it_ends() -> None:
    led = Led(Scripted(said("", use("kb_merge"))))
    await died(led, 2)
    for life in range(7):
        led = led.elsewhere(*[RuntimeError(f"life {life}")])
        if (await led.store.run("run-1")).over:
            break
        with suppress(RuntimeError):
            await led.executor.take_up("run-1")
    run = await sound(led.store, "run-1")
    assert (run.state, life) == ("failed", 6)
    assert "each of the last 6 processes" in run.why


class Killed(BaseException):
    pass


async def killing() -> CallOutcome:
    raise Killed


async def test_a_run_whose_every_call_kills_the_process_ends_early() -> None:
    led, lives = Led(Scripted(said("", *[use("kb_merge") for _ in range(12)]))), 0
    await died(led, 13)
    while (await led.store.run("run-1")).state == "running":
        led, lives = led.elsewhere(kb_merge=killing), lives + 1
        try:
            await led.executor.take_up("run-1")
        except* Killed:
            pass
    run = await sound(led.store, "run-1")
    assert (run.state, lives) == ("failed", MOST_TAKEN_UP + 1)
    called = [frame.called for frame in run.frames if isinstance(frame, ToolResult)]
    assert called == [True] * 6 + [False] * 6


async def test_a_result_unknown_to_its_tool_is_recorded_as_unknown() -> None:
    unsure = CallOutcome(success=True, text="The reply was lost.", unsure=True)
    lost = OutcomeUnknown("state.db", "gone")
    led = Led(Scripted(said("", use("kb_merge"), use("plane_create_task")), said("I looked.")))
    led.tools = ActsOnRecord(kb_merge=unsure, plane_create_task=lost)
    run = await led.start()
    results = [frame for frame in run.frames if isinstance(frame, ToolResult)]
    assert [(result.success, result.unsure) for result in results] == [(False, True), (False, True)]
    assert [result.error for result in results] == ["The reply was lost.", str(lost)]


async def test_a_run_that_needs_no_leader_is_not_taken_over() -> None:
    led = Led(Scripted(said("", ask("Which?"))))
    run = await led.start()
    assert await led.executor.take_up("run-1") == run
    await led.store.begin(header("run-2"), hold("another", led.now()))
    with pytest.raises(RunTaken):
        await led.executor.take_up("run-2")


# --- the whole record -------------------------------------------------------------------------------------------------


async def test_a_models_messages_can_be_rebuilt_from_the_record_alone() -> None:
    answers: list[Answer] = [
        said("First.", use("kb_search", text="cap"), use("kb_read", text="a.md"), echo=ECHO),
        said("", use("nothing")),
        ContextTooLong("scripted", "small"),
        said("Then.", use("kb_read", text="y" * 3_000)),
        said("", ask("Which team?")),
    ]
    long = CallOutcome(success=True, text="line\n" * 4_000)
    led = Led(Scripted(*answers), ActsOnRecord(kb_read=long))
    head = header(context="known " * 100, limits=RunLimits(iterations=9, context_tokens=3_000))
    await led.start(head)
    other = led.elsewhere(said("", use("kb_merge")), kb_merge=PROPOSED)
    await other.executor.answer("run-1", "Blue.", "ada@page")
    last = other.elsewhere(said("So it is moved, page and all."))
    run = await last.executor.resume("run-1", "p-1", "it was rejected: not now")
    told = [*led.provider.asked, *other.provider.asked, *last.provider.asked]
    refused = led.provider.asked[2]
    assert [asked for asked in told if asked is not refused] == await rebuilt(led.store, "run-1")
    assert all(transcript_tokens(asked.messages) <= 3_000 for asked in told)
    assert run.state == "done"
    in_words = explain(run)
    for words in (
        "First.",
        "no tool 'nothing'",
        "too long for the model",
        "Which team?",
        "Blue.",
        "became proposal p-1",
        "rejected",
        "is done",
    ):
        assert words in in_words, words


async def test_a_watcher_sees_each_frame_once_it_is_recorded() -> None:
    led = Led(Scripted(said("", use("kb_search")), said("Twenty.")))
    run = await led.start()
    assert [frame for _, frame in led.seen] == list(run.frames)


async def test_the_clock_of_another_machine_may_be_late() -> None:
    led = Led(Scripted(said("", ask("Which?"))))
    run = await led.start()
    other = led.elsewhere(said("Fine."))
    other._looked = -1_000_000
    done = await other.executor.answer("run-1", "That.", "ada@page")
    assert done.frames[2].at == run.moved_at
    assert replace(done.header) == run.header
