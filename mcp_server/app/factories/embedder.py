"""The composition root's part for embedders: which one is wanted, and how to load any that an index was built with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from knowledge.errors import EmbedderUnavailable
from knowledge.index.embed.identity import EmbedderName, Prefixes, parse
from knowledge.index.embed.ports import KnownEmbedders
from knowledge.search import RECIPE
from knowledge.state.ports import IndexIdentity, IndexPosition, IndexStore
from mcp_server.app.settings.settings import Settings

if TYPE_CHECKING:
    import httpx

    from knowledge.index.embed.endpoint import EmbedderPatience
    from knowledge.index.embed.ports import Embedder, EmbedderOf
    from knowledge.index.embed.static import StaticEmbedder

STATIC = IndexIdentity("static-l2_supercat-256/2", 256, RECIPE)
"""What `StaticEmbedder` says of itself; stated here because loading it to ask would cost every start."""
SAMPLES = 20
SAME_COSINE = 0.9
"""The same model gives a text nearly the same vector on any machine; of another one it is anywhere."""
WORDS_MEANWHILE = "pages get vectors of the embedder that is set now; until then they are found by their words"


@dataclass(frozen=True, slots=True)
class Embedding:
    """What a process embeds with: what its settings want, and embedders for questions and for passages by identity."""

    wanted: IndexIdentity
    at_once: IndexIdentity | None
    """With what an empty index is begun where the wanted embedder may be slow or away."""
    questions: EmbedderOf
    passages: EmbedderOf
    client: Callable[[], httpx.AsyncClient | None]
    static: Callable[[], StaticEmbedder]
    """The embedder that needs nothing, the same one that questions and passages are given where it is wanted."""

    async def close(self) -> None:
        """Give connections back, if there ever were any."""
        client = self.client()
        if client is not None:
            await client.aclose()


def embedding(settings: Settings, index: IndexStore, models: Path) -> Embedding:
    """Return what `settings` say, with nothing loaded yet; `models` is the folder for models that are downloaded."""
    wanted = wanted_identity(settings)
    loading = _Loading(settings, index, models)
    return Embedding(
        wanted=wanted,
        at_once=None if wanted == STATIC else STATIC,
        questions=KnownEmbedders(partial(loading.load, asking=True), loading.check).of,
        passages=KnownEmbedders(partial(loading.load, asking=False), loading.check).of,
        client=lambda: loading.made_client,
        static=loading.static,
    )


def wanted_identity(settings: Settings) -> IndexIdentity:
    """Return what an index that `settings` want says of itself, without loading or asking anything."""
    if settings.embedder == "static":
        return STATIC
    kind, _, model = settings.embedder.partition(":")
    length = settings.embedder_dimensions or 0
    name = EmbedderName(kind, model, length if kind == "endpoint" else 0, prefixes(settings).digest)
    return IndexIdentity(str(name), length, RECIPE)


def prefixes(settings: Settings) -> Prefixes:
    """Return what is put before questions and passages."""
    return Prefixes(settings.embedder_question_prefix, settings.embedder_passage_prefix)


class _Loading:
    """Loads embedders by what an index recorded of them."""

    def __init__(self, settings: Settings, index: IndexStore, models: Path) -> None:
        self._settings, self._index, self._models = settings, index, models
        self.made_client: httpx.AsyncClient | None = None
        self.static = cache(_static)  # one for questions and passages: it remembers the words it has met

    def load(self, identity: IndexIdentity, *, asking: bool) -> Embedder:
        """Return the embedder whose name is recorded.

        Raises:
            EmbedderUnavailable: these settings, or this version, have no such one.
        """
        # An index that was never begun holds nothing, so that it does not matter with what it is searched.
        if identity.embedder in ("", STATIC.embedder):
            return self.static()
        name = parse(identity.embedder)
        if name is None:
            reason = "this version of knowledge-forge does not have it"
            raise EmbedderUnavailable(f"the embedder {identity.embedder}", reason, WORDS_MEANWHILE)
        used = next((p for p in (prefixes(self._settings), Prefixes()) if p.digest == name.prefixes), None)
        if used is None:
            reason = "it was used with other prefixes than are set now"
            raise EmbedderUnavailable(f"the embedder {identity.embedder}", reason, WORDS_MEANWHILE)
        prefix = used.question if asking else used.passage
        if name.kind == "endpoint":
            from knowledge.index.embed.endpoint import FOR_PASSAGES, FOR_QUESTIONS

            return self._endpoint(identity, name, prefix, FOR_QUESTIONS if asking else FOR_PASSAGES)
        from knowledge.index.embed.fastembed import FastEmbedder

        return FastEmbedder(
            name.model,
            name=identity.embedder,
            folder=self._models,
            asking=asking,
            expected=identity.dimensions,
            prefix=prefix,
        )

    def _endpoint(
        self, identity: IndexIdentity, name: EmbedderName, prefix: str, patience: EmbedderPatience
    ) -> Embedder:
        from knowledge.index.embed.endpoint import Endpoint, EndpointEmbedder, endpoint_client

        settings = self._settings
        if settings.embedder_url is None:
            reason = "no endpoint is set"
            raise EmbedderUnavailable(f"the embedder {identity.embedder}", reason, "set FORGE_EMBEDDER_URL")
        self.made_client = self.made_client or endpoint_client()
        endpoint = Endpoint(
            settings.embedder_url,
            name.model,
            settings.embedder_key,
            name.dimensions,
            "base64" if settings.embedder_encoding == "base64" else "float",
        )
        return EndpointEmbedder(
            self.made_client,
            endpoint,
            name=identity.embedder,
            expected=identity.dimensions,
            prefix=prefix,
            patience=patience,
        )

    async def check(self, identity: IndexIdentity, embedder: Embedder) -> None:
        """Raise if an endpoint gives other vectors than those in the index: some ignore which model they are asked for."""
        from knowledge.pages.markdown.chunk import Chunk

        name = parse(identity.embedder)
        if name is None or name.kind != "endpoint" or embedder.name != identity.embedder:
            return
        space = await self._index.space()
        if not space.identity.same_vectors(identity):
            return
        rows = (await self._index.delta(IndexPosition("", 0), limit=SAMPLES, texts=True)).texts
        halves = await self._index.halves([row.seq for row in rows])
        sample = next(((row, half) for row, half in zip(rows, halves, strict=True) if any(half)), None)
        if sample is None:
            return
        row, half = sample
        same = await self._gives(identity, Chunk(0, row.section, 0, 0, row.text).indexed_text, half)
        if (await self._index.space()).position.generation != space.position.generation:
            await self.check(identity, embedder)
        elif not same:
            reason = "it gives other vectors than those in the index"
            mend = "is another model behind FORGE_EMBEDDER_URL? Name it in FORGE_EMBEDDER, or run knowledge-forge index --rebuild"
            raise EmbedderUnavailable(f"the embedder {identity.embedder}", reason, mend)

    async def _gives(self, identity: IndexIdentity, text: str, half: bytes) -> bool:
        import numpy as np

        from knowledge.index.embed.endpoint import FOR_QUESTIONS

        name = parse(identity.embedder)
        used = next((p for p in (prefixes(self._settings), Prefixes()) if name and p.digest == name.prefixes), None)
        if name is None or used is None:
            return False
        (now,) = await self._endpoint(identity, name, used.passage, FOR_QUESTIONS).embed([text])
        then = np.frombuffer(half, "<f2").astype(np.float32)
        return len(now) == len(then) and float(now @ then) >= SAME_COSINE * float(np.linalg.norm(then))


def _static() -> StaticEmbedder:
    """Load what turns text into vectors. numpy and the weights cost more than everything that a listing needs."""
    from knowledge.index.embed.static import StaticEmbedder

    return StaticEmbedder()
