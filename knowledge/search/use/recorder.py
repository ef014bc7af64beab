"""Collects questions and the pages used after them while a server answers, and stores them a moment later."""

from __future__ import annotations

import logging
import re
import secrets
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import anyio
from anyio import Lock, to_thread

from knowledge.errors import StorageError
from knowledge.search.answers import SearchAnswer
from knowledge.search.use.events import AskedQuestion, PageUse, PageUseKind, SearchedFor, UsingSession

if TYPE_CHECKING:
    from knowledge.search.use.store import UseStore

log = logging.getLogger(__name__)

USED_WITHIN = timedelta(minutes=10)
"""A page that is used later than this after a question is not recorded: it is hardly related to it."""
LONGEST_QUESTION = 400
"""Longer questions are not recorded: they are pasted texts, which may hold anything."""
PRUNE_EVERY = timedelta(hours=1)
MOST_REMEMBERED = 2_000
MOST_PENDING = 1_000
_SECRET = re.compile(
    r"""-----BEGIN
    | \b(?:sk|pk|rk|ghp|gho|ghu|ghs|glpat|xox[abprs]|hf|AKIA|ASIA|eyJ)[-_A-Za-z0-9]{12,}  # prefixes that vendors use
    | \b(?:password|passwd|passphrase|secret|token|api[ _-]?key|bearer|authorization)\b\s*(?:[:=]|is\b)\s*\S  # what follows is one
    | ://[^/\s:@]+:[^/\s@]+@  # a password in an address
    """,
    re.IGNORECASE | re.VERBOSE,
)
_LONG_WORD = re.compile(r"[A-Za-z0-9+/_=\-]{20,}")
_KINDS_OF_LETTERS = (re.compile("[a-z]"), re.compile("[A-Z]"), re.compile("[0-9]"))


def may_hold_secret(text: str) -> bool:
    """Return whether `text` may contain a password, a key or a token. It is also true for long identifiers, which look alike."""
    if _SECRET.search(text):
        return True
    # Digits with letters, because a long name such as `reciprocal-rank-fusion-constant` has no digits between them.
    return any(
        sum(kind.search(word) is not None for kind in _KINDS_OF_LETTERS) >= 2 and sum(map(str.isdigit, word)) >= 3
        for word in _LONG_WORD.findall(text)
    )


class UseRecorder:
    """Records the questions asked through hosts, and the pages used within `USED_WITHIN` after them.

    No call waits for it or fails because of it: if the file cannot be written, a warning is logged once and the events are
    dropped. Questions that are long or may hold a secret are not recorded.
    """

    def __init__(self, open_store: Callable[[], UseStore], kept: timedelta) -> None:
        self._open, self._kept = open_store, kept
        # Hosts start one process for each window, so this tells apart two conversations of one host.
        self._process = secrets.token_hex(4)
        self._asked: OrderedDict[tuple[str, str], datetime] = OrderedDict()
        self._questions: list[AskedQuestion] = []
        self._uses: list[PageUse] = []
        self._store: UseStore | None = None
        self._lock = Lock()
        self._pruned_at = datetime.min.replace(tzinfo=UTC)
        self._warned = False

    def asked(self, principal: str, journey: str, searched: SearchedFor, answer: SearchAnswer, *, at: datetime) -> bool:
        """Note a question and what its answer showed; return whether it will be recorded."""
        query = " ".join(searched.query.encode(errors="replace").decode().split())
        if not query or len(query) > LONGEST_QUESTION or may_hold_secret(query) or len(self._questions) >= MOST_PENDING:
            self._asked.pop((principal, journey), None)
            return False
        # For a question about a place, the requested pages come before the hits.
        places = (
            [line.path for line in answer.pages if line.kind == "document"] if answer.route.mode == "navigation" else []
        )
        shown = tuple(dict.fromkeys([*places, *(hit.path for hit in answer.hits)]))
        where = SearchedFor(query, searched.path, searched.filters, continued=searched.continued)
        session = UsingSession(principal, journey, self._process)
        self._questions.append(AskedQuestion(at, session, where, answer.route.mode, shown))
        self._asked[principal, journey] = at
        self._asked.move_to_end((principal, journey))
        if len(self._asked) > MOST_REMEMBERED:
            self._asked.popitem(last=False)
        return True

    def used(
        self, principal: str, journey: str, path: str, *, how: PageUseKind, untrusted: bool = False, at: datetime
    ) -> bool:
        """Note that a page was used; return whether it will be recorded, which needs a question shortly before."""
        asked_at = self._asked.get((principal, journey))
        if asked_at is None or at - asked_at > USED_WITHIN or len(self._uses) >= MOST_PENDING:
            return False
        self._uses.append(PageUse(at, UsingSession(principal, journey, self._process), path, how, untrusted=untrusted))
        return True

    async def flush(self) -> None:
        """Store the events noted since the last flush; once an hour, also delete old ones."""
        async with self._lock:
            questions, self._questions = self._questions, []
            uses, self._uses = self._uses, []
            if not questions and not uses:
                return
            try:
                if self._store is None:
                    self._store = await to_thread.run_sync(self._open)
                at = max([one.at for one in questions] + [one.at for one in uses])
                await self._store.add(questions, uses)
                questions, uses = [], []
                if at - self._pruned_at > PRUNE_EVERY:
                    self._pruned_at = at
                    await self._store.prune(before=at - self._kept)
            except StorageError:
                # The file may have been deleted or replaced; the next flush opens it again.
                self._close()
                if not self._warned:
                    log.warning("questions and the pages used after them cannot be recorded", exc_info=True)
                    self._warned = True
            except anyio.get_cancelled_exc_class():
                # A server that is being stopped cancels this, and flushes once more: nothing may be lost or stored twice.
                self._questions[:0], self._uses[:0] = questions, uses
                raise

    def _close(self) -> None:
        store, self._store = self._store, None
        if store is not None:
            store.close()

    async def close(self) -> None:
        """Close the file."""
        async with self._lock:
            self._close()
