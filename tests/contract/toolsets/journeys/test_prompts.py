"""Prompts of journeys, through real clients in both eras.

They repeat the tools' answers, and follow the team's agents.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, PromptReference, TextContent

from agents import catalogue
from agents.bounds import MOST_BRIEF_CHARS
from agents.catalogue import CatalogueEntry, built_in, entries, main_entries
from agents.engine.agent import Agent
from agents.engine.graph import CheckpointKind
from knowledge.errors import DatabaseUnavailable
from knowledge.tokens import count_tokens
from mcp_server.app.settings.settings import Settings
from mcp_server.gate.host_registration import Principal, os_user
from mcp_server.toolsets.journeys.offers.prompt_texts import meanings
from tests.support.agents.agent_harness import ANSWER_TOKENS, AROUND_TOKENS
from tests.support.agents.inquiry_agent import chained, inquiry
from tests.support.agents.small_agents import Only, noting
from tests.support.hosts.writers import Writer, let_in
from tests.support.knowledge_bases.folders import write
from tests.support.roads.road import connect, opened

ROOT = Path(__file__).parents[4]
ERAS = ["auto", "legacy"]
OTHER = replace(noting(), name="other", graph=replace(noting().graph, name="other"))
PAGES = {"a.md": "# A\n\nThe cap is 20 calls an hour.\n"}
TWO = {"notes": [{"id": "1", "text": "first"}, {"id": "2", "text": "second"}]}
TAKING = {
    "properties": {
        "depth": {"type": "integer", "description": "How many levels."},
        "tone": {"type": "string", "enum": ["plain", "playful"], "description": "How it sounds."},
        "people": {"type": "array", "description": "Who reads it."},
        "loose": {},
    },
    "required": ["depth", "loose"],
}


@pytest.fixture
async def settings(tmp_path: Path) -> Settings:
    here = Settings(kb=write(tmp_path / "kb", PAGES), state_dir=tmp_path / "state", open_browser=False)
    return await let_in(here, "desktop", level=3)


@asynccontextmanager
async def hosting(settings: Settings, *agents: Agent, mode: str = "auto") -> AsyncIterator[Writer]:
    there = Only(*(agents or (noting(),)))
    async with (
        opened(settings, indexing=False, announcing=False, agents=there) as app,
        connect(app, mode=mode) as client,
    ):
        yield Writer(client, app, settings.kb)


async def prompted(host: Writer, name: str, **given: str) -> str:
    answer = await host.client.get_prompt(name, given)
    assert [message.role for message in answer.messages] == ["user"]
    content = answer.messages[0].content
    assert isinstance(content, TextContent)
    return content.text


async def refused(host: Writer, name: str, **given: str) -> str:
    with pytest.raises(MCPError) as caught:
        await host.client.get_prompt(name, given)
    assert caught.value.error.code == INVALID_PARAMS
    return caught.value.message


async def begin(host: Writer, **more: Any) -> str:
    return str((await host.call("journey_start", **{"agent": "noting", "brief": "bees", **more}))["journey_id"])


async def step(host: Writer, journey: str, **work: Any) -> dict[str, Any]:
    """Submit at the newest version."""
    version = (await host.call("journey_status", journey_id=journey))["version"]
    return await host.call("journey_submit", journey_id=journey, version=version, work=work)


async def say(host: Writer, journey: str, decision: str, note: str = "") -> dict[str, Any]:
    version = (await host.call("journey_status", journey_id=journey))["version"]
    return await host.call("journey_decide", journey_id=journey, version=version, decision=decision, note=note)


def blocks(text: str) -> list[dict[str, Any]]:
    """Return the JSON objects in a text, in order."""
    return [json.loads(found.group(2)) for found in re.finditer(r"^(`{3,})json\n(.*)\n\1$", text, re.MULTILINE)]


# --- the list of prompts ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ERAS)
async def test_each_agent_has_a_prompt_and_one_continues_any_journey(settings: Settings, mode: str) -> None:
    async with hosting(settings, mode=mode) as host:
        listed = {prompt.name: prompt for prompt in (await host.client.list_prompts()).prompts}
        assert list(listed) == ["route", "continue", *(entry.name for entry in entries()), "noting"]
        assert [(a.name, a.required) for a in listed["continue"].arguments or ()] == [("journey_id", True)]
        noted = listed["noting"]
        assert (noted.title, noted.description) == ("Noting", "Two notes, then a report.")
        assert [(a.name, bool(a.required)) for a in noted.arguments or ()] == [("brief", False), ("journey_id", False)]


@pytest.mark.parametrize("narrowed", [{"toolsets": ("knowledge",)}, {"read_only": True}])
async def test_prompts_of_journeys_are_listed_only_where_their_tools_are(
    settings: Settings, narrowed: dict[str, Any]
) -> None:
    async with hosting(replace(settings, **narrowed)) as host:
        assert [prompt.name for prompt in (await host.client.list_prompts()).prompts] == ["route"]
        assert "unknown prompt 'continue'" in await refused(host, "continue", journey_id="noting-1")


async def test_an_agent_of_this_program_is_not_loaded_for_a_list(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hosts ask for the list while they start: `CatalogueEntry` has what it shows."""
    ghost = CatalogueEntry("ghost", "Ghost", "Is nowhere.", "agents.ghost.agent")
    monkeypatch.setattr(catalogue, "main_entries", lambda: (ghost,))
    async with opened(settings, indexing=False, announcing=False) as app, connect(app) as client:
        assert {"ghost": "Is nowhere."}.items() <= {
            prompt.name: prompt.description for prompt in (await client.list_prompts()).prompts
        }.items()


