"""Which of two kinds a question is: about a place (navigation) or about an idea (discovery). Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Mode = Literal["auto", "navigation", "discovery"]

_STRUCTURE = re.compile(
    r"^\s*(what(?:'s| is| are)?\s+(?:in|under|inside|there)\b|list\b|show\b|open\b"
    r"|where\s+is\b|go\s+to\b|contents?\s+of\b)",
    re.IGNORECASE,
)
_CONCEPT = re.compile(r"^\s*(how|why|when|which|explain|compare|examples?\s+of|can\s+i|should)\b", re.IGNORECASE)
_PATH = re.compile(r"(^|\s)[\w .-]*/[\w./-]+|\.(md|markdown|mdx)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Route:
    """The way a question was taken. `confidence` is 0..1; `reason` says by what sign."""

    mode: Literal["navigation", "discovery"]
    confidence: float
    reason: str


def route(query: str, mode: Mode, *, named: bool) -> Route:
    """Return the route of `query`; `named` says that something in the knowledge base bears exactly this name."""
    if mode != "auto":
        return Route(mode, 1.0, "asked for")
    if named:
        return Route("navigation", 0.95, "a page or section bears this name")
    if _PATH.search(query):
        return Route("navigation", 0.8, "it reads like a path")
    if _STRUCTURE.search(query):
        return Route("navigation", 0.7, "it asks what is where")
    if _CONCEPT.search(query):
        return Route("discovery", 0.8, "it asks how, why or which")
    return Route("discovery", 0.6, "no place is named")
