"""The terms that the keyword engines store in tests: words split at spaces."""

from __future__ import annotations

from collections.abc import Sequence

from knowledge.state.ports import NameRow, TextRow


def terms_of(row: TextRow) -> Sequence[str]:
    """Return what the engines store in these tests: heading and text, split at spaces."""
    return [*" ".join(row.section).casefold().split(), *row.text.casefold().split()]


def names_of(page: NameRow) -> Sequence[str]:
    """Return what the engines store of a page's names in these tests.

    Title, aliases and path, split at spaces.
    """
    return " ".join((page.title, *page.aliases, page.path.replace("/", " "))).casefold().split()
