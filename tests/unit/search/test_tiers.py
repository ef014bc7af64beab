"""Circle 1 over a real folder: what a map shows, what it derives, and how it keeps to its tokens."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from knowledge.errors import BadCursor, NoSuchPath, NoSuchSection
from knowledge.pages.markdown.inline import without_attributes
from knowledge.pages.vault import Vault
from knowledge.search import tiers as tiers_module
from knowledge.search.answers import MapView
from knowledge.search.tiers import Tiers
from tests.support.knowledge_bases.folders import write
from tests.support.state.memory.index import MemoryIndexStore
from tests.unit.search.test_finder import Base


async def tiers_over(folder: Path, **pages: str) -> tuple[Tiers, MemoryIndexStore]:
    base = Base(write(folder, pages))
    await base.index_all()
    return Tiers(Vault.open(folder), base.index), base.index


def page(title: str, sentence: str) -> str:
    return f"# {title}\n\n{sentence}\n"


async def test_a_directory_that_nobody_described_is_described_by_its_pages_and_says_so(tmp_path: Path) -> None:
    """Title, summary (the first informative sentence), children and counts are derived."""
    pages = {
        "release-notes/a.md": page("Alpha", "See below."),
        "release-notes/b.md": page("Beta", "The second release can be rolled back in a minute."),
        "release-notes/old/c.md": page("Gamma", "The first release had no way back at all."),
    }
    circles, _ = await tiers_over(tmp_path, **pages)
    view = await circles.map("release-notes")
    assert view.derived
    assert view.title == "Release notes"
    assert view.summary.startswith("Alpha, Beta, Old. ")
    assert view.summary.endswith("The second release can be rolled back in a minute.")
    assert [(child.name, child.kind, child.count) for child in view.children] == [
        ("old", "directory", 1),
        ("a.md", "document", 1),
        ("b.md", "document", 1),
    ]
    assert view.count == 3


async def test_a_readme_speaks_for_its_directory(tmp_path: Path) -> None:
    pages = {"api/README.md": page("The API", "Calls are signed with a key."), "api/zz.md": page("Z", "Last one here.")}
    circles, _ = await tiers_over(tmp_path, **pages)
    view = await circles.map("api")
    assert (view.title, view.summary, view.derived) == ("The API", "Calls are signed with a key.", True)
    assert (await circles.map("")).children[0].title == "The API"


async def test_an_index_page_is_believed(tmp_path: Path) -> None:
    pages = {
        "a/_index.md": "---\ntitle: Area\nsummary: All about areas.\n---\n",
        "a/README.md": page("Other", "No, no."),
    }
    circles, _ = await tiers_over(tmp_path, **pages)
    view = await circles.map("a")
    assert (view.title, view.summary, view.derived) == ("Area", "All about areas.", False)


async def test_deeper_levels_are_opened_while_the_budget_lasts(tmp_path: Path) -> None:
    small = {f"small/p{i}.md": page(f"Small {i}", "Says a few words about something small.") for i in range(3)}
    large = {f"large/p{i}.md": page(f"Large {i}", "Says a few words about something large.") for i in range(120)}
    circles, _ = await tiers_over(tmp_path, **small, **large)
    view = await circles.map("", depth=2)
    shown = [child.path for child in view.children]
    assert shown == ["large", "small", "small/p0.md", "small/p1.md", "small/p2.md"]
    assert view.truncated
    assert not (await circles.map("small", depth=4)).truncated


def cost(view: MapView) -> float:
    """Return the tokens of a map as a model sees it: characters of its JSON / 4."""
    return len(json.dumps(asdict(view), ensure_ascii=False, separators=(",", ":"))) / 4


async def walked(circles: Tiers, path: str = "", depth: int = 1) -> list[MapView]:
    """Return all parts of a map."""
    parts = [await circles.map(path, depth)]
    while cursor := parts[-1].next_cursor:
        parts.append(await circles.map(path, depth, cursor=cursor))
    return parts


@pytest.mark.parametrize("count", [5, 183, 1_000])
async def test_the_parts_of_a_map_name_every_page_once_within_their_budget(tmp_path: Path, count: int) -> None:
    """Issue: a map of one folder with 183 pages cost 4,200 tokens and held empty summaries."""
    many = {f"p{i:04}.md": page(f"Page {i}", "Some twenty words " * 8 + ".") for i in range(count)}
    circles, _ = await tiers_over(
        tmp_path, **many, **{"sub/_index.md": "# Sub\n", "sub/x.md": "x", "_index.md": "# Top\n"}
    )
    parts = await walked(circles)
    assert [child.path for view in parts for child in view.children] == ["sub", *many]
    assert all(cost(view) <= 2000 for view in parts)
    assert all(view.truncated == (view is not parts[-1]) for view in parts)
    assert all(child.summary for view in parts for child in view.children)
    assert min(len(view.children) for view in parts[:-1] or parts) >= 6
    assert len(parts) <= 1 + count // 25


async def test_a_short_list_keeps_its_summaries_as_they_are(tmp_path: Path) -> None:
    sentence = "This page explains one thing at some length, with an example for each case and a reason for each."
    circles, _ = await tiers_over(tmp_path, **{f"p{i}.md": page(f"Page {i}", sentence) for i in range(9)})
    view = await circles.map("")
    assert {child.summary for child in view.children} == {sentence}
    assert (view.truncated, view.next_cursor, view.note) == (False, None, None)


async def test_a_cursor_survives_changes_of_files(tmp_path: Path) -> None:
    """Nothing is shown twice, and nothing that stays is omitted."""
    pages = {
        f"{kind}{i:03}{end}": page("P", "Says a thing.")
        for kind, end in (("d", "/x.md"), ("p", ".md"))
        for i in range(80)
    }
    base = Base(write(tmp_path, pages))
    await base.index_all()
    circles = Tiers(Vault.open(tmp_path), base.index)
    shown: list[str] = []
    cursor = None
    while True:
        view = await circles.map("", cursor=cursor)
        shown += [child.path for child in view.children]
        cursor = view.next_cursor
        if cursor is None:
            break
        last = view.children[-1]
        # What was shown last is removed, and neighbours come before and after it.
        gone = tmp_path / last.path / "x.md" if last.kind == "directory" else tmp_path / last.path
        gone.unlink()
        write(tmp_path, {"a-new.md": "new", f"{last.path.removesuffix('.md')}-a/x.md": "new", "p079-late.md": "late"})
        await base.indexer.reconcile(1)
    assert len(shown) == len(set(shown))
    assert {path.partition("/")[0] for path in pages} <= set(shown)
    assert "p079-late.md" in shown


@pytest.mark.parametrize("cursor", ["x", "AAAA", "é", "0" * 12, "0" * 12 + "cA", "*" * 30])
async def test_a_cursor_of_nobody_or_of_another_map_is_refused(tmp_path: Path, cursor: str) -> None:
    circles, _ = await tiers_over(tmp_path, **{f"d/p{i:03}.md": "text" for i in range(90)}, **{"e/p.md": "x"})
    with pytest.raises(BadCursor):
        await circles.map("d", cursor=cursor)
    own = (await circles.map("d")).next_cursor
    assert own
    for path, depth in (("", 1), ("e", 1), ("d", 2)):
        with pytest.raises(BadCursor):
            await circles.map(path, depth, cursor=own)
        with pytest.raises(BadCursor):
            await circles.map(path, depth, cursor=own[:12] + cursor)


async def test_all_levels_of_a_map_are_walked_and_a_directory_too_large_for_a_map_stays_folded(tmp_path: Path) -> None:
    small = {
        f"s{i:02}/t{j}/p{k}.md": page(f"P {k}", "Says a thing.") for i in range(12) for j in range(3) for k in range(3)
    }
    large = {f"m-large/p{i:03}.md": page(f"Large {i}", "Says a thing.") for i in range(120)}
    circles, _ = await tiers_over(tmp_path, **small, **large, **{"z.md": "# Last\n"})
    parts = await walked(circles, depth=3)
    shown = [child.path for view in parts for child in view.children]
    assert len(shown) == len(set(shown))
    directories = {p.rsplit("/", n)[0] for p in small for n in (1, 2)}
    assert set(shown) == {*small, *directories, "m-large", "z.md"}
    assert all(cost(view) <= 2000 for view in parts)
    # The first part names all of the upper level before anything is opened.
    assert {"m-large", "z.md", *(f"s{i:02}" for i in range(12))} <= {child.path for child in parts[0].children}
    assert sum("'m-large'" in (view.note or "") for view in parts) == 1
    assert all((view.next_cursor is not None) == (view is not parts[-1]) for view in parts)


async def test_a_directory_that_was_deleted_between_two_parts_loses_only_itself(tmp_path: Path) -> None:
    pages = {f"s{i:02}/t{j}/p.md": page("P", "Says a thing.") for i in range(12) for j in range(6)}
    base = Base(write(tmp_path, pages))
    await base.index_all()
    circles = Tiers(Vault.open(tmp_path), base.index)
    view = await circles.map("", depth=3)
    shown = [child.path for child in view.children]
    while view.next_cursor:
        last = next(path for path in reversed(shown) if path.count("/"))
        for file in (tmp_path / last.split("/")[0]).rglob("*.md"):
            file.unlink()
        await base.indexer.reconcile(1)
        view = await circles.map("", depth=3, cursor=view.next_cursor)
        shown += [child.path for child in view.children]
        left = set((await base.index.stamps()).keys())
    assert len(shown) == len(set(shown))
    assert left <= set(shown)


async def test_a_map_while_indexing_is_walked_by_the_files(tmp_path: Path) -> None:
    pages = {f"d{i:03}/x.md": "x" for i in range(70)} | {f"p{i:03}.md": "x" for i in range(70)}
    base = Base(write(tmp_path, pages))
    circles = Tiers(Vault.open(tmp_path), base.index)
    shown = [child.path for view in await walked(circles) for child in view.children]
    assert shown == [f"d{i:03}" for i in range(70)] + [f"p{i:03}.md" for i in range(70)]


LINKED = {
    "guides/_index.md": "# Guides\n\nSee [deploying](deploy.md#steps) and [the root](../README).\n",
    "guides/deploy.md": "---\naliases: [release]\n---\n# Deploy\n\n"
    "Back to [all](../guides/), [web](https://x.org), [gone](gone.md).\n",
    "guides/pods.md": "# Pods\n\n[[release]] and [from the root](guides/_index.md), [itself](#pods), [[Pods]].\n",
    "README.md": "# Top\n\n[Deploy](/guides/deploy) twice: [again](guides/deploy.md). ![shot](guides/deploy.png)\n",
    "deploy.md": "# Another deploy\n\n[[Deploy]] means this page here.\n",
}


async def test_a_page_names_the_pages_it_links_to_and_those_that_link_to_it(tmp_path: Path) -> None:
    """Issue: `kb_read` names links and backlinks; they lead to the same pages that moving a page would rewrite."""
    tiers, _ = await tiers_over(tmp_path, **LINKED)

    async def linked(path: str) -> tuple[list[str], list[str]]:
        reading = await tiers.read(path)
        assert reading.note is None
        return list(reading.links), list(reading.backlinks)

    assert await linked("guides/deploy.md") == (
        ["guides/_index.md"],
        ["README.md", "guides/_index.md", "guides/pods.md"],
    )
    assert await linked("guides/_index.md") == (
        ["guides/deploy.md", "README.md"],
        ["guides/deploy.md", "guides/pods.md"],
    )
    assert await linked("guides/pods.md") == (["guides/deploy.md", "guides/_index.md"], [])
    assert await linked("README.md") == (["guides/deploy.md"], ["guides/_index.md"])
    # The name is that of two pages, and the nearer one is meant.
    assert await linked("deploy.md") == ([], [])


async def test_links_follow_the_files(tmp_path: Path) -> None:
    """Renamed and deleted pages are no longer listed; a new page is."""
    base = Base(write(tmp_path, LINKED))
    await base.index_all()
    tiers = Tiers(Vault.open(tmp_path), base.index)
    (tmp_path / "guides/pods.md").unlink()
    (tmp_path / "README.md").rename(tmp_path / "START.md")
    write(tmp_path, {"guides/gone.md": "# Here now\n"})
    await base.indexer.reconcile(1)
    reading = await tiers.read("guides/deploy.md")
    assert list(reading.links) == ["guides/_index.md", "guides/gone.md"]
    assert list(reading.backlinks) == ["START.md", "guides/_index.md"]
    assert list((await tiers.read("guides/_index.md")).links) == ["guides/deploy.md"]


async def test_many_links_are_bounded_and_the_rest_is_counted(tmp_path: Path) -> None:
    pages = {f"notes/p{i:03}.md": f"# P {i}\n\nUp to [the hub](../hub.md).\n" for i in range(300)}
    hub = "# Hub\n\n" + "\n".join(f"- [{i}](notes/p{i:03}.md)" for i in range(150)) + "\n"
    tiers, _ = await tiers_over(tmp_path, **pages, **{"hub.md": hub})
    reading = await tiers.read("hub.md", view="full")
    assert list(reading.links) == [f"notes/p{i:03}.md" for i in range(12)]
    assert list(reading.backlinks) == [f"notes/p{i:03}.md" for i in range(12)]
    assert reading.note == "it links to 138 more pages and at least 188 more pages link to it"
    section = await tiers.read("notes/p001.md", section="P 1")
    assert (list(section.links), list(section.backlinks)) == (["hub.md"], ["hub.md"])


async def test_a_caller_that_continues_has_seen_the_links(tmp_path: Path) -> None:
    tiers, _ = await tiers_over(tmp_path, **LINKED)
    reading = await tiers.read("guides/deploy.md", view="full", offset=5)
    assert (list(reading.links), list(reading.backlinks)) == ([], [])


@pytest.mark.parametrize("mark", ["{#a .wide}", "{/*a*/}"])
async def test_an_outline_names_headings_without_the_anchors_of_a_site_generator(tmp_path: Path, mark: str) -> None:
    text = f"# A {mark}\n\none\n\n## B {mark}\n\ntwo\n"
    circles, _ = await tiers_over(tmp_path, **{"a.md": text})
    reading = await circles.read("a.md")
    assert (reading.title, [line.section for line in reading.outline]) == ("A", ["A", "A > B"])
    assert "two" in ((await circles.read("a.md", section="A > B")).text or "")


async def test_anchors_are_shown_where_they_tell_sections_apart(tmp_path: Path) -> None:
    text = "# A\n\n## Options {#client}\n\none\n\n## Options {#server}\n\ntwo\n\n## Limits {#limits}\n\nthree\n"
    circles, _ = await tiers_over(tmp_path, **{"a.md": text})
    _, client, server, limits = (await circles.read("a.md")).outline
    assert (client.section, server.section) == ("A > Options {#client}", "A > Options {#server}")
    assert limits.section == "A > Limits"
    assert "two" in ((await circles.read("a.md", section=server.section)).text or "")


async def test_a_section_comes_with_the_outline_of_what_lies_in_it(tmp_path: Path) -> None:
    text = "# A\n\none\n\n## B\n\ntwo\n\n### C\n\nthree\n\n## D\n\nfour\n"
    circles, _ = await tiers_over(tmp_path, **{"a.md": text})
    assert [line.section for line in (await circles.read("a.md", section="B")).outline] == ["A > B", "A > B > C"]
    assert len((await circles.read("a.md")).outline) == 4


async def test_a_page_is_read_as_a_link_names_it_and_an_unknown_anchor_is_refused(tmp_path: Path) -> None:
    text = "# A\n\none\n\n## Set up\n\ntwo ^item\n"
    circles, _ = await tiers_over(tmp_path, **{"guides/a.md": text})
    for asked in ("guides/a.md#set-up", "guides/a#Set up", "A#set-up", "A#A#Set up", "A#Set%20up"):
        assert (await circles.read(asked)).text.startswith("## Set up")
    assert (await circles.read("guides/a.md#^item")).text == "two ^item"
    with pytest.raises(NoSuchSection):
        await circles.read("guides/a.md#nothing")
    with pytest.raises(NoSuchPath):
        await circles.read("guides/b.md#set-up")


async def test_a_page_may_have_a_hash_in_its_name(tmp_path: Path) -> None:
    pages = {
        "C#.md": "# C#\n\nsharp\n\n## Set up\n\ntwo\n",
        "C.md": "# C\n\nplain\n",
        "issue #12.md": "# Issue\n\ntwelve\n",
    }
    circles, _ = await tiers_over(tmp_path, **pages)
    for asked, part in (("C#.md", "sharp"), ("C#", "sharp"), ("issue #12", "twelve"), ("C", "plain")):
        assert part in (await circles.read(asked)).text
    for asked in ("C#.md#set-up", "C##set-up", "C#.md#Set%20up", "C#.md#C%23%20>%20Set%20up"):
        assert (await circles.read(asked)).text.startswith("## Set up")
    assert "plain" in (await circles.read("C.md##")).text


async def test_an_offset_continues_the_whole_page_and_one_past_its_end_is_named(tmp_path: Path) -> None:
    text = "# A\n\n" + "Some text of this page. " * 400
    circles, _ = await tiers_over(tmp_path, **{"a.md": text})
    assert (await circles.read("a.md", offset=5_000)).text == text[5_000:]
    past = await circles.read("a.md", offset=99_999)
    assert (past.text, past.note) == (
        "",
        f"offset 99,999 is past the end of this text, which has {len(text):,} characters",
    )


async def test_a_map_is_found_without_the_suffix_of_a_page_and_in_another_case(tmp_path: Path) -> None:
    pages = {"Guides/a.md": page("A", "One."), "docs/tasks/b.md": page("B", "Two.")}
    circles, _ = await tiers_over(tmp_path, **pages)
    assert (await circles.overview("guides")).path == "Guides"
    assert (await circles.overview("Guides/a")).path == "Guides/a.md"
    with pytest.raises(BadCursor):
        await circles.overview("Guides/a.md", cursor="x")
    with pytest.raises(NoSuchPath):
        await circles.overview("tasks")
    with pytest.raises(NoSuchPath, match="no page has the tag '#none'"):
        await circles.overview("#none")


@pytest.mark.parametrize("depth", [1, 2, 4])
async def test_a_map_costs_at_most_what_it_may(tmp_path: Path, depth: int) -> None:
    pages = {
        f"d{i}/e{j}/p{k}.md": page(f"Page {k}", "Says something of some length about a thing.")
        for i in range(6)
        for j in range(5)
        for k in range(4)
    }
    circles, _ = await tiers_over(tmp_path, **pages)
    view = await circles.map("", depth)
    assert cost(view) <= 2000
    assert view.truncated == (depth == 4)


async def test_each_heading_of_a_long_page_is_freed_of_its_anchor_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All headings were compared with each that has an anchor: 1.5 s for 290 of 3,190."""
    parts = "".join(f"## Option {n} {{#o-{n}}}\n\nText.\n\n### Default {n}\n\nNone.\n\n" for n in range(100))
    circles, _ = await tiers_over(tmp_path, **{"options.md": f"# Options\n\n{parts}"})
    freed: list[str] = []

    def counted(heading: str) -> str:
        freed.append(heading)
        return without_attributes(heading)

    monkeypatch.setattr(tiers_module, "without_attributes", counted)
    outline = (await circles.read("options.md")).outline
    assert [line.section for line in outline or ()][:3] == [
        "Options",
        "Options > Option 0",
        "Options > Option 0 > Default 0",
    ]
    assert len(freed) < 6 * 201, "a path has up to three headings"
