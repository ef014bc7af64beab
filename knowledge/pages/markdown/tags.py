"""Tags by their names: `area/sub` is below `area`, and a search for `area` means both. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from knowledge.pages.paths import ancestors


def bare_tag(written: str) -> str:
    """Return the tag as pages have it: without `#` before it, and without a slash at its end."""
    return written.strip().lstrip("#").rstrip("/")


def with_tags_above(tags: Iterable[str]) -> list[str]:
    """Return the tags and those above them, each once, in order: `area/sub` brings `area`."""
    return sorted({one for tag in tags for one in (tag, *filter(None, ancestors(tag)))})
