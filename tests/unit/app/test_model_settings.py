"""How a person configures a language model: in the environment, in `forge.toml`, in part, or wrongly.

No key is ever shown.
"""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from knowledge.extras import install_command
from mcp_server.app.composition import listed
from mcp_server.app.settings.notes import model_notes
from mcp_server.app.settings.reference_pages import settings_page
from mcp_server.app.settings.settings import VARIABLES, Settings
from mcp_server.app.settings.values import HELPS, LanguageModelName, ModelPrice, model_name, prices
from tests.unit.app.test_service_settings import Given

KEY = "sk-ant-0123456789abcdef"
OTHER_KEY = "sk-proj-0123456789abcdef"
ANTHROPIC = {"FORGE_MODEL": "anthropic:some-model", "ANTHROPIC_API_KEY": KEY}
OPENAI = {"FORGE_MODEL": "openai:some-model", "OPENAI_API_KEY": OTHER_KEY}
LOCAL = {"FORGE_MODEL": "openai:llama3.2:3b", "OPENAI_BASE_URL": "http://localhost:11434/v1/"}
VENDORS = {
    "ANTHROPIC_API_KEY": KEY,
    "ANTHROPIC_BASE_URL": "no address at all",
    "OPENAI_API_KEY": f"{OTHER_KEY} \u00e9",
    "OPENAI_BASE_URL": f"https://user:{OTHER_KEY}@example.com",
}


@pytest.fixture
def given(tmp_path: Path) -> Given:
    return Given(tmp_path)


def runs_listed(settings: Settings) -> bool:
    return any(spec.toolset == "runs" for spec in listed(settings))


def test_other_programs_variables_configure_and_disturb_nothing(given: Given) -> None:
    settings = given.settings(VENDORS)
    assert (settings.provider, settings.notes, settings.in_environment) == (None, (), ())
    assert not runs_listed(settings)


def test_a_model_is_asked_with_its_vendors_variables_only(given: Given) -> None:
    settings = given.settings({**VENDORS, "OPENAI_API_KEY": OTHER_KEY, "OPENAI_BASE_URL": "", **OPENAI})
    assert settings.provider is not None
    assert (settings.provider.key, settings.provider.address) == (OTHER_KEY, None)
    assert settings.in_environment == ("FORGE_MODEL", "OPENAI_API_KEY")
    assert settings.anthropic_api_key is None
    assert runs_listed(settings)


def test_a_server_of_ones_own_needs_no_key(given: Given) -> None:
    provider = given.settings(LOCAL).provider
    assert provider is not None
    assert (provider.name.model, provider.key, provider.address) == ("llama3.2:3b", None, "http://localhost:11434/v1")


def test_a_file_names_all_and_a_flag_goes_before_the_environment(given: Given) -> None:
    toml = f'model = "anthropic:some-model"\nanthropic_api_key = "{KEY}"\nrun_cost = 0.5\nmodel_prices = ["a=1/2", "b=3/4"]\n'
    toml += "run_day_tokens = 1000000\nrun_day_cost = 2.5\n"
    settings = given.settings({}, toml, model_helps="routes, summaries")
    assert settings.provider is not None
    assert (settings.provider.key, settings.provider.run_cost) == (KEY, Decimal("0.5"))
    assert [price.pattern for price in settings.provider.prices] == ["a", "b"]
    assert settings.provider.helps == ("routes", "summaries")
    assert (settings.provider.run_day_tokens, settings.provider.run_day_cost) == (1_000_000, Decimal("2.5"))
    flagged = given.settings({**ANTHROPIC, **OPENAI, "FORGE_MODEL": "openai:some-model"}, toml, model="anthropic:x")
    assert flagged.provider is not None
    assert (flagged.provider.name, flagged.provider.key) == (LanguageModelName("anthropic", "x"), KEY)


