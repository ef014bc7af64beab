"""What tools of other services answer alike. Pure, and cheap to import."""

from __future__ import annotations

from typing import Literal

ActStatus = Literal["done", "unchanged", "conflict", "analysis", "proposed", "unsure"]
"""`unsure`: sent, and nobody can tell whether it happened; it is never simply sent again."""
