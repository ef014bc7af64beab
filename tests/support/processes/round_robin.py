"""nginx in front of several addresses, each of which gets every so many-th request, and services on PostgreSQL behind it."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from mcp_server.app.settings.settings import Settings
from tests.external.programs import unavailable
from tests.support.processes.free_port import free_port
from tests.support.processes.http_workers import Service, service

START_S = 60.0
# Without a limit of failures no server is left out: one whose worker was killed has others.
_CONFIG = """\
daemon off;
worker_processes 1;
pid {folder}/pid;
error_log {folder}/error.log warn;
{user}
events {{ worker_connections 512; }}
http {{
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    log_format landed '$upstream_addr';
    access_log {folder}/landed.log landed;
    upstream forge {{
{servers}
    }}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://forge;
            proxy_http_version 1.1;
            proxy_set_header Host $http_host;
            proxy_set_header Connection "";
            {sign_in}
            proxy_buffering off;
            proxy_read_timeout 1h;
            client_max_body_size 9m;
        }}
    }}
}}
"""


def nginx() -> str:
    """Return the program; skip the test where it is missing."""
    found = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    return found or unavailable("nginx")


@contextmanager
def round_robin(folder: Path, urls: Sequence[str], token: str | None = None) -> Iterator[str]:
    """Yield the address of a proxy that sends each request to the next of these addresses, with that token."""
    program, port = nginx(), free_port()
    folder.mkdir(parents=True, exist_ok=True)
    servers = "\n".join(f"        server {httpx.URL(url).netloc.decode()} max_fails=0;" for url in urls)
    user = "user root;" if os.geteuid() == 0 else ""
    sign_in = "" if token is None else f'proxy_set_header Authorization "Bearer {token}";'
    text = _CONFIG.format(folder=folder, port=port, servers=servers, user=user, sign_in=sign_in)
    (folder / "nginx.conf").write_text(text, "utf-8")
    command = [program, "-e", str(folder / "start.log"), "-p", str(folder), "-c", str(folder / "nginx.conf")]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            wait_for(f"http://127.0.0.1:{port}/health", process)
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.terminate()
            process.wait(60)


def wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    """Return once something answers there."""
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        assert process.poll() is None, "nginx ended"
        try:
            httpx.get(url, timeout=START_S)
        except httpx.TransportError:
            time.sleep(0.05)  # nothing tells another process that a port is open
        else:
            return
    raise AssertionError(f"nothing answers at {url}")


def landed(folder: Path) -> dict[str, int]:
    """Return how many requests each server got."""
    lines = (folder / "landed.log").read_text(encoding="utf-8").split()
    return {server: lines.count(server) for server in set(lines)}


@dataclass(frozen=True)
class Machines:
    """Services on several machines, as it were: each has its own state directory, and all have one database and the same pages."""

    url: str
    settings: Settings
    services: tuple[Service, ...]
    folder: Path


def machine(folder: Path, settings: Settings, number: int) -> dict[str, str]:
    """Return the environment of the machine with that number: a state directory of its own, and what all share."""
    assert settings.database_url is not None
    assert settings.database_schema is not None
    return {
        "HOME": str(folder),
        "FORGE_KB": str(settings.kb),
        "FORGE_STATE_DIR": str(folder / f"machine{number}"),
        "FORGE_DATABASE_URL": settings.database_url,
        "FORGE_DATABASE_SCHEMA": settings.database_schema,
    }


@contextmanager
def machines(folder: Path, kb: Path, database_url: str, schema: str, *workers: int) -> Iterator[Machines]:
    """Yield a service with so many workers each, behind a round-robin proxy."""
    nginx()
    settings = Settings(
        kb=kb, state_dir=folder / "person", database_url=database_url, database_schema=schema, open_browser=False
    )
    with ExitStack() as stack:
        services = []
        for number, count in enumerate(workers):
            environment = machine(folder, settings, number)
            arguments = ("--http", "127.0.0.1:0", "--workers", str(count))
            services.append(stack.enter_context(service(environment, *arguments)))
        urls = [one.url for one in services]
        for one, count in zip(services, workers, strict=True):
            if count > 1:
                one.wait_for_workers(count)
        proxy = stack.enter_context(round_robin(folder / "proxy", urls))
        yield Machines(proxy, settings, tuple(services), folder)
