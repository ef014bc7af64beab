"""Builds embedders at an OpenAI-compatible endpoint. Loaded only if the settings or the index name one: it needs httpx."""

from __future__ import annotations

import shlex
from typing import Final

import httpx
import numpy as np

from knowledge.errors import EmbedderUnavailable
from knowledge.index.embed.endpoint import (
    FOR_PASSAGES,
    FOR_QUESTIONS,
    Endpoint,
    EndpointEmbedder,
    endpoint_client,
)
from knowledge.index.embed.identity import EmbedderName, known_multilingual
from knowledge.index.embed.ports import Embedder
from knowledge.pages.markdown.chunk import indexed_text
from knowledge.state.ports import IndexIdentity, IndexPosition, IndexStore
from mcp_server.app.settings.settings import Settings

SAMPLES = 20  # passages among which one with a vector is looked for
SAME_COSINE = 0.9
"""The same model gives a text nearly the same vector on every machine. Another model's vector points anywhere."""


class EndpointEmbedders:
    """Builds embedders at the endpoint of the settings. They share one HTTP client."""

    def __init__(self, settings: Settings, index: IndexStore) -> None:
        self._settings, self._index = settings, index
        self.client: Final[httpx.AsyncClient] = endpoint_client()

    def embedder(self, identity: IndexIdentity, name: EmbedderName, prefix: str, *, asking: bool) -> Embedder:
        """Return the embedder; `asking` is for questions, which wait for an answer less patiently than passages.

        Raises:
            EmbedderUnavailable: no endpoint is set.
        """
        settings = self._settings
        if settings.embedder_url is None:
            mend = f"give its address: knowledge-forge embedder use {shlex.quote(f'endpoint:{name.model}')} --url URL"
            raise EmbedderUnavailable(f"the embedder {identity.embedder}", "no endpoint is set", mend)
        endpoint = Endpoint(
            settings.embedder_url,
            name.model,
            settings.embedder_key,
            name.dimensions,
            "base64" if settings.embedder_encoding == "base64" else "float",
            known_multilingual(name.model)
            if settings.embedder_multilingual is None
            else settings.embedder_multilingual,
        )
        return EndpointEmbedder(
            self.client,
            endpoint,
            name=identity.embedder,
            expected=identity.dimensions,
            prefix=prefix,
            patience=FOR_QUESTIONS if asking else FOR_PASSAGES,
        )

    async def check(self, identity: IndexIdentity, name: EmbedderName, prefix: str) -> None:
        """Compare the vector of a passage with that in the index: some endpoints ignore the model that a request names.

        Raises:
            EmbedderUnavailable: the endpoint's vectors differ from those in the index.
        """
        while True:
            space = await self._index.space()
            if not space.identity.same_vectors(identity):
                return
            rows = (await self._index.delta(IndexPosition("", 0), limit=SAMPLES, texts=True)).texts
            halves = await self._index.halves([row.seq for row in rows])
            sample = next(((row, half) for row, half in zip(rows, halves, strict=True) if any(half)), None)
            if sample is None:
                return
            row, half = sample
            text = indexed_text(row.title, row.section, row.text)
            (now,) = await self.embedder(identity, name, prefix, asking=True).embed([text])
            then = np.frombuffer(half, "<f2").astype(np.float32)
            same = len(now) == len(then) and float(now @ then) >= SAME_COSINE * float(np.linalg.norm(then))
            # If the index was rebuilt in the meantime, the sample may have come from the old one.
            if (await self._index.space()).position.generation == space.position.generation:
                break
        if not same:
            reason = "its vectors differ from those in the index"
            remedy = (
                "if another model answers there now, name it: knowledge-forge embedder use endpoint:MODEL; or make all vectors "
                "again: knowledge-forge index --rebuild --new-vectors"
            )
            raise EmbedderUnavailable(f"the embedder {identity.embedder}", reason, remedy)
