"""The findings of `doctor` on the Git repository that a knowledge base lies in."""

from __future__ import annotations

import anyio.to_thread

from agents.engine.work.markdown import counted
from knowledge.errors import KnowledgeError
from knowledge.git.checkout import Checkout
from mcp_server.app.factories.act_commits import commits_of
from mcp_server.app.knowledge_base import KnowledgeBase
from mcp_server.app.settings.environment import git_environment
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.doctor.result import DoctorFinding, note, ok

TEMPORARY = ".forge-0.tmp"
"""The name of a temporary file like those that replace a page: Git should ignore them."""


async def git_examined(base: KnowledgeBase, settings: Settings) -> DoctorFinding | None:
    """Say whether changes are committed, how many wait for that, and why; None if there is no repository and none is wanted."""
    if settings.git != "commit":
        try:
            await anyio.to_thread.run_sync(Checkout.of, base.vault.root, git_environment())
        except KnowledgeError:
            return None
        return ok("git", "the pages are in a Git checkout; commits are left to you (FORGE_GIT=commit makes them)")
    commits = commits_of(base)
    waiting, hindrance = await commits.count_pending(), await commits.hindrance()
    left = f"{counted(waiting, 'change')} {'is' if waiting == 1 else 'are'} not committed yet"
    if hindrance is not None:
        found = f"commits wait: {hindrance}" + (f"; {left}" if waiting else "")
        return note("git", found, hindrance.mend)
    if waiting:
        return note("git", left, "any server with FORGE_GIT=commit commits them")
    checkout = await anyio.to_thread.run_sync(Checkout.of, base.vault.root, git_environment())
    ignored = await anyio.to_thread.run_sync(checkout.ignored, [TEMPORARY])
    mend = (
        "" if ignored else "add a line .forge-*.tmp to .gitignore, so that git add -A never finds a page half written"
    )
    return ok("git", "each change becomes a commit; none is missing", mend)
