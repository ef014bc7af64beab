"""The handlers of the tools on pages. Imported with the first call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from agents.errors import NoSuchAgent, NoSuchJourney
from knowledge.contradictions.record import disagreement, one_line
from knowledge.errors import KnowledgeError
from knowledge.history.acts import APPROVED_BY
from knowledge.history.ports import Actor, HistoryEntry
from knowledge.merge.evidence.confidence import lineage_of
from knowledge.merge.model import StatementAnswer, pair_digest
from knowledge.pages.claim_source import FETCHED_KINDS, UNKNOWN_AUTHORITY, authority_of, place_of, source_kind
from knowledge.pages.markdown.tags import bare_tag
from knowledge.pages.paths import clean_path, is_markdown
from knowledge.search.answers import MapView, PageReading, SearchAnswer
from knowledge.search.use.events import SearchedFor
from knowledge.state.ports import Filters
from knowledge.writing.answers import ChangeAnswer, Disagreements, DismissalAnswer, History, Merged
from knowledge.writing.evidence.judge import PairJudgement
from knowledge.writing.related.target_page import teaches
from knowledge.writing.requests import DeleteRequest, MergeRequest, MoveRequest, RevertRequest
from mcp_server.connectors.page_mentions import citations_of, remember_mentions
from mcp_server.gate.caller import Call
from mcp_server.gate.handles import require_handle
from mcp_server.gate.policy import Trust
from mcp_server.gate.taint import origin_of
from mcp_server.gate.trust.act_levels import level_to_take_back
from mcp_server.late_module import LateModule
from mcp_server.ports import KnowledgeServices
from mcp_server.toolsets.knowledge.schemas import (
    JOURNEY,
    ContradictionsArguments,
    DeleteArguments,
    DismissArguments,
    HistoryArguments,
    MapArguments,
    MergeArguments,
    MoveArguments,
    ReadPageArguments,
    RevertArguments,
    SearchPagesArguments,
    moment,
    nanoseconds,
)
from mcp_server.toolsets.spec import Arguments, CallPlan, CallPreview, CallsDoNotJoin, ToolSpec

if TYPE_CHECKING:
    from agents.report import result_page
    from knowledge.writing.effect import FileEffect
    from knowledge.writing.requests import Approval, ChangeRequest
    from knowledge.writing.writer import WritePlan

if not TYPE_CHECKING:
    # Few merges bring a journey's result, and it loads the agents.
    result_page = LateModule("agents.report.result_page")

_VERBS = {"kb_merge": "merge into", "kb_move": "move", "kb_delete": "delete", "kb_revert": "restore"}

R = TypeVar("R")


async def show_map(services: KnowledgeServices, call: Call, arguments: MapArguments) -> MapView:
    """Return the map of a directory, of the pages with a tag, or of those around a page."""
    view = await services.tiers.overview(arguments.path, arguments.depth, cursor=arguments.cursor)
    gathered = is_markdown(view.path) or (
        view.path.startswith("#") and await services.index.directory(view.path) is None
    )
    if not gathered:
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
    # A caller that reads on has already seen the citations.
    if not services.connectors or arguments.offset:
        return reading
    return replace(reading, cited_by=await citations_of(services, reading.path))


async def read_from(_services: KnowledgeServices, _call: Call, reading: PageReading) -> tuple[str, ...]:
    """Return the origin of the page's text if the source is untrusted."""
    return (origin_of(reading.path, reading.source),) if reading.tainted else ()


async def quoted_from(services: KnowledgeServices, paths: Iterable[str]) -> tuple[str, ...]:
    """Return the origins of those pages whose source is untrusted."""
    sources = {path: await services.tiers.tainted(path) for path in paths}
    return tuple({origin_of(path, source) for path, source in sources.items() if source is not None})


