"""Joining two versions of a front matter by its keys; what nobody touched keeps its bytes. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from knowledge.merge.document.units import bare, front_starts, split_lines
from knowledge.merge.three_way.alignment import AlignedNode
from knowledge.merge.three_way.line_join import clean, merge_lines, union
from knowledge.merge.three_way.sequence import Clash, Inner, Sequences
from knowledge.pages.front_matter import read_front_matter

_FLOW = re.compile(
    r"(?P<head>[^\s#\[\]:][^\r\n\[\]]*?:[ \t]*\[)(?P<items>[^\[\]{}\"'#\r\n&*]*)(?P<tail>\][ \t]*(?:#[^\r\n]*)?[\r\n]*)$"
)
_ENTRY = re.compile(r"[ \t]*-[ \t]+[^\s\[\]{}&*!|>#-][^\r\n]*[\r\n]*$")


def joined_front(base: str, ours: str, theirs: str) -> Inner:
    """Return what both sides made of a front matter, fences included; a key that both changed stays as it is in ours.

    Lists of plain values (`tags`) are joined by their values.
    """
    b, o, t = (_keys(text) for text in (base, ours, theirs))
    if b is None or o is None or t is None:
        lines = clean(merge_lines(split_lines(base), split_lines(ours), split_lines(theirs), strict=True))
        return Inner(None if lines is None else _sound("".join(lines), ours, theirs))
    merged = Sequences(b, o, t, join=_joined_key, gap="", alike=_same_key).merged()
    frame = split_lines(ours)
    nodes = _once(merged.parts, o)
    text = _sound(frame[0] + "".join(node.text for node in nodes) + frame[-1], ours, theirs)
    clashes = [*merged.clashes, *_twice(merged.parts, o, t)]
    return Inner(text, clashes if text is not None else ())


def _keys(text: str) -> list[AlignedNode] | None:
    """Return the keys with the comments above them, None if it is not made of plain keys, each there once."""
    lines = split_lines(text)
    starts = front_starts(lines)
    if not starts:
        return [] if len(lines) == 2 else None
    found = []
    for start, end in zip(starts, [*starts[1:], len(lines) - 1], strict=True):
        whole = "".join(lines[start:end])
        found.append(AlignedNode("key", whole, "", whole, start + 1))
    names = [name_of(node.text) for node in found]
    return found if len(set(names)) == len(names) else None


def name_of(entry: str) -> str:
    """Return the key of an entry, without its quotes."""
    for line in split_lines(entry):
        if line[0] not in "#\r\n \t":
            return bare(line).partition(":")[0].strip().strip("\"'")
    return ""


def _same_key(one: AlignedNode, other: AlignedNode) -> float:
    return float(name_of(one.text) == name_of(other.text))


def _joined_key(base: AlignedNode, ours: AlignedNode, theirs: AlignedNode) -> Inner:
    flows = [_FLOW.match(node.text) for node in (base, ours, theirs)]
    if all(flows) and (b := flows[0]) and (o := flows[1]) and (t := flows[2]):
        values = _joined_values(*([v.strip() for v in f["items"].split(",") if v.strip()] for f in (b, o, t)))
        return Inner(o["head"] + ", ".join(values) + o["tail"])
    b_lines, o_lines, t_lines = (split_lines(node.text) for node in (base, ours, theirs))
    if b_lines[:1] == o_lines[:1] == t_lines[:1] and all(
        _ENTRY.match(line) for lines in (b_lines, o_lines, t_lines) for line in lines[1:]
    ):
        return Inner(b_lines[0] + "".join(_joined_values(b_lines[1:], o_lines[1:], t_lines[1:])))
    lines = clean(merge_lines(b_lines, o_lines, t_lines, strict=True))
    return Inner(None if lines is None else "".join(lines))


def _joined_values(base: Sequence[str], ours: Sequence[str], theirs: Sequence[str]) -> list[str]:
    """Return ours, without what theirs took away, with what theirs added where they put it."""
    was = set(base)
    gone = was - set(theirs)
    kept = [value for value in ours if value not in gone]
    stay = set(kept)
    there = [value for value in theirs if value in stay or value not in was]
    return list(dict.fromkeys(union(kept, there)))


def _once(parts: Sequence[AlignedNode], ours: Sequence[AlignedNode]) -> list[AlignedNode]:
    """Return the keys, of two with one name ours."""
    own = {name_of(node.text): node.text for node in ours}
    often = Counter(name_of(node.text) for node in parts)
    seen: set[str] = set()
    found: list[AlignedNode] = []
    for node in parts:
        name = name_of(node.text)
        if name in seen:
            continue
        seen.add(name)
        found.append(node._replace(text=own[name]) if often[name] > 1 and name in own else node)
    return found


def _twice(parts: Sequence[AlignedNode], ours: Sequence[AlignedNode], theirs: Sequence[AlignedNode]) -> list[Clash]:
    """Return what both sides added under one name with two values."""
    names = Counter(name_of(node.text) for node in parts)
    mine = {name_of(node.text): node for node in ours}
    other = {name_of(node.text): node for node in theirs}
    return [
        Clash("", mine[name].text, other[name].text, mine[name].line, ())
        for name, count in names.items()
        if count > 1 and name in mine and name in other
    ]


def _sound(text: str, ours: str, theirs: str) -> str | None:
    """Return a front matter if it reads as well as both that went in."""
    problems = [read_front_matter([bare(line) for line in split_lines(one)]).problem for one in (text, ours, theirs)]
    return None if problems[0] and not (problems[1] or problems[2]) else text
