"""Changing pages for a caller: what would happen, and doing it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import anyio.to_thread

from knowledge.errors import ConfiguresNow, EffectChanged, InvalidPath, KnowledgeError, WriteUndone
from knowledge.find.circles import chunk_section
from knowledge.ledger.past import Past
from knowledge.merge.confidence import lineage_of
from knowledge.merge.corroboration import says
from knowledge.merge.cut import cut, units
from knowledge.merge.model import Cut
from knowledge.merge.place import Similarity, best_page
from knowledge.merge.verify import problems
from knowledge.paths import clean_path, is_markdown
from knowledge.provenance import source_kind
from knowledge.vault import Vault, revision_of
from knowledge.writing.answers import Changed, Merged
from knowledge.writing.effect import effect_of
from knowledge.writing.elsewhere import Elsewhere, Written
from knowledge.writing.linking import Linking
from knowledge.writing.merging import Merging, Outcome
from knowledge.writing.model import Act, Contents, Done, Rehearsed, Work
from knowledge.writing.moving import Moving, Turned
from knowledge.writing.pages import Pages, Target, may_configure, new_page_path, text_of
from knowledge.writing.related import Related
from knowledge.writing.requests import Approval, ChangeRequest, DeleteRequest, MergeRequest, MoveRequest, RevertRequest

T = TypeVar("T")


class Configuring(Protocol):
    """The result of an act, which says whether the act changes what configures the server."""

    @property
    def configures(self) -> bool:
        """Return whether it does."""
        ...


C = TypeVar("C", bound=Configuring)


class Acts(Protocol):
    """Does acts to files, atomically and on record."""

    async def run(self, act: Act[T]) -> Done[T]:
        """Do it."""
        ...

    async def rehearse(self, act: Act[T]) -> Rehearsed[T]:
        """Return what doing it would do now. Changes nothing."""
        ...


@dataclass(frozen=True, slots=True)
class Preview:
    """What a merge would answer, the request with the page that it means, and whether it changes what configures the server."""

    request: MergeRequest
    merged: Merged
    configures: bool
    rehearsed: Rehearsed[Outcome]


@dataclass(frozen=True, slots=True)
class ChangePreview:
    """The same of a move, a deletion or a return."""

    request: ChangeRequest
    changed: Changed
    configures: bool
    rehearsed: Rehearsed[Turned]


class Writer:
    """Plans and does what callers ask. What it needs of engines is asked for only when something has to be placed."""

    def __init__(
        self,
        *,
        vault: Vault,
        past: Past,
        acts: Acts,
        pages: Pages,
        merging: Merging,
        moving: Moving,
        linking: Linking,
        elsewhere: Elsewhere,
        related: Related,
        similarity: Similarity,
    ) -> None:
        self._vault, self._past, self._acts, self._pages = vault, past, acts, pages
        self._merging, self._moving, self._linking = merging, moving, linking
        self._elsewhere, self._related, self._similarity = elsewhere, related, similarity

    async def aimed(self, request: MergeRequest) -> MergeRequest | None:
        """Return the request for the page that it names; None where only a preview tells page or effect.

        That is so without a page or a base, and where the page may configure the server.
        """
        if request.base_revision is None:
            return None
        target = await self._pages.target(request.path)
        if target.kind != "page" or may_configure(target.path):
            return None
        return replace(request, path=target.path)

    async def preview_merge(self, request: MergeRequest) -> Preview:
        """Return what merging would do now, and into which page. Changes nothing.

        Raises:
            KnowledgeError: the request cannot be met; the message says why.
        """
        target = await self._pages.target(request.path)
        note = None
        if target.kind == "directory":
            target, note = await self._placed(request, target.path)
        request = replace(request, path=target.path)
        rehearsed = await self._acts.rehearse(await self._merge_act(request))
        outcome = rehearsed.result
        merged = outcome.merged if note is None else replace(outcome.merged, note=_joined(note, outcome.merged.note))
        if merged.status == "analysis":
            await self.shown(request.path)
        return Preview(request, merged, outcome.configures, rehearsed)

    async def shown(self, path: str) -> str | None:
        """Return the page's revision, None if there is no page; a write may be based on it from now on."""
        try:
            file = await anyio.to_thread.run_sync(self._vault.read, path)
        except KnowledgeError:
            return None
        await self._past.shown(path, file.raw, file.revision)
        return file.revision

    async def merge(self, request: MergeRequest, *, configuring: bool) -> Merged:
        """Merge into the page at exactly `request.path`, which `preview_merge` has found, with what is there by now.

        Without `configuring` nothing is changed of what configures the server.

        Raises:
            ConfiguresNow: it would be, with what is there by now.
            WriteUndone: what was written was found wrong and taken back.
        """
        done = await self._run(await self._merge_act(request), request.approval, configuring=configuring)
        outcome = done.result
        revision = outcome.merged.revision
        if outcome.brought and revision is not None:
            self._elsewhere.look(Written(request.actor, request.path, revision, outcome.brought))
        if outcome.known is not None:
            return await self._gone_on_from(request.path, outcome.known, outcome.merged)
        if outcome.merged.status in ("unchanged", "conflict", "analysis"):
            await self.shown(request.path)
        return outcome.merged

    async def _gone_on_from(self, path: str, known: bytes, merged: Merged) -> Merged:
        """Return the answer with the revision of the page as the caller knows it, kept as what was shown to it.

        Named as base with the page's own revision, what others wrote would count as read, and as taken out by who sends the
        page without it.
        """
        revision = revision_of(known)
        await self._past.shown(path, known, revision)
        note = f"others have written in the page too, which is at {merged.revision}: to see it all, read it"
        return replace(merged, revision=revision, note=_joined(merged.note, note))

    async def _merge_act(self, request: MergeRequest) -> Act[Outcome]:
        verified = await self._verified(request)
        earlier = [(one, await self._verified(one)) for one in request.earlier]
        return self._merging.act(request, verified=verified, similarity=self._similarity, earlier=earlier)

    async def _run(self, act: Act[C], approval: Approval | None, *, configuring: bool) -> Done[C]:
        if not configuring:
            act = replace(act, work=_leaving_configuration(act))
        if approval is not None:
            act = replace(act, proposal=approval.proposal, decision=approval.decision, work=_as_agreed(act, approval))
        done = await self._acts.run(self._checked(act))
        if done.undone:
            raise WriteUndone(act.paths[0], done.undone)
        return done

    def _checked(self, act: Act[T]) -> Act[T]:
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
            names = await self._linking.names([old, new])
            found += problems(path, old, new, names=names)
        return found

    async def _placed(self, request: MergeRequest, directory: str) -> tuple[Target, str]:
        """Return the page under `directory` that the content belongs to, or that is to be made for it, and why."""
        under = f"under {directory or 'the root'}"
        sketches = await self._related.near(request.content, directory)
        chosen = best_page(request.content, sketches, self._similarity)
        if chosen.path is not None:
            return Target(chosen.path, "page"), f"of the pages {under}, {chosen.path} fits best ({chosen.score:.2f})"
        title = next(
            (" ".join(piece.section[-1:]) for piece in cut(request.content).pieces if piece.kind == "heading"), ""
        )
        if not title:
            raise InvalidPath(
                request.path,
                "it is a directory and none of its pages speaks of this; name a page, or begin the text with a heading "
                "and a new page is made",
            )
        path = f"{directory}/{_slug(title)}.md" if directory else f"{_slug(title)}.md"
        target = await self._pages.target(path)
        return target, f"no page {under} speaks of this, so it is a page of its own"

    async def _verified(self, request: MergeRequest) -> tuple[str, ...]:
        """Return the lineages, of the source and of those that are said to agree, that this server found to say the same."""
        sources = [request.source, *request.corroboration]
        found = [source for source in dict.fromkeys(sources) if await self._says(source, request)]
        return tuple(dict.fromkeys(map(lineage_of, found)))

    async def _says(self, source: str, request: MergeRequest) -> bool:
        if source_kind(source) != "kb":
            return False
        asked, _, section = source.partition(":")[2].partition("#")
        try:
            path = await self._pages.existing(asked)
            if path == request.path:
                return False
            file = await anyio.to_thread.run_sync(self._vault.read, path)
            page = cut(text_of(path, file.raw))
        except KnowledgeError:
            return False
        if section:
            page = Cut(page.text, tuple(piece for piece in page.pieces if _lies_in(piece.section, section)))
        said = [unit.text for unit in units(cut(request.content)) if unit.kind not in ("heading", "front")]
        return bool(said) and all(says(page, text) for text in said)

    async def preview_change(self, request: ChangeRequest) -> ChangePreview:
        """Return the request with real paths, what doing it would answer now, and whether it changes what configures the server."""
        request = await self._resolved(request)
        rehearsed = await self._acts.rehearse(await self._act(request))
        turned = rehearsed.result
        return ChangePreview(request, turned.changed, turned.configures, rehearsed)

    async def change(self, request: ChangeRequest, *, configuring: bool) -> Changed:
        """Move, delete or bring back the page, whose path `preview_change` has found; `configuring` as of `merge`.

        Raises:
            ConfiguresNow: as `merge`.
            WriteUndone: what was written was found wrong and taken back.
        """
        return (await self._run(await self._act(request), request.approval, configuring=configuring)).result.changed

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

    async def _act(self, request: ChangeRequest) -> Act[Turned]:
        if isinstance(request, MoveRequest):
            return self._moving.move(request, await self._linking.to(request.path))
        if isinstance(request, DeleteRequest):
            return self._moving.delete(request, await self._linking.to(request.path))
        return await self._moving.revert(request)