async def search(services: KnowledgeServices, call: Call, arguments: SearchPagesArguments) -> SearchAnswer:
    """Return the chunks that answer best, and a nudge if the caller searches in a directory whose map it has not read."""
    asked = arguments.filters
    filters = Filters(
        tags=tuple(map(bare_tag, asked.tags)),
        kind=asked.kind,
        source=asked.source,
        modified_after_ns=nanoseconds(asked.modified_after) if asked.modified_after else None,
        modified_before_ns=nanoseconds(asked.modified_before) if asked.modified_before else None,
    )
    answer = await services.finder.search(
        arguments.query,
        path=arguments.path or "",
        mode=arguments.mode,
        # Without a limit from the caller, the finder stops where hits no longer help.
        limit=arguments.limit if "limit" in arguments.model_fields_set else None,
        cursor=arguments.cursor,
        filters=filters,
        explain=arguments.explain,
    )
    place = clean_path(arguments.path or "")
    directory = place if not place or await services.index.directory(place) else None
    searched_for = SearchedFor(arguments.query, place, filters, continued=arguments.cursor is not None)
    return replace(answer, nudge=await services.ledger.searched(call.reader, directory, answer, searched_for))


async def found_from(_services: KnowledgeServices, _call: Call, found: SearchAnswer) -> tuple[str, ...]:
    """Return the origins of the untrusted hits."""
    return tuple({origin_of(hit.path, hit.source) for hit in found.hits if hit.tainted})


async def history(services: KnowledgeServices, _call: Call, arguments: HistoryArguments) -> History:
    """Return the revisions of a page, newest first."""
    return await services.page_history.history(arguments.path, limit=arguments.limit, cursor=arguments.cursor)


async def contradictions(services: KnowledgeServices, _call: Call, arguments: ContradictionsArguments) -> Disagreements:
    """Return open or dismissed contradictions, on one page or everywhere."""
    return await services.contradictions.listed(
        arguments.path, limit=arguments.limit, cursor=arguments.cursor, dismissed=arguments.dismissed
    )


def _call_plan(
    plan: WritePlan[Any, R],
    origins: tuple[str, ...],
    execute: Callable[[WritePlan[Any, R], Approval | None], Awaitable[R]],
    *,
    unsettled: Callable[[Call, R], Awaitable[tuple[CallPlan[R], tuple[str, ...]] | None]] | None = None,
) -> CallPlan[R]:
    """Return the gate's view of a plan for pages: its level, its preview, and whether only a person may decide."""
    request, stakes, level, person = plan.request, plan.stakes, Trust.NONE, ""
    tool = request.actor.tool
    if stakes.unmarks:
        # One level more than the tool's own.
        level = Trust.HIGH_STAKES if tool in ("kb_move", "kb_delete") else Trust.ROUTINE
        more = f" and {len(stakes.unmarks) - 1} more" if len(stakes.unmarks) > 1 else ""
        person = f"{stakes.unmarks[0]}{more}, and only a person decides that"
    changed = plan.rehearsed.work.contents if plan.rehearsed else {}
    own = _own_pages(request)
    paths = [*own, *changed, *stakes.places.values()]
    return CallPlan(
        execute=lambda call: execute(plan, call.approval),
        preview=_preview(plan),
        level=Trust.HIGH_STAKES if stakes.configures else level,
        only_by_person=person,
        origins=origins,
        teaches=tool != "kb_delete" and any(map(teaches, paths)),
        unsettled=unsettled,
        writes=own,
        also=tuple(dict.fromkeys(path for path in paths if path not in own)),
    )


def _own_pages(request: Any) -> tuple[str, ...]:
    """Return the pages that the request itself names: its page and, for a move, the page's new path."""
    return tuple(dict.fromkeys(filter(None, (request.path, getattr(request, "to", None)))))


def _preview(plan: WritePlan[Any, R]) -> CallPreview | None:
    """Return the plan as a person sees it; None if the plan was made without a preview."""
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
        revisions=dict(effect.revisions),
        doubts=[asdict(doubt) for doubt in doubts],
        repeats=list(dict.fromkeys(pair for one in merges for pair in one.repeats)),
    )


def _sentence(request: Any, files: Sequence[FileEffect]) -> str:
    """Return what the request does in one line: the act, its sources other than the person, and the caller's reason."""
    verb = _VERBS.get(request.actor.tool, request.actor.tool)
    to = f" to {request.to}" if getattr(request, "to", None) else ""
    others = len({file.path for file in files} - {request.path, getattr(request, "to", "")})
    more = f", and change {others} more page{'s' if others > 1 else ''}" if others else ""
    calls = [*getattr(request, "earlier", ()), request]
    named = [_one_line(source) for one in calls if (source := getattr(one, "source", "user")) != "user"]
    sources = f", as told by {', '.join(dict.fromkeys(named))}" if named else ""
    intent = _one_line(getattr(request, "intent", ""))
    return f"{verb} {request.path}{to}{more}{sources}{f': “{intent}”' if intent else ''}"


