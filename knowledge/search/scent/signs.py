"""The measurements of an answer. Pure."""

from __future__ import annotations

from dataclasses import dataclass

HALF = 0.5
USUAL_LANGUAGES = ("en", "de", "fr", "es")
"""Languages whose stop words are not shown. Those of all languages have too many words that mean something in another one."""


@dataclass(frozen=True, slots=True)
class ScentSigns:
    """The measurements of an answer by its best chunks, whether they are shown or not; all shares are 0..1.

    The first page is that of the first chunk. Pages are compared, and not chunks: in a manual, the second best passage is often the
    next section of the same page, which speaks for the page. A page's score by words is that of its best chunk.

    `coverage`: share of the question's words on the first page, weighted by rarity. `agreement`: how high both engines rank the
    first page; 1 if it is first in both. `pairs`: share of the question's neighbouring words that are neighbours in the first
    chunk. `lead`: by how much the first page is above the best other page by words, as a share of the highest score. `gap`: by
    how much the best page by words is above the sixth. `title`: how far the question and the first page's title are the same
    words. `unknown`: share of the question's words, by rarity, that no page has. `words`: how many words the question has.
    `exact`: a page or section has exactly the name in the question, `sharing`: and so many have it. `by_both`: both engines
    found something. `is_section`: the first chunk is a section of its page. `is_unspaced`: its words are pieces of runs without
    spaces, of which a page that answers often lacks some. `missing`: the question's words that no shown chunk has, rarest
    first, as they were written. `similar`: known words that were searched in place of words that no page has.
    `is_similar_name`: one of these is in the title or heading of the first chunk. `is_mentioned`: the question names the first
    page among other words, `names_another`: it names others and not this one. `is_newest`: the first page comes first because the
    question asks for the newest one. `compares`: it asks for two things. `lacks_distinct_word`: the first page lacks one of the
    question's distinct words (`DistinctWords`), or all of its numbers. `written`: how many words the question has as it is
    written, where `words` counts the parts of an identifier. `is_stub`: the first page's text is no sentence. `needs_properties`: the
    first page was found by its front matter, and its text is not enough. `asked`: the question for a next call, with its certain
    corrections.
    """

    coverage: float = 0.0
    agreement: float = 0.0
    pairs: float = 0.0
    lead: float = 0.0
    gap: float = 0.0
    title: float = 0.0
    unknown: float = 0.0
    words: int = 0
    written: int = 0
    exact: bool = False
    sharing: int = 1
    by_both: bool = True
    is_section: bool = False
    is_unspaced: bool = False
    missing: tuple[str, ...] = ()
    similar: tuple[str, ...] = ()
    is_similar_name: bool = False
    is_mentioned: bool = False
    names_another: bool = False
    is_newest: bool = False
    compares: bool = False
    lacks_distinct_word: bool = False
    is_stub: bool = False
    needs_properties: bool = False
    asked: str = ""
