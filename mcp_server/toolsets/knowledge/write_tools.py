"""The knowledge toolset's second half: merge, move, delete and revert pages, and look at what happened to them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import Field, field_validator

from knowledge.history.ports import Actor
from knowledge.merge.evidence.confidence import lineage_of
from knowledge.pages.claim_source import FETCHED_KINDS, place_of, source_kind
from knowledge.writing.answers import ChangeAnswer, Disagreements, History, Merged
from mcp_server.gate.caller import Call
from mcp_server.gate.policy import Trust
from mcp_server.gate.taint import origin_of
from mcp_server.ports import KnowledgeServices
from mcp_server.toolsets.knowledge.read_tools import quoted_from
from mcp_server.toolsets.spec import (
    Arguments,
    CallPlan,
    CallPreview,
    CallsDoNotJoin,
    Cursor,
    DryRun,
    InJourney,
    ToolSpec,
)

if TYPE_CHECKING:
    from knowledge.writing.effect import FileEffect
    from knowledge.writing.requests import Approval, ChangeRequest, MergeRequest
    from knowledge.writing.writer import WritePlan

LONGEST_CONTENT = 4_000_000
LONGEST_INTENT = 500
MOST_SOURCES = 20
JOURNEY = "journey"
"""The kind of the source that names a journey: its documents are merged with it."""

R = TypeVar("R")


def _call_plan(
    plan: WritePlan[Any, R],
    origins: tuple[str, ...],
    execute: Callable[[WritePlan[Any, R], Approval | None], Awaitable[R]],
    *,
    unsettled: Callable[[Call, R], Awaitable[tuple[CallPlan[R], tuple[str, ...]] | None]] | None = None,
) -> CallPlan[R]:
    """Return what the gate has to know of a plan for pages."""
    from knowledge.writing.related.target_page import teaches

    request, stakes, level, person = plan.request, plan.stakes, Trust.NONE, ""
    tool = request.actor.tool
    if stakes.unmarks:
        level = Trust.HIGH_STAKES if tool in ("kb_move", "kb_delete") else Trust.ROUTINE
        more = f" and {len(stakes.unmarks) - 1} more" if len(stakes.unmarks) > 1 else ""
        person = f"{stakes.unmarks[0]}{more}, and only a person decides that"
    changed = plan.rehearsed.work.contents if plan.rehearsed else {}
    named = [request.path, getattr(request, "to", None) or "", *changed, *stakes.places.values()]
    return CallPlan(
        execute=lambda call: execute(plan, call.approval),
        preview=_shown(plan),
        level=Trust.HIGH_STAKES if stakes.configures else level,
        only_by_person=person,
        origins=origins,
        teaches=tool != "kb_delete" and any(map(teaches, named)),
        unsettled=unsettled,
    )


def _shown(plan: WritePlan[Any, R]) -> CallPreview | None:
    """Return what a person is shown of the plan; None if nobody was to see it."""
    if plan.rehearsed is None or plan.effect is None:
        return None
    work, request, effect = plan.rehearsed.work, plan.request, plan.effect
    nothing = not work.contents and not work.contradictions and not work.record
    merges: Sequence[MergeRequest] = (*request.earlier, request) if plan.act.actor.tool == "kb_merge" else ()
    doubts = dict.fromkeys(doubt for one in merges if one.judgement for doubt in one.judgement.doubts)
    return CallPreview(
        answer=plan.answer,
        sentence=_sentence(request, effect.files),
        effect="" if nothing else effect.digest,
        documents=tuple(dict.fromkeys(path for path in (request.path, getattr(request, "to", None)) if path)),
        files=[asdict(file) for file in effect.files],
        revisions={path: effect.revisions.get(path) for path in effect.revisions},
        doubts=[asdict(doubt) for doubt in doubts],
        repeats=list(dict.fromkeys(pair for one in merges for pair in one.repeats)),
    )


def _sentence(request: Any, files: Sequence[FileEffect]) -> str:
    """Return what the request does, in one line."""
    verbs = {"kb_merge": "merge into", "kb_move": "move", "kb_delete": "delete", "kb_revert": "bring back"}
    verb = verbs.get(request.actor.tool, request.actor.tool)
    to = f" to {request.to}" if getattr(request, "to", None) else ""
    others = len({file.path for file in files} - {request.path, getattr(request, "to", "")})
    more = f", and change {others} more page{'s' if others > 1 else ''}" if others else ""
    return f"{verb} {request.path}{to}{more}{_said_of(request)}"


def _said_of(request: Any) -> str:
    """Return what the caller says of it: where it is from, where that is not the person, and why. On one line, in its own words."""
    calls = [*getattr(request, "earlier", ()), request]
    sources = [_one_line(source) for one in calls if (source := getattr(one, "source", "user")) != "user"]
    told = f", as told by {', '.join(dict.fromkeys(sources))}" if sources else ""
    intent = _one_line(getattr(request, "intent", ""))
    return f"{told}: “{intent}”" if intent else told


def _one_line(text: str) -> str:
    """Return the text without line ends and closing quotes, so that it cannot pass for what stands around it."""
    return " ".join(text.replace("”", "'").split())


class MergeArguments(Arguments):
    """Arguments of kb_merge."""

    path: Annotated[
        str,
        Field(min_length=1, description="Page, e.g. 'guides/backup.md', or a directory: the server picks the page."),
    ]
    content: Annotated[
        str,
        Field(min_length=1, max_length=LONGEST_CONTENT, description="Markdown: a whole page, a section or a snippet."),
    ]
    source: Annotated[
        str,
        Field(
            max_length=300,
            description="'user', or kind:locator, e.g. code:src/a.py, plane:KB-12, url:https://example.org.",
        ),
    ] = "user"
    section: Annotated[
        str | None, Field(description="Heading, e.g. 'Setup > Linux'. Omit it to let the server choose.")
    ] = None
    base_revision: Annotated[str | None, Field(description="Revision you last read; none for a new page.")] = None
    authority: Annotated[float | None, Field(ge=0, le=1, description="Lower the source's default authority.")] = None
    observed_at: Annotated[str | None, Field(description="When the source was current, e.g. 2026-03-31.")] = None
    corroboration: Annotated[
        list[str], Field(max_length=MOST_SOURCES, description="Further sources that say the same.")
    ] = Field(default_factory=list)
    intent: Annotated[
        str, Field(max_length=LONGEST_INTENT, description="Why you make this change; kept in the history.")
    ] = ""
    dry_run: DryRun = False
    journey_id: InJourney = None

    @field_validator("content")
    @classmethod
    def _says_something(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("it is empty; to remove a page use kb_delete")
        return value

    @field_validator("source")
    @classmethod
    def _names_a_source(cls, value: str) -> str:
        kind, colon, locator = value.partition(":")
        if value.strip() != value or not value or any(c.isspace() for c in kind) or (colon and not locator):
            raise ValueError("it must be 'user' or kind:locator, for example plane:PROJ-12 or kb:guides/trust")
        return value

    @field_validator("observed_at")
    @classmethod
    def _is_a_date(cls, value: str | None) -> str | None:
        if value is not None:
            moment(value)
        return value


async def _request(services: KnowledgeServices, call: Call, asked: MergeArguments) -> MergeRequest:
    """Return what is asked to be merged, with the sentences of somebody else's that its writer was shown and names no source of."""
    from knowledge.writing.evidence.judge import PairJudgement
    from knowledge.writing.requests import MergeRequest

    by, approved = actor(call, "kb_merge", asked), call.origin == "approved"
    found = list(
        call.repeats if approved else (await services.taints.repeated(call.principal.id, asked.content)).items()
    )
    if found and source_kind(asked.source) == JOURNEY:
        of_journey = await services.taints.of_journey(asked.source.partition(":")[2])
        found = [(digest, origin) for digest, origin in found if origin not in of_journey]
    named = _named(asked.source)
    return MergeRequest(
        actor=by,
        path=asked.path,
        content=asked.content,
        source=asked.source,
        section=asked.section,
        base_revision=asked.base_revision,
        authority=asked.authority,
        observed_at=moment(asked.observed_at) if asked.observed_at else None,
        corroboration=tuple(asked.corroboration),
        intent=asked.intent,
        against=call.against,
        judgement=PairJudgement(call.doubts) if approved else None,
        repeats=tuple(sorted((digest, origin) for digest, origin in found if _named(origin) != named)),
    )


