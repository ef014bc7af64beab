from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.search.query.analysis import is_stop_word
from knowledge.search.query.phrase import Phrase, core_of, phrases_of


def phrases(query: str) -> tuple[Phrase, ...]:
    return phrases_of(query, core_of(query, lambda word: is_stop_word(word, ["en"])))


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("signatureAlgorithm", "the field <code>signatureAlgorithm</code>"),
        ("std::iter::Iterator", "use std::iter::Iterator;"),
        ("v3.0.3", "Helm v3.0.3."),
        ("thread 'main' panicked at src/main.rs:5:10:", "```\nthread 'main' panicked at src/main.rs:5:10:\n```"),
        ('"a release that was never deployed"', "A release that\nwas **never** deployed."),
        ("the `cargo build` command compiles", "Here the cargo build command compiles it."),
        ("証明書署名要求を作成する", "まず証明書署名要求を作成するには"),
    ],
)
def test_a_question_is_found_as_it_was_written(query: str, text: str) -> None:
    assert phrases(query)[0].is_in(text)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("time.Hour", "time.Hours"),
        ("std::iter::Iterator", "an iterator of std, see iter"),
        ("at src/main.rs:5:10 main panicked", "main panicked at src/main.rs:5:100"),
        ("the release was never deployed", "the release was deployed, never mind"),
        ("Performance of Code Using Generics", "See [“Performance of Code Using Generics”][perf] in chapter 10."),
        ("Performance of Code Using Generics", "See [[Performance of Code Using Generics]]."),
    ],
)
def test_other_words_a_part_of_a_longer_word_and_the_text_of_a_link_are_not_the_question(query: str, text: str) -> None:
    assert phrases(query)
    assert not any(phrase.is_in(text) for phrase in phrases(query))


@pytest.mark.parametrize("query", ["", "?", "install", "helm install", "a release note", "証明書", "::", "x" * 2000])
def test_what_follows_each_other_by_chance_is_not_looked_for_in_sentences(query: str) -> None:
    assert not any(phrase.tells for phrase in phrases(query))


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("Roll Out Plan", "- [Motivation](#motivation)\n- [Roll Out Plan](#roll-out-plan)"),
        ("Do we need label selectors?", "- [Do We Need Label Selectors?](#do-we-need)"),
        ("How is `kubectl` configured", "1. [Kubectl configured](#kubectl)"),
    ],
)
def test_a_question_is_found_in_a_table_of_contents(query: str, text: str) -> None:
    assert any(phrase.is_listed_in(text) for phrase in phrases(query))


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("Roll Out Plan", "- [Roll Out Plan](other-page.md)"),
        ("Roll Out Plan", "- [The Roll Out Plan for Nodes](#the-roll-out-plan)"),
        ("Roll Out Plan", "The roll out plan, see [above](#roll-out-plan)."),
        ("Overview", "- [Overview](#overview)"),
    ],
)
def test_other_links_and_parts_of_an_entry_are_not_the_question(query: str, text: str) -> None:
    assert not any(phrase.is_listed_in(text) for phrase in phrases(query))


@given(st.text(max_size=80), st.text(max_size=200))
def test_any_question_and_any_text_can_be_compared(query: str, text: str) -> None:
    for phrase in phrases(query):
        assert phrase.is_in(f"{text}\n{query}\n{text}") or not query.isascii()


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("Why is a connection reset by the peer?", "Connection reset by the peer."),
        ("what is max_retries?", "Set `max_retries` to 3."),
        ("how do I set up two servers at once", "Here you set up two servers at once."),
    ],
)
def test_words_that_only_ask_may_be_missing_at_both_ends(query: str, text: str) -> None:
    assert not phrases(query)[0].is_in(text) or len(phrases(query)) == 1
    assert phrases(query)[-1].is_in(text)
