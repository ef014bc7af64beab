"""Checks whether a quote is really where a citation says. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from unicodedata import category

from agents.engine.agent import Citation
from knowledge.errors import AmbiguousName, NoSuchSection
from knowledge.pages.document import Document, find_section, section_text, shortened
from knowledge.pages.markdown.inline import plain
from knowledge.pages.markdown.typography import ascii_punctuation

LEAST_CHARACTERS = 8
"""The fewest letters and digits of a quote: shorter ones are in nearly every page. In scripts without spaces a letter
counts as three."""
LEAST_WORDS = 3
"""The fewest words of each part of a quote with an ellipsis: two words in order are in nearly every page."""

TEXTS_KEPT = 32
"""How many sections' readings are cached: a work may quote one page a thousand times."""
NEAR_SHARE = 0.5
"""The share of a quote's words that the nearest passage must have."""
RAREST_WORDS, MOST_PLACES = 3, 20
"""A passage near a quote is looked for around this many of its rarest words, and at this many places of each: a page
may repeat one line."""
SLACK_WORDS = 3
"""How many words more than the quote the passage around it may have on each side."""
WORDS_NAMED = 3
SHORT = 60

_QUOTE_MARK = re.compile(r"^[ \t]{0,3}(?:>[ \t]?)+", re.MULTILINE)
_ITEM_MARK = re.compile(r"^[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+(?:\[[ xX]\][ \t]+)?", re.MULTILINE)
_HEADING_MARK = re.compile(r"^[ \t]{0,3}#{1,6}[ \t]+", re.MULTILINE)
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]")
_BLANK_LINES = re.compile(r"\n[ \t]*\n")
_ELLIPSIS = re.compile(r"\s*(?:\[ ?(?:\.{3,4}|\u2026) ?\]|\( ?(?:\.{3,4}|\u2026) ?\)|\.{3,4}|\u2026)\s*")
_WORD = re.compile(r"\w+")


def quote_problem(document: Document, citation: Citation) -> str:
    """Return "" if the quote is in that section of the document, apart from typography, white space and markup; else the reason.

    The quote must begin and end at word boundaries, and be more than a heading, which an outline shows without reading
    the page. An ellipsis leaves words out: the parts around it must be there in their order. The reason names the place
    in the document where the quote is instead, or the passage nearest to it, and repeats no text of the page but
    headings.
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
    parts = quoted_parts(citation.quote)
    if len(parts) > 1:
        if thin := [part for part in parts if not _enough(part)]:
            few = shortened(thin[0], SHORT)
            return f"the part {few!r} of a quote with an ellipsis is too short: each needs at least {LEAST_WORDS} words"
        lost = next((part for part in parts if not contains_quote(document.text, part)), "")
        if not lost:
            return f"the parts of the quote are in {where}, but not in this order in one section: quote them apart"
        return f"the part {shortened(lost, SHORT)!r} of the quote is not in {where}{_nearest(document, lost)}"
    return f"the quote is not in {where}{_nearest(document, citation.quote)}"


def contains_quote(text: str, quote: str) -> bool:
    """Return whether the words of the quote follow each other in the text, the first and the last one complete.

    At an ellipsis, words of the text may be left out.
    """
    readings = _readings(text)
    if any(_end(reading, wanted) is not None for wanted in _wordings(quote) for reading in readings):
        return True
    parts = quoted_parts(quote)
    if len(parts) < 2 and parts == [quote.strip()]:
        return False
    sufficient = all(map(_enough, parts)) if len(parts) > 1 else bool(parts)
    return sufficient and any(_in_order(reading, parts) for reading in readings)


def quoted_parts(quote: str) -> list[str]:
    """Return the parts of a quote around its ellipses; the whole quote if it has none."""
    return [part for part in _ELLIPSIS.split(quote.strip()) if part]


def _in_order(reading: str, parts: Sequence[str]) -> bool:
    at = 0
    for part in parts:
        ends = [end for wanted in _wordings(part) if (end := _end(reading, wanted, at)) is not None]
        if not ends:
            return False
        # The wording that ends first leaves most of the text for the parts after it.
        at = min(ends)
    return True


def _enough(part: str) -> bool:
    """Return whether a part of a quote with an ellipsis has enough words to show anything."""
    return bool(_wordings(part)) and (len(_WORD.findall(part)) >= LEAST_WORDS or bool(_UNSPACED.search(part)))


def _wordings(quote: str) -> list[str]:
    """Return the quote as written, as displayed, and without quotation marks around it, each only if it is long enough.

    The target of a link counts towards the length of the written one only, because it is not displayed.
    """
    # A model may copy the Markdown source or the text that a person sees. Both are word for word.
    texts = [ascii_punctuation(quote), _displayed(quote)]
    texts += [text[1:-1].strip() for text in texts if len(text) > 2 and text[0] in "\"'" and text[-1] == text[0]]
    return [wording for wording in dict.fromkeys(texts) if _weight(wording) >= LEAST_CHARACTERS]


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
    """Return the text in four forms, all in plain punctuation.

    They are the text as written; without the marks of block quotes; as displayed, line by line; and as displayed,
    paragraph by paragraph.
    """
    unquoted = _QUOTE_MARK.sub("", text)
    unmarked = _HEADING_MARK.sub("", _ITEM_MARK.sub("", unquoted))
    by_line = "\n".join(plain(line) for line in unmarked.split("\n"))
    # Emphasis and links may go over the end of a line; a backtick that is alone in its line may pair with one of another line.
    by_paragraph = "\n".join(plain(paragraph) for paragraph in _BLANK_LINES.split(unmarked))
    return tuple(dict.fromkeys(map(ascii_punctuation, (text, unquoted, by_line, by_paragraph))))


def _displayed(quote: str) -> str:
    # The `#`s stay: a quote that begins with them is a heading, even if the text below it has the same words.
    return ascii_punctuation(plain(_ITEM_MARK.sub("", _QUOTE_MARK.sub("", quote))))


def _end(text: str, wanted: str, start: int = 0) -> int | None:
    """Return where the first match of complete words ends, from `start` on, or None."""
    at = text.find(wanted, start) if wanted else -1
    while at >= 0:
        end = at + len(wanted)
        if not _inside_word(text, at) and not _inside_word(text, end):
            return end
        at = text.find(wanted, at + 1)
    return None


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


def passage(document: Document, citation: Citation) -> str:
    """Return the title of the page, the headings of the cited section, and the section's text; "" for a section that is not there."""
    try:
        return f"{document.title}\n{citation.section}\n{_section(document, citation.section)}"
    except (NoSuchSection, AmbiguousName):
        return ""


