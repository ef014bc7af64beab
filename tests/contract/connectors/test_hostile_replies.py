"""Replies by which a configured service, or someone posing as it, could harm the server that sent the request.

Promises: a reply costs a bounded amount of memory and time however it is compressed, and no redirect of an index or a
model carries a key or a page to another address.
"""

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from operator import methodcaller

import anyio
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from starlette.responses import JSONResponse

from agents.loop.model.errors import ProviderError
from agents.loop.model.ports import FromUser, ModelRequest
from agents.loop.providers import vendor_client as line
from agents.loop.providers.access import RequestPatience as ModelPatience
from knowledge.errors import EmbedderUnavailable, EngineUnavailable
from knowledge.index.embed.endpoint import EmbedderPatience, Endpoint, EndpointEmbedder, endpoint_client
from knowledge.index.engines import server_line
from knowledge.index.engines.meilisearch import client as meilisearch_client
from knowledge.index.engines.meilisearch import server as meilisearch_server
from knowledge.index.engines.meilisearch.server import MeilisearchAddress, MeilisearchLine
from knowledge.index.engines.qdrant.client import nearest
from knowledge.index.engines.qdrant.points import QdrantOptions
from knowledge.index.engines.qdrant.server import QdrantAddress, QdrantLine
from knowledge.wire.compression import PIECE, BadPacking, Unpacking
from mcp_server.connectors.errors import ConnectorError
from tests.contract.connectors.test_http import READ, WRITE, opened
from tests.doubles import serving
from tests.doubles.serving import Served, served
from tests.support.runs.providers import IN_ONE, IN_PIECES, KINDS, Place, double_of

pytestmark = pytest.mark.external
"""Every peer with every kind of reply: too many cases for the default run."""

BOMB_BYTES = 160_000_000
MOST_MEMORY = 150_000_000
"""Above twice the largest accepted body, far below the bomb."""
PATIENCE_S = 60.0
KEY = "0123456789abcdef"
HASTY = EmbedderPatience(tries=1, timeout_s=0.5, longest_wait_s=0.0)
Asking = Callable[[Served], Awaitable[None]]
AWAY = (EmbedderUnavailable, EngineUnavailable)


@cache
def bomb(coding: str) -> bytes:
    packed = (zlib if coding == "deflate" else gzip).compress(bytes(BOMB_BYTES), 9)
    return gzip.compress(packed) if "," in coding else packed


