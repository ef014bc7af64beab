"""The order in which steps can be done: circles in their dependencies, chains, and dependents. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from agents.engine.graph import reachable

Needs = Mapping[str, Sequence[str]]
"""The steps that each step depends on. A name that is not a step is allowed; what depends on it can never be done."""


def doable(needs: Needs) -> Sequence[str]:
    """Return the steps that can be done, each after those it depends on."""
    waiting = {step: set(before) for step, before in needs.items()}
    later_steps = _dependents(needs)
    ready = [step for step, before in waiting.items() if not before]
    for step in ready:  # it grows during the loop
        for later in later_steps.get(step, ()):
            waiting[later].discard(step)
            if not waiting[later]:
                ready.append(later)
    return ready


def circles(needs: Needs) -> Iterator[Sequence[str]]:
    """Yield circles, each as its steps in the order in which they wait for each other, with the first again at the end.

    Every step that waits for itself is in one of them, or waits for one of them.
    """
    # A dependency that is not a step counts as done here, so that every step left over is in a circle or behind one.
    inside = set(needs) - set(doable({step: [one for one in before if one in needs] for step, before in needs.items()}))
    over = set[str]()
    for start in needs:
        path: dict[str, int] = {}
        step: str | None = start if start in inside and start not in over else None
        # Each step is walked once over all starts, so a plan of thousands of steps costs linear time.
        while step is not None and step not in path and step not in over:
            path[step] = len(path)
            step = next((one for one in needs[step] if one in inside), None)
        if step is not None and step in path:
            names = list(path)[path[step] :]
            yield [*names, step]
        over.update(path)


def longest(needs: Needs, lasting: Mapping[str, float]) -> tuple[float, Sequence[str]]:
    """Return the time of the longest chain of dependent steps, and the chain. Steps that can't be done are left out."""
    best: dict[str, tuple[float, str]] = {}
    # In this order everything that a step needs has been measured before it.
    for step in doable(needs):
        took, before = max(((best[one][0], one) for one in needs[step]), default=(0.0, ""))
        best[step] = (took + lasting.get(step, 0.0), before)
    if not best:
        return 0.0, ()
    at = max(best, key=lambda step: best[step][0])
    total, chain = best[at][0], [at]
    while before := best[chain[-1]][1]:
        chain.append(before)
    return total, chain[::-1]


def serving(needs: Needs, ends: Collection[str]) -> set[str]:
    """Return the ends, and every step that one of them depends on, directly or through others."""
    return reachable(ends, needs) & needs.keys()


def behind(needs: Needs, begins: Collection[str]) -> set[str]:
    """Return every step that depends on one of the given steps, directly or through others."""
    later = _dependents(needs)
    return reachable([step for one in begins for step in later.get(one, ())], later)


def _dependents(needs: Needs) -> Mapping[str, Sequence[str]]:
    """Return the steps that depend on each step, each once."""
    found: dict[str, list[str]] = {}
    for step, before in needs.items():
        for one in dict.fromkeys(before):
            found.setdefault(one, []).append(step)
    return found
