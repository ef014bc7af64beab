"""What conditions of a team's agents may ask of the knowledge base, and of what was done with tools. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NewType

from agents.engine.agent import MET, Called, ConditionFinding, Look, SubmitFacts
from agents.engine.events import Json
from agents.engine.evidence.learned import ALL, FOLDER, learning_page
from agents.engine.work.form import citations_in
from agents.spec.predicates.recorded_work import DETAIL_CHARS, NAMES_TOLD, unmet
from agents.spec.yaml.field_path import FieldPath, same
from knowledge.errors import InvalidPath
from knowledge.pages.paths import clean_path

ToolName = NewType("ToolName", str)
MOST_SEARCHES = 5


@dataclass(frozen=True, slots=True)
class QuotesResolve:
    """All quotes in a field really stand where they are said to stand, and there are so many different ones.

    `each`: every item of the list has at least one.
    """

    NAME: ClassVar[str] = "quotes_resolve"
    BARE: ClassVar[str] = "field"
    field: FieldPath
    count: int = 1
    each: bool = False

    async def judge(self, facts: SubmitFacts, look: Look) -> ConditionFinding:
        """Return which quotes do not stand there, and what has none."""
        if self.field.nothing_such(facts):
            return MET
        missing, good = list[str](), set[tuple[str, str]]()
        for loc, item in self.field.items(facts):
            found = list(citations_in(item))
            if self.each and not found:
                missing.append(f"{self.field.place(facts, loc)} has no quote: add one from the knowledge base")
            for inside, citation in found:
                wrong = await look.cited(citation)
                if wrong:
                    missing.append(f"{self.field.place(facts, (*loc, *inside))}: {wrong}")
                else:
                    good.add((citation.path, same(citation.quote)))
        if len(good) < self.count and not missing:
            missing.append(f"{self.field} rests on {_quotes(len(good))}, at least {self.count} are needed")
        return unmet(*missing) if missing else MET

    def said(self) -> str:
        """Return what it holds."""
        return f"the quotes in {self.field} stand where they are said to stand"


def _quotes(count: int) -> str:
    return f"{count} quote" if count == 1 else f"{count} different quotes"


@dataclass(frozen=True, slots=True)
class PagesExist:
    """Every path here is that of a page, and there are so many."""

    NAME: ClassVar[str] = "pages_exist"
    BARE: ClassVar[str] = "field"
    field: FieldPath
    count: int = 1

    async def judge(self, facts: SubmitFacts, look: Look) -> ConditionFinding:
        """Return what lies at the paths instead."""
        if self.field.nothing_such(facts):
            return MET
        missing, pages = list[str](), set[str]()
        for loc, path in self.field.items(facts):
            where = self.field.place(facts, loc)
            if not isinstance(path, str) or not path.strip():
                missing.append(f"{where} must be the path of a page")
                continue
            lies = await look.place(path)
            if lies == "page":
                pages.add(path)
            else:
                missing.append(f"{where}: {path[:200]!r} is {'a directory' if lies else 'nothing'}, not a page")
        if len(pages) < self.count and not missing:
            missing.append(f"{self.field} names {len(pages)}, at least {self.count} different pages are needed")
        return unmet(*missing) if missing else MET

    def said(self) -> str:
        """Return what it holds."""
        return f"{self.field} names pages that there are"


@dataclass(frozen=True, slots=True)
class Below:
    """Every path here lies below that folder of the knowledge base, whether there is a page or not, and there is at least one."""

    NAME: ClassVar[str] = "below"
    BARE: ClassVar[str] = ""
    field: FieldPath
    folder: str

    async def judge(self, facts: SubmitFacts, look: Look) -> ConditionFinding:  # noqa: ARG002 - the path alone tells
        """Return which paths lie elsewhere."""
        items = self.field.items(facts)
        if not items:
            return unmet(f"{self.field} is empty: name a path below {self.folder}/")
        elsewhere = [self.field.place(facts, loc) for loc, path in items if not self._lies(path)]
        return (
            unmet(*(f"{where} is no path of a page below {self.folder}/" for where in elsewhere)) if elsewhere else MET
        )

    def _lies(self, path: Json) -> bool:
        try:
            clean = clean_path(path) if isinstance(path, str) else ""
        except InvalidPath:
            return False
        return clean == path and clean.startswith(f"{self.folder.strip('/')}/") and clean.endswith(".md")

    def said(self) -> str:
        """Return what it holds."""
        return f"{self.field} lies below {self.folder}/"


@dataclass(frozen=True, slots=True)
class LearningPage:
    """Every path here is of a page that agents are told of before they begin, by agent and domain, whether it is there or not."""

    NAME: ClassVar[str] = "learning_page"
    BARE: ClassVar[str] = "field"
    field: FieldPath

    async def judge(self, facts: SubmitFacts, look: Look) -> ConditionFinding:
        """Return which paths no agent asks for, and what it would ask for instead."""
        learners = sorted({ALL, *await look.learners()})
        items = self.field.items(facts)
        if not items:
            return unmet(f"{self.field} is empty: name the page, {FOLDER}/AGENT/DOMAIN.md")
        found = [(self.field.place(facts, loc), str(path), _unasked(str(path), learners)) for loc, path in items]
        missing = [f"{where} is {path[:200]!r}: {why}" for where, path, why in found if why]
        return unmet(*missing) if missing else MET

    def said(self) -> str:
        """Return what it holds."""
        return f"{self.field} names pages of learnings that agents are told of"


def _unasked(path: str, learners: Sequence[str]) -> str:
    """Return why no agent asks for that page, "" if one does."""
    folder, _, rest = path.partition("/")
    agent, _, domain = rest.partition("/")
    if folder != FOLDER or not domain or "/" in domain or not domain.endswith(".md"):
        return f"agents are told what stands at {FOLDER}/AGENT/DOMAIN.md, and nowhere else"
    if agent not in learners:
        return f"no agent {agent[:60]!r} asks for learnings; AGENT is one of {', '.join(learners)}"
    asked = learning_page(agent, domain.removesuffix(".md"))
    return "" if asked == path else f"agents ask for {asked}: keep it there"


@dataclass(frozen=True, slots=True)
class SearchInsufficient:
    """The server's own search does not find enough for a text here; with `each`, for none of them."""

    NAME: ClassVar[str] = "search_insufficient"
    BARE: ClassVar[str] = "field"
    field: FieldPath
    each: bool = False

    async def judge(self, facts: SubmitFacts, look: Look) -> ConditionFinding:
        """Return the texts for which too little is found as the detail."""
        queries = [text for _, text in self.field.items(facts) if isinstance(text, str) and text.strip()]
        if not queries:
            return unmet(f"{self.field} is empty: say what was looked for")
        queries = queries[:MOST_SEARCHES]
        lost = [query for query in queries if await look.scent(query) != "sufficient"]
        if not lost or (self.each and len(lost) < len(queries)):
            return unmet(f"a search finds enough for {self.field}: use it")
        return ConditionFinding(met=True, detail=f"a search does not find enough for: {'; '.join(lost)}"[:DETAIL_CHARS])

    def said(self) -> str:
        """Return what it holds."""
        return f"a search does not find enough for {self.field}"


