"""The outbox's record of a proposal's notice, for readers that do not talk to Zulip."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Final

from knowledge.outbox.ports import Outbox

ABOUT: Final = "notice:"
"""The prefix of a proposal's id in the outbox key of its notice; the bare id is the key of the proposal's own act."""
POWERLESS: Final = "powerless"
"""The mark of the listed reviewers whose reactions cannot count."""


def powerless_mark(entries: Collection[str]) -> dict[str, str]:
    """Return the mark that lists these entries of `ZULIP_REVIEWERS`."""
    return {POWERLESS: json.dumps(sorted(entries))}


async def powerless_reviewers(outbox: Outbox, proposal_id: str) -> tuple[str, ...]:
    """Return the entries of `ZULIP_REVIEWERS` that named nobody who could decide when the proposal was last announced."""
    entry = await outbox.outbox_entry_of(ABOUT + proposal_id)
    return tuple(json.loads(entry.marks.get(POWERLESS, "[]"))) if entry else ()
