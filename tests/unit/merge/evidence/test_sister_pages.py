"""A section that the pages of a template have belongs to the page that lacks it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.merge.evidence.place.page_choice import UnplacedText, places_among_pages
from knowledge.merge.evidence.place.sister_pages import (
    MOST_SISTERS,
    CandidatePage,
    SisterSearch,
    folders_of_sisters,
    sister_signs,
    sisters_among,
)

COMMAND = "# {0}\n\nThe command {0}.\n\n## Options\n\n`--quiet`\n\n## Environment\n\nNone.\n"
STATUS = "## Exit status\n\n0 if the command succeeded, 1 if it failed.\n"
LACKING = CandidatePage("cmd/tidy.md", COMMAND.format("tidy"))
HAVING = [CandidatePage(f"cmd/{name}.md", COMMAND.format(name) + f"\n{STATUS}") for name in ("build", "check", "fetch")]
UNLIKE = CandidatePage("cmd/history.md", "# History\n\n## Early years\n\nThe command was slow.\n")


def test_a_section_of_a_template_is_offered_the_sister_page_that_lacks_it() -> None:
    found = places_among_pages(UnplacedText(STATUS, [*HAVING, UNLIKE, LACKING]))
    assert (found[0].path, found[0].section) == ("cmd/tidy.md", "")


def test_sister_pages_are_looked_for_in_the_folders_of_two_pages_with_the_heading() -> None:
    elsewhere = CandidatePage("notes/exit.md", HAVING[0].text)
    assert folders_of_sisters(SisterSearch(STATUS, [elsewhere, *HAVING, UNLIKE])) == ["cmd"]
    assert folders_of_sisters(SisterSearch(STATUS, [elsewhere, HAVING[0], UNLIKE])) == []


@pytest.mark.parametrize("content", ["A command exits with 0.\n", "It exits.\n\n## Exit status\n\n0\n", ""])
def test_a_text_that_begins_without_a_heading_has_no_sister_pages(content: str) -> None:
    assert not folders_of_sisters(SisterSearch(content, HAVING))
    assert not any(map(any, sister_signs(content, [page.text for page in HAVING])))


def test_only_pages_that_lack_the_heading_and_have_others_of_the_template_are_sisters() -> None:
    search = SisterSearch(STATUS, HAVING[:2], [HAVING[2], UNLIKE, LACKING])
    assert sisters_among(search) == [LACKING]
    many = [CandidatePage(f"cmd/{number}.md", COMMAND.format("x")) for number in range(MOST_SISTERS + 5)]
    assert len(sisters_among(SisterSearch(STATUS, HAVING, many))) == MOST_SISTERS


def test_a_heading_is_compared_without_case_markup_and_closing_hashes() -> None:
    variants = ["## **exit** status ##\n", "### Exit Status:\n"]
    signs = sister_signs(STATUS, [*variants, LACKING.text])
    assert [sign.has_heading for sign in signs] == [1.0, 1.0, 0.0]


@given(st.text(max_size=200), st.lists(st.text(max_size=100), max_size=4))
def test_the_signs_of_any_text_are_between_0_and_1(content: str, texts: list[str]) -> None:
    signs = sister_signs(content, texts)
    assert len(signs) == len(texts)
    assert all(0 <= value <= 1 for sign in signs for value in sign)


LINKED = CandidatePage(
    "tools/scanner.md",
    "# Scanner\n\nThe scanner reads pages.\n\n## Use\n\nPut the page on the glass.\n\n## See also\n\n"
    "- [Printer](printer.md), the other device\n- [Paper](paper.md), its supply\n",
)


def test_an_item_that_begins_with_a_link_is_offered_the_section_of_links() -> None:
    item = "- [Glass of the scanner](glass.md), its supply\n"
    offered = {place.section for place in places_among_pages(UnplacedText(item, [LINKED]))}
    assert "Scanner > See also" in offered


def test_any_other_text_is_not_offered_the_section_of_links() -> None:
    places = places_among_pages(UnplacedText("The supply of paper, the other device, is used up.\n", [LINKED]))
    assert "Scanner > See also" not in {place.section for place in places}
