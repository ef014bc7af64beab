"""Links are found where CommonMark finds them, and keep their targets when pages move."""

from __future__ import annotations

import re
from urllib.parse import unquote

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from knowledge.merge.document.link_spans import LinkSpan, links_in
from knowledge.merge.document.links import broken_links, resolve, update_links
from tests.support.knowledge_bases.link_targets import link_targets

ORACLE = MarkdownIt("commonmark").enable("table")

PAGES = {
    "_index.md": ["Start"],
    "a.md": ["Page A"],
    "note with blanks.md": [],
    "guides/_index.md": ["Guides"],
    "guides/deploy.md": ["Deploying", "release"],
    "guides/deep/ünïcode (1).md": [],
    "other/deploy-notes.md": [],
    "other/twin.md": [],
    "guides/twin.md": [],
}
NAMES = link_targets(PAGES, ["img/plan.png"])


def shown(text: str) -> list[tuple[str, str]]:
    return [(link.form, link.path + link.anchor) for link in links_in(text)]


def test_every_kind_of_link_is_found_and_nothing_in_code_or_comments() -> None:
    text = (
        '---\nrelated: "[[In front]]"\ntags: [[no, link]]\n---\n'
        '# A [heading](h.md#s "title")\n\n'
        "> [quoted](<a b.md>) `[no](no.md)`\n> - ![image](../img/p%20q.png)\n> lazily [on](z.md)\n\n"
        "- [[Wiki#s|words]] ![[e.png]] [[1]](cited.md) and `code\n  [no](no.md)` <auto.md#x>\n\n"
        "| [[row\\|words]] | `[x](no.md)` | [cell](c.md) |\n|---|---|---|\n\n"
        "[ref]: def.md 'title'\n[two]:\n  <d e.md>\n\n"
        "[ref] <!-- [no](no.md) --> [web](https://x.org/a.md) [mail](mailto:a@b.c) [here](#a) \\[no](no.md)\n\n"
        "```\n[no](no.md) [[no]]\n```\n\n    [no](no.md)\n\n<!-- [no](no.md)\n-->\n\n%%\n[[no]]\n%%\n"
        '<p><a class="x" href="h.md">x</a><!-- <a href="no.md"> --></p>\n\n<script>\nx = \'<a href="no.md">\'\n</script>\n'
    )
    assert shown(text) == [
        ("wiki", "In front"),
        ("inline", "h.md#s"),
        ("inline", "a b.md"),
        ("image", "../img/p q.png"),
        ("inline", "z.md"),
        ("wiki", "Wiki#s"),
        ("embed", "e.png"),
        ("inline", "cited.md"),
        ("auto", "auto.md#x"),
        ("wiki", "row"),
        ("inline", "c.md"),
        ("definition", "def.md"),
        ("definition", "d e.md"),
        ("html", "h.md"),
    ]
    assert shown(text.replace("\n", "\r\n")) == shown(text)
    assert shown("\ufeff" + text) == shown(text)


FRAGMENTS = (
    *("[", "]", "](", "(", ")", "![", "a", "b.md", "<c d.md>", "<", ">", '"t"', "'", " ", "\\", "`", "``", "\n", "\n"),
    *("[x](y.md)", "![i](j.png)", "[r]", "[r]: z.md", "[r]: <z>", "*", "# ", "> ", "- ", "  ", "    ", "1. ", "\n\n"),
    *("|", "| a |\n|---|\n", "<b>", "<!-- [x](n.md) -->", "```\n", "é", "%20", "&amp;", "#s", "http://w", "~~~\n"),
)


def of_oracle(text: str) -> list[str]:
    found: list[str] = []

    def visit(tokens: list[Token]) -> None:
        for token in tokens:
            target = token.attrs.get("href" if token.type == "link_open" else "src")
            if token.type in ("link_open", "image") and token.markup != "autolink" and target:
                found.append(str(target))
            visit(token.children or [])

    visit(ORACLE.parse(text))
    return [unquote(target) for target in found]


