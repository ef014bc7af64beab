"""What conditions of a team's agents may ask: each predicate looks at the recorded work or at the knowledge base. Pure.

A predicate is a frozen dataclass. Its fields are its arguments; their types say how they are read (`agents/team/conditions.py`).
`BARE` names the argument that stands for itself where no mapping is written: `filled: summary`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NewType, Protocol

from agents.agent import MET, Called, Facts, Finding, Look
from agents.events import Json, canonical
from agents.team.field_path import FieldPath, located, names_in, same, says_something
from agents.work import citations_in

ToolName = NewType("ToolName", str)
NAMES_TOLD = 8
DETAIL_CHARS = 600
MOST_SEARCHES = 5


class Predicate(Protocol):
    """One question about a submit, answered without the model's word about itself."""

    async def judge(self, facts: Facts, look: Look) -> Finding:
        """Return whether it holds, and if not what is missing."""
        ...

    def said(self) -> str:
        """Return what it holds, as the end of a sentence."""
        ...


def unmet(*missing: str) -> Finding:
    """Return that a predicate does not hold, and why."""
    return Finding(met=False, missing=missing)


def listing(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    told = ", ".join(name[:60] for name in names[:NAMES_TOLD])
    return told if len(names) <= NAMES_TOLD else f"{told} and {len(names) - NAMES_TOLD} more"


@dataclass(frozen=True, slots=True)
class Filled:
    """Every one of these fields says something."""

    NAME: ClassVar[str] = "filled"
    BARE: ClassVar[str] = "fields"
    fields: tuple[FieldPath, ...]

    async def judge(self, facts: Facts, look: Look) -> Finding:  # noqa: ARG002 - the work alone tells
        """Return which fields are empty."""
        empty = [str(path) for path in self.fields if not any(says_something(v) for _, v in path.found(facts))]
        return unmet(*(f"{name} is empty: fill it in" for name in empty)) if empty else MET

    def said(self) -> str:
        """Return what it holds."""
        return f"{listing([str(path) for path in self.fields])} is filled in"


@dataclass(frozen=True, slots=True)
class Given:
    """Every one of these fields was brought by this submit, not by an earlier one."""

    NAME: ClassVar[str] = "given"
    BARE: ClassVar[str] = "fields"
    fields: tuple[FieldPath, ...]

    async def judge(self, facts: Facts, look: Look) -> Finding:  # noqa: ARG002 - the submit alone tells
        """Return which fields the submit lacks."""
        absent = [
            str(path)
            for path in self.fields
            if not any(says_something(value) for _, value in located(facts.given, path.parts))
        ]
        return unmet(*(f"{name} is not in this submit" for name in absent)) if absent else MET

    def said(self) -> str:
        """Return what it holds."""
        return f"this submit brings {listing([str(path) for path in self.fields])}"


@dataclass(frozen=True, slots=True)
class AtLeast:
    """A list has so many items, counting those once that are the same."""

    NAME: ClassVar[str] = "at_least"
    BARE: ClassVar[str] = ""
    field: FieldPath
    count: int

    async def judge(self, facts: Facts, look: Look) -> Finding:  # noqa: ARG002 - the work alone tells
        """Return how many there are."""
        there = len({same(value) for _, value in self.field.items(facts) if says_something(value)})
        if there >= self.count:
            return MET
        return unmet(f"{self.field} has {there}, at least {self.count} different ones are needed")

    def said(self) -> str:
        """Return what it holds."""
        return f"{self.field} has at least {self.count} different items"


@dataclass(frozen=True, slots=True)
class EachHas:
    """Every item of a list has these fields, and the list has items."""

    NAME: ClassVar[str] = "each_has"
    BARE: ClassVar[str] = ""
    field: FieldPath
    fields: tuple[str, ...]

    async def judge(self, facts: Facts, look: Look) -> Finding:  # noqa: ARG002 - the work alone tells
        """Return which items lack which fields."""
        items = self.field.items(facts)
        if not items:
            return unmet(f"{self.field} is empty: fill it in")
        lacking = [
            f"{self.field.place(facts, loc)} lacks {name!r}"
            for loc, item in items
            for name in self.fields
            if not any(says_something(value) for _, value in located(item, name.split(".")))
        ]
        return unmet(*lacking) if lacking else MET

    def said(self) -> str:
        """Return what it holds."""
        return f"every item of {self.field} has {listing(self.fields)}"


@dataclass(frozen=True, slots=True)
class Covers:
    """For every id of another list something here names it."""

    NAME: ClassVar[str] = "covers"
    BARE: ClassVar[str] = ""
    field: FieldPath
    of: FieldPath

    async def judge(self, facts: Facts, look: Look) -> Finding:  # noqa: ARG002 - the works alone tell
        """Return the ids that nothing names."""
        wanted, named = names_in(self.of.found(facts)), set(names_in(self.field.found(facts)))
        if not wanted:
            return unmet(f"{self.of} has no ids yet: there is nothing to cover")
        left = [name for name in wanted if name not in named]
        return unmet(f"{self.field} has nothing for {listing(left)} of {self.of}") if left else MET

    def said(self) -> str:
        """Return what it holds."""
        return f"{self.field} covers every id of {self.of}"


@dataclass(frozen=True, slots=True)
class KnownIn:
    """Every name here is an id of another list, and there is at least one."""

    NAME: ClassVar[str] = "known_in"
    BARE: ClassVar[str] = ""
    field: FieldPath
    of: FieldPath

    async def judge(self, facts: Facts, look: Look) -> Finding:  # noqa: ARG002 - the works alone tell
        """Return the names that are not there."""
        names = names_in(self.field.found(facts))
        if not names:
            return unmet(f"{self.field} names nothing of {self.of}")
        known = set(names_in(self.of.found(facts)))
        strange = [name for name in names if name not in known]
        return unmet(f"{self.field} names {listing(strange)}, which {self.of} does not have") if strange else MET

    def said(self) -> str:
        """Return what it holds."""
        return f"{self.field} names only what {self.of} has"


@dataclass(frozen=True, slots=True)
class UnknownIn:
    """Something here is named that another list does not have: what was found out needs a place there."""

    NAME: ClassVar[str] = "unknown_in"
    BARE: ClassVar[str] = ""
    field: FieldPath
    of: FieldPath

    async def judge(self, facts: Facts, look: Look) -> Finding:  # noqa: ARG002 - the works alone tell
        """Return the new names as the detail."""
        strange = _strange(names_in(self.field.found(facts)), self.of, facts)
        if not strange:
            return unmet(f"{self.field} names nothing that {self.of} does not have already")
        return Finding(met=True, detail=f"{self.of} does not have {listing(strange)}")

    def said(self) -> str:
        """Return what it holds."""
        return f"{self.field} names something that {self.of} does not have"


def _strange(names: Sequence[str], of: FieldPath, facts: Facts) -> list[str]:
    """Return the names that are new, and not only written otherwise."""
    known = {same(name) for name in names_in(of.found(facts))}
    return [name for name in names if same(name) not in known]


@dataclass(frozen=True, slots=True)
class Distinct:
    """No two values here are the same; case and white space make no difference."""

    NAME: ClassVar[str] = "distinct"
    BARE: ClassVar[str] = "field"
    field: FieldPath

    async def judge(self, facts: Facts, look: Look) -> Finding:  # noqa: ARG002 - the work alone tells
        """Return which values are there twice."""
        first: dict[str, str] = {}
        doubled = []
        for loc, value in self.field.items(facts):
            where, key = self.field.place(facts, loc), same(value)
            if key in first:
                doubled.append(f"{where} says the same as {first[key]}")
            first.setdefault(key, where)
        return unmet(*doubled) if doubled else MET

    def said(self) -> str:
        """Return what it holds."""
        return f"no two of {self.field} are the same"


@dataclass(frozen=True, slots=True)
class Equals:
    """Every value here is this one, and there is at least one."""

    NAME: ClassVar[str] = "equals"
    BARE: ClassVar[str] = ""
    field: FieldPath
    value: Json

    async def judge(self, facts: Facts, look: Look) -> Finding:  # noqa: ARG002 - the work alone tells
        """Return which values are others."""
        items = self.field.items(facts)
        if not items:
            return unmet(f"{self.field} is empty: it must be {self._value()}")
        wanted = canonical(self.value)
        others = [self.field.place(facts, loc) for loc, value in items if canonical(value) != wanted]
        return unmet(*(f"{where} is not {self._value()}" for where in others)) if others else MET

    def said(self) -> str:
        """Return what it holds."""
        return f"{self.field} is {self._value()}"

    def _value(self) -> str:
        return repr(self.value) if isinstance(self.value, str) else canonical(self.value)


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

    async def judge(self, facts: Facts, look: Look) -> Finding:
        """Return which quotes do not stand there, and what has none."""
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

    async def judge(self, facts: Facts, look: Look) -> Finding:
        """Return what lies at the paths instead."""
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
class SearchInsufficient:
    """The server's own search does not find enough for a text here."""

    NAME: ClassVar[str] = "search_insufficient"
    BARE: ClassVar[str] = "field"
    field: FieldPath

    async def judge(self, facts: Facts, look: Look) -> Finding:
        """Return the texts for which too little is found as the detail."""
        queries = [text for _, text in self.field.items(facts) if isinstance(text, str) and text.strip()]
        if not queries:
            return unmet(f"{self.field} is empty: say what was looked for")
        queries = queries[:MOST_SEARCHES]
        lost = [query for query in queries if await look.scent(query) != "sufficient"]
        if not lost:
            return unmet(f"a search finds enough for {self.field}: use it")
        return Finding(met=True, detail=f"a search does not find enough for: {'; '.join(lost)}"[:DETAIL_CHARS])

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

    async def judge(self, facts: Facts, look: Look) -> Finding:
        """Return that it is still to be called."""
        calls = [call for call in await look.calls() if call.tool == self.tool]
        if any(self._fits(call, facts) for call in calls):
            return MET
        about = f" about {self.path}" if self.path else ""
        ended = f" that ends with {' or '.join(self.status)}" if self.status else ""
        return unmet(f"call {self.tool}{about} with the journey_id of this journey{ended}, in this phase")

    def _fits(self, call: Called, facts: Facts) -> bool:
        if self.status and call.facts.get("status") not in self.status:
            return False
        return self.path is None or call.facts.get("path") in _paths(self.path, facts)

    def said(self) -> str:
        """Return what it holds."""
        return f"{self.tool} was called in this phase"


def _paths(path: FieldPath, facts: Facts) -> Sequence[str]:
    return [value for _, value in path.items(facts) if isinstance(value, str) and value]


@dataclass(frozen=True, slots=True)
class ProposalDone:
    """What a tool proposed in this phase was approved by a person and carried out."""

    NAME: ClassVar[str] = "proposal_done"
    BARE: ClassVar[str] = "tool"
    tool: ToolName
    path: FieldPath | None = None

    async def judge(self, facts: Facts, look: Look) -> Finding:
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

    async def judge(self, facts: Facts, look: Look) -> Finding:  # noqa: ARG002 - the server knows, not the work
        """Return the person's note as the detail."""
        made = [call.facts.get("proposal") for call in await look.calls() if call.tool == self.tool]
        proposals = [proposal for proposal in made if isinstance(proposal, str)]
        fate = await look.proposal(proposals[-1]) if proposals else None
        if fate is None or fate.state != "rejected":
            return unmet(f"no proposal of {self.tool} was rejected")
        return Finding(met=True, detail=fate.note[:DETAIL_CHARS])

    def said(self) -> str:
        """Return what it holds."""
        return f"a proposal of {self.tool} was rejected"


@dataclass(frozen=True, slots=True)
class Signal:
    """The model says so. A hint: it counts only beside a predicate that looks."""

    NAME: ClassVar[str] = "signal"
    BARE: ClassVar[str] = "name"
    name: str

    async def judge(self, facts: Facts, look: Look) -> Finding:  # noqa: ARG002 - a hint is a word
        """Return whether the hint was given."""
        return MET if self.name in facts.signals else unmet(f"the signal {self.name} was not given")

    def said(self) -> str:
        """Return what it holds."""
        return f"the signal {self.name} was given"


Leaf = (
    Filled
    | Given
    | AtLeast
    | EachHas
    | Covers
    | KnownIn
    | UnknownIn
    | Distinct
    | Equals
    | QuotesResolve
    | PagesExist
    | SearchInsufficient
    | ToolCalled
    | ProposalDone
    | ProposalRejected
    | Signal
)
LEAVES: tuple[type[Leaf], ...] = (
    Filled,
    Given,
    AtLeast,
    EachHas,
    Covers,
    KnownIn,
    UnknownIn,
    Distinct,
    Equals,
    QuotesResolve,
    PagesExist,
    SearchInsufficient,
    ToolCalled,
    ProposalDone,
    ProposalRejected,
    Signal,
)
"""In the order in which the reference tells them."""
