"""The site as a web application: its addresses, logging in and out, and everything that serves it."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
import uvicorn
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from knowledge.errors import KnowledgeError
from mcp_server.app.settings.environment import has_display
from mcp_server.app.settings.settings import Settings
from mcp_server.approvals.approvers import Approvals
from mcp_server.late_module import LateModule
from mcp_server.ports import SiteServices
from mcp_server.transport.http_limits import PAGE, bounded
from mcp_server.web.access import passkey_pages as keys
from mcp_server.web.access.guard import Guard
from mcp_server.web.access.login_links import Inviting, open_browser
from mcp_server.web.access.rights import SiteRight, declared
from mcp_server.web.access.sessions import HOME, WAITING
from mcp_server.web.address import PROOF, proof
from mcp_server.web.contradictions import pages as contradictions
from mcp_server.web.find import pages as find
from mcp_server.web.history import moved_links
from mcp_server.web.history import pages as history
from mcp_server.web.history import undo_pages as undo
from mcp_server.web.home import pages as home
from mcp_server.web.journeys import pages as journeys
from mcp_server.web.knowledge_pages import edit_pages as editing
from mcp_server.web.knowledge_pages import files
from mcp_server.web.knowledge_pages import map_pages as lists
from mcp_server.web.knowledge_pages import pages as reading
from mcp_server.web.link_graph import pages as link_graph
from mcp_server.web.live_updates import Live
from mcp_server.web.page_context import FOLDER, LARGEST_LOGIN, Form, PageContext, PageRequest, acts, form_of, reads, see
from mcp_server.web.people import pages as people
from mcp_server.web.proposals import pages as proposals
from mcp_server.web.proposals import together as several
from mcp_server.web.runs import pages as runs
from mcp_server.web.sign_in import pages as sign_in
from mcp_server.web.sign_in.login_attempt import CALLBACK
from mcp_server.web.trust import audit_pages as records
from mcp_server.web.trust import pages as trust_records
from mcp_server.web.whole_state import pages as whole_state
from mcp_server.web.whole_state.handover import Handover

if TYPE_CHECKING:
    from mcp_server.web.sign_in import site_sign_in
else:
    # Only where FORGE_SITE_CLIENT names a sign-in server: it loads cryptography.
    site_sign_in = LateModule("mcp_server.web.sign_in.site_sign_in")

logger = logging.getLogger("knowledge_forge.review")

STATIC = {
    "review.css": "text/css",
    "read.css": "text/css",
    "graph.css": "text/css",
    "graph.js": "text/javascript",
    "live.js": "text/javascript",
    "passkey.js": "text/javascript",
    "shortcuts.js": "text/javascript",
    "find.css": "text/css",
    "find.js": "text/javascript",
    "home.css": "text/css",
    "home.js": "text/javascript",
    "pages.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}

OPEN, READ, REVIEW, AUDIT, MANAGE = SiteRight
LOADED_ABOVE = 1_000
"""With more pages than this, the search is loaded after a login: otherwise the first question would wait a second or two."""
LOADED_AFTER_S = 2.0
ONE = "/proposals/{id}"
JOURNEY = "/journeys/{id}"
RUN = "/runs/{id}"
CONTRADICTION = "/contradictions/{id}"


@dataclass(frozen=True, slots=True)
class RunningPage:
    """The parts of a served page: `inviting` notifies people, `server` answers requests."""

    page_context: PageContext
    inviting: Inviting
    server: uvicorn.Server


def running_page(
    services: SiteServices,
    approvals: Approvals,
    settings: Settings,
    *,
    port: int,
    holder: str,
    handover: Handover | None = None,
) -> RunningPage:
    """Return the page of the knowledge base, ready to be served at `port` by the lease's `holder`."""
    page_context = context_of(services, approvals, settings, port=port, holder=holder, handover=handover)
    opener = open_browser if settings.open_browser and has_display() else None
    config = bounded(page_app(page_context), PAGE, server_header=False, lifespan="off", timeout_graceful_shutdown=1)
    return RunningPage(page_context, Inviting(page_context, f"http://localhost:{port}", opener), uvicorn.Server(config))


