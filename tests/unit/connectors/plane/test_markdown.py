"""Task texts: Markdown is sent as HTML that Plane keeps, comes back as equivalent Markdown, and loses no word."""

from __future__ import annotations

from html import escape
from time import process_time

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from mcp_server.connectors.plane.text.html_markdown import markdown_of
from mcp_server.connectors.plane.text.html_tree import Element, _Tree, parsed, plain_text
from mcp_server.connectors.plane.text.markdown import differs, html_of
from tests.doubles.plane_html import cleaned

ORDINARY = """# Plan & *scope*

Some **bold with *both* in it**, `code`, ~~gone~~ and [a page](https://example.com/a_b "its title").
A second line of it\\
and a third. snake_case, 2 * 3, a <b and kb:guides/trust.md.

- one
- two
  1. first
  2. second

* another list

- [ ] open
- [x] done **today**
  - with a note

1. A long item

   in two paragraphs

2. Short

| Name | Count |
| --- | --: |
| a\\|b | `x` |

> Quoted
>
> > deeper

```python
def f() -> None: ...
```

___

![A picture](https://example.com/a.png)
"""

PIECES = (
    "# |- |* |1. |> |```\n|**|*|~~|`|\n|\n\n|    |[x](http://a.b)|![i](http://a.b/c.png)|https://x.y/z.|<script>|<b>|&amp;|"
    "- [ ] |- [x] |---\n|word|w2 |\\|  \n|===\n|[a]: http://q\n|javascript:x|<http://a>|_|~|(|)"
)
TAGS = (
    "p|div|b|strong|em|i|s|code|pre|ul|ol|li|blockquote|h1|table|tr|td|th|br|hr|span|script|style|svg|label|details|"
    "a href='http://x.y/z'|a href='javascript:alert(1)'|img src='http://a/b.png' onerror='x()'|p onclick='x()'|"
    "li data-type='taskItem' data-checked='true'|ul data-type='taskList'"
)
pieces = st.sampled_from(PIECES.split("|"))
tables = st.just("| a | b |\n|---|---|\n| c | d |\n")
loose = st.text(alphabet="ab *_`[]()<>#-+.!|\\~&;1:/\n\"'", max_size=40)
markdown = st.lists(st.one_of(pieces, tables, loose), max_size=14).map("".join)
tags = st.sampled_from(TAGS.split("|"))
ends = tags.map(lambda tag: f"</{tag.split()[0]}>")
html = st.lists(
    st.one_of(
        tags.map(lambda tag: f"<{tag}>"), ends, loose.map(lambda text: text.replace("<", "&lt;")), st.just("word")
    ),
    max_size=25,
).map("".join)
fast = settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))


def words(text: str) -> str:
    """Return all letters of some HTML, without the spaces between them."""
    return "".join(plain_text(parsed(text)).split())


def test_ordinary_markdown_comes_back_unchanged() -> None:
    """So a description that is read, edited and sent again changes only where it was edited."""
    sent = html_of(ORDINARY)
    assert html_of(markdown_of(sent)) == sent
    assert markdown_of(html_of(markdown_of(sent))) == markdown_of(sent)
    read = markdown_of(sent).replace(" A second line", "\nA second line").replace("a \\<b", "a <b")
    assert read == ORDINARY.strip()


@fast
@example("~~~~|| a | b |\n|---|---|\n| c | d |\n")
@example("https://x.y/z.&amp;[x](http://a.b)")
@given(markdown)
def test_any_markdown_keeps_its_words_and_settles_after_one_round(text: str) -> None:
    once = html_of(text)
    twice = html_of(markdown_of(once))
    assert words(twice) == words(once)
    assert html_of(markdown_of(twice)) == twice


@fast
@given(html)
def test_any_html_becomes_markdown_with_the_same_words(text: str) -> None:
    """Plane keeps comments as they were sent, so anything may come."""
    assert words(html_of(markdown_of(text))) == words(text)


