"""Logging in on the site at a sign-in server, and what attackers get (decision 115).

OpenID Connect Core 1.0; RFC 7636 (PKCE); RFC 9207 (issuer); RFC 9700 (best current practice).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

import httpx
import pytest
import pytest_asyncio
from cryptography.hazmat.primitives import serialization
from starlette.routing import Route

from knowledge.access.changes import Changing
from knowledge.trust.ports import Note, Proposal
from mcp_server.app.settings.sign_in import RequiredClaim
from mcp_server.approvals.approvers import Approver, must_sign
from mcp_server.gate.host_registration import os_user
from mcp_server.gate.trust.scores import freeze, grant
from mcp_server.web.access.rights import SiteRight, right_of
from mcp_server.web.access.sessions import Sessions
from mcp_server.web.application import page_routes
from mcp_server.web.sign_in.provider import SiteProvider
from tests.doubles.login_server import CALLBACK, CLIENT, LoginServer
from tests.doubles.sign_in_server import forged, private_key
from tests.support.web.passkeys import SoftPasskey
from tests.support.web.review_pages import PAGE, forms, in_one_task
from tests.support.web.team_site import (
    ATTEMPT,
    KNOWN,
    PORT,
    PUBLIC,
    SESSION,
    SiteVisitor,
    TeamSite,
    parameters,
    team_site,
)

ANN = "ann@corp:http"


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def opened_site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[TeamSite]:
    async with in_one_task(team_site(tmp_path_factory.mktemp("site"))) as opened:
        yield opened


@pytest.fixture
def site(opened_site: TeamSite) -> TeamSite:
    """Return the site with a sign-in server as at first. People and proposals of other tests are in the same state."""
    opened_site.issuer.reset()
    assert opened_site.context.sign_in is not None
    opened_site.context.sign_in.provider = SiteProvider(opened_site.context.sign_in.access)
    return opened_site


def cookie_line(answer: httpx.Response, name: str) -> str:
    return next(line for line in answer.headers.get_list("set-cookie") if line.startswith(f"{name}="))


# --- a login ----------------------------------------------------------------------------------------------------------


async def test_a_reviewer_logs_in_and_decides_under_the_same_name_as_over_mcp(site: TeamSite) -> None:
    waiting = await site.propose()
    visitor = await site.browser().go(f"/proposals/{waiting.id}?layout=inline")
    assert visitor.status == 404
    begin = "/login/begin?to=%2Fproposals%2F" + waiting.id + "%3Flayout%3Dinline"
    assert f'href="{begin}"' in visitor.html
    await site.log_in(visitor, f"/proposals/{waiting.id}?layout=inline")
    assert visitor.answer.url.path == f"/proposals/{waiting.id}"
    assert "Log out Ann Lee" in visitor.html
    await visitor.send(f"/proposals/{waiting.id}/approve")
    decided = await site.proposal(waiting.id)
    assert decided.state == "executed"
    assert decided.verdict is not None
    assert (decided.verdict.by, decided.verdict.channel) == (ANN, "page")


async def test_the_session_is_for_this_host_alone_and_kept_as_a_hash(site: TeamSite) -> None:
    visitor = site.browser()
    address = await site.answer(visitor)
    assert cookie_line(visitor.answer, ATTEMPT).endswith("HttpOnly; Max-Age=600; Path=/; SameSite=lax; Secure")
    await visitor.go(address)
    line = cookie_line(visitor.answer, SESSION)
    assert line.endswith("HttpOnly; Max-Age=43200; Path=/; SameSite=lax; Secure")
    assert "Max-Age=0" in cookie_line(visitor.answer, ATTEMPT)
    secret, trust = visitor.http.cookies[SESSION], site.app.base.state.trust
    kept = await trust.secret(hashlib.sha256(secret.encode()).digest(), "person", now=site.app.services.now())
    assert kept is not None
    assert json.loads(kept) == {"principal": ANN, "name": "Ann Lee", "claims": {"groups": ["reviewers"]}}
    # Any other worker knows it, too.
    other = site.browser(context=site.configured())
    other.http.cookies = visitor.http.cookies
    assert (await other.go("/waiting")).status == 200


async def test_the_client_proves_itself_as_the_sign_in_server_wants(site: TeamSite) -> None:
    """`none` is a public client."""
    for method in ("client_secret_basic", "client_secret_post", "none"):
        site.issuer.metadata["token_endpoint_auth_methods_supported"] = [method]
        context = site.configured(**({"site_secret": None} if method == "none" else {}))
        assert (await site.log_in(site.browser(context=context))).status == 200, method


async def test_what_only_userinfo_tells_counts_if_it_is_about_the_same_subject(site: TeamSite) -> None:
    site.issuer.metadata["userinfo_endpoint"] = f"{site.issuer.url}/userinfo"
    site.issuer.person = {"sub": "eve"}
    site.issuer.userinfo = {"sub": "ann", "name": "Ann", "groups": ["reviewers"]}
    visitor = site.browser()
    await visitor.go(await site.answer(visitor))
    assert visitor.status == 403
    site.issuer.person = {"sub": "ann"}
    assert "Log out Ann" in (await site.log_in(visitor)).html


async def test_a_name_is_shown_as_text_and_proves_nothing(site: TeamSite) -> None:
    visitor = await site.log_in(site.browser(), sub="eve", name="<script>alert(1)</script>\u202e" + "x" * 500)
    assert "<script>alert" not in visitor.html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in visitor.html
    assert "x" * 81 not in visitor.html
    session = await site.context.sessions.of(visitor.http.cookies[SESSION])
    assert session is not None
    assert session.user == "eve@corp:http"


async def test_a_subject_can_not_pass_as_another_principal(site: TeamSite) -> None:
    visitor = await site.log_in(site.browser(), sub=f"{os_user()}@page/x")
    session = await site.context.sessions.of(visitor.http.cookies[SESSION])
    assert session is not None
    assert session.user == f"{os_user()}@page%2Fx@corp:http"
    assert not session.may(SiteRight.MANAGE)


async def test_a_logout_ends_the_session_and_offers_the_logout_at_the_sign_in_server(site: TeamSite) -> None:
    site.issuer.metadata["end_session_endpoint"] = f"{site.issuer.url}/logout?theme=x"
    visitor = await site.log_in(site.browser())
    secret = visitor.http.cookies[SESSION]
    await visitor.send("/logout")
    assert "You are logged out" in visitor.html
    address = visitor.html.split(f'href="{site.issuer.url}/logout?', 1)[1].split('"')[0].replace("&amp;", "&")
    assert parameters(f"?{address}") == {"theme": "x", "client_id": CLIENT, "post_logout_redirect_uri": f"{PUBLIC}/"}
    assert await site.context.sessions.of(secret) is None
    assert SESSION not in visitor.http.cookies


# --- the answer of the sign-in server ----------------------------------------------------------------------------------


def with_shared_secret(issuer: LoginServer, claims: dict[str, Any]) -> str:
    """Sign with the public key as if it were a shared secret (HS/RS confusion)."""
    key = issuer.keys["k1"][0].public_key()
    public = key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    unsigned = forged({"alg": "HS256", "kid": "k1"}, claims).rstrip(".")
    return forged({"alg": "HS256", "kid": "k1"}, claims, hmac.new(public, unsigned.encode(), "sha256").digest())


def with_key_in_header(_issuer: LoginServer, claims: dict[str, Any]) -> str:
    stranger = LoginServer(keys={"k1": (private_key("RS256"), "RS256")})
    return stranger.signed(claims, jku="https://evil.example/keys")


TOKENS: dict[str, Callable[[LoginServer, dict[str, Any]], str]] = {
    "no algorithm": lambda _, claims: forged({"alg": "none"}, claims),
    "a shared secret": with_shared_secret,
    "a stranger's key": with_key_in_header,
    "an unknown key": lambda issuer, claims: issuer.signed(claims, kid="k2"),
    "an access token": lambda issuer, claims: issuer.signed(claims, typ="at+jwt"),
    "a critical extension": lambda issuer, claims: issuer.signed(claims, crit=["x"], x=1),
    "another issuer": lambda issuer, claims: issuer.signed({**claims, "iss": f"{issuer.url}/"}),
    "another audience": lambda issuer, claims: issuer.signed({**claims, "aud": "other"}),
    "several audiences": lambda issuer, claims: issuer.signed({**claims, "aud": [CLIENT, "other"]}),
    "another party": lambda issuer, claims: issuer.signed({**claims, "azp": "other"}),
    "another nonce": lambda issuer, claims: issuer.signed({**claims, "nonce": "x" * 64}),
    "no nonce": lambda issuer, claims: issuer.signed({key: claims[key] for key in claims if key != "nonce"}),
    "a nonce that is no text": lambda issuer, claims: issuer.signed({**claims, "nonce": [claims["nonce"]]}),
    "expired": lambda issuer, claims: issuer.signed({**claims, "exp": int(time.time()) - 60}),
    "no expiry": lambda issuer, claims: issuer.signed({key: claims[key] for key in claims if key != "exp"}),
    "no subject": lambda issuer, claims: issuer.signed({**claims, "sub": ""}),
    "no token": lambda _issuer, _claims: "",
    "too long": lambda issuer, claims: issuer.signed({**claims, "x": "y" * 13_000}),
}


async def test_an_id_token_that_is_not_for_this_login_logs_nobody_in(
    site: TeamSite, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "knowledge_forge")
    for name, made in TOKENS.items():
        site.issuer.forge = partial(made, site.issuer)
        visitor = site.browser()
        await visitor.go(await site.answer(visitor))
        assert visitor.status == 400, name
        assert "You are not logged in" in visitor.html, name
        assert SESSION not in visitor.http.cookies, name
        assert (await visitor.go("/waiting")).status == 404, name
    assert "eyJ" not in caplog.text, "a token is in the log"
    site.issuer.forge = None
    assert (await site.log_in(site.browser())).status == 200


async def test_only_the_browser_that_began_a_login_can_finish_it(site: TeamSite) -> None:
    """Otherwise somebody could log another person in as themselves, and read what that person then writes."""
    ann, eve = site.browser(), site.browser()
    address = await site.answer(eve, sub="eve")
    await ann.go(address)
    assert (ann.status, ann.http.cookies.get(SESSION)) == (400, None)
    await ann.go("/login/begin")
    await ann.go(address)
    assert (ann.status, ann.http.cookies.get(SESSION)) == (400, None)
    assert site.issuer.tokens == 0, "a foreign code was redeemed"


async def test_a_cookie_or_a_state_that_was_changed_finishes_no_login(site: TeamSite) -> None:
    for change in ("state", "secret", "began", "to", "late"):
        visitor = site.browser()
        address = await site.answer(visitor, "/pages")
        secret, began, to = visitor.http.cookies[ATTEMPT].split(".")
        if change == "state":
            address = address.replace(parameters(address)["state"], "0" * 64)
        changed = {
            "secret": f"{secret[:-1]}{'A' if secret[-1] != 'A' else 'B'}.{began}.{to}",
            "began": f"{secret}.{int(began) - 1}.{to}",
            "to": f"{secret}.{began}./trust",
            "late": f"{secret}.{int(began) - 601}.{to}",
        }.get(change, visitor.http.cookies[ATTEMPT])
        visitor.http.cookies.clear()
        visitor.http.cookies.set(ATTEMPT, changed, domain="forge.example.com")
        await visitor.go(address)
        assert (visitor.status, visitor.http.cookies.get(SESSION)) == (400, None), change
    assert site.issuer.tokens == 0


async def test_an_answer_of_another_issuer_counts_for_nothing(site: TeamSite) -> None:
    """Mix-up: RFC 9207. The server's metadata promises the parameter."""
    for change in ({"iss": "https://evil.example"}, {"iss": None}):
        visitor = site.browser()
        address = await site.answer(visitor)
        given = {key: value for key, value in {**parameters(address), **change}.items() if value is not None}
        await visitor.go(f"{CALLBACK}?{httpx.QueryParams(given)}")
        assert (visitor.status, visitor.http.cookies.get(SESSION)) == (400, None)
    assert site.issuer.tokens == 0
    del site.issuer.metadata["authorization_response_iss_parameter_supported"]
    visitor = site.browser(context=site.configured())
    given = parameters(await site.answer(visitor))
    await visitor.go(f"{CALLBACK}?{httpx.QueryParams({key: given[key] for key in ('code', 'state')})}")
    assert visitor.status == 303


