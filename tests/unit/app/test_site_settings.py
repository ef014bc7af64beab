"""The settings of the site's sign-in: a combination with which nobody could log in safely is refused (decision 115)."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_server.app.settings.loader import BadSetting, load
from mcp_server.app.settings.sign_in import Issuer, RequiredClaim, browser_origin

GOOD = {
    "FORGE_PUBLIC_URL": "https://Forge.example.com:443/",
    "FORGE_OAUTH_ISSUERS": "corp=https://login.example.com/realms/corp,dev=http://127.0.0.1:4010",
    "FORGE_SITE_CLIENT": "corp=forge site",
    "FORGE_SITE_PEOPLE": "groups=/wiki/reviewers, sub=8f1c=",
}


def test_a_complete_setting_names_issuer_client_secret_and_people(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s3cret\n", encoding="utf-8")
    found = load({}, {**GOOD, "FORGE_SITE_SECRET_FILE": str(tmp_path / "secret")}, cwd=tmp_path)
    access = found.site_access
    assert access is not None
    assert access.url == "https://forge.example.com"
    assert access.issuer == Issuer("corp", "https://login.example.com/realms/corp")
    assert (access.client_id, access.secret) == ("forge site", "s3cret")
    assert access.people == (RequiredClaim("groups", "/wiki/reviewers"), RequiredClaim("sub", "8f1c="))
    assert "s3cret" not in repr(found) + repr(access)
    assert load({}, {}, cwd=tmp_path).site_access is None


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"FORGE_SITE_CLIENT": "other=forge"}, "FORGE_OAUTH_ISSUERS names no sign-in server other; it names corp, dev"),
        ({"FORGE_OAUTH_ISSUERS": ""}, "it names none"),
        ({"FORGE_PUBLIC_URL": ""}, "set FORGE_PUBLIC_URL, too"),
        ({"FORGE_PUBLIC_URL": "http://forge.example.com"}, "FORGE_PUBLIC_URL must begin with https://"),
        ({"FORGE_SITE_CLIENT": "forge"}, "is not NAME=CLIENT_ID"),
        ({"FORGE_SITE_CLIENT": "corp="}, "is not NAME=CLIENT_ID"),
        ({"FORGE_SITE_PEOPLE": "reviewers"}, "is not CLAIM=VALUE"),
        ({"FORGE_SITE_MANAGERS": "groups="}, "is not CLAIM=VALUE"),
        ({"FORGE_SITE_SECRET_FILE": "/nowhere/secret"}, "cannot be read as a key"),
    ],
)
def test_a_setting_with_which_nobody_could_log_in_safely_is_refused(
    tmp_path: Path, change: dict[str, str], problem: str
) -> None:
    with pytest.raises(BadSetting, match=problem.replace("(", r"\(")):
        load({}, {name: text for name, text in {**GOOD, **change}.items() if text}, cwd=tmp_path)


def test_on_this_machine_a_site_without_tls_can_be_tried(tmp_path: Path) -> None:
    found = load(
        {}, {**GOOD, "FORGE_PUBLIC_URL": "http://localhost:9000", "FORGE_SITE_CLIENT": "dev=forge"}, cwd=tmp_path
    )
    assert found.site_access is not None
    assert found.site_access.issuer.name == "dev"


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://A.example.com:443", "https://a.example.com"),
        ("https://a.example.com:8443", "https://a.example.com:8443"),
        ("http://localhost:80", "http://localhost"),
        ("http://[::1]:9000", "http://[::1]:9000"),
    ],
)
def test_an_origin_is_written_as_browsers_write_it(url: str, origin: str) -> None:
    assert browser_origin(url) == origin
