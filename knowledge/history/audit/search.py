"""Searches the audit chain for what a person asks, newest first, without reading all of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

from knowledge.history.audit.chain import fields_of, recorded_at
from knowledge.history.audit.mentions import mentions, without_case
from knowledge.history.ports import AuditRecord, AuditScan, Ledger
from knowledge.pages.paths import within

KINDS: Mapping[str, tuple[str, ...]] = {
    "pages": ('"changes":[{',),
    "decisions": tuple(f'"outcome":"{outcome}"' for outcome in ("approved", "rejected", "joined", "withdrawn")),
    "trust": ('"outcome":"trust"', '"standing":{'),
    "services": ('"delivery":{',),
    "runs": ('"run":{',),
    "contradictions": tuple(f'"outcome":"{outcome}"' for outcome in ("dismissed", "reopened", "flagged")),
}
"""The kinds of acts, each with parts of a canonical body: every record of the kind contains one of them, and no other record does."""
OUTCOMES = (
    *("done", "partial", "flagged", "undone", "restored", "approved", "rejected", "joined", "withdrawn", "trust"),
    *("dismissed", "reopened", "sent", "failed", "unsure", "begun", "cancelled"),
)
"""Every outcome of `HistoryEntry`."""
BLOCK = 500
MOST_READ = 10_000
"""The most records that one bounded search gets from the database. Usually nearly all of them match. Many may not if a
word has letters beyond ASCII, because the database looks for each such letter separately."""
MOST_SCANNED = 200_000
"""The most records that one search on the page looks through. That takes about a fifth of a second. A link continues
the search."""
AFTER_ALL = 2**62
MOST_WORDS = 8
"""The most words that the database looks for: the longest ones. The others are compared afterwards."""
_LAST_CASED = 0x1F000


@dataclass(frozen=True, slots=True)
class AuditQuery:
    """What a person looks for. An empty field matches every record.

    `by` is a USER@HOST, a host or a person; `about` a page, a folder, or a place in another service; `kind` one of `KINDS`.
    `until` is the first moment that is too late.
    """

    words: str = ""
    by: str = ""
    tool: str = ""
    about: str = ""
    kind: str = ""
    outcome: str = ""
    since: datetime | None = None
    until: datetime | None = None

    def matches(self, record: AuditRecord) -> bool:
        """Return whether the record matches.

        An unreadable one matches any time, but no `by`, `tool`, `about` or `outcome`.
        """
        fields, at = fields_of(record), recorded_at(record)
        if at is not None and ((self.since and at < self.since) or (self.until and at >= self.until)):
            return False
        return (
            mentions(fields or {"body": record.body}, self.words)
            and (not self.by or self.by in _names_of(str(fields.get("principal") or "")))
            and (not self.tool or self.tool == fields.get("tool"))
            and (not self.outcome or self.outcome == fields.get("outcome"))
            and (not self.kind or any(part in record.body for part in KINDS.get(self.kind, ())))
            and (not self.about or any(_is_about(place, self.about) for place in places_of(fields)))
        )

    def scan(self, before: int, down_to: int) -> AuditScan:
        """Return a scan of that stretch of the chain. It finds every record that matches, and perhaps some that don't."""
        by, about = _written(self.by), _written(self.about.strip("/"))
        parts = [
            *([(f'"principal":"{by}"', f'"principal":"{by}@', f'@{by}"')] if self.by else []),
            *([(f'"tool":"{_written(self.tool)}"',)] if self.tool else []),
            *([(f'"outcome":"{_written(self.outcome)}"',)] if self.outcome else []),
            *([KINDS.get(self.kind, ())] if self.kind else []),
            *([tuple(f'"{key}":"{about}' for key in ("path", "moved_from", "target"))] if about else []),
        ]
        longest = sorted(without_case(self.words).split(), key=len, reverse=True)
        words = tuple(group for word in longest for group in _spelled(word))[:MOST_WORDS]
        return AuditScan(before, down_to, tuple(part for part in parts if part), words, self.since, self.until)


