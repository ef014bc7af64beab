"""The cognitive agents and the skill of six, led by scripted hosts through real MCP clients whose servers die."""

from __future__ import annotations

import shutil
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
from tests.support.agents.team_agents import HANDBOOK
from tests.support.hosts.writers import let_in
from tests.support.journeys import hosts as journey_hosts
from tests.support.journeys.hosts import SdkHost, Site
from tests.support.knowledge_bases.folders import write

SEVEN = ("clarification", "research-cognitive", "analysis", "synthesis", "generation", "validation", "memory")
BRIEF = "Keep bees on the roof."
REAL_BRIEF = """\
Keep bees on the roof. Our kindergarten has a flat roof above the old brewery, and the parents' council would like two or three \
colonies there from spring on, so that the children see where honey comes from and the lime trees in the yard are pollinated. \
Two parents kept bees years ago, nobody else has experience. We need something that we can show to the owner of the house and to \
the council in March: what it takes over the year, who does what, what it costs, and what may go wrong, above all in winter, \
when the house is empty for three weeks. The neighbours on the third floor have a balcony next to the roof and a child who was \
stung badly last year. Use what our notes say about the roof, the garden and the bees."""
"""A request as long as a person writes it."""
CHAIN = {
    "clarify": "clarification",
    "research": "research-cognitive",
    "analyse": "analysis",
    "synthesise": "synthesis",
    "generate": "generation",
    "validate": "validation",
}
SKILLS = {
    "deliver": CHAIN,
    "decide-well": {
        "clarify": "clarification",
        "research": "research-cognitive",
        "analyse": "analysis",
        "decide": "synthesis",
    },
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


@pytest.fixture
async def documentation(tmp_path: Path) -> Site:
    """Return this project's handbook as a knowledge base, with the pages about bees, and a host that may write to it."""
    folder = tmp_path / "documentation"
    shutil.copytree(HANDBOOK, folder)
    place = Site(write(folder, dict(PAGES)), tmp_path / "state")
    allowed = await let_in(place.settings, "scripted", 3.0)
    return Site(place.kb, place.state_dir, {"FORGE_ENROLMENT": allowed.enrolment or ""})


def played(agent: str, brief: str = BRIEF) -> Played:
    return Played(agent, Cast.skill(SKILLS[agent]) if agent in SKILLS else Cast.alone(agent), brief)


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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("agent", "most_submits", "most_tokens"),
    [("analysis", 3, 8_000), ("decide-well", 15, 25_000), ("deliver", 20, 35_000)],
)
async def test_phases_are_submitted_together(
    documentation: Site, agent: str, most_submits: int, most_tokens: int
) -> None:
    """The host knows only the answers to its own acts, which tell each conversation everything once."""
    async with anew(documentation) as host:

        def same() -> AbstractAsyncContextManager[Host]:
            return _kept(host)

        course = await lead(same, played(agent, REAL_BRIEF), together=True)
    submits = sum(course.submits.values())
    print(f"{agent}: {submits} submits for {len(course.phases)} phases, {course.tokens:,} tokens")  # noqa: T201 - the figures
    print(course.table())  # noqa: T201 - the figures
    await look_back_on_steps(documentation, agent, course)
    assert submits <= most_submits
    assert course.tokens <= most_tokens


@pytest.mark.external
@pytest.mark.slow
@pytest.mark.parametrize("agent", ["decide-well", "deliver"])
async def test_phases_submitted_together_survive_a_kill_after_every_call(site: Site, agent: str) -> None:
    """Each call has a host and a server of its own, which die after its answer; the next one continues from the status."""
    course = await lead(lambda: anew(site), played(agent), lost, together=True)
    await look_back_on_steps(site, agent, course)


async def look_back_on_steps(site: Site, agent: str, course: Course) -> None:
    """Check that each phase is a step of its own, in order, and that each agent left its document before the next one began."""
    definition = built_in(agent)
    state, log = await site.record(course.journey)
    assert state.status == "complete"
    assert course.waited == [phase for phase in course.waited if "JOHARI" in phase or phase.endswith("ASK")]
    works = [(logged.event, logged.version) for logged in log if isinstance(logged.event, WorkRecorded)]
    by_host = [(work.phase, version) for work, version in works if not work.automatic]
    assert list(dict.fromkeys(phase for phase, _ in by_host)) == list(dict.fromkeys(course.phases))
    assert len({version for _, version in by_host}) == len(by_host), "each has a version of its own"
    order = [phase.name for phase in definition.graph.phases if phase.name in state.work]
    assert list(dict.fromkeys(work.phase for work, _ in works)) == order
    closings = [phase for phase in order if phase.endswith(CLOSING)]
    parts = {phase.removesuffix(CLOSING).rstrip(".") or agent for phase in closings}
    assert parts <= set(definition.documents(state))
    for phase in closings:
        assert str(state.work[phase].content["document"]).endswith("_COMPLETE**")


@pytest.mark.external
async def test_the_skill_of_six_is_led_to_its_end(site: Site) -> None:
    """The chain, agent by agent, with the memory agent after each."""
    course = await led(site, "deliver", losing=False)
    await look_back(site, "deliver", course)
    order = list(dict.fromkeys(phase.partition(".")[0] for phase in course.phases))
    assert order == list(CHAIN)
    assert not [phase for phase in course.phases if phase.endswith("ROUTING")]
