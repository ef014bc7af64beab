"""Hostile pages: the HTML has only elements, attributes and addresses from short lists, no text is lost, and work is bounded.

Our promise (decision 96). The lists here are written a second time on purpose, so that a slip in the renderer's own shows.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_server.web.markdown.renderer import render
from mcp_server.web.markdown.syntax.parser import ParserSteps, parse_markdown
from mcp_server.web.markdown.writer import NOT_RENDERED
from tests.browser.markdown_payloads import EMBEDDED, MARKDOWN_PAYLOADS
from tests.browser.payloads import LONG, PAYLOADS
from tests.unit.web.markdown.known_pages import KnownPages

NAMES_OF_ELEMENTS = (
    "a abbr b blockquote br cite code dd del details dfn div dl dt em figcaption figure h1 h2 h3 h4 h5 h6 hr i img input ins kbd li"
    " mark ol p pre q rp rt ruby s samp section small span strong sub summary sup table tbody td th thead tr u ul var wbr"
)
NAMES_OF_ATTRIBUTES = (
    "alt aria-label checked class colspan disabled height href id loading open referrerpolicy rel role rowspan src start tabindex"
    " title type width"
)
ELEMENTS, ATTRIBUTES = frozenset(NAMES_OF_ELEMENTS.split()), frozenset(NAMES_OF_ATTRIBUTES.split())
CLASSES = re.compile(
    r"block|table|embed|embed-title|note|missing|blocked|external( image)?|attachment|tag|task|math|left|right|center|code|raw-html"
    r"|as-source|leads-to|callout( callout-[a-z]+)?|callout-title|footnotes|footnote-ref|footnote-back|hidden-char|alike-char|no-break"
    r"|language-[A-Za-z0-9_+#.-]+"
)
ADDRESS = re.compile(r"#|/page\?path=|/file\?path=|/tags\?tag=|https?://|mailto:")
VOID = frozenset({"br", "hr", "img", "input", "wbr"})


class Judge(HTMLParser):
    """Collects what a page must not have, and its text."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.faults: list[str] = []
        self.open: list[str] = []
        self.ids: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ELEMENTS:
            self.faults.append(f"<{tag}>")
        for name, value in attrs:
            self._attribute(tag, name, value or "")
        if tag not in VOID:
            self.open.append(tag)

    def _attribute(self, tag: str, name: str, value: str) -> None:
        if name not in ATTRIBUTES:
            self.faults.append(f"{name} of <{tag}>")
        if name == "class" and not CLASSES.fullmatch(value):
            self.faults.append(f"class {value}")
        if name == "href" and not ADDRESS.match(value):
            self.faults.append(f"href {value}")
        if name == "src" and not value.startswith("/file?path="):
            self.faults.append(f"src {value}")
        if name == "id":
            self.ids.append(value)
        if re.search("[\u202a-\u202e\u2066-\u2069\u200b\u2060-\u2064\x00-\x08]", value):
            self.faults.append(f"hidden characters in {name}")

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"</{tag}> closes another element")

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def handle_comment(self, data: str) -> None:
        self.faults.append(f"comment {data}")

    def handle_decl(self, decl: str) -> None:
        self.faults.append(f"declaration {decl}")

    def handle_pi(self, data: str) -> None:
        self.faults.append(f"instruction {data}")


def judged(text: str) -> Judge:
    """Render a page and return the judgement of its blocks, each of which is whole by itself."""
    page = render(text, KnownPages(**EMBEDDED))
    judge = Judge()
    for part in (*(block.html for block in page.blocks), page.footnotes):
        judge.feed(part)
        judge.close()
        assert judge.open == [], "an element is not closed in its block"
        judge.reset()
        judge.open = []
    return judge


@pytest.mark.parametrize("number", range(len(MARKDOWN_PAYLOADS)))
def test_a_hostile_page_has_only_known_elements_attributes_and_addresses(number: int) -> None:
    assert judged(MARKDOWN_PAYLOADS[number]).faults == []


def test_there_are_more_than_a_hundred_hostile_pages() -> None:
    assert len(set(MARKDOWN_PAYLOADS)) > 100


def test_texts_that_attack_other_pages_do_no_harm_as_pages() -> None:
    for payload in PAYLOADS:
        if payload not in LONG:
            assert judged(payload).faults == [], payload


def test_long_texts_do_no_harm_and_their_words_are_there() -> None:
    for payload in LONG:
        judge = judged(payload)
        assert judge.faults == []
        if payload.isascii():
            words = re.sub(r"⟦\d+ blanks⟧", " ", "".join(judge.text)).removeprefix(NOT_RENDERED)
            assert words.split() == payload.split()


def test_all_payloads_in_one_page_do_no_harm_either() -> None:
    judge = judged("\n\n".join(MARKDOWN_PAYLOADS[:-40]))
    assert judge.faults == []


def test_no_two_elements_have_the_same_id_unless_a_heading_is_called_like_a_line() -> None:
    judge = judged("# a\n\n# a\n\nx ^b\n\ny[^1][^1] ^b\n\n[^1]: z\n\n![[guide]]\n")
    assert len(judge.ids) == len(set(judge.ids)) + 1  # the id ^b is written twice on the page itself


