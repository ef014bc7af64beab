"""The contract of an outbox. Every engine passes the same contract suite, which compares it with `tests/support/state/memory/`.

An outbox is in the state database of its knowledge base. Every method is one transaction. Times are passed in, aware UTC. An outbox
holds no text of a task or message: only hashes, ids, names of places and links.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Literal, Protocol

Fate = Literal["begun", "done", "unsure", "failed"]
"""`begun`: about to be sent, or possibly sent by a process that died; `unsure`: sent with unknown outcome; `failed`: certainly not
done."""


CALL: Final = "of_call"
"""The mark with the run, or the call of a run, that an entry is for. It is set from the start, so it does not show that anything was
sent."""


@dataclass(frozen=True, slots=True)
class OutboxEntry:
    """One act in another service.

    `id` is ours and never reused: it serves as idempotency key for services that accept one. `digest` is a SHA-256 over the act and
    its place, `target` names the place (`zulip:design/merge`, `plane:KB`), `proposal` is the approved proposal, "" if there is none.
    `marks` identify the act in the service if its reply is lost. `result` is the service's answer as JSON.
    """

    id: str
    principal: str
    tool: str
    target: str
    digest: str
    begun_at: datetime
    proposal: str = ""
    arguments_hash: str = ""
    marks: Mapping[str, str] = field(default_factory=dict)
    fate: Fate = "begun"
    result: str | None = None
    ended_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Mention:
    """A task or a thread that names a page.

    `origin` is its lineage (`plane:KB-12`, `zulip:design/merge`), `url` is where a person can open it, `title` is its title there.
    """

    path: str
    origin: str
    title: str
    url: str
    at: datetime


class Outbox(Protocol):
    """The acts in other services that started here, and the tasks and threads that name pages of this knowledge base."""

    async def begin(self, outbox_entry: OutboxEntry, *, within: timedelta) -> OutboxEntry:
        """Record that `outbox_entry` is about to be done and return it.

        If there is an equal entry, return that one instead.

        The equal entry is one of the same proposal that has not failed. If there is none, it is the newest entry with
        the same principal, tool and digest that is `begun` or `unsure`, however old it is; if `outbox_entry` has no
        proposal, it may also be one that is `done` and was begun at most `within` before. Of any number of concurrent
        callers exactly one gets its own entry back. A returned `begun` entry survives a power cut.

        Raises:
            ValueError: another entry has that id, or this one has ended already. Nothing is recorded.
        """
        ...

    async def mark(self, entry_id: str, marks: Mapping[str, str]) -> None:
        """Add marks by which the act can be looked up. A mark replaces an older one of the same name.

        Raises:
            UnknownOutboxEntry: there is no such entry, or it was deleted.
        """
        ...

    async def end(self, entry_id: str, fate: Fate, *, at: datetime, result: str | None = None) -> OutboxEntry:
        """Record how the act ended, with a record in the audit chain, and return the entry.

        An entry that is already `done` or `failed`, or that already has this fate, stays unchanged, and nothing is
        recorded. An `unsure` one may still end as `done` or `failed`.

        Raises:
            UnknownOutboxEntry: there is no such entry, or it was deleted. Nothing is recorded.
            ValueError: `fate` is `begun`.
        """
        ...

    async def outbox_entry(self, entry_id: str) -> OutboxEntry | None:
        """Return the entry, or None."""
        ...

    async def outbox_entry_of(self, proposal: str) -> OutboxEntry | None:
        """Return the newest outbox entry that carries out that proposal, or None."""
        ...

    async def marked(self, name: str) -> OutboxEntry | None:
        """Return the newest outbox entry that has a mark of that name, or None."""
        ...

    async def open(self, *, limit: int = 100) -> Sequence[OutboxEntry]:
        """Return the entries that are begun or unsure, newest first."""
        ...

    async def forget(self, *, ended_before: datetime, limit: int = 1000) -> int:
        """Delete at most `limit` outbox entries that ended before then, the oldest first, and return how many.

        Entries without an end stay, because their outcome is unknown.
        """
        ...

    async def mention(self, mentions: Sequence[Mention]) -> None:
        """Record where pages were mentioned; for the same page and origin, the newest counts.

        Only the newest 50 of each page are kept, and 50,000 in all, because strangers write mentions. Titles may be cut.
        """
        ...

    async def mentions(self, path: str, *, limit: int = 20) -> Sequence[Mention]:
        """Return the places that mention the page, newest first."""
        ...
