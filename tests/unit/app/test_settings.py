from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

import pytest

from mcp_server.app.settings.loader import BadSetting, load
from mcp_server.app.settings.settings import VARIABLES, handbook
from mcp_server.app.settings.values import HttpAddress, path


def test_nothing_set_means_the_handbook_over_stdio(tmp_path: Path) -> None:
    settings = load({}, {}, cwd=tmp_path)
    assert settings.kb == handbook()
    assert (settings.kb / "_index.md").is_file()
    assert settings.http is None
    assert settings.state_dir is None
    assert not settings.read_only


def test_flags_win_over_environment_and_environment_over_the_file(tmp_path: Path) -> None:
    (tmp_path / "forge.toml").write_text('kb = "from-file"\nanswer_tokens = 900\nread_only = true\n', encoding="utf-8")
    config = {"FORGE_CONFIG": str(tmp_path / "forge.toml")}
    environ = {**config, "FORGE_KB": "/from-environment", "FORGE_READ_ONLY": "false"}
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


PAGES_IN_DATABASE = {
    "FORGE_PAGES": "database",
    "FORGE_DATABASE_URL": "postgresql://forge@127.0.0.1/forge",
    "FORGE_DATABASE_SCHEMA": "team",
    "FORGE_KB": "/srv/copy",
}


