"""Query sets: what is asked and what answers it, as JSON Lines or YAML. Pure.

One query: `{"id": "q1", "query": "...", "relevant": [{"path": "guides/deploy.md", "section": "Rolling back", "grade": 2,
"quote": "switch the router"}]}`. An empty `relevant` says that nothing here answers it. `path`, `mode` and `filters`
are those of a search. YAML holds the same as a list, or as a mapping with the list under `queries`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, get_args

from knowledge.errors import BadQuerySet, InvalidPath
from knowledge.pages.paths import clean_path
from knowledge.search.answers import SearchMode
from knowledge.state.ports import Filters

if TYPE_CHECKING:
    import yaml

YAML_SUFFIXES = (".yaml", ".yml")
HIGHEST_GRADE = 10
_QUERY_KEYS = frozenset({"id", "query", "path", "mode", "filters", "relevant"})
_PLACE_KEYS = frozenset({"path", "section", "grade", "quote"})
_FILTER_KEYS = frozenset({"tags", "kind", "source", "modified_after", "modified_before"})


@dataclass(frozen=True, slots=True)
class Relevant:
    """A place that answers: a page, or one section of it. `quote` are words that stand there and hold the answer."""

    path: str
    section: str = ""
    grade: float = 1.0
    quote: str = ""


@dataclass(frozen=True, slots=True)
class LabelledQuery:
    """What is asked, where and how, and every place that answers; `line` is where the set says so."""

    id: str
    query: str
    relevant: tuple[Relevant, ...]
    path: str = ""
    mode: SearchMode = "auto"
    filters: Filters = field(default_factory=Filters)
    line: int = 0


@dataclass(frozen=True, slots=True)
class QueryEntry:
    """One entry of a query set as read, before it is checked."""

    line: int
    values: Any


def read_queries(text: str, name: str) -> list[LabelledQuery]:
    """Return the queries of a set in their order; `name` tells the form and stands in errors.

    Raises:
        BadQuerySet: with the file's name, the line, what was found and what is wanted.
    """
    entries = _from_yaml(text, name) if name.lower().endswith(YAML_SUFFIXES) else from_json_lines(text, name)
    found = [_query(entry, name) for entry in entries]
    refuse_repeated(found, name)
    return found


def from_json_lines(text: str, name: str) -> Iterator[QueryEntry]:
    """Yield the value of each line that is not blank.

    Raises:
        BadQuerySet: a line is no JSON.
    """
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), 1):
        if line.strip():
            try:
                yield QueryEntry(number, json.loads(line))
            except (ValueError, RecursionError) as error:
                raise BadQuerySet(name, number, f"this is no JSON ({error}); each line holds one query") from None


def refuse_repeated(queries: Sequence[LabelledQuery], name: str) -> None:
    """Do nothing to a set that has queries, each under an id of its own.

    Raises:
        BadQuerySet: it is empty, or names an id twice.
    """
    if not queries:
        raise BadQuerySet(name, 1, "there is no query in it")
    first: dict[str, int] = {}
    for query in queries:
        if query.id in first:
            raise BadQuerySet(name, query.line, f"the id {query.id!r} was used in line {first[query.id]} already")
        first[query.id] = query.line


def _from_yaml(text: str, name: str) -> Iterator[QueryEntry]:
    import yaml

    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        nodes = _list_of(root)
        if nodes is None:
            line = root.start_mark.line + 1 if root else 1
            raise BadQuerySet(name, line, "a list of queries is wanted, or a mapping with `queries:`")
        for node in nodes:
            yield QueryEntry(node.start_mark.line + 1, yaml.SafeLoader("").construct_document(node))
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise BadQuerySet(name, line, f"this is no YAML ({error.problem or error.context})") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise BadQuerySet(name, 1, f"this is no YAML ({type(error).__name__})") from None


def _list_of(root: yaml.Node | None) -> Sequence[yaml.Node] | None:
    import yaml

    if isinstance(root, yaml.MappingNode):
        root = next((value for key, value in root.value if getattr(key, "value", None) == "queries"), None)
    return list(root.value) if isinstance(root, yaml.SequenceNode) else None


def _query(entry: QueryEntry, name: str) -> LabelledQuery:
    asked = _CheckedMapping(name, entry.line, "a query", entry.values, _QUERY_KEYS)
    if "relevant" not in asked.values:
        raise asked.wrong("`relevant` is missing: list the places that answer, or write [] if nothing here does")
    return LabelledQuery(
        id=str(asked.values["id"]) if isinstance(asked.values.get("id"), int) else asked.text("id", needed=True),
        query=asked.text("query", needed=True),
        relevant=tuple(_relevant(name, entry.line, value) for value in asked.listed("relevant")),
        path=asked.path("path"),
        mode=asked.mode(),
        filters=_filters(name, entry.line, asked.values.get("filters")),
        line=entry.line,
    )


def _relevant(name: str, line: int, value: object) -> Relevant:
    place = _CheckedMapping(
        name, line, "a place in `relevant`", {"path": value} if isinstance(value, str) else value, _PLACE_KEYS
    )
    if not place.path("path"):
        raise place.wrong("`path` of a place in `relevant` is missing")
    return Relevant(place.path("path"), place.text("section"), place.grade(), place.text("quote"))


def _filters(name: str, line: int, value: object) -> Filters:
    if value is None:
        return Filters()
    asked = _CheckedMapping(name, line, "`filters`", value, _FILTER_KEYS)
    return Filters(
        tags=tuple(str(tag).lstrip("#") for tag in asked.listed("tags")),
        kind=asked.text("kind") or None,
        source=asked.text("source") or None,
        modified_after_ns=asked.moment_ns("modified_after"),
        modified_before_ns=asked.moment_ns("modified_before"),
    )


class _CheckedMapping:
    """A mapping of a query set; what does not fit is refused with file and line."""

    def __init__(self, name: str, line: int, what: str, values: object, known: frozenset[str]) -> None:
        self._name, self._line = name, line
        if not isinstance(values, Mapping):
            raise self.wrong(f"{what} must be an object, this is {_shown(values)}")
        if unknown := sorted(str(key) for key in values if key not in known):
            raise self.wrong(f"{what} has no `{unknown[0]}`; it may have {', '.join(sorted(known))}")
        self.values: Mapping[str, Any] = values

    def wrong(self, reason: str) -> BadQuerySet:
        return BadQuerySet(self._name, self._line, reason)

    def text(self, key: str, *, needed: bool = False) -> str:
        value = self.values.get(key)
        if value is None and not needed:
            return ""
        if not isinstance(value, str) or (needed and not value.strip()):
            raise self.wrong(f"`{key}` must be text" + ("" if value is None else f", this is {_shown(value)}"))
        return value

    def listed(self, key: str) -> Sequence[object]:
        value = self.values.get(key, [])
        if not isinstance(value, list):
            raise self.wrong(f"`{key}` must be a list, this is {_shown(value)}")
        return value

    def path(self, key: str) -> str:
        try:
            return clean_path(self.text(key))
        except InvalidPath as error:
            raise self.wrong(str(error)) from error

    def mode(self) -> SearchMode:
        value = self.text("mode") or "auto"
        if value not in get_args(SearchMode):
            raise self.wrong(f"`mode` is one of {', '.join(get_args(SearchMode))}, this is {_shown(value)}")
        return value  # type: ignore[return-value]  # it is one of them

    def grade(self) -> float:
        value = self.values.get("grade", 1)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= HIGHEST_GRADE:
            raise self.wrong(f"`grade` must be a number above 0, at most {HIGHEST_GRADE}, this is {_shown(value)}")
        return float(value)

    def moment_ns(self, key: str) -> int | None:
        value = self.values.get(key)
        if value is None:
            return None
        try:
            # YAML makes dates of what looks like one.
            moment = datetime.fromisoformat(value if isinstance(value, str) else value.isoformat())
            aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            return int(aware.timestamp()) * 1_000_000_000
        except (AttributeError, ValueError, OverflowError):
            raise self.wrong(f"`{key}` must be an ISO date, this is {_shown(value)}") from None


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
