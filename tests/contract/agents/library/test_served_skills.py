"""Skills in a running server, through a real MCP client.

Ours and a team's, which are reloaded when their files change.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from mcp_types import TextResourceContents

from agents.catalogue import cognitive_entries, main_entries, skill_entries
from tests.contract.agents.spec.test_served_team_agents import hosting, until_looked
from tests.support.agents.team_agents import SMALL as REVIEW
from tests.support.agents.team_agents import write as write_agent
from tests.support.hosts.persons import Person
from tests.support.hosts.writers import Refused, Writer

FILE = "_skills/twice.yaml"
TWICE = """\
title: Twice
summary: A review, and another one of that review.
without_memory: all
phases:
  - {id: first, agent: review, instructions: "Look at {{ inputs.topic }}."}
  - {id: second, agent: review, context: last}
ways:
  - from: second
    to: first.JUDGE
    name: disagreed
    is_backward: true
    when:
      equals: {field: JUDGE.verdict, value: "no"}
      detail: JUDGE.verdict
"""
TWO: dict[str, Any] = {"notes": [{"id": "n1", "text": "It hums."}, {"id": "n2", "text": "It is warm."}]}


def write(folder: Path, text: str = TWICE, file: str = FILE) -> None:
    (folder / file).parent.mkdir(exist_ok=True)
    (folder / file).write_text(text, encoding="utf-8")


async def reviewed(host: Writer, journey: str, version: int, verdict: str) -> dict[str, Any]:
    """Do the work of the small agent, whichever part of the skill it is in."""
    at = await host.call("journey_submit", journey_id=journey, version=version, work=TWO)
    assert at["phase"].endswith("JUDGE"), at["prompt"]
    return await host.call("journey_submit", journey_id=journey, version=at["version"], work={"verdict": verdict})


async def test_every_agent_of_ours_works_in_a_team_s_skill(tmp_path: Path) -> None:
    """Chains and graphs of agents as data. Some name tools of connectors that may be missing."""
    async with hosting(tmp_path) as host:
        ours = [entry.name for entry in (*main_entries(), *cognitive_entries())]
        for name in ours:
            text = f"title: One\nsummary: One agent.\nphases:\n  - {{id: only, agent: {name}}}\n"
            write(host.root, text, f"_skills/with-{name}.yaml")
        await until_looked()
        for name in ours:
            begun = await host.call("journey_start", agent=f"with-{name}", brief="The hive must have honey.")
            assert begun["phase"].startswith("only.")


async def test_a_team_s_skill_is_listed_started_and_read_as_any_agent(tmp_path: Path) -> None:
    async with hosting(tmp_path) as host:
        write_agent(host.root, REVIEW.replace("    checkpoint: blocking\n    verified: true\n", ""))
        write(host.root)
        await until_looked()
        summaries = {one["agent"]: one["summary"] for one in (await host.call("journey_list"))["agents"]}
        assert summaries["twice"] == "A review, and another one of that review."
        assert "twice" in [prompt.name for prompt in (await host.client.list_prompts()).prompts]
        assert "agent://twice" in [str(found.uri) for found in (await host.client.list_resources()).resources]
        content = (await host.client.read_resource("agent://twice")).contents[0]
        assert isinstance(content, TextResourceContents)
        told = json.loads(content.text)
        assert (told["origin"], told["initial"], told["complete"]) == (FILE, "first.NOTE", ["COMPLETE"])
        assert "second.disagreed" in told["diagram"]

        begun = await host.call("journey_start", agent="twice", brief="The hive.", inputs={"topic": "hive 2"})
        journey = begun["journey_id"]
        assert journey.startswith("twice-")
        assert begun["allowed_tools"] == ["kb_read", "kb_search"]
        assert "This is phase first of the skill Twice.\nLook at hive 2." in begun["prompt"]
        at = await reviewed(host, journey, begun["version"], "yes")
        assert at["phase"] == "second.NOTE"
        assert "From first:" in at["prompt"]
        at = await reviewed(host, journey, at["version"], "no")
        assert (at["phase"], at["state"]) == ("first.JUDGE", "active")
        at = await host.call("journey_submit", journey_id=journey, version=at["version"], work={"verdict": "no"})
        at = await reviewed(host, journey, at["version"], "yes")
        assert (at["state"], at["phase"]) == ("complete", "COMPLETE")


@pytest.mark.external
async def test_a_skill_breaks_with_its_agent_and_is_mended_with_it_while_the_server_runs(tmp_path: Path) -> None:
    async with hosting(tmp_path) as host:
        write_agent(host.root)
        write(host.root)
        begun = await host.call("journey_start", agent="twice", brief="The hive.", inputs={"topic": "hive 2"})
        submit = {"journey_id": begun["journey_id"], "version": 1, "work": TWO}

        write_agent(host.root, REVIEW.replace("kb_search]", "kb_serch]"))
        await until_looked()
        with pytest.raises(
            Refused, match=r"twice\.yaml:5: phase 'first' uses the agent 'review', which cannot be used: _agents/"
        ):
            await host.call("journey_submit", **submit)
        assert "twice" not in [line["agent"] for line in (await host.call("journey_list"))["agents"]]

        write_agent(host.root, REVIEW.replace("Note what you see", "Write down what you see"))
        await until_looked()
        assert (
            "Write down what you see" in (await host.call("journey_status", journey_id=begun["journey_id"]))["prompt"]
        )

        write(host.root, TWICE.replace("first.JUDGE", "first.JUGE"))
        await until_looked()
        with pytest.raises(Refused, match=r"twice\.yaml:9: a way leads to 'first\.JUGE'; review has no such phase"):
            await host.call("journey_submit", **submit)
        assert "twice" not in [line["agent"] for line in (await host.call("journey_list"))["agents"]]

        write(host.root, TWICE.replace("summary: A review", "summary: One review"))
        await until_looked()
        listed = (await host.call("journey_list"))["agents"]
        assert ("twice", "One review, and another one of that review.") in [(a["agent"], a["summary"]) for a in listed]
        assert (await host.call("journey_submit", **submit))["phase"] == "first.JUDGE"


async def test_a_name_has_one_meaning(tmp_path: Path) -> None:
    async with hosting(tmp_path) as host:
        write_agent(host.root)
        write(host.root, TWICE, "_skills/review.yaml")
        write(host.root, TWICE, "_skills/deliver.yaml")
        await until_looked()
        begun = await host.call("journey_start", agent="review", brief="The hive.", inputs={"topic": "x"})
        assert begun["phase"] == "NOTE", "the agent that was there first"
        listed = [line["agent"] for line in (await host.call("journey_list"))["agents"]]
        assert (listed.count("review"), listed.count("deliver")) == (1, 1)


@pytest.mark.parametrize("path", ["_skills/notes.md", "_Skills/notes.md", "area/_skills/notes.md"])
async def test_no_host_below_level_five_writes_where_skills_lie(tmp_path: Path, path: str) -> None:
    """Design, section 7: such files control the server, whichever tool writes them."""
    async with hosting(tmp_path, level=4) as host:
        asked = await host.call("kb_merge", path=path, content="# Mine\n")
        assert (asked["status"], asked["proposal"]["level_needed"]) == ("proposed", 5)
        asked = await host.call("kb_move", path="a.md", to=path)
        assert asked["proposal"]["level_needed"] == 5
        assert not (host.root / path).exists()
        assert (host.root / "a.md").exists()


async def test_our_skills_are_listed_and_begin_with_earlier_learnings(tmp_path: Path) -> None:
    async with hosting(tmp_path) as host:
        learned = host.root / "_learnings" / "clarification"
        learned.mkdir(parents=True)
        (learned / "general.md").write_text("## Ask who reads it\n\nThe reader decides the length.\n", encoding="utf-8")
        listed = [line["agent"] for line in (await host.call("journey_list"))["agents"]]
        assert [entry.name for entry in skill_entries()] == [
            name for name in listed if name in ("assess", "decide-well", "deliver")
        ]
        begun = await host.call("journey_start", agent="deliver", brief="A page about the cap on calls.")
        assert begun["phase"] == "clarify.JOHARI_DISCOVERY"
        assert "The reader decides the length." in begun["prompt"]


def test_the_doctor_and_a_check_name_the_mistakes_in_a_skill(tmp_path: Path) -> None:
    ann = Person(tmp_path)
    ann.kb.mkdir()
    write_agent(ann.kb)
    write(ann.kb, TWICE.replace("JUDGE.verdict, value", "JUDGE.verdikt, value"))
    told = ann.here("agents", "check")
    assert told.returncode == 1
    assert told.stdout.startswith(
        f"{FILE}:13: the way 'disagreed' looks at 'JUDGE.verdikt'; the work of JUDGE has no 'verdikt'"
    )
    assert ann.here("agents", "check", "review").returncode == 0
    listed = ann.here("agents", "list", "--json")
    assert "twice" not in [row["agent"] for row in json.loads(listed.stdout)]
    assert f"skipped because of errors: {FILE}" in " ".join(listed.stderr.split())
    found = {one["what"]: one for one in json.loads(ann.here("doctor", "--json").stdout)}
    assert found["agents"]["health"] == "bad"
    assert f"{FILE}:13" in found["agents"]["found"]
    write(ann.kb)
    told = ann.here("agents", "check")
    assert (told.returncode, told.stdout) == (0, f"2 checked, no mistakes: _agents/review.yaml, {FILE}\n")