@pytest.mark.parametrize(
    ("environ", "named", "says"),
    [
        ({"FORGE_READ_ONLY": "perhaps"}, "FORGE_READ_ONLY", "neither true nor false"),
        ({"FORGE_TOOLSETS": "knowledge,magic"}, "FORGE_TOOLSETS", "'magic' is not a toolset"),
        ({"FORGE_DATABASE_SCHEMA": "public"}, "FORGE_DATABASE_SCHEMA", "knowledge base's schema"),
        ({"FORGE_DATABASE_SCHEMA": 'a"; DROP'}, "FORGE_DATABASE_SCHEMA", "lower-case letters"),
        ({"FORGE_PAGES": "cloud"}, "FORGE_PAGES", "database"),
        ({"FORGE_PAGES": "database"}, "FORGE_PAGES", "it needs FORGE_DATABASE_URL"),
        ({**PAGES_IN_DATABASE, "FORGE_DATABASE_SCHEMA": ""}, "FORGE_PAGES", "it needs FORGE_DATABASE_SCHEMA"),
        ({**PAGES_IN_DATABASE, "FORGE_KB": ""}, "FORGE_PAGES", "it needs FORGE_KB"),
        ({**PAGES_IN_DATABASE, "FORGE_GIT": "commit"}, "FORGE_GIT", "it commits pages in a folder"),
        ({**PAGES_IN_DATABASE, "FORGE_EDITOR_LINK": "vscode"}, "FORGE_EDITOR_LINK", "rows of a database"),
        ({"FORGE_HTTP": "8000"}, "FORGE_HTTP", "HOST:PORT"),
        ({"FORGE_HTTP": "there/:8000"}, "FORGE_HTTP", "no name or address"),
        ({"FORGE_HTTP_URL": "http://kb.example.com/mcp"}, "FORGE_HTTP_URL", "must begin with https"),
        ({"FORGE_HTTP_URL": "https://ann:x@kb.example.com/mcp"}, "FORGE_HTTP_URL", "user or password"),
        ({"FORGE_HTTP_URL": "https://kb.example.com/mcp?a=b"}, "FORGE_HTTP_URL", "it is not like"),
        ({"FORGE_HTTP_URL": "http://localhost.example.com"}, "FORGE_HTTP_URL", "must begin with https"),
        ({"FORGE_HTTP_HOSTS": "https://kb"}, "FORGE_HTTP_HOSTS", "no host"),
        ({"FORGE_HTTP_HOSTS": "*"}, "FORGE_HTTP_HOSTS", "no host"),
        ({"FORGE_HTTP_ORIGINS": "https://kb/"}, "FORGE_HTTP_ORIGINS", "no origin"),
        ({"FORGE_HTTP_ORIGINS": "*"}, "FORGE_HTTP_ORIGINS", "no origin"),
        ({"FORGE_EMBEDDER": "oracle"}, "FORGE_EMBEDDER", "not available"),
        ({"FORGE_ANSWER_TOKENS": "many"}, "FORGE_ANSWER_TOKENS", "whole number"),
        ({"FORGE_ANSWER_TOKENS": "900²"}, "FORGE_ANSWER_TOKENS", "whole number"),
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
        load({}, {"FORGE_CONFIG": str(tmp_path / "forge.toml")}, cwd=tmp_path)


def test_a_broken_file_is_refused_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "forge.toml").write_text("kb = [", encoding="utf-8")
    with pytest.raises(BadSetting, match="cannot be read as TOML"):
        load({}, {"FORGE_CONFIG": str(tmp_path / "forge.toml")}, cwd=tmp_path)


def test_a_variable_that_only_looks_like_ours_is_mentioned_and_not_refused(tmp_path: Path) -> None:
    settings = load({}, {"FORGE_STATEDIR": "/x", "HOME": "/h"}, cwd=tmp_path)
    assert settings.notes == ("FORGE_STATEDIR is not a setting of knowledge-forge; did you mean FORGE_STATE_DIR?",)


def test_only_variables_that_begin_like_ours_are_compared_with_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To compare all that a shell has with all of ours takes longer than the rest of the settings."""
    compared, compare = [], difflib.get_close_matches

    def counted(name: str, *among: Any, **how: Any) -> list[str]:
        compared.append(name)
        return compare(name, *among, **how)

    monkeypatch.setattr(difflib, "get_close_matches", counted)
    load({}, {"FORGE_STATEDIR": "/x", "PLANE_KEY": "k", "HOME": "/h", "LS_COLORS": "x" * 2_000}, cwd=tmp_path)
    assert sorted(set(compared)) == ["FORGE_STATEDIR", "PLANE_KEY"]


def test_printed_settings_do_not_contain_the_secret(tmp_path: Path) -> None:
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
    """A URL that libpq can't parse is quoted in its error: a password with a slash would appear as a port."""
    with pytest.raises(BadSetting, match="it is not like postgresql://") as caught:
        load({}, {"FORGE_DATABASE_URL": url}, cwd=tmp_path)
    shown = f"{caught.value} {caught.value.__cause__} {caught.value.__context__}"
    assert "hunter2" not in shown
    assert "word@" not in shown


def test_ipv6_loopback_is_understood(tmp_path: Path) -> None:
    address = load({"http": "[::1]:9000"}, {}, cwd=tmp_path).http
    assert address == HttpAddress("::1", 9000)
    assert str(address) == "[::1]:9000"


def test_every_variable_has_its_purpose() -> None:
    assert all(v.says.endswith(".") and v.default for v in VARIABLES)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("FORGE_QDRANT_URL", "http://me:hidden@host:6333", "FORGE_QDRANT_KEY"),
        ("FORGE_QDRANT_URL", "qdrant.example", "http://localhost:6333"),
        ("FORGE_QDRANT_KEY", "two words", "a key can't have"),
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
        (
            {"PLANE_PROJECTS": ""},
            "PLANE_PROJECTS is set but empty, which sets no limit: all projects that the key can see",
        ),
        ({"PLANE_PROJECTS": "KB", "PLANE_PROJECT": "x"}, ""),
        ({"PLANE_LICENSE_KEY": "x", "ZULIP_RABBITMQ_PORT": "1", "ZULIP_CHANNELS": ""}, ""),
    ],
)
def test_a_limit_without_effect_is_reported(environ: dict[str, str], told: str, tmp_path: Path) -> None:
    """A person who thinks that a host is kept out of a project must learn that it is not."""
    notes = load({}, {**CONFIGURED, **environ}, cwd=tmp_path).notes
    assert [note[: len(told)] for note in notes] == ([told] if told else [])


def test_a_list_in_the_file_counts_although_the_variable_is_empty(tmp_path: Path) -> None:
    (tmp_path / "forge.toml").write_text('plane_projects = ["KB"]\n', encoding="utf-8")
    environ = {**CONFIGURED, "FORGE_CONFIG": str(tmp_path / "forge.toml"), "PLANE_PROJECTS": ""}
    settings = load({}, environ, cwd=tmp_path.parent)
    assert (settings.plane_projects, settings.notes) == (("KB",), ())


def in_configuration_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("platformdirs.user_config_dir", lambda name, **_: str(tmp_path / "config" / name))
    (tmp_path / "config" / "knowledge-forge").mkdir(parents=True)
    return tmp_path / "config" / "knowledge-forge" / "forge.toml"


