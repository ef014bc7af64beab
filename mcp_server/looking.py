"""What conditions may look at: the knowledge base through its circles, and what this server knows of the journey itself."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Literal

from anyio.lowlevel import checkpoint

from agents.agent import Called, Citation, Fate, Place, ProposalState, ScentLevel
from agents.citing import misplaced
from agents.events import ToolSuccess
from agents.state import JourneyState
from agents.store import JourneyStore
from knowledge.errors import AmbiguousName, InvalidPath, NoSuchPath, UnreadableDocument
from knowledge.trust.ports import Proposal
from mcp_server.services import Services

if TYPE_CHECKING:
    from knowledge.document import Document
    from knowledge.find.answers import SearchAnswer

MOST_SUCCESSORS = 10
_STATES: dict[str, ProposalState] = {
    "pending": "pending",
    "approved": "pending",
    "executed": "done",
    "rejected": "rejected",
}


class KnowledgeLook:
    """A look at one moment: what was read or searched once is not read or searched again for the same submit."""

    def __init__(self, services: Services, store: JourneyStore, journey: str, state: JourneyState) -> None:
        self._services, self._store, self._journey, self._state = services, store, journey, state
        self._documents: dict[str, Document | str] = {}
        self._answers: dict[str, SearchAnswer] = {}

    async def cited(self, citation: Citation) -> str:
        """Return "" if the quote stands there, else why not."""
        await checkpoint()  # a work may have thousands of them, and others are served meanwhile
        document = await self._document(citation.path)
        return document if isinstance(document, str) else misplaced(document, citation)

    async def _document(self, path: str) -> Document | str:
        """Return the page as it is on disk now, or why there is none."""
        if path not in self._documents:
            try:
                self._documents[path] = await self._services.circles.document(path)
            except (InvalidPath, NoSuchPath, AmbiguousName, UnreadableDocument) as error:
                self._documents[path] = str(error)
        return self._documents[path]

    async def place(self, path: str) -> Place:
        """Return what lies at exactly that path."""
        try:
            return await self._services.circles.place(path)
        except InvalidPath:
            return ""

    async def revision(self, path: str) -> str:
        """Return the present revision of the page, "" if there is none."""
        try:
            return await self._services.circles.revision(path)
        except (InvalidPath, NoSuchPath, UnreadableDocument):
            return ""

    async def scent(self, query: str) -> ScentLevel:
        """Return whether a search for this finds enough."""
        return (await self._search(query)).scent.level

    async def route(self, question: str) -> Literal["navigation", "discovery"]:
        """Return how the question is routed."""
        return (await self._search(question)).route.mode

    async def _search(self, query: str) -> SearchAnswer:
        if query not in self._answers:
            self._answers[query] = await self._services.finder.search(query)
        return self._answers[query]

    async def calls(self) -> Sequence[Called]:
        """Return the tools that answered calls of this journey in the present visit of its phase."""
        log = await self._store.events(self._journey, after=self._state.entered_seq)
        events = [logged.event for logged in log]
        # A call may have begun in the phase before, and end in this one. What a person approved belongs to none.
        here = ("", self._state.phase)
        return [Called(e.tool, e.phase, e.facts) for e in events if isinstance(e, ToolSuccess) and e.phase in here]

    async def proposal(self, proposal_id: str) -> Fate | None:
        """Return what became of a proposal of this journey; of one that another took the place of, what became of that one."""
        trust = self._services.state.trust
        found = await trust.proposal(proposal_id)
        if found is None or found.journey != self._journey:
            return None
        for _ in range(MOST_SUCCESSORS):
            following = await trust.proposal(found.successor) if found.successor else None
            if following is None:
                break
            found = following
        return _fate(found)

    async def tools(self) -> Collection[str]:
        """Return the names of the tools that are listed."""
        return frozenset(spec.name for spec in self._services.tools())


def _fate(proposal: Proposal) -> Fate:
    note = proposal.verdict.note if proposal.verdict else ""
    path = proposal.documents[0] if proposal.documents else ""
    return Fate(proposal.tool, _STATES.get(proposal.state, "ended"), note, path)
