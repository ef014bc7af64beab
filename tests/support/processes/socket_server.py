"""Any application on a real socket of this machine."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from starlette.types import ASGIApp


class Prompt(uvicorn.Server):
    """Uvicorn that ends within milliseconds when nobody waits for an answer, instead of checking ten times a second."""

    async def main_loop(self) -> None:
        await self.on_tick(0)
        while not self.should_exit:  # noqa: ASYNC110 - `should_exit` is uvicorn's own, and no event
            await asyncio.sleep(0.005)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self.server_state.tasks:
            await super().shutdown(sockets)
            return
        for server in self.servers:
            server.close()
        for listening in sockets or []:
            listening.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        await asyncio.sleep(0)


def listening_on(port: int = 0) -> socket.socket:
    """Return a socket that listens on `port` of this machine, by default a free one."""
    # asyncio sets TCP_NODELAY only on sockets that say they are TCP; without it every reply takes 40 ms more.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    # Otherwise a port whose connections were just closed would be refused for a minute.
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", port))
    listening.listen()
    return listening


@asynccontextmanager
async def served(app: ASGIApp) -> AsyncIterator[str]:
    """Serve `app` and yield its address, under the name localhost."""
    listening = listening_on()
    server = Prompt(uvicorn.Config(app, log_config=None, lifespan="off", ws="none"))
    running = asyncio.create_task(server._serve(sockets=[listening]))
    try:
        yield f"http://localhost:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        await running