def test_a_file_in_the_configuration_folder_is_read_and_one_that_is_named_goes_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert load({}, {}).file is None
    file = in_configuration_folder(tmp_path, monkeypatch)
    file.write_text("answer_tokens = 900\n", encoding="utf-8")
    assert (load({}, {}).file, load({}, {}).answer_tokens) == (file, 900)
    named = tmp_path / "named.toml"
    named.write_text("read_only = true\n", encoding="utf-8")
    settings = load({}, {"FORGE_CONFIG": str(named)})
    assert (settings.file, settings.read_only, settings.answer_tokens) == (named, True, 1500)


def test_a_broken_link_in_the_configuration_folder_is_not_taken_for_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Someone has settings there, and would otherwise not learn that they have no effect."""
    in_configuration_folder(tmp_path, monkeypatch).symlink_to(tmp_path / "gone")
    with pytest.raises(BadSetting, match=r"forge\.toml .*broken link"):
        load({}, {})


@pytest.mark.parametrize("environ", [{}, {"FORGE_KB": "/kb"}])
def test_the_working_directory_decides_nothing_and_its_file_is_named(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = in_configuration_folder(tmp_path, monkeypatch)
    (tmp_path / "forge.toml").write_text("answer_tokens = 900\n", encoding="utf-8")
    settings = load({}, environ, cwd=tmp_path)
    assert (settings.answer_tokens, settings.file) == (1500, None)
    (note,) = settings.notes
    assert note.startswith(f"{tmp_path / 'forge.toml'} is ignored")
    assert f"move it to {file}" in note
    assert load({}, {"FORGE_CONFIG": str(tmp_path / "forge.toml")}, cwd=tmp_path).notes == ()


PATHS = sorted({variable.name for variable in VARIABLES if variable.read is path} | {"FORGE_CONFIG", "SSL_CERT_FILE"})


@pytest.mark.parametrize("name", PATHS)
@pytest.mark.parametrize("text", ["notes/x", "./x", "../x", "x"])
def test_a_relative_path_in_the_environment_is_refused_with_its_absolute_form(
    name: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host starts the server in a folder that an attacker may have made."""
    monkeypatch.chdir(tmp_path)
    for file in ("x", "notes/x", "../x"):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text("", encoding="utf-8")
    with pytest.raises(BadSetting, match="it is a relative path") as caught:
        load({}, {name: text}, cwd=tmp_path)
    assert caught.value.name == name
    absolute = str((tmp_path / text).resolve())
    assert (absolute in str(caught.value)) is not name.endswith(("_KEY_FILE", "_SECRET_FILE"))


def test_a_path_from_the_home_folder_or_of_a_flag_may_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A person who types a flag knows the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    settings = load({"kb": "notes"}, {"FORGE_STATE_DIR": "~/state"})
    assert (settings.kb, settings.state_dir) == (tmp_path / "notes", tmp_path / "home" / "state")


@pytest.mark.parametrize("name", ["sslrootcert", "sslkey", "passfile"])
def test_a_relative_path_in_the_address_of_a_database_is_refused(name: str, tmp_path: Path) -> None:
    """The client library would look for it in the working directory: an attacker's authority, or password."""
    url = "postgresql://u:secret-word@db/forge?sslmode=verify-full"
    with pytest.raises(BadSetting, match=f"its {name} is a relative path") as caught:
        load({}, {"FORGE_DATABASE_URL": f"{url}&{name}=ca.pem"}, cwd=tmp_path)
    assert "secret-word" not in str(caught.value)
    for usable in (f"{url}&{name}=/etc/ca.pem", f"{url}&sslrootcert=system"):
        assert load({}, {"FORGE_DATABASE_URL": usable}, cwd=tmp_path).database_url == usable


@pytest.mark.parametrize("name", ["PGSSLROOTCERT", "PGPASSFILE", "PGSERVICEFILE"])
def test_files_that_libpq_would_read_from_the_working_directory_are_refused_if_used(name: str, tmp_path: Path) -> None:
    assert load({}, {name: "x"}, cwd=tmp_path).database_url is None
    with pytest.raises(BadSetting, match="it is a relative path") as caught:
        load({}, {"FORGE_DATABASE_URL": "postgresql://u@db/forge", name: "x"}, cwd=tmp_path)
    assert caught.value.name == name
