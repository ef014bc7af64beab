"""Webhooks: signed messages to receivers that a person configured. Nothing is read from there."""
