"""How a page looks: CommonMark, tables, and what Obsidian adds. The expected forms are those of help.obsidian.md and GFM."""

from __future__ import annotations

from knowledge.pages.document import anchors, parse
from tests.unit.web.markdown.known_pages import html_of, page_of


def test_front_matter_is_returned_and_not_shown() -> None:
    page = page_of("---\ntitle: Tea\naliases: [Chai]\n---\n# Tea\n")
    assert page.front == {"title": "Tea", "aliases": ["Chai"]}
    assert "aliases" not in "".join(block.html for block in page.blocks)


def test_lines_of_blocks_are_the_lines_of_the_file() -> None:
    page = page_of("---\ntitle: Tea\n---\n\n# Tea\n\nTwo\nlines\n\n- a\n- b\n\n\nend")
    assert [(block.first, block.last) for block in page.blocks] == [(5, 5), (7, 8), (10, 11), (14, 14)]
    assert page.blocks[1].html.startswith('<div class="block" id="line-7">')


def test_anchors_of_headings_are_those_of_the_index() -> None:
    text = "# A *b*\n\n## A b\n\n> # quoted\n\nTitle `x`\n---\n"
    headings = anchors(parse("a.md", text.encode()).headings)
    page = page_of(text)
    assert [entry.anchor for entry in page.outline] == list(headings) == ["a-b", "a-b-1", "title-x"]
    assert all(f'id="{anchor}"' in "".join(block.html for block in page.blocks) for anchor in headings)


def test_a_wiki_link_leads_to_its_page_with_its_words() -> None:
    assert html_of("[[guide|the *guide*]]") == '<p><a href="/page?path=guide">the *guide*</a></p>'
    assert html_of("[[guide#Step 1]]") == '<p><a href="/page?path=guide#Step 1">guide#Step 1</a></p>'


def test_a_markdown_link_is_decoded_before_it_is_looked_up() -> None:
    assert html_of("[x](notes/a%20b.md#y)") == '<p><a href="/page?path=notes/a b.md#y">x</a></p>'


def test_a_missing_link_is_no_link() -> None:
    assert html_of("[[gone]]") == '<p><span class="missing" title="There is no page gone">gone</span></p>'
    assert "<a" not in html_of("[x](gone.md) ![y](gone.png) ![[gone.png]] ![[gone]] [z](#gone)")


def test_links_inside_the_page_lead_to_headings_and_blocks() -> None:
    html = html_of("# Tea pot\n\nWords ^w1\n\n[[#Tea pot]] [[#^w1]] [x](#tea-pot)")
    assert 'href="#tea-pot">Tea pot</a>' in html
    assert '<span id="^w1"></span>Words' in html
    assert 'href="#^w1"' in html


def test_the_id_below_a_table_names_the_table() -> None:
    assert html_of("| a |\n|---|\n| b |\n\n^t1").startswith('<span id="^t1"></span><div class="table"')


def test_a_link_to_elsewhere_tells_nothing_to_it() -> None:
    expected = '<a class="external" href="https://x.org/a" rel="noopener noreferrer" referrerpolicy="no-referrer">'
    assert expected in html_of("[x](https://x.org/a)")
    assert expected in html_of("see https://x.org/a.")


def test_a_link_whose_words_name_another_host_says_where_it_leads() -> None:
    assert "(evil.example)" in html_of("[https://bank.example](https://evil.example/bank.example)")
    assert "(bank.example)" not in html_of("[bank.example](https://www.bank.example/)")


def test_a_picture_from_elsewhere_is_a_link_and_not_loaded() -> None:
    html = html_of("![a cat](https://x.org/cat.png)")
    assert "<img" not in html
    assert ">a cat</a>" in html


def test_a_picture_of_the_knowledge_base_is_shown_with_its_size() -> None:
    assert html_of("![[files/a.png|300x200]]") == (
        '<p><img src="/file?path=files/a.png" alt="a.png" width="300" height="200" loading="lazy"></p>'
    )
    assert 'alt="a cat" width="40"' in html_of("![a cat|40](files/a.png)")


def test_callouts_have_a_title_and_may_be_folded() -> None:
    assert html_of("> [!warning]\n> hot") == (
        '<div class="callout callout-warning"><p class="callout-title">Warning</p>\n<p>hot</p>\n</div>'
    )
    assert html_of("> [!note]- A *title*\n> body").startswith(
        '<details class="callout callout-note"><summary class="callout-title">A <em>title</em></summary>'
    )
    assert '<details class="callout callout-note" open="">' in html_of("> [!note]+ x\n> body")