def _named(source: str) -> str:
    """Return the place that a source names; of pages without what follows their name."""
    place = place_of(lineage_of(source))
    return place.removesuffix(".md") if source_kind(place) == "kb" else place


async def plan_merge(services: KnowledgeServices, call: Call, asked: MergeArguments) -> CallPlan[Merged]:
    """Work out what merging would do, after what `call.earlier` would. Changes nothing.

    Raises:
        CallsDoNotJoin: not all of them could be merged as one.
    """
    earlier = tuple([await _request(services, call, one) for one in call.earlier])
    request = replace(await _request(services, call, asked), earlier=earlier)
    if earlier and not all(one.base_revision for one in (*earlier, request)):
        raise CallsDoNotJoin("merges without a base are done one at a time")
    unseen = call.trusted and not asked.dry_run and not request.repeats
    agreed = call.approval is not None
    plan = await services.writer.plan_merge(request, unseen=unseen, agreed=agreed, dry_run=asked.dry_run)
    answer = plan.answer
    if earlier and answer is not None and answer.status != "done":
        raise CallsDoNotJoin("they cannot all be merged any more")
    origins: tuple[str, ...] = ()
    if call.origin != "approved":  # else its caller is shown nothing
        # Difference and conflicts quote the page. What is merged from a journey may repeat all that was read in it.
        found = list(await quoted_from(services, [plan.request.path]))
        for one in (*plan.request.earlier, plan.request):
            if (kind := source_kind(one.source)) in FETCHED_KINDS:
                found.append(origin_of(one.path, one.source))
            elif kind == JOURNEY:
                found += await services.taints.of_journey(one.source.partition(":")[2])
        origins = tuple(dict.fromkeys(found))
    if asked.dry_run:
        return CallPlan(answer=await _rehearsal(services, plan.request.path, answer), origins=origins)
    if answer is not None and answer.status == "analysis":
        return CallPlan(answer=answer, origins=origins)
    return _call_plan(plan, origins, services.writer.merge, unsettled=partial(_unsettled_claims, services, asked))


