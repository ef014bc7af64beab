"""The handbook's own learnings: pages that agents ask for, in sections with one subject that fit their budgets."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.engine.evidence.learned import ALL, FOLDER, GENERAL, learning_page, learning_pages, learnings_on
from agents.library.cognitive.library import cognitive, names
from agents.library.cognitive.phases.first_phases import LEARNINGS_SHARE
from knowledge.pages.document import Document, parse
from knowledge.tokens import count_tokens

KB = Path(__file__).parents[3] / "kb"
PAGES = {
    path.relative_to(KB).as_posix(): path for path in sorted((KB / FOLDER).rglob("*.md")) if path.name != "_index.md"
}


def document(path: str) -> Document:
    return parse(path, (KB / path).read_bytes())


@pytest.mark.parametrize("path", PAGES)
def test_a_page_of_learnings_is_one_that_an_agent_asks_for(path: str) -> None:
    _, agent, name = path.split("/")
    assert agent in (ALL, *names())
    assert path == learning_page(agent, name.removesuffix(".md"))


@pytest.mark.parametrize("path", PAGES)
def test_each_learning_has_its_own_heading_and_is_short(path: str) -> None:
    """A page's first words would become a learning, too: so there are none."""
    learnings = learnings_on(document(path))
    assert len(learnings) >= 2
    assert all(learning.section for learning in learnings)
    assert max(count_tokens(learning.text) for learning in learnings) <= 90


@pytest.mark.parametrize("agent", names())
@pytest.mark.parametrize("domain", [GENERAL, "handbook"])
def test_all_learnings_together_fit_an_agents_budget(agent: str, domain: str) -> None:
    pages = [document(path) for path in learning_pages(agent, domain) if path in PAGES]
    told = [learning for page in pages for learning in learnings_on(page)]
    assert told
    share = cognitive(agent).budget.tokens_in // LEARNINGS_SHARE
    assert sum(count_tokens(f"{learning.section}\n{learning.text}") for learning in told) <= share


def test_the_index_names_each_page() -> None:
    text = (KB / FOLDER / "_index.md").read_text(encoding="utf-8")
    assert [path for path in PAGES if f"`{path.removeprefix(f'{FOLDER}/')}`" not in text] == []
