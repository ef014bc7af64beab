"""How conditions compare texts and say what is missing."""

from __future__ import annotations

import pytest

from agents.engine.events import SourceFound
from agents.engine.work.gaps import (
    MOST_GAPS,
    MOST_NAMED,
    finding,
    folded,
    listing,
    new_sources,
    repeated_texts,
    shared_ids,
    short,
    unresolved_citations,
)
from tests.support.agents.agent_harness import ALTERED, ELSEWHERE, FLOWERS, NOWHERE, VARROA, WATER, WINTER, Pages


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("How is honey sold?", "how  is HONEY sold", True),
        ("Straße", "STRASSE", True),
        ("What is 2.5?", "What is 25?", False),
        ("Bees", "Bee", False),
        ("蜜蜂吃什么?", "蜜蜂吃什么?", True),
        ("???", "!!!", False),
        ("", "  ", True),
    ],
)
def test_texts_are_the_same_if_their_words_are(one: str, other: str, same: bool) -> None:  # noqa: FBT001 - a table's column
    assert (folded(one) == folded(other)) is same


def test_many_names_are_shown_as_some_and_the_number_of_others() -> None:
    assert listing(["a", "b"]) == "a, b"
    names = [f"q{n}" for n in range(MOST_NAMED + 3)]
    assert listing(names[:MOST_NAMED]).endswith(f"q{MOST_NAMED - 1}")
    assert listing(names).endswith(f"q{MOST_NAMED - 1} and 3 more")
    assert listing(["x" * 100]) == "x" * 60


def test_a_long_text_is_cut_where_a_word_ends() -> None:
    assert short("two\n  words", 20) == "two words"
    assert short("a" * 20, 20) == "a" * 20
    assert short("seven words are more than is wanted here", 20) == "seven words are..."


def test_a_finding_names_each_thing_once_and_not_too_many() -> None:
    assert finding(()).met
    assert finding((), "why").detail == "why"
    lacking = finding(["a", "b", "a"])
    assert (lacking.met, lacking.missing) == (False, ("a", "b"))
    many = finding([f"m{n}" for n in range(MOST_GAPS + 2)]).missing
    assert len(many) == MOST_GAPS + 1
    assert many[-1] == "and 2 more like this"
    assert len(finding([f"m{n}" for n in range(MOST_GAPS)]).missing) == MOST_GAPS


def test_ids_and_words_that_are_there_twice_are_named() -> None:
    a, b = {"id": "a", "text": "One thing"}, {"id": "b", "text": "another thing"}
    assert list(shared_ids([a], [b])) == []
    assert "a;" in next(iter(shared_ids([a], [b, a])))
    assert list(repeated_texts([a, b], "text")) == []
    assert list(repeated_texts([a, b, {"id": "c", "text": "one THING!"}], "text")) == [
        "c says the same as a: drop it or change it"
    ]


async def test_citations_that_do_not_resolve_are_named_by_their_item() -> None:
    work = {
        "made": [
            {"id": "s1", "shown_by": [WINTER, ALTERED]},
            {"id": "s2", "shown_by": [VARROA], "other": {"deep": [NOWHERE]}},
            {"id": "s3", "shown_by": [ELSEWHERE]},
        ]
    }
    told = await unresolved_citations(work, "made", Pages())
    assert [sentence.partition(": ")[0] for sentence in told] == [
        "made[s1].shown_by[1]",
        "made[s2].other.deep[0]",
        "made[s3].shown_by[0]",
    ]
    assert all("kilograms" not in sentence for sentence in told), "no text of a page is repeated"
    assert len(await unresolved_citations(work, "made", Pages(), frozenset({"s3", "s9"}))) == 1
    assert await unresolved_citations(work, "plan", Pages()) == []


def test_a_source_is_new_once() -> None:
    before, after = {"answers": [{"citations": [WINTER]}]}, {"answers": [{"citations": [VARROA, FLOWERS, WATER]}]}
    assert new_sources(before, after) == [SourceFound("kb:notes/garden.md")]
    assert new_sources(None, before) == [SourceFound("kb:notes/bees.md")]
