from __future__ import annotations

import json
from pathlib import Path

import pytest

from knowledge.errors import BadQuerySet
from knowledge.evaluate.judge import holds_answer, lies_in, plain, quality
from knowledge.evaluate.queries import LabelledQuery, Relevant, read_queries
from knowledge.evaluate.run import _At
from knowledge.evaluate.trec import read_trec
from knowledge.pages.document import find_section, parse, section_text

ROOT = Path(__file__).parents[3]
HANDBOOK = ROOT / "tests/benchmarks/handbook_queries.jsonl"
LINES = (
    '{"id": "q1", "query": "roll back", "path": "guides/", "mode": "discovery", "filters": {"tags": ["#ops"],'
    ' "modified_after": "2026-01-02"}, "relevant": [{"path": "guides/deploy.md", "section": "Rolling back", "grade": 3,'
    ' "quote": "the previous colour"}, "guides/other.md"]}\n'
    "\n"
    '{"id": 2, "query": "moon", "relevant": []}\n'
)
YAML = """
queries:
  - id: q1
    query: roll back
    path: guides/
    mode: discovery
    filters: {tags: ["#ops"], modified_after: 2026-01-02}
    relevant:
      - {path: guides/deploy.md, section: Rolling back, grade: 3, quote: the previous colour}
      - guides/other.md
  - id: 2
    query: moon
    relevant: []
"""


def test_json_lines_and_yaml_say_the_same() -> None:
    first, second = read_queries(LINES, "set.jsonl")
    assert first.relevant == (
        Relevant("guides/deploy.md", "Rolling back", 3.0, "the previous colour"),
        Relevant("guides/other.md"),
    )
    assert (first.path, first.mode, first.filters.tags) == ("guides", "discovery", ("ops",))
    assert first.filters.modified_after_ns == 1_767_312_000_000_000_000
    assert (second.id, second.relevant, second.line) == ("2", (), 3)
    from_yaml = read_queries(YAML, "set.yaml")
    assert [one.line for one in from_yaml] == [3, 11]
    assert [(q.id, q.query, q.relevant, q.filters, q.path, q.mode) for q in from_yaml] == [
        (q.id, q.query, q.relevant, q.filters, q.path, q.mode) for q in (first, second)
    ]


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("", 1, "it has no queries"),
        ('{"id": "a", "query": "x", "relevant": []}\n{oops', 2, "not JSON"),
        ("[1]", 1, "must be an object"),
        ('{"id": "a", "query": "x"}', 1, "'relevant' is missing: list"),
        ('{"id": "a", "query": " ", "relevant": []}', 1, "'query': it is empty"),
        ('{"query": "x", "relevant": []}', 1, "'id' is missing"),
        ('{"id": "a", "query": "x", "relevant": [], "color": 1}', 1, "no field 'color'; it takes id, query"),
        ('{"id": "a", "query": "x", "relevant": "p.md"}', 1, "'relevant' must be a list"),
        ('{"id": "a", "query": "x", "relevant": [{"section": "s"}]}', 1, "'relevant.0.path' is missing"),
        ('{"id": "a", "query": "x", "relevant": [{"path": "../p.md"}]}', 1, "not a path"),
        (
            '{"id": "a", "query": "x", "relevant": [{"path": "p.md", "grade": 0}]}',
            1,
            "'relevant.0.grade' must be above 0",
        ),
        ('{"id": "a", "query": "x", "relevant": [{"path": "p.md", "grad": 2}]}', 1, "did you mean 'grade'?"),
        ('{"id": "a", "query": "x", "relevant": [], "filters": {"tag": []}}', 1, "did you mean 'tags'?"),
        ('{"id": "a", "query": "x", "relevant": [], "mode": "fast"}', 1, "'mode' must be 'auto', 'navigation' or"),
        ('{"id": "a", "query": "x", "relevant": [], "filters": {"modified_after": "soon"}}', 1, "ISO date"),
        (
            '{"id": "a", "query": "x", "relevant": []}\n\n{"id": "a", "query": "y", "relevant": []}',
            3,
            "already used in line 1",
        ),
    ],
)
def test_an_invalid_line_is_reported_with_file_and_line(text: str, line: int, words: str) -> None:
    with pytest.raises(BadQuerySet, match=rf"my\.jsonl, line {line}: ") as refused:
        read_queries(text, "my.jsonl")
    assert words in str(refused.value)
    assert refused.value.line == line


@pytest.mark.parametrize(
    ("text", "line"), [("a: [1", 1), ("x: 1\n", 1), ("- {id: a, query: x,\n   relevant: []}\n- 7\n", 3), ("", 1)]
)
def test_invalid_yaml_is_reported_with_its_line(text: str, line: int) -> None:
    with pytest.raises(BadQuerySet) as refused:
        read_queries(text, "my.yml")
    assert refused.value.line == line