def context_of(
    services: SiteServices,
    approvals: Approvals,
    settings: Settings,
    *,
    port: int,
    holder: str,
    handover: Handover | None = None,
) -> PageContext:
    """Return the page of the knowledge base, with its local address at `port`."""
    return PageContext(
        services,
        approvals,
        Live(services.state),
        settings.kb.name,
        port,
        holder,
        settings.public_url,
        settings.editor_link and settings.editor_link.within(settings.kb),
        handover,
        settings.http_url,
        site_sign_in.SiteSignIn(access, services.state, services.now) if (access := settings.site_access) else None,
    )


def page_app(page_context: PageContext) -> ASGIApp:
    """Return the application.

    An unknown address and a request without a session get the same answer, so that a stranger can't find out what exists.
    """
    app = Starlette(routes=page_routes(), exception_handlers={404: _not_found, 405: _not_found, 500: _failed})
    # A redirect would tell a stranger that the address exists.
    app.router.redirect_slashes = False
    app.state.page_context = page_context
    return Guard(app, page_context.port, page_context.public_url)


def page_routes() -> list[Route]:
    """Return all addresses of the page."""
    return [
        Route(HOME, reads(home.home, READ)),
        Route(WAITING, reads(proposals.pending, READ)),
        Route("/health", reads(home.health, READ)),
        Route("/find", reads(find.found, READ)),
        Route("/login", declared(login, OPEN), methods=["POST"]),
        Route("/login/begin", declared(sign_in.begin, OPEN)),
        Route(CALLBACK, declared(sign_in.finish, OPEN)),
        Route("/login/{secret}", declared(invitation, OPEN)),
        Route("/logout", acts(logout, READ), methods=["POST"]),
        Route("/events", reads(events, READ)),
        Route("/static/{name}", declared(static, OPEN)),
        Route(PROOF + "{challenge}", declared(proven, OPEN)),
        Route("/decided", reads(proposals.decided, READ)),
        Route("/together", reads(several.together, READ)),
        Route("/together", acts(several.decide, REVIEW, WAITING), methods=["POST"]),
        Route(ONE, reads(proposals.one, READ)),
        Route(f"{ONE}/approve", acts(proposals.approve, REVIEW, ONE), methods=["POST"]),
        Route(f"{ONE}/reject", acts(proposals.reject, REVIEW, ONE), methods=["POST"]),
        Route(f"{ONE}/changes", acts(proposals.request_changes, REVIEW, ONE), methods=["POST"]),
        Route(f"{ONE}/renew", acts(proposals.renew, REVIEW, ONE), methods=["POST"]),
        Route(f"{ONE}/edit", reads(proposals.editing, REVIEW)),
        Route(f"{ONE}/edit", acts(proposals.edit, REVIEW, ONE), methods=["POST"]),
        Route("/journeys", reads(journeys.listed, READ)),
        Route(JOURNEY, reads(journeys.one, READ)),
        Route(f"{JOURNEY}/events", reads(journeys.events, READ)),
        Route(f"{JOURNEY}/keep", acts(journeys.keep, REVIEW, JOURNEY), methods=["POST"]),
        *(
            Route(f"{JOURNEY}/{decision}", acts(journeys.deciding(decision), REVIEW, "/journeys"), methods=["POST"])
            for decision in journeys.DECISIONS
        ),
        Route("/runs", reads(runs.listed, READ)),
        Route(RUN, reads(runs.one, READ)),
        Route(f"{RUN}/answer", reads(runs.answering, REVIEW)),
        Route(f"{RUN}/answer", acts(runs.answer, REVIEW, RUN), methods=["POST"]),
        Route(f"{RUN}/cancel", acts(runs.cancel, REVIEW, RUN), methods=["POST"]),
        Route("/trust", reads(trust_records.trust_records, MANAGE)),
        Route("/trust/host", reads(trust_records.trust_record, MANAGE)),
        Route("/trust/grant", acts(trust_records.grant, MANAGE, "/trust"), methods=["POST"]),
        Route("/trust/thaw", acts(trust_records.thaw, MANAGE, "/trust"), methods=["POST"]),
        Route("/trust/forms", acts(trust_records.allow_forms, MANAGE, "/trust"), methods=["POST"]),
        Route("/trust/freeze", acts(trust_records.freeze, MANAGE, "/trust"), methods=["POST"]),
        Route("/trust/places", acts(trust_records.trust_place, MANAGE, "/trust"), methods=["POST"]),
        Route("/trust/places/remove", acts(trust_records.distrust_place, MANAGE, "/trust"), methods=["POST"]),
        Route(people.HERE, reads(people.people, MANAGE)),
        Route("/people/add", acts(people.add_person, MANAGE, people.HERE), methods=["POST"]),
        Route("/people/remove", acts(people.remove_person, MANAGE, people.HERE), methods=["POST"]),
        Route("/people/token", acts(people.create_token, MANAGE, people.HERE), methods=["POST"]),
        Route("/people/login", acts(people.make_login, MANAGE, people.HERE), methods=["POST"]),
        Route("/people/token/revoke", acts(people.revoke_token, MANAGE, people.HERE), methods=["POST"]),
        Route("/people/group", acts(people.join_group, MANAGE, people.HERE), methods=["POST"]),
        Route("/people/group/leave", acts(people.leave_group, MANAGE, people.HERE), methods=["POST"]),
        Route("/people/rules", acts(people.set_rule, MANAGE, people.HERE), methods=["POST"]),
        Route("/people/rules/remove", acts(people.remove_rule, MANAGE, people.HERE), methods=["POST"]),
        Route("/people/reviewers", acts(people.add_reviewer, MANAGE, people.HERE), methods=["POST"]),
        Route("/people/reviewers/remove", acts(people.remove_reviewer, MANAGE, people.HERE), methods=["POST"]),
        Route("/pages", reads(lists.tree, READ)),
        Route("/recent", reads(lists.recent, READ)),
        Route("/tags", reads(lists.tags, READ)),
        Route("/page", reads(reading.page, READ)),
        Route("/page/edit", reads(editing.editing, REVIEW)),
        Route("/page/edit", acts(editing.save, REVIEW, "/pages", resumed=editing.resumed), methods=["POST"]),
        Route("/page/new", reads(editing.writing, REVIEW)),
        Route("/page/new", acts(editing.save, REVIEW, "/pages", resumed=editing.resumed), methods=["POST"]),
        Route("/file", reads(files.file, READ)),
        Route("/graph", reads(link_graph.graph, READ)),
        Route("/graph/data", reads(link_graph.data, READ)),
        Route("/history", reads(history.timeline, READ)),
        Route("/history/lines", reads(history.lines, READ)),
        Route("/history/links", reads(moved_links.rehearsal, REVIEW)),
        Route("/history/links", acts(moved_links.rewrite, REVIEW, "/history"), methods=["POST"]),
        Route("/diff", reads(history.difference, READ)),
        Route("/undo", reads(undo.rehearsal, REVIEW)),
        Route("/undo", acts(undo.undo, REVIEW, "/history"), methods=["POST"]),
        Route("/audit", reads(records.audit, AUDIT)),
        Route("/audit/{id}", reads(records.act, AUDIT)),
        Route("/contradictions", reads(contradictions.listed, READ)),
        Route(CONTRADICTION, reads(contradictions.one, READ)),
        Route(f"{CONTRADICTION}/keep", acts(contradictions.keep, REVIEW, CONTRADICTION), methods=["POST"]),
        Route(f"{CONTRADICTION}/dismiss", acts(contradictions.dismiss, REVIEW, CONTRADICTION), methods=["POST"]),
        Route(f"{CONTRADICTION}/reopen", acts(contradictions.reopen, REVIEW, CONTRADICTION), methods=["POST"]),
        Route(f"{CONTRADICTION}/propose", acts(contradictions.propose, REVIEW, CONTRADICTION), methods=["POST"]),
        Route(f"{CONTRADICTION}/edit", reads(contradictions.editing, REVIEW)),
        Route(f"{CONTRADICTION}/edit", acts(contradictions.edit, REVIEW, CONTRADICTION), methods=["POST"]),
        Route(whole_state.HERE, reads(whole_state.overview, MANAGE)),
        Route("/state/save", acts(whole_state.save, MANAGE, whole_state.HERE), methods=["POST"]),
        Route("/state/restore", acts(whole_state.rehearse_restore, MANAGE, whole_state.HERE), methods=["POST"]),
        Route("/state/move", acts(whole_state.rehearse_move, MANAGE, whole_state.HERE), methods=["POST"]),
        Route("/state/confirm", acts(whole_state.confirm, MANAGE, whole_state.HERE), methods=["POST"]),
        Route(whole_state.OUTCOME, reads(whole_state.outcome, MANAGE)),
        Route("/passkeys", reads(keys.listed, REVIEW)),
        Route("/passkeys/new", acts(keys.begin, REVIEW, "/passkeys"), methods=["POST"]),
        Route("/passkeys", acts(keys.add, REVIEW, "/passkeys"), methods=["POST"]),
        Route("/passkeys/remove", acts(keys.remove, REVIEW, "/passkeys"), methods=["POST"]),
    ]


