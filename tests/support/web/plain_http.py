"""What HTTP clients of tests need that never use TLS."""

from __future__ import annotations

import ssl

TRUSTING_NOBODY = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Enough without TLS; reading the authorities' certificates takes 20 ms for each client, longer than most requests."""
