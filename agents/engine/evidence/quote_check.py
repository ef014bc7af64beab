"""Checks whether a quote is really where a citation says. Pure."""

from __future__ import annotations

import re
from functools import lru_cache
from unicodedata import category

from agents.engine.agent import Citation
from knowledge.errors import AmbiguousName, NoSuchSection
from knowledge.pages.document import Document, find_section, section_text
from knowledge.pages.markdown.inline import plain

LEAST_CHARACTERS = 8
"""The fewest letters and digits of a quote: shorter ones are in nearly every page. In scripts without spaces a letter counts three."""

TEXTS_KEPT = 32
"""How many sections' readings are cached: a work may quote one page a thousand times."""

_QUOTE_MARK = re.compile(r"^[ \t]{0,3}(?:>[ \t]?)+", re.MULTILINE)
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]")


def quote_problem(document: Document, citation: Citation) -> str:
    """Return "" if the quote is in that section of the document, apart from white space and inline markup; else the reason.

    It must begin and end at word boundaries, and be more than a heading, which an outline shows without reading the page. The reason
    names the place in the document where the quote is instead, and repeats no text of the page but headings.
    """
    # The path is a model's text and is repeated in errors, which have room for about 2,000 characters.
    where = citation.path[:200]
    if not _wordings(citation.quote):
        return f"a quote of {where} is too short to show anything: quote at least {LEAST_CHARACTERS} letters and digits"
    try:
        text = _section(document, citation.section)
    except (NoSuchSection, AmbiguousName) as error:
        return str(error)
    if contains_quote(text, citation.quote):
        only = _only_heading(document, citation.quote, text)
        return f"the quote is only a heading of {where}: quote the text below it" if only else ""
    named = f"section {citation.section[:200]!r}" if citation.section.strip() else "the part before the first heading"
    elsewhere = _place(document, citation.quote)
    if elsewhere is not None:
        return f"the quote is not in {named} of {where} but in {elsewhere}: name that one"
    return f"the quote is not in {where}: copy it word for word from what kb_read shows"


def contains_quote(text: str, quote: str) -> bool:
    """Return whether the words of the quote follow each other in the text, the first and the last one complete."""
    return any(_contains(reading, wanted) for wanted in _wordings(quote) for reading in _readings(text))


def _wordings(quote: str) -> list[str]:
    """Return the quote as written and as displayed, each only if it is long enough.

    The target of a link counts towards the length of the written one only, because it is not displayed.
    """
    # A model may copy the Markdown source or the text that a person sees. Both are word for word.
    return [wording for text in (quote, plain(quote)) if _weight(wording := _folded(text)) >= LEAST_CHARACTERS]


def _only_heading(document: Document, quote: str, text: str) -> bool:
    """Return whether the quote is in headings of the text and nowhere else in it."""
    titles = "\n".join(f"{'#' * heading.level} {heading.text}" for heading in document.headings)
    if not contains_quote(titles, quote):
        return False
    lines = document.text.split("\n")
    headings = {lines[heading.line - 1] for heading in document.headings}
    return not contains_quote("\n".join(line for line in text.split("\n") if line not in headings), quote)


@lru_cache(maxsize=TEXTS_KEPT)
def _readings(text: str) -> tuple[str, ...]:
    """Return the text as written, without the marks of block quotes, and as displayed, with white space folded."""
    unquoted = _QUOTE_MARK.sub("", text)
    displayed = "\n".join(plain(line) for line in unquoted.split("\n"))
    return tuple(dict.fromkeys(_folded(reading) for reading in (text, unquoted, displayed)))


def _folded(text: str) -> str:
    return " ".join(text.split())


def _contains(text: str, wanted: str) -> bool:
    at = text.find(wanted) if wanted else -1
    while at >= 0:
        end = at + len(wanted)
        if not _inside_word(text, at) and not _inside_word(text, end):
            return True
        at = text.find(wanted, at + 1)
    return False


def _inside_word(text: str, at: int) -> bool:
    """Return whether the place between two characters is inside a word or number."""
    if not 0 < at < len(text):
        return False
    before, after = text[at - 1], text[at]
    # Thai, Chinese, Japanese and similar scripts show no word boundaries: a quote may begin or end anywhere.
    if _UNSPACED.match(before) or _UNSPACED.match(after):
        return False
    joins = before.isalnum() and after.isalnum()
    # `2` is no quote from `2.5`, and `20` none from `1,20`.
    number = before in ".," and after.isdigit() and at > 1 and text[at - 2].isdigit()
    number = number or (before.isdigit() and after in ".," and at + 1 < len(text) and text[at + 1].isdigit())
    return joins or number


def _weight(quote: str) -> int:
    # In many scripts, marks (category M) are parts of letters.
    return sum(3 if _UNSPACED.match(c) else 1 for c in quote if c.isalnum() or category(c)[0] == "M")


def _section(document: Document, section: str) -> str:
    if section.strip():
        return section_text(document, find_section(document, section))[2]
    lines = document.text.split("\n")
    first = document.headings[0].line - 1 if document.headings else len(lines)
    return "\n".join(lines[document.body_line - 1 : first])


def _place(document: Document, quote: str) -> str | None:
    """Return the innermost section that contains the quote, as a citation names it, or None."""
    sections = [h for h in document.headings if contains_quote(section_text(document, h)[2], quote)]
    if sections:
        return f"section {' > '.join(max(sections, key=lambda h: (len(h.path), h.line)).path)!r}"
    return "the part before the first heading (section '')" if contains_quote(_section(document, ""), quote) else None
