"""`agents` as a person uses it: the list, what an agent does, and all problems of a team's agents."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agents.catalogue import entries
from agents.library.orchestrate.plan_rules.rules import TEAM_FILE
from tests.support.agents.team_agents import FILE, HANDBOOK, SMALL, write
from tests.support.hosts.persons import Person
from tests.support.knowledge_bases.folders import write as write_pages

BROKEN = SMALL.replace("title: Review", "titel: Review").replace("kb_search]", "kb_serch]")


@pytest.fixture
def ann(tmp_path: Path) -> Person:
    write_pages(tmp_path / "kb")
    write(tmp_path / "kb")
    return Person(tmp_path)


def test_agents_are_listed_with_the_place_they_come_from(ann: Person) -> None:
    rows = json.loads(ann.here("agents", "list", "--json").stdout)
    assert [(row["agent"], row["origin"]) for row in rows] == [
        *((entry.name, "built in") for entry in entries()),
        ("review", FILE),
    ]
    assert all(row["summary"] for row in rows)
    told = ann.here("agents")
    assert (told.returncode, told.stderr) == (0, "")
    assert FILE in told.stdout
    assert "Notes, then a" in told.stdout


def test_a_broken_agent_is_left_out_of_the_list_and_named(ann: Person) -> None:
    write(ann.kb, BROKEN, "_agents/broken.yaml")
    (ann.kb / "_agents/notes/again.md").write_text("{{ nothing }}", encoding="utf-8")
    told = ann.here("agents", "list", "--json")
    assert [row["agent"] for row in json.loads(told.stdout)] == [entry.name for entry in entries()]
    assert "skipped because of errors: _agents/broken.yaml, _agents/review.yaml" in " ".join(told.stderr.split())
    assert told.returncode == 0


def test_a_check_without_findings_says_what_was_checked(ann: Person) -> None:
    told = ann.here("agents", "check")
    assert (told.returncode, told.stdout) == (0, f"1 checked, no mistakes: {FILE}\n")
    assert json.loads(ann.here("agents", "check", "--json").stdout) == {"checked": [FILE], "problems": []}


def test_a_check_names_every_mistake_with_file_and_line_and_ends_with_1(ann: Person) -> None:
    """Validated with messages that name file and line."""
    write(ann.kb, BROKEN, "_agents/broken.yaml")
    told = ann.here("agents", "check")
    assert told.returncode == 1
    assert told.stdout.splitlines() == [
        "_agents/broken.yaml:1: the agent lacks 'title'",
        "_agents/broken.yaml:1: the agent has the unknown key 'titel'; did you mean 'title'?",
        "_agents/broken.yaml:13: phase 'NOTE' uses the unknown tool 'kb_serch'; did you mean 'kb_search'?",
    ]
    form = json.loads(ann.here("agents", "check", "--json").stdout)
    assert form["checked"] == ["_agents/broken.yaml", FILE]
    assert [(p["file"], p["line"]) for p in form["problems"]] == [("_agents/broken.yaml", line) for line in (1, 1, 13)]


@pytest.mark.parametrize("asked", ["broken", "broken.yaml", "_agents/broken.yaml", "./_agents/broken.yaml"])
def test_one_file_can_be_checked_alone(ann: Person, asked: str) -> None:
    write(ann.kb, BROKEN, "_agents/broken.yaml")
    write(ann.kb, BROKEN, "_agents/other.yaml")
    told = ann.here("agents", "check", asked)
    assert told.returncode == 1
    assert {line.partition(":")[0] for line in told.stdout.splitlines()} == {"_agents/broken.yaml"}
    assert ann.here("agents", "check", "review").returncode == 0


RULES = "rules:\n  - {id: backup-first, kind: befor, first: [backup], then: [migrate], message: later}\n"


def test_mistakes_in_a_teams_plan_rules_are_named_before_a_plan_is_checked(ann: Person) -> None:
    """A team's rules are YAML; their authors see a mistake at once, with its line."""
    write(ann.kb, RULES, TEAM_FILE)
    told = ann.here("agents", "check")
    assert told.returncode == 1
    assert told.stdout.startswith(f"{TEAM_FILE}:2: there is no kind of rule 'befor'; did you mean 'before'?")
    found = {line["what"]: line for line in json.loads(ann.here("doctor", "--json").stdout)}["agents"]
    assert found["health"] == "bad"
    assert f"{TEAM_FILE}:2: there is no kind of rule 'befor'" in found["found"]
    alone = ann.here("agents", "check", TEAM_FILE, "--json")
    assert json.loads(alone.stdout)["problems"][0]["line"] == 2
    assert ann.here("agents", "check", "review").returncode == 0, "the agent is not to blame"
    listed = ann.here("agents", "list", "--json")
    assert "left out" not in listed.stderr
    write(ann.kb, RULES.replace("befor,", "before,"), TEAM_FILE)
    assert json.loads(ann.here("agents", "check", "--json").stdout) == {"checked": [FILE, TEAM_FILE], "problems": []}


