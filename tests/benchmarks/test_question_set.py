"""The measuring programs themselves: wrong labels are reported, and a suggested step is taken as written."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.benchmarks import docs_corpus
from tests.benchmarks.additions import SEAMS
from tests.benchmarks.question_set import Labelled, load, wrong
from tests.benchmarks.tokens import WAYS, Found, kept, parsed

ASKED = Labelled("q1", "how often?", "kb", answerable=True, answers=(("a.md", "once a quarter"),), distance="")


def test_a_quote_may_be_broken_over_lines_but_must_be_on_its_own_page(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("Keys change once\na quarter.\n", encoding="utf-8")
    assert wrong([ASKED], tmp_path) == []
    assert ASKED.answered_by("a.md", "once\na quarter")
    assert not ASKED.answered_by("b.md", "once a quarter")


def test_labels_that_do_not_hold_are_told(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("Keys change every day.\n", encoding="utf-8")
    gone = Labelled("q2", "?", "kb", answerable=True, answers=(("gone.md", "x"),), distance="")
    none = Labelled("q3", "?", "kb", answerable=True, answers=(), distance="")
    assert [problem.partition(":")[0] for problem in wrong([ASKED, gone, none], tmp_path)] == ["q1", "q2", "q3"]


@pytest.mark.parametrize("corpus", ["kb", "docs"])
def test_both_halves_have_questions_with_and_without_an_answer(corpus: str) -> None:
    counted = {(asked.half, asked.answerable) for asked in load(corpus)}
    assert len(counted) == 4
    assert sum(asked.answerable for asked in load(corpus)) >= 60


@pytest.mark.parametrize(
    ("step", "call"),
    [
        ("kb_read('a.md', section='A > B (c)')", ("kb_read", {"path": "a.md", "section": "A > B (c)"})),
        ("kb_search('two words', path='a.md')", ("kb_search", {"query": "two words", "path": "a.md"})),
        ("kb_map('ops') (its pages are about keys)", ("kb_map", {"path": "ops"})),
        ("ask again", None),
    ],
)
def test_a_suggested_step_is_taken_as_it_is_written(step: str, call: object) -> None:
    assert parsed(step) == call


def test_fewer_answers_do_not_count_as_saved_tokens() -> None:
    def found(way: str, *, hit: bool, tokens: int) -> Found:
        return Found("q", "kb", way, hit, tokens, 2)

    others = [found(way, hit=True, tokens=1000) for way in WAYS if way != "circles"]
    assert kept([*others, found("circles", hit=True, tokens=400)])
    assert not kept([*others, found("circles", hit=True, tokens=401)])
    assert not kept([*others, found("circles", hit=False, tokens=400)])


def test_pages_are_taken_at_the_stated_commit_even_if_the_mirror_lacks_a_picture(tmp_path: Path) -> None:
    repository = tmp_path / "mirror"

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(repository), "-c", "user.name=x", "-c", "user.email=x@example.org", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    (repository / "docs").mkdir(parents=True)
    (repository / "docs" / "a.md").write_text("# Old\n", encoding="utf-8")
    (repository / "docs" / "a.png").write_bytes(b"picture")
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "one")
    commit = git("rev-parse", "HEAD")
    (repository / "docs" / "a.md").write_text("# New\n", encoding="utf-8")
    git("commit", "-q", "-a", "-m", "two")
    picture = git("rev-parse", f"{commit}:docs/a.png")
    (repository / ".git" / "objects" / picture[:2] / picture[2:]).unlink()
    source = docs_corpus.Source("one", "owner/one", commit, ("docs",))
    assert docs_corpus.lay_out(tmp_path / "corpus", [f"one={repository}"], [source]) == {"one": 1}
    assert (tmp_path / "corpus" / "one" / "a.md").read_text(encoding="utf-8") == "# Old\n"


@pytest.mark.parametrize(("owner", "name", "part"), SEAMS, ids=[seam[1] for seam in SEAMS])
def test_the_parts_of_a_search_that_are_timed_exist(owner: object, name: str, part: str) -> None:
    """The benchmark of speed measured for five minutes, and then named a function that was gone."""
    assert callable(getattr(owner, name)), part