async def _rehearsal(services: KnowledgeServices, path: str, answer: Any) -> Any:
    """Return the answer of a call that only shows what would happen, with the revision that the page has."""
    revision = await services.writer.shown(path)
    return replace(answer, status="analysis", revision=revision, verified=None)


async def _unsettled_claims(
    services: KnowledgeServices, asked: MergeArguments, call: Call, answer: Merged
) -> tuple[CallPlan[Merged], tuple[str, ...]] | None:
    """Work out what would become of the claims that were flagged if a person decided for them; None if there are none.

    Also returns the texts of the page that the person would decide against.
    """
    against = tuple(dict.fromkeys(one.ours for one in answer.conflicts if one.line == 0 and one.ours))
    if not against or not asked.base_revision or not any(block.verdict == "flag" for block in answer.blocks):
        return None
    request = replace(await _request(services, replace(call, against=against), asked), path=answer.path)
    plan = await services.writer.plan_merge(request)
    if plan.answer is None or plan.answer.status == "analysis" or not (plan.rehearsed and plan.rehearsed.work.contents):
        return None
    return _call_plan(plan, (), services.writer.merge), against


KB_MERGE = ToolSpec[KnowledgeServices, MergeArguments, Merged](
    name="kb_merge",
    title="Merge knowledge into a page",
    level=Trust.EDIT,
    toolset="knowledge",
    description=(
        "Adds to or edits a page without losing existing text. Read the page first and pass its revision as base_revision; "
        "changes made since then are merged block by block. With source='user' the content is an edit of what you read. "
        "Content from any other source is evidence: it is weighed, placed where it belongs, and flagged if it contradicts "
        "existing text. Returns a status (e.g. done, partial, conflict, proposed), a verdict for each block, the diff, and "
        "the revision to base your next merge on. It cannot delete a page; use kb_delete."
    ),
    arguments=MergeArguments,
    result=Merged,
    plan=plan_merge,
    joins=True,
    idempotent=True,
)