def _one_line(text: str) -> str:
    """Return the caller's text without line ends and closing quotes, so that it cannot imitate the sentence around it."""
    return " ".join(text.replace("”", "'").split())


async def _request(services: KnowledgeServices, call: Call, arguments: MergeArguments) -> MergeRequest:
    """Return the merge, with the untrusted sentences that its content repeats without naming their source."""
    approved, of_a_journey = call.origin == "approved", source_kind(arguments.source) == JOURNEY
    result = await _result_of(services, call, arguments) if of_a_journey and not arguments.content else None
    content, authority = result.text if result else arguments.content or "", arguments.authority
    if of_a_journey:
        # Of a model's own words the server does not know which pages they rest on.
        most = result.authority if result else UNKNOWN_AUTHORITY
        authority = most if authority is None else min(most, authority)
    # The record of what was read is short-lived: a proposal carries what its writer had read when it was made.
    repeated = call.repeats if approved else (await services.taints.repeated(call.principal.id, content)).items()
    found = list(repeated)
    if found and of_a_journey:
        of_journey = await _read_in(services, arguments.source.partition(":")[2])
        found = [(digest, origin) for digest, origin in found if origin not in of_journey]
    named = _place(arguments.source)
    return MergeRequest(
        actor=actor(call, "kb_merge", arguments),
        path=arguments.path,
        content=content,
        source=arguments.source,
        section=arguments.section,
        base_revision=arguments.base_revision,
        authority=authority,
        inherits=await _inherited(services, arguments.source),
        observed_at=moment(arguments.observed_at) if arguments.observed_at else None,
        corroboration=tuple(arguments.corroboration),
        intent=arguments.intent,
        answers=tuple(StatementAnswer(one.existing, one.new, one.answer) for one in arguments.answers),
        against=call.against,
        judgement=PairJudgement(call.doubts) if approved else None,
        repeats=tuple(sorted((digest, origin) for digest, origin in found if _place(origin) != named)),
    )


async def _read_in(services: KnowledgeServices, journey: str) -> Collection[str]:
    """Return the untrusted origins that were read in the journey; none if the caller may not see the journey."""
    if not services.access.reads_all:
        try:
            await services.journeys.store.journey(journey)
        except NoSuchJourney:
            return ()
    return await services.taints.of_journey(journey)


async def _inherited(services: KnowledgeServices, source: str) -> str:
    """Return the untrusted source of the page that `source` cites; "" if the page is trusted, or `source` names no page here."""
    if source_kind(source) != "kb":
        return ""
    try:
        path = await services.tiers.locate(source.partition(":")[2].partition("#")[0])
    except KnowledgeError:
        return ""
    return await services.tiers.tainted(path) or ""


class _Result(NamedTuple):
    """A journey's result as a page, and the least authority of the pages that it rests on."""

    text: str
    authority: float


async def _result_of(services: KnowledgeServices, call: Call, arguments: MergeArguments) -> _Result:
    """Return the result of the journey that the source names; marked if it rests on a page that is untrusted.

    Raises:
        NoSuchJourney, NoResult: there is no such journey, or it has no result yet.
    """
    journey = arguments.source.partition(":")[2].strip()
    require_handle(call.principal, journey)
    state = await services.journeys.store.journey(journey)
    try:
        agent = await services.journeys.catalogue.agent(state.agent)
    except NoSuchAgent:
        agent = None
    pages = dict[str, str]()
    for cited in result_page.cited_pages(state):
        with suppress(KnowledgeError):  # a page that was moved or deleted since is named without a link
            pages[cited] = await services.tiers.locate(cited)
    untrusted = bool(await quoted_from(services, pages.values()))
    records = [await services.index.document(path) for path in pages.values()]
    authority = min(
        (authority_of(record.source) if record else UNKNOWN_AUTHORITY for record in records), default=UNKNOWN_AUTHORITY
    )
    text = result_page.result_page(journey, agent, state, arguments.path, pages, untrusted=untrusted)
    return _Result(text, authority)


