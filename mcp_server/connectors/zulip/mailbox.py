"""Decides whether two e-mail addresses are the same mailbox. Settings load this at start-up, so it stays small."""

from __future__ import annotations


def mailbox(address: str) -> str:
    """Return an e-mail address in a form in which two addresses of the same mailbox are equal.

    Only ASCII letters lose their case. Lower-casing others would make two people's addresses equal: the Kelvin sign becomes a k.
    """
    return address.lower() if address.isascii() else address
