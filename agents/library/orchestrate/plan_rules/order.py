"""In which order steps can be done: circles among what they depend on, chains of them, and what leads to nothing. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

Needs = Mapping[str, Sequence[str]]
"""By each step, the steps that it depends on. Names of no step are allowed, and belong to nothing that could be done."""


def doable(needs: Needs) -> Sequence[str]:
    """Return the steps that can be done at all, in an order in which each comes after those it depends on."""
    waiting = {step: set(before) for step, before in needs.items()}
    behind: dict[str, list[str]] = {}
    for step, before in waiting.items():
        for one in before:
            behind.setdefault(one, []).append(step)
    ready = [step for step, before in waiting.items() if not before]
    for step in ready:  # it grows while it is gone through
        for later in behind.get(step, ()):
            waiting[later].discard(step)
            if not waiting[later]:
                ready.append(later)
    return ready


def circles(needs: Needs) -> Iterator[Sequence[str]]:
    """Yield circles: each as its steps in the order in which they wait for each other, the first one again at the end.

    Every step that waits for itself by some way is in one of them, or waits for one of them.
    """
    # What is not there is taken as done, so that all that is left is in a circle or behind one.
    inside = set(needs) - set(doable({step: [one for one in before if one in needs] for step, before in needs.items()}))
    over = set[str]()
    for start in needs:
        path: dict[str, int] = {}
        step: str | None = start if start in inside and start not in over else None
        while step is not None and step not in path and step not in over:
            path[step] = len(path)
            step = next((one for one in needs[step] if one in inside), None)
        if step is not None and step in path:
            names = list(path)[path[step] :]
            yield [*names, step]
        over.update(path)


def longest(needs: Needs, lasting: Mapping[str, float]) -> tuple[float, Sequence[str]]:
    """Return how long the longest chain of steps takes that wait for each other, and the chain; of what can be done at all."""
    best: dict[str, tuple[float, str]] = {}
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
    """Return the ends, and every step that one of them depends on, by whatever way."""
    found: set[str] = set()
    todo = [step for step in ends if step in needs]
    while todo:
        step = todo.pop()
        if step not in found:
            found.add(step)
            todo += [one for one in needs[step] if one in needs]
    return found


def behind(needs: Needs, begins: Collection[str]) -> set[str]:
    """Return every step that depends on one of these, by whatever way."""
    later: dict[str, list[str]] = {}
    for step, before in needs.items():
        for one in before:
            later.setdefault(one, []).append(step)
    found: set[str] = set()
    todo = [step for one in begins for step in later.get(one, ())]
    while todo:
        step = todo.pop()
        if step not in found:
            found.add(step)
            todo += later.get(step, ())
    return found
