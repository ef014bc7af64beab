"""Embeddings from any endpoint that speaks as OpenAI's does: a local model server, or a service."""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import anyio
import httpx
import numpy as np
from numpy.typing import NDArray

from knowledge.errors import EmbedderUnavailable
from knowledge.index.embed import endpoint_wire
from knowledge.wire.addresses import shown_address
from knowledge.wire.compression import ACCEPTED, bounding

log = logging.getLogger(__name__)

MOST_CHARACTERS = 8_000
"""What is longer is cut: about 2,000 tokens. A model that takes less refuses, and then it is halved until it is taken."""
FEWEST_CHARACTERS = 200
CONNECT_S = 5.0
FIRST_WAIT_S = 0.5
TRY_AGAIN = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
REFUSED = frozenset({400, 413, 422})
PROBE = "knowledge"


@dataclass(frozen=True, slots=True)
class EmbedderPatience:
    """How much a caller can wait. After a failure that used it up, nothing is asked for `rest_s`: it would fail as well."""

    tries: int
    timeout_s: float
    longest_wait_s: float
    rest_s: float = 0.0


FOR_PASSAGES = EmbedderPatience(tries=5, timeout_s=120.0, longest_wait_s=60.0, rest_s=5.0)
FOR_QUESTIONS = EmbedderPatience(tries=2, timeout_s=5.0, longest_wait_s=1.0, rest_s=10.0)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where to ask for what. `dimensions` 0 leaves the length of vectors to the model; `key` is never shown."""

    url: str
    model: str
    key: str | None = None
    dimensions: int = 0
    encoding: endpoint_wire.Encoding = "float"

    def __repr__(self) -> str:
        """Return it without the key."""
        return f"Endpoint({shown_address(self.url)!r}, {self.model!r})"


class _TextsRefused(Exception):
    """The endpoint is there and does not take these texts."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


def endpoint_client() -> httpx.AsyncClient:
    """Return a client for `EndpointEmbedder`, which holds no reply larger than it may be."""
    return httpx.AsyncClient(headers={"accept-encoding": ACCEPTED}, event_hooks={"response": [bounding(httpx)]})


