"""The receivers of webhooks by name; `webhook_send` is built on this."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime

from knowledge.outbox.ports import Mention
from knowledge.search.answers import Citing
from mcp_server.app.settings.services import WebhookAccess, WebhookTarget
from mcp_server.connectors.http import Sender
from mcp_server.connectors.ports import connector_of
from mcp_server.connectors.text.name_match import chosen
from mcp_server.connectors.webhook.wire import SERVICE, TargetGone, delivery, require_accepted
from mcp_server.ports import HasConnectors


class Receivers:
    """The configured receivers. `senders` has for each name the sender to its host, `paths` its path there."""

    def __init__(
        self,
        access: WebhookAccess,
        senders: Mapping[str, Sender],
        paths: Mapping[str, str],
        *,
        now: Callable[[], datetime],
    ) -> None:
        self._access, self._senders, self._paths, self._now = access, senders, paths, now
        self._gone: set[str] = set()

    def citation(self, mention: Mention) -> Citing | None:
        """Return None: nothing is read from a receiver, so nothing there names a page."""
        del mention
        return None

    def target(self, asked: str) -> WebhookTarget:
        """Return the receiver of exactly that name, apart from case and spacing.

        Raises: UnknownName: there is none; the error lists all. TargetGone: it has answered that it accepts no more
        webhooks.
        """
        found = chosen(SERVICE, "receiver", asked, self._access.targets, lambda one: (one.name,), near=False)
        if found.name in self._gone:
            raise TargetGone(found.name)
        return found

    async def deliver(self, target: WebhookTarget, message_id: str, body: bytes) -> None:
        """Send a message once. `message_id` stays the same however often a message is sent, so the receiver can drop copies.

        Raises:
            ReplyLost: it may have arrived: a timeout, a cut, or a status of 500 and above.
            ConnectorError: the receiver certainly did not accept it.
        """
        request = delivery(self._paths[target.name], body, message_id, self._now(), target.secrets)
        try:
            require_accepted(await self._senders[target.name].send(request), target.name)
        except TargetGone:
            self._gone.add(target.name)
            raise


def receivers_of(services: HasConnectors) -> Receivers:
    """Return the receivers of webhooks.

    Raises:
        NotConfigured: the settings name none.
    """
    return connector_of(services.connectors, SERVICE, Receivers)
