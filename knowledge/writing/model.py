"""What an act is, before and after it happened."""

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
    """What is to become of the files that an act looked at.

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
    """Put `origins` on record although no file changes: a unit has found support."""
    repeats: tuple[str, ...] = ()
    """Where sentences come from that are new in the page and that its writer does not name as somebody else's."""
    places: Mapping[str, str] = field(default_factory=dict)
    """Where files were found to lie when it was decided whether they may change: nothing is written anywhere else."""


@dataclass(frozen=True, slots=True)
class Stakes:
    """`configures`: the act changes what configures the server. `places` is where each file that changes really lies.

    `unmarks` says, one phrase each, which texts would no longer be marked as coming from where they come from.
    """

    configures: bool = False
    unmarks: tuple[str, ...] = ()
    places: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Rehearsed(Generic[T]):
    """What an act would do to files that hold `contents`."""

    contents: Contents
    work: ActWork[T]

    @property
    def result(self) -> T:
        """Return what the caller would get."""
        return self.work.result


@dataclass(frozen=True, slots=True)
class PageAct(Generic[T]):
    """Something to be done to files.

    `work` is asked, while the files' locks are held, what is to become of these contents. It changes nothing itself. When
    somebody else wrote meanwhile it is asked again with what is there then, so what is written always follows from what was
    really there. It changes only files of `paths`.
    `check` looks at what was written and returns what is wrong with it, one sentence each; then all of it is taken back.
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
    """An act that is on record. `revisions` are those of the changed files; `record` None if there was nothing to record.

    `undone` says why everything was taken back; empty when it stands.
    """

    result: T
    revisions: Mapping[str, str | None]
    record: AuditRecord | None
    undone: Sequence[str] = ()
