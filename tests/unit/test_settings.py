from __future__ import annotations

from pathlib import Path

import pytest

from mcp_server.setting_values import HttpAddress
from mcp_server.setting_variables import VARIABLES
from mcp_server.settings import BadSetting, handbook, load


def test_nothing_set_means_the_handbook_over_stdio(tmp_path: Path) -> None:
    settings = load({}, {}, cwd=tmp_path)
    assert settings.kb == handbook()
    assert (settings.kb / "_index.md").is_file()
    assert settings.http is None
    assert settings.state_dir is None
    assert not settings.read_only


def test_flags_win_over_environment_and_environment_over_the_file(tmp_path: Path) -> None:
    (tmp_path / "forge.toml").write_text('kb = "from-file"\nanswer_tokens = 900\nread_only = true\n', encoding="utf-8")
    environ = {"FORGE_KB": "/from-environment", "FORGE_READ_ONLY": "false"}
    settings = load({"kb": "/from-flag", "read_only": None}, environ, cwd=tmp_path)
    assert settings.kb == Path("/from-flag")
    assert not settings.read_only
    assert settings.answer_tokens == 900


def test_a_path_in_the_file_is_relative_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    config = tmp_path / "conf" / "my.toml"
    config.write_text('kb = "notes"\ntoolsets = ["knowledge"]\n', encoding="utf-8")
    settings = load({}, {"FORGE_CONFIG": str(config)}, cwd=tmp_path)
    assert settings.kb == tmp_path / "conf" / "notes"
    assert settings.toolsets == ("knowledge",)


@pytest.mark.parametrize(
    ("environ", "named", "says"),
    [
        ({"FORGE_READ_ONLY": "perhaps"}, "FORGE_READ_ONLY", "neither true nor false"),
        ({"FORGE_TOOLSETS": "knowledge,magic"}, "FORGE_TOOLSETS", "'magic' is no toolset"),
        ({"FORGE_DATABASE_SCHEMA": "public"}, "FORGE_DATABASE_SCHEMA", "a schema of its own"),
        ({"FORGE_DATABASE_SCHEMA": 'a"; DROP'}, "FORGE_DATABASE_SCHEMA", "lower-case letters"),
        ({"FORGE_HTTP": "8000"}, "FORGE_HTTP", "HOST:PORT"),
        ({"FORGE_HTTP": "0.0.0.0:8000"}, "FORGE_HTTP", "loopback"),
        ({"FORGE_EMBEDDER": "oracle"}, "FORGE_EMBEDDER", "not available"),
        ({"FORGE_ANSWER_TOKENS": "many"}, "FORGE_ANSWER_TOKENS", "whole number"),
        ({"FORGE_CONFIG": "/nowhere/forge.toml"}, "FORGE_CONFIG", "no file"),
    ],
)
def test_a_value_that_cannot_be_used_is_named(environ: dict[str, str], named: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(BadSetting) as caught:
        load({}, environ, cwd=tmp_path)
    assert caught.value.name == named
    assert says in str(caught.value)


def test_an_unknown_key_in_the_file_is_named_with_the_nearest_known_one(tmp_path: Path) -> None:
    (tmp_path / "forge.toml").write_text("readonly = true\n", encoding="utf-8")
    with pytest.raises(BadSetting, match="did you mean read_only"):
        load({}, {}, cwd=tmp_path)


def test_a_broken_file_is_refused_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "forge.toml").write_text("kb = [", encoding="utf-8")
    with pytest.raises(BadSetting, match="cannot be read as TOML"):
        load({}, {}, cwd=tmp_path)


def test_a_variable_that_only_looks_like_ours_is_mentioned_and_not_refused(tmp_path: Path) -> None:
    settings = load({}, {"FORGE_STATEDIR": "/x", "HOME": "/h"}, cwd=tmp_path)
    assert settings.notes == ("FORGE_STATEDIR is not a setting of knowledge-forge; did you mean FORGE_STATE_DIR?",)


def test_the_secret_is_not_in_what_is_printed(tmp_path: Path) -> None:
    """No secret in a message or a log."""
    settings = load({}, {"FORGE_ENROLMENT": "s3cret-value"}, cwd=tmp_path)
    assert settings.enrolment == "s3cret-value"
    assert "s3cret-value" not in repr(settings)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:p%40ss@db.example.org:5432/forge?sslmode=verify-full",
        "postgres://u@[::1]:5432/forge",
        "postgresql://u:p@one:5432,two:5433/forge",
        "postgresql:///forge?host=/var/run/postgresql",
    ],
)
def test_a_database_is_named_by_a_url_that_is_never_printed(url: str, tmp_path: Path) -> None:
    settings = load({}, {"FORGE_DATABASE_URL": url}, cwd=tmp_path)
    assert settings.database_url == url
    assert url not in repr(settings)


