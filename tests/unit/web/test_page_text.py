"""A long page on the site, part by part: footnotes, and links to headings of other parts."""

from __future__ import annotations

from knowledge.pages.document import parse
from mcp_server.web.knowledge_pages.page_text import MOST_CHARACTERS, outline_of, part_from, rendered_blocks
from tests.unit.web.markdown.known_pages import KnownPages

WORDS = "word " * (MOST_CHARACTERS // 5)
LONG = f"# Long\n\nA note[^1], [[#Last]].\n\n{WORDS}\n\n## Last\n\n{WORDS}\n\n## Last\n\n[^1]: The note.\n"


def test_footnotes_are_shown_below_the_part_that_refers_to_them() -> None:
    document = parse("long.md", LONG.encode())
    first = rendered_blocks(part_from(document, 1, with_front=False), KnownPages())
    assert "The note." in first[-1].html
    assert sum("The note." in block.html for block in first) == 1


def test_links_and_outline_lead_to_the_headings_of_other_parts() -> None:
    document = parse("long.md", LONG.encode())
    part = part_from(document, 1, with_front=False)
    assert part.later
    html = "".join(block.html for block in rendered_blocks(part, KnownPages()))
    line = document.headings[1].line
    assert f'href="/page?path=long.md&amp;line={line}#last"' in html
    assert [entry.place for entry in outline_of(document, part)] == [f"&line={line}#last", f"&line={line + 4}#last-1"]
    later = part_from(document, line, with_front=False)
    assert 'id="last"' in rendered_blocks(later, KnownPages())[0].html
