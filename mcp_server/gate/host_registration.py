"""Principals: a person and a host. A registered host proves its identity with the secret that `enroll` made for it."""

from __future__ import annotations

import getpass
import hashlib
import os
import re
import secrets
from dataclasses import dataclass, field
from datetime import datetime

from knowledge.errors import KnowledgeError
from knowledge.state.ports import StateStore
from mcp_server.gate.policy import Limits, Reach, Trust

UNENROLLED = "unenrolled"
"""Every host on this machine that sends no secret. The operating system's user started it."""
TOKENLESS = "unenrolled:http"
"""Every caller over HTTP that sends no token. The colon keeps the name free: no registered host can have it."""
SIGNED_IN = ":http"
"""The name of the host ends like this for everybody known by a token over HTTP. The name of the token's issuer comes before it."""
TOKEN_HOLDER = f"token{SIGNED_IN}"
"""Used in place of a host's name: for the holder of a bearer token that a person created here."""
UNREGISTERED = frozenset({UNENROLLED, TOKENLESS})
TERMINAL = "terminal"
"""Used in place of a host's name: for the person who typed a command at a terminal, without any host."""
PERSONS = frozenset({TERMINAL, "page"})
"""Names that stand for a person in one of the channels in which they decide. No host can be registered under them."""
ALONE = Limits((Reach(Trust.PROPOSE),), "without its token the server only proposes for it")
"""What the server may do for somebody who signed in, when no request with a token is at hand."""
REMEMBERED_S = 60.0
"""How long a caller's last known identity and grant are enough for reading while the state database is unreachable."""
_HOST_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


class BadHostName(KnowledgeError):
    """The name can't be a host's name."""

    def __init__(self, asked: str) -> None:
        self.asked = asked
        super().__init__(
            f"{asked[:100]!r} cannot be a host's name: use up to 64 lower-case letters, digits, '.', '_' or '-' "
            f"(and not {UNENROLLED!r}, which is every host without a secret, nor {TERMINAL!r} or 'page', which is a person)"
        )


class UnknownSecret(KnowledgeError):
    """A secret or token that belongs to no registered host. It is refused, never treated as missing."""

    def __init__(self) -> None:
        super().__init__(
            "the secret that this host sends (FORGE_ENROLMENT, or the bearer token over HTTP) belongs to no registered host: it "
            "was replaced, or is another knowledge base's. Register the host again (knowledge-forge enroll NAME, or install) and "
            "restart it, or remove the secret to connect without one"
        )


class RefusedToken(UnknownSecret):
    """A bearer token that proves nothing; the message says why and what to do, and never repeats the token."""

    def __init__(self, why: str) -> None:
        super(UnknownSecret, self).__init__(why)


@dataclass(frozen=True, slots=True)
class Principal:
    """Identifies the caller: a person's account and the host that acts for it.

    Nothing that a client claims about itself is part of it.

    Attributes:
        client: Tells callers over HTTP without a token apart, "" if nothing does: a hash of their session, or of the name that
            their client gives itself. It is no part of the identity: a caller can change it at will, so trust, untrusted reading,
            limits and rights go by `id`. Only advice and the recognition of a repeated call go by it.
        limits: How far the credential of this request reaches, None if it sets no limit. It is no part of the identity either.
    """

    user: str
    host: str
    client: str = field(default="", compare=False)
    limits: Limits | None = field(default=None, compare=False)

    @property
    def id(self) -> str:
        """The name under which trust is recorded: `user@host`."""
        return f"{self.user}@{self.host}"

    @property
    def enrolled(self) -> bool:
        """Whether a person registered this host."""
        return self.host not in UNREGISTERED and not self.is_person

    @property
    def signed_in(self) -> bool:
        """Whether this is somebody on any machine, known by a bearer token or by a sign-in server."""
        return self.host.endswith(SIGNED_IN) and self.host not in UNREGISTERED

    @property
    def reach(self) -> Limits | None:
        """How far this principal may go: as far as its credential says.

        Somebody who signed in may only propose if no credential is at hand, as in a run that continues alone.
        """
        return ALONE if self.limits is None and self.signed_in else self.limits

    @property
    def is_person(self) -> bool:
        """Whether this is a person themselves, at a terminal or on the page, and no host."""
        return self.host in PERSONS

    @property
    def by_handle(self) -> bool:
        """Whether this is the principal that all callers over HTTP without a token share; see `handles`."""
        return self.host == TOKENLESS


def is_signed_in(name: str) -> bool:
    """Return whether the principal `name` is known by a token or by a sign-in server, and is no account of this machine."""
    return name.endswith(SIGNED_IN) and "@" in name and not name.endswith(f"@{TOKENLESS}")


def os_user() -> str:
    """Return the name of the account that this process runs as, or its number if it has no name."""
    try:
        if os.name == "nt":
            return getpass.getuser()
        import pwd

        # getpass.getuser() would believe LOGNAME and USER, which any program can set.
        return pwd.getpwuid(os.getuid()).pw_name
    except (KeyError, OSError, ImportError):
        return str(os.getuid()) if hasattr(os, "getuid") else "user"


def digest(secret: str) -> bytes:
    """Return the hash that is stored instead of a secret. A secret has 256 random bits, so a plain SHA-256 can't be reversed."""
    return hashlib.sha256(secret.encode()).digest()


def checked_host_name(name: str) -> str:
    """Return `name` if it can be a host's name.

    Raises:
        BadHostName: it can't.
    """
    if not _HOST_NAME.fullmatch(name) or name == UNENROLLED or name in PERSONS:
        raise BadHostName(name)
    return name


async def enrol(state: StateStore, host: str, *, now: datetime) -> str:
    """Register `host` and return its new secret, which is stored nowhere. The host's earlier secret stops working."""
    secret = secrets.token_urlsafe(32)
    await state.enrol(checked_host_name(host), digest(secret), at=now)
    return secret


async def forms_count(state: StateStore, who: Principal) -> bool:
    """Return whether a form that this host shows may approve something: its person registered it and allowed forms."""
    return who.enrolled and any(host.forms and host.host == who.host for host in await state.enrolments())


async def identify(state: StateStore, user: str, secret: str | None, *, without: str = UNENROLLED) -> Principal:
    """Return the caller that sent `secret`. If that is None, it is the host `without`: by default the shared unregistered host.

    Raises:
        UnknownSecret: it belongs to no registered host.
    """
    if secret is None:
        return Principal(user, without)
    host = await state.host_of(digest(secret))
    # An earlier version may have registered a host under the name of a person's channel: it must not pass as that person.
    if host is None or host in PERSONS:
        raise UnknownSecret
    return Principal(user, host)
