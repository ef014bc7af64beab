"""A journey's result as a page of the knowledge base: title, result, open questions, and links to its sources. Pure, deterministic.

The texts are the model's, as if it had submitted them as a page. The same journey gives the same page, so merging it again adds only
what is new.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Mapping, Sequence

from agents.engine.agent import Agent, Citation
from agents.engine.events import Json
from agents.engine.state import JourneyState
from agents.engine.work.markdown import one_line, work_lines
from agents.engine.work.result import LEFT_OPEN, ResultPart
from agents.errors import NoResult
from agents.prompts.prompt import recorded_result
from agents.report.result import MOST_OPEN, MOST_PLACE, MOST_SOURCES, SOURCES, sources

MOST_TITLE, MOST_SUMMARY, MOST_PART = 120, 200, 60_000
SHORT = 80
"""A text up to this length is shown beside its name instead of below a heading."""


def result_page(
    journey: str,
    agent: Agent | None,
    state: JourneyState,
    path: str,
    pages: Mapping[str, str],
    *,
    untrusted: bool = False,
) -> str:
    """Return the result as Markdown for a page at `path`, or in that directory; `untrusted` marks the page.

    `pages` has the path of each page that is quoted, by the name under which it is quoted. Others are named without a link.

    Raises:
        NoResult: the journey is not complete, or nothing of its result is recorded.
    """
    found = recorded_result(agent, state)
    if state.status != "complete" or not found.parts:
        raise NoResult(journey, complete=state.status == "complete")
    title = one_line(state.brief, MOST_TITLE)
    # An artefact may begin with headings, which summarise nothing.
    said = [line for line in found.lead.splitlines() if line.strip() and not line.startswith("#")]
    front = [f"title: {_yaml(title)}", f"summary: {_yaml(one_line(said[0] if said else found.title, MOST_SUMMARY))}"]
    lines = ["---", *front, *(["untrusted: true"] if untrusted else []), "---", "", f"# {title}", ""]
    lead = next(
        (part for part in found.parts if isinstance(part.value, str) and part.value.strip() == found.lead), None
    )
    if lead is not None:
        lines += [found.lead, ""]
    for part in found.parts:
        if part is not lead:
            lines += _part(part)
    if found.left_open:
        lines += [
            f"## {LEFT_OPEN}",
            "",
            *(line for part in found.left_open for line in _value(part.value, MOST_OPEN)),
            "",
        ]
    if cited := sources(state)[:MOST_SOURCES]:
        lines += [f"## {SOURCES}", "", *(f"- {_link(one, pages.get(one.path), path)}" for one in cited), ""]
    whose = agent.title if agent else state.agent
    return "\n".join([*lines, f"{whose}, journey `{journey}`, {state.moved_at:%Y-%m-%d}.", ""])


def _yaml(text: str) -> str:
    # A string of JSON is one of YAML.
    return json.dumps(text, ensure_ascii=False)


def _part(part: ResultPart) -> list[str]:
    if isinstance(part.value, str) and len(part.value) <= SHORT and "\n" not in part.value.strip():
        return [f"**{part.name}**: {part.value.strip()}", ""]
    return [f"## {part.name}", "", *_value(part.value, MOST_PART), ""]


def _value(value: Json, most: int) -> list[str]:
    """Return texts as they are, and everything else as a list."""
    texts = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    if texts and all(isinstance(text, str) and (len(text) > SHORT or "\n" in text.strip()) for text in texts):
        return "\n\n".join(text.strip()[:most] for text in texts).split("\n")
    if isinstance(value, list | dict):
        return work_lines(value, most)
    return work_lines([value], most)


def _link(cited: Citation, page: str | None, path: str) -> str:
    """Return a link to a quoted page, relative to the page or directory that gets it; only its name if there is no such page."""
    folder = posixpath.dirname(path) if path.endswith(".md") else path.strip("/")
    shown = one_line(f"{cited.path} > {cited.section}" if cited.section else cited.path, MOST_PLACE)
    for mark in "[]":
        shown = shown.replace(mark, f"\\{mark}")
    return shown if page is None else f"[{shown}](<{posixpath.relpath(page, folder or '.')}>)"


def cited_pages(state: JourneyState) -> Sequence[str]:
    """Return the paths of the pages that the recorded work quotes, each once."""
    return list(dict.fromkeys(one.path for one in sources(state)))
