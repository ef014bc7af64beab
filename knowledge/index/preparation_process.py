"""A second process that reads and cuts documents during a long run, so that both halves of the work have a core.

It exchanges pickles over pipes with the process that started it, and with no other. It ends when its input ends, so a
killed parent leaves none behind. It writes nothing but answers to standard output.
"""

from __future__ import annotations

import logging
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from knowledge.cycles import look_for_cycles_rarely
from knowledge.errors import VaultUnavailable
from knowledge.index.page_rows import DirectoryTrust, Outcome, Prepared, prepare
from knowledge.index.ports import Known
from knowledge.pages.vault import Vault
from knowledge.search.query.analysis import keep_words, remember_words

log = logging.getLogger(__name__)

WORTH_IT = 1_000
"""From this many documents on, starting a process (a third of a second) pays off."""
PATIENCE_S = 5.0

_PACKAGES = Path(__file__).resolve().parents[2]
# The parent's module path is set first, so that the child finds this package as the parent did.
_START = f"import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); from {__name__} import serve; serve()"

Job = tuple[str, Known | None]


class PreparingLost(Exception):
    """The second process is gone or sends garbage; the work can be done in this one."""


@dataclass(frozen=True, slots=True)
class _PreparedPieces:
    """The outcomes of a request and the words of every piece, in order; or why the folder is unavailable."""

    outcomes: Sequence[Outcome] = ()
    words: Sequence[Sequence[str]] = ()
    unavailable: tuple[str, str] | None = None


def is_worth_it(documents: int) -> bool:
    """Return whether a second process makes a run over this many documents shorter; not on a single core."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return documents >= WORTH_IT and cores > 1


class PreparingProcess:
    """Prepares documents of the vault at `root` in another process. All methods block: call them from a thread.

    Starting one raises OSError or PreparingLost if the system does not allow it.
    """

    def __init__(self, root: Path) -> None:
        self.closed = False
        # Without -P the child would import its first modules from the working directory, which may be a stranger's.
        command = [sys.executable, "-P", "-c", _START]
        self._child = subprocess.Popen(  # noqa: S603 - this program
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # Its errors would reach the terminal unfiltered. A page that crashes it fails again here, and is logged.
            stderr=subprocess.DEVNULL,
            # Outside of the working directory: with a relative entry in PATH, a stranger's program in it could run.
            cwd=Path(sys.executable).anchor or None,
        )
        try:
            self._send([str(_PACKAGES), *(part for part in sys.path if Path(part).is_absolute())])
            self._send(str(root))
        except PreparingLost:
            self.close()
            raise

    def prepare(self, jobs: Sequence[Job], *, at_ns: int) -> list[Outcome]:
        """Return the outcome of `prepare` for each job; the words of the pieces are cached as if computed here.

        Raises:
            VaultUnavailable: the whole folder is gone.
            PreparingLost: the process is gone; nothing was done.
        """
        self._send((list(jobs), at_ns))
        answer = self._receive()
        if answer.unavailable is not None:
            raise VaultUnavailable(*answer.unavailable)
        pieces = [piece for outcome in answer.outcomes if isinstance(outcome, Prepared) for piece in outcome.pieces]
        for piece, words in zip(pieces, answer.words, strict=True):
            keep_words(piece.embedded, words)
        return list(answer.outcomes)

    def close(self) -> None:
        """End the process and close the pipes."""
        self.closed = True
        for pipe in (self._child.stdin, self._child.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:
                    log.debug("the pipe of a process that is gone", exc_info=True)
        try:
            self._child.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()

    def _send(self, message: object) -> None:
        pipe = self._child.stdin
        try:
            if pipe is None:
                raise PreparingLost
            pickle.dump(message, pipe, protocol=pickle.HIGHEST_PROTOCOL)
            pipe.flush()
        except (OSError, ValueError) as error:
            raise PreparingLost from error

    def _receive(self) -> _PreparedPieces:
        pipe = self._child.stdout
        try:
            answer = pickle.load(pipe) if pipe is not None else None  # noqa: S301 - from our own child
        except Exception as error:
            raise PreparingLost from error
        if not isinstance(answer, _PreparedPieces):
            raise PreparingLost
        return answer


def serve() -> None:
    """Answer requests from standard input until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when a run ends
    # Nothing else may write to the pipe of answers: prints go to standard error.
    wire = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    look_for_cycles_rarely()
    requests = sys.stdin.buffer
    vault = Vault(pickle.load(requests))  # noqa: S301 - from our own parent
    trust = DirectoryTrust(vault)
    while True:
        try:
            jobs, at_ns = pickle.load(requests)  # noqa: S301 - from our own parent
        except EOFError:
            return
        try:
            # One pickle of everything, so that a word in many pieces is sent once.
            wire.write(pickle.dumps(_answer(vault, trust, jobs, at_ns), protocol=pickle.HIGHEST_PROTOCOL))
            wire.flush()
        except BrokenPipeError:
            return


def _answer(vault: Vault, trust: DirectoryTrust, jobs: Sequence[Job], at_ns: int) -> _PreparedPieces:
    # The parent's clock, continued here: a later change of a file must look newer.
    began = time.monotonic_ns()
    outcomes: list[Outcome] = []
    try:
        for path, known in jobs:
            outcomes.append(prepare(vault, path, known, trust, at_ns=at_ns + time.monotonic_ns() - began))
    except VaultUnavailable as error:
        return _PreparedPieces(unavailable=(error.root, error.reason))
    pieces = [piece for outcome in outcomes if isinstance(outcome, Prepared) for piece in outcome.pieces]
    return _PreparedPieces(outcomes, [remember_words(piece.embedded) for piece in pieces])
