"""`journeys stats`: what the phases of an agent take over all its journeys, and where most time goes."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from agents.engine.fold import fold
from agents.engine.progress.metrics import averages, by_part, table, waits
from agents.errors import NoSuchAgent
from agents.report.spent import parts_of
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.journeys.records import led, listing
from mcp_server.cli.journeys.view import STATES, Averages, average_fields, averaged
from mcp_server.cli.terminal.output import print_ascii

if TYPE_CHECKING:
    from agents.engine.agent import Agent
    from agents.engine.events import Logged
    from agents.engine.progress.metrics import PhaseRow
    from agents.engine.runner import Runner
    from agents.engine.state import JourneyState
    from agents.store.ports import JourneyLine

NOTHING = 1


async def stats(args: argparse.Namespace, settings: Settings) -> int:
    """Print averages per phase for each agent that has journeys."""
    async with led(settings) as runner:
        lines = await listing(runner.store, agent=args.agent)
        agents = sorted({one.agent for one in lines})
        found = [await _averages(runner, name, [one for one in lines if one.agent == name]) for name in agents]
    if settings.json:
        print_ascii([average_fields(one) for one in found])
    elif not found:
        print("no journeys")
    else:
        print("\n\n".join("\n".join(averaged(one)) for one in found))
    return 0 if found else NOTHING


async def _averages(runner: Runner, agent: str, lines: Sequence[JourneyLine]) -> Averages:
    counts, leading = Counter(one.status for one in lines), await _agent(runner, agent)
    rows, forks = [], 0
    for one in lines:
        log = await runner.store.events(one.id)
        state = fold(log)
        if state.forked_from:
            forks += 1
        else:
            rows.append(_rows(log, state))
    order = [phase.name for phase in leading.graph.phases] if leading else []
    of = parts_of(leading)
    parts = averages([by_part(one, of) for one in rows], order=list(dict.fromkeys(of.values()))) if of else ()
    states = {status: counts[status] for status in STATES}
    return Averages(agent, states, forks, averages(rows, order=order), parts)


def _rows(log: Sequence[Logged], state: JourneyState) -> Sequence[PhaseRow]:
    """Return what a journey took up to its newest step: one that was left lying does not grow slower."""
    return table(state, state.moved_at, waited=waits(log, state.moved_at))


async def _agent(runner: Runner, agent: str) -> Agent | None:
    """Return the agent; None if it is not there any more."""
    try:
        return await runner.catalogue.agent(agent)
    except NoSuchAgent:
        return None
