"""Labels of links and footnotes in a text that is merged into a page which has them too."""

from __future__ import annotations

import pytest

from knowledge.merge.document.reference_labels import with_own_labels
from knowledge.merge.document.unit_origins import PageFacts
from knowledge.merge.document.units import cut, units
from knowledge.merge.document_form import TakenContent
from knowledge.merge.evidence.confidence import DEFAULT_RULES
from knowledge.merge.model import IncomingEvidence
from knowledge.merge.plan import merge
from knowledge.merge.setting import MergeSetting
from tests.unit.merge.evidence.weighed_plans import NOW, weighed, words

PAGE = """\
# Limits

## Rows

Each table may have 200,000 rows.[^1] See [docs] and [2].

## Files

Files are kept for a year.[^2]

[^1]: Since 2024.
[^2]: By law.
[docs]: https://example.org/a
[2]: https://example.org/two
"""


@pytest.mark.parametrize(
    ("text", "renamed"),
    [
        ("Macros are blocked.[^1]\n\n[^1]: See the policy.\n", "Macros are blocked.[^3]\n\n[^3]: See the policy.\n"),
        ("Macros are blocked.[^1]\n\n[^1]: By law.\n", "Macros are blocked.[^2]\n\n[^2]: By law.\n"),
        ("See [the docs][docs].\n\n[docs]: /b\n", "See [the docs][docs-2].\n\n[docs-2]: /b\n"),
        ("See [Docs] or [docs][].\n\n[docs]: /b\n", "See [Docs][docs-2] or [docs][docs-2].\n\n[docs-2]: /b\n"),
        ("See ![[2]][2], `[2]`, [2](c.md).\n\n[2]: /b\n", "See ![[2]][3], `[2]`, [2](c.md).\n\n[3]: /b\n"),
        ("[![logo][2]][docs]\n\n[2]: /b\n[docs]: /c\n", "[![logo][3]][docs-2]\n\n[3]: /b\n[docs-2]: /c\n"),
        ("As told[^1]: no.\n\n[^1]: A.\n", "As told[^3]: no.\n\n[^3]: A.\n"),
        ("A.[^1] B.[^2]\n\n[^1]: By law.\n[^2]: X.\n", "A.[^2] B.[^3]\n\n[^2]: By law.\n[^3]: X.\n"),
    ],
    ids=[
        "a footnote",
        "a note that the page has",
        "full",
        "short",
        "code and inline links",
        "an image in a link",
        "before a colon",
        "a chain",
    ],
)
def test_a_label_that_the_page_defines_otherwise_is_renamed(text: str, renamed: str) -> None:
    """The new definition came first and took the page's own footnotes and links with it."""
    found, changed = with_own_labels(cut(text), cut(PAGE))
    assert found.text == renamed
    assert changed


@pytest.mark.parametrize(
    "text",
    [
        "Macros are blocked.[^1]\n\n[^1]: Since 2024.\n",
        "Macros are blocked.[^new]\n\n[^new]: See the policy.\n",
        "Macros are blocked.[^1]\n",
        "[docs]: /b\n",
        "## [docs]\n\nMore about [docs].\n\n[docs]: /b\n",
        "Each table may have 200,000 rows.[^1] See [docs] and [2].\n\nRead [docs].\n\n[docs]: /b\n",
        "```md\n[docs]\n\n[docs]: /b\n```\n",
        "[x] done\n",
    ],
    ids=["same", "free", "undefined", "only defined", "a heading", "text of the page", "code", "no label"],
)
def test_other_labels_stay(text: str) -> None:
    found, changed = with_own_labels(cut(text), cut(PAGE))
    assert (found.text, changed) == (text, {})


def test_a_merge_names_the_renamed_labels_and_repeats_itself() -> None:
    text = "## Rows\n\nMacros are blocked.[^1]\n\n[^1]: See the policy.\n"
    plan = weighed(text, page=PAGE)
    assert "Macros are blocked.[^3]\n\n[^3]: See the policy.\n" in plan.text
    assert plan.note == "the page already uses labels of your text for other targets: [^1] is now [^3]"
    again = weighed(text, page=plan.text)
    assert (set(words(again)), again.text) == ({"unchanged"}, plan.text)


def test_two_edits_that_add_a_footnote_of_the_same_label_keep_both_notes() -> None:
    """Both came to be on the page as `[^3]`, so that the second sentence had the note of the first."""
    mine = PAGE.replace("Files are kept for a year.[^2]", "Files are kept for a year.[^2] Logs too.[^3]")
    mine = mine.replace("[^2]: By law.\n", "[^2]: By law.\n[^3]: Since May.\n")
    theirs = PAGE.replace("Each table may", "Tables are small.[^3]\n\nEach table may") + "[^3]: Most of them.\n"
    facts = PageFacts("guides/limits.md", "user", NOW, tracked=True)
    setting = MergeSetting(facts, [None] * len(units(cut(mine))), DEFAULT_RULES, NOW, "r1", "")
    plan = merge(cut(PAGE), cut(mine), TakenContent("document", theirs), IncomingEvidence("user", NOW, None), setting)
    assert not plan.conflicts
    assert "Logs too.[^3]" in plan.text
    assert "[^3]: Since May.\n" in plan.text
    assert "Tables are small.[^4]" in plan.text
    assert "[^4]: Most of them.\n" in plan.text
    assert plan.note == "the page already uses labels of your text for other targets: [^3] is now [^4]"
    assert plan.known == theirs
