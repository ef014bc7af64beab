"""Says whether an embedder can be used now, and what searches use while the configured one makes no vectors."""

from __future__ import annotations

from knowledge.errors import EmbedderUnavailable
from knowledge.state.ports import IndexIdentity
from mcp_server.app.knowledge_base import KnowledgeBase

AFTERWARDS = "then run knowledge-forge index, or leave it to a running server"
"""What makes the vectors once a person has corrected the embedder."""
PROBE = "knowledge"


async def embedder_problem(base: KnowledgeBase, identity: IndexIdentity) -> EmbedderUnavailable | None:
    """Return why the embedder of `identity` makes no vectors now, None if it does."""
    try:
        await (await base.embedding.questions(identity)).embed([PROBE])
    except EmbedderUnavailable as error:
        return error
    return None


async def used_meanwhile(base: KnowledgeBase) -> str:
    """Return what searches use, as a sentence: the vectors in the index, or only words if their embedder can't be used."""
    identity = (await base.index.space()).identity
    if await embedder_problem(base, identity):
        return "pages are found by words only"
    return f"searches use those of {identity.embedder}"