def _section(document: Document, section: str) -> str:
    if section.strip():
        return section_text(document, find_section(document, section))[2]
    lines = document.text.split("\n")
    first = document.headings[0].line - 1 if document.headings else len(lines)
    return "\n".join(lines[document.body_line - 1 : first])


def _place(document: Document, quote: str) -> str | None:
    """Return the innermost section that contains the quote, as a citation names it, or None."""
    # The whole page is read once for many quotes; its sections are read only for a quote that is in one of them.
    if not contains_quote(document.text, quote):
        return None
    sections = [h for h in document.headings if contains_quote(section_text(document, h)[2], quote)]
    if sections:
        return f"section {' > '.join(max(sections, key=lambda h: (len(h.path), h.line)).path)!r}"
    return "the part before the first heading (section '')" if contains_quote(_section(document, ""), quote) else None


# --- the nearest passage ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _PageWords:
    """The words of a page in order, the line of each, and the places of each distinct one."""

    words: Sequence[str]
    lines: Sequence[int]
    places: Mapping[str, Sequence[int]]


@lru_cache(maxsize=TEXTS_KEPT)
def _page_words(text: str) -> _PageWords:
    words, lines, places = list[str](), list[int](), dict[str, list[int]]()
    for number, line in enumerate(text.split("\n"), 1):
        for word in _WORD.findall(line.casefold()):
            places.setdefault(word, []).append(len(words))
            words.append(word)
            lines.append(number)
    return _PageWords(words, lines, places)


def _nearest(document: Document, quote: str) -> str:
    """Return the end of a sentence that says where the most similar passage is, what it lacks of the quote, and how to quote."""
    page, wanted = _page_words(document.text), _WORD.findall(plain(quote).casefold())
    known = sorted((word for word in set(wanted) if word in page.places), key=lambda word: len(page.places[word]))
    best, found, slack = 0, (0, Counter[str]()), SLACK_WORDS
    for word in known[:RAREST_WORDS]:
        for place in page.places[word][:MOST_PLACES]:
            start = max(0, place - wanted.index(word) - slack)
            passage = page.words[start : start + len(wanted) + 2 * slack]
            lacking = Counter(wanted) - Counter(passage)
            if (shared := len(wanted) - lacking.total()) > best:
                best, found = shared, (place, lacking)
    if best < NEAR_SHARE * len(wanted):
        return ": copy it word for word from what kb_read shows"
    place, lacking = found
    line = page.lines[place]
    above = [heading for heading in document.headings if heading.line <= line]
    section = f"section {' > '.join(above[-1].path)!r}" if above else "the part before the first heading"
    words = ", ".join(repr(word[:SHORT]) for word in list(lacking)[:WORDS_NAMED])
    differs = (
        f"where {words} {'is' if len(lacking) == 1 else 'are'} missing"
        if lacking
        else "with other punctuation or order"
    )
    return f"; nearest is line {line} ({section}), {differs}: copy it word for word from what kb_read shows"
