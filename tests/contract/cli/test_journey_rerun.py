"""`journeys rerun` as a person uses it.

A fork that does everything again, step by step, and reports where it differs.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from mcp_server.app import composition as application
from mcp_server.app.composition import open_app
from mcp_server.app.factories.journey_store import journeys_in
from tests.contract.cli.test_journey_lead import begun, submitted, told
from tests.contract.cli.test_journeys import at_terminal
from tests.support.agents.inquiry_agent import ASK, DOCUMENT, inquiry
from tests.support.agents.small_agents import Only
from tests.support.hosts.persons import Person
from tests.support.knowledge_bases.folders import write

pytestmark = pytest.mark.skipif(os.name == "nt", reason="there are no pseudo-terminals")

DONE, COULD_NOT, WAITS, ANOTHER_WAY = 0, 1, 3, 5


@pytest.fixture
def ann(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Person:
    write(tmp_path / "kb")
    with_agent(monkeypatch)
    return Person(tmp_path)


def with_agent(monkeypatch: pytest.MonkeyPatch, *, passing: str = "passed") -> None:
    now = inquiry()
    agent = replace(now, conditions={**now.conditions, "passed": now.conditions[passing]})
    monkeypatch.setattr(application, "open_app", partial(open_app, agents=Only(agent)))


def through(ann: Person) -> str:
    """Lead a journey to its end: five versions, the second of which waits for a person."""
    journey = begun(ann)
    submitted(ann, journey, ASK, code=WAITS)
    assert ann.here("journeys", "answer", journey, "--answer", "q1=Two.", "--note", "Ada.").returncode == DONE
    submitted(ann, journey, {"document": DOCUMENT})
    submitted(ann, journey, {"score": 90})
    return journey


def test_a_fork_repeats_everything_and_reports_each_step(ann: Person) -> None:
    journey = through(ann)
    done = at_terminal(ann, "y\n", "rerun", journey, "--from", "1")
    assert done.returncode == DONE, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:4] == [
        "version 2, submit in ASK: ASK, waiting, as before",
        "version 3, answer in ASK: ASK -> WRITE (open_questions), active, as before",
        "version 4, submit in WRITE: WRITE -> JUDGE (written), active, as before",
        "version 5, submit in JUDGE: JUDGE -> DONE (passed), complete, as before",
    ]
    assert lines[4].startswith("4 of 4 steps went as before; inquiry-")
    assert "Repeat in your name: answer at ASK? [y/N]" in done.stderr
    fork = lines[4].split("; ")[1].split()[0]
    state = ann.asked(lambda state: journeys_in(state).journey(fork))
    assert (state.forked_from, state.forked_at, state.status) == (journey, 1, "complete")


def test_a_rerun_goes_step_by_step_and_continues(ann: Person) -> None:
    journey = through(ann)
    first = told(ann, "rerun", journey, "--from", "1", "--steps", "1")
    assert [(one["version"], one["act"], one["same"]) for one in first["steps"]] == [(2, "submit", True)]
    fork = first["journey_id"]
    rest = told(ann, "rerun", journey, "--from", "2", "--into", fork, "--yes")
    assert (rest["journey_id"], rest["same"], [one["version"] for one in rest["steps"]]) == (fork, True, [3, 4, 5])
    assert told(ann, "status", fork)["state"] == "complete"


def test_the_first_step_that_goes_another_way_is_the_last(ann: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    journey = through(ann)
    with_agent(monkeypatch, passing="soft")
    done = ann.here("journeys", "rerun", journey, "--from", "3")
    assert done.returncode == ANOTHER_WAY
    lines = done.stdout.splitlines()
    assert lines[1] == "version 5, submit in JUDGE: was JUDGE -> DONE (passed), complete; now JUDGE, active"
    assert lines[2] == "  missing now: the work does not meet the condition of any transition yet"
    assert lines[-1].startswith("1 of 2 steps went as before, then differently; inquiry-")
    told_so = json.loads(ann.here("journeys", "rerun", journey, "--from", "3", "--json").stdout)
    assert told_so["same"] is False
    assert told_so["steps"][-1]["now"] == {"state": "active", "phase": "JUDGE", "moves": []}


class Reader(Person):
    """A person whose settings forbid changes."""

    @property
    def env(self) -> dict[str, str]:
        return {**super().env, "FORGE_READ_ONLY": "1"}


def test_where_nothing_may_be_submitted_nothing_is_done_again(ann: Person) -> None:
    journey = through(ann)
    fork = told(ann, "rerun", journey, "--from", "1", "--steps", "1")["journey_id"]
    before = told(ann, "status", fork, code=WAITS)
    for words in (("--from", "2"), ("--from", "2", "--into", fork)):
        done = Reader(ann.folder).here("journeys", "rerun", journey, *words, "--yes")
        assert (done.returncode, done.stdout) == (COULD_NOT, "")
        assert "the tool journey_submit is not available (FORGE_TOOLSETS, FORGE_READ_ONLY)" in done.stderr
    assert told(ann, "status", fork, code=WAITS) == before


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--from", "1"), "it repeats people's decisions in your name (answer at ASK)"),
        (("--from", "5"), "nothing was submitted or decided after version 5"),
        (("--from", "9"), "has no version 9; it has 1 to 5"),
        (("--from", "4", "--into", "inquiry-0"), "there is no journey 'inquiry-0'"),
    ],
)
def test_steps_not_repeated_say_why(ann: Person, words: tuple[str, ...], says: str) -> None:
    journey = through(ann)
    done = ann.here("journeys", "rerun", journey, *words)
    assert (done.returncode, done.stdout) == (COULD_NOT, "")
    assert says in done.stderr
    assert len(json.loads(ann.here("journeys", "--json").stdout)) == 1, "no fork was begun"
