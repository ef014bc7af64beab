"""Everything that is hooked into the SDK, in one place: the gate, and the tasks around it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from mcp.server.context import ServerMiddleware
from mcp.server.extension import Extension
from mcp.server.subscriptions import SubscriptionBus

from mcp_server.gate.dispatch import Gate
from mcp_server.late_module import LateModule
from mcp_server.ports import ProtocolServices
from mcp_server.protocol.cards.extension import CardsExtension, with_cards
from mcp_server.protocol.gate_extension import GateExtension, Identify
from mcp_server.protocol.reach.requests import refusing
from mcp_server.protocol.server import ForgeServer
from mcp_server.protocol.tasks.extension import TasksExtension
from mcp_server.protocol.tasks.subscriptions import TaskListening

if TYPE_CHECKING:
    from mcp_server.approvals.approvers import Approvals
    from mcp_server.protocol.tasks import states
    from mcp_server.protocol.tasks.states import ProtocolTasks
else:
    # Only for clients that know tasks.
    states = LateModule("mcp_server.protocol.tasks.states")


@dataclass(frozen=True)
class Seams:
    """The extensions and middleware of a server, made from their shared parts."""

    gate: Gate
    identify: Identify
    load_approvals: Callable[[], Approvals]
    services: ProtocolServices

    @cached_property
    def _tasks(self) -> ProtocolTasks:
        return states.ProtocolTasks(self.gate, self.load_approvals(), self.services)

    def tasks(self) -> ProtocolTasks:
        """Return the tasks of all callers, made on first use."""
        return self._tasks

    @property
    def extensions(self) -> Sequence[Extension]:
        """The extensions that answer calls, outermost first."""
        gate = GateExtension(self.gate, self.identify, self.load_approvals, self.services)
        return (CardsExtension(self.services), TasksExtension(self.tasks, self.identify), gate)

    @property
    def middleware(self) -> Sequence[ServerMiddleware[Any]]:
        """Two pieces of middleware: one names cards; the other refuses requests other than tool calls to callers that may not read."""
        return (with_cards, refusing(self.gate, self.identify))

    def listen(self, server: ForgeServer, bus: SubscriptionBus) -> None:
        """Make `subscriptions/listen` of the server report tasks as well."""
        server.listen_with(TaskListening(bus, self.tasks, self.gate, self.services.state, self.identify))
