"""Lines of stdio and bodies of HTTP requests that are not JSON-RPC messages: repaired if possible, otherwise refused. Pure."""

from __future__ import annotations

import json
import re

from mcp_types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError, JSONRPCMessage, jsonrpc_message_adapter
from pydantic import ValidationError

from mcp_server.protocol.wire_errors import without_surrogates

LONGEST_MESSAGE = 8 * 1024 * 1024
"""Bytes of one message: over HTTP, of a request's body. The longest content of a page fits in, however it is escaped in JSON."""
_ID = re.compile(r'"id"\s*:\s*(-?[0-9]{1,18}|"[^"\\]{1,200}")')
NOT_JSON = "this is not readable JSON: it is broken, nested too deeply, or has a number that is too long"
NOT_RPC = "this is not a JSON-RPC 2.0 message"


def mended(error: Exception) -> JSONRPCMessage | None:
    """Return the message that the line was meant to be; None if it cannot be repaired.

    JavaScript can cut a character in two and write the halves as escapes, which strict JSON readers reject.
    """
    line = _line(error)
    if line is None:
        return None
    try:
        return jsonrpc_message_adapter.validate_python(without_surrogates(json.loads(line)), by_name=False)
    except (ValueError, RecursionError):
        return None


def refusal(error: Exception) -> JSONRPCError | None:
    """Return the error for a line that is not a message, with the line's id if it shows one; None for an empty line."""
    line = _line(error)
    if line is not None:
        if not line.strip():
            return None
        # The sender waits for an answer under this id; without one it would wait forever.
        found = _ID.search(line)
        return failure(PARSE_ERROR, NOT_JSON, json.loads(found[1]) if found else None)
    problems = error.errors() if isinstance(error, ValidationError) else []
    seen = [problem["input"].get("id") for problem in problems if isinstance(problem["input"], dict)]
    ids = [one for one in seen if isinstance(one, str | int) and not isinstance(one, bool)]
    return failure(INVALID_REQUEST, NOT_RPC, ids[0] if ids else None)


def failure(code: int, message: str, of: str | int | None = None) -> JSONRPCError:
    """Return an error response to the request with the id `of`."""
    return JSONRPCError(jsonrpc="2.0", id=of, error=ErrorData(code=code, message=message))


def _line(error: Exception) -> str | None:
    """Return the line if it is not JSON; None if it is JSON but not a message."""
    if isinstance(error, ValidationError) and error.errors()[0]["type"] == "json_invalid":
        line = error.errors()[0]["input"]
        return line if isinstance(line, str) else None
    return None
