"""Acts on pages: the request, and the result."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from knowledge.history.ports import Actor, AuditRecord
from knowledge.merge.model import Contradiction, Origin

T = TypeVar("T")

Contents = Mapping[str, bytes | None]
"""Bytes of files by path; None where there is no file."""


@dataclass(frozen=True, slots=True)
class ActWork(Generic[T]):
    """The planned effect of an act on the files that it was shown.

    `contents` names the files that change: their new bytes, None to remove one. Empty: nothing is written. `result` is what
    the caller gets. `moved` maps a new path to the one that the page had.
    """

    contents: Contents
    result: T
    source: str = "user"
    confidence: float | None = None
    outcome: str = "done"
    origins: Mapping[str, Sequence[Origin]] = field(default_factory=dict)
    contradictions: Sequence[Contradiction] = ()
    moved: Mapping[str, str] = field(default_factory=dict)
    record: bool = False
    """Whether to record `origins` although no file changes, because a unit was corroborated."""
    repeats: tuple[str, ...] = ()
    """Origins of added sentences that came from somebody else, whom the act does not name as its source."""
    judgements: tuple[tuple[str, str], ...] = ()
    """The host's answers, as `HistoryEntry` records them."""
    undoes: tuple[int, ...] = ()
    """The audit records of the acts that it takes back."""
    places: Mapping[str, str] = field(default_factory=dict)
    """Real paths of the files at the time it was decided that they may change; nothing is written anywhere else."""


@dataclass(frozen=True, slots=True)
class Stakes:
    """`configures`: the act changes the configuration of the server. `places` is the real path of each file that changes.

    `unmarks` has a phrase for each text that would no longer be marked with its origin.
    """

    configures: bool = False
    unmarks: tuple[str, ...] = ()
    places: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Rehearsed(Generic[T]):
    """The effect that an act would have on files with these `contents`."""

    contents: Contents
    work: ActWork[T]


@dataclass(frozen=True, slots=True)
class PageAct(Generic[T]):
    """Something to be done to the files at `paths`, and to no others.

    `work` is called with their contents while their locks are held, and returns the planned changes; it changes nothing itself. If
    another program writes in the meantime, it is called again with the new contents, so that every write is based on the actual
    content.
    `check` reads what was written and returns its faults, one sentence each; if there are any, the act is undone.
    """

    actor: Actor
    paths: tuple[str, ...]
    work: Callable[[Contents], Awaitable[ActWork[T]]]
    intent: str = ""
    proposal: str | None = None
    decision: str | None = None
    check: Callable[[Contents], Awaitable[Sequence[str]]] | None = None


@dataclass(frozen=True, slots=True)
class ActDone(Generic[T]):
    """An act that is on record. `revisions` are those of the changed files; `record` is None if nothing had to be recorded.

    `undone` says why everything was undone; empty if it was not.
    """

    result: T
    revisions: Mapping[str, str | None]
    record: AuditRecord | None
    undone: Sequence[str] = ()
