"""The measurements of an answer. Pure."""

from __future__ import annotations

from dataclasses import dataclass

HALF = 0.5


@dataclass(frozen=True, slots=True)
class ScentSigns:
    """The measurements of an answer by its best chunks, whether they are shown or not; all shares are 0..1.

    The first page is that of the first chunk. Pages are compared, and not chunks: in a manual, the second best passage is often the
    next section of the same page, which speaks for the page. A page's score by words is that of its best chunk.
    """

    coverage: float = 0.0
    """The share of the question's words, weighted by rarity, that the first page has."""
    agreement: float = 0.0
    """How high both engines rank the first page; 1 if it is first in both."""
    pairs: float = 0.0
    """The share of the question's neighbouring words that are neighbours in the first chunk."""
    lead: float = 0.0
    """By how much the first page is above the best other page by words, as a share of the highest score."""
    gap: float = 0.0
    """By how much the best page by words is above the sixth."""
    title: float = 0.0
    """How far the question and the first page's title, or one of its aliases, are the same words."""
    unknown: float = 0.0
    """The share of the question's words, by rarity, that no page has."""
    words: int = 0
    """How many words the question has; the parts of an identifier are counted."""
    written: int = 0
    """How many words it has as it is written."""
    exact: bool = False
    """Whether a page or section has exactly the name in the question."""
    sharing: int = 1
    """How many have that name."""
    by_both: bool = True
    """Whether both engines found something."""
    is_section: bool = False
    """Whether the first chunk is a section of its page."""
    is_unspaced: bool = False
    """Whether the question's words are pieces of runs without spaces, of which a page that answers often lacks some."""
    missing: tuple[str, ...] = ()
    """The question's words that no shown chunk has, rarest first, as they were written."""
    similar: tuple[str, ...] = ()
    """Known words that were searched in place of words that no page has."""
    is_similar_name: bool = False
    """Whether one of these is in the title or heading of the first chunk."""
    is_mentioned: bool = False
    """Whether the question names the first page among other words."""
    names_another: bool = False
    """Whether it names other pages and not the first one."""
    which_of_series: str = ""
    """Which page of a series the first one is ("newest") if it comes first because the question asks for that one."""
    compares: bool = False
    """Whether the question asks for two things."""
    lacks_distinct_word: bool = False
    """Whether the first page lacks one of the question's distinct words (`DistinctWords`), or all of its numbers."""
    is_stub: bool = False
    """Whether the first page's text is no sentence."""
    needs_properties: bool = False
    """Whether the first page was found by its front matter, and its text is not enough."""
    asked: str = ""
    """The question for a next call, with its certain corrections."""
