"""Chooses embedders: the one in the settings, and any that an index was built with. Nothing is loaded before it is needed."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from knowledge.errors import EmbedderUnavailable
from knowledge.index.embed.identity import NO_PREFIXES, EmbedderName, Prefixes, parse
from knowledge.index.embed.ports import Embedder, EmbedderOf, KnownEmbedders
from knowledge.search import RECIPE
from knowledge.state.ports import IndexIdentity, IndexStore
from mcp_server.app.settings.loader import BadSetting, with_current_embedder
from mcp_server.app.settings.settings import Settings
from mcp_server.late_module import LateModule

if TYPE_CHECKING:
    from knowledge.index.embed import fastembed, static, transformer
    from knowledge.index.embed.fastembed import FastembedModel
    from knowledge.index.embed.onnx import embedder as onnx
    from knowledge.index.embed.onnx import model_files
    from knowledge.index.embed.onnx.embedder import OnnxModel
    from knowledge.index.embed.static import StaticEmbedder
    from mcp_server.app.factories import endpoint_embedder
    from mcp_server.app.factories.endpoint_embedder import EndpointEmbedders
else:
    # numpy, the weights and httpx cost more than everything that a start needs.
    static = LateModule("knowledge.index.embed.static")
    fastembed = LateModule("knowledge.index.embed.fastembed")
    transformer = LateModule("knowledge.index.embed.transformer")
    onnx = LateModule("knowledge.index.embed.onnx.embedder")
    model_files = LateModule("knowledge.index.embed.onnx.model_files")
    endpoint_embedder = LateModule("mcp_server.app.factories.endpoint_embedder")

logger = logging.getLogger("knowledge_forge")

STATIC = IndexIdentity("static-l2_supercat-256/2", 256, RECIPE)
"""The identity of `StaticEmbedder`. A test compares them; loading it here would slow down every start."""
LOOK_S = 30.0
WORDS_MEANWHILE = (
    "until pages have vectors of the configured embedder they are found by words only; a running server makes them, or run: "
    "knowledge-forge index"
)


@dataclass(frozen=True, slots=True)
class Embedding:
    """The embedders of a process: the one in its settings, and any that an index was built with, by identity."""

    load_wanted: Callable[[], IndexIdentity]
    questions: EmbedderOf
    passages: EmbedderOf
    static: Callable[[], StaticEmbedder]
    """The embedder that needs no network. It is shared, because it caches the words that it has met."""
    close: Callable[[], Awaitable[None]]
    """Close its connections, if there are any."""

    @property
    def wanted(self) -> IndexIdentity:
        """The identity of the embedder in the current settings."""
        return self.load_wanted()

    @property
    def at_once(self) -> IndexIdentity | None:
        """The identity that an empty index starts with, because the wanted embedder may be slow or unreachable."""
        return None if self.wanted == STATIC else STATIC


def embedding(settings: Settings, index: IndexStore, models: Path) -> Embedding:
    """Return the embedders for these settings, with nothing loaded yet; `models` is the folder for downloaded models."""
    loading = _EmbedderLoader(settings, index, models)
    return Embedding(
        load_wanted=loading.wanted,
        questions=loading.questions.of,
        passages=loading.passages.of,
        static=loading.static,
        close=loading.close,
    )


def wanted_identity(settings: Settings) -> IndexIdentity:
    """Return the identity of the index that these settings need, without loading or contacting anything."""
    if settings.embedder == "static":
        return STATIC
    kind, _, model = settings.embedder.partition(":")
    length = settings.embedder_dimensions or 0
    if kind == "onnx":
        model = f"{model}#{model_files.digest_of(Path(model))}"
    name = EmbedderName(kind, model, length if kind == "endpoint" else 0, prefixes(settings).digest)
    return IndexIdentity(str(name), length, RECIPE)


def prefixes(settings: Settings) -> Prefixes:
    """Return the prefixes of questions and of passages."""
    return Prefixes(settings.embedder_question_prefix, settings.embedder_passage_prefix)


class LiveSettings:
    """The settings, with the embedder and the reranker that the configuration file names now; a command can change them."""

    def __init__(self, settings: Settings) -> None:
        self.now = settings
        # Read once more at the first look: the file may have changed while this process started.
        self._seen: tuple[int, int] | None = (0, 0) if settings.file_place else None

    def refresh(self) -> bool:
        """Read the file if it has changed, and return whether the embedder or the reranker is a different one now."""
        stamp = self._stamp()
        if stamp == self._seen:
            return False
        self._seen, before = stamp, self.now
        try:
            self.now = with_current_embedder(before)
        except BadSetting as error:
            logger.warning("the embedder was not changed: %s", error)
        return self.now != before

    def _stamp(self) -> tuple[int, int] | None:
        try:
            found = self.now.file_place.stat() if self.now.file_place else None
        except OSError:
            return None
        return (found.st_mtime_ns, found.st_size) if found else None


class _EmbedderLoader:
    """Loads embedders by the identity that an index recorded."""

    def __init__(self, settings: Settings, index: IndexStore, models: Path) -> None:
        self._live, self._index, self._models = LiveSettings(settings), index, models
        self._wanted, self._looked_s = STATIC, -math.inf
        self._endpoint: EndpointEmbedders | None = None
        self._endpoints: list[EndpointEmbedders] = []
        """All that were opened; one that was replaced may still be answering."""
        # A model is shared by questions and passages: loaded twice, it would take twice the memory.
        self._onnx: dict[str, OnnxModel] = {}
        self._fastembed: dict[str, FastembedModel] = {}
        self.static = static.shared_embedder
        self.questions = KnownEmbedders(partial(self._load, asking=True), self._check)
        self.passages = KnownEmbedders(partial(self._load, asking=False), self._check)

    def wanted(self) -> IndexIdentity:
        """Return the identity of the embedder in the settings, from files read in the last `LOOK_S` seconds."""
        now_s = time.monotonic()
        if self._live.refresh():
            self._onnx, self._fastembed, self._endpoint = {}, {}, None
            for known in (self.questions, self.passages):
                known.forget()
            self._looked_s = -math.inf
        # The identity of a model has a hash over its files, and the indexer asks every second.
        if now_s - self._looked_s >= LOOK_S:
            self._wanted, self._looked_s = wanted_identity(self._live.now), now_s
        return self._wanted

    def _load(self, identity: IndexIdentity, *, asking: bool) -> Embedder:
        """Return the embedder with that identity, for questions (`asking`) or passages.

        Raises:
            EmbedderUnavailable: these settings, or this version, don't have it.
        """
        # An index that was never filled has no vectors, so any embedder will do.
        if identity.embedder in ("", STATIC.embedder):
            return self.static()
        self.wanted()  # a process that does not index looks at the file only here
        name = parse(identity.embedder)
        if name is None:
            reason = "this version of knowledge-forge does not have it"
            raise EmbedderUnavailable(f"the embedder {identity.embedder}", reason, WORDS_MEANWHILE)
        used = self._prefixes_of(name)
        if used is None:
            reason = "it was used with other prefixes than the settings have now"
            raise EmbedderUnavailable(f"the embedder {identity.embedder}", reason, WORDS_MEANWHILE)
        prefix = used.question if asking else used.passage
        if name.kind == "endpoint":
            return self._at_endpoint().embedder(identity, name, prefix, asking=asking)
        threads, declared = self._live.now.embedder_threads or 0, self._live.now.embedder_multilingual
        if name.kind == "onnx":
            path, _, digest = name.model.rpartition("#")
            model = self._onnx.get(name.model) or self._opened(path, digest, threads)
            if used == NO_PREFIXES:
                prefix = model.files.prefixes.question if asking else model.files.prefixes.passage
            return transformer.TransformerEmbedder(
                model,
                name=identity.embedder,
                asking=asking,
                prefix=prefix,
                expected=identity.dimensions,
                multilingual=declared,
            )
        listed = self._fastembed.get(name.model) or fastembed.FastembedModel(name.model, self._models, threads=threads)
        self._fastembed[name.model] = listed
        return transformer.TransformerEmbedder(
            listed,
            name=identity.embedder,
            asking=asking,
            prefix=prefix,
            expected=identity.dimensions,
            multilingual=declared,
        )

    def _opened(self, path: str, digest: str, threads: int) -> OnnxModel:
        """Return the model in these files.

        Raises:
            EmbedderUnavailable: they are not a usable model, or not the one with that digest.
        """
        model = onnx.open_model(Path(path), threads=threads)
        model = self._onnx.setdefault(f"{path}#{model.files.digest}", model)
        if digest != model.files.digest:
            # New vectors come only if the new files can be loaded. They are kept, because the next questions need them.
            model.load()
            reason = "its files have changed since the vectors were made"
            raise EmbedderUnavailable(f"the model {path}", reason, WORDS_MEANWHILE)
        return model

    def _at_endpoint(self) -> EndpointEmbedders:
        if self._endpoint is None:
            self._endpoint = endpoint_embedder.EndpointEmbedders(self._live.now, self._index)
            self._endpoints.append(self._endpoint)
        return self._endpoint

    async def _check(self, identity: IndexIdentity, embedder: Embedder) -> None:
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
        """Return the prefixes that the index was built with: those of the settings, or no prefixes. None if they are others."""
        return next((p for p in (prefixes(self._live.now), NO_PREFIXES) if p.digest == name.prefixes), None)

    async def close(self) -> None:
        """Close connections, if there are any."""
        for endpoint in self._endpoints:
            await endpoint.client.aclose()
