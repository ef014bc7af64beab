"""A change of the whole state on its way from the page to the process that serves the page, and its outcome on the way back.

The site uses the state, and nothing may use a state that is replaced or moved. So the page only rehearses and confirms. The process
then closes everything, makes the change, and shows the site again at the same address, whose sockets stay open meanwhile.
"""

from __future__ import annotations

import hashlib
import secrets
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import anyio

from knowledge.state.transfer.layout import tables
from knowledge.state.transfer.move import TABLE_COPIED
from mcp_server.approvals.approvers import CannotDecide
from mcp_server.gate.canonical_json import canonical
from mcp_server.presenters.whole_state import ChangedState, PlannedChange, PlannedRestore
from mcp_server.web.access.sessions import Session, Sessions
from mcp_server.web.ports import listening, preferred_port

LIFETIME = timedelta(minutes=10)
MOST_REHEARSED = 16
"""Rehearsals of one process that can still be confirmed."""


@dataclass(frozen=True, slots=True)
class RehearsedChange:
    """A change that was shown to a person, under a random `token`."""

    token: str
    planned: PlannedChange
    session: Session = field(repr=False)
    at: datetime

    @property
    def hash(self) -> str:
        """The hash that a passkey signs: of this rehearsal, and of what it shows."""
        planned = self.planned
        shown = (
            ["state.restore", str(planned.file).encode("utf-8", "surrogateescape").hex(), planned.digest]
            if isinstance(planned, PlannedRestore)
            else ["state.move", planned.place, planned.step]
        )
        return hashlib.sha256(canonical([*shown, self.token])).hexdigest()


class Handover:
    """The data that the pages of this process and the process itself hand to each other."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._sockets: list[socket.socket] = []
        self._rehearsed: dict[str, RehearsedChange] = {}
        self.confirmed: RehearsedChange | None = None
        self.asked = anyio.Event()
        """Set once the process should close the state."""
        self.outcome: ChangedState | None = None
        """The outcome of the last change in this process."""
        self.copied = 0
        """The number of tables copied so far."""

    def rehearse(self, planned: PlannedChange, session: Session, now: datetime) -> RehearsedChange:
        """Remember a change that is shown to the person of this session."""
        kept = [one for one in self._rehearsed.values() if one.at + LIFETIME > now][-MOST_REHEARSED + 1 :]
        made = RehearsedChange(secrets.token_urlsafe(24), planned, session, now)
        self._rehearsed = {one.token: one for one in (*kept, made)}
        return made

    def rehearsed(self, token: str, session: Session, now: datetime) -> RehearsedChange:
        """Return the rehearsal that was shown in this session.

        Raises:
            CannotDecide: there is none, or it is too old.
        """
        found = self._rehearsed.get(token)
        if found is None or found.session.secret != session.secret or found.at + LIFETIME <= now:
            raise CannotDecide("this was shown too long ago; look at it again")
        return found

    def confirm(self, rehearsed: RehearsedChange) -> None:
        """Choose the change that is made once `asked` is set.

        Raises:
            CannotDecide: another one is on its way.
        """
        if self.confirmed is not None:
            raise CannotDecide("another change of the state is on its way")
        self.confirmed = rehearsed
        self._rehearsed.clear()
        self.copied, self.outcome = 0, None

    def drawn(self, step: str) -> None:
        """Note a step of the change."""
        self.copied += step.endswith(TABLE_COPIED)

    @property
    def progress(self) -> str:
        """How far the change is, in words."""
        return f"{self.copied} of {len(tables())} tables copied" if self.copied else ""

    def finish(self, outcome: ChangedState) -> None:
        """Note the outcome of the confirmed change."""
        self.confirmed, self.outcome, self.asked = None, outcome, anyio.Event()

    @contextmanager
    def sockets(self, root: Path) -> Iterator[list[socket.socket]]:
        """Yield sockets at the address of the page. They may be closed: the address stays ours until this process ends."""
        if not self._sockets:
            self._sockets = self._stack.enter_context(listening(preferred_port(root)))
        copies = [one.dup() for one in self._sockets]
        try:
            yield copies
        finally:
            for one in copies:
                one.close()

    def leave(self) -> None:
        """Give up the address: another process shows the page."""
        self._stack.close()
        self._sockets = []


@contextmanager
def handing_over() -> Iterator[Handover]:
    """Yield a handover, and close its sockets in the end."""
    with ExitStack() as stack:
        yield Handover(stack)


async def keep_session(session: Session, sessions: Sessions) -> None:
    """Let the person who confirmed a change stay logged in: the state that they restored may not know their session."""
    if await sessions.of(session.secret) is None:
        await sessions.keep(session)
