"""Log lines for programs: one JSON object a line, and no secret in any line."""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Collection, Iterator
from contextvars import ContextVar
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote, urlsplit

from opentelemetry.trace import format_span_id, format_trace_id, get_current_span

from mcp_server.app.settings.settings import Settings

REQUEST: ContextVar[str] = ContextVar("request", default="")
"""The id of the request that is being answered, made here; "" outside of requests."""
LONGEST_MESSAGE = 4_000
"""The most characters of a message: a caller may cause megabytes to be logged."""
MOST_FRAMES = 40
MASK = "[secret]"
SHORTEST_SECRET = 8
"""A shorter one protects nothing, and would be found in ordinary words."""


class JsonLines(logging.Formatter):
    """Formats each record as one JSON object in ASCII.

    `error` has the type and the places in the code, but not the message: it may quote a page.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as it is written."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage()[:LONGEST_MESSAGE],
        }
        if request := REQUEST.get():
            line["request"] = request
        span = get_current_span().get_span_context()
        if span.is_valid:
            line |= {"trace": format_trace_id(span.trace_id), "span": format_span_id(span.span_id)}
        if record.exc_info and (error := record.exc_info[1]) is not None:
            frames = traceback.extract_tb(error.__traceback__)[-MOST_FRAMES:]
            places = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
            line["error"] = {"type": type(error).__name__, "places": places}
        return json.dumps(line)


class WithoutSecrets(logging.Formatter):
    """Formats as another formatter does, and masks secrets in the result, both as they are and as JSON writes them."""

    def __init__(self, formatter: logging.Formatter, secrets: Collection[str]) -> None:
        super().__init__()
        self._formatter = formatter
        shown = {one for secret in secrets for one in (secret, json.dumps(secret)[1:-1])}
        # The longest first, because one may be a part of another.
        self._secrets = sorted((one for one in shown if len(one) >= SHORTEST_SECRET), key=len, reverse=True)

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as it is written."""
        text = self._formatter.format(record)
        for secret in self._secrets:
            text = text.replace(secret, MASK)
        return text


def secrets_of(settings: Settings) -> set[str]:
    """Return the values of all settings that are secret; of addresses only the password or the query."""
    found = set(_secret_texts(settings))
    for url in (settings.embedder_url, settings.reranker_url, settings.openai_base_url):
        # Messages show these addresses without their query, and only that may hold a key.
        found = (found - {url}) | {urlsplit(url or "").query} - {""}
    if settings.database_url and (password := urlsplit(settings.database_url).password):
        found |= {password, unquote(password)}
    return found


def _secret_texts(value: object, *, secret: bool = False) -> Iterator[str]:
    """Yield the texts in fields that are not shown, at any depth."""
    if isinstance(value, str):
        if secret:
            yield value
    elif isinstance(value, tuple):
        for part in value:
            yield from _secret_texts(part, secret=secret)
    elif is_dataclass(value):
        for one in fields(value):
            yield from _secret_texts(getattr(value, one.name), secret=secret or not one.repr)


def write_log(settings: Settings) -> None:
    """From now on, write the log as the settings say, without their secrets."""
    secrets = secrets_of(settings)
    for handler in logging.getLogger().handlers:
        formatter = JsonLines() if settings.log_format == "json" else handler.formatter or logging.Formatter()
        handler.setFormatter(WithoutSecrets(formatter, secrets))
