"""The end of the audit chain in PostgreSQL: adding a record within whichever transaction it belongs to."""

from __future__ import annotations

from typing import Final

from knowledge.history.audit.chain import body_around
from knowledge.history.ports import HistoryEntry
from knowledge.state.postgres.tables import Part

HOLD_THE_END: Final = "SELECT seq FROM forge.chain_end FOR UPDATE"
"""First in a transaction that may append: nobody then waits for the end who holds what another one who has it waits for."""


def appending(entry: HistoryEntry) -> Part:
    """Return what adds the next link. On a chain whose end is not in order it fails."""
    return "SELECT forge.append(%s, %s)", body_around(entry)
