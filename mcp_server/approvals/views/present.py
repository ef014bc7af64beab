"""The present state of a pending proposal after a page that it depends on has changed. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from knowledge.writing.answers import PageSince

Outcome = Literal["same", "different", "impossible", "unknown"]
"""The effect that an approval would have now: the proposed effect; a different one, which is not applied; none; or
unknown, because it was not computed."""

PATIENCE_S = 20.0
"""How long a person waits for the plan of a large page."""
CHANGED = "the text it depends on has changed, so it would now do something else"
"""The beginning of the reason for a proposal that was made again."""


@dataclass(frozen=True, slots=True)
class Present:
    """A proposal's present state after pages have `changed`. `preview` is as in `Proposal`, as of now; "" if there is none.

    `why` says why it is impossible or unknown, as a sentence without its full stop.
    """

    changed: Sequence[PageSince]
    outcome: Outcome
    preview: str = ""
    why: str = ""
