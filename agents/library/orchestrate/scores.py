"""The range in which a score must lie, given the judge's findings. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agents.library.orchestrate.record import Item

MET_POINTS: Mapping[str, float] = {"yes": 1.0, "partly": 0.5, "no": 0.0}
ISSUE_POINTS: Mapping[str, tuple[int, int]] = {"minor": (1, 5), "major": (5, 20), "blocking": (10, 100)}
"""The fewest and the most points that an issue takes off the score."""
BARRED_POINTS = 20
"""If something keeps the score from passing, the range spans at least this many points."""


@dataclass(frozen=True, slots=True)
class Range:
    """The lowest and the highest score allowed. `why` explains the highest score, `barred` says what keeps it from passing."""

    least: int
    most: int
    why: str
    barred: str = ""


def score_range(
    judged: Sequence[Item], issues: Sequence[Item], undone: Sequence[str], of: int, pass_score: int
) -> Range:
    """Return the range of the score from the judgements of `of` requirements, the issues, and the steps left undone.

    All requirements earn the same: full points if met, half if partly met. Each issue takes off points by its severity. If a
    requirement is not met, an issue is blocking, or a step is undone, the score cannot pass.
    """
    # A team may turn off the rule that there must be requirements: then the work starts from full points.
    earned = 100 * sum(MET_POINTS[one["met"]] for one in judged) / of if of else 100.0
    least, most = earned, earned
    for issue in issues:
        fewest, highest = ISSUE_POINTS[issue["severity"]]
        least, most = least - highest, most - fewest
    barred = _barred(judged, issues, undone)
    if barred:
        most = min(most, pass_score - 1)
        least = min(least, most - BARRED_POINTS)
    top = max(0, round(most))
    return Range(max(0, min(round(least), top)), top, _reckoned(judged, issues, earned), barred)


def _barred(judged: Sequence[Item], issues: Sequence[Item], undone: Sequence[str]) -> str:
    unmet = [one["id"] for one in judged if one["met"] == "no"]
    blocking = [issue["id"] for issue in issues if issue["severity"] == "blocking"]
    parts = (("not met", unmet), ("blocking", blocking), ("not done", undone))
    return ", ".join(f"{', '.join(found[:6])} {what}" for what, found in parts if found)


def _reckoned(judged: Sequence[Item], issues: Sequence[Item], earned: float) -> str:
    counts = [(word, sum(one["met"] == word for one in judged)) for word in MET_POINTS]
    told = f"{', '.join(f'{count} {word}' for word, count in counts if count) or 'no requirements'} earn {earned:.0f}"
    off = [(word, sum(issue["severity"] == word for issue in issues)) for word in ISSUE_POINTS]
    if any(count for _, count in off):
        parts = [
            f"{count} {word} {ISSUE_POINTS[word][0]} to {ISSUE_POINTS[word][1]} each" for word, count in off if count
        ]
        told += f", issues take off: {', '.join(parts)}"
    return told
