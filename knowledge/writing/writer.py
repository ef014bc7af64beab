"""Plans and carries out changes of pages for a caller."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Generic, TypeVar

import anyio.to_thread

from knowledge.contradictions.cross_page import CrossPageClaims, Written
from knowledge.errors import (
    ConfiguresNow,
    EffectChanged,
    InvalidPath,
    KnowledgeError,
    TooMuchWaiting,
    TooMuchWork,
    UnmarksNow,
    WriteUndone,
)
from knowledge.history.past_states import PastStates
from knowledge.merge.damage import PageDamage, find_damage
from knowledge.merge.document.units import first_heading
from knowledge.merge.evidence.confidence import USER, Rules
from knowledge.merge.evidence.place.page_choice import UnplacedText, places_among_pages
from knowledge.merge.evidence.place.placement import Similarity
from knowledge.merge.evidence.place.sister_pages import (
    CandidatePage,
    SisterSearch,
    folders_of_sisters,
    sisters_among,
)
from knowledge.merge.model import OfferedPlace, Origin
from knowledge.offload import CALLER, InlineRunner, StepRunner
from knowledge.pages.obsidian.canvas import is_canvas
from knowledge.pages.paths import clean_path, is_markdown
from knowledge.pages.vault import Vault, revision_of
from knowledge.telemetry.operations import recorded
from knowledge.writing.acts.import_act import ImportActs, ImportAnswer, ImportRequest
from knowledge.writing.acts.merge_act import MergeActs
from knowledge.writing.acts.merge_work import MergeOutcome, unwritten
from knowledge.writing.acts.move_act import MoveActs
from knowledge.writing.acts.ports import PageActs
from knowledge.writing.answers import ChangeAnswer, Merged, join_notes
from knowledge.writing.effect import Effect, digest_in, effect_in
from knowledge.writing.evidence.citation_check import CitationCheck, Cited
from knowledge.writing.evidence.judge import ContradictionJudge, PairJudgement
from knowledge.writing.model import ActDone, ActWork, Contents, PageAct, Rehearsed, Stakes
from knowledge.writing.related.backlinks import Backlinks, bearers_of, link_names, names_in
from knowledge.writing.related.target_page import PageLookup, Target, may_configure, new_page_path, slug, text_of
from knowledge.writing.requests import (
    Approval,
    ChangeRequest,
    DeleteRequest,
    MergeRequest,
    MoveRequest,
    RelinkRequest,
    RevertRequest,
)
from knowledge.writing.stakes import Appraiser
from knowledge.writing.undo.past_act import UndoAnswer, UndoRequest
from knowledge.writing.undo.undo_acts import UndoActs

LARGE_CHARACTERS = 16_000
"""From this length of content and page together, the merge is computed once before the lock, while it can still be cancelled."""

R = TypeVar("R")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class WriteCheck:
    """A page before and after a write, in a knowledge base; `called` is from `Backlinks.called`.

    `made` and `gone` are the files that the same act makes and removes, whether or not it has done so yet.
    """

    vault: Vault
    path: str
    before: str
    after: str
    called: Mapping[str, Sequence[str]]
    made: frozenset[str] = frozenset()
    gone: frozenset[str] = frozenset()


def damage_in(check: WriteCheck) -> PageDamage:
    """Return the faults that the page did not have before."""
    names = names_in(check.vault, check.called, made=check.made, gone=check.gone)
    return find_damage(check.path, check.before, check.after, names=names)


@dataclass(frozen=True, slots=True)
class WritePlan(Generic[R, T]):
    """A call's planned act on pages: `request` with the page that it means, and the `act`, whose result contains the answer.

    `requested` are the names by which the pages were requested. `rehearsed` is what the act would do to the pages as they were,
    `answer` is what the call would return, and `effect` has the changes of files. All three are None if nobody has to see them
    first: then they are computed once, from the pages under their locks. `stakes` are those found when planning; when the act is
    carried out, no more may be at stake. `note` is added to the answer.
    """

    request: R
    act: PageAct[Any]
    requested: Sequence[str]
    stakes: Stakes = field(default_factory=Stakes)
    rehearsed: Rehearsed[Any] | None = None
    answer: T | None = None
    effect: Effect | None = None
    note: str = ""


WHICH_PAGE = (
    "nothing is written: several pages could be meant; send this call again with the arguments of one of `places`"
)

MOST_PAGES_UNSEARCHED = 8
"""Pages of a directory that are considered if search finds none."""
MOST_SISTERS_READ, MOST_OF_SISTERS = 200, 2_000_000
"""The most pages, and the most characters of them, that are read to find sister pages of those that search found."""
FindSections = Callable[[str, str], Awaitable[Sequence[tuple[str, tuple[str, ...]]]]]
"""Returns the sections under a directory, as page and heading path, whose passages answer a text best: the text, the directory."""


class Writer:
    """Plans and carries out what callers request. Engines are used only to find a place for a text."""

    def __init__(
        self,
        *,
        vault: Vault,
        past: PastStates,
        acts: PageActs,
        pages: PageLookup,
        merging: MergeActs,
        moving: MoveActs,
        importing: ImportActs,
        undoing: UndoActs,
        backlinks: Backlinks,
        elsewhere: CrossPageClaims,
        sections_like: FindSections,
        similarity: Similarity,
        citations: CitationCheck,
        appraiser: Appraiser,
        judge: ContradictionJudge | None = None,
        runner: StepRunner | None = None,
    ) -> None:
        self._vault, self._past, self._acts, self._pages = vault, past, acts, pages
        self._merging, self._moving, self._undoing, self._backlinks = merging, moving, undoing, backlinks
        self._importing = importing
        self._elsewhere, self._sections_like, self._similarity = elsewhere, sections_like, similarity
        self._citations, self._appraiser, self._judge, self._runner = (
            citations,
            appraiser,
            judge,
            runner or InlineRunner(),
        )

    async def plan_merge(
        self, request: MergeRequest, *, unseen: bool = False, agreed: bool = False, dry_run: bool = False
    ) -> WritePlan[MergeRequest, Merged]:
        """Return the plan of a merge: its page, and the effect that it would have now. Changes nothing.

        With `unseen`, nobody has to see the effect first. The act is then not rehearsed if request and path alone tell
        which page is meant and that it configures nothing. An act that a person has `agreed` to is not rehearsed
        either: once the locks are held, its effect is compared with the one that the person saw. With `dry_run` the act
        will not be carried out, so its effect is not computed.

        Raises:
            NoSuchSource: a cited source does not exist.
            KnowledgeError: the request can't be met; the message says why.
        """
        name, note = request.path, None
        request = await self._with_texts(request)
        target = await self._pages.target(name)
        # Without a base revision the outcome may be an analysis, which the caller has to see.
        unseen = unseen and target.kind == "page" and request.base_revision is not None
        if target.kind == "directory":
            target, places, note = await self._placed(request, target.path)
            if places:
                return await self._offering(replace(request, path=target.path), places, note)
        if unseen and any(map(may_configure, await self._appraiser.names(target.path, name))):
            unseen = False
        requests = (*request.earlier, replace(request, path=target.path))
        cited = [await self._cited(one) for one in requests]
        *earlier, (last, verified) = [(one.request, one.verified) for one in cited]
        act = self._merging.act(last, verified=verified, similarity=self._similarity, earlier=earlier)
        # The plan keeps the original requests, with the judgements, so that a model is not asked about them again.
        judgements = [one.request.judgement for one in cited]
        *before, request = [replace(one, judgement=j) for one, j in zip(requests, judgements, strict=True)]
        request = replace(request, earlier=tuple(before))
        notes = join_notes(*dict.fromkeys([*(one.note for one in cited), *(one.note for one in judgements if one)]))
        names = [name, request.path]
        if unseen or agreed:
            return WritePlan(request, act, names, note=notes)
        rehearsed, stakes, effect = await self._rehearsed(act, names, dry_run=dry_run)
        merged = rehearsed.work.result.merged
        merged = replace(merged, note=join_notes(note, notes, merged.note) or None)
        # The next call may name the revision of the analysis as its base.
        if merged.status == "analysis":
            await self.shown(request.path)
        return WritePlan(request, act, names, stakes, rehearsed, merged, effect, notes)

    async def _offering(
        self, request: MergeRequest, places: Sequence[OfferedPlace], note: str
    ) -> WritePlan[MergeRequest, Merged]:
        """Return the plan that writes nothing and says where the text could go."""
        asks = unwritten(request, None, note, places)

        async def work(_contents: Contents) -> ActWork[MergeOutcome]:
            return asks

        act = PageAct(request.actor, (places[0].path,), work, intent=request.intent)
        rehearsed, stakes, _ = await self._rehearsed(act, [request.path], dry_run=True)
        return WritePlan(request, act, [request.path], stakes, rehearsed, asks.result.merged)

    async def plan_change(
        self, request: ChangeRequest, *, agreed: bool = False, dry_run: bool = False
    ) -> WritePlan[ChangeRequest, ChangeAnswer]:
        """Return the effect that moving, deleting or restoring a page would have now; `agreed` and `dry_run` as in `plan_merge`."""
        names = [request.path, getattr(request, "to", "")]
        request = await self._resolved(request)
        if isinstance(request, MoveRequest):
            linking = {
                *await self._backlinks.to(request.path),
                *await self._backlinks.captured(request.path, request.to),
            }
            act = self._moving.move(request, sorted(linking))
        elif isinstance(request, DeleteRequest):
            act = self._moving.delete(request, await self._backlinks.to(request.path))
        else:
            act = await self._moving.revert(request)
        names.append(request.path)
        if agreed:
            return WritePlan(request, act, names)
        rehearsed, stakes, effect = await self._rehearsed(act, names, dry_run=dry_run)
        return WritePlan(request, act, names, stakes, rehearsed, rehearsed.work.result, effect)

    async def plan_edits(
        self,
        requests: Sequence[MergeRequest],
        adopt: Callable[[Origin], Origin] | None = None,
        premises: Mapping[str, Callable[[bytes], bool]] | None = None,
    ) -> WritePlan[MergeRequest, Sequence[Merged]]:
        """Return the effect that a person's edits of different existing pages, made as one act, would have now.

        `adopt` and `premises` are as in `MergeActs.edits`.
        """
        act = self._merging.edits(requests, adopt, premises)
        names = [request.path for request in requests]
        rehearsed, stakes, effect = await self._rehearsed(act, names, dry_run=False)
        answers = [outcome.merged for outcome in rehearsed.work.result]
        return WritePlan(requests[0], act, names, stakes, rehearsed, answers, effect)

    async def plan_import(self, request: ImportRequest) -> WritePlan[ImportRequest, ImportAnswer]:
        """Return the effect that importing a page would have now.

        Raises:
            KnowledgeError: it can't be imported; the message says why.
        """
        act, names = self._importing.act(request), [request.path]
        rehearsed, stakes, _ = await self._rehearsed(act, names, dry_run=True)
        return WritePlan(request, act, names, stakes, rehearsed, rehearsed.work.result)

    async def plan_relink(self, request: RelinkRequest) -> WritePlan[RelinkRequest, ChangeAnswer]:
        """Return the effect that rewriting links to a page that has moved already would have now."""
        act = self._moving.relink(request, await self._backlinks.mentioning(request.old))
        rehearsed, stakes, effect = await self._rehearsed(act, [], dry_run=False)
        return WritePlan(request, act, [], stakes, rehearsed, rehearsed.work.result, effect)

    async def relink(
        self, plan: WritePlan[RelinkRequest, ChangeAnswer], approval: Approval
    ) -> tuple[ChangeAnswer, int | None]:
        """Rewrite the links as planned; return the answer and the number of the audit record, None if nothing was written.

        Raises:
            EffectChanged, WriteUndone: as `merge`.
        """
        done, _ = await self._run(plan, approval)
        answer: ChangeAnswer = done.result
        return answer, done.record.seq if done.record else None

    async def plan_undo(self, request: UndoRequest) -> WritePlan[UndoRequest, UndoAnswer]:
        """Return the effect that taking these acts back would have now."""
        act = await self._undoing.act(request)
        rehearsed, stakes, effect = await self._rehearsed(act, [], dry_run=False)
        return WritePlan(request, act, [], stakes, rehearsed, rehearsed.work.result, effect)

    @recorded("plan")
    async def _rehearsed(
        self, act: PageAct[Any], names: Sequence[str], *, dry_run: bool
    ) -> tuple[Rehearsed[Any], Stakes, Effect | None]:
        rehearsed = await self._acts.rehearse(act)
        stakes = await self._appraiser.stakes(rehearsed.contents, rehearsed.work, requested=names)
        effect = None if dry_run else await self._of_effect(effect_in, rehearsed.contents, rehearsed.work, stakes)
        return rehearsed, stakes, effect

    async def rules(self, path: str) -> Rules:
        """Return how the directories above the page at `path` weigh evidence."""
        return (await self._pages.surroundings(path)).rules

    async def shown(self, path: str) -> str | None:
        """Return the page's revision, None if there is no page, and keep its text so that a write may be based on it."""
        try:
            file = await anyio.to_thread.run_sync(self._vault.read, path)
        except KnowledgeError:
            return None
        await self._past.shown(path, file.raw, file.revision)
        return file.revision

    async def merge(self, plan: WritePlan[MergeRequest, Merged], approval: Approval | None = None) -> Merged:
        """Merge as planned, into the current page.

        Raises:
            ConfiguresNow, UnmarksNow: because of the page's current text, more would be at stake than when it was planned.
            EffectChanged: the effect would differ from the one that a person approved.
            WriteUndone: the written pages were found wrong, and the act was undone.
        """
        request, page = plan.request, self._vault.find(plan.request.path)
        if len(request.content) + (page.stamp.size if page else 0) > LARGE_CHARACTERS:
            # Nothing can be cancelled while pages are locked. Results from earlier steps are not computed again.
            await self._acts.rehearse(plan.act)
        done, warnings = await self._run(plan, approval)
        outcome: MergeOutcome = done.result
        merged = replace(outcome.merged, note=join_notes(plan.note, outcome.merged.note, *warnings) or None)
        if outcome.brought and merged.revision is not None:
            self._elsewhere.enqueue(Written(request.actor, request.path, outcome.brought))
        if outcome.known is not None:
            # With the page's own revision as base, text that others wrote would count as read, and as removed when the caller
            # sends the page without it. So the answer names the page as the caller knows it, which is kept as shown.
            revision = revision_of(outcome.known)
            await self._past.shown(request.path, outcome.known, revision)
            note = f"others also wrote to the page; read it to see their changes (revision {merged.revision})"
            return replace(merged, revision=revision, note=join_notes(merged.note, note))
        if merged.status in ("unchanged", "conflict", "analysis"):
            await self.shown(request.path)
        return merged

    async def change(
        self, plan: WritePlan[ChangeRequest, ChangeAnswer], approval: Approval | None = None
    ) -> ChangeAnswer:
        """Move, delete or restore the page as planned.

        Raises:
            ConfiguresNow, UnmarksNow, EffectChanged, WriteUndone: as `merge`.
        """
        done, _ = await self._run(plan, approval)
        changed: ChangeAnswer = done.result
        return changed

    async def edit(self, plan: WritePlan[MergeRequest, Sequence[Merged]]) -> tuple[Sequence[Merged], int | None]:
        """Make the edits as planned; return each outcome and the number of their audit record, None if nothing was written.

        If one of them is not `done`, because its page was changed in the same place meanwhile, nothing was written.

        Raises:
            ConfiguresNow, UnmarksNow, WriteUndone: as `merge`.
        """
        done, warnings = await self._run(plan, None)
        outcomes: Sequence[MergeOutcome] = done.result
        merged = [replace(one.merged, note=join_notes(one.merged.note, *warnings) or None) for one in outcomes]
        if done.record is None:
            return merged, None
        for outcome in outcomes:
            if outcome.brought:
                self._elsewhere.enqueue(Written(plan.request.actor, outcome.merged.path, outcome.brought))
        return merged, done.record.seq

    async def take_in(self, plan: WritePlan[ImportRequest, ImportAnswer]) -> ImportAnswer:
        """Import the page as planned, into the page as it is by now.

        Raises:
            ConfiguresNow, UnmarksNow, WriteUndone: as `merge`.
        """
        request = plan.request
        done, warnings = await self._run(plan, None)
        answer: ImportAnswer = done.result
        if answer.status == "changed":
            # The page also has the edits of people, and the next import is compared with what this one brought.
            await self._past.shown(request.path, request.raw, revision_of(request.raw))
        return replace(answer, note=join_notes(answer.note, *warnings))

    async def undo(self, plan: WritePlan[UndoRequest, UndoAnswer], approval: Approval) -> tuple[UndoAnswer, int | None]:
        """Take the acts back as planned; return the outcome and the number of its audit record, None if nothing was written.

        Faults that the pages then have are reported as remarks, because a person has seen the effect, and the pages may
        have had these faults before.

        Raises:
            EffectChanged: the effect would differ from the planned one.
        """
        done, warnings = await self._run(plan, approval)
        answer: UndoAnswer = done.result
        return replace(answer, notes=[*answer.notes, *warnings]), done.record.seq if done.record else None

    async def _with_texts(self, request: MergeRequest) -> MergeRequest:
        """Return the request, and those before it, with the text of the source where they have none of their own."""
        earlier = tuple([await self._citations.with_text(one) for one in request.earlier])
        return replace(await self._citations.with_text(request), earlier=earlier)

    async def _cited(self, request: MergeRequest) -> Cited:
        """Return the request with its citations looked up and judged by a model.

        No page is locked in the meantime, and a person's edit, which cites nothing, does not wait for it.
        """
        if request.source == USER and not request.corroboration:
            return Cited(request, ())
        cited = await self._citations.cited(request)
        request = cited.request
        if self._judge is None or request.source == USER or request.judgement is not None:
            return cited
        try:
            file = await anyio.to_thread.run_sync(self._vault.read, request.path)
            pairs = await self._merging.undecided(request, file.raw, cited.verified, self._similarity)
        except KnowledgeError:  # merging reports it
            return cited
        judgement = await self._judge.judged(pairs) if pairs else PairJudgement()
        return replace(cited, request=replace(request, judgement=judgement))

    @recorded("write")
    async def _run(self, plan: WritePlan[Any, Any], approval: Approval | None) -> tuple[ActDone[Any], Sequence[str]]:
        """Carry out the act, if its effect is still what was decided; check what it wrote, and undo it if that is wrong.

        A person's edit is not undone for faults that may be intended; warnings name them.
        """
        is_edit = isinstance(plan.request, ImportRequest) or (
            isinstance(plan.request, MergeRequest) and plan.request.source == USER
        )
        is_undo = isinstance(plan.request, UndoRequest)
        warnings: list[str] = []
        seen: dict[str, bytes | None] = {}
        path = plan.act.paths[0]

        async def work(contents: Contents) -> ActWork[Any]:
            seen.clear()
            seen.update(contents)
            found = await plan.act.work(contents)
            stakes = await self._appraiser.stakes(contents, found, requested=plan.requested)
            if approval is not None:
                if await self._of_effect(digest_in, contents, found, stakes) != approval.effect:
                    raise EffectChanged(path)
            # Two edits that are harmless alone can configure something together, and a link may have been put into the path since.
            elif stakes.configures and not plan.stakes.configures:
                raise ConfiguresNow(path)
            elif new := set(stakes.unmarks) - set(plan.stakes.unmarks):
                raise UnmarksNow(path, sorted(new))
            return replace(found, places=stakes.places)

        async def check(written: Contents) -> Sequence[str]:
            found = await self._damage(seen, written)
            allowed = [*found.broken, *found.doubtful] if is_undo else found.doubtful if is_edit else []
            warnings[:] = [f"warning: {sentence}" for sentence in allowed]
            return [sentence for sentence in (*found.broken, *found.doubtful) if sentence not in allowed]

        act = replace(plan.act, work=work, check=check)
        if approval is not None:
            act = replace(act, proposal=approval.proposal or None, decision=approval.decision)
        done = await self._acts.run(act)
        if done.undone:
            raise WriteUndone(path, done.undone)
        return done, warnings

    async def _of_effect(
        self,
        step: Callable[[tuple[Contents, ActWork[Any], Stakes]], T],
        contents: Contents,
        work: ActWork[Any],
        stakes: Stakes,
    ) -> T:
        """Run `step` on the file changes of an act, in another process if they are large, and return its result."""
        size = sum(len(raw) for raw in (*contents.values(), *work.contents.values()) if raw is not None)
        # Only the changes of files are used, so the rest of a large work is not sent to another process.
        planned = (dict(contents), replace(work, result=None, origins={}), stakes)
        return await self._runner.run(step, planned, size=size, what="showing what would change")

    async def _damage(self, before: Contents, written: Contents) -> PageDamage:
        """Return the faults that the pages did not have before."""
        broken: list[str] = []
        doubtful: list[str] = []
        names_used = partial(link_names, ordinary=self._vault.is_obsidian())
        made = frozenset(path for path, raw in written.items() if raw is not None)
        bearers = bearers_of(made)

        async def checked(path: str, old: str, new: str, names: set[str]) -> WriteCheck:
            called = await self._backlinks.called(names, bearers)
            return WriteCheck(self._vault, path, old, new, called, made, frozenset(written) - made)

        for path, raw in written.items():
            was = before.get(path)
            if raw is None or was is None or is_canvas(path):
                continue
            old, new = text_of(path, was), text_of(path, raw)
            size, what = len(old) + len(new), f"checking {path}"
            # The page is locked during that. So this is a step of the server itself, which does not queue behind the caller's own.
            own = CALLER.set("")
            try:
                names = await self._runner.run(names_used, (old, new), size=size, what=what)
                check = await checked(path, old, new, names)
                found = await self._runner.run(damage_in, check, size=size, what=what)
            except (TooMuchWork, TooMuchWaiting):
                # The page is written already, so it is checked in this process, however long that takes.
                names = await anyio.to_thread.run_sync(names_used, (old, new))
                check = await checked(path, old, new, names)
                found = await anyio.to_thread.run_sync(damage_in, check)
            finally:
                CALLER.reset(own)
            broken += found.broken
            doubtful += found.doubtful
        return PageDamage(broken, doubtful)

    async def _placed(self, request: MergeRequest, directory: str) -> tuple[Target, Sequence[OfferedPlace], str]:
        """Return the target of a text for a directory, the places to choose from, and a note for the caller.

        The target is the directory's only page, or a new page in an empty directory. Otherwise there are places.
        """
        under = f"under {directory or 'the root'}"
        there = await self._pages.first_pages(directory, MOST_PAGES_UNSEARCHED)
        if len(there) == 1:
            return Target(there[0], "page"), (), f"{there[0]} is the only page {under}"
        size, what = len(request.content), "finding a place for the text"
        title = await self._runner.run(first_heading, request.content, size=size, what=what)
        new = f"{directory}/{slug(title)}.md" if directory else f"{slug(title)}.md"
        # Search may find nothing because no page is indexed yet, so the first pages are considered instead.
        found = await self._sections_like(request.content, directory)
        paths = list(dict.fromkeys(path for path, _ in found)) or there
        texts = [CandidatePage(path, text) for path in paths if (text := await self._text(path)) is not None]
        if not texts:
            if not title:
                raise InvalidPath(
                    request.path,
                    "it is a directory without pages; name a page, or begin the text with a heading and a new page is made",
                )
            return await self._pages.target(new), (), f"there is no page {under}, so it becomes the first"
        texts += await self._sisters(SisterSearch(request.content, texts), what)
        size += sum(len(page.text) for page in texts)
        unplaced = UnplacedText(request.content, texts, self._similarity, found)
        places = await self._runner.run(places_among_pages, unplaced, size=size, what=what)
        note = f"{WHICH_PAGE}; path={new!r} makes a page of its own" if title else WHICH_PAGE
        return Target(directory, "directory"), places, note

    async def _sisters(self, search: SisterSearch, what: str) -> Sequence[CandidatePage]:
        """Return the pages that search did not find because they lack the text's heading, which their sister pages have."""
        known, others, room = {page.path for page in search.found}, list[CandidatePage](), MOST_OF_SISTERS
        size = len(search.content) + sum(len(page.text) for page in search.found)
        for folder in await self._runner.run(folders_of_sisters, search, size=size, what=what):
            for path in await self._pages.first_pages(folder, MOST_SISTERS_READ):
                if path in known or room <= 0 or len(others) == MOST_SISTERS_READ:
                    continue
                known.add(path)
                if (text := await self._text(path)) is not None:
                    others.append(CandidatePage(path, text))
                    room -= len(text)
        if not others:
            return ()
        size += MOST_OF_SISTERS - room
        return await self._runner.run(sisters_among, replace(search, others=others), size=size, what=what)

    async def _text(self, path: str) -> str | None:
        try:
            file = await anyio.to_thread.run_sync(self._vault.read, path)
            return text_of(path, file.raw)
        except KnowledgeError:
            return None

    async def _resolved(self, request: ChangeRequest) -> ChangeRequest:
        """Return the request with the real paths of its pages."""
        if isinstance(request, RevertRequest):
            target = await self._pages.target(request.path)
            return replace(request, path=target.path if target.kind != "directory" else clean_path(request.path))
        path = await self._pages.existing(request.path)
        if isinstance(request, DeleteRequest):
            return replace(request, path=path)
        to = clean_path(request.to)
        if not is_markdown(to) and (await self._pages.target(to)).kind == "directory":
            to = f"{to}/{path.rpartition('/')[2]}" if to else path.rpartition("/")[2]
        to = await self._pages.made_at(new_page_path(to))
        if to == path:
            raise InvalidPath(request.to, "the page is there already")
        return replace(request, path=path, to=to)