async def test_an_answer_counts_once(site: TeamSite) -> None:
    visitor = site.browser()
    address = await site.answer(visitor)
    attempt = visitor.http.cookies[ATTEMPT]
    await visitor.go(address)
    assert visitor.status == 303
    await visitor.go(address)
    assert visitor.status == 400
    copy = site.browser()
    copy.http.cookies.set(ATTEMPT, attempt, domain="forge.example.com")
    await copy.go(address)
    assert (copy.status, copy.http.cookies.get(SESSION)) == (400, None)


async def test_a_refusal_and_a_parameter_given_twice_log_nobody_in(site: TeamSite) -> None:
    visitor = site.browser()
    given = parameters(await site.answer(visitor))
    await visitor.go(f"{CALLBACK}?state={given['state']}&iss={given['iss']}&error=access_denied&error_description=<b>")
    assert visitor.status == 400
    assert "<b>" not in visitor.html
    address = await site.answer(visitor)
    await visitor.go(f"{address}&code=other")
    assert (visitor.status, visitor.http.cookies.get(SESSION)) == (400, None)


async def test_a_login_leads_only_to_pages_of_this_site(site: TeamSite) -> None:
    visitor = site.browser()
    await visitor.go(await site.answer(visitor, "//evil.example/"))
    assert (visitor.status, visitor.location) == (303, "/")


