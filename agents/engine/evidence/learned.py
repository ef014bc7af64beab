"""What was learned before: on which pages it lies, and what stands on each. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from agents.engine.agent import Learning
from knowledge.pages.document import Document, Heading
from knowledge.pages.paths import LEARNINGS_FOLDER

FOLDER = LEARNINGS_FOLDER
ALL, GENERAL = "all", "general"
"""The folder for every agent, and the page for every domain."""
LONGEST_NAME = 60
SECTION_LEVEL = 2
_BETWEEN = re.compile(r"[^\w]+")
_UNDERLINE = re.compile(r"\s*(?:=+|-+)\s*")


def slug(name: str) -> str:
    """Return the name as a part of a path: letters, digits, `_` and `-` of any script, small; "" if nothing is left.

    It cannot lead elsewhere, is never hidden, and is no `_index`.
    """
    folded = unicodedata.normalize("NFKC", name).casefold()
    return _BETWEEN.sub("-", folded).strip("-_")[:LONGEST_NAME].rstrip("-_")


def learning_page(agent: str, domain: str) -> str:
    """Return the path of the page for what that agent learned in that domain, in general without one."""
    return f"{FOLDER}/{slug(agent) or ALL}/{slug(domain) or GENERAL}.md"


def learning_pages(agent: str, domain: str) -> Sequence[str]:
    """Return the paths of the pages that may tell what was learned, the nearest to that agent and domain first."""
    asked = [(who, what) for who in (agent, ALL) for what in (domain, GENERAL)]
    return tuple(dict.fromkeys(learning_page(who, what) for who, what in asked))


def learnings_on(document: Document) -> Sequence[Learning]:
    """Return what stands on a page, section by section, each with the headings inside it; empty sections are left out.

    What stands before the first heading has the section "".
    """
    lines = document.text.split("\n")
    begins = [heading for heading in document.headings if heading.level <= SECTION_LEVEL]
    ends = [*(heading.line - 1 for heading in begins), len(lines)]
    found = [Learning(document.path, "", "\n".join(lines[document.body_line - 1 : ends[0]]).strip())]
    for heading, end in zip(begins, ends[1:], strict=True):
        text = "\n".join(lines[_after(heading, lines) : end]).strip()
        found.append(Learning(document.path, heading.text, text))
    return [one for one in found if one.text]


def _after(heading: Heading, lines: Sequence[str]) -> int:
    """Return how many lines lie before the text of a section: a heading may be underlined instead of marked with `#`."""
    if lines[heading.line - 1].lstrip().startswith("#"):
        return heading.line
    return next(n for n in range(heading.line, len(lines)) if _UNDERLINE.fullmatch(lines[n])) + 1
