"""Leading a journey from a terminal or a script: `journeys start`, `submit`, `status`, `resume`, `answer` and `memory`."""

from __future__ import annotations

import io
import json
import os
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agents.engine.state import JourneyState
from mcp_server.app import composition as application
from mcp_server.app.composition import open_app
from mcp_server.app.factories.journey_store import journeys_in
from mcp_server.cli.journeys.view import shown
from mcp_server.gate.host_registration import os_user
from tests.contract.cli.test_journeys import at_terminal
from tests.support.agents.inquiry_agent import ASK, DOCUMENT, chained, inquiry
from tests.support.agents.small_agents import Only, noting
from tests.support.hosts.persons import Person
from tests.support.knowledge_bases.folders import write

pytestmark = pytest.mark.skipif(os.name == "nt", reason="there are no pseudo-terminals")

DONE, COULD_NOT, WRONGLY_ASKED, WAITS, NOT_ENOUGH = 0, 1, 2, 3, 4
UNENROLLED = f"{os_user()}@unenrolled"


@pytest.fixture
def ann(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Person:
    write(tmp_path / "kb")
    agents = Only(inquiry(), noting(), chained("first", "second"))
    monkeypatch.setattr(application, "open_app", partial(open_app, agents=agents))
    return Person(tmp_path)


def told(ann: Person, *words: str, code: int = DONE) -> dict[str, Any]:
    """Return an action's JSON output."""
    done = ann.here("journeys", *words, "--json")
    assert done.returncode == code, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def begun(ann: Person, *more: str, agent: str = "inquiry") -> str:
    return str(told(ann, "start", agent, "--brief", "bees", *more)["journey_id"])


def submitted(ann: Person, journey: str, work: dict[str, Any], *more: str, code: int = DONE) -> dict[str, Any]:
    file = ann.folder / "work.json"
    file.write_text(json.dumps(work), encoding="utf-8")
    return told(ann, "submit", journey, "--work", str(file), *more, code=code)


def test_a_journey_is_led_from_start_to_end_without_any_host(ann: Person) -> None:
    """Journeys start|submit|status|resume drive any agent from a terminal or a script."""
    first = told(ann, "start", "inquiry", "--brief", "bees", "--input", 'pages=["guides/deploy.md", "no.md"]')
    journey = first["journey_id"]
    assert (first["phase"], first["version"], first["state"]) == ("ASK", 1, "active")
    assert "ask" in first["work_schema"]["properties"]
    waits = submitted(ann, journey, ASK, code=WAITS)
    assert waits["checkpoint"]["questions"] == ASK["ask"]
    told(ann, "status", journey, code=WAITS)
    answers = ann.folder / "answers.json"
    answers.write_text(json.dumps({"q1": "Two.", "note": "Ada."}), encoding="utf-8")
    assert told(ann, "answer", journey, "--answers", str(answers))["phase"] == "WRITE"
    short = submitted(ann, journey, {"document": "no"}, code=NOT_ENOUGH)
    assert "the document says too little" in short["prompt"]
    spent = ("--tokens-in", "1200", "--tokens-out", "340", "--model", "m", "--confidence", "0.5", "--reasoning", "so")
    assert submitted(ann, journey, {"document": DOCUMENT}, *spent)["phase"] == "JUDGE"
    done = submitted(ann, journey, {"score": 90})
    assert (done["state"], done["phase"]) == ("complete", "DONE")
    state = ann.asked(lambda state: journeys_in(state).journey(journey))
    assert state.work["LOOK"].content == {"pages": ["guides/deploy.md"], "looked": 2}
    kept = state.work["WRITE"]
    assert (kept.usage.tokens_in, kept.usage.tokens_out, kept.usage.model) == (1_200, 340, "m")
    assert (kept.confidence, kept.reasoning) == (0.5, "so")
    assert state.principal == UNENROLLED


def test_an_answer_in_words_has_everything_needed_to_continue(ann: Person) -> None:
    done = ann.here("journeys", "start", "inquiry", "--brief", "bees")
    journey, lines = done.stdout.split(",")[0], done.stdout.splitlines()
    assert lines[0].startswith(f"{journey}, version 1, active in ASK (visit 1), in planner_iter1_")
    assert "Ask about: bees" in lines
    assert "submit an object that fits this JSON Schema:" in lines
    assert lines[-1] == f"to continue: knowledge-forge journeys submit {journey} --work FILE"
    again = ann.here("journeys", "resume", journey)
    told = [line for line in lines if not line.startswith("This agent costs at least")]
    assert (again.returncode, again.stdout.splitlines()) == (DONE, [told[0], *told[2:]]), (
        "all but the cost and its empty line"
    )
    submitted(ann, journey, ASK, "--tokens-in", "1039", "--tokens-out", "60", code=WAITS)
    waits = ann.here("journeys", "status", journey)
    assert waits.returncode == WAITS
    assert waits.stdout.splitlines()[1:] == [
        "attempt 1, tokens: 1,039 in, 60 out",
        "questions to answer:",
        "- q1: How many hives are there?",
        "- note: Who may enter the roof?",
        "",
        f"to continue: knowledge-forge journeys answer {journey}",
    ]
    shown = ann.here("journeys", "show", journey).stdout.splitlines()
    assert "- q1: How many hives are there? (the plan is made per hive)" in shown
    assert shown[-1] == f"knowledge-forge journeys answer {journey}"


def test_work_is_read_from_standard_input_and_sent_again_it_is_answered_the_same(
    ann: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    journey = begun(ann)
    answers = []
    for _ in range(2):
        raw = io.BytesIO(b"\xef\xbb\xbf" + json.dumps(ASK).encode())
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(raw))
        answers.append(told(ann, "submit", journey, "--work", "-", "--version", "1", code=WAITS))
    assert answers[0] == answers[1]


def test_a_terminal_asks_each_open_question_and_its_answers_count_as_direct(ann: Person) -> None:
    journey = begun(ann)
    submitted(ann, journey, ASK, code=WAITS)
    done = at_terminal(ann, "Two.\nAda, on Fridays.\n", "answer", journey)
    assert done.returncode == DONE, done.stderr
    assert "1/2 How many hives are there? (the plan is made per hive)" in done.stderr
    assert "2/2 Who may enter the roof?" in done.stderr
    assert "your answers were recorded" in done.stdout
    state = ann.asked(lambda state: journeys_in(state).journey(journey))
    assert {id_: one["answer"] for id_, one in state.answers["ASK"].items()} == {
        "q1": "Two.",
        "note": "Ada, on Fridays.",
    }
    log = ann.asked(lambda state: journeys_in(state).events(journey))
    assert [e.event.channel for e in log if e.event.TYPE == "journey.decided"] == ["terminal"]  # type: ignore[union-attr]
    nothing = ann.here("journeys", "answer", journey)
    assert nothing.returncode == COULD_NOT
    assert "has no open question" in nothing.stderr


@pytest.mark.parametrize(
    ("keys", "words", "code", "says"),
    [
        ("\n\n", (), COULD_NOT, "nothing was answered; still open: q1, note"),
        ("Two.\n\n", (), COULD_NOT, "not answered yet: note: Who may enter the roof?"),
        ("", ("--note", "We know neither."), DONE, "recorded"),
        ("Ada.\n", ("--answer", "q1=Two."), DONE, "recorded"),
        ("", ("--answer", "q9=Two.", "--note", "x"), COULD_NOT, "there is no question 'q9'"),
        ("", ("--answer", "q1"), WRONGLY_ASKED, "is not ID=TEXT"),
    ],
)
def test_questions_that_stay_open_keep_the_work_waiting(
    ann: Person, keys: str, words: tuple[str, ...], code: int, says: str
) -> None:
    journey = begun(ann)
    submitted(ann, journey, ASK, code=WAITS)
    done = at_terminal(ann, keys, "answer", journey, *words)
    assert (done.returncode, says in done.stdout + done.stderr) == (code, True), done.stderr
    told(ann, "status", journey, code=DONE if code == DONE else WAITS)


def test_without_a_terminal_answers_count_as_relayed(ann: Person) -> None:
    journey = begun(ann)
    submitted(ann, journey, ASK, code=WAITS)
    assert ann.here("journeys", "answer", journey).returncode == COULD_NOT
    assert ann.here("journeys", "answer", journey, "--answer", "q1=2", "--answer", "note=Ada").returncode == DONE
    log = ann.asked(lambda state: journeys_in(state).events(journey))
    assert [e.event.channel for e in log if e.event.TYPE == "journey.decided"] == ["relayed"]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("start", "inquiri", "--brief", "x"), COULD_NOT, "did you mean 'inquiry'?"),
        (("start", "inquiry", "--brief", " "), COULD_NOT, "the brief is empty"),
        (("start", "inquiry", "--brief", "x", "--input", "page=1"), COULD_NOT, "there is no input 'page'"),
        (("start", "inquiry", "--brief", "x", "--input", "pages"), WRONGLY_ASKED, "is not NAME=VALUE"),
        (("start", "inquiry", "--brief", "-", "--inputs", "-"), WRONGLY_ASKED, "cannot both be read"),
        (("start", "inquiry"), WRONGLY_ASKED, "--brief"),
        (("submit", "inquiry-0", "--work", "nowhere.json"), WRONGLY_ASKED, "can't read nowhere.json"),
        (("status", "inquiry-0"), COULD_NOT, "there is no journey 'inquiry-0'"),
        (("resume", "inquiry-0"), COULD_NOT, "there is no journey 'inquiry-0'"),
        (("memory", "inquiry-0"), COULD_NOT, "there is no journey 'inquiry-0'"),
        (("answer", "inquiry-0"), COULD_NOT, "there is no journey 'inquiry-0'"),
    ],
)
def test_a_failure_is_one_sentence_and_an_exit_code(ann: Person, words: tuple[str, ...], code: int, says: str) -> None:
    done = ann.here("journeys", *words)
    assert (done.returncode, done.stdout) == (code, "")
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("content", ["[]", "{", "\udcff"])
def test_work_that_is_no_json_object_is_refused_before_anything_is_opened(ann: Person, content: str) -> None:
    journey = begun(ann)
    file = ann.folder / "work.json"
    file.write_bytes(content.encode("utf-8", "surrogateescape"))
    done = ann.here("journeys", "submit", journey, "--work", str(file))
    assert done.returncode == WRONGLY_ASKED
    assert str(file) in done.stderr


