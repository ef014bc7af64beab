"""Trust in principals and places, in the state database: scores, passkeys, allowed forms, secrets, trusted places.

For the order of locks see `knowledge.trust.sql`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from knowledge.history.acts import storable
from knowledge.history.audit.chain_end import HOLD_THE_END, appending
from knowledge.history.ports import HistoryEntry
from knowledge.history.timestamps import aware, moment, with_moments
from knowledge.state.tables import SqlText, StateTables, StateTransaction, only_in_postgres
from knowledge.trust.audit_entries import (
    forms_noted,
    passkey_noted,
    place_noted,
    token_noted,
    trust_updated,
)
from knowledge.trust.codec import (
    RECENT,
    change_line,
    only_time_differs,
    storable_passkey,
)
from knowledge.trust.ports import (
    BearerToken,
    Note,
    Passkey,
    Purpose,
    TrustChange,
    TrustedPlace,
    TrustRecord,
    TrustUpdate,
)

# Columns by name: a program that was overtaken by a migration still reads tables that may have more of them.
STANDING = "SELECT principal, score, floor, ceiling, frozen, updated_at FROM forge.standing"
CHANGE = "SELECT id, principal, changed_at, score_before, score_after, reason, decided_by FROM forge.standing_change"
_CHANGES_SINCE = f"{CHANGE} WHERE principal = %s AND changed_at > %s ORDER BY id DESC"
# There is no row to lock for a new principal.
_HOLD_STANDINGS = only_in_postgres("LOCK TABLE forge.standing IN SHARE ROW EXCLUSIVE MODE")
_NOTE = """
INSERT INTO forge.standing_change (principal, changed_at, score_before, score_after, reason, decided_by)
VALUES (%s, %s, %s, %s, %s, %s)
"""
_STAND = """
INSERT INTO forge.standing (principal, score, floor, ceiling, frozen, updated_at) VALUES (%s, %s, %s, %s, %s, %s)
ON CONFLICT (principal) DO UPDATE SET score = excluded.score, floor = excluded.floor, ceiling = excluded.ceiling,
    frozen = excluded.frozen, updated_at = excluded.updated_at
"""
_ADD_PASSKEY = """
INSERT INTO forge.passkey (id, public_key, sign_count, name, user_name, created_at, used_at)
VALUES (%s, %s, %s, %s, %s, %s, %s) ON CONFLICT (id) DO NOTHING RETURNING 1
"""
_REMOVE_PASSKEY = "DELETE FROM forge.passkey WHERE id = %s RETURNING 1"
_PASSKEYS = """
SELECT id, public_key, sign_count, name, user_name, created_at, used_at FROM forge.passkey ORDER BY created_at, id
"""
# A count that does not grow is the sign of a copied authenticator; one that does not count always sends 0.
_USE = """
UPDATE forge.passkey SET sign_count = %(count)s, used_at = %(at)s
WHERE id = %(id)s AND (sign_count < %(count)s OR (sign_count = 0 AND %(count)s = 0)) RETURNING 1
"""
# A no always counts; a yes only if nothing was decided later, and it does not hold already.
_ALLOW_FORMS = """
INSERT INTO forge.host_forms AS known (host, secret_digest, allowed, decided_at) VALUES (%s, %s, %s, %s)
ON CONFLICT (host) DO UPDATE SET
    secret_digest = excluded.secret_digest,
    allowed = excluded.allowed,
    decided_at = greatest(known.decided_at, excluded.decided_at)