def test_trec_and_beir_files_are_read() -> None:
    trec = read_trec("7\tfirst thing\n8\tsecond\n9\tnot judged\n", "q.tsv", "7 0 a/b.md 2\n7 0 c 0\n8 0 c 0\n", "qrels")
    assert [(q.id, q.query, q.relevant) for q in trec] == [
        ("7", "first thing", (Relevant("a/b.md", grade=2.0),)),
        ("8", "second", ()),
    ]
    beir = read_trec(
        '{"_id": "7", "text": "first thing", "metadata": {}}\n',
        "queries.jsonl",
        "query-id\tcorpus-id\tscore\n7\ta b\t1\n",
        "t.tsv",
    )
    assert beir == [LabelledQuery("7", "first thing", (Relevant("a b"),), line=1)]


@pytest.mark.parametrize(
    ("queries", "qrels", "file", "line"),
    [
        ("7 no tab\n", "7 0 a 1\n", "q.tsv", 1),
        ('{"_id": "7"}\n', "7 0 a 1\n", "q.tsv", 1),
        ("7\tx\n", "7 0 a 1\n8 0 a 1\n", "qrels", 2),
        ("7\tx\n", "7 a\n", "qrels", 1),
        ("7\tx\n", "7 0 a high\n", "qrels", 1),
        ("7\tx\n", "", "qrels", 1),
    ],
)
def test_invalid_trec_files_are_reported_with_file_and_line(queries: str, qrels: str, file: str, line: int) -> None:
    with pytest.raises(BadQuerySet) as refused:
        read_trec(queries, "q.tsv", qrels, "qrels")
    assert (refused.value.file, refused.value.line) == (file, line)


def test_a_section_is_named_by_heading_or_path_and_includes_its_subsections() -> None:
    place = Relevant("a.md", "Rolling back")
    assert lies_in(_At("a.md", "Deploy > Rolling back"), place)
    assert lies_in(_At("a.md", "Deploy > Rolling Back > Secrets"), place)
    assert lies_in(_At("a.md", "Deploy > Rolling back"), Relevant("a", "Deploy > Rolling back"))
    assert lies_in(_At("a.md", "Deploy > Rolling back"), Relevant("a.md", "Deploy {#deploy} > Rolling back"))
    assert lies_in(_At("a.md", ""), Relevant("a"))
    assert not lies_in(_At("a.md", "Deploy"), place)
    assert not lies_in(_At("a.md", "Rolling back again"), place)
    assert not lies_in(_At("b.md", "Rolling back"), place)


def test_an_answer_is_its_quote_or_without_one_its_place() -> None:
    quoted = LabelledQuery("q", "x", (Relevant("a.md", "S", quote="The  previous\ncolour"),))
    assert holds_answer(quoted, _At("a.md", "T"), "to the\nprevious colour.")
    assert not holds_answer(quoted, _At("a.md", "S"), "nothing of it")
    assert not holds_answer(quoted, _At("b.md", "S"), "the previous colour")
    assert holds_answer(LabelledQuery("q", "x", (Relevant("a.md", "S"),)), _At("a.md", "S"), "")
    assert not holds_answer(LabelledQuery("q", "x", ()), _At("a.md", "S"), "anything")


def test_quality_counts_pages_when_pages_are_judged_and_sections_when_sections_are() -> None:
    """Two chunks of an unjudged page precede the answer: at place 2 by pages, at place 3 by sections."""
    found = [_At("x.md", "A"), _At("x.md", "B"), _At("a.md", "S"), _At("a.md", "S > T")]
    assert quality(LabelledQuery("q", "x", (Relevant("a.md"),)), found).reciprocal_rank == 1 / 2
    assert quality(LabelledQuery("q", "x", (Relevant("a.md", "S"),)), found).reciprocal_rank == 1 / 3
    graded = quality(LabelledQuery("q", "x", (Relevant("a.md", grade=1.0), Relevant("x.md", grade=3.0))), found)
    assert graded.ndcg == pytest.approx(1)


def test_every_place_in_the_handbooks_query_set_contains_its_quote() -> None:
    """The handbook's pages change; a judgement that no longer holds would measure nothing."""
    queries = read_queries(HANDBOOK.read_text(encoding="utf-8"), str(HANDBOOK))
    assert sum(bool(q.relevant) for q in queries) >= 30
    assert sum(not q.relevant for q in queries) >= 10
    for query in queries:
        for place in query.relevant:
            document = parse(place.path, (ROOT / "kb" / place.path).read_bytes())
            heading = find_section(document, place.section) if place.section else None
            text = section_text(document, heading)[2] if heading else document.text
            assert plain(place.quote) in plain(text), (query.line, place)
    assert all(json.loads(line) for line in HANDBOOK.read_text(encoding="utf-8").splitlines())