class MoveArguments(Arguments):
    """Arguments of kb_move."""

    path: Annotated[str, Field(min_length=1)]
    to: Annotated[str, Field(min_length=1, description="New path, e.g. 'archive/backup.md'.")]
    dry_run: DryRun = False
    journey_id: InJourney = None


async def plan_move(services: KnowledgeServices, call: Call, asked: MoveArguments) -> CallPlan[ChangeAnswer]:
    """Work out which links a move would rewrite. Changes nothing."""
    from knowledge.writing.requests import MoveRequest

    request = MoveRequest(actor(call, "kb_move", asked), asked.path, asked.to)
    return await _planned(services, call, request, dry_run=asked.dry_run)


KB_MOVE = ToolSpec[KnowledgeServices, MoveArguments, ChangeAnswer](
    name="kb_move",
    title="Move a page",
    level=Trust.ROUTINE,
    toolset="knowledge",
    description=(
        "Moves or renames a page and updates every link to it. kb_revert undoes the whole move. It never overwrites a page. "
        "Returns every page that changed."
    ),
    arguments=MoveArguments,
    result=ChangeAnswer,
    plan=plan_move,
)


class DeleteArguments(Arguments):
    """Arguments of kb_delete."""

    path: Annotated[str, Field(min_length=1)]
    base_revision: Annotated[str, Field(min_length=1, description="Revision you last read.")]
    dry_run: DryRun = False
    journey_id: InJourney = None


async def plan_delete(services: KnowledgeServices, call: Call, asked: DeleteArguments) -> CallPlan[ChangeAnswer]:
    """Work out what a deletion would leave behind. Changes nothing."""
    from knowledge.writing.requests import DeleteRequest

    request = DeleteRequest(actor(call, "kb_delete", asked), asked.path, asked.base_revision)
    return await _planned(services, call, request, dry_run=asked.dry_run)


KB_DELETE = ToolSpec[KnowledgeServices, DeleteArguments, ChangeAnswer](
    name="kb_delete",
    title="Delete a page",
    level=Trust.ROUTINE,
    toolset="knowledge",
    description=(
        "Deletes a page, unless it has changed since you read it. Links to the page stay, and the answer lists them. "
        "kb_revert restores the page."
    ),
    arguments=DeleteArguments,
    result=ChangeAnswer,
    plan=plan_delete,
    destructive=True,
)


class RevertArguments(Arguments):
    """Arguments of kb_revert."""

    path: Annotated[str, Field(min_length=1)]
    revision: Annotated[str, Field(min_length=1, description="Revision to restore, from kb_history.")]
    dry_run: DryRun = False
    journey_id: InJourney = None


async def plan_revert(services: KnowledgeServices, call: Call, asked: RevertArguments) -> CallPlan[ChangeAnswer]:
    """Work out what going back would change. Changes nothing."""
    from knowledge.writing.requests import RevertRequest

    request = RevertRequest(actor(call, "kb_revert", asked), asked.path, asked.revision)
    return await _planned(services, call, request, dry_run=asked.dry_run)


KB_REVERT = ToolSpec[KnowledgeServices, RevertArguments, ChangeAnswer](
    name="kb_revert",
    title="Restore an earlier revision of a page",
    level=Trust.EDIT,
    toolset="knowledge",
    description="Restores a page to an earlier revision, including deleted or moved pages. Later revisions stay in the history.",
    arguments=RevertArguments,
    result=ChangeAnswer,
    plan=plan_revert,
    idempotent=True,
)


