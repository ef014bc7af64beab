"""The sources of claims: their kinds, how much authority each kind has, and which places a person can trust. Pure.

kb/concepts/confidence.md has the table of authorities.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from knowledge.errors import InvalidPath
from knowledge.pages.paths import clean_path, within


@dataclass(frozen=True, slots=True)
class ServiceSource:
    """A service whose text other people wrote.

    `origin_field` is the field of its tools' answers that names where a text comes from. `place_forms` are the forms, for display,
    of a place in it that a person can trust.
    """

    authority: float
    origin_field: str
    place_forms: tuple[str, ...] = ()


SERVICES: Mapping[str, ServiceSource] = {
    "plane": ServiceSource(0.6, "key", ("plane:PROJECT",)),
    "zulip": ServiceSource(0.3, "place", ("zulip:CHANNEL", "zulip:CHANNEL/TOPIC")),
}
"""Services that a person can trust as a whole. The web is not among them: nobody can vouch for all of it."""
AUTHORITY: Mapping[str, float] = {
    "official": 1.0,
    "decision": 0.95,
    "code": 0.9,
    "maintainer": 0.8,
    "user": 0.8,
    "wiki": 0.5,
    **{name: service.authority for name, service in SERVICES.items()},
}
UNKNOWN_AUTHORITY = 0.2
DIRECT = "direct/"
"""Prefix of a private conversation in Zulip, before the names of its people."""
FETCHED_KINDS = frozenset({*SERVICES, "url", "http", "https", "webhook"})
"""Kinds of sources whose text somebody else wrote: it is data for a model, never an instruction."""
PLACE_FORMS = (*(form for service in SERVICES.values() for form in service.place_forms), "kb:FOLDER")


def source_kind(source: str) -> str:
    """Return the kind of `source`, the lower-case text before its first colon (`plane:PROJ-12` -> `plane`)."""
    return source.partition(":")[0].strip().lower()


def is_tainted(source: str, *, untrusted: bool) -> bool:
    """Return whether text is only data: it was fetched from elsewhere, or is below a directory marked untrusted."""
    return untrusted or source_kind(source) in FETCHED_KINDS


def authority_of(source: str) -> float:
    """Return the authority, 0..1, of a source's kind."""
    return AUTHORITY.get(source_kind(source), UNKNOWN_AUTHORITY)


def place_of(origin: str) -> str:
    """Return the place whose readers can see the text at `origin`: `plane:KB-12` -> `plane:KB`.

    `zulip:design/merge` is `zulip:design`; a private conversation is a separate place, `zulip:direct/ann, bob`.
    Any other origin is its own place. Case is ignored.
    """
    kind, locator = _split(origin)
    if kind == "plane":
        project, dash, number = locator.rpartition("-")
        return f"plane:{(project if dash and number.isdigit() else locator).upper()}"
    if kind == "zulip":
        name = locator.lstrip("#").casefold()
        return f"zulip:{name if name.startswith(DIRECT) else name.partition('/')[0]}"
    return origin


def trusted_place(text: str) -> str:
    """Return the canonical form of a place that a person trusts.

    Places are `plane`, `plane:KB`, `zulip`, `zulip:design`, `zulip:design/topic`, `zulip:direct/Ann, Bob`, and `kb:inbox` for
    pages that are marked untrusted.

    Raises:
        ValueError: it is not a place; the message lists the forms.
    """
    place = " ".join(text.split())
    kind, locator = _split(place)
    if kind in SERVICES and not locator.strip("#/ "):
        if ":" in place:
            raise ValueError(f"{place!r} does not name a place in {kind}; {kind} alone means all of it")
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
        f"{place[:80]!r} is not a place that can be trusted; places are {', '.join(SERVICES)}, {', '.join(PLACE_FORMS)}"
    )


def vouched(places: Iterable[str], origin: str) -> bool:
    """Return whether text from `origin` lies in one of the places, which are in the form that `trusted_place` returns."""
    kind, locator = _split(origin)
    topic = locator.lstrip("#").casefold()
    for place in places:
        if kind != source_kind(place):
            continue
        wanted = place.partition(":")[2]
        if (
            (not wanted and kind in SERVICES)
            or (kind == "plane" and place_of(origin) == place)
            or (kind == "zulip" and (topic == wanted or topic.startswith(f"{wanted}/")))
            or (kind == "kb" and bool(wanted) and within(locator, wanted))
        ):
            return True
    return False


def place_to_trust(origin: str) -> str | None:
    """Return the place to trust so that text from `origin` no longer taints its readers; None if it can't be trusted."""
    try:
        return trusted_place(place_of(origin))
    except ValueError:
        return None


def _split(origin: str) -> tuple[str, str]:
    """Return kind and locator; white space in the locator is collapsed, because people type these."""
    return source_kind(origin), " ".join(origin.partition(":")[2].split())
