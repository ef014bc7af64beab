"""Journeys in a real Chromium: the graph, a person's decision, news from another process, and malicious text."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import expect

from agents.catalogue import built_in, main_entries
from agents.engine.agent import Agent
from agents.engine.events import Note, ToolStart, ToolSuccess
from agents.engine.graph import Phase, PhaseGraph, Transition
from agents.engine.runner import JourneyDecision, Submission
from agents.engine.state import JourneyState
from mcp_server.app.knowledge_base import utc_now
from tests.browser.chromium import Person, executable, somebody
from tests.browser.payloads import LONG, MARKUP, PAYLOADS
from tests.browser.test_review_page import contrast
from tests.support.agents.inquiry_agent import ASK, chained
from tests.support.agents.small_agents import Only, noting
from tests.support.web.review_pages import Place, shown

pytestmark = pytest.mark.external

HOST = "ada@desktop"
CANCEL = JourneyDecision("cancel", "page")
TWO = {"notes": [{"id": "n1", "text": "Bees form a cluster in winter."}, {"id": "n2", "text": "They eat honey."}]}
LOOKS = """() => ({
    pwned: window.pwned,
    foreign: document.querySelectorAll(['script', 'img', 'iframe', 'style', 'object', 'dialog', 'base', 'link', 'video', 'image',
        'use', 'foreignObject', 'animate', 'a svg'].map((name) => `main ${name}`).join()).length,
    pictures: document.querySelectorAll('main svg').length,
    hidden: new RegExp('[\\u202a-\\u202e\\u2066-\\u2069\\u200b-\\u200f\\u061c\\u2060-\\u2064\\ufeff\\u00ad\\u0000-\\u0008'
        + '\\u000b\\u000c\\u000e-\\u001f\\u007f-\\u009f\\u{e0000}-\\u{e0fff}]', 'u').test(document.documentElement.outerHTML),
    width: document.documentElement.scrollWidth - innerWidth,
    links: [...document.querySelectorAll('main a')].filter((a) => a.origin !== location.origin).length,
})"""


@pytest.fixture(autouse=True)
def _chromium() -> None:
    executable()


@asynccontextmanager
async def looking(folder: Path, *agents: Agent, **options: Any) -> AsyncIterator[tuple[Place, Person]]:
    catalogue = Only(noting(), *agents)
    async with shown(folder, agents=catalogue) as place, somebody(place, **options) as person:
        yield place, person
        assert person.trouble == []


async def started(place: Place, brief: str = "What do bees do in winter?", agent: str = "noting") -> str:
    return (await place.app.services.journeys.start(agent, brief, {}, by=HOST)).journey


async def submitted(place: Place, journey: str, work: Mapping[str, Any], reasoning: str = "") -> JourneyState:
    runner = place.app.services.journeys
    at = (await runner.store.journey(journey)).version
    return (await runner.submit(journey, at, Submission(work, reasoning=reasoning), by=HOST)).state


async def asking(place: Place, brief: str = "What do bees do in winter?") -> str:
    journey = await started(place, brief)
    await submitted(place, journey, TWO)
    return journey


async def state(place: Place, journey: str) -> JourneyState:
    return await place.app.services.journeys.store.journey(journey)


def as_agent(graph: PhaseGraph) -> Agent:
    """Return an agent that consists of this graph only."""
    return replace(noting(), name=graph.name, graph=graph, forms={}, texts={}, questions={})


async def test_a_person_finds_a_waiting_journey_sees_its_graph_and_approves(tmp_path: Path) -> None:
    async with looking(tmp_path, viewport={"width": 1280, "height": 900}) as (place, person):
        journey = await asking(place)
        calls: list[Note] = [
            ToolStart("c1", "kb_map", "0" * 16, "COLLECT", "look at notes"),
            ToolSuccess("c1", "kb_map", 3.1, "12 pages", {"path": "notes"}, "COLLECT"),
        ]
        await place.app.services.journeys.store.note(journey, calls, by=HOST, at=utc_now())
        await started(place, "Which flowers feed bees in July?")
        await person.page.get_by_role("link", name="Refresh").click()
        await expect(person.page.get_by_text("1 journey needs")).to_be_visible()
        await person.picture("journeys-waiting")
        await person.page.get_by_role("navigation").get_by_role("link", name="Journeys").click()
        await person.picture("journeys")
        await person.page.get_by_role("link", name="What do bees do in winter?").click()
        await expect(person.page.get_by_role("img", name="The phases of noting")).to_have_count(1)
        picture = person.page.locator(".graph-wide")
        await expect(picture.locator(".node.here .name")).to_have_text("COLLECT")
        await person.picture("journey-asked")
        await person.page.get_by_label("Note (optional)").fill("good ones")
        await person.page.get_by_role("button", name="Approve").click()
        await expect(picture.locator(".node.here .name")).to_have_text("WRITE")
        await expect(picture.locator(".way.taken")).to_have_count(1)
        await expect(person.page.locator("[data-count]")).to_have_count(0)
        await person.picture("journey-approved")
        assert (await state(place, journey)).phase == "WRITE"


async def test_a_person_changes_rejects_sends_back_and_cancels(tmp_path: Path) -> None:
    async with looking(tmp_path) as (place, person):
        journey = await asking(place)
        await person.go(f"/journeys/{journey}")
        await person.page.get_by_label("Changes").fill("[1]")
        await person.page.get_by_role("button", name="Modify").click()
        await expect(person.page.get_by_role("alert")).to_contain_text("not a JSON object")
        await expect(person.page.get_by_label("Changes")).to_have_value("[1]")
        await person.picture("journey-not-json")
        await person.page.get_by_label("Reason (sent to the host)").fill("too few")
        await person.page.get_by_role("button", name="Reject").click()
        await expect(person.page.get_by_text("It returned to this phase: reject: too few")).to_be_visible()
        await submitted(place, journey, {"notes": [{"id": "n3", "text": "Drones die."}]})
        await expect(person.page.get_by_role("button", name="Modify")).to_be_visible()
        await person.page.get_by_label("Changes").fill(json.dumps({**TWO, "drop": ["n3"]}))
        await person.page.get_by_role("button", name="Modify").click()
        await expect(person.page.locator(".graph-wide .node.here .name")).to_have_text("WRITE")
        assert len((await state(place, journey)).work["COLLECT"].content["notes"]) == 2
        await person.page.get_by_label("Reason", exact=True).fill("one is missing")
        await person.page.get_by_role("button", name="Send back").click()
        await expect(person.page.locator(".graph-wide .node.here .name")).to_have_text("COLLECT")
        await expect(person.page.locator(".graph-wide").get_by_text("revisit", exact=True)).to_be_visible()
        await person.picture("journey-revisited")
        await person.page.get_by_role("button", name="Cancel the journey").click()
        assert (await state(place, journey)).status == "active", "the box is not ticked"
        await person.page.get_by_label("Cancel this journey").check()
        await person.page.get_by_role("button", name="Cancel the journey").click()
        await expect(person.page.locator(".state-cancelled")).to_be_visible()
        assert (await state(place, journey)).status == "cancelled"


async def test_a_submit_by_another_process_appears_automatically_and_typed_text_stays(tmp_path: Path) -> None:
    async with looking(tmp_path) as (place, person):
        journey = await started(place)
        await person.go(f"/journeys/{journey}")
        await expect(person.page.get_by_text("Updates automatically")).to_be_visible()
        word = person.page.get_by_label("Message to the agent")
        await word.fill("half typed")
        await place.app.services.journeys.store.note(
            journey, [ToolStart("c1", "kb_map", "0", "COLLECT")], by=HOST, at=utc_now()
        )
        await expect(person.page.get_by_role("heading", name="Tool calls")).to_be_visible()
        command = [str(place.settings.kb), str(place.settings.state_dir), journey, "1", json.dumps(TWO)]
        other = await asyncio.create_subprocess_exec(sys.executable, "-m", "tests.support.journeys.submitter", *command)
        assert await asyncio.wait_for(other.wait(), 60) == 0
        await expect(person.page.get_by_role("heading", name="Your decision is needed")).to_be_visible()
        await expect(person.page.get_by_role("status")).to_have_text("The journey is now at version 2.")
        await expect(person.page.locator("[data-count]")).to_have_text("1")
        await expect(word).to_have_value("half typed")
        await expect(word).to_be_focused()
        await person.page.get_by_role("button", name="Send message").click()
        await expect(person.page.get_by_text("Response from a person: answer")).to_be_visible()


async def test_the_second_of_two_tabs_sees_the_change(tmp_path: Path) -> None:
    async with looking(tmp_path) as (place, person):
        journey = await asking(place)
        other = await person.tab()
        for tab in (person, other):
            await tab.page.add_init_script("window.EventSource = class { addEventListener() {} close() {} }")
            await tab.go(f"/journeys/{journey}")
        await person.page.get_by_role("button", name="Approve").click()
        await expect(person.page.locator(".state-active")).to_be_visible()
        await other.page.get_by_label("Reason (sent to the host)").fill("not these")
        await other.page.get_by_role("button", name="Reject").click()
        await expect(other.page.get_by_role("alert")).to_contain_text("The journey has changed; nothing was done")
        await expect(other.page.get_by_role("alert")).to_contain_text("a person said approve at COLLECT")
        await other.picture("journey-too-late")
        assert (await state(place, journey)).phase == "WRITE"


async def test_an_event_source_receives_a_journeys_events_by_name(tmp_path: Path) -> None:
    async with looking(tmp_path) as (place, person):
        journey = await asking(place)
        hearing = person.page.evaluate(
            """(path) => new Promise((resolve) => {
                const source = new EventSource(path), heard = [];
                for (const type of ['journey.decided', 'phase.changed', 'journey.started', 'phase.checkpoint']) {
                    source.addEventListener(type, (event) => {
                        heard.push([event.type, JSON.parse(event.data).seq === Number(event.lastEventId)]);
                        if (type === 'phase.changed') { source.close(); resolve(heard); }
                    });
                }
            })""",
            f"/journeys/{journey}/events",
        )
        task = asyncio.ensure_future(hearing)
        other = await person.tab()
        await other.go(f"/journeys/{journey}")
        await other.page.get_by_role("button", name="Approve").click()
        names = ("journey.started", "phase.checkpoint", "journey.decided", "phase.changed")
        assert await asyncio.wait_for(task, 60) == [[name, True] for name in names]


@pytest.mark.parametrize("scripts", [True, False], ids=["with JavaScript", "without"])
async def test_a_person_answers_a_chains_questions_on_a_phone_in_dark_mode(tmp_path: Path, *, scripts: bool) -> None:
    chain = chained(*(name for part in ("clarify", "research", "generate") for name in (part, f"{part}.memory")))
    options = {"viewport": {"width": 360, "height": 740}, "color_scheme": "dark", "java_script_enabled": scripts}
    async with looking(tmp_path, chain, **options) as (place, person):
        journey = await started(place, "Who may enter?", "chain")
        await submitted(place, journey, ASK, "it has to be asked")
        await person.go(f"/journeys/{journey}")
        if scripts:
            assert (await person.page.evaluate(LOOKS))["width"] <= 0
            assert await contrast(person) >= 4.5
            assert await overlapping(person) == []
            await person.picture("360-dark-journey-asks")
        await person.page.get_by_label("How many hives are there?").fill("Two.")
        await person.page.get_by_role("button", name="Answer").click()
        await expect(person.page.get_by_role("alert")).to_contain_text("not answered yet: note")
        await expect(person.page.get_by_label("How many hives are there?")).to_have_value("Two.")
        await person.page.get_by_label("Who may enter the roof?").fill("Ada.")
        await person.page.get_by_role("button", name="Answer").click()
        await expect(person.page.get_by_role("heading", name="Answers from people")).to_be_visible()
        assert (await state(place, journey)).phase == "clarify.WRITE"
        await person.page.get_by_role("link", name="Version 2").click()
        await expect(person.page.get_by_text("You are viewing version 2.")).to_be_visible()


async def test_everything_works_without_javascript(tmp_path: Path) -> None:
    async with looking(tmp_path, java_script_enabled=False) as (place, person):
        journey = await asking(place)
        await person.page.get_by_role("link", name="Refresh").click()
        await person.page.get_by_role("link", name="What do bees do in winter?").click()
        await person.page.get_by_label("Reason (sent to the host)").fill("too few")
        await person.page.get_by_role("button", name="Reject").click()
        await submitted(place, journey, {"notes": [{"id": "n3", "text": "Drones die."}]})
        await person.page.get_by_role("link", name="Refresh").click()
        await person.page.get_by_role("button", name="Approve").click()
        assert (await state(place, journey)).phase == "WRITE"


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_journeys_fit_360_pixels_and_can_be_read_in_both_schemes(tmp_path: Path, scheme: str) -> None:
    own = [built_in(entry.name) for entry in main_entries()]
    options = {"viewport": {"width": 360, "height": 740}, "color_scheme": scheme}
    async with looking(tmp_path, *own, **options) as (place, person):
        journey = await asking(place, "averylongword" * 30)
        await submitted(place, await started(place, "x"), {"notes": [{"id": "n1", "text": "y" * 400}]})
        paths = {"/journeys": "list", "/waiting": "waiting-journeys", f"/journeys/{journey}": "one"}
        for agent in own:
            paths[f"/journeys/{await started(place, 'Why is the sky blue?', agent.name)}"] = agent.name
        for path, name in paths.items():
            await person.go(path)
            assert (await person.page.evaluate(LOOKS))["width"] <= 0, path
            assert await contrast(person) >= 4.5, path
            await person.picture(f"360-{scheme}-journey-{name}")


async def test_every_agent_of_this_program_is_drawn_whole_on_a_wide_screen(tmp_path: Path) -> None:
    own = [built_in(entry.name) for entry in main_entries()]
    async with looking(tmp_path, *own, viewport={"width": 1280, "height": 900}) as (place, person):
        for agent in own:
            await person.go(f"/journeys/{await started(place, 'Why is the sky blue?', agent.name)}")
            spill = await person.page.evaluate(
                "() => { const frame = document.querySelector('.frame'); return frame.scrollWidth - frame.clientWidth; }"
            )
            assert spill <= 0, agent.name
            assert await overlapping(person) == [], agent.name
            await person.picture(f"journey-{agent.name}")


async def overlapping(person: Person) -> list[str]:
    """Return the picture's texts that overflow their box or overlap another text, as Chromium renders them."""
    found: list[str] = await person.page.evaluate("""() => {
        const svg = [...document.querySelectorAll('svg.graph')].find((one) => one.checkVisibility());
        const area = (one) => one.getBoundingClientRect(), wrong = [];
        const apart = (a, b) => a.right <= b.left + 1 || b.right <= a.left + 1 || a.bottom <= b.top + 1 || b.bottom <= a.top + 1;
        for (const node of svg.querySelectorAll('.node')) {
            const box = area(node.querySelector('rect'));
            for (const text of node.querySelectorAll('.name, .note')) {
                const own = area(text);
                if (own.left < box.left || own.right > box.right || own.top < box.top - 2 || own.bottom > box.bottom + 2)
                    wrong.push(`${text.textContent} is wider than its box`);
            }
        }
        const labels = [...svg.querySelectorAll('.label:not(.badge):not(.pill)')];
        labels.forEach((one, n) => labels.slice(n + 1).forEach((other) => {
            if (!apart(area(one), area(other))) wrong.push(`${one.textContent} on ${other.textContent}`);
        }));
        return wrong;
    }""")
    return found


