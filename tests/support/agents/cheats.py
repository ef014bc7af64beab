"""Ways of cheating: each is an honest work with one thing left out or made up. `refused` is a part of the sentence that stops it."""

# ruff: noqa: E501 - a work a line can be compared with the next; letters of other scripts are meant
from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.support.agents.adversary import COUNT, DEAD, GROUP, KEPT, MAILBOX, SHIFT, Attempt, quote
from tests.support.agents.honest_works import (
    ANALYSIS,
    ANSWERS,
    ASKED,
    BUILD,
    CALIBRATE,
    CLARIFICATION,
    DECIDE,
    FINDING,
    FRAME,
    GENERATION,
    NEXT,
    RESEARCH,
    SYNTHESIS,
    UNDERSTAND,
    VALIDATION,
    WEIGHED,
    answer,
    insight,
    left_open,
    research,
)

Json = Any
LOREM = "Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor incididunt."
PROMPT = "two to five sentences that go beyond any single answer"
ONLY_SUMMARY = ({"path": "ops/backup.md"}, {"path": "ops/queue.md"})
"""Readings of which that of the long page shows only its beginning."""


def answers(*given: Json) -> Json:
    return {"answers": list(given)}


def said(*texts: str) -> Json:
    """Return the honest answers with other texts."""
    return answers(*({**one, "text": text} for one, text in zip(ANSWERS["answers"], texts, strict=True)))


def each(work: Json, name: str, **fields: Json) -> Json:
    """Return a work with fields of every item of a list changed."""
    return {**work, name: [{**item, **fields} for item in work[name]]}


