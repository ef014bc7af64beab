from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge.merge.document.dated_log import are_entries_apart, dated_heading, is_log, newest_first, without_dates
from knowledge.merge.document.units import cut, split_lines
from knowledge.merge.evidence.place.page_choice import UnplacedText, places_among_pages
from knowledge.merge.evidence.place.placement import SURE, Placement, Placer, Similarity, sections_of
from knowledge.merge.evidence.place.sister_pages import CandidatePage
from knowledge.merge.model import CutDocument

KB = Path(__file__).parents[4] / "kb"
PAGE = """\
---
title: Deploys
---

# Deploys

How we bring a version to the servers.

## Build

The pipeline compiles the program and packs a container image.

The steps are:

1. Compile.
2. Pack the image.

Images are signed with the release key.

## Rollback

The previous image is started again within five minutes.

### Database

Migrations are never rolled back.

## See also

- [Other](other.md)

[key]: https://example.org
"""


def line(text: str, page: str = PAGE) -> int:
    """Return the number, from 1, of the line that holds `text`."""
    return next(number for number, one in enumerate(split_lines(page), 1) if text in one)


def placed(
    page: CutDocument, text: str, *, path: Sequence[str] = (), level: int = 0, similarity: Similarity | None = None
) -> Placement:
    return Placer(page, similarity).place(text, path=path, level=level)


def test_a_heading_path_decides_before_likeness() -> None:
    found = placed(cut(PAGE), "The pipeline compiles the program.", path=("Rollback",))
    assert (found.section, found.how) == (("Deploys", "Rollback"), "heading")


@pytest.mark.parametrize(
    "path",
    [
        ("Deploys", "Rollback"),
        ("Rollback",),
        ("rollback:",),
        ("2. Rollback",),
        ("Anything", "Rollback"),
        ("*Rollback*",),
    ],
)
def test_a_heading_is_known_by_its_words(path: tuple[str, ...]) -> None:
    assert placed(cut(PAGE), "Text.", path=path).section == ("Deploys", "Rollback")


def test_a_heading_that_there_is_twice_does_not_decide() -> None:
    page = cut("# T\n\n## A\n\n### Limits\n\nApples.\n\n## B\n\n### Limits\n\nBananas.\n")
    found = placed(page, "Text.", path=("Limits",), level=3)
    assert (found.how, {choice.section.path for choice in found.choices}) == (
        "unsure",
        {("T", "A", "Limits"), ("T", "B", "Limits")},
    )
    assert placed(page, "Text.", path=("B", "Limits")).section == ("T", "B", "Limits")


def test_text_without_a_heading_goes_after_the_block_most_like_it_in_the_likeliest_section() -> None:
    found = placed(cut(PAGE), "A rollback starts the previous image on one server within minutes.")
    assert (found.section, found.how) == (("Deploys", "Rollback"), "similarity")
    assert found.after_line == line("previous image")
    best, runner_up, *_ = found.choices
    assert best.share >= SURE > runner_up.share
    assert f"{best.share:.2f}" in found.reason


def test_text_that_could_go_to_several_sections_is_asked_about() -> None:
    found = placed(cut(PAGE), "The image is started on one server first, then again on all.")
    assert found.how == "unsure"
    assert found.choices[0].section.path == ("Deploys", "Rollback")
    assert sum(choice.share for choice in found.choices) == pytest.approx(1, abs=0.001)


def test_a_line_that_leads_to_a_list_is_not_parted_from_it() -> None:
    found = placed(cut(PAGE), "These steps take a minute.", path=("Build",))
    assert found.after_line == line("Pack the image.")


def test_text_like_nothing_on_the_page_is_asked_about() -> None:
    assert placed(cut(PAGE), "Zebras graze.").how == "unsure"


def test_a_page_without_headings_ends_before_its_link_definitions() -> None:
    page = "Apples are red.\n\nSee also [pears](pears.md).\n\n[1]: https://example.org\n"
    assert placed(cut(page), "Zebras graze.").after_line == 1


def test_a_new_section_stands_beside_the_one_most_like_it() -> None:
    found = placed(cut(PAGE), "The pipeline compiles every night.", path=("Nightly builds",), level=2)
    assert (found.how, found.level) == ("new section", 2)
    assert found.after_line == line("release key")


