"""The signals that shut a server down in order."""

from __future__ import annotations

import signal


def ending_signals() -> list[signal.Signals]:
    """Return the signals that ask a program to end; SIGHUP, which a closing terminal sends, only if `nohup` does not ignore it."""
    always = [signal.SIGTERM, signal.SIGINT]
    hangup: signal.Signals | None = getattr(signal, "SIGHUP", None)
    return always if hangup is None or signal.getsignal(hangup) is signal.SIG_IGN else [*always, hangup]