@settings(max_examples=300)
@given(st.lists(st.sampled_from(FRAGMENTS), max_size=14).map("".join))
@example("<[x](y.md)b.md>")
def test_inline_links_are_those_of_a_full_parser(text: str) -> None:
    # A link by label shows its definition's target in the oracle; it does not know wiki links and front matter.
    assume("[[" not in text and not text.startswith("---"))
    # A tag alone on a line ends a table for GitHub and for us, not for the oracle.
    assume("|---|\n<" not in text)
    # A tag alone on the line after a definition continues the paragraph in cmark and for us; the oracle begins HTML there.
    assume(not re.search(r"\]: .*\n *<b>", text))
    theirs = of_oracle(text)
    ours = [link.path + unquote(link.anchor) for link in links_in(text) if link.form in ("inline", "image")]
    defined = {link.path + unquote(link.anchor) for link in links_in(text) if link.form == "definition"}
    local = [one for one in theirs if not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:|//|#", one)]
    if "|---|" in text:
        # Cells beyond those of the head are not shown, but their links are kept up all the same.
        assert set(local) - defined <= set(ours)
    elif defined:
        assert set(local) - defined <= set(ours) <= set(local) | defined
    else:
        assert ours == [one.replace("&amp;", "&") for one in local]


@pytest.mark.parametrize(
    "text", [">\t[x](y.md)", "-\t[x](y.md)\n\n\t[x](y.md)", "- a\n\t- [x](y.md)", "1.\t> [x](y.md)\n\t> z"]
)
def test_tabs_after_marks_are_blanks(text: str) -> None:
    assert [link.path for link in links_in(text)] == of_oracle(text)


WORDS = st.sampled_from(
    ["see", "the page", "`[code](guides/deploy.md)`", "*so*", "é", "\\[", "<!-- [[deploy]] -->", "x"]
)
ENDS = st.sampled_from(["\n", "\n\n", "\n- ", "\n> ", "\r\n", " ", "\n\n```\n[a](a.md) [[a]]\n```\n\n", "\n# "])
TARGETS = st.sampled_from(sorted(PAGES))
STYLES = ("inline", "bare", "dotted", "rooted", "bracketed", "definition", "named", "path", "embed", "html", "titled")


def link_to(target: str, page: str, style: str) -> str:
    here = page.split("/")[:-1]
    there = target.split("/")
    while here and len(there) > 1 and here[0] == there[0]:
        here, there = here[1:], there[1:]
    way = "/".join([".."] * len(here) + there)
    plain = way.removesuffix(".md")
    coded = way.replace(" ", "%20")
    return {
        "inline": f"[w]({coded}#s)",
        "bare": f"[w]({plain.replace(' ', '%20')})",
        "dotted": f"[w](./{coded})" if not coded.startswith("..") else f"![w]({coded})",
        "rooted": f"[w](/{target.replace(' ', '%20')} 'title')",
        "bracketed": f"[w](<{way}>)",
        "definition": f"\n\n[r]: {coded} (title)\n\n[r]",
        "named": f"[[{target.removesuffix('.md').rpartition('/')[2]}]]",
        "path": f"[[{target.removesuffix('.md')}#s|w]]",
        "embed": f"![[{target}]]",
        "html": f'<a href="{coded}">w</a>',
        "titled": f"[[{(PAGES[target] or [target])[0]}|w]]",
    }[style]


@st.composite
def pages(draw: st.DrawFn, page: str) -> str:
    parts = []
    for _ in range(draw(st.integers(1, 6))):
        parts += [draw(WORDS), " "]
        parts.append(link_to(draw(TARGETS), page, draw(st.sampled_from(STYLES))))
        parts.append(draw(ENDS))
    return "".join(parts)


def moved_names(old: str, new: str) -> dict[str, list[str]]:
    return {new if path == old else path: titles for path, titles in PAGES.items()}


NEW = st.sampled_from(["new.md", "guides/ship it.md", "guides/deep/x.md", "a/b/c/d.md", "other/50% (öl).md", "q#r.md"])
PAGE = st.sampled_from(sorted(PAGES))


def leads(text: str, page: str, pages: dict[str, list[str]]) -> list[str | None]:
    names = link_targets(pages, ["img/plan.png"])
    return [resolve(page, link, names) for link in links_in(text)]


@settings(max_examples=75)
@given(st.data(), PAGE, TARGETS, NEW)
def test_every_link_leads_to_the_same_page_after_it_moved(data: st.DataObject, page: str, old: str, new: str) -> None:
    text = data.draw(pages(page))
    now = new if page == old else page
    after = update_links(text, page=page, moves={old: new}, names=NAMES)
    wanted = [new if one == old else one for one in leads(text, page, PAGES)]
    assert leads(after, now, moved_names(old, new)) == wanted
    for code in ("`[code](guides/deploy.md)`", "[a](a.md) [[a]]", "<!-- [[deploy]] -->"):
        assert after.count(code) == text.count(code)


@settings(max_examples=75)
@given(st.data(), PAGE, TARGETS, NEW)
def test_links_to_other_pages_keep_every_byte(data: st.DataObject, page: str, old: str, new: str) -> None:
    assume(page != old)
    text = data.draw(pages(page))
    after = update_links(text, page=page, moves={old: new}, names=NAMES)
    kept = [link for link in links_in(text) if resolve(page, link, NAMES) != old]
    now = iter(links_in(after))
    for link in kept:
        written = text[link.start : link.end]
        assert any(after[one.start : one.end] == written for one in now)


@settings(max_examples=75)
@given(st.data(), PAGE, TARGETS, st.sampled_from(["guides/ship it.md", "a/b/öl (2).md", "guides/deep/x.md"]))
def test_moving_and_moving_back_gives_the_same_bytes(data: st.DataObject, page: str, old: str, new: str) -> None:
    text = data.draw(pages(page))
    # A target that no longer goes up needs no `./`; a folder may have stood for its index; and a page that moved away and back
    # keeps paths that are longer than necessary.
    assume(page != old)
    assume("(./" not in text and not old.endswith("_index.md"))
    assume("[[twin" not in text and "[[_index" not in text)
    back = link_targets(moved_names(old, new), ["img/plan.png"])
    assume(not any("/" not in link.path and link.wiki and ".md" in link.path for link in links_in(text)))
    there = update_links(text, page=page, moves={old: new}, names=NAMES)
    assert update_links(there, page=page, moves={new: old}, names=back) == text


@pytest.mark.parametrize(
    ("written", "becomes"),
    [
        ("[x](guides/deploy.md)", "[x](ops/ship%20it.md)"),
        ('[x](guides/deploy.md?plain=1#how "t")', '[x](ops/ship%20it.md?plain=1#how "t")'),
        ("[x](./guides/deploy.md)", "[x](./ops/ship%20it.md)"),
        ("[x](/guides/deploy)", "[x](/ops/ship%20it)"),
        ("[x](<guides/deploy.md>)", "[x](<ops/ship it.md>)"),
        ("[x]: guides/deploy.md 'T'", "[x]: ops/ship%20it.md 'T'"),
        ("[[deploy]]", "[[ship it]]"),
        ("[[Deploy#how|words]]", "[[ship it#how|words]]"),
        ("[[guides/deploy.md|words]]", "[[ops/ship it.md|words]]"),
        ("![[ deploy ]]", "![[ ship it ]]"),
        ("[[Deploying]]", "[[Deploying]]"),
        ("| a | [[deploy\\|b]] |\n|---|---|", "| a | [[ship it\\|b]] |\n|---|---|"),
        ('<a href="guides/deploy.md">', '<a href="ops/ship%20it.md">'),
        ("<guides/deploy.md>", "<ops/ship%20it.md>"),
        ("[deploy-notes](other/deploy-notes.md)", "[deploy-notes](other/deploy-notes.md)"),
    ],
)
def test_a_link_stays_of_its_kind(written: str, becomes: str) -> None:
    assert update_links(written, page="a.md", moves={"guides/deploy.md": "ops/ship it.md"}, names=NAMES) == becomes


def test_a_name_that_two_pages_would_bear_becomes_a_path() -> None:
    after = update_links("[[deploy|words]]", page="a.md", moves={"guides/deploy.md": "new/twin.md"}, names=NAMES)
    assert after == "[[new/twin|words]]"


def test_a_path_that_no_wiki_link_can_hold_becomes_an_ordinary_link() -> None:
    after = update_links("[[deploy#how|the words]]", page="a.md", moves={"guides/deploy.md": "c#.md"}, names=NAMES)
    assert after == "[the words](c%23.md#how)"


def test_the_links_of_a_page_that_moves_lead_where_they_led_to_itself_and_to_nothing_too() -> None:
    text = "[a](../a.md) [self](deploy.md#how) [self](#how) ![p](../img/plan.png) [gone](gone.md) [[twin]] [out](../../x.md)"
    after = update_links(text, page="guides/deploy.md", moves={"guides/deploy.md": "guides/deep/d.md"}, names=NAMES)
    assert after == (
        "[a](../../a.md) [self](d.md#how) [self](#how) ![p](../../img/plan.png) [gone](../gone.md) [[guides/twin]]"
        " [out](../../x.md)"
    )


def test_broken_are_the_links_that_lead_nowhere_but_not_the_names_of_pages_to_come() -> None:
    text = "[a](a) [b](b.md#x) [[To come]] [[other/gone]] ![p](img/plan.png) [folder](img/) [root](/) [[guides/deploy]]"
    assert broken_links(text, "_index.md", NAMES) == {"b.md", "other/gone"}
    assert (
        broken_links("[up](../a.md) [[../a]] [own](deploy.md) [root](guides/deploy.md)", "guides/twin.md", NAMES)
        == set()
    )


def test_a_long_line_of_brackets_takes_no_longer_than_its_length() -> None:
    for text in (
        "[" * 50_000,
        "![" * 50_000,
        "[[" * 50_000,
        "[a](" * 30_000,
        "<!-- " * 30_000,
        "`" * 50_000 + "[a](b)",
        "[a](b 'c" * 2_000,
        "[a](<b" * 20_000,
        "[a]: b 'c\n" * 3_000,
        "> " * 5_000 + "[a](b)",
        "](" * 50_000,
    ):
        assert len(links_in(text)) <= 3_000


def test_a_link_tells_where_it_stands() -> None:
    text = "ä [w](<a b.md#s> 't') z"
    [link] = links_in(text)
    assert link == LinkSpan("inline", 2, 21, 7, 13, "a b.md", "#s", bracketed=True)
    assert text[link.start : link.end] == "[w](<a b.md#s> 't')"


def test_a_formula_with_brackets_stays_when_its_page_moves() -> None:
    text = "$$\\operatorname{vex}[f](x)$$ costs $5, [gone](gone.md) $6, $g[a](y)$ and $[b](guides/b.md)$\n"
    names = link_targets({"guides/a.md": [], "guides/b.md": []})
    after = update_links(text, page="guides/a.md", moves={"guides/a.md": "x/y/a.md"}, names=names)
    assert after == text.replace("(gone.md)", "(../../guides/gone.md)")
    assert broken_links(text, "guides/a.md", names) == {"gone.md"}