def test_a_mistake_in_a_prompt_belongs_to_the_agent_that_uses_it(ann: Person) -> None:
    (ann.kb / "_agents/notes/again.md").write_text("Go on.\n\nWith {{ nothing }}.", encoding="utf-8")
    told = ann.here("agents", "check", "review")
    assert told.returncode == 1
    assert told.stdout.startswith("_agents/notes/again.md:3: the prompt has the unknown placeholder 'nothing'")


def test_a_file_that_is_not_there_cannot_be_checked(ann: Person) -> None:
    told = ann.here("agents", "check", "riview")
    assert (told.returncode, told.stdout) == (1, "")
    assert f"no agent or skill file 'riview' to check; the files are {FILE}" in told.stderr


def test_a_knowledge_base_without_agents_has_nothing_wrong(tmp_path: Path) -> None:
    write_pages(tmp_path / "kb")
    told = Person(tmp_path).here("agents", "check")
    assert (told.returncode, told.stdout) == (0, "nothing to check: no agents in _agents/ and no skills in _skills/\n")


def test_an_agent_is_shown_with_phases_ways_prompts_and_diagram(ann: Person) -> None:
    told = ann.here("agents", "show", "review").stdout
    assert told.startswith(f"Review (review, {FILE})\nNotes, then a verdict.\ninput topic: What it is about.\n")
    for line in (
        "NOTE (starts here): what was seen",
        "  checkpoint: optional: Is anything missing?",
        "  tools: kb_read, kb_search",
        "  work: notes, drop",
        "  moves to JUDGE on noted",
        "    Note what you see of {{ inputs.topic }}.",
        "  checkpoint: blocking, answered by the person only: ",
        "  returns to NOTE on note_lacks",
        "DONE (complete)",
        "Diagram (Mermaid):",
        '    p1 -.->|"note_lacks"| p0',
    ):
        assert line.rstrip() in told.splitlines(), line
    form = json.loads(ann.here("agents", "show", "review", "--json").stdout)
    assert (form["agent"], form["origin"], form["diagram"].split("\n")[0]) == ("review", FILE, "flowchart LR")
    assert [phase["phase"] for phase in form["phases"]] == ["NOTE", "JUDGE", "DONE"]
    assert form["phases"][0]["work_schema"]["properties"]["notes"]["type"] == "array"


def test_an_unknown_or_broken_agent_is_not_shown(ann: Person) -> None:
    told = ann.here("agents", "show", "reviw")
    assert (told.returncode, told.stdout) == (1, "")
    assert "there is no agent 'reviw': did you mean 'review'?" in told.stderr
    write(ann.kb, BROKEN)
    told = ann.here("agents", "show", "review")
    assert told.returncode == 1
    assert "its definition cannot be used: _agents/review.yaml:1: " in told.stderr
    assert "(and 2 more; `knowledge-forge agents check` lists all)" in told.stderr


def test_a_files_text_cannot_move_the_cursor(ann: Person) -> None:
    write(
        ann.kb,
        SMALL.replace("summary: Notes", 'summary: "\\e[2JNotes'.replace("\\e", "\\x1b")).replace(
            "verdict.\ninputs", 'verdict."\ninputs'
        ),
    )
    for action in (("show", "review"), ("list",)):
        told = ann.here("agents", *action)
        assert told.returncode == 0, told.stderr
        assert "\x1b[2J" not in told.stdout


def test_the_handbook_s_agents_and_skills_are_checked_without_touching_anything(tmp_path: Path) -> None:
    ann = Person(tmp_path)
    told = ann.run("agents", "check", "--kb", str(HANDBOOK))
    assert told.returncode == 0
    agents = (
        "decide",
        "decision-to-evidence",
        "incident-review",
        "rules/orchestrate",
        "task-to-page",
        "thread-to-page",
    )
    files = [*(f"_agents/{name}.yaml" for name in agents), "_skills/incident-to-runbook.yaml"]
    assert TEAM_FILE in files
    assert told.stdout == f"7 checked, no mistakes: {', '.join(files)}\n"
    assert list(tmp_path.iterdir()) == [], "neither state nor index"
