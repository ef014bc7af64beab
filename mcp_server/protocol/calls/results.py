"""The result of a tool call on the wire, and the names that the parts of a call share."""

from __future__ import annotations

from mcp_types import CallToolResult, TextContent
from pydantic_core import to_json

from mcp_server.gate.dispatch import CallAnswered, Outcome

REFUSED = -32003
"""JSON-RPC code of a refusal outside tools, from the range that is left to servers."""
MULTI_ROUND = "2026-07-28"
"""From this protocol version on, a server asks within its answer, and the client calls again. In older ones it sends a
separate request."""
ASKED = "proposal:"
"""The prefix of the state of the gate's own questions. A state without one of our prefixes belongs to the tool that asked."""


def as_result(outcome: Outcome) -> CallToolResult:
    """Return the outcome for a client: the same object as compact JSON text and as structured content, or an error's text."""
    if isinstance(outcome, CallAnswered):
        # Some hosts show a model only the text, some only the structured content. The SDK's own text is indented: a fifth more tokens.
        # The same JSON as that of `json.dumps`, in a third of the time; floats may be spelt differently.
        text = to_json(outcome.content).decode()
        return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=outcome.content)
    return CallToolResult(content=[TextContent(type="text", text=outcome.why)], is_error=True)
