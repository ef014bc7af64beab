"""How a person configures Plane and Zulip: in the environment, in `forge.toml`, in a zuliprc, in part, or wrongly.

No key is ever shown.
"""

from __future__ import annotations

import inspect
import re
import traceback
from importlib import import_module
from pathlib import Path

import pytest

from knowledge.pages import claim_source
from mcp_server.app.composition import listed
from mcp_server.app.settings.loader import BadSetting, load
from mcp_server.app.settings.reference_pages import settings_page
from mcp_server.app.settings.services import SERVICE_VARIABLES, PlaneAccess, WebhookAccess, WebhookTarget, ZulipAccess
from mcp_server.app.settings.settings import VARIABLES, Settings

KEY = "plane_api_0123456789abcdef"
ZULIP_KEY = "Zq8sW1pLkey0123456789abcdefghij"
PLANE = {"PLANE_BASE_URL": "https://plane.example.com", "PLANE_API_KEY": KEY, "PLANE_WORKSPACE": "acme"}
ZULIP = {"ZULIP_SITE": "https://chat.example.com", "ZULIP_EMAIL": "forge-bot@example.com", "ZULIP_API_KEY": ZULIP_KEY}
ZULIPRC = f"[api]\nemail=forge-bot@example.com\nkey={ZULIP_KEY}\nsite=https://chat.example.com\n"
LIMITS = {
    "PLANE_PROJECTS": "KB, Web shop ,KB",
    "PLANE_READ_ONLY": "true",
    "PLANE_CA": "/etc/plane.pem",
    "ZULIP_CHANNELS": "#design, general,direct",
    "ZULIP_READ_ONLY": "yes",
    "ZULIP_CERT_BUNDLE": "/etc/zulip.pem",
}


@pytest.fixture
def given(tmp_path: Path) -> Given:
    return Given(tmp_path)


