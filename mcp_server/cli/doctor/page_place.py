"""Says where the pages are, whether machines may share their folder, and the state of this machine's copy of stored pages."""

from __future__ import annotations

import anyio.to_thread

from agents.engine.work.markdown import counted
from knowledge.writing.files.shared_folder import fault_of
from mcp_server.app.knowledge_base import KnowledgeBase, open_base
from mcp_server.app.settings.settings import DATABASE, Settings
from mcp_server.cli.doctor.result import DoctorFinding, note, ok

MOST_NAMED = 5


async def where_pages_are(settings: Settings) -> list[DoctorFinding]:
    """Return a finding on pages in the database, after bringing the copy up to date; none for pages in a folder.

    Raises:
        KnowledgeError: the copy or the database can't be used.
    """
    if settings.pages != DATABASE:
        return []
    async with open_base(settings) as base:
        if base.copy is None:
            return []
        edited, lacking = await base.copy.edited(), base.copy.troubles
        where = f"in {base.state.place}; this machine's copy is {base.vault.root}"
    found = [ok("place", where)]
    if edited:
        what = (
            f"{counted(len(edited), 'edit')} in the copy {'is' if len(edited) == 1 else 'are'} not in the database yet"
        )
        mend = (
            "a server or knowledge-forge mirror takes them; knowledge-forge mirror --once says why one can't be taken"
        )
        found.append(note("copy", f"{what}: {_named(list(edited))}", mend))
    if lacking:
        what = f"{counted(len(lacking), 'file')} of the database {'is' if len(lacking) == 1 else 'are'} not in the copy"
        found.append(note("copy", f"{what}: {_named([*lacking.values()])}", "mend what each sentence names"))
    return found


async def shared_folder_examined(base: KnowledgeBase, settings: Settings) -> DoctorFinding | None:
    """Say whether servers on several machines may write to the folder; None if the state is in a file, or pages are in a database."""
    if settings.database_url is None or base.copy is not None:
        return None
    fault = await anyio.to_thread.run_sync(fault_of, base.vault.root)
    if fault is None:
        return ok("sharing", "servers on several machines may write to the folder: its file system has what that needs")
    return note("sharing", f"only one machine at a time may serve the folder: {fault.reason}", fault.mend)


def _named(names: list[str]) -> str:
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
