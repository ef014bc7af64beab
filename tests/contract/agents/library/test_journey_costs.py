"""The cost of honest work: calls, submissions and tokens, with a real client over a handbook.

`pytest -s tests/contract/agents/library/test_journey_costs.py` prints them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from mcp_server.app.settings.settings import Settings
from tests.support.hosts.writers import writing
from tests.support.journeys.harbour import FACTS, FRONTIER, INSIGHTS, TREE, Fact, pages
from tests.support.journeys.meter import Meter
from tests.support.knowledge_bases.folders import write

RESEARCH_SUBMITS, RESEARCH_TOKENS = 6, 12_000
CHANGE_CALLS, CHANGE_TOKENS = 5, 6_000
GUEST = "What must a guest of the harbour know?"
FEES, SECTION = "berths/visitors.md", "Fees"
OLD = "A night at a visitor berth costs 18 euros for boats up to ten metres."
NEW = OLD.replace("18", "20")
WISH = "A night at a visitor berth costs 20 euros now, not 18. Correct the page."


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(kb=write(tmp_path / "kb", dict(pages())), state_dir=tmp_path / "state", open_browser=False)


@dataclass
class Work:
    """A journey, led by a host that counts."""

    meter: Meter
    here: dict[str, Any] = field(default_factory=dict)

    async def start(self, agent: str, brief: str) -> None:
        self.here = await self.meter.call("journey_start", agent=agent, brief=brief)

    async def submit(self, work: Mapping[str, Any]) -> str:
        """Submit, and return the prompt of the answer."""
        at = {"journey_id": self.here["journey_id"], "version": self.here["version"]}
        self.here = await self.meter.call("journey_submit", **at, work=work)
        return str(self.here["prompt"])

    async def approve(self) -> None:
        at = {"journey_id": self.here["journey_id"], "version": self.here["version"]}
        self.here = await self.meter.call("journey_decide", **at, decision="approve")

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return await self.meter.call(tool, journey_id=self.here["journey_id"], **arguments)

    async def look_up(self, *facts: Fact) -> None:
        """Search for each fact and read its section."""
        for fact in facts:
            await self.call("kb_search", query=fact.question)
            await self.call("kb_read", path=fact.path, section=fact.section)

    async def change_fee(self, *, dry_run: bool = False) -> str:
        """Read the page, write the new fee, and return the page's revision."""
        page = await self.call("kb_read", path=FEES, section=SECTION)
        text, base = page["text"].replace(OLD, NEW), page["revision"]
        merged: dict[str, Any] = {}
        for rehearsal in (True, False) if dry_run else (False,):
            merged = await self.call(
                "kb_merge",
                path=FEES,
                section=SECTION,
                content=text,
                base_revision=base,
                intent=WISH,
                dry_run=rehearsal,
            )
        return str(merged["revision"])


def verified(revision: str) -> dict[str, Any]:
    says = {"path": FEES, "section": SECTION, "quote": NEW}
    return {"pages": [{"id": "m1", "path": FEES, "revision": revision, "says": says}]}


ACTS = {"acts": [{"id": "a1", "tool": "kb_merge", "path": FEES}]}


async def test_research_of_eleven_questions_takes_few_submissions(settings: Settings) -> None:
    """All answers come together; two are wrong, are named, and are sent again without the others."""
    wrong = {
        "q2": FACTS[1].answered(citations=[{"path": FEES, "section": SECTION, "quote": NEW}]),
        "q7": FACTS[6].answered(citations=[]),
    }
    async with writing(settings) as host:
        work = Work(Meter(host.client))
        await work.start("research", GUEST)
        await work.call("kb_map")
        await work.submit(TREE)
        await work.approve()
        asked = work.here["prompt"]
        assert all(fact.question in asked for fact in FACTS)
        await work.look_up(*FACTS)
        told = await work.submit({"answers": [wrong.get(fact.id, fact.answered()) for fact in FACTS]})
        assert work.here["phase"] == "ANSWER"
        assert [fact.id for fact in FACTS if re.search(rf"\b{fact.id}\b", told)] == ["q2", "q7"], told
        told = await work.submit({"answers": [FACTS[1].answered(), FACTS[6].answered()]})
        assert work.here["phase"] == "RISE_ABOVE", told
        told = await work.submit({"RISE_ABOVE": INSIGHTS, "EXPAND": FRONTIER})
        assert "Tell the person, without waiting for an answer: These related questions are for you" in told
        assert work.here["state"] == "complete", told
        agents = {one["agent"]: one["cost"] for one in (await host.call("journey_list"))["agents"]}
        assert re.fullmatch(r"usually 6 calls and [\d,]+ tokens \(median of 1 completed journey\)", agents["research"])
        assert agents["curate"].startswith("at least 2 calls and")
        assert (
            agents["research"] in (await host.call("journey_start", agent="research", brief="Another one?"))["prompt"]
        )
    print(f"\nresearch, answers together: {work.meter}")  # noqa: T201 - the cost, with -s
    assert work.meter.calls["journey_submit"] <= RESEARCH_SUBMITS
    assert work.meter.journey_tokens <= RESEARCH_TOKENS


