"""Changing pages for a caller: what would happen, and doing it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

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
from knowledge.writing.effect import Effect, effect_in
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
class Preview:
    """What a merge would answer, the request with the page that it means, and what is at stake in it."""

    request: MergeRequest
    merged: Merged
    stakes: Stakes
    rehearsed: Rehearsed[MergeOutcome]


@dataclass(frozen=True, slots=True)
class ChangePreview:
    """The same of a move, a deletion or a return."""

    request: ChangeRequest
    changed: ChangeAnswer
    stakes: Stakes
    rehearsed: Rehearsed[ChangeAnswer]


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

    async def aimed(self, request: MergeRequest) -> MergeRequest | None:
        """Return the request for the page that it names; None where only a preview tells page or effect.

        That is so without a page or a base, where the page may configure the server, and where its text is marked as somebody
        else's.
        """
        if request.base_revision is None:
            return None
        target = await self._pages.target(request.path)
        if target.kind != "page" or any(map(may_configure, await self._appraiser.names(target.path, request.path))):
            return None
        return None if await self._appraiser.marked(target.path) else replace(request, path=target.path)

    async def preview_merge(self, request: MergeRequest) -> Preview:
        """Return what merging would do now, and into which page. Changes nothing.

        Raises:
            NoSuchSource: what it cites does not exist.
            KnowledgeError: the request cannot be met; the message says why.
        """
        target, asked = await self._pages.target(request.path), request.path
        note = None
        if target.kind == "directory":
            target, note = await self._placed(request, target.path)
        request = replace(request, path=target.path)
        request, act, told = await self._merge_act(request)
        rehearsed = await self._acts.rehearse(act)
        outcome = rehearsed.result
        merged = replace(outcome.merged, note=_joined(note, told, outcome.merged.note) or None)
        if merged.status == "analysis":
            await self.shown(request.path)
        stakes = await self._appraiser.stakes(rehearsed.contents, rehearsed.work, asked=[asked, request.path])
        return Preview(request, merged, stakes, rehearsed)

    async def shown(self, path: str) -> str | None:
        """Return the page's revision, None if there is no page; a write may be based on it from now on."""
        try:
            file = await anyio.to_thread.run_sync(self._vault.read, path)
        except KnowledgeError:
            return None
        await self._past.shown(path, file.raw, file.revision)
        return file.revision

    async def merge(self, request: MergeRequest, stakes: Stakes) -> Merged:
        """Merge into the page at exactly `request.path`, which `preview_merge` has found, with what is there by now.

        No more may be at stake than was found then.

        Raises:
            ConfiguresNow, UnmarksNow: more would be, with what is there by now.
            NoSuchSource: what it cites does not exist; nothing is written.
            WriteUndone: what was written was found wrong and taken back.
        """
        _, act, told = await self._merge_act(request)
        if self._takes_long(request):
            # While pages are held nothing is cancelled. What is worked out before is not worked out again.
            await self._acts.rehearse(act)
        done = await self._run(act, request.approval, stakes)
        outcome = replace(
            done.result, merged=replace(done.result.merged, note=_joined(told, done.result.merged.note) or None)
        )
        revision = outcome.merged.revision
        if outcome.brought and revision is not None:
            self._elsewhere.look(Written(request.actor, request.path, revision, outcome.brought))
        if outcome.known is not None:
            return await self._gone_on_from(request.path, outcome.known, outcome.merged)
        if outcome.merged.status in ("unchanged", "conflict", "analysis"):
            await self.shown(request.path)
        return outcome.merged

    def _takes_long(self, request: MergeRequest) -> bool:
        there = self._vault.look(request.path)
        return len(request.content) + (there.stamp.size if there else 0) > FORESEEN_CHARACTERS

    async def _gone_on_from(self, path: str, known: bytes, merged: Merged) -> Merged:
        """Return the answer with the revision of the page as the caller knows it, kept as what was shown to it.

        Named as base with the page's own revision, what others wrote would count as read, and as taken out by who sends the
        page without it.
        """
        revision = revision_of(known)
        await self._past.shown(path, known, revision)
        note = f"others have written in the page too, which is at {merged.revision}: to see it all, read it"
        return replace(merged, revision=revision, note=_joined(merged.note, note))

    async def _merge_act(self, request: MergeRequest) -> tuple[MergeRequest, PageAct[MergeOutcome], str]:
        """Return the request with what a model holds of it, its act with what is cited looked at, and what there is to tell."""
        cited = [await self._judged(await self._witnesses.cited(one)) for one in (*request.earlier, request)]
        *before, last = [(one.request, one.verified) for one in cited]
        act = self._merging.act(last[0], verified=last[1], similarity=self._similarity, earlier=before)
        judgements = [one.request.judgement for one in cited]
        *earlier, asked = [
            replace(one, judgement=judgement)
            for one, judgement in zip((*request.earlier, request), judgements, strict=True)
        ]
        notes = [one.note for one in cited] + [one.note for one in judgements if one is not None]
        return replace(asked, earlier=tuple(earlier)), act, _joined(*dict.fromkeys(notes))

    async def _judged(self, cited: Cited) -> Cited:
        """Return what is cited with what a model holds of it. No page is locked meanwhile, and a person's edit waits for none."""
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

    async def _run(self, act: PageAct[T], approval: Approval | None, stakes: Stakes) -> ActDone[T]:
        act = replace(act, work=self._as_decided(act, approval, stakes))
        if approval is not None:
            act = replace(act, proposal=approval.proposal, decision=approval.decision)
        done = await self._acts.run(self._checked(act))
        if done.undone:
            raise WriteUndone(act.paths[0], done.undone)
        return done

    def _as_decided(
        self, act: PageAct[T], approval: Approval | None, decided: Stakes
    ) -> Callable[[Contents], Awaitable[ActWork[T]]]:
        """Return the act's work, which does only what was decided on, where it was decided on.

        Raises:
            ConfiguresNow, UnmarksNow: with what is in the files now more is at stake than was `decided` on: two edits that are
                harmless alone can do that together, and so can a link that was put in the way.
            EffectChanged: something else would happen than a person agreed to.
        """

        async def work(contents: Contents) -> ActWork[T]:
            found = await act.work(contents)
            now = await self._appraiser.stakes(contents, found)
            if now.configures and not decided.configures:
                raise ConfiguresNow(act.paths[0])
            if new := set(now.unmarks) - set(decided.unmarks):
                raise UnmarksNow(act.paths[0], sorted(new))
            now = replace(now, configures=decided.configures)  # also by the name that it was asked for by
            if approval is not None and (await self.effect(Rehearsed(contents, found), now)).digest != approval.effect:
                raise EffectChanged(act.paths[0])
            return replace(found, places=now.places)

        return work

    async def effect(self, rehearsed: Rehearsed[Any], stakes: Stakes) -> Effect:
        """Return what doing it would do to files."""
        work, contents = rehearsed.work, rehearsed.contents
        # Of the work only what becomes of files is looked at: the rest of a large one need not be sent.
        told = replace(work, result=None, origins={})
        size = sum(len(raw) for raw in (*contents.values(), *work.contents.values()) if raw is not None)
        asked = (dict(contents), told, stakes)
        return await self._aside.run(effect_in, asked, size=size, what="showing what would change")

    def _checked(self, act: PageAct[T]) -> PageAct[T]:
        """Return the act with a look at what it wrote."""
        seen: dict[str, bytes | None] = {}

        async def work(contents: Contents) -> object:
            seen.clear()
            seen.update(contents)
            return await act.work(contents)

        async def check(written: Contents) -> Sequence[str]:
            return await self._problems(seen, written)

        return replace(act, work=work, check=check)  # type: ignore[arg-type]  # what `work` returns is the act's own

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

    async def preview_change(self, request: ChangeRequest) -> ChangePreview:
        """Return the request with paths of pages, what doing it would answer now, and what is at stake in it."""
        asked = [request.path, getattr(request, "to", "")]
        request = await self._resolved(request)
        rehearsed = await self._acts.rehearse(await self._act(request))
        stakes = await self._appraiser.stakes(rehearsed.contents, rehearsed.work, asked=[*asked, request.path])
        return ChangePreview(request, rehearsed.result, stakes, rehearsed)

    async def change(self, request: ChangeRequest, stakes: Stakes) -> ChangeAnswer:
        """Move, delete or bring back the page, whose path `preview_change` has found; `stakes` as of `merge`.

        Raises:
            ConfiguresNow, UnmarksNow: as `merge`.
            WriteUndone: what was written was found wrong and taken back.
        """
        return (await self._run(await self._act(request), request.approval, stakes)).result

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

    async def _act(self, request: ChangeRequest) -> PageAct[ChangeAnswer]:
        if isinstance(request, MoveRequest):
            return self._moving.move(request, await self._linking.to(request.path))
        if isinstance(request, DeleteRequest):
            return self._moving.delete(request, await self._linking.to(request.path))
        return await self._moving.revert(request)


def _joined(*notes: str | None) -> str:
    return "; ".join(note for note in notes if note)
