"""Quotes and headings that are right are found, however a model copied them; others get the nearest passage."""

from __future__ import annotations

import pytest

from agents.engine.agent import Citation
from agents.engine.evidence.quote_check import quote_problem
from knowledge.pages.document import parse

PAGE = parse(
    "ops/backup.md",
    """\
---
title: Backups
---
Backups run every night. They are kept for thirty days.

# Backups {#backups}

The server\u2019s *nightly* backup takes **at most
five** minutes\u00a0\u2014 it copies only changed files. See [the
restore guide](restore.md) first. Wait \u2026 then check.

## Set up on `Linux` {#linux .wide}

1. Install the package with `apt install forge`.
2. Set `FORGE_KEEP` to **30** days.
- [ ] Test a restore each month.

> Restores were tested
> on 3 March 2026.

### Don\u2019t overwrite \u2013 ever:

Never overwrite a backup that is less than 2.5 days old.

## [Retention](keep.md) & cost

| kind | kept |
|------|------|
| full | 90 days |

\u5099\u4efd\u6bcf\u5929\u51cc\u6668\u57f7\u884c\uff0c\u4fdd\u7559\u4e09\u5341\u5929\u3002
""".encode(),
)
TOP, LINUX, NEVER = "Backups", "Set up on Linux", "Don't overwrite - ever"


def problem(section: str, quote: str) -> str:
    return quote_problem(PAGE, Citation(PAGE.path, section, quote))


@pytest.mark.parametrize(
    "section",
    [
        "Set up on Linux",
        "set up on linux",
        "## Set up on `Linux` {#linux .wide}",
        "Set up on `Linux` {#linux}",
        "**Set up** on [Linux](x.md)",
        "Backups > Set up on Linux",
        "Backups {#backups} > Set up on `Linux`",
        "#linux",
        "{#linux}",
        "Set up on Linux:",
    ],
)
def test_a_heading_is_found_however_it_is_written(section: str) -> None:
    assert problem(section, "Set FORGE_KEEP to 30 days") == ""


@pytest.mark.parametrize(
    "section", ["Don't overwrite - ever", "Don\u2019t overwrite \u2014 ever:", "don't overwrite \u2013 ever:"]
)
def test_typographic_punctuation_of_headings_is_ignored(section: str) -> None:
    assert problem(section, "Never overwrite a backup that is less than 2.5 days old.") == ""


@pytest.mark.parametrize(
    ("section", "quote"),
    [
        (TOP, "The server's nightly backup takes at most five minutes - it copies only changed files."),
        (TOP, "The server\u2019s *nightly* backup takes **at most five** minutes \u2014 it copies"),
        (TOP, "\u201cThe server\u2019s nightly backup takes at most five minutes\u201d"),
        (TOP, '"it copies only changed files"'),
        (TOP, "See the restore guide first."),
        (TOP, "it copies\nonly changed\u00a0files"),
        (TOP, "Wait ... then check"),
        (TOP, "Wait\u2026 then check"),
        (LINUX, "Install the package with apt install forge. Set FORGE_KEEP to 30 days."),
        (LINUX, "- Test a restore each month."),
        (LINUX, "Test a restore each month. Restores were tested on 3 March 2026."),
        ("Retention & cost", "full | 90 days"),
        ("", "Backups run every night. They are kept"),
    ],
)
def test_typography_and_marks_do_not_refuse_a_quote(section: str, quote: str) -> None:
    assert problem(section, quote) == ""


@pytest.mark.parametrize(
    "quote",
    [
        "The server's nightly backup ... copies only changed files.",
        "The server\u2019s nightly backup [...] it copies only changed files.",
        "The server's nightly backup [\u2026] copies only changed files \u2026",
        "... takes at most five minutes (...) copies only changed files",
        "The server's nightly backup....copies only changed files",
        "\u2026 it copies only changed files",
    ],
)
def test_an_ellipsis_leaves_words_out(quote: str) -> None:
    assert problem(TOP, quote) == ""


def test_parts_around_an_ellipsis_may_be_in_a_script_without_spaces() -> None:
    assert problem("Retention & cost", "\u5099\u4efd\u6bcf\u5929 ... \u4fdd\u7559\u4e09\u5341\u5929") == ""


@pytest.mark.parametrize(
    ("quote", "why"),
    [
        ("it copies only changed files ... The server's nightly backup", "not in this order"),
        (
            "The server's nightly backup ... copies all of the files",
            "the part 'copies all of the files' of the quote is not in",
        ),
        (
            "The server's nightly backup ... changed files",
            "the part 'changed files' of a quote with an ellipsis is too short",
        ),
        ("backup ... minutes ... changed", "too short"),
        ("... changed ...", "too short"),
        ("...", "too short"),
        ("takes at most fiv", "takes at most fiv"),
        ("kept for 20 days", ""),
    ],
)
def test_a_quote_whose_words_are_not_there_is_refused(quote: str, why: str) -> None:
    """Each part of a quote with an ellipsis is a quote, so a few words that every page has show nothing."""
    told = problem(TOP, quote)
    assert told
    assert why in told or "is not in" in told


@pytest.mark.parametrize(
    ("quote", "told"),
    [
        (
            "Never overwrite any backup that is less than three days old",
            "nearest is line 23 (section 'Backups {#backups} > ",
        ),
        (
            "Never overwrite any backup that is less than three days old",
            "where 'any', 'three' are missing: copy it word for",
        ),
        ("days old than less", "with other punctuation or order"),
        (
            "Backups run each night. They are kept",
            "nearest is line 4 (the part before the first heading), where 'each' is missing",
        ),
        ("Penguins cannot fly over the sea", "is not in ops/backup.md: copy it word for word"),
    ],
)
def test_the_nearest_passage_is_named_by_place_and_by_the_words_it_lacks(quote: str, told: str) -> None:
    """The sentence is stored with the journey and shown in prompts, so it repeats no text of the page but headings."""
    assert told in problem(NEVER, quote)


def test_of_many_headings_those_most_like_the_name_are_shown() -> None:
    many = "".join(f"## Chapter {number} of the long story\n\ntext\n\n" for number in range(40))
    page = parse("long.md", f"# Long\n\n{many}## Restoring a backup\n\ntext\n".encode())
    told = quote_problem(page, Citation("long.md", "Restore the backup", "text and more text"))
    assert told.startswith(
        "long.md has no section 'Restore the backup'; the most similar are: Long > Restoring a backup;"
    )