async def test_a_small_change_takes_few_calls(settings: Settings) -> None:
    """The page was not known before. It is searched, read, changed through the gate, and checked."""
    async with writing(settings) as host:
        work = Work(Meter(host.client))
        await work.start("curate", WISH)
        await work.call("kb_search", query="fee visitor berth night")
        revision = await work.change_fee()
        route = {"question": WISH, "mode": "change", "place": FEES}
        told = await work.submit({"ROUTE": route, "ACT": ACTS, "MERGE": verified(revision)})
        assert work.here["state"] == "complete", told
        assert NEW in host.text(FEES)
        assert OLD not in host.text(FEES)
    print(f"\ncurate, a small change: {work.meter}")  # noqa: T201 - the cost, with -s
    assert work.meter.calls.total() <= CHANGE_CALLS
    assert work.meter.tokens_in.total() <= CHANGE_TOKENS


@pytest.mark.parametrize(
    ("brief", "agent", "says"),
    [
        ("How often are the fire extinguishers checked?", "", "No agent is needed: call kb_search"),
        (WISH, "", "No agent is needed: kb_read the page, then kb_merge"),
        (
            "Decide whether visitors or residents get the new berths.",
            "decide-well",
            "Call journey_start with `agent` 'decide-well'",
        ),
        ("the thing from yesterday", "", "No agent is proposed"),
    ],
)
async def test_a_start_without_an_agent_only_proposes_one(
    settings: Settings, brief: str, agent: str, says: str
) -> None:
    async with writing(settings) as host:
        told = await host.call("journey_start", brief=brief)
        assert (told["state"], told["agent"], told["journey_id"], told["allowed_tools"]) == ("proposal", agent, "", [])
        assert says in told["prompt"]
        assert "Nothing was started" in told["prompt"]
        assert (await host.call("journey_list"))["journeys"] == []
        assert "the brief is empty" in await host.refused("journey_start", brief=" ", agent="research")


async def test_the_longer_ways_stay_possible(settings: Settings) -> None:
    """Hosts that submit one phase at a time, in small parts, are served as before."""
    async with writing(settings) as host:
        work = Work(Meter(host.client))
        await work.start("research", GUEST)
        await work.submit(TREE)
        await work.approve()
        for batch in (FACTS[:4], FACTS[4:8], FACTS[8:]):
            await work.look_up(*batch)
            await work.submit({"answers": [fact.answered() for fact in batch]})
        await work.submit(INSIGHTS)
        told = await work.submit(FRONTIER)
        assert work.here["state"] == "complete", told
        print(f"\nresearch, one phase at a time: {work.meter}")  # noqa: T201 - the cost, with -s
        work = Work(Meter(host.client))
        await work.start("curate", WISH)
        await work.submit({"question": "What does a night at a visitor berth cost?", "mode": "discovery"})
        await work.call("kb_search", query="fee visitor berth night")
        await work.call("kb_read", path=FEES, section=SECTION)
        cited = {"path": FEES, "section": SECTION, "quote": OLD}
        await work.submit({"evidence": [{"id": "e1", "says": "A night costs 18 euros.", "citation": cited}]})
        act = {"kind": "merge", "path": FEES, "why": "the fee has changed"}
        await work.submit({"conclusion": "The page has the old fee of 18 euros.", "rests_on": ["e1"], "act": act})
        revision = await work.change_fee(dry_run=True)
        await work.submit(ACTS)
        await work.call("kb_read", path=FEES, section=SECTION)
        told = await work.submit(verified(revision))
        assert work.here["state"] == "complete", told
    print(f"\ncurate, the whole way: {work.meter}")  # noqa: T201 - the cost, with -s
