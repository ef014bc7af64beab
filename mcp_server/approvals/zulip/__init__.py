"""Proposals as messages in Zulip, decided by reactions."""
