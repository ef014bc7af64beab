"""The subject of an audit record, as the terminal and the page list it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class AuditSummary:
    """An audit record as one line. `at` is in UTC to the second; `subjects` is what the record is about."""

    at: str
    principal: str
    tool: str
    outcome: str
    proposal: str
    subjects: Sequence[str]


def audit_summary(fields: Mapping[str, Any]) -> AuditSummary:
    """Return a record's fields as one line; of a record that was made unreadable, an empty one."""
    principal, tool, outcome, proposal = (
        str(fields.get(k) or "") for k in ("principal", "tool", "outcome", "proposal")
    )
    at = str(fields.get("at", ""))[:19].replace("T", " ")
    return AuditSummary(at, principal, tool, outcome, proposal, subjects_of(fields))


def pages_of(fields: Mapping[str, Any]) -> list[str]:
    """Return the pages that a record's act changed, with the names that moved pages had before."""
    changes = fields.get("changes")
    named = [change for change in changes if isinstance(change, dict)] if isinstance(changes, list) else []
    found = [change.get(key) for change in named for key in ("path", "moved_from")]
    return list(dict.fromkeys(str(path) for path in found if path))


def subjects_of(fields: Mapping[str, Any]) -> list[str]:
    """Return the subject of a record: pages; else a place in another service, or a run; else a decision and its reason."""
    if pages := pages_of(fields):
        return pages
    # `standing` is what the chain calls a change of a trust record. Its hashes cover that name, so it stays.
    delivery, run, move = (fields.get(name) for name in ("delivery", "run", "standing"))
    if isinstance(delivery, dict):
        subjects = [delivery.get("target"), fields.get("proposal")]
    elif isinstance(run, dict):
        subjects = [run.get("id"), run.get("model")]
    else:
        moved = f"{move.get('before')} -> {move.get('after')}" if isinstance(move, dict) else ""
        subjects = [fields.get("proposal"), fields.get("decision"), moved, fields.get("intent")]
    return [str(one) for one in subjects if one]
