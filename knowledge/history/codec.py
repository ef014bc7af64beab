"""The stored forms of contents, origins, contradictions and begun acts. Pure.

Origins are one blob per page: a page of 5,000 units is written in a few milliseconds that way, and merging reads them together
anyway; as rows they would be 5,000 deletions and insertions in a transaction that blocks all other writers.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from datetime import datetime
from functools import lru_cache
from operator import attrgetter
from typing import Any

from knowledge.history.ports import Actor, FileChange, HistoryEntry, Intent, TrustMove
from knowledge.history.timestamps import utc_text
from knowledge.merge.model import NOT_SURE, Contradiction, Origin, Side
from knowledge.pages.vault import REVISION_DIGITS

# `astuple` copies deeply, which takes ten times as long.
_change_fields = attrgetter(*(field.name for field in fields(FileChange)))
PACKING_LEVEL = 3
"""A zlib level: on Markdown it takes a tenth more space than level 6, in half the time."""


def content_digest(raw: bytes) -> bytes:
    """Return the full digest under which these bytes are kept."""
    return hashlib.sha256(raw).digest()


def revision_of(digest: bytes) -> str:
    """Return the revision of content with that digest."""
    return digest.hex()[:REVISION_DIGITS]


def digests_between(revision: str) -> tuple[bytes, bytes] | None:
    """Return the lowest and the highest digest of content with that revision; None if it is not a revision."""
    try:
        start = bytes.fromhex(revision)
    except ValueError:
        return None
    # `fromhex` also accepts blanks and capital letters, which no revision has.
    if len(revision) != REVISION_DIGITS or len(start) * 2 != REVISION_DIGITS or revision != revision.lower():
        return None
    rest = hashlib.sha256().digest_size - len(start)
    return start + b"\x00" * rest, start + b"\xff" * rest


def pack(raw: bytes) -> bytes:
    """Return the compressed bytes."""
    return zlib.compress(raw, PACKING_LEVEL)


def unpack(packed: bytes) -> bytes:
    """Return the uncompressed bytes."""
    return zlib.decompress(packed)


def unpacked_content(digest: bytes, packed: bytes) -> bytes:
    """Return the bytes that were kept under that digest.

    Raises:
        ValueError: they no longer match the digest: somebody edited them, or the disk is damaged.
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
    return pack(_json(_origins_form(origins)))


@lru_cache(maxsize=16)
def unpacked_origins(packed: bytes) -> tuple[Origin, ...]:
    """Return the origins in their order; cached, because a merge reads them when it is planned and again when it is carried out."""
    return _origins(json.loads(unpack(packed)))


def _origins_form(origins: Sequence[Origin]) -> dict[str, Any]:
    """Return each distinct origin once (`told`), and for each unit its digest and the index of its origin (`which`)."""
    distinct: dict[tuple[Any, ...], int] = {}
    which = [
        distinct.setdefault(
            (o.section, o.source, o.authority, o.observed_at, o.revision, o.by, o.corroborated_by), len(distinct)
        )
        for o in origins
    ]
    return {
        "digests": base64.b64encode(b"".join([o.digest for o in origins])).decode(),
        "sizes": [len(o.digest) for o in origins],
        "which": which,
        "told": list(distinct),
    }


def _origins(form: Mapping[str, Any]) -> tuple[Origin, ...]:
    distinct = [
        (tuple(section), source, authority, datetime.fromisoformat(observed_at), revision, by, tuple(corroborated_by))
        for section, source, authority, observed_at, revision, by, corroborated_by in form["told"]
    ]
    digests, found, start = base64.b64decode(form["digests"]), [], 0
    for size, at in zip(form["sizes"], form["which"], strict=True):
        found.append(Origin(digests[start : start + size], *distinct[at]))
        start += size
    return tuple(found)


def contradiction_text(contradiction: Contradiction) -> str:
    """Return the contradiction as JSON."""
    return _json(_contradiction_form(contradiction)).decode("ascii")


def contradiction(text: str) -> Contradiction:
    """Return the contradiction with that JSON."""
    return _contradiction(json.loads(text))


def _contradiction_form(contradiction: Contradiction) -> dict[str, Any]:
    form = asdict(contradiction)
    # Left out where nothing is known, so that such records keep the form that they had before there was `sure`.
    if form["sure"] == NOT_SURE:
        del form["sure"]
    return form


def _contradiction(form: Mapping[str, Any]) -> Contradiction:
    sides = []
    for side in (form["existing"], form["new"]):
        observed_at = side["observed_at"]
        sides.append(
            Side(**{**side, "observed_at": None if observed_at is None else datetime.fromisoformat(observed_at)})
        )
    existing, new = sides
    return Contradiction(form["kind"], form["subject"], form["reason"], existing, new, form.get("sure", NOT_SURE))


def contradiction_key(contradiction: Contradiction) -> bytes:
    """Return a key that is equal for reports of the same contradiction, whenever and by whom they were made."""
    c = contradiction
    sides = [[side.path, side.section, side.text, side.source] for side in (c.existing, c.new)]
    return hashlib.sha256(_json([c.kind, c.subject, sides])).digest()


def packed_intent(intent: Intent) -> bytes:
    """Return a begun act as one blob, with everything that is to be recorded about it."""
    entry = intent.entry
    form = {
        "id": intent.id,
        "begun": intent.at,
        "at": entry.at,
        "actor": [entry.actor.principal, entry.actor.tool, entry.actor.arguments_hash],
        "call": entry.actor.call,
        "changes": [_change_fields(change) for change in entry.changes],
        "source": entry.source,
        "confidence": entry.confidence,
        "proposal": entry.proposal,
        "decision": entry.decision,
        "intent": entry.intent,
        "outcome": entry.outcome,
        "origins": {path: _origins_form(origins) for path, origins in entry.origins.items()},
        "contradictions": [_contradiction_form(c) for c in entry.contradictions],
        # The name that stored intents have used from the beginning.
        "standing": None if entry.trust_record is None else asdict(entry.trust_record),
        **({"judged": entry.judgements} if entry.judgements else {}),
        **({"undoes": entry.undoes} if entry.undoes else {}),
    }
    return pack(_json(form))


def unpacked_intent(packed: bytes) -> Intent:
    """Return the intent that `packed_intent` stored."""
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
        judgements=tuple((pair, answer) for pair, answer in form.get("judged", ())),
        undoes=tuple(form.get("undoes", ())),
    )
    return Intent(form["id"], datetime.fromisoformat(form["begun"]), entry)


def _json(form: object) -> bytes:
    text = json.dumps(form, sort_keys=True, separators=(",", ":"), allow_nan=False, default=utc_text)
    return text.encode("ascii")
