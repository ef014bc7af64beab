"""Decides whether a lease is still valid, even if the clock was set back since it was given. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

CLOCKS_APART_S = 60.0
"""Seconds by which the clocks of machines that share a state may differ before one machine ignores another's leases."""
MACHINE_LEASE = "machine"
"""The lease of a machine on a folder that several may use. It may last a minute longer than the machine's processes, so
it doesn't show that the state is in use."""


def latest_end(now: datetime, lease_s: float) -> datetime:
    """Return the latest time at which a lease of `lease_s` seconds, given by now, can end.

    A lease with a later end was given before the clock was set back.
    """
    return now + timedelta(seconds=lease_s + CLOCKS_APART_S)


def holds(expires_at: datetime, now: datetime, lease_s: float) -> bool:
    """Return whether a lease that was given for `lease_s` seconds and ends at `expires_at` is still valid."""
    return now < expires_at <= latest_end(now, lease_s)