@contextmanager
def measured() -> Iterator[Callable[[], int]]:
    """Yield a function that returns the peak of Python's memory afterwards."""
    peaks: list[int] = []
    tracemalloc.start()
    try:
        yield peaks.pop
        peaks.append(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()


BOMBS = ("gzip", "gzip, gzip", "deflate")


# --- engines and embedders --------------------------------------------------------------------------------------------


async def embedder_asks(at: Served) -> None:
    async with endpoint_client() as client:
        embedder = EndpointEmbedder(client, Endpoint(at.address, "words", KEY), name="n", patience=HASTY)
        await embedder.embed(["a page"])


async def qdrant_asks(at: Served) -> None:
    line = QdrantLine.to(QdrantAddress(at.address, KEY))
    try:
        await line.ask(lambda client: client.get_collections())
    finally:
        await line.close()


async def qdrant_searches(at: Served) -> None:
    line = QdrantLine.to(QdrantAddress(at.address, KEY))
    try:
        await line.ask(lambda client: nearest(client, "pages", [1.0], (), limit=1, options=QdrantOptions()))
    finally:
        await line.close()


async def meilisearch_asks(at: Served) -> None:
    line = MeilisearchLine(MeilisearchAddress(at.address, KEY))
    try:
        await line.ask(methodcaller("names", "forge"))
    finally:
        await line.close()


async def meilisearch_searches(at: Served) -> None:
    line = MeilisearchLine(MeilisearchAddress(at.address, KEY))
    try:
        await line.search([[{"indexUid": "a", "q": "the text"}], [{"indexUid": "a", "q": "of a page"}]])
    finally:
        await line.close()


ASKING = {
    "embedder": embedder_asks,
    "qdrant": qdrant_asks,
    "qdrant-search": qdrant_searches,
    "meilisearch": meilisearch_asks,
}


@pytest.fixture(params=sorted(ASKING))
def asking(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Asking:
    pytest.importorskip("qdrant_client")  # loaded here, where nothing is measured
    monkeypatch.setattr(server_line, "READ_S", 0.5)
    monkeypatch.setattr(meilisearch_client, "CONNECT_S", 0.5)
    monkeypatch.setattr(meilisearch_server, "GRACE_S", 1.0)
    return ASKING[request.param]


@pytest.mark.parametrize("coding", BOMBS)
async def test_no_packing_of_an_answer_makes_an_engine_or_embedder_hold_more_than_its_bound(
    asking: Asking, coding: str
) -> None:
    fault = serving.status(200, {"content-type": "application/json", "content-encoding": coding}, bomb(coding))
    async with served(JSONResponse({}), plan=lambda *_: fault) as at:
        with measured() as peak, pytest.raises(AWAY):
            await asking(at)
    assert peak() < MOST_MEMORY


async def test_a_reply_that_drips_holds_nobody_longer_than_one_limit(asking: Asking) -> None:
    """Each byte arrives well within the limit between two bytes; all of them together would take a day."""
    async with served(JSONResponse({}), plan=lambda *_: serving.dripping(0.2)) as at:
        with anyio.fail_after(PATIENCE_S), pytest.raises(AWAY):
            await asking(at)


async def test_a_head_that_drips_holds_nobody_longer_than_one_limit(asking: Asking) -> None:
    head = serving.raw(b"HTTP/1.1 200 OK\r\n", *[b"X-More: 1\r\n"] * 1_000, seconds=0.2)
    async with served(JSONResponse({}), plan=lambda *_: head) as at:
        with anyio.fail_after(PATIENCE_S), pytest.raises(AWAY):
            await asking(at)


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
async def test_no_redirect_of_an_engine_or_embedder_is_followed(asking: Asking, code: int) -> None:
    """307 and 308 would carry the page's text along, and any redirect the question."""
    async with served(JSONResponse({"results": []})) as elsewhere:
        redirect = serving.redirected(f"{elsewhere.address}/multi-search", code)
        async with served(JSONResponse({}), plan=lambda *_: redirect) as at:
            with pytest.raises(AWAY):
                await asking(at)
        assert elsewhere.seen == []


ODD = [
    b"",
    b"[]",
    b"{}",
    b"null",
    b"5",
    b"\xff\xfe",
    b"[" * 100_000,
    b'{"results": 7}',
    b'{"result": 1e999}',
    b"1" * 5_000,
]


@pytest.mark.parametrize("content", ODD, ids=range(len(ODD)))
async def test_a_reply_of_another_shape_is_that_service_away_and_no_crash(asking: Asking, content: bytes) -> None:
    async with served(JSONResponse({}), plan=lambda *_: serving.body(content)) as at:
        with pytest.raises(AWAY):
            await asking(at)


async def test_a_reply_with_headers_without_end_is_left(asking: Asking) -> None:
    many = serving.raw(b"HTTP/1.1 200 OK\r\n" + b"X-More: 1\r\n" * 50_000)
    async with served(JSONResponse({}), plan=lambda *_: many) as at:
        with pytest.raises(AWAY):
            await asking(at)


# --- connectors and models ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("coding", BOMBS)
async def test_no_packing_of_an_answer_makes_a_connector_hold_more_than_its_bound(coding: str) -> None:
    async with opened() as sending:
        fault = serving.status(200, {"content-encoding": coding}, bomb(coding))
        sending.double.plan = lambda *_: fault
        with measured() as peak:
            for request in (READ, WRITE):
                with pytest.raises(ConnectorError):
                    await sending.sender.send(request)
        assert peak() < MOST_MEMORY


@pytest.fixture(scope="module", params=KINDS)
def model(request: pytest.FixtureRequest) -> Iterator[Place]:
    with double_of(request.param) as place:
        yield place


@pytest.mark.parametrize("patience", [IN_ONE, IN_PIECES], ids=["whole", "streamed"])
@pytest.mark.parametrize("coding", BOMBS[:2])
async def test_no_packing_of_an_answer_makes_the_asking_of_a_model_hold_more_than_its_bound(
    model: Place, coding: str, patience: ModelPatience, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line, "MOST_REPLY", 4_000_000)
    type_ = "application/json" if patience is IN_ONE else "text/event-stream"
    fault = serving.status(200, {"content-type": type_, "content-encoding": coding}, bomb(coding))
    model.net.plan = lambda *_: fault
    async with model.provider(replace(patience, tries=1)) as provider:
        with measured() as peak, pytest.raises(ProviderError):
            await provider.complete(ModelRequest("test_iter1_0a1b2c3d", (FromUser("the goal"),)))
    assert peak() < MOST_MEMORY / 2


# --- unpacking ------------------------------------------------------------------------------------------------------------


@given(st.binary(max_size=300_000), st.sampled_from(["gzip", "deflate", "raw", "identity"]), st.integers(1, 70_000))
@example(b"\x00", "raw", 1)
@example(b"\x00", "deflate", 1)
@settings(max_examples=30)
def test_whatever_was_packed_is_unpacked_in_small_pieces(content: bytes, how: str, cut: int) -> None:
    raw = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = {
        "gzip": gzip.compress,
        "deflate": zlib.compress,
        "raw": lambda text: raw.compress(text) + raw.flush(),
        "identity": bytes,
    }[how](content * 3)
    unpacking = Unpacking("deflate" if how == "raw" else how)
    pieces = [piece for start in range(0, len(packed), cut) for piece in unpacking.feed(packed[start : start + cut])]
    assert b"".join(pieces) == content * 3
    assert max(map(len, pieces), default=0) <= max(PIECE, cut)


@pytest.mark.parametrize("coding", ["gzip, gzip", "br", "zstd", "gzip;deflate", "identity, gzip", "x" * 9_000])
def test_content_that_was_not_requested_is_not_decompressed(coding: str) -> None:
    with pytest.raises(BadPacking, match="not requested"):
        Unpacking(coding)
