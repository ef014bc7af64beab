"""What conditions of several agents look for in a work, and how they say what is missing. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, TypeVar

from pydantic import AfterValidator, BaseModel

from agents.engine.agent import MET, ConditionFinding, Look
from agents.engine.events import Json, SourceFound
from agents.engine.work.form import citations_in, ids, listed, place, twice
from agents.engine.work.substance import blank
from knowledge.pages.claim_source import source_kind
from knowledge.pages.document import shortened

MOST_NAMED = 12
"""So many ids are named in a sentence."""
MOST_TOLD = 12
"""So many problems are told at a time."""
SHORT = 140
"""Characters of a text that stands in a list beside others."""

T = TypeVar("T", bound=BaseModel)
_WORD = re.compile(r"\w+")


def _each_once(items: list[T]) -> list[T]:
    again = twice([str(getattr(item, "id", "")) for item in items])
    if again:
        raise ValueError(f"two items have the id {again[0][:60]}; each needs one of its own")
    return items


def _says_something(text: str) -> str:
    if blank(text):
        raise ValueError("must say something")
    return text


Says = AfterValidator(_says_something)
"""Of text that is more than white space."""
Items = Annotated[list[T], AfterValidator(_each_once)]
"""Items that are joined by their ids, so that no two may have the same."""


def folded(text: Json) -> str:
    """Return the words of a text alone: two texts that differ in case, white space and punctuation only are the same then."""
    whole = str(text).casefold()
    return " ".join(_WORD.findall(whole)) or whole.strip()


def listing(names: Sequence[str], most: int = MOST_NAMED) -> str:
    """Return the first names as a list in a sentence, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(name[:60] for name in names[:most]) + more


def short(text: Json, most: int = SHORT) -> str:
    """Return the text on one line, cut where a word ends."""
    return shortened(str(text), most)


def found(missing: Sequence[str], detail: str = "") -> ConditionFinding:
    """Return that a condition is met, if nothing is missing."""
    if not missing:
        return ConditionFinding(met=True, detail=detail) if detail else MET
    told = tuple(dict.fromkeys(missing))
    more = (f"and {len(told) - MOST_TOLD} more things of this kind",) if len(told) > MOST_TOLD else ()
    return ConditionFinding(met=False, missing=(*told[:MOST_TOLD], *more))


def misused(*lists: Sequence[Mapping[str, Json]]) -> Iterator[str]:
    """Yield a sentence if items of several lists share an id: `drop` would remove both."""
    again = twice([id_ for items in lists for id_ in ids(items)])
    if again:
        yield f"these ids are used twice: {listing(again)}; give each item of every list an id of its own"


def same_words(items: Sequence[Mapping[str, Json]], name: str) -> Iterator[str]:
    """Yield a sentence for each item that says the same in its field `name` as one before it."""
    first: dict[str, str] = {}
    for item in items:
        before = first.setdefault(folded(item.get(name)), str(item.get("id")))
        if before != item.get("id"):
            yield f"{item.get('id')} says the same as {before}: drop it or make it another one"


async def unfounded(work: Mapping[str, Json], name: str, look: Look, only: frozenset[str] | None = None) -> list[str]:
    """Return a sentence for each citation in that list of the work that does not resolve; `only` of those items, if given."""
    missing = []
    for number, item in enumerate(listed(work, name)):
        if only is not None and item.get("id") not in only:
            continue
        for loc, citation in citations_in(item):
            if why := await look.cited(citation):
                missing.append(f"{place(work, (name, number, *loc))}: {why}")
    return missing


async def missing_pages(items: Sequence[Mapping[str, Json]], name: str, look: Look) -> list[str]:
    """Return a sentence for each artefact of an item of the list `name` that should be in the knowledge base and is not."""
    missing = []
    for item in items:
        for locator in item.get("artefacts") or ():
            path = locator.partition(":")[2].partition("#")[0].strip()
            if source_kind(locator) == "kb" and not await look.place(path):
                missing.append(f"{name}[{item['id']}]: nothing lies at {short(path, 200)} in the knowledge base")
    return missing


def new_sources(before: Json, after: Json) -> list[SourceFound]:
    """Return a note for each page that a work cites and did not cite before."""
    known = {citation.path for _, citation in citations_in(before)}
    paths = dict.fromkeys(citation.path for _, citation in citations_in(after))
    return [SourceFound(f"kb:{path}") for path in paths if path not in known]
