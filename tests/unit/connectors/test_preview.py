"""A text for another service that a person approves is shown completely and escaped, and never called a page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.trust.ports import Proposal
from mcp_server.approvals.elicitation.proposal_form import can_be_shown, form
from mcp_server.approvals.summary import file_text
from mcp_server.cli.review.card import CardBlock
from mcp_server.cli.review.card import card as card_of
from mcp_server.connectors.text.preview import shown_change
from mcp_server.presenters.proposal import summary_of
from mcp_server.web.proposals.page_changes import DiffOptions, FileView, files_of
from mcp_server.web.text.sanitize import sanitize_line
from tests.unit.cli.test_review_card import ASKER, NOW, proposal, text

WHOLE = DiffOptions(whole=True)


def waiting(*files: object) -> Proposal:
    preview = {"answer": {"status": "proposed"}, "files": list(files), "sentence": "tell zulip:design/merge"}
    return proposal(preview=json.dumps(preview), tool="zulip_send_message", arguments=[{"channel": "design"}])


def card(one: Proposal) -> Sequence[CardBlock]:
    return card_of(summary_of(one, ASKER, "word", now=NOW))


def rows_of(change: Mapping[str, Any], showing: DiffOptions) -> Sequence[FileView]:
    return files_of(summary_of(waiting(change), ASKER, "word", now=NOW).files, {}, showing)


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [(None, "hello", "is sent"), ("hello", None, "is deleted"), ("hello", "goodbye", "changes")],
)
def test_the_fate_of_a_text_is_worded_the_same_everywhere(before: str | None, after: str | None, says: str) -> None:
    change = shown_change("plane:KB-12 description", before, after)
    (view,) = rows_of(change, WHOLE)
    titles = [block.title for block in card(waiting(change))]
    assert view.file.effect == says
    assert f"plane:KB-12 description {says}" in titles
    assert f"plane:KB-12 description {says}\n" in form(waiting(change), {}).text


def test_a_text_shown_as_sent_is_not_shown_again_as_an_answer() -> None:
    change, answer = shown_change("zulip:design/merge", None, "hello"), {"place": "design/merge", "preview": "hello"}
    said = text(card(_with(answer, change)))
    assert 'place: "design/merge"' in said
    assert "preview" not in said
    assert "preview" in text(card(_with(answer))), "else it would be nowhere"


def _with(answer: object, *files: object) -> Proposal:
    return proposal(preview=json.dumps({"answer": answer, "files": list(files), "sentence": "tell"}))


def test_a_text_without_an_end_to_its_last_line_is_no_remark_worth() -> None:
    for before, after in ((None, "one\ntwo"), ("one\ntwo", "one\nthree"), ("one", None), ("one\n", "two")):
        assert "No newline" not in shown_change("zulip:design/merge", before, after)["diff"]


def test_an_act_without_text_says_so() -> None:
    change = shown_change("zulip:design/merge reaction", None, "")
    assert file_text(change) == "zulip:design/merge reaction is sent\n"
    assert "no text" in text(card(waiting(change)))
    assert rows_of(change, WHOLE)[0].hunks == []


def test_a_long_text_is_not_put_into_a_form_and_is_whole_on_the_page() -> None:
    lines = [f"line {number} {'x' * 3_000}" for number in range(500)]
    change = shown_change("zulip:design/merge", None, "\n".join(lines))
    assert not can_be_shown(waiting(change))
    (view,) = rows_of(change, WHOLE)
    assert sum(map(len, view.hunks)) == len(lines)
    assert not any(row.cut for hunk in view.hunks for row in hunk)
    (folded,) = rows_of(change, DiffOptions())
    assert folded.left_out > 0
    assert [row.cut for row in folded.hunks[0]] == [True] * len(folded.hunks[0])


def test_hostile_text_does_nothing_in_the_form_the_terminal_or_the_page() -> None:
    hostile = "<script>alert(1)</script>\n\x1b[2J\u202egnp\r@@ -1 +1 @@\n--- nothing\n\\ No newline at end of file"
    change = shown_change("zulip:<b>design</b>/\u202emerge", None, hostile)
    (view,) = rows_of(change, WHOLE)
    page = sanitize_line(view.file.path) + "".join(str(row.new) for hunk in view.hunks for row in hunk)
    terminal = text(card(waiting(change)))
    in_host = form(waiting(change), {}).text
    assert "<script" not in page
    assert "<b>" not in page
    for shown in (page, terminal, in_host):
        assert not {"\x1b", "\u202e", "\r"} & set(shown)
        assert "U+202E" in shown
    assert sum(map(len, view.hunks)) == 4, "a line that looks like one of a diff is a line of the text"


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=60)


@given(TEXTS, TEXTS)
def test_no_line_that_goes_out_is_left_out(before: str, after: str) -> None:
    """A person agrees to what they see, so the diff contains each line that only one of the texts has."""
    diff = shown_change("plane:KB-12 description", before, after)["diff"].split("\n")
    old, new = before.split("\n"), after.split("\n")
    assert all(f"+{line}" in diff for line in new if line not in old and line)
    assert all(f"-{line}" in diff for line in old if line not in new and line)


@given(TEXTS)
def test_a_new_text_can_be_read_off_the_difference(text: str) -> None:
    diff = shown_change("zulip:design/merge", None, text)["diff"].split("\n")[3:]
    assert "\n".join(line[1:] for line in diff).rstrip("\n") == text.rstrip("\n")
