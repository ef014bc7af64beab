"""Names of things in other services: one match is that thing, two lead to a question, and none lists the nearest."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_server.connectors.errors import AmbiguousServiceName, UnknownName
from mcp_server.connectors.text.name_match import chosen, loosened, unaccented

Person = tuple[str, ...]
ANNA = ("Anna Keller", "anna", "anna@example.com", "11")
BORIS = ("Борис Ёлкин", "boris", "boris@example.com", "12")
ZOE = ("Zoë Müller", "zoe", "zoe@example.com", "13")
PEOPLE = (ANNA, BORIS, ZOE)
STATES = (("Backlog",), ("Todo",), ("In Progress",), ("Done",), ("Cancelled",))

names = st.text(min_size=1, max_size=24)
words = st.text(st.characters(categories=("Ll", "Lu", "Nd"), max_codepoint=0x2AF), min_size=1, max_size=12)


def found(asked: str, things: Sequence[Person] = PEOPLE) -> Person:
    return chosen("Plane", "member", asked, things, lambda thing: thing)


def outcome(asked: str, things: Sequence[Person]) -> tuple[type[object], tuple[str, ...]]:
    """Return the thing, or the candidates, and which of the two it is."""
    try:
        return str, found(asked, things)
    except (UnknownName, AmbiguousServiceName) as error:
        return type(error), error.candidates


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ("11", ANNA),
        ("Anna Keller", ANNA),
        ("ANNA@EXAMPLE.COM", ANNA),
        ("  anna   keller ", ANNA),
        ("@anna", ANNA),
        ("Ａｎｎａ Ｋｅｌｌｅｒ", ANNA),  # noqa: RUF001 - letters of full width are what is tried
        ("Keller", ANNA),
        ("anna kel", ANNA),
        ("Anna Kellre", ANNA),
        ("anna-keller", ANNA),
        ("zoe muller", ZOE),
        ("Zoe\u0308 Mu\u0308ller", ZOE),
        ("борис ёлкин", BORIS),
        ("Борис Елкин", BORIS),
        ("Бориз Ёлкин", BORIS),
    ],
)
def test_a_person_is_found_by_names_that_people_type(asked: str, meant: Person) -> None:
    assert found(asked) == meant


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ("in progress", "In Progress"),
        ("In-Progress", "In Progress"),
        ("in_progress", "In Progress"),
        ("🚀 In Progress", "In Progress"),
        ("progress", "In Progress"),
        ("Canceled", "Cancelled"),
        ("Bakclog", "Backlog"),
        ("TODO", "Todo"),
    ],
)
def test_a_state_is_found_by_names_that_people_type(asked: str, meant: str) -> None:
    assert found(asked, STATES) == (meant,)


@pytest.mark.parametrize(
    ("asked", "things"),
    [
        ("Sprint 13", [("Sprint 12",), ("Planning",)]),  # another number is another thing
        ("Sprint 1", [("Sprint 12",)]),
        ("v1.2", [("v1.3",)]),
        ("unresolvable", [("resolvable",)]),  # the opposite is no typo
        ("bug", [("bag",)]),  # short words are too near to each other
        ("anne@example.com", [ANNA]),  # nobody else's address
        ("ann@exam", [ANNA]),
        ("1", [ANNA]),  # nor half of an id
        (str(UUID(int=7)), [("Task", str(UUID(int=8)))]),
        ("00000000", [("Task", str(UUID(int=8)))]),
        ("", PEOPLE),
        ("  ", PEOPLE),
        ("!!!", [("Anna!",), ("???",)]),
        ("nobody at all", PEOPLE),
    ],
)
def test_a_merely_similar_name_is_not_taken(asked: str, things: Sequence[Person]) -> None:
    with pytest.raises(UnknownName) as unknown:
        found(asked, things)
    assert set(unknown.value.candidates) == {thing[0] for thing in things}


@pytest.mark.parametrize(
    ("asked", "things", "candidates"),
    [
        ("design", [("Design System",), ("Design Reviews",), ("Ops",)], {"Design System", "Design Reviews"}),
        ("meetin", [("meeting",), ("meetings",), ("ops",)], {"meeting", "meetings"}),
        ("serwer", [("server",), ("sewer",), ("ops",)], {"server", "sewer"}),
        ("BUG", [("bug",), ("Bug",)], {"bug", "Bug"}),
        (
            "Anna",
            [("Anna", "a@example.com"), ("Anna", "b@example.com")],
            {"Anna (a@example.com)", "Anna (b@example.com)"},
        ),
    ],
)
def test_two_matches_lead_to_a_question(asked: str, things: Sequence[Person], candidates: set[str]) -> None:
    with pytest.raises(AmbiguousServiceName) as ambiguous:
        found(asked, things)
    assert set(ambiguous.value.candidates) == candidates
    assert len(str(ambiguous.value)) <= 280


@pytest.mark.parametrize("asked", ["Keller", "anna kel", "Anna Kellre", "anna-keller", "@anna", "Anna Keller!"])
def test_an_act_takes_no_near_name(asked: str) -> None:
    with pytest.raises(UnknownName) as unknown:
        chosen("Plane", "member", asked, PEOPLE, lambda thing: thing, near=False)
    assert unknown.value.candidates[0] == "Anna Keller"


@pytest.mark.parametrize(
    ("asked", "meant"),
    [("ANNA  keller", ANNA), ("zoe muller", ZOE), ("Борис Елкин", BORIS), ("anna@EXAMPLE.com", ANNA)],
)
def test_an_act_takes_a_name_in_other_case_spacing_and_accents(asked: str, meant: Person) -> None:
    assert chosen("Plane", "member", asked, PEOPLE, lambda thing: thing, near=False) == meant


@given(st.lists(names.filter(str.strip), min_size=1, max_size=8, unique_by=lambda name: name.strip()), names)
def test_an_act_never_takes_what_is_spelt_otherwise(shown: list[str], asked: str) -> None:
    try:
        (name,) = chosen("Plane", "member", asked, [(name,) for name in shown], lambda thing: thing, near=False)
    except (UnknownName, AmbiguousServiceName):
        return
    assert unaccented(asked) == unaccented(name)


def test_an_exact_name_wins_over_a_similar_one() -> None:
    things = [("bug",), ("Bug",), ("bugs",), ("BUG",)]
    assert [found(asked, things) for asked in ("bug", "Bug", "bugs", "BUG")] == things


def test_the_nearest_candidates_come_first() -> None:
    with pytest.raises(UnknownName) as unknown:
        found("in review", (*STATES, ("Under review",), ("Reviewed",)))
    assert set(unknown.value.candidates[:2]) == {"Under review", "Reviewed"}
    assert len(unknown.value.candidates) == len(STATES) + 2


def test_a_thousand_candidates_and_a_long_name_fit_into_a_short_sentence() -> None:
    things = [(f"a rather long name of something, number {number}",) for number in range(1000)]
    with pytest.raises(UnknownName) as unknown:
        found("xyz " * 100, things)
    assert len(unknown.value.candidates) == 1000
    assert len(str(unknown.value)) <= 280


@given(st.lists(names.filter(str.strip), min_size=1, max_size=8, unique_by=lambda name: name.strip()), st.data())
def test_a_shown_name_always_finds_its_thing(shown: list[str], data: st.DataObject) -> None:
    asked = data.draw(st.sampled_from(shown))
    assert found(asked, [(name,) for name in shown]) == (asked,)


@given(st.lists(words, min_size=1, max_size=6, unique_by=loosened), st.data())
def test_case_and_form_never_matter_where_one_thing_has_the_name(shown: list[str], data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(shown))
    asked = data.draw(st.sampled_from([name.upper().lower(), unicodedata.normalize("NFD", name), f" {name} "]))
    if loosened(asked) == loosened(name):
        assert found(asked, [(one,) for one in shown]) == (name,)


@given(names, st.lists(names, max_size=8))
def test_any_name_gives_one_thing_or_all_of_them_or_a_choice(asked: str, shown: list[str]) -> None:
    things = [(name,) for name in shown]
    kind, names_told = outcome(asked, things)
    if kind is UnknownName:
        assert sorted(names_told) == sorted(shown)
    elif kind is AmbiguousServiceName:
        assert len(names_told) >= 2
    else:
        assert names_told in things


@given(names, st.lists(words, min_size=1, max_size=6, unique=True))
def test_the_order_of_things_changes_nothing(asked: str, shown: list[str]) -> None:
    things = [(name,) for name in shown]
    (kind, told), (again, told_again) = outcome(asked, things), outcome(asked, things[::-1])
    assert (kind, sorted(told)) == (again, sorted(told_again))


@given(words, words)
def test_a_number_is_never_taken_for_another(one: str, other: str) -> None:
    numbers = [re.findall(r"\d+", loosened(name)) for name in (one, other)]
    if numbers[0] and numbers[0] != numbers[1] and not set(numbers[0]) <= set(numbers[1]):
        with pytest.raises(UnknownName):
            found(one, [(other,)])