async def _planned(
    services: KnowledgeServices, call: Call, request: ChangeRequest, *, dry_run: bool
) -> CallPlan[ChangeAnswer]:
    plan = await services.writer.plan_change(request, agreed=call.approval is not None, dry_run=dry_run)
    # Difference and conflicts quote the page; whose call is executed for a person is shown neither.
    origins = () if call.origin == "approved" else await quoted_from(services, [plan.request.path])
    if dry_run:
        return CallPlan(answer=await _rehearsal(services, plan.request.path, plan.answer), origins=origins)
    if plan.answer is not None and plan.answer.status == "analysis":
        return CallPlan(answer=plan.answer, origins=origins)
    return _call_plan(plan, origins, services.writer.change)


class HistoryArguments(Arguments):
    """Arguments of kb_history."""

    path: Annotated[str, Field(min_length=1)]
    limit: Annotated[int, Field(ge=1, le=100)] = 20
    cursor: Cursor = None
    journey_id: InJourney = None


KB_HISTORY = ToolSpec[KnowledgeServices, HistoryArguments, History](
    name="kb_history",
    title="History of a page",
    level=Trust.READ,
    toolset="knowledge",
    description=(
        "Shows who changed a page, when, why and how much, newest first; origins names the source of each line of the current "
        "text. Use it to find a revision for kb_read or kb_revert."
    ),
    arguments=HistoryArguments,
    result=History,
    answer=lambda services, _call, asked: services.page_history.history(
        asked.path, limit=asked.limit, cursor=asked.cursor
    ),
    read_only=True,
    idempotent=True,
)


class ContradictionsArguments(Arguments):
    """Arguments of kb_contradictions."""

    path: Annotated[str | None, Field(description="Only this page or directory.")] = None
    limit: Annotated[int, Field(ge=1, le=100)] = 20
    cursor: Cursor = None
    journey_id: InJourney = None


async def claimed_in(services: KnowledgeServices, found: Disagreements) -> tuple[str, ...]:
    """Return where the claims come from that nobody vouches for: fetched, or in a page of that kind."""
    sides = [side for one in found.contradictions for side in (one.existing, one.new)]
    fetched = {origin_of(side.path, side.source) for side in sides if source_kind(side.source) in FETCHED_KINDS}
    return tuple(fetched | set(await quoted_from(services, {side.path for side in sides})))


KB_CONTRADICTIONS = ToolSpec[KnowledgeServices, ContradictionsArguments, Disagreements](
    name="kb_contradictions",
    title="Open contradictions",
    level=Trust.READ,
    toolset="knowledge",
    description=(
        "Lists open contradictions, newest first: two claims that cannot both be true, each with its page, source and "
        "confidence. Show both sides to the person, who has to settle them."
    ),
    arguments=ContradictionsArguments,
    result=Disagreements,
    answer=lambda services, _call, asked: services.page_history.contradictions(
        asked.path, limit=asked.limit, cursor=asked.cursor
    ),
    taints=claimed_in,
    read_only=True,
    idempotent=True,
)

TOOLS = (KB_MERGE, KB_MOVE, KB_DELETE, KB_REVERT, KB_HISTORY, KB_CONTRADICTIONS)


def actor(call: Call, tool: str, asked: Arguments) -> Actor:
    """Return who acts, for the record."""
    return Actor(call.principal.id, tool, ToolSpec.hash_of(asked), call.key or call.run)


def moment(text: str) -> datetime:
    """Return an ISO date or time, UTC where it names no zone.

    Raises:
        ValueError: it is none.
    """
    try:
        found = datetime.fromisoformat(text)
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):  # the latter in the first and the last hours that there are
        raise ValueError("it is no ISO date, for example 2026-03-31 or 2026-03-31T12:00:00Z") from None
