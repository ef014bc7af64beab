"""Maps and pages as a model sees them: through an MCP client, from a search to the call that it names."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp_types import CallToolResult

from tests.contract.toolsets.test_bad_input import serving
from tests.support.knowledge_bases.folders import write


async def called(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert isinstance(result, CallToolResult)
    assert not result.is_error, result.content
    found: dict[str, Any] = result.structured_content
    return found


@pytest.mark.parametrize(
    ("question", "tool", "path"),
    [
        ("what's in guides", "kb_map", "guides"),
        ("show me the guides folder", "kb_map", "guides"),
        ("where is the onboarding page?", "kb_read", "guides/onboarding.md"),
    ],
)
async def test_the_next_call_of_a_search_for_a_place_opens_it(
    tmp_path: Path, question: str, tool: str, path: str
) -> None:
    """Issue: a question taken for navigation is answered with that map as `next`, not with another search."""
    write(tmp_path / "kb")
    async with serving(tmp_path) as client:
        found = await called(client, "kb_search", query=question)
        assert found["route"]["mode"] == "navigation"
        call = ast.parse(found["scent"]["next"], mode="eval").body
        assert isinstance(call, ast.Call)
        assert isinstance(call.func, ast.Name)
        assert (call.func.id, ast.literal_eval(call.args[0])) == (tool, path)
        assert (await called(client, call.func.id, path=path))["path"] == path
