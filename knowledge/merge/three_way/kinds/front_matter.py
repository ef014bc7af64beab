"""Joins two versions of a front matter key by key; an untouched key keeps its bytes. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from knowledge.merge.document.units import bare, front_starts, split_lines
from knowledge.merge.three_way.alignment import AlignedNode, align_versions
from knowledge.merge.three_way.kinds.prose import join_by_lines
from knowledge.merge.three_way.line_join import join_insertions
from knowledge.merge.three_way.sequence import Clash, PartJoin, SequenceMerge
from knowledge.pages.front_matter import read_front_matter

# Lists of plain values, `[a, b]` or one entry per line. With quotes, anchors or nesting in it, a list is joined by lines.
_FLOW = re.compile(
    r"(?P<head>[^\s#\[\]:][^\r\n\[\]]*?:[ \t]*\[)(?P<items>[^\[\]{}\"'#\r\n&*]*)(?P<tail>\][ \t]*(?:#[^\r\n]*)?[\r\n]*)$"
)
_ENTRY = re.compile(r"[ \t]*-[ \t]+[^\s\[\]{}&*!|>#-][^\r\n]*[\r\n]*$")


def join_front_matter(base: str, ours: str, theirs: str) -> PartJoin:
    """Return the merged front matter, fences included; a key that both sides changed differently keeps our value.

    Lists of plain values (`tags`) are joined by their values.
    """
    b, o, t = (_keys(text) for text in (base, ours, theirs))
    if b is None or o is None or t is None:
        text = join_by_lines(base, ours, theirs)
        return PartJoin(None if text is None else _sound(text, ours, theirs))

    def same_key(one: AlignedNode, other: AlignedNode) -> float:
        return float(key_name(one.text) == key_name(other.text))

    merged = SequenceMerge(align_versions(b, o, t, same_key), _join_key).merged()
    mine, other = ({key_name(node.text): node for node in side} for side in (o, t))
    often = Counter(key_name(node.text) for node in merged.parts)
    clashes = list(merged.clashes)
    found: dict[str, str] = {}
    for node in merged.parts:
        name = key_name(node.text)
        if name not in found:
            # A name that is there twice was added by both sides with different values.
            is_ours = often[name] > 1 and name in mine
            found[name] = mine[name].text if is_ours else node.text
            if is_ours and name in other:
                clashes.append(Clash("", mine[name].text, other[name].text, mine[name].line, ()))
    frame = split_lines(ours)
    text = _sound(frame[0] + "".join(found.values()) + frame[-1], ours, theirs)
    return PartJoin(text, clashes if text is not None else ())


def key_name(entry: str) -> str:
    """Return the key of an entry, without its quotes."""
    for line in split_lines(entry):
        if line[0] not in "#\r\n \t":
            return bare(line).partition(":")[0].strip().strip("\"'")
    return ""


def _keys(text: str) -> list[AlignedNode] | None:
    """Return each key with the comments above it; None if a line belongs to no plain key, or a key occurs twice."""
    lines = split_lines(text)
    starts = front_starts(lines)
    if not starts:
        return [] if len(lines) == 2 else None
    found = []
    for start, end in zip(starts, [*starts[1:], len(lines) - 1], strict=True):
        entry = "".join(lines[start:end])
        found.append(AlignedNode("key", entry, "", entry, start + 1))
    names = {key_name(node.text) for node in found}
    return found if len(names) == len(found) else None


def _join_key(base: AlignedNode, ours: AlignedNode, theirs: AlignedNode) -> PartJoin:
    b, o, t = (_FLOW.match(node.text) for node in (base, ours, theirs))
    if b and o and t:
        values = _join_values(*([v.strip() for v in f["items"].split(",") if v.strip()] for f in (b, o, t)))
        return PartJoin(o["head"] + ", ".join(values) + o["tail"])
    versions = [split_lines(node.text) for node in (base, ours, theirs)]
    heads = [lines[:1] for lines in versions]
    entries = [lines[1:] for lines in versions]
    if heads[0] == heads[1] == heads[2] and all(_ENTRY.match(line) for lines in entries for line in lines):
        return PartJoin(heads[0][0] + "".join(_join_values(*entries)))
    return PartJoin(join_by_lines(base.text, ours.text, theirs.text))


def _join_values(base: Sequence[str], ours: Sequence[str], theirs: Sequence[str]) -> list[str]:
    """Return our values, without what theirs removed, with what theirs added where they put it."""
    was = set(base)
    gone = was - set(theirs)
    kept = [value for value in ours if value not in gone]
    stay = set(kept)
    there = [value for value in theirs if value in stay or value not in was]
    return list(dict.fromkeys(join_insertions(kept, there)))


def _sound(text: str, ours: str, theirs: str) -> str | None:
    """Return `text`, or None if it does not parse though both versions that it was made from do."""
    problems = [read_front_matter([bare(line) for line in split_lines(one)]).problem for one in (text, ours, theirs)]
    return None if problems[0] and not (problems[1] or problems[2]) else text
