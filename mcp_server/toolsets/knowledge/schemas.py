"""The arguments of the tools on pages."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator

from knowledge.merge.model import WHOLE_PAGE
from knowledge.pages.claim_source import SERVICES, source_kind
from mcp_server.toolsets.spec import Arguments, Cursor, DryRun, InJourney

LONGEST_QUERY = 20_000
LONGEST_CONTENT = 4_000_000
"""Characters. `LARGEST_BYTES` in `knowledge/pages/vault.py` bounds the page itself."""
LONGEST_INTENT = 500
JOURNEY = "journey"
"""The kind of source that names a journey: content merged from it may repeat anything that was read in the journey."""
MOST_TAGS = 100
MOST_SOURCES = 20


EARLIEST_NS, LATEST_NS = -(2**63), 2**63 - 1
"""The index stores times as signed 64-bit numbers."""

Page = Annotated[str, Field(min_length=1, description="Page, e.g. 'guides/backup.md'.")]


class MapArguments(Arguments):
    """Arguments of kb_map."""

    path: Annotated[str, Field(description="Directory (e.g. 'guides'), page or '#tag'; '' is the root.")] = ""
    depth: Annotated[int, Field(ge=1, le=4, description="Levels to show.")] = 1
    cursor: Cursor = None
    journey_id: InJourney = None


class ReadPageArguments(Arguments):
    """Arguments of kb_read."""

    path: Annotated[str, Field(min_length=1, description="Page path, title or alias, e.g. 'guides/backup.md'.")]
    section: Annotated[str | None, Field(description="'Setup > Linux', '#anchor' or block '^id'.")] = None
    view: Annotated[
        Literal["outline", "full"], Field(description="outline shortens a long page to its beginning and headings.")
    ] = "outline"
    revision: Annotated[str | None, Field(description="Earlier revision to read, from kb_history.")] = None
    offset: Annotated[int, Field(ge=0, description="next_offset of the previous answer.")] = 0
    journey_id: InJourney = None


class SearchFilters(Arguments):
    """Conditions that a page must meet to be found."""

    tags: Annotated[list[str], Field(description="Pages with all of these tags, e.g. ['ops'].")] = Field(
        default_factory=list
    )
    kind: Annotated[str | None, Field(description="Kind of page, e.g. 'decision'.")] = None
    source: Annotated[str | None, Field(description="Source of the page, e.g. 'user'.")] = None
    modified_after: Annotated[str | None, Field(description="ISO date, e.g. 2026-03-31.")] = None
    modified_before: Annotated[str | None, Field(description="ISO date.")] = None

    @field_validator("tags")
    @classmethod
    def _are_few(cls, value: list[str]) -> list[str]:
        if len(value) > MOST_TAGS:
            raise ValueError(f"{len(value)} tags were given; at most {MOST_TAGS} are allowed")
        return value

    @field_validator("modified_after", "modified_before")
    @classmethod
    def _is_a_date(cls, value: str | None) -> str | None:
        if value is not None:
            nanoseconds(value)
        return value


class SearchPagesArguments(Arguments):
    """Arguments of kb_search."""

    query: Annotated[str, Field(max_length=LONGEST_QUERY, description="A question or keywords.")]
    path: Annotated[str | None, Field(description="Only this directory or page, e.g. 'guides'.")] = None
    mode: Annotated[
        Literal["auto", "navigation", "discovery"], Field(description="navigation finds pages, discovery passages.")
    ] = "auto"
    limit: Annotated[int, Field(ge=1, le=50)] = 8
    cursor: Annotated[str | None, Field(description="next_cursor of the previous answer.")] = None
    filters: SearchFilters = SearchFilters()
    explain: Annotated[bool, Field(description="Explain the ranking.")] = False
    journey_id: InJourney = None

    @field_validator("query")
    @classmethod
    def _has_words(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("it is empty; ask a question, or call kb_map('') to see what exists")
        return value


class JudgedStatements(Arguments):
    """A host's judgement of two statements."""

    existing: str
    new: str
    answer: Literal["same", "replaces", "both", "contradicts"]


