"""Arguments and answers of the tool that sends webhooks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from mcp_server.toolsets.spec import ActStatus, Arguments, DryRun, InJourney

LONGEST_TEXT = 100_000


class SendWebhookArguments(Arguments):
    """Arguments of webhook_send."""

    target: Annotated[str, Field(min_length=1, description="Name of the receiver.")]
    # Source: Standard Webhooks, "Event types".
    event: Annotated[
        str,
        Field(
            max_length=100, pattern=r"^[a-zA-Z0-9_]+(\.[a-zA-Z0-9_]+)*$", description="Type, e.g. release.published."
        ),
    ]
    text: Annotated[str | None, Field(max_length=LONGEST_TEXT, description="Becomes data.text.")] = None
    data: Annotated[dict[str, Any], Field(description="Anything else, as JSON.")] = Field(default_factory=dict)
    dry_run: DryRun = False
    journey_id: InJourney = None


@dataclass(frozen=True, slots=True)
class WebhookSent:
    """The outcome of a webhook. `webhook_id` is the one that the receiver gets; `preview` is the whole body that would be sent."""

    status: ActStatus
    proposal: Mapping[str, Any] | None
    target: str
    webhook_id: str | None
    preview: str | None = None
    note: str | None = None