def test_a_new_subsection_goes_into_the_likeliest_section_or_is_asked_about() -> None:
    found = placed(cut(PAGE), "A rollback starts the previous image within minutes.", path=("Rollback drill",), level=3)
    assert (found.section, found.level) == (("Deploys", "Rollback"), 3)
    assert found.after_line == line("Migrations")
    found = placed(cut(PAGE), "Zebras graze.", path=("Zoo",), level=3)
    assert found.how == "unsure"
    assert {choice.section.path[-1] for choice in found.choices} >= {"Build", "Rollback"}


def test_a_new_section_under_a_heading_that_there_is_goes_into_it() -> None:
    found = placed(cut(PAGE), "Zebras graze.", path=("Rollback", "Servers"), level=3)
    assert (found.section, found.level) == (("Deploys", "Rollback"), 3)


def test_a_section_like_nothing_stands_before_what_closes_the_page() -> None:
    found = placed(cut(PAGE), "Zebras graze.", path=("Zoo",), level=1)
    assert (found.section, found.level) == (("Deploys",), 2)
    assert found.after_line == line("Migrations")


def test_one_section_of_the_level_above_does_not_hold_every_new_subsection() -> None:
    page = cut(
        "# Net\n\nThe log of the network is written by the browser, which can be asked whether it logs now.\n\n"
        "## Methods\n\n### start\n\nStarts.\n"
    )
    found = placed(page, "Whether the network is logged now by the browser.", path=("logging",), level=3)
    assert (found.how, found.section) == ("unsure", ("Net", "Methods"))


def test_headings_that_differ_in_small_words_name_different_sections() -> None:
    page = cut("# Team\n\n## Before first day\n\nAn account is made.\n\n## Lunch\n\nIn the kitchen.\n")
    assert placed(page, "A tour.", path=("First day",), level=2).how == "new section"
    assert placed(page, "A tour.", path=("Before the first days",), level=2).how == "new section"
    assert placed(page, "A tour.", path=("Before first days",), level=2).section == ("Team", "Before first day")


def test_a_heading_below_a_new_one_is_no_heading_of_another_section() -> None:
    page = cut("# Class\n\n## Methods\n\n### name()\n\nIts name.\n\n#### Returns\n\nA text.\n")
    assert Placer(page).named(("Constructor", "Returns")) is None
    assert Placer(page).named(("Notes", "Methods")) is not None
    assert Placer(page).named(("name()", "Returns")) is not None
    assert Placer(page).named(("Returns",)) is not None


def test_an_item_goes_where_items_are_written_like_it() -> None:
    page = cut(
        "# Cake\n\n## Ingredients\n\n- flour, a pound of it\n- milk, a cup of it\n- eggs, three of them\n\n"
        "## Baking\n\n1. Stir the flour into the milk.\n2. Add the eggs.\n3. Bake the cake.\n"
    )
    for item, section in (("1. Warm the milk and the eggs.", "Baking"), ("- warm milk and eggs", "Ingredients")):
        found = Placer(page).place(item, is_item=True)
        assert (found.section, found.how) == (("Cake", section), "similarity")


def test_an_item_that_begins_with_a_link_may_go_to_the_section_of_links() -> None:
    page = cut(
        "# Scanner\n\nHow we scan.\n\n## Supply\n\nIt needs paper.\n\n"
        "## See also\n\n- [Printer](printer.md)\n- [Fax](fax.md)\n"
    )
    found = Placer(page).place("- [Glass of the scanner](glass.md)", is_item=True)
    assert found.choices[0].section.path == ("Scanner", "See also")
    found = Placer(page).place("- The glass of the scanner", is_item=True)
    assert ("Scanner", "See also") not in {choice.section.path for choice in found.choices}


def test_a_text_that_a_section_nearly_says_is_asked_about() -> None:
    page = cut(
        "# Mail\n\n## One person\n\nSubject: travel between two dates for one person, its budget and project.\n\n"
        "## Food\n\nBread and soup.\n"
    )
    found = placed(page, "Subject: travel between two dates for one person, its budget and a project.")
    assert (found.how, found.section) == ("unsure", ("Mail", "One person"))
    assert found.choices[0].share >= SURE
    assert placed(page, "Subject: travel between two dates for a group and its budget.").how == "similarity"


