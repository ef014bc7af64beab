"""What an act would do to files, so exactly that a person can agree to it, and free of what does not matter for that. Pure."""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from knowledge.merge.document.units import cut
from knowledge.merge.three_way.line_join import hunks
from knowledge.merge.unified_diff import unified
from knowledge.pages.vault import revision_of
from knowledge.writing.model import ActWork, Contents, Stakes

CONTEXT = 3
EVERYTHING = 1 << 40


@dataclass(frozen=True, slots=True)
class FileEffect:
    """What becomes of one file. Revisions are None where there is no file; `diff` is a whole unified diff."""

    path: str
    moved_from: str | None
    before: str | None
    after: str | None
    diff: str


@dataclass(frozen=True, slots=True)
class Effect:
    """What an act would do to files.

    `digest` (SHA-256, hexadecimal) is the same as long as the same lines come and go in the same sections of the same files,
    whatever else is in them, and as long as the same is at stake and links lead to the same files; `revisions` are those of
    the files as they were looked at.
    """

    digest: str
    files: tuple[FileEffect, ...]
    revisions: Mapping[str, str | None]


def effect_in(asked: tuple[Contents, ActWork[Any], Stakes]) -> Effect:
    """Return what `work` does to files that hold `contents`, and what is at stake in it; all three as one argument."""
    contents, work, _ = asked
    files = tuple(_file(path, source, before, after) for path, source, before, after in _changed(contents, work))
    seen = {path: None if raw is None else revision_of(raw) for path, raw in contents.items()}
    return Effect(digest_in(asked), files, seen)


def digest_in(asked: tuple[Contents, ActWork[Any], Stakes]) -> str:
    """Return the digest of the same."""
    contents, work, stakes = asked
    told = []
    for path, source, before, after in _changed(contents, work):
        changes = None if before is None or after is None else _changes(_text(before), _text(after))
        told.append([path, source, before is None, after is None, changes or _whole(before, after)])
    claims = [[c.kind, c.subject, c.existing.text, c.new.text] for c in work.contradictions]
    # Only where there are any: what was proposed before this was looked at keeps its digest.
    links = {path: place for path, place in stakes.places.items() if place != path}
    more = [links, stakes.unmarks] if links or stakes.unmarks else []
    canonical = json.dumps([told, sorted(claims), stakes.configures, *more], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()


def _changed(contents: Contents, work: ActWork[Any]) -> Iterator[tuple[str, str, bytes | None, bytes | None]]:
    """Yield each file that changes, in order: its path, the one that it had, and what it holds before and after."""
    for path in sorted(work.contents):
        source = work.moved.get(path, path)
        before, after = contents.get(source), work.contents[path]
        if before != after or source != path:
            yield path, source, before, after


def _file(path: str, source: str, before: bytes | None, after: bytes | None) -> FileEffect:
    return FileEffect(
        path=path,
        moved_from=source if source != path else None,
        before=None if before is None else revision_of(before),
        after=None if after is None else revision_of(after),
        diff=unified(
            _text(before or b""),
            _text(after or b""),
            path,
            context=CONTEXT,
            most_characters=EVERYTHING,
            longest_line=EVERYTHING,
        ),
    )


def _whole(before: bytes | None, after: bytes | None) -> list[str | None]:
    """Return what stands for a file that comes, goes, or stays the same somewhere else."""
    return [None if raw is None else hashlib.sha256(raw).hexdigest() for raw in (before, after)]


def _changes(before: str, after: str) -> list[list[Any]]:
    """Return the lines that come and go, each change with the headings that it lies under."""
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
