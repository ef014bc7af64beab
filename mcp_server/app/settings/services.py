"""The other services that the server can use: how to reach each one, its limits, and its variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final


@dataclass(frozen=True, slots=True)
class PlaneAccess:
    """How to reach Plane, and its limits: only `projects` may be used; None allows all that the key can see."""

    base_url: str
    api_key: str = field(repr=False)
    workspace: str
    projects: tuple[str, ...] | None = None
    read_only: bool = False
    ca: Path | None = None


@dataclass(frozen=True, slots=True)
class ZulipAccess:
    """How to reach Zulip, and its limits: only `channels` may be used; None allows all that the bot can see.

    Direct messages count as a channel called `direct`. Proposals are announced in the channel and topic `reviews`; a
    reaction there by one of `reviewers` (email addresses, ids or names) decides. `review_page` is the public address to
    which the notices link.
    """

    site: str
    email: str
    api_key: str = field(repr=False)
    channels: tuple[str, ...] | None = None
    read_only: bool = False
    ca: Path | None = None
    reviews: tuple[str, str] | None = None
    reviewers: tuple[str, ...] = ()
    review_page: str | None = None


@dataclass(frozen=True, slots=True)
class WebhookTarget:
    """A receiver of webhooks: the name that hosts call it by, its address, and the secrets (`whsec_...`) that sign what it gets.

    A person who changes the secret gives the new one first and the old one after it: both sign until the receiver has the new one.
    """

    name: str
    url: str = field(repr=False)
    secrets: tuple[str, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class WebhookAccess:
    """The receivers that webhooks may go to."""

    targets: tuple[WebhookTarget, ...]
    read_only: bool = False
    ca: Path | None = None


ServiceAccess = PlaneAccess | ZulipAccess | WebhookAccess


@dataclass(frozen=True, slots=True)
class ServiceVariables:
    """The environment variables of a service, for notes on the settings.

    They begin with `prefix`. `required` configure it, and `key_source` says where a person gets the key. `limit` restricts hosts to
    some of its `limited` things, such as projects; "" if there is nothing to restrict. `certificates` names its file of certificates.
    `read`: hosts read text there that others wrote, so a person can trust its places, and merges can cite it.
    """

    title: str
    prefix: str
    required: tuple[str, ...]
    key_source: str
    certificates: str
    limit: str = ""
    limited: str = ""
    read: bool = True


SERVICE_VARIABLES: Final[Mapping[str, ServiceVariables]] = {
    "plane": ServiceVariables(
        title="Plane",
        prefix="PLANE_",
        required=("PLANE_BASE_URL", "PLANE_API_KEY", "PLANE_WORKSPACE"),
        key_source="a key is made in Plane under Profile settings > Personal access tokens",
        limit="PLANE_PROJECTS",
        limited="projects",
        certificates="PLANE_CA",
    ),
    "zulip": ServiceVariables(
        title="Zulip",
        prefix="ZULIP_",
        required=("ZULIP_SITE", "ZULIP_EMAIL", "ZULIP_API_KEY"),
        key_source=(
            "a bot and its key are made in Zulip under Settings > Personal > Bots, or name its zuliprc in ZULIP_CONFIG"
        ),
        limit="ZULIP_CHANNELS",
        limited="channels",
        certificates="ZULIP_CERT_BUNDLE",
    ),
    "webhook": ServiceVariables(
        title="Webhook",
        prefix="FORGE_WEBHOOK",
        required=("FORGE_WEBHOOKS",),
        key_source="the receiver shows its address and its secret, which begins with whsec_",
        certificates="FORGE_WEBHOOK_CA",
        read=False,
    ),
}
"""By toolset. `Settings` has a property of the same name for each, which returns its access."""
TOOLSETS: Final = ("knowledge", "trust", "journeys", "runs", *SERVICE_VARIABLES)
"""Folders in `mcp_server/toolsets/`. The order is fixed: hosts show it, and models read from the top."""
