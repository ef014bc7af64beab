"""Journeys on the review page over a real socket, without JavaScript.

What is shown, a person's decision, the event stream.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from agents.engine.agent import Agent
from agents.engine.events import Decided, ToolStart, ToolSuccess
from agents.engine.graph import Phase
from agents.engine.runner import Runner, Submission
from agents.engine.state import JourneyState
from agents.spec.result import DeclaredResult
from agents.spec.yaml.field_path import FieldPath
from mcp_server.app.knowledge_base import utc_now
from tests.support.agents.small_agents import Only, noting
from tests.support.web.review_pages import ME, Place, Visitor, kept

HOST = "ada@desktop"
TWO = {"notes": [{"id": "n1", "text": "Bees sleep."}, {"id": "n2", "text": "Wasps do not."}]}


@dataclass
class Agents(Only):
    """A catalogue whose agents may change while journeys are in progress."""

    def __init__(self, *agents: Agent) -> None:
        super().__init__(*agents)

    def let_go(self, name: str) -> None:
        del self._agents[name]

    def put(self, agent: Agent) -> None:
        self._agents[agent.name] = agent


def named(agent: Agent, name: str) -> Agent:
    return replace(agent, name=name, graph=replace(agent.graph, name=name))


@pytest.fixture
def agents() -> Agents:
    return Agents(noting(), named(noting("optional"), "easy"))


@pytest.fixture
async def place(tmp_path: Path, agents: Agents) -> AsyncIterator[Place]:
    async with kept(tmp_path, agents=agents) as opened:
        yield opened


def runner(place: Place) -> Runner:
    return place.app.services.journeys


async def started(place: Place, brief: str = "What do bees do in winter?", agent: str = "noting") -> str:
    return (await runner(place).start(agent, brief, {}, by=HOST)).journey


async def submitted(place: Place, journey: str, work: Mapping[str, Any]) -> JourneyState:
    at = (await state(place, journey)).version
    return (await runner(place).submit(journey, at, Submission(work, reasoning="because"), by=HOST)).state


async def asking(place: Place, brief: str = "What do bees do in winter?") -> str:
    """Begin a journey that waits for a person."""
    journey = await started(place, brief)
    assert (await submitted(place, journey, TWO)).status == "waiting"
    return journey


async def state(place: Place, journey: str) -> JourneyState:
    return await runner(place).store.journey(journey)


async def said(place: Place, journey: str) -> list[tuple[str, str, str, str]]:
    """Return people's decisions about it: decision, channel, note, and who decided."""
    log = await runner(place).store.events(journey)
    words = [(logged.event, logged.by) for logged in log if isinstance(logged.event, Decided)]
    return [(word.decision, word.channel, word.note, by) for word, by in words]


async def at(place: Place, journey: str) -> Visitor:
    visitor = await place.visitor()
    await visitor.look(f"/journeys/{journey}")
    assert visitor.status == 200
    return visitor


