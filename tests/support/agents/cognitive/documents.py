"""Memory documents as hosts of older versions submitted them, as a whole."""

from __future__ import annotations

from collections.abc import Sequence

from agents.library.cognitive.phases.memory_document import LABELS, Expected, document_of

DIRECTIVE = "Set up the hive on the south side in April."


def whole(expected: Expected, loaded: Sequence[str] = (), about: str = "bees", directive: str = DIRECTIVE) -> str:
    """Return a sound document about the task."""
    context = [f"Task: {expected.tasks[0]}", *loaded]
    steps = [f"{step}: done as recorded, nothing left open." for step in expected.steps]
    return document_of(
        expected, about, [context, steps, [f"{label}: as said before." for label in LABELS], [directive]]
    )
