"""Principals: a person and a host. A host proves itself by a secret that a person gave it."""

from __future__ import annotations

import getpass
import hashlib
import os
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from knowledge.errors import KnowledgeError, StorageError
from knowledge.state.ports import Enrolment, StateStore

UNENROLLED = "unenrolled"
"""Every host without a secret that was started on this machine: the operating system's user vouches for its process."""
TOKENLESS = "unenrolled:http"
"""Every caller over HTTP without a token. Nobody vouches for those, and no host can be given that name."""
UNREGISTERED = frozenset({UNENROLLED, TOKENLESS})
REMEMBERED_S = 60.0
"""How long what is known of a caller may serve reads while the state database cannot be asked."""
_HOST_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


class BadHostName(KnowledgeError):
    """A name that cannot be a host's."""

    def __init__(self, asked: str) -> None:
        self.asked = asked
        super().__init__(
            f"{asked[:100]!r} cannot be a host's name: use up to 64 lower-case letters, digits, '.', '_' or '-' "
            f"(and not {UNENROLLED!r}, which is every host without a secret)"
        )


class UnknownSecret(KnowledgeError):
    """A secret or token that belongs to no host here: whoever sends one is refused, and never taken for a host without one."""

    def __init__(self) -> None:
        super().__init__(
            "the secret that this host sends (FORGE_ENROLMENT, or the bearer token over HTTP) belongs to no registered host: it "
            "was replaced, or is another knowledge base's. Register the host again (knowledge-forge enroll NAME, or install) and "
            "restart it, or remove the secret to connect without one"
        )


@dataclass(frozen=True, slots=True)
class Principal:
    """Who is calling: a person's account and the host that acts for them. Nothing a client says of itself is in here."""

    user: str
    host: str

    @property
    def id(self) -> str:
        """Return the one name under which trust is kept: `user@host`."""
        return f"{self.user}@{self.host}"

    @property
    def enrolled(self) -> bool:
        """Return whether a person let this very host in."""
        return self.host not in UNREGISTERED

    @property
    def by_handle(self) -> bool:
        """Return whether this stands for callers that nothing tells apart but the handles that each of them holds."""
        return self.host == TOKENLESS


def os_user() -> str:
    """Return the name of the account that this process runs as; its number where it has no name."""
    try:
        return getpass.getuser() if os.name == "nt" else _unix_user()
    except (KeyError, OSError, ImportError):
        return str(os.getuid()) if hasattr(os, "getuid") else "user"


def _unix_user() -> str:
    import pwd

    return pwd.getpwuid(os.getuid()).pw_name


def digest(secret: str) -> bytes:
    """Return what is kept of a secret. It has 256 random bits, so a plain hash cannot be guessed back."""
    return hashlib.sha256(secret.encode()).digest()


def checked_host_name(name: str) -> str:
    """Return `name` if it can name a host.

    Raises:
        BadHostName: it cannot.
    """
    if not _HOST_NAME.fullmatch(name) or name == UNENROLLED:
        raise BadHostName(name)
    return name


async def enrol(state: StateStore, host: str, *, now: datetime) -> str:
    """Let `host` in and return its secret, which is shown once and kept nowhere. An earlier secret stops working."""
    secret = secrets.token_urlsafe(32)
    await state.enrol(checked_host_name(host), digest(secret), at=now)
    return secret


async def forms_count(state: StateStore, who: Principal) -> bool:
    """Return whether a form that this host shows counts as its person's word: they registered it, and allowed that."""
    return who.enrolled and any(host.forms and host.host == who.host for host in await state.enrolments())


async def enrolled_hosts(state: StateStore) -> list[Enrolment]:
    """Return the hosts that a person let in, by name."""
    return list(await state.enrolments())


class Callers:
    """Knows callers by their secrets. One that it knew less than a minute ago it still knows while the state is away.

    That raises nobody's trust: what the caller holds is asked of the gate, which remembers no longer than this.
    """

    def __init__(self, state: StateStore, user: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._state, self._user, self._clock = state, user, clock
        self._known: dict[bytes, tuple[Principal, float]] = {}

    async def named(self, secret: str | None, *, without: str = UNENROLLED) -> Principal:
        """Return who calls with `secret`; who sends none is the host `without`.

        Raises:
            UnknownSecret: it is no host's.
            StorageError: the state cannot be asked, and it was too long ago, if ever.
        """
        if secret is None:
            return Principal(self._user, without)
        key = digest(secret)
        try:
            principal = await identify(self._state, self._user, secret)
        except UnknownSecret:
            self._known.pop(key, None)
            raise
        except StorageError:
            known, at = self._known.get(key, (None, 0.0))
            if known is None or self._clock() - at > REMEMBERED_S:
                raise
            return known
        self._known[key] = (principal, self._clock())
        return principal


async def identify(state: StateStore, user: str, secret: str | None) -> Principal:
    """Return who calls: the host that `secret` was given to, or without one the shared unenrolled one.

    Raises:
        UnknownSecret: it is no host's.
    """
    if secret is None:
        return Principal(user, UNENROLLED)
    host = await state.host_of(digest(secret))
    if host is None:
        raise UnknownSecret
    return Principal(user, host)
