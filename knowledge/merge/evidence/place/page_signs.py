"""The signs that a text belongs on a page, compared with other pages that search found for it. Pure."""

from __future__ import annotations

import math
import posixpath
import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from knowledge.merge.claims.statements import stemming_language
from knowledge.merge.document.units import cut, units
from knowledge.merge.evidence.place.placement import LONGEST_COMPARED, folded_heading
from knowledge.merge.evidence.place.sister_pages import CandidatePage, sister_signs
from knowledge.merge.evidence.place.vectors import TermVectors, count_terms
from knowledge.pages.markdown.inline import plain
from knowledge.search.query.analysis import analyzer

LONGEST_PAGE = 40_000
"""Characters of a page that are compared."""
SHORTEST_BLOCK = 3
"""Different terms that a block must have to be looked for in a page."""
MOST_BLOCKS = 24
"""Blocks of the text that are looked for."""
SAME = 0.8
"""Likeness of two blocks (Dice coefficient of their terms) from which they count as the same."""
SAID = 0.6
"""Share of a text that a page must contain to count as having it."""
FEWEST_REPEATS = 2
"""A text that at least this many pages have counts as repeated, for example as part of a template. On one page only,
it may be a duplicate."""
REMEMBERED = 256

_TARGET = re.compile(
    r"\]\(\s*<?([^)\s>#]+)|^ {0,3}\[[^\]\n]+\]:[ \t]*<?([^\s>#]+)|(https?://[^\s)>\]#]+)", re.MULTILINE
)
_NOT_RELATIVE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|/")
_LABEL = re.compile(r"\[([^\]\[\n]{2,80})\](?![(\[:])")
_DEFINED = re.compile(r"^ {0,3}\[(?!\^)([^\]\[\n]{2,80})\]:", re.MULTILINE)
_TITLE = re.compile(r"\A\ufeff?---\r?\n(?:(?!---).*\n)*?title:[ \t]*(.+)|^#[ \t]+(.+)", re.MULTILINE)
_PATH_WORDS = re.compile(r"[/._-]+")


class PageSigns(NamedTuple):
    """The signs that one of several pages is the place of a text."""

    rank: float
    """Minus the logarithm of its place in the search; the first place counts as 2."""
    words: float
    """Cosine of the words of text and page."""
    names: float
    """Cosine of the words of the text with those of the page's path and title."""
    relative: float
    """Share of the text's relative links that, seen from this page, lead to one of `pages` or to a place that one of
    them links to, 0..1."""
    labels: float
    """The number of the text's reference links (`[label]`) that the page defines; a link counts for more if fewer
    pages define it."""
    definitions: float
    """Share of the text's link definitions that the page uses but does not have, 0..1."""
    said: float
    """Share of the text that the page has already, 0..1; always 0 if fewer than two pages have the text."""
    twin: float
    """For a text that two or more pages have: the highest likeness of this page's headings to those of a page that
    has the text (Jaccard), times the share of the text that this page lacks."""
    has_heading: float
    """For a text whose heading two or more pages have: 1 if this page has it too."""
    sister: float
    """For a text whose heading two or more pages have: the highest likeness of this page's headings to those of a
    page that has the heading (Jaccard); 0 if this page has it too."""


