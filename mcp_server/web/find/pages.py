"""The page that answers a search, whole or only its results."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from markupsafe import Markup
from starlette.background import BackgroundTask
from starlette.responses import Response

from knowledge.errors import KnowledgeError, NoSuchPath
from knowledge.pages.markdown.inline import plain_blocks
from knowledge.pages.markdown.tags import bare_tag
from knowledge.search.answers import Hit, PageLine, ScentLevel
from knowledge.search.snippet import marked
from knowledge.search.snippet import snippet as cut
from knowledge.state.ports import Filters
from mcp_server.presenters.change import OUTSIDE
from mcp_server.presenters.tool_calls import first_call
from mcp_server.presenters.trust import known_principals
from mcp_server.presenters.typed_time import since_of
from mcp_server.web.find.people_search import FoundPassages
from mcp_server.web.find.why import why_of
from mcp_server.web.page_context import PageRequest
from mcp_server.web.text.sanitize import sanitize
from mcp_server.web.text.site_addresses import find_address, folder_address, page_address

LONGEST_QUESTION = 1_000
LONGEST_SNIPPET = 420
FILTERS = ("path", "tag", "kind", "source", "who", "since")
MOST_TAGS = 300
"""The most frequent tags that the form offers."""
VERDICTS: Mapping[ScentLevel, str] = {
    "sufficient": "The answer is probably here",
    "partial": "A part of the answer may be here",
    "lost": "Probably not the answer",
}


async def found(request: PageRequest) -> Response:
    """Show the passages that answer a question best, in the order of `kb_search`.

    With `part=results` the answer is the list alone, from the index as it is, so that it can follow each typed letter.
    """
    question = request.query.get("q", "").strip()[:LONGEST_QUESTION]
    asked = request.filters(FILTERS)
    only_results = request.query.get("part") == "results"
    explained = not only_results or request.query.get("why") == "1"
    template = "find_results.html" if only_results else "find.html"
    values: dict[str, Any] = {"here": "/find", "question": question, "asked": asked, "answer": None, "problem": ""}
    values |= {"filtered": any(asked.values()), "explained": explained}
    if not only_results:
        values["people"] = await known_principals(request.services.state, request.session.user)
        values |= {"tags": [tag for tag, _ in await request.services.index.tags(limit=MOST_TAGS)], "outside": OUTSIDE}
    search = request.page.people_search
    if question and not only_results:
        await search.look_for_changes()
    try:
        filters = await _filters(request, asked)
        passages = (
            await search.answer(question, filters, cursor=request.query.get("cursor"), explain=explained)
            if question
            else None
        )
    except (ValueError, KnowledgeError) as error:
        return await request.show(template, {**values, "problem": _problem(error)}, 422)
    address = urlencode({"q": question, **{name: text for name, text in asked.items() if text}})
    answer = await request.show(template, lambda: {**values, **_shown(passages, address)})
    # After the answer, so that no letter waits for a comparison of all files; the next letter's answer has its result.
    answer.background = BackgroundTask(search.look_for_changes if question else search.prepare)
    return answer


def _problem(error: Exception) -> str:
    if isinstance(error, NoSuchPath):
        near = f" Did you mean {' or '.join(error.nearest)}?" if error.nearest else ""
        return f"There is no folder or page {error.path}.{near}"
    return str(error)


async def _filters(request: PageRequest, asked: Mapping[str, str]) -> Filters:
    """Return the conditions in the form.

    Raises:
        ValueError: the time can't be read; the message is for the person.
    """
    since = request.time(asked["since"], since_of)
    who = "" if asked["who"] == OUTSIDE else asked["who"]
    return Filters(
        path=asked["path"].strip("/"),
        tags=tuple(filter(None, map(bare_tag, asked["tag"].replace(",", " ").split()))),
        kind=asked["kind"] or None,
        source=asked["source"] or None,
        modified_after_ns=None if since is None else _nanoseconds(since),
        paths=await request.page.people_search.changed_by(who) if asked["who"] else None,
    )


def _nanoseconds(at: datetime) -> int:
    # The index stores 64 bits; a later time is as good as the last one.
    return min(int(at.astimezone(UTC).timestamp()) * 1_000_000_000, 2**63 - 1)


def _shown(passages: FoundPassages | None, address: str) -> Mapping[str, Any]:
    """Return the values for the list of results; `address` has the question and the filters."""
    if passages is None:
        return {}
    answer = passages.answer
    pages, is_place = {hit.path for hit in answer.hits}, answer.route.mode == "navigation"

    def snippet(text: str) -> Markup:
        shown = cut(_without_heading(text), passages.words, limit_chars=LONGEST_SNIPPET)
        return sanitize(shown, marked(shown, passages.words))

    return {
        "answer": answer,
        "verdict": VERDICTS[answer.scent.level],
        "next_step": _next_step(answer.scent.next),
        "places": [place for place in answer.pages if place.path not in pages] if is_place else (),
        "place_address": _place_address,
        "pages_found": len(pages),
        "snippet": snippet,
        "page_address": page_address,
        "section": _section,
        "modified": lambda hit: datetime.fromisoformat(hit.modified),
        "why": why_of(answer.explanation),
        "why_address": f"/find?{address}",
        "corrected_address": find_address(answer.corrected) if answer.corrected else "",
        "older": f"/find?{address}&{urlencode({'cursor': answer.next_cursor})}" if answer.next_cursor else "",
        "state": passages.state,
        "canvases": passages.canvases,
    }


def _without_heading(text: str) -> str:
    """Return the passage as words without Markdown. Its headings are left out, unless it has nothing else: they are shown above it.

    HTML stays visible: a person who looks for what a hostile page says must find it.
    """
    below = "\n".join(line for line in text.split("\n") if not line.startswith("#"))
    return plain_blocks(below, keep_html=True) or plain_blocks(text, keep_html=True)


def _section(hit: Hit) -> str:
    """Return the hit's heading path below the page's title."""
    return "" if hit.section == hit.title else hit.section.removeprefix(f"{hit.title} > ")


def _place_address(place: PageLine) -> str:
    return folder_address(place.path) if place.kind == "directory" else page_address(place.path)


def _next_step(step: str) -> tuple[str, str] | None:
    """Return the address and the words of the next step that the verdict names; None if it is only advice."""
    call = first_call(step)
    if call is None:
        return None
    name = call.words[0] if call.words else ""
    if call.verb == "read":
        return page_address(name), f"Read {name}"
    if call.verb == "map":
        return folder_address(name), f"See all pages in {name}" if name else "See all pages"
    inside = call.options.get("path", "")
    return f"/find?{urlencode({'q': name, 'path': inside})}", f"Search only in {inside}"
