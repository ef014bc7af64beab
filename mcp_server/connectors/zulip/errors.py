"""What can be wrong with a call about Zulip before anything is sent. Every sentence says what to do next."""

from __future__ import annotations

from mcp_server.connectors.errors import ConnectorError

SERVICE = "Zulip"
CHANNELS_SETTING = "ZULIP_CHANNELS"


class Unclear(ConnectorError):
    """The call does not say what it wants in a way that can be done."""

    def __init__(self, told: str) -> None:
        super().__init__(SERVICE, told)


class Deactivated(ConnectorError):
    """That person's account is deactivated: nobody would read the message."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(SERVICE, f"{name[:60]!r} is deactivated in Zulip and would not get it; name somebody else")