def _leaving_configuration(act: Act[C]) -> Callable[[Contents], Awaitable[Work[C]]]:
    """Return the act's work, which changes nothing of what configures the server.

    Raises:
        ConfiguresNow: with what is in the files now it would: two edits that are harmless alone can do so together.
    """

    async def work(contents: Contents) -> Work[C]:
        found = await act.work(contents)
        if found.contents and found.result.configures:
            raise ConfiguresNow(act.paths[0])
        return found

    return work


def _as_agreed(act: Act[C], approval: Approval) -> Callable[[Contents], Awaitable[Work[C]]]:
    """Return the act's work, which does only what was agreed to.

    Raises:
        EffectChanged: with what is in the files now something else would happen.
    """

    async def work(contents: Contents) -> Work[C]:
        found = await act.work(contents)
        if effect_of(contents, found, configures=found.result.configures).digest != approval.effect:
            raise EffectChanged(act.paths[0])
        return found

    return work


def _lies_in(path: Sequence[str], asked: str) -> bool:
    """Return whether a heading path lies in the section that a source names: by heading, path or anchor."""
    wanted = asked.strip().casefold()
    names = [chunk_section(path[: end + 1]).casefold() for end in range(len(path))]
    return any(
        name == wanted or name.endswith(" > " + wanted) or _slug(name.rpartition(" > ")[2]) == wanted for name in names
    )


def _slug(title: str) -> str:
    """Return a file name for a title: lower case, words joined by dashes."""
    words = "".join(c if c.isalnum() else " " for c in title.casefold()).split()
    return "-".join(words)[:80].strip("-") or "page"


def _joined(*notes: str | None) -> str:
    return "; ".join(note for note in notes if note)
