"""Predicates about the knowledge base and about tool calls. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, ClassVar

from agents.engine.agent import MET, Called, ConditionFinding, Look, SubmitFacts
from agents.engine.events import Json
from agents.engine.evidence.learned import ALL, FOLDER, learning_page
from agents.engine.evidence.shown import MAP, READ
from agents.engine.work.gaps import citations_in, short
from agents.spec.predicates.leaf import DETAIL_CHARS, NAMES_SHOWN, Leaf, Name, WorkLeaf, met_unless, some_items, unmet
from agents.spec.predicates.recorded_work import Count
from agents.spec.yaml.block import Some, known
from agents.spec.yaml.field_path import Path, same
from knowledge.errors import InvalidPath
from knowledge.pages.paths import clean_path

# Per condition: every submit of the phase runs these searches again.
MOST_SEARCHES = 5
STATUSES = ("done", "partial", "unchanged", "conflict", "analysis", "proposed")


ToolName = Annotated[str, known(lambda context: context.tools, "names the unknown tool {}")]
Status = Annotated[str, known(STATUSES, "has the unknown status {}")]


class QuotesResolve(Leaf):
    """All quotes in a field are where they claim to be, and at least `count` of them are different.

    `each`: every item of the list has at least one.
    """

    NAME: ClassVar[str] = "quotes_resolve"
    DEMAND: ClassVar[str] = "the quotes in {field} are where they claim to be"
    BARE: ClassVar[str] = "field"
    field: Path
    count: Count = 1
    each: bool = False

    async def judge(self, facts: SubmitFacts, look: Look) -> ConditionFinding:
        """Return the quotes that are not found, and the items without a quote."""
        items = some_items(self.field, facts)
        missing, good = list[str](), set[tuple[str, str]]()
        for loc, item in items or ():
            cited = list(citations_in(item))
            if self.each and not cited:
                missing.append(f"{self.field.place(facts, loc)} has no quote: add one from the knowledge base")
            for inside, citation in cited:
                if wrong := await look.cited(citation):
                    missing.append(f"{self.field.place(facts, (*loc, *inside))}: {wrong}")
                else:
                    good.add((citation.path, same(citation.quote)))
        if items is not None and len(good) < self.count and not missing:
            quotes = f"{len(good)} quote" if len(good) == 1 else f"{len(good)} different quotes"
            missing.append(f"{self.field} rests on {quotes}, at least {self.count} are needed")
        return met_unless(missing)


class PagesExist(Leaf):
    """Every path is that of a page, and there are at least `count`."""

    NAME: ClassVar[str] = "pages_exist"
    DEMAND: ClassVar[str] = "{field} names existing pages"
    BARE: ClassVar[str] = "field"
    field: Path
    count: Count = 1

    async def judge(self, facts: SubmitFacts, look: Look) -> ConditionFinding:
        """Return the paths that are not pages."""
        items = some_items(self.field, facts)
        missing, pages = list[str](), set[str]()
        for loc, path in items or ():
            where = self.field.place(facts, loc)
            if not isinstance(path, str) or not path.strip():
                missing.append(f"{where} must be the path of a page")
            elif (lies := await look.place(path)) == "page":
                pages.add(path)
            else:
                missing.append(f"{where}: {path[:200]!r} is {'a directory' if lies else 'nothing'}, not a page")
        if items is not None and len(pages) < self.count and not missing:
            missing.append(f"{self.field} names {len(pages)}, at least {self.count} different pages are needed")
        return met_unless(missing)


class Below(WorkLeaf):
    """Every path is below that folder of the knowledge base, whether the page exists or not, and there is at least one."""

    NAME: ClassVar[str] = "below"
    DEMAND: ClassVar[str] = "{field} is below {folder}/"
    field: Path
    folder: Name

    def missing(self, facts: SubmitFacts) -> Iterator[str]:
        """Yield the paths that are not below it."""
        items = self.field.items(facts)
        if not items:
            yield f"{self.field} is empty: name a path below {self.folder}/"
        for loc, path in items:
            if not self._lies_below(path):
                yield f"{self.field.place(facts, loc)} is not the path of a page below {self.folder}/"

    def _lies_below(self, path: Json) -> bool:
        try:
            clean = clean_path(path) if isinstance(path, str) else ""
        except InvalidPath:
            return False
        # Only the clean spelling, because a page is later found under exactly the path that the work names.
        return clean == path and clean.startswith(f"{self.folder.strip('/')}/") and clean.endswith(".md")


class LearningPage(Leaf):
    """Every path is that of a page that agents get before they begin, whether it exists or not."""

    NAME: ClassVar[str] = "learning_page"
    DEMAND: ClassVar[str] = "{field} names pages of learnings that agents are given"
    BARE: ClassVar[str] = "field"
    field: Path

    async def judge(self, facts: SubmitFacts, look: Look) -> ConditionFinding:
        """Return the paths that no agent reads, and the paths that agents read instead."""
        learners = sorted({ALL, *await look.learners()})
        items = self.field.items(facts)
        if not items:
            return unmet(f"{self.field} is empty: name the page, {FOLDER}/AGENT/DOMAIN.md")
        unread = [(self.field.place(facts, loc), str(path), _unread(str(path), learners)) for loc, path in items]
        return met_unless(f"{where} is {path[:200]!r}: {why}" for where, path, why in unread if why)


def _unread(path: str, learners: Sequence[str]) -> str:
    """Return why no agent reads that page; "" if one does."""
    folder, _, rest = path.partition("/")
    agent, _, domain = rest.partition("/")
    if folder != FOLDER or not domain or "/" in domain or not domain.endswith(".md"):
        return f"agents are given {FOLDER}/AGENT/DOMAIN.md, and no other pages"
    if agent not in learners:
        return f"no agent {agent[:60]!r} reads learnings; AGENT is one of {', '.join(learners)}"
    read_page = learning_page(agent, domain.removesuffix(".md"))
    return "" if read_page == path else f"agents read {read_page}: use that path"


class SearchInsufficient(Leaf):
    """The server's search does not find enough for at least one of the texts; with `each`, it finds enough for none of them."""

    NAME: ClassVar[str] = "search_insufficient"
    DEMAND: ClassVar[str] = "a search does not find enough for {field}"
    BARE: ClassVar[str] = "field"
    field: Path
    each: bool = False

    async def judge(self, facts: SubmitFacts, look: Look) -> ConditionFinding:
        """Return, as the detail, the texts for which too little is found."""
        queries = self.field.texts(facts)[:MOST_SEARCHES]
        if not queries:
            return unmet(f"{self.field} is empty: name the searches")
        lost = [query for query in queries if await look.scent(query) != "sufficient"]
        if not lost or (self.each and len(lost) < len(queries)):
            return unmet(f"a search finds enough for {self.field}: use it")
        return ConditionFinding(met=True, detail=f"a search does not find enough for: {'; '.join(lost)}"[:DETAIL_CHARS])


