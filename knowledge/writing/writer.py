"""Changing pages for a caller: what would happen, and doing it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import anyio.to_thread

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
from knowledge.history.past_states import Past
from knowledge.merge.damage import problems
from knowledge.merge.document.units import first_heading
from knowledge.merge.evidence.confidence import USER
from knowledge.merge.evidence.placement import Similarity, best_page
from knowledge.offload import CALLER, Aside, Here
from knowledge.pages.paths import clean_path, is_markdown
from knowledge.pages.vault import Vault, revision_of
from knowledge.writing.acts.merge_act import MergeOutcome, Merging
from knowledge.writing.acts.move_act import Moving
from knowledge.writing.answers import ChangeAnswer, Merged
from knowledge.writing.effect import Effect, digest_in, effect_in
from knowledge.writing.evidence.citation_check import CitationCheck, Cited, slug
from knowledge.writing.evidence.judge import ContradictionJudge, PairJudgement
from knowledge.writing.model import ActDone, ActWork, Contents, PageAct, Rehearsed, Stakes
from knowledge.writing.related.backlinks import Linking, names_in, wiki_names
from knowledge.writing.related.cross_page import CrossPageClaims, Written
from knowledge.writing.related.related_pages import Related
from knowledge.writing.related.target_page import PageLookup, Target, may_configure, new_page_path, text_of
from knowledge.writing.requests import Approval, ChangeRequest, DeleteRequest, MergeRequest, MoveRequest, RevertRequest
from knowledge.writing.stakes import Appraiser

FORESEEN_CHARACTERS = 16_000
"""Content and page from this length on are merged in mind before the page is held."""

R = TypeVar("R")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class WriteCheck:
    """A page before and after a write, in the knowledge base at `root`; `called` is from `Linking.called`."""

    root: Path
    path: str
    before: str
    after: str
    called: Mapping[str, Sequence[str]]


def wrong_in(check: WriteCheck) -> list[str]:
    """Return what is wrong with the page and was not before."""
    names = names_in(Vault(check.root), check.called)
    return problems(check.path, check.before, check.after, names=names)


class Transactions(Protocol):
    """Does acts to files, atomically and on record."""

    async def run(self, act: PageAct[T]) -> ActDone[T]:
        """Do it."""
        ...

    async def rehearse(self, act: PageAct[T]) -> Rehearsed[T]:
        """Return what doing it would do now. Changes nothing."""
        ...


@dataclass(frozen=True, slots=True)
class WritePlan(Generic[R, T]):
    """What a call would do to pages: `request` with the page that it means, and the `act`, whose result holds the answer.

    `asked` are the names that the pages were asked for by. `rehearsed` is what the act would do to the pages as they were,
    `answer` what the call would answer, and `effect` what would become of files; all None where nobody has to see that before:
    then it is worked out once, from the pages as they are under their locks. `stakes` are those that were found; no more may be
    at stake when it is done. `note` is for the answer.
    """

    request: R
    act: PageAct[Any]
    asked: Sequence[str]
    stakes: Stakes = field(default_factory=Stakes)
    rehearsed: Rehearsed[Any] | None = None
    answer: T | None = None
    effect: Effect | None = None
    note: str = ""


class Writer:
    """Plans and does what callers ask. What it needs of engines is asked for only when something has to be placed."""

    def __init__(
        self,
        *,
        vault: Vault,
        past: Past,
        acts: Transactions,
        pages: PageLookup,
        merging: Merging,
        moving: Moving,
        linking: Linking,
        elsewhere: CrossPageClaims,
        related: Related,
        similarity: Similarity,
        witnesses: CitationCheck,
        appraiser: Appraiser,
        judge: ContradictionJudge | None = None,
        aside: Aside | None = None,
    ) -> None:
        self._vault, self._past, self._acts, self._pages = vault, past, acts, pages
        self._merging, self._moving, self._linking = merging, moving, linking
        self._elsewhere, self._related, self._similarity = elsewhere, related, similarity
        self._witnesses, self._appraiser, self._judge, self._aside = witnesses, appraiser, judge, aside or Here()

    async def plan_merge(
        self, request: MergeRequest, *, unseen: bool = False, agreed: bool = False, dry_run: bool = False
    ) -> WritePlan[MergeRequest, Merged]:
        """Return what merging would do now, and into which page. Changes nothing.

        `unseen`: nobody has to see what would happen. Where request and path alone tell which page is meant and that it
        configures nothing, it is not rehearsed; nor is what a person has `agreed` to, for the effect that they saw must be the
        one under the locks. `dry_run`: nothing is going to happen, so its effect is not worked out.

        Raises:
            NoSuchSource: what it cites does not exist.
            KnowledgeError: the request cannot be met; the message says why.
        """
        asked, note = request.path, None
        target = await self._pages.target(asked)
        unseen = unseen and target.kind == "page" and request.base_revision is not None
        if target.kind == "directory":
            target, note = await self._placed(request, target.path)
        if unseen and any(map(may_configure, await self._appraiser.names(target.path, asked))):
            unseen = False
        request = replace(request, path=target.path)
        cited = [await self._cited(one) for one in (*request.earlier, request)]
        *earlier, last = [(one.request, one.verified) for one in cited]
        act = self._merging.act(last[0], verified=last[1], similarity=self._similarity, earlier=earlier)
        judgements = [one.request.judgement for one in cited]
        *before, request = [
            replace(one, judgement=judgement)
            for one, judgement in zip((*request.earlier, request), judgements, strict=True)
        ]
        request = replace(request, earlier=tuple(before))
        told = _joined(*dict.fromkeys([*(one.note for one in cited), *(one.note for one in judgements if one)]))
        names = [asked, request.path]
        if unseen or agreed:
            return WritePlan(request, act, names, note=told)
        rehearsed = await self._acts.rehearse(act)
        merged = rehearsed.result.merged
        merged = replace(merged, note=_joined(note, told, merged.note) or None)
        if merged.status == "analysis":
            await self.shown(request.path)
        stakes = await self._appraiser.stakes(rehearsed.contents, rehearsed.work, asked=names)
        effect = None if dry_run else await self._of_effect(effect_in, rehearsed.contents, rehearsed.work, stakes)
        return WritePlan(request, act, names, stakes, rehearsed, merged, effect, told)

    async def shown(self, path: str) -> str | None:
        """Return the page's revision, None if there is no page; a write may be based on it from now on."""
        try:
            file = await anyio.to_thread.run_sync(self._vault.read, path)
        except KnowledgeError:
            return None
        await self._past.shown(path, file.raw, file.revision)
        return file.revision

    async def merge(self, plan: WritePlan[MergeRequest, Merged], approval: Approval | None = None) -> Merged:
        """Merge as planned, with what is in the page by now.

        Raises:
            ConfiguresNow, UnmarksNow: more would be at stake than when it was planned, with what is there by now.
            EffectChanged: something else would happen than a person agreed to.
            WriteUndone: what was written was found wrong and taken back.
        """
        request, there = plan.request, self._vault.look(plan.request.path)
        if len(request.content) + (there.stamp.size if there else 0) > FORESEEN_CHARACTERS:
            # While pages are held nothing is cancelled. What is worked out before is not worked out again.
            await self._acts.rehearse(plan.act)
        done = await self._run(plan, approval)
        outcome: MergeOutcome = done.result
        merged = replace(outcome.merged, note=_joined(plan.note, outcome.merged.note) or None)
        if outcome.brought and merged.revision is not None:
            self._elsewhere.look(Written(request.actor, request.path, merged.revision, outcome.brought))
        if outcome.known is not None:
            # With the page's own revision as base, what others wrote would count as read, and as taken out by who sends the
            # page without it. So the answer has that of the page as the caller knows it, kept as what was shown to it.
            revision = revision_of(outcome.known)
            await self._past.shown(request.path, outcome.known, revision)
            note = f"others have written in the page too, which is at {merged.revision}: to see it all, read it"
            return replace(merged, revision=revision, note=_joined(merged.note, note))
        if merged.status in ("unchanged", "conflict", "analysis"):
            await self.shown(request.path)
        return merged

    async def _cited(self, request: MergeRequest) -> Cited:
        """Return what is cited, looked up, with what a model holds of it.

        No page is locked meanwhile, and a person's edit, which cites nothing, waits for none of it.
        """
        if request.source == USER and not request.corroboration:
            return Cited(request, ())
        cited = await self._witnesses.cited(request)
        request = cited.request
        if self._judge is None or request.source == USER or request.judgement is not None:
            return cited
        try:
            file = await anyio.to_thread.run_sync(self._vault.read, request.path)
            pairs = await self._merging.undecided(request, file.raw, cited.verified, self._similarity)
        except KnowledgeError:  # merging says what is wrong
            return cited
        judgement = await self._judge.judged(pairs) if pairs else PairJudgement()
        return replace(cited, request=replace(request, judgement=judgement))

    async def _run(self, plan: WritePlan[Any, Any], approval: Approval | None) -> ActDone[Any]:
        """Do the act as planned, which does only what was decided on; look at what it wrote, and take it back if that is wrong."""
        seen: dict[str, bytes | None] = {}
        path = plan.act.paths[0]

        async def work(contents: Contents) -> ActWork[Any]:
            seen.clear()
            seen.update(contents)
            found = await plan.act.work(contents)
            stakes = await self._appraiser.stakes(contents, found, asked=plan.asked)
            if approval is not None:
                if await self._of_effect(digest_in, contents, found, stakes) != approval.effect:
                    raise EffectChanged(path)
            # Two edits that are harmless alone can configure something together, and so can a link that was put in the way.
            elif stakes.configures and not plan.stakes.configures:
                raise ConfiguresNow(path)
            elif new := set(stakes.unmarks) - set(plan.stakes.unmarks):
                raise UnmarksNow(path, sorted(new))
            return replace(found, places=stakes.places)

        async def check(written: Contents) -> Sequence[str]:
            return await self._problems(seen, written)

        act = replace(plan.act, work=work, check=check)
        if approval is not None:
            act = replace(act, proposal=approval.proposal, decision=approval.decision)
        done = await self._acts.run(act)
        if done.undone:
            raise WriteUndone(path, done.undone)
        return done

    async def _of_effect(
        self,
        look: Callable[[tuple[Contents, ActWork[Any], Stakes]], T],
        contents: Contents,
        work: ActWork[Any],
        stakes: Stakes,
    ) -> T:
        """Return what `look` tells of what doing it would do to files."""
        size = sum(len(raw) for raw in (*contents.values(), *work.contents.values()) if raw is not None)
        # Of the work only what becomes of files is looked at: the rest of a large one need not be sent.
        asked = (dict(contents), replace(work, result=None, origins={}), stakes)
        return await self._aside.run(look, asked, size=size, what="showing what would change")

    async def _problems(self, before: Contents, written: Contents) -> list[str]:
        found: list[str] = []
        for path, raw in written.items():
            was = before.get(path)
            if raw is None or was is None:
                continue
            old, new = text_of(path, was), text_of(path, raw)
            if len(old) + len(new) <= FORESEEN_CHARACTERS:
                found += problems(path, old, new, names=await self._linking.names([old, new]))
                continue
            found += await self._problems_of_large(path, old, new)
        return found

    async def _problems_of_large(self, path: str, old: str, new: str) -> Sequence[str]:
        """Return what is wrong with a large page, found out in another process.

        The page is held meanwhile. So it is the server's own step, which waits for none of the caller's, and a page that takes
        more than a step may take is looked at here: it is written already.
        """
        size, what = len(old) + len(new), f"checking {path}"
        own = CALLER.set("")
        try:
            names = await self._aside.run(wiki_names, (old, new), size=size, what=what)
            check = WriteCheck(self._vault.root, path, old, new, await self._linking.called(names))
            return await self._aside.run(wrong_in, check, size=size, what=what)
        except (TooMuchWork, TooMuchWaiting):
            names = await anyio.to_thread.run_sync(wiki_names, (old, new))
            check = WriteCheck(self._vault.root, path, old, new, await self._linking.called(names))
            return await anyio.to_thread.run_sync(wrong_in, check)
        finally:
            CALLER.reset(own)

    async def _placed(self, request: MergeRequest, directory: str) -> tuple[Target, str]:
        """Return the page under `directory` that the content belongs to, or that is to be made for it, and why."""
        under = f"under {directory or 'the root'}"
        sketches = await self._related.near(request.content, directory)
        chosen = best_page(request.content, sketches, self._similarity)
        if chosen.path is not None:
            return Target(chosen.path, "page"), f"of the pages {under}, {chosen.path} fits best ({chosen.score:.2f})"
        size, what = len(request.content), "finding a place for the text"
        title = await self._aside.run(first_heading, request.content, size=size, what=what)
        if not title:
            raise InvalidPath(
                request.path,
                "it is a directory and none of its pages speaks of this; name a page, or begin the text with a heading "
                "and a new page is made",
            )
        path = f"{directory}/{slug(title)}.md" if directory else f"{slug(title)}.md"
        target = await self._pages.target(path)
        return target, f"no page {under} speaks of this, so it is a page of its own"

    async def plan_change(
        self, request: ChangeRequest, *, agreed: bool = False, dry_run: bool = False
    ) -> WritePlan[ChangeRequest, ChangeAnswer]:
        """Return what moving, deleting or bringing back a page would do now; `agreed` and `dry_run` as of `plan_merge`."""
        names = [request.path, getattr(request, "to", "")]
        request = await self._resolved(request)
        if isinstance(request, MoveRequest):
            act = self._moving.move(request, await self._linking.to(request.path))
        elif isinstance(request, DeleteRequest):
            act = self._moving.delete(request, await self._linking.to(request.path))
        else:
            act = await self._moving.revert(request)
        names.append(request.path)
        if agreed:
            return WritePlan(request, act, names)
        rehearsed = await self._acts.rehearse(act)
        stakes = await self._appraiser.stakes(rehearsed.contents, rehearsed.work, asked=names)
        effect = None if dry_run else await self._of_effect(effect_in, rehearsed.contents, rehearsed.work, stakes)
        return WritePlan(request, act, names, stakes, rehearsed, rehearsed.result, effect)

    async def change(
        self, plan: WritePlan[ChangeRequest, ChangeAnswer], approval: Approval | None = None
    ) -> ChangeAnswer:
        """Move, delete or bring back the page as planned.

        Raises:
            ConfiguresNow, UnmarksNow, EffectChanged, WriteUndone: as `merge`.
        """
        changed: ChangeAnswer = (await self._run(plan, approval)).result
        return changed

    async def _resolved(self, request: ChangeRequest) -> ChangeRequest:
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


def _joined(*notes: str | None) -> str:
    return "; ".join(note for note in notes if note)
