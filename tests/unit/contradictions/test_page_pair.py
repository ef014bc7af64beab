"""Two statements on two pages contradict each other only if they are about the same thing at the same time."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from knowledge.contradictions.page_pair import PagePair, RecordedPage, decidable_texts, pair_contradictions
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
        ("guides/http-404.md", False),
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
    # One key that changed is still one of several that both pages have.
    mail, chat = "# Service\n\n- timeout: 30\n- retries: 3\n", "# Service\n\n- timeout: 60\n- retries: 5\n"
    only = frozenset((unit_digest("- timeout: 60\n"),))
    assert pair_contradictions(PagePair(page("mail.md", mail), page("chat.md", chat), NOW, only)) == []


def test_only_statements_that_can_contradict_are_looked_up() -> None:
    text = "# Title\n\nAsk Ada about the router.\n\nIt takes 40 seconds.\n\nThe cache is enabled.\n\n```\nx = 1\n```\n"
    assert decidable_texts(text) == ["It takes 40 seconds.\n", "The cache is enabled.\n"]
