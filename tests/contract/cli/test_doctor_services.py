"""What the doctor reports about Plane and Zulip: each fault with its remedy, and never a key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest
from mcp import Client

from mcp_server.app.composition import open_app
from mcp_server.app.settings.loader import load
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.doctor import doctor, services
from mcp_server.cli.doctor.result import DoctorFinding
from mcp_server.cli.doctor.services import services_examined
from tests.contract.connectors.test_http import Authority, authority
from tests.doubles.plane import MEL, OTTO, WORKSPACE, Plane, seeded
from tests.doubles.serving import Served, html, in_turn, redirected, serving, status
from tests.doubles.zulip import Zulip
from tests.support.knowledge_bases.folders import write
from tests.unit.app.test_service_settings import PLANE, ZULIP

__all__ = ["authority"]
BOT = "Zulip Default Bot"
WRONG = "plane_api_wrong_0123456789"


async def examined(settings: Settings) -> list[DoctorFinding]:
    async def at_once(_seconds: float) -> None:
        """Don't wait between tries."""

    return await services_examined(settings, sleep=at_once)


@dataclass
class Site:
    """Both services on loopback, and how a person would name them."""

    folder: Path
    plane: Plane = field(default_factory=seeded)
    zulip: Zulip = field(default_factory=Zulip)
    served: dict[str, Served] = field(default_factory=dict)

    def environ(self, *services: str) -> dict[str, str]:
        """Return the settings for these services."""
        every = {
            "PLANE_BASE_URL": self.served["plane"].address,
            "PLANE_API_KEY": MEL.key,
            "PLANE_WORKSPACE": WORKSPACE,
            "ZULIP_SITE": self.served["zulip"].address,
            "ZULIP_EMAIL": self.zulip.world.user(BOT).email,
            "ZULIP_API_KEY": self.zulip.world.key_of(BOT),
        }
        return {name: text for name, text in every.items() if name.lower().startswith(services)}

    def settings(self, *services: str, **named: str) -> Settings:
        return load({"kb": self.folder}, {**self.environ(*services), **named}, cwd=self.folder)

    async def findings(self, service: str, **named: str) -> list[DoctorFinding]:
        """Return the report on one configured service."""
        settings = self.settings(service, **named)
        found = [one for one in await examined(settings) if one.what == service]
        secrets = {settings.plane_api_key, settings.zulip_api_key} - {None}
        assert not [secret for secret in secrets if str(secret) in repr(found)]
        return found


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    here = Site(tmp_path)
    with serving(here.plane) as plane, serving(here.zulip) as zulip:
        here.served = {"plane": plane, "zulip": zulip}
        yield here


def told(findings: list[DoctorFinding]) -> list[tuple[str, str]]:
    return [(one.health, one.found) for one in findings]


async def test_unconfigured_services_are_reported_with_their_settings_and_nothing_is_contacted(site: Site) -> None:
    plane, zulip, webhook = await examined(site.settings("nothing"))
    assert (plane.health, plane.found) == ("note", "Plane is not configured, so its tools are not listed")
    assert (zulip.health, zulip.found) == ("note", "Zulip is not configured, so its tools are not listed")
    assert all(name in plane.mend for name in (*PLANE, "forge.toml", "Personal access tokens"))
    assert all(name in zulip.mend for name in (*ZULIP, "ZULIP_CONFIG", "Bots"))
    assert (webhook.found, "FORGE_WEBHOOKS" in webhook.mend) == (
        "Webhook is not configured, so its tools are not listed",
        True,
    )
    assert not site.served["plane"].seen
    assert not site.served["zulip"].seen


async def test_receivers_of_webhooks_are_named_by_their_host_and_not_contacted(site: Site) -> None:
    address = f"{site.served['plane'].address}/5ecr37"
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # noqa: S105 - it signs nothing
    settings = site.settings("nothing", FORGE_WEBHOOKS=f"releases={address} {secret}")
    (found,) = [one for one in await examined(settings) if one.what == "webhook"]
    assert (found.health, found.found) == ("ok", "1 receiver, not contacted: releases (127.0.0.1)")
    assert not site.served["plane"].seen
    missing = replace(settings, webhook_ca=site.folder / "none.pem")
    (found,) = [one for one in await examined(missing) if one.what == "webhook"]
    assert (found.health, found.mend) == ("bad", "correct FORGE_WEBHOOK_CA")


