"""Embeddings from any endpoint with OpenAI's interface: a local model server, or a service."""

from __future__ import annotations

import logging
import random
import shlex
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import anyio
import httpx
import numpy as np
from numpy.typing import NDArray

from knowledge.errors import EmbedderUnavailable
from knowledge.index.embed import endpoint_wire as wire
from knowledge.task_groups import first_error
from knowledge.wire.addresses import shown_address
from knowledge.wire.compression import ACCEPTED, bounding

log = logging.getLogger(__name__)

MOST_CHARACTERS = 8_000
"""Longer texts are cut to this, about 2,000 tokens. If a model accepts less, refused texts are halved until it accepts them."""
FEWEST_CHARACTERS = 200
CONNECT_S = 5.0
FIRST_WAIT_S = 0.5
TRY_AGAIN = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
REFUSED = frozenset({400, 413, 422})
PROBE = "knowledge"


@dataclass(frozen=True, slots=True)
class EmbedderPatience:
    """Time limits and retries of a caller.

    After a failure nothing is sent for `rest_s` seconds, because it would probably fail, too.
    """

    tries: int
    timeout_s: float
    longest_wait_s: float
    rest_s: float = 0.0


FOR_PASSAGES = EmbedderPatience(tries=5, timeout_s=120.0, longest_wait_s=60.0, rest_s=5.0)
FOR_QUESTIONS = EmbedderPatience(tries=2, timeout_s=5.0, longest_wait_s=1.0, rest_s=10.0)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An endpoint and a model. `dimensions` 0 leaves the length of vectors to the model; `key` is never shown."""

    url: str
    model: str
    key: str | None = None
    dimensions: int = 0
    encoding: wire.Encoding = "float"
    multilingual: bool = False

    def __repr__(self) -> str:
        """Return the endpoint as text, without the key."""
        return f"Endpoint({shown_address(self.url)!r}, {self.model!r})"


class _TextsRefused(Exception):
    """The endpoint answers, but does not accept these texts."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


def endpoint_client() -> httpx.AsyncClient:
    """Return a client for `EndpointEmbedder` that limits the size of replies."""
    return httpx.AsyncClient(headers={"accept-encoding": ACCEPTED}, event_hooks={"response": [bounding(httpx)]})


