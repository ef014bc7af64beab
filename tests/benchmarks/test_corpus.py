"""The generated knowledge bases are as the measurements assume."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from knowledge.pages.document import parse
from knowledge.pages.markdown.chunk import cut
from tests.benchmarks.corpus import TWENTY, load, write
from tests.benchmarks.report import BEGIN, END, Line, page, promises

CHUNKS = 600


def _digest(root: Path) -> str:
    total = hashlib.sha256()
    for file in sorted(root.rglob("*.md")):
        total.update(str(file.relative_to(root)).encode() + file.read_bytes())
    return total.hexdigest()


def test_the_same_seed_writes_the_same_bytes_and_another_seed_others(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        write(tmp_path / name, CHUNKS, seed)
    assert _digest(tmp_path / "a") == _digest(tmp_path / "b") != _digest(tmp_path / "c")


def test_there_are_about_as_many_chunks_as_were_asked_for(tmp_path: Path) -> None:
    write(tmp_path / "kb", CHUNKS)
    files = (tmp_path / "kb").rglob("*.md")
    chunks = sum(len(cut(parse(file.name, file.read_bytes()))) for file in files)
    assert CHUNKS * 0.85 < chunks < CHUNKS * 1.15


def test_every_labelled_question_names_a_page_that_exists_and_all_kinds_are_asked(tmp_path: Path) -> None:
    corpus = write(tmp_path / "kb", CHUNKS)
    assert {query.kind for query in corpus.queries} == {"title", "phrase", "typo", "prefix"}
    assert all((tmp_path / "kb" / query.path).is_file() for query in corpus.queries)
    assert load(tmp_path / "kb") == corpus


def test_the_directory_for_measuring_maps_has_twenty_pages(tmp_path: Path) -> None:
    write(tmp_path / "kb", CHUNKS)
    pages = [file for file in (tmp_path / "kb" / TWENTY).iterdir() if file.name != "_index.md"]
    assert len(pages) == 20


def test_a_folder_that_holds_something_is_not_written_into(tmp_path: Path) -> None:
    (tmp_path / "mine.md").write_text("mine", encoding="utf-8")
    with pytest.raises(FileExistsError, match="not empty"):
        write(tmp_path, CHUNKS)


@pytest.mark.parametrize(("value", "least", "kept"), [(9.0, False, True), (11.0, False, False), (11.0, True, True)])
def test_a_promise_that_is_not_kept_says_so_in_the_handbook(value: float, least: bool, kept: bool) -> None:  # noqa: FBT001 - a table of cases
    assert Line("speed", value, 10, " ms", least=least).row().endswith("| yes |" if kept else "| **no** |")


def test_the_page_of_the_handbook_shows_every_promise_and_size() -> None:
    found = {"title": 1.0}
    size = {
        "indexing": {"documents": 10, "chunks": 100, "seconds": 1.0, "chunks_per_s": 100.0},
        "search": {
            **dict.fromkeys(("noop_p50_ms", "p50_above_ms", "p95_above_ms", "first_s", "memory_after_mb"), 1.0),
            "found_first": found,
            "found_in_five": found,
        },
        "freshness": dict.fromkeys(("p50_ms", "p95_ms", "cpu_ms", "search_ms"), 1.0),
    }
    results = {
        "date": "2026-01-01",
        "machine": {"cores": 2, "platform": "Linux", "python": "3.11", "load": 0.1},
        "sizes": {"1000": size, "100000": size},
        "start_up": dict.fromkeys(
            ("seconds", "bare_seconds", "seconds_ratio", "peak_mb", "bare_peak_mb", "peak_ratio"), 1.0
        ),
        "map": {"children": 20, "cpu_ms": 1.0, "bare_cpu_ms": 1.0, "above_ms": 0.0},
        "additions": {"together_p50_ms": 0.5},
    }
    written = page(results, f"# Benchmarks\n{BEGIN}\nold\n{END}\n## Kept\n")
    assert written.startswith(f"# Benchmarks\n{BEGIN}\nWritten by")
    assert written.endswith(f"{END}\n## Kept\n")
    assert all(line.row() in written for line in promises(results))
    assert "| 1,000 | 100,000 |" in written
