"""Fixtures that several folders of tests share, and how the run is kept fast."""

from __future__ import annotations

import gc
import importlib
import os
import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers
from jsonschema import Draft202012Validator

from tests.support.processes import starts
from tests.support.state.postgres import IN_MEMORY, fragile_postgres, postgres, schema

__all__ = ["fragile_postgres", "postgres", "schema"]

TESTS = Path(__file__).parent
ENOUGH_BYTES = 12 * 10**9  # a run leaves 7 GB
MARKED_BY_FOLDER = {"unit", "contract", "crash", "browser"}

# How long an example takes says more about the machine than about the code. A change is judged by the same examples as the one before;
# FORGE_TEST_RANDOM=1 looks for new ones.
RANDOM = os.environ.get("FORGE_TEST_RANDOM") == "1"
settings.register_profile("untimed", deadline=None, derandomize=not RANDOM)
settings.load_profile("untimed")
if not RANDOM and hasattr(providers, "_get_local_constants"):
    # Hypothesis also draws the constants of the loaded modules, and which those are depends on the tests that ran before. To read them
    # takes each worker 3 s in a new checkout.
    providers._get_local_constants = lambda: providers._local_constants


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Keep the folders of the tests in memory where there is enough: waiting for the disk is a quarter of the run.

    `--basetemp` names another place. What happens when the machine loses power is not tested, so nothing depends on a real disk.
    """
    if config.getoption("numprocesses", None):
        # Images often forbid bytecode. Then each worker rewrites the asserts of 500 files, which takes 20 s, and each process that a
        # test starts compiles the program, which takes a second.
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if config.option.basetemp or not IN_MEMORY.is_dir() or not os.access(IN_MEMORY, os.W_OK):
        return
    if shutil.disk_usage(IN_MEMORY).free < ENOUGH_BYTES:
        return
    folder = Path(tempfile.mkdtemp(prefix="knowledge-forge-tests-", dir=IN_MEMORY))
    config.option.basetemp = str(folder / "pytest")
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Let the workers of pytest-xdist share the compiling of a new checkout: they all collect the same files in the same order.

    Each first imports a part of its own, and finds the other parts compiled when it collects them.
    """
    gc.disable()  # little of what is imported or collected becomes garbage
    worker = getattr(session.config, "workerinput", None)
    if worker is None:
        return
    places = [session.config.invocation_params.dir / arg.partition("::")[0] for arg in session.config.args]
    files = sorted({file for place in places for file in place.rglob("test_*.py") if file.is_relative_to(TESTS)})
    for file in files[int(worker["workerid"].removeprefix("gw")) :: worker["workercount"]]:
        with suppress(Exception, pytest.skip.Exception):  # collecting it reports that
            importlib.import_module(".".join(file.relative_to(TESTS.parent).with_suffix("").parts))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test with the folder that it is in, so that `-m unit` and `-m "external and crash"` select by it."""
    for item in items:
        if (folder := _folder(item.path)) in MARKED_BY_FOLDER:
            item.add_marker(folder)


@cache
def _folder(file: Path) -> str | None:
    return file.relative_to(TESTS).parts[0] if file.is_relative_to(TESTS) else None


@pytest.hookimpl(tryfirst=True)
def pytest_unconfigure() -> None:
    """End the process that has loaded the program."""
    starts.LOADED.close()


@pytest.fixture
def new_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start each program as a new Python, for what a copy of a loaded process does not have, such as memory of its own."""
    monkeypatch.setattr(subprocess, "Popen", starts.NewPython)


@pytest.fixture(autouse=True, scope="session")
def no_settings_of_this_account(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep the configuration file of whoever runs the tests out of them."""
    os.environ["XDG_CONFIG_HOME"] = str(tmp_path_factory.mktemp("config"))


def pytest_collection_finish() -> None:
    """Leave what was imported out of every collection of garbage to come, and collect less often: an eighth of the time.

    What little garbage there is stays: to look for it would take each worker a second.
    """
    gc.freeze()
    gc.enable()
    gc.set_threshold(20_000, 20, 50)


def pytest_sessionstart() -> None:
    """Let signals end processes that tests start, load the program once for all of them, and check each JSON Schema once.

    Every client checks the schemas of all tools that it calls, which is half of what many tests do.
    """
    # A shell's background commands ignore Ctrl-C, and so would everything that they start: tests that interrupt would wait forever.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        # Under `nohup`. Nothing happens here either, but a program that is started does not inherit a function.
        signal.signal(signal.SIGHUP, lambda _signal, _frame: None)
    if os.environ.get("KF_REQUIRE_EXTERNAL") != "1":
        starts.install()
    check, sound = Draft202012Validator.check_schema, set[str]()

    def check_once(schema: Any, *more: Any, **named: Any) -> None:
        if (text := repr(schema)) not in sound:
            check(schema, *more, **named)
            sound.add(text)

    Draft202012Validator.check_schema = check_once  # type: ignore[method-assign]
