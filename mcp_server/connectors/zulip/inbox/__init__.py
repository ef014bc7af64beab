"""Waiting for messages, unread messages, and files."""
