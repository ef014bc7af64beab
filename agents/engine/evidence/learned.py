"""The pages of earlier learnings: their paths, and their sections. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from agents.engine.agent import Learning
from knowledge.pages.document import Document
from knowledge.pages.paths import LEARNINGS_FOLDER

FOLDER = LEARNINGS_FOLDER
ALL, GENERAL = "all", "general"
"""The folder for every agent, and the page for every domain."""
LONGEST_NAME = 60
SECTION_LEVEL = 2
_BETWEEN = re.compile(r"[^\w]+")
_UNDERLINE = re.compile(r"\s*(?:=+|-+)\s*")


def slug(name: str) -> str:
    """Return the name as a part of a path: lower-case letters and digits of any script, `_` and `-`; "" if nothing is left.

    It never leads out of the folder, is never hidden, and is never `_index`.
    """
    # The name comes from a model. Letter forms that look the same must lead to the same page.
    folded = unicodedata.normalize("NFKC", name).casefold()
    return _BETWEEN.sub("-", folded).strip("-_")[:LONGEST_NAME].rstrip("-_")


def learning_page(agent: str, domain: str) -> str:
    """Return the path of the page for that agent's learnings in that domain; "" is every agent or domain."""
    return f"{FOLDER}/{slug(agent) or ALL}/{slug(domain) or GENERAL}.md"


def learning_pages(agent: str, domain: str) -> Sequence[str]:
    """Return the paths of the pages for that agent and domain, the most specific first."""
    pages = [learning_page(who, what) for who in (agent, ALL) for what in (domain, GENERAL)]
    return tuple(dict.fromkeys(pages))


def learnings_on(document: Document) -> Sequence[Learning]:
    """Return the sections of a page, each with its subsections, without empty ones.

    The text before the first heading is the section "".
    """
    lines = document.text.split("\n")
    headings = [heading for heading in document.headings if heading.level <= SECTION_LEVEL]
    ends = [*(heading.line - 1 for heading in headings), len(lines)]
    found = [Learning(document.path, "", "\n".join(lines[document.body_line - 1 : ends[0]]).strip())]
    for heading, end in zip(headings, ends[1:], strict=True):
        start = heading.line
        if not lines[start - 1].lstrip().startswith("#"):  # a heading of several lines, underlined
            start = next(n for n in range(start, len(lines)) if _UNDERLINE.fullmatch(lines[n])) + 1
        found.append(Learning(document.path, heading.text, "\n".join(lines[start:end]).strip()))
    return [one for one in found if one.text]
