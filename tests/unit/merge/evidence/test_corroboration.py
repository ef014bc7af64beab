from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.merge.document.units import cut
from knowledge.merge.evidence.corroboration import corroborates

PAGE = """\
---
title: Uploads are fast
---
# Uploads

An upload may be 32 MiB at most. Every file is checked for viruses, unless it is encrypted.

- Retries: 3
- Sessions expire after 5 minutes.

| plan | quota |
|---|---|
| free | 1 GB |

```sh
forge serve --port 8080
```
"""


@pytest.mark.parametrize(
    "statement",
    [
        "An upload may be 32 MiB at most.",
        "an upload may be **32 MiB** at most",
        "An upload may be 32768 KiB at most.",
        "Retries: 3",
        "A session expires after 300 s.",
        "Retries: 3\n\nSessions expire after 5 minutes.",
    ],
)
def test_a_page_says_what_it_says_in_other_words_too(statement: str) -> None:
    assert corroborates(cut(PAGE), statement)


@pytest.mark.parametrize(
    "statement",
    [
        "",
        "# Uploads",
        "An upload may be 64 MiB at most.",
        "An upload may not be 32 MiB.",
        "Every file is checked for viruses.",
        "An upload may be 32 MiB at most, and larger ones are cut.",
        "An upload may be 32 MiB at most. Downloads are free.",
        "Retries: 5",
        "Uploads are fast",
        "Files are stored in Oslo.",
        "The port is 8080.",
    ],
)
def test_a_page_that_says_less_or_otherwise_corroborates_nothing(statement: str) -> None:
    """Only what the server could verify counts, so a doubtful one doesn't."""
    assert not corroborates(cut(PAGE), statement)


def test_a_page_that_contradicts_itself_corroborates_neither() -> None:
    page = cut("The cache holds 100 pages.\n\n## Later\n\nThe cache holds 200 pages.\n")
    assert not corroborates(page, "The cache holds 100 pages.")
    assert not corroborates(page, "The cache holds 200 pages.")


@given(st.text(max_size=60), st.text(max_size=60))
def test_no_text_is_too_odd(page: str, statement: str) -> None:
    assert corroborates(cut(page), statement) in (True, False)


@given(st.sampled_from(["The cache holds 100 pages.", "- Retries: 3", "Grün ist die Heide."]))
def test_a_page_says_its_own_sentences(sentence: str) -> None:
    assert corroborates(cut(f"# T\n\nBefore.\n\n{sentence}\n\nAfter.\n"), sentence)