def test_a_key_in_a_file_goes_before_the_variable_that_other_programs_use_too(given: Given) -> None:
    (given.folder / "key").write_text(f"{KEY}\n", encoding="utf-8")
    settings = given.settings({**ANTHROPIC, "ANTHROPIC_API_KEY": OTHER_KEY}, 'model_key_file = "key"\n')
    assert settings.provider is not None
    assert (settings.provider.key, settings.provider.key_setting) == (KEY, "FORGE_MODEL_KEY_FILE")
    assert given.settings(ANTHROPIC).provider is not None


@pytest.mark.parametrize("content", ["", "two words", "\u00e9"])
def test_a_file_that_holds_no_key_is_named_and_not_repeated(given: Given, content: str) -> None:
    (given.folder / "key").write_text(content, encoding="utf-8")
    shown = given.refused({**ANTHROPIC, "FORGE_MODEL_KEY_FILE": str(given.folder / "key")})
    assert f"FORGE_MODEL_KEY_FILE ({given.folder / 'key'}): cannot be read as a key" in shown
    assert "two words" not in shown
    assert given.settings({"FORGE_MODEL_KEY_FILE": str(given.folder / "none")}).provider is None, "no model, no reading"


@pytest.mark.parametrize(
    ("environ", "note"),
    [
        (
            {"FORGE_MODEL": "anthropic:some-model"},
            "no language model is used: ANTHROPIC_API_KEY is not set, nor is FORGE_MODEL_KEY_FILE",
        ),
        (
            {"FORGE_MODEL": "openai-responses:some-model", "ANTHROPIC_API_KEY": KEY},
            "no language model is used: OPENAI_API_KEY is not set, nor is FORGE_MODEL_KEY_FILE",
        ),
        ({"FORGE_MODEL_HELPS": "routes"}, "FORGE_MODEL_HELPS has no effect without FORGE_MODEL"),
        (
            {"FORGE_RUN_COST": "1", "FORGE_MODEL_PRICES": "3/15"},
            "FORGE_MODEL_PRICES and FORGE_RUN_COST have no effect without FORGE_MODEL",
        ),
        (
            {**ANTHROPIC, "FORGE_RUN_COST": "1", "FORGE_MODEL_PRICES": "other-*=1/2"},
            "runs end after one answer: FORGE_RUN_COST limits their cost, and no price in FORGE_MODEL_PRICES fits the model",
        ),
        (
            {**ANTHROPIC, "FORGE_RUN_DAY_COST": "1", "FORGE_RUN_COST": "1"},
            "no run can start: FORGE_RUN_DAY_COST limits the cost of all runs, and no price in FORGE_MODEL_PRICES fits the model",
        ),
        ({"FORGE_RUN_DAY_TOKENS": "5000"}, "FORGE_RUN_DAY_TOKENS has no effect without FORGE_MODEL"),
        ({"FORGE_TOOLSETS": "knowledge,runs"}, "the toolset runs has no tools here: set FORGE_MODEL"),
    ],
)
def test_half_a_configuration_starts_and_says_what_to_set(given: Given, environ: dict[str, str], note: str) -> None:
    settings = given.settings(environ)
    assert settings.notes == (note,)
    assert runs_listed(settings) == ("ANTHROPIC_API_KEY" in environ and "anthropic" in environ["FORGE_MODEL"])


