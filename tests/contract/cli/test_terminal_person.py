"""A person at a terminal acts as themselves, at level 3; without a terminal, or with a host's secret, nobody passes as them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from knowledge.state.ports import StateStore
from mcp_server.app.knowledge_base import utc_now
from mcp_server.cli.runs.decision import QUESTION
from mcp_server.gate.host_registration import UnknownSecret, digest, identify
from tests.doubles.provider_turns import said, uses
from tests.support.hosts.persons import ME
from tests.support.hosts.writers import let_in
from tests.support.knowledge_bases.folders import write
from tests.support.runs.persons import RunPerson, run_person

pytestmark = pytest.mark.skipif(os.name == "nt", reason="there are no pseudo-terminals")

WRITE = uses("kb_merge", path="guides/bees.md", content="# Bees\n\nThere are two hives.")
MOVE = uses("kb_move", path="guides/deploy.md", to="guides/release.md")
TERMINAL = f"{ME}@terminal"


@pytest.fixture
def ann(tmp_path: Path) -> Iterator[RunPerson]:
    write(tmp_path / "kb")
    with run_person(tmp_path) as person:
        yield person


def writers(ann: RunPerson) -> set[str]:
    """Return the principals of all changes of pages on record."""
    acts = [json.loads(line) for line in ann.here("audit", "export", "--jsonl").stdout.splitlines()]
    return {act["principal"] for act in acts if act["tool"].startswith("kb_")}


def test_a_run_typed_at_a_terminal_edits_as_that_person_and_asks_before_it_moves(ann: RunPerson) -> None:
    ann.will("Write", WRITE, MOVE, said("Both are done."))
    with ann.at("run", "Write it down, then move it", size=(100, 120)) as screen:
        screen.until(f"of {TERMINAL}", f"it acts as you ({TERMINAL}), at level 3", QUESTION)
        assert "two hives" in (ann.kb / "guides/bees.md").read_text(encoding="utf-8")
        assert writers(ann) == {TERMINAL}
        proposal = ann.proposal(ann.newest().proposal)
        assert (proposal.principal, proposal.tool, proposal.level_needed) == (TERMINAL, "kb_move", 4)
        screen.type("a\n")
        screen.until(f"to approve type {proposal.hash[:6]}:")
        screen.type(f"{proposal.hash[:6]}\n")
        screen.until("approved, and carried out", "Both are done.")
        assert screen.left() == 0
    assert (ann.kb / "guides/release.md").exists()
    assert "nothing recorded" in ann.here("trust", "history", "terminal").stdout


def test_without_a_terminal_the_same_run_proposes_as_the_unregistered_host(ann: RunPerson) -> None:
    ann.will("Write", WRITE)
    waits = ann.told("run", "Write it down", code=3)
    assert (waits["proposal"]["tool"], ann.newest().header.principal) == ("kb_merge", f"{ME}@unenrolled")
    assert not (ann.kb / "guides/bees.md").exists()


def test_at_a_terminal_a_secret_still_means_its_host(ann: RunPerson) -> None:
    allowed = asyncio.run(let_in(ann.settings, "nightly", 3))
    ann.will("Write", WRITE, said("Written."))
    person = replace(ann, more={"FORGE_ENROLMENT": allowed.enrolment or ""})
    with person.at("run", "Write it down") as screen:
        screen.until(f"of {ME}@nightly", "Written.")
        assert screen.left() == 0
    assert writers(ann) == {f"{ME}@nightly"}


def test_freezing_the_terminal_stops_its_runs_and_no_decision(ann: RunPerson) -> None:
    assert ann.here("trust", "freeze", "terminal").returncode == 0
    with ann.at("run", "Write it down") as screen:
        screen.until("frozen")
        assert screen.left() == 1
    assert ann.here("trust", "thaw", "terminal").returncode == 0
    assert ann.here("trust", "grant", "terminal", "4").returncode == 1
    ann.will("Write", WRITE, said("Written."))
    with ann.at("run", "Write it down") as screen:
        screen.until("Written.")
        assert screen.left() == 0


def test_a_journey_started_at_a_terminal_is_that_persons(ann: RunPerson) -> None:
    with ann.at("journeys", "start", "research", "--brief", "How do we roll back?") as screen:
        screen.until("submit an object")
        assert screen.left() == 0
    (line,) = json.loads(ann.here("journeys", "list", "--json").stdout)
    events = ann.here("journeys", "events", line["journey_id"], "--json").stdout.splitlines()
    assert json.loads(events[0])["by"] == TERMINAL


def test_a_host_that_an_older_version_named_terminal_does_not_pass_as_the_person(ann: RunPerson) -> None:
    async def named(state: StateStore) -> None:
        await state.enrol("terminal", digest("an old secret"), at=utc_now())
        with pytest.raises(UnknownSecret):
            await identify(state, ME, "an old secret")

    ann.asked(named)


def test_serve_typed_at_a_terminal_says_what_it_does(ann: RunPerson) -> None:
    with ann.at("serve") as screen:
        screen.until(f"serving {ann.kb} over stdio", "Ctrl-C stops it")
        screen.process.send_signal(signal.SIGINT)
        assert screen.left() == 130