def test_meaning_decides_where_words_do_not() -> None:
    def similarity(queries: Sequence[str], texts: Sequence[str]) -> Sequence[Sequence[float]]:
        return [[0.9 if "Database" in text else 0.1 for text in texts] for _ in queries]

    found = placed(cut(PAGE), "Schema undo.", similarity=similarity)
    assert found.choices[0].section.path == ("Deploys", "Rollback", "Database")
    assert placed(cut(PAGE), "Schema undo.").choices[0].section.path != ("Deploys", "Rollback", "Database")


@pytest.mark.parametrize(
    ("page", "text", "section"),
    [
        (
            "concepts/smart-merge.md",
            "A base that the server still keeps is needed to read before write.",
            "Read before write",
        ),
        (
            "concepts/confidence.md",
            "A half-life of 30 days makes claims age faster: recency is 0.5 after a month.",
            "Recency",
        ),
        ("concepts/confidence.md", "Messages of one topic are one independent source.", "Corroboration"),
        ("reference/front-matter.md", "A tag may hold a slash: `#area/storage` is a tag below `area`.", "tags"),
        (
            "guides/write-a-good-page.md",
            "An alias that two pages have is no exact name any more.",
            "The line in the map",
        ),
        ("guides/write-with-hosts.md", "A rehearsal with dry_run shows the diff to a person.", "dry_run"),
    ],
)
def test_snippets_find_their_section_in_the_handbook(page: str, text: str, section: str) -> None:
    found = placed(cut((KB / page).read_text(encoding="utf-8")), text)
    assert section in [choice.section.path[-1] for choice in found.choices[:3] if choice.section.path]


MARKS = st.sampled_from(
    ["# A", "## B", "### C", "text about apples", "- item\n- other", "```\nfence\n\n# no\n```", "| a |\n|---|\n| b |",
     "> [!note]\n> callout", "---", "[r]: https://example.org", "## See also", "<div>\nx\n</div>", "%%\nhidden\n%%"]
)  # fmt: skip
PAGES = st.lists(MARKS, max_size=9).map("\n\n".join)


@settings(max_examples=75)
@given(PAGES, st.sampled_from(["apples", "zebras", "a fence"]), st.sampled_from([(), ("B",), ("D",), ("B", "E")]))
def test_nothing_is_placed_inside_a_block(page: str, text: str, path: tuple[str, ...]) -> None:
    document = cut(page)
    found = placed(document, text, path=path, level=len(path) + 1)
    assert isinstance(found, Placement)
    ends = {0} | {piece.line + len(split_lines(piece.text)) - 1 for piece in document.pieces}
    assert found.after_line in ends
    assert found.reason


@given(st.text(max_size=80))
def test_every_line_lies_in_a_section(page: str) -> None:
    document = cut(page)
    found = sections_of(document)
    assert found[0].path == ()
    assert [section.end for section in found[:-1]] == [section.heading for section in found[1:]]
    assert found[-1].end == len(document.pieces)


PAGES_THERE = (
    CandidatePage(
        "ops/backups.md", "# Backups\n\n## Schedule\n\nThey run at night.\n\n## Restore\n\nA backup is restored.\n"
    ),
    CandidatePage("ops/deploys.md", PAGE),
    CandidatePage("zoo.md", "# Zoo\n\nZebras graze.\n"),
)


def test_of_the_pages_of_a_directory_the_best_three_places_are_offered() -> None:
    found = places_among_pages(UnplacedText("A backup can be restored within an hour.", PAGES_THERE))
    assert len(found) == 3
    assert (found[0].path, found[0].section) == ("ops/backups.md", "Backups > Restore")
    assert found[0].call == 'path="ops/backups.md", section="+ Backups > Restore"'
    assert found[0].why.startswith('its words resemble those of section "Backups > Restore" of ops/backups.md (')
    assert [place.fit for place in found] == sorted((place.fit for place in found), reverse=True)


