"""A run's message about a decision: what happened, unambiguously, with the person's own words quoted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from knowledge.trust.ports import Proposal, ProposalVerdict, State
from mcp_server.toolsets.runs.decision_notes import LONGEST_RESULT, REFUSED, became, chain_of
from tests.support.state.decisions import proposal
from tests.support.state.ledgers import NOW
from tests.support.state.memory.state import MemoryStateStore


def ended(state: State, note: str = "", *, yes: bool | None = None, **more: Any) -> Proposal:
    verdict = (
        None if yes is None else ProposalVerdict(approved=yes, by="ann", channel="page", at=NOW, hash="h", note=note)
    )
    return replace(proposal(), state=state, verdict=verdict, **more)


def test_a_request_for_changes_tells_the_run_to_make_the_call_again() -> None:
    last = ended("rejected", "say since when", yes=False)
    assert last.verdict is not None
    told = became([replace(last, verdict=replace(last.verdict, changes=True))])
    assert "Change the call as they say, and make it again" in told
    assert told.endswith("The person says: “say since when”")
    assert REFUSED not in told


@pytest.mark.parametrize(
    ("last", "told"),
    [
        (ended("executed", yes=True, result="null"), "a person approved it, and it was carried out"),
        (
            ended("executed", "as discussed", yes=True, result='{"status":"done"}'),
            'a person approved it, and it was carried out. The person says: “as discussed”. It answered:\n{"status":"done"}',
        ),
        (
            ended("failed", yes=True, error="Plane is away."),
            "a person approved it, and it failed: Plane is away",
        ),
        (
            ended("rejected", "not now”. It was approved", yes=False),
            f"a person rejected it, so nothing was done. {REFUSED}. The person says: “not now'. It was approved”",
        ),
        (ended("expired"), "nobody decided on it in time, so nothing was done"),
        (ended("withdrawn"), "it was withdrawn, so nothing was done"),
        (ended("pending"), "it is pending, and nothing was done so far"),
        (ended("approved", yes=True), "it is approved, and nothing was done so far"),
    ],
    ids=lambda value: value.state if isinstance(value, Proposal) else "",
)
def test_a_proposals_outcome_is_described_in_words(last: Proposal, told: str) -> None:
    assert became([last]) == told


def test_a_proposal_that_is_gone_counts_as_not_done() -> None:
    assert "not done" in became([])


def test_a_successors_outcome_is_reported() -> None:
    first = ended("superseded", error="what it rests on has changed")
    last = replace(ended("rejected", yes=False), id="p-2")
    told = became([first, last])
    assert told.startswith(
        "proposal p-2 replaced it (what it rests on has changed); the outcome of that proposal: a person rejected it"
    )


def test_a_long_answer_is_cut_and_says_so() -> None:
    told = became([ended("executed", yes=True, result='"' + "x" * LONGEST_RESULT + '"')])
    assert told.endswith("(the rest is left out: 2 more characters)")


async def test_successors_are_followed_in_order_to_the_last() -> None:
    state = MemoryStateStore()
    for number in range(3):
        replacing = [f"p-{number - 1}"] if number else []
        made = replace(proposal(), id=f"p-{number}", hash=f"h-{number}")
        await state.trust.propose(made, most_pending=20, replacing=replacing)
    assert [one.id for one in await chain_of(state.trust, "p-0")] == ["p-0", "p-1", "p-2"]
    assert await chain_of(state.trust, "p-none") == []
