"""Acts that import pages from elsewhere.

An imported page is created, or merged with what was imported before. It is left out if it would overwrite another page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from knowledge.history.ports import Actor, Ledger
from knowledge.merge.document.unit_origins import trace_origins
from knowledge.merge.document.units import cut, units
from knowledge.merge.evidence.confidence import USER
from knowledge.merge.model import WHOLE_PAGE, Conflict, Origin, unit_digest
from knowledge.merge.unified_diff import unified_diff
from knowledge.pages.claim_source import AUTHORITY
from knowledge.pages.paths import new_name
from knowledge.pages.vault import revision_of
from knowledge.writing.acts.merge_act import MergeActs
from knowledge.writing.model import ActWork, Contents, PageAct
from knowledge.writing.related.target_page import text_of
from knowledge.writing.requests import MergeRequest

MOST_DIFF = 6_000
IMPORTED_AUTHORITY = AUTHORITY["wiki"]
"""The authority of claims in a page from elsewhere: other people may have written them."""

ImportStatus = Literal["new", "changed", "same", "edited", "conflict", "taken"]
"""`same`: the page is as in the source. `edited`: the page has changed since the last import and the source has not,
so the page stays as it is. `conflict`: both have changed in the same place. `taken`: another page is at that path.
The last four write nothing."""


@dataclass(frozen=True, slots=True)
class ImportRequest:
    """A page from elsewhere, to be written at `path`. `actor.arguments_hash` is the SHA-256 of `raw`.

    `source` identifies the page where it comes from. `base` is the revision of the bytes that the last import brought,
    None if there was none. `origins` are the origins of its claims, if the source knows them; otherwise all its claims
    come from `source`.
    """

    actor: Actor
    path: str
    raw: bytes
    source: str
    at: datetime
    base: str | None = None
    origins: tuple[Origin, ...] = ()
    intent: str = ""


@dataclass(frozen=True, slots=True)
class ImportAnswer:
    """The outcome for one page.

    `diff` shows the change of the page here; `conflicts` are the places that both sides changed.
    """

    status: ImportStatus
    path: str
    diff: str = ""
    conflicts: Sequence[Conflict] = ()
    note: str = ""

    @property
    def writes(self) -> bool:
        """Whether a page is written."""
        return self.status in ("new", "changed")


class ImportActs:
    """Builds the acts; the paths in requests must be real paths, with links resolved."""

    def __init__(self, ledger: Ledger, merging: MergeActs) -> None:
        self._ledger, self._merging = ledger, merging

    def act(self, request: ImportRequest) -> PageAct[ImportAnswer]:
        """Return the act of importing one page."""
        path, raw = request.path, request.raw

        async def work(contents: Contents) -> ActWork[ImportAnswer]:
            before = contents[path]
            if before is None:
                new_name(path)
                return self._new(request)
            if before == raw:
                return ActWork({}, ImportAnswer("same", path))
            if request.base is None:
                return ActWork({}, ImportAnswer("taken", path, note="another page is there"))
            if request.base == revision_of(raw):
                return ActWork(
                    {}, ImportAnswer("edited", path, note="it was edited here, and the source has not changed")
                )
            return await self._changed(request, before)

        return PageAct(request.actor, (path,), work, intent=request.intent)

    def _new(self, request: ImportRequest) -> ActWork[ImportAnswer]:
        path, raw = request.path, request.raw
        text = raw.decode("utf-8", "replace")
        diff = unified_diff("", text, path, most_characters=MOST_DIFF)
        return ActWork(
            {path: raw},
            ImportAnswer("new", path, diff),
            source=request.source,
            origins={path: _origins(request, text)},
        )

    async def _changed(self, request: ImportRequest, before: bytes) -> ActWork[ImportAnswer]:
        """Return the three-way merge of the changes of the page here and of the source since the last import."""
        path = request.path
        base = await self._ledger.content(path, request.base or "")
        if base is None:
            note = "the text of the last import is no longer kept, so nobody can tell what was edited here"
            return ActWork({}, ImportAnswer("conflict", path, note=note))
        text, was = text_of(path, request.raw), text_of(path, base)
        # A whole page without front matter means that the page keeps its own, so one that is gone is sent empty.
        sent = f"---\n---\n{text}" if was.startswith("---") and not text.startswith("---") else text
        edit = MergeRequest(
            request.actor,
            path,
            sent,
            section=WHOLE_PAGE,
            base_revision=request.base,
            observed_at=request.at,
            intent=request.intent,
        )

        def adopt(origin: Origin) -> Origin:
            """Return the origin to record. New text comes from the import and not from the person who runs it."""
            is_new = (origin.source, origin.by, origin.observed_at) == (USER, request.actor.principal, request.at)
            return replace(origin, source=request.source, authority=IMPORTED_AUTHORITY) if is_new else origin

        done = await self._merging.edits([edit], adopt).work({path: before})
        merged = done.result[0].merged
        if merged.status == "unchanged":
            return ActWork({}, ImportAnswer("same", path))
        if not done.contents:
            return ActWork({}, ImportAnswer("conflict", path, merged.diff, merged.conflicts, merged.note or ""))
        answer = ImportAnswer("changed", path, merged.diff, note=merged.note or "")
        return ActWork(done.contents, answer, source=request.source, origins=done.origins)


def _origins(request: ImportRequest, text: str) -> Sequence[Origin]:
    """Return the origin of each unit: the one that the source knows, or else the page itself in the source."""
    here = units(cut(text))
    known = trace_origins(here, request.origins, None) if request.origins else [None] * len(here)
    revision, by = revision_of(request.raw), request.actor.principal
    return [
        origin
        or Origin(unit_digest(unit.text), unit.section, request.source, IMPORTED_AUTHORITY, request.at, revision, by)
        for unit, origin in zip(here, known, strict=True)
    ]
