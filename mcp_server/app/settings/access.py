"""How the language model is reached, and how clients reach the server, with the limits that the settings put on that."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

from mcp_server.app.settings.sign_in import Issuer, ScopeReach
from mcp_server.app.settings.values import LanguageModelName, ModelPrice


@dataclass(frozen=True, slots=True)
class ModelAccess:
    """How to reach a language model, and its limits. Without an `address`, the vendor's own is used.

    `helps` lists uses besides runs. `key_setting` and `address_setting` name the variables to check when it can't be
    reached. `run_tokens` and `run_cost` (in the currency of the prices) limit each run, `run_day_tokens` and
    `run_day_cost` all runs together.
    """

    name: LanguageModelName
    key: str | None = field(repr=False)
    address: str | None = None
    helps: tuple[str, ...] = ()
    key_setting: str = "FORGE_MODEL_KEY_FILE"
    address_setting: str = ""
    prices: tuple[ModelPrice, ...] = ()
    run_tokens: int | None = None
    run_answer_tokens: int = 8_192
    run_context_tokens: int = 24_000
    run_cost: Decimal | None = None
    run_day_tokens: int | None = None
    run_day_cost: Decimal | None = None


LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True, slots=True)
class HttpAccess:
    """The rules for clients that connect over HTTP.

    With a `url`, by which other machines reach the server, every request needs a token.

    `hosts` and `origins` are allowed besides those of the URL. With `certificate` and `key` the server speaks TLS itself. Access
    tokens of `issuers` count, as far as `scopes` allow.
    """

    url: str | None = None
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    certificate: Path | None = None
    key: Path | None = None
    issuers: tuple[Issuer, ...] = ()
    scopes: tuple[ScopeReach, ...] = ()
    most_open: int | None = None
    """Requests of one caller that may be open in this process, streams of events included."""

    @property
    def origin(self) -> str | None:
        """The scheme, host and port of the URL."""
        return None if self.url is None else "/".join(self.url.split("/")[:3])

    def allowed_hosts(self) -> list[str]:
        """Return the values that a request's `Host` may have; `:*` stands for any port. Names of the loopback address always may."""
        found = [*LOOPBACK_NAMES, *(f"{name}:*" for name in LOOPBACK_NAMES), *self.hosts]
        if self.origin is not None:
            scheme, _, host = self.origin.partition("://")
            found += [host, f"{host}:{443 if scheme == 'https' else 80}"]
        return found

    def allowed_origins(self) -> list[str]:
        """Return the values that a request's `Origin` may have. Pages on this machine may call only a server for this machine."""
        if self.origin is not None:
            return [self.origin, *self.origins]
        return [*(f"http://{name}{port}" for name in LOOPBACK_NAMES for port in ("", ":*")), *self.origins]


THIS_MACHINE = HttpAccess()
"""Programs on this machine, and nobody else."""
