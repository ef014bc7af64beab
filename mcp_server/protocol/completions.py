"""Completions of paths, journeys, agents and runs while somebody types them."""

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


def add_completions(server: ForgeServer, services: ProtocolServices) -> None:
    """Complete the variable parts of resource addresses, and the arguments of prompts."""

    async def complete(
        ref: PromptReference | ResourceTemplateReference,
        argument: CompletionArgument,
        context: CompletionContext | None,
    ) -> Completion | None:
        typed = without_surrogates(argument.value)
        if isinstance(ref, PromptReference):
            return _completion(await in_prompt(services, ref.name, argument.name, typed))
        if ref.uri == DOC_TEMPLATE:
            return _completion(await _paths(services, typed) if argument.name == "path" else None)
        if ref.uri == MAP_TEMPLATE:
            return _completion(await _directories(services, typed) if argument.name == "path" else None)
        if ref.uri in (RUN_TEMPLATE, FRAMES_TEMPLATE):
            return _completion(await run_ids(services, typed) if argument.name == "run_id" else None)
        chosen = (context.arguments if context else None) or {}
        return _completion(await in_template(services, ref.uri, argument.name, typed, chosen))

    server.completion()(complete)  # type: ignore[no-untyped-call]  # the SDK leaves its decorator untyped


async def _paths(services: ProtocolServices, typed: str) -> Sequence[str]:
    """Return the page paths that begin with the typed text; if none does, those that contain it."""
    return await services.index.paths(prefix=typed, limit=MOST + 1) or await services.index.paths(
        contains=typed, limit=MOST + 1
    )


async def _directories(services: ProtocolServices, typed: str) -> Sequence[str]:
    pages = await services.index.paths(prefix=typed, limit=5000)
    found = {directory for page in pages for directory in ancestors(page) if directory.startswith(typed) and directory}
    return sorted(found, key=lambda path: (path.count("/"), path))


def _completion(values: Sequence[str] | None) -> Completion | None:
    if values is None:
        return None
    return Completion(values=list(values[:MOST]), has_more=len(values) > MOST)