@dataclass(frozen=True, slots=True)
class ToolCalled:
    """A tool answered a call of this journey since the phase was entered, with one of these statuses, about this page."""

    NAME: ClassVar[str] = "tool_called"
    BARE: ClassVar[str] = "tool"
    tool: ToolName
    status: tuple[str, ...] = ()
    path: FieldPath | None = None

    async def judge(self, facts: SubmitFacts, look: Look) -> ConditionFinding:
        """Return that it is still to be called."""
        calls = [call for call in await look.calls() if call.tool == self.tool]
        if any(self._fits(call, facts) for call in calls):
            return MET
        about = f" about {self.path}" if self.path else ""
        ended = f" that ends with {' or '.join(self.status)}" if self.status else ""
        return unmet(f"call {self.tool}{about} with the journey_id of this journey{ended}, in this phase")

    def _fits(self, call: Called, facts: SubmitFacts) -> bool:
        if self.status and call.facts.get("status") not in self.status:
            return False
        return self.path is None or call.facts.get("path") in _paths(self.path, facts)

    def said(self) -> str:
        """Return what it holds."""
        return f"{self.tool} was called in this phase"


def _paths(path: FieldPath, facts: SubmitFacts) -> Sequence[str]:
    return [value for _, value in path.items(facts) if isinstance(value, str) and value]


@dataclass(frozen=True, slots=True)
class ProposalDone:
    """What a tool proposed in this phase was approved by a person and carried out."""

    NAME: ClassVar[str] = "proposal_done"
    BARE: ClassVar[str] = "tool"
    tool: ToolName
    path: FieldPath | None = None

    async def judge(self, facts: SubmitFacts, look: Look) -> ConditionFinding:
        """Return what became of the proposals instead."""
        became = []
        for call in await look.calls():
            proposal = call.facts.get("proposal")
            if call.tool != self.tool or not isinstance(proposal, str):
                continue
            fate = await look.proposal(proposal)
            state = fate.state if fate else "ended"
            about = fate.path if fate and fate.path else call.facts.get("path")
            if state == "done" and (self.path is None or about in _paths(self.path, facts)):
                return MET
            became.append(f"proposal {proposal} {_BECAME[state]}")
        return unmet(*became[-NAMES_TOLD:]) if became else unmet(f"{self.tool} proposed nothing in this phase")

    def said(self) -> str:
        """Return what it holds."""
        return f"a proposal of {self.tool} was carried out"


_BECAME: Mapping[str, str] = {
    "pending": "waits for a person: proposal_status tells when it is decided",
    "done": "was carried out, but for another page",
    "rejected": "was rejected by a person",
    "ended": "is over without an effect: propose anew",
}


@dataclass(frozen=True, slots=True)
class ProposalRejected:
    """A person rejected the newest proposal that a tool made in this phase; what they said is the detail."""

    NAME: ClassVar[str] = "proposal_rejected"
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

    def said(self) -> str:
        """Return what it holds."""
        return f"a proposal of {self.tool} was rejected"