def _place(source: str) -> str:
    """Return the place that a source names; a page without its suffix."""
    place = place_of(lineage_of(source))
    return place.removesuffix(".md") if source_kind(place) == "kb" else place


async def plan_merge(services: KnowledgeServices, call: Call, arguments: MergeArguments) -> CallPlan[Merged]:
    """Plan a merge that follows those of `call.earlier`. Changes nothing.

    Raises:
        CallsDoNotJoin: the merges cannot be made as one.
    """
    earlier = tuple([await _request(services, call, one) for one in call.earlier])
    request = replace(await _request(services, call, arguments), earlier=earlier)
    if earlier and not all(one.base_revision for one in (*earlier, request)):
        raise CallsDoNotJoin("merges without base_revision are made one at a time")
    unseen = call.trusted and not arguments.dry_run and not request.repeats
    agreed = call.approval is not None
    plan = await services.writer.plan_merge(request, unseen=unseen, agreed=agreed, dry_run=arguments.dry_run)
    if earlier and plan.answer is not None and plan.answer.status != "done":
        raise CallsDoNotJoin("some of the merges can no longer be made")
    for one in (*plan.request.earlier, plan.request):
        if one.brought_from is not None:
            origin, url = one.brought_from
            await remember_mentions(services, origin, url=url, texts=[one.content])
    origins: tuple[str, ...] = ()
    if call.origin != "approved":  # after an approval the caller sees no answer of this call
        await services.ledger.named_by_merge(call.reader, plan.request.path)
        # The diff and the conflicts quote the page. Content from a journey may repeat everything that was read in it.
        found = list(await quoted_from(services, [plan.request.path]))
        for one in (*plan.request.earlier, plan.request):
            if (kind := source_kind(one.source)) in FETCHED_KINDS:
                found.append(origin_of(one.path, one.source))
            elif kind == JOURNEY:
                found += await _read_in(services, one.source.partition(":")[2])
        origins = tuple(dict.fromkeys(found))
    unsettled = partial(_unsettled_claims, services, arguments)
    planned = await _settled(
        services, plan, origins, services.writer.merge, dry_run=arguments.dry_run, unsettled=unsettled
    )
    return replace(planned, note=partial(_note_contradictions, services, plan))


async def _note_contradictions(services: KnowledgeServices, plan: WritePlan[MergeRequest, Merged]) -> None:
    """Record the contradictions that a planned merge found, for a caller who may not make it. People find them in the list."""
    found = plan.rehearsed.work.contradictions if plan.rehearsed else ()
    if found:
        request = plan.request
        entry = HistoryEntry(
            services.now(),
            request.actor,
            source=request.source,
            intent=request.intent,
            outcome="flagged",
            contradictions=found,
        )
        await services.state.ledger.commit(entry)


async def _settled(
    services: KnowledgeServices,
    plan: WritePlan[Any, Any],
    origins: tuple[str, ...],
    execute: Callable[[WritePlan[Any, Any], Approval | None], Awaitable[Any]],
    *,
    dry_run: bool,
    unsettled: Callable[[Call, Any], Awaitable[tuple[CallPlan[Any], tuple[str, ...]] | None]] | None = None,
) -> CallPlan[Any]:
    """Return the plan for the gate.

    For a dry run or a mere analysis there is nothing to decide on, so the plan is only an answer.
    """
    answer: Any = plan.answer
    if dry_run:
        revision = await services.writer.shown(plan.request.path)
        answer = replace(answer, status="analysis", revision=revision, verified=None)
        return CallPlan(answer=answer, origins=origins, writes=_own_pages(plan.request))
    if answer is not None and answer.status == "analysis":
        return CallPlan(answer=answer, origins=origins, writes=_own_pages(plan.request))
    return _call_plan(plan, origins, execute, unsettled=unsettled)


