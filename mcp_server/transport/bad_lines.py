"""Lines that are no JSON-RPC message: what can be made of them, and how they are refused. Pure."""

from __future__ import annotations

import json
import re

from mcp_types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError, JSONRPCMessage, jsonrpc_message_adapter
from pydantic import ValidationError

from mcp_server.protocol.wire_errors import without_surrogates

_ID = re.compile(r'"id"\s*:\s*(-?[0-9]{1,18}|"[^"\\]{1,200}")')
NOT_JSON = "this is not JSON that can be read: broken, nested too deep, or with a number that is too long"
NOT_RPC = "this is not a JSON-RPC 2.0 message"


def mended(error: Exception) -> JSONRPCMessage | None:
    """Return the message that was meant; None if nothing can be made of the line.

    JavaScript writes half of a character that was cut in two as an escape that no strict reader takes.
    """
    line = _line(error)
    if line is None:
        return None
    try:
        return jsonrpc_message_adapter.validate_python(without_surrogates(json.loads(line)), by_name=False)
    except (ValueError, RecursionError):
        return None


def refusal(error: Exception) -> JSONRPCError | None:
    """Return the answer to a line that is no message, under its id where it shows one; None to an empty line."""
    line = _line(error)
    if line is not None:
        if not line.strip():
            return None
        found = _ID.search(line)
        return failure(PARSE_ERROR, NOT_JSON, json.loads(found[1]) if found else None)
    return failure(INVALID_REQUEST, NOT_RPC, next(iter(_ids(error)), None))


def failure(code: int, message: str, of: str | int | None = None) -> JSONRPCError:
    """Return an error that answers the request `of`."""
    return JSONRPCError(jsonrpc="2.0", id=of, error=ErrorData(code=code, message=message))


def _line(error: Exception) -> str | None:
    """Return the line that is no JSON; None if it is, and only no message."""
    if isinstance(error, ValidationError) and error.errors()[0]["type"] == "json_invalid":
        line = error.errors()[0]["input"]
        return line if isinstance(line, str) else None
    return None


def _ids(error: Exception) -> list[str | int]:
    """Return the ids that the refused message shows."""
    problems = error.errors() if isinstance(error, ValidationError) else []
    seen = [problem["input"].get("id") for problem in problems if isinstance(problem["input"], dict)]
    return [one for one in seen if isinstance(one, str | int) and not isinstance(one, bool)]
