"""The text that an act sends to another service, shown in full to the person who approves it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from knowledge.merge.unified_diff import unified_diff
from knowledge.pages.vault import revision_of
from knowledge.writing.effect import CONTEXT, UNLIMITED

Change = Mapping[str, Any]


def shown_change(place: str, before: str | None, after: str | None) -> Change:
    """Return the change of the text at `place`, such as `plane:KB-12 description`.

    `before` is None for a new text, `after` for one that is deleted; "" is an empty text. The entry has the form of a changed
    file in a `CallPreview`, and `sent` marks it, so that nothing calls it a page.
    """
    return {
        "path": place,
        "moved_from": None,
        "before": _revision(before),
        "after": _revision(after),
        "diff": unified_diff(
            _with_line_end(before),
            _with_line_end(after),
            place,
            context=CONTEXT,
            most_characters=UNLIMITED,
            longest_line=UNLIMITED,
        ),
        "sent": True,
    }


def _with_line_end(text: str | None) -> str:
    # A message ends without a line end, and the diff would remark on that.
    return f"{text}\n" if text and not text.endswith("\n") else text or ""


def _revision(text: str | None) -> str | None:
    return None if text is None else revision_of(text.encode("utf-8", "surrogatepass"))
