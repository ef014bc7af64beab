"""Frames, what they fold to, and what is made of them. Pure."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.loop.errors import BadFrames, UnknownFrame
from agents.loop.explanation import explain
from agents.loop.limits import limit_reached
from agents.loop.model.ports import Echo, FromModel, FromTool, FromUser, ModelRequest
from agents.loop.providers.history import turns_of
from agents.loop.record.frames import (
    Control,
    Frame,
    Header,
    PersonAnswered,
    PlanFrame,
    RunLimits,
    ToolCallFrame,
    ToolResult,
    frame_of,
    frame_text,
    header_of,
    header_text,
)
from agents.loop.record.run import Run, begun, fold
from agents.loop.record.transcript import LAST_STEP, build_transcript, message_tokens, transcript_tokens
from tests.support.runs.records import ODD, SECOND, Walk, header, walks
from tests.support.state.ledgers import NOW


@settings(max_examples=40)
@given(walks())
def test_frames_of_any_walk_come_back_and_fold_to_the_same_run_without_gaps(walk: Walk) -> None:
    kept = [frame_of(frame_text(frame)) for frame in walk.run.frames]
    head = header_of(header_text(walk.run.header))
    assert tuple(kept) == walk.run.frames
    assert fold(head, kept) == walk.run
    assert [frame.number for frame in kept] == list(range(len(kept)))
    plans = {frame.id for frame in kept if isinstance(frame, PlanFrame)}
    calls = [frame for frame in kept if isinstance(frame, ToolCallFrame)]
    results = [frame.call for frame in kept if isinstance(frame, ToolResult)]
    assert {call.plan for call in calls} <= plans
    assert results == [call.id for call in calls][: len(results)]
    assert [call.id for call in walk.run.open_calls] == [call.id for call in calls][len(results) :]


@settings(max_examples=40)
@given(walks(), st.data())
def test_no_frame_fits_twice_or_out_of_its_place(walk: Walk, data: st.DataObject) -> None:
    frames = walk.run.frames
    if len(frames) < 2:
        return
    at = data.draw(st.integers(0, len(frames) - 2))
    for wrong in (
        [*frames[:at], *frames[at + 1 :]],
        [*frames[: at + 1], frames[at], *frames[at + 1 :]],
        [*frames[:at], frames[at + 1], frames[at], *frames[at + 2 :]],
    ):
        with pytest.raises(BadFrames):
            fold(walk.run.header, wrong)


@settings(max_examples=40)
@given(walks())
def test_a_models_messages_are_a_function_of_the_frames_and_answer_every_use(walk: Walk) -> None:
    messages = build_transcript(walk.run)
    again = fold(walk.run.header, [frame_of(frame_text(frame)) for frame in walk.run.frames])
    assert build_transcript(again) == messages
    if again.open_calls or again.ask:
        return
    waiting: list[str] = []
    for message in messages:
        if isinstance(message, FromTool):
            assert waiting.pop(0) == message.use
        else:
            assert not waiting
            waiting = [use.id for use in message.uses] if isinstance(message, FromModel) else []
    assert waiting == []
    assert turns_of(ModelRequest("c", messages))


@settings(max_examples=40)
@given(walks(), st.integers(1, 30_000))
def test_a_models_messages_keep_their_budget_if_the_fixed_part_leaves_room(walk: Walk, budget: int) -> None:
    whole = build_transcript(replace(walk.run, context_tokens=10**9))
    told = build_transcript(replace(walk.run, context_tokens=budget))
    assert len(told) == len(whole)
    assert [type(message) for message in told] == [type(message) for message in whole]
    assert f"Goal: {walk.run.header.goal}" in told[0].text
    if transcript_tokens(whole) <= budget:
        assert told == whole
    assert transcript_tokens(told) <= transcript_tokens(whole)
    fixed = sum(message_tokens(m) + 40 + 120 * len(getattr(m, "uses", ())) for m in told)
    if transcript_tokens(()) + fixed <= budget:
        assert transcript_tokens(told) <= budget


@settings(max_examples=30)
@given(walks())
def test_a_run_is_explained_from_its_frames_alone(walk: Walk) -> None:
    again = fold(walk.run.header, [frame_of(frame_text(frame)) for frame in walk.run.frames])
    told = explain(again)
    assert told == explain(walk.run)
    assert all(f"Call {call.id}" in told for call in walk.run.calls)
    assert f"It took {walk.run.iterations} iteration{'s' if walk.run.iterations != 1 else ''}, " in told


def test_the_handbook_names_every_field_of_every_frame() -> None:
    """Programs rely on the format: kb/reference/file-formats.md says that it is stable."""
    page = (Path(__file__).parents[4] / "kb/reference/file-formats.md").read_text(encoding="utf-8")
    section = page.partition("\n## Frames of a run (stable)\n")[2].partition("\n## ")[0]
    intro, _, rest = section.partition("| `type` |")
    rows = {row.split("`")[1]: row.split(" | ")[-1] for row in rest.splitlines() if row.startswith("| `")}
    took = rest.partition("The usage is ")[2].partition("\n\n")[0]
    for kind in get_args(Frame):
        told = intro + rows.pop(kind.TYPE) + (took if kind.TYPE in ("plan", "control") else "")
        assert [one.name for one in fields(kind) if f"`{one.name}`" not in told] == []
    assert rows == {}
    assert [one.name for one in fields(Header) if f"`{one.name}`" not in rest] == []


def test_one_is_written_in_the_singular() -> None:
    walk = Walk(begun(header(limits=RunLimits(iterations=1, seconds=1, tokens=1))))
    walk.plan("call", tokens_in=1)
    told = explain(walk.run)
    assert "Bounds: 1 iteration, 1 s, 1 token\n" in told
    assert "(1 token in, 7 out, " in told
    assert "It took 1 iteration, " in told
    assert limit_reached(walk.run, NOW) == ("iterations", "the run used up its 1 iteration")


def test_the_oldest_output_is_left_out_first_and_that_is_said() -> None:
    walk = Walk(begun(header(limits=RunLimits(context_tokens=1_300, iterations=9))))
    for number in range(3):
        walk.call("kb_read", path=f"{number}.md")
        walk.result(f"page {number} " * 250)
    messages = build_transcript(walk.run)
    outputs = [message.text for message in messages if isinstance(message, FromTool)]
    assert (
        outputs[0] == "(left out to save room: 1750 characters that kb_read returned; call it again if they are needed)"
    )
    assert outputs[2].startswith("page 2 ")
    assert transcript_tokens(messages) <= 1_300
    tight = build_transcript(replace(walk.run, context_tokens=500))
    last = [message.text for message in tight if isinstance(message, FromTool)][-1]
    assert last.startswith("page 2 ")
    assert last.endswith("more characters)")


def test_long_arguments_of_older_calls_are_left_out_before_the_context_is() -> None:
    walk = Walk(begun(header(context="known " * 100, limits=RunLimits(context_tokens=1_000, iterations=9))))
    plan = walk.plan("call", echo={"provider": "p", "model": "m", "content": "signed"})
    arguments = {"path": "a.md", "content": "x" * 4_000}
    walk.add(ToolCallFrame(**walk.place(), plan=plan.id, tool="kb_merge", use="use-1", arguments=arguments))
    walk.result("done")
    walk.call("kb_read", path="a.md")
    walk.result("fine")
    messages = build_transcript(walk.run)
    assert isinstance(said := messages[1], FromModel)
    assert said.uses[0].arguments == {"path": "a.md", "content": "(left out to save room: 4000 characters)"}
    assert said.echo is None  # it was signed for the answer as it was
    whole = build_transcript(replace(walk.run, context_tokens=10_000))
    assert isinstance(unabridged := whole[1], FromModel)
    assert unabridged.echo == Echo("p", "m", "signed")
    assert "known " * 100 in messages[0].text
    assert "(the rest is left out" in build_transcript(replace(walk.run, context_tokens=330))[0].text


def test_the_last_step_is_announced_and_only_that() -> None:
    walk = Walk(begun(header(limits=RunLimits(iterations=2))))
    assert FromUser(LAST_STEP) not in build_transcript(walk.run)
    walk.call("kb_search")
    walk.result()
    assert build_transcript(walk.run)[-1] == FromUser(LAST_STEP)
    walk.respond()
    assert FromUser(LAST_STEP) not in build_transcript(walk.run)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"type": "nothing"}, "no such type"),
        ({"type": ["plan"]}, "no such type"),
        ({"number": "0"}, "number has the wrong type"),
        ({"number": True}, "number has the wrong type"),
        ({"at": "2026-03-01T12:00:00"}, "at has the wrong type"),
        ({"at": "yesterday"}, "at has the wrong type"),
        ({"next_action": "dance"}, "next_action has the wrong type"),
        ({"observations": [1]}, "observations has the wrong type"),
        ({"observations": "one"}, "observations has the wrong type"),
        ({"echo": {"provider": 1}}, "echo has the wrong type"),
        ({"surprise": 1}, "surprise"),
        ({"goal": ...}, "goal"),
    ],
)
def test_a_frame_that_is_none_of_ours_is_refused(change: dict[str, Any], reason: str) -> None:
    walk = Walk()
    form = json.loads(frame_text(walk.plan("call", ODD)))
    form = {name: value for name, value in {**form, **change}.items() if value is not ...}
    with pytest.raises(UnknownFrame, match=reason):
        frame_of(json.dumps(form))


@pytest.mark.parametrize("text", ["", "[]", "1", '{"type"', '"plan"', "null"])
def test_only_objects_are_frames_or_headers(text: str) -> None:
    with pytest.raises(UnknownFrame):
        frame_of(text)
    with pytest.raises(UnknownFrame):
        header_of(text)


@pytest.mark.parametrize("limits", [None, {"iterations": 5.5}, {"seconds": "60"}, {"more": 1}])
def test_a_header_with_other_limits_is_refused(limits: Any) -> None:
    form = json.loads(header_text(header()))
    with pytest.raises(UnknownFrame):
        header_of(json.dumps({**form, "limits": limits}))


def test_frames_take_no_time_without_a_zone() -> None:
    walk = Walk()
    plan = replace(walk.plan("call"), at=NOW.replace(tzinfo=None))
    with pytest.raises(ValueError, match="zone"):
        frame_text(plan)


def wrongs(walk: Walk) -> list[tuple[str, Any]]:
    """Return frames that are invalid after a call without a result, each with its error."""
    place, call = walk.place(), walk.run.open_calls[0]
    result: dict[str, Any] = {"tool": call.tool, "success": True, "text": ""}
    return [
        ("no result yet", PlanFrame(**walk.place(2), goal="", reasoning="", next_action="call", limit=5)),
        ("no such call", ToolResult(**place, call="f-9", **result)),
        ("no such call", ToolResult(**place, call=call.id, **{**result, "tool": "kb_read"})),
        ("a question that is not open", PersonAnswered(**place, ask="f-9", text="", by="")),
        ("another run", ToolResult(**{**place, "run": "run-2"}, call=call.id, **result)),
        ("iteration 1", ToolResult(**{**place, "iteration": 2}, call=call.id, **result)),
        ("earlier than the frame before", ToolResult(**{**place, "at": NOW}, call=call.id, **result)),
        ("did not decide", ToolCallFrame(**place, plan="f-9", tool="kb_read", use="u")),
        ("person to decide", Control(**place, signal="suspended", detail="", proposal="p-1")),
        ("not wait for that", Control(**place, signal="resumed", detail="", proposal="p-1")),
    ]


@pytest.mark.parametrize("number", range(10))
def test_a_frame_that_does_not_follow_from_those_before_is_refused(number: int) -> None:
    walk = Walk()
    walk.call("kb_search")
    reason, frame = wrongs(walk)[number]
    with pytest.raises(BadFrames, match=reason):
        walk.run.then(frame)


def test_time_in_which_a_person_is_waited_for_or_nobody_leads_does_not_count() -> None:
    walk = Walk()

    def later(run: Run, seconds: float) -> Run:
        """Return the run after its newest frame, and that frame alone, this much later."""
        return fold(run.header, [*run.frames[:-1], replace(run.frames[-1], at=run.frames[-1].at + seconds * SECOND)])

    walk.ask()
    assert walk.run.spent.seconds == pytest.approx(2)
    walk.answer()
    walk.run = later(walk.run, 1_000)
    assert walk.run.spent.seconds == pytest.approx(2)
    assert walk.run.seconds_at(walk.run.moved_at + 3 * SECOND) == pytest.approx(5)
    taken = Control(**{**walk.place(), "at": NOW + 9_000 * SECOND}, signal="taken_up", detail="gone")
    assert walk.run.then(taken).spent.seconds == pytest.approx(2)
