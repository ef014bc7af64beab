"""The judge of substance waits a bounded time, asks a bounded number of times and never twice about the same statement."""

from __future__ import annotations

import json

import anyio
import pytest

from agents.engine.agent import QuotedStatement
from agents.loop.model.ports import FromUser, JsonReply, ModelReply, ModelRequest, ModelUsage, Shape
from mcp_server.models.questions import QUIET_S, BoundedQuestions
from mcp_server.models.substance_judge import (
    MOST_AROUND,
    MOST_CHARS,
    MOST_STATEMENTS,
    SHAPE,
    AskedSubstance,
    FoundFault,
    as_many_as_fit,
    findings_in,
)

ONE = QuotedStatement("e1", "Backups are kept for ten years.", ("Backups are kept for 35 days.",), "How long?")
OTHER = QuotedStatement("e2", "Nobody reads the mailbox.", ("The mailbox is read by nobody.",))


class Objecting:
    """A provider whose model finds that every item contradicts its quotes; `answers` may hold it back, or it is `broken`."""

    name, model = "objecting", "some-model"

    def __init__(self) -> None:
        self.asked: list[ModelRequest] = []
        self.answers = anyio.Event()
        self.answers.set()
        self.broken = False

    async def complete(self, asked: ModelRequest) -> ModelReply:
        """Return no text: nobody asks for prose."""
        self.asked.append(asked)
        return ModelReply("", (), "end", ModelUsage(), self.model)

    async def complete_json(self, asked: ModelRequest, shape: Shape) -> JsonReply:
        """Object to every item."""
        self.asked.append(asked)
        await self.answers.wait()
        if self.broken:
            raise ValueError(str(asked.messages))
        assert shape == SHAPE
        (message,) = asked.messages
        assert isinstance(message, FromUser)
        found = [{"item": one["item"], "finding": "contradicts", "sure": 0.9} for one in json.loads(message.text)]
        return JsonReply({"findings": found}, ModelUsage(), self.model)

    async def aclose(self) -> None:
        """Close: there is nothing to release."""


def judge_with(
    model: Objecting, clock: list[float], *, longest_s: float = 120.0, most_questions: int = 200
) -> AskedSubstance:
    async def provider() -> Objecting:
        return model

    questions = BoundedQuestions(
        provider,
        "openai:m",
        "substance",
        "substance",
        clock=lambda: clock[-1],
        longest_s=longest_s,
        most_questions=most_questions,
    )
    return AskedSubstance(questions)


async def test_a_statement_is_asked_about_once_whatever_is_around_its_quotes() -> None:
    model = Objecting()
    judge = judge_with(model, [0.0])
    assert (await judge.opinion([ONE])).faults == {ONE: "contradicts"}
    elsewhere = QuotedStatement("e9", ONE.text, ONE.quotes, ONE.question, "The section around it was edited.")
    assert (await judge.opinion([elsewhere])).faults == {elsewhere: "contradicts"}
    assert len(model.asked) == 1


async def test_a_model_that_is_slow_is_waited_for_no_longer_than_said() -> None:
    model = Objecting()
    model.answers = anyio.Event()
    opinion = await judge_with(model, [0.0], longest_s=0.0).opinion([ONE])
    assert opinion.faults == {}
    assert "gave no answer in time" in opinion.note


async def test_a_model_that_fails_is_left_alone_for_a_minute() -> None:
    model, clock = Objecting(), [0.0]
    model.broken = True
    judge = judge_with(model, clock)
    assert (await judge.opinion([ONE])).faults == {}
    model.broken = False
    assert "gave no answer in time" in (await judge.opinion([ONE])).note
    assert len(model.asked) == 1
    clock.append(QUIET_S)
    assert (await judge.opinion([ONE])).faults == {ONE: "contradicts"}


async def test_over_the_hourly_bound_nothing_is_asked_and_earlier_findings_count() -> None:
    model, clock = Objecting(), [0.0]
    judge = judge_with(model, clock, most_questions=1)
    await judge.opinion([ONE])
    opinion = await judge.opinion([ONE, OTHER])
    assert opinion.faults == {ONE: "contradicts"}
    assert "asked as often as allowed" in opinion.note
    clock.append(3_600.0)
    assert (await judge.opinion([OTHER])).faults == {OTHER: "contradicts"}


def test_what_does_not_fit_into_one_question_is_left_out() -> None:
    long = QuotedStatement("e3", "x" * MOST_CHARS, ("y",))
    around = QuotedStatement("e4", "A text.", ("A quote.",), around="z" * 10 * MOST_CHARS)
    assert as_many_as_fit([long, ONE, around]) == [ONE, around]
    assert len(as_many_as_fit([around] * 100)) * MOST_AROUND <= MOST_CHARS
    assert len(as_many_as_fit([ONE] * 100)) == MOST_STATEMENTS


@pytest.mark.parametrize("sure", [0.8, 1.0])
def test_of_two_findings_on_one_item_the_milder_one_counts(sure: float) -> None:
    both = [{"item": 1, "finding": "contradicts", "sure": sure}, {"item": 1, "finding": "follows", "sure": 0.3}]
    assert findings_in({"findings": both}, 1) == {1: FoundFault()}
    assert findings_in({"findings": both[::-1]}, 1) == {1: FoundFault()}


async def test_half_a_character_can_be_asked_about() -> None:
    statement = QuotedStatement("e1", "An odd \ud800 text.", ("An odd quote.",))
    assert (await judge_with(Objecting(), [0.0]).opinion([statement])).faults == {statement: "contradicts"}
