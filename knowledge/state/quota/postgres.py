"""What principals used of their quotas, in PostgreSQL: counted in the transaction that stores what is counted.

Who holds a quota beside other things takes it first.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any, TypeVar

from knowledge.errors import QuotaReached
from knowledge.state.postgres.tables import Part, Tables
from knowledge.state.quota.bounds import Bound, require_room

T = TypeVar("T")

_SLOTS = "SELECT slot_at, amount FROM forge.quota WHERE principal = %s AND kind = %s AND slot_at >= %s ORDER BY slot_at"


def holding(tables: Tables, principal: str) -> Part:
    """Return what makes others wait who use a quota of the principal."""
    return "SELECT forge.hold_quota(%s, %s)", (tables.schema, principal)


def charging(bound: Bound, principal: str, amount: int, at: datetime, *, refuse: bool = True) -> Part:
    """Return what counts `amount` for the principal; it ends the transaction where there is no room."""
    return "SELECT forge.charge(%s, %s, %s, %s, %s, %s)", counted(bound, principal, amount, at, refuse=refuse)


def counted(bound: Bound, principal: str, amount: int, at: datetime, *, refuse: bool) -> tuple[Any, ...]:
    """Return the last arguments of a function of the schema that counts."""
    return principal, bound.kind, amount, bound.most if refuse else None, bound.slot_at(at), bound.since(at)


async def explained(
    work: Callable[[], Awaitable[T]], tables: Tables, uses: Sequence[tuple[Bound, int]], principal: str, at: datetime
) -> T:
    """Return what `work` returns, and say in words which bound it would go beyond; `uses` are bounds and what it uses of each.

    Raises:
        OverQuota: there is no room.
    """
    try:
        return await work()
    except QuotaReached as error:
        bound, amount = next(use for use in uses if use[0].kind == error.kind)
        slots: Any = await tables.read(_SLOTS, (principal, bound.kind, bound.since(at)))
        require_room(bound, principal, slots, amount, at)
        raise