def text_of(html: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", html.partition("<main")[2]).split())


# --- showing ----------------------------------------------------------------------------------------------------------


async def test_waiting_journeys_come_first_are_counted_and_listed_as_pending(place: Place) -> None:
    waits = await asking(place, "Which bees?")
    other = await started(place, "Which wasps?")
    await place.propose()
    visitor = await place.visitor()
    html = await visitor.look("/journeys")
    assert html.index(f"/journeys/{waits}") < html.index(f"/journeys/{other}")
    assert html.count(f'href="/journeys/{waits}"') == 1
    assert "Which bees?" in html
    assert HOST in html
    assert '<span class="count" data-count>2</span>' in html
    home = await visitor.look("/waiting")
    assert f"/journeys/{waits}" in home
    assert f"/journeys/{other}" not in home
    assert "1 journey needs" in home


async def test_journeys_are_filtered_by_state_and_paged(place: Place) -> None:
    waits = await asking(place)
    others = [await started(place, f"Question {n}") for n in range(35)]
    visitor = await place.visitor()
    active = await visitor.look("/journeys?state=active")
    assert waits not in active
    older = await visitor.look(re.findall(r'rel="next" href="([^"]+)"', active)[0].replace("&amp;", "&"))
    seen = re.findall(r'href="/journeys/(noting-\w+)"', active + older)
    assert sorted(seen) == sorted(others)
    assert re.findall(r'href="/journeys/(noting-\w+)"', await visitor.look("/journeys?state=waiting")) == [waits]
    assert "No journeys match" in await visitor.look("/journeys?state=complete")


async def test_a_journey_is_shown_with_its_position_its_record_and_its_events(place: Place) -> None:
    journey = await asking(place)
    proposal = await place.propose()
    facts = {"status": "proposed", "proposal": proposal.id}
    mine = replace(proposal, id="p-mine", journey=journey)
    await place.app.base.state.trust.propose(mine, most_pending=20)
    start = ToolStart("c1", "kb_merge", "0" * 16, "COLLECT", "merge into guides/deploy.md")
    done = [
        ToolSuccess("c1", "kb_merge", 12.4, "proposed", {**facts, "proposal": of}, "COLLECT")
        for of in ("p-mine", proposal.id)
    ]
    await runner(place).store.note(journey, [start, *done], by=HOST, at=utc_now())
    visitor = await at(place, journey)
    told = text_of(visitor.html)
    for expected in (
        "What do bees do in winter?",
        "waiting",
        "Are these the notes that matter?",
        "Bees sleep.",
        "Wasps do not.",
        "Work on COLLECT was recorded, visit 1 .",
        "A person must decide on COLLECT before work continues.",
        "noting started in COLLECT .",
        "because",
        "estimated by the server",
        "kb_merge COLLECT answered 12 ms merge into guides/deploy.md; proposed",
        "COLLECT → WRITE : two_notes",
        "back : note_lacking",
    ):
        assert expected in told, expected
    assert visitor.html.count("<svg ") == 2
    assert f'href="/proposals/{mine.id}"' in visitor.html
    assert f'href="/proposals/{proposal.id}"' not in visitor.html, "that one is of no journey, whatever a call says"
    assert f'href="/journeys/{journey}"' in await visitor.look(f"/proposals/{mine.id}")
    assert "/journeys/" not in (await visitor.look(f"/proposals/{proposal.id}")).partition("<main")[2]


async def test_missing_work_is_shown(place: Place) -> None:
    journey = await started(place)
    await submitted(place, journey, {"notes": TWO["notes"][:1]})
    assert "Still missing in COLLECT two notes are needed" in text_of((await at(place, journey)).html)


async def test_a_long_work_is_folded_and_shown_whole_when_asked(place: Place) -> None:
    journey = await started(place)
    await submitted(
        place,
        journey,
        {"notes": [{"id": f"n{n}", "text": "word " * 100} for n in range(60)] + [{"id": "last", "text": "THE END"}]},
    )
    visitor = await at(place, journey)
    assert "THE END" not in visitor.html
    assert "more entries" in visitor.html
    assert "THE END" in await visitor.look(f"/journeys/{journey}?whole=1")


async def test_a_long_story_is_paged(place: Place) -> None:
    journey = await started(place)
    for n in range(60):
        await submitted(place, journey, {"notes": [{"id": "n1", "text": f"try {n}"}]})
    visitor = await at(place, journey)
    newest = re.findall(r">Version (\d+)</a></strong>", visitor.html)
    assert newest == [str(n) for n in range(61, 21, -1)]
    older = re.findall(r'rel="next" href="([^"]+)"', visitor.html)[0]
    rest = re.findall(r">Version (\d+)</a></strong>", await visitor.look(f"/journeys/{journey}{older}"))
    assert rest == [str(n) for n in range(21, 0, -1)]


async def test_a_journey_whose_agent_is_gone_is_shown_without_decisions(place: Place, agents: Agents) -> None:
    journey = await asking(place)
    agents.let_go("noting")
    visitor = await at(place, journey)
    for expected in ("there is no agent", "Bees sleep.", "Work on", "COLLECT"):
        assert expected in text_of(visitor.html)
    assert f'action="/journeys/{journey}' not in visitor.html
    token = re.findall(r'name="csrf" value="(\w+)"', visitor.html)[0]
    await visitor.post(f"/journeys/{journey}/approve", {"csrf": token, "version": "2"})
    assert visitor.status == 409
    assert await said(place, journey) == []


async def test_from_a_phase_that_is_gone_a_person_sends_it_back(place: Place, agents: Agents) -> None:
    journey = await asking(place)
    await (await at(place, journey)).send(f"/journeys/{journey}/approve")
    now = noting()
    phases = tuple(Phase("TELL") if phase.name == "WRITE" else phase for phase in now.graph.phases)
    ways = tuple(
        replace(way, source=way.source.replace("WRITE", "TELL"), target=way.target.replace("WRITE", "TELL"))
        for way in now.graph.transitions
    )
    agents.put(replace(now, graph=replace(now.graph, phases=phases, transitions=ways)))
    visitor = await at(place, journey)
    assert "a phase that its agent no longer has" in text_of(visitor.html)
    assert "no longer defined" in visitor.html
    await visitor.send(f"/journeys/{journey}/revisit", phase="COLLECT", note="there is no WRITE now")
    assert visitor.status == 200
    assert (await state(place, journey)).phase == "COLLECT"


async def test_of_no_journey_nothing_is_shown_and_strangers_see_nothing(place: Place) -> None:
    journey = await asking(place)
    visitor = await place.visitor()
    assert "There is no journey" in (await visitor.look("/journeys/none-1")).replace("there is", "There is")
    assert visitor.status == 404
    stranger = await place.visitor(logged_in=False)
    for path in ("/journeys", f"/journeys/{journey}", f"/journeys/{journey}/events"):
        assert journey not in await stranger.look(path)
        assert stranger.status == 404
    await stranger.post(f"/journeys/{journey}/approve", {"version": "2", "csrf": "guess"})
    assert stranger.status == 404
    await visitor.post(f"/journeys/{journey}/approve", {"version": "2", "csrf": "guess"})
    assert visitor.status == 403
    assert (await state(place, journey)).status == "waiting"


# --- a person's decisions ---------------------------------------------------------------------------------------------


async def test_approving_continues_it_in_the_name_of_the_logged_in_person(place: Place) -> None:
    journey = await asking(place)
    visitor = await at(place, journey)
    await visitor.send(f"/journeys/{journey}/approve", note="good ones")
    assert visitor.status == 200
    assert "active" in visitor.html
    assert (await state(place, journey)).phase == "WRITE"
    assert await said(place, journey) == [("approve", "page", "good ones", ME)]
    table = text_of("<main" + visitor.html.partition('id="metrics"')[2].partition("</table>")[0])
    assert table.count("slowest") == table.count("costliest") == 1
    assert re.search(r"COLLECT( slowest)? costliest 1 1 ", table)


async def test_a_persons_own_hand_is_the_page(place: Place, agents: Agents) -> None:
    agents.put(named(noting(own_hand=True), "careful"))
    journey = await started(place, agent="careful")
    await submitted(place, journey, TWO)
    visitor = await at(place, journey)
    assert "must be answered by you" in visitor.html
    await visitor.send(f"/journeys/{journey}/approve")
    assert (await state(place, journey)).phase == "WRITE"


async def test_changes_apply_to_the_work_and_unnamed_fields_stay(place: Place) -> None:
    journey = await asking(place)
    visitor = await at(place, journey)
    changes = json.dumps({"notes": [*TWO["notes"], {"id": "n3", "text": "Drones die."}]})
    await visitor.send(f"/journeys/{journey}/modify", changes=changes, note="one more")
    now = await state(place, journey)
    assert now.phase == "WRITE"
    assert [line["text"] for line in now.work["COLLECT"].content["notes"]] == [
        "Bees sleep.",
        "Wasps do not.",
        "Drones die.",
    ]
    assert await said(place, journey) == [("modify", "page", "one more", ME)]


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ('["notes"]', "not a JSON object"),
        ('{"notes": ', "not valid JSON"),
        ('{"notes": NaN}', "not valid JSON"),
        ("[" * 100_000, "nested too deep"),
        ("", "write the changes"),
        ('{"notes": "none"}', "notes"),
        ('{"stranger": 1}', "stranger"),
    ],
)
async def test_impossible_changes_are_reported_beside_the_typed_text_and_nothing_is_done(
    place: Place, typed: str, told: str
) -> None:
    journey = await asking(place)
    before = await state(place, journey)
    visitor = await at(place, journey)
    await visitor.send(f"/journeys/{journey}/modify", changes=typed)
    assert visitor.status in (409, 422)
    assert told in text_of(visitor.html.partition('role="alert"')[2].partition("</div>")[0].join(["<main ", ""]))
    assert typed.replace('"', "&#34;")[:1_000] in visitor.html
    assert await state(place, journey) == before


