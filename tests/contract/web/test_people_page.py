"""The page of people: a team gets from nothing to running by it alone, and it takes what a change of trust takes."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from knowledge.access.changes import Changing
from knowledge.access.directory import DirectoryEntry
from knowledge.access.rules import Right
from knowledge.trust.ports import Note
from mcp_server.app.knowledge_base import utc_now
from mcp_server.approvals.approvers import Approver
from mcp_server.gate.host_registration import RefusedToken, digest
from mcp_server.gate.trust.reconcile import unaccounted
from mcp_server.gate.trust.scores import freeze
from tests.support.state.decisions import passkey
from tests.support.state.ledgers import NOW
from tests.support.web.review_pages import ME, PAGE, Place, Visitor, forms, kept, shown

LINK = re.compile(r'value="http://localhost:\d+(/login/[A-Za-z0-9_-]{43})"')
SECRET = re.compile(r'value="(kf_[0-9a-f]{12}_[A-Za-z0-9_-]{43})"')
HOSTILE = '"><script>alert(1)</script>\u202e'


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with kept(tmp_path) as opened:
        yield opened


async def entries(place: Place) -> dict[str, tuple[str, ...]]:
    directory = await place.app.base.state.people.directory()
    return {one.label: one.names for one in directory.entries}


async def post(visitor: Visitor, address: str, **fields: str) -> str:
    """Send a form of the page, whichever of those with that address."""
    csrf = forms(await visitor.look("/people"))["/logout"]["csrf"]
    return await visitor.post(address, {"csrf": csrf, **fields})


async def test_a_team_of_three_gets_from_nothing_to_running_by_the_page_alone(tmp_path: Path) -> None:
    async with shown(tmp_path, http_url="https://forge.example.com/mcp") as place:
        owner = await place.visitor()
        assert "Nobody yet" in await owner.look("/people")
        assert 'href="/people"' in owner.html
        await owner.send("/people/add", name="ada", principals=f"{ME}@*")
        for name in ("ann", "bob"):
            await owner.look("/people")
            await post(owner, "/people/add", name=name, principals="")
        html = await post(owner, "/people/token", name="ann", level="3", days="30")
        found = SECRET.search(html)
        assert found is not None
        assert "https://forge.example.com/mcp" in html
        assert (await place.app.callers.named(found[1])).id == "ann@token:http"
        assert found[1] not in await owner.look("/people")
        assert found[1][3:15] in owner.html
        for name in ("ann", "bob"):
            await post(owner, "/people/group", name="@editors", person=name)
        await post(owner, "/people/reviewers", folder="guides/", who="@editors")
        await post(owner, "/people/reviewers", folder="Guides", who="ada")
        assert await entries(place) == {
            "person ada": (f"{ME}@*",),
            "person ann": ("ann@token:http",),
            "person bob": ("bob@token:http",),
            "group @editors": ("ann", "bob"),
            "reviewers of guides/": ("@editors", "ada"),
        }
        assert await unaccounted(place.app.base.state) == []
        waiting, bob = await place.propose(), await logged_in(place, owner, "bob")
        await bob.look(f"/proposals/{waiting.id}")
        await bob.send(f"/proposals/{waiting.id}/approve")
        done = await place.proposal(waiting.id)
        assert done.verdict is not None
        assert (done.state, done.verdict.by, done.verdict.channel) == ("executed", "bob@token:http", "page")


async def logged_in(place: Place, owner: Visitor, name: str) -> Visitor:
    """Return the browser of a person who opened the login link that the owner made for them."""
    found = LINK.search(await post(owner, "/people/login", name=name))
    assert found is not None
    visitor = await place.visitor(logged_in=False)
    await visitor.look(found[1])
    await visitor.send("/login")
    assert visitor.status == 200
    return visitor


async def test_a_login_link_of_a_person_reads_and_reviews_once_and_as_long_as_they_are_on_record(place: Place) -> None:
    owner, state = await place.visitor(), place.app.base.state
    for name in ("ann", "bob", "eve"):
        await post(owner, "/people/add", name=name, principals="" if name != "eve" else "eve@corp:http")
    await post(owner, "/people/reviewers", folder="guides", who="ann")
    assert "no login link can be made for" in await post(owner, "/people/login", name="eve")
    link = LINK.search(await post(owner, "/people/login", name="bob"))
    assert link is not None
    bob, stranger = await place.visitor(logged_in=False), await place.visitor(logged_in=False)
    await bob.look(link[1])
    await bob.send("/login")
    await stranger.look(link[1])
    assert stranger.status == 404
    for address in ("/people", "/trust", "/state"):
        await bob.look(address)
        assert bob.status == 403
        assert f'href="{address}"' not in bob.html
    await bob.post("/people/add", {"csrf": forms(await bob.look("/"))["/logout"]["csrf"], "name": "mallory"})
    assert (bob.status, "person mallory" in await entries(place)) == (403, False)
    waiting = await place.propose()
    assert "where only ann can decide" in await bob.look(f"/proposals/{waiting.id}")
    await freeze(state, "bob@token:http", by="ada", now=utc_now(), reason="lost a laptop")
    await bob.look("/")
    assert bob.status == 404
    ann = await logged_in(place, owner, "ann")
    await post(owner, "/people/reviewers/remove", folder="guides")
    await post(owner, "/people/remove", name="ann")
    await ann.look("/")
    assert ann.status == 404


async def test_everything_on_the_page_can_be_taken_back(place: Place) -> None:
    owner = await place.visitor()
    await post(owner, "/people/add", name="ann", principals="ann@token:http 8f1c@corp:http")
    await post(owner, "/people/add", name="bob", principals="")
    secret = SECRET.search(await post(owner, "/people/token", name="ann", level="1", days="1"))
    await post(owner, "/people/group", name="all", person="ann")
    for who in ("@all", "bob"):
        await post(owner, "/people/reviewers", folder="", who=who)
    await post(owner, "/people/remove", name="ann", principal="8f1c@corp:http")
    await post(owner, "/people/group/leave", name="all", person="ann")
    await post(owner, "/people/reviewers", folder="guides", who="@all")
    assert "only the owner can decide here" in await owner.look("/people")
    await post(owner, "/people/reviewers/remove", folder="guides")
    await post(owner, "/people/reviewers/remove", folder="", who="@all")
    assert (await entries(place))["reviewers of /"] == ("bob",)
    assert "only the owner can decide here" not in await owner.look("/people")
    assert "only reviewer of /" in await post(owner, "/people/reviewers/remove", folder="", who="bob")
    await post(owner, "/people/reviewers/remove", folder="")
    await post(owner, "/people/group/leave", name="all")
    assert await entries(place) == {"person ann": ("ann@token:http",), "person bob": ("bob@token:http",)}
    assert secret is not None
    await post(owner, "/people/token/revoke", id=secret[1][3:15])
    with pytest.raises(RefusedToken, match="revoked"):
        await place.app.callers.named(secret[1])
    await post(owner, "/people/remove", name="ann")
    assert list(await entries(place)) == ["person bob"]


async def test_rules_of_a_folder_are_set_and_removed_on_the_page(place: Place) -> None:
    owner = await place.visitor()
    await post(owner, "/people/add", name="ann", principals="")
    await post(owner, "/people/rules", folder="hr/", who="ann", right="write")
    await post(owner, "/people/rules", folder="", who="*", right="read")
    assert "read and write, as far as they are trusted" in await owner.look("/people")
    access = (await place.app.base.state.people.directory()).access_of("ann@token:http")
    assert (access.right("hr/a.md"), access.right("a.md")) == (Right.WRITE, Right.READ)
    await post(owner, "/people/rules/remove", folder="hr", who="ann")
    assert (await entries(place)).keys() == {"person ann", "rule * in /"}


async def test_a_rule_hides_pages_from_a_person_on_the_site_with_the_next_request(place: Place) -> None:
    owner = await place.visitor()
    for name in ("ann", "bob"):
        await post(owner, "/people/add", name=name, principals="")
    ann, bob = [await logged_in(place, owner, name) for name in ("ann", "bob")]
    assert "forty" in await bob.look(f"/page?path={PAGE}")
    await post(owner, "/people/rules", folder="guides", who="ann", right="write")
    assert "forty" not in await bob.look(f"/page?path={PAGE}")
    assert bob.status == 404
    assert "guides" not in await bob.look("/pages")
    assert "forty" in await ann.look(f"/page?path={PAGE}")
    assert "forty" in await owner.look(f"/page?path={PAGE}")
    bob = await logged_in(place, owner, "bob")
    await bob.look("/audit")
    assert bob.status == 403
    await post(owner, "/people/rules", folder="guides", who="*", right="read")
    assert "forty" in await bob.look(f"/page?path={PAGE}")
    assert "Audit" in await bob.look("/audit")


async def test_with_a_passkey_nothing_changes_before_it_signs(place: Place) -> None:
    owner, trust = await place.visitor(), place.app.base.state.trust
    await post(owner, "/people/add", name="ann", principals="")
    await trust.add_passkey(passkey(), note=Note("ann", "passkey.add", "blue key", utc_now()))
    before = await entries(place)
    for address, fields in (
        ("/people/add", {"name": "eve", "principals": ""}),
        ("/people/remove", {"name": "ann"}),
        ("/people/group", {"name": "all", "person": "ann"}),
        ("/people/reviewers", {"folder": "", "who": "ann"}),
    ):
        assert "Sign and approve" in await post(owner, address, **fields)
    assert await entries(place) == before
    link = LINK.search(await post(owner, "/people/login", name="ann"))
    assert link is not None
    await (await place.visitor(logged_in=False)).look(link[1])
    assert (
        await place.app.base.state.trust.secret(digest(link[1].removeprefix("/login/")), "login", now=utc_now())
    ) is None
    html = await post(owner, "/people/token", name="ann", level="3", days="30")
    assert "Not valid yet" in html
    secret = SECRET.search(html)
    assert secret is not None
    with pytest.raises(RefusedToken):
        await place.app.callers.named(secret[1])
    waiting = next(one for one in await trust.lines(states=("pending",)) if one.tool == "token.create")
    assert secret[1] not in str(await trust.proposal(waiting.id))
    await place.app.approvals.approve(waiting.id, waiting.hash, Approver(ME, "page", signed="blue key"))
    assert (await place.app.callers.named(secret[1])).id == "ann@token:http"


REFUSED = (
    ("/people/add", {"name": HOSTILE}, "cannot be the name of a person"),
    ("/people/add", {"name": "ann", "principals": HOSTILE}, "is no principal"),
    ("/people/group", {"name": HOSTILE, "person": "ann"}, "there is no person"),
    ("/people/group", {"name": HOSTILE}, "cannot be the name of a group"),
    ("/people/reviewers", {"folder": HOSTILE, "who": "ann"}, "control or bidirectional"),
    ("/people/reviewers", {"folder": "../x", "who": "ann"}, "would leave it"),
    ("/people/reviewers", {"folder": "x", "who": HOSTILE}, "there is no person"),
    ("/people/rules", {"folder": "x", "who": HOSTILE, "right": "read"}, "there is no person"),
    ("/people/rules", {"folder": "x", "who": "*", "right": "all"}, "is no right"),
    ("/people/rules", {"folder": HOSTILE, "who": "*", "right": "read"}, "control or bidirectional"),
    ("/people/token", {"name": HOSTILE, "level": "3", "days": "3"}, "cannot be the name of a person"),
    ("/people/token", {"name": "ann", "level": "3", "days": "3"}, "is not a principal of ann"),
)


async def test_what_cannot_be_is_refused_in_one_sentence_without_an_effect(place: Place) -> None:
    owner = await place.visitor()
    for address, fields, says in REFUSED:
        html = await post(owner, address, **fields)
        assert (owner.status, says in html, "<script>alert" in html) == (409, True, False), html
    assert await entries(place) == {}
    assert await place.app.base.state.trust.tokens() == []


async def test_names_from_a_state_that_somebody_edited_are_shown_and_never_obeyed(place: Place) -> None:
    state = place.app.base.state
    await state.people.change(
        Changing("ada", NOW).person_added("ann", ["ann@token:http"]), note=Note("ada", "person.add", "", NOW)
    )
    insert = (
        "INSERT INTO forge.directory (kind, who, folder, names, changed_by, changed_at) VALUES (%s, %s, %s, %s, %s, %s)"
    )
    names = '["\\"><script>alert(1)</script>"]'
    for entry in (
        DirectoryEntry("person", HOSTILE, "", (), HOSTILE, NOW),
        DirectoryEntry("group", HOSTILE, "", (), HOSTILE, NOW),
        DirectoryEntry("reviewers", "", HOSTILE, (), HOSTILE, NOW),
        DirectoryEntry("rule", HOSTILE, "hr", (), HOSTILE, NOW),
    ):
        await state.tables.write((insert, (*entry.key, names, entry.by, entry.at)))
    await state.publish("people", ["by hand"])
    owner = await place.visitor()
    html = await owner.look("/people")
    in_forms = re.compile('value="[^"]*"')  # what a form sends back must be what is stored
    assert (owner.status, "<script>alert" in html, "\u202e" in in_forms.sub("", html)) == (200, False, False)
    assert "ann@token:http" in html


async def test_a_form_without_its_session_does_nothing(place: Place) -> None:
    owner = await place.visitor()
    await owner.post("/people/add", {"name": "eve", "principals": "", "csrf": "guess"})
    assert (owner.status, await entries(place)) == (403, {})
    stranger = await place.visitor(logged_in=False)
    await stranger.post("/people/add", {"name": "eve"})
    assert (stranger.status, await entries(place)) == (404, {})
