"""The part of the composition root that builds the language model and the runs of `agent_run`, where the settings name a model."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import cache, partial
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskGroup

from mcp_server.absent import no_model, no_runs
from mcp_server.app.knowledge_base import SUMMARIES, KnowledgeBase, utc_now
from mcp_server.ports import RunServices
from mcp_server.runs.local import leads_runs

if TYPE_CHECKING:
    from agents.loop.model.ports import Provider
    from knowledge.search.route.second_opinion import RouteAdviser
    from knowledge.state.quota.bounds import Quotas
    from knowledge.writing.evidence.judge import ContradictionJudge
    from mcp_server.app.settings.access import ModelAccess
    from mcp_server.gate.dispatch import Gate
    from mcp_server.models.language_model import ConfiguredModel
    from mcp_server.models.map_lines import MapLines
    from mcp_server.runs.supervisor import Runs

CONTRADICTIONS, ROUTES = "contradictions", "routes"
"""What a model may help with, as settings name it."""

Sleep = Callable[[float], Awaitable[None]]

START_DELAY_S = 0.3
"""The first moments of a process belong to the host's handshake."""


def model_of(access: ModelAccess | None, sleep: Sleep, stack: AsyncExitStack) -> Callable[[], ConfiguredModel]:
    """Return what loads the model, once; its connections are closed with `stack`."""
    if access is None:
        return no_model

    @cache
    def model() -> ConfiguredModel:
        from mcp_server.models.language_model import ConfiguredModel

        made = ConfiguredModel(access, now=utc_now, sleep=sleep)
        stack.push_async_callback(made.aclose)
        return made

    return model


def judge_of(access: ModelAccess | None, model: Callable[[], ConfiguredModel]) -> ContradictionJudge | None:
    """Return the model as what is asked about contradictions, where the settings name one for that."""
    if access is None or CONTRADICTIONS not in access.helps:
        return None
    from mcp_server.models.contradiction_judge import ModelJudge

    async def provider() -> Provider:
        return await model().provider()

    return ModelJudge(provider, str(access.name), clock=time.monotonic)


def opinion_of(
    access: ModelAccess | None, model: Callable[[], ConfiguredModel], background: TaskGroup
) -> RouteAdviser | None:
    """Return the model as what is asked about routes, where the settings name one for that."""
    if access is None or ROUTES not in access.helps:
        return None
    from mcp_server.models.route_opinion import AskedRoutes

    return AskedRoutes(model(), background.start_soon)


def runs_of(
    base: KnowledgeBase,
    model: Callable[[], ConfiguredModel],
    through: Callable[[], tuple[Gate, RunServices]],
    background: TaskGroup,
    quotas: Quotas | None = None,
) -> Callable[[], Runs]:
    """Return what loads the runs, once. `through` tells the gate that their calls pass, and the services behind it."""
    if model is no_model:
        return no_runs

    @cache
    def runs() -> Runs:
        from mcp_server.runs.locations import runs_in
        from mcp_server.runs.supervisor import Runs
        from mcp_server.toolsets.runs.gated_tools import GatedTools

        asks, tools = model(), partial(GatedTools, *through())
        return Runs(runs_in(base.state, quotas), base.state, asks, tools, background, now=utc_now, bounds=asks.run_day)

    return runs


async def make_map_lines(
    base: KnowledgeBase, access: ModelAccess | None, model: Callable[[], ConfiguredModel], holder: str
) -> None:
    """Where the settings name a model for it, have it write lines for maps. What that needs is loaded after the handshake, aside."""
    if access is None or SUMMARIES not in access.helps:
        return
    await anyio.sleep(START_DELAY_S)
    made = await anyio.to_thread.run_sync(_making_lines)
    await made(base, model(), holder).run()


def _making_lines() -> Callable[[KnowledgeBase, ConfiguredModel, str], MapLines]:
    from mcp_server.models.locations import summaries_in
    from mcp_server.models.map_lines import MapLines

    def made(base: KnowledgeBase, model: ConfiguredModel, holder: str) -> MapLines:
        kept = summaries_in(base.state)
        return MapLines(
            base.state, base.index, base.load_tiers, kept, model.provider, name=model.name, holder=holder, now=utc_now
        )

    return made


async def keep_runs(services: RunServices, *, here: bool = True) -> None:
    """Where runs are led, `here`, go on with those that wait, or whose process died.

    What that needs is loaded a moment after the host's handshake, aside.
    """
    if not here or not leads_runs(services):
        return
    await anyio.sleep(START_DELAY_S)
    await (await anyio.to_thread.run_sync(_keeping))(services, services.runs)


def _keeping() -> Callable[[RunServices, Runs], Awaitable[None]]:
    from mcp_server.runs.resume import keep_runs as keep

    return keep
