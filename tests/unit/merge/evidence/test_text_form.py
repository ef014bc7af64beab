"""A text fits where others are written like it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.merge.evidence.place.page_choice import UnplacedText, places_among_pages
from knowledge.merge.evidence.place.sister_pages import CandidatePage
from knowledge.merge.evidence.place.text_form import FORMS, form_fits, form_of

STEPS = ("1. Open the settings of the shop.\n", "2. Choose the scanner and save.\n")
NAMES = ("- **Ada**: scanners\n", "- **Ben**: printers\n")
ASKED = ("- Who buys scanners?\n", "- Who repairs printers?\n")


@pytest.mark.parametrize(
    ("text", "fitting"),
    [
        ("3. Scan a page, then send it to Ada.\n", STEPS),
        ("- **Cyd**: phones and scanners\n", NAMES),
        ("* Who lends phones and scanners?\n", ASKED),
    ],
)
def test_a_text_fits_best_where_others_are_written_like_it(text: str, fitting: tuple[str, str]) -> None:
    there = (STEPS, NAMES, ASKED, ())
    fits = form_fits(text, there)
    assert max(range(len(there)), key=fits.__getitem__) == there.index(fitting)
    assert fits[there.index(fitting)] > fits[there.index(())] == 0


def test_bullets_and_wrapped_lines_are_no_form() -> None:
    """A host writes them in its own way, so they say nothing about the place."""
    text = "- A scanner reads a page and writes it to the disk of the shop, where the printers find it within a minute or two.\n"
    wrapped = text.replace("- ", "*   ").replace("disk of the ", "disk of the\n    ")
    assert len({form_of(one) for one in (text, wrapped, f"  {text}")}) == 1


@given(st.text(max_size=200), st.lists(st.lists(st.text(max_size=80), max_size=4), max_size=4))
def test_every_text_has_a_fit_in_every_section(text: str, sections: list[list[str]]) -> None:
    fits = form_fits(text, sections)
    assert len(fits) == len(sections)
    assert all(fit == 0 for fit, section in zip(fits, sections, strict=True) if not section)
    assert len(form_of(text)) == len(FORMS)


def test_of_two_pages_about_the_same_the_one_with_such_items_is_offered_first() -> None:
    about = "# {}\n\n## Scanners\n\n"
    pages = [
        CandidatePage("a.md", about.format("Rooms") + "- The scanner is in room 5.\n- The scanner is new.\n"),
        CandidatePage("b.md", about.format("Doors") + "- Is the scanner old?\n- Where is the scanner?\n"),
    ]
    for ordered in (pages, pages[::-1]):
        found = places_among_pages(UnplacedText("- Who may use the scanner?\n", ordered))
        assert (found[0].path, found[0].section) == ("b.md", "Doors > Scanners")
        other = places_among_pages(UnplacedText("- The scanner may be used.\n", ordered))
        assert next(one.fit for one in other if one.path == "a.md") > next(
            one.fit for one in found if one.path == "a.md"
        )
