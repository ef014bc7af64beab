"""Text from other services: which parts of it may name a page of the knowledge base."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_server.connectors.text.mentions import MOST_NAMES, MentionedPage, mentions_in


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("see kb:guides/trust.", ("guides/trust",)),
        ("see kb:guides/trust.md#levels, please", ("guides/trust.md",)),
        ("kb://doc/guides/my%20page.md", ("guides/my page.md",)),
        ("[the page](guides/trust.md#levels)", ("guides/trust.md",)),
        ("[the page](../guides/trust)", ("guides/trust",)),
        ("[the page](<guides/my page.md>)", ("guides/my page.md",)),
        ("it is in `guides/trust.md`!", ("guides/trust.md",)),
        ("Siehe leitfäden/größe.md.", ("leitfäden/größe.md",)),
        ("(notes.markdown)", ("notes.markdown",)),
    ],
)
def test_a_path_is_found_however_it_is_written(text: str, paths: tuple[str, ...]) -> None:
    assert {named.paths for named in mentions_in([text])} == {paths}


def test_a_link_on_the_web_is_tried_by_its_ends_longest_first() -> None:
    [named] = mentions_in(["at https://git.example/team/kb/blob/main/guides/trust.md?plain=1#levels."])
    assert named.paths == (
        "team/kb/blob/main/guides/trust.md",
        "kb/blob/main/guides/trust.md",
        "blob/main/guides/trust.md",
        "main/guides/trust.md",
        "guides/trust.md",
    )


def test_a_wiki_link_is_a_path_or_a_title() -> None:
    assert mentions_in(["as [[Trust Levels#why|we said]] and [[guides/trust]]"]) == (
        MentionedPage(("Trust Levels",), "Trust Levels"),
        MentionedPage(("guides/trust",), "guides/trust"),
    )


@pytest.mark.parametrize(
    "text",
    [
        "nothing here",
        "a link to https://example.org/guides/trust and one to https://example.org/README.md",
        "[x](https://example.org/a)",
        "[x](mailto:ann@example.org)",
        "[x](//example.org/a)",
        "the kilobyte kb: is a unit",
        "amd, .mdx and md",
    ],
)
def test_text_that_names_no_page_is_not_taken_for_one(text: str) -> None:
    assert mentions_in([text]) == ()


def test_each_page_is_listed_once_and_many_are_limited() -> None:
    text = " ".join(f"kb:page{number} kb:page{number}" for number in range(1000))
    found = mentions_in([text, text])
    assert len(found) == len(set(found)) == MOST_NAMES


@given(st.lists(st.text(max_size=300), max_size=5))
def test_whatever_people_write_it_can_be_looked_for(texts: list[str]) -> None:
    for named in mentions_in(texts):
        assert named.paths
        assert all(0 < len(path) <= 300 for path in named.paths)


@pytest.mark.parametrize("piece", ["[[", "](", "kb:", "http://a/", "a.md", "a.", "%", "./", "a/b-", "]( <"])
def test_no_text_takes_long_to_search(piece: str) -> None:
    """A stranger writes it; 200,000 characters take a fraction of a second, or this test takes minutes."""
    mentions_in([piece * (200_000 // len(piece))])