def test_a_package_that_is_missing_is_named_with_the_extra_that_brings_it() -> None:
    values = {"model": model_name("openai-responses:x"), "openai_api_key": KEY}
    (note,) = model_notes(values, installed=lambda _package: False)
    assert install_command("openai") in note
    assert model_notes(values, installed={"openai"}.__contains__) == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("3/15", [ModelPrice("*", Decimal(3), Decimal(15))]),
        (
            "a-*=3/15/0.30/3.75, org/b:7b = 0.1/0.2 ",
            [
                ModelPrice("a-*", Decimal(3), Decimal(15), Decimal("0.30"), Decimal("3.75")),
                ModelPrice("org/b:7b", Decimal("0.1"), Decimal("0.2")),
            ],
        ),
    ],
)
def test_prices_are_matched_by_pattern_in_order(text: str, told: list[ModelPrice]) -> None:
    assert list(prices(text)) == told


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("FORGE_MODEL", "some-model", "is not VENDOR:MODEL"),
        ("FORGE_MODEL", "anthropic:", "is not VENDOR:MODEL"),
        ("FORGE_MODEL", KEY, "is not VENDOR:MODEL"),
        ("FORGE_MODEL_HELPS", KEY, "that a model can't help with"),
        ("FORGE_MODEL_PRICES", "a=3", "it is not PATTERN=IN/OUT"),
        ("FORGE_MODEL_PRICES", "=3/15", "it is not PATTERN=IN/OUT"),
        ("FORGE_MODEL_PRICES", "a=3/-1", "it is not PATTERN=IN/OUT"),
        ("FORGE_MODEL_PRICES", "a=1/2/3/4/5", "it is not PATTERN=IN/OUT"),
        ("FORGE_MODEL_PRICES", "a=1/nan", "it is not PATTERN=IN/OUT"),
        ("FORGE_RUN_TOKENS", "12", "from 1000"),
        ("FORGE_RUN_DAY_TOKENS", "999", "from 1000"),
        ("FORGE_RUN_DAY_COST", "0", "an amount above 0"),
        ("FORGE_RUN_COST", "0", "an amount above 0"),
        ("FORGE_RUN_COST", "1e3", "an amount above 0"),
        ("FORGE_MODEL_HELPS", "everything", f"choose from {', '.join(HELPS)}"),
        ("ANTHROPIC_BASE_URL", f"https://me:{KEY}@example.com", "put the key into ANTHROPIC_API_KEY"),
        ("ANTHROPIC_API_KEY", f"{KEY} {KEY}", "characters that a key can't have"),
    ],
)
def test_a_value_that_cannot_be_used_stops_the_start_and_no_key_is_repeated(
    given: Given, name: str, text: str, says: str
) -> None:
    shown = given.refused({**ANTHROPIC, name: text})
    assert f"{name} (environment): " in shown
    assert says in shown
    assert KEY not in shown


@pytest.mark.parametrize("where", ["{key}", "folder/{key}", "no/folder/{key}", "/{key}/{key}"])
def test_a_key_in_the_variable_for_its_file_is_not_repeated(given: Given, where: str) -> None:
    (given.folder / "folder").mkdir()
    shown = given.refused({**ANTHROPIC, "FORGE_MODEL_KEY_FILE": where.format(key=OTHER_KEY)})
    assert "FORGE_MODEL_KEY_FILE (" in shown
    assert "cannot be read as a key: " in shown
    assert ("no such file" if where.startswith("/") else "it is a relative path") in shown
    assert OTHER_KEY not in shown


def test_a_key_in_a_file_that_begins_with_a_mark_of_its_encoding_is_read(given: Given) -> None:
    (given.folder / "key").write_text(KEY, encoding="utf-8-sig")
    settings = given.settings({"FORGE_MODEL": "anthropic:m", "FORGE_MODEL_KEY_FILE": str(given.folder / "key")})
    assert settings.provider is not None
    assert settings.provider.key == KEY


def test_printed_settings_contain_no_key(given: Given) -> None:
    (given.folder / "key").write_text(KEY, encoding="utf-8")
    for environ in (ANTHROPIC, OPENAI, {**OPENAI, "FORGE_MODEL_KEY_FILE": str(given.folder / "key")}):
        settings = given.settings(environ)
        shown = f"{settings!r} {settings} {settings.provider!r} {settings.notes}"
        assert KEY not in shown
        assert OTHER_KEY not in shown


def test_the_reference_has_every_variable_of_a_model_and_no_value_of_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, text in {**ANTHROPIC, **OPENAI}.items():
        monkeypatch.setenv(name, text)
    page = settings_page()
    told = [v.name for v in VARIABLES if v.name.startswith(("ANTHROPIC_", "OPENAI_", "FORGE_MODEL", "FORGE_RUN"))]
    assert len(told) == 14
    assert all(f"`{name}`" in page for name in told)
    assert KEY not in page
    assert OTHER_KEY not in page
