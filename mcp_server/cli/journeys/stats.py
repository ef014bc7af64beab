"""`journeys stats`: the time and tokens that the phases of each agent take on average, and where most time goes."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agents.engine.fold import fold
from agents.engine.progress.metrics import PhaseAverage, averages, bottleneck, by_part, lasting
from agents.engine.runner import Runner
from agents.engine.state import Status
from agents.engine.work.markdown import counted
from agents.errors import NoSuchAgent
from agents.report.overview import STATUSES, parts_of, phase_rows
from agents.store.ports import JourneyLine
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.journeys.records import MOST_LISTED, led
from mcp_server.cli.journeys.view import columns
from mcp_server.cli.terminal.escape import visible
from mcp_server.cli.terminal.output import print_ascii

NOTHING = 1


@dataclass(frozen=True, slots=True)
class Averages:
    """The cost of an agent's journeys. `forks` are not in `phases`, because their time includes that of their original."""

    agent: str
    counts: Mapping[Status, int]
    forks: int
    phases: Sequence[PhaseAverage]
    parts: Sequence[PhaseAverage] = ()
    """For an agent with several parts: the total of each part's phases."""


async def stats(args: argparse.Namespace, settings: Settings) -> int:
    """Print averages per phase for each agent that has journeys."""
    async with led(settings) as runner:
        lines = await runner.store.journeys(agent=args.agent, limit=MOST_LISTED)
        agents = sorted({one.agent for one in lines})
        found = [await _averages(runner, name, [one for one in lines if one.agent == name]) for name in agents]
    if settings.json:
        print_ascii([_fields(one) for one in found])
    elif not found:
        print("no journeys")
    else:
        print("\n\n".join("\n".join(_lines(one)) for one in found))
    return 0 if found else NOTHING


async def _averages(runner: Runner, name: str, lines: Sequence[JourneyLine]) -> Averages:
    try:
        agent = await runner.catalogue.agent(name)
    except NoSuchAgent:  # it was removed; its journeys still count
        agent = None
    rows, forks = [], 0
    for one in lines:
        log = await runner.store.events(one.id)
        state = fold(log)
        if state.forked_from:
            forks += 1
        else:
            # Time counts up to the newest step only, so that an abandoned journey does not look slower every day.
            rows.append(phase_rows(agent, state, log, state.moved_at))
    counts, of = Counter(one.status for one in lines), parts_of(agent)
    order = [phase.name for phase in agent.graph.phases] if agent else []
    parts = averages([by_part(one, of) for one in rows], order=list(dict.fromkeys(of.values()))) if of else ()
    return Averages(name, {status: counts[status] for status in STATUSES}, forks, averages(rows, order=order), parts)


def _fields(found: Averages) -> dict[str, Any]:
    slow = bottleneck(found.phases)
    return {
        "agent": found.agent,
        "journeys": sum(found.counts.values()),
        "states": dict(found.counts),
        "forks_left_out": found.forks,
        "phases": [
            {
                "phase": one.phase,
                "journeys": one.journeys,
                "visits_per_journey": round(one.visits_per_journey, 2),
                "came_back": one.back,
                "submits": one.submits,
                "seconds_per_visit": round(one.seconds_per_visit, 3),
                **_per_journey(one),
            }
            for one in found.phases
        ],
        "bottleneck": slow.phase if slow else None,
        "parts": [
            {"part": one.phase, "journeys": one.journeys, "submits": one.submits, **_per_journey(one)}
            for one in found.parts
        ],
    }


def _per_journey(one: PhaseAverage) -> dict[str, float]:
    return {
        "seconds_per_journey": round(one.seconds_per_journey, 3),
        "waited_s": round(one.waited_s, 3),
        "tokens_per_journey": round(one.tokens_per_journey, 1),
    }


def _lines(found: Averages) -> list[str]:
    """Return the number of journeys, a table of the phases, a table of the parts if there are any, and where most time goes."""
    states = ", ".join(f"{count} {STATUSES[status]}" for status, count in found.counts.items() if count)
    lines = [visible(f"{found.agent}: {counted(sum(found.counts.values()), 'journey')} ({states})")]
    if found.forks:
        lines.append(f"{counted(found.forks, 'fork')} left out below: a fork's time includes that of its original")
    if found.phases:
        head = ("phase", "journeys", "visits each", "came back", "submissions", "per visit", *_HEAD)
        rows = [
            (
                one.phase,
                str(one.journeys),
                f"{one.visits_per_journey:.1f}",
                str(one.back),
                str(one.submits),
                lasting(one.seconds_per_visit),
                *_cells(one),
            )
            for one in found.phases
        ]
        lines += [*columns([head, *rows]), *_slowest(found.phases)]
    if found.parts:
        part_head = ("part", "journeys", "submissions", *_HEAD)
        part_rows = [(one.phase, str(one.journeys), str(one.submits), *_cells(one)) for one in found.parts]
        lines += ["", *columns([part_head, *part_rows]), *_slowest(found.parts, "the part ")]
    return lines


_HEAD = ("per journey", "waiting", "tokens")


def _cells(one: PhaseAverage) -> tuple[str, str, str]:
    return (
        lasting(one.seconds_per_journey),
        lasting(one.waited_s / one.journeys),
        f"{one.tokens_per_journey:,.0f}",
    )


def _slowest(phases: Sequence[PhaseAverage], what: str = "") -> list[str]:
    slow = bottleneck(phases)
    if slow is None:
        return []
    waited = slow.waited_s / slow.journeys
    waiting = f", including {lasting(waited)} waiting for a person" if waited else ""
    return [
        visible(f"Most time goes into {what}{slow.phase}: {lasting(slow.seconds_per_journey)} per journey{waiting}")
    ]