def test_work_that_does_not_fit_or_comes_too_late_is_refused_with_the_reason_of_the_tool(ann: Person) -> None:
    journey = begun(ann)
    file = ann.folder / "work.json"
    for work, more, says, code in (
        ({"asks": []}, (), "asks", COULD_NOT),
        ({"known": ["x"]}, ("--version", "7"), "is at version 1, not 7", COULD_NOT),
        ({"known": ["x"]}, ("--confidence", "3"), "'3' is not a number from 0 to 1", WRONGLY_ASKED),
        ({"known": ["x"]}, ("--confidence", "nan"), "'nan' is not a number from 0 to 1", WRONGLY_ASKED),
    ):
        file.write_text(json.dumps(work), encoding="utf-8")
        done = ann.here("journeys", "submit", journey, "--work", str(file), *more)
        assert (done.returncode, done.stdout) == (code, "")
        assert says in done.stderr
    assert told(ann, "status", journey)["version"] == 1


def test_a_frozen_host_leads_no_journey_from_a_terminal_either(ann: Person) -> None:
    journey = begun(ann)
    assert ann.here("trust", "freeze", UNENROLLED).returncode == DONE
    for words in (("start", "inquiry", "--brief", "x"), ("resume", journey), ("status", journey)):
        done = ann.here("journeys", *words)
        assert (done.returncode, done.stdout) == (COULD_NOT, "")
        assert "frozen" in done.stderr


