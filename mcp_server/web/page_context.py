"""Give every page its services, its templates, the session of a request and the token of a form."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any, Literal, get_args
from urllib.parse import parse_qsl, urlencode

import anyio
import anyio.to_thread
from jinja2 import BytecodeCache, Environment, FileSystemLoader, StrictUndefined
from jinja2.bccache import Bucket
from markupsafe import Markup
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import Receive, Scope, Send

from agents.loop.store.ports import RunStore
from knowledge.access.rules import PAGE_SOURCE, UNNAMED
from knowledge.errors import KnowledgeError
from knowledge.offload import CALLER, A, R
from knowledge.trust.ports import TrustRecords
from mcp_server.app.settings.editor_link import EditorLink
from mcp_server.app.settings.sign_in import browser_origin
from mcp_server.approvals.approvers import AdminAct, Approvals, Approver, CannotDecide
from mcp_server.gate.trust.admin import packed
from mcp_server.ports import SiteServices
from mcp_server.presenters.proposal import given, sentence_of, state_of
from mcp_server.presenters.run import status_of
from mcp_server.presenters.typed_time import typed_or_picked
from mcp_server.web.access import passkeys
from mcp_server.web.access.cookies import SiteCookies
from mcp_server.web.access.guard import own_hosts
from mcp_server.web.access.kept_forms import kept_form
from mcp_server.web.access.passkeys import RelyingParty
from mcp_server.web.access.rights import Endpoint, SiteRight, declared
from mcp_server.web.access.sessions import HOME, KNOWN_LIFETIME, SESSION_LIFETIME, Session, Sessions, same
from mcp_server.web.find.people_search import PeopleSearch
from mcp_server.web.home.figures import HomeFigures
from mcp_server.web.live_updates import Here, Live
from mcp_server.web.sign_in.link_people import LinkPeople
from mcp_server.web.text.sanitize import sanitize, sanitize_line, spelled_out
from mcp_server.web.text.values import fields_of, folded, journey_address, moment, title_line
from mcp_server.web.whole_state.handover import Handover
from mcp_server.workers.pool import Workers

if TYPE_CHECKING:
    from mcp_server.web.sign_in.site_sign_in import SiteSignIn

logger = logging.getLogger("knowledge_forge.review")

FOLDER = Path(__file__).parent
LARGEST_FORM = 20_000_000
"""Bytes. A person may edit all arguments of a proposal in one form."""
LARGEST_KEPT = 8_000_000
"""Bytes of a form that is returned to somebody who is not logged in."""
LARGEST_LOGIN = 4_096
"""Bytes that a stranger may send: the login form has one secret of 43 letters."""
MOST_FIELDS = 2_000
MOST_COUNTED = 100
MOST_LONG = 2  # long proposals in memory at once
AT_ONCE = 4_000
"""Characters that become HTML within milliseconds, whatever they are."""

FORBIDDEN = (
    "Your login doesn't let you {}. The owner of this knowledge base can, from a login on the server's machine "
    "(knowledge-forge review --web)."
)
_TOKEN = Markup('<input type="hidden" name="csrf" value="{0}">')


NavigationGroup = Literal["Read", "Decide", "Manage"]


LONGEST_FILTER = 4_000
"""Characters of one field of a filter."""


@dataclass(frozen=True, slots=True)
class NavigationEntry:
    """One line of the navigation."""

    path: str
    title: str
    group: NavigationGroup
    right: SiteRight = SiteRight.READ


NAVIGATION = (
    NavigationEntry("/", "Home", "Read"),
    NavigationEntry("/pages", "Pages", "Read"),
    NavigationEntry("/find", "Find", "Read"),
    NavigationEntry("/graph", "Graph", "Read"),
    NavigationEntry("/history", "History", "Read"),
    NavigationEntry("/waiting", "Waiting", "Decide"),
    NavigationEntry("/decided", "Decided", "Decide"),
    NavigationEntry("/contradictions", "Contradictions", "Decide"),
    NavigationEntry("/journeys", "Journeys", "Decide"),
    NavigationEntry("/runs", "Runs", "Decide"),
    NavigationEntry("/people", "People", "Manage", SiteRight.MANAGE),
    NavigationEntry("/trust", "Trust", "Manage", SiteRight.MANAGE),
    NavigationEntry("/audit", "Audit", "Manage", SiteRight.AUDIT),
    NavigationEntry("/passkeys", "Passkeys", "Manage", SiteRight.REVIEW),
    NavigationEntry("/state", "State", "Manage", SiteRight.MANAGE),
)
"""A new kind of page needs one more line here, beside the others of its group, and one more route in `application.py`."""


def _navigation(session: Session | None) -> Mapping[NavigationGroup, Sequence[NavigationEntry]]:
    """Return the pages that the session may open, by group."""
    entries = [entry for entry in NAVIGATION if session is not None and session.may(entry.right)]
    groups: Sequence[NavigationGroup] = get_args(NavigationGroup)
    return {group: found for group in groups if (found := [entry for entry in entries if entry.group == group])}


Form = Mapping[str, str]


ReadingKey = tuple[tuple[str, bool], ...]
"""Which folders somebody may read (`PathAccess.reading`)."""


@dataclass(frozen=True)
class PageContext:
    """The page of one knowledge base, called `base_name`, served at `port` by the lease's `holder`.

    `public_url` is where a proxy shows it to other machines. `editor` opens a page's file on this one. With a `handover` this process
    can replace and move the state. `client_url` is where MCP clients on other machines reach the server. With `sign_in` people log in
    at a sign-in server under the public address.

    While a person is answered, `services` and everything made from them show only what this person may read (decision 123).
    """

    services: SiteServices
    approvals: Approvals
    live: Live
    base_name: str
    port: int
    holder: str
    public_url: str | None = None
    editor: EditorLink | None = None
    handover: Handover | None = None
    client_url: str | None = None
    sign_in: SiteSignIn | None = None

    def is_local(self, request: Request) -> bool:
        """Return whether the request came under one of the names of this machine."""
        return request.headers.get("host", "") in own_hosts(self.port)

    @cached_property
    def sessions(self) -> Sessions:
        """The sessions of people who are logged in."""
        state, now = self.services.state, self.services.now
        people = LinkPeople(state, now, self.sign_in.rights if self.sign_in else None)
        return Sessions(state.trust, now, people.rights)

    @property
    def runs(self) -> RunStore:
        """The recorded runs, which can be shown without a language model."""
        return self.services.run_records

    @property
    def home_figures(self) -> HomeFigures:
        """The figures of the first page. People who may read the same pages share them."""
        reading = self.services.access.reading
        if reading not in self._figures:
            self._figures[reading] = HomeFigures(self.services)
        return self._figures[reading]

    @property
    def people_search(self) -> PeopleSearch:
        """The search in pages, for people. People who may read the same pages share it."""
        services, reading = self.services, self.services.access.reading
        if reading not in self._searches:
            self._searches[reading] = PeopleSearch(
                lambda: services.finder, services.freshen_index, services.state.ledger
            )
        return self._searches[reading]

    @cached_property
    def _figures(self) -> dict[ReadingKey, HomeFigures]:
        return {}

    @cached_property
    def _searches(self) -> dict[ReadingKey, PeopleSearch]:
        return {}

    @cached_property
    def workers(self) -> Workers:
        """The process that turns long texts into HTML."""
        return Workers(most=1, inline_characters=AT_ONCE)

    @cached_property
    def long(self) -> anyio.CapacityLimiter:
        """The limit on long proposals that are shown whole at the same time, each of which is in memory meanwhile."""
        return anyio.CapacityLimiter(MOST_LONG)

    @cached_property
    def strangers(self) -> anyio.CapacityLimiter:
        """The limit on forms that are read at the same time although nobody is logged in."""
        return anyio.CapacityLimiter(MOST_LONG)

    async def close(self) -> None:
        """Stop the processes that the page started."""
        await self.workers.close()

    def cookies(self, request: Request) -> SiteCookies:
        """Return the cookies under the address of the request."""
        if self.is_local(request):
            return SiteCookies(self.port, secure=False)
        # At the public address, a proxy with TLS passes the request to any worker. On this machine there is no proxy.
        return SiteCookies(None, secure=(self.public_url or "").startswith("https:"), lax=self.sign_in is not None)

    async def session(self, request: Request) -> Session | None:
        """Return the session of the browser that sent the request."""
        return await self.sessions.of(request.cookies.get(self.cookies(request).session))

    async def is_known(self, request: Request) -> bool:
        """Return whether somebody has logged in with this browser."""
        return await self.sessions.known(request.cookies.get(self.cookies(request).known))

    async def welcomed(self, request: Request, session: Session, answer: Response) -> Response:
        """Return `answer` with the cookies of the new session, after ending the session that the browser had."""
        if (before := await self.session(request)) is not None:
            await self.sessions.leave(before)
        cookies, known = self.cookies(request), request.cookies.get(self.cookies(request).known)
        if not await self.sessions.known(known):
            known = await self.sessions.recognise(session.user)
        cookies.put(answer, cookies.session, session.secret, SESSION_LIFETIME)
        cookies.put(answer, cookies.known, known or "", KNOWN_LIFETIME)
        return answer

    @cached_property
    def _templates(self) -> Environment:
        environment = Environment(
            loader=FileSystemLoader(FOLDER / "templates"),
            autoescape=True,
            undefined=StrictUndefined,  # a misspelt name is an error, not an empty place
            trim_blocks=True,
            lstrip_blocks=True,
            finalize=self._inert,
            bytecode_cache=_COMPILED,
        )
        environment.filters |= {
            "fields": fields_of,
            "folded": folded,
            "given": given,
            "sentence": sentence_of,
            "journey_address": journey_address,
            "lines": sanitize,
            "packed": packed,
            "run_status": status_of,
            "spelled_out": spelled_out,
            "state_of": state_of,
            "title_line": title_line,
        }
        environment.globals["moment"] = moment
        return environment

    def _inert(self, value: Any) -> Any:
        """Return a template's rendering of a value: for a text, HTML in which every character is visible.

        Jinja calls this for each value in `{{ }}`. So a text of a host or a model is inert unless a template says
        otherwise. In attributes and text fields, where marks would be wrong, a template uses `|e`, which only escapes HTML.
        The name of a hidden page that a text came from is left out.
        """
        if type(value) is not str:
            return value
        if value.startswith(PAGE_SOURCE) and not self.services.access.may_name(value):
            value = UNNAMED
        return sanitize_line(value)

    async def show(
        self, template: str, session: Session | None, values: Callable[[], Mapping[str, Any]], status: int = 200
    ) -> Response:
        """Return the filled template. `values` is called in a thread: a hostile text may take seconds."""
        return HTMLResponse(await self.filled(template, session, values), status)

    async def filled(self, template: str, session: Session | None, values: Callable[[], Mapping[str, Any]]) -> bytes:
        """Return the HTML of the filled template."""
        waiting = await self._waiting() if session else 0
        common = {
            "session": session,
            "navigation": _navigation(session),
            "may_manage": session is not None and session.may(SiteRight.MANAGE),
            "may_audit": session is not None and session.may(SiteRight.AUDIT),
            "here": "",
            "waiting": waiting,
            "base_name": self.base_name if session else "",
            "token": lambda: _TOKEN.format(session.csrf if session else ""),
            "now": self.services.now(),
        }

        def filled() -> bytes:
            html = self._templates.get_template(template).render({**common, **values()})
            return html.encode("utf-8", "replace")

        return await anyio.to_thread.run_sync(filled)

    async def apart(self, step: Callable[[A], R], argument: A, *, size: int) -> R:
        """Return `step(argument)`, computed in one of the page's own processes. If the request ends, so does the computation."""
        # Not in the workers that serve hosts: a person must not wait for the hosts' calls. The workers take turns between callers.
        CALLER.set(f"page {secrets.token_hex(8)}")
        return await self.workers.run(step, argument, size=size, what="showing this")

    async def _waiting(self) -> int:
        """Return how many proposals, journeys and runs wait for a person; the last two are counted up to a limit."""
        lines = await self.services.journeys.store.journeys(status="waiting", limit=MOST_COUNTED)
        asking = await self.runs.runs(state="asking", limit=MOST_COUNTED)
        return await self.services.state.trust.pending() + len(lines) + len(asking)

    def still(self, session: Session) -> Here:
        """Return a function for long answers: it returns whether the session is still logged in, with the same rights."""

        async def logged_in() -> bool:
            return await self.sessions.of(session.secret) is not None and await self.services.is_current()

        return logged_in

    async def stranger(self, request: Request | None = None) -> Response:
        """Return the answer for everyone who is not logged in: the same on every page, with no content but what they sent.

        So a person whose session has expired gets back what they typed into the form. From a browser that nobody has logged in with,
        nothing is read: otherwise, anybody could make this server read megabytes.
        """
        kept = None
        if request is not None and request.method == "POST" and await self.is_known(request):
            async with self.strangers:
                kept = kept_form(request.url.path, await form_of(request, LARGEST_KEPT))
        values = {"kept": kept, "begin": self._begin(request) if request is not None else ""}
        return await self.show("stranger.html", None, lambda: values, 404)

    def _begin(self, request: Request) -> str:
        """Return the address at which a login at the sign-in server begins and leads to this page; "" if people log in otherwise."""
        if self.sign_in is None or self.is_local(request):
            return ""
        query = f"?{request.url.query}" if request.url.query else ""
        to = request.url.path + query if request.method == "GET" else HOME
        return "/login/begin?" + urlencode({"to": to})


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A request of a person who is logged in, with what a page needs to answer it."""

    page: PageContext
    http: Request
    session: Session
    services: SiteServices
    """The services of the knowledge base, which show what the person may read."""

    @property
    def id(self) -> str:
        """The id in the address."""
        return str(self.http.path_params["id"])

    @property
    def query(self) -> QueryParams:
        """The parameters in the address."""
        return self.http.query_params

    @property
    def trust(self) -> TrustRecords:
        """The proposals, passkeys and trusted places."""
        return self.services.state.trust

    @property
    def now(self) -> datetime:
        """The current time."""
        return self.services.now()

    @property
    def editor(self) -> EditorLink | None:
        """How a file is opened in the person's editor; None if that is off, or the person may be at another machine."""
        return self.page.editor if self.page.is_local(self.http) else None

    def number(self, name: str) -> int | None:
        """Return the number in the address under that name; None if it is missing or does not fit a database's integer."""
        text = self.query.get(name, "")
        return int(text) if text.isdecimal() and len(text) < 19 else None

    def filters(self, names: Sequence[str]) -> dict[str, str]:
        """Return what a form asks for, "" for an empty field. A day that was picked counts in place of the typed time."""
        return {name: typed_or_picked(self.query, name).strip()[:LONGEST_FILTER] for name in names}

    def time(self, text: str, read: Callable[[str, datetime], datetime]) -> datetime | None:
        """Return the time in a filter, None if the filter is empty.

        Raises:
            ValueError: it is no time; the message is for the person.
        """
        return read(text, self.now) if text else None

    @property
    def relying_party(self) -> RelyingParty:
        """The site as passkeys know it under the address of this request."""
        public = self.page.public_url or ""
        if public.startswith("https:") and not self.page.is_local(self.http):
            return passkeys.at(browser_origin(public))
        return passkeys.on_this_machine(self.page.port)

    async def signature(self, shown_hash: str, assertion: str) -> str:
        """Return the name of the person's passkey that signed the hash.

        Raises:
            CannotDecide: none did.
        """
        return await passkeys.verified(
            self.trust, self.session, shown_hash, assertion, party=self.relying_party, now=self.now
        )

    def person(self, signed: str = "") -> Approver:
        """Return the person of the session, as approvals record them. `signed` is the passkey whose signature was verified, or ""."""
        return Approver(self.session.user, "page", signed)

    async def propose(self, act: AdminAct, arguments: Mapping[str, Any]) -> Response:
        """Propose a change of trust and show the proposal, which the person then signs or approves."""
        proposal = await self.page.approvals.ask(act, arguments, self.person())
        return see(f"/proposals/{proposal.id}")

    async def show(
        self, template: str, values: Mapping[str, Any] | Callable[[], Mapping[str, Any]], status: int = 200
    ) -> Response:
        """Return the filled template. Values that take long to make are passed as a function, which is called in a thread."""
        return await self.page.show(template, self.session, values if callable(values) else lambda: values, status)

    async def message(self, title: str, message: str, back: str, status: int = 409) -> Response:
        """Return a page with a message, such as why something was not done."""
        return await self.show("message.html", {"title": title, "message": message, "back": back}, status)


