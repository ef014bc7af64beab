"""The forms in which a ledger keeps contents, origins, contradictions and acts that were begun. Pure.

Origins are one blob a page: a page of 5,000 units is written in a few milliseconds that way and read whole, as merging needs it;
as rows it would be 5,000 deletions and insertions in the transaction that everybody waits for.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from functools import lru_cache
from typing import Any

from knowledge.history.ports import Actor, FileChange, HistoryEntry, Intent, TrustMove
from knowledge.history.timestamps import utc_text
from knowledge.merge.model import Contradiction, Origin, Side

REVISION_DIGITS = 16
PACKING_LEVEL = 3
"""Of zlib: on Markdown a tenth more space than level 6 takes, in half its time."""


def content_digest(raw: bytes) -> bytes:
    """Return the whole digest under which these bytes are kept."""
    return hashlib.sha256(raw).digest()


def revision_of(digest: bytes) -> str:
    """Return the revision that a caller knows content by."""
    return digest.hex()[:REVISION_DIGITS]


def digests_between(revision: str) -> tuple[bytes, bytes] | None:
    """Return the lowest and the highest digest of content with that revision; None for what is no revision."""
    try:
        start = bytes.fromhex(revision)
    except ValueError:
        return None
    if len(revision) != REVISION_DIGITS or len(start) * 2 != REVISION_DIGITS or revision != revision.lower():
        return None
    rest = hashlib.sha256().digest_size - len(start)
    return start + b"\x00" * rest, start + b"\xff" * rest


def pack(raw: bytes) -> bytes:
    """Return the bytes compressed."""
    return zlib.compress(raw, PACKING_LEVEL)


def unpack(packed: bytes) -> bytes:
    """Return the bytes as they were."""
    return zlib.decompress(packed)


def unpacked_content(digest: bytes, packed: bytes) -> bytes:
    """Return the bytes that were kept under that digest.

    Raises:
        ValueError: these are others: somebody edited them, or a disk did.
    """
    try:
        raw = unpack(packed)
    except zlib.error:
        raw = None
    if raw is None or content_digest(raw) != digest:
        raise ValueError(f"the bytes of revision {revision_of(digest)} are not those that were kept")
    return raw


def packed_origins(origins: Sequence[Origin]) -> bytes:
    """Return the origins of a page's units as one blob."""
    return pack(_text(_origins_form(origins)))


@lru_cache(maxsize=16)
def unpacked_origins(packed: bytes) -> tuple[Origin, ...]:
    """Return the origins in the order in which they were given. A merge asks for them when it is planned and when it is done."""
    return _origins(json.loads(unpack(packed)))


def _origins_form(origins: Sequence[Origin]) -> dict[str, Any]:
    """Return each thing that is said of some unit once, and for each unit its digest and which of them holds."""
    told: dict[tuple[Any, ...], int] = {}
    which = [
        told.setdefault(
            (o.section, o.source, o.authority, o.observed_at, o.revision, o.by, o.corroborated_by), len(told)
        )
        for o in origins
    ]
    return {
        "digests": base64.b64encode(b"".join([o.digest for o in origins])).decode(),
        "sizes": [len(o.digest) for o in origins],
        "which": which,
        "told": [[*one[:3], utc_text(one[3]), *one[4:]] for one in told],
    }


def _origins(form: Mapping[str, Any]) -> tuple[Origin, ...]:
    told = [
        (tuple(section), source, authority, datetime.fromisoformat(observed_at), revision, by, tuple(corroborated_by))
        for section, source, authority, observed_at, revision, by, corroborated_by in form["told"]
    ]
    digests, found, start = base64.b64decode(form["digests"]), [], 0
    for size, at in zip(form["sizes"], form["which"], strict=True):
        found.append(Origin(digests[start : start + size], *told[at]))
        start += size
    return tuple(found)


def contradiction_text(contradiction: Contradiction) -> str:
    """Return the contradiction as JSON."""
    c = contradiction
    sides = {"existing": _side_form(c.existing), "new": _side_form(c.new)}
    return _text({"kind": c.kind, "subject": c.subject, "reason": c.reason, **sides}).decode("ascii")


def contradiction(text: str) -> Contradiction:
    """Return the contradiction that `contradiction_text` made that text of."""
    return _contradiction(json.loads(text))


def _contradiction(form: Mapping[str, Any]) -> Contradiction:
    return Contradiction(form["kind"], form["subject"], form["reason"], _side(form["existing"]), _side(form["new"]))


def contradiction_key(contradiction: Contradiction) -> bytes:
    """Return what two reports of one and the same contradiction have in common, whenever and by whom they were made."""
    c = contradiction
    sides = [[side.path, side.section, side.text, side.source] for side in (c.existing, c.new)]
    return hashlib.sha256(_text([c.kind, c.subject, sides])).digest()


def _side_form(side: Side) -> dict[str, Any]:
    return {
        "path": side.path,
        "section": side.section,
        "text": side.text,
        "source": side.source,
        "authority": side.authority,
        "observed_at": None if side.observed_at is None else utc_text(side.observed_at),
        "confidence": side.confidence,
        "revision": side.revision,
    }


def _side(form: Mapping[str, Any]) -> Side:
    observed_at = form["observed_at"]
    return Side(**{**form, "observed_at": None if observed_at is None else datetime.fromisoformat(observed_at)})


def packed_intent(intent: Intent) -> bytes:
    """Return an act that was begun as one blob, with all that is to be recorded of it."""
    entry = intent.entry
    form = {
        "id": intent.id,
        "begun": utc_text(intent.at),
        "at": utc_text(entry.at),
        "actor": [entry.actor.principal, entry.actor.tool, entry.actor.arguments_hash],
        "call": entry.actor.call,
        "changes": [_change_form(change) for change in entry.changes],
        "source": entry.source,
        "confidence": entry.confidence,
        "proposal": entry.proposal,
        "decision": entry.decision,
        "intent": entry.intent,
        "outcome": entry.outcome,
        "origins": {path: _origins_form(origins) for path, origins in entry.origins.items()},
        "contradictions": [json.loads(contradiction_text(c)) for c in entry.contradictions],
        "standing": None if entry.trust_record is None else asdict(entry.trust_record),
    }
    return pack(_text(form))


def unpacked_intent(packed: bytes) -> Intent:
    """Return the act that was begun."""
    form = json.loads(unpack(packed))
    principal, tool, arguments_hash = form["actor"]
    entry = HistoryEntry(
        at=datetime.fromisoformat(form["at"]),
        actor=Actor(principal, tool, arguments_hash, form.get("call", "")),
        changes=tuple(FileChange(*change) for change in form["changes"]),
        source=form["source"],
        confidence=form["confidence"],
        proposal=form["proposal"],
        decision=form["decision"],
        intent=form["intent"],
        outcome=form["outcome"],
        origins={path: _origins(origins) for path, origins in form["origins"].items()},
        contradictions=tuple(_contradiction(c) for c in form["contradictions"]),
        trust_record=TrustMove(**form["standing"]) if form.get("standing") else None,
    )
    return Intent(form["id"], datetime.fromisoformat(form["begun"]), entry)


def _change_form(c: FileChange) -> list[Any]:
    return [c.path, c.before, c.after, c.staged, c.moved_from, c.lines_added, c.lines_removed]


def _text(form: object) -> bytes:
    return json.dumps(form, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")
