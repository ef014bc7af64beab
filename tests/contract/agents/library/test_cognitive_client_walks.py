"""The cognitive agents and the skill of six, led by scripted hosts through real MCP clients whose servers die."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
from mcp_types import TextResourceContents

from agents.catalogue import built_in
from agents.engine.events import WorkRecorded
from agents.library.cognitive.model import CLOSING
from tests.support.agents.agent_harness import PAGES
from tests.support.agents.cognitive.cast import Cast
from tests.support.agents.cognitive.host import MODEL, TOKENS_IN, TOKENS_OUT, Course, Host, Played, lead
from tests.support.hosts.writers import let_in
from tests.support.journeys import hosts as journey_hosts
from tests.support.journeys.hosts import SdkHost, Site
from tests.support.knowledge_bases.folders import write

SEVEN = ("clarification", "research-cognitive", "analysis", "synthesis", "generation", "validation", "memory")
BRIEF = "Keep bees on the roof."
CHAIN = {
    "clarify": "clarification",
    "research": "research-cognitive",
    "analyse": "analysis",
    "synthesise": "synthesis",
    "generate": "generation",
    "validate": "validation",
}


@pytest.fixture
async def site(tmp_path: Path) -> Site:
    """Return a knowledge base about bees, and a host that may write to it."""
    place = Site(write(tmp_path / "kb", dict(PAGES)), tmp_path / "state")
    allowed = await let_in(place.settings, "scripted", 3.0)
    return Site(place.kb, place.state_dir, {"FORGE_ENROLMENT": allowed.enrolment or ""})


def lost(host: Host) -> None:
    assert isinstance(host, SdkHost)
    host.kill()


@asynccontextmanager
async def anew(site: Site) -> AsyncIterator[SdkHost]:
    """Yield a host with its own server, which may be dead when the block ends."""
    try:
        async with journey_hosts.over_stdio(site) as host:
            yield host
    except* (journey_hosts.Gone, BrokenPipeError):
        pass


def played(agent: str) -> Played:
    return Played(agent, Cast.skill(CHAIN) if agent == "deliver" else Cast.alone(agent), BRIEF)


async def led(site: Site, agent: str, *, losing: bool) -> Course:
    if losing:
        return await lead(lambda: anew(site), played(agent), lost)
    async with anew(site) as host:

        def same() -> AbstractAsyncContextManager[Host]:
            return _kept(host)

        return await lead(same, played(agent))


@asynccontextmanager
async def _kept(host: Host) -> AsyncIterator[Host]:
    yield host


async def look_back(site: Site, agent: str, course: Course) -> None:
    """Check the record against what the host did: every phase in order, tokens as reported, documents, the report."""
    definition = built_in(agent)
    asked = [phase.name for phase in definition.graph.phases if phase.name in definition.forms]
    state, log = await site.record(course.journey)
    assert state.status == "complete"
    automatic = {phase for phase, work in state.work.items() if work.automatic}
    assert {phase.name for phase in definition.graph.phases if phase.automatic} <= automatic
    assert [phase for phase in asked if phase not in automatic] == list(dict.fromkeys(course.phases))
    for phase, submits in course.submits.items():
        took = state.metrics[phase]
        assert took.submits == submits
        assert (took.tokens_in, took.tokens_out) == (submits * TOKENS_IN, submits * TOKENS_OUT)
        assert took.counted == 0
        assert state.work[phase].confidence == 0.8
        assert state.work[phase].usage.model == MODEL
    works = [logged.event for logged in log if isinstance(logged.event, WorkRecorded)]
    assert all(bool(work.conversation) is not work.automatic for work in works)
    documents = definition.documents(state)
    assert {phase.removesuffix(CLOSING).rstrip(".") or agent for phase in asked if phase.endswith(CLOSING)} <= set(
        documents
    )
    async with anew(site) as host:
        for name, text in documents.items():
            read = await host.client.read_resource(f"memory://{course.journey}/{name}")
            content = read.contents[0]
            assert isinstance(content, TextResourceContents)
            assert text.strip() in content.text
        report = await host.call("journey_status", journey_id=course.journey, view="report")
        for phase in course.submits:
            assert f"| {phase} |" in report["text"]


@pytest.mark.parametrize(
    "agent",
    # The skill with six agents runs the others too: by default, only the two that do something else alone are run separately.
    [pytest.param(name, marks=() if name in ("validation", "memory") else pytest.mark.slow) for name in SEVEN],
)
@pytest.mark.external
async def test_each_cognitive_agent_is_led_to_its_end(site: Site, agent: str) -> None:
    """A scripted host through a real MCP client; the memory agent runs after each agent."""
    course = await led(site, agent, losing=False)
    await look_back(site, agent, course)


@pytest.mark.external
@pytest.mark.parametrize(
    "agent",
    ["memory", *(pytest.param(name, marks=pytest.mark.slow) for name in (*SEVEN, "deliver") if name != "memory")],
)
async def test_a_journey_continues_although_its_server_is_killed_at_every_step(site: Site, agent: str) -> None:
    """Killed and resumed at every step, by a new process for host and server."""
    course = await led(site, agent, losing=True)
    await look_back(site, agent, course)


@pytest.mark.parametrize(
    ("agent", "most_submits"),
    [("analysis", 3), pytest.param("deliver", 20, marks=(pytest.mark.external, pytest.mark.slow))],
)
async def test_phases_are_submitted_together(site: Site, agent: str, most_submits: int) -> None:
    """Each phase is recorded as its own step, in order, with its documents."""
    async with anew(site) as host:

        def same() -> AbstractAsyncContextManager[Host]:
            return _kept(host)

        course = await lead(same, played(agent), together=True)
    submits = sum(course.submits.values())
    print(f"{agent}: {submits} submits for {len(course.phases)} phases, {course.tokens:,} tokens")  # noqa: T201 - the figures
    assert submits <= most_submits
    state, log = await site.record(course.journey)
    assert state.status == "complete"
    works = [
        logged.event.phase for logged in log if isinstance(logged.event, WorkRecorded) and not logged.event.automatic
    ]
    assert list(dict.fromkeys(works)) == list(dict.fromkeys(course.phases))
    assert set(built_in(agent).documents(state))


@pytest.mark.external
async def test_the_skill_of_six_is_led_to_its_end(site: Site) -> None:
    """The chain, agent by agent, with the memory agent after each."""
    course = await led(site, "deliver", losing=False)
    await look_back(site, "deliver", course)
    order = list(dict.fromkeys(phase.partition(".")[0] for phase in course.phases))
    assert order == list(CHAIN)
    assert not [phase for phase in course.phases if phase.endswith("ROUTING")]
