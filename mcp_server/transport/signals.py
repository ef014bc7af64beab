"""The signals that end a server in order."""

from __future__ import annotations

import signal


def ending_signals() -> list[signal.Signals]:
    """Return those of this system that ask a program to end.

    SIGHUP, with which a terminal goes, is one of them unless `nohup` has it ignored.
    """
    always = [signal.SIGTERM, signal.SIGINT]
    hangup: signal.Signals | None = getattr(signal, "SIGHUP", None)
    return always if hangup is None or signal.getsignal(hangup) is signal.SIG_IGN else [*always, hangup]
