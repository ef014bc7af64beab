"""What the tools on pages do. Imported with the first call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from knowledge.history.ports import Actor
from knowledge.merge.evidence.confidence import lineage_of
from knowledge.pages.claim_source import FETCHED_KINDS, place_of, source_kind
from knowledge.pages.paths import clean_path
from knowledge.search.answers import MapView, PageReading, SearchAnswer
from knowledge.state.ports import Filters
from knowledge.writing.answers import ChangeAnswer, Disagreements, History, Merged
from knowledge.writing.evidence.judge import PairJudgement
from knowledge.writing.related.target_page import teaches
from knowledge.writing.requests import DeleteRequest, MergeRequest, MoveRequest, RevertRequest
from mcp_server.connectors.page_mentions import citations_of
from mcp_server.gate.caller import Call
from mcp_server.gate.policy import Trust
from mcp_server.gate.taint import origin_of
from mcp_server.ports import KnowledgeServices
from mcp_server.toolsets.knowledge.schemas import (
    ContradictionsArguments,
    DeleteArguments,
    HistoryArguments,
    MapArguments,
    MergeArguments,
    MoveArguments,
    ReadPageArguments,
    RevertArguments,
    SearchFilters,
    SearchPagesArguments,
    moment,
    nanoseconds,
)
from mcp_server.toolsets.spec import (
    Arguments,
    CallPlan,
    CallPreview,
    CallsDoNotJoin,
    ToolSpec,
)

if TYPE_CHECKING:
    from knowledge.writing.effect import FileEffect
    from knowledge.writing.requests import Approval, ChangeRequest
    from knowledge.writing.writer import WritePlan


async def show_map(services: KnowledgeServices, call: Call, arguments: MapArguments) -> MapView:
    """Return the map of a directory."""
    view = await services.tiers.map(arguments.path, arguments.depth)
    await services.ledger.saw_map(call.reader, view)
    return view


async def read(services: KnowledgeServices, call: Call, arguments: ReadPageArguments) -> PageReading:
    """Return one document, or a section of it."""
    reading = await services.tiers.read(
        arguments.path,
        section=arguments.section,
        view=arguments.view,
        revision=arguments.revision,
        offset=arguments.offset,
    )
    await services.ledger.saw_page(call.reader, reading)
    # A caller that continues reading has already seen what cites the page.
    if not services.connectors or arguments.offset:
        return reading
    return replace(reading, cited_by=await citations_of(services, reading.path))


async def read_from(_services: KnowledgeServices, reading: PageReading) -> tuple[str, ...]:
    """Return where the text of the page comes from, if nobody vouches for it."""
    return (origin_of(reading.path, reading.source),) if reading.tainted else ()


async def quoted_from(services: KnowledgeServices, paths: Iterable[str]) -> tuple[str, ...]:
    """Return where the text of those pages comes from that nobody vouches for."""
    sources = {path: await services.tiers.tainted(path) for path in paths}
    return tuple({origin_of(path, source) for path, source in sources.items() if source is not None})


async def search(services: KnowledgeServices, call: Call, arguments: SearchPagesArguments) -> SearchAnswer:
    """Return the chunks that answer best, and a nudge if the caller searches where it has not looked."""
    answer = await services.finder.search(
        arguments.query,
        path=arguments.path or "",
        mode=arguments.mode,
        # Who names no number gets as many as have something to tell.
        limit=arguments.limit if "limit" in arguments.model_fields_set else None,
        cursor=arguments.cursor,
        filters=_filters(arguments.filters),
    )
    place = clean_path(arguments.path or "")
    directory = place if not place or await services.index.directory(place) else None
    return replace(answer, nudge=await services.ledger.searched(call.reader, directory, answer))


async def found_from(_services: KnowledgeServices, found: SearchAnswer) -> tuple[str, ...]:
    """Return where the passages come from that nobody vouches for."""
    return tuple({origin_of(hit.path, hit.source) for hit in found.hits if hit.tainted})


async def history(services: KnowledgeServices, _call: Call, arguments: HistoryArguments) -> History:
    """Return the revisions of a page, newest first."""
    return await services.page_history.history(arguments.path, limit=arguments.limit, cursor=arguments.cursor)


async def contradictions(services: KnowledgeServices, _call: Call, arguments: ContradictionsArguments) -> Disagreements:
    """Return the claims that disagree, on one page or everywhere."""
    return await services.page_history.contradictions(arguments.path, limit=arguments.limit, cursor=arguments.cursor)


def _filters(asked: SearchFilters) -> Filters:
    return Filters(
        tags=tuple(tag.lstrip("#") for tag in asked.tags),
        kind=asked.kind,
        source=asked.source,
        modified_after_ns=nanoseconds(asked.modified_after) if asked.modified_after else None,
        modified_before_ns=nanoseconds(asked.modified_before) if asked.modified_before else None,
    )


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
    """Return the text without line ends and closing quotes, so that it cannot pass for the text around it."""
    return " ".join(text.replace("”", "'").split())


async def _request(services: KnowledgeServices, call: Call, arguments: MergeArguments) -> MergeRequest:
    """Return what is asked to be merged, with the sentences of somebody else's that its writer was shown and names no source of."""
    by, approved = actor(call, "kb_merge", arguments), call.origin == "approved"
    found = list(
        call.repeats if approved else (await services.taints.repeated(call.principal.id, arguments.content)).items()
    )
    if found and source_kind(arguments.source) == JOURNEY:
        of_journey = await services.taints.of_journey(arguments.source.partition(":")[2])
        found = [(digest, origin) for digest, origin in found if origin not in of_journey]
    named = _named(arguments.source)
    return MergeRequest(
        actor=by,
        path=arguments.path,
        content=arguments.content,
        source=arguments.source,
        section=arguments.section,
        base_revision=arguments.base_revision,
        authority=arguments.authority,
        observed_at=moment(arguments.observed_at) if arguments.observed_at else None,
        corroboration=tuple(arguments.corroboration),
        intent=arguments.intent,
        against=call.against,
        judgement=PairJudgement(call.doubts) if approved else None,
        repeats=tuple(sorted((digest, origin) for digest, origin in found if _named(origin) != named)),
    )