def test_any_view_of_a_journey_shows_a_persons_answer(ann: Person) -> None:
    journey = begun(ann)
    submitted(ann, journey, ASK, code=WAITS)
    assert "Answers from people" not in ann.here("journeys", "show", journey).stdout
    assert (
        ann.here("journeys", "answer", journey, "--answer", "q1=Two.", "--answer", "note=Ada\x1b[31m").returncode
        == DONE
    )
    lines = ann.here("journeys", "show", journey).stdout.splitlines()
    at = lines.index("Answers from people:")
    assert sorted(lines[at + 1 : at + 3]) == [
        "- ASK: How many hives are there? Two.",
        "- ASK: Who may enter the roof? Ada\u27e6U+001B\u27e7[31m",
    ]


def test_a_journey_with_work_unknown_to_its_agent_is_still_shown(ann: Person) -> None:
    journey = begun(ann)

    def outgrown(state: JourneyState) -> list[str]:
        return [str(state.work["NONE"])]

    state = ann.asked(lambda state: journeys_in(state).journey(journey))
    told = shown(journey, replace(inquiry(), done=outgrown), state)
    assert any("another version of this agent" in line for line in told)


# --- memory documents and reports -------------------------------------------------------------------------------------


def test_a_memory_document_is_shown_and_of_several_their_names(ann: Person) -> None:
    journey = begun(ann)
    none = ann.here("journeys", "memory", journey)
    assert (none.returncode, none.stdout) == (COULD_NOT, "")
    assert "has no memory document 'inquiry'; it has none yet" in none.stderr
    submitted(ann, journey, {"known": ["all"]})
    submitted(ann, journey, {"document": DOCUMENT})
    assert ann.here("journeys", "memory", journey).stdout == DOCUMENT
    assert told(ann, "memory", journey, "inquiry") == {"journey_id": journey, "documents": {"inquiry": DOCUMENT}}
    chain = begun(ann, agent="chain")
    for work in (
        {"known": ["all"]},
        {"document": DOCUMENT},
        {"score": 90},
        {"known": ["all"]},
        {"document": "# No 2\n\nWasps.\n"},
    ):
        submitted(ann, chain, work)
    several = ann.here("journeys", "memory", chain)
    assert (several.returncode, several.stdout) == (DONE, "inquiry\nfirst\nsecond\n")
    assert ann.here("journeys", "memory", chain, "second").stdout == "# No 2\n\nWasps.\n"
    assert ann.here("journeys", "memory", chain, "--merge", "a.md").returncode == WRONGLY_ASKED


