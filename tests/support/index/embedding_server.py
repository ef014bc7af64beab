"""A strict double of an OpenAI-compatible `/embeddings` endpoint, served over real HTTP on loopback.

Source: the request and reply described in OpenAI's API reference. Anything else is refused.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.support.index.memory_embedder import MemoryEmbedder
from tests.support.processes.socket_server import Prompt, listening_on

Fault = Callable[[list[str], dict[str, Any]], Response | None]
"""Answers in place of the server, or, with None, lets it answer as usual."""


@dataclass
class EmbeddingServer:
    """The server's state. `faults` are used up, one for each request; `requests` are the received bodies, `keys` what came as one."""

    model: str = "words"
    dimensions: int = 32
    key: str | None = None
    most_characters: int = 100_000
    most_texts: int = 2_048
    faults: list[Fault] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    before: Callable[[], Awaitable[None]] | None = None
    """Awaited before each answer."""
    reverse: bool = False
    """Answers in another order than requested; `index` gives each one's place."""
    at_once = 0
    most_at_once = 0
    url: str = ""

    async def embeddings(self, request: Request) -> Response:
        """Answer one request."""
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            return await self._answer(request)
        finally:
            self.at_once -= 1

    async def _answer(self, request: Request) -> Response:
        self.keys |= {request.headers["authorization"]} if "authorization" in request.headers else set()
        if self.key is not None and request.headers.get("authorization") != f"Bearer {self.key}":
            return refusal(401, "invalid_api_key", f"Incorrect key: {request.headers.get('authorization')}")
        body: dict[str, Any] = json.loads(await request.body())
        self.requests.append(body)
        if self.before is not None:
            await self.before()
        texts = body.get("input")
        odd = set(body) - {"model", "input", "encoding_format", "dimensions", "user"}
        if request.headers["content-type"] != "application/json" or odd or not isinstance(texts, list):
            return refusal(400, "invalid_request_error", f"odd request: {odd}")
        if not texts or len(texts) > self.most_texts or not all(isinstance(text, str) and text for text in texts):
            return refusal(400, "invalid_request_error", f"cannot embed {texts}")
        if body.get("model") != self.model:
            return refusal(404, "model_not_found", f"no model {body.get('model')}")
        if self.faults and (answer := self.faults.pop(0)(texts, body)) is not None:
            return answer
        if any(len(text) > self.most_characters for text in texts):
            return refusal(400, "context_length_exceeded", f"too long: {texts}")
        if body.get("dimensions", self.dimensions) > self.dimensions:
            return refusal(400, "invalid_dimensions", "too many")
        return JSONResponse(await self.reply(texts, body))

    async def reply(self, texts: list[str], body: dict[str, Any]) -> dict[str, Any]:
        """Return a correct reply."""
        # Three times as long as they should be: the client has to scale them to length 1.
        rows = await MemoryEmbedder(self.dimensions).embed(texts) * 3
        rows = rows[:, : body.get("dimensions", self.dimensions)]
        base = body.get("encoding_format", "float") == "base64"
        data = [
            {
                "object": "embedding",
                "index": index,
                "embedding": base64.b64encode(row.astype("<f4").tobytes()).decode() if base else row.tolist(),
            }
            for index, row in enumerate(rows)
        ]
        return {"object": "list", "data": data[::-1] if self.reverse else data, "model": self.model, "usage": {}}


def refusal(status: int, code: str, message: str, headers: dict[str, str] | None = None) -> Response:
    """Return an error in such servers' form, with a message that repeats the request."""
    return JSONResponse({"error": {"message": message, "type": code, "code": code}}, status, headers)


def fails(status: int, headers: dict[str, str] | None = None) -> Fault:
    """Return a fault: this status."""
    return lambda _texts, _body: refusal(status, "server_error", "sorry", headers)


def says(reply: object) -> Fault:
    """Return a fault: this JSON (or these bytes) with status 200."""
    raw = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
    return lambda _texts, _body: Response(raw, media_type="application/json")


def dies(_texts: list[str], _body: dict[str, Any]) -> Response:
    """Cut the connection in the middle of the reply."""

    async def half() -> AsyncIterator[bytes]:
        yield b'{"data": [{"index": 0, "embedding": [0.1, '
        raise ConnectionAbortedError

    return StreamingResponse(half(), media_type="application/json", headers={"content-length": "9999"})


@asynccontextmanager
async def serving(server: EmbeddingServer) -> AsyncIterator[EmbeddingServer]:
    """Serve on a free port of loopback during the context; `server.url` is the address."""
    app = Starlette(routes=[Route("/v1/embeddings", server.embeddings, methods=["POST"])])
    listening = listening_on()
    server.url = f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
    running = Prompt(uvicorn.Config(app, log_level="critical", lifespan="off", timeout_graceful_shutdown=1))
    task = asyncio.create_task(running.serve(sockets=[listening]))
    try:
        yield server
    finally:
        running.should_exit = True
        await task
        listening.close()


def unit(rows: Any) -> Any:
    """Return rows of length 1."""
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)