async def test_a_login_is_tried_again_when_the_sign_in_server_is_away(site: TeamSite) -> None:
    site.issuer.down = True
    visitor, now = site.browser(), 0.0
    assert site.context.sign_in is not None
    site.context.sign_in.provider = SiteProvider(site.context.sign_in.access, lambda: now)
    for _ in range(3):
        await visitor.go("/login/begin")
        assert visitor.status == 503
        assert "try again in a moment" in visitor.html
    asked = len(site.issuer.asked)
    site.issuer.down, now = False, 3.0
    assert (await site.log_in(visitor)).status == 200
    assert asked < 6, "people who try again in the same second ask once"


# --- sessions ---------------------------------------------------------------------------------------------------------


async def test_a_login_never_takes_over_a_session_that_the_browser_had(site: TeamSite) -> None:
    """Session fixation, and a second login in the same browser."""
    visitor = site.browser()
    visitor.http.cookies.set(SESSION, "planted", domain="forge.example.com")
    await site.log_in(visitor)
    first = visitor.http.cookies[SESSION]
    assert first != "planted"
    await site.log_in(visitor)
    assert visitor.http.cookies[SESSION] != first
    assert await site.context.sessions.of(first) is None


async def test_the_form_of_one_person_does_nothing_for_the_next_one_in_that_browser(site: TeamSite) -> None:
    waiting = await site.propose()
    visitor = await site.log_in(site.browser(), f"/proposals/{waiting.id}", sub="ann")
    held = forms(visitor.html)[f"/proposals/{waiting.id}/approve"]
    await site.log_in(visitor, sub="bea")
    await visitor.post(f"/proposals/{waiting.id}/approve", held)
    assert visitor.status == 403
    assert (await site.proposal(waiting.id)).state == "pending"