async def test_a_teams_large_graph_is_drawn_with_every_way(tmp_path: Path) -> None:
    names = [f"STEP_{n}" for n in range(20)]
    ways = [Transition(names[n], names[n + 1], f"step_{n}_is_done") for n in range(19)]
    ways += [
        Transition(names[n], names[n // 2], f"step_{n}_lacks_something", is_backward=True) for n in range(3, 20, 4)
    ]
    ways += [Transition(names[n], names[n + 3], "nothing_to_do") for n in range(0, 15, 5)]
    phases = tuple(Phase(name, purpose=f"do {name}") for name in names)
    large = as_agent(PhaseGraph("large", phases, tuple(ways), names[0], (names[-1],)))
    async with looking(tmp_path, large, viewport={"width": 1280, "height": 900}) as (place, person):
        await person.go(f"/journeys/{await started(place, agent='large')}")
        picture = person.page.get_by_role("img")
        await expect(picture.locator(".node")).to_have_count(20)
        await expect(picture.locator(".way")).to_have_count(len(ways))
        assert await overlapping(person) == []
        assert (await person.page.evaluate(LOOKS))["width"] <= 0
        await person.picture("journey-large")


async def test_hostile_briefs_works_and_phases_are_shown_and_do_nothing(tmp_path: Path) -> None:
    async with looking(tmp_path) as (place, person):
        for number, payload in enumerate(PAYLOADS[::3]):
            journey = await started(place, f"{number} {payload}"[:20_000])
            work = {
                "notes": [{"id": payload[:5_000], "text": f"see: {payload[:200_000]}"}, {"id": "n2", "text": "two"}]
            }
            await submitted(place, journey, work, reasoning=payload[:4_000])
            for path in ("/waiting", "/journeys", f"/journeys/{journey}", f"/journeys/{journey}?whole=1"):
                await person.go(path)
                looks = await person.page.evaluate(LOOKS)
                assert looks["pwned"] is None, (number, path)
                assert not looks["foreign"] + looks["links"], (number, path, looks)
                assert looks["pictures"] == (2 if "-" in path else 0), (number, path)
                assert not looks["hidden"], (number, path)
                assert looks["width"] <= 0, (number, path)
            if payload in MARKUP:
                await expect(person.page.locator(".work").first).to_contain_text(payload)
            if number in (0, 20):
                await person.picture(f"journey-hostile-{number}", whole=payload not in LONG)
            await place.app.services.journeys.decide(journey, 2, CANCEL, by=HOST)


async def test_hostile_names_of_phases_are_drawn_and_do_nothing(tmp_path: Path) -> None:
    several = [payload for payload in PAYLOADS[::7] if payload not in LONG]
    names = [f"{n} {payload}" for n, payload in enumerate(several)]
    ways = [Transition(names[n], names[n + 1], several[n]) for n in range(len(names) - 1)]
    ways.append(Transition(names[2], names[0], several[0], is_backward=True))
    phases = tuple(Phase(name, purpose=several[0]) for name in names)
    hostile = as_agent(PhaseGraph("hostile", phases, tuple(ways), names[0], (names[-1],)))
    async with looking(tmp_path, hostile) as (place, person):
        await person.go(f"/journeys/{await started(place, agent='hostile')}")
        looks = await person.page.evaluate(LOOKS)
        assert (looks["pwned"], looks["foreign"], looks["hidden"], looks["pictures"]) == (None, 0, False, 2)
        assert looks["width"] <= 0
        await expect(person.page.get_by_role("img").locator(".node")).to_have_count(len(names))
        await person.picture("journey-hostile-names")
