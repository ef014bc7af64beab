"""Questions for a person that arise from the work.

Tools' answers, forms of both eras, and nobody else can answer them.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from mcp_types import ElicitRequestFormParams, ElicitRequestParams, ElicitResult, ErrorData

from agents.engine.agent import Agent
from agents.engine.events import Decided
from agents.engine.work.questions import WorkQuestion, within
from knowledge.tokens import count_tokens
from mcp_server.app.settings.settings import Settings
from mcp_server.approvals.elicitation.checkpoints import MOST_FIELDS, answered, schema_of
from mcp_server.gate.host_registration import os_user
from tests.support.agents.inquiry_agent import ASK, inquiry
from tests.support.agents.small_agents import Only
from tests.support.hosts.writers import Refused, Writer, let_in
from tests.support.knowledge_bases.folders import write
from tests.support.roads.road import connect, opened

ERAS = ["auto", "legacy"]
PAGES = {"a.md": "# A\n\nThe cap is 20 calls an hour.\n"}
Answer = Callable[[ElicitRequestFormParams], ElicitResult]


@dataclass(frozen=True)
class Host(Writer):
    """A connected host, and the forms that its person saw."""

    forms: list[ElicitRequestFormParams]

    async def ask(self, work: Mapping[str, Any] = ASK) -> dict[str, Any]:
        """Begin a journey and submit work that asks; return the answer."""
        begun = await self.call("journey_start", agent="inquiry", brief="bees")
        return await self.call("journey_submit", journey_id=begun["journey_id"], version=begun["version"], work=work)

    async def answers(self, journey: str) -> Mapping[str, Any]:
        """Return the recorded answers."""
        return (await self.app.services.journeys.store.journey(journey)).answers


@asynccontextmanager
async def hosting(
    tmp_path: Path, *, mode: str = "auto", answer: Answer | None = None, agent: Agent | None = None
) -> AsyncIterator[Host]:
    settings = await let_in(
        Settings(kb=write(tmp_path / "kb", PAGES), state_dir=tmp_path / "state"), "desktop", level=3, forms=True
    )
    forms: list[ElicitRequestFormParams] = []

    async def elicit(context: Any, params: ElicitRequestParams) -> ElicitResult | ErrorData:
        del context
        assert answer is not None
        assert isinstance(params, ElicitRequestFormParams)
        forms.append(params)
        return answer(params)

    async with (
        opened(settings, announcing=False, indexing=False, agents=Only(agent or inquiry())) as app,
        connect(app, mode=mode, elicitation_callback=elicit if answer else None) as client,
    ):
        yield Host(client, app, settings.kb, forms)


def accepting(**fields: str) -> Answer:
    return lambda _: ElicitResult(action="accept", content=dict(fields))


async def test_an_answer_names_a_persons_questions_only_if_there_are_any(tmp_path: Path) -> None:
    async with hosting(tmp_path) as host:
        waits = await host.ask()
        assert waits["state"] == "waiting"
        assert waits["checkpoint"]["questions"] == ASK["ask"]
        assert "Never answer yourself" in waits["prompt"]
        journey, version = waits["journey_id"], waits["version"]
        assert (await host.call("journey_status", journey_id=journey))["checkpoint"] == waits["checkpoint"]
        said = {"q1": "Two.", "note": "Ada."}
        onward = await host.call("journey_decide", journey_id=journey, version=version, decision="answer", changes=said)
        assert (onward["state"], onward["phase"], onward["checkpoint"]) == ("active", "WRITE", None)
        assert await host.answers(journey) == {
            "ASK": {
                "q1": {"question": "How many hives are there?", "answer": "Two."},
                "note": {"question": "Who may enter the roof?", "answer": "Ada."},
            }
        }


async def test_neither_approval_nor_another_submit_nor_half_the_answers_gets_past_questions(tmp_path: Path) -> None:
    async with hosting(tmp_path) as host:
        waits = await host.ask()
        at = {"journey_id": waits["journey_id"], "version": waits["version"]}
        with pytest.raises(Refused, match="answer them with"):
            await host.call("journey_decide", **at, decision="approve")
        with pytest.raises(Refused, match="waits for a person"):
            await host.call("journey_submit", **at, work={"known": ["all of it"]})
        with pytest.raises(Refused, match="not answered yet: note: Who may enter the roof"):
            await host.call("journey_decide", **at, decision="answer", changes={"q1": "Two."})
        with pytest.raises(Refused, match="no question 'q7'"):
            await host.call("journey_decide", **at, decision="answer", changes={"q7": "Two."})
        assert await host.answers(waits["journey_id"]) == {}
        assert (await host.call("journey_status", journey_id=waits["journey_id"]))["version"] == waits["version"]


@pytest.mark.parametrize("mode", ERAS)
async def test_a_form_has_a_field_for_each_question_and_its_values_are_the_answers(tmp_path: Path, mode: str) -> None:
    filled = accepting(answer_1="Two.", answer_2="Ada.", note="and no wasps")
    async with hosting(tmp_path, mode=mode, answer=filled) as host:
        onward = await host.ask()
        assert (onward["state"], onward["phase"]) == ("active", "WRITE")
        schema = host.forms[0].requested_schema
        assert [field["title"] for field in schema["properties"].values()] == [
            "1. How many hives are there?",
            "2. Who may enter the roof?",
            "Note",
        ]
        assert schema["properties"]["answer_1"]["description"] == "the plan is made per hive"
        assert schema["required"] == ["answer_1", "answer_2"]
        assert "decision" not in schema["properties"]
        assert "2. Who may enter the roof? (somebody has to do it)" in host.forms[0].message
        kept = await host.answers(onward["journey_id"])
        assert {id_: one["answer"] for id_, one in kept["ASK"].items()} == {"q1": "Two.", "note": "Ada."}
        log = await host.app.services.journeys.store.events(onward["journey_id"])
        said = [(one.event.decision, one.event.channel, one.by) for one in log if isinstance(one.event, Decided)]
        assert said == [("answer", "host", f"{os_user()}@desktop (in the host)")]


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize(
    "answer",
    [
        accepting(),
        accepting(answer_1="  ", answer_2="", note=" "),
        accepting(decision="approve"),
        accepting(answer_1="Two."),
        lambda _: ElicitResult(action="cancel"),
        lambda _: ElicitResult(action="decline"),
    ],
    ids=["empty", "blank", "a yes to nothing", "half", "closed", "declined"],
)
async def test_a_form_that_answers_nothing_or_not_all_leaves_the_work_waiting(
    tmp_path: Path, mode: str, answer: Answer
) -> None:
    """Some hosts accept every form by themselves, without a word in it."""
    async with hosting(tmp_path, mode=mode, answer=answer) as host:
        waits = await host.ask()
        assert (waits["state"], waits["phase"]) == ("waiting", "ASK")
        assert waits["checkpoint"]["questions"] == ASK["ask"]
        assert await host.answers(waits["journey_id"]) == {}


@pytest.mark.parametrize("mode", ERAS)
async def test_more_questions_than_a_form_has_fields_for_are_answered_in_its_note(tmp_path: Path, mode: str) -> None:
    many = {"ask": [{"id": f"q{n}", "question": f"Number {n}?"} for n in range(1, 14)]}
    fields = {f"answer_{n}": f"answer {n}" for n in range(1, MOST_FIELDS + 1)}
    async with hosting(tmp_path, mode=mode, answer=accepting(**fields, note="never")) as host:
        onward = await host.ask(many)
        assert onward["phase"] == "WRITE"
        schema = host.forms[0].requested_schema
        assert len(schema["properties"]) == MOST_FIELDS + 1
        assert schema["properties"]["note"]["title"] == "Questions 11 to 13"
        assert "note" in schema["required"]
        kept = (await host.answers(onward["journey_id"]))["ASK"]
        assert [kept[id_]["answer"] for id_ in ("q10", "q11", "q13")] == [
            "answer 10",
            "never",
            "(see the answer to q11)",
        ]


@pytest.mark.security
async def test_hidden_characters_of_a_question_are_seen_in_the_form(tmp_path: Path) -> None:
    odd = {"ask": [{"id": "q\u202e1", "question": "How \u202emany\u200b hives?", "why": "\x07"}]}
    async with hosting(tmp_path, answer=accepting(answer_1="Two.")) as host:
        onward = await host.ask(odd)
        assert onward["phase"] == "WRITE"
        shown = host.forms[0].model_dump_json()
        assert not any(mark in json.loads(json.dumps(shown)) for mark in ("\u202e", "\u200b", "\x07", "\\u202e"))
        assert "U+202E" in host.forms[0].message


async def test_resuming_at_questions_stays_within_2500_tokens_however_long_they_are(tmp_path: Path) -> None:
    many = {"ask": [{"id": f"q{n}", "question": "why " * 500, "why": "so " * 500} for n in range(12)]}
    async with hosting(tmp_path) as host:
        waits = await host.ask(many)
        assert count_tokens(json.dumps(waits, ensure_ascii=False)) <= 2_500
        assert [one["id"] for one in waits["checkpoint"]["questions"]] == [f"q{n}" for n in range(12)]
        status = await host.call("journey_status", journey_id=waits["journey_id"])
        assert count_tokens(json.dumps(status, ensure_ascii=False)) <= 2_500


def test_of_very_many_questions_the_first_are_shown() -> None:
    asked = [WorkQuestion(f"q{n}", "why " * 50) for n in range(500)]
    told = within(asked, 800)
    assert 0 < len(told) < 60
    assert [one.id for one in told] == [f"q{n}" for n in range(len(told))]
    assert list(within(asked[:2], 800)) == asked[:2]


def test_a_field_that_is_not_of_the_form_answers_nothing() -> None:
    asked = [WorkQuestion("answer_2", "Who?"), WorkQuestion("note", "When?")]
    assert list(schema_of(asked)["properties"]) == ["answer_1", "answer_2", "note"]
    said = answered(asked, {"answer_1": "Ada.", "answer_2": "Now.", "answer_9": "no"})
    assert said is not None
    assert (said.changes, said.note) == ({"answer_2": "Ada.", "note": "Now."}, "")
    assert answered(asked, {"answer_9": "no"}) is None
