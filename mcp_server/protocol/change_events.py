"""Reports changes to the knowledge base, by any process, to every subscribed client within 100 ms."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

import anyio
from mcp.server.connection import Connection
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.subscriptions import PromptsListChanged, ResourcesListChanged, ResourceUpdated
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    EmptyResult,
    Prompt,
    Resource,
    SubscribeRequestParams,
    UnsubscribeRequestParams,
)
from mcp_types.version import is_version_at_least

from knowledge.pages.paths import AGENTS_FOLDER, SKILLS_FOLDER, ancestors
from knowledge.state.client_notes import MOST_SUBSCRIPTIONS, TOPIC, ClientNotes
from knowledge.state.ports import Event, StateStore
from mcp_server.protocol.calls.results import MULTI_ROUND
from mcp_server.protocol.reach.requests import LISTEN
from mcp_server.protocol.reach.subscribers import NOBODY, MayHear, ReadersBus, everybody_may, hearer
from mcp_server.protocol.resources import DOC_URI, MAP_URI, PROPOSAL_URI
from mcp_server.protocol.server import ForgeServer
from mcp_server.toolsets.journeys.offers.resources import MEMORY_URI, journey_addresses, memory_prefix
from mcp_server.toolsets.runs.resources import run_addresses

logger = logging.getLogger("knowledge_forge.changes")

AFTER_TROUBLE_S = 0.25
LONGEST_PAUSE_S = 2.0
"""While the state database fails, the pauses between tries begin at `AFTER_TROUBLE_S`, and each is twice the last, up to this."""
PATIENCE_S = 1.0
"""How long to wait for a client that doesn't read; all other clients wait meanwhile."""
LISTS_LOOK_S = 2.0
"""How often a process checks whether its lists of prompts and resources have changed."""
FIRST_LOOK_S = 1.0
"""The wait before the first check, so that it doesn't slow down the host's handshake."""
LONGEST_ADDRESS = 2_000
"""Bytes of an address that a session over HTTP can subscribe to. No resource here has a longer one."""
AGENTS_CHANGED = tuple(Event(0, "doc", folder) for folder in (AGENTS_FOLDER, SKILLS_FOLDER))
"""The changes behind a changed list if no agent's file is known to be behind them.

Lists have fixed entries and the team's agents and skills, so the change counts as one of these folders.
"""
_LISTS = {"prompts/list": "prompts", "resources/list": "resources"}


