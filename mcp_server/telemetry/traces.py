"""Sends spans, the SDK's and ours, to an OpenTelemetry collector, without any text of requests or pages."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Thread

from mcp_types.methods import SPEC_CLIENT_METHODS, SPEC_CLIENT_NOTIFICATION_METHODS
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import SpanContext, Status

from knowledge.telemetry.operations import FACTS, PREFIX

logger = logging.getLogger("knowledge_forge")

PATH = "/v1/traces"
SENDING_S = 5.0
"""How long one attempt to send spans may take."""
DELAY_S = 1.0
"""How long spans wait to be sent together."""
ENDING_S = 1
"""How long the end of the server waits for the last spans."""
QUIET_S = 60.0
"""A collector that is away is reported at most this often."""
KEPT = frozenset(
    {
        "error.type",
        "gen_ai.operation.name",
        "gen_ai.tool.name",
        "mcp.method.name",
        "mcp.protocol.version",
        "rpc.response.status_code",
        *(PREFIX + name for name in FACTS),
    }
)
"""The attributes that are sent. The SDK also records the request's id and prompts' names, which clients choose freely."""
NAMED = "gen_ai.tool.name"
METHOD = "mcp.method.name"
UNKNOWN = "unknown"
METHODS = SPEC_CLIENT_METHODS | SPEC_CLIENT_NOTIFICATION_METHODS


class SafeSpans(SpanExporter):
    """Passes spans on without anything that a client or a page could have put there.

    It keeps the attributes in KEPT, and of names only those of tools that exist. Events and the messages of errors are
    left out.
    """

    def __init__(self, exporter: SpanExporter, *, tools: Collection[str]) -> None:
        self._exporter, self._tools = exporter, frozenset(tools)
        self._quiet_until, self._lost = 0.0, 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send the spans; whether they arrived. Failures are logged at most once in `QUIET_S`."""
        result = self._exporter.export([self._safe(span) for span in spans])
        if result is not SpanExportResult.SUCCESS:
            self._lost += len(spans)
            if time.monotonic() >= self._quiet_until:
                logger.warning("the collector in FORGE_TRACES did not take %d spans; they are lost", self._lost)
                self._quiet_until, self._lost = time.monotonic() + QUIET_S, 0
        return result

    def shutdown(self) -> None:
        """Close the connection."""
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Send what is waiting; return whether that was possible in time."""
        return self._exporter.force_flush(timeout_millis)

    def _safe(self, span: ReadableSpan) -> ReadableSpan:
        context = span.get_span_context()
        attributes = {name: value for name, value in (span.attributes or {}).items() if name in KEPT}
        name = span.name
        if METHOD in attributes:
            # The SDK's span: its name and attributes repeat the method and the tool as the client wrote them.
            method = str(attributes[METHOD])
            method = attributes[METHOD] = method if method in METHODS else UNKNOWN
            if NAMED in attributes:
                tool = str(attributes[NAMED])
                attributes[NAMED] = tool if tool in self._tools else UNKNOWN
            name = f"{method} {attributes[NAMED]}" if NAMED in attributes else method
        return ReadableSpan(
            name=name,
            context=context and SpanContext(context.trace_id, context.span_id, context.is_remote, context.trace_flags),
            parent=span.parent,
            resource=span.resource,
            attributes=attributes,
            links=span.links,
            kind=span.kind,
            instrumentation_scope=span.instrumentation_scope,
            status=Status(span.status.status_code),
            start_time=span.start_time,
            end_time=span.end_time,
        )


@contextmanager
def traces_sent(address: str, *, tools: Collection[str], about: Mapping[str, str]) -> Iterator[None]:
    """Send the spans of this process to the collector at `address` until the block ends, and send the last ones then.

    A collector that can't be reached delays nothing: spans are dropped, which the log says once a minute. The variables `OTEL_*` of
    OpenTelemetry apply, for example for the collector's key.
    """
    provider = TracerProvider(resource=Resource.create({**about, "service.instance.id": str(uuid.uuid4())}))
    exporter = OTLPSpanExporter(endpoint=address + PATH, timeout=SENDING_S)
    safe = SafeSpans(exporter, tools=tools)
    provider.add_span_processor(BatchSpanProcessor(safe, schedule_delay_millis=DELAY_S * 1000))
    trace.set_tracer_provider(provider)
    # Its exporter logs each failure, with the address and a traceback.
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        # A host kills a server that does not end soon, and a collector that is away is tried again for seconds.
        last = Thread(target=provider.shutdown, name="traces", daemon=True)
        last.start()
        last.join(ENDING_S)
        if last.is_alive():
            logger.warning("the collector in FORGE_TRACES did not take the last spans within %d s", ENDING_S)
