"""The synchronisation of a knowledge base with a Git remote."""

from __future__ import annotations

from typing import TYPE_CHECKING

from knowledge.errors import KnowledgeError
from knowledge.sync.sync import Sync
from knowledge.writing.files.file_set import FileSet
from mcp_server.app.factories.act_commits import commits_of
from mcp_server.app.knowledge_base import KnowledgeBase, holder_name, utc_now
from mcp_server.app.settings.environment import git_environment, git_remote_environment

if TYPE_CHECKING:
    from mcp_server.app.factories.writer import Writing


def sync_of(base: KnowledgeBase, writing: Writing) -> Sync:
    """Return what synchronises this knowledge base; `writing` writes its pages."""
    files = FileSet(base.vault)

    def is_page(path: str) -> bool:
        try:
            files.real(path)
        except KnowledgeError:
            return False
        return True

    async def record_outside() -> None:
        while (await writing.outside_changes.record()).left:
            pass

    return Sync(
        state=base.state,
        root=base.vault.root,
        environment=git_environment(),
        remote_environment=git_remote_environment(),
        commits=commits_of(base),
        acts=writing.acts,
        record_outside=record_outside,
        is_page=is_page,
        holder=holder_name(),
        now=utc_now,
    )
