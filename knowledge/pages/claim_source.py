"""Where a claim comes from and how much that counts. Pure.

Source: the project's design, section 5 (authority by source kind).
"""

from __future__ import annotations

from collections.abc import Iterable

from knowledge.errors import InvalidPath
from knowledge.pages.paths import clean_path, within

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


SERVICES = frozenset({"plane", "zulip"})
"""Services that a person can vouch for as a whole. Of everybody's web there is no such thing."""


def trusted_place(text: str) -> str:
    """Return the place that a person vouches for, in one spelling.

    `plane`, `plane:KB`, `zulip`, `zulip:design`, `zulip:design/topic`, `zulip:direct/Ann, Bob`, and `kb:inbox` for pages that are
    marked untrusted.

    Raises:
        ValueError: it is none; the message says what one looks like.
    """
    said = " ".join(text.split())
    kind, locator = source_kind(said), said.partition(":")[2].strip()
    if kind in SERVICES and not locator.strip("#/ "):
        if ":" in said:
            raise ValueError(f"{said!r} names nothing in {kind}; {kind} alone means all of it")
        return kind
    if kind == "plane" and "/" not in locator:
        return f"plane:{locator.upper()}"
    if kind == "zulip":
        return f"zulip:{locator.lstrip('#').strip('/').casefold()}"
    if kind == "kb":
        try:
            path = clean_path(locator)
        except InvalidPath as error:
            raise ValueError(str(error)) from None
        if path:
            return f"kb:{path}"
    raise ValueError(
        f"{said[:80]!r} is no place to vouch for; places are plane, plane:PROJECT, zulip, zulip:CHANNEL, zulip:CHANNEL/TOPIC and "
        "kb:FOLDER"
    )


def vouched(places: Iterable[str], origin: str) -> bool:
    """Return whether one of the places, in the spelling of `trusted_place`, holds text that comes from there."""
    kind, locator = source_kind(origin), " ".join(origin.partition(":")[2].split())
    for place in places:
        if kind != source_kind(place):
            continue
        wanted = place.partition(":")[2]
        topic = locator.lstrip("#").casefold()
        if (
            (not wanted and kind in SERVICES)
            or (kind == "plane" and place_of(origin) == place)
            or (kind == "zulip" and (topic == wanted or topic.startswith(f"{wanted}/")))
            or (kind == "kb" and bool(wanted) and within(locator, wanted))
        ):
            return True
    return False


def place_to_trust(origin: str) -> str | None:
    """Return the place that a person can vouch for so that text from there holds nobody up; None where there is none."""
    try:
        return trusted_place(place_of(origin))
    except ValueError:
        return None