class SessionSubscribers:
    """Clients of the 2025 protocol, which subscribe to one address at a time and are notified on their session's own stream.

    A client that asked for a list is also notified when the list changes. The subscriptions to memory documents are kept for clients
    of both protocols, because an event of a journey doesn't say which documents it has.

    Over HTTP, a session's requests and its stream of events may be in different processes. So its subscriptions are kept in `notes`,
    and its stream is notified when either list changes, whether the client asked for it or not. `on_note` gets all other notes on
    sessions: the session, and what happened in it.
    """

    def __init__(self, notes: ClientNotes | None = None, may_hear: MayHear = everybody_may) -> None:
        self._notes, self._may_hear = notes, may_hear
        self._callers: dict[Connection, str] = {}
        self._streams: dict[str, Connection] = {}
        self.on_note: Callable[[str, str], Awaitable[None]] | None = None
        self._wanted: dict[Connection, set[str]] = {}
        self._listing: dict[Connection, set[str]] = {}
        self._listened: Counter[str] = Counter()
        self.server: ForgeServer | None = None

    def serve(self, server: ForgeServer) -> None:
        """Serve `resources/subscribe` and `resources/unsubscribe`, for which the SDK has no handlers."""
        self.server = server
        server.middleware.append(self._note_listing)
        server.middleware.append(self._note_listening)
        server.add_session_method("resources/subscribe", SubscribeRequestParams, self._subscribe)
        server.add_session_method("resources/unsubscribe", UnsubscribeRequestParams, self._unsubscribe)

    async def _subscribe(self, ctx: ServerRequestContext[Any, Any], params: SubscribeRequestParams) -> EmptyResult:
        uri, session = str(params.uri), _connection(ctx).session_id
        if session is None or self._notes is None:
            _remember(self._wanted, ctx, uri)
            self._note_caller(_connection(ctx), hearer())
        elif not _can_be_noted(uri):
            raise MCPError(
                INVALID_PARAMS,
                f"no resource has this address: it has more than {LONGEST_ADDRESS} bytes, or a null byte",
            )
        elif not await self._notes.subscribe(session, uri):
            raise MCPError(
                INVALID_PARAMS,
                f"this session has {MOST_SUBSCRIPTIONS} subscriptions already; end some with resources/unsubscribe",
            )
        return EmptyResult()

    async def _unsubscribe(self, ctx: ServerRequestContext[Any, Any], params: UnsubscribeRequestParams) -> EmptyResult:
        uri, session = str(params.uri), _connection(ctx).session_id
        if session is None or self._notes is None:
            self._wanted.get(_connection(ctx), set()).discard(uri)
        elif _can_be_noted(uri):
            await self._notes.unsubscribe(session, uri)
        return EmptyResult()

    async def attach(self, connection: Connection, session: str, principal: str) -> None:
        """Notify this connection, the newest stream of the principal's session, until it closes."""

        def detach() -> None:
            self._wanted.pop(connection, None)
            self._listing.pop(connection, None)
            if self._streams.get(session) is connection:
                del self._streams[session]

        connection.exit_stack.callback(detach)
        self._note_caller(connection, principal)
        self._streams[session], self._listing[connection] = connection, set(_LISTS.values())
        await self._refresh(session)

    async def _refresh(self, session: str) -> None:
        if self._notes is not None and (connection := self._streams.get(session)) is not None:
            self._wanted[connection] = set(await self._notes.subscriptions(session))

    async def noted(self, key: str) -> None:
        """Take in an event of a session, which any process may have made."""
        session, _, what = key.partition(":")
        if what == "uri:":
            await self._refresh(session)
        elif self.on_note is not None:
            await self.on_note(session, what)

    async def _note_listing(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Remember which clients of the older protocol asked for a list. Newer ones subscribe to changes of lists."""
        answer = await call_next(ctx)
        here = _connection(ctx).session_id is None
        if ctx.method in _LISTS and here and not is_version_at_least(ctx.protocol_version, MULTI_ROUND):
            _remember(self._listing, ctx, _LISTS[ctx.method])
            self._note_caller(_connection(ctx), hearer())
        return answer

    async def _note_listening(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Remember the memory documents that a client of the newer protocol listens to, until it stops."""
        if ctx.method != LISTEN:
            return await call_next(ctx)
        wanted = (ctx.params or {}).get("notifications")
        uris = wanted.get("resourceSubscriptions") if isinstance(wanted, Mapping) else None
        listened = [uri for uri in uris if str(uri).startswith(MEMORY_URI)] if isinstance(uris, list) else []
        self._listened.update(listened)
        try:
            return await call_next(ctx)
        finally:
            self._listened.subtract(listened)
            self._listened += Counter[str]()  # adding a counter drops entries with a count of 0

    def documents_of(self, journey: str) -> list[str]:
        """Return the addresses of the journey's memory documents that any client is subscribed to."""
        wanted = {*self._listened, *(uri for uris in self._wanted.values() for uri in uris)}
        return sorted(uri for uri in wanted if uri.startswith(memory_prefix(journey)))

    def _note_caller(self, connection: Connection, principal: str) -> None:
        if connection not in self._callers:
            connection.exit_stack.callback(self._callers.pop, connection, None)
        self._callers[connection] = principal

    async def list_changed(self, which: str, changes: Sequence[Event]) -> None:
        """Notify the clients that asked for that list, `prompts` or `resources`, and may hear of one of the changes."""
        for connection in [one for one, lists in self._listing.items() if which in lists]:
            if not await self._may_hear(self._callers.get(connection, NOBODY), changes):
                continue
            changed = (
                connection.send_prompt_list_changed if which == "prompts" else connection.send_resource_list_changed
            )
            await _send(changed, lost=partial(self._listing.pop, connection, None))

    async def resource_updated(self, uri: str, change: Event) -> None:
        """Notify the clients that are subscribed to `uri` and may hear of the change."""
        for connection in [one for one, uris in self._wanted.items() if uri in uris]:
            if not await self._may_hear(self._callers.get(connection, NOBODY), (change,)):
                continue
            updated = partial(connection.send_resource_updated, uri)
            await _send(updated, lost=partial(self._wanted.pop, connection, None))


def _can_be_noted(uri: str) -> bool:
    return len(uri.encode()) <= LONGEST_ADDRESS and "\0" not in uri


def _connection(ctx: ServerRequestContext[Any, Any]) -> Connection:
    return ctx.session._connection  # noqa: SLF001 - the SDK has no public name for the connection


def _remember(table: dict[Connection, set[str]], ctx: ServerRequestContext[Any, Any], item: str) -> None:
    """Add the item for the client's connection, which is removed from the table when it closes."""
    connection = _connection(ctx)
    if connection not in table:
        connection.exit_stack.callback(table.pop, connection, None)
    table.setdefault(connection, set()).add(item)


async def _send(notify: Callable[[], Awaitable[None]], *, lost: Callable[[], object]) -> None:
    """Send a notification, or call `lost` if the client has disconnected."""
    try:
        with anyio.move_on_after(PATIENCE_S):
            await notify()
    except Exception:
        # Each transport raises another error for a closed stream.
        logger.info("a subscribed client has disconnected", exc_info=True)
        lost()


async def follow_changes(state: StateStore, bus: ReadersBus, sessions: SessionSubscribers) -> None:
    """Publish, forever, changed resources for each event of the state database, and each change of the lists."""
    async with anyio.create_task_group() as tasks:
        if sessions.server is not None and sessions.server.offers:
            tasks.start_soon(_follow_lists, sessions.server, bus, sessions)
        await _follow_events(state, bus, sessions)


async def _follow_lists(server: ForgeServer, bus: ReadersBus, sessions: SessionSubscribers) -> None:
    """Publish each change of this process's lists of prompts and resources, forever.

    The lists themselves are compared, so a change is noticed whichever process or program made it. Only those clients are notified
    that may read the file of an agent that was added, removed or changed.
    """
    seen_prompts, seen_resources, before = None, None, dict[str, str]()
    pause_s = FIRST_LOOK_S
    while True:
        await anyio.sleep(pause_s)
        pause_s = LISTS_LOOK_S
        try:
            prompts, resources = await server.list_prompts(), await server.list_resources()
            origins = await server.origins()
        except Exception:  # the sources of the lists can't be read now; the next check tries again
            logger.warning("cannot check the lists of prompts and resources for changes now", exc_info=True)
            continue
        earlier_prompts = seen_prompts or server.first_prompts or []
        earlier_resources = seen_resources or server.first_resources or []
        if prompts != earlier_prompts:
            changes = _of_agents(_changed(earlier_prompts, prompts), before, origins)
            await bus.publish(PromptsListChanged(), changes)
            await sessions.list_changed("prompts", changes)
        if resources != earlier_resources:
            changes = _of_agents(_changed(earlier_resources, resources), before, origins)
            await bus.publish(ResourcesListChanged(), changes)
            await sessions.list_changed("resources", changes)
        seen_prompts, seen_resources, before = prompts, resources, dict(origins)


def _changed(before: Sequence[Prompt | Resource], after: Sequence[Prompt | Resource]) -> list[str]:
    """Return the names of the entries that are in only one of the lists, or differ. Pure."""
    old, new = ({one.name: one for one in listed} for listed in (before, after))
    return [name for name in {**old, **new} if old.get(name) != new.get(name)]


def _of_agents(names: Sequence[str], before: Mapping[str, str], after: Mapping[str, str]) -> Sequence[Event]:
    """Return one change for each file of these agents: those in which they were before, and those in which they are now. Pure."""
    files = [known.get(name) for name in names for known in (before, after)]
    found = tuple(Event(0, "doc", file) for file in dict.fromkeys(files) if file)
    return found or AGENTS_CHANGED


async def _follow_events(state: StateStore, bus: ReadersBus, sessions: SessionSubscribers) -> None:
    """Publish changed resources for each event of the state database, forever. After an error it waits and tries again."""
    seen: int | None = None
    pause_s = 0.0
    while True:
        try:
            if seen is None:
                seen = await state.last_event()
            await state.changed(seen)
            newest = await state.last_event()
            # If the counter went back, a backup was restored, and any of its events may be a change.
            events = await state.events_after(seen) or await state.events_after(0)
            # Subscriptions first, and within the `try`: if they can't be read now, all these events are read again.
            for event in events:
                if event.topic == TOPIC:
                    await sessions.noted(event.key)
        except Exception as error:  # noqa: BLE001 - no error of a store may end the reporting of changes
            if not pause_s:  # log the first of a series only
                logger.warning("cannot read changes now; clients get them later: %s", error)
            pause_s = min(max(AFTER_TROUBLE_S, 2 * pause_s), LONGEST_PAUSE_S)
            await anyio.sleep(pause_s)
            continue
        pause_s = 0.0
        seen = events[-1].seq if events else newest
        for event in events:
            documents = sessions.documents_of(event.key) if event.topic == "journey" else []
            for uri in [*_resources(event), *documents]:
                await bus.publish(ResourceUpdated(uri=uri), (event,))
                await sessions.resource_updated(uri, event)
        if maps := [event for event in events if event.topic == "map"]:
            await bus.publish(ResourcesListChanged(), maps)
            await sessions.list_changed("resources", maps)


def _resources(event: Event) -> list[str]:
    """Return the addresses of the resources that an event changes: a page with the maps above it, a proposal, a journey or a run."""
    if event.topic == "doc":
        return [DOC_URI + event.key, *(MAP_URI + directory for directory in ancestors(event.key))]
    if event.topic == "proposal":
        return [PROPOSAL_URI + event.key]
    if event.topic == "journey":
        return journey_addresses(event.key)
    if event.topic == "run":
        return run_addresses(event.key)
    return [MAP_URI + event.key] if event.topic == "map" else []
