"""What is hidden from a caller leaves no trace in any answer (decision 114).

Each answer is compared, byte for byte, with that of a knowledge base that never had the hidden pages.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from knowledge.contradictions import cross_page
from knowledge.state.ports import StateStore
from knowledge.trust.ports import TrustRecords
from mcp_server.app.access import readable_state
from mcp_server.app.access.caller_services import CallerServices
from mcp_server.app.access.readable_state import ReadableState, ReadableTrust
from mcp_server.ports import AllServices, SiteServices
from mcp_server.toolsets.registry import declared
from tests.support.access.people_base import CANARIES, COMMON, access_of
from tests.support.access.probes import OTHER_PROBES, TOOL_PROBES, Probe, Prober, answer
from tests.support.access.worlds import checked, indexed, world
from tests.support.hosts.writers import Writer

pytestmark = pytest.mark.security

CALLERS = ["ann", "ben", "eve", None]
RECORDING = frozenset({"kb_merge", "kb_move", "journey_start"})
"""Tools whose arguments later answers may repeat."""
CURSOR = re.compile(r'"next_cursor":"([^"]+)"')
FEW, MANY = 50, 2_500
"""Probes for each caller."""
OF_SERVICES = ("plane", "zulip", "webhook", "runs")
"""Toolsets that are not configured here. Their probes are in `test_hidden_in_services.py`."""


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cross_page, "QUIET_S", 0)


@asynccontextmanager
async def both(folder: Path, person: str | None) -> AsyncIterator[tuple[Writer, Writer]]:
    """Connect the person's host to the whole knowledge base, and to the one without hidden pages."""
    whole = await world(folder / "whole" / "team", lambda _path: True)
    bare = await world(folder / "bare" / "team", access_of(person).may_read)
    async with whole.host(person) as one, bare.host(person) as other:
        yield one, other


async def compare(folder: Path, person: str | None, seed: int, count: int, *, writes: bool) -> None:
    """Send the probes to both knowledge bases, and compare the answers. Without `writes` changes are only rehearsed."""
    prober, recorded = Prober(seed), ""
    async with both(folder, person) as (one, other):
        following: Probe | None = None
        for number in range(count):
            probe = following or prober.probe()
            if not writes and "dry_run" in probe.arguments:
                probe = replace(probe, arguments={**probe.arguments, "dry_run": True})
            found, bare = await answer(one.client, probe), await answer(other.client, probe)
            await checked(one, other)
            assert found == bare, f"probe {number} of seed {seed}: {probe.text}"
            # The rest of a long answer is asked for until there is none.
            cursor = CURSOR.search(found)
            following = replace(probe, arguments={**probe.arguments, "cursor": cursor[1]}) if cursor else None
            # A caller's own words may come back: at once, or later from what was recorded.
            recorded += probe.text if probe.name in RECORDING else ""
            own = probe.text + recorded
            assert not [w for whose, w in CANARIES.items() if whose != person and w in found and w not in own], (
                probe.text
            )
            if '"status":"done"' in found:
                await indexed(one.app)
                await indexed(other.app)


@pytest.mark.parametrize("person", CALLERS)
async def test_no_answer_shows_that_there_are_hidden_pages(tmp_path: Path, person: str | None) -> None:
    await compare(tmp_path, person, seed=1, count=FEW, writes=False)


@pytest.mark.external
@pytest.mark.parametrize("person", CALLERS)
async def test_none_of_ten_thousand_answers_shows_that_there_are_hidden_pages(
    tmp_path: Path, person: str | None
) -> None:
    await compare(tmp_path, person, seed=2, count=MANY, writes=True)


def test_every_tool_has_a_probe() -> None:
    """If this fails: add a probe for the new tool to `TOOL_PROBES`, so that its answers are compared too."""
    reaching_pages = {spec.name for spec in declared() if spec.toolset not in OF_SERVICES}
    assert reaching_pages == set(TOOL_PROBES)


async def test_every_resource_and_prompt_has_a_probe(tmp_path: Path) -> None:
    """If this fails: add a probe for the new one to `OTHER_PROBES`, and one for its completion."""
    made = await world(tmp_path / "team", COMMON.__contains__)
    async with made.host("ben") as host:
        templates = {one.uri_template for one in (await host.client.list_resource_templates()).resource_templates}
        fixed = {str(one.uri) for one in (await host.client.list_resources()).resources}
        prompts = {one.name for one in (await host.client.list_prompts()).prompts}
    assert templates <= set(OTHER_PROBES)
    assert {uri for uri in fixed if not uri.startswith("agent://")} <= set(OTHER_PROBES)
    agents = {uri.removeprefix("agent://") for uri in fixed if uri.startswith("agent://")}
    assert {f"prompt {name}" for name in prompts - agents} <= set(OTHER_PROBES)


def test_every_service_is_decided_on_for_callers() -> None:
    """If this fails: say in `CallerServices` whether the new service is made from the caller's view or the same for everybody."""
    offered = {name for one in (AllServices, SiteServices) for name in dir(one) if not name.startswith("_")}
    assert offered <= vars(CallerServices).keys()


@pytest.mark.parametrize(
    ("store", "view", "listed"),
    [
        (StateStore, ReadableState, readable_state.AS_IT_IS | readable_state.CLOSED),
        (TrustRecords, ReadableTrust, readable_state.TRUST_AS_IT_IS | readable_state.TRUST_CLOSED),
    ],
)
def test_every_part_of_the_state_is_decided_on_for_callers(store: type, view: type, listed: frozenset[str]) -> None:
    """If this fails: add the new method to the parts that are open, or closed, to callers with limited rights."""
    offered = {name for name, _ in inspect.getmembers(store) if not name.startswith("_")}
    own = {name for name in vars(view) if not name.startswith("_")} | {"ledger", "trust"}
    assert offered <= own | listed
    assert not listed - offered
