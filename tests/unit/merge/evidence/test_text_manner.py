"""A text is compared with the manner in which the texts of a page and of a section are written."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge.merge.evidence.place.text_manner import MANNERS, manner_fits, manner_of

RULES = ["You must lock the door.", "You must not smoke here.", "You should close your window."]
FACTS = ["Room 5 was painted in 1999.", "Room 6 was painted in 2004.", "Room 7 was empty."]


def test_a_rule_fits_the_page_of_rules() -> None:
    rule, fact = "You must wear a badge.", "Room 8 was rented in 2010."
    pages = [0, 1]
    of_rule, of_fact = manner_fits(rule, [RULES, FACTS], pages), manner_fits(fact, [RULES, FACTS], pages)
    assert of_rule[0].page > 0 > of_rule[1].page
    assert of_fact[1].page > 0 > of_fact[0].page


def test_a_section_is_compared_with_its_own_page() -> None:
    found = manner_fits("You must wear a badge.", [RULES, FACTS, RULES], [0, 0, 1])
    assert found[0].section > 0 > found[1].section
    assert abs(found[2].section) < found[0].section
    assert found[0].page == found[1].page != found[2].page


def test_a_section_without_texts_is_like_its_page() -> None:
    found = manner_fits("You must wear a badge.", [RULES, []], [0, 0])
    assert found[1].section == 0
    assert found[1].page == found[0].page


def test_a_bold_name_and_a_question_are_manners() -> None:
    plain = manner_of("A badge is a card.")
    assert (manner_of("**Badge**: a card.") != plain).any()
    assert (manner_of("- **Badge** — a card.") != manner_of("- Badge, a card.")).any()
    assert (manner_of("Is a badge a card?") != plain).any()
    assert len(plain) == len(MANNERS)


def test_bullets_are_no_manner() -> None:
    assert (manner_of("- A badge is a card.") == manner_of("* A badge is a card.")).all()


@settings(max_examples=60)
@given(st.text(max_size=80), st.lists(st.lists(st.text(max_size=60), max_size=3), min_size=1, max_size=5))
def test_every_text_has_a_finite_fit_everywhere(text: str, sections: list[list[str]]) -> None:
    found = manner_fits(text, sections, [number // 2 for number in range(len(sections))])
    assert len(found) == len(sections)
    assert all(math.isfinite(value) for one in found for value in one)
