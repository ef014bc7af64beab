"""The interface that every connected service offers to the rest of the server, besides its own tools."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

from knowledge.outbox.ports import Mention
from knowledge.search.answers import Citing
from mcp_server.absent import NotConfigured


class Connector(Protocol):
    """A service, used as far as the settings allow.

    Its folder here also has an `evidence.py`, whose `fetch(connector, locator)` returns the text of a source that
    begins with the folder's name, such as `plane:KB-12`. Everything that a service must bring is in the handbook's
    guide "Add a service".
    """

    def citation(self, mention: Mention) -> Citing | None:
        """Return the part of a mention that a reader of the page may see; None if the settings hide its place.

        Never a title: anyone may have written it, and reading the page must not count as reading that. Sends no request
        to the service.
        """
        ...


C = TypeVar("C")


def connector_of(connectors: Mapping[str, Callable[[], Connector]], service: str, kind: type[C]) -> C:
    """Return the connector of a service, called `service` by people (Plane) and listed under that name in lower case.

    Raises:
        NotConfigured: the settings do not name the service.
    """
    load = connectors.get(service.lower())
    if load is None:
        raise NotConfigured(service)
    connector = load()
    if not isinstance(connector, kind):
        raise TypeError(f"the connector of {service} is a {type(connector).__name__}, not a {kind.__name__}")
    return connector
