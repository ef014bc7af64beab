"""What the tool calls of a journey showed: which parts of pages were read, and which searches were run. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from agents.engine.agent import Called, Citation
from agents.engine.events import Json
from agents.engine.evidence.quote_check import contains_quote
from agents.engine.work.gaps import folded
from knowledge.errors import AmbiguousName, NoSuchSection
from knowledge.pages.document import Document
from knowledge.search.tiers import shown_text

READ, SEARCH, MAP = "kb_read", "kb_search", "kb_map"
WRITTEN = frozenset({"done", "partial", "unchanged"})
"""The ends of an act after which its page has the text that the caller gave."""
SECTION, VIEW, OFFSET, QUERY, LISTING = "section", "view", "offset", "query", "listing"
"""Names of the facts about a request."""
LONGEST_SECTION = 500


def request_facts(tool: str, arguments: Mapping[str, Json]) -> dict[str, Json]:
    """Return the facts of a request from which its answer can be judged later: the part of a page, or a search's fingerprint."""
    if tool == READ:
        section = arguments.get("section")
        named = {} if section is None else {SECTION: str(section)[:LONGEST_SECTION]}
        return {VIEW: arguments.get("view", "outline"), OFFSET: arguments.get("offset", 0), **named}
    if tool == SEARCH:
        return {QUERY: fingerprint(str(arguments.get("query", "")))}
    return {}


def fingerprint(query: str) -> str:
    """Return a short hash, the same for queries with the same words: a journey's record does not hold what was searched for."""
    return hashlib.sha256(folded(query).encode()).hexdigest()[:16]


def listing(paths: Iterable[str], below: str) -> str:
    """Return a short hash of the paths directly below a directory: the same as long as nothing comes or goes there."""
    direct = (path for path in paths if path.rpartition("/")[0] == below)
    return hashlib.sha256("\n".join(sorted(direct)).encode()).hexdigest()[:16]


def was_searched(query: str, calls: Iterable[Called]) -> bool:
    """Return whether one of the calls is a search with these words. Searches that older versions recorded match any."""
    wanted = fingerprint(query)
    return any(call.facts.get(QUERY, wanted) == wanted for call in calls if call.tool == SEARCH)


@dataclass(frozen=True, slots=True)
class _ShownPart:
    """The part of a page that a call showed."""

    section: str | None
    view: str
    offset: int


def was_shown(document: Document, citation: Citation, calls: Sequence[Called]) -> bool:
    """Return whether the calls showed the quote: one read the whole page or a part with the quote, or wrote the page.

    If a call read a section that the page no longer has, it counts as having read the whole page, which has changed
    since.
    """
    about = [call for call in calls if call.facts.get("path") == document.path]
    if any(call.tool != READ and call.facts.get("status") in WRITTEN for call in about):
        return True
    parts = dict.fromkeys(_part(call) for call in about if call.tool == READ)
    if None in parts:
        return True
    ordered = sorted((part for part in parts if part), key=lambda part: (part.section or "", part.view, part.offset))
    try:
        texts = [shown_text(document, part.section, part.view, part.offset) for part in ordered]
    except (NoSuchSection, AmbiguousName):
        return True
    # Together, because a long page is read in pieces, and a quote may span two of them.
    return any(contains_quote(text, citation.quote) for text in (*texts, "".join(texts)))


def _part(call: Called) -> _ShownPart | None:
    """Return the part that the call read; None for all of the page, as for calls that older versions recorded."""
    section, view, offset = (call.facts.get(name) for name in (SECTION, VIEW, OFFSET))
    if not isinstance(view, str) or not isinstance(offset, int):
        return None
    return _ShownPart(section if isinstance(section, str) else None, view, offset)
