"""Log lines for programs: one object a line, without secrets and without the text of errors."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path

import pytest

from mcp_server.app.settings.loader import load
from mcp_server.telemetry.log_lines import MASK, REQUEST, JsonLines, WithoutSecrets, secrets_of


def record(message: str, *args: object, error: bool = False) -> logging.LogRecord:
    exc_info = sys.exc_info() if error else None
    return logging.LogRecord("knowledge_forge.gate", logging.WARNING, __file__, 1, message, args, exc_info)


def test_a_record_is_one_line_whatever_its_message_holds() -> None:
    text = JsonLines().format(record("a\nb\u2028c %s", "\x1b[2J"))
    assert "\n" not in text
    assert text.isascii()
    line = json.loads(text)
    assert (line["level"], line["logger"], line["message"]) == (
        "warning",
        "knowledge_forge.gate",
        "a\nb\u2028c \x1b[2J",
    )
    assert "request" not in line


def test_the_request_is_named() -> None:
    token = REQUEST.set("0123456789ab")
    try:
        assert json.loads(JsonLines().format(record("x")))["request"] == "0123456789ab"
    finally:
        REQUEST.reset(token)


def test_an_error_is_shown_by_type_and_place_but_not_by_its_text() -> None:
    def fail() -> None:
        raise ValueError("the body of a page")

    try:
        fail()
    except ValueError:
        text = JsonLines().format(record("it failed", error=True))
    error = json.loads(text)["error"]
    assert error["type"] == "ValueError"
    assert error["places"][0].startswith(__file__)
    assert "body of a page" not in text


def test_a_huge_message_is_cut() -> None:
    assert len(json.loads(JsonLines().format(record("x" * 1_000_000)))["message"]) == 4_000


@pytest.mark.parametrize("secret", ["plain-secret-1234", 'with"quote\\and\u00e9-1234'])
def test_secrets_are_masked_also_as_json_writes_them(secret: str) -> None:
    lines = WithoutSecrets(JsonLines(), {secret})
    text = lines.format(record("it said %s", secret))
    assert json.loads(text)["message"] == f"it said {MASK}"


def test_every_secret_setting_is_known(tmp_path: Path) -> None:
    environ = {
        "FORGE_KB": str(tmp_path),
        "FORGE_DATABASE_URL": "postgresql://ann:p%40ss-word-1@db.example/notes",
        "FORGE_MEILI_URL": "http://localhost:7700",
        "FORGE_MEILI_KEY": "meili-key-123456",
        "FORGE_METRICS_TOKEN": "metrics-token-123456",
        "FORGE_WEBHOOKS": f"hooks=https://hooks.example.com/private-path whsec_{'QUFB' * 11}QQ==",
        "PLANE_BASE_URL": "https://plane.example.com",
        "PLANE_API_KEY": "plane-key-123456",
        "PLANE_WORKSPACE": "acme",
        "FORGE_EMBEDDER": "endpoint:m",
        "FORGE_EMBEDDER_URL": "http://models:8080/v1?api-key=embedder-key-1",
        "FORGE_RERANKER_URL": "http://models:8080/v1",
    }
    found = secrets_of(load({}, environ))
    assert "http://models:8080/v1" not in found, "every other message shows it"
    assert "api-key=embedder-key-1" in found
    for secret in ("p@ss-word-1", "p%40ss-word-1", "meili-key-123456", "metrics-token-123456", "plane-key-123456"):
        assert secret in found
    assert any("private-path" in one for one in found)
    assert any(one.startswith("whsec_") for one in found)