class EndpointEmbedder:
    """Requests vectors from `endpoint`, several batches at a time. `name` is what the index records.

    `expected` is the required length of vectors, 0 to learn it from the first reply. `prefix` is put before each text.
    `sleep` waits between tries.
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
        """The name of model and recipe."""
        return self._name

    @property
    def dimensions(self) -> int:
        """The length of a vector; 0 before the first reply, unless it was given."""
        return self._dimensions

    @property
    def multilingual(self) -> bool:
        """Whether a person declared the model multilingual, or its name is that of a known multilingual model."""
        return self._endpoint.multilingual

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one row per text, each of length 1; all zeros for a blank text, and for one that the model does not accept.

        Raises:
            EmbedderUnavailable: the endpoint cannot be used now, or returns vectors of another length.
        """
        if self._resting is not None and anyio.current_time() < self._resting[0]:
            last = self._resting[1]
            raise EmbedderUnavailable(last.embedder, last.reason, last.mend)
        sent = {
            place: self._prefix + wire.sendable(text)[:MOST_CHARACTERS]
            for place, text in enumerate(texts)
            if text.strip()
        }
        try:
            if not sent and texts and not self._dimensions:
                await self._ask([PROBE], self._patience.tries)  # to learn the length of a row
            found = await self._all(list(sent.values()))
        except EmbedderUnavailable as error:
            self._resting = (anyio.current_time() + self._patience.rest_s, error)
            raise
        self._resting = None
        rows = np.zeros((len(texts), self._dimensions), np.float32)
        if sent:
            rows[list(sent)] = found
        return rows

    async def _all(self, texts: Sequence[str]) -> NDArray[np.float32]:
        batches = list(self._batches(texts))
        found: list[NDArray[np.float32]] = [np.zeros((0, self._dimensions), np.float32)] * len(batches)
        room = anyio.Semaphore(self._at_once)

        async def one(number: int, batch: Sequence[str]) -> None:
            async with room:
                found[number] = await self._batch(batch)

        async with first_error() as tasks:
            for number, batch in enumerate(batches):
                tasks.start_soon(one, number, batch)
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
        # Since these were put together, the endpoint has turned out to take fewer texts.
        if len(texts) > self._batch_texts:
            return np.concatenate([await self._batch(part) for part in self._batches(texts)])
        try:
            return await self._ask(texts, self._patience.tries)
        except _TextsRefused as refused:
            # A harmless text shows whether these texts are at fault or everything is refused.
            try:
                await self._ask([PROBE], self._patience.tries)
            except _TextsRefused:
                mend = f"check the model's name, its address and the length of vectors: {self._use} --url URL --dimensions N"
                raise self._unavailable(refused.reason, mend) from refused
        return await self._parts(texts)

    async def _parts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of texts that were refused together.

        The batch is halved until the refused text is alone; then that text is cut to its first half, again and again. If both halves
        are accepted, there were too many texts, and later requests have no more than a half.
        """
        if len(texts) > 1:
            return await self._halves(texts)
        text = texts[0]
        if len(text) < 2 * FEWEST_CHARACTERS:
            log.warning("the model %s does not accept a passage; only its words can be found", self._endpoint.model)
            return np.zeros((1, self._dimensions), np.float32)
        shorter = [text[: len(text) // 2]]
        try:
            return await self._again(shorter)
        except _TextsRefused:
            return await self._parts(shorter)

    async def _halves(self, texts: Sequence[str]) -> NDArray[np.float32]:
        halves, found, too_many = (texts[: len(texts) // 2], texts[len(texts) // 2 :]), [], True
        for half in halves:
            if len(half) > self._batch_texts:
                too_many = False  # how many it takes is known by now
                found.append(await self._batch(half))
                continue
            try:
                found.append(await self._again(half))
            except _TextsRefused:
                too_many = False
                found.append(await self._parts(half))
        if too_many and len(halves[1]) < self._batch_texts:
            self._batch_texts = len(halves[1])
            told = "the model %s does not accept %d texts in one request; from now on each request has at most %d"
            log.warning(told, self._endpoint.model, len(texts), self._batch_texts)
        return np.concatenate(found)

    async def _again(self, texts: Sequence[str]) -> NDArray[np.float32]:
        # Few tries: halving a refused batch already takes a dozen requests.
        return await self._ask(texts, min(2, self._patience.tries))

    async def _ask(self, texts: Sequence[str], tries: int) -> NDArray[np.float32]:
        """Return the vectors of one request, which is repeated where that may help.

        Raises:
            _TextsRefused: these texts are not accepted, or always fail.
            EmbedderUnavailable: there is no answer, no permission, or no such model.
        """
        problem = ""
        texts_at_fault = False
        for number in range(tries):
            wait_s: float | None = None
            try:
                # The client's own timeout limits only the wait for the next bytes: at a byte a second a reply could take days.
                with anyio.fail_after(2 * self._patience.timeout_s):
                    reply = await self._post(texts)
            except (httpx.RequestError, TimeoutError) as error:
                problem, texts_at_fault = f"no answer ({type(error).__name__})", False
            else:
                # Some servers answer 500, or 200 with an error inside, to a text that is too long.
                texts_at_fault = reply.status_code in (200, 500)
                if reply.status_code == 200:
                    try:
                        return self._checked(texts, reply.content)
                    except wire.MalformedReply as error:
                        problem = f"a reply that cannot be used: {error}"
                else:
                    problem = self._problem(reply)
                    wait_s = wire.retry_after_s(reply.headers.get("retry-after"), datetime.now(UTC))
                    if wait_s is not None and wait_s > self._patience.longest_wait_s:
                        raise self._unavailable(f"it asks to wait {wait_s:.0f} s", "try again after that")
            if number + 1 < tries:
                longest = min(self._patience.longest_wait_s, FIRST_WAIT_S * 2.0**number)
                # Spread out, so that callers that failed together don't return together.
                pause_s = longest * random.uniform(0.5, 1.0)  # noqa: S311 - not a secret
                await self._sleep(pause_s if wait_s is None else wait_s)
        if texts_at_fault:
            raise _TextsRefused(problem)
        raise self._unavailable(problem, f"check that it is running, and its address: {self._use} --url URL")

    async def _post(self, texts: Sequence[str]) -> httpx.Response:
        at = self._endpoint
        headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {at.key}"} if at.key else {})
        return await self._client.post(
            wire.embeddings_url(at.url),
            content=wire.request_body(at.model, texts, at.dimensions, at.encoding),
            headers=headers,
            timeout=httpx.Timeout(self._patience.timeout_s, connect=min(CONNECT_S, self._patience.timeout_s)),
            # The key must not go to another host.
            follow_redirects=False,
        )

    def _problem(self, reply: httpx.Response) -> str:
        """Return what is wrong if repeating the request may help; raise otherwise."""
        status, code = reply.status_code, wire.error_code(reply.content)
        shown = f"HTTP {status}{f' ({code})' if code else ''}"
        if status in TRY_AGAIN:
            return shown
        if status in REFUSED:
            raise _TextsRefused(shown)
        if status in (401, 403):
            raise self._unavailable(
                f"it refuses the key ({shown})", f"give it the right key: {self._use} --key-file FILE"
            )
        if status == 404:
            mend = f"check that it has the model, and the address, which usually ends with /v1: {self._use} --url URL"
            raise self._unavailable(shown, mend)
        if 300 <= status < 400:
            mend = f"use the address that it redirects to: {self._use} --url URL"
            raise self._unavailable(f"it redirects ({shown})", mend)
        raise self._unavailable(shown, f"check the address: {self._use} --url URL")

    def _checked(self, texts: Sequence[str], reply: bytes) -> NDArray[np.float32]:
        try:
            rows = wire.vectors_of(reply, len(texts), self._dimensions)
        except wire.WrongLength as error:
            mend = f"is it still the same model? For another length: {self._use} --dimensions N; a new model needs a new name"
            raise self._unavailable(str(error), mend) from error
        self._dimensions = rows.shape[1]
        odd = ~np.isfinite(rows).all(axis=1)
        if odd.any():
            log.warning("the model %s returned no numbers for %d passages", self._endpoint.model, int(odd.sum()))
            rows[odd] = 0
        # In double precision: squares of large numbers overflow float32.
        lengths = np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)
        np.divide(rows, np.where(lengths > 0, lengths, 1), out=rows, casting="same_kind")
        return rows

    @property
    def _use(self) -> str:
        """The command that changes how this model is asked."""
        return f"knowledge-forge embedder use {shlex.quote(f'endpoint:{self._endpoint.model}')}"

    def _unavailable(self, reason: str, mend: str) -> EmbedderUnavailable:
        asked = f"the model {self._endpoint.model} at {shown_address(wire.embeddings_url(self._endpoint.url))}"
        return EmbedderUnavailable(asked, reason, mend)
