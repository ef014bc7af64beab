"""How much one act may bring into a journey: what is recorded is told again and again, to every host that goes on. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from agents.engine.events import Decision, Json, StepUsage, canonical

MOST_BRIEF_CHARS = 20_000
MOST_WORK_CHARS = 400_000
MOST_LABEL_CHARS = 200
"""Of what only names something: a signal, a model, a conversation."""
MOST_TOKENS = 10**12
"""Of one submit. Above what any step costs, and sums of it can still be divided."""
MOST_ANSWER_CHARS = 100_000
"""Of all that a person answers at once, as JSON in ASCII, in which a letter of some languages takes six."""
BACK_TO = "phase"
"""Names the phase in the changes of a `revisit`."""
NO_JSON = "it is no plain JSON"
DEEPEST = 60
"""Of lists and objects in each other. No work needs more, and whatever walks through one has room for it."""


def submit_excess(signals: Sequence[str], usage: StepUsage, conversation: str) -> list[str]:
    """Return a sentence for each thing said beside a work that is too much."""
    labels = [("usage.model", usage.model), ("usage.conversation", conversation)]
    labels += [(f"signals[{number}]", signal) for number, signal in enumerate(signals)]
    told = [
        f"{name} has {len(text)} characters, at most {MOST_LABEL_CHARS} are allowed"
        for name, text in labels
        if len(text) > MOST_LABEL_CHARS
    ]
    counts = [("usage.tokens_in", usage.tokens_in), ("usage.tokens_out", usage.tokens_out)]
    return told + [f"{name} is no count of tokens" for name, count in counts if not 0 <= count <= MOST_TOKENS]


def changes_excess(decision: Decision, changes: Mapping[str, Json]) -> list[str]:
    """Return why a decision cannot bring these changes."""
    if decision == "modify":
        return json_excess(changes, MOST_WORK_CHARS)
    if decision == "answer":
        return json_excess(changes, MOST_ANSWER_CHARS)
    taken = {BACK_TO} if decision == "revisit" else set[str]()
    return (
        [] if set(changes) <= taken else [f"{decision} takes no such changes; what the person said belongs in the note"]
    )


def json_excess(value: Mapping[str, Json], most: int) -> list[str]:
    """Return why the value is not taken: it is no JSON, or too long."""
    if _too_deep(value):
        return [f"it is nested deeper than {DEEPEST}"]
    try:
        size = len(canonical(dict(value)))
    except (ValueError, RecursionError):
        return [NO_JSON]
    return [f"it has {size} characters, at most {most} are allowed"] if size > most else []


def _too_deep(value: Json) -> bool:
    """Return whether more lists and objects lie in each other than are taken."""
    level: list[Json] = [value]
    for _ in range(DEEPEST + 1):
        level = [inside for outer in level for inside in _insides(outer)]
    return bool(level)


def _insides(value: Json) -> Iterable[Json]:
    """Return what lies in a list or an object; nothing of what is neither."""
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list | tuple) else ()