@pytest.mark.parametrize(
    "url",
    [
        "mysql://u:hunter2@db/forge",
        "u:hunter2@db/forge",
        "postgresql://u:hunter2@word@db/forge",
        "postgresql://u:hunter2/word@db/forge",
        "postgresql://u:hunter2#word@db/forge",
        "postgresql://u:hunter2?word@db/forge",
        "postgresql://u:hunter2:word@db/forge",
        "postgresql://u:hunter2%word@db/forge",
        "postgresql://u:hunter2 word@db/forge",
        "postgresql://u:[hunter2@db/forge",
        "postgresql://u:hunter2@db:port/forge",
        "host=db password=hunter2",
    ],
)
def test_a_database_url_that_could_be_misread_is_refused_without_repeating_it(url: str, tmp_path: Path) -> None:
    """What libpq cannot read it quotes: a password with a slash would be in its message as a port."""
    with pytest.raises(BadSetting, match="it is not like postgresql://") as caught:
        load({}, {"FORGE_DATABASE_URL": url}, cwd=tmp_path)
    shown = f"{caught.value} {caught.value.__cause__} {caught.value.__context__}"
    assert "hunter2" not in shown
    assert "word@" not in shown


def test_ipv6_loopback_is_understood(tmp_path: Path) -> None:
    address = load({"http": "[::1]:9000"}, {}, cwd=tmp_path).http
    assert address == HttpAddress("::1", 9000)
    assert str(address) == "[::1]:9000"


def test_every_variable_says_what_it_is_for() -> None:
    assert all(v.says.endswith(".") and v.default for v in VARIABLES)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("FORGE_QDRANT_URL", "http://me:hidden@host:6333", "FORGE_QDRANT_KEY"),
        ("FORGE_QDRANT_URL", "qdrant.example", "http://localhost:6333"),
        ("FORGE_QDRANT_KEY", "two words", "no key has"),
        ("FORGE_QDRANT_SHARDS", "0", "from 1 to 1000"),
        ("FORGE_QDRANT_GRPC_PORT", "99999", "1 to 65535"),
        ("FORGE_QDRANT_QUANTIZATION", "half", "none, scalar, binary"),
    ],
)
def test_a_qdrant_that_cannot_be_is_refused_without_its_secrets(name: str, value: str, said: str) -> None:
    with pytest.raises(BadSetting, match=said) as raised:
        load({}, {name: value})
    assert "hidden" not in str(raised.value)


def test_the_key_for_qdrant_is_not_shown() -> None:
    settings = load({}, {"FORGE_QDRANT_URL": "https://host:6333/", "FORGE_QDRANT_KEY": "k3y-of-somebody"})
    assert settings.qdrant_url == "https://host:6333"
    assert "k3y-of-somebody" not in repr(settings)


CONFIGURED = {"PLANE_BASE_URL": "https://plane.example", "PLANE_API_KEY": "a-key-of-plane", "PLANE_WORKSPACE": "acme"}


@pytest.mark.parametrize(
    ("environ", "told"),
    [
        ({"PLANE_PROJECT": "KB"}, "PLANE_PROJECT is not a setting of knowledge-forge; did you mean PLANE_PROJECTS?"),
        ({"PLANE_READONLY": "1"}, "PLANE_READONLY is not a setting of knowledge-forge; did you mean PLANE_READ_ONLY?"),
        (
            {"ZULIP_CHANNEL": "design"},
            "ZULIP_CHANNEL is not a setting of knowledge-forge; did you mean ZULIP_CHANNELS?",
        ),
        ({"PLANE_PROJECTS": ""}, "PLANE_PROJECTS is set and empty, which is no limit: all projects that the key sees"),
        ({"PLANE_PROJECTS": "KB", "PLANE_PROJECT": "x"}, ""),
        ({"PLANE_LICENSE_KEY": "x", "ZULIP_RABBITMQ_PORT": "1", "ZULIP_CHANNELS": ""}, ""),
    ],
)
def test_a_limit_that_limits_nothing_is_heard_of(environ: dict[str, str], told: str, tmp_path: Path) -> None:
    """Who thinks that a host is kept away from a project has to hear that it is not."""
    notes = load({}, {**CONFIGURED, **environ}, cwd=tmp_path).notes
    assert [note[: len(told)] for note in notes] == ([told] if told else [])


def test_a_list_in_the_file_counts_although_the_variable_is_empty(tmp_path: Path) -> None:
    (tmp_path / "forge.toml").write_text('plane_projects = ["KB"]\n', encoding="utf-8")
    settings = load({}, {**CONFIGURED, "PLANE_PROJECTS": ""}, cwd=tmp_path)
    assert (settings.plane_projects, settings.notes) == (("KB",), ())
