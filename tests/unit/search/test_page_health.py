"""Which pages may need care: old ones, those without a link to them, lost links, text from unverified sources."""

from __future__ import annotations

import pytest

from knowledge.pages.own_pages import OwnPages
from knowledge.pages.paths import PageLink
from knowledge.search.maps.page_health import STALE_AFTER, LinkToNowhere, PageHealth, judged
from knowledge.state.ports import LinkedDocument, SourcedDocument

NOW_NS = 2_000_000_000 * 10**9
YEAR_NS = int(STALE_AFTER.total_seconds()) * 10**9


def health(
    pages: dict[str, list[PageLink]],
    *,
    by_name: bool = False,
    age_ns: dict[str, int] | None = None,
    sources: dict[str, str] | None = None,
    untrusted: frozenset[str] = frozenset(),
) -> PageHealth:
    linked = [
        LinkedDocument(path, f"Title {path[-4]}", (f"alias {path[-4]}",), tuple(pages[path])) for path in sorted(pages)
    ]
    sourced = [
        SourcedDocument(
            path, (sources or {}).get(path, "user"), path in untrusted, NOW_NS - (age_ns or {}).get(path, 0), 10
        )
        for path in sorted(pages)
    ]
    own = OwnPages([("", ["drafts"])])
    return judged(linked, sourced, own, now_ns=NOW_NS, by_name=by_name)


def to(path: str, *, wiki: bool = False) -> PageLink:
    return PageLink(path, wiki)


@pytest.mark.parametrize(
    "link",
    [
        to("b.md"),
        to("/notes/b.md"),
        to("b"),
        to("b", wiki=True),
        to("Title b", wiki=True),
        to("alias b", wiki=True),
    ],
    ids=str,
)
def test_a_page_that_another_links_to_in_any_form_is_no_orphan(link: PageLink) -> None:
    found = health({"notes/a.md": [link], "notes/b.md": []})
    assert found.orphans == ["notes/a.md"]
    assert found.lost == []


def test_folder_introductions_templates_and_excluded_pages_are_left_out_and_a_link_to_itself_saves_no_orphan() -> None:
    pages = {"a.md": [to("a.md")], "_index.md": [], "notes/_index.md": [], "_templates/new.md": [to("gone.md")]}
    pages["drafts/b.md"] = [to("gone.md")]
    found = health(pages)
    assert found.orphans == ["a.md"]
    assert found.lost == []


def test_links_to_pages_that_do_not_exist_are_lost_and_others_are_not_ours_to_judge() -> None:
    pages = {
        "notes/a.md": [
            to("gone.md"),
            to("old/gone"),
            to("deep/gone", wiki=True),
            to("a page to come", wiki=True),
            to("picture.png"),
            to("../../outside.md"),
            to(".obsidian/x.md"),
            to("../notes"),
        ]
    }
    assert health(pages).lost == [
        LinkToNowhere("notes/a.md", "gone.md"),
        LinkToNowhere("notes/a.md", "old/gone"),
        LinkToNowhere("notes/a.md", "deep/gone"),
    ]


def test_ordinary_links_are_found_by_name_in_a_folder_of_obsidian() -> None:
    pages = {"a.md": [to("b.md")], "deep/b.md": [to("../a.md")]}
    assert health(pages).lost == [LinkToNowhere("a.md", "b.md")]
    assert health(pages, by_name=True).lost == []


def test_old_pages_come_oldest_first() -> None:
    pages: dict[str, list[PageLink]] = {"a.md": [], "b.md": [], "c.md": [], "old/_index.md": []}
    age = {"a.md": YEAR_NS + 10**9, "b.md": 2 * YEAR_NS, "c.md": YEAR_NS - 10**9, "old/_index.md": 3 * YEAR_NS}
    assert [page.path for page in health(pages, age_ns=age).stale] == ["b.md", "a.md"]


def test_fetched_text_and_marked_folders_are_unverified() -> None:
    pages: dict[str, list[PageLink]] = {"a.md": [], "b.md": [], "web/c.md": []}
    found = health(pages, sources={"b.md": "zulip:design"}, untrusted=frozenset({"web/c.md"}))
    assert [page.path for page in found.unverified] == ["b.md", "web/c.md"]
    assert (found.pages, found.size) == (3, 30)


def test_nothing_is_found_in_an_empty_knowledge_base() -> None:
    assert health({}) == PageHealth(0, 0, [], [], [], [])
