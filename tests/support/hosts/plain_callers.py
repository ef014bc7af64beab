"""Clients of both protocols that know only HTTP and JSON, for many at once: an SDK's client costs more than the server's answer."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any, Self

import httpx

from tests.support.web.plain_http import TRUSTING_NOBODY

LEGACY, MODERN = "2025-11-25", "2026-07-28"
INFO = {"name": "load", "version": "0"}
CAN: dict[str, Any] = {"elicitation": {"form": {}}}
YES = {"action": "accept", "content": {"decision": "approve"}}
SOON_S = 120.0


class BrokenCall(Exception):
    """The connection broke before the answer: between these times, on this process's clock."""

    def __init__(self, why: object, began: float) -> None:
        self.began, self.ended = began, time.monotonic()
        super().__init__(f"{type(why).__name__ if isinstance(why, Exception) else why} {why}".strip())


class BusyServer(Exception):
    """The server answered that it did nothing, and when to try again."""

    def __init__(self, retry_s: float) -> None:
        self.retry_s = retry_s
        super().__init__(f"again in {retry_s} s")


class WrongAnswer(Exception):
    """An answer that no broken connection explains, and when it came."""

    def __init__(self, why: str) -> None:
        self.at = time.monotonic()
        super().__init__(why)


class PlainCaller:
    """One client. It says yes to every form, and counts them."""

    def __init__(self, url: str, token: str, era: str) -> None:
        self.url, self.era, self._ids, self.forms = url, era, itertools.count(1), 0
        headers = {"accept": "application/json, text/event-stream", "authorization": f"Bearer {token}"}
        self._http = httpx.AsyncClient(
            headers={**headers, "mcp-protocol-version": era}, timeout=SOON_S, verify=TRUSTING_NOBODY
        )

    async def __aenter__(self) -> Self:
        """Begin; in the older protocol with a session."""
        if self.era == LEGACY:
            hello = {"protocolVersion": LEGACY, "capabilities": CAN, "clientInfo": INFO}
            message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}
            answer = await self._http.post(self.url, json=message)
            self._http.headers["mcp-session-id"] = answer.headers["mcp-session-id"]
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Return the tool's answer, after saying yes to forms.

        Raises:
            BrokenCall: the answer did not arrive.
            BusyServer: nothing was done.
            WrongAnswer: an error arrived.
        """
        result = await self._ask({"name": tool, "arguments": arguments})
        while result.get("resultType") == "input_required":
            self.forms += 1
            replies = dict.fromkeys(result["inputRequests"], YES)
            more = {"inputResponses": replies, "requestState": result["requestState"]}
            result = await self._ask({"name": tool, "arguments": arguments, **more})
        if result.get("isError"):
            raise WrongAnswer(f"{tool}: {result['content'][0]['text']}")
        return dict(result["structuredContent"])

    async def _ask(self, params: Mapping[str, Any]) -> dict[str, Any]:
        number, began = next(self._ids), time.monotonic()
        message = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": dict(params)}
        headers = {}
        if self.era == MODERN:
            told = {"protocolVersion": MODERN, "clientInfo": INFO, "clientCapabilities": CAN}
            message["params"]["_meta"] = {f"io.modelcontextprotocol/{name}": value for name, value in told.items()}  # type: ignore[index]
            headers = {"mcp-method": "tools/call", "mcp-name": str(params["name"])}
        try:
            async with self._http.stream("POST", self.url, json=message, headers=headers) as answer:
                if answer.status_code == 502:
                    raise BrokenCall("502", began)
                if answer.status_code in (429, 503) and "retry-after" in answer.headers:
                    raise BusyServer(float(answer.headers["retry-after"]))
                if answer.status_code != 200:
                    raise WrongAnswer(f"{answer.status_code} {(await answer.aread())[:300]!r}")
                async for said in messages_of(answer):
                    if said.get("method") == "elicitation/create":
                        await self._reply(said["id"], began)
                    elif said.get("id") == number:
                        if "error" in said:
                            raise WrongAnswer(f"{params['name']}: {said['error']}")
                        return dict(said["result"])
        except httpx.TransportError as error:
            raise BrokenCall(error, began) from error
        raise BrokenCall("the stream ended", began)

    async def _reply(self, question: object, began: float) -> None:
        self.forms += 1
        reply = {"jsonrpc": "2.0", "id": question, "result": YES}
        answer = await self._http.post(self.url, json=reply)
        if answer.status_code == 502:
            raise BrokenCall("502", began)
        if answer.status_code in (429, 503) and "retry-after" in answer.headers:
            raise BusyServer(float(answer.headers["retry-after"]))
        if answer.status_code != 202:
            raise WrongAnswer(f"a reply got {answer.status_code} {answer.text[:300]!r}")


async def messages_of(answer: httpx.Response) -> AsyncIterator[dict[str, Any]]:
    """Yield the messages of an answer as they arrive."""
    if answer.headers["content-type"].startswith("application/json"):
        yield dict(json.loads(await answer.aread()))
        return
    async for line in answer.aiter_lines():
        if line.startswith("data:") and line.removeprefix("data:").strip():
            yield dict(json.loads(line.removeprefix("data:")))
