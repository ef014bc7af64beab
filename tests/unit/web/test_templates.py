"""Templates: each is compiled once, and on a narrow screen each cell of a table shows its own label instead of the hidden header."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from jinja2 import DictLoader, Environment

from mcp_server import web
from mcp_server.web.page_context import CompiledTemplates

TEMPLATES = sorted((Path(web.__file__).parent / "templates").glob("*.html"))
TABLES = [
    (template.name, table)
    for template in TEMPLATES
    for table in re.findall(r'<table class="stack[^"]*">(.*?)</table>', template.read_text(encoding="utf-8"), re.DOTALL)
]


@pytest.mark.parametrize(("template", "table"), TABLES, ids=lambda part: part if part.endswith(".html") else "")
def test_every_cell_is_labelled_as_its_column(template: str, table: str) -> None:
    headers = re.findall(r'<th scope="col">(.*?)</th>', table)
    labels = re.findall(r'<td data-label="(.*?)"', table)
    assert labels == headers, f"in {template}, give a new column both a <th> and a <td data-label> of the same words"


def test_there_are_such_tables() -> None:
    assert len(TABLES) >= 5


def test_a_template_is_compiled_once_for_all_sites_and_again_when_its_source_has_changed() -> None:
    compiled, sources = CompiledTemplates(), list[str]()

    class Site(Environment):
        def compile(self, source: Any, *rest: Any, **named: Any) -> Any:
            sources.append(source)
            return super().compile(source, *rest, **named)

    def shown(source: str) -> str:
        site = Site(loader=DictLoader({"page.html": source}), bytecode_cache=compiled)
        return site.get_template("page.html").render()

    assert [shown("<p>1"), shown("<p>1"), shown("<p>2")] == ["<p>1", "<p>1", "<p>2"]
    assert sources == ["<p>1", "<p>2"]
