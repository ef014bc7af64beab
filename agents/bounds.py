"""Limits for one act on a journey, because every host that continues the journey is sent the record. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from agents.engine.events import Decision, Json, StepUsage, canonical

MOST_BRIEF_CHARS = 20_000
MOST_WORK_CHARS = 400_000
MOST_LABEL_CHARS = 200
"""The most characters of a name: of a signal, a model or a conversation."""
MOST_TOKENS = 10**12
"""The most tokens that one submit may report: more than any step costs, and so few that averages of sums never overflow
a float."""
MOST_ANSWER_CHARS = 100_000
"""The most characters of all answers that a person gives at once, as ASCII JSON. Letters of many languages take six
characters there."""
BACK_TO = "phase"
"""The field that names the phase in the changes of a `revisit`."""
NO_JSON = "it is not plain JSON"
DEEPEST = 60
"""The deepest nesting of lists and objects. No work needs more, and recursion over such a value never reaches Python's
limit."""


def submit_excess(signals: Sequence[str], usage: StepUsage, conversation: str) -> list[str]:
    """Return a sentence for each field of a submission, besides the work, that is too long or too large."""
    labels = [("usage.model", usage.model), ("usage.conversation", conversation)]
    labels += [(f"signals[{number}]", signal) for number, signal in enumerate(signals)]
    told = [
        f"{name} has {len(text)} characters, at most {MOST_LABEL_CHARS} are allowed"
        for name, text in labels
        if len(text) > MOST_LABEL_CHARS
    ]
    counts = [("usage.tokens_in", usage.tokens_in), ("usage.tokens_out", usage.tokens_out)]
    return told + [
        f"{name} is not a possible number of tokens" for name, count in counts if not 0 <= count <= MOST_TOKENS
    ]


def changes_excess(decision: Decision, changes: Mapping[str, Json]) -> list[str]:
    """Return why a decision cannot have these changes."""
    if decision == "modify":
        return json_excess(changes, MOST_WORK_CHARS)
    if decision == "answer":
        return json_excess(changes, MOST_ANSWER_CHARS)
    taken = {BACK_TO} if decision == "revisit" else set[str]()
    return [] if set(changes) <= taken else [f"{decision} takes no such changes; put the person's words in note"]


def json_excess(value: Mapping[str, Json], most: int) -> list[str]:
    """Return why the value is not allowed: it is not JSON, or too long."""
    level: list[Json] = [value]
    for _ in range(DEEPEST + 1):  # not recursive: the value may be nested deeper than the stack
        level = [inside for outer in level for inside in _insides(outer)]
    if level:
        return [f"it is nested deeper than {DEEPEST}"]
    try:
        size = len(canonical(dict(value)))
    except (ValueError, RecursionError):
        return [NO_JSON]
    return [f"it has {size} characters, at most {most} are allowed"] if size > most else []


def _insides(value: Json) -> Iterable[Json]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list | tuple) else ()
