"""What an act sends to another service, as a person is shown it before they agree: every character that goes out. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from knowledge.merge.unified_diff import unified
from knowledge.pages.vault import revision_of
from knowledge.writing.effect import CONTEXT, UNLIMITED

Change = Mapping[str, Any]


def shown_change(place: str, before: str | None, after: str | None) -> Change:
    """Return what becomes of a text at `place`, such as `plane:KB-12 description`, as one of the files of a `Shown`.

    `before` is None for what is sent anew, `after` for what is taken back; both may be whole. The entry has the form of a file
    that changes, and is marked as something that is `sent`, so that nobody is told of a page.
    """
    diff = unified(
        _ended(before), _ended(after), place, context=CONTEXT, most_characters=UNLIMITED, longest_line=UNLIMITED
    )
    return {
        "path": place,
        "moved_from": None,
        "before": _revision(before),
        "after": _revision(after),
        "diff": diff,
        "sent": True,
    }


def _ended(text: str | None) -> str:
    """Return the text with an end to its last line: a message has none, and nobody has to be told of that."""
    return f"{text}\n" if text and not text.endswith("\n") else text or ""


def _revision(text: str | None) -> str | None:
    return None if text is None else revision_of(text.encode("utf-8", "surrogatepass"))
