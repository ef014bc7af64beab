"""What a journey took, in words: where most time and most tokens went, of phases and of the parts that they belong to. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agents.engine.agent import Agent
from agents.engine.graph import grouped
from agents.engine.progress.metrics import PhaseRow, by_part, costliest, lasting, slowest


def times(number: int, what: str) -> str:
    """Return how many there are of something."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def parts_of(agent: Agent | None) -> Mapping[str, str]:
    """Return the part of each phase, where the agent is made of several."""
    groups = grouped(agent.graph) if agent else {}
    if agent is None or len(groups) < 2:
        return {}
    named = [(phase.name, part or agent.name) for part, phases in groups.items() for phase in phases]
    return {phase: part for phase, part in named if phase not in agent.graph.complete}


def spent(rows: Sequence[PhaseRow], parts: Mapping[str, str] | None = None) -> list[str]:
    """Return in sentences where most time and most tokens went, and a table of all phases.

    `parts` has the part of each phase, where there are several: then they are told first, in the same way.
    """
    told = []
    if parts:
        sums = by_part(rows, parts)
        told = [_most(sums, "the part "), "", *_table("Part", sums), ""]
    return [*told, _most(rows) or "Nothing took any time yet.", "", *_table("Phase", rows)]


def _most(rows: Sequence[PhaseRow], what: str = "") -> str:
    """Return where most time and most tokens went; "" if nothing took any."""
    told, of_phases = [], " to its phases" if what else ""
    if slow := slowest(rows):
        waited = f", {lasting(slow.waited_s)} of them waiting for a person" if slow.waited_s else ""
        told.append(
            f"Most time went into {what}{slow.phase}: {lasting(slow.seconds)}{waited}; "
            f"{times(slow.visits, 'visit')}{of_phases}, {lasting(slow.seconds_per_visit)} on average."
        )
    if dear := costliest(rows):
        whose = " (counted by the server, not reported)" if dear.counted == dear.tokens else ""
        told.append(
            f"Most tokens went into {what}{dear.phase}: {dear.tokens:,}{whose}; "
            f"{times(dear.visits, 'visit')}{of_phases}, {dear.tokens_per_visit:,.0f} on average."
        )
    return " ".join(told)


def _table(head: str, rows: Sequence[PhaseRow]) -> list[str]:
    lines = [
        f"| {r.phase.replace('|', '/')} | {r.visits} | {r.submits} | {lasting(r.seconds)} | {lasting(r.waited_s)} "
        f"| {r.tokens_in:,} | {r.tokens_out:,} | {r.counted:,} |"
        for r in rows
    ]
    titles = f"| {head} | Visits | Submits | Time | Waited | Tokens in | Tokens out | Of these counted |"
    return [titles, "|---|--:|--:|--:|--:|--:|--:|--:|", *lines]
