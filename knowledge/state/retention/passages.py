"""How long sentences that callers read are remembered, and how many of each caller."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

PASSAGES_KEPT: Final = timedelta(days=1)
MOST_PASSAGES: Final = 20_000
"""Sentences that are remembered per caller, at less than a hundred bytes each."""
