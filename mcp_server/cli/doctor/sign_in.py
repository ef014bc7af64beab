"""Check how people on other machines sign in: the address, tokens that expire soon, and the sign-in servers."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from agents.engine.work.markdown import counted
from knowledge.state.ports import StateStore
from mcp_server.app.factories.sign_in import unreadable_issuers
from mcp_server.app.knowledge_base import utc_now
from mcp_server.app.settings.loader import BadSetting
from mcp_server.app.settings.settings import Settings
from mcp_server.app.settings.values import LOOPBACK, HttpAddress
from mcp_server.cli.doctor.result import DoctorFinding, bad, note, ok
from mcp_server.gate.trust.tokens import state_of
from mcp_server.late_module import LateModule
from mcp_server.transport.sign_in.start import require_sign_in
from mcp_server.web.sign_in.login_attempt import CALLBACK

if TYPE_CHECKING:
    from mcp_server.web.sign_in import provider
else:
    # Only where FORGE_SITE_CLIENT names a sign-in server: it loads cryptography.
    provider = LateModule("mcp_server.web.sign_in.provider")

SOON = timedelta(days=14)


async def http_examined(state: StateStore, settings: Settings) -> DoctorFinding | None:
    """Say whether a server with these settings would start for other machines; None if they name none."""
    if settings.http_url is None and (settings.http is None or settings.http.loopback):
        return None
    address = settings.http or HttpAddress(LOOPBACK[0], 0)
    try:
        await require_sign_in(address, settings.http_access, state, utc_now)
    except BadSetting as error:
        return bad("http", f"a server for other machines does not start: {error}", "see guides/serve-a-team.md")
    return ok("http", f"clients reach the server at {settings.http_url}, each with a token")


async def tokens_examined(state: StateStore) -> DoctorFinding | None:
    """Count the valid tokens, and name those that expire soon; None if there is no valid one."""
    now = utc_now()
    valid = [one for one in await state.trust.tokens() if state_of(one, now=now) == "valid"]
    if not valid:
        return None
    found = f"{counted(len(valid), 'valid token')}, of {', '.join(dict.fromkeys(one.name for one in valid))}"
    ending = [one for one in valid if one.expires_at is not None and one.expires_at - now < SOON]
    if not ending:
        return ok("tokens", found)
    soon = ", ".join(f"{one.id} of {one.name} on {one.expires_at:%Y-%m-%d}" for one in ending)
    return note("tokens", f"{found}; these expire soon: {soon}", "knowledge-forge token create NAME makes another one")


async def issuers_examined(settings: Settings) -> DoctorFinding | None:
    """Say whether the keys of the sign-in servers can be read; None if there are none."""
    if not settings.oauth_issuers:
        return None
    problems = await unreadable_issuers(settings)
    if problems:
        found = "; ".join(f"{name}: {problem}" for name, problem in problems.items())
        return bad(
            "sign-in",
            f"access tokens cannot be checked: {found}",
            "compare FORGE_OAUTH_ISSUERS with the server's metadata",
        )
    named = ", ".join(f"{one.name} ({one.url})" for one in settings.oauth_issuers)
    return ok("sign-in", f"the keys of {named} can be read")


async def site_examined(settings: Settings) -> DoctorFinding | None:
    """Say whether people can log in on the site at the sign-in server; None if only the owner logs in."""
    access = settings.site_access
    if access is None:
        return None
    if problem := await provider.SiteProvider(access).unusable():
        return bad(
            "site",
            f"people cannot log in on the site: {problem}",
            "compare FORGE_SITE_CLIENT with the server's metadata",
        )
    return ok("site", f"people log in at {access.issuer.name} and come back to {access.url}{CALLBACK}")