class EndpointEmbedder:
    """Asks `endpoint` for vectors, several batches at a time. `name` is what the index records.

    `expected` is the length that vectors must have, 0 to learn it from the first reply. `prefix` is put before each
    text. `sleep` waits between tries.
    """

    def __init__(
        self,
        client: httpx.AsyncClient,
        endpoint: Endpoint,
        *,
        name: str,
        expected: int = 0,
        prefix: str = "",
        patience: EmbedderPatience = FOR_PASSAGES,
        batch_texts: int = 64,
        batch_characters: int = 64_000,
        at_once: int = 4,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        self._client, self._endpoint, self._name, self._prefix = client, endpoint, name, prefix
        self._dimensions = expected or endpoint.dimensions
        self._patience, self._sleep = patience, sleep
        self._batch_texts, self._batch_characters, self._at_once = batch_texts, batch_characters, at_once
        self._resting: tuple[float, EmbedderUnavailable] | None = None

    @property
    def name(self) -> str:
        """Identify model and recipe."""
        return self._name

    @property
    def dimensions(self) -> int:
        """Return the length of a vector; 0 before the first reply, if nobody said it."""
        return self._dimensions

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one row a text, each of length 1; all zeros for a blank text, and for one that the model cannot take.

        Raises:
            EmbedderUnavailable: the endpoint cannot be used now, or gives other vectors than agreed.
        """
        if self._resting is not None and anyio.current_time() < self._resting[0]:
            last = self._resting[1]
            raise EmbedderUnavailable(last.embedder, last.reason, last.mend)
        try:
            rows = await self._embed(texts)
        except EmbedderUnavailable as error:
            self._resting = (anyio.current_time() + self._patience.rest_s, error)
            raise
        self._resting = None
        return rows

    async def _embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        sent = {
            place: self._prefix + endpoint_wire.sendable(text)[:MOST_CHARACTERS]
            for place, text in enumerate(texts)
            if text.strip()
        }
        if not sent and texts and not self._dimensions:
            await self._ask([PROBE], self._patience.tries)
        found = await self._all(list(sent.values()))
        rows = np.zeros((len(texts), self._dimensions), np.float32)
        if sent:
            rows[list(sent)] = found
        return rows

    async def _all(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of all batches; the first error stops the others and is raised as itself."""
        batches = list(self._batches(texts))
        found: list[NDArray[np.float32]] = [np.zeros((0, self._dimensions), np.float32)] * len(batches)
        failures: list[Exception] = []
        room = anyio.Semaphore(self._at_once)

        async def one(number: int, batch: Sequence[str], stop: anyio.CancelScope) -> None:
            async with room:
                try:
                    found[number] = await self._batch(batch)
                except Exception as error:  # noqa: BLE001  raised again below
                    failures.append(error)
                    stop.cancel()

        async with anyio.create_task_group() as tasks:
            for number, batch in enumerate(batches):
                tasks.start_soon(one, number, batch, tasks.cancel_scope)
        if failures:
            raise failures[0]
        return np.concatenate(found) if found else np.zeros((0, self._dimensions), np.float32)

    def _batches(self, texts: Sequence[str]) -> Iterator[Sequence[str]]:
        batch: list[str] = []
        size = 0
        for text in texts:
            if batch and (len(batch) == self._batch_texts or size + len(text) > self._batch_characters):
                yield batch
                batch, size = [], 0
            batch.append(text)
            size += len(text)
        if batch:
            yield batch

    async def _batch(self, texts: Sequence[str]) -> NDArray[np.float32]:
        try:
            return await self._ask(texts, self._patience.tries)
        except _TextsRefused as refused:
            # Is it these texts, or does it refuse everything?
            try:
                await self._ask([PROBE], self._patience.tries)
            except _TextsRefused:
                mend = "check FORGE_EMBEDDER (the model), FORGE_EMBEDDER_DIMENSIONS and FORGE_EMBEDDER_URL"
                raise self._unavailable(refused.reason, mend) from refused
        return await self._parts(texts)

    async def _parts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of texts that were refused together: one by one, and the odd ones shortened."""
        if len(texts) > 1:
            halves = texts[: len(texts) // 2], texts[len(texts) // 2 :]
            return np.concatenate([await self._again(half) for half in halves])
        text = texts[0]
        if len(text) < 2 * FEWEST_CHARACTERS:
            log.warning("the model %s does not take a passage; it is found by its words only", self._endpoint.model)
            return np.zeros((1, self._dimensions), np.float32)
        return await self._again([text[: len(text) // 2]])

    async def _again(self, texts: Sequence[str]) -> NDArray[np.float32]:
        try:
            return await self._ask(texts, min(2, self._patience.tries))
        except _TextsRefused:
            return await self._parts(texts)

    # --- one request --------------------------------------------------------------------------------------------------

    async def _ask(self, texts: Sequence[str], tries: int) -> NDArray[np.float32]:
        """Return the vectors of one request, asked again where that may help.

        Raises:
            _Refused: it does not take these texts, or always stumbles over them.
            EmbedderUnavailable: it cannot be reached, wants another key, or has no such model.
        """
        problem = ""
        stumbles = False
        for number in range(tries):
            wait_s: float | None = None
            try:
                # The client's own limit is for the next bytes only: at one byte a second a reply would take days.
                with anyio.fail_after(2 * self._patience.timeout_s):
                    reply = await self._post(texts)
            except (httpx.RequestError, TimeoutError) as error:
                problem, stumbles = f"no answer ({type(error).__name__})", False
            else:
                # Some servers say so of a text that is too long for them.
                stumbles = reply.status_code in (200, 500)
                if reply.status_code == 200:
                    try:
                        return self._checked(texts, reply.content)
                    except endpoint_wire.MalformedReply as error:
                        problem = f"a reply that cannot be used: {error}"
                else:
                    problem = self._judged(reply)
                    wait_s = endpoint_wire.retry_after_s(reply.headers.get("retry-after"), datetime.now(UTC))
                    if wait_s is not None and wait_s > self._patience.longest_wait_s:
                        raise self._unavailable(f"it asks to wait {wait_s:.0f} s", "it is asked again later")
            if number + 1 < tries:
                await self._sleep(self._pause(number) if wait_s is None else wait_s)
        if stumbles:
            raise _TextsRefused(problem)
        raise self._unavailable(
            problem, "check that it runs and that FORGE_EMBEDDER_URL is right; it is asked again later"
        )

    def _pause(self, number: int) -> float:
        longest = min(self._patience.longest_wait_s, FIRST_WAIT_S * 2.0**number)
        return longest * random.uniform(0.5, 1.0)  # noqa: S311 - spreads the load, hides nothing

    async def _post(self, texts: Sequence[str]) -> httpx.Response:
        at = self._endpoint
        headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {at.key}"} if at.key else {})
        return await self._client.post(
            endpoint_wire.embeddings_url(at.url),
            content=endpoint_wire.request_body(at.model, texts, at.dimensions, at.encoding),
            headers=headers,
            timeout=httpx.Timeout(self._patience.timeout_s, connect=min(CONNECT_S, self._patience.timeout_s)),
            # To another host the key must not go.
            follow_redirects=False,
        )

    def _judged(self, reply: httpx.Response) -> str:
        """Return what is wrong where asking again may help."""
        status, code = reply.status_code, endpoint_wire.error_code(reply.content)
        said = f"HTTP {status}{f' ({code})' if code else ''}"
        if status in TRY_AGAIN:
            return said
        if status in REFUSED:
            raise _TextsRefused(said)
        if status in (401, 403):
            raise self._unavailable(
                f"it refuses the key ({said})", "set FORGE_EMBEDDER_KEY, or FORGE_EMBEDDER_KEY_FILE"
            )
        if status == 404:
            mend = "check FORGE_EMBEDDER (is the model there?) and FORGE_EMBEDDER_URL (it usually ends with /v1)"
            raise self._unavailable(said, mend)
        if 300 <= status < 400:
            raise self._unavailable(
                f"it points elsewhere ({said})", "put the address it points to into FORGE_EMBEDDER_URL"
            )
        raise self._unavailable(said, "check FORGE_EMBEDDER_URL")

    def _checked(self, texts: Sequence[str], reply: bytes) -> NDArray[np.float32]:
        try:
            rows = endpoint_wire.vectors_of(reply, len(texts), self._dimensions)
        except endpoint_wire.WrongLength as error:
            mend = "is it still the same model? FORGE_EMBEDDER_DIMENSIONS says which length is wanted; a new model needs a new name"
            raise self._unavailable(str(error), mend) from error
        self._dimensions = rows.shape[1]
        odd = ~np.isfinite(rows).all(axis=1)
        if odd.any():
            log.warning("the model %s gave no numbers for %d passages", self._endpoint.model, int(odd.sum()))
            rows[odd] = 0
        # In double precision: the squares of large numbers do not fit.
        lengths = np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)
        np.divide(rows, np.where(lengths > 0, lengths, 1), out=rows, casting="same_kind")
        return rows

    def _unavailable(self, reason: str, mend: str) -> EmbedderUnavailable:
        asked = f"the model {self._endpoint.model} at {shown_address(endpoint_wire.embeddings_url(self._endpoint.url))}"
        return EmbedderUnavailable(asked, reason, mend)