def test_a_server_starts_without_modules_that_only_some_calls_need(settings: Settings) -> None:
    """Every host waits for what is loaded at the start, whether it leads journeys, merges and decides or not."""
    opened_here = f"""
        async def open_here():
            here = Settings(kb=Path({str(settings.kb)!r}), state_dir=Path({str(settings.state_dir)!r}), open_browser=False)
            async with open_app(here) as app:
                assert app.server
                show_loaded()

        import anyio
        from pathlib import Path
        from mcp_server.app.composition import open_app
        from mcp_server.app.settings.settings import Settings
        anyio.run(open_here)
    """
    later = (
        *("agents", "knowledge.contradictions", "knowledge.merge", "knowledge.writing.files"),
        *(
            "knowledge.access.sql",
            "knowledge.history.sql",
            "knowledge.outbox.sql",
            "knowledge.trust.sql",
            "knowledge.trust.ports",
        ),
        *("mcp_server.approvals.decisions", "mcp_server.approvals.proposals", "mcp_server.approvals.views"),
        *("mcp_server.protocol.calls.host_questions", "mcp_server.protocol.tasks.states"),
    )
    assert loaded_by(opened_here, later) == "[]"


def test_the_command_that_serves_loads_the_sdk_only_when_it_serves() -> None:
    """`serve --help` need not wait for it, and `serve` first tells Python not to look for cycles among what is loaded."""
    assert (
        loaded_by("import mcp_server.__main__, mcp_server.cli.server.serve; show_loaded()", ("mcp", "pydantic")) == "[]"
    )


def loaded_by(program: str, later: tuple[str, ...]) -> str:
    """Return what the program prints in a new Python; `show_loaded` prints which of `later`, and what is below them, are loaded."""
    show = f"""
        import sys

        def show_loaded():
            later = {tuple(f"{name}." for name in later)}
            print([name for name in sys.modules if f"{{name}}.".startswith(later)])
    """
    script = dedent(show) + dedent(program)
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    return said.stdout.strip()


@pytest.mark.parametrize("entry", main_entries(), ids=lambda entry: entry.name)
def test_a_built_in_agents_prompt_accepts_all_of_its_inputs(entry: CatalogueEntry) -> None:
    agent = built_in(entry.name)
    assert meanings(agent.inputs) == entry.inputs
    assert (entry.title, entry.summary) == (agent.title, agent.summary)


