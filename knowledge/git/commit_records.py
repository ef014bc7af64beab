"""Which act became which commit, in the state database, shared by all processes of a knowledge base."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from knowledge.history.acts import storable
from knowledge.history.timestamps import aware
from knowledge.state.tables import StateTables

CommitOutcome = Literal["begun", "prepared", "made", "contained", "skipped"]
"""`begun`: commits begin after this record. `prepared`: the commit is being made. `contained`: the repository has the
act's text already. `skipped`: `reason` says why there is no commit."""

_COLUMNS = "record, outcome, commit_id, base_id, index_sum, reason"
_BEGIN = """
INSERT INTO forge.act_commit (record, outcome, commit_id, base_id, index_sum, reason, made_at)
SELECT %(record)s, 'begun', '', '', '', '', %(at)s WHERE NOT EXISTS (SELECT 1 FROM forge.act_commit)
ON CONFLICT (record) DO NOTHING
"""
_POSITION = "SELECT max(record) FROM forge.act_commit WHERE outcome != 'prepared'"
_PREPARED = f"SELECT {_COLUMNS} FROM forge.act_commit WHERE outcome = 'prepared' ORDER BY record"  # noqa: S608 - constants
_PUT = """
INSERT INTO forge.act_commit (record, outcome, commit_id, base_id, index_sum, reason, made_at)
VALUES (%s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (record) DO UPDATE SET outcome = excluded.outcome, commit_id = excluded.commit_id, base_id = excluded.base_id,
    index_sum = excluded.index_sum, reason = excluded.reason, made_at = excluded.made_at
"""
_FORGET = "DELETE FROM forge.act_commit WHERE outcome = 'prepared'"
_OF = f"SELECT {_COLUMNS} FROM forge.act_commit WHERE record = ANY(%s::bigint[])"  # noqa: S608 - constants


@dataclass(frozen=True, slots=True)
class ActCommit:
    """The commit of an act; those of one import share it.

    `base` is the commit before it, `index_sum` the SHA-256 of the index that belongs to it.
    """

    record: int
    outcome: CommitOutcome
    commit: str = ""
    base: str = ""
    index_sum: str = ""
    reason: str = ""


class CommitRecords:
    """Commits of acts, by the numbers of the acts' audit records. Acts are committed in their order."""

    def __init__(self, tables: StateTables) -> None:
        self._tables = tables

    async def begin(self, record: int, *, at: datetime) -> None:
        """Let commits begin after this audit record, unless they have begun."""
        await self._tables.write((_BEGIN, {"record": record, "at": aware(at)}))

    async def position(self) -> int | None:
        """Return the newest record that is settled: committed, or known not to need a commit. None before `begin`."""
        found = (await self._tables.read(_POSITION))[0][0]
        return None if found is None else int(found)

    async def prepared(self) -> Sequence[ActCommit]:
        """Return the commit that was being made, once for each of its acts, oldest first; empty if there is none."""
        return [ActCommit(*row) for row in await self._tables.read(_PREPARED)]

    async def put(self, *commits: ActCommit, at: datetime) -> None:
        """Store the commits, in place of earlier ones of the same acts; all or none."""
        rows = [(one.record, one.outcome, one.commit, one.base, one.index_sum, storable(one.reason)) for one in commits]
        if rows:
            await self._tables.write(*((_PUT, (*row, aware(at))) for row in rows))

    async def forget(self) -> None:
        """Forget the commit that was being made: it is on no branch."""
        await self._tables.write((_FORGET, ()))

    async def of(self, records: Collection[int]) -> Mapping[int, ActCommit]:
        """Return the commits of these acts that exist or are known not to be needed, by record."""
        rows = await self._tables.read(_OF, (list(records),)) if records else []
        return {row[0]: ActCommit(*row) for row in rows if row[1] not in ("begun", "prepared")}
