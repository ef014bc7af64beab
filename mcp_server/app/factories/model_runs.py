"""Builds the language model, its helpers, and the runs of `agent_run`, if the settings name a model."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import cache, partial
from typing import TYPE_CHECKING

from anyio.abc import TaskGroup

from knowledge.state.quota.bounds import Quotas
from mcp_server.absent import no_model, no_runs
from mcp_server.app.knowledge_base import KnowledgeBase, utc_now
from mcp_server.app.settings.access import ModelAccess
from mcp_server.late_module import LateModule
from mcp_server.ports import RunServices

if TYPE_CHECKING:
    from agents.engine.evidence.second_judge import SubstanceJudge
    from agents.loop.model.ports import Provider
    from knowledge.search.route.second_opinion import RouteAdviser
    from knowledge.writing.evidence.judge import ContradictionJudge
    from mcp_server.gate.dispatch import Gate
    from mcp_server.models import contradiction_judge, language_model, questions, route_opinion, substance_judge
    from mcp_server.models.language_model import ConfiguredModel
    from mcp_server.runs import locations, supervisor
    from mcp_server.runs.supervisor import Runs
    from mcp_server.toolsets.runs import gated_tools
else:
    contradiction_judge = LateModule("mcp_server.models.contradiction_judge")
    language_model = LateModule("mcp_server.models.language_model")
    questions = LateModule("mcp_server.models.questions")
    route_opinion = LateModule("mcp_server.models.route_opinion")
    substance_judge = LateModule("mcp_server.models.substance_judge")
    locations = LateModule("mcp_server.runs.locations")
    supervisor = LateModule("mcp_server.runs.supervisor")
    gated_tools = LateModule("mcp_server.toolsets.runs.gated_tools")

CONTRADICTIONS, ROUTES, SUBSTANCE = "contradictions", "routes", "substance"
"""Words in FORGE_MODEL_HELPS."""


def model_of(
    access: ModelAccess | None, sleep: Callable[[float], Awaitable[None]], stack: AsyncExitStack
) -> Callable[[], ConfiguredModel]:
    """Return a loader of the model, which loads it once; its connections are closed with `stack`."""
    if access is None:
        return no_model

    @cache
    def model() -> ConfiguredModel:
        configured = language_model.ConfiguredModel(access, now=utc_now, sleep=sleep)
        stack.push_async_callback(configured.aclose)
        return configured

    return model


def judge_of(access: ModelAccess | None, model: Callable[[], ConfiguredModel]) -> ContradictionJudge | None:
    """Return the model as a judge of contradictions, if the settings ask for that."""
    if access is None or CONTRADICTIONS not in access.helps:
        return None

    return contradiction_judge.ModelJudge(_asking(access, model, "judge", "contradictions"))


def substance_of(access: ModelAccess | None, model: Callable[[], ConfiguredModel]) -> SubstanceJudge | None:
    """Return the model as a judge of whether the texts of journeys follow from their quotes, if the settings ask for that."""
    if access is None or SUBSTANCE not in access.helps:
        return None
    return substance_judge.AskedSubstance(_asking(access, model, "substance", "substance"))


def _asking(
    access: ModelAccess, model: Callable[[], ConfiguredModel], agent: str, topic: str
) -> questions.BoundedQuestions:
    return questions.BoundedQuestions(partial(_provider, model), str(access.name), agent, topic, clock=time.monotonic)


async def _provider(model: Callable[[], ConfiguredModel]) -> Provider:
    return await model().provider()


def opinion_of(
    access: ModelAccess | None, model: Callable[[], ConfiguredModel], background: TaskGroup
) -> RouteAdviser | None:
    """Return the model as an adviser on routes, if the settings ask for that."""
    if access is None or ROUTES not in access.helps:
        return None
    return route_opinion.AskedRoutes(model(), background.start_soon)


def runs_of(
    base: KnowledgeBase,
    model: Callable[[], ConfiguredModel],
    through: Callable[[], tuple[Gate, RunServices]],
    background: TaskGroup,
    quotas: Quotas | None = None,
) -> Callable[[], Runs]:
    """Return a loader of the runs, which loads them once.

    `through` returns the gate that their calls pass, and the services behind it.
    """
    if model is no_model:
        return no_runs

    @cache
    def runs() -> Runs:
        used, tools = model(), partial(gated_tools.GatedTools, *through())
        return supervisor.Runs(
            *(locations.runs_in(base.state, quotas), base.state, used, tools, background),
            now=utc_now,
            bounds=used.run_day,
        )

    return runs