async def test_automatic_first_phases_are_no_task_for_the_host(settings: Settings) -> None:
    """The question then depends on the server's findings: journey_start asks it."""
    async with hosting(settings, inquiry(), chained("first", "second")) as host:
        for agent, first in (("inquiry", "LOOK"), ("chain", "first.LOOK")):
            text = await prompted(host, agent, brief="bees")
            assert text.endswith(f"The server does the first phase itself: {first}.")
            assert blocks(text) == [{"agent": agent, "brief": "bees"}]
            assert "Submit" not in text


async def test_an_agent_takes_no_existing_prompts_name(settings: Settings) -> None:
    named = [replace(noting(), name=name, title="Impostor") for name in ("route", "continue")]
    async with hosting(settings, *named) as host:
        prompts = (await host.client.list_prompts()).prompts
        assert [prompt.name for prompt in prompts].count("route") == 1
        assert [prompt.name for prompt in prompts].count("continue") == 1
        assert all(prompt.title != "Impostor" for prompt in prompts)
        assert "Question: where?" in await prompted(host, "route", question="where?")


# --- beginning --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ERAS)
async def test_a_prompts_start_equals_journey_starts_answer(settings: Settings, mode: str) -> None:
    """Everything that prompts give is reachable through tools too. The model may also simply follow the prompt."""
    async with hosting(settings, mode=mode) as host:
        text = await prompted(host, "noting", brief="Bees ```json on\nthe roof")
        asked, schema = blocks(text)
        assert asked == {"agent": "noting", "brief": "Bees ```json on\nthe roof"}
        assert (await host.call("journey_list"))["journeys"] == [], "asking for a prompt begins nothing"
        begun = await host.call("journey_start", **asked)
        assert begun["prompt"] in text
        assert begun["work_schema"] == schema
        assert ", ".join(begun["allowed_tools"]) in text
        assert "journey_submit" in text


async def test_a_prompt_takes_only_the_brief_and_names_the_inputs_of_journey_start(settings: Settings) -> None:
    """The list of prompts stays short.

    An agent's other inputs are arguments of journey_start, and the prompt lists them.
    """
    async with hosting(settings, replace(noting(), inputs=TAKING)) as host:
        listed = {prompt.name: prompt for prompt in (await host.client.list_prompts()).prompts}
        assert [a.name for a in listed["noting"].arguments or ()] == ["brief", "journey_id"]
        text = await prompted(host, "noting", brief="bees", journey_id="")
        assert blocks(text)[0] == {"agent": "noting", "brief": "bees"}
        required, _, optional = text.partition("Call journey_start with")
        assert "Ask the person first, and put the answers into `inputs` of journey_start:" in required
        assert all(f"- {name}" in required for name in TAKING["required"])
        rest = set(TAKING["properties"]) - set(TAKING["required"])
        assert all(f"- {name}" in optional for name in rest)


async def test_the_list_of_prompts_is_within_its_budget(settings: Settings) -> None:
    """Hosts load all prompts at the start: 1,200 tokens for route, continue and each built-in agent and skill."""
    async with opened(settings, indexing=False, announcing=False) as app, connect(app) as client:
        prompts = (await client.list_prompts()).prompts
        listed = [prompt.model_dump(mode="json", by_alias=True, exclude_none=True) for prompt in prompts]
        assert count_tokens(json.dumps(listed, ensure_ascii=False, separators=(",", ":"))) < 1_200


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "give the task in 'brief', or the journey to continue in 'journey_id'"),
        ({"brief": " \n", "journey_id": ""}, "give the task in 'brief'"),
        ({"brief": "x" * (MOST_BRIEF_CHARS + 1)}, f"at most {MOST_BRIEF_CHARS} are allowed"),
        ({"brief": "bees", "colour": "red"}, "there is no argument 'colour'; the arguments are brief, journey_id"),
        ({"journey_id": "noting-0"}, "there is no journey 'noting-0'; call journey_list to see which exist"),
    ],
)
async def test_a_prompts_failure_is_one_sentence(settings: Settings, given: dict[str, str], told: str) -> None:
    async with hosting(settings) as host:
        assert told in await refused(host, "noting", **given)


async def test_an_agent_that_cannot_be_loaded_is_reported_when_its_prompt_is_used(settings: Settings) -> None:
    async with hosting(settings) as host:
        assert "there is no agent 'research'" in await refused(host, "research", brief="bees")


