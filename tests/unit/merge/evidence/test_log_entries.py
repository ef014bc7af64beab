"""Entries of logs and other series, such as days, versions and meetings."""

from __future__ import annotations

import pytest

from tests.unit.merge.evidence.weighed_plans import weighed, words

LOG = "---\nappend: true\n---\n# Log\n\n## 2026-11-19\n\nStarted.\n\n## 2026-11-20\n\nWent on.\n"


def test_a_log_takes_appends_as_they_are() -> None:
    plan = weighed("## 2026-11-21\n\nFinished.\n", page=LOG, append=True)
    assert plan.text == LOG + "\n## 2026-11-21\n\nFinished.\n"
    assert plan.form == "append"


def test_a_log_whose_newest_entry_stands_first_takes_it_at_the_top() -> None:
    page = "# Log\n\n## 2026-11-20\n\nWent on.\n\n## 2026-11-19\n\nStarted.\n"
    plan = weighed("## 2026-11-21\n\nFinished.\n", page=page, append=True)
    assert plan.text == page.replace("# Log\n", "# Log\n\n## 2026-11-21\n\nFinished.\n")


def test_an_entry_of_a_day_that_is_there_goes_under_it() -> None:
    plan = weighed("## 2026-11-19\n\nHad lunch.\n", page=LOG, append=True)
    assert plan.text == LOG.replace("Started.\n", "Started.\n\nHad lunch.\n")


def test_an_entry_joins_a_log_that_is_a_list() -> None:
    up = "# Log\n\n- 2026-11-19: Started.\n- 2026-11-20: Went on.\n"
    down = "# Log\n\n- 2026-11-20: Went on.\n- 2026-11-19: Started.\n"
    entry = "- 2026-11-21: Finished.\n"
    assert weighed(entry, page=up, append=True).text == up + entry
    assert weighed(entry, page=down, append=True).text == down.replace("# Log\n\n", "# Log\n\n" + entry)


def test_an_entry_that_is_there_is_not_written_again() -> None:
    once = weighed("## 2026-11-21\n\nFinished.\n", page=LOG, append=True)
    assert words(weighed("## 2026-11-21\n\nFinished.\n", page=once.text, append=True)) == ["unchanged"]


DAYS = "# Log\n\n## 2026-11-26\n\n- All green\n- Backup ran\n\n## 2026-11-27\n\n- Deployed\n- All green\n"


def test_an_entry_of_a_new_day_is_written_even_if_another_day_says_the_same() -> None:
    entry = "## 2026-11-28\n\n- All green\n- Backup ran\n"
    plan = weighed(entry, page=DAYS, append=True)
    assert (words(plan), plan.text) == (["integrate"], f"{DAYS}\n{entry}")
    assert words(weighed(entry, page=plan.text, append=True)) == ["unchanged", "unchanged"]


def test_an_item_is_added_to_a_day_that_lacks_it_even_if_another_day_has_it() -> None:
    plan = weighed("## 2026-11-27\n\n- All green\n- Backup ran\n", page=DAYS, append=True)
    assert (sorted(words(plan)), plan.text) == (["integrate", "unchanged"], f"{DAYS}- Backup ran\n")


def test_entries_of_two_days_go_each_to_its_own_day() -> None:
    plan = weighed("## 2026-11-26\n\n- Lunch\n\n## 2026-11-28\n\n- All green\n", page=DAYS, append=True)
    assert plan.text == DAYS.replace("ran\n", "ran\n- Lunch\n") + "\n## 2026-11-28\n\n- All green\n"


def test_a_new_part_of_a_day_keeps_its_heading() -> None:
    page = f"{DAYS}\n### Morning\n\n- Coffee\n"
    plan = weighed("## 2026-11-27\n\n### Evening\n\n- Coffee\n", page=page, append=True)
    assert plan.text == f"{page}\n### Evening\n\n- Coffee\n"
    assert weighed("## 2026-11-27\n\n### Evening\n\n- Coffee\n", page=plan.text, append=True).text == plan.text


