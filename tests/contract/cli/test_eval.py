"""`knowledge-forge eval` as a person uses it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.contract.cli.test_commands import Person, refused
from tests.support.knowledge_bases.folders import write

SET = (
    '{"id": "q1", "query": "how do we roll back", "relevant": [{"path": "guides/deploy.md", "section": "Rolling back",'
    ' "quote": "switch the router"}]}\n'
    '{"id": "q2", "query": "what do new colleagues get", "relevant": ["guides/onboarding"]}\n'
    '{"id": "q3", "query": "height of the moon", "relevant": []}\n'
)


@pytest.fixture
def ann(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Person:
    write(tmp_path / "kb")
    (tmp_path / "set.jsonl").write_text(SET, encoding="utf-8")
    return Person(tmp_path, monkeypatch, capsys)


def test_a_query_set_is_measured_after_indexing_changes(ann: Person) -> None:
    done = ann.run("eval", "set.jsonl", "--details")
    assert done.returncode == 0, done.stderr
    for words in ("2 questions with an answer", "nDCG@10", "tokens until the answer", "q1: how do we roll back"):
        assert words in done.stdout
    write(ann.kb, {"guides/rockets.md": "# Height of the moon\n\nThe moon stands high.\n"})
    found = ann.json("eval", "set.jsonl")
    assert found["queries"][2]["top"][0].startswith("guides/rockets.md")
    assert found["summary"]["recall"]["mean"] == 1
    assert found["queries"][0]["in_snippets"]


def test_two_runs_are_compared(ann: Person) -> None:
    (ann.folder / "before.json").write_text(ann.here("eval", "set.jsonl", "--json").stdout, encoding="utf-8")
    write(ann.kb, {"guides/deploy.md": "# Deploying\n\nNothing.\n\n## Rolling back\n\nJust switch the router.\n"})
    done = ann.here("eval", "set.jsonl", "--compare", "before.json")
    assert done.returncode == 0, done.stderr
    assert "2 questions in both runs" in done.stdout
    assert ann.json("eval", "set.jsonl", "--compare", "before.json")["comparison"]["compared"] == 2


def test_an_invalid_judgement_is_reported_and_fails(ann: Person) -> None:
    (ann.folder / "set.yaml").write_text("- {id: a, query: deploy, relevant: [guides/gone.md]}\n", encoding="utf-8")
    done = ann.here("eval", "set.yaml")
    assert done.returncode == 1
    assert "set.yaml: line 1, query a: nothing at 'guides/gone.md'" in done.stderr
    assert len(json.loads(ann.here("eval", "set.yaml", "--json").stdout)["unresolved"]) == 1


def test_trec_files_are_measured(ann: Person) -> None:
    (ann.folder / "topics.tsv").write_text("1\troll back the payment service\n", encoding="utf-8")
    (ann.folder / "qrels.txt").write_text("1 0 guides/deploy.md 2\n1 0 long.md 0\n", encoding="utf-8")
    found = ann.json("eval", "topics.tsv", "--qrels", "qrels.txt")
    assert found["summary"]["reciprocal_rank"]["mean"] == 1


def test_errors_get_one_sentence(ann: Person) -> None:
    (ann.folder / "bad.jsonl").write_text('{"id": "a"}\n', encoding="utf-8")
    refused(ann.here("eval", "bad.jsonl"), 1, "bad.jsonl, line 1", "'relevant' is missing")
    refused(ann.here("eval", "nowhere.jsonl"), 2, "cannot be read")
    refused(ann.here("eval", "set.jsonl", "--compare", "set.jsonl"), 2, "cannot be compared with")
    refused(ann.here("eval", "set.jsonl", "--limit", "0"), 2, "whole number from 1 to 50")
    refused(ann.here("eval"), 2, "QUERIES")


def test_a_required_quality_that_is_not_met_fails(ann: Person) -> None:
    (ann.folder / "hard.jsonl").write_text(
        '{"id": "a", "query": "deploy", "relevant": ["long.md"]}\n', encoding="utf-8"
    )
    done = ann.here("eval", "hard.jsonl", "--at-least", "0.99")
    assert done.returncode == 1
    assert "less than 0.99" in done.stderr
    assert ann.here("eval", "set.jsonl", "--at-least", "0").returncode == 0
