"""Tools for messages in Zulip. The names are here because `tools.py` must not import the schemas."""

TOOLSET = "zulip"
SEND, REACT, UPDATE = "zulip_send_message", "zulip_react", "zulip_update"