def test_a_chains_report_has_its_parts_averages_and_the_costliest(ann: Person) -> None:
    chain = begun(ann, agent="chain")
    works: list[dict[str, Any]] = [{"known": ["all"]}, {"document": DOCUMENT}, {"score": 90}, {"known": ["all"]}]
    for number, work in enumerate(works):
        submitted(ann, chain, work, "--tokens-in", str(1_000 * (number + 1)))
    found = told_list(ann, "stats", "--agent", "chain")
    assert [(part["part"], part["submits"], part["tokens_per_journey"]) for part in found[0]["parts"]] == [
        ("first", 3, 6_000.0),
        ("second", 1, 4_000.0),
    ]
    shown = ann.here("journeys", "stats", "--agent", "chain").stdout.splitlines()
    assert shown[-4].split() == ["part", "journeys", "submissions", "per", "journey", "waiting", "tokens"]
    assert shown[-1].startswith("Most time goes into the part ")
    begun(ann)
    assert told_list(ann, "stats", "--agent", "inquiry")[0]["parts"] == []


def told_list(ann: Person, *words: str) -> list[dict[str, Any]]:
    answer: list[dict[str, Any]] = json.loads(ann.here("journeys", *words, "--json").stdout)
    return answer


def test_a_memory_document_is_merged_into_a_page_by_the_rules_of_the_gate(ann: Person) -> None:
    """Memory documents may be merged into the knowledge base by smart merge."""
    journey = begun(ann)
    submitted(ann, journey, {"known": ["all"]})
    submitted(ann, journey, {"document": DOCUMENT})
    asked = ann.here("journeys", "memory", journey, "--merge", "memory/bees.md")
    assert asked.returncode == WAITS
    assert "proposed: memory/bees.md, it needs approval: knowledge-forge review " in asked.stdout
    assert not (ann.kb / "memory/bees.md").exists()
    proposal = ann.proposal(asked.stdout.split()[-1])
    assert (proposal.principal, proposal.tool) == (UNENROLLED, "kb_merge")
    ann.signs(proposal.id)
    text = (ann.kb / "memory/bees.md").read_text(encoding="utf-8")
    assert "Two hives, *Ada* enters." in text


def test_a_result_is_kept_as_a_page_by_the_rules_of_the_gate(ann: Person) -> None:
    journey = begun(ann)
    submitted(ann, journey, {"known": ["all"]})
    early = ann.here("journeys", "keep", journey, "results/bees.md")
    assert (early.returncode, early.stdout) == (COULD_NOT, "")
    assert "has no result to keep: it is not complete" in early.stderr
    submitted(ann, journey, {"document": DOCUMENT})
    submitted(ann, journey, {"score": 90})
    shown = ann.here("journeys", "keep", journey, "results/bees.md", "--dry-run")
    assert (shown.returncode, "Two hives, *Ada* enters." in shown.stdout) == (DONE, True)
    asked = ann.here("journeys", "keep", journey, "results/bees.md")
    assert asked.returncode == WAITS
    assert not (ann.kb / "results/bees.md").exists()
    proposal = ann.proposal(asked.stdout.split()[-1])
    assert (proposal.principal, proposal.tool) == (UNENROLLED, "kb_merge")
    assert "Two hives, *Ada* enters." in proposal.preview
    assert "Result:\n" in ann.here("journeys", "show", journey).stdout


def test_text_of_others_moves_nothing_in_the_terminal(ann: Person) -> None:
    odd = {"ask": [{"id": "q\u202e1", "question": "How \x1b[2Jmany\u200b?", "why": "\x07"}]}
    journey = begun(ann)
    submitted(ann, journey, odd, code=WAITS)
    for words in (("status", journey), ("resume", journey), ("show", journey)):
        assert not set(ann.here("journeys", *words).stdout) & set("\x1b\u202e\u200b\x07")
    done = at_terminal(ann, "Two.\n", "answer", journey)
    assert not set(done.stderr + done.stdout) & set("\x1b\u202e\u200b\x07")
