"""The acts that have no commit yet, read from the audit chain. The acts of one import are one act, because they become one commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from knowledge.git.commit_message import ActOnPages, act_of
from knowledge.history.acts import FOLLOW, IMPORT_FINISHED, IMPORT_TOOL
from knowledge.history.audit.chain import fields_of
from knowledge.history.ports import Ledger

AT_ONCE = 200
"""Audit records that are read at once."""
MOST_JOINED = 5_000
"""Acts of an import in one commit."""


@dataclass(frozen=True, slots=True)
class PendingActs:
    """Acts without a commit, oldest first. `may_grow`: the newest act belongs to an import whose end is not on record.

    No record up to `passed` needs a commit.
    """

    acts: Sequence[ActOnPages]
    may_grow: bool
    passed: int


async def pending_acts(ledger: Ledger, after: int) -> PendingActs:
    """Return the first acts after that record: about `AT_ONCE`, or all of an import."""
    groups: list[_JoinedActs] = []
    passed = after
    while True:
        records = await ledger.records(after=after, limit=AT_ONCE)
        for record in records:
            fields = fields_of(record)
            act = act_of(record.seq, fields)
            if act is not None and act.tool != FOLLOW:
                if not (groups and groups[-1].add(act)):
                    groups.append(_JoinedActs(act))
            elif groups:
                groups[-1].end(fields)
        if not groups and records:
            passed = records[-1].seq
        # Records that are not read yet may belong to the last import, but not to one that others follow.
        may_grow = bool(groups) and groups[-1].may_grow
        if len(records) < AT_ONCE or (groups and (len(groups) > 1 or not may_grow)):
            return PendingActs([one.joined() for one in groups], may_grow, passed)
        after = records[-1].seq


async def count_acts(ledger: Ledger, after: int) -> int:
    """Return how many acts there are after that record."""
    count = 0
    while records := await ledger.records(after=after, limit=AT_ONCE):
        acts = [act_of(record.seq, fields_of(record)) for record in records]
        count += sum(act is not None and act.tool != FOLLOW for act in acts)
        after = records[-1].seq
    return count


class _JoinedActs:
    """An act, and further ones of the same import that change other files."""

    def __init__(self, act: ActOnPages) -> None:
        self._acts = [act]
        self._paths = {change.path for change in act.changes}
        self._source = act.source.partition(":")[0]
        self.may_grow = bool(act.import_id)

    def add(self, act: ActOnPages) -> bool:
        """Add the act, if it belongs here; return whether it does."""
        first, paths = self._acts[0], {change.path for change in act.changes}
        same = (act.call, act.tool, act.principal) == (first.call, first.tool, first.principal)
        if not (self.may_grow and same) or paths & self._paths or len(self._acts) == MOST_JOINED:
            return False
        self._acts.append(act)
        self._paths |= paths
        return True

    def end(self, fields: Mapping[str, Any]) -> None:
        """End the import if this record is its end, which also names its source."""
        ends = fields.get("tool") == IMPORT_TOOL and fields.get("call") == self._acts[0].call
        if self.may_grow and ends and str(fields.get("intent") or "").startswith(IMPORT_FINISHED):
            self._source = str(fields.get("source") or "") or self._source
            self.may_grow = False

    def joined(self) -> ActOnPages:
        if len(self._acts) == 1:
            return self._acts[0]
        changes = tuple(change for act in self._acts for change in act.changes)
        return replace(self._acts[-1], source=self._source, changes=changes, parts=tuple(self._acts))
