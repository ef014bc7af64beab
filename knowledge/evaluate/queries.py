"""Query sets: questions and the places that answer them, as JSON Lines or YAML. Pure.

One query: `{"id": "q1", "query": "...", "relevant": [{"path": "guides/deploy.md", "section": "Rolling back", "grade": 2,
"quote": "switch the router"}]}`. An empty `relevant` says that nothing here answers it. `path`, `mode` and `filters`
are those of a search. YAML has the same as a list, or as a mapping with the list under `queries`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Annotated, Any

import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from knowledge.errors import BadQuerySet, InvalidPath
from knowledge.pages.markdown.tags import bare_tag
from knowledge.pages.paths import clean_path
from knowledge.search.answers import SearchMode
from knowledge.state.ports import Filters
from knowledge.wire.validation_errors import misfit

YAML_SUFFIXES = (".yaml", ".yml")
HIGHEST_GRADE = 10
MOST_PROBLEMS = 3


@dataclass(frozen=True, slots=True)
class Relevant:
    """A place with an answer: a page, or one section of it. `quote` is the passage there that contains the answer."""

    path: str
    section: str = ""
    grade: float = 1.0
    quote: str = ""


@dataclass(frozen=True, slots=True)
class LabelledQuery:
    """A question, where and how to search for it, and every place that answers it; `line` is its line in the file."""

    id: str
    query: str
    relevant: tuple[Relevant, ...]
    path: str = ""
    mode: SearchMode = "auto"
    filters: Filters = field(default_factory=Filters)
    line: int = 0


@dataclass(frozen=True, slots=True)
class QueryEntry:
    """One entry of a query set before it is checked."""

    line: int
    values: Any


def read_queries(text: str, name: str) -> list[LabelledQuery]:
    """Return the queries of a set in their order; the file's `name` decides the format and appears in errors.

    Raises:
        BadQuerySet: with the file's name, the line and what is wrong there.
    """
    entries = _from_yaml(text, name) if name.lower().endswith(YAML_SUFFIXES) else from_json_lines(text, name)
    found = [_query(entry, name) for entry in entries]
    refuse_repeated(found, name)
    return found


def from_json_lines(text: str, name: str) -> Iterator[QueryEntry]:
    """Yield the value of each line that is not blank.

    Raises:
        BadQuerySet: a line is not JSON.
    """
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), 1):
        if line.strip():
            try:
                yield QueryEntry(number, json.loads(line))
            except (ValueError, RecursionError) as error:
                raise BadQuerySet(name, number, f"this is not JSON ({error}); each line holds one query") from None


def refuse_repeated(queries: Sequence[LabelledQuery], name: str) -> None:
    """Check that the set has queries and that each has its own id.

    Raises:
        BadQuerySet: it is empty, or an id is used twice.
    """
    if not queries:
        raise BadQuerySet(name, 1, "it has no queries")
    first: dict[str, int] = {}
    for query in queries:
        if query.id in first:
            raise BadQuerySet(name, query.line, f"the id {query.id!r} was already used in line {first[query.id]}")
        first[query.id] = query.line


def _from_yaml(text: str, name: str) -> Iterator[QueryEntry]:
    try:
        # Composed first, because only nodes know their lines.
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        nodes = root
        if isinstance(root, yaml.MappingNode):
            nodes = next((value for key, value in root.value if getattr(key, "value", None) == "queries"), None)
        if not isinstance(nodes, yaml.SequenceNode):
            line = root.start_mark.line + 1 if root else 1
            raise BadQuerySet(name, line, "it must be a list of queries, or a mapping with `queries:`")
        for node in nodes.value:
            # A loader of an empty text: only its constructor is used, which turns the composed node into values.
            yield QueryEntry(node.start_mark.line + 1, yaml.SafeLoader("").construct_document(node))
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise BadQuerySet(name, line, f"this is not YAML ({error.problem or error.context})") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise BadQuerySet(name, 1, f"this is not YAML ({type(error).__name__})") from None


def _filled(text: str) -> str:
    if not text.strip():
        raise ValueError("it is empty")
    return text


def _clean(path: str) -> str:
    try:
        return clean_path(path)
    except InvalidPath as error:
        raise ValueError(str(error)) from None


def _moment_ns(value: object) -> object:
    """Return an ISO date, or a date that YAML has already parsed, in nanoseconds since the epoch."""
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(value.isoformat() if isinstance(value, date) else str(value))
        aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return int(aware.timestamp()) * 1_000_000_000
    except (ValueError, OverflowError):
        raise ValueError("it must be an ISO date") from None


_Text = Annotated[str, AfterValidator(_filled)]
# YAML reads an unquoted id such as 12 as a number. For `isinstance`, true would be a number, too.
_Id = Annotated[_Text, BeforeValidator(lambda value: str(value) if type(value) is int else value)]
_Path = Annotated[str, AfterValidator(_clean)]
_MomentNs = Annotated[int | None, BeforeValidator(_moment_ns)]


class _Fields(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _PlaceFields(_Fields):
    path: Annotated[_Path, AfterValidator(_filled)]
    section: str = ""
    grade: Annotated[float, Field(gt=0, le=HIGHEST_GRADE)] = 1.0
    quote: str = ""


class _FilterFields(_Fields):
    tags: list[str | int] = []
    kind: str | None = None
    source: str | None = None
    modified_after: _MomentNs = None
    modified_before: _MomentNs = None


class _QueryFields(_Fields):
    id: _Id
    query: _Text
    relevant: list[Annotated[_PlaceFields, BeforeValidator(lambda v: {"path": v} if isinstance(v, str) else v)]]
    path: _Path = ""
    mode: SearchMode = "auto"
    filters: _FilterFields | None = None


def _query(entry: QueryEntry, name: str) -> LabelledQuery:
    try:
        fields = _QueryFields.model_validate(entry.values)
    except ValidationError as error:
        reasons = []
        for problem in error.errors(include_url=False)[:MOST_PROBLEMS]:
            where = ".".join(str(part) for part in problem["loc"]) or "a query"
            reason = misfit(problem, _QueryFields.model_json_schema(), where, of="field")
            hint = ": list the places that answer, or write [] if nothing here does"
            reasons.append(reason + hint if reason == "'relevant' is missing" else reason)
        raise BadQuerySet(name, entry.line, "; ".join(reasons)) from None
    given = fields.filters or _FilterFields()
    return LabelledQuery(
        id=fields.id,
        query=fields.query,
        relevant=tuple(Relevant(place.path, place.section, place.grade, place.quote) for place in fields.relevant),
        path=fields.path,
        mode=fields.mode,
        filters=Filters(
            tags=tuple(bare_tag(str(tag)) for tag in given.tags),
            kind=given.kind or None,
            source=given.source or None,
            modified_after_ns=given.modified_after,
            modified_before_ns=given.modified_before,
        ),
        line=entry.line,
    )