async def test_the_result_comes_first_and_is_kept_as_a_page_by_the_person(place: Place, agents: Agents) -> None:
    agents.put(replace(noting("none"), result=DeclaredResult("map", (FieldPath("WRITE", ("text",)),))))
    journey = await started(place)
    await submitted(place, journey, TWO)
    assert "What is known" not in (await at(place, journey)).html
    await submitted(place, journey, {"text": "Bees cluster, wasps die."})
    visitor = await at(place, journey)
    shown = text_of(visitor.html)
    assert 0 < shown.index("What is known") < shown.index("Bees cluster, wasps die.") < shown.index("Progress")
    await visitor.send(f"/journeys/{journey}/keep", path=" ")
    assert visitor.status == 422
    visitor = await at(place, journey)
    await visitor.send(f"/journeys/{journey}/keep", path="results/bees.md")
    assert visitor.status == 200
    assert "Bees cluster, wasps die." in text_of(visitor.html)
    assert "Bees cluster, wasps die." in place.text("results/bees.md")
    (line,) = await place.app.base.state.ledger.history("results/bees.md", limit=2)
    assert (line.principal, line.tool) == (f"{ME}@page", "kb_merge")
    assert await place.app.base.state.trust.pending() == 0
    await (await at(place, journey)).send(f"/journeys/{journey}/keep", path="results/bees.md")
    assert (await place.app.base.state.ledger.history("results/bees.md", limit=2)) == [line], "nothing to add"