@fast
@given(st.one_of(markdown, html))
def test_nothing_that_acts_goes_out(text: str) -> None:
    """We don't rely on Plane's own sanitizing."""
    for element in _whole(html_of(text)).every():
        assert element.tag not in ("script", "style", "svg", "iframe", "object")
        assert not [name for name in element.attributes if name.startswith("on")]
        assert not element.attributes.get("href", "").strip().lower().startswith(("javascript:", "data:", "vbscript:"))


@pytest.mark.parametrize(
    "hostile",
    [
        "<script>alert(1)</script>",
        "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>",
        "<img src=x onerror=alert(1)>",
        "<a href='javascript:alert(1)'>x</a>",
        "<a href='data:text/html,<script>alert(1)</script>'>x</a>",
        "<svg><script>alert(1)</script></svg>",
        "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>",
        "<style>@import url(http://evil)</style>",
    ],
)
def test_nothing_that_acts_comes_in(hostile: str) -> None:
    """Also if a host shows Markdown together with the HTML in it."""
    told = markdown_of(f"before {hostile}")
    assert "before" in told
    assert "](javascript:" not in told
    assert "](data:" not in told
    assert "\\<script" in told or "<script" not in told
    assert "<img" not in told


@fast
@given(markdown)
def test_plane_keeps_the_sent_text_and_no_difference_is_reported(text: str) -> None:
    """The double parses and cleans as Plane's program does: several blocks come back in one `div`, links with a `rel`."""
    sent = html_of(text)
    kept = cleaned(sent)
    if sent and kept is not None:
        assert differs(sent, kept) == ()


@pytest.mark.parametrize(
    ("kept", "told"),
    [
        ("<p>one <b>two</b> <a href='https://a.b/'>three</a></p>", ()),
        ("<div><p>one <strong>two</strong> <a rel='noopener' href='https://a.b/'>three</a></p></div>", ()),
        ("<p>one <strong>two</strong></p>", ("1 word missing", "1 <a> dropped")),
        ("<p>one two <a href='https://a.b/'>three</a></p>", ("1 <strong> dropped",)),
        ("<p>one <strong>two</strong> <a>three</a></p>", ("href of 1 <a> dropped or changed",)),
        ("<p>two <strong>one</strong> <a href='https://a.b/'>three</a></p>", ("words are in another order",)),
        (None, ("3 words missing", "1 <a> dropped", "1 <p> dropped", "1 <strong> dropped")),
    ],
)
def test_differences_that_plane_made_are_described(kept: str | None, told: tuple[str, ...]) -> None:
    assert differs('<p>one <strong>two</strong> <a href="https://a.b/">three</a></p>', kept) == told


def test_html_in_markdown_is_text_so_that_no_word_is_lost() -> None:
    assert html_of("Vec<String> and <b>x</b>") == "<p>Vec&lt;String&gt; and &lt;b&gt;x&lt;/b&gt;</p>"


def test_a_link_whose_address_plane_would_drop_is_written_as_words() -> None:
    assert html_of("see [trust](kb:guides/trust.md)") == "<p>see trust (kb:guides/trust.md)</p>"


def test_a_bare_address_becomes_a_link_without_the_mark_that_ends_the_sentence() -> None:
    assert html_of("see https://a.b/c_d_e.") == '<p>see <a href="https://a.b/c_d_e">https://a.b/c_d_e</a>.</p>'
    assert html_of("(https://a.b/c_(d))") == '<p>(<a href="https://a.b/c_(d)">https://a.b/c_(d)</a>)</p>'
    assert "<a" not in html_of("`https://a.b`")


def test_boxes_are_the_task_list_of_planes_editor() -> None:
    """Source: packages/editor of github.com/makeplane/plane, which recognises task lists by these attributes."""
    sent = html_of("- [x] done\n- [ ] open")
    assert '<ul data-type="taskList">' in sent
    assert [item.attributes["data-checked"] for item in parsed(sent).every() if item.tag == "li"] == ["true", "false"]
    assert markdown_of(sent) == "- [x] done\n- [ ] open"


