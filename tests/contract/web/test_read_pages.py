"""Pages on the site: found by any of their names, with the origin of their text, their links, and what contradicts them."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator
from html import unescape
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest

from mcp_server.app.settings.editor_link import editor_link
from mcp_server.web.access.cookies import SiteCookies
from mcp_server.web.knowledge_pages import map_pages, map_tree, page_text
from mcp_server.web.text.site_addresses import folder_address, page_address, tag_address
from tests.support.hosts.writers import writing
from tests.support.web.review_pages import ME, PAGE, Place, kept, shown

TEA = (
    "# Tea\n\nIt takes four minutes.\n\nThe pot is blue. See [[Deploying the payment service]] and [more](coffee.md).\n"
)


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with kept(tmp_path) as opened:
        yield opened


def said(html: str) -> str:
    """Return the main part of a page as text."""
    main = html[html.index("<main") : html.index("</main>")]
    return unescape(" ".join(re.sub(r"<[^>]*>", " ", main).split()))


@pytest.mark.parametrize("name", [PAGE, "guides/deploy", "Deploying the payment service", "release"])
async def test_a_page_is_found_by_path_title_and_alias(place: Place, name: str) -> None:
    await place.indexed()
    visitor = await place.visitor()
    html = await visitor.look(page_address(name))
    assert visitor.status == 200
    assert "<bdi>Deploying the payment service</bdi></h1>" in html
    text = said(html)
    assert "It takes forty seconds." in text
    assert "#payments" in text
    assert "also called release" in text


async def test_each_passage_says_who_wrote_it_when_from_where_and_how_credible_it_is(place: Place) -> None:
    async with writing(place.settings, host="laptop") as host:
        await host.merge("kitchen/tea.md", TEA, intent="note the <i>tea</i>", source="plane:KB-12")
        more = TEA + "\nThe lid is lost.\n"
        await host.merge("kitchen/tea.md", more, base_revision=await host.revision("kitchen/tea.md"))
    visitor = await place.visitor()
    text = said(await visitor.look(page_address("kitchen/tea.md")))
    assert f"{ME}@laptop" in text
    assert "note the <i>tea</i>" not in visitor.html
    assert "Source plane:KB-12" in text
    assert "Text here comes from plane:KB-12" in text
    assert re.search(r"Confidence 0\.\d\d recency 1\.00, authority 0\.\d\d", text)
    margins = re.findall(r'<aside class="margin".*?</aside>', visitor.html, re.DOTALL)
    assert len(margins) == 2, "the first text, and the sentence that was added"
    assert "Lines 11 Written by" in said(f"<main>{margins[1]}</main>")


RICH = (
    "# Rich\n\nSee [[Tea#How long]], [[nowhere]], [the folder](guides/) and [cup](img/cup.png).\n\n"
    "![[tea#How long]]\n\n![[tea#^pot]]\n\n![a cup](img/cup.png)\n\n## Part\n\n- [x] done\n\n## More\n"
)
TEA_PARTS = "# Tea\n\n## How long\n\nFour minutes, as [[Rich]] says.\n\n## Pot\n\nThe pot is blue. ^pot\n"


async def test_in_a_vault_pictures_and_pages_are_found_by_name(place: Place) -> None:
    kb = place.settings.kb
    for folder in (".obsidian", "Pictures/2026", "kitchen", "Notes"):
        (kb / folder).mkdir(parents=True, exist_ok=True)
    (kb / "Pictures/2026/pot.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (kb / "kitchen/pot.md").write_text("# Pot\n\nIt is blue.\n")
    (kb / "Notes/cup.md").write_text(
        "# Cup\n\n![[pot.png]] ![the pot](2026/POT.png) [the page](pot.md) ![[gone.png]]\n"
    )
    await place.indexed()
    visitor = await place.visitor()
    html = await visitor.look(page_address("Notes/cup.md"))
    assert html.count('src="/file?path=Pictures/2026/pot.png"') == 2
    assert f'href="{page_address("kitchen/pot.md")}"' in html


async def test_a_page_is_rendered_with_its_links_its_pictures_and_what_it_embeds(place: Place) -> None:
    (place.settings.kb / "img").mkdir()
    (place.settings.kb / "img/cup.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (place.settings.kb / "rich.md").write_text(RICH, encoding="utf-8")
    (place.settings.kb / "tea.md").write_text(TEA_PARTS, encoding="utf-8")
    await place.indexed()
    visitor = await place.visitor()
    html = await visitor.look(page_address("rich.md"))
    assert '<a href="/page?path=tea.md#how-long">Tea#How long</a>' in html
    assert '<span class="missing" title="There is no page nowhere">nowhere</span>' in html
    assert '<a href="/page?path=guides/_index.md">the folder</a>' in html
    assert '<img src="/file?path=img/cup.png" alt="a cup" loading="lazy">' in html
    assert '<a class="attachment" href="/file?path=img/cup.png">cup</a>' in html
    assert "Four minutes, as" in html
    assert "The pot is blue." in html
    assert "## Pot" not in html
    outline = re.search(r'<nav class="outline".*?</nav>', html, re.DOTALL)
    assert outline is not None
    assert re.findall(r'href="([^"]+)">([^<]+)', outline[0]) == [("#part", "Part"), ("#more", "More")]
    assert '<h2 id="part">' in html
    assert re.findall(r"<h1[^>]*>", html) == ['<h1 id="rich">'], "the title is there once, and links to it still work"


async def test_links_of_an_embedded_page_lead_where_they_lead_on_that_page(place: Place) -> None:
    """As Obsidian does: a relative link is relative to the note that it is written in."""
    kb = place.settings.kb
    for folder in ("", "kitchen/", "kitchen/deep/"):
        (kb / folder).mkdir(exist_ok=True)
        (kb / f"{folder}more.md").write_text(f"# More in {folder}\n", encoding="utf-8")
        (kb / f"{folder}cup.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    inner = "# Inner\n\n[up](../more.md) [cup](cup.png) [[#Part]]\n\n## Part\n"
    (kb / "kitchen/deep/inner.md").write_text(inner, encoding="utf-8")
    middle = "# Middle\n\n[here](more.md) ![](cup.png)\n\n![[deep/inner]]\n"
    (kb / "kitchen/middle.md").write_text(middle, encoding="utf-8")
    outer = "# Outer\n\n[mine](more.md)\n\n![[kitchen/middle]]\n"
    (kb / "outer.md").write_text(outer, encoding="utf-8")
    await place.indexed()
    html = await (await place.visitor()).look(page_address("outer.md"))
    for address, words in (
        ("more.md", "mine"),
        ("kitchen/more.md", "here"),
        ("kitchen/more.md", "up"),
        ("kitchen/deep/inner.md#part", "Part"),
    ):
        assert re.search(rf'<a href="/page\?path={address}">{words}</a>', html), words
    assert '<img src="/file?path=kitchen/cup.png"' in html
    assert re.search(r'href="/file\?path=kitchen/deep/cup.png">cup<', html)


async def test_a_page_that_was_just_written_is_linked_before_it_is_indexed(place: Place) -> None:
    await place.indexed()
    (place.settings.kb / "new.md").write_text("# New\n", encoding="utf-8")
    (place.settings.kb / "rich.md").write_text(
        "# Rich\n\n[[new]] and [new](new.md) and [there](decisions)\n", encoding="utf-8"
    )
    html = await (await place.visitor()).look(page_address("rich.md"))
    assert html.count('<a href="/page?path=new.md">new</a>') == 2
    assert '<a href="/pages?path=decisions">there</a>' in html


async def test_a_contradiction_is_shown_beside_its_statement(place: Place) -> None:
    (place.settings.kb / "limits.md").write_text(
        "# Limits\n\nAn upload may be 64 MiB.\n\nA name is short.\n", encoding="utf-8"
    )
    async with writing(place.settings, host="laptop", level=3) as host:
        claim = {"source": "wiki:limits", "base_revision": await host.revision("limits.md")}
        await host.merge("limits.md", "An upload may be 32 MiB.\n", **claim)
    (flag,) = await place.app.base.state.ledger.flags("limits.md", limit=10)
    html = await (await place.visitor()).look(page_address("limits.md"))
    (passage,) = [
        part
        for part in html.split('<div class="passage">')
        if f'href="/contradictions/{flag.id}">Contradiction<' in part
    ]
    assert "An upload may be 64 MiB." in passage
    assert f'<a href="/contradictions/{flag.id}">Contradiction {flag.id}</a>, <a href="#line-3">line 3</a>' in html


async def test_links_lead_both_ways_and_name_pages_by_their_titles(place: Place) -> None:
    (place.settings.kb / "tea.md").write_text(TEA, encoding="utf-8")
    (place.settings.kb / "coffee.md").write_text("# Coffee\n\nSee [the tea](tea.md).\n", encoding="utf-8")
    await place.indexed()
    visitor = await place.visitor()
    text = said(await visitor.look(page_address("tea.md")))
    assert "Linked from 1 Coffee" in text
    assert "Links to 2 Deploying the payment service" in text
    assert f'href="{page_address("coffee.md")}"' in visitor.html


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("guides/deploi.md", "Similar pages Deploying the payment service"),
        ("decisions", "There is a folder of that name"),
        ("../secret.md", "can't name a page: '..' would leave it"),
        ("<script>alert(1)</script>", "No page"),
    ],
)
async def test_a_missing_page_is_said_with_what_could_be_meant(place: Place, name: str, says: str) -> None:
    await place.indexed()
    visitor = await place.visitor()
    html = await visitor.look(f"/page?{urlencode({'path': name})}")
    assert visitor.status == 404
    assert says in said(html)
    assert "<script>alert" not in html


async def test_a_name_that_several_pages_have_offers_each_of_them(place: Place) -> None:
    for folder in ("a", "b"):
        (place.settings.kb / folder).mkdir()
        (place.settings.kb / folder / "note.md").write_text(f"# Same title\n\nIn {folder}.\n", encoding="utf-8")
    await place.indexed()
    visitor = await place.visitor()
    html = await visitor.look(page_address("Same title"))
    assert "Several pages are called Same title" in said(html)
    assert [path in html for path in (page_address("a/note.md"), page_address("b/note.md"))] == [True, True]


async def test_a_removed_page_leads_to_its_history(place: Place) -> None:
    async with writing(place.settings, host="laptop") as host:
        await host.merge("tea.md", TEA)
        await host.call("kb_delete", path="tea.md", base_revision=await host.revision("tea.md"))
    visitor = await place.visitor()
    html = await visitor.look(page_address("tea.md"))
    assert visitor.status == 404
    assert "tea.md was removed" in said(html)
    assert 'href="/history?path=tea.md"' in html


async def test_a_long_page_is_shown_part_by_part_without_losing_a_line(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_text, "MOST_CHARACTERS", 3_000)
    visitor = await place.visitor()
    address, seen = page_address("long.md") + "&view=source", 0
    lines: list[str] = []
    while address:
        html = await visitor.look(address)
        lines += [
            line
            for pre in re.findall(r'<pre class="foreign"[^>]*>(.*?)</pre>', html, re.DOTALL)
            for line in pre.split("\n")
        ]
        following = re.search(r'rel="next" href="([^"]+)"', html)
        address, seen = following[1].replace("&amp;", "&") if following else "", seen + 1
    assert seen > 3
    assert "\n".join(lines) == place.text("long.md").rstrip("\n")


async def test_a_block_of_enormous_length_is_rendered_in_another_process_with_its_links(place: Place) -> None:
    quote = "> See [[Deploying the payment service]].\n>\n" + "> word and [more](gone.md)\n>\n" * 9_000
    (place.settings.kb / "quote.md").write_text(f"# Quote\n\n{quote}\n", encoding="utf-8")
    await place.indexed()
    visitor = await place.visitor()
    html = await visitor.look(f"{page_address('quote.md')}&line=3")
    assert visitor.status == 200
    assert html.count("<p>word and ") == 9_000
    assert f'<a href="{page_address(PAGE)}">Deploying the payment service</a>' in html
    assert '<span class="missing" title="There is no page gone.md">more</span>' in html


async def test_the_map_lists_folders_with_counts_and_pages_with_summaries(place: Place) -> None:
    await place.indexed()
    visitor = await place.visitor()
    text = said(await visitor.look("/pages"))
    assert "What the team knows." in text
    assert "Guides 3 How we do things." in text
    assert "Long page" in text
    text = said(await visitor.look("/pages?path=guides"))
    assert "Deploying the payment service" in text
    assert "The payment service is deployed with a canary first." in text
    await visitor.look("/pages?path=nowhere")
    assert visitor.status == 404


async def test_a_folder_of_many_pages_is_listed_part_by_part_each_page_once(place: Place) -> None:
    (place.settings.kb / "many").mkdir()
    names = [f"many/{number:03}.md" for number in range(150)]
    for name in names:
        (place.settings.kb / name).write_text(f"# Page {name[5:8]}\n\nText.\n", encoding="utf-8")
    await place.indexed()
    visitor = await place.visitor()
    address, found = "/pages?path=many", list[str]()
    while address:
        html = await visitor.look(address)
        found += re.findall(r'href="/page\?path=(many/\d+\.md)"', html)
        following = re.search(r'rel="next" href="([^"]+)"', html)
        address = following[1].replace("&amp;", "&") if following else ""
    assert found == names


async def test_a_page_shows_the_summary_that_somebody_wrote_and_when_its_file_changed(place: Place) -> None:
    (place.settings.kb / "tea.md").write_text("---\nsummary: How we <b>make</b> tea\n---\n# Tea\n\nFour.\n")
    (place.settings.kb / "bare.md").write_text("# Bare\n\nOnly a sentence.\n", encoding="utf-8")
    await place.indexed()
    visitor = await place.visitor()
    text = said(await visitor.look(page_address("tea.md")))
    assert "Tea How we <b>make</b> tea file changed" in text
    assert "<b>make" not in visitor.html
    text = said(await visitor.look(page_address("bare.md")))
    assert text.count("Only a sentence.") == 1


def tree_of(html: str) -> str:
    return html[html.index('<ul class="tree">') :]


async def test_the_map_of_a_small_knowledge_base_is_whole_and_a_page_is_marked_at_its_place(place: Place) -> None:
    (place.settings.kb / "guides/deep/er").mkdir(parents=True)
    (place.settings.kb / "guides/deep/er/leaf.md").write_text("# Leaf\n\nText.\n", encoding="utf-8")
    await place.indexed()
    visitor = await place.visitor()
    tree = tree_of(await visitor.look("/pages"))
    assert page_address("guides/deep/er/leaf.md") in tree, "everything is there before a folder is opened"
    assert " open" not in tree
    assert "data-unread" not in tree
    tree = tree_of(await visitor.look(folder_address("guides/deep/er/leaf.md")))
    assert re.findall(r'data-folder="([^"]+)" open', tree) == ["guides", "guides/deep", "guides/deep/er"]
    assert re.findall(r'href="([^"]+)" aria-current="true"', tree) == [page_address("guides/deep/er/leaf.md")]
    html = await visitor.look(page_address("guides/deep/er/leaf.md"))
    assert f'<a href="{folder_address("guides/deep/er/leaf.md")}#here">Pages</a>' in html
    tree = tree_of(await visitor.look(folder_address("guides/deep")))
    assert re.findall(r'data-folder="([^"]+)" open', tree) == ["guides", "guides/deep"]
    assert re.findall(r'id="here">\s*<summary aria-current="true"><bdi>([^<]+)', tree) == ["Deep"]


async def test_in_a_large_map_a_folder_is_read_when_it_is_opened_and_any_place_can_be_shown(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(map_tree, "MOST_PAGES", 0)
    for number in range(90):
        folder = place.settings.kb / "many" / f"{number:02}"
        folder.mkdir(parents=True)
        (folder / "page.md").write_text(f"# Page {number}\n\nText.\n", encoding="utf-8")
        (place.settings.kb / "guides" / f"{number:02}.md").write_text(f"# Guide {number}\n\nText.\n", encoding="utf-8")
    (place.settings.kb / "many/_index.md").write_text("# Many\n\nThey are many.\n", encoding="utf-8")
    await place.indexed()
    visitor = await place.visitor()
    tree = tree_of(await visitor.look("/pages"))
    assert '<a href="/pages?path=many#here" data-unread>Open <bdi>Many</bdi></a>' in tree
    assert "Page 1" not in tree
    part = await visitor.look("/pages?path=many&part=list")
    assert "<html" not in part
    assert "They are many." in tree
    assert page_address("many/_index.md") in part
    assert len(re.findall("data-folder=", part)) == 60
    tree = tree_of(await visitor.look(folder_address("many/89")))
    assert re.findall(r'data-folder="([^"]+)" open', tree) == ["many", "many/89"]
    assert page_address("many/89/page.md") in tree
    assert "Back to the beginning of <bdi>Many</bdi>" in tree
    tree = tree_of(await visitor.look(folder_address("guides/80.md")))
    assert re.findall(r'href="([^"]+)" aria-current="true"', tree) == [page_address("guides/80.md")]
    assert page_address("guides/79.md") not in tree
    assert page_address("guides/81.md") in tree


async def test_tags_are_listed_with_counts_and_lead_to_their_pages(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(map_pages, "LISTED", 2)
    for name in ("a", "b", "c"):
        (place.settings.kb / f"{name}.md").write_text(f"# Page {name}\n\n#Green/tea &c.\n", encoding="utf-8")
    await place.indexed()
    visitor = await place.visitor()
    text = said(await visitor.look("/tags"))
    assert "#architecture 1 #deploy 1 #Green/tea 3 #payments 1" in text
    text = said(await visitor.look(tag_address("Green/tea")))
    assert "3 pages Page a" in text
    assert "Page b" in text
    assert "Page c" not in text
    following = re.search(r'rel="next" href="([^"]+)"', visitor.html)
    assert following is not None
    assert "Page c" in said(await visitor.look(unescape(following[1])))
    assert "No page has this tag" in said(await visitor.look("/tags?tag=<b>none"))


async def test_a_tag_has_the_pages_of_the_tags_below_it_each_once(place: Place) -> None:
    for name, tags in {"a": "#area #area/sub", "b": "#area/sub", "c": "#areas"}.items():
        (place.settings.kb / f"{name}.md").write_text(f"# Page {name}\n\n{tags}\n", encoding="utf-8")
    await place.indexed()
    visitor = await place.visitor()
    assert "#area 2 #area/sub 2 #areas 1" in said(await visitor.look("/tags"))
    text = said(await visitor.look(tag_address("area")))
    assert "2 pages With those below it: #area/sub Page a" in text
    assert "Page c" not in text
    for asked in ("area", "#area", "area/"):
        html = await visitor.look(f"/find?{urlencode({'q': 'page', 'tag': asked})}")
        assert {page_address("a.md"), page_address("b.md")} == set(
            re.findall(r'href="(/page\?path=[abc]\.md)', html)
        ), asked
    answer = await place.call("kb_search", query="page", filters={"tags": ["#area"]})
    assert {hit["path"] for hit in answer["hits"]} == {"a.md", "b.md"}
    mapped = await place.call("kb_map", path="#area")
    assert [child["path"] for child in mapped["children"]] == ["a.md", "b.md"]


async def test_the_pages_that_changed_last_come_first_with_who_changed_them(place: Place) -> None:
    async with writing(place.settings, host="laptop") as host:
        await host.merge("tea.md", TEA)
    os.utime(place.settings.kb / "long.md", (4_000_000_000, 4_000_000_000))
    await place.indexed()
    text = said(await (await place.visitor()).look("/recent"))
    assert re.search(rf"Long page in .* long\.md Tea just now tea\.md , by {ME}@laptop", text)


async def test_a_page_opens_in_the_chosen_editor_on_this_machine_only(tmp_path: Path) -> None:
    async with shown(tmp_path, editor_link=editor_link("vscode"), public_url="https://forge.example.com") as configured:
        name = 'te"a <b>.md'
        (configured.settings.kb / name).write_text("# Tea\n\nFour minutes.\n", encoding="utf-8")
        visitor = await configured.visitor()
        html = await visitor.look(page_address(name))
        (address,) = re.findall(r'href="(vscode:[^"]+)"', html)
        assert unescape(address) == f"vscode://file{quote(str(configured.settings.kb))}/te%22a%20%3Cb%3E.md:1"
        assert "“Open in VS Code” opens the file on this machine." in said(html)
        # The same session, as a browser at the public address has it.
        (session,) = (cookie.value for cookie in visitor.http.cookies.jar if "review" in cookie.name)
        public = {"host": "forge.example.com", "cookie": f"{SiteCookies(None, secure=True).session}={session}"}
        elsewhere = await visitor.http.get(page_address(name), headers=public)
        assert elsewhere.status_code == 200
        assert "Open in VS Code" not in elsewhere.text


async def test_without_the_setting_no_page_offers_an_editor(place: Place) -> None:
    html = await (await place.visitor()).look(page_address(PAGE))
    assert "Open in" not in html
