"""A source as Markdown: deterministic, bounded, and no foreign text can pass for another author's, a heading or front matter."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from knowledge.pages.document import parse
from knowledge.writing.evidence.source_page import LONGEST_ENTRY, LONGEST_PAGE, source_page
from knowledge.writing.evidence.sources import Fetched, SourceEntry

AT = datetime(2026, 11, 20, 12, tzinfo=UTC)
ANN = SourceEntry("Messages", "message 1", "We keep 32 MiB.", "Ann", AT, "https://chat.example/near/1")
TOPIC = Fetched(
    "",
    AT,
    "#design > limits",
    "https://chat.example/limits",
    "zulip:design/limits",
    AT,
    kind="Thread in Zulip",
    entries=(ANN,),
)
HOSTILE = [
    "---\nsource: user\n---\n# Decisions",
    "## Ann, 2026-11-20 12:00:00 UTC\n\n> Agreed.",
    "Title\n=====\n\nOther\n---",
    "line\r## Ann\r\n## Bob",
    "```\nopen",
    "<!-- open",
    "\n\n# A\n",
]


def test_a_thread_is_a_page_by_author_and_date_with_a_link_to_each_message() -> None:
    later = SourceEntry(
        "Messages", "message 2", "Agreed.", "Bob", AT + timedelta(minutes=1), "https://chat.example/near/2"
    )
    assert source_page(replace(TOPIC, entries=(ANN, later))) == (
        '---\ntitle: "#design > limits"\nsummary: "Thread in Zulip: #design > limits, by author and date."\n---\n\n'
        "# \\#design \\> limits\n\n[Thread in Zulip](<https://chat.example/limits>), by author and date.\n\n"
        "## Messages\n\n"
        "> **Ann**, 2026-11-20 12:00:00 UTC, [message 1](<https://chat.example/near/1>)\n>\n> > We keep 32 MiB.\n\n"
        "> **Bob**, 2026-11-20 12:01:00 UTC, [message 2](<https://chat.example/near/2>)\n>\n> > Agreed.\n"
    )


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("author", ["Mallory", "Ann](https://evil.example) # x\n## Ann"])
def test_whatever_somebody_writes_stays_in_their_own_entry(text: str, author: str) -> None:
    entry = SourceEntry("Messages", "message 2", text, author, AT + timedelta(minutes=1), "https://chat.example/near/2")
    page = parse(
        "threads/limits.md", source_page(replace(TOPIC, entries=(ANN, entry, replace(ANN, name="message 3")))).encode()
    )
    assert [heading.level for heading in page.headings] == [1, 2]
    assert page.metadata == {
        "title": "#design > limits",
        "summary": "Thread in Zulip: #design > limits, by author and date.",
    }
    assert not page.problems
    beginnings = [line for line in page.text.splitlines() if line.startswith("> ") and not line.startswith("> >")]
    assert len(beginnings) == 3
    assert all("](<https://chat.example/near/" in line for line in beginnings)


@pytest.mark.parametrize("text", HOSTILE)
def test_the_words_of_one_message_are_no_heading_and_no_front_matter(text: str) -> None:
    said = source_page(replace(TOPIC, entries=(replace(ANN, text=text),), single=True))
    page = parse("a.md", said.encode())
    assert not page.metadata
    assert not page.headings
    assert "https://chat.example/near/1" in said


def test_a_statement_and_its_place_are_one_paragraph() -> None:
    said = source_page(replace(TOPIC, single=True))
    place = "[Ann in \\#design \\> limits, 2026-11-20 12:00:00 UTC](<https://chat.example/near/1>)"
    assert said == f"We keep 32 MiB. ({place})\n"
    for block in ("- a\n- b", "```\nx\n```", "| a |\n|---|\n| b |"):
        assert source_page(replace(TOPIC, single=True, entries=(replace(ANN, text=block),))).endswith(f"\n\n{place}\n")


def test_a_page_is_bounded_and_says_that_older_entries_are_elsewhere() -> None:
    long = [replace(ANN, name=f"message {n}", text=f"{n} " + "x" * 2 * LONGEST_ENTRY) for n in range(30)]
    page = source_page(replace(TOPIC, entries=tuple(long)))
    assert len(page) < LONGEST_PAGE * 1.1
    assert "Older entries are only there." in page
    assert "[message 29]" in page
    assert "[message 0]" not in page
    assert page.count("[cut]") == LONGEST_PAGE // LONGEST_ENTRY
