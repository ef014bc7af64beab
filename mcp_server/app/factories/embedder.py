"""Chooses embedders: the one that the settings want, and any that an index was built with. Nothing is loaded before it is needed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from knowledge.errors import EmbedderUnavailable
from knowledge.index.embed.identity import EmbedderName, Prefixes, parse
from knowledge.index.embed.ports import Embedder, EmbedderOf, KnownEmbedders
from knowledge.search import RECIPE
from knowledge.state.ports import IndexIdentity, IndexStore
from mcp_server.app.settings.settings import Settings
from mcp_server.late_module import LateModule

if TYPE_CHECKING:
    from knowledge.index.embed import fastembed, static
    from knowledge.index.embed.static import StaticEmbedder
    from mcp_server.app.factories import endpoint_embedder
    from mcp_server.app.factories.endpoint_embedder import EndpointEmbedders
else:
    # numpy, the weights and httpx cost more than everything that a start needs.
    static = LateModule("knowledge.index.embed.static")
    fastembed = LateModule("knowledge.index.embed.fastembed")
    endpoint_embedder = LateModule("mcp_server.app.factories.endpoint_embedder")

STATIC = IndexIdentity("static-l2_supercat-256/2", 256, RECIPE)
"""The identity of `StaticEmbedder`. A test compares them; loading it here would slow down every start."""
WORDS_MEANWHILE = "pages are getting vectors from the embedder that is set now; until then they are found by keywords"


@dataclass(frozen=True, slots=True)
class Embedding:
    """The embedders of a process: the one that its settings want, and any that an index was built with, by identity."""

    wanted: IndexIdentity
    at_once: IndexIdentity | None
    """The identity that an empty index starts with, because the wanted embedder may be slow or unreachable."""
    questions: EmbedderOf
    passages: EmbedderOf
    static: Callable[[], StaticEmbedder]
    """The embedder that needs no network. It is shared, because it caches the words that it has met."""
    close: Callable[[], Awaitable[None]]
    """Close its connections, if there are any."""


def embedding(settings: Settings, index: IndexStore, models: Path) -> Embedding:
    """Return the embedders for these settings, with nothing loaded yet; `models` is the folder for downloaded models."""
    wanted = wanted_identity(settings)
    loading = _EmbedderLoader(settings, index, models)
    return Embedding(
        wanted=wanted,
        at_once=None if wanted == STATIC else STATIC,
        questions=KnownEmbedders(partial(loading.load, asking=True), loading.check).of,
        passages=KnownEmbedders(partial(loading.load, asking=False), loading.check).of,
        static=loading.static,
        close=loading.close,
    )


def wanted_identity(settings: Settings) -> IndexIdentity:
    """Return the identity of the index that these settings want, without loading or asking anything."""
    if settings.embedder == "static":
        return STATIC
    kind, _, model = settings.embedder.partition(":")
    length = settings.embedder_dimensions or 0
    name = EmbedderName(kind, model, length if kind == "endpoint" else 0, prefixes(settings).digest)
    return IndexIdentity(str(name), length, RECIPE)


def prefixes(settings: Settings) -> Prefixes:
    """Return the prefixes of questions and of passages."""
    return Prefixes(settings.embedder_question_prefix, settings.embedder_passage_prefix)


class _EmbedderLoader:
    """Loads embedders by the identity that an index recorded."""

    def __init__(self, settings: Settings, index: IndexStore, models: Path) -> None:
        self._settings, self._index, self._models = settings, index, models
        self._endpoint: EndpointEmbedders | None = None
        self.static = cache(static.StaticEmbedder)

    def load(self, identity: IndexIdentity, *, asking: bool) -> Embedder:
        """Return the embedder with that identity, for questions (`asking`) or passages.

        Raises:
            EmbedderUnavailable: these settings, or this version, don't have it.
        """
        # An index that was never filled has no vectors, so any embedder will do.
        if identity.embedder in ("", STATIC.embedder):
            return self.static()
        name = parse(identity.embedder)
        if name is None:
            reason = "this version of knowledge-forge does not have it"
            raise EmbedderUnavailable(f"the embedder {identity.embedder}", reason, WORDS_MEANWHILE)
        used = self._prefixes_of(name)
        if used is None:
            reason = "it was used with other prefixes than are set now"
            raise EmbedderUnavailable(f"the embedder {identity.embedder}", reason, WORDS_MEANWHILE)
        prefix = used.question if asking else used.passage
        if name.kind == "endpoint":
            self._endpoint = self._endpoint or endpoint_embedder.EndpointEmbedders(self._settings, self._index)
            return self._endpoint.embedder(identity, name, prefix, asking=asking)
        return fastembed.FastEmbedder(
            name.model,
            name=identity.embedder,
            folder=self._models,
            asking=asking,
            expected=identity.dimensions,
            prefix=prefix,
        )

    async def check(self, identity: IndexIdentity, embedder: Embedder) -> None:
        """Check that an endpoint returns the vectors that are in the index.

        Raises:
            EmbedderUnavailable: it doesn't.
        """
        name = parse(identity.embedder)
        used = self._prefixes_of(name) if name else None
        if name is None or used is None or self._endpoint is None or embedder.name != identity.embedder:
            return
        if name.kind == "endpoint":
            await self._endpoint.check(identity, name, used.passage)

    def _prefixes_of(self, name: EmbedderName) -> Prefixes | None:
        """Return the prefixes that the index was built with, if they are those of the settings, or none at all."""
        return next((p for p in (prefixes(self._settings), Prefixes()) if p.digest == name.prefixes), None)

    async def close(self) -> None:
        """Close connections, if there are any."""
        if self._endpoint is not None:
            await self._endpoint.client.aclose()