async def test_a_note_alone_sends_it_to_be_worked_on_again(place: Place) -> None:
    journey = await asking(place)
    await (await at(place, journey)).send(f"/journeys/{journey}/modify", note="shorter")
    now = await state(place, journey)
    assert (now.phase, now.status, now.backward_trigger, now.backward_trigger_detail) == (
        "COLLECT",
        "active",
        "modify",
        "shorter",
    )


async def test_rejecting_requires_a_reason(place: Place) -> None:
    journey = await asking(place)
    visitor = await at(place, journey)
    await visitor.send(f"/journeys/{journey}/reject", note="  ")
    assert visitor.status == 422
    assert "give a reason" in visitor.html
    assert (await state(place, journey)).status == "waiting"
    await visitor.send(f"/journeys/{journey}/reject", note="these are wasps")
    now = await state(place, journey)
    assert (now.phase, now.status, now.backward_trigger_detail) == ("COLLECT", "active", "these are wasps")
    assert "these are wasps" in visitor.html


async def test_a_person_sends_a_message_sends_it_back_and_cancels(place: Place) -> None:
    journey = await asking(place)
    visitor = await at(place, journey)
    await visitor.send(f"/journeys/{journey}/approve")
    await visitor.send(f"/journeys/{journey}/answer", note="in our town")
    assert (await state(place, journey)).phase == "WRITE"
    await visitor.send(f"/journeys/{journey}/revisit", phase="COLLECT", note="one is missing")
    now = await state(place, journey)
    assert (now.phase, now.backward_trigger, now.backward_trigger_detail) == ("COLLECT", "revisit", "one is missing")
    assert ">revisit<" in visitor.html, "a way that no transition stands for is drawn too"
    await visitor.send(f"/journeys/{journey}/cancel", sure="")
    assert visitor.status == 422
    assert "tick the box" in visitor.html
    await visitor.send(f"/journeys/{journey}/cancel", sure="1", note="enough")
    assert (await state(place, journey)).status == "cancelled"
    assert f'action="/journeys/{journey}' not in visitor.html
    assert [word[0] for word in await said(place, journey)] == ["approve", "answer", "revisit", "cancel"]


async def test_continued_work_can_still_be_sent_back_and_complete_work_revisited(place: Place) -> None:
    journey = await started(place, agent="easy")
    await submitted(place, journey, TWO)
    visitor = await at(place, journey)
    assert "You can still change this" in visitor.html
    await visitor.send(f"/journeys/{journey}/reject", note="no")
    assert (await state(place, journey)).phase == "COLLECT"
    await submitted(place, journey, TWO)
    await submitted(place, journey, {"text": "All of it."})
    await visitor.look(f"/journeys/{journey}")
    assert "complete" in visitor.html
    assert f'action="/journeys/{journey}/answer"' not in visitor.html
    await visitor.send(f"/journeys/{journey}/revisit", phase="WRITE", note="too short")
    assert (await state(place, journey)).phase == "WRITE"


async def test_the_second_of_two_tabs_sees_the_change_and_nothing_is_done(place: Place) -> None:
    journey = await asking(place)
    one, other = await at(place, journey), await at(place, journey)
    await one.send(f"/journeys/{journey}/approve")
    after = await state(place, journey)
    await other.send(f"/journeys/{journey}/reject", note="not these")
    assert other.status == 409
    told = text_of(other.html)
    assert "The journey has changed; nothing was done" in told
    assert "You were looking at version 2; the journey is now at version 3" in told
    assert f"version 3: a person said approve at COLLECT (page) by {ME}" in told
    assert await state(place, journey) == after
    await one.look(f"/journeys/{journey}")
    await submitted(place, journey, {"text": "", "lacks": "n3"})
    await one.send(f"/journeys/{journey}/answer", note="typed with care")
    assert one.status == 409
    assert "typed with care" in one.html, "what was typed is not lost"


