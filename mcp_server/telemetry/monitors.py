"""Switches on what the settings ask for: traces, metrics and the form of the log."""

from __future__ import annotations

import importlib.util
import uuid
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from knowledge.extras import install_command
from knowledge.telemetry.operations import recording
from mcp_server import VERSION
from mcp_server.app.settings.loader import BadSetting
from mcp_server.app.settings.settings import Settings
from mcp_server.late_module import LateModule
from mcp_server.telemetry.log_lines import REQUEST

if TYPE_CHECKING:
    from anyio import from_thread
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

    from mcp_server.ports import GateServices
    from mcp_server.protocol.server import ForgeServer
    from mcp_server.telemetry import metrics, traces
else:
    from_thread = LateModule("anyio.from_thread")
    metrics = LateModule("mcp_server.telemetry.metrics")
    traces = LateModule("mcp_server.telemetry.traces")

SERVICE = "knowledge-forge"
ID_DIGITS = 12
MOST_ACTS = 1_000
"""The gauge of waiting acts stops counting here."""


def require_packages(settings: Settings) -> None:
    """Check that all packages that the settings need for this are installed.

    Raises:
        BadSetting: they are not.
    """
    wanted: list[tuple[str, object, Collection[str]]] = [
        ("FORGE_TRACES", settings.traces, ("opentelemetry.sdk", "opentelemetry.exporter")),
        ("FORGE_METRICS", settings.metrics, ("prometheus_client",)),
    ]
    for variable, value, packages in wanted:
        if value is not None and not all(_installed(package) for package in packages):
            raise BadSetting(variable, str(value), f"its packages are not installed; {install_command('telemetry')}")


@asynccontextmanager
async def monitored(settings: Settings, served: Mapping[str, tuple[ForgeServer, GateServices]]) -> AsyncIterator[None]:
    """Send traces and serve metrics until the block ends, and give each request an id for the log.

    `served` has the server and the services of each knowledge base by name; the name of the only one is "".
    """
    for server, _ in served.values():
        server.middleware.append(with_request_id)
    if settings.traces is None and settings.metrics is None:
        yield
        return
    async with from_thread.BlockingPortal() as portal:
        with ExitStack() as stack:
            every = {name: services for name, (_, services) in served.items()}
            if settings.traces is not None:
                tools = {spec.name: None for services in every.values() for spec in services.tools()}
                about = {"service.name": SERVICE, "service.version": VERSION}
                if list(served) == [""]:
                    about["forge.kb"] = settings.kb.name
                stack.enter_context(traces.traces_sent(settings.traces, tools=list(tools), about=about))
            if settings.metrics is not None:
                kept = metrics.Metrics(version=VERSION, named=list(served) != [""])
                figures = partial(portal.call, _figures_of, every)
                stack.enter_context(metrics.metrics_served(kept, figures, settings.metrics, settings.metrics_token))
                stack.enter_context(recording(kept.record))
            yield


async def with_request_id(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Answer the request; lines that are logged meanwhile have its id, which is made here and not the client's."""
    token = REQUEST.set(uuid.uuid4().hex[:ID_DIGITS])
    try:
        return await call_next(ctx)
    finally:
        REQUEST.reset(token)


async def _figures_of(every: Mapping[str, GateServices]) -> Mapping[str, Mapping[str, float]]:
    return {name: await _figures(services) for name, services in every.items()}


async def _figures(services: GateServices) -> Mapping[str, float]:
    """Return the gauges of this knowledge base."""
    progress = await services.index.progress()
    state = services.state
    return {
        "documents": progress.total,
        "indexed_documents": progress.done,
        "pending_proposals": await state.trust.pending(),
        "waiting_acts": len(await state.outbox.open(limit=MOST_ACTS)),
    }


def _installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # its parent is missing
        return False
