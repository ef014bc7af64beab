"""`knowledge-forge journeys` as a person uses it: real journeys of a real agent, real files, and a terminal to type into."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch

import pytest

from agents.catalogue import built_in
from agents.engine.agent import Agent
from agents.engine.events import Decided, Started
from agents.engine.fold import fold
from agents.engine.graph import mermaid
from agents.engine.runner import JourneyDecision, Runner, Submission
from agents.engine.state import JourneyState, restore_state
from agents.report.journey_report import report
from agents.store.export_file import exported, imported
from mcp_server.__main__ import main
from mcp_server.app import composition as application
from mcp_server.app.composition import open_app
from mcp_server.app.factories.journey_store import journeys_in
from mcp_server.app.knowledge_base import utc_now
from mcp_server.gate.taint import Taints
from tests.support.agents.small_agents import Only
from tests.support.hosts.persons import ME, Person
from tests.support.hosts.terminals import ESCAPES
from tests.support.journeys.graphs import ADA
from tests.support.knowledge_bases.folders import write

RESEARCH = built_in("research")

T = TypeVar("T")

BRIEF = "How is the payment service deployed?"
HOSTILE = "How \x1b[2Jis\u202e it\u200b \x07deployed?"
ACTING = set("\x1b\u202e\u200b\x07")
TREE: dict[str, Any] = {
    "categories": [{"id": "c1", "title": "Deploying", "why": "the brief asks for it"}],
    "questions": [{"id": "q1", "category": "c1", "text": "What is deployed first?", "why": "to know the order"}],
}
ANSWER: dict[str, Any] = {
    "answers": [
        {
            "id": "q1",
            "text": "A canary.",
            "citations": [
                {
                    "path": "guides/deploy.md",
                    "section": "Deploying the payment service",
                    "quote": "The payment service is deployed with a canary first.",
                }
            ],
        }
    ]
}

pytestmark = pytest.mark.skipif(os.name == "nt", reason="there are no pseudo-terminals")


@pytest.fixture
def ann(tmp_path: Path) -> Person:
    write(tmp_path / "kb")
    return Person(tmp_path)


def led(ann: Person, work: Callable[[Runner], Awaitable[T]]) -> T:
    """Return the result of `work` with the journeys of this knowledge base."""

    async def opened() -> T:
        async with open_app(ann.settings, indexing=False, announcing=False) as app:
            return await work(app.services.journeys)

    return asyncio.run(opened())


def begun(ann: Person, brief: str = BRIEF, *works: dict[str, Any]) -> str:
    """Begin a journey and submit the works."""

    async def work(runner: Runner) -> str:
        journey = (await runner.start("research", brief, {}, by=ADA)).journey
        await submitted(runner, journey, works)
        return journey

    return led(ann, work)


async def submitted(runner: Runner, journey: str, works: Sequence[dict[str, Any]]) -> JourneyState:
    for one in works:
        at = (await runner.position(journey)).state.version
        await runner.submit(journey, at, Submission(one), by=ADA)
    return (await runner.position(journey)).state


def submit(ann: Person, journey: str, *works: dict[str, Any]) -> JourneyState:
    """Submit the works one after the other, and return the result."""
    return led(ann, lambda runner: submitted(runner, journey, works))


def waiting(ann: Person, brief: str = BRIEF) -> str:
    """Begin a journey and lead it to a question for a person."""
    return begun(ann, brief, {"categories": TREE["categories"]}, TREE)


def state_of(ann: Person, journey: str) -> JourneyState:
    return ann.asked(lambda state: journeys_in(state).journey(journey))


def newest_word(ann: Person, journey: str) -> tuple[Decided, str]:
    log = ann.asked(lambda state: journeys_in(state).events(journey))
    return next((e.event, e.by) for e in reversed(log) if isinstance(e.event, Decided))


@contextmanager
def typing(keys: str) -> Iterator[io.StringIO]:
    """Type at a terminal of this process; what this yields holds standard error afterwards."""
    import pty

    ours, theirs = pty.openpty()
    os.write(ours, keys.encode())
    shown = io.StringIO()
    with (
        os.fdopen(theirs, "r+b", buffering=0) as terminal,
        io.TextIOWrapper(terminal, line_buffering=True) as text,
        patch.object(sys, "stdin", text),
        patch.object(sys, "stderr", Shown(text, shown)),
    ):
        yield shown
    os.close(ours)


class Shown(io.StringIO):
    """A terminal's standard error, for inspection."""

    def __init__(self, terminal: io.TextIOWrapper, shown: io.StringIO) -> None:
        super().__init__()
        self._terminal, self._shown = terminal, shown

    def isatty(self) -> bool:
        return self._terminal.isatty()

    def write(self, text: str) -> int:
        return self._shown.write(text)