def test_text_with_a_heading_of_its_own_is_offered_pages() -> None:
    text = "## Zebras\n\nZebras graze at night.\n"
    searched = (("zoo.md", ("Zoo",)), ("ops/backups.md", ("Backups", "Schedule")))
    assert places_among_pages(UnplacedText(text, PAGES_THERE, None, searched))[0].path == "zoo.md"
    found = places_among_pages(UnplacedText(text, PAGES_THERE))
    assert (found[0].path, found[0].section, found[0].call) == ("zoo.md", "", 'path="zoo.md"')
    assert found[0].why.startswith("its words resemble those of zoo.md (")


def test_of_pages_that_are_alike_the_one_that_search_has_first_is_first() -> None:
    pages = [CandidatePage(f"{n}.md", "# Backups\n\nA backup is restored.\n") for n in (3, 1, 2)]
    found = places_among_pages(UnplacedText("A backup can be restored.", pages))
    assert [place.path for place in found] == ["3.md", "1.md", "2.md"]


def test_a_reference_link_belongs_to_the_page_that_defines_its_label() -> None:
    text = "# Team\n\nWe meet on Mondays and share the minutes.\n"
    pages = [CandidatePage("a.md", text), CandidatePage("b.md", f"{text}\n[handbook]: https://example.org/handbook\n")]
    found = places_among_pages(UnplacedText("Minutes follow the [handbook].", pages))
    assert found[0].path == "b.md"


def test_definitions_of_links_belong_to_the_page_that_uses_them() -> None:
    text = "# Team\n\nWe meet on Mondays and share the minutes.\n"
    pages = [CandidatePage("a.md", text), CandidatePage("b.md", text.replace("minutes", "[minutes]"))]
    found = places_among_pages(UnplacedText("[minutes]: https://example.org/minutes\n", pages))
    assert found[0].path == "b.md"


def test_a_relative_link_belongs_to_a_page_from_which_it_leads_somewhere() -> None:
    pages = [
        CandidatePage("a/team.md", "# Team\n\nWe meet on Mondays.\n"),
        CandidatePage("b/team.md", "# Team\n\nWe meet on Mondays.\n"),
        CandidatePage("b/minutes.md", "# Protocols\n\nEverything is written down.\n"),
    ]
    found = places_among_pages(UnplacedText("After we meet, read the [protocol](minutes.md).", pages))
    assert found[0].path == "b/team.md"


REPORT = """\
# Report {0}

## Health

The group had {0} members at the end of the year. Four of them had joined in spring, when the second meeting was moved to
another time zone. Attendance rose, and reviews took half as long as before. Two chairs stepped down after three years each.

## Projects

The scheduler became faster by reading its queue in batches. Work on drivers for network storage went on, with releases in
March, July and November. Conformance tests were split into two suites, so that a failure names the component.

## Operations

- [x] The charter was reviewed
- [x] Minutes of all meetings were published
"""
CHECK = "- [x] The list of leaders in the register is accurate and active\n"


def test_a_part_of_a_template_belongs_to_the_page_that_lacks_it() -> None:
    pages = [CandidatePage(f"report-{year}.md", REPORT.format(year) + CHECK) for year in (2021, 2022, 2023)]
    pages.append(CandidatePage("report-2024.md", REPORT.format(2024)))
    found = places_among_pages(UnplacedText(CHECK, pages))
    assert (found[0].path, found[0].section) == ("report-2024.md", "Report 2024 > Operations")


def test_a_text_that_one_page_has_belongs_to_that_page() -> None:
    pages = [CandidatePage(f"report-{year}.md", REPORT.format(year)) for year in (2021, 2022)]
    pages.append(CandidatePage("report-2023.md", REPORT.format(2023) + CHECK))
    assert places_among_pages(UnplacedText(CHECK, pages))[0].path == "report-2023.md"


def test_logs_are_told_from_pages() -> None:
    assert is_log(cut("# Log\n\n## 2026-11-20\n\nx\n\n## 2026-11-19\n\ny\n"))
    assert is_log(cut("- 2026-11-19: one\n- 2026-11-20: two\n"))
    assert not is_log(cut(PAGE))
    assert newest_first(cut("## 21 November 2026\n\nx\n\n## 3 November 2026\n\ny\n"))
    assert not newest_first(cut("## 19.11.2026\n\nx\n\n## 20.11.2026\n\ny\n"))


