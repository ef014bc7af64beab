"""The text of a result: the same JSON as its structured content, compact, with every character that UTF-8 can write as it is."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from mcp_types import TextContent

from mcp_server.gate.dispatch import CallAnswered
from mcp_server.protocol.calls.results import as_result

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)


def text_of(content: dict[str, Any]) -> str:
    (part,) = as_result(CallAnswered(content)).content
    assert isinstance(part, TextContent)
    return part.text


@given(st.dictionaries(st.text(), VALUES, max_size=4))
def test_the_text_is_the_content(content: dict[str, Any]) -> None:
    """Some hosts show a model only the text, some only the structured content."""
    assert json.loads(text_of(content)) == content


def test_the_text_has_no_spaces_and_no_needless_escapes() -> None:
    content = {"summary": 'Größe "日本"\n\x1f/\\', "score": 0.25, "count": 3, "note": None, "tags": ["a", True]}
    assert text_of(content) == json.dumps(content, ensure_ascii=False, separators=(",", ":"))
