"""Beginning and finishing a login at the sign-in server."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from mcp_server.web.page_context import PageContext, see
from mcp_server.web.sign_in.login_attempt import ATTEMPT_LIFETIME, LoginAttempt, LoginFailed

if TYPE_CHECKING:
    from mcp_server.web.sign_in.site_sign_in import SiteSignIn

logger = logging.getLogger("knowledge_forge.sign_in")

TOO_LATE = "this login took too long, was finished before, or began in another browser; log in again"
NOT_ALLOWED = (
    "The sign-in server knows you as {name}, but you may not use this site: you are not on its list. If you should, ask the person "
    "who runs it to allow {principal}."
)


async def begin(request: Request) -> Response:
    """Send the browser to the sign-in server, and have it remember this login."""
    page_context: PageContext = request.app.state.page_context
    sign_in = _sign_in(page_context, request)
    if sign_in is None:
        return await page_context.stranger()
    attempt = LoginAttempt.begun(request.query_params.get("to", ""), page_context.services.now())
    try:
        answer: Response = RedirectResponse(await sign_in.provider.login_address(attempt), 303)
    except LoginFailed as error:
        return await _failed(page_context, str(error), 503)
    cookies = page_context.cookies(request)
    cookies.put(answer, cookies.attempt, attempt.cookie, ATTEMPT_LIFETIME)
    return answer


async def finish(request: Request) -> Response:
    """Log in the person whom the sign-in server names, if they may use the site."""
    page_context: PageContext = request.app.state.page_context
    sign_in = _sign_in(page_context, request)
    if sign_in is None:
        return await page_context.stranger()
    cookies = page_context.cookies(request)
    answer = await _finished(page_context, sign_in, request)
    cookies.drop(answer, cookies.attempt)
    return answer


async def _finished(page_context: PageContext, sign_in: SiteSignIn, request: Request) -> Response:
    cookies, now = page_context.cookies(request), page_context.services.now()
    attempt = LoginAttempt.in_cookie(request.cookies.get(cookies.attempt, ""), now)
    if attempt is None:
        return await _failed(page_context, TOO_LATE)
    try:
        claims = await sign_in.provider.claims(_once(request), attempt)
        person = sign_in.person(claims)
    except LoginFailed as error:
        return await _failed(page_context, str(error))
    except ValueError:
        return await _failed(page_context, "the sign-in server names you in a way that can't be used here")
    session = await page_context.sessions.enter_person(person)
    if session is None:
        logger.info("%s may not use the site", person.principal)
        return await _failed(
            page_context, NOT_ALLOWED.format(name=person.name or person.principal, principal=person.principal), 403
        )
    logger.info("%s logged in on the site", person.principal)
    return await page_context.welcomed(request, session, see(attempt.to))


def _once(request: Request) -> Mapping[str, str]:
    """Return the parameters of the answer, or none if one of them comes twice (RFC 6749, section 3.1)."""
    given = request.query_params.multi_items()
    found = dict(given)
    return found if len(found) == len(given) else {}


def _sign_in(page_context: PageContext, request: Request) -> SiteSignIn | None:
    """Return the sign-in server if people log in there under the address of this request."""
    return None if page_context.is_local(request) else page_context.sign_in


async def _failed(page_context: PageContext, why: str, status: int = 400) -> Response:
    return await page_context.show("login_failed.html", None, lambda: {"why": why}, status)
