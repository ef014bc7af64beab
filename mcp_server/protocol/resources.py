"""Resources: maps (`kb://map/{+path}`), pages (`kb://doc/{+path}`), proposals and the newest audit records."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from mcp.server.mcpserver.exceptions import ResourceNotFoundError
from mcp.server.mcpserver.resources import ResourceSecurity

from knowledge.errors import KnowledgeError
from mcp_server.approvals.summary import summary
from mcp_server.gate.caller import caller
from mcp_server.gate.handles import without_handles
from mcp_server.gate.taint import origin_of
from mcp_server.gate.trust.folder_rights import without_hidden_sources
from mcp_server.late_module import LateModule
from mcp_server.ports import ProtocolServices
from mcp_server.protocol.cards.extension import add_cards
from mcp_server.protocol.server import ForgeServer
from mcp_server.toolsets.journeys.offers.resources import add_journey_resources
from mcp_server.toolsets.runs.resources import add_run_resources

if TYPE_CHECKING:
    from knowledge.history import ports as ledger_ports
    from knowledge.history.audit import chain as audit_chain
    from knowledge.history.ports import AuditRecord
    from mcp_server.approvals.views import askers as proposal_askers
else:
    ledger_ports = LateModule("knowledge.history.ports")
    audit_chain = LateModule("knowledge.history.audit.chain")
    proposal_askers = LateModule("mcp_server.approvals.views.askers")

MAP_URI = "kb://map/"
DOC_URI = "kb://doc/"
AUDIT_URI = "audit://recent"
PROPOSAL_URI = "proposal://"
MOST_RECENT = 50
HANDLES = frozenset({"proposal", "call", "run"})
"""Fields of a record whose values let their holder continue a call or run. Callers without a token get none of them."""
MAP_TEMPLATE = MAP_URI + "{+path}"
DOC_TEMPLATE = DOC_URI + "{+path}"

COUNTING = frozenset({"seq", "undoes"})
"""Fields of a record that count the acts on all pages. A caller who may not read all pages gets none of these fields."""

_PATHS_CHECKED_BY_US = ResourceSecurity(exempt_params=frozenset({"path"}))
"""`knowledge.pages.paths` refuses paths outside the knowledge base and says why. The SDK's own check would only say 'unknown'."""


def add_resources(server: ForgeServer, services: ProtocolServices) -> None:
    """Serve maps, pages, proposals, audit records, agents, journeys, runs and cards by their addresses."""
    _add_records(server, services)
    _add_pages(server, services)
    add_journey_resources(server, services)
    add_run_resources(server, services)
    add_cards(server)


def _add_pages(server: ForgeServer, services: ProtocolServices) -> None:
    """List the root map, and serve every map and page by its address."""

    async def map_of(path: str) -> str:
        await services.catch_up_pages()
        try:
            view = await services.tiers.map(path)
        except KnowledgeError as error:
            raise ResourceNotFoundError(str(error)) from error
        return json.dumps(asdict(view), ensure_ascii=False, separators=(",", ":"))

    async def root_map() -> str:
        return await map_of("")

    async def page(path: str) -> str:
        await services.catch_up_pages()
        try:
            reading = await services.tiers.read(path)
            if reading.tainted and (who := caller.get()) is not None:
                # First the record, then the text: if the taint can't be recorded, the text isn't shown.
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


async def _all_recent(services: ProtocolServices) -> Sequence[AuditRecord]:
    """Return the newest records, newest first."""
    last, _ = await services.state.ledger.chain_end()
    return [*reversed(await services.state.ledger.records(after=max(0, last - MOST_RECENT), limit=MOST_RECENT))]


async def _own_recent(services: ProtocolServices) -> Sequence[AuditRecord]:
    """Return the newest records of acts on pages that the caller may read, and of the caller's own acts, newest first."""
    found: list[AuditRecord] = []
    who = caller.get()
    before = (await services.state.ledger.chain_end())[0] + 1
    while len(found) < MOST_RECENT:
        records = await services.state.ledger.scan(ledger_ports.AuditScan(before), limit=MOST_RECENT)
        for record in records:
            fields = audit_chain.fields_of(record)
            if fields.get("changes") or (who is not None and fields.get("principal") == who.id):
                found.append(record)
        if len(records) < MOST_RECENT:
            break
        before = records[-1].seq
    return found[:MOST_RECENT]


def _add_records(server: ForgeServer, services: ProtocolServices) -> None:
    """List the newest audit records, and serve each proposal to the caller that made it."""

    async def recent() -> str:
        try:
            records = await (_all_recent if services.access.reads_all else _own_recent)(services)
        except KnowledgeError as error:
            raise ResourceNotFoundError(str(error)) from error
        # Every host may read this, so intents and the destinations of texts in other services are left out.
        hidden = {"intent", "delivery"}
        who = caller.get()
        if shared := who is None or who.by_handle:
            hidden |= HANDLES
        shown = []
        if not services.access.reads_all:
            hidden |= COUNTING
        for record in records:
            fields = audit_chain.fields_of(record) or {"unreadable": True}
            fields = without_handles(fields) if shared else fields
            fields = fields if services.access.reads_all else without_hidden_sources(fields, services.access)
            shown.append({name: value for name, value in fields.items() if name not in hidden})
        return json.dumps(shown, ensure_ascii=False)

    async def proposal(proposal_id: str) -> str:
        who = caller.get()
        found = (
            await proposal_askers.own_proposal(services.state.trust, proposal_id, who.id) if who is not None else None
        )
        if found is None:
            raise ResourceNotFoundError(f"you made no proposal {proposal_id[:40]!r}")
        shown = await summary(found, services.review_address, whole=True)
        if not services.access.reads_all:
            shown = without_hidden_sources(shown, services.access)
        return json.dumps(shown, ensure_ascii=False, separators=(",", ":"))

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
