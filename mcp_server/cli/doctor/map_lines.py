"""How many lines of maps a language model made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agents.engine.work.markdown import counted
from knowledge.search.map_lines import Entries, RememberedLines, wanted_lines
from mcp_server.app.knowledge_base import SUMMARIES
from mcp_server.cli.doctor.result import DoctorFinding
from mcp_server.models.locations import summaries_in

if TYPE_CHECKING:
    from mcp_server.app.knowledge_base import KnowledgeBase
    from mcp_server.app.settings.settings import Settings


async def made_lines(base: KnowledgeBase) -> int:
    """Return how many there are, of all that the knowledge base ever held."""
    return await summaries_in(base.state).count()


async def map_lines(base: KnowledgeBase, settings: Settings) -> DoctorFinding | None:
    """Say how many there are, and how many may still come; nothing where the settings name no model for it."""
    if settings.provider is None or SUMMARIES not in settings.provider.helps:
        return None
    known = RememberedLines(summaries_in(base.state))
    lacking = 0
    async for one in wanted_lines(base.index, Entries(base.index, known)):
        lacking += not await known([one.key])
    found = f"the model made {counted(await made_lines(base), 'line')} of maps"
    return DoctorFinding(
        "maps", "ok", f"{found}; up to {lacking} more will come while a server runs" if lacking else found
    )
