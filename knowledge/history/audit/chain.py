"""The audit chain: each record holds a hash over itself and the one before. Pure.

Source: hash-linked time stamps, S. Haber and W. S. Stornetta, "How to Time-Stamp a Digital Document", J. Cryptology 3 (1991).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from knowledge.history.ports import AuditRecord, HistoryEntry
from knowledge.history.timestamps import utc_text

START = b""
"""The previous digest of the first record."""
_SEQ = ',"seq":0,'
"""The place of the number in a canonical body: the keys are sorted, and a quote inside a value is escaped."""


@dataclass(frozen=True, slots=True)
class Broken:
    """A break in the chain. `seq` is that of the record; the other facts are from its body, as far as that can be read."""

    seq: int
    reason: str
    at: str = ""
    principal: str = ""
    tool: str = ""
    paths: tuple[str, ...] = ()


def body_of(entry: HistoryEntry, seq: int) -> str:
    """Return the record of an act: canonical JSON (sorted keys, no blanks, ASCII, times in UTC) without any text of a page."""
    head, tail = body_around(entry)
    return f"{head}{seq}{tail}"


def body_around(entry: HistoryEntry) -> tuple[str, str]:
    """Return the record's body in two parts, up to its `seq` and after it: an engine may know `seq` only inside its transaction."""
    fields = {
        "seq": 0,
        "at": utc_text(entry.at),
        "principal": entry.actor.principal,
        "tool": entry.actor.tool,
        "arguments_hash": entry.actor.arguments_hash,
        "changes": [
            {"path": c.path, "before": c.before, "after": c.after, "moved_from": c.moved_from} for c in entry.changes
        ],
        "source": entry.source,
        "confidence": entry.confidence,
        "proposal": entry.proposal,
        "decision": entry.decision,
        "intent": entry.intent,
        "outcome": entry.outcome,
        # Fields that not every act has are left out where empty, so that records of acts on pages keep their form.
        **({"call": entry.actor.call} if entry.actor.call else {}),
        **({} if entry.trust_record is None else {"standing": asdict(entry.trust_record)}),
        **({} if entry.delivery is None else {"delivery": asdict(entry.delivery)}),
        **({} if entry.run is None else {"run": asdict(entry.run)}),
        **({"judged": entry.judgements} if entry.judgements else {}),
        **({"undoes": entry.undoes} if entry.undoes else {}),
    }
    head, _, tail = canonical(fields).partition(_SEQ)
    return head + _SEQ[:-2], "," + tail


def canonical(fields: object) -> str:
    """Return the canonical JSON of these fields, so that anyone can repeat the hash."""
    return json.dumps(fields, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest_of(previous: bytes, body: str) -> bytes:
    """Return the digest of the record that follows the one with digest `previous`."""
    return hashlib.sha256(previous + body.encode("utf-8", "surrogatepass")).digest()


def fields_of(record: AuditRecord) -> dict[str, Any]:
    """Return the fields of the record's body; empty if it is unreadable, for example after tampering."""
    try:
        fields = json.loads(record.body)
    except (ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}


class ChainCheck:
    """Checks a chain record by record, keeping only the last one. After a break it continues from the record that is there."""

    def __init__(self) -> None:
        self.seq = 0
        self._digest: bytes | None = START
        self._shift = 0

    def follow(self, record: AuditRecord) -> Iterator[Broken]:
        """Yield the breaks in the next record, and between the previous record and it."""
        if record.seq <= self.seq:
            yield broken(record, f"comes after record {self.seq}: reordered or inserted")
        elif record.seq > self.seq + 1:
            yield _missing(self.seq + 1, record.seq - 1)
            # The digest before the gap is unknown, so the next record cannot be checked against it.
            self._digest = None
        written = fields_of(record).get("seq")
        if not isinstance(written, int):
            yield broken(record, "cannot be read: edited")
        elif written - record.seq != self._shift:
            # One inserted or removed record shifts the numbers of all later ones, which is reported only once.
            self._shift = written - record.seq
            if self._shift:
                yield broken(record, f"contains what was recorded as {written}: reordered, inserted or renumbered")
        elif self._digest is not None and digest_of(self._digest, record.body) != record.digest:
            before = f"record {self.seq} was, together with its hash" if self.seq else "its hash was"
            yield broken(record, f"its hash does not match its content: it was edited, or {before}")
        self.seq, self._digest = record.seq, record.digest

    def finish(self, end: tuple[int, bytes]) -> Iterator[Broken]:
        """Yield the break at the end, compared with the end that was kept beside the chain."""
        seq, digest = end
        if self.seq < seq:
            yield _missing(self.seq + 1, seq)
        elif self.seq > seq:
            yield Broken(seq + 1, f"should not be there: the recorded end of the chain is record {seq}")
        elif (self._digest or b"") != digest:
            yield Broken(seq, "has another hash than the recorded end of the chain: one of the two was edited")


def verify(records: Iterable[AuditRecord], end: tuple[int, bytes]) -> list[Broken]:
    """Return every break in the chain in its order; empty if it is sound."""
    check = ChainCheck()
    found = [broken for record in records for broken in check.follow(record)]
    return [*found, *check.finish(end)]


def broken(record: AuditRecord, reason: str) -> Broken:
    """Return a break at this record, with the facts in its body, which somebody may have edited."""
    fields = fields_of(record)
    changes = fields.get("changes")
    paths = [c.get("path") for c in changes if isinstance(c, dict)] if isinstance(changes, list) else []
    return Broken(
        record.seq,
        reason,
        at=str(fields.get("at", "")),
        principal=str(fields.get("principal", "")),
        tool=str(fields.get("tool", "")),
        paths=tuple(str(path) for path in paths),
    )


def recorded_at(record: AuditRecord) -> datetime | None:
    """Return when the act happened, None if the record can't be read."""
    try:
        return datetime.fromisoformat(str(fields_of(record).get("at")))
    except ValueError:
        return None


def _missing(first: int, last: int) -> Broken:
    return Broken(first, "is missing" if first == last else f"and all up to record {last} are missing")
