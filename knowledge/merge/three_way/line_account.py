"""Seeing to it that a joined sequence holds every line as often as both sides want it. Pure.

What one side put elsewhere while the other changed it where it was can end up in both places, or in none. Then the other
side's half of it is taken back, and told as a clash.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain, islice
from typing import NamedTuple

from knowledge.merge.three_way.alignment import AlignedNode, words
from knowledge.merge.three_way.sequence import Clash, KeptPart, Sequences

_ROUNDS = 4
_NEAR = 0.5
_MANY = 300
"""Lines that one line is held against, all of them up to so many."""
_NUMBER = re.compile(r"\d{1,9}(?=[.)](?:\s|$))")


def settled(sequences: Sequences) -> bool:
    """Take back of a merged sequence what would lose or double a line; tell whether all is accounted for then."""
    for _ in range(_ROUNDS):
        doubled, lost = _unaccounted(sequences)
        if sequences.clashes:
            more, less = _nearly(sequences)
            doubled, lost = doubled | more, lost | less
        if not doubled and not lost:
            return True
        if not (_without(sequences, doubled) | _with_again(sequences, lost)):
            return False
    return not any(_unaccounted(sequences))


class _Tally(NamedTuple):
    """How often each line is there in three versions and in what came of them; those in `shown` clash."""

    base: Counter[str]
    ours: Counter[str]
    theirs: Counter[str]
    joined: Counter[str]
    shown: Counter[str]


def _out_of_bounds(tally: _Tally) -> tuple[set[str], set[str]]:
    """Return the lines that are there too often, and too seldom; of those that clash ours may stand."""
    base, ours, theirs, joined, shown = tally
    doubled: set[str] = set()
    lost: set[str] = set()
    for line in {*base, *ours, *theirs, *joined}:
        b, o, t, count = base[line], ours[line], theirs[line], joined[line]
        if b == o == t == count:
            continue
        both = max(o + t - b, 0)
        if o >= b and t >= b:
            low, high = max(o, t), both
        elif o <= b and t <= b:
            low, high = both, min(o, t)
        else:
            low = high = both
        if line in shown:
            low, high = min(low, o), max(high, o)
        if count > high:
            doubled.add(line)
        elif count < low:
            lost.add(line)
    return doubled, lost


def _lines_of(texts: Iterable[str]) -> Counter[str]:
    """Return how often each line is there, blank ones and indents apart."""
    found: Counter[str] = Counter()
    for text in texts:
        found.update(_lines(text))
    return found


def _lines(text: str) -> list[str]:
    """Return the lines that are not blank, without the numbers of items, which may have been counted through again."""
    lines = [line for part in text.replace("\r", "\n").split("\n") if (line := part.strip(" \t"))]
    return [_NUMBER.sub("", line) if line[0].isdigit() else line for line in lines]


def _unaccounted(sequences: Sequences) -> tuple[set[str], set[str]]:
    base: list[AlignedNode | None] = list(sequences.base)
    ours: list[AlignedNode | None] = list(sequences.ours)
    theirs: list[AlignedNode | None] = list(sequences.theirs)
    joined: list[AlignedNode | None] = []
    put_together: list[_Tally] = []
    for kept in sequences.kept:
        at = sequences.from_ours.get(kept.ours, -1)
        if _is_untouched(sequences, kept, at):
            ours[kept.ours] = theirs[kept.theirs] = base[at] = None
            continue
        joined.append(kept.node)
        if kept.joined and at >= 0:
            mine, other = sequences.ours[kept.ours], sequences.theirs[kept.theirs]
            put_together.append(_tallied([sequences.base[at]], [mine], [other], [kept.node]))
    tally = _tallied(base, ours, theirs, joined)._replace(shown=_shown(sequences.clashes))
    # A line that was put together from words of both sides is on neither, and is not looked for.
    for inner in put_together:
        more, less = _out_of_bounds(inner)
        for line in less | {line for line in more if not inner.ours[line] and not inner.theirs[line]}:
            for counts, part in zip(tally[:4], inner[:4], strict=True):
                counts[line] -= part[line]
    return _out_of_bounds(tally)


def _tallied(
    base: Iterable[AlignedNode | None],
    ours: Iterable[AlignedNode | None],
    theirs: Iterable[AlignedNode | None],
    joined: Iterable[AlignedNode | None],
) -> _Tally:
    return _Tally(_counted(base), _counted(ours), _counted(theirs), _counted(joined), Counter())


def _is_untouched(sequences: Sequences, kept: KeptPart, at: int) -> bool:
    """Return whether neither side changed it, so that it counts the same everywhere."""
    return (
        at >= 0
        and kept.theirs == sequences.to_theirs[at] >= 0
        and kept.node.text == sequences.base[at].text == sequences.theirs[kept.theirs].text
    )


def _nearly(sequences: Sequences) -> tuple[set[str], set[str]]:
    """Return what came in that is nearly what stays because of a clash, and what went that is nearly what a clash keeps out."""
    stays, kept_out = _held_and_refused(sequences.clashes)
    there = {kept.ours for kept in sequences.kept}
    came = _lines_of(kept.node.text for kept in sequences.kept if kept.ours < 0)
    went = _lines_of(node.text for at, node in enumerate(sequences.ours) if at not in there)
    return _near(came, stays), _near(went, kept_out)


def _held_and_refused(clashes: Iterable[Clash]) -> tuple[Counter[str], Counter[str]]:
    """Return the lines of what clashes that are not theirs and stay, and those that are theirs alone."""
    held: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    for clash in clashes:
        base, ours, theirs = (_lines_of([text]) for text in (clash.base, clash.ours, clash.theirs))
        # `+=` would go through all that was found before, each time.
        held.update((base | ours) - theirs)
        refused.update(theirs - base - ours)
    return held, refused


def _near(lines: Iterable[str], others: Iterable[str]) -> set[str]:
    """Return those of `lines` that are versions of one of `others`."""
    known = [found for line in others if len(found := words(line)) > 1]
    holding: dict[str, list[frozenset[str]]] = {}
    if len(known) > _MANY:
        for other in known:
            for word in other:
                holding.setdefault(word, []).append(other)

    def like(own: frozenset[str]) -> Iterable[frozenset[str]]:
        """Return those that may be near; of very many, some that have the rarest words in common."""
        if not holding:
            return known
        found: list[list[frozenset[str]]] = sorted((holding.get(word, []) for word in own), key=len)
        return islice(chain.from_iterable(found), _MANY)

    near: set[str] = set()
    for line in lines:
        own = words(line)
        if len(own) > 1 and any(2 * len(own & other) >= _NEAR * (len(own) + len(other)) for other in like(own)):
            near.add(line)
    return near


def _counted(nodes: Iterable[AlignedNode | None]) -> Counter[str]:
    return _lines_of(node.text for node in nodes if node)


def _shown(clashes: Iterable[Clash]) -> Counter[str]:
    return _lines_of(text for clash in clashes for text in (clash.base, clash.ours, clash.theirs))


def _without(sequences: Sequences, doubled: set[str]) -> bool:
    """Put what holds such lines and is not ours back to ours; tell whether there was any."""
    found: list[KeptPart] = []
    for kept in sequences.kept:
        mine = sequences.ours[kept.ours] if kept.ours >= 0 else None
        if (mine and mine.text == kept.node.text) or doubled.isdisjoint(_lines(kept.node.text)):
            found.append(kept)
            continue
        sequences.clashes.append(_clash(sequences, kept, mine))
        if mine:
            found.append(kept._replace(node=mine, joined=False))
    changed = found != sequences.kept
    sequences.kept = found
    return changed


def _clash(sequences: Sequences, kept: KeptPart, mine: AlignedNode | None) -> Clash:
    at = sequences.from_ours.get(kept.ours, -1) if mine else -1
    base = sequences.base[at].text if at >= 0 else ""
    theirs = sequences.theirs[kept.theirs].text if kept.theirs >= 0 else _of(sequences.theirs, kept.node.text)
    where = mine or kept.node
    return Clash(base, mine.text if mine else "", theirs, where.line, where.section)


def _of(side: Sequence[AlignedNode], text: str) -> str:
    """Return the lines of the text that the side has: what was put together of both holds lines of the other, too."""
    known = {line for node in side for line in _lines(node.text)}
    return "".join(line for line in text.splitlines(keepends=True) if known.issuperset(_lines(line)))


def _with_again(sequences: Sequences, lost: set[str]) -> bool:
    """Put back of ours what holds such lines; tell whether there was any."""
    if not lost:
        return False
    there = {kept.ours for kept in sequences.kept}
    gone = [at for at, node in enumerate(sequences.ours) if at not in there and not lost.isdisjoint(_lines(node.text))]
    for at in gone:
        node = sequences.ours[at]
        place = next((i for i, kept in enumerate(sequences.kept) if kept.ours > at), len(sequences.kept))
        sequences.kept.insert(place, KeptPart(node, at))
        was = sequences.from_ours.get(at, -1)
        base = sequences.base[was].text if was >= 0 else _of(sequences.base, node.text)
        sequences.clashes.append(Clash(base, node.text, "", node.line, node.section))
    edited = [
        kept
        for kept in sequences.kept
        if kept.ours >= 0
        and kept.node.text != sequences.ours[kept.ours].text
        and not lost.isdisjoint({*_lines(sequences.ours[kept.ours].text)} - {*_lines(kept.node.text)})
    ]
    for kept in edited:
        mine = sequences.ours[kept.ours]
        sequences.clashes.append(_clash(sequences, kept, mine))
        sequences.kept[sequences.kept.index(kept)] = kept._replace(node=mine, joined=False)
    return bool(gone or edited)


def is_accounted(base: str, ours: str, theirs: str, joined: str, clashes: Sequence[Clash]) -> bool:
    """Return whether a text joined by lines holds every line as often as both sides want it."""
    counts = [_lines_of([text]) for text in (base, ours, theirs, joined)]
    if any(_out_of_bounds(_Tally(counts[0], counts[1], counts[2], counts[3], _shown(clashes)))):
        return False
    held, refused = _held_and_refused(clashes)
    came, went = counts[3] - counts[1], counts[1] - counts[3]
    return not _near(came, held) and not _near(went, refused)