WHERE NOT excluded.allowed
OR (excluded.decided_at > known.decided_at AND (known.secret_digest <> excluded.secret_digest OR NOT known.allowed))
RETURNING 1
"""
_BEARER = """
SELECT id, name, secret_digest, ceiling, toolsets, created_by, created_at, expires_at, revoked_at FROM forge.token
"""
_ADD_BEARER = """
INSERT INTO forge.token (id, name, secret_digest, ceiling, toolsets, created_by, created_at, expires_at, revoked_at)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT (id) DO NOTHING RETURNING 1
"""
_REVOKE_BEARER = "UPDATE forge.token SET revoked_at = %s WHERE id = %s AND revoked_at IS NULL RETURNING 1"
_KEEP = """
INSERT INTO forge.secret (digest, purpose, value, expires_at) VALUES (%s, %s, %s, %s)
ON CONFLICT (digest, purpose) DO UPDATE SET value = excluded.value, expires_at = excluded.expires_at
"""
_LOOK_UP = "SELECT value FROM forge.secret WHERE digest = %s AND purpose = %s AND expires_at > %s"
_TAKE = "DELETE FROM forge.secret WHERE digest = %s AND purpose = %s RETURNING value, expires_at"
_FORGET_EXPIRED = "DELETE FROM forge.secret WHERE expires_at <= %s AND NOT (digest = %s AND purpose = %s)"
_TRUST_PLACE = """
INSERT INTO forge.trusted_place (place, trusted_by, trusted_at) VALUES (%s, %s, %s) ON CONFLICT (place) DO NOTHING RETURNING 1
"""
_DISTRUST_PLACE = "DELETE FROM forge.trusted_place WHERE place = %s RETURNING 1"
_TRUSTED_PLACES = "SELECT place, trusted_by, trusted_at FROM forge.trusted_place ORDER BY place"


class SqlTrustRegistry:
    """Trust scores, and what people registered or allowed, shared by all processes that use the state database."""

    def __init__(self, tables: StateTables) -> None:
        self._tables = tables

    async def trust_record(self, principal: str) -> TrustRecord | None:
        """Return the principal's record, or None if it was never seen."""
        rows = await self._tables.read(f"{STANDING} WHERE principal = %s", (principal,))
        return trust_record(rows[0]) if rows else None

    async def trust_records(self) -> Sequence[TrustRecord]:
        """Return all records, by principal."""
        return [trust_record(row) for row in await self._tables.read(f"{STANDING} ORDER BY principal")]

    async def trust_changes(self, principal: str, *, limit: int) -> Sequence[TrustChange]:
        """Return the newest `limit` changes, newest first."""
        sql = f"{CHANGE} WHERE principal = %s ORDER BY id DESC LIMIT %s"
        return [trust_change(row) for row in await self._tables.read(sql, (principal, limit))]

    async def update_trust_record(
        self, principal: str, change: TrustUpdate, *, note: Note, unseen: float = 0.0
    ) -> TrustRecord:
        """Replace the principal's trust record by the result of `change`, with a line of history and an audit record."""
        aware(note.at)

        async def work(t: StateTransaction) -> TrustRecord:
            await t.execute(_HOLD_STANDINGS)
            rows = await t.execute(f"{STANDING} WHERE principal = %s", (principal,))
            before = trust_record(rows[0]) if rows else None
            changes = await t.execute(_CHANGES_SINCE, (principal, note.at - RECENT))
            after = change(before, [trust_change(row) for row in changes])
            # Called even if nothing is recorded below, because it checks the result of `change`.
            line = change_line(principal, before, after, note, unseen=unseen)
            if before is not None and only_time_differs(before, after):
                return before
            added = (line.principal, line.at, line.score_before, line.score_after, line.reason, line.by)
            await t.execute(_NOTE, added)
            s = after
            await t.execute(_STAND, (s.principal, s.score, s.floor, s.ceiling, s.frozen, s.updated_at))
            await t.execute(*appending(trust_updated(line, after, note)))
            return after

        return await self._tables.transact(work)

    async def add_passkey(self, passkey: Passkey, *, note: Note) -> None:
        """Register a credential and put that on the chain."""
        p = storable_passkey(passkey)
        row = (p.id, p.public_key, p.sign_count, p.name, p.user, p.created_at, p.used_at)
        if not await self._noted(_ADD_PASSKEY, row, passkey_noted(p.id, note, public_key=p.public_key)):
            raise ValueError("that passkey is registered already")

    async def _noted(self, statement: SqlText, values: Any, entry: HistoryEntry) -> bool:
        """Run a statement, add the entry to the chain if it changed a row, and return whether it did."""

        async def work(t: StateTransaction) -> bool:
            await t.execute(HOLD_THE_END)
            changed = bool(await t.execute(statement, values))
            if changed:
                await t.execute(*appending(entry))
            return changed

        return await self._tables.transact(work)

    async def passkeys(self) -> Sequence[Passkey]:
        """Return all passkeys, oldest first."""
        return [Passkey(*with_moments(row, 5, 6)) for row in await self._tables.read(_PASSKEYS)]

    async def use_passkey(self, passkey_id: bytes, *, sign_count: int, at: datetime) -> bool:
        """Record a use; False if there is no such passkey, or if its authenticator counts uses and the count did not grow."""
        values = {"id": passkey_id, "count": sign_count, "at": aware(at)}
        return bool(await self._tables.write((_USE, values)))

    async def remove_passkey(self, passkey_id: bytes, *, note: Note) -> bool:
        """Remove the passkey and put that on the chain; False if there is no such passkey."""
        return await self._noted(_REMOVE_PASSKEY, (passkey_id,), passkey_noted(passkey_id, note))

    async def allow_forms(self, host: str, secret_digest: bytes, *, allowed: bool, note: Note) -> bool:
        """Record, on the audit chain too, whether the host's forms count; False if nothing changes: see the port."""
        row = (host, secret_digest, allowed, aware(note.at))
        return await self._noted(_ALLOW_FORMS, row, forms_noted(host, secret_digest, note, allowed=allowed))

    async def add_token(self, token: BearerToken, *, note: Note) -> None:
        """Register a bearer token and put that on the chain."""
        t = token
        toolsets = None if t.toolsets is None else json.dumps(list(t.toolsets))
        expires_at = None if t.expires_at is None else aware(t.expires_at)
        row = (t.id, t.name, t.digest, t.ceiling, toolsets, storable(t.by), aware(t.created_at), expires_at, None)
        if not await self._noted(_ADD_BEARER, row, token_noted(token, note)):
            raise ValueError(f"the token {t.id} is registered already")

    async def token(self, token_id: str) -> BearerToken | None:
        """Return the token with that id, or None."""
        rows = await self._tables.read(f"{_BEARER} WHERE id = %s", (token_id,))
        return bearer_token(rows[0]) if rows else None

    async def tokens(self) -> Sequence[BearerToken]:
        """Return all tokens, by name and age."""
        return [bearer_token(row) for row in await self._tables.read(f"{_BEARER} ORDER BY name, created_at, id")]

    async def revoke_token(self, token_id: str, *, note: Note) -> bool:
        """Make the token invalid and put that on the chain; False if that changes nothing."""
        found = await self.token(token_id)
        at = aware(note.at)
        return found is not None and await self._noted(_REVOKE_BEARER, (at, token_id), token_noted(found, note))

    async def put_secret(self, digest: bytes, purpose: Purpose, value: str, *, expires_at: datetime) -> None:
        """Keep the value of a secret, under its digest, until then."""
        await self._tables.write((_KEEP, (digest, purpose, value, aware(expires_at))))

    async def secret(self, digest: bytes, purpose: Purpose, *, now: datetime) -> str | None:
        """Return the value of the secret, or None."""
        rows = await self._tables.read(_LOOK_UP, (digest, purpose, aware(now)))
        return rows[0][0] if rows else None

    async def take_secret(self, digest: bytes, purpose: Purpose, *, now: datetime) -> str | None:
        """Return the value of the secret and delete it, and all secrets that have expired."""
        # This secret is left out: whether it is still valid is decided from the row that the last statement returns.
        forget = (_FORGET_EXPIRED, (aware(now), digest, purpose))
        rows = await self._tables.write(forget, (_TAKE, (digest, purpose)))
        return next((value for value, expires_at in rows if moment(expires_at) > now), None)

    async def trust_place(self, place: str, *, note: Note) -> bool:
        """Record that a person vouches for the place."""
        return await self._noted(_TRUST_PLACE, (place, storable(note.by), aware(note.at)), place_noted(place, note))

    async def distrust_place(self, place: str, *, note: Note) -> bool:
        """Record that the place is no longer trusted."""
        return await self._noted(_DISTRUST_PLACE, (place,), place_noted(place, note))

    async def trusted_places(self) -> Sequence[TrustedPlace]:
        """Return all trusted places, by place."""
        return [TrustedPlace(*with_moments(row, 2)) for row in await self._tables.read(_TRUSTED_PLACES)]


def bearer_token(row: Sequence[Any]) -> BearerToken:
    """Return the token in a row of `_BEARER`."""
    id_, name, digest, ceiling, toolsets, by, created_at, expires_at, revoked_at = with_moments(row, 6, 7, 8)
    chosen = None if toolsets is None else tuple(json.loads(toolsets))
    return BearerToken(id_, name, bytes(digest), ceiling, chosen, by, created_at, expires_at, revoked_at)


def trust_record(row: Sequence[Any]) -> TrustRecord:
    """Return the trust record in a row of `STANDING`."""
    principal, score, floor, ceiling, frozen, updated_at = row
    return TrustRecord(principal, score, floor, ceiling, bool(frozen), moment(updated_at))


def trust_change(row: Sequence[Any]) -> TrustChange:
    """Return the change in a row of `CHANGE`."""
    return TrustChange(*with_moments(row, 2))
