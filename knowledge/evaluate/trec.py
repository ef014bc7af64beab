"""Query sets in the forms of TREC and BEIR: queries in one file, judgements in another. Pure.

Queries: JSON Lines with `_id` and `text` (BEIR), or a line `id<TAB>query` each. Judgements: `id 0 document grade`
(TREC qrels), or `id<TAB>document<TAB>grade` under a heading line (BEIR). A document's name is the path of its page, with
or without its suffix.

Source: https://trec.nist.gov/data/qrels_eng/ (columns of qrels); https://github.com/beir-cellar/beir/wiki (BEIR files).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from knowledge.errors import BadQuerySet, InvalidPath
from knowledge.evaluate.queries import LabelledQuery, Relevant, from_json_lines, refuse_repeated
from knowledge.pages.paths import clean_path

_BEIR_HEADING = ("query-id", "corpus-id", "score")


def read_trec(queries: str, queries_name: str, qrels: str, qrels_name: str) -> list[LabelledQuery]:
    """Return the queries that are judged, in their order; one that is only judged 0 has no answer here.

    Raises:
        BadQuerySet: a line has another form, or a judged query is not among the queries.
    """
    judged, lines = _read_qrels(qrels, qrels_name)
    asked = _read_texts(queries, queries_name)
    if missing := sorted(judged.keys() - {query.id for query in asked}):
        reason = f"query {missing[0]!r} is judged, but {queries_name} does not have it"
        raise BadQuerySet(qrels_name, lines[missing[0]], reason)
    found = [
        LabelledQuery(query.id, query.query, judged[query.id], line=query.line) for query in asked if query.id in judged
    ]
    refuse_repeated(found, queries_name)
    return found


def _read_texts(text: str, name: str) -> list[LabelledQuery]:
    first = next((line for line in text.splitlines() if line.strip()), "")
    if first.lstrip("\ufeff").startswith("{"):
        return [_beir_query(entry.values, name, entry.line) for entry in from_json_lines(text, name)]
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


def _beir_query(values: object, name: str, line: int) -> LabelledQuery:
    if not isinstance(values, Mapping) or not all(str(values.get(key, "")).strip() for key in ("_id", "text")):
        raise BadQuerySet(name, line, "a query in BEIR's form has `_id` and `text`")
    return LabelledQuery(str(values["_id"]), str(values["text"]), (), line=line)


def _read_qrels(text: str, name: str) -> tuple[dict[str, tuple[Relevant, ...]], dict[str, int]]:
    """Return what is judged above 0 of each query, and the line where each query is first judged."""
    judged: dict[str, tuple[Relevant, ...]] = {}
    lines: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        columns = _columns(line)
        if not columns or (not judged and tuple(columns) == _BEIR_HEADING):
            continue
        query, document, grade = _judgement(columns, name, number)
        lines.setdefault(query, number)
        known = judged.setdefault(query, ())
        if grade > 0:
            judged[query] = (*known, Relevant(document, grade=grade))
    if not judged:
        raise BadQuerySet(name, 1, "there is no judgement in it")
    return judged, lines


def _columns(line: str) -> Sequence[str]:
    # A page's path may have blanks; where there are tabs, only they part the columns.
    return [part.strip() for part in line.split("\t")] if "\t" in line else line.split()


def _judgement(columns: Sequence[str], name: str, line: int) -> tuple[str, str, float]:
    if len(columns) not in (3, 4):
        raise BadQuerySet(
            name, line, f"{len(columns)} columns: wanted are `id 0 document grade` or `id document grade`"
        )
    try:
        return columns[0], clean_path(columns[-2]), float(columns[-1])
    except ValueError:
        raise BadQuerySet(name, line, f"the grade {columns[-1]!r} is no number") from None
    except InvalidPath as error:
        raise BadQuerySet(name, line, str(error)) from error
