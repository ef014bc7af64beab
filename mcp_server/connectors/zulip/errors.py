"""Errors in what a caller asks of Zulip, found before anything is sent there."""

from __future__ import annotations

from mcp_server.connectors.errors import ConnectorError
from mcp_server.connectors.zulip.wire import SERVICE

CHANNELS_SETTING = "ZULIP_CHANNELS"


class Unclear(ConnectorError):
    """The arguments are incomplete or contradict each other; the message says what to give."""

    def __init__(self, why: str) -> None:
        super().__init__(SERVICE, why)


class Deactivated(ConnectorError):
    """The person's account is deactivated: nobody would read the message."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(SERVICE, f"{name[:60]!r} is deactivated in Zulip and would not get it; name somebody else")