class Searched(Leaf):
    """kb_search was called in this journey with the words of every text."""

    NAME: ClassVar[str] = "searched"
    DEMAND: ClassVar[str] = "kb_search was called for each of {field}"
    BARE: ClassVar[str] = "field"
    field: Path

    async def judge(self, facts: SubmitFacts, look: Look) -> ConditionFinding:
        """Return the queries that were not run."""
        return met_unless(await unsearched(self.field.texts(facts), look))


async def unsearched(queries: Sequence[str], look: Look) -> list[str]:
    """Return a sentence that names the queries which this journey did not run; none if it ran all of them."""
    left = [query for query in dict.fromkeys(queries) if not await look.searched(query)]
    named = "; ".join(repr(short(query, 80)) for query in left[:NAMES_SHOWN])
    return [f"call kb_search with this journey_id for each query that you name: {named} was not run"] if left else []


class ToolCalled(Leaf):
    """A tool answered a call of this journey since the phase was entered, with one of these statuses, about this page.

    A page or map that was read in an earlier phase counts as long as it is the same.
    """

    NAME: ClassVar[str] = "tool_called"
    DEMAND: ClassVar[str] = "{tool} was called in this phase"
    BARE: ClassVar[str] = "tool"
    tool: ToolName
    status: Some[Status] = ()
    path: Path | None = None

    async def judge(self, facts: SubmitFacts, look: Look) -> ConditionFinding:
        """Return the call that is still missing."""
        calls = [call for call in await look.calls() if call.tool == self.tool]
        if any(self._fits(call, facts) for call in calls):
            return MET
        # What an earlier phase read need not be read again while it is the same.
        if self.tool in (READ, MAP):
            before = [call for call in await look.calls(of_all_visits=True) if call.tool == self.tool]
            for call in reversed([call for call in before if self._fits(call, facts)][-MOST_SEARCHES:]):
                if await look.unchanged(call):
                    return MET
        about = f" about {self.path}" if self.path else ""
        ended = f" that ends with {' or '.join(self.status)}" if self.status else ""
        return unmet(f"call {self.tool}{about} with the journey_id of this journey{ended}, in this phase")

    def _fits(self, call: Called, facts: SubmitFacts) -> bool:
        if self.status and call.facts.get("status") not in self.status:
            return False
        return self.path is None or call.facts.get("path") in self.path.texts(facts)


class ProposalDone(Leaf):
    """A person approved a tool's proposal of this phase, and it was applied."""

    NAME: ClassVar[str] = "proposal_done"
    DEMAND: ClassVar[str] = "a proposal of {tool} was applied"
    BARE: ClassVar[str] = "tool"
    tool: ToolName
    path: Path | None = None

    async def judge(self, facts: SubmitFacts, look: Look) -> ConditionFinding:
        """Return the outcome of the proposals that were not applied."""
        became = []
        for call in await look.calls():
            proposal = call.facts.get("proposal")
            if call.tool != self.tool or not isinstance(proposal, str):
                continue
            fate = await look.proposal(proposal)
            state = fate.state if fate else "ended"
            about = fate.path if fate and fate.path else call.facts.get("path")
            if state == "done" and (self.path is None or about in self.path.texts(facts)):
                return MET
            became.append(f"proposal {proposal} {_BECAME[state]}")
        return unmet(*became[-NAMES_SHOWN:]) if became else unmet(f"{self.tool} proposed nothing in this phase")


_BECAME: Mapping[str, str] = {
    "pending": "waits for a person: call proposal_status to see when it is decided",
    "done": "was applied, but to another page",
    "rejected": "was rejected by a person",
    "ended": "ended without an effect: propose it again",
}


class ProposalRejected(Leaf):
    """A person rejected the newest proposal that a tool made in this phase; their note is the detail."""

    NAME: ClassVar[str] = "proposal_rejected"
    DEMAND: ClassVar[str] = "a proposal of {tool} was rejected"
    BARE: ClassVar[str] = "tool"
    tool: ToolName

    async def judge(self, facts: SubmitFacts, look: Look) -> ConditionFinding:  # noqa: ARG002 - the server knows, not the work
        """Return the person's note as the detail."""
        made = [call.facts.get("proposal") for call in await look.calls() if call.tool == self.tool]
        proposals = [proposal for proposal in made if isinstance(proposal, str)]
        fate = await look.proposal(proposals[-1]) if proposals else None
        if fate is None or fate.state != "rejected":
            return unmet(f"no proposal of {self.tool} was rejected")
        return ConditionFinding(met=True, detail=fate.note[:DETAIL_CHARS])