def test_only_the_new_part_of_an_entry_is_added_to_its_day() -> None:
    plan = weighed("## 2026-11-27\n\n- Deployed\n\nAll well.\n", page=DAYS, append=True)
    assert plan.text == f"{DAYS}\nAll well.\n"


@pytest.mark.parametrize(("there", "new"), [("2026/11/12", "2026/12/11"), ("1/2/2026", "2/1/2026")])
def test_a_day_is_not_taken_for_the_one_whose_figures_are_in_another_order(there: str, new: str) -> None:
    page = f"# Log\n\n## {there}\n\n- a\n"
    assert weighed(f"## {new}\n\n- b\n", page=page, append=True).text == f"{page}\n## {new}\n\n- b\n"


@pytest.mark.parametrize("append", [True, False])
@pytest.mark.parametrize(
    "page", ["# Setup\n\n```\ncode\n", "# Setup\n\nText.\n\n```\ncode\n\n## Not a heading\n", "```\ncode\n"]
)
def test_no_section_comes_between_a_title_and_its_fence_that_is_never_closed(page: str, *, append: bool) -> None:
    """The code was then below the new heading."""
    plan = weighed("## Pears\n\nPears are green.\n", page=page, append=append)
    assert (plan.text, words(plan)) == (page, ["retain"])
    assert f"line {page.partition('```')[0].count(chr(10)) + 1} is never closed" in (plan.note or "")


def test_an_entry_without_a_heading_goes_before_the_fence_of_its_day_that_is_never_closed() -> None:
    """It went to the day before."""
    page = "# Log\n\n## 2026-11-26\n\nA.\n\n## 2026-11-27\n\n```\ncode\n"
    assert weighed("Lunch.\n", page=page, append=True).text == page.replace("27\n", "27\n\nLunch.\n")


def test_text_goes_before_a_fence_that_is_never_closed() -> None:
    page = "# Setup\n\n```\ncode\n"
    plan = weighed("Pears are green.\n", page=page, section="Setup")
    assert plan.text == "# Setup\n\nPears are green.\n\n```\ncode\n"


TWO_DAYS = [
    ("2026-11-28", "2026-11-29"),
    ("28 ноября 2026", "29 ноября 2026"),
    ("sobota, 28 listopada 2026", "niedziela, 29 listopada 2026"),
    ("28.11.26", "29.11.26"),
    ("28 Nov", "29 Nov"),
    ("Standup (28 Nov)", "Standup (29 Nov)"),
]


@pytest.mark.parametrize("append", [True, False])
@pytest.mark.parametrize("earlier", ["", "## {}7 Nov\n\nBusy.\n\n"])
@pytest.mark.parametrize(("there", "new"), TWO_DAYS)
def test_an_entry_of_the_next_day_is_added_behind_the_last_whatever_that_one_says(
    there: str, new: str, earlier: str, *, append: bool
) -> None:
    """It contradicted the last day, was "already said" there, or went below that day's heading without its own."""
    page = f"# Standup\n\n{earlier.format(2)}## {there}\n\nAll green.\n\nThe limit is 30.\n"
    entry = f"## {new}\n\nAll green.\n\nThe limit is 40.\n"
    plan = weighed(entry, page=page, source="zulip:ops/limits/2", append=append)
    assert (plan.text, words(plan)) == (f"{page}\n{entry}", ["integrate"])
    assert plan.verdicts[0].section == f"Standup > {new}"


MEETINGS = """\
# Meetings

## 2026-11-20

### Decisions

- Release on Friday.

### Actions

- [ ] Bob fixes the build

## 2026-11-27

### Decisions

- No release.
"""


def test_an_entry_with_parts_is_added_whole_to_a_log_whose_entries_have_parts() -> None:
    """All of it was "said already" by another day, so nothing was written."""
    entry = "## 2026-12-04\n\n### Decisions\n\n- Release on Friday.\n\n### Actions\n\n- [ ] Bob fixes the build\n"
    assert weighed(entry, page=MEETINGS).text == f"{MEETINGS}\n{entry}"


