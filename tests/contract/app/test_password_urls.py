"""Passwords in addresses: whichever setting holds one, by mistake or not, no output or log repeats it."""

from __future__ import annotations

import io
import traceback
from contextlib import suppress
from pathlib import Path
from typing import TextIO, cast

import pytest

from knowledge.wire.addresses import without_secrets
from mcp_server.__main__ import main
from mcp_server.app.settings.loader import BadSetting, load
from mcp_server.app.settings.settings import VARIABLES, Variable
from mcp_server.cli.terminal.escape import EscapedStream
from tests.support.knowledge_bases.folders import write

CANARY = "c4nary-Pa55"
UNREACHABLE = {
    "user": f"http://ann:{CANARY}@127.0.0.1:9/x",
    "database": f"postgresql://ann:{CANARY}@127.0.0.1:9/x",
    "database query": f"postgresql://127.0.0.1:9/x?user=ann&password={CANARY}",
    "query": f"http://127.0.0.1:9/v1?password={CANARY}&api-version=1",
    "token": f"https://127.0.0.1:9/v1?token={CANARY}",
    "two at": f"postgresql://ann:{CANARY}@x@127.0.0.1:9/x",
    "port": f"http://ann:{CANARY}@127.0.0.1:port/",
    "bare": f"ann:{CANARY}@127.0.0.1:9",
    "escaped": f"postgresql://ann:{CANARY}%zz@127.0.0.1:9/x",
}
MORE = {
    "FORGE_EMBEDDER_URL": {"FORGE_EMBEDDER": "endpoint:m"},
    "ANTHROPIC_BASE_URL": {"FORGE_MODEL": "anthropic:m", "ANTHROPIC_API_KEY": "k"},
    "OPENAI_BASE_URL": {"FORGE_MODEL": "openai:m", "OPENAI_API_KEY": "k"},
    "PLANE_BASE_URL": {"PLANE_API_KEY": "k", "PLANE_WORKSPACE": "w"},
    "ZULIP_SITE": {"ZULIP_API_KEY": "k" * 32, "ZULIP_EMAIL": "bot@example.com"},
}


@pytest.fixture
def kb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for variable in VARIABLES:
        monkeypatch.delenv(variable.name, raising=False)
    monkeypatch.chdir(tmp_path)
    return write(tmp_path / "kb")


def printed(
    kb: Path, env: dict[str, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: str
) -> str:
    with monkeypatch.context() as patch:
        for name, value in {"FORGE_KB": str(kb), "FORGE_STATE_DIR": str(kb.parent / "state"), **env}.items():
            patch.setenv(name, value)
        with suppress(SystemExit):
            main(words)
    told = capsys.readouterr()
    return told.out + told.err


@pytest.mark.parametrize("variable", VARIABLES, ids=lambda variable: variable.name)
def test_an_invalid_setting_is_reported_without_an_addresss_password(
    variable: Variable, kb: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """People paste an address into the wrong variable, and a sentence that quotes it ends up in logs and issues."""
    monkeypatch.setenv("FORGE_KB", str(kb))
    for name, value in MORE.get(variable.name, {}).items():
        monkeypatch.setenv(name, value)
    for kind, address in UNREACHABLE.items():
        monkeypatch.setenv(variable.name, address)
        try:
            chosen = load({})
        except BadSetting as error:
            said = str(error)
        else:
            said = " ".join([*chosen.notes, repr(chosen) if variable.name.endswith("_URL") else ""])
        assert CANARY not in said, kind


ACCEPTED = [
    pytest.param(
        "FORGE_DATABASE_URL", UNREACHABLE["database"], marks=pytest.mark.external
    ),  # each is tried for a while
    ("FORGE_DATABASE_URL", UNREACHABLE["database query"]),
    ("FORGE_EMBEDDER_URL", UNREACHABLE["query"]),
    pytest.param("OPENAI_BASE_URL", UNREACHABLE["query"], marks=pytest.mark.external),
    ("OPENAI_BASE_URL", UNREACHABLE["token"]),
    *((name, UNREACHABLE["user"]) for name in ("FORGE_KB", "FORGE_STATE_DIR", "FORGE_MEILI_CA", "PLANE_CA")),
    *((name, UNREACHABLE["user"]) for name in ("ZULIP_CONFIG", "FORGE_MODEL_KEY_FILE", "FORGE_DATABASE_URL")),
    *((name, UNREACHABLE["user"]) for name in ("FORGE_QDRANT_URL", "FORGE_MEILI_URL", "FORGE_EMBEDDER_URL")),
]


@pytest.mark.parametrize(("name", "address"), ACCEPTED, ids=lambda value: value.partition(":")[0])
def test_no_address_that_cannot_be_reached_gives_its_password_away(
    name: str,
    address: str,
    kb: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    env = {**MORE.get(name, {}), name: address}
    said = printed(kb, env, capsys, monkeypatch, "doctor", "--json")
    assert said
    assert CANARY not in said


@pytest.mark.parametrize(
    "proxy",
    [
        pytest.param(f"http://ann:{CANARY}@127.0.0.1:9", marks=pytest.mark.external),
        f"socks5://ann:{CANARY}@127.0.0.1:9",
        f"ann:{CANARY}@x:y",
    ],
)
def test_no_proxy_gives_its_password_away(
    proxy: str, kb: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    env = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"), proxy)
    away = "http://192.0.2.1:9"
    env |= {"PLANE_BASE_URL": away, **MORE["PLANE_BASE_URL"], "OPENAI_BASE_URL": away, **MORE["OPENAI_BASE_URL"]}
    env |= {"ZULIP_SITE": away, **MORE["ZULIP_SITE"]}
    said = printed(kb, env, capsys, monkeypatch, "doctor", "--json")
    assert "plane" in said
    assert CANARY not in said


def test_a_traceback_of_a_library_gives_none_away() -> None:
    told = io.StringIO()
    try:
        int(f"{UNREACHABLE['user']} {UNREACHABLE['database query']}")  # any function that quotes its argument
    except ValueError:
        traceback.print_exc(file=cast("TextIO", EscapedStream(told, remarks=True)))
    assert "http://***@127.0.0.1:9/x" in told.getvalue()
    assert CANARY not in told.getvalue()


@pytest.mark.parametrize(
    "text",
    [
        "kb/guides/run-as-a-service.md",
        "https://example.com/users/@ann?page=2#top",
        "mail ann@example.com or ask at http://localhost:8321/mcp",
        "'12:30' is neither true nor false; use key=value",
        "the token count is 5",
    ],
)
def test_text_that_is_no_password_stays(text: str) -> None:
    assert without_secrets(text) == text
