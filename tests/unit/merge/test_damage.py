"""A write's damage is reported, earlier damage is not, and sound writes pass."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge.merge.damage import find_damage
from tests.support.knowledge_bases.link_targets import link_targets

NAMES = link_targets({"a.md": [], "b.md": []})
PAGE = (
    "---\ntitle: A\ntags: [x]\n---\n# A\n\nText with a [link](b.md).\n\n"
    "## Second\n\n```\ncode\n```\n\nMore text.\n\nSet\n---\n\nEnd.\n"
)


def wrong(after: str, before: str | None = PAGE) -> list[str]:
    found = find_damage("a.md", before, after, names=NAMES)
    return [*found.broken, *found.doubtful]


@pytest.mark.parametrize(
    ("after", "says"),
    [
        (PAGE.replace("tags: [x]", "tags: [x"), "broken YAML"),
        (PAGE.replace("[x]\n---\n", "[x]\n"), "front matter"),
        ("New first line.\n" + PAGE, "is no longer at the beginning"),
        (PAGE.replace("code\n```", "code\n"), "'```' in line 11 is never closed"),
        (PAGE.replace("Text with", "<!-- note\n\nText with"), "is never closed"),
        (PAGE.replace("Text with", "<script>\nText with"), "is never closed"),
        (PAGE.replace("\nText with", "```\nText with").replace("```\n\nMore", "\nMore"), "'## Second' was a heading"),
        (PAGE.replace("Set\n---", "A line before\nSet\n---"), "'Set\\n---' was a heading"),
        (PAGE.replace("(b.md)", "(c.md)"), "the link to 'c.md' leads nowhere"),
        (PAGE + "\n[ref]: gone/x.md\n", "the link to 'gone/x.md' leads nowhere"),
        (PAGE + "\x00", "NUL"),
        (PAGE + "\ufffd", "replacement"),
    ],
)
def test_what_a_write_broke_is_one_sentence(after: str, says: str) -> None:
    for ends in ("\n", "\r\n"):
        found = wrong(after.replace("\n", ends), PAGE.replace("\n", ends))
        assert any(says in sentence for sentence in found), found
        assert all("\n" not in sentence for sentence in found)


@pytest.mark.parametrize(
    "after",
    [
        PAGE.replace("code\n```", "code\n"),
        PAGE.replace("(b.md)", "(c.md)"),
        PAGE.replace("\nText with", "```\nText with"),
    ],
)
def test_a_link_to_nowhere_and_a_fence_without_an_end_may_be_meant(after: str) -> None:
    found = find_damage("a.md", PAGE, after, names=NAMES)
    assert not found.broken
    assert found.doubtful


@pytest.mark.parametrize(
    "after",
    [
        PAGE,
        PAGE.replace("## Second\n\n", ""),
        PAGE.replace("## Second", "## 2nd"),
        PAGE.partition("# A")[1] + PAGE.partition("# A")[2],
        PAGE + "\n```\nan open fence at the end takes nothing along\n",
        PAGE + "\n[[A page to come]] and [web](https://example.org/x.md)\n",
        PAGE.replace("More text.", "````\n```\n## No heading\n````\n"),
        "",
    ],
)
def test_sound_edits_pass(after: str) -> None:
    assert wrong(after) == []


@pytest.mark.parametrize(
    "odd",
    [
        "---\ntitle: [\n---\ntext [x](nowhere.md)\n",
        "# A\n\n```\nnever closed\n",
        "# A\n\n<!-- never closed\n\n[x](nowhere.md)\n",
        "[x](nowhere.md)\n\ufffd\x00\n",
    ],
)
def test_what_was_odd_before_may_stay(odd: str) -> None:
    assert wrong(odd + "one more line\n", before=odd) == []


def test_a_new_page_is_looked_at_too() -> None:
    assert wrong("---\ntitle: [\n---\n", before=None)
    assert wrong("[x](nowhere.md)\n", before=None) == ["the link to 'nowhere.md' leads nowhere"]
    assert wrong("# Fine\n\n[b](b.md)\n", before=None) == []


@settings(max_examples=100)
@given(
    st.lists(st.sampled_from([*PAGE.splitlines(keepends=True), "- item\n", "> quote\n", "| a |\n|---|\n"])).map("".join)
)
def test_nothing_is_wrong_with_what_did_not_change(text: str) -> None:
    assert wrong(text, before=text) == []
