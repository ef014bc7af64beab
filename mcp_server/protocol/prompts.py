"""Prompts: `route(question)` shows a model where to look first; one for each agent, and `continue`, start and continue journeys."""

from __future__ import annotations

from mcp.server.mcpserver.prompts.base import Prompt, PromptArgument

from mcp_server.ports import ProtocolServices
from mcp_server.protocol.server import ForgeServer
from mcp_server.toolsets.journeys.offers.prompts import JourneyPrompts, leads_journeys

MOST_LINES = 20
MOST_HITS = 5


def add_prompts(server: ForgeServer, services: ProtocolServices) -> None:
    """Add the prompt `route`, and the prompts of journeys if their tools are listed."""

    async def route(question: str) -> str:
        """Answer a question from the knowledge base: shows where to look first."""
        view = await services.tiers.map("")
        lines = [f"- {e.path}{'/' if e.kind == 'directory' else ''}: {e.summary or e.title}" for e in view.children]
        cut = ["- ... and more, listed by kb_map('')"] if len(lines) > MOST_LINES or view.next_cursor else []
        parts = [
            f"Question: {question.strip() or '(none given: ask the person)'}",
            f"The knowledge base is called {view.title!r}. Its top level:\n" + "\n".join([*lines[:MOST_LINES], *cut]),
        ]
        if question.strip():
            answer = await services.finder.search(question, limit=MOST_HITS)
            hits = [f"- {hit.path}{' > ' + hit.section if hit.section else ''}" for hit in answer.hits]
            parts.append(f"Search mode: {answer.route.mode} ({answer.route.reason}).")
            parts.append("A first search found:\n" + "\n".join(hits) if hits else "A first search found nothing.")
            parts.append(f"Scent: {answer.scent.level}; {answer.scent.reason}. Next: {answer.scent.next}.")
        parts.append(
            "Look at the directory that fits (kb_map), then read the page (kb_read). Search inside it (kb_search with path) "
            "only if that is not enough. Cite path and section for every claim, and say what you did not find."
        )
        return "\n\n".join(parts)

    # Declared by hand: the SDK would build a pydantic model for one string, 1 ms of each start.
    server.add_prompt(
        Prompt(
            name="route",
            title="Route a question",
            description=route.__doc__,
            arguments=[PromptArgument(name="question", description=None, required=True)],
            fn=route,
            context_kwarg=None,
        )
    )
    if leads_journeys(services):
        server.offer(prompts=JourneyPrompts(services).listed)
