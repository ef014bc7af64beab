"""`@name` becomes a mention of exactly one member, and nothing else does."""

from __future__ import annotations

import pytest

from mcp_server.connectors.plane.text.edit import edited
from mcp_server.connectors.plane.text.html_markdown import markdown_of
from mcp_server.connectors.plane.text.markdown import html_of
from mcp_server.connectors.plane.text.mention import MentionWriter

PEOPLE = {"1": "mel", "2": "Mel Ann", "3": "r&d", "4": "Zoë", "5": "sam", "6": "Sam", "7": ""}


def who(html: str) -> list[str]:
    return [part.partition('"')[0] for part in html.split('entity_identifier="')[1:]]


@pytest.mark.parametrize(
    ("text", "mentioned", "said"),
    [
        ("@mel", ["1"], ("mentions mel",)),
        ("Ask @MEL, @zoë.", ["1", "4"], ("mentions mel, Zoë",)),
        ("@Mel Ann and @mel", ["2", "1"], ("mentions Mel Ann, mel",)),
        ("(@r&d)", ["3"], ("mentions r&d",)),
        (
            "@mel.b @mel-ann @melanie",
            [],
            ("not exactly one member's name, so it stays text: @mel.b, @mel-ann, @melanie",),
        ),
        ("@sam", [], ("not exactly one member's name, so it stays text: @sam",)),
        ("mel@mel.org x@mel a/@mel @@mel", [], ()),
        ("`@mel` [@mel](https://a.org/@mel) <https://a.org/@mel>", [], ()),
        ("```\n@mel\n```", [], ()),
        ("@mel and @mel", ["1", "1"], ("mentions mel",)),
        ("an @ alone", [], ()),
    ],
)
def test_only_an_exact_name_of_one_person_outside_of_code_and_links_is_a_mention(
    text: str, mentioned: list[str], said: tuple[str, ...]
) -> None:
    writer = MentionWriter(PEOPLE)
    plain = html_of(text)
    html = writer(plain)
    assert who(html) == mentioned
    assert writer.remarks("", html) == said
    assert markdown_of(html, PEOPLE).casefold() == markdown_of(plain).casefold()


def test_a_mention_has_the_same_html_each_time_and_is_read_as_a_mention_by_plane() -> None:
    """A plan is made again before it is carried out, and has to have the same effect."""
    one, two = (MentionWriter(PEOPLE)(html_of("@mel")) for _ in range(2))
    assert one == two
    assert 'entity_identifier="1" entity_name="user_mention"></mention-component>' in one


def test_in_an_edited_text_kept_lines_keep_their_literal_names() -> None:
    before = "<ul><li><p>for @mel</p></li><li><p>old</p></li></ul><p>also @mel</p>"
    writer = MentionWriter(PEOPLE)
    after = edited(before, "- for @mel\n- new, for @Zoë\n\nalso @mel", PEOPLE, writer)
    assert after.startswith("<ul><li><p>for @mel</p></li><li><p>new, for <mention-component")
    assert after.endswith("<p>also @mel</p>")
    assert writer.remarks(before, after) == ("mentions Zoë",)


def test_an_old_mention_in_a_changed_line_stays_and_is_no_news() -> None:
    old = '<mention-component id="x" entity_identifier="1" entity_name="user_mention"></mention-component>'
    writer = MentionWriter(PEOPLE)
    before = f"<p>Ask {old} today</p>"
    after = edited(before, "Ask @mel tomorrow", PEOPLE, writer)
    assert after == f"<p>Ask {old} tomorrow</p>"
    assert writer.remarks(before, after) == ()
