"""The model named in the settings, as a whole process uses it: one connection, prices, concurrent requests, errors."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path

import anyio
import pytest

from agents.loop.model.errors import BadKey, NotInstalled
from agents.loop.model.ports import FromUser, ModelReply, ModelRequest
from agents.loop.providers.usage import conversation_id
from knowledge.extras import install_command
from mcp_server.app.knowledge_base import utc_now
from mcp_server.app.settings.loader import load
from mcp_server.app.settings.settings import Settings
from mcp_server.models.language_model import ConfiguredModel
from mcp_server.runs.daily_limit import DayBounds
from tests.doubles.provider import KEY, Model
from tests.doubles.provider_turns import said
from tests.doubles.serving import Served, serving
from tests.support.knowledge_bases.folders import write
from tests.support.runs.hosts import at_once

VENDORS = ("anthropic", "openai", "openai-responses")


@contextmanager
def site() -> Iterator[tuple[Model, Served]]:
    model = Model()
    with serving(model) as at:
        yield model, at


def named(folder: Path, at: Served, vendor: str = "openai", **more: str) -> Settings:
    own = vendor.partition("-")[0].upper()
    address = at.address + ("" if own == "ANTHROPIC" else "/v1")
    environ = {"FORGE_MODEL": f"{vendor}:some-model", f"{own}_API_KEY": KEY, f"{own}_BASE_URL": address}
    return load({"kb": folder}, {**environ, **more}, cwd=folder)


def configured(settings: Settings) -> ConfiguredModel:
    assert settings.provider is not None
    return ConfiguredModel(settings.provider, now=utc_now, sleep=at_once)


async def ask(model: ConfiguredModel, words: str) -> ModelReply:
    return await (await model.provider()).complete(
        ModelRequest(conversation_id("run", 1, "0123abcd"), (FromUser(words),))
    )


@pytest.mark.parametrize("vendor", VENDORS)
async def test_concurrent_users_share_one_provider_and_one_record_of_usage(tmp_path: Path, vendor: str) -> None:
    with site() as (there, at):
        there.will("Say", *[said("hello")] * 8)
        model = configured(named(tmp_path, at, vendor, FORGE_MODEL_PRICES="other=1/1, some-*=3/15"))
        async with anyio.create_task_group() as tasks:
            for number in range(8):
                tasks.start_soon(ask, model, f"Say {number}.")
        assert len({id(await model.provider()) for _ in range(2)}) == 1
        await model.aclose()
    assert (model.name, model.book.total().input, model.book.entries()[0].questions) == (f"{vendor}:some-model", 800, 8)
    assert model.book.cost() == Decimal(800 * 3 + 160 * 15) / 1_000_000


async def test_a_model_that_nobody_asked_reaches_nobody_and_is_closed_without_a_word(tmp_path: Path) -> None:
    with site() as (_, at):
        await configured(named(tmp_path, at)).aclose()
        assert not at.seen


@pytest.mark.parametrize("vendor", VENDORS)
async def test_a_wrong_key_is_reported_with_its_variable(tmp_path: Path, vendor: str) -> None:
    (tmp_path / "key").write_text("sk-wrong-0123456789", encoding="utf-8")
    own = "ANTHROPIC_API_KEY" if vendor == "anthropic" else "OPENAI_API_KEY"
    with site() as (_, at):
        for setting, more in (
            (own, {own: "sk-wrong-0123456789"}),
            ("FORGE_MODEL_KEY_FILE", {"FORGE_MODEL_KEY_FILE": str(tmp_path / "key")}),
        ):
            model = configured(named(tmp_path, at, vendor, **more))
            with pytest.raises(BadKey, match=f"check {setting}$") as caught:
                await ask(model, "Say hello.")
            assert "sk-wrong" not in f"{caught.value!r} {model!r}"
            await model.aclose()


@pytest.mark.parametrize("vendor", VENDORS)
async def test_a_missing_package_is_reported_with_its_extra_and_may_be_installed_later(
    tmp_path: Path, vendor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = vendor.partition("-")[0]
    with site() as (there, at):
        there.will("Say", said("hello"))
        model = configured(named(tmp_path, at, vendor))
        with monkeypatch.context() as patched:
            patched.setitem(sys.modules, package, None)
            with pytest.raises(NotInstalled, match=re.escape(install_command(package))):
                await ask(model, "Say hello.")
        assert (await ask(model, "Say hello.")).text == "hello"
        await model.aclose()


@pytest.mark.parametrize(
    ("environ", "bounds"),
    [
        ({}, (200_000, None, 8_192, 24_000)),
        (
            {"FORGE_RUN_TOKENS": "5000", "FORGE_RUN_COST": "0.25", "FORGE_MODEL_PRICES": "3/15"},
            (5_000, 250_000, 8_192, 24_000),
        ),
        (
            {"FORGE_RUN_ANSWER_TOKENS": "32000", "FORGE_RUN_CONTEXT_TOKENS": "6000"},
            (200_000, None, 32_000, 6_000),
        ),
    ],
)
async def test_the_limits_of_runs_are_given_in_tokens_and_millionths(
    tmp_path: Path, environ: dict[str, str], bounds: tuple[int, int | None, int, int]
) -> None:
    with site() as (_, at):
        model = configured(named(tmp_path, at, **environ))
    limits = model.run_limits(5, 60.0)
    assert (limits.tokens, limits.cost_micros, limits.answer_tokens, limits.context_tokens) == bounds


def test_the_daily_limits_are_given_too_and_whether_the_model_has_a_price(tmp_path: Path) -> None:
    day = {"FORGE_RUN_DAY_TOKENS": "5000", "FORGE_RUN_DAY_COST": "0.5"}
    with site() as (_, at):
        none, unpriced, whole = [
            configured(named(tmp_path, at, **more)).run_day
            for more in ({}, {**day, "FORGE_MODEL_PRICES": "x=1/2"}, {**day, "FORGE_MODEL_PRICES": "1/2"})
        ]
    assert (none.tokens, none.cost_micros) == (None, None)
    assert unpriced == DayBounds(5_000, 500_000, priced=False)
    assert whole == DayBounds(5_000, 500_000)


STARTED = """
import sys, anyio
from mcp import Client
from mcp_server.app.composition import open_app
from mcp_server.app.settings.loader import load

async def main():
    settings = load({"kb": sys.argv[1], "state_dir": sys.argv[2]})
    async with open_app(settings, indexing=False) as app, Client(app.server) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        loaded = {name.partition(".")[0] for name in sys.modules} | {name for name in sys.modules if "agents.loop" in name}
        await client.call_tool("kb_search", {"query": "where is the map"})
        later = {name.partition(".")[0] for name in sys.modules}
    print("agent_run" in names, sorted(loaded & {"anthropic", "openai", "agents.loop"}), sorted(later & {"anthropic", "openai"}))

anyio.run(main)
"""


def test_a_server_starts_lists_and_searches_without_loading_the_model_package(tmp_path: Path) -> None:
    """The vendors' packages take up to a second and a half: hosts that never start a run don't wait for them."""
    environ = {
        name: text for name, text in os.environ.items() if not name.startswith(("FORGE_", "OPENAI_", "ANTHROPIC_"))
    }
    model = {
        "FORGE_MODEL": "anthropic:x",
        "ANTHROPIC_API_KEY": KEY,
        "FORGE_MODEL_HELPS": "routes,contradictions,summaries",
    }
    folder = write(tmp_path / "kb")
    done = subprocess.run(
        [sys.executable, "-c", STARTED, str(folder), str(tmp_path / "state")],
        env={**environ, **model},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.strip() == "True [] []"