def test_a_new_version_of_a_changelog_is_added_whole_at_the_top() -> None:
    """What an older version says, too, was left out, and the version was put at the end."""
    page = (
        "# Changelog\n\n## [1.2.0] - 2026-11-20\n\n### Fixed\n\n- The crash on start.\n\n"
        "## [1.1.0] - 2026-10-01\n\n### Added\n\n- Merge.\n"
    )
    entry = "## [1.3.0] - 2026-12-01\n\n### Added\n\n- Trust.\n\n### Fixed\n\n- The crash on start.\n"
    assert weighed(entry, page=page).text == page.replace("# Changelog\n", f"# Changelog\n\n{entry}")


@pytest.mark.parametrize(
    ("there", "new"),
    [("Week 47", "Week 48"), ("Monday", "Tuesday"), ("v1.2.0", "v1.3.0"), ("2025", "2026"), ("Q3 2026", "Q4 2026")],
)
def test_what_one_entry_of_a_series_says_is_not_said_already_or_contradicted_by_another(there: str, new: str) -> None:
    page = f"# Journal\n\n## {there}\n\nI slept 7 hours.\n\nCoffee was good.\n"
    plan = weighed(f"## {new}\n\nI slept 8 hours.\n\nCoffee was good.\n", page=page, source="zulip:ops/limits/2")
    assert plan.text == f"{page}\n## {new}\n\nI slept 8 hours.\n\nCoffee was good.\n"


def test_a_new_deadline_keeps_its_date() -> None:
    page = "# Project\n\n## Deadlines\n\n- 2026-12-01: Tender\n\n## Team\n\n- Ann leads.\n- Bob draws.\n"
    plan = weighed("## Deadlines\n\n- 2027-05-01: Bridge opens\n", page=page)
    assert plan.text == page.replace("Tender\n", "Tender\n- 2027-05-01: Bridge opens\n")


@pytest.mark.parametrize(("there", "new"), TWO_DAYS)
def test_what_one_day_says_is_not_said_already_by_another(there: str, new: str) -> None:
    page = f"# Standup\n\n## {there}\n\nAll green.\n\n## {new}\n\nThe limit is 40.\n"
    plan = weighed(f"## {new}\n\nAll green.\n", page=page)
    assert plan.text == f"{page}\nAll green.\n"


def test_an_entry_whose_day_is_there_in_another_form_goes_under_it() -> None:
    page = "# Log\n\n## 28 ноября 2026\n\n- a\n"
    assert weighed("## 2026-11-28\n\n- b\n", page=page, append=True).text == f"{page}- b\n"


@pytest.mark.parametrize(
    ("page", "text", "section"),
    [
        (DAYS, "## 2026-11-28\n\n- a\n", "Log > 2026-11-28"),
        (DAYS.replace("27", "25"), "## 2026-11-28\n\n- a\n", "Log > 2026-11-28"),
        ("## 2026-11-27\n\n- a\n", "## 2026-11-28\n\n- a\n", "2026-11-28"),
        (DAYS, "## 2026-11-27\n\n### Evening\n\n- a\n", "Log > 2026-11-27 > Evening"),
        (DAYS, "- Coffee\n", "Log > 2026-11-27"),
    ],
)
def test_the_answer_about_an_entry_names_the_section_that_it_is_in(page: str, text: str, section: str) -> None:
    """It named the day before."""
    plan = weighed(text, page=page, append=True)
    assert [one.section for one in plan.verdicts] == [section]


def test_a_day_without_an_entry_yet_is_added() -> None:
    assert weighed("## 2026-11-28\n", page=DAYS, append=True).text == f"{DAYS}\n## 2026-11-28\n"


def test_an_undated_entry_is_compared_with_the_day_that_it_goes_to() -> None:
    plan = weighed("- Backup ran\n", page=DAYS, append=True)
    assert plan.text == f"{DAYS}- Backup ran\n"
    assert words(weighed("- Backup ran\n", page=plan.text, append=True)) == ["unchanged"]