async def _unsettled_claims(
    services: KnowledgeServices, arguments: MergeArguments, call: Call, answer: Merged
) -> tuple[CallPlan[Merged], tuple[str, ...]] | None:
    """Plan the merge that replaces existing text with the flagged claims, for a person to decide on; None if nothing was flagged.

    The second value has the texts of the page that the merge would replace.
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
    """Plan a move and the links that it rewrites. Changes nothing."""
    request = MoveRequest(actor(call, "kb_move", arguments), arguments.path, arguments.to)
    return await _planned(services, call, request, dry_run=arguments.dry_run)


async def plan_delete(services: KnowledgeServices, call: Call, arguments: DeleteArguments) -> CallPlan[ChangeAnswer]:
    """Plan a deletion. Changes nothing."""
    request = DeleteRequest(actor(call, "kb_delete", arguments), arguments.path, arguments.base_revision)
    return await _planned(services, call, request, dry_run=arguments.dry_run)


async def plan_revert(services: KnowledgeServices, call: Call, arguments: RevertArguments) -> CallPlan[ChangeAnswer]:
    """Plan the return to an earlier revision. Changes nothing."""
    request = RevertRequest(actor(call, "kb_revert", arguments), arguments.path, arguments.revision)
    plan = await _planned(services, call, request, dry_run=arguments.dry_run)
    if plan.answer is not None:
        return plan
    taken_back = await services.undo.after(arguments.path, arguments.revision)
    return replace(plan, level=max(plan.level, await level_to_take_back(services, taken_back)))


async def _planned(
    services: KnowledgeServices, call: Call, request: ChangeRequest, *, dry_run: bool
) -> CallPlan[ChangeAnswer]:
    plan = await services.writer.plan_change(request, agreed=call.approval is not None, dry_run=dry_run)
    # The diff and the conflicts quote the page. After an approval the caller sees neither.
    origins = () if call.origin == "approved" else await quoted_from(services, [plan.request.path])
    return await _settled(services, plan, origins, services.writer.change, dry_run=dry_run)


async def plan_dismissal(
    services: KnowledgeServices, call: Call, arguments: DismissArguments
) -> CallPlan[DismissalAnswer]:
    """Plan the dismissal of a contradiction, which only a person decides. Changes nothing.

    Raises:
        NotOpen: there is no such open contradiction.
    """
    flag = await services.contradictions.one(arguments.contradiction_id)
    shown, reason = disagreement(flag), one_line(arguments.reason)
    claims = [f"{side.path}: {one_line(side.text)}" for side in (shown.existing, shown.new)]
    answer = DismissalAnswer("done", None, flag.id, claims)
    origins = await claimed_in(services, call, Disagreements([shown], None))
    writes = tuple(dict.fromkeys((shown.existing.path, shown.new.path)))
    if arguments.dry_run:
        return CallPlan(answer=replace(answer, status="analysis"), origins=origins, writes=writes)

    async def execute(carried: Call) -> DismissalAnswer:
        if carried.approval is None:
            raise TypeError("a dismissal is carried out for a person only")
        await services.contradictions.dismiss(
            flag.id,
            "both",
            by=carried.approval.decision.removeprefix(APPROVED_BY),
            reason=reason,
            actor=actor(call, "kb_dismiss", arguments),
            proposal=carried.approval.proposal,
            decision=carried.approval.decision,
        )
        return answer

    return CallPlan(
        execute=execute,
        preview=CallPreview(
            answer=answer,
            # The reason is a host's text: with a closing quote it could continue as if the server said it.
            sentence=f"dismiss a contradiction in {' and '.join(writes)}: “{reason.replace('”', chr(39))}”",
            # With the claims: a new rule may give the number to another contradiction.
            effect=pair_digest("\n".join([f"{flag.id}", *claims]), reason).hex(),
            documents=(),
        ),
        only_by_person="Whether both claims hold is a person's decision",
        origins=origins,
        writes=writes,
    )


async def claimed_in(services: KnowledgeServices, _call: Call, found: Disagreements) -> tuple[str, ...]:
    """Return the untrusted origins of the claims: their own source, or that of their page."""
    sides = [side for one in found.contradictions for side in (one.existing, one.new)]
    fetched = {origin_of(side.path, side.source) for side in sides if source_kind(side.source) in FETCHED_KINDS}
    return tuple(fetched | set(await quoted_from(services, {side.path for side in sides})))


def actor(call: Call, tool: str, arguments: Arguments) -> Actor:
    """Return the caller, the tool and the arguments' hash as the audit log records them."""
    return Actor(call.principal.id, tool, ToolSpec.hash_of(arguments), call.key or call.run)
