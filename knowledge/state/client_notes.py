"""Notes on the HTTP sessions of clients, for all processes that may get a session's next request.

The database has only a hash of a session's id, so nobody who reads it can use the session. Each note that another process waits for is
published as a change event with the topic `client`, whose key is the session, what happened, and an id, with colons between.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

from knowledge.history.timestamps import aware
from knowledge.state.change_events import PUBLISH
from knowledge.state.tables import SqlText, StateTables, StateTransaction

TOPIC = "client"
KEPT = timedelta(days=30)
"""How long a session is valid, and so how long its notes are kept."""
PRUNE_EVERY = timedelta(hours=1)
MOST_SUBSCRIPTIONS = 1000
"""The most addresses that one session can subscribe to."""

_URI, _ASKED, _STREAM, _ENDED = "uri:", "asked:", "stream", "ended"
_NOTE = """
INSERT INTO forge.client_note (session, name, body, noted_at) VALUES (%s, %s, %s, %s)
ON CONFLICT (session, name) DO UPDATE SET body = excluded.body, noted_at = excluded.noted_at
"""
_READ = "SELECT body FROM forge.client_note WHERE session = %s AND name = %s"
_COUNT = "SELECT count(*) FROM forge.client_note WHERE session = %s AND name <> %s AND substr(name, 1, 4) = 'uri:'"
_URIS = "SELECT substr(name, 5) FROM forge.client_note WHERE session = %s AND substr(name, 1, 4) = 'uri:' ORDER BY name"
_ANSWER = "UPDATE forge.client_note SET body = %s WHERE session = %s AND name = %s AND body IS NULL RETURNING name"
_FORGET = "DELETE FROM forge.client_note WHERE session = %s AND name = %s"
_FORGET_ALL = "DELETE FROM forge.client_note WHERE session = %s"
_PRUNE = "DELETE FROM forge.client_note WHERE noted_at < %s"


class ClientNotes:
    """The notes on all sessions of one knowledge base."""

    def __init__(self, tables: StateTables, now: Callable[[], datetime]) -> None:
        self._tables, self._now = tables, now
        self._pruned_at = datetime.min.replace(tzinfo=UTC)

    async def ended(self, session: str) -> bool:
        """Return whether the client has ended the session."""
        return bool(await self._tables.read(_READ, (session, _ENDED)))

    async def end(self, session: str) -> None:
        """Note that the client has ended the session; its stream is closed wherever it is."""
        note = (_NOTE, (session, _ENDED, None, self._at()))
        await self._tables.write((_FORGET_ALL, (session,)), note, self._told(session, _STREAM))

    async def subscribe(self, session: str, uri: str) -> bool:
        """Note that the session wants to hear of changes at `uri`; False if it has too many subscriptions."""
        rows = await self._tables.read(_COUNT, (session, _URI + uri))
        if rows[0][0] >= MOST_SUBSCRIPTIONS:
            return False
        await self._tables.write((_NOTE, (session, _URI + uri, None, self._at())), self._told(session, _URI))
        await self._prune()
        return True

    async def unsubscribe(self, session: str, uri: str) -> None:
        """Forget the subscription."""
        await self._tables.write((_FORGET, (session, _URI + uri)), self._told(session, _URI))

    async def subscriptions(self, session: str) -> Sequence[str]:
        """Return the addresses that the session is subscribed to."""
        return [row[0] for row in await self._tables.read(_URIS, (session,))]

    async def open_stream(self, session: str, stream: str) -> None:
        """Note that this is the session's newest stream of events; older ones are closed wherever they are."""
        await self._tables.write((_NOTE, (session, _STREAM, stream, self._at())), self._told(session, _STREAM))
        await self._prune()

    async def newest_stream(self, session: str) -> str | None:
        """Return the session's newest stream, None if it has none."""
        rows = await self._tables.read(_READ, (session, _STREAM))
        return rows[0][0] if rows else None

    async def ask(self, session: str, question: str) -> None:
        """Note that this question is put to the client."""
        await self._tables.write((_NOTE, (session, _ASKED + question, None, self._at())))

    async def answer(self, session: str, question: str, answer: str) -> bool:
        """Keep the client's first answer for the process that asked; False if the session was not asked that, or has answered."""

        async def keep(transaction: StateTransaction) -> bool:
            if not await transaction.execute(_ANSWER, (answer, session, _ASKED + question)):
                return False
            await transaction.execute(*self._told(session, _ASKED + question))
            return True

        return await self._tables.transact(keep)

    async def answered(self, session: str, question: str) -> str | None:
        """Return the client's answer, None if there is none yet."""
        rows = await self._tables.read(_READ, (session, _ASKED + question))
        return rows[0][0] if rows else None

    async def forget_question(self, session: str, question: str) -> None:
        """Forget the question: its answer arrived, or nobody waits for it any longer."""
        await self._tables.write((_FORGET, (session, _ASKED + question)), durable=False)

    async def cancel(self, session: str, request: str) -> None:
        """Tell the process that handles this request of the session that the client has cancelled it."""
        await self._tables.write(self._told(session, f"cancel:{request}"))

    def _at(self) -> datetime:
        return aware(self._now())

    def _told(self, session: str, what: str) -> tuple[SqlText, Sequence[object]]:
        return PUBLISH, (TOPIC, [f"{session}:{what}"])

    async def _prune(self) -> None:
        now = self._now()
        if now - self._pruned_at > PRUNE_EVERY:
            self._pruned_at = now
            await self._tables.write((_PRUNE, (aware(now - KEPT),)), durable=False)