class CompiledTemplates(BytecodeCache):
    """Compiled templates, which all sites of this process share: to compile one takes longer than to fill it."""

    def __init__(self) -> None:
        self._by_source: dict[tuple[str, str], CodeType] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        """Give the template its code, if its present source was compiled before."""
        bucket.code = self._by_source.get((bucket.key, bucket.checksum))

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep the template's code."""
        if bucket.code is not None:
            self._by_source[bucket.key, bucket.checksum] = bucket.code


_COMPILED = CompiledTemplates()


class NotFound(KnowledgeError):
    """The address names something that does not exist; the page then has this title and message."""

    def __init__(self, title: str, message: str, back: str = "/") -> None:
        self.title, self.back = title, back
        super().__init__(message)


Reading = Callable[[PageRequest], Awaitable[Response]]
Acting = Callable[[PageRequest, Form], Awaitable[Response]]


def reads(view: Reading, right: SiteRight) -> Endpoint:
    """Return the endpoint of a page that shows something to a person who is logged in and has the right."""

    async def answer(request: PageRequest) -> Response:
        try:
            return await _found(request, view(request))
        except KnowledgeError as error:
            return await request.message("This page can't be shown", str(error), "/", 404)

    return _for_people(answer, right)


def acts(view: Acting, right: SiteRight, back: str = "/", *, resumed: Acting | None = None) -> Endpoint:
    """Return the endpoint of a form, for people with `right`. If `view` fails, the page with the error links to `back`.

    `back` may contain the route's parameters in braces. A form that was shown to another session changes nothing. If it has text
    that a person typed, `resumed` shows the form again; without `resumed`, the answer returns the text.
    """

    async def answer(request: PageRequest) -> Response:
        form = await form_of(request.http)
        if not same(form.get("csrf", ""), request.session.csrf):
            kept = kept_form(request.http.url.path, form)
            if resumed is not None and kept is not None:
                return await _found(request, resumed(request, form))
            return await request.show("other_session.html", {"kept": kept}, 403)
        way_back = back.format(**request.http.path_params)
        try:
            return await _found(request, view(request, form))
        except CannotDecide as error:
            return await request.message("Nothing was changed", str(error), way_back)
        except KnowledgeError as error:
            logger.warning("an act on the review page failed: %s", error)
            return await request.message("That did not work", str(error), way_back)

    return _for_people(answer, right)


