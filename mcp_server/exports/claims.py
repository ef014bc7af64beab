"""The origins of a page's claims as plain JSON, and back: who said it, where it comes from, and since when. Pure.

Consecutive claims of one origin are one entry, with the digest and the headings of each claim.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from knowledge.errors import KnowledgeError
from knowledge.history.timestamps import utc_text
from knowledge.merge.model import DIGEST_BYTES, Origin

MOST_HEADINGS = 20


class BadExport(KnowledgeError):
    """A file that should be one of our exports has another form; the message says where."""


def claims_of(origins: Sequence[Origin]) -> list[dict[str, object]]:
    """Return the origins as JSON values."""
    found: list[tuple[tuple[object, ...], list[Origin]]] = []
    for origin in origins:
        facts = _facts(origin)
        if found and found[-1][0] == facts:
            found[-1][1].append(origin)
        else:
            found.append((facts, [origin]))
    return [
        {
            "source": same[0].source,
            "authority": same[0].authority,
            "observed_at": utc_text(same[0].observed_at),
            "by": same[0].by,
            "revision": same[0].revision,
            **({"corroborated_by": list(same[0].corroborated_by)} if same[0].corroborated_by else {}),
            "claims": [[one.digest.hex(), *one.section] for one in same],
        }
        for _, same in found
    ]


def origins_in(value: object) -> tuple[Origin, ...]:
    """Return the origins in a JSON value that `claims_of` made.

    Raises:
        BadExport: it has another form; the message says what is wrong.
    """
    if not isinstance(value, list):
        raise BadExport("`claims` is not a list")
    return tuple(origin for entry in value for origin in _origins_of(entry))


def _origins_of(entry: object) -> list[Origin]:
    if not isinstance(entry, dict):
        raise BadExport("an entry of `claims` is not an object")
    claims, support = entry.get("claims"), entry.get("corroborated_by", [])
    authority = entry.get("authority")
    if not isinstance(claims, list) or not _are_texts(support):
        raise BadExport("an entry of `claims` has no list of claims, or its `corroborated_by` is not a list of texts")
    if isinstance(authority, bool) or not isinstance(authority, int | float) or not 0 <= authority <= 1:
        raise BadExport("the `authority` of claims is not a number from 0 to 1")
    at = _moment(_text(entry, "observed_at"))
    common = Origin(
        b"",
        (),
        _text(entry, "source"),
        float(authority),
        at,
        _text(entry, "revision"),
        _text(entry, "by"),
        tuple(support),
    )
    return [_placed(common, claim) for claim in claims]


def _placed(origin: Origin, claim: object) -> Origin:
    if not isinstance(claim, list) or not claim or not _are_texts(claim) or len(claim) > MOST_HEADINGS:
        raise BadExport("a claim is not a list of its digest and its headings")
    try:
        digest = bytes.fromhex(claim[0])
    except ValueError:
        digest = b""
    if len(digest) != DIGEST_BYTES:
        raise BadExport(f"the digest of a claim does not have {2 * DIGEST_BYTES} hexadecimal digits")
    return Origin(
        digest,
        tuple(claim[1:]),
        origin.source,
        origin.authority,
        origin.observed_at,
        origin.revision,
        origin.by,
        origin.corroborated_by,
    )


def _facts(origin: Origin) -> tuple[object, ...]:
    return (origin.source, origin.authority, origin.observed_at, origin.revision, origin.by, origin.corroborated_by)


def _text(entry: Mapping[str, Any], name: str) -> str:
    value = entry.get(name)
    if not isinstance(value, str):
        raise BadExport(f"`{name}` of claims is not a text")
    return value


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _moment(text: str) -> datetime:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = datetime.min  # noqa: DTZ901 - refused below, as every time without a zone
    if at.tzinfo is None:
        raise BadExport("`observed_at` of claims is not a time with its zone")
    return at
