"""Links, channel names and long messages in Zulip."""