_NOT_READ = (
    RESEARCH.but("no page is read", "was not read", reads=()),
    RESEARCH.but("only the beginning of the page is read", "was not read", reads=ONLY_SUMMARY),
    RESEARCH.but("another section is read", "was not read", reads=({"path": "ops/backup.md", "section": "Schedule"}, {"path": "ops/queue.md"})),
    replace(RESEARCH.but("pages are only found by a search", "was not read", reads=()), searches=("backup retention restore",)),
    BUILD.but("concepts of pages that nobody read", "was not read", reads=()),
    UNDERSTAND.but("a course on a page that nobody read", "was not read", reads=()),
    DECIDE.but("a decision on a page that nobody read", "was not read", reads=()),
    ANALYSIS.but("drivers of a page that nobody read", "was not read", reads=()),
    SYNTHESIS.but("positions of a page that nobody read", "was not read", reads=()),
    RESEARCH.but("a quote is altered", "the quote is not in", ANSWER=answers(answer(1, "90 days", {**KEPT, "quote": "Backups are kept for 90 days in the Frankfurt vault."}), *ANSWERS["answers"][1:])),
    RESEARCH.but("a page is made up", "ops/tape.md", ANSWER=answers(answer(1, "35 days", quote("ops/tape.md", "", "Backups are kept for 35 days")), *ANSWERS["answers"][1:])),
)  # fmt: skip
_NOT_SEARCHED = (
    research(
        "queries that were never run",
        [*ASKED[:1], "What colour is the harbour crane in Rostock?"],
        [answer(1, "35 days", KEPT), left_open(2, "harbour crane colour", "Rostock crane paint")],
        refused="kb_search was not called",
    ),
    research(
        "one of two queries was run",
        [*ASKED[:1], "What colour is the harbour crane in Rostock?"],
        [answer(1, "35 days", KEPT), left_open(2, "harbour crane colour", "Rostock crane paint")],
        searches=("harbour crane colour",),
        refused="'Rostock crane paint'",
    ),
    research(
        "one query in two spellings",
        [*ASKED[:1], "What colour is the harbour crane in Rostock?"],
        [answer(1, "35 days", KEPT), left_open(2, "harbour crane colour", "Harbour  crane colour!")],
        searches=("harbour crane colour",),
        refused="search in 2 different ways",
    ),
    FINDING.but(
        "evidence is said not to exist",
        "was not run",
        GATHER={
            "evidence": FINDING.works["GATHER"]["evidence"][:1],
            "nothing": [
                {"id": "n1", "question": "q2", "tried": ["crane in Rostock", "harbour paint"], "nearest": [MAILBOX]}
            ],
        },
    ),
)
_IDLE_ANSWERS = (
    RESEARCH.but("yes, three times", "is only 'Yes.'", ANSWER=said("Yes.", "Yes.", "Yes.")),
    RESEARCH.but("x, three times", "is only 'x'", ANSWER=said("x", "x", "x")),
    RESEARCH.but("ok and done", "is only 'ok'", ANSWER=said("ok", "done", "fine")),
    RESEARCH.but("so it is", "is only 'So it is.'", ANSWER=said("So it is.", "So it is, too.", "And so it is.")),
    RESEARCH.but("lorem ipsum", "placeholder", ANSWER=said(LOREM, LOREM, LOREM)),
    RESEARCH.but("questions as answers", "repeats the question", ANSWER=said(*ASKED)),
    RESEARCH.but("questions with a frame as answers", "no word in common", ANSWER=said(*(f"The answer to {asked!r}: see there." for asked in ASKED))),
    RESEARCH.but("one answer for all", "has no word in common", ANSWER=said(*["Backups are kept for 35 days."] * 3)),
    research(
        "one answer and quote for two questions",
        ["How long are backups kept?", "Where are backups kept?"],
        [answer(1, "Backups are kept there.", KEPT), answer(2, "Backups are kept there.", KEPT)],
        refused="q2 has the same answer as q1",
    ),
    research(
        "one quote for two questions, in other words",
        ["How long are backups kept?", "Where are backups kept?"],
        [answer(1, "It says that backups are kept.", KEPT), answer(2, "Surely, backups are kept.", KEPT)],
        refused="same words of the same quotes",
    ),
    RESEARCH.but("one quote for all", "no word in common", ANSWER=answers(*({**one, "citations": [COUNT]} for one in ANSWERS["answers"]))),
    RESEARCH.but("a true quote about something else", "no word in common", ANSWER=answers(answer(1, "Nobody knows the period.", DEAD), *ANSWERS["answers"][1:])),
    RESEARCH.but("a quote too many", "quote number 2", ANSWER=answers(answer(1, "35 days", KEPT, COUNT), *ANSWERS["answers"][1:])),
    RESEARCH.but("a sentence again and again", "over and over", ANSWER=said("Backups are kept there. " * 9, *(one["text"] for one in ANSWERS["answers"][1:]))),
    RESEARCH.but("the prompt as insight", "copied from the instructions", RISE_ABOVE=insight(1, 2, 3, text=PROMPT)),
    RESEARCH.but("x as insight", "is only 'x'", RISE_ABOVE=insight(1, 2, 3, text="x")),
    RESEARCH.but("empty next questions", "is only", EXPAND={"adjacent_questions": [{**one, "text": text} for one, text in zip(NEXT["adjacent_questions"], ("x?", "ok?", "n/a"), strict=True)]}),
)  # fmt: skip
_IDLE_BUILDING = (
    BUILD.but("concepts of x", "is only 'x'", GROUNDING=each(BUILD.works["GROUNDING"], "concepts", text="x")),
    BUILD.but("concepts beside their quotes", "no word in common", GROUNDING={**BUILD.works["GROUNDING"], "concepts": [{"id": "k1", "text": "Invoices need a signature", "citations": [GROUP]}, BUILD.works["GROUNDING"]["concepts"][1]]}),
    BUILD.but("done when ok", "is only 'ok'", GROUNDING=each(BUILD.works["GROUNDING"], "plan", done_when="ok")),
    BUILD.but("results of x", "is only 'x'", MAKING=each(BUILD.works["MAKING"], "made", result="x")),
    BUILD.but("observed: yes", "is only 'yes'", MAKING=each(BUILD.works["MAKING"], "made", observed="yes")),
    BUILD.but("observed is the result again", "repeats `result`", MAKING=each(BUILD.works["MAKING"], "made", result="The runbook is there", observed="there is the runbook")),
    UNDERSTAND.but("objectives of x", "is only 'x'", CALIBRATE=each(CALIBRATE, "objectives", text="x")),
    UNDERSTAND.but("a lesson of lorem ipsum", "placeholder", TEACH=each(UNDERSTAND.works["TEACH"], "lessons", taught=LOREM)),
    UNDERSTAND.but("a lesson about something else", "no word in common", TEACH=each(UNDERSTAND.works["TEACH"], "lessons", taught="Invoices need two signatures.")),
)  # fmt: skip
_IDLE_DECIDING = (
    DECIDE.but("options with the same words", "says the same", FRAME=each(FRAME, "options", text="Keep 35 days")),
    DECIDE.but("options in another order", "says the same", FRAME={**FRAME, "options": [{"id": "o1", "text": "Keep 35 days"}, {"id": "o2", "text": "35 days: keep!"}]}),
    DECIDE.but("x for and against", "is only 'x'", WEIGH={**each(WEIGHED, "weighed", **{"for": "x", "against": "x"}), "choice": WEIGHED["choice"]}),
    DECIDE.but("no reason", "is only 'ok'", WEIGH={**WEIGHED, "choice": {"option": "o2", "reason": "ok"}}),
)  # fmt: skip
_IDLE_THINKING = (
    CLARIFICATION.but("points that mean x", "is only 'x'", READ=each(CLARIFICATION.works["READ"], "points", means="x")),
    CLARIFICATION.but("one reading twice", "says the same", DOUBT={"unclear": [{**CLARIFICATION.works["DOUBT"]["unclear"][0], "readings": ["90 days", "Days: 90"]}]}),
    CLARIFICATION.but("requirements tested by ok", "is only 'ok'", SPECIFY=each(CLARIFICATION.works["SPECIFY"], "requirements", test="ok")),
    FINDING.but("claims beside their quotes", "no word in common", GATHER={"evidence": [{**FINDING.works["GATHER"]["evidence"][0], "quotes": [SHIFT]}, FINDING.works["GATHER"]["evidence"][1]]}),
    ANALYSIS.but("parts of x and y", "is only 'x'", DECOMPOSE={"question": "x", "parts": [{"id": "p1", "text": "x"}, {"id": "p2", "text": "ok"}]}),
    ANALYSIS.but("one option three times", "says the same", WEIGH={**ANALYSIS.works["WEIGH"], "options": [{"id": f"o{n}", "text": text} for n, text in enumerate(("Ring the phones", "The phones: ring!", "ring phones"), 1)]}),
    ANALYSIS.but("drivers beside their quotes", "no word in common", DRIVERS={"drivers": [{**ANALYSIS.works["DRIVERS"]["drivers"][0], "text": "Invoices need signatures"}, ANALYSIS.works["DRIVERS"]["drivers"][1]]}),
    SYNTHESIS.but("a design of lorem ipsum", "placeholder", INTEGRATE={**SYNTHESIS.works["INTEGRATE"], "design": LOREM}),
    GENERATION.but("an artefact of x", "is only 'x'", PRODUCE={"made": [{"id": "m1", "as": "text", "text": "x"}]}),
    GENERATION.but("a review of words that are not there", "are not in", REVIEW=each(GENERATION.works["REVIEW"], "reviews", words="every restore is audited")),
    VALIDATION.but("evidence that is not in the artefact", "are not in", EXAMINE=each(VALIDATION.works["EXAMINE"], "evidence", words="every restore is audited")),
    VALIDATION.but("verdicts because of ok", "is only 'ok'", JUDGE=each(VALIDATION.works["JUDGE"], "verdicts", why="ok")),
)  # fmt: skip
CHEATS: tuple[Attempt, ...] = (
    *_NOT_READ,
    *_NOT_SEARCHED,
    *_IDLE_ANSWERS,
    *_IDLE_BUILDING,
    *_IDLE_DECIDING,
    *_IDLE_THINKING,
)