async def test_a_service_without_a_check_is_named(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(cast("dict[str, object]", services.CHECKS), "zulip")
    (found,) = await site.findings("zulip")
    assert (found.health, found.found) == ("note", "it is configured, but this version can't check it")


async def test_half_a_configuration_is_reported_with_the_missing_half(site: Site) -> None:
    settings = replace(site.settings("plane"), plane_workspace=None)
    plane, *_ = await examined(settings)
    assert plane.found.startswith("Plane is not configured completely")
    assert plane.mend.startswith("set PLANE_WORKSPACE, in")


def whole(site: Site, folder: Path) -> Settings:
    """Return settings with both services and a knowledge base of its own."""
    both = site.settings("plane", "zulip", PLANE_PROJECTS="KB")
    return replace(both, kb=write(folder / "kb", {"a.md": "# A\n"}), state_dir=folder / "state")


async def test_the_doctor_reports_both_services(site: Site, tmp_path: Path) -> None:
    found = {one.what: one for one in await doctor.examine(whole(site, tmp_path))}
    assert found["plane"].health == "ok", found["plane"]
    assert found["zulip"].health == "ok", found["zulip"]


async def test_a_server_that_starts_and_lists_its_tools_contacts_neither(site: Site, tmp_path: Path) -> None:
    async with open_app(whole(site, tmp_path), indexing=False) as app, Client(app.server) as client:
        named = {tool.name for tool in (await client.list_tools()).tools}
        assert {"plane_create_task", "zulip_send_message"} <= named
        await client.call_tool("trust_status", {})
    assert not site.served["plane"].seen
    assert not site.served["zulip"].seen


async def test_a_toolset_that_is_left_out_is_reported(site: Site) -> None:
    ok, left_out = await site.findings("plane", FORGE_TOOLSETS="knowledge", PLANE_PROJECTS="KB")
    assert ok.health == "ok"
    assert left_out.mend == "add plane to FORGE_TOOLSETS, or unset it"


@pytest.mark.parametrize(("mode", "notes"), [(0o600, []), (0o640, ["plane", "zulip"]), (0o604, ["plane", "zulip"])])
async def test_a_key_file_that_others_can_read_is_reported(site: Site, mode: int, notes: list[str]) -> None:
    toml, zuliprc = site.folder / "forge.toml", site.folder / "zuliprc"
    plane, zulip = site.environ("plane"), site.environ("zulip")
    lines = [f'{name.lower()} = "{text}"' for name, text in plane.items()]
    toml.write_text("\n".join([*lines, 'plane_projects = "KB"', 'zulip_config = "zuliprc"', ""]), encoding="utf-8")
    api = {"site": zulip["ZULIP_SITE"], "email": zulip["ZULIP_EMAIL"], "key": zulip["ZULIP_API_KEY"]}
    zuliprc.write_text("\n".join(["[api]", *(f"{name}={text}" for name, text in api.items())]), encoding="utf-8")
    for file in (toml, zuliprc):
        file.chmod(mode)
    found = await examined(load({"kb": site.folder}, {"FORGE_CONFIG": str(toml)}, cwd=site.folder))
    assert [one.health for one in found if one.health != "note"] == ["ok", "ok"]
    assert [one.what for one in found if "other accounts can read" in one.found] == notes
    assert all(one.mend.startswith("chmod 600") for one in found if one.health == "note" and one.what != "webhook")


# --- Plane ------------------------------------------------------------------------------------------------------------


async def test_a_working_plane_is_reported_with_the_keys_owner_and_what_it_sees(site: Site) -> None:
    (found,) = await site.findings("plane", PLANE_PROJECTS="KB")
    assert found.health == "ok"
    assert f"workspace {WORKSPACE}: the key belongs to mel (member@example.com)" in found.found
    assert found.found.endswith("who sees 2 projects")
    reading = await site.findings("plane", PLANE_PROJECTS="KB", PLANE_READ_ONLY="true")
    assert reading[0].found.endswith("only tools that read are listed")


@pytest.mark.parametrize(
    ("named", "found", "mend"),
    [
        ({"PLANE_API_KEY": WRONG}, "refuses the key (403", "personal access token that is still valid"),
        ({"PLANE_WORKSPACE": "nowhere"}, "refuses the key (403", "there is no workspace nowhere"),
        ({"PLANE_API_KEY": OTTO.key}, "refuses the key (403", f"there is no workspace {WORKSPACE}"),
        ({"PLANE_BASE_URL": "http://127.0.0.1:1"}, "cannot be reached: nothing listens there", "PLANE_BASE_URL"),
        ({"PLANE_BASE_URL": "https://no-such-host.invalid"}, "cannot be reached", "PLANE_BASE_URL"),
        ({"PLANE_PROJECTS": "KB,Kitchen"}, "PLANE_PROJECTS: no project 'Kitchen' in Plane", "correct PLANE_PROJECTS"),
    ],
)
async def test_each_fault_of_plane_has_its_way_out(site: Site, named: dict[str, str], found: str, mend: str) -> None:
    bad = [one for one in await site.findings("plane", **named) if one.health == "bad"]
    assert len(bad) == 1, bad
    assert found in bad[0].found
    assert mend in bad[0].mend
    assert WRONG not in repr(bad)


async def test_an_address_without_tls_or_without_plane_is_reported_as_such(site: Site) -> None:
    secure = site.served["plane"].address.replace("http://", "https://")
    (no_tls,) = await site.findings("plane", PLANE_BASE_URL=secure)
    assert (no_tls.health, "TLS" in no_tls.found) == ("bad", True)
    (other,) = await site.findings("plane", PLANE_BASE_URL=site.served["zulip"].address)
    assert other.health == "bad"
    for plan in (in_turn(html()), in_turn(redirected("https://elsewhere.example.com/login"))):
        site.served["plane"].plan = plan
        (odd,) = await site.findings("plane")
        assert odd.health == "bad"
        assert "PLANE_BASE_URL" in f"{odd.found} {odd.mend}"


async def test_a_private_authoritys_certificate_is_reported_with_its_setting(site: Site, authority: Authority) -> None:
    certificate = authority.certificate("127.0.0.1")
    with serving(site.plane, certificate=certificate) as plane, serving(site.zulip, certificate=certificate) as zulip:
        site.served = {"plane": plane, "zulip": zulip}
        for service, setting in (("plane", "PLANE_CA"), ("zulip", "ZULIP_CERT_BUNDLE")):
            (bad,) = await site.findings(service)
            assert bad.health == "bad"
            assert "its certificate: " in bad.found
            assert setting in bad.found
            (ok, *_) = await site.findings(service, **{setting: str(authority.file)})
            assert ok.health == "ok", ok


async def test_a_certificate_file_that_cannot_be_read_is_named(site: Site) -> None:
    (bad,) = await site.findings("plane", PLANE_CA=str(site.folder / "none.pem"))
    assert (bad.health, "PLANE_CA" in bad.found) == ("bad", True)


async def test_too_many_requests_are_no_fault_of_the_settings(site: Site) -> None:
    site.served["plane"].plan = lambda _method, _path, _number: status(429, {"retry-after": "30"})
    (found,) = await site.findings("plane")
    assert (found.health, found.mend) == ("note", "try again in 30 s")


async def test_visible_but_unreadable_projects_are_reported_unless_left_out(site: Site) -> None:
    """A project that is public to its workspace is listed for all, and its tasks are refused to all but its members."""
    _, strange = await site.findings("plane")
    assert (strange.health, "is not a member of OPS:" in strange.found) == ("note", True)
    assert len(await site.findings("plane", PLANE_PROJECTS="kb")) == 1


async def test_a_key_that_sees_no_project_is_reported(site: Site) -> None:
    site.plane.projects.clear()
    _, empty = await site.findings("plane")
    assert (empty.health, empty.found) == ("note", "the key sees no project")


async def test_a_key_sent_unencrypted_is_reported(site: Site) -> None:
    from mcp_server.cli.doctor.result import unencrypted

    (note,) = unencrypted("plane", "http://plane.example.com", "PLANE_BASE_URL")
    assert (note.health, note.mend) == ("note", "use https")
    assert not list(unencrypted("plane", site.served["plane"].address, "PLANE_BASE_URL"))


# --- Zulip ------------------------------------------------------------------------------------------------------------


async def test_a_working_zulip_is_reported_with_its_version_its_bot_and_what_the_bot_sees(site: Site) -> None:
    (found,) = await site.findings("zulip", ZULIP_CHANNELS="design,direct")
    assert found.health == "ok"
    for part in ("feature level 247", f"the key belongs to the bot {BOT} (default-bot@zulip.com)", "channels"):
        assert part in found.found


async def test_a_persons_own_key_is_reported(site: Site) -> None:
    hamlet = site.zulip.world.user("King Hamlet")
    named = {"ZULIP_EMAIL": hamlet.email, "ZULIP_API_KEY": hamlet.key}
    findings = await site.findings("zulip", **named)
    assert ("note", "the key is a person's own: everything is sent in their name") in told(findings)


@pytest.mark.parametrize(
    ("named", "found", "mend"),
    [
        ({"ZULIP_API_KEY": "x" * 32}, "refuses the key (401", "ZULIP_EMAIL and ZULIP_API_KEY"),
        ({"ZULIP_EMAIL": "nobody@example.com"}, "refuses the key (401", "ZULIP_EMAIL and ZULIP_API_KEY"),
        ({"ZULIP_SITE": "http://127.0.0.1:1"}, "cannot be reached: nothing listens there", "ZULIP_SITE"),
        ({"ZULIP_CHANNELS": "design,kitchen"}, "ZULIP_CHANNELS: no channel 'kitchen' in Zulip", "ZULIP_CHANNELS"),
        ({"ZULIP_CHANNELS": "desig"}, "ZULIP_CHANNELS: no channel 'desig' in Zulip; there are design", "correct"),
        ({"ZULIP_REVIEWS": "desing/forge"}, "ZULIP_REVIEWS: no channel 'desing' in Zulip; there are design", "correct"),
        ({"ZULIP_CHANNELS": "core team"}, "ZULIP_CHANNELS: no channel 'core team'", "subscribe the bot"),
        ({"ZULIP_REVIEWS": "kitchen/forge"}, "ZULIP_REVIEWS: no channel 'kitchen'", "correct ZULIP_REVIEWS"),
    ],
)
async def test_each_fault_of_zulip_has_its_way_out(site: Site, named: dict[str, str], found: str, mend: str) -> None:
    bad = [one for one in await site.findings("zulip", **named) if one.health == "bad"]
    assert len(bad) == 1, bad
    assert found in bad[0].found
    assert mend in bad[0].mend


async def test_a_notice_channel_with_restricted_posting_is_reported(site: Site) -> None:
    fine = await site.findings("zulip", ZULIP_REVIEWS="design/forge")
    assert [one.health for one in fine] == ["ok"]
    findings = await site.findings("zulip", ZULIP_REVIEWS="announce/forge")
    assert ("note", "not everybody may post in #announce, where notices of proposals go") in told(findings)


HIDDEN = "; where Zulip hides addresses from bots, list the user's id or name"


async def test_reviewers_whose_reaction_would_decide_nothing_are_reported_one_by_one(site: Site) -> None:
    world = site.zulip.world
    world.person("Ann", "ann@example.com")
    world.person("Gone", "gone@example.com", active=False)
    world.person("Twin", "one@example.com")
    twin = world.person("Twin", "two@example.com").id
    reviewers = (
        "Ann@example.com,gone@example.com,nobody@example.com,default-bot@zulip.com,webhook-bot@zulip.com,"
        f"Yorick,Twin,Twin|{twin},{twin}"
    )
    settings: dict[str, Any] = {"ZULIP_REVIEWS": "design/forge", "ZULIP_REVIEWERS": reviewers}
    bad = [one.found for one in await site.findings("zulip", **settings) if one.health == "bad"]
    assert bad == [
        "ZULIP_REVIEWERS: gone@example.com is deactivated",
        f"ZULIP_REVIEWERS: nobody that the bot sees has the address nobody@example.com{HIDDEN}",
        "ZULIP_REVIEWERS: default-bot@zulip.com is the account that the server itself uses",
        "ZULIP_REVIEWERS: webhook-bot@zulip.com is a bot, and only people decide",
        "ZULIP_REVIEWERS: nobody that the bot sees has the name or id Yorick",
        "ZULIP_REVIEWERS: 2 accounts have the name or id Twin, so none decides",
    ]
    settings["ZULIP_REVIEWERS"] = "ann"
    notes = [one for one in await site.findings("zulip", **settings) if one.health == "note"]
    assert "anybody who takes that name in Zulip later could decide" in notes[0].found
    assert notes[0].mend == f"write Ann|{world.user('Ann').id}"


async def test_a_services_own_text_does_nothing_in_a_terminal(site: Site) -> None:
    bot = site.zulip.world.user(BOT)
    settings = site.settings("zulip")
    bot.name = bot.record["full_name"] = "Bot\x1b[2J\u202e"
    found = next(one for one in await examined(settings) if one.what == "zulip")
    assert "\x1b" not in found.found
    assert "\u202e" not in found.found
    assert "U+202E" in found.found
