"""The draw of sentences finds each kind, and the same seed draws the same sentences."""

from __future__ import annotations

import pytest

from tests.bench import sentences


@pytest.mark.parametrize("kind", sentences.KINDS)
def test_the_same_seed_draws_the_same_sentences(kind: str) -> None:
    drawn = sentences.draw(kind, 20, seed=7)
    assert len(drawn) == 20
    assert drawn == sentences.draw(kind, 20, seed=7)
    assert drawn != sentences.draw(kind, 20, seed=8)


def test_an_error_is_a_message_and_not_a_docstring() -> None:
    errors = {text for _, text in sentences.messages()}
    documented = {text for _, text in sentences.docstrings()}
    assert any(text.startswith("the review page is at") for text in errors)
    assert '"""' not in "".join(errors | documented)
    assert any(text.startswith("Return ") for text in documented)