async def _not_found(request: Request, _error: Exception) -> Response:
    page_context: PageContext = request.app.state.page_context
    return await page_context.stranger(request)


async def _failed(_request: Request, _error: Exception) -> Response:
    return Response("Something went wrong on the server. The log has the details.", 500, media_type="text/plain")


async def invitation(request: Request) -> Response:
    """Show a button that logs in. Opening the link does not log in, because mail and chat programs open links in advance."""
    page_context: PageContext = request.app.state.page_context
    secret = str(request.path_params["secret"])
    if not await page_context.sessions.invited(secret):
        return await page_context.stranger()
    answer = await page_context.show("login.html", None, lambda: {"secret": secret})
    answer.background = BackgroundTask(_prepare_for_login, page_context)
    return answer


async def login(request: Request) -> Response:
    """Use up the link and start a session, in a cookie that no script can read and no other site can send."""
    page_context: PageContext = request.app.state.page_context
    entered = await page_context.sessions.enter((await form_of(request, LARGEST_LOGIN)).get("secret", ""))
    if entered is None:
        return await page_context.stranger()
    session, to = entered
    parts = urlsplit(to)
    # Only a path of ours: a link with another address in it would lead a person away right after logging in.
    first = see(to if to.startswith("/") and not parts.netloc and not parts.scheme else HOME)
    answer = await page_context.welcomed(request, session, first)
    answer.background = BackgroundTask(_prepare, page_context)
    return answer