class Given:
    """A person's configuration, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def zuliprc(self, text: str = ZULIPRC) -> str:
        file = self.folder / "zuliprc"
        file.write_text(text, encoding="utf-8")
        return str(file)

    def settings(self, environ: dict[str, str], toml: str = "", **flags: object) -> Settings:
        (self.folder / "forge.toml").write_text(toml, encoding="utf-8")
        named = {"FORGE_CONFIG": str(self.folder / "forge.toml")}
        return load({"kb": self.folder, **flags}, {**named, **environ}, cwd=self.folder)

    def refused(self, environ: dict[str, str], toml: str = "") -> str:
        """Return everything that could be shown of a refusal, causes included."""
        with pytest.raises(BadSetting) as caught:
            self.settings(environ, toml)
        return "".join(traceback.format_exception(caught.value))


def services(settings: Settings) -> set[str]:
    return {spec.toolset for spec in listed(settings)} & {"plane", "zulip"}


def test_without_a_word_about_them_neither_is_reached_listed_or_mentioned(given: Given) -> None:
    settings = given.settings({})
    assert (settings.plane, settings.zulip, services(settings), settings.notes) == (None, None, set(), ())


def test_three_variables_are_enough_for_each(given: Given) -> None:
    settings = given.settings({**PLANE, **ZULIP})
    assert settings.plane == PlaneAccess("https://plane.example.com", KEY, "acme")
    assert settings.zulip == ZulipAccess("https://chat.example.com", "forge-bot@example.com", ZULIP_KEY)
    assert services(settings) == {"plane", "zulip"}
    assert settings.notes == ()


def test_the_file_has_the_same_keys_and_the_environment_wins(given: Given) -> None:
    toml = (
        f'plane_base_url = "https://old.example.com"\nplane_api_key = "{KEY}"\nplane_workspace = "acme"\n'
        'plane_projects = ["KB", "Web shop"]\nplane_read_only = true\nplane_ca = "certificates.pem"\n'
        f'zulip_config = "{Path(given.zuliprc()).name}"\nzulip_channels = ["#design"]\nzulip_reviews = "team/reviews"\n'
        'zulip_reviewers = ["Ann@Example.com", "28", "@**King Hamlet|28**"]\npublic_url = "https://forge.example.com/"\n'
    )
    settings = given.settings({"PLANE_BASE_URL": "https://plane.example.com/"}, toml)
    assert settings.plane == PlaneAccess(
        "https://plane.example.com",
        KEY,
        "acme",
        projects=("KB", "Web shop"),
        read_only=True,
        ca=given.folder / "certificates.pem",
    )
    assert settings.zulip == ZulipAccess(
        "https://chat.example.com",
        "forge-bot@example.com",
        ZULIP_KEY,
        channels=("design",),
        reviews=("team", "reviews"),
        reviewers=("ann@example.com", "28", "King Hamlet|28"),
        review_page="https://forge.example.com",
    )


def test_every_limit_reaches_the_service_that_it_is_for(given: Given) -> None:
    settings = given.settings({**PLANE, **ZULIP, **LIMITS})
    assert settings.plane is not None
    assert settings.plane.projects == ("KB", "Web shop")
    assert (settings.plane.read_only, settings.plane.ca) == (True, Path("/etc/plane.pem"))
    assert settings.zulip is not None
    assert settings.zulip.channels == ("design", "general", "direct")
    assert (settings.zulip.read_only, settings.zulip.ca) == (True, Path("/etc/zulip.pem"))


@pytest.mark.parametrize("missing", [*PLANE, *ZULIP])
def test_half_a_configuration_lists_no_tool_and_names_what_is_missing(given: Given, missing: str) -> None:
    environ = {name: text for name, text in {**PLANE, **ZULIP}.items() if name != missing}
    settings = given.settings(environ)
    service = missing.partition("_")[0].lower()
    assert services(settings) == {"plane", "zulip"} - {service}
    assert settings.notes == (f"{service.title()} is not configured: {missing} is not set",)


def test_several_missing_ones_are_named_together(given: Given) -> None:
    settings = given.settings({"PLANE_API_KEY": KEY})
    assert settings.notes == ("Plane is not configured: PLANE_BASE_URL and PLANE_WORKSPACE are not set",)


def test_a_toolset_that_cannot_have_tools_is_said_to_have_none(given: Given) -> None:
    settings = given.settings({}, toolsets="plane,zulip")
    assert settings.notes == (
        "the toolset plane has no tools here: set PLANE_BASE_URL, PLANE_API_KEY and PLANE_WORKSPACE",
        "the toolset zulip has no tools here: set ZULIP_SITE, ZULIP_EMAIL and ZULIP_API_KEY",
    )
    assert given.settings({**PLANE}, toolsets="plane").notes == ()


@pytest.mark.parametrize(
    ("environ", "reading", "writing"),
    [
        ({"PLANE_READ_ONLY": "true"}, {"plane", "zulip"}, {"zulip"}),
        ({"ZULIP_READ_ONLY": "true"}, {"plane", "zulip"}, {"plane"}),
        ({"FORGE_READ_ONLY": "true"}, {"plane", "zulip"}, set()),
    ],
)
def test_read_only_holds_for_one_service_or_for_all(
    given: Given, environ: dict[str, str], reading: set[str], writing: set[str]
) -> None:
    settings = given.settings({**PLANE, **ZULIP, **environ})
    told = [spec for spec in listed(settings) if spec.toolset in ("plane", "zulip")]
    assert {spec.toolset for spec in told if spec.read_only} == reading
    assert {spec.toolset for spec in told if not spec.read_only} == writing


# --- the zuliprc ------------------------------------------------------------------------------------------------------


def test_a_zuliprc_suffices_and_separate_settings_override_it(given: Given) -> None:
    settings = given.settings({"ZULIP_CONFIG": given.zuliprc(), "ZULIP_EMAIL": "other@example.com"})
    assert settings.zulip == ZulipAccess("https://chat.example.com", "other@example.com", ZULIP_KEY)


def test_a_zuliprc_that_an_editor_began_with_a_mark_of_its_encoding_is_read(given: Given) -> None:
    settings = given.settings({"ZULIP_CONFIG": given.zuliprc(f"\ufeff{ZULIPRC}")})
    assert settings.zulip is not None


def test_its_certificates_are_found_beside_it(given: Given) -> None:
    settings = given.settings({"ZULIP_CONFIG": given.zuliprc(f"{ZULIPRC}cert_bundle=ours.pem\ninsecure=false\n")})
    assert settings.zulip is not None
    assert settings.zulip.ca == given.folder / "ours.pem"


@pytest.mark.parametrize("site", ["chat.example.com", "https://chat.example.com/", "https://chat.example.com/api/v1"])
def test_a_site_may_be_written_as_the_vendors_own_programs_take_it(given: Given, site: str) -> None:
    for settings in (
        given.settings({**ZULIP, "ZULIP_SITE": site}),
        given.settings({"ZULIP_CONFIG": given.zuliprc(ZULIPRC.replace("https://chat.example.com", site))}),
    ):
        assert settings.zulip_site == "https://chat.example.com"
    assert given.settings({**ZULIP, "ZULIP_SITE": "localhost:9991"}).zulip_site == "http://localhost:9991"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f"key={ZULIP_KEY}\n", "it is not a zuliprc"),
        (f"[other]\nkey={ZULIP_KEY}\n", "it is not a zuliprc"),
        (f"[api]\nkey={ZULIP_KEY}\nkey={ZULIP_KEY}\n", "it is not a zuliprc"),
        (f"{ZULIPRC}insecure=true\n", "insecure=true is not supported"),
        (f"{ZULIPRC}client_cert=mine.pem\n", "client_cert is not supported"),
        (
            f"[api]\nemail={ZULIP_KEY}\nkey=forge-bot@example.com\nsite=https://chat.example.com\n",
            "not an e-mail address",
        ),
        (ZULIPRC.replace("https://", f"https://bot:{ZULIP_KEY}@"), "put the key into ZULIP_API_KEY"),
    ],
)
def test_an_unusable_zuliprc_is_named_and_its_contents_are_not_repeated(given: Given, text: str, says: str) -> None:
    shown = given.refused({"ZULIP_CONFIG": given.zuliprc(text)})
    assert f"ZULIP_CONFIG ({given.folder / 'zuliprc'})" in shown
    assert says in shown
    assert ZULIP_KEY not in shown


def test_one_that_is_not_there_or_no_text_is_named(given: Given) -> None:
    assert "ZULIP_CONFIG" in given.refused({"ZULIP_CONFIG": str(given.folder / "none")})
    (given.folder / "odd").write_bytes(b"\xff\xfe[\x00a")
    assert "it is not text" in given.refused({"ZULIP_CONFIG": str(given.folder / "odd")})


# --- wrong settings ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("PLANE_BASE_URL", "plane.example.com", "it is not like https://api.plane.so"),
        ("PLANE_BASE_URL", "ftp://plane.example.com", "it is not like"),
        ("PLANE_BASE_URL", f"https://x:{KEY}@plane.example.com", "put the key into PLANE_API_KEY"),
        ("PLANE_BASE_URL", f"https://plane.example.com/?key={KEY}", "it is not like"),
        ("PLANE_API_KEY", f"{KEY} {KEY}", "characters that a key can't have"),
        ("PLANE_API_KEY", f"{KEY}\r\nX-Injected: 1", "characters that a key can't have"),
        ("PLANE_API_KEY", f"{KEY}é", "characters that a key can't have"),
        ("PLANE_WORKSPACE", f"https://app.plane.so/{KEY}", "it is not a workspace"),
        ("PLANE_WORKSPACE", "../admin", "it is not a workspace"),
        ("PLANE_PROJECTS", " , ", "it is empty"),
        ("PLANE_READ_ONLY", "perhaps", "neither true nor false"),
        ("ZULIP_SITE", f"https://bot:{ZULIP_KEY}@chat.example.com", "put the key into ZULIP_API_KEY"),
        ("ZULIP_SITE", "https://", "it is not like"),
        ("ZULIP_EMAIL", ZULIP_KEY, "it is not an e-mail address"),
        ("ZULIP_API_KEY", f"{ZULIP_KEY}\n[api]", "characters that a key can't have"),
        ("ZULIP_CHANNELS", "#", "it is empty"),
        ("ZULIP_REVIEWS", "reviews", "it is not CHANNEL/TOPIC"),
        ("ZULIP_REVIEWS", "team/", "it is not CHANNEL/TOPIC"),
        ("ZULIP_REVIEWERS", f"ann@example.com,{ZULIP_KEY}", "it is not an e-mail address"),
    ],
)
def test_a_value_that_cannot_be_used_stops_the_start_and_is_not_repeated(
    given: Given, name: str, text: str, says: str
) -> None:
    """Sooner or later a key ends up in the wrong variable; then it must not also end up in a log."""
    shown = given.refused({**PLANE, **ZULIP, name: text})
    assert f"{name} (environment): " in shown
    assert says in shown
    assert KEY not in shown
    assert ZULIP_KEY not in shown


def test_an_address_may_end_as_the_vendors_examples_do(given: Given) -> None:
    for written in ("https://api.plane.so/", "https://api.plane.so/api/v1/", "https://api.plane.so/api"):
        assert given.settings({**PLANE, "PLANE_BASE_URL": written}).plane_base_url == "https://api.plane.so"


def test_a_topic_may_have_slashes_and_a_channel_its_mark(given: Given) -> None:
    settings = given.settings({**ZULIP, "ZULIP_REVIEWS": "#team / reviews/forge"})
    assert settings.zulip_reviews == ("team", "reviews/forge")


# --- webhooks ---------------------------------------------------------------------------------------------------------

SIGNING = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
HOOK = "https://hooks.example.com/T0/forge/?token=5ecr37"


def test_receivers_of_webhooks_are_named_in_one_setting_and_nothing_private_is_printed(given: Given) -> None:
    text = f"releases={HOOK} {SIGNING} {SIGNING}AAAA, local=http://127.0.0.1:9000 {SIGNING}"
    settings = given.settings({"FORGE_WEBHOOKS": text, "FORGE_WEBHOOK_CA": "/etc/hooks.pem"})
    assert settings.webhook == WebhookAccess(
        (
            WebhookTarget("releases", HOOK, (SIGNING, f"{SIGNING}AAAA")),
            WebhookTarget("local", "http://127.0.0.1:9000", (SIGNING,)),
        ),
        ca=Path("/etc/hooks.pem"),
    )
    assert [spec.name for spec in listed(settings) if spec.toolset == "webhook"] == ["webhook_send"]
    assert not re.search("whsec_|5ecr37|T0", f"{settings!r} {settings.webhook!r} {settings.notes}")
    toml = f'webhooks = ["releases={HOOK} {SIGNING}"]\n'
    assert given.settings({}, toml).webhook == WebhookAccess((WebhookTarget("releases", HOOK, (SIGNING,)),))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f"{HOOK} {SIGNING}", "it is not a list of NAME=URL SECRET"),
        (f"releases=hooks.example.com {SIGNING}", "it is not like https://hooks.example.com/forge"),
        (f"releases=http://hooks.example.com {SIGNING}", "the address of releases begins with http; use https"),
        (f"releases=http://localhost.example.com {SIGNING}", "begins with http; use https"),
        (f"releases=https://x:{SIGNING}@hooks.example.com {SIGNING}", "put the key into its secret instead"),
        (f"releases={HOOK}", "releases lacks a secret"),
        (f"releases={HOOK} whsec_c2hvcnQ=", "releases lacks a secret"),
        (f"releases={HOOK} {SIGNING} 5ecr37", "releases lacks a secret"),
        (f"a={HOOK} {SIGNING},a={HOOK} {SIGNING}", "two receivers are called a"),
        (" , ", "it is empty"),
    ],
)
def test_a_receiver_that_cannot_be_used_stops_the_start_and_is_not_repeated(given: Given, text: str, says: str) -> None:
    shown = given.refused({"FORGE_WEBHOOKS": text})
    assert says in shown
    assert not re.search("MfKQ|5ecr37|T0", shown.partition("FORGE_WEBHOOKS (environment)")[2])


# --- notices in Zulip -------------------------------------------------------------------------------------------------

REVIEWS = {"ZULIP_REVIEWS": "team/reviews"}


@pytest.mark.parametrize(
    ("environ", "note"),
    [
        ({**REVIEWS}, "proposals are not announced in Zulip, because Zulip is not configured"),
        ({**ZULIP, "ZULIP_REVIEWERS": "ann@example.com"}, "ZULIP_REVIEWERS has no effect without ZULIP_REVIEWS"),
        ({**ZULIP, **REVIEWS, "ZULIP_READ_ONLY": "1"}, "only reading is allowed"),
        ({**ZULIP, **REVIEWS, "FORGE_READ_ONLY": "1"}, "only reading is allowed"),
        ({**ZULIP, **REVIEWS, "ZULIP_REVIEWERS": "Forge-Bot@example.com"}, "never decide"),
    ],
)
def test_settings_without_effect_are_reported(given: Given, environ: dict[str, str], note: str) -> None:
    (said,) = given.settings(environ).notes
    assert note in said
    assert "@" not in said


def test_where_only_reading_is_allowed_no_notice_is_written(given: Given) -> None:
    for name in ("ZULIP_READ_ONLY", "FORGE_READ_ONLY"):
        zulip = given.settings({**ZULIP, **REVIEWS, name: "true"}).zulip
        assert zulip is not None
        assert zulip.reviews is None
    zulip = given.settings({**ZULIP, **REVIEWS}).zulip
    assert zulip is not None
    assert zulip.reviews == ("team", "reviews")


# --- secrets ----------------------------------------------------------------------------------------------------------


def test_printed_settings_contain_no_key(given: Given) -> None:
    settings = given.settings({**PLANE, **ZULIP})
    shown = f"{settings!r} {settings} {settings.plane!r} {settings.zulip!r} {settings.notes}"
    assert KEY not in shown
    assert ZULIP_KEY not in shown


def test_the_reference_has_every_variable_and_no_value_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in {**PLANE, **ZULIP}.items():
        monkeypatch.setenv(name, text)
    page = settings_page()
    named = {v.name for v in VARIABLES if v.name.startswith(("PLANE_", "ZULIP_"))}
    assert len(named) == 15
    assert named == {name for name in re.findall(r"`([A-Z_]+)`", page) if name.startswith(("PLANE_", "ZULIP_"))}
    assert KEY not in page
    assert ZULIP_KEY not in page


def test_text_of_every_service_counts_as_written_by_others() -> None:
    """A merge that cites a service missing there would let its text pass as the host's own."""
    read = {name for name, its in SERVICE_VARIABLES.items() if its.read}
    assert set(claim_source.SERVICES) == read, "add the service to SERVICES in claim_source.py"
    assert set(SERVICE_VARIABLES) <= claim_source.FETCHED_KINDS


@pytest.mark.parametrize("service", SERVICE_VARIABLES)
def test_every_service_can_be_configured_and_cited(service: str) -> None:
    declared = SERVICE_VARIABLES[service]
    named = {variable.name for variable in VARIABLES}
    variables = {*declared.required, declared.certificates, *([declared.limit] if declared.limit else [])}
    assert variables <= named, "declare these in settings.py"
    assert all(name.startswith(declared.prefix) for name in variables)
    assert hasattr(Settings, service), f"Settings needs a property `{service}` that returns how to reach it"
    evidence = import_module(f"mcp_server.connectors.{service}.evidence")
    assert inspect.iscoroutinefunction(evidence.fetch)