async def test_another_site_can_neither_send_a_form_nor_log_out(site: TeamSite) -> None:
    visitor = await site.log_in(site.browser())
    held = forms(visitor.html)["/logout"]
    assert (await visitor.post("/logout", held, origin="https://evil.example")).status == 403
    assert (await visitor.post("/logout", {"csrf": "x"})).status == 403
    assert (await visitor.go("/", **{"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"})).status == 403
    link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    assert (await visitor.go("/", **link)).status == 200


async def test_only_people_whom_the_settings_or_the_list_of_people_name_get_in(site: TeamSite) -> None:
    visitor = site.browser()
    address = await site.answer(visitor, sub="eve", name="Eve", groups=["others"])
    await visitor.go(address)
    assert visitor.status == 403
    assert "eve@corp:http" in visitor.html
    assert (visitor.http.cookies.get(SESSION), visitor.http.cookies.get(KNOWN)) == (None, None)
    assert (await visitor.go("/waiting")).status == 404
    changing = Changing("owner", site.app.services.now())
    people, note = site.app.base.state.people, Note("owner", "person.add", "eve", changing.at)
    await people.change(changing.person_added("eve", ["eve@corp:http"]), note=note)
    await site.log_in(visitor)
    assert (await visitor.go("/waiting")).status == 200
    await people.change(changing.person_removed("eve", []), note=note)
    assert (await visitor.go("/waiting")).status == 404


