"""The commits of acts in the Git repository that a knowledge base lies in."""

from __future__ import annotations

from knowledge.git.act_commits import ActCommits
from mcp_server.app.head_moves import moves_of
from mcp_server.app.knowledge_base import KnowledgeBase, holder_name, utc_now
from mcp_server.app.settings.environment import git_environment


def commits_of(base: KnowledgeBase) -> ActCommits:
    """Return what commits the acts of this knowledge base."""
    environment, moves = git_environment(), moves_of(base)
    return ActCommits(base.state, base.vault.root, environment, holder=holder_name(), now=utc_now, moves=moves)
