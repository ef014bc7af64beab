"""Resources: the map and the pages, by address. `kb://map/{+path}` and `kb://doc/{+path}`."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from mcp.server.mcpserver.exceptions import ResourceNotFoundError
from mcp.server.mcpserver.resources import ResourceSecurity

from knowledge.errors import KnowledgeError
from knowledge.history.audit.chain import fields_of
from mcp_server.approvals.summary import summary
from mcp_server.gate.caller import caller
from mcp_server.gate.handles import without_handles
from mcp_server.gate.taint import origin_of
from mcp_server.ports import ProtocolServices
from mcp_server.protocol.server import ForgeServer
from mcp_server.toolsets.journeys.offers.resources import add_journey_resources
from mcp_server.toolsets.runs.resources import add_run_resources

MAP_URI = "kb://map/"
DOC_URI = "kb://doc/"
AUDIT_URI = "audit://recent"
PROPOSAL_URI = "proposal://"
MOST_RECENT = 50
HANDLES = frozenset({"proposal", "call", "run"})
"""Fields of a record that let its actor continue what it began."""
MAP_TEMPLATE = MAP_URI + "{+path}"
DOC_TEMPLATE = DOC_URI + "{+path}"

_PATHS_CHECKED_BY_US = ResourceSecurity(exempt_params=frozenset({"path"}))
"""`knowledge.pages.paths` refuses what leaves the knowledge base, with a sentence; the SDK's check knows only 'unknown'."""


def add_resources(server: ForgeServer, services: ProtocolServices) -> None:
    """Make maps, pages, proposals, what was done, agents, journeys and runs readable by their addresses."""
    _add_records(server, services)
    _add_pages(server, services)
    add_journey_resources(server, services)
    add_run_resources(server, services)


def _add_pages(server: ForgeServer, services: ProtocolServices) -> None:
    """Make the root map a listed resource, and every map and page readable by its address."""

    async def map_of(path: str) -> str:
        try:
            view = await services.tiers.map(path)
        except KnowledgeError as error:
            raise ResourceNotFoundError(str(error)) from error
        return json.dumps(asdict(view), ensure_ascii=False, separators=(",", ":"))

    async def root_map() -> str:
        return await map_of("")

    async def page(path: str) -> str:
        try:
            reading = await services.tiers.read(path)
            if reading.tainted and (who := caller.get()) is not None:
                origin = origin_of(reading.path, reading.source)
                await services.taints.note(who.id, "", (origin,))
                text = await services.tiers.full_text(path)
                await services.taints.saw(who.id, [(origin, text)])
                return text
            return await services.tiers.full_text(path)
        except KnowledgeError as error:
            raise ResourceNotFoundError(str(error)) from error

    server.resource(
        MAP_URI,
        name="map",
        title="Map of the knowledge base",
        description="The map of the whole knowledge base, from the root.",
        mime_type="application/json",
    )(root_map)
    server.resource(
        MAP_TEMPLATE,
        name="map_of",
        title="Map of a directory",
        description="The map of one directory: its title, summary and children.",
        mime_type="application/json",
        security=_PATHS_CHECKED_BY_US,
    )(map_of)
    server.resource(
        DOC_TEMPLATE,
        name="page",
        title="A page",
        description="One page exactly as it is on disk.",
        mime_type="text/markdown",
        security=_PATHS_CHECKED_BY_US,
    )(page)


def _add_records(server: ForgeServer, services: ProtocolServices) -> None:
    """Make the newest acts a listed resource, and each proposal readable by its caller."""

    async def recent() -> str:
        try:
            last, _ = await services.state.ledger.chain_end()
            records = await services.state.ledger.records(after=max(0, last - MOST_RECENT), limit=MOST_RECENT)
        except KnowledgeError as error:
            raise ResourceNotFoundError(str(error)) from error
        told = [_untold(fields_of(record) or {"unreadable": True}) for record in reversed(records)]
        who = caller.get()
        if who is None or who.by_handle:
            told = [{n: value for n, value in without_handles(one).items() if n not in HANDLES} for one in told]
        return json.dumps(told, ensure_ascii=False)

    async def proposal(proposal_id: str) -> str:
        found = await services.state.trust.proposal(proposal_id)
        who = caller.get()
        if found is None or who is None or found.principal != who.id:
            raise ResourceNotFoundError(f"you made no proposal {proposal_id[:40]!r}")
        told = await summary(found, services.review_address, whole=True)
        return json.dumps(told, ensure_ascii=False, separators=(",", ":"))

    server.resource(
        PROPOSAL_URI + "{proposal_id}",
        name="proposal",
        title="A proposal",
        description="One of your proposals: its status, the decision and, once approved, the result.",
        mime_type="application/json",
    )(proposal)
    server.resource(
        AUDIT_URI,
        name="audit",
        title="Recent acts",
        description="The newest audit records: who did what to which page, newest first, without page text.",
        mime_type="application/json",
    )(recent)


def _untold(record: dict[str, Any]) -> dict[str, Any]:
    """Return the record for its reader, which may be another host than its actor.

    It is without what its actor or a person wrote about it, and without the place in another service that it went to: who writes
    to whom is not for everybody.
    """
    return {name: value for name, value in record.items() if name not in ("intent", "delivery")}
