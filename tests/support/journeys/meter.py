"""A host that counts what its work costs: the calls of each tool, and the tokens of their answers and arguments."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from mcp import Client
from mcp_types import TextContent

from knowledge.tokens import count_tokens
from tests.support.hosts.writers import Refused


@dataclass
class Meter:
    """A client whose calls are counted. `tokens_in` are those of answers, by tool; `tokens_out` those of arguments."""

    client: Client
    calls: Counter[str] = field(default_factory=Counter)
    tokens_in: Counter[str] = field(default_factory=Counter)
    tokens_out: Counter[str] = field(default_factory=Counter)

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Return the tool's answer."""
        result = await self.client.call_tool(tool, arguments)
        first = result.content[0]
        assert isinstance(first, TextContent)
        self.calls[tool] += 1
        self.tokens_in[tool] += count_tokens(first.text)
        self.tokens_out[tool] += count_tokens(json.dumps(arguments, ensure_ascii=False))
        if result.is_error:
            raise Refused(first.text)
        return dict(result.structured_content or {})

    @property
    def journey_tokens(self) -> int:
        """Tokens of all answers of the journey tools."""
        return sum(tokens for tool, tokens in self.tokens_in.items() if tool.startswith("journey_"))

    def __str__(self) -> str:
        """Say what was spent, in one line."""
        submits = f"{self.calls['journey_submit']} submits"
        own = f"{self.journey_tokens:,} tokens in from journey tools"
        whole = f"{self.tokens_in.total():,} in and {self.tokens_out.total():,} out"
        return f"{self.calls.total()} calls ({submits}); {own}; of all tools {whole}"
