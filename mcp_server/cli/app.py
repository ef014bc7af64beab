"""The server's parts, opened for one command."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from knowledge.errors import KnowledgeError
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.terminal import keyboard
from mcp_server.gate.host_registration import TERMINAL, UNENROLLED, Principal, identify, os_user

if TYPE_CHECKING:
    from knowledge.state.ports import StateStore
    from mcp_server.app.composition import App


@asynccontextmanager
async def opened_app(
    settings: Settings, *, announcing: bool = False, indexing: bool = False, lean: bool = False
) -> AsyncIterator[App]:
    """Yield all parts of the server for one command.

    With `announcing` the review page is served once something waits; with `indexing` the index follows the files; `lean`
    keeps little in memory. An error inside is raised as itself, not in a group.
    """
    # The only import of the composition root by a command that answers and ends: it takes 0.6 s, which a list, a mistyped
    # option or --help does not need.
    from mcp_server.app.composition import open_app

    try:
        async with open_app(settings, indexing=indexing, announcing=announcing, lean=lean) as app:
            with suppress(KnowledgeError):  # a command that needs the pages meets the reason itself
                await app.record_git_moves()
            yield app
    except BaseExceptionGroup as group:
        # A task group wraps even a single error, and no caller could catch a refusal by its class.
        raise (group.exceptions[0] if len(group.exceptions) == 1 else group) from None


async def acting(state: StateStore, settings: Settings) -> Principal:
    """Return the principal that a verb acts as: the host whose secret is in the settings, or else the person at the terminal.

    A script, a pipe or `--json` asks nobody, so without a secret it is an unregistered host.

    Raises:
        UnknownSecret: the secret belongs to no registered host.
    """
    present = keyboard.is_terminal() and not settings.json
    return await identify(state, os_user(), settings.enrolment, without=TERMINAL if present else UNENROLLED)