def signs_of_pages(content: str, pages: Sequence[CandidatePage]) -> Sequence[PageSigns]:
    """Return the signs of each page; `pages` are in the order of the search."""
    content, texts = content[:LONGEST_COMPARED], [page.text[:LONGEST_PAGE] for page in pages]
    language = stemming_language(content)
    asked, known = count_terms(content, language), [count_terms(text, language) for text in texts]
    words = TermVectors(known).cosines(asked)
    names = TermVectors([count_terms(name_of(page), language) for page in pages]).cosines(asked)
    relative = _relative(content, pages)
    defined = {label.casefold() for label in _DEFINED.findall(content)}
    used = {label.casefold() for label in _LABEL.findall(content)} - defined
    folded = [text.casefold() for text in texts] if defined or used else [""] * len(pages)
    resolved = [{label for label in used if f"[{label}]:" in text} for text in folded]
    # A label that few of the pages define says the most about where the text belongs.
    defining = Counter(label for labels in resolved for label in labels)
    wanted = [sum(f"[{label}]" in text and f"[{label}]:" not in text for label in defined) for text in folded]
    said, twins = _repeated(content, texts, known, language)
    sisters = sister_signs(content, texts)
    return [
        PageSigns(
            rank=-math.log(2 + number),
            words=words.get(number, 0.0),
            names=names.get(number, 0.0),
            relative=relative[number],
            labels=math.fsum(math.log((1 + len(pages)) / (0.5 + defining[label])) for label in resolved[number]),
            definitions=wanted[number] / max(1, len(defined)),
            said=said[number],
            twin=twins[number],
            has_heading=sisters[number].has_heading,
            sister=sisters[number].sister,
        )
        for number, page in enumerate(pages)
    ]


def name_of(page: CandidatePage) -> str:
    """Return the words of a page's path and title."""
    title = _TITLE.search(page.text[:LONGEST_COMPARED])
    return f"{_PATH_WORDS.sub(' ', page.path.removesuffix('.md'))} {(title[1] or title[2]) if title else ''}"


def _targets(text: str) -> set[str]:
    return {"".join(found).rstrip("/.,") for found in _TARGET.findall(text)} - {""}


def _relative(content: str, pages: Sequence[CandidatePage]) -> Sequence[float]:
    """Return the sign `relative` of each page."""
    asked = [target for target in sorted(_targets(content)) if not _NOT_RELATIVE.match(target)]
    if not asked:
        return [0.0] * len(pages)
    known = {page.path for page in pages}
    for page in pages:
        folder = posixpath.dirname(page.path)
        known |= {posixpath.normpath(posixpath.join(folder, target)) for target in _targets(page.text[:LONGEST_PAGE])}
    signs = []
    for page in pages:
        led = [posixpath.normpath(posixpath.join(posixpath.dirname(page.path), target)) for target in asked]
        # A page seldom links to itself.
        signs.append(sum(path in known and path != page.path for path in led) / len(asked))
    return signs


def _repeated(
    content: str, texts: Sequence[str], known: Sequence[Counter[str]], language: str
) -> tuple[Sequence[float], Sequence[float]]:
    """Return `said` and `twin` of each page; zeros unless at least two pages have the text."""
    blocks = [terms for terms in _blocks(content, language) if len(terms) >= SHORTEST_BLOCK][:MOST_BLOCKS]
    size = sum(map(len, blocks))
    said = [0.0] * len(texts)
    for number, text in enumerate(texts):
        # Most pages lack the words, so that their blocks need not be read.
        there = [one for one in blocks if len(one & known[number].keys()) >= SAME * len(one)]
        if sum(map(len, there)) >= SAID * size > 0:
            others = _blocks(text, language)
            said[number] = sum(len(one) for one in there if any(_alike(one, other) >= SAME for other in others)) / size
    saying = [number for number, share in enumerate(said) if share >= SAID]
    if len(saying) < FEWEST_REPEATS:
        return [0.0] * len(texts), [0.0] * len(texts)
    headings = [
        {folded_heading(piece.section[-1]) for piece in cut(text).pieces if piece.kind == "heading"} for text in texts
    ]
    twins = [
        (1 - said[number])
        * max(len(own & headings[at]) / (len(own | headings[at]) or 1) for at in saying if at != number)
        for number, own in enumerate(headings)
    ]
    return said, twins


@lru_cache(REMEMBERED)
def _blocks(text: str, language: str) -> Sequence[frozenset[str]]:
    """Return the terms of each item, row and other block below the headings."""
    found = (one for one in units(cut(text)) if one.kind not in ("front", "heading"))
    return [frozenset(analyzer(language).terms(plain(one.text))) for one in found]


def _alike(one: frozenset[str], other: frozenset[str]) -> float:
    return 2 * len(one & other) / (len(one) + len(other))
