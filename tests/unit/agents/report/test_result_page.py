"""A result as a page: the texts as they were recorded, links to quoted pages, and front matter that no text can break."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agents.errors import NoResult
from agents.report.result_page import cited_pages, result_page
from knowledge.pages.document import parse
from tests.unit.agents.spec.test_result import LOOKED, read, state_of

TABLE = "# Plan\n\n| a | b |\n|---|---|\n| 1 | 2 |"
AGENT = read(
    "result: {kind: artefact, fields: [JUDGE.reason, JUDGE.verdict, LOOK.findings], open: LOOK.unsure}\n"
).agent


def page(path: str = "results/hive.md", brief: str = "", *, untrusted: bool = False, **judged: Any) -> str:
    work = {"verdict": "yes", "reason": "It hums.", **judged}
    state = replace(state_of(LOOK=LOOKED, JUDGE=work), status="complete")
    state = replace(state, brief=brief) if brief else state
    return result_page("judge-1", AGENT, state, path, {"bees.md": "notes/bees.md"}, untrusted=untrusted)


def test_it_has_the_result_first_then_open_questions_sources_and_its_journey() -> None:
    assert page() == (
        '---\ntitle: "Does the hive live?"\nsummary: "It hums."\n---\n\n# Does the hive live?\n\nIt hums.\n\n**Verdict**: yes\n\n'
        "## Findings\n\n- `f1` It hums.\n  - kind: good\n  - quotes:\n    - bees.md, section 'Sound': \"they hum\"\n"
        "- `f2` It is cold.\n  - kind: bad\n\n## Open questions\n\n- How old is the queen?\n\n## Sources\n\n"
        "- [bees.md > Sound](<../notes/bees.md>)\n\nJudge, journey `judge-1`, 2026-11-01.\n"
    )


def test_a_text_of_several_lines_is_written_as_it_is_and_summarised_by_its_first_sentence() -> None:
    text = page(reason=TABLE + "\n\nThat is all.")
    assert f"\n{TABLE}\n\nThat is all.\n" in text
    assert parse("x.md", text.encode()).summary == "| a | b |"


@pytest.mark.parametrize("brief", ['A: "b"\n---\nsource: user', "# x [y](z)", "'", "a\u2028b"])
def test_no_brief_breaks_the_front_matter(brief: str) -> None:
    read_back = parse("x.md", page(brief=brief, untrusted=True).encode())
    assert read_back.title == " ".join(brief.split())
    assert (read_back.problems, read_back.untrusted, read_back.source) == ((), True, "user")


def test_links_are_relative_to_the_page_or_directory_and_missing_pages_are_only_named() -> None:
    assert "[bees.md > Sound](<notes/bees.md>)" in page("hive.md")
    assert "[bees.md > Sound](<../../notes/bees.md>)" in page("a/b/")
    state = replace(state_of(LOOK=LOOKED, JUDGE={"reason": "x"}), status="complete")
    assert "- bees.md > Sound\n" in result_page("judge-1", AGENT, state, "x.md", {})
    assert cited_pages(state) == ["bees.md"]


def test_without_a_result_there_is_no_page() -> None:
    with pytest.raises(NoResult, match="it is not complete"):
        result_page("judge-1", AGENT, state_of(LOOK=LOOKED), "x.md", {})
    with pytest.raises(NoResult, match="nothing of its agent's result is recorded"):
        result_page("judge-1", None, replace(state_of(LOOK=LOOKED), status="complete"), "x.md", {})
