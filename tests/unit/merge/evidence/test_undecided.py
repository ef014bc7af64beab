"""Text that a language model doubts is held back for a person; everything else follows the rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge.merge.document.unit_origins import PageFacts
from knowledge.merge.document.units import cut, units
from knowledge.merge.evidence.confidence import DEFAULT_RULES
from knowledge.merge.evidence.merge import weigh
from knowledge.merge.evidence.undecided import LONGEST, MOST_CHARACTERS, MOST_OF_ONE, MOST_PAIRS, Pair, undecided
from knowledge.merge.model import Doubt, IncomingEvidence, MergePlan, Origin, unit_digest
from knowledge.merge.setting import MergeSetting
from tests.benchmarks.contradictions import load
from tests.unit.merge.evidence.weighed_plans import CHAT, CODE, NOW

PAGE = """# Payments

The payment service is written in Go. Ada owns it.

- Invoices are sent out by the finance team.
- It retries 3 times.

## Deploying

Releases go out on Fridays after lunch.

| limit | value |
|---|---|
| retries | 3 |
"""
GO, RUST = "The payment service is written in Go.", "Rust is the language that the payment service is made with."
PAIRS = [pair for pair in load() if pair.language == "en" and "\n" not in pair.existing + pair.new]
STATEMENTS = st.sampled_from([pair for pair in PAIRS if not pair.existing.startswith("|")])


def origins_of(page: str, held_by: str) -> list[Origin]:
    since = NOW - timedelta(days=300)
    return [Origin(unit_digest(unit.text), unit.section, held_by, 0.5, since, "r0") for unit in units(cut(page))]


def weighed(
    content: str, doubts: Sequence[Doubt] = (), page: str = PAGE, *, source: str = CODE, against: Sequence[str] = ()
) -> MergePlan:
    return weigh(
        cut(page),
        cut(content),
        IncomingEvidence(source, NOW, against=tuple(against), doubts=tuple(doubts)),
        setting(page),
    )


def asked(content: str, page: str = PAGE, *, source: str = CODE) -> tuple[Pair, ...]:
    return undecided(cut(page), cut(content), IncomingEvidence(source, NOW), setting(page))


def setting(page: str) -> MergeSetting:
    facts = PageFacts("page.md", "user", NOW, tracked=True)
    return MergeSetting(facts, origins_of(page, CHAT), DEFAULT_RULES, NOW, "r1", "")


def doubt(existing: str, new: str) -> Doubt:
    return Doubt(existing, new, "openai:some-model", "what is used or done", 0.9)


def words(plan: MergePlan) -> list[str]:
    return [verdict.verdict for verdict in plan.verdicts]


def test_what_is_doubted_is_flagged_with_both_statements_and_not_written() -> None:
    plan = weighed(f"{RUST} It is small.", [doubt(GO, RUST)])
    assert (plan.text, words(plan)) == (PAGE, ["flag"])
    (found,) = plan.contradictions
    assert (found.kind, found.existing.text, found.new.text) == ("model", GO, RUST)
    assert (
        found.reason
        == "according to openai:some-model, both cannot be true: they differ in what is used or done (0.90 sure)"
    )


@pytest.mark.parametrize(
    ("existing", "new"),
    [
        ("The payment service is written in Go", RUST),
        ("Ada owns it.", "Rust is the language"),
        ("| retries | 3 |", RUST),
        ("# Payments", RUST),
        ("", ""),
    ],
    ids=["not word for word", "part of what is new", "a row", "a heading", "nothing"],
)
def test_a_doubt_counts_only_for_statements_that_stand_there_word_for_word(existing: str, new: str) -> None:
    plan = weighed(RUST, [doubt(existing, new)])
    assert (plan.text, plan.contradictions) == (weighed(RUST).text, ())


def test_what_is_said_already_or_flagged_by_a_rule_is_not_doubted() -> None:
    """A model changes neither."""
    same = weighed("It retries 3 times.", [doubt("It retries 3 times.", "It retries 3 times.")])
    assert words(same) == ["unchanged"]
    other = weighed("It retries 5 times.", [doubt("Ada owns it.", "It retries 5 times.")])
    assert [found.kind for found in other.contradictions] == ["number"]


def test_what_becomes_of_the_rest_is_what_would_become_of_it_without_the_model() -> None:
    """A statement that is held back doesn't justify another one, which would not have been written there."""
    page = "# Files\n\nEvery file is checked for viruses.\n\nUploads are slow on Mondays.\n"
    first, second = (
        "Every uploaded file is checked for viruses at once.",
        "Every file is checked for viruses and worms.",
    )
    content = f"{first}\n\n{second}\n"
    assert words(weighed(content, page=page)) == ["update", "integrate"]
    plan = weighed(content, [doubt("Uploads are slow on Mondays.", first)], page)
    assert words(plan) == ["flag", "integrate"]
    assert plan.text == page.replace("viruses.\n", f"viruses.\n\n{second}\n")