def at_terminal(ann: Person, keys: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the verb at a terminal of this process."""
    out = io.StringIO()
    with patch.dict(os.environ, ann.env, clear=True), typing(keys) as shown, redirect_stdout(out):
        code = main(ann.words("journeys", *words))
    return subprocess.CompletedProcess(words, code, out.getvalue(), shown.getvalue())


# --- seeing -----------------------------------------------------------------------------------------------------------


def test_an_empty_list_of_journeys_says_so(ann: Person) -> None:
    for words in ((), ("list",), ("stats",)):
        done = ann.here("journeys", *words)
        assert (done.returncode, done.stdout, done.stderr) == (1, "no journeys\n", "")
    assert json.loads(ann.here("journeys", "--json").stdout) == []
    assert json.loads(ann.here("journeys", "stats", "--json").stdout) == []


def test_journeys_are_listed_newest_first_and_those_that_wait_are_marked(ann: Person) -> None:
    first, second = waiting(ann, "Who waits?"), begun(ann, "Who works?")
    done = ann.here("journeys")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines] == [second, first]
    assert ["waiting for a person" in line for line in lines] == [False, True]
    assert lines[1].endswith("UTC  Who waits?")
    assert "knowledge-forge journeys show ID" in done.stderr
    rows = json.loads(ann.here("journeys", "list", "--json").stdout)
    told = [(row["journey_id"], row["agent"], row["state"], row["waits_for_person"], row["phase"]) for row in rows]
    assert told == [
        (second, "research", "active", False, "DECOMPOSE"),
        (first, "research", "waiting", True, "DECOMPOSE"),
    ]


def test_lists_are_narrowed_by_state_agent_and_number(ann: Person) -> None:
    first, second = waiting(ann), begun(ann)
    for words, wanted in [
        (["--state", "waiting"], [first]),
        (["--state", "complete"], []),
        (["--agent", "research"], [second, first]),
        (["--agent", "build"], []),
        (["--limit", "1"], [second]),
    ]:
        done = ann.here("journeys", "list", "--json", *words)
        assert [row["journey_id"] for row in json.loads(done.stdout)] == wanted
        assert done.returncode == (0 if wanted else 1)


def test_a_journey_is_shown_with_its_record_and_its_question(ann: Person) -> None:
    journey = waiting(ann)
    text = ann.here("journeys", "show", journey).stdout
    assert text.startswith(f"Research: {BRIEF}\n{journey}, version 3, waiting for a person in DECOMPOSE (visit 1)")
    assert "  - `q1` What is deployed first?\n    - category: c1\n" in text
    assert f"Decision needed: {RESEARCH.questions['DECOMPOSE']}" in text
    assert f"knowledge-forge journeys decide {journey} approve|modify|reject" in text


def test_missing_work_is_shown(ann: Person) -> None:
    journey = begun(ann, BRIEF, {"categories": TREE["categories"]})
    text = ann.here("journeys", "show", journey).stdout
    assert "Still missing:\n- these categories have no question: c1" in text


def test_the_shown_json_is_the_whole_state(ann: Person) -> None:
    journey = waiting(ann)
    form = json.loads(ann.here("journeys", "show", journey, "--json").stdout)
    assert form.pop("journey_id") == journey
    assert form.pop("question") == RESEARCH.questions["DECOMPOSE"]
    assert restore_state(form) == state_of(ann, journey)


def test_the_graph_is_mermaid_with_the_present_phase(ann: Person) -> None:
    journey = waiting(ann)
    drawn = mermaid(RESEARCH.graph, "DECOMPOSE", {"DECOMPOSE": 1})
    assert ann.here("journeys", "graph", journey).stdout == drawn
    assert json.loads(ann.here("journeys", "graph", journey, "--json").stdout)["mermaid"] == drawn


def test_the_report_is_the_one_that_tools_give(ann: Person) -> None:
    journey = waiting(ann)
    decided_by(ann, journey, "cancel")

    async def work(runner: Runner) -> str:
        return report(await runner.position(journey), await runner.store.events(journey), utc_now())

    wanted = led(ann, work)
    assert "A person cancelled it in DECOMPOSE" in wanted
    assert json.loads(ann.here("journeys", "report", journey, "--json").stdout)["report"] == wanted
    assert ann.here("journeys", "report", journey).stdout == wanted


def decided_by(ann: Person, journey: str, decision: Any, **more: Any) -> None:
    async def work(runner: Runner) -> None:
        at = (await runner.position(journey)).state.version
        await runner.decide(journey, at, JourneyDecision(decision, "page", **more), by="ben")

    led(ann, work)


def test_events_are_listed_in_order_from_any_number_on(ann: Person) -> None:
    journey = waiting(ann)
    log = ann.asked(lambda state: journeys_in(state).events(journey))
    lines = ann.here("journeys", "events", journey).stdout.splitlines()
    assert [int(line.split()[0]) for line in lines] == [logged.seq for logged in log]
    assert f"research started in DECOMPOSE. {BRIEF}" in lines[0]
    assert "Incomplete in DECOMPOSE (validation): these categories have no question: c1" in lines[2]
    assert any("Question added (q1, c1): What is deployed first?" in line for line in lines)
    rows = [json.loads(line) for line in ann.here("journeys", "events", journey, "--json").stdout.splitlines()]
    assert [(row["seq"], row["type"]) for row in rows] == [(logged.seq, logged.event.TYPE) for logged in log]
    later = ann.here("journeys", "events", journey, "--after", "3").stdout.splitlines()
    assert later == lines[3:]


def test_another_processs_journey_is_followed_to_its_end(ann: Person) -> None:
    journey = begun(ann)
    with ann.start("journeys", "events", journey, "--follow") as process:
        assert process.stdout is not None
        assert "research started in DECOMPOSE" in process.stdout.readline()
        submit(ann, journey, TREE)
        assert "Work on DECOMPOSE was recorded" in process.stdout.readline()
        decided_by(ann, journey, "cancel", note="enough")
        rest, _ = process.communicate(timeout=60)
        assert "Response from a person: cancel, in DECOMPOSE, on the review page." in rest.splitlines()[-1]
        assert process.returncode == 0


def test_following_can_be_interrupted(ann: Person) -> None:
    journey = begun(ann)
    with ann.start("journeys", "events", journey, "--follow") as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (130, "")


def test_nothing_that_a_model_wrote_acts_on_the_terminal(ann: Person) -> None:
    journey = begun(ann, HOSTILE)
    hostile = json.loads(json.dumps(TREE).replace("Deploying", "Dep\\u001b]0;x\\u0007loy\\u202eing"))
    submit(ann, journey, {**hostile, "questions": [{**TREE["questions"][0], "text": HOSTILE}]})
    seen = [
        ann.here("journeys", *words)
        for words in (
            ("list",),
            ("show", journey),
            ("events", journey),
            ("report", journey),
            ("graph", journey),
            ("decide", journey, "reject", "--yes", "--note", HOSTILE),
            ("show", journey),
            ("fork", journey),
            ("stats",),
        )
    ]
    seen.append(ann.here("journeys", "show", journey, "--json"))
    for done in seen:
        assert done.returncode == 0
        assert not ACTING & set(done.stdout + done.stderr), done.args
    assert "How ⟦U+001B⟧[2Jis⟦U+202E⟧" in seen[1].stdout


@pytest.mark.parametrize(
    ("action", "name"),
    [
        ("show", "../../etc"),
        ("events", "research-none"),
        ("graph", "\u202ex"),
        ("report", "x" * 500),
        ("export", "\x00"),
        ("fork", "no such"),
    ],
)
def test_an_unknown_journey_gets_one_sentence(ann: Person, action: str, name: str) -> None:
    done = ann.here("journeys", action, name)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("knowledge-forge: there is no journey ")
    assert done.stderr.count("\n") == 1
    assert not ACTING & set(done.stderr)


# --- deciding ---------------------------------------------------------------------------------------------------------


def test_a_person_sees_the_subject_and_approves_in_a_terminal(ann: Person) -> None:
    journey = waiting(ann)
    with ann.at("journeys", "decide", journey, "approve", "--note", "a good tree") as screen:
        screen.until("What is deployed first?", RESEARCH.questions["DECOMPOSE"][:40], "your note: a good tree")
        screen.until("approve: the work moves from DECOMPOSE to ANSWER", "Record approve as shown? [y/N]")
        screen.type("y\n")
        screen.until(f"approve was recorded; {journey} is at version 4, active in ANSWER")
        assert screen.left() == 0
    word, by = newest_word(ann, journey)
    assert (word.decision, word.channel, word.note, by) == ("approve", "terminal", "a good tree", ME)


def test_a_journey_that_moved_since_it_was_shown_is_not_decided_about(ann: Person) -> None:
    journey = waiting(ann)
    with ann.at("journeys", "decide", journey, "approve") as screen:
        screen.until("Record approve as shown? [y/N]")
        decided_by(ann, journey, "reject", note="too short")
        screen.type("y\n")
        shown = screen.until("is at version 4, not 3")
        assert "a person said reject at DECOMPOSE (page) by ben" in " ".join(shown.split())
        assert screen.left() == 1
    assert newest_word(ann, journey)[0].decision == "reject"


@pytest.mark.parametrize("typed", ["n\n", "\n", "maybe\n", "\x04"])
def test_anything_but_a_yes_decides_nothing(ann: Person, typed: str) -> None:
    journey = waiting(ann)
    before = state_of(ann, journey)
    done = at_terminal(ann, typed, "decide", journey, "approve")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.endswith("nothing was decided: not confirmed\n")
    assert state_of(ann, journey) == before


def test_each_decision_does_what_was_announced(ann: Person) -> None:
    """One journey, all six words."""
    journey = waiting(ann)
    better = {"questions": [{**TREE["questions"][0], "text": "What comes first?"}]}
    for words, foretold, outcome in [
        (
            ["answer", "--note", "the new one"],
            "the phase stays the same",
            "version 4, waiting for a person in DECOMPOSE",
        ),
        (["reject", "--note", "too short"], "DECOMPOSE will be redone", "version 5, active in DECOMPOSE"),
    ]:
        done = at_terminal(ann, "y\n", "decide", journey, *words)
        assert done.returncode == 0
        assert f"{words[0]}: " in done.stderr
        assert foretold in done.stderr
        assert done.stdout == f"{words[0]} was recorded; {journey} is at {outcome}\n"
    submit(ann, journey, TREE)
    done = at_terminal(ann, "yes\n", "decide", journey, "modify", "--changes", json.dumps(better))
    assert "modify: the work of DECOMPOSE is changed as requested and checked again" in done.stderr
    assert 'your changes: {"questions":[{' in done.stderr
    assert done.stdout == f"modify was recorded; {journey} is at version 7, active in ANSWER\n"
    assert state_of(ann, journey).work["DECOMPOSE"].content == {**TREE, **better}
    done = at_terminal(ann, "y\n", "decide", journey, "revisit", "--phase", "DECOMPOSE", "--note", "once more")
    assert "revisit: the work returns from ANSWER to DECOMPOSE" in done.stderr
    assert state_of(ann, journey).backward_trigger_detail == "once more"
    done = at_terminal(ann, "y\n", "decide", journey, "cancel", "--json")
    assert "cancel: the journey can't be resumed, only forked" in done.stderr
    assert json.loads(done.stdout)["status"] == "cancelled"
    done = at_terminal(ann, "y\n", "decide", journey, "approve")
    assert (done.returncode, done.stdout) == (1, "")
    assert "[y/N]" not in done.stderr, "nobody is asked what would not count"


def test_incomplete_changes_are_recorded_with_what_is_missing(ann: Person) -> None:
    journey = waiting(ann)
    done = at_terminal(ann, "y\n", "decide", journey, "modify", "--changes", '{"questions": null}')
    assert done.returncode == 0
    assert "active in DECOMPOSE; still missing: these categories have no question: c1" in done.stdout


def test_invalid_changes_are_refused_with_the_reason(ann: Person) -> None:
    journey = waiting(ann)
    done = at_terminal(ann, "y\n", "decide", journey, "modify", "--changes", '{"questions": 5}')
    assert done.returncode == 1
    assert "nothing was recorded" in done.stderr
    assert "questions" in done.stderr.splitlines()[-1]
    assert state_of(ann, journey).version == 3


def test_where_nobody_can_be_asked_nothing_is_decided_without_yes(ann: Person) -> None:
    journey = waiting(ann)
    done = ann.here("journeys", "decide", journey, "approve")
    assert (done.returncode, done.stdout) == (1, "")
    assert "nothing was decided: can't ask for confirmation here" in done.stderr
    assert state_of(ann, journey).status == "waiting"


def test_a_word_that_nobody_typed_is_recorded_as_relayed(ann: Person) -> None:
    journey = waiting(ann)
    done = ann.here("journeys", "decide", journey, "approve", "--yes")
    assert (done.returncode, state_of(ann, journey).phase) == (0, "ANSWER")
    assert newest_word(ann, journey)[0].channel == "relayed"
    assert at_terminal(ann, "", "decide", journey, "revisit", "--phase", "DECOMPOSE", "--yes").returncode == 0
    assert newest_word(ann, journey)[0].channel == "terminal"


def verified() -> Agent:
    """Return research that asks for the person's own edit."""
    graph = RESEARCH.graph
    phases = tuple(replace(phase, own_hand=phase.name == "DECOMPOSE") for phase in graph.phases)
    return replace(RESEARCH, graph=replace(graph, phases=phases))


def test_a_direct_decision_needs_a_terminal(ann: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = partial(open_app, agents=Only(verified()))
    monkeypatch.setattr(application, "open_app", opened)
    monkeypatch.setattr("tests.contract.cli.test_journeys.open_app", opened)
    journey = waiting(ann)
    assert "(must be answered by the person, not relayed)" in ann.here("journeys", "show", journey).stdout
    done = ann.here("journeys", "decide", journey, "approve", "--yes")
    assert done.returncode == 1
    assert "only the person can decide" in done.stderr
    assert state_of(ann, journey).status == "waiting"
    assert at_terminal(ann, "y\n", "decide", journey, "approve").returncode == 0
    assert newest_word(ann, journey)[0].channel == "terminal"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["decide", "j", "maybe"], "invalid choice: 'maybe'"),
        (["decide", "j", "revisit"], "revisit needs --phase PHASE"),
        (["decide", "j", "approve", "--phase", "ANSWER"], "--phase works only with revisit"),
        (["decide", "j", "reject", "--changes", "{}"], "--changes works only with modify"),
        (["decide", "j", "modify", "--changes", "{'a': 1}"], "--changes is not valid JSON: "),
        (["decide", "j", "modify", "--changes", "[" * 100_000], "--changes is not valid JSON: "),
        (["decide", "j", "modify", "--changes", "[1]"], "--changes must be a JSON object"),
        (["decide", "j", "modify", "--changes", "{}"], "--changes must be a JSON object"),
        (["decide", "j", "answer", "--note", " "], "answer needs --note TEXT"),
        (["list", "--state", "lost"], "invalid choice: 'lost'"),
        (["list", "--limit", "0"], "not a whole number from 1"),
        (["fork", "j", "--at", "-1"], "not a whole number from 1"),
        (["events", "j", "--after", "x"], "not a whole number from 0"),
        (["show"], "required: ID"),
        (["dance"], "invalid choice: 'dance'"),
    ],
)
def test_wrong_usage_gets_one_sentence(ann: Person, words: list[str], says: str) -> None:
    done = ann.here("journeys", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


# --- forks, exports and imports ---------------------------------------------------------------------------------------


def test_a_fork_goes_its_own_way_from_an_earlier_version_and_is_as_tainted(ann: Person) -> None:
    journey = waiting(ann)
    ann.asked(lambda state: Taints(state, utc_now).note(ADA, journey, ("url:example.org",)))
    before = state_of(ann, journey)
    done = ann.here("journeys", "fork", journey, "--at", "2", "--note", "shorter this time", "--json")
    form = json.loads(done.stdout)
    assert (form["forked_from"], form["forked_at"], form["phase"]) == (journey, 2, "DECOMPOSE")
    new = state_of(ann, form["journey_id"])
    assert new.work["DECOMPOSE"].content == {"categories": TREE["categories"]}
    assert new.word is not None
    assert (new.word.note, new.principal) == ("shorter this time", ME)
    assert state_of(ann, journey) == before
    taints = ann.asked(lambda state: Taints(state, utc_now).of_journey(form["journey_id"]))
    assert set(taints) == {"url:example.org"}
    done = ann.here("journeys", "fork", journey)
    assert f"was forked from {journey} at version 3, in DECOMPOSE" in done.stdout
    done = ann.here("journeys", "fork", journey, "--at", "9")
    assert done.returncode == 1
    assert "has no version 9; it has 1 to 3" in done.stderr


def elsewhere(ann: Person) -> Person:
    """Return a person with the same pages and their own state."""
    write(ann.folder / "other/kb")
    return Person(ann.folder / "other")


def test_an_exported_journey_continues_elsewhere_unchanged(ann: Person) -> None:
    journey, ben = waiting(ann), elsewhere(ann)
    file = ann.folder / "journey.jsonl"
    done = ann.here("journeys", "export", journey, str(file))
    assert (done.returncode, done.stdout) == (0, "")
    log = ann.asked(lambda state: journeys_in(state).events(journey))
    assert imported(file.read_text(encoding="utf-8")) == (journey, list(log))
    assert ann.here("journeys", "export", journey).stdout == file.read_text(encoding="utf-8")
    done = ben.here("journeys", "import", str(file))
    assert done.stdout == f"{journey} was imported with {len(log)} events; version 3, in DECOMPOSE\n"
    assert state_of(ben, journey) == state_of(ann, journey)
    again = ben.here("journeys", "import", str(file))
    assert again.stdout == f"{journey} was already here; nothing was added; version 3, in DECOMPOSE\n"
    assert ben.here("journeys", "decide", journey, "approve", "--yes").returncode == 0
    state = submit(ben, journey, ANSWER)
    assert (state.status, state.work["ANSWER"].content["answers"][0]["text"]) == ("active", "A canary.")


def test_an_imported_journey_counts_as_read_from_outside_and_an_own_one_does_not(ann: Person) -> None:
    journey, ben = waiting(ann), elsewhere(ann)
    file = str(ann.folder / "journey.jsonl")
    ann.here("journeys", "export", journey, file)
    ben.here("journeys", "import", file)
    assert set(ben.asked(lambda state: Taints(state, utc_now).of_journey(journey))) == {f"import:{journey}"}
    assert ann.here("journeys", "import", file).returncode == 0
    assert ann.asked(lambda state: Taints(state, utc_now).of_journey(journey)) == {}


def test_a_journey_is_imported_under_another_id_and_from_standard_input(
    ann: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    journey = waiting(ann)
    text = ann.here("journeys", "export", journey).stdout
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    done = ann.here("journeys", "import", "-", "--as", "research-copy", "--json")
    form = json.loads(done.stdout)
    assert (form["journey_id"], form["version"], form["status"]) == ("research-copy", 3, "waiting")
    file = ann.folder / "journey.jsonl"
    file.write_text(text, encoding="utf-8")
    refused = ann.here("journeys", "import", str(file), "--as", "no such id!")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "--as: a journey's id has at most 100 letters" in refused.stderr


def test_a_file_with_one_changed_letter_is_refused_with_its_line(ann: Person) -> None:
    journey, ben = waiting(ann), elsewhere(ann)
    file = ann.folder / "journey.jsonl"
    ann.here("journeys", "export", journey, str(file))
    whole = file.read_text(encoding="utf-8")
    lines = whole.splitlines(keepends=True)
    for text, says in [
        (whole.replace("What is deployed first?", "What is deployed last?"), "was changed after the export"),
        ("".join(lines[:-1]), f"it has {len(lines) - 2} events, but {len(lines) - 1} were exported"),
        ("# Notes\n", "line 1 of the journey's file: it is not JSON"),
        ("", "line 1 of the journey's file: it is not JSON"),
    ]:
        file.write_text(text, encoding="utf-8")
        done = ben.here("journeys", "import", str(file))
        assert (done.returncode, done.stdout) == (1, "")
        assert says in done.stderr
    file.write_bytes(b"\xff\xfe")
    assert "it is not UTF-8 text" in ben.here("journeys", "import", str(file)).stderr
    assert "the operating system refused" in ben.here("journeys", "import", str(ben.folder / "none")).stderr
    assert json.loads(ben.here("journeys", "--json").stdout) == []


def test_a_file_with_impossible_events_is_refused(ann: Person) -> None:
    """The digests in the file detect mistakes, not someone who recomputes them."""
    journey = waiting(ann)
    log = ann.asked(lambda state: journeys_in(state).events(journey))
    file = ann.folder / "journey.jsonl"
    file.write_text("".join(exported("research-x", [*log[:2], *log[3:]])), encoding="utf-8")
    done = ann.here("journeys", "import", str(file))
    assert done.returncode == 1
    assert "event 4 does not fit what came before: event 3 comes next" in done.stderr
    file.write_text("".join(exported("../x", log)), encoding="utf-8")
    done = ann.here("journeys", "import", str(file))
    assert done.returncode == 1
    assert "a journey's id has at most 100 letters" in done.stderr


def test_a_taken_id_is_reported_with_what_both_have_in_common(ann: Person) -> None:
    journey, ben = waiting(ann), elsewhere(ann)
    file = ann.folder / "journey.jsonl"
    ann.here("journeys", "export", journey, str(file))
    ben.here("journeys", "import", str(file))
    ben.here("journeys", "decide", journey, "approve", "--yes")
    done = ben.here("journeys", "import", str(file))
    assert done.returncode == 1
    assert f"{journey} already exists here, at a later version: 4; the file ends at version 3" in done.stderr
    ben.here("journeys", "export", journey, str(file))
    done = ann.here("journeys", "import", str(file))
    assert "only up to version 3; the file has version 4" in done.stderr
    ann.here("journeys", "decide", journey, "reject", "--yes")
    done = ann.here("journeys", "import", str(file))
    assert "with different contents; nothing was imported (--as ID imports it under another id)" in done.stderr
    assert state_of(ann, journey).phase == "DECOMPOSE"


def test_an_export_replaces_an_earlier_one_and_nothing_else(ann: Person) -> None:
    journey = waiting(ann)
    file, note = ann.folder / "journey.jsonl", ann.kb / "long.md"
    ann.here("journeys", "export", journey, str(file))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600, "it has the whole work in it"
    ann.here("journeys", "decide", journey, "approve", "--yes")
    done = ann.here("journeys", "export", journey, str(file), "--json")
    assert json.loads(done.stdout)["version"] == 4
    assert imported(file.read_text(encoding="utf-8"))[1][-1].version == 4
    before = note.read_bytes()
    done = ann.here("journeys", "export", journey, str(note))
    assert (done.returncode, note.read_bytes()) == (1, before)
    assert "it is not an exported journey; name another file" in done.stderr
    assert sorted(path.name for path in ann.folder.iterdir() if path.is_file()) == ["journey.jsonl"]


# --- statistics, and journeys without their agent ---------------------------------------------------------------------


def test_stats_are_averages_over_journeys_without_their_forks(ann: Person) -> None:
    first = waiting(ann)
    begun(ann)
    decided_by(ann, first, "approve")
    submit(ann, first, {"new_categories": [{"id": "c2", "title": "Undoing", "why": "x", "questions": asked()}]})
    ann.here("journeys", "fork", first)
    (found,) = json.loads(ann.here("journeys", "stats", "--json").stdout)
    assert (found["agent"], found["journeys"], found["forks_left_out"]) == ("research", 3, 1)
    assert found["states"] == {"active": 3, "waiting": 0, "complete": 0, "cancelled": 0}
    told = {p["phase"]: (p["journeys"], p["visits_per_journey"], p["came_back"], p["submits"]) for p in found["phases"]}
    assert told == {"DECOMPOSE": (2, 1.5, 1, 2), "ANSWER": (1, 1.0, 0, 1)}
    assert list(told) == ["DECOMPOSE", "ANSWER"], "in the agent's order"
    text = ann.here("journeys", "stats").stdout
    assert text.startswith("research: 3 journeys (3 active)\n1 fork left out below")
    assert f"Most time goes into {found['bottleneck']}: " in text
    assert ann.here("journeys", "stats", "--agent", "build").returncode == 1


def asked() -> list[dict[str, str]]:
    return [{"id": "q9", "text": "How is it undone?"}]


def test_a_journey_whose_agent_is_gone_can_still_be_seen_and_moved(ann: Person) -> None:
    journey = waiting(ann)
    first, *rest = ann.asked(lambda state: journeys_in(state).events(journey))
    assert isinstance(first.event, Started)
    log = [replace(first, event=replace(first.event, agent="gone")), *rest]
    file = ann.folder / "gone.jsonl"
    file.write_text("".join(exported("gone-1", log)), encoding="utf-8")
    done = ann.here("journeys", "import", str(file))
    assert done.returncode == 0
    assert "there is no agent 'gone'" in done.stderr
    for action in ("show", "report"):
        done = ann.here("journeys", action, "gone-1")
        assert (done.returncode, done.stderr.count("\n")) == (0, 1)
        assert "What is deployed first?" in done.stdout
    for action in ("events", "export"):
        assert ann.here("journeys", action, "gone-1").returncode == 0
    assert {one["agent"] for one in json.loads(ann.here("journeys", "stats", "--json").stdout)} == {"gone", "research"}
    done = ann.here("journeys", "decide", "gone-1", "approve", "--yes")
    assert done.returncode == 1
    assert "there is no agent 'gone'" in done.stderr
    assert fold(ann.asked(lambda state: journeys_in(state).events("gone-1"))).version == 3
    done = ann.here("journeys", "decide", "gone-1", "cancel", "--yes")
    assert done.returncode == 0, "to end it nobody has to know its agent"
    assert done.stdout == "cancel was recorded; gone-1 is at version 4, cancelled in DECOMPOSE\n"


# --- journeys in `review` ---------------------------------------------------------------------------------------------


def test_reviewing_lists_journeys_that_wait_after_the_proposals(ann: Person) -> None:
    journey = waiting(ann, HOSTILE)
    begun(ann)
    proposal = ann.propose("kb_delete", path="guides/onboarding.md", base_revision="")
    done = ann.here("review", "--list")
    assert done.returncode == 0
    first, second = done.stdout.splitlines()
    assert first.startswith(f"{proposal}  level 4")
    assert second.startswith(f"{journey}  journey  {ADA}  research, DECOMPOSE: How ⟦U+001B⟧")
    assert second.endswith(f"(knowledge-forge journeys show {journey})")
    items = json.loads(ann.here("review", "--list", "--json").stdout)
    assert [(item["id"], item["kind"]) for item in items] == [(proposal, items[0]["kind"]), (journey, "journey")]
    assert items[0]["hash"]
    decided_by(ann, journey, "approve")
    assert len(json.loads(ann.here("review", "--list", "--json").stdout)) == 1


def test_where_only_a_journey_waits_something_waits(ann: Person) -> None:
    journey = waiting(ann)
    done = ann.here("review", "--list")
    assert (done.returncode, done.stdout.split()[0]) == (0, journey)


def test_a_terminal_shows_waiting_journeys_in_bold(ann: Person) -> None:
    journey, other = waiting(ann), begun(ann)
    with ann.at("journeys") as screen:
        screen.until(journey, other)
        assert screen.left() == 0
    lines = screen.raw.decode().split("\r\n")
    bold = [ESCAPES.sub("", line).split()[0] for line in lines if line.startswith("\x1b[1m")]
    assert bold == [journey]
