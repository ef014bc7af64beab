"""Operations: what is recorded about work, and that only names and numbers are."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from knowledge.telemetry.operations import FACTS, Fact, Operation, recorded, recording

ROOT = Path(__file__).parents[3]
Seen = list[tuple[str, Mapping[str, Fact]]]


@pytest.fixture
def seen() -> Iterator[Seen]:
    found: Seen = []
    with recording(lambda name, _seconds, facts: found.append((name, dict(facts)))):
        yield found


def test_a_block_is_recorded_with_its_facts(seen: Seen) -> None:
    with Operation("search", hits=0) as current:
        current.note(hits=3)
    assert seen == [("search", {"outcome": "done", "hits": 3})]


def test_an_error_is_recorded_by_its_type_and_passes_on(seen: Seen) -> None:
    with pytest.raises(ValueError, match="secret words of a page"), Operation("search"):
        raise ValueError("secret words of a page")
    assert seen == [("search", {"outcome": "ValueError"})]


async def test_a_function_is_recorded_with_facts_from_its_result(seen: Seen) -> None:
    @recorded("plan", says=lambda found: {"documents": len(found)}, backend="sqlite")
    async def plan(pages: list[str]) -> list[str]:
        return pages

    assert await plan(["a", "b"]) == ["a", "b"]
    assert seen == [("plan", {"outcome": "done", "backend": "sqlite", "documents": 2})]


def test_nothing_is_recorded_after_the_block(seen: Seen) -> None:
    with recording(lambda *_: None):
        pass
    with Operation("search"):
        pass
    assert len(seen) == 1


def test_all_facts_in_the_program_have_a_listed_name() -> None:
    used: set[object] = set()
    for file in [*ROOT.glob("knowledge/**/*.py"), *ROOT.glob("agents/**/*.py"), *ROOT.glob("mcp_server/**/*.py")]:
        text = file.read_text(encoding="utf-8")
        if "telemetry.operations" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call):
                name = getattr(node.func, "id", None) or getattr(node.func, "attr", None)
                if name in ("Operation", "recorded", "note"):
                    used |= {word.arg for word in node.keywords if word.arg}
                    for says in (word.value for word in node.keywords if word.arg == "says"):
                        if isinstance(says, ast.Lambda) and isinstance(says.body, ast.Dict):
                            used |= {key.value for key in says.body.keys if isinstance(key, ast.Constant)}
    assert used - {"elsewhere", "says"} == FACTS