class MergeArguments(Arguments):
    """Arguments of kb_merge."""

    path: Annotated[
        str,
        Field(min_length=1, description="Page, e.g. 'guides/backup.md', or a directory to be offered places."),
    ]
    content: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=LONGEST_CONTENT,
            description="Markdown: page, section or snippet. Omit to take the text of a plane:, zulip: or journey: source.",
        ),
    ] = None
    source: Annotated[
        str,
        Field(
            validate_default=True,
            max_length=300,
            description="'user', or kind:locator, e.g. code:src/a.py, plane:KB-12, url:https://a.org.",
        ),
    ] = "user"
    section: Annotated[
        str | None,
        Field(description="Heading, e.g. 'Setup > Linux'; '+ Setup': add to it; '*': the page. Omit: server chooses."),
    ] = None
    base_revision: Annotated[str | None, Field(description="Revision you last read; none for a new page.")] = None
    authority: Annotated[float | None, Field(ge=0, le=1, description="Lowers the source's authority.")] = None
    observed_at: Annotated[str | None, Field(description="When the source was current, e.g. 2026-03-31.")] = None
    corroboration: Annotated[
        list[str], Field(max_length=MOST_SOURCES, description="Further sources that say the same, e.g. ['plane:KB-9'].")
    ] = Field(default_factory=list)
    answers: Annotated[
        list[JudgedStatements],
        Field(description="To questions of an earlier answer."),
    ] = Field(default_factory=list)
    intent: Annotated[str, Field(max_length=LONGEST_INTENT, description="Reason, for the history.")] = ""
    dry_run: DryRun = False
    journey_id: InJourney = None

    @field_validator("content")
    @classmethod
    def _has_words(cls, value: str | None) -> str | None:
        if value is not None and not value.strip():
            raise ValueError("it is empty; to remove a page use kb_delete")
        return value

    @field_validator("source")
    @classmethod
    def _names_a_source(cls, value: str, info: ValidationInfo) -> str:
        kind, colon, locator = value.partition(":")
        if value.strip() != value or not value or any(c.isspace() for c in kind) or (colon and not locator):
            raise ValueError("it must be 'user' or kind:locator, for example plane:PROJ-12 or kb:guides/trust")
        if info.data.get("content", "") is None and source_kind(value) not in (*SERVICES, JOURNEY):
            raise ValueError(
                "'content' is missing, and only a task, thread or journey, such as plane:KB-12 or journey:ID, brings its own"
            )
        return value

    @field_validator("section")
    @classmethod
    def _replaces_the_page_only_for_a_person(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value == WHOLE_PAGE and info.data.get("source") != "user":
            raise ValueError(
                "'*' replaces the whole page, which only source 'user' may do; leave section out for evidence"
            )
        return value

    @field_validator("observed_at")
    @classmethod
    def _is_a_date(cls, value: str | None) -> str | None:
        if value is not None:
            moment(value)
        return value


class MoveArguments(Arguments):
    """Arguments of kb_move."""

    path: Page
    to: Annotated[str, Field(min_length=1, description="New path, e.g. 'archive/backup.md'.")]
    dry_run: DryRun = False
    journey_id: InJourney = None


class DeleteArguments(Arguments):
    """Arguments of kb_delete."""

    path: Page
    base_revision: Annotated[str, Field(min_length=1, description="Revision you last read.")]
    dry_run: DryRun = False
    journey_id: InJourney = None


class RevertArguments(Arguments):
    """Arguments of kb_revert."""

    path: Page
    revision: Annotated[str, Field(min_length=1, description="Revision to restore, from kb_history.")]
    dry_run: DryRun = False
    journey_id: InJourney = None


class HistoryArguments(Arguments):
    """Arguments of kb_history."""

    path: Page
    limit: Annotated[int, Field(ge=1, le=100)] = 20
    cursor: Cursor = None
    journey_id: InJourney = None


class DismissArguments(Arguments):
    """Arguments of kb_dismiss."""

    contradiction_id: Annotated[int, Field(ge=1, description="From kb_contradictions.")]
    reason: Annotated[str, Field(min_length=1, max_length=500, description="E.g. 'they are two products'.")]
    dry_run: DryRun = False
    journey_id: InJourney = None


class ContradictionsArguments(Arguments):
    """Arguments of kb_contradictions."""

    path: Annotated[str | None, Field(description="Only this page or directory, e.g. 'guides'.")] = None
    dismissed: bool = False
    limit: Annotated[int, Field(ge=1, le=100)] = 20
    cursor: Cursor = None
    journey_id: InJourney = None


def nanoseconds(text: str) -> int:
    """Return an ISO date or time as nanoseconds since 1970, within what the index can store. Without a zone it is UTC.

    Raises:
        ValueError: the text is not an ISO date.
    """
    return max(EARLIEST_NS, min(int(_parsed(text).timestamp()) * 1_000_000_000, LATEST_NS))


def moment(text: str) -> datetime:
    """Return an ISO date or time in UTC; without a zone it is UTC.

    Raises:
        ValueError: the text is not an ISO date, or the moment lies outside years 1 to 9999 in UTC.
    """
    try:
        return _parsed(text).astimezone(UTC)
    except OverflowError:
        raise ValueError(_NOT_A_DATE) from None


_NOT_A_DATE = "it is not an ISO date, for example 2026-03-31 or 2026-03-31T12:00:00Z"


def _parsed(text: str) -> datetime:
    try:
        parsed = datetime.fromisoformat(text)
    except (ValueError, OverflowError):  # the latter at the first and last hours of the calendar
        raise ValueError(_NOT_A_DATE) from None
    return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed
