"""Brings one page from the other side into the knowledge base: a three-way merge, as one act on record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from knowledge.history.ports import Actor
from knowledge.merge.document.units import cut
from knowledge.merge.three_way.join import join
from knowledge.pages.obsidian.canvas import is_canvas
from knowledge.pages.vault import revision_of
from knowledge.sync.changed_files import CommitAuthor
from knowledge.writing.model import ActWork, Contents, PageAct

TOOL = "sync"

ArrivalKind = Literal["same", "taken", "merged", "removed", "kept", "returned", "beside"]
"""`taken`: as the other side has it. `kept`: the other side removed it, but it was changed here. `returned`: it was removed here, but
the other side changed it. `beside`: both changed it, and it is no text that could be merged."""


@dataclass(frozen=True, slots=True)
class PageArrival:
    """What became of a page. `raw` is the page's content now, at `path`; None if there is no page.

    `conflicts` counts the places that both sides changed; the page has the text of this side there. `base` and `theirs` are the
    texts of the merge.
    """

    kind: ArrivalKind
    path: str
    raw: bytes | None
    conflicts: int = 0
    base: bytes = b""
    theirs: bytes = b""


@dataclass(frozen=True, slots=True)
class PageTexts:
    """A page in the common commit and on the other side; None where there is none."""

    base: bytes | None
    theirs: bytes | None


def arrival_act(here: str, to: str, texts: PageTexts, remote: str, author: CommitAuthor) -> PageAct[PageArrival]:
    """Return the act that brings in the other side's change of the page at `here`.

    If `to` differs, the page moves there.

    The act is on record as the author's.
    """

    async def work(contents: Contents) -> ActWork[PageArrival]:
        arrival = _merged(to, texts.base, contents[here], texts.theirs)
        if arrival.raw == contents[here] and here == to:
            return ActWork({}, arrival)
        moves = here != to and contents[here] is not None
        written = {to: arrival.raw} | ({here: None} if moves else {})
        return ActWork(written, arrival, source="unknown", moved={to: here} if moves else {})

    # With a colon, which no host has in its name, nobody can be taken for a host.
    actor = Actor(f"{author.name}@git:{remote}", TOOL, revision_of(texts.theirs or b""))
    intent = f"bring in commit {author.commit[:9]} from {remote}"
    return PageAct(actor, tuple(dict.fromkeys((here, to))), work, intent=intent)


def _merged(path: str, base: bytes | None, ours: bytes | None, theirs: bytes | None) -> PageArrival:
    """Return what the page becomes. Pure."""
    if theirs is None:
        if ours is None:
            return PageArrival("same", path, None)
        return PageArrival("removed", path, None) if ours == base else PageArrival("kept", path, ours)
    if ours is None:
        if base is None:
            return PageArrival("taken", path, theirs)
        return PageArrival("same", path, None) if theirs == base else PageArrival("returned", path, theirs)
    if ours in (base, theirs):
        return PageArrival("same" if ours == theirs else "taken", path, theirs)
    if theirs == base:
        return PageArrival("same", path, ours)
    try:
        texts = [raw.decode() for raw in (base or b"", ours, theirs)]
    except UnicodeDecodeError:
        return PageArrival("beside", path, ours, theirs=theirs)
    if is_canvas(path):
        return PageArrival("beside", path, ours, theirs=theirs)
    joined = join(*map(cut, texts))
    return PageArrival("merged", path, joined.text.encode(), len(joined.conflicts), base or b"", theirs)
