"""Checks that a joined sequence holds every line as often as both sides need it. Pure.

A block that one side moved while the other changed it can end up in both places, or in none. Then the other side's change is undone
and reported as a clash.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain, islice
from typing import NamedTuple

from knowledge.merge.three_way.alignment import AlignedNode, words
from knowledge.merge.three_way.sequence import Clash, KeptPart, SequenceMerge

_ROUNDS = 4
_NEAR = 0.5
_MANY = 300
"""The most lines that one line is compared with; up to this many, it is compared with all."""
_NUMBER = re.compile(r"\d{1,9}(?=[.)](?:\s|$))")


def settle_lines(merge: SequenceMerge) -> bool:
    """Undo the parts of a merged sequence that would lose or double a line; return whether all lines are then accounted for."""
    for _ in range(_ROUNDS):
        doubled, lost = _unaccounted(merge)
        if merge.clashes:
            more, less = _nearly_unaccounted(merge)
            doubled, lost = doubled | more, lost | less
        if not doubled and not lost:
            return True
        # `|`, because both have to run.
        if not (_take_back(merge, doubled) | _put_back(merge, lost)):
            return False
    return not any(_unaccounted(merge))


def is_accounted(base: str, ours: str, theirs: str, joined: str, clashes: Sequence[Clash]) -> bool:
    """Return whether a text joined by lines holds every line as often as both sides want it."""
    tally = _count([base], [ours], [theirs], [joined], clashes)
    if any(_out_of_bounds(tally)):
        return False
    staying, refused = _staying_and_refused(clashes)
    came, went = tally.joined - tally.ours, tally.ours - tally.joined
    return not _near(came, staying) and not _near(went, refused)


class _Tally(NamedTuple):
    """How often each line occurs in the three versions and in the result; `clashing` counts the lines of clashes."""

    base: Counter[str]
    ours: Counter[str]
    theirs: Counter[str]
    joined: Counter[str]
    clashing: Counter[str]


def _out_of_bounds(tally: _Tally) -> tuple[set[str], set[str]]:
    """Return the lines that the result has too often, and those that it has too seldom.

    A line of a clash may also occur as often as in our version.
    """
    base, ours, theirs, joined, clashing = tally
    doubled: set[str] = set()
    lost: set[str] = set()
    for line in {*base, *ours, *theirs, *joined}:
        b, o, t, count = base[line], ours[line], theirs[line], joined[line]
        if b == o == t == count:
            continue
        # The changes of both sides applied to the base.
        both = max(o + t - b, 0)
        # Two sides that both added a line, or both removed it, may have meant the same one.
        if o >= b and t >= b:
            low, high = max(o, t), both
        elif o <= b and t <= b:
            low, high = both, min(o, t)
        else:
            low = high = both
        if line in clashing:
            low, high = min(low, o), max(high, o)
        if count > high:
            doubled.add(line)
        elif count < low:
            lost.add(line)
    return doubled, lost


def _lines_of(texts: Iterable[str]) -> Counter[str]:
    """Return how often each line is there, ignoring blank lines and indents."""
    found: Counter[str] = Counter()
    for text in filter(None, texts):
        found.update(_lines(text))
    return found


def _lines(text: str) -> list[str]:
    """Return the lines that are not blank, without the numbers of items, which may have been renumbered."""
    lines = [line for part in text.replace("\r", "\n").split("\n") if (line := part.strip(" \t"))]
    return [_NUMBER.sub("", line) if line[0].isdigit() else line for line in lines]


def _count(
    base: Iterable[str],
    ours: Iterable[str],
    theirs: Iterable[str],
    joined: Iterable[str],
    clashes: Iterable[Clash] = (),
) -> _Tally:
    clashing = _lines_of(text for clash in clashes for text in (clash.base, clash.ours, clash.theirs))
    return _Tally(_lines_of(base), _lines_of(ours), _lines_of(theirs), _lines_of(joined), clashing)


def _unaccounted(merge: SequenceMerge) -> tuple[set[str], set[str]]:
    base, ours, theirs = ([node.text for node in side] for side in (merge.base, merge.ours, merge.theirs))
    joined: list[str] = []
    put_together: list[_Tally] = []
    for kept in merge.kept:
        at = merge.from_ours.get(kept.ours, -1)
        if (
            at >= 0
            and kept.theirs == merge.to_theirs[at] >= 0
            and kept.node.text == merge.base[at].text == merge.theirs[kept.theirs].text
        ):
            # Neither side changed it: it counts the same everywhere.
            base[at] = ours[kept.ours] = theirs[kept.theirs] = ""
            continue
        joined.append(kept.node.text)
        if kept.joined and at >= 0:
            mine, other = merge.ours[kept.ours], merge.theirs[kept.theirs]
            put_together.append(_count([merge.base[at].text], [mine.text], [other.text], [kept.node.text]))
    tally = _count(base, ours, theirs, joined, merge.clashes)
    # A line that was put together from words of both sides is in neither version, so it is not counted.
    for inner in put_together:
        more, less = _out_of_bounds(inner)
        for line in less | {line for line in more if not inner.ours[line] and not inner.theirs[line]}:
            for counts, part in zip(tally[:4], inner[:4], strict=True):
                counts[line] -= part[line]
    return _out_of_bounds(tally)


def _nearly_unaccounted(merge: SequenceMerge) -> tuple[set[str], set[str]]:
    """Return the lines that are nearly doubled, and those that are nearly lost.

    The former are new lines that resemble a line that a clash kept, the latter removed lines that resemble a line that
    a clash kept out.
    """
    staying, refused = _staying_and_refused(merge.clashes)
    there = {kept.ours for kept in merge.kept}
    came = _lines_of(kept.node.text for kept in merge.kept if kept.ours < 0)
    went = _lines_of(node.text for at, node in enumerate(merge.ours) if at not in there)
    return _near(came, staying), _near(went, refused)


def _staying_and_refused(clashes: Iterable[Clash]) -> tuple[Counter[str], Counter[str]]:
    """Return the lines that stay because of a clash although theirs lacks them, and the lines of clashes that only theirs has."""
    staying: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    for clash in clashes:
        base, ours, theirs = (_lines_of([text]) for text in (clash.base, clash.ours, clash.theirs))
        # `+=` on a Counter would scan everything found so far each time.
        staying.update((base | ours) - theirs)
        refused.update(theirs - base - ours)
    return staying, refused


def _near(lines: Iterable[str], others: Iterable[str]) -> set[str]:
    """Return those of `lines` that are versions of one of `others`."""
    known = [found for line in others if len(found := words(line)) > 1]
    holding: dict[str, list[frozenset[str]]] = {}
    if len(known) > _MANY:
        for other in known:
            for word in other:
                holding.setdefault(word, []).append(other)

    def candidates(own: frozenset[str]) -> Iterable[frozenset[str]]:
        """Return lines that may be near; if there are very many, some that share the rarest words."""
        if not holding:
            return known
        found: list[list[frozenset[str]]] = sorted((holding.get(word, []) for word in own), key=len)
        return islice(chain.from_iterable(found), _MANY)

    near: set[str] = set()
    for line in lines:
        own = words(line)
        if len(own) > 1 and any(2 * len(own & one) >= _NEAR * (len(own) + len(one)) for one in candidates(own)):
            near.add(line)
    return near


def _take_back(merge: SequenceMerge, doubled: set[str]) -> bool:
    """Replace every part that holds doubled lines with our version; return whether there was any."""
    found: list[KeptPart] = []
    for kept in merge.kept:
        mine = merge.ours[kept.ours] if kept.ours >= 0 else None
        if (mine and mine.text == kept.node.text) or doubled.isdisjoint(_lines(kept.node.text)):
            found.append(kept)
            continue
        merge.clashes.append(_clash(merge, kept, mine))
        if mine:
            found.append(kept._replace(node=mine, joined=False))
    changed = found != merge.kept
    merge.kept = found
    return changed


def _put_back(merge: SequenceMerge, lost: set[str]) -> bool:
    """Put back our parts that hold lost lines; return whether there was any."""
    if not lost:
        return False
    there = {kept.ours for kept in merge.kept}
    gone = [at for at, node in enumerate(merge.ours) if at not in there and not lost.isdisjoint(_lines(node.text))]
    for at in gone:
        node = merge.ours[at]
        place = next((i for i, kept in enumerate(merge.kept) if kept.ours > at), len(merge.kept))
        merge.kept.insert(place, KeptPart(node, at))
        was = merge.from_ours.get(at, -1)
        base = merge.base[was].text if was >= 0 else _lines_known_to(merge.base, node.text)
        merge.clashes.append(Clash(base, node.text, "", node.line, node.section))
    edited = [
        kept
        for kept in merge.kept
        if kept.ours >= 0
        and kept.node.text != merge.ours[kept.ours].text
        and not lost.isdisjoint({*_lines(merge.ours[kept.ours].text)} - {*_lines(kept.node.text)})
    ]
    for kept in edited:
        mine = merge.ours[kept.ours]
        merge.clashes.append(_clash(merge, kept, mine))
        merge.kept[merge.kept.index(kept)] = kept._replace(node=mine, joined=False)
    return bool(gone or edited)


def _clash(merge: SequenceMerge, kept: KeptPart, mine: AlignedNode | None) -> Clash:
    at = merge.from_ours.get(kept.ours, -1) if mine else -1
    base = merge.base[at].text if at >= 0 else ""
    theirs = merge.theirs[kept.theirs].text if kept.theirs >= 0 else _lines_known_to(merge.theirs, kept.node.text)
    where = mine or kept.node
    return Clash(base, mine.text if mine else "", theirs, where.line, where.section)


def _lines_known_to(side: Sequence[AlignedNode], text: str) -> str:
    """Return the lines of a merged text that this side has too; the others came from the other side."""
    known = {line for node in side for line in _lines(node.text)}
    return "".join(line for line in text.splitlines(keepends=True) if known.issuperset(_lines(line)))
