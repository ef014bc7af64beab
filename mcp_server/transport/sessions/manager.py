"""Serves HTTP sessions of the 2025 protocol in any process.

A session's id contains what `initialize` said. Notes in the state database tell what other processes received: answers to questions,
cancelled requests, subscriptions, a newer stream, the end of the session.

The 2026 protocol has no sessions; the SDK serves its requests.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import anyio
from anyio.abc import TaskStatus
from mcp.server.connection import Connection
from mcp.server.lowlevel.server import Server
from mcp.server.runner import serve_connection
from mcp.server.streamable_http import (
    LAST_EVENT_ID_HEADER,
    MCP_SESSION_ID_HEADER,
    EventStore,
    StreamableHTTPServerTransport,
)
from mcp.server.streamable_http_manager import (
    StreamableHTTPSessionManager,
    _error_response,
)  # the error as the SDK writes it
from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import NoBackChannelError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.message import SessionMessage
from mcp.shared.transport_context import TransportContext
from mcp_types import (
    INTERNAL_ERROR,
    PARSE_ERROR,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
)
from mcp_types.jsonrpc import jsonrpc_message_adapter
from pydantic import ValidationError
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from knowledge.errors import StorageError
from knowledge.state.client_notes import ClientNotes
from mcp_server.protocol.change_events import SessionSubscribers
from mcp_server.transport.bad_lines import LONGEST_MESSAGE, NOT_JSON, failure, mended, refusal
from mcp_server.transport.sessions.session_ids import ClientSession, SessionIds
from mcp_server.transport.sign_in.bearer import user_of

logger = logging.getLogger("knowledge_forge")

NO_SESSION = "Session not found"
LONGEST_REQUEST_ID = 200
"""Characters of a request's id that can be cancelled from another process."""
NUL = "\0"
"""PostgreSQL has no texts with it."""
PATIENCE_S = 1.0
"""How long to wait for a request's dispatcher to take in what another process noted."""
FORGETTING_S = 5.0


class SessionDispatcher(JSONRPCDispatcher[TransportContext]):
    """The dispatcher of one request, or of a stream of events. Its questions to the client can be answered in any process."""

    def __init__(self, served: _Served, *streams: Any) -> None:
        super().__init__(*streams, inline_methods=frozenset({"initialize"}))
        self._served = served

    async def send_raw_request(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None = None,
        *,
        _related_request_id: str | int | None = None,
    ) -> dict[str, Any]:
        """Ask the client and return its answer.

        Raises:
            NoBackChannelError: the question belongs to no request of the client, so nobody knows on which stream to ask.
            StorageError: the answer may reach a process that cannot pass it on.
        """
        served = self._served
        if _related_request_id is None or served.session is None:
            raise NoBackChannelError(method)
        # Not the SDK's counter: the answer may arrive in any process, and its id must be that of no other question.
        question = secrets.token_hex(16)
        await served.manager.notes.ask(served.session.hash, question)
        served.manager.asked[question] = served
        try:
            return await super().send_raw_request(
                method, params, {**(opts or {}), "request_id": question}, _related_request_id=_related_request_id
            )
        finally:
            del served.manager.asked[question]
            with anyio.move_on_after(FORGETTING_S, shield=True):
                try:
                    await served.manager.notes.forget_question(served.session.hash, question)
                except StorageError:
                    logger.info("an answered question is forgotten later", exc_info=True)

    async def _dispatch_request(self, *given: Any) -> None:
        self._served.begun = True
        await super()._dispatch_request(*given)

    async def _handle_request(self, *given: Any) -> None:
        try:
            await super()._handle_request(*given)
        finally:
            self._served.settled.set()


class _Served:
    """One HTTP request that is being served: a call of the client, or a stream of events."""

    def __init__(
        self, manager: SharedSessions, session: ClientSession | None, transport: StreamableHTTPServerTransport
    ) -> None:
        self.manager, self.session, self.transport = manager, session, transport
        self.begun, self.settled = False, anyio.Event()
        self.opening = False
        """Whether it is a stream that is not yet noted as its session's newest."""

    async def put(self, message: JSONRPCMessage) -> None:
        """Give it a message of its client that arrived elsewhere."""
        writer = self.transport._read_stream_writer  # noqa: SLF001 - the SDK reads it from requests to this transport only
        if writer is not None:
            with anyio.move_on_after(PATIENCE_S):
                try:
                    await writer.send(SessionMessage(message))
                except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                    logger.debug("a request ended before its message arrived")