async def _prepare_for_login(page_context: PageContext) -> None:
    """Prepare the pages while a person looks at the login button, so that most of the first graph layout is done by their login."""
    # The next page may be a proposal. In a process that never wrote, that needs modules which take 0.3 s to load.
    await anyio.to_thread.run_sync(import_module, "mcp_server.app.factories.writer")
    await link_graph.prepare(page_context.services)


async def _prepare(page_context: PageContext) -> None:
    """Have the graph laid out, and the search of a large knowledge base loaded, before a person asks for them."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(link_graph.prepare, page_context.services)
        if (await page_context.services.index.progress()).done > LOADED_ABOVE:
            # The page that the person goes to after the login comes first.
            await anyio.sleep(LOADED_AFTER_S)
            try:
                await page_context.people_search.prepare()
            except KnowledgeError:
                logger.warning("the search could not be loaded in advance", exc_info=True)


async def logout(request: PageRequest, _form: Form) -> Response:
    """End the session."""
    await request.page.sessions.leave(request.session)
    page_context, cookies = request.page, request.page.cookies(request.http)
    there = page_context.sign_in
    to = await there.provider.logout_address() if there and there.knows(request.session.user) else None
    # Not a redirect: the policy of the page with the form allows it to lead to this site only.
    answer = see(HOME) if to is None else await page_context.show("logged_out.html", None, lambda: {"to": to})
    cookies.drop(answer, cookies.session)
    return answer


async def events(request: PageRequest) -> Response:
    """Stream an event for each change."""
    still, readable = request.page.still(request.session), request.services.readable_changes
    stream = request.page.live.stream(request.session.csrf, still, readable)
    return StreamingResponse(stream, media_type="text/event-stream")


async def proven(request: Request) -> Response:
    """Prove to another process of ours that this page belongs to the lease's holder, so that the process hands out its address."""
    page_context: PageContext = request.app.state.page_context
    return PlainTextResponse(proof(page_context.holder, str(request.path_params["challenge"])))


async def static(request: Request) -> Response:
    """Return a style sheet, script or icon. They need no session, because they hold nothing private."""
    page_context: PageContext = request.app.state.page_context
    name = str(request.path_params["name"])
    if name not in STATIC:
        return await page_context.stranger()
    return FileResponse(FOLDER / "static" / name, media_type=STATIC[name])