def _for_people(answer: Reading, right: SiteRight) -> Endpoint:
    """Return an endpoint that answers people who are logged in and have the right, and everybody else as strangers.

    This is the only way to a page. If rules on folders may hide pages from the person, the answer is made from only those pages
    that they may read, also while it is sent.
    """

    async def endpoint(request: Request) -> Response:
        page_context: PageContext = request.app.state.page_context
        session = await page_context.session(request)
        if session is None:
            return await page_context.stranger(request)
        services = page_context.services
        if session.sees_all:
            return await answered(PageRequest(page_context, request, session, services))
        async with services.as_person(session.user) as readable:
            found = await answered(PageRequest(page_context, request, session, readable))
        return AnswerToPerson(found, readable)

    async def answered(person: PageRequest) -> Response:
        if not person.session.may(right):
            return await person.message("You can't use this page", FORBIDDEN.format(right.value), HOME, 403)
        return await answer(person)

    return declared(endpoint, right)


class AnswerToPerson(Response):
    """An answer that is sent with the rights of the person who asked.

    A stream reads pages while it is sent, and so does work in the background after the answer.
    """

    def __init__(self, answer: Response, readable: SiteServices) -> None:
        self._answer, self._readable = answer, readable
        self.status_code = answer.status_code

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer."""
        with self._readable.shown():
            await self._answer(scope, receive, send)


async def _found(request: PageRequest, answer: Awaitable[Response]) -> Response:
    """Return the answer, or the page that says what does not exist. The person counts as looking at the page."""
    request.page.live.looked()
    try:
        return await answer
    except NotFound as error:
        return await request.message(error.title, str(error), error.back, 404)


async def form_of(request: Request, largest: int = LARGEST_FORM) -> Form:
    """Return the fields of a posted form; if a name occurs twice, the last one counts. A form that is too large has no fields."""
    if not request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        return {}
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > largest:
            return {}
    try:
        return dict(parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=MOST_FIELDS))
    except ValueError:
        return {}


def see(path: str) -> Response:
    """Redirect to `path`, after a form that worked."""
    return RedirectResponse(path, 303)