class Away(Only):
    """A catalogue whose files are out of reach."""

    async def agents(self) -> Sequence[Agent]:
        raise DatabaseUnavailable("the knowledge base", "it is being moved")

    async def agent(self, name: str) -> Agent:
        raise DatabaseUnavailable("the knowledge base", f"{name} is being moved")


async def test_agents_that_cannot_be_read_now_leave_the_lists_to_the_others(settings: Settings) -> None:
    async with (
        opened(settings, indexing=False, announcing=False, agents=Away()) as app,
        connect(app) as client,
    ):
        names = [prompt.name for prompt in (await client.list_prompts()).prompts]
        assert names == ["route", "continue", *(entry.name for entry in entries())]
        for asking in (client.get_prompt("research", {"brief": "bees"}), client.read_resource("agent://research")):
            with pytest.raises(MCPError, match="research is being moved") as caught:
                await asking
            assert caught.value.error.code == INTERNAL_ERROR, "it may be there in a moment"


# --- going on ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ERAS)
async def test_at_each_point_of_a_journey_its_prompts_match_the_tools(settings: Settings, mode: str) -> None:
    """First visit, incomplete work, waiting, the next phase, returning, complete.

    The same words, and everything needed to submit.
    """
    async with hosting(settings, mode=mode) as host:
        id_ = await begin(host)

        async def agreed(*words: str) -> str:
            here = await host.call("journey_status", journey_id=id_)
            text = await prompted(host, "continue", journey_id=id_)
            assert text == await prompted(host, "noting", journey_id=f" {id_} ", brief="")
            assert here["prompt"] in text
            assert f"version {here['version']}" in text
            assert blocks(text) == ([here["work_schema"]] if here["work_schema"] else [])
            assert all(tool in text for tool in here["allowed_tools"])
            assert f'journey_id "{id_}"' in text
            assert all(word in text for word in words), text
            return text

        await agreed("Collect two notes about: bees", f'journey_submit: journey_id "{id_}", version 1')
        await step(host, id_, notes=TWO["notes"][:1])
        await agreed("Collect two notes", "Still missing:", "two notes are needed", "version 2")
        await step(host, id_, notes=TWO["notes"][1:])
        waiting = await agreed(
            "Are these the notes that matter?", "Call journey_decide with journey_id", "note 2: second"
        )
        assert "journey_submit" not in waiting
        await say(host, id_, "approve")
        first_visit = await agreed("Write it.", "kb_search")
        assert "kb_map" not in first_visit, "that is a tool of another phase"
        await step(host, id_, text="Thin.", lacks="a third note")
        await agreed(
            "You come back to COLLECT, visit 2.", "a third note", "Add the note that was lacking.", "note 1: first"
        )
        await step(host, id_, notes=[{"id": "3", "text": "third"}])
        await say(host, id_, "approve")
        await step(host, id_, text="Whole.")
        complete = await agreed("Give it to the person.", 'view "report"')
        assert "journey_submit" not in complete


async def test_a_cancelled_journey_is_reported_as_cancelled(settings: Settings) -> None:
    async with hosting(settings) as host:
        id_ = await begin(host)
        await say(host, id_, "cancel", "not needed")
        text = await prompted(host, "continue", journey_id=id_)
        assert "Noting was cancelled: not needed" in text
        assert "journey_submit" not in text


@pytest.mark.parametrize(("kind", "times"), [("optional", 1), ("informational", 0)])
async def test_a_question_that_stays_open_while_work_continues_is_shown(
    settings: Settings, kind: CheckpointKind, times: int
) -> None:
    async with hosting(settings, noting(kind)) as host:
        id_ = await begin(host)
        await step(host, id_, **TWO)
        text = await prompted(host, "continue", journey_id=id_)
        assert "Write it." in text
        assert text.count("Until your next submit the person can still send it back: Are these the notes") == times


async def test_relaying_is_not_offered_for_a_direct_decision(settings: Settings) -> None:
    async with hosting(settings, noting(own_hand=True)) as host:
        id_ = await begin(host)
        await step(host, id_, **TWO)
        text = await prompted(host, "continue", journey_id=id_)
        assert "personally" in text
        assert "journey_decide" not in text


