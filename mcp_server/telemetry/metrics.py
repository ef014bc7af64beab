"""Counts and durations for Prometheus, at an address of their own."""

from __future__ import annotations

import hmac
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from socketserver import ThreadingMixIn
from threading import Thread
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, Gauge, Histogram, Info, ProcessCollector, make_wsgi_app

from knowledge.errors import KnowledgeError
from knowledge.telemetry.operations import Fact
from mcp_server.app.settings.values import LOOPBACK, HttpAddress

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

logger = logging.getLogger("knowledge_forge")

PATH = "/metrics"
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

Figures = Callable[[], Mapping[str, Mapping[str, float]]]
"""Returns, by knowledge base, the present value of gauges by name; called on the thread of a scrape."""


class Metrics:
    """The metrics of one process. Labels are words of ours, so their number is bounded.

    With `named`, gauges have the label `kb`, the name of a knowledge base in the settings.
    """

    def __init__(self, *, version: str, named: bool = False) -> None:
        self._named = named
        self.registry = CollectorRegistry(auto_describe=True)
        ProcessCollector(registry=self.registry)
        Info("forge_build", "The version of Knowledge Forge.", registry=self.registry).info({"version": version})
        self._calls = self._histogram("forge_tool_call_seconds", "Calls of tools.", "tool")
        self._requests = self._histogram(
            "forge_service_request_seconds", "Requests to other services, with retries.", "service", "method"
        )
        self._operations = self._histogram("forge_operation_seconds", "Work inside the server.", "operation")
        self._gauges = {
            name: Gauge(f"forge_{name}", says, ["kb"] if named else [], registry=self.registry)
            for name, says in (
                ("documents", "Documents that the knowledge base has."),
                ("indexed_documents", "Documents that the index has in their present state."),
                ("pending_proposals", "Proposals that wait for a person."),
                ("waiting_acts", "Acts in other services that are not sent yet."),
            )
        }

    def record(self, name: str, seconds: float, facts: Mapping[str, Fact]) -> None:
        """Count one operation."""
        outcome = str(facts["outcome"])
        if name == "tool":
            self._calls.labels(str(facts["tool"]), outcome).observe(seconds)
        elif name == "request":
            self._requests.labels(str(facts["service"]), str(facts.get("method", "")), outcome).observe(seconds)
        else:
            self._operations.labels(name, outcome).observe(seconds)

    def set_gauges(self, figures: Mapping[str, Mapping[str, float]]) -> None:
        """Set the gauges to what they are now."""
        for kb, its in figures.items():
            for name, value in its.items():
                gauge = self._gauges[name]
                (gauge.labels(kb) if self._named else gauge).set(value)

    def _histogram(self, name: str, says: str, *labels: str) -> Histogram:
        return Histogram(name, says, (*labels, "outcome"), registry=self.registry, buckets=SECONDS)


class _QuietHandler(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
        """Log no requests."""


class _ThreadedServer(ThreadingMixIn, WSGIServer):
    daemon_threads = True


@contextmanager
def metrics_served(metrics: Metrics, figures: Figures, address: HttpAddress, token: str | None) -> Iterator[None]:
    """Serve the metrics at `address` in a thread until the block ends.

    With a token, only requests with `Authorization: Bearer TOKEN` are answered. If the port is taken, for example by
    another server of the same host, the log says so and the server itself works without metrics. A gauge that can't be
    read keeps its last value.
    """
    exposition = make_wsgi_app(metrics.registry)

    def answer(environ: WSGIEnvironment, start: StartResponse) -> Any:
        given = environ.get("HTTP_AUTHORIZATION", "")
        if token is None:
            # A web page whose name leads to this machine (DNS rebinding) sends that name.
            host = environ.get("HTTP_HOST", "").rpartition(":")[0].strip("[]") or environ.get("HTTP_HOST", "")
            allowed = host in LOOPBACK
        else:
            allowed = hmac.compare_digest(given.encode("latin-1"), f"Bearer {token}".encode("latin-1"))
        if not allowed:
            status = HTTPStatus.FORBIDDEN if token is None else HTTPStatus.UNAUTHORIZED
            challenge = [] if token is None else [("WWW-Authenticate", "Bearer")]
            return _plain(start, status, challenge)
        if environ.get("PATH_INFO") != PATH:
            return _plain(start, HTTPStatus.NOT_FOUND, [])
        try:
            metrics.set_gauges(figures())
        except KnowledgeError:
            logger.warning("cannot read the figures for metrics now", exc_info=True)
        return exposition(environ, start)

    try:
        server = make_server(address.host, address.port, answer, _ThreadedServer, _QuietHandler)
    except OSError as error:
        logger.warning("no metrics: cannot listen at %s (FORGE_METRICS): %s", address, error.strerror)
        yield
        return
    thread = Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()
    logger.info("metrics are at http://%s%s", HttpAddress(address.host, server.server_port), PATH)
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _plain(start: StartResponse, status: HTTPStatus, headers: list[tuple[str, str]]) -> list[bytes]:
    body = f"{status.phrase}\n".encode()
    start(
        f"{status.value} {status.phrase}",
        [("Content-Type", "text/plain"), ("Content-Length", str(len(body))), *headers],
    )
    return [body]