async def test_an_address_counts_only_if_the_sign_in_server_has_verified_it(site: TeamSite) -> None:
    context = site.configured(site_people=(RequiredClaim("email", "ann@example.com"),))
    for verified, status in ((False, 403), (None, 403), ("true", 403), (True, 303)):
        visitor = site.browser(context=context)
        address = await site.answer(visitor, sub="ann", email="ann@example.com", email_verified=verified)
        assert (await visitor.go(address)).status == status, verified


async def test_a_person_who_is_frozen_or_no_longer_named_is_out_with_the_next_request(site: TeamSite) -> None:
    visitor, bea = await site.log_in(site.browser(), sub="fred"), await site.log_in(site.browser(), sub="bea")
    state, now = site.app.base.state, site.app.services.now()
    await freeze(state, "fred@corp:http", by="owner", now=now, reason="left the team")
    assert (await visitor.go("/waiting")).status == 404
    await visitor.go(await site.answer(visitor, sub="fred"))
    assert visitor.status == 403
    assert (await bea.go("/waiting")).status == 200
    elsewhere = site.browser(context=site.configured(site_people=(RequiredClaim("sub", "carl"),)))
    elsewhere.http.cookies = bea.http.cookies
    assert (await elsewhere.go("/waiting")).status == 404


async def test_a_person_from_whom_rules_hide_pages_sees_the_others_and_a_manager_sees_all(site: TeamSite) -> None:
    """Decision 123."""
    ann = await site.log_in(site.browser(), sub="ann")
    context = site.configured(site_managers=(RequiredClaim("sub", "max"),))
    manager = await site.log_in(site.browser(context=context), sub="max")
    changing = Changing("owner", site.app.services.now())
    people, note = site.app.base.state.people, Note("owner", "rule.set", "guides", changing.at)
    for right, status in (("read", 200), ("none", 404)):
        await people.change(changing.rule_set("*", "guides", right), note=note)
        assert (await ann.go(f"/page?path={PAGE}")).status == status
        assert (await ann.go("/audit")).status == (200 if status == 200 else 403)
        assert (await manager.go(f"/page?path={PAGE}")).status == 200
    assert (await ann.go("/waiting")).status == 200
    assert "guides" not in (await ann.go("/pages")).html
    await people.change(changing.rule_removed("*", "guides"), note=note)  # other tests have the same state
    assert (await ann.go(f"/page?path={PAGE}")).status == 200


async def test_without_a_sign_in_server_its_sessions_count_for_nothing(site: TeamSite) -> None:
    visitor = await site.log_in(site.browser())
    other = site.browser(context=site.configured(site_client=None))
    other.http.cookies = visitor.http.cookies
    assert (await other.go("/waiting")).status == 404
    assert (await other.go("/login/begin")).status == 404
    assert "knowledge-forge review --web" in other.html


