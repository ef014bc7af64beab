"""The report's parts on chains, conversations, typed feedback and answers."""

from __future__ import annotations

from agents.engine.events import StepUsage
from agents.engine.progress.conversations import conversations
from agents.engine.progress.metrics import PhaseRow, by_part, costliest, slowest
from agents.engine.runner import Submission
from agents.report.journey_report import report
from tests.support.agents.agent_harness import Led, leading
from tests.support.agents.inquiry_agent import ASK, DOCUMENT, chained, inquiry
from tests.support.journeys.graphs import ADA
from tests.support.state.ledgers import MINUTE, NOW


async def said(led: Led) -> str:
    log = await led.runner.store.events(led.journey)
    return report(await led.position(), log, NOW + 90 * MINUTE)


def section(text: str, title: str) -> list[str]:
    """Return the lines of a section, empty ones left out."""
    after = text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    return [line for line in after.splitlines() if line]


async def spend(led: Led, tokens_in: int, tokens_out: int, **work: object) -> None:
    """Submit work with this usage reported by the host."""
    at = (await led.state()).version
    spent = Submission(work, (), StepUsage(tokens_in, tokens_out, "m"), "", 0.7, "it is so")
    await led.runner.submit(led.journey, at, spent, by=ADA)


async def judged(led: Led) -> None:
    """Lead the journey through a question, a soft failure, a hard one, and to its end."""
    await spend(led, 100, 10, **ASK)
    await led.decide("answer", changes={"q1": "Two.", "note": "Ada."})
    await spend(led, 200, 20, document=DOCUMENT)
    await spend(led, 300, 30, score=70, issues=["say which hive"])
    await spend(led, 400, 40, document=DOCUMENT + "The left one.\n")
    await spend(led, 500, 50, score=20, issues=["these are wasps"])
    await spend(led, 600, 60, known=["they are bees"])
    await spend(led, 700, 70, document=DOCUMENT + "Bees.\n")
    await spend(led, 800, 80, score=90)


async def test_tokens_of_each_phase_are_those_that_were_reported() -> None:
    """Tokens per phase match what was reported."""
    async with leading(inquiry()) as led:
        await judged(led)
        text = await said(led)
    rows = [line.split(" | ") for line in section(text, "Time and tokens") if line.startswith("| ")]
    tokens = {row[0].removeprefix("| "): (row[5], row[6], row[7].removesuffix(" |")) for row in rows[1:]}
    assert tokens == {
        "LOOK": ("0", "0", "0"),
        "ASK": ("700", "70", "0"),
        "WRITE": ("1,300", "130", "0"),
        "JUDGE": ("1,600", "160", "0"),
        "DONE": ("0", "0", "0"),
    }
    assert "Most tokens went into JUDGE: 1,760; 3 visits, 587 on average." in text


async def test_failures_are_reported_by_kind() -> None:
    async with leading(inquiry()) as led:
        await led.submit(known=["x"])
        await led.submit(document="no")
        await spend(led, 1, 1, document=DOCUMENT)
        await spend(led, 1, 1, score=70, issues=["say which hive"])
        await spend(led, 1, 1, document=DOCUMENT)
        await spend(led, 1, 1, score=20, issues=["these are wasps"])
        told = section(await said(led), "Problems")
    assert [line for line in told if not line.startswith("- ")] == [
        "Missing (validation failures):",
        "To refine (soft failures):",
        "To redo (hard failures):",
    ]
    assert [line.rpartition(": ")[2] for line in told if line.startswith("- ")] == [
        "the document says too little",
        "say which hive",
        "these are wasps",
    ]


async def test_conversations_answers_documents_and_automatic_work_are_reported() -> None:
    async with leading(inquiry()) as led:
        await judged(led)
        text = await said(led)
        told = conversations(await led.runner.store.events(led.journey))
    assert [(one.id.rpartition("_")[0], one.phases, one.submits, one.tokens) for one in told] == [
        ("planner_iter1", ["ASK"], 1, 110),
        ("writer_iter1", ["WRITE"], 2, 660),
        ("judge_iter1", ["JUDGE"], 1, 330),
        ("judge_iter2", ["JUDGE"], 1, 550),
        ("planner_iter3", ["ASK"], 1, 660),
        ("writer_iter3", ["WRITE"], 1, 770),
        ("judge_iter3", ["JUDGE"], 1, 880),
    ]
    lines = section(text, "Conversations")
    assert len(lines) == 7
    assert lines[1] == f"- `{told[1].id}`: WRITE (2 submissions, 660 tokens)"
    assert "version 1: The server ran LOOK, visit 1." in section(text, "Steps")[1]
    assert "(Who may enter the roof? - Ada.; How many hives are there? - Two.)" in text
    size = len(DOCUMENT + "Bees.\n")
    left = section(text, "Memory documents")
    assert left == [f"- inquiry: `memory://{led.journey}/inquiry`, {size} characters"]
    assert "### LOOK (visit 1, version 1, by the server itself)" in text
    assert "(tokens: 700 in, 70 out; model: m; reasoning: it is so; confidence: 0.7)" in text


async def test_the_costliest_parts_and_phases_are_named() -> None:
    """Bottleneck analysis right on a constructed case."""
    async with leading(chained("first", "second")) as led:
        for tokens in (10, 1_000):
            await spend(led, tokens, 1, known=["x"])
            await spend(led, 2 * tokens, 1, document=f"{DOCUMENT}{tokens}")
            await spend(led, 3 * tokens, 1, score=90)
        text = await said(led)
    told = section(text, "Time and tokens")
    assert "Most tokens went into the part second: 6,003; 4 visits to its phases, 1,501 on average." in told[0]
    assert "Most tokens went into second.JUDGE: 3,001; 1 visit, 3,001 on average." in text
    parts = [line for line in told if line.startswith(("| first |", "| second |"))]
    assert [part.split(" | ")[5:7] for part in parts] == [["60", "3"], ["6,000", "3"]]
    left = [line.partition(":")[0] for line in section(text, "Memory documents")]
    assert left == ["- first", "- second, also inquiry"]


def test_the_sums_of_parts_are_those_of_their_phases() -> None:
    rows = [PhaseRow("a.x", 2, 1, 10.0, 4.0, 5, 6, 7), PhaseRow("a.y", 1, 1, 20.0, 0.0, 50, 60, 0), PhaseRow("b", 1)]
    sums = by_part(rows, {"a.x": "a", "a.y": "a"})
    assert list(sums) == [PhaseRow("a", 3, 2, 30.0, 4.0, 55, 66, 7), PhaseRow("b", 1)]
    assert (slowest(sums), costliest(sums)) == (sums[0], sums[0])


async def test_a_move_by_the_last_of_several_transitions_says_so() -> None:
    """If there are other transitions, `always` is taken when no other condition is met."""
    async with leading(inquiry()) as led:
        text = await said(led)
    assert "Moved from LOOK to ASK: any work leads there." in text