async def test_the_same_word_sent_twice_counts_once(place: Place) -> None:
    journey = await asking(place)
    one, other = await at(place, journey), await at(place, journey)
    await asyncio.gather(*(tab.send(f"/journeys/{journey}/approve", note="yes") for tab in (one, other)))
    assert (one.status, other.status) == (200, 200)
    assert len(await said(place, journey)) == 1


# --- events as a stream -----------------------------------------------------------------------------------------------


async def heard(
    visitor: Visitor,
    path: str,
    until: int,
    *,
    headers: Mapping[str, str] | None = None,
    opened: asyncio.Event | None = None,
) -> list[tuple[int, str, dict[str, Any]]]:
    """Return the events of a stream up to that number; set `opened` once it has begun."""
    found: list[tuple[int, str, dict[str, Any]]] = []
    async with asyncio.timeout(60), visitor.http.stream("GET", path, headers=dict(headers or {})) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        if opened is not None:
            opened.set()
        event: dict[str, str] = {}
        async for line in stream.aiter_lines():
            name, _, value = line.partition(": ")
            if name:
                event[name] = value
            elif "id" in event:
                found.append((int(event["id"]), event["event"], json.loads(event["data"])))
                event = {}
                if found[-1][0] >= until:
                    return found
    return found


async def test_events_are_streamed_from_the_beginning_in_order_without_works(place: Place) -> None:
    journey = await asking(place)
    log = await runner(place).store.events(journey)
    found = await heard(await place.visitor(), f"/journeys/{journey}/events", len(log))
    assert [(seq, type_) for seq, type_, _ in found] == [(logged.seq, logged.event.TYPE) for logged in log]
    assert found[0][2]["agent"] == "noting"
    assert found[0][2]["by"] == HOST
    assert "Bees sleep" not in json.dumps(found)


async def test_a_stream_continues_after_the_last_event_received(place: Place) -> None:
    journey = await asking(place)
    last = (await state(place, journey)).seq
    visitor = await place.visitor()
    going_on = asyncio.create_task(
        heard(visitor, f"/journeys/{journey}/events", last + 3, headers={"last-event-id": str(last - 1)})
    )
    after = asyncio.create_task(heard(visitor, f"/journeys/{journey}/events?after={last}", last + 3))
    await asyncio.sleep(0.3)
    await (await at(place, journey)).send(f"/journeys/{journey}/approve")
    await (await at(place, journey)).send(f"/journeys/{journey}/answer", note="in our town")
    types = ["journey.decided", "phase.changed", "journey.decided"]
    assert [type_ for _, type_, _ in await after] == types
    assert [(seq, type_) for seq, type_, _ in await going_on][1:] == list(enumerate(types, last + 1))


async def test_a_stream_ends_when_its_listener_logs_out(place: Place) -> None:
    journey = await asking(place)
    visitor = await at(place, journey)
    opened = asyncio.Event()
    listening = asyncio.create_task(heard(visitor, f"/journeys/{journey}/events?after=999", 10_000, opened=opened))
    await asyncio.wait_for(opened.wait(), 60)
    other = Visitor(visitor.http, visitor.address)
    await other.look("/waiting")
    await other.send("/logout")
    await submitted(place, await started(place), {"notes": []})
    assert await asyncio.wait_for(listening, 60) == []


# --- hostile ----------------------------------------------------------------------------------------------------------


async def test_hostile_briefs_works_and_names_are_shown_inert(place: Place, agents: Agents) -> None:
    hostile = "</pre><script>window.pwned=1</script>\u202e \x1b[31m p\u0430y <img src=x onerror=1>"
    now = noting()
    graph = replace(now.graph, name="hostile", phases=tuple(replace(p, purpose=hostile) for p in now.graph.phases))
    agents.put(replace(now, name="hostile", graph=graph, questions={"COLLECT": hostile}))
    journey = await started(place, hostile, agent="hostile")
    await submitted(place, journey, {"notes": [{"id": hostile, "text": hostile}, {"id": "n2", "text": "x" * 50_000}]})
    visitor = await place.visitor()
    for path in ("/waiting", "/journeys", f"/journeys/{journey}", f"/journeys/{journey}?whole=1"):
        html = await visitor.look(path)
        assert visitor.status == 200
        for never in ("\u202e", "\x1b", "<script>", "<img", "onerror=1>"):
            assert never not in html, (path, never)
        assert "⟦U+202E⟧" in html
