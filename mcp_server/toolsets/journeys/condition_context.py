"""The data that conditions can check: the pages of the knowledge base, and this server's records of the journey."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Literal

from anyio.lowlevel import checkpoint

from agents.catalogue import cognitive_entries
from agents.engine.agent import Called, Citation, Fate, Learning, Place, ProposalState, ScentLevel
from agents.engine.events import PhaseChanged, ToolSuccess
from agents.engine.evidence.learned import learning_pages, learnings_on
from agents.engine.evidence.quote_check import passage, quote_problem
from agents.engine.evidence.shown import LISTING, MAP, READ, listing, was_searched, was_shown
from agents.engine.graph import PhaseGraph
from agents.engine.progress.automatic_phases import speaker_of
from agents.engine.state import JourneyState
from agents.errors import NoSuchJourney
from agents.spec.files import FOLDERS, AgentFiles
from agents.store.ports import JourneyStore
from knowledge.errors import AmbiguousName, InvalidPath, NoSuchPath, UnreadableDocument
from knowledge.pages.paths import LEARNINGS_FOLDER, clean_path
from knowledge.search.query.keywords import content_words, key_phrases, near_terms
from knowledge.state.ports import ReadingMark
from mcp_server.approvals.views.askers import in_journey
from mcp_server.gate.host_registration import TOKENLESS
from mcp_server.ports import JourneyServices

if TYPE_CHECKING:
    from knowledge.pages.document import Document
    from knowledge.search.answers import SearchAnswer

MOST_SEARCHED = 2_000
"""The search for pages near a text gets at most this many of its first characters."""
OF_WORK = tuple(f"{folder}/" for folder in (LEARNINGS_FOLDER, *FOLDERS))
NEAR_SHARE = 3
"""One term in this many may come from pages near the text, however many the text has itself: the pages have words that it lacks."""
_STATES: dict[str, ProposalState] = {
    "pending": "pending",
    "approved": "pending",
    "executed": "done",
    "rejected": "rejected",
}


class KnowledgeLook:
    """A view of one moment: nothing is read or searched twice for the same submission."""

    def __init__(
        self, services: JourneyServices, files: AgentFiles, store: JourneyStore, journey: str, state: JourneyState
    ) -> None:
        self._services, self._files, self._store = services, files, store
        self._journey, self._state = journey, state
        self._documents: dict[str, Document | str] = {}
        self._answers: dict[str, SearchAnswer] = {}
        self._calls: Sequence[Called] | None = None
        self._seen_before: dict[str, bool] = {}

    async def cited(self, citation: Citation) -> str:
        """Return "" if the quote is there and was read, else why it does not count."""
        await checkpoint()  # a work may have thousands of citations, and other calls need their turn
        document = await self._document(citation.path)
        if isinstance(document, str):
            return document
        if problem := quote_problem(document, citation):
            return problem
        if was_shown(document, citation, await self._readings()):
            return ""
        if not await self._judges_afresh() and await self._was_seen_before(document.path):
            return ""
        section = f", section {citation.section[:200]!r}" if citation.section.strip() else ""
        return f"that part of {document.path} was not read: call kb_read({document.path!r}{section}) with this journey_id first"

    async def passage(self, citation: Citation) -> str:
        """Return the cited section with its headings and the page's title, or ""."""
        document = await self._document(citation.path)
        return "" if isinstance(document, str) else passage(document, citation)

    async def _readings(self) -> Sequence[Called]:
        """Return the calls by which the present speaker saw pages.

        For a speaker who judges afresh, only calls of this visit count.
        """
        if await self._judges_afresh():
            return [call for call in await self.calls() if call.tool == READ]
        graph = await self._graph()
        speaker = speaker_of(graph, self._state.phase)
        # What another speaker wrote, this one has not read. An act that a person approved belongs to no phase.
        return [
            call
            for call in await self._all_calls()
            if call.tool == READ or not call.phase or speaker_of(graph, call.phase) == speaker
        ]

    async def _judges_afresh(self) -> bool:
        return (await self._graph()).phase(self._state.phase).fresh

    async def _graph(self) -> PhaseGraph:
        return (await self._services.journeys.catalogue.agent(self._state.agent)).graph

    async def _all_calls(self) -> Sequence[Called]:
        """Return the successful calls of the journey, and of the journey that it was forked from, in all phases."""
        if self._calls is None:
            try:
                log = await self._store.events(self._journey)
            except NoSuchJourney:  # it begins with automatic phases, which are not recorded yet
                log = ()
            events = (logged.event for logged in log)
            self._calls = [Called(e.tool, e.phase, e.facts) for e in events if isinstance(e, ToolSuccess)]
        return self._calls

    async def _was_seen_before(self, path: str) -> bool:
        """Return whether the caller who began the journey read the page outside of the journey, and it is unchanged since then."""
        if path not in self._seen_before:
            who, mark = self._state.principal, ReadingMark(path, "read")
            # All callers without a token share one principal, so a page that one of them read was not read by another.
            shared = who.endswith(f"@{TOKENLESS}")
            seen = {} if shared else await self._services.state.looks(who, "", [path])
            record = await self._services.index.document(path) if mark in seen else None
            at = seen[mark].timestamp() * 1e9 if mark in seen else 0
            self._seen_before[path] = record is not None and record.stamp.mtime_ns <= at
        return self._seen_before[path]

    async def _document(self, path: str) -> Document | str:
        """Return the page as it is on disk now, or why it cannot be read."""
        if path not in self._documents:
            try:
                self._documents[path] = await self._services.tiers.document(path)
            except (InvalidPath, NoSuchPath, AmbiguousName, UnreadableDocument) as error:
                self._documents[path] = str(error)
        return self._documents[path]

    async def place(self, path: str) -> Place:
        """Return the page or directory at exactly that path."""
        try:
            return await self._services.tiers.place(path)
        except InvalidPath:
            return ""

    async def revision(self, path: str) -> str:
        """Return the present revision of the page, or ""."""
        try:
            return await self._services.tiers.revision(path)
        except (InvalidPath, NoSuchPath, UnreadableDocument):
            return ""

    async def scent(self, query: str) -> ScentLevel:
        """Return how well a search for `query` answers it."""
        return (await self._search(query)).scent.level

    async def route(self, question: str) -> Literal["navigation", "discovery"]:
        """Return how the question is routed."""
        return (await self._search(question)).route.mode

    async def searched(self, query: str) -> bool:
        """Return whether this journey searched with these words."""
        return was_searched(query, await self._all_calls())

    async def _search(self, query: str) -> SearchAnswer:
        if query not in self._answers:
            self._answers[query] = await self._services.finder.search(query)
        return self._answers[query]

    async def calls(self, *, of_all_visits: bool = False) -> Sequence[Called]:
        """Return the calls of this journey that tools answered, in the present visit of its phase or, `of_all_visits`, in all."""
        try:
            log = await self._store.events(self._journey, after=0 if of_all_visits else self._state.entered_seq)
        except NoSuchJourney:  # it begins with automatic phases, which are not recorded yet
            return ()
        events = [logged.event for logged in log]
        # A call may have begun in the phase before, and end in this one. An act that a person approved belongs to none. A submission
        # for several phases comes after the calls for all of them, so its later phases look back to where its first one began.
        here = {"", self._state.phase, *(e.source for e in events if isinstance(e, PhaseChanged))}
        return [Called(e.tool, e.phase, e.facts) for e in events if isinstance(e, ToolSuccess) and e.phase in here]

    async def unchanged(self, call: Called) -> bool:
        """Return whether the call read a page or a map that is the same now."""
        path = call.facts.get("path")
        if not isinstance(path, str):
            return False
        if call.tool == READ:
            now = await self.revision(path)
            return now != "" and str(call.facts.get("revision")) == now
        before = call.facts.get(LISTING)
        if call.tool != MAP or before is None:
            return False
        try:
            view = await self._services.tiers.map(path)
        except (InvalidPath, NoSuchPath):
            return False
        return listing([child.path for child in view.children], path) == str(before)

    async def proposal(self, proposal_id: str) -> Fate | None:
        """Return the outcome of a proposal of this journey, or of the last one that replaced it."""
        chain = await in_journey(self._services.state.trust, proposal_id, self._journey)
        if not chain:
            return None
        last = chain[-1]
        return Fate(
            last.tool,
            _STATES.get(last.state, "ended"),
            last.verdict.note if last.verdict else "",
            last.documents[0] if last.documents else "",
        )

    async def tools(self) -> Collection[str]:
        """Return the names of the tools that are listed."""
        return frozenset(spec.name for spec in self._services.tools())

    async def learnings(self, agent: str, domain: str) -> Sequence[Learning]:
        """Return earlier learnings, the nearest first."""
        tiers = self._services.tiers
        # Learnings go into prompts, so pages that anybody else could have written, by mark or through a link, are left out.
        pages = [await tiers.trusted_document(path, plain=True) for path in learning_pages(agent, domain)]
        return [learning for page in pages if page for learning in learnings_on(page)]

    async def learners(self) -> Collection[str]:
        """Return the names of the agents that receive learnings."""
        return [entry.name for entry in cognitive_entries()]

    async def terms(self, text: str, most: int) -> Sequence[str]:
        """Return phrases of the text, then headings, titles and tags of what the knowledge base has near it."""
        own = key_phrases(text, most, await self._services.index.frequencies(sorted(set(content_words(text)))))
        if not own:
            return ()
        room = max(most - len(own), most // NEAR_SHARE)
        near = near_terms(text, await self._labels(text), room, beside=" ".join(own).split())
        return [*own[: most - len(near)], *near]

    async def near(self, text: str, most: int) -> Sequence[str]:
        """Return sections of trusted pages near the text, best first, as `heading (path)`."""
        hits = (await self._search(text[:MOST_SEARCHED])).hits
        found = [
            f"{hit.section.rpartition(' > ')[2] or hit.title} ({hit.path})"
            for hit in hits
            if not hit.tainted and not hit.path.startswith(OF_WORK)
        ]
        return list(dict.fromkeys(found))[:most]

    async def _labels(self, text: str) -> Sequence[str]:
        """Return the headings, tags and titles of trusted hits, best first. Pages about how to work are left out."""
        hits = (await self._search(text[:MOST_SEARCHED])).hits
        labels: list[str] = []
        for hit in hits:
            if not hit.tainted and not hit.path.startswith(OF_WORK):
                record = await self._services.index.document(hit.path)
                labels += [hit.section.rpartition(" > ")[2], *(record.tags if record else ()), hit.title]
        return labels

    async def configured(self, path: str) -> str | None:
        """Return the text of a file below `_agents/` or `_skills/`, or None.

        Raises:
            KnowledgeError, OSError: the file exists but cannot be read, for example because it is a link out of the
                knowledge base.
        """
        try:
            clean = clean_path(path)
        except InvalidPath:
            return None
        if clean != path or not clean.startswith(tuple(f"{folder}/" for folder in FOLDERS)):
            return None
        try:
            raw = await self._files.read(clean)
        except NoSuchPath:
            return None
        return raw.decode("utf-8-sig", errors="replace")