@dataclass(frozen=True, slots=True)
class FoundRecords:
    """Records that match, newest first; `older` is the number below which to continue, 0 at the beginning of the chain."""

    records: Sequence[AuditRecord]
    older: int


async def find(
    ledger: Ledger, query: AuditQuery, *, limit: int, before: int | None = None, bounded: bool = True
) -> FoundRecords:
    """Return the newest records below number `before` that match.

    A `bounded` search ends after `MOST_SCANNED` records, so it may find none and continue at `older`.
    """
    end, _ = await ledger.chain_end()
    # Records after the recorded end, which somebody may have set back, are found too.
    top = AFTER_ALL if before is None else min(before, AFTER_ALL)
    bottom = max(1, min(top, end + 1) - MOST_SCANNED) if bounded else 1
    found: list[AuditRecord] = []
    read, size = 0, min(limit + 1, BLOCK)
    while top > bottom:
        # The database stops at the last record that it returns. Usually all of the first block match.
        block = await ledger.scan(query.scan(top, bottom), limit=size)
        found += [record for record in block if query.matches(record)]
        if len(found) > limit:
            return FoundRecords(found[:limit], found[limit - 1].seq)
        read += len(block)
        top = block[-1].seq if len(block) == size else bottom
        size = min(2 * size, BLOCK)
        if bounded and read >= MOST_READ:
            break
    return FoundRecords(found, top if top > 1 else 0)


async def record_at(ledger: Ledger, seq: int) -> AuditRecord | None:
    """Return the record with that number."""
    records = await ledger.records(after=seq - 1, limit=1)
    return records[0] if records and records[0].seq == seq else None


def changes_of(fields: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the changes of pages in a record's fields, which somebody may have edited."""
    changes = fields.get("changes")
    return [change for change in changes if isinstance(change, dict)] if isinstance(changes, list) else []


def pages_of(fields: Mapping[str, Any]) -> list[str]:
    """Return the pages that a record's act changed, with the names that moved pages had before."""
    found = [change.get(key) for change in changes_of(fields) for key in ("path", "moved_from")]
    return list(dict.fromkeys(str(path) for path in found if path))


def places_of(fields: Mapping[str, Any]) -> list[str]:
    """Return the pages of a record, and its place in another service."""
    delivery = fields.get("delivery")
    target = delivery.get("target") if isinstance(delivery, dict) else None
    return [*pages_of(fields), *([str(target)] if target else [])]


def _is_about(place: str, about: str) -> bool:
    about = about.strip("/")
    return within(place, about) or place == f"{about}.md"


def _names_of(principal: str) -> tuple[str, str, str]:
    person, _, host = principal.rpartition("@")
    return principal, host, person


def _written(text: str) -> str:
    """Return the text as it is inside a canonical body."""
    return json.dumps(text)[1:-1]


def _spelled(word: str) -> Iterator[tuple[str, ...]]:
    """Yield groups of texts: every body that contains this lower-case word, in any case, contains at least one text of each group."""
    if word.isascii():
        # A body spells letters beyond ASCII as escapes. Some of them become ASCII in lower case.
        yield (_written(word), *(_written(c) for letter in dict.fromkeys(word) for c in _upper_forms(letter)))
    for letter in dict.fromkeys(letter for letter in word if not letter.isascii()):
        yield (_written(letter), *(_written(c) for c in _upper_forms(letter)))


def _upper_forms(letter: str) -> Sequence[str]:
    return _beyond_ascii().get(letter, ())


@cache
def _beyond_ascii() -> Mapping[str, Sequence[str]]:
    """Return, by lower-case letter, the letters beyond ASCII that equal it when case is ignored."""
    forms: dict[str, list[str]] = {}
    for character in map(chr, range(0x80, _LAST_CASED)):
        for lower in set(without_case(character)) - {character}:
            forms.setdefault(lower, []).append(character)
    return forms