async def test_on_the_servers_machine_the_owner_logs_in_as_before(site: TeamSite) -> None:
    owner = await site.browser(f"http://localhost:{PORT}").go("/waiting")
    assert "knowledge-forge review --web" in owner.html
    assert (await owner.go("/login/begin")).status == 404
    sessions = Sessions(site.app.base.state.trust, site.app.services.now)
    secret = await sessions.invite(os_user())
    await owner.go(f"/login/{secret}")
    await owner.post("/login", forms(owner.html)["/login"], origin=f"http://localhost:{PORT}")
    assert owner.status == 303
    assert "samesite=strict" in cookie_line(owner.answer, f"forge_review_{PORT}").lower()
    assert (await owner.go("/trust")).status == 200


# --- what people may do -----------------------------------------------------------------------------------------------


def routes(right: SiteRight) -> list[tuple[str, str]]:
    found: list[Route] = page_routes()
    return [
        ("POST" if "POST" in (one.methods or ()) else "GET", one.path.replace("{id}", "1"))
        for one in found
        if right_of(one.endpoint) is right
    ]


async def test_what_the_owner_manages_is_refused_to_reviewers_and_open_to_managers(site: TeamSite) -> None:
    reviewer = await site.log_in(site.browser())
    csrf = forms(reviewer.html)["/logout"]["csrf"]
    assert "/trust" not in reviewer.html
    assert "/state" not in reviewer.html
    for method, path in routes(SiteRight.MANAGE):
        await (reviewer.go(path) if method == "GET" else reviewer.post(path, {"csrf": csrf}))
        assert reviewer.status == 403, path
        assert "Your login doesn" in reviewer.html, path
    for method, path in routes(SiteRight.REVIEW):
        if method == "GET":
            assert (await reviewer.go(path)).status != 403, path
    context = site.configured(site_managers=(RequiredClaim("sub", "ann"),))
    manager = await site.log_in(site.browser(context=context), sub="ann", groups=[])
    assert (await manager.go("/trust")).status == 200


async def test_acts_on_trust_itself_wait_for_the_owner(site: TeamSite) -> None:
    reviewer = await site.log_in(site.browser())
    owner = await asked_by_owner(site)
    await reviewer.go(f"/proposals/{owner.id}")
    assert "You can&#39;t decide on this" in reviewer.html or "You can't decide on this" in reviewer.html
    form = await approval(site, reviewer, owner)
    for act in ("approve", "reject"):
        await reviewer.post(f"/proposals/{owner.id}/{act}", form)
        assert reviewer.status == 409
    fields = {"csrf": form["csrf"], "decision": "reject", f"take.{owner.id}": "1", f"hash.{owner.id}": owner.hash}
    await reviewer.post("/together", fields)
    assert (await site.proposal(owner.id)).state == "pending"


async def approval(site: TeamSite, visitor: SiteVisitor, proposal: Proposal) -> dict[str, str]:
    """Return the form of an approval, as if a page had shown it."""
    session = await site.context.sessions.of(visitor.http.cookies[SESSION])
    assert session is not None
    return {"csrf": session.csrf, "hash": proposal.hash, "opened": session.opened(proposal.hash)}


async def asked_by_owner(site: TeamSite) -> Proposal:
    return await site.app.approvals.ask("trust.grant", {"principal": ANN, "level": 5}, Approver(os_user(), "terminal"))


async def test_a_page_that_a_reviewer_writes_is_a_proposal_until_they_are_trusted_to_edit(site: TeamSite) -> None:
    visitor, carl = await site.log_in(site.browser(), sub="carl"), "carl@corp:http"
    await visitor.go(f"/page/edit?path={PAGE}")
    form = forms(visitor.html)["/page/edit"]
    changed = {**form, "text": form["text"] + "\r\nCarl was here.\r\n"}
    await visitor.post("/page/edit", {**changed, "do": "save"})
    assert (await site.asked_by(carl)).state == "pending"
    await grant(site.app.base.state, carl, 3.0, by="owner", now=site.app.services.now())
    await visitor.post("/page/edit", {**changed, "do": "save"})
    assert "Carl was here." in (site.settings.kb / PAGE).read_text(encoding="utf-8")
    newest = (await site.app.services.timeline.changes(PAGE, limit=1)).changes[0]
    assert newest.by == carl


