"""Acts on tasks: planned, shown, done once, and read back."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """What a call would do in Plane."""
