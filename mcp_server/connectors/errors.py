"""Everything that can go wrong with another service. Facts are attributes, and every message says what to do next.

No error message holds a key, or the text of a task or of a chat message.
"""

from __future__ import annotations

from collections.abc import Sequence

from knowledge.errors import KnowledgeError

MOST_CANDIDATES = 8
LONGEST_NAME = 60
ROOM_FOR_NAMES = 120  # characters of all names that a message offers


class ConnectorError(KnowledgeError):
    """The base class of these errors. `service` is the service's display name: Plane, Zulip."""

    def __init__(self, service: str, message: str) -> None:
        self.service = service
        super().__init__(message)


class Unreachable(ConnectorError):
    """No connection was made, so nothing was sent."""

    def __init__(self, service: str, address: str, why: str) -> None:
        self.address, self.why = address, why
        super().__init__(
            service,
            f"{service} at {address} cannot be reached ({why}); nothing was done. Try again later, or run `knowledge-forge doctor`",
        )


class ReplyLost(ConnectorError):
    """A write was sent and no usable reply came: it is unknown whether it was carried out."""

    def __init__(self, service: str, why: str) -> None:
        self.why = why
        super().__init__(
            service, f"{service} gave no usable reply ({why}); it is not known whether the request was carried out"
        )


class NoAnswer(ConnectorError):
    """A read got no usable reply, although it was retried."""

    def __init__(self, service: str, why: str) -> None:
        self.why = why
        super().__init__(service, f"{service} gave no usable reply ({why}); nothing was changed. Try again later")


class ServiceLimited(ConnectorError):
    """The service refused the request because there were too many. `wait_s` is how long it asks us to wait."""

    def __init__(self, service: str, wait_s: float) -> None:
        self.wait_s = wait_s
        super().__init__(
            service, f"{service} accepts no more requests for now; nothing was done. Try again in {wait_s:.0f} s"
        )


class Denied(ConnectorError):
    """The key is not accepted, or lacks the right. `remedy` says what to do."""

    def __init__(self, service: str, status: int, why: str, remedy: str) -> None:
        self.status, self.why, self.remedy = status, why, remedy
        super().__init__(service, f"{service} denied the request ({status}: {why}); {remedy}")


class ServiceRefused(ConnectorError):
    """The service found something wrong with the request; `why` is its own sentence, shortened."""

    def __init__(self, service: str, status: int, why: str) -> None:
        self.status, self.why = status, why
        super().__init__(service, f"{service} refused the request ({status}): {why}; nothing was done")


class Missing(ConnectorError):
    """The requested thing does not exist, or not for this key. `remedy` says what to do."""

    def __init__(self, service: str, what: str, remedy: str) -> None:
        self.what, self.remedy = what, remedy
        super().__init__(service, f"{service} has no {what} that this key can see; {remedy}")


class WrongAddress(ConnectorError):
    """The service redirected. Not followed: the key goes to the configured host only, and a write is sent only once."""

    def __init__(self, service: str, setting: str, where: str) -> None:
        self.setting, self.where = setting, where
        super().__init__(
            service,
            f"{service} redirected to {where}, which was not followed; set {setting} to its final address",
        )


class UnknownName(ConnectorError):
    """Nothing has that name; `candidates` are all names, the most similar first."""

    def __init__(self, service: str, kind: str, asked: str, candidates: Sequence[str]) -> None:
        self.kind, self.asked, self.candidates = kind, asked, tuple(candidates)
        known = f"; there are {_listed(candidates)}" if candidates else "; there are none"
        super().__init__(service, f"no {kind} {one_line(asked, LONGEST_NAME)!r} in {service}{known}")


class AmbiguousServiceName(ConnectorError):
    """Several things could be meant; `candidates` tell them apart."""

    def __init__(self, service: str, kind: str, asked: str, candidates: Sequence[str]) -> None:
        self.kind, self.asked, self.candidates = kind, asked, tuple(candidates)
        name = one_line(asked, LONGEST_NAME)
        super().__init__(service, f"{kind} {name!r} is ambiguous in {service}; use one of {_listed(candidates)}")


class NotAllowed(ConnectorError):
    """A setting forbids this server to use the requested thing."""

    def __init__(self, service: str, what: str, setting: str) -> None:
        self.what, self.setting = what, setting
        super().__init__(service, f"{what} is not allowed: {setting} limits what this server may use in {service}")


def one_line(text: str, most: int) -> str:
    """Return the text on one line of at most `most` characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 3]}..."


def _listed(names: Sequence[str]) -> str:
    """Return as many names as a sentence has room for, at least one, and the number of the others."""
    shown, room = list[str](), ROOM_FOR_NAMES
    for name in (one_line(name, LONGEST_NAME) for name in names[:MOST_CANDIDATES]):
        room -= len(name) + 2
        if shown and room < 0:
            break
        shown.append(name)
    more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    return ", ".join(shown) + more
