"""The stand-in for a service that the settings do not name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from knowledge.errors import KnowledgeError

if TYPE_CHECKING:
    from mcp_server.connectors.outbox_dispatcher import OutboxDispatcher
    from mcp_server.models.language_model import ConfiguredModel
    from mcp_server.runs.supervisor import Runs


class NotConfigured(KnowledgeError):
    """A service that the settings do not name; its tools are not listed."""

    def __init__(self, service: str) -> None:
        self.service = service
        super().__init__(f"{service} is not configured here; run `knowledge-forge doctor` to see how to configure it")


def no_dispatcher() -> OutboxDispatcher:
    """Raise the error that no other service is configured here."""
    raise NotConfigured("no other service")


def no_model() -> ConfiguredModel:
    """Raise the error that no language model is configured here."""
    raise NotConfigured("a language model")


def no_runs() -> Runs:
    """Raise the error that no language model is configured here, so there are no runs."""
    raise NotConfigured("a language model")
