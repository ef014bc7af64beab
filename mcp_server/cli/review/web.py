"""`review --web`: serve the review page from this process, or print the link to the process that already serves it."""

from __future__ import annotations

import signal
import threading
from dataclasses import replace

import anyio
import anyio.to_thread

from knowledge.errors import KnowledgeError
from mcp_server.app.allocator import return_freed_memory
from mcp_server.app.settings.environment import has_display
from mcp_server.app.settings.settings import Settings
from mcp_server.app.state_copies.change import carried_out
from mcp_server.cli.app import opened_app
from mcp_server.cli.terminal.escape import visible
from mcp_server.presenters.whole_state import ChangedState
from mcp_server.web.access.login_links import login_link, open_browser
from mcp_server.web.access.sessions import Session, Sessions
from mcp_server.web.address import LEASE_S, address
from mcp_server.web.server import away, show
from mcp_server.web.whole_state.handover import Handover, RehearsedChange, handing_over, keep_session

PATIENCE_S = LEASE_S + 10.0
"""How long starting the page may take: a killed process's lease has to run out first."""


class PageUnavailable(KnowledgeError):
    """No process serves the page, and this one can't."""


def serve_page(settings: Settings) -> int:
    """Print a one-time link to the page and open it; unless another process serves the page, serve it until Ctrl-C or SIGTERM.

    Raises:
        PageUnavailable: no process serves it, and this one can't.
    """
    return_freed_memory()
    # As Ctrl-C: a process that is simply ended would leave its lease for ten seconds. Only the main thread gets signals.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        found = anyio.run(_serve_page, settings)
    except KeyboardInterrupt:
        return 0
    if not found:
        where = "the log has the details. Decide with: knowledge-forge review"
        raise PageUnavailable(f"the review page can't be shown; {where}")
    return 0


async def _serve_page(settings: Settings) -> bool:
    """Return True once a link to the page is printed or the page was served, and False if no process can serve the page.

    If a person confirms a change of the whole state there, the page is closed, the change made, and the page served again.
    """
    with handing_over() as handover:
        found = await _served(settings, handover, None)
        while (confirmed := handover.confirmed) is not None:
            settings = await _changed(settings, confirmed, handover)
            found = await _served(settings, handover, confirmed.session)
        return found


async def _changed(settings: Settings, confirmed: RehearsedChange, handover: Handover) -> Settings:
    """Make the change that was confirmed, note its outcome, and return the settings from now on."""
    print("The state is being changed; the site is back in a moment.", flush=True)
    done: tuple[ChangedState, Settings] | KnowledgeError
    async with away(handover, settings):
        try:
            done = await carried_out(settings, confirmed.planned, handover.drawn)
        except KnowledgeError as error:  # raised below, where no group of tasks wraps it
            done = error
    if isinstance(done, KnowledgeError):
        raise done
    outcome, settings = done
    handover.finish(outcome)
    print(visible(outcome.sentence), flush=True)
    if outcome.kept:
        print(visible(f"The state that was there is saved in {outcome.kept}"), flush=True)
    return settings


async def _served(settings: Settings, handover: Handover, person: Session | None) -> bool:
    """Serve the page until a change is confirmed, the first time with a link; `person` stays logged in."""
    async with (
        opened_app(settings, announcing=True, indexing=True, lean=True) as app,
        anyio.create_task_group() as tasks,
    ):
        state, known = app.services.state, anyio.Event()
        sessions = Sessions(state.trust, app.services.now)
        if person is not None:
            await keep_session(person, sessions)
        elsewhere = await address(state) is not None
        if not elsewhere:
            # This prints the link itself, so the page must not open a browser itself.
            tasks.start_soon(
                show, app.site_services, app.approvals, replace(settings, open_browser=False), known, handover
            )
            with anyio.move_on_after(PATIENCE_S):
                await known.wait()
        where = await address(state)
        if where is None:
            tasks.cancel_scope.cancel()
            return False
        if elsewhere:
            handover.leave()
        elif person is not None:
            print("The site is back. Press Ctrl-C to stop.", flush=True)
            await handover.asked.wait()
            tasks.cancel_scope.cancel()
            return True
        link = await login_link(sessions, where)
        print(f"To review, open this link (works once, within 10 minutes):\n\n  {link}\n", flush=True)
        if settings.public_url is not None:
            print(f"From another machine: {settings.public_url}{link.removeprefix(where)}\n", flush=True)
        if settings.open_browser and has_display():
            await anyio.to_thread.run_sync(open_browser, link, abandon_on_cancel=True)
        if not elsewhere:
            print("Press Ctrl-C to stop.", flush=True)
            await handover.asked.wait()
        tasks.cancel_scope.cancel()
    return True
