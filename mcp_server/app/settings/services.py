"""The services that the server can use besides its own pages: how each is reached, its limits, and its variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final


@dataclass(frozen=True, slots=True)
class PlaneAccess:
    """How to reach Plane, and its limits: `projects` are the only ones that may be used, None for all that the key can see."""

    base_url: str
    api_key: str = field(repr=False)
    workspace: str
    projects: tuple[str, ...] | None = None
    read_only: bool = False
    ca: Path | None = None


@dataclass(frozen=True, slots=True)
class ZulipAccess:
    """How to reach Zulip, and its limits: `channels` are the only ones that may be used, None for all that the bot can see.

    Direct messages count as a channel called `direct`. Proposals are announced in the channel and topic `reviews`; a reaction there by
    one of `reviewers` (email addresses) decides.
    """

    site: str
    email: str
    api_key: str = field(repr=False)
    channels: tuple[str, ...] | None = None
    read_only: bool = False
    ca: Path | None = None
    reviews: tuple[str, str] | None = None
    reviewers: tuple[str, ...] = ()


ServiceAccess = PlaneAccess | ZulipAccess


@dataclass(frozen=True, slots=True)
class ServiceVariables:
    """The environment variables of a service, for notes on the settings.

    `required` configure it, and `key_source` says where a person gets the key. `limit` restricts hosts to some of its `limited`
    things, such as projects. `certificates` names its file of certificates.
    """

    title: str
    required: tuple[str, ...]
    key_source: str
    limit: str
    limited: str
    certificates: str


SERVICE_VARIABLES: Final[Mapping[str, ServiceVariables]] = {
    "plane": ServiceVariables(
        title="Plane",
        required=("PLANE_BASE_URL", "PLANE_API_KEY", "PLANE_WORKSPACE"),
        key_source="a key is made in Plane under Profile settings > Personal access tokens",
        limit="PLANE_PROJECTS",
        limited="projects",
        certificates="PLANE_CA",
    ),
    "zulip": ServiceVariables(
        title="Zulip",
        required=("ZULIP_SITE", "ZULIP_EMAIL", "ZULIP_API_KEY"),
        key_source=(
            "a bot and its key are made in Zulip under Settings > Personal > Bots, or name its zuliprc in ZULIP_CONFIG"
        ),
        limit="ZULIP_CHANNELS",
        limited="channels",
        certificates="ZULIP_CERT_BUNDLE",
    ),
}
"""By toolset. `Settings` has a property of the same name for each, which returns its access."""
TOOLSETS: Final = ("knowledge", "trust", "journeys", "runs", *SERVICE_VARIABLES)
"""Folders in `mcp_server/toolsets/`. The order is fixed: hosts show it, and models read from the top."""
