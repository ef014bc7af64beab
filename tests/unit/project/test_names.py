"""One name for one thing, and folders small enough to overview."""

from __future__ import annotations

from pathlib import Path

from tests.bench.house.figures import beside_folders, gerunds, shared_names
from tests.bench.house.imports import circles, imports
from tests.bench.house.source import read

PRODUCT = read(Path(__file__).parents[3], ["knowledge", "agents", "mcp_server"])
MOST_FILES = 8


def test_no_top_level_class_name_is_used_twice() -> None:
    """If this fails: name the new class by its role in its room (`OutboxEntry` and not `Entry`)."""
    assert shared_names(PRODUCT) == {}


def test_no_file_is_named_by_a_bare_gerund() -> None:
    """If this fails: name the file after the thing in it, not after an activity (`insertion.py` and not `placing.py`)."""
    assert gerunds(PRODUCT) == []


def test_beside_folders_are_at_most_eight_files() -> None:
    """If this fails: find the subject that several of the files share, and give it a folder."""
    assert {folder: count for folder, count in beside_folders(PRODUCT).items() if count > MOST_FILES} == {}


def test_no_imports_form_a_circle_not_even_those_in_functions_or_for_types() -> None:
    """If this fails: pass the part as an argument, or move what both need into a file below both."""
    assert circles(imports(PRODUCT)) == []
