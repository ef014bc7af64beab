"""The port through which everything writes pages. `transaction.py` writes files of a folder."""

from __future__ import annotations

from typing import Protocol, TypeVar

from knowledge.writing.files.recovery import Recovery
from knowledge.writing.model import ActDone, PageAct, Rehearsed

T = TypeVar("T")


class PageActs(Protocol):
    """Carries out acts on the pages of one knowledge base: each is written completely and put on record, or not at all."""

    @property
    def recovery(self) -> Recovery:
        """Ends the acts of processes that died."""
        ...

    async def run(self, act: PageAct[T]) -> ActDone[T]:
        """Carry out the act and return it once it is on record, durably. A caller that disconnects does not stop it.

        `act.check` gets the pages as they will be when the act is done. It may be called before they are written; then
        they are not in the folder yet.

        Raises:
            InvalidPath, UnreadableDocument, UnwritableDocument: nothing was changed.
            DocumentBusy, KeepsChanging: nothing was changed; saves by others are kept.
            StorageError: the database can't be used; nothing was changed, or (OutcomeUnknown) nobody knows yet.
            Any error of `act.work`: nothing was changed.
        """
        ...

    async def rehearse(self, act: PageAct[T]) -> Rehearsed[T]:
        """Return the effect that the act would have now. Takes no locks and changes nothing."""
        ...

    async def note_outside(self, path: str) -> None:
        """Record the page as somebody else left it in the folder, if that state is not on record.

        If the server has written the page meanwhile, the two are merged.

        Raises:
            KnowledgeError: the page can't be read or locked.
        """
        ...

    async def follow_move(self, old: str, new: str) -> bool:
        """Record that somebody moved a page outside the server; return False and record nothing if nobody did.

        Raises:
            KnowledgeError: a page can't be read or locked.
        """
        ...

    async def watch(self) -> None:
        """Do the background work of a process that writes, until cancelled."""
        ...