def test_refused_html_is_shown_as_text() -> None:
    """All of it, except where it is no text: titles, labels of footnotes, comments and front matter."""
    elsewhere = ("%%", "---", "[x](", "a[^", "<abbr")
    shown = [p for p in MARKDOWN_PAYLOADS if "<script>window.pwned" in p and not p.startswith(elsewhere)]
    assert len(shown) > 20
    for payload in shown:
        assert "<script>window.pwned" in "".join(judged(payload).text), payload


MARKUP_PIECES = (
    *(
        "*",
        "_",
        "**",
        "~~",
        "==",
        "`",
        "```\n",
        "~~~ x\n",
        "[[",
        "]]",
        "![[",
        "|",
        "#",
        "^",
        "[^",
        "]:",
        "](",
        ")",
        "!",
        "[",
        "]",
        "%%",
        "$",
        "$$\n",
    ),
    *(
        "\n",
        "\n\n",
        "> ",
        "- ",
        "1. ",
        "    ",
        "\t",
        "---\n",
        "***\n",
        "===\n",
        "> [!note]- ",
        "- [x] ",
        "<",
        ">",
        "</",
        "/>",
        "<b>",
        "</b>",
    ),
    *(
        "<details>",
        "</details>",
        "<summary>",
        "<a href=x>",
        "</a>",
        "<table>",
        "<td>",
        "</table>",
        "<!--",
        "-->",
        "<?",
        "]]>",
        "&lt;",
        "&#0;",
        "\\",
    ),
    *(
        "https://x.org",
        "www.x.org",
        "a@x.org",
        "javascript:",
        "word",
        "\u202e",
        "\u200b",
        "\r",
        "\x00",
        "\ufffd",
        "\U0001f600",
        "\u00a0",
        "+++\n",
    ),
)


@settings(max_examples=300)
@given(st.lists(st.sampled_from(MARKUP_PIECES), max_size=40).map("".join))
def test_no_text_makes_the_renderer_fail_or_write_anything_unknown(text: str) -> None:
    assert judged(text).faults == []


@settings(max_examples=200)
@given(
    st.lists(
        st.sampled_from(["*", "_", "=", "#", ">", "-", "+", "1.", "|", " ", "\n", "\n\n", "    ", "one", "two", "\\"]),
        max_size=40,
    )
)
def test_no_word_of_a_text_is_lost(pieces: list[str]) -> None:
    words = re.findall("one|two", "".join(pieces))
    assert re.findall("one|two", "".join(judged("".join(pieces)).text)) == words


def bracketed(depth: int) -> str:
    return "[" * depth + "a" + "]" * depth


BOUNDLESS = {
    "quotes": ">" * 10_000 + " end",
    "lists": "- " * 10_000 + "end",
    "quotes and lists": "> - " * 5_000 + "end",
    "brackets": "[" * 10_000 + " end",
    "closed brackets": bracketed(20_000) + " end",
    "pictures in pictures": "![" * 10_000 + "a" + "](u)" * 10_000 + " end",
    "one long paragraph": "word " * 200_000 + "end",
    "rows below one another": "> " * 38 + "a\n" + ("> " * 38 + "b\n") * 5_000 + "> " * 38 + "end",
}


@pytest.mark.parametrize("name", BOUNDLESS)
def test_text_that_would_take_too_long_is_shown_as_it_is_and_says_so(name: str) -> None:
    judge = judged(BOUNDLESS[name])
    assert judge.faults == []
    text = "".join(judge.text)
    assert "too complex to render, so its source is shown" in text
    assert text.endswith("end")


def test_a_text_that_grows_by_its_definitions_is_cut_off() -> None:
    """A short reference may stand for a long address: a page must not become a thousand times as long."""
    text = f"[a]: https://x.example/{'x' * 20_000}\n\n" + "[a] " * 20_000
    assert sum(len(block.html) for block in render(text, KnownPages()).blocks) < 10 * len(text)


def test_embeds_that_multiply_stop() -> None:
    many = {"guide": "![[a]]\n\n" * 50, "a": "![[b]]\n\n" * 50, "b": "word " * 1000}
    page = render("![[guide]]\n\n" * 50, KnownPages(**many))
    whole = "".join(block.html for block in page.blocks)
    assert "this page embeds too much" in whole
    assert len(whole) < 2_000_000


@pytest.mark.parametrize(
    "unit",
    [
        *(
            "*a_ ",
            "**a *b _c ",
            "*_",
            "~~a ~b ",
            "==a ",
            "`a ",
            "<a ",
            "<!--a ",
            "&a",
            "[a](b",
            "[[a ",
            "![[a",
            "[^a",
            "^[a",
            "$a ",
        ),
        *(
            "%%a ",
            "$$\n\n",
            "%% a\n\n",
            "a|b\n-|\n",
            "[a\n",
            "http://",
            "a@",
            "<details>\n\n",
            "> [!note] t\n",
            "#a#",
            "http:a",
        ),
    ],
)
def test_steps_grow_no_faster_than_the_text(unit: str) -> None:
    """Counted in the parser's own steps: ten times the text may take ten times the steps, and some for the beginning."""

    def steps(repeats: int) -> int:
        counted = ParserSteps(10**9)
        parse_markdown(unit * repeats, counted, {})
        return 10**9 - counted.left

    assert steps(2_000) <= 11 * steps(200) + 200
