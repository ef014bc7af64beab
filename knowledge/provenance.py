"""Where a claim comes from and how much that counts. Pure.

Source: the project's design, section 5 (authority by source kind).
"""

from __future__ import annotations

AUTHORITY: dict[str, float] = {
    "official": 1.0,
    "decision": 0.95,
    "code": 0.9,
    "maintainer": 0.8,
    "user": 0.8,
    "plane": 0.6,
    "wiki": 0.5,
    "zulip": 0.3,
}
UNKNOWN_AUTHORITY = 0.2
DIRECT = "direct/"
"""What stands before the names of people who talk with each other alone."""
FETCHED_KINDS = frozenset({"plane", "zulip", "url", "http", "https"})
"""Kinds whose text somebody else wrote: it is data to a model, never instruction."""


def source_kind(source: str) -> str:
    """Return the kind of `source`: what stands before the first colon, lower case (`plane:PROJ-12` -> `plane`)."""
    return source.partition(":")[0].strip().lower()


def authority_of(source: str) -> float:
    """Return the authority, 0..1, that the table gives to `source`."""
    return AUTHORITY.get(source_kind(source), UNKNOWN_AUTHORITY)


def place_of(origin: str) -> str:
    """Return the place that text lies in, as far as others who can read it there go: `plane:KB-12` -> `plane:KB`.

    `zulip:design/merge` is `zulip:design`; a conversation between people is a place of its own, `zulip:direct/ann, bob`.
    Everything else is its own place. Case tells none of them apart.
    """
    kind, locator = source_kind(origin), " ".join(origin.partition(":")[2].split())
    if kind == "plane":
        project, dash, number = locator.rpartition("-")
        return f"plane:{(project if dash and number.isdigit() else locator).upper()}"
    if kind == "zulip":
        name = locator.lstrip("#").casefold()
        return f"zulip:{name if name.startswith(DIRECT) else name.partition('/')[0]}"
    return origin
