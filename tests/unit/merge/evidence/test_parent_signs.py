"""The places of a new section are compared by the sections that are there already."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge.merge.evidence.place.page_choice import (
    UnplacedText,
    begins_with_heading,
    candidate_parents,
    places_among_pages,
)
from knowledge.merge.evidence.place.parent_signs import ParentSigns, signs_of_parents
from knowledge.merge.evidence.place.place_trees import DEPTH, PARENT_TREES, stored_trees
from knowledge.merge.evidence.place.sister_pages import CandidatePage

ERRORS = CandidatePage(
    "errors.md",
    "# Errors\n\n## Error E10\n\n### Cause\n\nThe paper is torn.\n\n### Remedy\n\n1. Open the tray.\n2. Close it.\n\n"
    "## Error E11\n\n### Cause\n\nThe lamp is cold.\n\n### Remedy\n\n1. Wait.\n",
)
CARE = CandidatePage(
    "care.md", "# Care\n\n## How do I clean the lamp?\n\nWipe it.\n\n## How do I change the lamp?\n\nTurn it.\n"
)
PAGES = [ERRORS, CARE]
NEW = "## Error E12\n\n### Cause\n\nThe drum is worn.\n\n### Remedy\n\n1. Order a drum.\n"


def signs(text: str, found: tuple[tuple[str, tuple[str, ...]], ...] = ()) -> dict[tuple[str, str], ParentSigns]:
    """Return the signs by page and heading of the parent."""
    places = candidate_parents(UnplacedText(text, PAGES))
    rows = signs_of_parents(text, places, found)
    return {(one.page.path, one.parent.path[-1]): row for one, row in zip(places, rows, strict=True)}


def test_a_section_is_compared_with_the_sections_that_would_be_beside_it() -> None:
    found = signs(NEW)
    errors, care = found["errors.md", "Errors"], found["care.md", "Care"]
    assert (errors.inner, care.inner) == (1, 0)
    assert (errors.begins, care.begins) == (1, 0)
    assert errors.heading_form > care.heading_form
    assert errors.blocks_alike > care.blocks_alike > 0
    assert errors.headings > care.headings == 0


def test_a_question_fits_among_questions() -> None:
    found = signs("## How do I empty the tray?\n\nPull it out.\n")
    assert found["care.md", "Care"].heading_form > found["errors.md", "Errors"].heading_form


def test_a_section_found_by_search_speaks_for_the_section_that_holds_it() -> None:
    found = signs(NEW, (("care.md", ("Care", "How do I clean the lamp?")), ("errors.md", ("Errors",))))
    errors, care = found["errors.md", "Errors"], found["care.md", "Care"]
    assert care.found_inside < errors.found_inside
    assert care.page_found < errors.page_found


def test_a_page_that_has_the_heading_is_known_by_it() -> None:
    found = signs("## Error E10\n\nThe paper is wet.\n")
    assert found["errors.md", "Error E10"].named
    assert not found["care.md", "Care"].named


def test_other_sections_that_could_hold_a_section_are_offered_too() -> None:
    page = CandidatePage(
        "two.md", "# Set up\n\n## Box\n\nOpen it.\n\n# Lamps\n\n## Bulb\n\nTurn the bulb of the lamp.\n"
    )
    text = "## Lamp colours\n\nA lamp is red or green.\n"
    places = candidate_parents(UnplacedText(text, [page]))
    assert [(one.parent.path, one.other) for one in places] == [(("Lamps",), False), (("Set up",), True)]
    offered = places_among_pages(UnplacedText(text, [page]))
    assert {one.section for one in offered} == {"Lamps", "Set up"}


def test_a_section_whose_neighbours_have_the_heading_is_compared_and_one_that_has_it_is_named() -> None:
    text = "### Remedy\n\nWait for an hour.\n"
    page = CandidatePage("errors.md", f"{ERRORS.text}\n## Error E12\n\nThe drum is worn.\n")
    places = candidate_parents(UnplacedText(text, [page]))
    by_path = dict(zip([one.parent.path for one in places], signs_of_parents(text, places, ()), strict=True))
    assert set(by_path) == {
        ("Errors", "Error E10", "Remedy"),
        ("Errors", "Error E11", "Remedy"),
        ("Errors", "Error E12"),
    }
    lacking, having = by_path["Errors", "Error E12"], by_path["Errors", "Error E10", "Remedy"]
    assert (lacking.has, lacking.beside, lacking.other) == (0, 1, 1)
    assert (having.has, having.other) == (1, 0)


def test_a_page_in_the_language_of_the_text_is_known_by_it() -> None:
    german = CandidatePage(
        "de/pflege.md",
        "# Pflege\n\n## Lampe\n\nDie Lampe wird nicht mit Wasser und auch nicht mit der Hand gereinigt.\n",
    )
    text = "## Drum\n\nThe drum is cleaned with a cloth, and it is not touched by hand.\n"
    places = candidate_parents(UnplacedText(text, [CARE, german]))
    rows = signs_of_parents(text, places, ())
    same = {one.page.path: row.same_language for one, row in zip(places, rows, strict=True)}
    assert same == {"care.md": 1, "de/pflege.md": 0}


def test_a_section_is_offered_the_page_of_sections_like_it() -> None:
    places = places_among_pages(UnplacedText(NEW, PAGES))
    assert (places[0].path, places[0].section) == ("errors.md", "")
    assert len({(one.path, one.section) for one in places}) == len(places)


@settings(max_examples=60)
@given(st.text(max_size=120), st.lists(st.text(max_size=80), min_size=1, max_size=3))
def test_every_section_has_finite_signs_and_places_on_any_pages(text: str, pages: list[str]) -> None:
    section = f"## {text}"
    there = [CandidatePage(f"{number}.md", page) for number, page in enumerate(pages)]
    if begins_with_heading(section):
        rows = signs_of_parents(section, candidate_parents(UnplacedText(section, there)), ())
        assert rows
        assert all(math.isfinite(sign) for row in rows for sign in row)
    assert 1 <= len(places_among_pages(UnplacedText(section, there))) <= 3


def test_the_stored_trees_are_complete_and_none_outweighs_the_rest() -> None:
    trees = stored_trees(PARENT_TREES, ParentSigns._fields)
    questions = 2**DEPTH - 1
    assert trees.signs.shape == trees.thresholds.shape == (len(trees.leaves), questions)
    assert trees.leaves.shape == (len(trees.leaves), questions + 1)
    assert trees.signs.max() < len(ParentSigns._fields)
    assert abs(trees.leaves).max() < 1
