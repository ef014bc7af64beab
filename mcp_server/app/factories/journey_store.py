"""The part of the composition root that knows where journeys are stored: in the database of the state store."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, TypeAlias, cast

from agents.catalogue import Catalogue
from agents.engine.agent import Look
from agents.engine.evidence.second_judge import SubstanceJudge
from agents.engine.runner import Runner
from agents.engine.state import JourneyState
from agents.store.ports import JourneyStore
from agents.store.sql import SqlJourneys
from knowledge.pages.vault import Vault
from knowledge.state.ports import StateStore
from knowledge.state.quota.bounds import Quotas
from knowledge.state.sqlite.store import SqliteStateStore
from mcp_server.app.factories.team_files import VaultFiles, team_catalogue
from mcp_server.app.knowledge_base import KnowledgeBase
from mcp_server.gate.handles import HANDLE_BYTES
from mcp_server.ports import JourneyServices
from mcp_server.toolsets.journeys.condition_context import KnowledgeLook

CHANCE_BYTES = 4
"""Random bytes that distinguish the conversations of one agent."""


AsBeginner: TypeAlias = Callable[[str], AbstractAsyncContextManager[object]]
"""While the block runs, only what the principal with that id may read is shown."""


class LookOfBeginner:
    """Looks with the rights of the person who began the journey, so that it records nothing that is hidden from them."""

    def __init__(self, look: Look, as_beginner: Callable[[], AbstractAsyncContextManager[object]]) -> None:
        self._look, self._as_beginner = look, as_beginner

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        method = getattr(self._look, name)

        async def limited(*arguments: Any, **options: Any) -> Any:
            async with self._as_beginner():
                return await method(*arguments, **options)

        return limited


def runner_on(
    base: KnowledgeBase,
    services: JourneyServices,
    agents: Catalogue | None = None,
    quotas: Quotas | None = None,
    substance: SubstanceJudge | None = None,
    *,
    vault: Vault | None = None,
    seen: Callable[[JourneyStore], JourneyStore] = lambda journeys: journeys,
    as_beginner: AsBeginner | None = None,
) -> Runner:
    """Return the runner of the knowledge base's journeys, with these agents, or all of them for None. Call it once.

    For a caller who may not read everything, `vault` has only the pages that the caller may read, and `seen` leaves out
    journeys. `as_beginner` limits a journey to what the principal that began it may read, whoever continues it.
    """
    vault = vault or base.vault
    store, files = seen(journeys_in(base.state, quotas)), VaultFiles(vault)

    def looking(journey: str, state: JourneyState) -> Look:
        look = KnowledgeLook(services, files, store, journey, state)
        return (
            look if as_beginner is None else cast("Look", LookOfBeginner(look, partial(as_beginner, state.principal)))
        )

    return Runner(
        store,
        agents or team_catalogue(vault),
        looking,
        now=services.now,
        chance=lambda: secrets.token_hex(CHANCE_BYTES),
        handle=lambda: secrets.token_hex(HANDLE_BYTES),
        substance=substance,
    )


def journeys_in(state: StateStore, quotas: Quotas | None = None) -> JourneyStore:
    """Return the journeys in the database of the state. `quotas` limit what one principal stores; a terminal has none."""
    if isinstance(state, SqliteStateStore):
        return SqlJourneys(state.tables, quotas)
    # psycopg is an optional extra.
    from agents.store.postgres import PostgresJourneys
    from knowledge.state.postgres.store import PostgresStateStore

    if isinstance(state, PostgresStateStore):
        return PostgresJourneys(state.tables, quotas)
    raise TypeError(f"a {type(state).__name__} has no journeys")
