"""Tools for messages in Zulip."""
