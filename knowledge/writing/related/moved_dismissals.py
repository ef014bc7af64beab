"""Dismissals of contradictions whose pages somebody has moved outside the server: they count where the statements are now."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import anyio.to_thread

from knowledge.history.ports import Flag, Ledger
from knowledge.merge.model import Contradiction, Dismissal

MOST_DISMISSED = 10_000

IsGone = Callable[[str], bool]


async def moved_dismissals(
    ledger: Ledger, is_gone: IsGone, found: Sequence[Contradiction]
) -> Mapping[bytes, Dismissal]:
    """Return, by their pairs, the dismissals of those contradictions that were dismissed on pages that no longer exist.

    A page that was moved and edited can't be told from a new one. But if one page is gone and another has the same statement, that
    is the statement that a person has decided on.
    """
    if not found:
        return {}
    dismissed: dict[bytes, list[Flag]] = {}
    for flag in await ledger.flags(None, limit=MOST_DISMISSED, dismissed=True):
        dismissed.setdefault(flag.contradiction.pair, []).append(flag)

    def moved() -> dict[bytes, Dismissal]:
        return {
            one.pair: flag.dismissal
            for one in found
            for flag in dismissed.get(one.pair, ())
            if flag.dismissal is not None and _has_moved(flag.contradiction, one, is_gone)
        }

    return await anyio.to_thread.run_sync(moved)


def _has_moved(then: Contradiction, now: Contradiction, is_gone: IsGone) -> bool:
    before, after = ({side.path for side in (one.existing, one.new)} for one in (then, now))
    return len(before) == len(after) and before != after and all(is_gone(path) for path in before - after)