# --- passkeys ---------------------------------------------------------------------------------------------------------


async def add_passkey(visitor: Any, key: SoftPasskey) -> None:
    await visitor.go("/passkeys")
    await visitor.send("/passkeys/new", name=key.name)
    form = forms(visitor.html)["/passkeys"]
    challenge = json.loads(visitor.html.split('data-enrol="', 1)[1].split('"')[0].replace("&#34;", '"'))["challenge"]
    padded = challenge + "=" * (-len(challenge) % 4)
    made = key.registration(base64.urlsafe_b64decode(padded), PUBLIC, rp_id="forge.example.com")
    await visitor.post("/passkeys", {**form, "credential": json.dumps(made)})


async def test_a_persons_passkey_signs_for_them_and_leaves_the_owner_as_free_as_before(site: TeamSite) -> None:
    ann, bea = await site.log_in(site.browser(), sub="ann"), await site.log_in(site.browser(), sub="bea")
    path = "guides/onboarding.md"
    read = (await site.host.call_tool("kb_read", {"path": path})).structured_content or {}
    arguments = {"path": path, "base_revision": read["revision"]}
    made = (await site.host.call_tool("kb_delete", arguments)).structured_content or {}
    waiting = await site.proposal(made["proposal"]["id"])
    path = f"/proposals/{waiting.id}"
    await ann.go(path)
    assert f'action="{path}/approve"' not in ann.html
    assert "takes a passkey of yours" in ann.html
    await ann.post(f"{path}/approve", await approval(site, ann, waiting))
    assert "sign it with a passkey" in ann.html, "without any passkey the owner's word counts, and nobody else's"

    key = SoftPasskey()
    await add_passkey(ann, key)
    (kept,) = await site.passkeys_of(ANN)
    assert kept.id == key.id
    assert key.name not in (await bea.go("/passkeys")).html

    assertion = key.assertion(bytes.fromhex(waiting.hash), PUBLIC, rp_id="forge.example.com")
    await bea.post(f"{path}/approve", {**await approval(site, bea, waiting), "assertion": json.dumps(assertion)})
    assert "not registered here for you" in bea.html
    assert (await site.proposal(waiting.id)).state == "pending"
    local = key.assertion(bytes.fromhex(waiting.hash), f"http://localhost:{PORT}")
    await ann.go(path)
    await ann.send(f"{path}/approve", assertion=json.dumps(local))
    assert (await site.proposal(waiting.id)).state == "pending"

    assert not await must_sign(site.app.base.state.trust, os_user())
    assertion = key.assertion(bytes.fromhex(waiting.hash), PUBLIC, rp_id="forge.example.com")
    await ann.go(path)
    await ann.send(f"{path}/approve", assertion=json.dumps(assertion))
    decided = await site.proposal(waiting.id)
    assert decided.state == "executed"
    assert decided.verdict is not None
    assert (decided.verdict.by, decided.verdict.signed) == (ANN, key.name)


async def test_a_second_passkey_is_signed_by_the_first_and_belongs_to_the_same_person(site: TeamSite) -> None:
    dora_at, bea = await site.log_in(site.browser(), sub="dora"), await site.log_in(site.browser(), sub="bea")
    first, second, dora = SoftPasskey("first"), SoftPasskey("second"), "dora@corp:http"
    await add_passkey(dora_at, first)
    await add_passkey(dora_at, second)
    waiting = await site.asked_by(dora)
    path = f"/proposals/{waiting.id}"
    await bea.go(path)
    csrf = forms(bea.html)["/logout"]["csrf"]
    await bea.post(f"{path}/reject", {"csrf": csrf, "hash": waiting.hash})
    assert bea.status == 409
    await dora_at.go(path)
    signed = first.assertion(bytes.fromhex(waiting.hash), PUBLIC, rp_id="forge.example.com")
    await dora_at.send(f"{path}/approve", assertion=json.dumps(signed))
    assert (await site.proposal(waiting.id)).state == "executed"
    assert {one.name for one in await site.passkeys_of(dora)} == {"first", "second"}
