"""The effect of an act on files. Pure.

It covers exactly what a person approves. Anything that may change without affecting that is left out.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from knowledge.merge.document.units import cut
from knowledge.merge.three_way.line_join import hunks
from knowledge.merge.unified_diff import unified_diff
from knowledge.pages.vault import revision_of
from knowledge.writing.model import ActWork, Contents, Stakes

CONTEXT = 3
UNLIMITED = 1 << 40


@dataclass(frozen=True, slots=True)
class FileEffect:
    """The change of one file. Revisions are None where there is no file; `diff` is a complete unified diff."""

    path: str
    moved_from: str | None
    before: str | None
    after: str | None
    diff: str


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of an act on files.

    `digest` (SHA-256, hexadecimal) depends on the lines that are added to and removed from each section of each file,
    on the stakes, and on the files that links lead to. Any other change in the files leaves it the same. `revisions`
    are those of the files as they were read.
    """

    digest: str
    files: tuple[FileEffect, ...]
    revisions: Mapping[str, str | None]


def effect_in(planned: tuple[Contents, ActWork[Any], Stakes]) -> Effect:
    """Return the effect of an act. `planned` holds the contents of the files, the work, and what is at stake."""
    contents, work, _ = planned
    files = tuple(
        FileEffect(
            path=path,
            moved_from=source if source != path else None,
            before=None if before is None else revision_of(before),
            after=None if after is None else revision_of(after),
            diff=unified_diff(
                _text(before or b""),
                _text(after or b""),
                path,
                context=CONTEXT,
                most_characters=UNLIMITED,
                longest_line=UNLIMITED,
            ),
        )
        for path, source, before, after in _changed(contents, work)
    )
    revisions = {path: None if raw is None else revision_of(raw) for path, raw in contents.items()}
    return Effect(digest_in(planned), files, revisions)


def digest_in(planned: tuple[Contents, ActWork[Any], Stakes]) -> str:
    """Return the digest of the effect that `effect_in` returns, without computing the rest."""
    contents, work, stakes = planned
    files = []
    for path, source, before, after in _changed(contents, work):
        changes: Any = None if before is None or after is None else _changed_lines(_text(before), _text(after))
        if not changes:  # a file that is created, removed, or moved unchanged is identified by its bytes
            changes = [None if raw is None else hashlib.sha256(raw).hexdigest() for raw in (before, after)]
        files.append([path, source, before is None, after is None, changes])
    claims = [[c.kind, c.subject, c.existing.text, c.new.text] for c in work.contradictions]
    # Left out if empty, so that proposals made before links were part of the digest keep theirs.
    links = {path: place for path, place in stakes.places.items() if place != path}
    more = [links, stakes.unmarks] if links or stakes.unmarks else []
    canonical = json.dumps([files, sorted(claims), stakes.configures, *more], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()


def _changed(contents: Contents, work: ActWork[Any]) -> Iterator[tuple[str, str, bytes | None, bytes | None]]:
    """Yield each file that changes, in order: its path, the path it had, and its bytes before and after."""
    for path in sorted(work.contents):
        source = work.moved.get(path, path)
        before, after = contents.get(source), work.contents[path]
        if before != after or source != path:
            yield path, source, before, after


def _changed_lines(before: str, after: str) -> list[list[Any]]:
    """Return the lines that are removed and added, each change with the headings above it."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    pieces = cut(before).pieces
    starts = [piece.line for piece in pieces]

    def section(line: int) -> Sequence[str]:
        at = bisect_right(starts, line) - 1
        return pieces[at].section if at >= 0 else ()

    return [
        [list(section(max(1, hunk.start))), old[hunk.start : hunk.end], new[hunk.first : hunk.last]]
        for hunk in hunks(old, new)
    ]


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")
