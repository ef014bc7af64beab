"""Acts on record that can be taken back, and the choice where something else has changed since. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from knowledge.history.acts import storable
from knowledge.history.ports import Actor, RecordedAct

Take = Literal["", "before", "now"]
"""The side that is written where the change and a later one touch the same text: the state before the change, or the current one.
Without a choice the current text stays, and both sides are shown as a conflict."""
UNDO = "undo"
"""The tool of the record of an act that takes others back."""


@dataclass(frozen=True, slots=True)
class PastFile:
    """One file of an act: its revisions before and after, None where there was no file; `moved_from` is the page's former path."""

    path: str
    before: str | None
    after: str | None
    moved_from: str | None = None


@dataclass(frozen=True, slots=True)
class PastAct:
    """An act on record. `first` and `last` are the ids of its lines in the histories of pages.

    `seq` is the number of its audit record, None for a change made outside the server; such a change is one file. `by`
    is its principal, "" outside. `proposal` is the one that a person approved, None without. `undoes` are the records
    that it took back itself.
    """

    seq: int | None
    first: int
    last: int
    at: datetime
    by: str
    tool: str
    intent: str
    proposal: str | None
    files: tuple[PastFile, ...]
    undoes: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """The name by which people select it, as `acts.act_name`."""
        return f"e{self.first}" if self.seq is None else str(self.seq)

    @property
    def by_person(self) -> bool:
        """Whether a person made it, on the page, in a terminal or in an editor, or approved it."""
        return self.seq is None or self.tool == UNDO or self.proposal is not None

    @property
    def sources(self) -> Mapping[str, str]:
        """The new path of each page that it moved, by the former one."""
        return {file.moved_from: file.path for file in self.files if file.moved_from is not None}

    @property
    def left(self) -> Collection[str | None]:
        """The revisions that pages had when it moved them."""
        sources = self.sources
        return [file.before for file in self.files if file.path in sources]


@dataclass(frozen=True, slots=True)
class UndoRequest:
    """Take back these acts, newest first, as one act. `path` is the page that the request is about.

    `take` is the choice for all conflicts; `take_at` has choices for single conflicts, by id, and for all conflicts of a page, by
    path.
    """

    actor: Actor
    path: str
    acts: tuple[PastAct, ...]
    take: Take = ""
    take_at: Mapping[str, Take] | None = None

    @property
    def intent(self) -> str:
        """What the act does, for the record."""
        if len(self.acts) > 1:
            by = {act.by for act in self.acts}
            return f"undo {len(self.acts)} changes" + (f" by {by.pop()}" if len(by) == 1 else "")
        act = self.acts[0]
        return storable(f"undo change {act.name}" + (f" by {act.by}" if act.by else " made outside the server"))

    def side_of(self, conflict: UndoConflict) -> Take:
        """Return the side chosen for the conflict."""
        chosen = self.take_at or {}
        return chosen.get(conflict.id, chosen.get(conflict.path, self.take))


@dataclass(frozen=True, slots=True)
class UndoConflict:
    """A part of a change that can't be taken back without touching what came later, with both sides.

    `kind`: `text` is a passage of a page; `page` is a whole page, where None means that there is none; `place` is the
    path of a page. `before` is the side before the change, `now` the current one. `choices` are the sides that can be
    taken, and `taken` is the side that was. `id` stays the same as long as both sides have these texts, whichever sides
    are taken of other conflicts.
    """

    id: str
    path: str
    kind: Literal["text", "page", "place"]
    sentence: str
    before: str | None
    now: str | None
    section: str = ""
    line: int = 0
    choices: tuple[Take, ...] = ("before", "now")
    taken: Take = ""


@dataclass(frozen=True, slots=True)
class UndoAnswer:
    """The outcome of taking acts back.

    `done`: all of it; `partial`: without the parts in `conflicts`, which stay as they are now; `conflict`: nothing is
    written, because all of it is in conflict; `unchanged`: nothing of the acts is left to take back. `pages` are all
    pages that were written, `gone` those that were removed. `undone` are the acts that were taken back completely.
    `decided` are the conflicts for which a side was chosen.
    """

    status: Literal["done", "partial", "conflict", "unchanged"]
    pages: Sequence[str]
    gone: Sequence[str]
    undone: Sequence[PastAct]
    conflicts: Sequence[UndoConflict]
    notes: Sequence[str]
    decided: Sequence[UndoConflict] = ()


def past_act(act: RecordedAct) -> PastAct:
    """Return the act in the form in which it can be taken back; without files if the state before it is not known."""
    line, last = act.lines[0], act.lines[-1]
    # A state made outside without one before it is only the first that the server saw of the page.
    known = [one for one in act.lines if one.seq is not None or one.before is not None]
    files = tuple(PastFile(one.path, one.before, one.revision, one.moved_from) for one in known)
    return PastAct(
        line.seq, line.id, last.id, line.at, line.principal, line.tool, line.intent, line.proposal, files, act.undoes
    )