def test_a_text_in_brackets_at_the_start_of_an_item_is_no_box() -> None:
    assert markdown_of("<ul><li>[x] marks the spot</li></ul>") == "- \\[x] marks the spot"
    assert "taskList" not in html_of("- \\[x] marks the spot")


def test_html_of_planes_editor_is_read() -> None:
    """Source: the node classes of Plane's editor: paragraphs in items and cells, tables without a head, mentions by id."""
    written = (
        '<h2 class="editor-heading-block">Steps</h2><ol class="list-decimal"><li><p class="editor-paragraph-block">One</p></li>'
        '<li><p>Two</p><ul><li><p>below</p></li></ul></li></ol><table><tbody><tr><th colspan="1"><p>A</p></th><th><p>B</p></th>'
        "</tr><tr><td><p>1</p></td><td><p>x | y</p></td></tr></tbody></table><p></p><p>Ask "
        '<mention-component entity_identifier="u-1" entity_name="user_mention" id="m"></mention-component>.</p>'
        '<pre><code class="language-sql">select 1</code></pre>'
    )
    assert markdown_of(written, {"u-1": "Ada"}) == (
        "## Steps\n\n1. One\n2. Two\n   - below\n\n| A | B |\n| --- | --- |\n| 1 | x \\| y |\n\nAsk @Ada.\n\n```sql\nselect 1\n```"
    )


def test_prose_is_not_littered_with_escapes() -> None:
    plain = "Use snake_case, a-b, f(x) = y * 2, C# and 50% (see [1]) + more! #5 is done."
    assert markdown_of(f"<p>{plain}</p>") == plain


@pytest.mark.parametrize(
    "text",
    [
        "# no heading",
        "1. no list",
        "- no list",
        "> no quote",
        "*no mark*",
        "`no code`",
        "---",
        "[a](b)",
        "a\\*b",
    ],
)
def test_text_that_looks_like_markdown_stays_text(text: str) -> None:
    assert html_of(markdown_of(f"<p>{text}</p>")) == f"<p>{text.replace('>', '&gt;')}</p>"


def test_a_text_nested_beyond_reason_is_kept_whole() -> None:
    """markdown-it omits what is nested deeper than its limit."""
    assert "word" in html_of("> " * 3000 + "word")
    assert "word" in html_of("".join(f"{'  ' * depth}- x\n" for depth in range(300)) + "\nword")
    assert markdown_of("<ul><li>" * 5000 + "word").endswith("word")


def test_a_text_that_is_too_long_says_where_the_rest_is() -> None:
    told = markdown_of("<p>" + "word " * 210_000 + "</p>")
    assert told.endswith("(The rest of this text is only in Plane.)")


def test_no_text_is_no_text() -> None:
    assert html_of("") == html_of(" \n ") == ""
    assert markdown_of(None) == markdown_of("") == markdown_of("<p></p>") == ""


def _whole(text: str) -> Element:
    """Return the real structure: the elements as they are, uncleaned."""
    tree = _Tree()
    tree.feed(text)
    tree.close()
    return tree.root


def test_a_line_too_long_to_parse_again_keeps_its_words_and_stays_harmless() -> None:
    signs = "[*a*](javascript:x) <b>`_ " * 500
    markdown = markdown_of(f"<p>{escape(signs)}</p>")
    assert parsed(html_of(markdown)).children[0] == Element("p", {}, [signs.strip()])
    many = "<p>" + "<strong>a</strong> b " * 1_000 + "</p>"
    assert plain_text(parsed(html_of(markdown_of(many)))).split() == ["a", "b"] * 1_000


@pytest.mark.parametrize(
    "html",
    [
        "<p>http://a" + ")" * 300_000,
        "<p>" + "[" * 300_000,
        "<p>" + "<b>a</b>*" * 30_000,
    ],
    ids=["brackets behind an address", "one line", "marks"],
)
def test_a_text_that_was_made_to_take_long_does_not(html: str) -> None:
    """Anyone may write a task; each of these once took minutes."""
    begun = process_time()
    assert markdown_of(html)
    assert process_time() - begun < 5
