"""Sentences are recognised however they are wrapped, marked up and cased; common short ones are ignored."""

from __future__ import annotations

import pytest

from knowledge.pages.markdown.passages import passages, repeats

SAID = "The new deploy key lies in the vault of the ops team. Ask Bo before you rotate it on a Friday."


@pytest.mark.parametrize(
    "copy",
    [
        "The new deploy key\nlies in the vault\nof the ops team.",
        "> The new deploy key lies in the vault\r\n> of the **ops** team.",
        "- the NEW deploy key lies in the vault of the ops team",
        "# Notes\n\n1. Ask Bo before you rotate it on a Friday!\n",
        "The\u200b new deploy key lies in the vault of the ops team.",
        "| a | The new deploy key lies in the vault of the ops team |\n",
        "Before. ask Bo before you rotate it on a friday. After.",
    ],
)
def test_a_sentence_is_known_again_in_other_markdown(copy: str) -> None:
    assert repeats(copy, SAID)


@pytest.mark.parametrize(
    "other", ["", "See below.", "The key lies elsewhere.", "Ask Bo. Then rotate it, but not on a Friday."]
)
def test_other_words_are_other_sentences(other: str) -> None:
    assert not repeats(other, SAID)


def test_text_without_blanks_between_words_has_sentences_too() -> None:
    assert repeats("前。新しい鍵は運用チームの金庫にあります。", "新しい鍵は運用チームの金庫にあります。次。")


def test_a_text_of_short_lines_is_known_by_its_lines() -> None:
    assert repeats("# Mine\n\nCall Eve.\n", "# Clip\n\nCall Eve.\n")
    assert not repeats("# Mine\n\nCall Bo.\n", "# Clip\n\nCall Eve.\n")


def test_short_sentences_are_nobodys() -> None:
    assert passages("See the table below. Yes. Use it well.") == frozenset()
