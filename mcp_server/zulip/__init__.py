"""Zulip: channels and messages. `wire` knows its words, `client` sends them, `chat` speaks of messages."""
