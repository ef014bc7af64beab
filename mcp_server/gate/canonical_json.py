"""Canonical JSON, so that equal values have equal hashes.

Source: RFC 8785, JSON Canonicalization Scheme.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_server.late_module import LateModule

if TYPE_CHECKING:
    import rfc8785
else:
    rfc8785 = LateModule("rfc8785")


def canonical(value: Any) -> bytes:
    """Return the canonical JSON of plain data."""
    return rfc8785.dumps(value)


def canonical_text(value: Any) -> str:
    """Return the canonical JSON of plain data as text."""
    return canonical(value).decode("utf-8")
