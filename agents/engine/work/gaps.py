"""Gaps in a work that the conditions of several agents look for, and the sentences about them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from agents.engine.agent import MET, Citation, ConditionFinding, Look, QuotedStatement
from agents.engine.events import Json, SourceFound
from agents.engine.work.form import duplicates, field_path, ids, items_in
from knowledge.pages.claim_source import source_kind
from knowledge.pages.document import shortened

MOST_NAMED = 12
"""The most ids in one sentence."""
MOST_GAPS = 12
"""The most sentences that one condition returns."""
SHORT = 140
"""The most characters of a text in a list."""
_WORD = re.compile(r"\w+")


def folded(text: Json) -> str:
    """Return only the words of a text: the same for texts that differ in case, white space and punctuation."""
    lower = str(text).casefold()
    # A text without a single word, such as an emoji, is compared as it is.
    return " ".join(_WORD.findall(lower)) or lower.strip()


def listing(names: Sequence[str], most: int = MOST_NAMED) -> str:
    """Return the first names as a list for a sentence, and the number of the others."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(name[:60] for name in names[:most]) + more


def short(text: Json, most: int = SHORT) -> str:
    """Return the text on one line, cut at the end of a word if it is too long."""
    return shortened(str(text), most)


def finding(missing: Sequence[str], detail: str = "", statements: Sequence[QuotedStatement] = ()) -> ConditionFinding:
    """Return a finding: met if nothing is missing, otherwise the missing parts."""
    if not missing:
        found = ConditionFinding(met=True, detail=detail, statements=tuple(statements))
        return MET if found == MET else found
    gaps = tuple(dict.fromkeys(missing))
    more = (f"and {len(gaps) - MOST_GAPS} more like this",) if len(gaps) > MOST_GAPS else ()
    return ConditionFinding(met=False, missing=(*gaps[:MOST_GAPS], *more))


def shared_ids(*lists: Sequence[Mapping[str, Json]]) -> Iterator[str]:
    """Yield a sentence if items of several lists have the same id: `drop` would remove them all."""
    shared = duplicates([id_ for items in lists for id_ in ids(items)])
    if shared:
        yield f"these ids are used twice: {listing(shared)}; give every item its own id"


def repeated_texts(items: Sequence[Mapping[str, Json]], name: str) -> Iterator[str]:
    """Yield a sentence for each item whose field `name` has the same words as that of an earlier item."""
    first: dict[str, str] = {}
    for item in items:
        before = first.setdefault(folded(item.get(name)), str(item.get("id")))
        if before != item.get("id"):
            yield f"{item.get('id')} says the same as {before}: drop it or change it"


def citations_in(value: Json, loc: tuple[int | str, ...] = ()) -> Iterator[tuple[tuple[int | str, ...], Citation]]:
    """Yield each citation in a work (an object with `path` and `quote`) with its place, in order."""
    if isinstance(value, Mapping):
        path, quote, section = value.get("path"), value.get("quote"), value.get("section", "")
        if isinstance(path, str) and isinstance(quote, str) and isinstance(section, str):
            yield loc, Citation(path, section, quote)
            return
        for name, inside in value.items():
            yield from citations_in(inside, (*loc, name))
    elif isinstance(value, list | tuple):
        for number, inside in enumerate(value):
            yield from citations_in(inside, (*loc, number))


async def unresolved_citations(
    work: Mapping[str, Json], name: str, look: Look, only: frozenset[str] | None = None
) -> list[str]:
    """Return a sentence for each citation in a list of the work that does not resolve.

    With `only`, just the items with these ids are checked.
    """
    missing = []
    for number, item in enumerate(items_in(work, name)):
        if only is not None and item.get("id") not in only:
            continue
        for loc, citation in citations_in(item):
            if why := await look.cited(citation):
                missing.append(f"{field_path(work, (name, number, *loc))}: {why}")
    return missing


async def missing_pages(items: Sequence[Mapping[str, Json]], name: str, look: Look) -> list[str]:
    """Return a sentence for each artefact of an item in the list `name` that names a place where the knowledge base has nothing."""
    missing = []
    for item in items:
        for locator in item.get("artefacts") or ():
            path = locator.partition(":")[2].partition("#")[0].strip()
            if source_kind(locator) == "kb" and not await look.place(path):
                missing.append(f"{name}[{item['id']}]: the knowledge base has nothing at {short(path, 200)}")
    return missing


def new_sources(before: Json, after: Json) -> list[SourceFound]:
    """Return a note for each page that the work cites now and did not cite before."""
    known = {citation.path for _, citation in citations_in(before)}
    paths = dict.fromkeys(citation.path for _, citation in citations_in(after))
    return [SourceFound(f"kb:{path}") for path in paths if path not in known]
