"""The contract of an outbox. Every engine passes the same contract suite, which compares it with `tests/support/state/memory/`.

An outbox lies in the state database of its knowledge base. Every method is one transaction; times come in, aware UTC. It holds no
text of a task or message: only hashes, ids, names of places and links.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Literal, Protocol

Fate = Literal["begun", "done", "unsure", "failed"]
"""`begun`: about to be sent, or sent by a process that died; `unsure`: sent, and nobody can tell whether it happened;
`failed`: certainly not done."""


CALL: Final = "of_call"
"""The mark that names the call of a run that an outbox entry is for, or the run. It says nothing of whether anything was sent."""


@dataclass(frozen=True, slots=True)
class OutboxEntry:
    """One act in another service.

    `id` is ours and never used twice: services that know keys get it as one. `digest` is a SHA-256 over what is to be done
    and where, `target` names the place (`zulip:design/merge`, `plane:KB`), `proposal` is the one that a person approved, ""
    for none. `marks` are what it can be looked up by if its reply is lost. `result` is JSON: what was answered.
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

    `origin` is its lineage (`plane:KB-12`, `zulip:design/merge`), `url` where a person
    sees it, `title` what it is called there.
    """

    path: str
    origin: str
    title: str
    url: str
    at: datetime


class Outbox(Protocol):
    """What was sent from this knowledge base, and what elsewhere names its pages."""

    async def begin(self, outbox_entry: OutboxEntry, *, within: timedelta) -> OutboxEntry:
        """Record that `outbox_entry` is about to be done and return it; or return the one that is the same, and record nothing.

        The same is, of those that have not failed: that of the same proposal; else the newest of the same principal, tool and
        digest that is `begun` or `unsure`, however old; and for one without a proposal also if it was begun within `within`
        before. Of any number of callers at once exactly one gets its own outbox entry back. What is returned as begun is known after
        a power cut.

        Raises:
            ValueError: another one has that id, or it has ended already. Nothing is recorded.
        """
        ...

    async def mark(self, entry_id: str, marks: Mapping[str, str]) -> None:
        """Add what it can be looked up by; of the same name the newest counts.

        Raises:
            UnknownErrand: there is no such one (any more).
        """
        ...

    async def end(self, entry_id: str, fate: Fate, *, at: datetime, result: str | None = None) -> OutboxEntry:
        """Record what became of it, with a record in the audit chain, and return it.

        One that is `done` or `failed`, or `unsure` already, stays as it is: there is no second record of the same end.

        Raises:
            UnknownErrand: there is no such one (any more). Nothing is recorded.
            ValueError: nothing ends as `begun`.
        """
        ...

    async def outbox_entry(self, entry_id: str) -> OutboxEntry | None:
        """Return it, or None."""
        ...

    async def outbox_entry_of(self, proposal: str) -> OutboxEntry | None:
        """Return the newest outbox entry that carries out that proposal, or None."""
        ...

    async def marked(self, name: str) -> OutboxEntry | None:
        """Return the newest outbox entry that has a mark of that name, or None."""
        ...

    async def open(self, *, limit: int = 100) -> Sequence[OutboxEntry]:
        """Return those begun or unsure, newest first."""
        ...

    async def forget(self, *, ended_before: datetime, limit: int = 1000) -> int:
        """Drop outbox entries that ended before then, the oldest first, and return how many; so many at once at most.

        Those that were begun and never ended are not dropped: nobody has said what became of them.
        """
        ...

    async def mention(self, mentions: Sequence[Mention]) -> None:
        """Remember what names which page; of the same page and origin the newest counts.

        The newest 50 of each page are kept, and 50,000 in all: what names a page is written by strangers. Titles may be cut.
        """
        ...

    async def mentions(self, path: str, *, limit: int = 20) -> Sequence[Mention]:
        """Return what names the page, newest first."""
        ...