class SharedSessions(StreamableHTTPSessionManager):
    """The session manager of one process of a server. No process keeps sessions, so each can serve every session."""

    def __init__(
        self,
        app: Server[Any],
        ids: SessionIds,
        notes: ClientNotes,
        subscribers: SessionSubscribers,
        *,
        security_settings: TransportSecuritySettings,
        event_store: EventStore | None = None,
        retry_interval: int | None = None,
    ) -> None:
        super().__init__(
            app,
            event_store,
            security_settings=security_settings,
            retry_interval=retry_interval,
            max_request_body_size=LONGEST_MESSAGE,
        )
        self._ids, self.notes, self._subscribers = ids, notes, subscribers
        self._security = TransportSecurityMiddleware(security_settings)
        self.asked: dict[str, _Served] = {}
        self._calls: dict[tuple[str, str], _Served] = {}
        self._streams: dict[str, tuple[str, _Served]] = {}
        subscribers.on_note = self.noted

    async def _handle_stateful_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request of the 2025 protocol."""
        answer = await self._answered(scope, receive, send)
        if answer is not None:
            await answer(scope, receive, send)

    async def _answered(self, scope: Scope, receive: Receive, send: Send) -> Response | None:
        """Return the answer, or None if it was sent."""
        request = Request(scope, receive)
        posted, owner = request.method == "POST", user_of(scope) or ""
        if (refused := await self._security.validate_request(request, is_post=posted)) is not None:
            return refused
        told = request.headers.get(MCP_SESSION_ID_HEADER)
        session = self._ids.opened(told, owner) if told is not None else None
        # 404 tells the client to begin a new session (MCP 2025-11-25, Transports, "Session Management").
        if told is not None and (session is None or await self._has_ended(session)):
            return _error_response(NO_SESSION, 404)
        message = None
        if posted:
            taken = _taken_in(await request.body())
            if isinstance(taken, Response):
                return taken
            message, body = taken
            receive = _again(body, receive)
        if isinstance(message, JSONRPCRequest) and message.method == "initialize":
            session = self._ids.issue(message.params or {}, owner)
            return await self._serve(session, message, scope, receive, send, fresh=True)
        if session is None:
            return _error_response("Bad Request: Missing session ID", 400)
        if isinstance(message, JSONRPCResponse | JSONRPCError | JSONRPCNotification):
            return await _passed_on(self._take(session, message), 202)
        if request.method == "DELETE":
            return await _passed_on(self.notes.end(session.hash), 200)
        if request.method == "GET" and LAST_EVENT_ID_HEADER in request.headers and self.event_store is None:
            return _error_response("An answer that broke off can't be resumed; open a new stream", 400)
        return await self._serve(session, message, scope, receive, send)

    async def _has_ended(self, session: ClientSession) -> bool:
        try:
            return await self.notes.ended(session.hash)
        except StorageError:
            # Reading works for a while without the database. An ended session gives no access to anybody else, so this is safe.
            logger.info("cannot read whether a session has ended", exc_info=True)
            return False

    # --- requests -------------------------------------------------------------------------------------------------------

    async def _serve(
        self,
        session: ClientSession | None,
        message: JSONRPCMessage | None,
        scope: Scope,
        receive: Receive,
        send: Send,
        *,
        fresh: bool = False,
    ) -> Response | None:
        """Serve a call or a stream of events with a transport of its own, which refuses an invalid message."""
        transport = StreamableHTTPServerTransport(
            mcp_session_id=session.id if session else None,
            event_store=self.event_store,
            retry_interval=self.retry_interval,
        )
        served = _Served(self, session, transport)
        key = None
        if session is not None and isinstance(message, JSONRPCRequest):
            key = (session.hash, str(message.id))
            self._calls[key] = served
        group = self._task_group
        assert group is not None  # noqa: S101 - as in the SDK: requests come only while `run` runs
        # A resumed stream belongs to one call, and is not the session's stream.
        streams = scope["method"] == "GET" and LAST_EVENT_ID_HEADER not in Headers(scope=scope)
        try:
            await group.start(partial(self._run, served, fresh=fresh, streams=streams))
        except StorageError:
            logger.warning("cannot open a stream of events now", exc_info=True)
            return _error_response("The server cannot open a stream now; try again in a moment", 503, INTERNAL_ERROR)
        try:
            if streams and transport.is_terminated:  # the transport would answer that the session is over
                return _error_response("A newer stream of this session is open", 409)
            await transport.handle_request(scope, receive, send)
        finally:
            with suppress(RuntimeError):  # the server has stopped, and with it everything in the group
                group.start_soon(self._end, served, key)
        return None

    async def _run(
        self, served: _Served, *, fresh: bool, streams: bool, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Run the protocol's side of one request until its transport is terminated."""
        session = served.session
        async with served.transport.connect() as (read_stream, write_stream):
            dispatcher = SessionDispatcher(served, read_stream, write_stream)
            # The hash, not the id: the id is enough to send requests in the session.
            connection = Connection.for_loop(dispatcher, session_id=session.hash if session else None)
            if session is not None and not fresh:
                connection.client_params = session.client
                connection.protocol_version = session.client.protocol_version
                connection.initialized.set()
            if session is not None and streams:
                await self._open_stream(served, connection, session)
            task_status.started()
            try:
                await serve_connection(self.app, dispatcher, connection=connection, lifespan_state=self._lifespan_state)
            except Exception:  # all requests share one task group: an error in it would cancel the others
                logger.exception("a request in a session failed")

    async def _end(self, served: _Served, key: tuple[str, str] | None) -> None:
        """Let a call finish whose client has disconnected, as the protocol demands, and then close its transport."""
        try:
            if served.begun:
                await served.settled.wait()
        finally:
            if key is not None and self._calls.get(key) is served:
                del self._calls[key]
            with anyio.CancelScope(shield=True):
                await served.transport.terminate()

    # --- what happens in other processes --------------------------------------------------------------------------------

    async def _open_stream(self, served: _Served, connection: Connection, session: ClientSession) -> None:
        """Make this the only stream of events of the session."""
        stream = secrets.token_hex(8)
        if (older := self._streams.get(session.hash)) is not None:
            await older[1].transport.terminate()
        self._streams[session.hash] = (stream, served)
        served.opening = True

        def forget() -> None:
            if self._streams.get(session.hash) == (stream, served):
                del self._streams[session.hash]

        connection.exit_stack.callback(forget)
        await self.notes.open_stream(session.hash, stream)
        served.opening = False
        if await self.notes.newest_stream(session.hash) != stream:  # its event was ignored until now
            await served.transport.terminate()
        await self._subscribers.attach(connection, session.hash, session.owner)

    async def _take(
        self, session: ClientSession, message: JSONRPCResponse | JSONRPCError | JSONRPCNotification
    ) -> None:
        if isinstance(message, JSONRPCNotification):
            await self._take_notification(session, message)
        else:
            await self._take_answer(session, message)

    async def _take_answer(self, session: ClientSession, message: JSONRPCResponse | JSONRPCError) -> None:
        """Pass the client's answer on to the call that asked, here or elsewhere. An answer that nobody waits for is dropped."""
        question = str(message.id)
        served = self.asked.get(question)
        if served is None:
            text = message.model_dump_json(by_alias=True, exclude_unset=True)
            if not await self.notes.answer(session.hash, question, text):
                logger.debug("nobody waits for this answer")
        elif served.session is not None and served.session.hash == session.hash:
            await served.put(message)

    async def _take_notification(self, session: ClientSession, message: JSONRPCNotification) -> None:
        """Cancel the call that the client no longer wants, here or elsewhere. No other notification has an effect."""
        request = str((message.params or {}).get("requestId", ""))
        if message.method != "notifications/cancelled" or not 0 < len(request) <= LONGEST_REQUEST_ID or NUL in request:
            return
        if (served := self._calls.get((session.hash, request))) is not None:
            await served.put(message)
        else:
            await self.notes.cancel(session.hash, request)

    async def noted(self, session: str, what: str) -> None:
        """Act on an event of a session if it concerns a request that is being served here."""
        kind, _, name = what.partition(":")
        if kind == "asked" and (served := self.asked.get(name)) is not None:
            answer = await self.notes.answered(session, name)
            if answer is not None and served.session is not None and served.session.hash == session:
                await served.put(jsonrpc_message_adapter.validate_json(answer))
        elif kind == "cancel" and (served := self._calls.get((session, name))) is not None:
            cancelled = {"requestId": name}
            await served.put(JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled", params=cancelled))
        elif kind == "stream" and (here := self._streams.get(session)) is not None:
            stream, served = here
            # While it opens, the newest one on record is still the stream before it.
            if not served.opening and await self.notes.newest_stream(session) != stream:
                await served.transport.terminate()


async def _passed_on(passing: Awaitable[object], status: int) -> Response:
    """Return an answer with `status` once `passing` has made the message known to other processes; 503 if it can't do that now."""
    try:
        await passing
    except StorageError:
        logger.warning("cannot pass on what a client said", exc_info=True)
        answer = _error_response("The server cannot pass this on now; send it again in a moment", 503, INTERNAL_ERROR)
        answer.headers["retry-after"] = "1"
        return answer
    return Response(status_code=status)


def _taken_in(body: bytes) -> tuple[JSONRPCMessage, bytes] | Response:
    """Return the message in a body, repaired if possible, and its bytes; otherwise the answer that refuses it, as over stdio."""
    text = body.decode("utf-8", "replace")
    try:
        return jsonrpc_message_adapter.validate_json(text, by_name=False), text.encode()
    except ValidationError as error:
        if (message := mended(error)) is not None:
            return message, message.model_dump_json(by_alias=True, exclude_unset=True).encode()
        refused = refusal(error) or failure(PARSE_ERROR, NOT_JSON)
        told = refused.model_dump_json(by_alias=True, exclude_unset=True)
        return Response(told, status_code=400, media_type="application/json")


def _again(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that returns the body again, and then the messages after it."""
    first = True

    async def receiving() -> Message:
        nonlocal first
        if first:
            first = False
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return receiving
