"""The prompt of a phase that is entered again says why this visit takes place, and not an earlier one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from agents.engine.agent import Agent
from agents.engine.events import Logged, PhaseChanged, Started
from agents.engine.fold import fold
from agents.engine.graph import Phase, PhaseGraph
from agents.prompts.prompt import prompt

NOW = datetime(2026, 11, 1, tzinfo=UTC)
AGENT = Agent(
    "loop",
    "Loop",
    "",
    PhaseGraph("loop", (Phase("PLAN"), Phase("TEACH"), Phase("CHECK"), Phase("END")), (), "PLAN", ("END",)),
    forms={},
    conditions={},
    texts={},
)
FORTH, BACK = False, True


@pytest.mark.parametrize(
    ("moves", "why"),
    [
        ([("PLAN", "TEACH", "planned", FORTH, "")], ""),
        (
            [("PLAN", "TEACH", "planned", FORTH, ""), ("TEACH", "PLAN", "step_missing", BACK, "no step on mites")],
            "You come back to PLAN, visit 2.\nWhy: step_missing\nDetail: no step on mites",
        ),
        (
            [
                ("PLAN", "TEACH", "planned", FORTH, ""),
                ("TEACH", "PLAN", "step_missing", BACK, "no step on mites"),
                ("PLAN", "TEACH", "planned", FORTH, ""),
            ],
            "You come back to TEACH, visit 2.\nWhy: the work went back to PLAN: step_missing\n",
        ),
        (
            [
                ("PLAN", "TEACH", "planned", FORTH, ""),
                ("TEACH", "CHECK", "taught", FORTH, ""),
                ("CHECK", "TEACH", "check_failed", BACK, "c1 was wrong"),
                ("TEACH", "CHECK", "taught", FORTH, ""),
                ("CHECK", "TEACH", "next_objective", FORTH, ""),
            ],
            "You come back to TEACH, visit 3.\nWhy: next_objective\n",
        ),
        (
            [
                ("PLAN", "TEACH", "planned", FORTH, ""),
                ("TEACH", "PLAN", "step_missing", BACK, "no step on mites"),
                ("PLAN", "TEACH", "planned", FORTH, ""),
                ("TEACH", "CHECK", "taught", FORTH, ""),
                ("CHECK", "TEACH", "next_objective", FORTH, ""),
                ("TEACH", "CHECK", "taught", FORTH, ""),
            ],
            "You come back to CHECK, visit 2.\nWhy: taught\n",
        ),
    ],
)
def test_the_reason_is_that_of_this_visit(moves: Sequence[tuple[str, str, str, bool, str]], why: str) -> None:
    """A loop that leads on to the next item used to give the reason of an older move back."""
    log = [Logged(1, 1, NOW, "ada", Started("loop", "bees", "PLAN", "ada"))]
    log += [Logged(n, n, NOW, "ada", PhaseChanged(*move)) for n, move in enumerate(moves, 2)]
    told = prompt(AGENT, fold(log))
    assert why in told if why else "You come back" not in told
    assert ("Detail:" in told) == ("Detail:" in why)
