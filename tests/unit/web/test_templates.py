"""On a narrow screen a table's headers are hidden, and each cell shows its own label in place of its column's header."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mcp_server import web

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
