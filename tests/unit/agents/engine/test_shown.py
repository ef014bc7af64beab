"""Which parts of pages the calls of a journey showed, and which searches they ran."""

from __future__ import annotations

from typing import Any

import pytest

from agents.engine.agent import Called, Citation
from agents.engine.evidence.shown import request_facts, was_searched, was_shown
from knowledge.pages.document import parse
from tests.support.agents.agent_harness import BEES, VARROA, WINTER

LONG = parse("notes/bees.md", (BEES + "\n## Notes\n\n" + "A line about the hive and its keeper.\n" * 2_000).encode())
WINTER_QUOTE = Citation(str(WINTER["path"]), str(WINTER["section"]), str(WINTER["quote"]))


def read(path: str = "notes/bees.md", **arguments: Any) -> Called:
    return Called("kb_read", "ANSWER", {"path": path, "revision": "1", **request_facts("kb_read", arguments)})


@pytest.mark.parametrize(
    ("calls", "shown"),
    [
        ([], False),
        ([read("notes/garden.md", view="full")], False),
        ([read()], False),  # the outline of a long page shows its beginning
        ([read(section="Winter")], True),
        ([read(section="Bees")], True),  # the section around it
        ([read(section="Bees > Winter", offset=40)], False),
        ([read(section="Varroa")], False),
        ([read(view="full")], True),
        ([read(view="full", offset=16_000)], False),
        ([read(section="a heading that is gone")], True),
        (
            [Called("kb_read", "ANSWER", {"path": "notes/bees.md", "revision": "1"})],
            True,
        ),  # as older versions recorded it
        ([Called("kb_search", "ANSWER", {"path": "notes/bees.md", "scent": "sufficient"})], False),
        ([Called("kb_merge", "ANSWER", {"path": "notes/bees.md", "status": "done"})], True),
        ([Called("kb_merge", "ANSWER", {"path": "notes/bees.md", "status": "proposed"})], False),
    ],
)
def test_a_quote_counts_if_a_call_showed_that_part_of_the_page(calls: list[Called], *, shown: bool) -> None:
    """Issue 25.3: a citation counts only if the journey's calls show that the page or section was read."""
    assert was_shown(LONG, WINTER_QUOTE, calls) is shown


def test_a_short_page_is_shown_whole_by_any_reading() -> None:
    page = parse("notes/bees.md", BEES.encode())
    quote = Citation("notes/bees.md", str(VARROA["section"]), str(VARROA["quote"]))
    assert was_shown(page, quote, [read()])


def test_a_quote_may_span_two_pieces_of_a_long_page() -> None:
    body = "".join(f"Line {number} of the long list. " for number in range(2_000))
    page = parse("notes/long.md", f"# Long\n\n{body}\n".encode())
    at = 15_990 - len("# Long\n\n")
    quote = Citation("notes/long.md", "Long", body[body.index("Line", at) : at + 120].rpartition(" ")[0])
    first, second = read("notes/long.md", view="full"), read("notes/long.md", view="full", offset=16_000)
    assert not was_shown(page, quote, [first])
    assert was_shown(page, quote, [first, second])


@pytest.mark.parametrize(
    ("query", "ran"),
    [("winter losses", True), ("Winter  LOSSES?", True), ("winter loss", False), ("", False)],
)
def test_a_query_counts_if_it_was_run(query: str, *, ran: bool) -> None:
    call = Called("kb_search", "ANSWER", request_facts("kb_search", {"query": "winter losses"}))
    assert "winter" not in str(call.facts), "the record does not hold what was searched for"
    assert was_searched(query, [call]) is ran
    assert not was_searched(query, [])
    assert was_searched(query, [Called("kb_search", "ANSWER", {})]), "older versions recorded no query"
