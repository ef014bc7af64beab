"""Sections of several pages are compared by how the text would fit in among what is there."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge.merge.evidence.place.page_choice import UnplacedText, candidate_places, places_among_pages
from knowledge.merge.evidence.place.place_signs import PlaceSigns, signs_of_places
from knowledge.merge.evidence.place.place_trees import DEPTH, PLACE_TREES, corrected, stored_trees
from knowledge.merge.evidence.place.sister_pages import CandidatePage

STEPS = CandidatePage(
    "scanners.md",
    "# Scanners\n\n## Set up\n\n1. Open the box of the scanner.\n2. Plug the scanner in.\n3. Wait for the lamp.\n\n"
    "## Limits\n\nThe scanner reads these sizes:\n\n- A4\n- A5\n\nThe glass is small.\n",
)
ROOMS = CandidatePage("rooms.md", "# Rooms\n\n## Room 5\n\nThe scanner is in room 5.\n\n## Room 6\n\nEmpty.\n")
PAGES = [STEPS, ROOMS]


def signs(text: str, found: tuple[tuple[str, tuple[str, ...]], ...] = ()) -> dict[tuple[str, str], PlaceSigns]:
    """Return the signs by page and last heading."""
    places = candidate_places(UnplacedText(text, PAGES))
    rows = signs_of_places(text, places, found)
    return {(one.path, one.section.path[-1]): row for one, row in zip(places, rows, strict=True)}


def test_a_numbered_step_fits_a_list_that_it_could_continue() -> None:
    found = {number: signs(f"{number}. Press the button.\n") for number in (1, 4, 9)}
    assert [found[number]["scanners.md", "Set up"].numbered for number in (1, 4, 9)] == [1, 2, 1]
    assert {row.numbered for of in found.values() for (_, name), row in of.items() if name != "Set up"} == {0}


def test_a_text_that_ends_with_a_colon_fits_where_lists_are_led_in() -> None:
    found = signs("The lamp of the scanner has these colours:\n")
    limits, room = found["scanners.md", "Limits"], found["rooms.md", "Room 5"]
    assert (limits.led_to, room.led_to) == (1, 0)
    assert limits.leads_in > room.leads_in > 0
    assert {row.leads_in for row in signs("The lamp is green.\n").values()} == {0}


def test_a_section_that_search_finds_first_has_the_first_rank() -> None:
    found = signs("The lamp is green.\n", (("rooms.md", ("Rooms", "Room 6")), ("scanners.md", ("Scanners", "Limits"))))
    ranked = sorted(found, key=lambda place: found[place].found)
    assert ranked[:2] == [("rooms.md", "Room 6"), ("scanners.md", "Limits")]


def test_words_that_are_in_a_section_and_not_on_its_page_speak_for_the_section() -> None:
    found = signs("Its glass is small and breaks.\n")
    assert found["scanners.md", "Limits"].own_words > 0 > found["scanners.md", "Set up"].own_words
    assert found["scanners.md", "Limits"].bm25_rank == found["scanners.md", "Limits"].cosine_rank == 0


def test_a_text_says_most_of_what_the_text_most_like_it_says() -> None:
    found = signs("The scanner stays in room 5.\n")
    assert max(found, key=lambda place: found[place].says) == ("rooms.md", "Room 5")


def test_words_in_the_same_order_speak_for_a_section() -> None:
    page = CandidatePage(
        "keys.md", "# Keys\n\n## Order\n\nThe spare key opens the back door.\n\n## Words\n\nDoor, key, back, spare.\n"
    )
    places = candidate_places(UnplacedText("Hang the spare key near the back door.\n", [page]))
    rows = signs_of_places("Hang the spare key near the back door.\n", places, ())
    found = {one.section.path[-1]: row for one, row in zip(places, rows, strict=True)}
    assert found["Words"].covered > 0
    assert found["Order"].pairs > found["Words"].pairs == 0
    assert found["Order"].stop_words > found["Words"].stop_words


def test_a_word_of_the_heading_speaks_for_its_section() -> None:
    found = signs("All limits are printed below.\n")
    assert found["scanners.md", "Limits"].of_heading == 1
    assert found["scanners.md", "Limits"].rarest_above > found["scanners.md", "Set up"].rarest_above == 0


def test_a_section_that_search_finds_late_is_behind_the_first_of_its_page() -> None:
    found = signs("The lamp is green.\n", (("rooms.md", ("Rooms", "Room 6")), ("rooms.md", ("Rooms", "Room 5"))))
    assert found["rooms.md", "Room 5"].behind > found["rooms.md", "Room 6"].behind == 0
    assert found["scanners.md", "Limits"].behind == 0


def test_a_text_begins_like_its_neighbours() -> None:
    found = signs("2. Plugging it in takes a minute.\n")
    other = signs("2. Turn the lamp to green.\n")
    assert other["scanners.md", "Set up"].begins_alike > found["scanners.md", "Set up"].begins_alike


def test_the_page_about_a_subject_is_offered_however_short_it_is() -> None:
    animals = ("Lions", "Tigers", "Bears", "Wolves", "Foxes", "Horses")
    sections = (
        "## Food\n\n{0} eat at night.\n\nThe keeper brings it.\n\nThey drink water too.\n",
        "## Sleep\n\n{0} lie down.\n\nThe lamp is off.\n\nThe keeper sleeps too.\n",
        "## Keepers\n\nTwo for the {0}.\n\nThey work in turns.\n\nEach has a key.\n",
    )
    pages = [
        CandidatePage(f"{name}.md", "\n".join((f"# {name}\n\n{name} live in the zoo.\n", *sections)).format(name))
        for name in animals
    ]
    zebras = CandidatePage("zebras.md", "# Zebras\n\nZebras are striped.\n")
    places = places_among_pages(UnplacedText("Zebras have stripes of their own pattern.\n", [*pages, zebras]))
    assert places[0].path == "zebras.md"


@settings(max_examples=60)
@given(st.text(max_size=120), st.lists(st.text(max_size=80), min_size=1, max_size=3))
def test_every_text_has_finite_signs_and_places_on_any_pages(text: str, pages: list[str]) -> None:
    there = [CandidatePage(f"{number}.md", page) for number, page in enumerate(pages)]
    places = candidate_places(UnplacedText(text, there))
    rows = signs_of_places(text, places, ())
    assert len(rows) == len(places) > 0
    assert all(math.isfinite(sign) for row in rows for sign in row)
    trees = stored_trees(PLACE_TREES, PlaceSigns._fields)
    assert all(math.isfinite(score) for score in corrected(np.array(rows, dtype=np.float64), trees))
    assert 1 <= len(places_among_pages(UnplacedText(text, there))) <= 3


def test_the_stored_trees_are_complete_and_none_outweighs_the_rest() -> None:
    trees = stored_trees(PLACE_TREES, PlaceSigns._fields)
    questions = 2**DEPTH - 1
    assert trees.signs.shape == trees.thresholds.shape == (len(trees.leaves), questions)
    assert trees.leaves.shape == (len(trees.leaves), questions + 1)
    assert trees.signs.max() < len(PlaceSigns._fields)
    assert abs(trees.leaves).max() < 1
