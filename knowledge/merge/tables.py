"""Joining two versions of a table by its rows, and of a row by its cells. Pure."""

from __future__ import annotations

from knowledge.merge.align import Node
from knowledge.merge.cut import split_lines
from knowledge.merge.sequence import Inner, Sequences


def joined_table(base: Node, ours: Node, theirs: Node) -> Inner:
    """Return what both sides made of a table: rows that one side changed, added or took away."""
    b, o, t = (split_lines(node.text) for node in (base, ours, theirs))
    if not b[:2] == o[:2] == t[:2]:
        return Inner(None)

    def join(one: Node, mine: Node, other: Node) -> Inner:  # noqa: ARG001  (a row that both changed is theirs and ours)
        return Inner(None)

    nodes = [
        [
            Node("row", line, "", line, node.line + at, node.section)
            for at, line in enumerate(split_lines(node.text)[2:], 2)
        ]
        for node in (base, ours, theirs)
    ]
    merged = Sequences(nodes[0], nodes[1], nodes[2], join=join, gap="").merged()
    return Inner("".join(o[:2]) + "".join(node.text for node in merged.parts), merged.clashes)