def test_tasks_highlights_tags_comments_and_mathematics() -> None:
    assert 'class="task"><input type="checkbox" disabled="" checked=""' in html_of("- [x] done")
    assert html_of("==a **b**== ~~c~~") == "<p><mark>a <strong>b</strong></mark> <s>c</s></p>"
    assert html_of("#tea/green") == '<p><a class="tag" href="/tags?tag=tea/green">#tea/green</a></p>'
    assert html_of("a %%hidden%% b\n\n%%\nhidden\n\nhidden\n%%\n") == "<p>a  b</p>"
    assert html_of("$a*b*c$ costs $5 and $6") == '<p><code class="math">$a*b*c$</code> costs $5 and $6</p>'
    assert '<code class="math">$$\nx\n$$</code>' in html_of("$$\nx\n$$")


def test_a_diagram_is_shown_as_its_source_with_a_caption() -> None:
    html = html_of("```mermaid\ngraph TD\n```")
    assert "graph TD" in html
    assert "<figcaption>Diagram in mermaid, shown as its source</figcaption>" in html


def test_a_bar_of_a_wiki_link_in_a_table_needs_a_backslash() -> None:
    """help.obsidian.md, "Advanced formatting syntax": aliases in a table need a backslash before the bar. In GFM a bar ends a cell."""
    head = "| a | b |\n|---|---|\n"
    assert '<td><a href="/page?path=guide">tea</a></td>' in html_of(head + "| [[guide\\|tea]] | z |")
    assert "<td>[[guide</td>\n<td>tea]]</td>" in html_of(head + "| [[guide|tea]] | z |")
    assert '<td><a href="/page?path=guide">guide</a></td>' in html_of(head + "| [[guide]] | z |")


def test_an_embedded_page_is_shown_but_not_inside_itself() -> None:
    html = html_of("![[guide]]", guide="# Tea\n\n**hot** ![[guide]]\n\n![[guide]]")
    assert "<strong>hot</strong>" in html
    assert html.count("<h1>Tea</h1>") == 1
    assert "it would contain itself" in html


def test_footnotes_are_numbered_by_their_first_reference_and_lead_back() -> None:
    page = page_of("One[^b] two[^a] three[^b] four^[*here*].\n\n[^a]: A\n\n[^b]: B\n\n    more\n\n[^c]: C\n")
    text = "".join(block.html for block in page.blocks)
    assert '<a href="#fn:1" id="fnref:1" aria-label="Footnote 1">1</a>' in text
    assert 'id="fnref:1:2"' in text
    assert page.footnotes.index('<li id="fn:1"><p>B</p>\n<p>more ') < page.footnotes.index('<li id="fn:2"><p>A ')
    assert '<li id="fn:3"><p><em>here</em> ' in page.footnotes
    assert 'href="#fnref:1:2"' in page.footnotes
    assert "Footnote c, which nothing refers to:" in text


def test_an_undefined_footnote_stays_text() -> None:
    assert html_of("a[^b]") == "<p>a[^b]</p>"


def test_addresses_in_the_text_are_links_without_the_punctuation_around_them() -> None:
    html = html_of("(see www.x.org/a_(b)), mail me@x.org, and **https://x.org/?a=b&c;**")
    assert '<a class="external" href="http://www.x.org/a_(b)"' in html
    assert '<a class="external" href="mailto:me@x.org"' in html
    assert 'href="https://x.org/?a=b"' in html
    assert "<a" not in html_of("xhttps://x.org www.x me@x `https://x.org`")


def test_a_picture_whose_address_is_a_page_is_an_embedded_page() -> None:
    html = html_of("![the guide](notes/a%20b.md#Part)", **{"notes/a b.md#Part": "**hot**"})
    assert "<strong>hot</strong>" in html
    assert '<a href="/page?path=notes/a b.md#Part">the guide</a>' in html
    assert html_of("see ![it](guide.md) here") == '<p>see <a href="/page?path=guide.md">it</a> here</p>'
    assert "embed" not in html_of("![x](https://x.org/a.md)")


def test_harmless_elements_stay_and_may_hold_blocks() -> None:
    html = html_of("<details>\n<summary>More</summary>\n\n**b** <kbd>Ctrl</kbd>\n\n</details>\n")
    assert "<details>\n<summary>More</summary>\n<p><strong>b</strong> <kbd>Ctrl</kbd></p>\n</details>" in html


def test_other_html_becomes_visible_text() -> None:
    html = html_of('a <b>bold</b> <script>alert("x")</script> <kbd>open')
    assert html == '<p>a <b>bold</b> &lt;script&gt;alert("x")&lt;/script&gt; &lt;kbd&gt;open</p>'


def test_characters_that_hide_or_pose_are_visible_across_formatting() -> None:
    html = html_of("p**\u0430**ypal and \u202etxt")
    assert "U+0430" in html
    assert "U+202E" in html
