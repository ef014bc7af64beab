"""How often Python looks for reference cycles."""

from __future__ import annotations

import gc

YOUNG = 50_000
"""Number of new objects after which Python looks for reference cycles, of which there are hardly any. With Python's
default of 700, a merge spent a fifth of its time on this, and indexing 7 %."""


def look_for_cycles_rarely() -> None:
    """Make this process look for reference cycles rarely, and never among the objects that exist now."""
    gc.freeze()
    gc.set_threshold(YOUNG)
