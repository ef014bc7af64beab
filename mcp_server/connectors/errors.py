"""What can go wrong with another service: one root, facts as attributes, and what to do next in every sentence.

No sentence holds a key, or text of a task or a message.
"""

from __future__ import annotations

from collections.abc import Sequence

from knowledge.errors import KnowledgeError

MOST_CANDIDATES = 8
LONGEST_NAME = 60
ROOM_FOR_NAMES = 120


class ConnectorError(KnowledgeError):
    """Root of all of them. `service` is what a person calls it: Plane, Zulip."""

    def __init__(self, service: str, told: str) -> None:
        self.service = service
        super().__init__(told)


class Unreachable(ConnectorError):
    """It could not be reached, so nothing was sent: nothing happened there."""

    def __init__(self, service: str, address: str, why: str) -> None:
        self.address, self.why = address, why
        super().__init__(
            service,
            f"{service} at {address} cannot be reached ({why}); nothing was done. Try again later, or run `knowledge-forge doctor`",
        )


class ReplyLost(ConnectorError):
    """It was sent and no usable reply came: for what changes something it is not known whether it happened."""

    def __init__(self, service: str, why: str) -> None:
        self.why = why
        super().__init__(
            service, f"{service} gave no usable reply ({why}); it is not known whether the request was carried out"
        )


class NoAnswer(ConnectorError):
    """Something was only asked, as often as is decent, and no usable reply came."""

    def __init__(self, service: str, why: str) -> None:
        self.why = why
        super().__init__(service, f"{service} gave no usable reply ({why}); nothing was changed. Try again later")


class ServiceLimited(ConnectorError):
    """Too many requests; `wait_s` is how long the service wants to be left alone. It did nothing."""

    def __init__(self, service: str, wait_s: float) -> None:
        self.wait_s = wait_s
        super().__init__(
            service, f"{service} accepts no more requests for now; nothing was done. Try again in {wait_s:.0f} s"
        )


class Denied(ConnectorError):
    """The key is not accepted, or may not do this. `mend` says what to do."""

    def __init__(self, service: str, status: int, why: str, mend: str) -> None:
        self.status, self.why, self.mend = status, why, mend
        super().__init__(service, f"{service} denied the request ({status}: {why}); {mend}")


class ServiceRefused(ConnectorError):
    """The service says that the request does not fit; `why` is its own word, shortened."""

    def __init__(self, service: str, status: int, why: str) -> None:
        self.status, self.why = status, why
        super().__init__(service, f"{service} refused the request ({status}): {why}; nothing was done")


class Missing(ConnectorError):
    """What was asked about is not there, or not for this key."""

    def __init__(self, service: str, what: str, way_out: str) -> None:
        self.what, self.way_out = what, way_out
        super().__init__(service, f"{service} has no {what} that this key can see; {way_out}")


class WrongAddress(ConnectorError):
    """It answers with a redirect, which is not followed: a key goes to the configured host only, and a write only once."""

    def __init__(self, service: str, setting: str, where: str) -> None:
        self.setting, self.where = setting, where
        super().__init__(
            service,
            f"{service} redirected to {where}, which was not followed; set {setting} to its final address",
        )


class UnknownName(ConnectorError):
    """Nothing bears that name; `candidates` are what there is, nearest first."""

    def __init__(self, service: str, kind: str, asked: str, candidates: Sequence[str]) -> None:
        self.kind, self.asked, self.candidates = kind, asked, tuple(candidates)
        known = f"; there are {_listed(candidates)}" if candidates else "; there are none"
        super().__init__(service, f"no {kind} {_short(asked)!r} in {service}{known}")


class AmbiguousServiceName(ConnectorError):
    """More than one thing could be meant; `candidates` tell them apart."""

    def __init__(self, service: str, kind: str, asked: str, candidates: Sequence[str]) -> None:
        self.kind, self.asked, self.candidates = kind, asked, tuple(candidates)
        super().__init__(
            service, f"{kind} {_short(asked)!r} is ambiguous in {service}; use one of {_listed(candidates)}"
        )


class NotAllowed(ConnectorError):
    """A person's setting keeps this server away from it."""

    def __init__(self, service: str, what: str, setting: str) -> None:
        self.what, self.setting = what, setting
        super().__init__(service, f"{what} is not allowed: {setting} limits what this server may use in {service}")


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_NAME else line[: LONGEST_NAME - 3] + "..."


def _listed(names: Sequence[str]) -> str:
    """Return the first names, as many as a sentence has room for, and how many more there are."""
    shown, room = list[str](), ROOM_FOR_NAMES
    for name in map(_short, names[:MOST_CANDIDATES]):
        room -= len(name) + 2
        if shown and room < 0:
            break
        shown.append(name)
    more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    return ", ".join(shown) + more
