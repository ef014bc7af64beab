"""Recorded work as people read it."""

from __future__ import annotations

from mcp_server.web.journeys.work_views import LONG_WORK, work_html


def test_a_quote_links_to_its_page_and_fields_have_names_in_words() -> None:
    html = str(
        work_html({"open_questions": [{"quote": "It takes <b>", "path": "a b/&.md", "section": "S", "why": "w"}]}).html
    )
    assert "<dt>Open questions</dt>" in html
    assert '<blockquote class="foreign">It takes &lt;b&gt;</blockquote>' in html
    assert '<a href="/history?path=a%20b%2F%26.md"><bdi>a b/&amp;.md</bdi></a>' in html
    assert "<dt>Why</dt>" in html


def test_the_json_is_folded_below_the_fields() -> None:
    html = str(work_html({"a": {"b": [1, "\u202e"]}}).html)
    assert html.rindex("<details") > html.index("<dl")
    assert "\u202e" not in html
    assert "&#34;b&#34;: [" in html


def test_a_long_quote_is_cut_and_says_so() -> None:
    long = {"quote": "x" * (2 * LONG_WORK), "path": "a.md"}
    assert work_html(long).folded
    assert "more characters" in work_html(long).html
    assert not work_html(long, whole=True).folded