def _named(source: str) -> str:
    """Return the place that a source names; of pages without what follows their name."""
    place = place_of(lineage_of(source))
    return place.removesuffix(".md") if source_kind(place) == "kb" else place


async def plan_merge(services: KnowledgeServices, call: Call, arguments: MergeArguments) -> CallPlan[Merged]:
    """Work out what merging would do, after what `call.earlier` would. Changes nothing.

    Raises:
        CallsDoNotJoin: not all of them could be merged as one.
    """
    earlier = tuple([await _request(services, call, one) for one in call.earlier])
    request = replace(await _request(services, call, arguments), earlier=earlier)
    if earlier and not all(one.base_revision for one in (*earlier, request)):
        raise CallsDoNotJoin("merges without a base are done one at a time")
    unseen = call.trusted and not arguments.dry_run and not request.repeats
    agreed = call.approval is not None
    plan = await services.writer.plan_merge(request, unseen=unseen, agreed=agreed, dry_run=arguments.dry_run)
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
    if arguments.dry_run:
        return CallPlan(answer=await _rehearsal(services, plan.request.path, answer), origins=origins)
    if answer is not None and answer.status == "analysis":
        return CallPlan(answer=answer, origins=origins)
    return _call_plan(plan, origins, services.writer.merge, unsettled=partial(_unsettled_claims, services, arguments))


async def _rehearsal(services: KnowledgeServices, path: str, answer: Any) -> Any:
    """Return the answer of a call that only shows what would happen, with the revision that the page has."""
    revision = await services.writer.shown(path)
    return replace(answer, status="analysis", revision=revision, verified=None)


async def _unsettled_claims(
    services: KnowledgeServices, arguments: MergeArguments, call: Call, answer: Merged
) -> tuple[CallPlan[Merged], tuple[str, ...]] | None:
    """Work out what would become of the claims that were flagged if a person decided for them; None if there are none.

    Also returns the texts of the page that the person would decide against.
    """
    against = tuple(dict.fromkeys(one.ours for one in answer.conflicts if one.line == 0 and one.ours))
    if not against or not arguments.base_revision or not any(block.verdict == "flag" for block in answer.blocks):
        return None
    request = replace(await _request(services, replace(call, against=against), arguments), path=answer.path)
    plan = await services.writer.plan_merge(request)
    if plan.answer is None or plan.answer.status == "analysis" or not (plan.rehearsed and plan.rehearsed.work.contents):
        return None
    return _call_plan(plan, (), services.writer.merge), against


async def plan_move(services: KnowledgeServices, call: Call, arguments: MoveArguments) -> CallPlan[ChangeAnswer]:
    """Work out which links a move would rewrite. Changes nothing."""
    request = MoveRequest(actor(call, "kb_move", arguments), arguments.path, arguments.to)
    return await _planned(services, call, request, dry_run=arguments.dry_run)


async def plan_delete(services: KnowledgeServices, call: Call, arguments: DeleteArguments) -> CallPlan[ChangeAnswer]:
    """Work out what a deletion would leave behind. Changes nothing."""
    request = DeleteRequest(actor(call, "kb_delete", arguments), arguments.path, arguments.base_revision)
    return await _planned(services, call, request, dry_run=arguments.dry_run)


async def plan_revert(services: KnowledgeServices, call: Call, arguments: RevertArguments) -> CallPlan[ChangeAnswer]:
    """Work out what going back would change. Changes nothing."""
    request = RevertRequest(actor(call, "kb_revert", arguments), arguments.path, arguments.revision)
    return await _planned(services, call, request, dry_run=arguments.dry_run)


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


async def claimed_in(services: KnowledgeServices, found: Disagreements) -> tuple[str, ...]:
    """Return where the claims come from that nobody vouches for: fetched, or in a page of that kind."""
    sides = [side for one in found.contradictions for side in (one.existing, one.new)]
    fetched = {origin_of(side.path, side.source) for side in sides if source_kind(side.source) in FETCHED_KINDS}
    return tuple(fetched | set(await quoted_from(services, {side.path for side in sides})))


def actor(call: Call, tool: str, arguments: Arguments) -> Actor:
    """Return who acts, for the record."""
    return Actor(call.principal.id, tool, ToolSpec.hash_of(arguments), call.key or call.run)
