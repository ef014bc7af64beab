"""Two statements on two pages contradict each other only if they are about the same thing at the same time."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from knowledge.contradictions.page_pair import LEAST_SURE, PagePair, RecordedPage, decidable_texts, pair_contradictions
from knowledge.merge.document.dated_log import is_dated_name
from knowledge.merge.evidence.confidence import DEFAULT_RULES
from knowledge.merge.model import Contradiction, unit_digest
from knowledge.writing.related.target_page import Surroundings

NOW = datetime(2026, 11, 26, tzinfo=UTC)
CACHE = "The image cache of the shop holds {} pictures.\n"


def page(path: str, text: str, *, appends: bool = False) -> RecordedPage:
    return RecordedPage(path, text, "0" * 16, None, None, NOW, Surroundings(DEFAULT_RULES, appends))


def found(one: RecordedPage, other: RecordedPage) -> list[Contradiction]:
    return pair_contradictions(PagePair(one, other, NOW))


def of(one: str, other: str) -> list[Contradiction]:
    return found(page("a.md", one), page("b.md", other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (CACHE.format(500), CACHE.format(900)),
        ("# Limits\n\nBackups are kept for 30 days.\n", "# Operations\n\nBackups are kept for 14 days.\n"),
        ("The public search endpoint is enabled by default.\n", "The public search endpoint is disabled by default.\n"),
        ("# Payment service\n\n- timeout: 30\n", "# Payment service\n\nRead this.\n\n- timeout: 60\n"),
        (f"- **{CACHE.format(500).strip()}**\n", f"> {CACHE.format(900)}"),
    ],
)
def test_statements_about_the_same_thing_contradict_each_other(one: str, other: str) -> None:
    (contradiction,) = of(one, other)
    for side, text in ((contradiction.existing, one), (contradiction.new, other)):
        assert " ".join(side.text.split()) in " ".join(text.split()), "it is found in its page again"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Version: 1.0\n", "Version: 2.0\n"),
        ("Create a user.\n", "Do not create a user.\n"),
        ("# Mail\n\n- timeout: 30\n", "# Chat\n\n- timeout: 60\n"),
        ("# Service\n\n- timeout: 30\n- retries: 3\n", "# Service\n\n- timeout: 60\n- retries: 5\n"),
        ("The agenda of the weekly planning session 3:\n", "The agenda of the weekly planning session 4:\n"),
        ("# Log\n\n## 2026-11-20\n\n" + CACHE.format(1), "# Log\n\n## 2026-11-21\n\n" + CACHE.format(2)),
        (
            "Is the image cache of the shop enabled by default?\n",
            "The image cache of the shop is disabled by default.\n",
        ),
        (CACHE.format(500), CACHE.format(500)),
    ],
)
def test_statements_about_two_things_or_two_days_do_not(one: str, other: str) -> None:
    assert of(one, other) == []


def test_dated_pages_and_logs_do_not_contradict_each_other_and_contradict_other_pages() -> None:
    day, other_day = page("daily/2026-11-20.md", CACHE.format(1)), page("daily/2026/11/21.md", CACHE.format(2))
    log, guide = page("log.md", CACHE.format(3), appends=True), page("guide.md", CACHE.format(4))
    assert found(day, other_day) == found(day, log) == []
    assert len(found(day, guide)) == len(found(log, guide)) == 1


def test_two_versions_of_a_page_do_not_contradict_each_other() -> None:
    assert found(page("spec.md", CACHE.format(1)), page("spec-2.0.md", CACHE.format(2))) == []
    assert found(page("v1/spec.md", CACHE.format(1)), page("v2/spec.md", CACHE.format(2))) == []


@pytest.mark.parametrize(
    ("path", "dated"),
    [
        ("2026-11-26.md", True),
        ("daily/20261126.md", True),
        ("posts/2026/11/post.md", True),
        ("weekly/2026-W48.md", True),
        ("CHANGELOG.md", True),
        ("notes/28.11.2026.md", True),
        ("notes/28-11-2026.md", True),
        ("notes/Sat 28 Nov 2026.md", True),
        ("diario/28-de-noviembre-de-2026.md", True),
        ("ops/worklog.md", True),
        ("team/Journal/28 \u043d\u043e\u044f\u0431\u0440\u044f.md", True),
        ("Daily Notes/le 28.md", True),
        ("daily-backups/tapes.md", False),
        ("history/art.md", False),
        ("team/standups.md", True),
        ("guides/http-404.md", False),
        ("catalog.md", False),
        ("backlog.md", False),
        ("rfc-2119.md", False),
        ("ports-8080-8443.md", False),
        ("history-of-art.md", False),
    ],
)
def test_a_path_shows_whether_a_page_belongs_to_one_time(path: str, *, dated: bool) -> None:
    assert is_dated_name(path) == dated


def test_a_side_is_the_sentence_as_its_page_has_it() -> None:
    long = "This is <https://shop.example>. The [image cache](a.md) of the shop holds **500** pictures. Ask Ada.\n"
    (contradiction,) = of(long, CACHE.format(900))
    texts = {contradiction.existing.text, contradiction.new.text}
    assert texts == {"The [image cache](a.md) of the shop holds **500** pictures.", CACHE.format(900).strip()}


@pytest.mark.parametrize(
    ("paragraph", "sentences"),
    [
        (  # the comparison takes "2." for the beginning of a date, as in "2. Mai", and reads on
            "Ask Ada. The *image cache* of the shop holds 500 pictures on disk `2`. Look there.\nAsk Ben.\n",
            "The *image cache* of the shop holds 500 pictures on disk `2`. Look there.",
        ),
        (  # before a small letter, the other reading ends no sentence; before code, the comparison does
            "Ask Ada first.\nThe **image cache** of the shop holds 500 pictures. `b` is small. Ask Ben. `It` is so. So.\n",
            "The **image cache** of the shop holds 500 pictures. `b` is small.",
        ),
        (  # each line of a quote is a statement
            "> [!NOTE]\n> Ask Ada first\n> The **image cache** of the shop holds 500 pictures\n> and it is full\n",
            "The **image cache** of the shop holds 500 pictures",
        ),
    ],
)
def test_a_side_is_no_whole_paragraph_where_its_sentences_can_be_read_in_two_ways(
    paragraph: str, sentences: str
) -> None:
    other = CACHE.format(900).strip()
    if "disk" in paragraph:
        other = "The image cache of the shop holds 900 pictures on disk 2."
    (contradiction,) = of(paragraph, other + "\n")
    assert {contradiction.existing.text, contradiction.new.text} == {sentences, other}


def test_a_key_of_templated_pages_belongs_to_each_of_them() -> None:
    pages = [
        page(f"{name}-policy.md", f"# Roles\n\n**Policy owner:** {who}\n")
        for name, who in (("backup", "Ann"), ("access", "Ben"))
    ]
    assert found(*pages) == []


def test_only_a_writes_units_are_compared_and_the_whole_page_shows_their_subject() -> None:
    letters, changed = "The mail queue of the shop holds {} letters.\n", CACHE.format(2)
    guide = page("guide.md", f"{CACHE.format(1)}\n{letters.format(90)}")
    notes = page("notes.md", f"{letters.format(70)}\n{changed}")
    only = frozenset((unit_digest(changed),))
    (contradiction,) = pair_contradictions(PagePair(guide, notes, NOW, only))
    assert contradiction.new.text == changed.strip()
    # A key with another value still counts as one that both pages have.
    mail, chat = "# Service\n\n- timeout: 30\n- retries: 3\n", "# Service\n\n- timeout: 60\n- retries: 5\n"
    only = frozenset((unit_digest("- timeout: 60\n"),))
    assert pair_contradictions(PagePair(page("mail.md", mail), page("chat.md", chat), NOW, only)) == []


def test_only_statements_that_can_contradict_are_looked_up() -> None:
    text = "# Title\n\nAsk Ada about the router.\n\nIt takes 40 seconds.\n\nThe cache is enabled.\n\n```\nx = 1\n```\n"
    assert decidable_texts(text) == ["It takes 40 seconds.\n", "The cache is enabled.\n"]


# --- the order in which they are shown ---------------------------------------------------------------------------------

SURE = of(CACHE.format(500), CACHE.format(900))[0].sure
SHARED = (
    "Tell your manager about it at least two weeks before the first day.\n\n"
    "The payroll team then enters the dates into the system.\n\n"
)


def test_copies_of_one_text_for_two_subjects_come_after_what_needs_no_such_doubt_and_are_not_hidden() -> None:
    """Real pages: leave for parents and leave for the sick, the exercise in pairs and the one alone."""
    (copies,) = found(
        page("parental-leave.md", SHARED + CACHE.format(500)), page("sick-leave.md", SHARED + CACHE.format(900))
    )
    assert LEAST_SURE <= copies.sure < SURE
    (same,) = found(page("leave.md", SHARED + CACHE.format(500)), page("leave-old.md", SHARED + CACHE.format(900)))
    assert same.sure == SURE


def test_pages_of_one_name_in_the_folders_of_two_teams_come_later_and_those_of_one_team_do_not() -> None:
    """Real pages: the README of each group says when its regular meeting is."""
    one, other = CACHE.format(500), CACHE.format(900)
    (teams,) = found(page("team-red/README.md", one), page("archive/team-blue/README.md", other))
    assert LEAST_SURE <= teams.sure < SURE
    (team,) = found(page("team-red/README.md", one), page("archive/team-red/README.md", other))
    assert team.sure == SURE


def test_short_lines_under_the_names_of_two_groups_are_about_two_things() -> None:
    text = "# Special Interest Group {} of the Project\n\n## Regular Contact and Meetings\n\n- Members in the channel: {}\n"
    one = page("a.md", text.format("Docs", 30))
    assert found(one, page("b.md", text.format("Storage", 60))) == []
    assert found(one, page("b.md", text.format("Docs", 60)))


def test_the_reports_of_two_years_do_not_contradict_each_other_and_those_of_one_year_do() -> None:
    one, other = CACHE.format(500), CACHE.format(900)
    assert found(page("sales/report-2024.md", one), page("finance/review.md", f"# Review of 2021\n\n{other}")) == []
    assert found(page("sales/report-2024.md", one), page("finance/review.md", f"# Review of 2024\n\n{other}"))
    assert found(page("sales/report-2024.md", one), page("finance/review.md", other))


@pytest.mark.parametrize(
    "other",
    [
        f"## Yes\n\n{CACHE.format(900)}",
        f"# Style\n\n### Don\u2019t\n\n{CACHE.format(900)}",
        "Therefore, the image cache of the shop holds 900 pictures.\n",
        "- [The image cache of the shop holds 900 pictures](cache.md)\n",
        "The winter image cache of the shop holds 900 pictures.\n",
    ],
    ids=["a sample", "a bad sample", "follows from an example", "a link", "words of its own"],
)
def test_samples_examples_and_other_words_come_later_and_are_not_hidden(other: str) -> None:
    one = CACHE.format(500).replace("image", "coloured image") if "winter" in other else CACHE.format(500)
    (contradiction,) = of(one, other)
    assert LEAST_SURE <= contradiction.sure < SURE


def test_of_pairs_with_one_statement_the_surest_comes_first_and_the_others_after_it() -> None:
    pairs = of(CACHE.format(500), f"# A\n\n{CACHE.format(900)}\n# B\n\n{CACHE.format(700)}")
    assert [one.sure for one in pairs] == sorted((one.sure for one in pairs), reverse=True)
    assert [one.sure == SURE for one in pairs] == [True, False]


def test_an_answer_no_and_the_number_of_a_topic_are_no_difference() -> None:
    """Real pages: "No. Please don't save hours", and links to topics 1.1 and 1.2 of a course."""
    asked = "Please don't save hours or avoid billing for the time that you worked.\n"
    assert of(asked, f"No. {asked}") == []
    link = "The supervisor reads the handout of the training course, topic 1.{}, before the meeting.\n"
    assert of(link.format(1), link.format(2)) == []
