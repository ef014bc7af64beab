"""A reranker at an endpoint, in the two common forms of `/rerank`.

Source: the reference of Cohere's and Jina's rerank endpoints (`documents`, `results`, `relevance_score`), which llama.cpp and vLLM
also serve, and that of Hugging Face's text-embeddings-inference (`texts`, `score`).
"""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Sequence
from urllib.parse import urlsplit, urlunsplit

import httpx

from knowledge.errors import RerankerUnavailable
from knowledge.wire.addresses import shown_address

REFUSED = frozenset({400, 422})
"""HTTP statuses that mean that the server expects the other form of request."""


def rerank_url(base: str) -> str:
    """Return the address to post to: `base` with `/rerank` at its end."""
    parts = urlsplit(base)
    path = parts.path.rstrip("/")
    return urlunsplit(parts._replace(path=path if path.endswith("/rerank") else f"{path}/rerank"))


class EndpointReranker:
    """A model at `url`. Every question and the passages to rerank are sent there; `key` is never shown."""

    def __init__(self, client: httpx.AsyncClient, url: str, model: str, key: str | None, *, timeout_s: float) -> None:
        self.name, self._client, self._url = model, client, rerank_url(url)
        self._key, self._timeout_s = key, timeout_s
        self._texts = False
        """Whether the endpoint expects the passages as `texts`."""

    async def scores(self, question: str, passages: Sequence[str]) -> Sequence[float]:
        """Return a number for each passage, higher for a better answer.

        Raises:
            RerankerUnavailable: there is no answer, no permission, or a reply that cannot be used.
        """
        sent = [passage.encode("utf-8", "replace").decode().replace("\x00", " ") for passage in passages]
        reply = await self._post(question, sent)
        if reply.status_code in REFUSED:
            self._texts = not self._texts
            reply = await self._post(question, sent)
        if reply.status_code != 200:
            hint = f"give it the right key: {self._use} --key-file FILE" if reply.status_code in (401, 403) else ""
            raise self._unavailable(f"HTTP {reply.status_code}", hint)
        return self._numbers(reply.content, len(sent))

    async def _post(self, question: str, passages: Sequence[str]) -> httpx.Response:
        headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {self._key}"} if self._key else {})
        body: dict[str, object] = {"query": question.encode("utf-8", "replace").decode()}
        body |= {"texts": passages} if self._texts else {"model": self.name, "documents": passages}
        try:
            return await self._client.post(
                self._url,
                content=json.dumps(body).encode(),
                headers=headers,
                timeout=self._timeout_s,
                follow_redirects=False,  # the key must not go to another host
            )
        except httpx.RequestError as error:
            mend = f"check that it is running, and its address: {self._use} --url URL"
            raise self._unavailable(f"no answer ({type(error).__name__})", mend) from error

    def _numbers(self, reply: bytes, count: int) -> list[float]:
        """Return the score of each passage, in their order."""
        found: dict[int, float] = {}
        try:
            told = json.loads(reply)
            for row in told["results"] if isinstance(told, dict) else told:
                found[int(row["index"])] = float(row["relevance_score"] if "relevance_score" in row else row["score"])
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise self._unavailable("a reply that is not in the form of /rerank", "") from error
        if len(found) != count:
            raise self._unavailable(f"a reply with {len(found)} numbers for {count} passages", "")
        if found.keys() != set(range(count)):
            raise self._unavailable("a reply for other passages than those that were sent", "")
        if not all(map(math.isfinite, found.values())):
            raise self._unavailable("a reply in which not every score is a number", "")
        return [found[number] for number in range(count)]

    @property
    def _use(self) -> str:
        """The command that changes how this model is asked."""
        return f"knowledge-forge reranker use {shlex.quote(f'endpoint:{self.name}')}"

    def _unavailable(self, reason: str, mend: str) -> RerankerUnavailable:
        mend = mend or f"check the model's name and its address: {self._use} --url URL"
        return RerankerUnavailable(f"{self.name} at {shown_address(self._url)}", reason, mend)