def test_what_is_set_apart_by_headings_is_not_doubted() -> None:
    page = "# Memory\n\n## Linux\n\nThe service needs 4 GB of memory.\n\n## Windows\n\nIt is slower there.\n"
    content = "## Windows\n\nThe service needs 8 GB of memory.\n"
    doubts = [doubt("The service needs 4 GB of memory.", "The service needs 8 GB of memory.")]
    assert weighed(content, doubts, page) == weighed(content, page=page)
    assert asked(content, page) == ()


def test_a_source_is_not_held_against_itself() -> None:
    plan = weighed(RUST, [doubt(GO, RUST)], source=CHAT)
    assert (plan.contradictions, plan.text) == ((), weighed(RUST, source=CHAT).text)


def test_what_a_person_decided_against_gives_way() -> None:
    plan = weighed(RUST, [doubt(GO, RUST)], against=[GO])
    assert plan.text == PAGE.replace(GO, RUST)
    assert plan.contradictions == ()


@settings(max_examples=30)
@given(st.lists(STATEMENTS, min_size=1, max_size=5), st.data())
def test_whatever_a_model_doubts_nothing_is_written_that_would_not_be_without_it(
    chosen: list[object], data: st.DataObject
) -> None:
    """Adds, never overrules."""
    pairs = [pair for pair in PAIRS if pair in chosen]
    page = "# Page\n\n" + "\n\n".join(pair.existing for pair in pairs) + "\n"
    content = "\n\n".join(f"- {pair.new}" if at % 2 else pair.new for at, pair in enumerate(pairs))
    said = [text for pair in pairs for text in (pair.existing, pair.new)]
    near = [(pair.existing, pair.new) for pair in asked(content, page)]
    named = data.draw(st.lists(st.sampled_from([*near, *((old, new) for old in said for new in said)]), max_size=6))
    alone, doubted = weighed(content, page=page), weighed(content, [doubt(*pair) for pair in named], page)
    before, without, with_model = (Counter(text.split("\n")) for text in (page, alone.text, doubted.text))
    assert not (with_model - before) - (without - before)
    assert not (before - with_model) - (before - without)
    rules = {(found.existing.text, found.new.text) for found in alone.contradictions}
    told = {(found.existing.text, found.new.text): found.kind for found in doubted.contradictions}
    assert rules <= {pair for pair, kind in told.items() if kind != "model"}
    flagged = {pair for pair, kind in told.items() if kind == "model"}
    assert flagged <= set(named)
    assert not [new for _, new in flagged if new in doubted.text and new not in page]


# What is asked


def test_what_is_near_and_undecided_is_asked_about_once() -> None:
    (pair,) = asked(f"{RUST}\n\n{RUST}\n")
    assert pair == Pair(GO, RUST, "Payments", "")


@pytest.mark.parametrize(
    ("content", "source"),
    [
        (GO, CODE),
        ("It retries 5 times.", CODE),
        (RUST, CHAT),
        ("Kittens sleep all day.", CODE),
        ("| retries | 5 |", CODE),
        ("```\nThe payment service is written in Rust.\n```", CODE),
    ],
    ids=["there already", "flagged by rules", "its own source", "something else", "a row", "code"],
)
def test_what_is_decided_or_is_no_statement_is_not_asked_about(content: str, source: str) -> None:
    assert asked(content, source=source) == ()


def test_a_question_is_bounded_whatever_comes() -> None:
    page = "# Page\n\n" + "".join(
        f"The payment service number {n} is written in Go by team {n}.\n\n" for n in range(200)
    )
    new = "".join(f"The payment service is written in Rust by crew {chr(97 + n % 26)}{n}.\n\n" for n in range(80))
    long = f"The payment service {'really ' * LONGEST} is slow.\n"
    pairs = asked(new + long, page)
    assert 0 < len(pairs) <= MOST_PAIRS
    assert max(Counter(pair.new for pair in pairs).values()) <= MOST_OF_ONE
    assert sum(len(text) for pair in pairs for text in pair) <= MOST_CHARACTERS
    assert not [pair for pair in pairs if len(pair.new) > LONGEST]
