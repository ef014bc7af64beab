"""What an audit record is about, as the terminal and the page list it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def pages_of(fields: Mapping[str, Any]) -> list[str]:
    """Return the pages that a record's act changed, with the names that moved pages had before."""
    changes = fields.get("changes")
    named = [change for change in changes if isinstance(change, dict)] if isinstance(changes, list) else []
    found = [change.get(key) for change in named for key in ("path", "moved_from")]
    return list(dict.fromkeys(str(path) for path in found if path))


def subjects_of(fields: Mapping[str, Any]) -> list[str]:
    """Return what a record is about: pages; else a place in another service, or a run; else a decision and its reason."""
    if pages := pages_of(fields):
        return pages
    delivery, run, move = (fields.get(name) for name in ("delivery", "run", "standing"))
    if isinstance(delivery, dict):
        told = [delivery.get("target"), fields.get("proposal")]
    elif isinstance(run, dict):
        told = [run.get("id"), run.get("model")]
    else:
        moved = f"{move.get('before')} -> {move.get('after')}" if isinstance(move, dict) else ""
        told = [fields.get("proposal"), fields.get("decision"), moved, fields.get("intent")]
    return [str(one) for one in told if one]
