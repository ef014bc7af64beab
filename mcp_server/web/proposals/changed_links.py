"""Find the links that a rename changes in other pages, so that they can be listed. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from knowledge.merge.document.link_spans import LinkSpan, links_in
from mcp_server.presenters.diffs import DiffHunk

LONGEST_LINE = 20_000


@dataclass(frozen=True, slots=True)
class ChangedLink:
    """A link on line `line` of a page, before and after."""

    line: int
    old: str
    new: str


def changed_links(hunks: Sequence[DiffHunk]) -> Sequence[ChangedLink]:
    """Return the links that differ between both sides, in order; empty if anything but targets of links differs."""
    found: list[ChangedLink] = []
    for hunk in hunks:
        if hunk.note:
            return ()
        for change in hunk.changes:
            if change.same:
                continue
            if len(change.old) != len(change.new):
                return ()
            for old, new in zip(change.old, change.new, strict=True):
                links = list(_in_line(old.text, new.text)) if old.note == new.note else []
                if not links:
                    return ()
                found += [ChangedLink(new.number, before, after) for before, after in links]
    return found


def _in_line(old: str, new: str) -> Iterator[tuple[str, str]]:
    """Yield the differing targets of two lines, nothing if something else differs."""
    if max(len(old), len(new)) > LONGEST_LINE:
        return
    before, after = links_in(old), links_in(new)
    if _around(old, before) != _around(new, after):
        return
    for one, other in zip(before, after, strict=True):
        texts = old[one.at : one.to], new[other.at : other.to]
        if texts[0] != texts[1]:
            yield texts


def _around(line: str, links: Sequence[LinkSpan]) -> list[str]:
    """Return the parts of the line between the targets of its links."""
    cuts = [0, *(at for link in links for at in (link.at, link.to)), len(line)]
    return [line[start:end] for start, end in zip(cuts[::2], cuts[1::2], strict=True)]
