"""Reads query sets of TREC and BEIR: queries in one file, judgements in another. Pure.

Queries: JSON Lines with `_id` and `text` (BEIR), or lines of `id<TAB>query`. Judgements: `id 0 document grade`
(TREC qrels), or `id<TAB>document<TAB>grade` under a heading line (BEIR). A document's name is the path of its page, with
or without its suffix.

Source: https://trec.nist.gov/data/qrels_eng/ (columns of qrels); https://github.com/beir-cellar/beir/wiki (BEIR files).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from knowledge.errors import BadQuerySet, InvalidPath
from knowledge.evaluate.queries import LabelledQuery, QueryEntry, Relevant, from_json_lines, refuse_repeated
from knowledge.pages.paths import clean_path

_BEIR_HEADING = ("query-id", "corpus-id", "score")


def read_trec(queries: str, queries_name: str, qrels: str, qrels_name: str) -> list[LabelledQuery]:
    """Return the judged queries in their order; a query with only grades of 0 has no answer here.

    Raises:
        BadQuerySet: a line has another form, or a judged query is missing from the queries.
    """
    judged, lines = _read_qrels(qrels, qrels_name)
    asked = _read_texts(queries, queries_name)
    if missing := sorted(judged.keys() - {query.id for query in asked}):
        reason = f"query {missing[0]!r} is judged, but is not in {queries_name}"
        raise BadQuerySet(qrels_name, lines[missing[0]], reason)
    found = [
        LabelledQuery(query.id, query.query, judged[query.id], line=query.line) for query in asked if query.id in judged
    ]
    refuse_repeated(found, queries_name)
    return found


def _read_texts(text: str, name: str) -> list[LabelledQuery]:
    first = next((line for line in text.splitlines() if line.strip()), "")
    if first.lstrip("\ufeff").startswith("{"):
        return [_beir_query(entry, name) for entry in from_json_lines(text, name)]
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            key, tab, query = line.partition("\t")
            if not tab or not key.strip() or not query.strip():
                raise BadQuerySet(
                    name, number, "each line is an id, a tab and the query, or JSON with `_id` and `text`"
                )
            found.append(LabelledQuery(key.strip(), query.strip(), (), line=number))
    return found


def _beir_query(entry: QueryEntry, name: str) -> LabelledQuery:
    values = entry.values
    if not isinstance(values, Mapping) or not all(str(values.get(key, "")).strip() for key in ("_id", "text")):
        raise BadQuerySet(name, entry.line, "a BEIR query has `_id` and `text`")
    return LabelledQuery(str(values["_id"]), str(values["text"]), (), line=entry.line)


def _read_qrels(text: str, name: str) -> tuple[dict[str, tuple[Relevant, ...]], dict[str, int]]:
    """Return the places judged above 0 for each query, and the line where each query is first judged."""
    judged: dict[str, tuple[Relevant, ...]] = {}
    lines: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        # The path of a page may have blanks; in a line with tabs, only they separate columns.
        columns = [part.strip() for part in line.split("\t")] if "\t" in line else line.split()
        if not columns or (not judged and tuple(columns) == _BEIR_HEADING):
            continue
        query, document, grade = _judgement(columns, name, number)
        lines.setdefault(query, number)
        known = judged.setdefault(query, ())
        if grade > 0:
            judged[query] = (*known, Relevant(document, grade=grade))
    if not judged:
        raise BadQuerySet(name, 1, "it has no judgements")
    return judged, lines


def _judgement(columns: Sequence[str], name: str, line: int) -> tuple[str, str, float]:
    if len(columns) not in (3, 4):
        raise BadQuerySet(
            name, line, f"it has {len(columns)} columns; write `id 0 document grade` or `id document grade`"
        )
    try:
        return columns[0], clean_path(columns[-2]), float(columns[-1])
    except ValueError:
        raise BadQuerySet(name, line, f"the grade {columns[-1]!r} is not a number") from None
    except InvalidPath as error:
        raise BadQuerySet(name, line, str(error)) from error
