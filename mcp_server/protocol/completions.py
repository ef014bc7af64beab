"""Completions of paths, journeys, agents and runs as somebody types."""

from __future__ import annotations

from collections.abc import Sequence

from mcp_types import Completion, CompletionArgument, CompletionContext, PromptReference, ResourceTemplateReference

from knowledge.pages.paths import ancestors
from mcp_server.ports import ProtocolServices
from mcp_server.protocol.resources import DOC_TEMPLATE, MAP_TEMPLATE
from mcp_server.protocol.server import ForgeServer
from mcp_server.protocol.wire_errors import without_surrogates
from mcp_server.toolsets.journeys.offers.completions import in_prompt, in_template
from mcp_server.toolsets.runs.resources import FRAMES_TEMPLATE, RUN_TEMPLATE, run_ids

MOST = 100
"""The protocol's limit for one answer."""
MOST_PAGES = 5000
"""Pages whose directories are offered."""


def add_completions(server: ForgeServer, services: ProtocolServices) -> None:
    """Complete the variable parts of resource addresses, and the arguments of prompts."""

    async def complete(
        ref: PromptReference | ResourceTemplateReference,
        argument: CompletionArgument,
        context: CompletionContext | None,
    ) -> Completion | None:
        typed = without_surrogates(argument.value)
        values: Sequence[str] | None = None
        if isinstance(ref, PromptReference):
            values = await in_prompt(services, ref.name, argument.name, typed)
        elif ref.uri == DOC_TEMPLATE:
            if argument.name == "path":
                paths = services.index.paths
                # Pages that begin with the typed text; if none does, those that contain it.
                values = await paths(prefix=typed, limit=MOST + 1) or await paths(contains=typed, limit=MOST + 1)
        elif ref.uri == MAP_TEMPLATE:
            if argument.name == "path":
                pages = await services.index.paths(prefix=typed, limit=MOST_PAGES)
                above = {directory for page in pages for directory in ancestors(page)}
                found = [directory for directory in above if directory and directory.startswith(typed)]
                values = sorted(found, key=lambda path: (path.count("/"), path))
        elif ref.uri in (RUN_TEMPLATE, FRAMES_TEMPLATE):
            values = await run_ids(services, typed) if argument.name == "run_id" else None
        else:
            chosen = (context.arguments if context else None) or {}
            values = await in_template(services, ref.uri, argument.name, typed, chosen)
        return None if values is None else Completion(values=list(values[:MOST]), has_more=len(values) > MOST)

    server.completion()(complete)  # type: ignore[no-untyped-call]  # the SDK leaves its decorator untyped
