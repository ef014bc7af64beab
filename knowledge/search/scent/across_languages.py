"""The scent and the note of an answer to a question in another language than the pages. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from knowledge.search.answers import Scent
from knowledge.search.query.languages import LanguageGap
from knowledge.search.scent.verdict import ShownChunk, read_call


def scent_across(
    scent: Scent, gap: LanguageGap, shown: Sequence[ShownChunk], *, by_meaning: bool, named: bool
) -> Scent:
    """Return the scent of an answer to a question in another language than the pages.

    `by_meaning` says whether the embedder finds texts in another language than the question, `named` whether a page has the
    name in the question. The signs that scent is judged by are mostly shared words, so the answer is never `sufficient`, except for
    an exact name; nor is it `lost`, because the pages may well have the answer.
    """
    if named:
        return scent
    if by_meaning and shown:
        return Scent("partial", f"{gap.in_words}; found by meaning", read_call(shown[0]))
    return replace(scent, level="partial", reason=gap.in_words, next=f"ask again in {gap.page_languages}")


def note_on(gap: LanguageGap, *, is_down: bool) -> str:
    """Return the note of an answer that was not found across languages; `is_down` if no vectors were searched at all."""
    if is_down:
        return f"{gap.in_words}, and search by meaning is not available now. Ask in {gap.page_languages}"
    return (
        f"{gap.in_words}, and the current embedder can't match across languages. Ask in {gap.page_languages}, or choose a "
        "multilingual model: knowledge-forge embedder list"
    )
