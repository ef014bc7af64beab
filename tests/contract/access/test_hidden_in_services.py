"""What is hidden from a caller leaves no trace in tasks, messages, webhooks, runs and journeys (decision 114).

Both knowledge bases use the same Plane, Zulip, receiver and model. People name hidden pages there, and the owner has worked with them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from knowledge.contradictions import cross_page
from mcp_server.toolsets.registry import declared
from tests.support.access.people_base import access_of
from tests.support.access.probes import OTHER_PROBES, TOOL_PROBES, Probe, Prober, answer
from tests.support.access.service_probes import SERVICE_PROBES, services
from tests.support.access.worlds import OWNER, World, checked, world
from tests.support.hosts.writers import Refused, Writer

pytestmark = pytest.mark.security

OF_SERVICES = ("plane", "zulip", "webhook", "runs")
FEW, MANY = 40, 1_000
IN_A_JOURNEY = ("kb_map", "kb_read", "kb_search", "kb_history", "kb_merge", "kb_contradictions")
WORK: dict[str, Any] = {
    "categories": [{"id": "c1", "title": "Money", "why": "it was asked"}],
    "questions": [{"id": "q1", "category": "c1", "text": "What does quokkafern cost?", "why": "it decides"}],
}


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cross_page, "QUIET_S", 0)


@asynccontextmanager
async def both(folder: Path, person: str) -> AsyncIterator[tuple[Writer, Writer]]:
    """Connect the person's host to the whole knowledge base, and to the one without hidden pages."""
    async with services() as settings:
        sides = []
        for name, shows in (("whole", lambda _path: True), ("bare", access_of(person).may_read)):
            made = await world(folder / name / "team", shows, **settings)
            await used(made, shows)
            sides.append(made)
        async with sides[0].host(person) as one, sides[1].host(person) as other:
            yield one, other


async def used(made: World, shows: Callable[[str], bool]) -> None:
    """Let the owner read what people wrote elsewhere, and bring it to pages: to hidden ones where there are any."""
    async with made.host(OWNER) as owner:
        for task in ("KB-5", "KB-6"):
            await owner.call("plane_get_task", task=task, include=["comments"])
        for channel, topic in (("drawing", "merge"), ("team", "pages")):
            await owner.call("zulip_read_messages", channel=channel, topic=topic)
        for path, source in (
            ("people/ann/diary.md", "plane:KB-6"),
            ("people/eve/plan for q3.md", "zulip:team/pages"),
            ("plans/launch.md", "plane:KB-6"),
            ("plans/q3.md", "zulip:drawing/merge"),
        ):
            if shows(path):
                try:
                    await owner.merge(path, "The budget for travel is 5,000 euros.\n", source=source)
                except Refused:
                    continue


async def compare(folder: Path, person: str, seed: int, count: int) -> None:
    """Send the probes to both, and compare the answers and what they leave behind."""
    prober = Prober(seed)
    async with both(folder, person) as (one, other):
        for number in range(count):
            probe = prober.any(*SERVICE_PROBES.values(), *OTHER_PROBES.values())(prober)
            await same(one, other, probe, probe, f"probe {number} of seed {seed}")
            if probe.name == "agent_run":
                for what in ("agent_trace", "run://", "/frames"):
                    await same(one, other, await of_newest_run(one, what), await of_newest_run(other, what), what)


async def same(one: Writer, other: Writer, probe: Probe, bare: Probe, what: str) -> None:
    found, expected = await answer(one.client, probe), await answer(other.client, bare)
    await checked(one, other)
    assert found == expected, f"{what}: {probe.text}"


async def of_newest_run(writer: Writer, what: str) -> Probe:
    """Return a question about the caller's newest run."""
    run = (await writer.app.services.runs.store.runs(limit=1))[0].id
    if what == "agent_trace":
        return Probe("tool", "agent_trace", {"run_id": run})
    return Probe("resource", f"run://{run}{what.removeprefix('run://')}", {})


@pytest.mark.parametrize("person", ["ben", "eve"])
async def test_no_answer_of_a_service_or_a_run_shows_that_there_are_hidden_pages(tmp_path: Path, person: str) -> None:
    await compare(tmp_path, person, seed=3, count=FEW)


@pytest.mark.external
@pytest.mark.parametrize("person", ["ann", "ben", "eve"])
async def test_none_of_thousands_of_answers_of_services_shows_hidden_pages(tmp_path: Path, person: str) -> None:
    await compare(tmp_path, person, seed=4, count=MANY)


@pytest.mark.parametrize("count", [25, pytest.param(500, marks=pytest.mark.external)])
async def test_a_journey_of_a_caller_is_the_same_as_without_hidden_pages(tmp_path: Path, count: int) -> None:
    prober = Prober(5)
    async with both(tmp_path, "ben") as (one, other):
        begun = [
            await side.call("journey_start", agent="research", brief="What does quokkafern cost?")
            for side in (one, other)
        ]
        ids = [str(there["journey_id"]) for there in begun]
        for number in range(count):
            probe = TOOL_PROBES[prober.any(*IN_A_JOURNEY)](prober)
            asked = [Probe(probe.how, probe.name, {**probe.arguments, "journey_id": one_id}) for one_id in ids]
            await same(one, other, asked[0], asked[1], f"call {number}")
        abouts: list[Callable[[str], Probe]] = [
            lambda j: Probe("tool", "journey_submit", {"journey_id": j, "version": 1, "work": WORK}),
            *(partial(_status, view) for view in ("state", "events", "report")),
            *(partial(_resource, end) for end in ("", "/events", "/report")),
            lambda j: Probe("resource", f"memory://{j}/research", {}),
            lambda j: Probe("prompt", "continue", {"journey_id": j}),
        ]
        for about in abouts:
            await same(one, other, about(ids[0]), about(ids[1]), "the journey")


def _status(view: str, journey: str) -> Probe:
    return Probe("tool", "journey_status", {"journey_id": journey, "view": view})


def _resource(end: str, journey: str) -> Probe:
    return Probe("resource", f"journey://{journey}{end}", {})


def test_every_tool_of_a_service_has_a_probe() -> None:
    """If this fails: add a probe for the new tool to `SERVICE_PROBES`, so that its answers are compared too."""
    assert {spec.name for spec in declared() if spec.toolset in OF_SERVICES} <= set(SERVICE_PROBES)