async def test_a_persons_addition_to_a_journey_is_shown_and_not_taken_for_its_brief(settings: Settings) -> None:
    async with hosting(settings, replace(noting(), inputs={"properties": {"tone": {"type": "string"}}})) as host:
        id_ = await begin(host)
        text = await prompted(host, "noting", journey_id=id_, brief="also wasps")
        assert text.startswith(await prompted(host, "continue", journey_id=id_))
        assert text.endswith("\nalso wasps")


async def test_a_journey_of_another_agent_is_not_continued_under_the_wrong_name(settings: Settings) -> None:
    async with hosting(settings, noting(), OTHER) as host:
        id_ = await begin(host)
        told = await refused(host, "other", journey_id=id_)
        assert f"journey {id_} belongs to noting; use that prompt, or continue" in told


async def test_a_journey_whose_agent_is_gone_is_reported_as_such(settings: Settings) -> None:
    async with hosting(settings) as host:
        id_ = await begin(host)
    async with hosting(settings, OTHER) as host:
        assert "there is no agent 'noting'" in await refused(host, "continue", journey_id=id_)


@pytest.mark.security
async def test_receiving_a_tainted_journey_taints_the_receiver(settings: Settings) -> None:
    async with hosting(settings) as host:
        id_ = await begin(host)
        me, taints = Principal(os_user(), "desktop").id, host.app.services.taints
        await taints.note("somebody else", id_, ("zulip:design/merge",))
        await prompted(host, "noting", brief="wasps")
        assert not await taints.of(me, "")
        await prompted(host, "continue", journey_id=id_)
        assert set(await taints.of(me, "")) == {"zulip:design/merge"}


async def test_a_brief_with_halves_of_characters_can_be_prompted(settings: Settings) -> None:
    async with hosting(settings) as host:
        started = await host.app.services.journeys.start("noting", "odd \ud800 end", {}, by="ada")
        assert "odd \ufffd end" in await prompted(host, "continue", journey_id=started.journey)


async def test_resuming_costs_at_most_its_tokens_however_long_the_brief_and_the_works_are(settings: Settings) -> None:
    """Resuming costs at most 2,500 tokens; a prompt adds little to the tools' answers."""
    async with hosting(settings) as host:
        id_ = await begin(host, brief="bees and more " * 1_400)
        long = [{"id": f"n{n}", "text": "what was found " * 60} for n in range(40)]
        await step(host, id_, notes=long)
        await say(host, id_, "reject", "no " * 1_200)
        here = await host.call("journey_status", journey_id=id_)
        text = await prompted(host, "continue", journey_id=id_)
        bare = count_tokens(here["prompt"]) + count_tokens(json.dumps(here["work_schema"], separators=(",", ":")))
        assert count_tokens(text) <= bare + AROUND_TOKENS
        assert len(text) / 4 <= ANSWER_TOKENS


# --- completions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ERAS)
async def test_arguments_of_prompts_complete(settings: Settings, mode: str) -> None:
    agents = (replace(noting(), inputs=TAKING), OTHER)
    async with hosting(settings, *agents, mode=mode) as host:
        inputs = {"depth": 1, "loose": ""}
        bees, roof = await begin(host, brief="Bees", inputs=inputs), await begin(host, brief="Roof", inputs=inputs)
        other, gone = await begin(host, agent="other"), await begin(host, agent="other", brief="Gone bees")
        await say(host, gone, "cancel")

        async def complete(prompt: str, argument: str, typed: str) -> list[str]:
            ref = PromptReference(type="ref/prompt", name=prompt)
            return list((await host.client.complete(ref, {"name": argument, "value": typed})).completion.values)

        assert await complete("continue", "journey_id", "") == [other, roof, bees], "newest first, without what is over"
        assert await complete("continue", "journey_id", "bee") == [other, bees]
        assert await complete("noting", "journey_id", "") == [roof, bees]
        assert await complete("noting", "journey_id", roof[:-1]) == [roof]
        for nothing in (("noting", "brief"), ("noting", "tone"), ("route", "question"), ("nobody", "journey_id")):
            assert await complete(*nothing, "") == []
