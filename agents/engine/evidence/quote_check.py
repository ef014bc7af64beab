"""Whether a quote really stands where it is said to stand. Pure."""

from __future__ import annotations

import re
from functools import lru_cache
from unicodedata import category

from agents.engine.agent import Citation
from knowledge.errors import AmbiguousName, NoSuchSection
from knowledge.pages.document import Document, find_section, section_text
from knowledge.pages.markdown.inline import plain

LEAST_CHARACTERS = 8
"""So many letters and digits a quote has: a shorter one stands nearly everywhere and shows nothing. Of scripts without spaces
a third is enough."""

TEXTS_KEPT = 32
"""Sections whose readings are kept: a work may quote one page a thousand times."""

_QUOTE_MARK = re.compile(r"^[ \t]{0,3}(?:>[ \t]?)+", re.MULTILINE)
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]")


def misplaced(document: Document, citation: Citation) -> str:
    """Return "" if the quote stands in that section of the document, white space and inline markup aside; else why not.

    It must begin and end where words do, and be more than a heading, which an outline shows to who never read the page. The
    sentence says where the quote stands instead, if it stands anywhere in the document, and repeats no text of it but headings.
    """
    where = f"{citation.path[:200]}"
    if not _wordings(citation.quote):
        return f"a quote of {where} is too short to show anything: quote at least {LEAST_CHARACTERS} letters and digits"
    try:
        text = _section(document, citation.section)
    except (NoSuchSection, AmbiguousName) as error:
        return str(error)
    if stands_in(citation.quote, text):
        only = _only_heading(document, citation.quote, text)
        return f"the quote is only a heading of {where}: quote what stands below it" if only else ""
    named = f"section {citation.section[:200]!r}" if citation.section.strip() else "the part before the first heading"
    elsewhere = _found(document, citation.quote)
    if elsewhere is not None:
        return f"the quote does not stand in {named} of {where} but in {elsewhere}: name that one"
    return f"the quote does not stand in {where}: copy it word for word from what kb_read shows"


def stands_in(quote: str, text: str) -> bool:
    """Return whether the words of the quote stand in the text one after the other, the first and the last one whole."""
    return any(_contains(form, wanted) for wanted in _wordings(quote) for form in _forms(text))


def _wordings(quote: str) -> list[str]:
    """Return the quote as it is written and as it reads, each only if it is long enough to show something.

    A target of a link makes the one long and is not in the other.
    """
    return [wording for text in (quote, plain(quote)) if _weight(wording := _folded(text)) >= LEAST_CHARACTERS]


def _only_heading(document: Document, quote: str, text: str) -> bool:
    """Return whether the quote stands in headings of the text and nowhere else in it."""
    titles = "\n".join(f"{'#' * heading.level} {heading.text}" for heading in document.headings)
    if not stands_in(quote, titles):
        return False
    lines = document.text.split("\n")
    headings = {lines[heading.line - 1] for heading in document.headings}
    return not stands_in(quote, "\n".join(line for line in text.split("\n") if line not in headings))


@lru_cache(maxsize=TEXTS_KEPT)
def _forms(text: str) -> tuple[str, ...]:
    """Return the text as it is written, without marks of quotations, and as it reads, white space folded."""
    unquoted = _QUOTE_MARK.sub("", text)
    read = "\n".join(plain(line) for line in unquoted.split("\n"))
    return tuple(dict.fromkeys(_folded(form) for form in (text, unquoted, read)))


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
    """Return whether the place between two characters lies inside a word or number."""
    if not 0 < at < len(text):
        return False
    before, after = text[at - 1], text[at]
    if _UNSPACED.match(before) or _UNSPACED.match(after):
        return False
    joins = before.isalnum() and after.isalnum()
    # `2` is not quoted from `2.5`, nor `20` from `1,20`.
    number = before in ".," and after.isdigit() and at > 1 and text[at - 2].isdigit()
    number = number or (before.isdigit() and after in ".," and at + 1 < len(text) and text[at + 1].isdigit())
    return joins or number


def _weight(quote: str) -> int:
    # Marks (category M) are parts of letters in many scripts.
    return sum(3 if _UNSPACED.match(c) else 1 for c in quote if c.isalnum() or category(c)[0] == "M")


def _section(document: Document, section: str) -> str:
    if section.strip():
        return section_text(document, find_section(document, section))[2]
    lines = document.text.split("\n")
    first = document.headings[0].line - 1 if document.headings else len(lines)
    return "\n".join(lines[document.body_line - 1 : first])


def _found(document: Document, quote: str) -> str | None:
    """Return the innermost section in which the quote stands, as a citation names it; None if it stands nowhere."""
    holding = [h for h in document.headings if stands_in(quote, section_text(document, h)[2])]
    if holding:
        return f"section {' > '.join(max(holding, key=lambda h: (len(h.path), h.line)).path)!r}"
    return "the part before the first heading (section '')" if stands_in(quote, _section(document, "")) else None
