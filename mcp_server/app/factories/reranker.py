"""Chooses the reranker that the settings name now. Nothing is loaded before it is needed, and nothing at all by default."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from knowledge.errors import RerankerUnavailable
from knowledge.search.rerank.ports import Reranker
from mcp_server.app.factories.embedder import LiveSettings
from mcp_server.app.settings.settings import Settings
from mcp_server.late_module import LateModule

if TYPE_CHECKING:
    import httpx

    from knowledge.index.embed import endpoint as http
    from knowledge.search.rerank import endpoint, fastembed, onnx
else:
    http = LateModule("knowledge.index.embed.endpoint")
    endpoint = LateModule("knowledge.search.rerank.endpoint")
    fastembed = LateModule("knowledge.search.rerank.fastembed")
    onnx = LateModule("knowledge.search.rerank.onnx")


class ChosenReranker:
    """The reranker of the settings, which follows the configuration file: `knowledge-forge reranker use` changes it."""

    def __init__(self, settings: Settings, models: Path) -> None:
        self._live, self._models = LiveSettings(settings), models
        self._loaded: Reranker | None = None
        self._clients: list[httpx.AsyncClient] = []
        """All that were opened. One that was replaced may still be answering."""

    @property
    def is_on(self) -> bool:
        """Whether the settings name a reranker now."""
        if self._live.refresh():
            self._loaded = None
        return self._live.now.reranker is not None

    @property
    def limit_s(self) -> float:
        """How long a search may wait for the reranker."""
        return self._live.now.reranker_ms / 1_000

    def load(self) -> Reranker:
        """Return the reranker, whose model is loaded with the first question.

        Raises: RerankerUnavailable: its files are missing, or are not a model.
        """
        if self._loaded is None:
            self._loaded = self._open()
        return self._loaded

    def _open(self) -> Reranker:
        now = self._live.now
        kind, _, model = (now.reranker or "").partition(":")
        if kind == "onnx":
            return onnx.open_reranker(Path(model), threads=now.embedder_threads or 0)
        if kind == "fastembed":
            return fastembed.FastembedReranker(model, self._models)
        if now.reranker_url is None:
            mend = f"give its address: knowledge-forge reranker use {shlex.quote(f'endpoint:{model}')} --url URL"
            raise RerankerUnavailable(model, "no endpoint is set", mend)
        self._clients.append(http.endpoint_client())
        return endpoint.EndpointReranker(
            self._clients[-1], now.reranker_url, model, now.reranker_key, timeout_s=self.limit_s
        )

    async def close(self) -> None:
        """Close connections, if there are any."""
        for client in self._clients:
            await client.aclose()