@pytest.mark.parametrize(
    "heading",
    [
        "## 2026-11-21",
        "## Update 2026-11-21",
        "## 21 November 2026",
        "### Notes from Nov 21, 2026",
        "## [2026-11-21]",
        "# Saturday, November 21, 2026",
        "# Sat 21 Nov 2026",
        "# Samstag, 21. November 2026",
        "# samedi 21 novembre 2026",
        "# 21 de noviembre de 2026",
        "# 21/11/2026",
        "# 2026\u5e7411\u670821\u65e5",
        "# 2026\ub144 11\uc6d4 21\uc77c",
        "# 21 ноября 2026 \u0433.",
        "# Суббота, 21 ноября 2026",
        "# субота, 21 листопада 2026",
        "# sobota, 21 listopada 2026",
        "# sobota 21. listopadu 2026",
        "# 21. 11. 2026",
        "# sábado, 21 de novembro de 2026",
        "# sabato 21 novembre 2026",
        "# zaterdag 21 november 2026",
        "# lördag 21 november 2026",
        "# lauantai 21. marraskuuta 2026",
        "# 21 Kas\u0131m 2026",
        "# 2026. november 21.",
        "# Samstag, den 21. November 2026",
        "# 21.11.26",
        "# 11/21/26",
        "# Standup (21 Nov)",
        "# Standup (21 ноября)",
        "# Nov 21",
        "# Sat 21st November",
        "# 21 listopada: spotkanie",
    ],
)
def test_a_heading_that_is_a_date_is_known(heading: str) -> None:
    assert dated_heading(heading)


@pytest.mark.parametrize(
    "heading",
    [
        "## Release 2026-11-21",
        "## Plans for 2026",
        "## Updates of packages",
        "## 3.11",
        "## Sun 2026",
        "## 1.2.26",
        "## 24/7",
        "## 1/2/3",
        "## 10.0.0.1",
        "## 5 out",
        "## 3 set",
        "## 3 March madness",
        "## May 2026",
        "## May the force",
    ],
)
def test_a_heading_that_says_more_is_none(heading: str) -> None:
    assert dated_heading(heading) is None


@pytest.mark.parametrize(
    ("one", "other", "apart"),
    [
        ("2026-11-28", "29 ноября 2026", True),
        ("2026-11-28", "28 ноября 2026", False),
        ("28.11.26", "28 listopada 2026", False),
        ("Standup (28 Nov)", "Standup (29 Nov)", True),
        ("28 Nov", "2026-11-28", False),
        ("3/4/26", "4/4/26", True),
        ("3/4/26", "4/3/26", True),
        ("3/4/26", "2026-04-03", False),
        ("28/11/26", "11/28/26", False),
        ("2026-11-28", "Limits", False),
        ("[1.2.0] - 2026-11-28", "[1.3.0] - 2026-12-01", True),
        ("[1.2.0] - 2026-11-28", "[1.2.1] - 2026-11-28", True),
        ("v1.2.0", "v1.3.0", True),
        ("Week 47", "Week 48", True),
        ("Q3 2026", "Q4 2026", True),
        ("2025", "2026", True),
        ("Monday", "Tuesday", True),
        ("Monday", "Limits", False),
        ("1. Setup", "2. Setup", False),
    ],
)
def test_two_headings_are_of_two_entries_only_if_they_cannot_be_the_same(one: str, other: str, *, apart: bool) -> None:
    assert are_entries_apart(("Log", one), ("Log", other, "Morning")) == apart


@pytest.mark.parametrize("text", ["## 28 Nov\n\nFaster now.\n", "- 28.11.26: Faster now.\n", "- Nov 28: Faster.\n"])
def test_a_date_without_its_whole_year_is_left_out_of_no_text(text: str) -> None:
    assert without_dates(cut(text)).content.text == text


def test_what_stands_after_the_date_of_a_heading_is_a_hint() -> None:
    found = without_dates(cut("## 2026-11-21: Rollback\n\nFaster now.\n"))
    assert (found.content.text, found.hint) == ("Faster now.\n", "Rollback")
    kept = without_dates(cut("## 2026-11-21: Rollback\n\nFaster now.\n"), known=["rollback"])
    assert kept.content.text == "## Rollback\n\nFaster now.\n"


@given(st.text(max_size=60))
def test_what_has_no_dates_is_left_alone(text: str) -> None:
    found = without_dates(cut(text))
    assert found.dates or found.content.text == text
