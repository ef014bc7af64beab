"""An embedder that uses an endpoint, against a strict server on loopback."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import anyio
import httpx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.errors import EmbedderUnavailable
from knowledge.index.embed import endpoint_wire
from knowledge.index.embed.endpoint import (
    FOR_PASSAGES,
    FOR_QUESTIONS,
    MOST_CHARACTERS,
    EmbedderPatience,
    Endpoint,
    EndpointEmbedder,
)
from knowledge.index.embed.identity import EmbedderName, Prefixes, parse
from tests.support.index.embedding_server import EmbeddingServer, dies, fails, says, serving
from tests.support.index.memory_embedder import MemoryEmbedder
from tests.support.web.plain_http import TRUSTING_NOBODY

KEY = "sk-very-secret"
UNSPOKEN = "the passage that nobody may read in a log"


class Desk:
    """A server, and how to reach it. `waits` are the seconds waited between tries."""

    def __init__(self, server: EmbeddingServer, client: httpx.AsyncClient) -> None:
        self.server, self._client = server, client
        self.waits: list[float] = []

    def embedder(self, **other: Any) -> EndpointEmbedder:
        endpoint = Endpoint(
            other.pop("url", self.server.url),
            other.pop("model", "words"),
            other.pop("key", KEY),
            other.pop("dimensions", 0),
            other.pop("encoding", "float"),
        )
        return EndpointEmbedder(self._client, endpoint, name="endpoint:words/1", sleep=self._sleep, **other)

    async def _sleep(self, seconds: float) -> None:
        self.waits.append(seconds)

    def sent(self) -> list[list[str]]:
        return [body["input"] for body in self.server.requests]


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    async with serving(EmbeddingServer(key=KEY)) as server, httpx.AsyncClient(verify=TRUSTING_NOBODY) as client:
        yield Desk(server, client)


async def expected(texts: Sequence[str], dimensions: int = 32) -> Any:
    return await MemoryEmbedder(dimensions).embed(texts)


@pytest.mark.parametrize("encoding", ["float", "base64"])
@pytest.mark.parametrize("order", ["as asked", "reverse"])
async def test_every_text_gets_its_own_vector_one_long_whatever_the_order_of_the_reply(
    desk: Desk, encoding: str, order: str
) -> None:
    desk.server.reverse = order == "reverse"
    embedder = desk.embedder(encoding=encoding, batch_texts=3)
    texts = [f"text number {n} about {'abc'[n % 3]}" for n in range(10)]
    assert embedder.dimensions == 0
    found = await embedder.embed(texts)
    assert embedder.dimensions == 32
    assert found.dtype == np.float32
    assert np.allclose(found, await expected(texts), atol=1e-6)
    assert sorted(map(len, desk.sent())) == [1, 3, 3, 3]
    assert {body["encoding_format"] for body in desk.server.requests} == {encoding}
    assert (await embedder.embed([])).shape == (0, 32)


async def test_blank_texts_are_zeros_and_are_not_sent(desk: Desk) -> None:
    embedder = desk.embedder()
    found = await embedder.embed(["", " \n", "words", "\t"])
    assert desk.sent() == [["words"]]
    assert not found[[0, 1, 3]].any()
    assert np.allclose(found[2], (await expected(["words"]))[0], atol=1e-6)
    alone = desk.embedder()
    assert (await alone.embed([""])).shape == (1, 32), "the length is learned without sending what is blank"


async def test_odd_characters_reach_the_server_as_text(desk: Desk) -> None:
    found = await desk.embedder().embed(["half \ud800 a character", "nul \x00 byte", "日本 😀"])
    assert np.isfinite(found).all()
    assert desk.sent() == [["half ? a character", "nul   byte", "日本 😀"]]


async def test_texts_are_cut_and_batches_are_bounded_by_characters(desk: Desk) -> None:
    await desk.embedder(batch_characters=10_000).embed(["x" * 50_000, "y" * 6_000, "z" * 3_000])
    assert [[len(text) for text in batch] for batch in sorted(desk.sent())] == [[MOST_CHARACTERS], [6_000, 3_000]]


async def test_prefixes_are_sent_and_count_as_another_name(desk: Desk) -> None:
    await desk.embedder(prefix="query: ").embed(["how"])
    assert desk.sent() == [["query: how"]]
    names = {
        str(EmbedderName("endpoint", "e5", 0, prefixes.digest))
        for prefixes in (Prefixes(), Prefixes("query: "), Prefixes("", "query: "), Prefixes("query: ", "passage: "))
    }
    assert len(names) == 4


async def test_no_more_requests_are_under_way_than_allowed(desk: Desk) -> None:
    async def wait() -> None:
        await anyio.sleep(0.01)

    desk.server.before = wait
    await desk.embedder(batch_texts=1, at_once=3).embed([f"t{n}" for n in range(12)])
    assert desk.server.most_at_once == 3


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504, 529])
async def test_passing_trouble_is_waited_out(desk: Desk, status: int) -> None:
    desk.server.faults = [fails(status), fails(status)]
    assert np.allclose(await desk.embedder().embed(["words"]), await expected(["words"]), atol=1e-6)
    assert len(desk.waits) == 2
    assert 0.25 <= desk.waits[0] <= 0.5 <= desk.waits[1] <= 1.0, "longer each time, and never the same"


async def test_a_server_that_says_how_long_to_wait_is_obeyed(desk: Desk) -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
    desk.server.faults = [fails(429, {"retry-after": "7"}), fails(503, {"retry-after": date})]
    await desk.embedder().embed(["words"])
    assert desk.waits[0] == 7
    assert 25 < desk.waits[1] <= 30


async def test_who_asks_to_wait_for_long_is_asked_later(desk: Desk) -> None:
    desk.server.faults = [fails(429, {"retry-after": "3600"})]
    with pytest.raises(EmbedderUnavailable, match="asks to wait 3600 s"):
        await desk.embedder().embed(["words"])
    assert desk.waits == []


async def test_a_server_that_dies_midway_is_asked_again(desk: Desk) -> None:
    desk.server.faults = [dies]
    assert np.allclose(await desk.embedder().embed(["words"]), await expected(["words"]), atol=1e-6)


async def test_a_server_that_is_gone_is_said_with_its_address_and_what_to_do(desk: Desk) -> None:
    embedder = desk.embedder(url="http://127.0.0.1:9/v1?token=secret")
    with pytest.raises(EmbedderUnavailable) as caught:
        await embedder.embed([UNSPOKEN])
    said = str(caught.value)
    assert "words at http://127.0.0.1:9/v1/embeddings: no answer (ConnectError)" in said
    assert "knowledge-forge embedder use endpoint:words --url URL" in said
    assert "later" not in said, "a command that has ended tries nothing again"
    assert "secret" not in said
    assert len(desk.waits) == FOR_PASSAGES.tries - 1


VECTOR = [1.0] * 32
MALFORMED: dict[str, object] = {
    "no JSON": b"<html>",
    "no data": {"object": "list"},
    "data is no list": {"data": {"0": VECTOR}},
    "one missing": {"data": [{"index": 0, "embedding": VECTOR}]},
    "one too many": {"data": [{"index": n, "embedding": VECTOR} for n in range(3)]},
    "the same twice": {"data": [{"index": 0, "embedding": VECTOR}, {"index": 0, "embedding": VECTOR}]},
    "index out of range": {"data": [{"index": n, "embedding": VECTOR} for n in (1, 2)]},
    "index is text": {"data": [{"index": str(n), "embedding": VECTOR} for n in range(2)]},
    "one without index": {"data": [{"index": 0, "embedding": VECTOR}, {"embedding": VECTOR}]},
    "several lengths": {"data": [{"index": n, "embedding": VECTOR[: 32 - n]} for n in range(2)]},
    "empty vectors": {"data": [{"index": n, "embedding": []} for n in range(2)]},
    "no vectors": {"data": [{"index": n} for n in range(2)]},
    "nested": {"data": [{"index": n, "embedding": [VECTOR]} for n in range(2)]},
    "texts": {"data": [{"index": n, "embedding": ["1"] * 32} for n in range(2)]},
    "no base64": {"data": [{"index": n, "embedding": "?"} for n in range(2)]},
    "base64 of odd length": {"data": [{"index": n, "embedding": "AAAA"} for n in range(2)]},
    "not a number": {"data": [{"index": n, "embedding": [float("nan")] * 32} for n in range(2)]},
    "null": {"data": [{"index": n, "embedding": [None] * 32} for n in range(2)]},
}


@pytest.mark.parametrize("reply", MALFORMED.values(), ids=MALFORMED)
async def test_a_reply_that_makes_no_sense_is_asked_for_again(desk: Desk, reply: object) -> None:
    desk.server.faults = [says(reply)]
    found = await desk.embedder(expected=32).embed(["one", "two"])
    assert np.allclose(found, await expected(["one", "two"]), atol=1e-6)
    assert len(desk.sent()) == 2


async def test_a_server_that_never_makes_sense_is_unavailable(desk: Desk) -> None:
    desk.server.faults = [says({"data": []})] * 100
    with pytest.raises(EmbedderUnavailable, match="0 vectors for 1 texts"):
        await desk.embedder().embed([UNSPOKEN])


async def test_a_reply_without_indexes_is_in_the_order_of_the_texts(desk: Desk) -> None:
    rows = await expected(["one", "two"])
    desk.server.faults = [says({"data": [{"embedding": row.tolist()} for row in rows]})]
    assert np.allclose(await desk.embedder().embed(["one", "two"]), rows, atol=1e-6)


async def test_one_vector_that_is_no_vector_becomes_zeros(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    reply = {"data": [{"index": 0, "embedding": [None] * 32}, {"index": 1, "embedding": [2e30] * 32}]}
    desk.server.faults = [says(reply)]
    found = await desk.embedder().embed([UNSPOKEN, "two"])
    assert not found[0].any()
    assert np.linalg.norm(found[1]) == pytest.approx(1, abs=1e-5)
    assert "returned no numbers for 1 passages" in caplog.text
    assert UNSPOKEN not in caplog.text


async def test_a_length_is_asked_for_and_enforced(desk: Desk) -> None:
    short = desk.embedder(dimensions=16)
    assert (await short.embed(["words"])).shape == (1, 16)
    assert desk.server.requests[-1]["dimensions"] == 16
    assert np.linalg.norm((await short.embed(["words"]))[0]) == pytest.approx(1, abs=1e-5)
    with pytest.raises(EmbedderUnavailable, match=r"32 dimensions, not 64.*same model"):
        await desk.embedder(expected=64).embed(["words"])
    assert len(desk.sent()) == 3, "nothing gets better by asking again"


async def test_a_learned_length_is_kept(desk: Desk) -> None:
    embedder = desk.embedder()
    await embedder.embed(["words"])
    desk.server.dimensions = 64
    with pytest.raises(EmbedderUnavailable, match="64 dimensions, not 32"):
        await embedder.embed(["words"])


async def test_a_wrong_key_is_said_without_the_key(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(EmbedderUnavailable, match=r"refuses the key \(HTTP 401 \(invalid_api_key\)\)") as caught:
        await desk.embedder(key="sk-wrong").embed(["words"])
    assert "knowledge-forge embedder use endpoint:words --key-file FILE" in str(caught.value)
    assert "sk-wrong" not in str(caught.value) + caplog.text
    assert KEY not in repr(Endpoint(desk.server.url, "words", KEY))


async def test_a_model_that_is_not_there_is_said(desk: Desk) -> None:
    with pytest.raises(EmbedderUnavailable, match=r"the model wrong at .*404 \(model_not_found\).*embedder use"):
        await desk.embedder(model="wrong").embed(["words"])


async def test_a_redirection_is_not_followed_because_of_the_key(desk: Desk) -> None:
    desk.server.faults = [fails(307, {"location": "http://127.0.0.1:9/"})]
    with pytest.raises(EmbedderUnavailable, match="it redirects"):
        await desk.embedder().embed(["words"])


async def test_a_text_that_is_too_long_for_the_model_is_shortened_and_the_others_are_not(desk: Desk) -> None:
    desk.server.most_characters = 1_500
    long = "word " * 1_000
    found = await desk.embedder().embed(["one", long, "two"])
    assert np.allclose(found, await expected(["one", long[:1_250], "two"]), atol=1e-6)


async def test_a_text_that_the_model_never_takes_becomes_zeros(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    def poison(texts: list[str], _: object) -> Any:
        return fails(500)([], {}) if UNSPOKEN in texts else None

    desk.server.faults = [poison] * 100
    found = await desk.embedder().embed(["one", UNSPOKEN, "two"])
    assert np.allclose(found[[0, 2]], await expected(["one", "two"]), atol=1e-6)
    assert not found[1].any()
    assert UNSPOKEN not in caplog.text


@pytest.mark.parametrize(("most", "refused"), [(1, 6), (5, 4)])
async def test_how_many_texts_an_endpoint_takes_is_found_out_once(desk: Desk, most: int, refused: int) -> None:
    """Halving each batch again, 64 texts for an endpoint that takes one cost 63 refused requests, and so did the next 64."""
    desk.server.most_texts = most
    embedder = desk.embedder(at_once=1)
    texts = [f"text {number}" for number in range(128)]
    assert np.allclose(await embedder.embed(texts), await expected(texts), atol=1e-6)
    assert sum(len(sent) > most for sent in desk.sent()) == refused
    desk.server.requests.clear()
    assert np.allclose(await embedder.embed(texts), await expected(texts), atol=1e-6)
    assert max(map(len, desk.sent())) <= most


async def test_one_refused_text_does_not_make_later_requests_smaller(desk: Desk) -> None:
    desk.server.most_characters = 1_500
    embedder = desk.embedder()
    await embedder.embed(["one", "word " * 1_000, "two", "three"])
    desk.server.requests.clear()
    await embedder.embed(["one", "two", "three", "four"])
    assert len(desk.sent()) == 1


async def test_who_refuses_everything_is_unavailable_and_not_the_texts_to_blame(desk: Desk) -> None:
    with pytest.raises(EmbedderUnavailable, match=r"400 \(invalid_dimensions\).*--dimensions"):
        await desk.embedder(dimensions=64).embed(["one", "two"])
    assert len(desk.sent()) == 2


async def test_after_a_failure_questions_do_not_wait_again(desk: Desk) -> None:
    """A search must not wait seconds for an endpoint that is down, again and again."""
    patience = EmbedderPatience(tries=2, timeout_s=5, longest_wait_s=1, rest_s=60)
    embedder = desk.embedder(patience=patience)
    desk.server.faults = [fails(503), fails(503)]
    for _ in range(2):
        with pytest.raises(EmbedderUnavailable, match="HTTP 503"):
            await embedder.embed(["words"])
    assert len(desk.sent()) == 2
    assert FOR_QUESTIONS.rest_s > 0


async def test_a_server_that_hangs_is_given_up(desk: Desk) -> None:
    async def hang() -> None:
        await anyio.sleep(5)

    desk.server.before = hang
    patience = EmbedderPatience(tries=1, timeout_s=0.5, longest_wait_s=1)
    with pytest.raises(EmbedderUnavailable, match="no answer \\(ReadTimeout\\)"):
        await desk.embedder(patience=patience).embed(["words"])
    desk.server.before = None


@given(
    st.binary(max_size=40)
    | st.recursive(
        st.none() | st.floats() | st.text(max_size=4) | st.integers(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["data", "index", "embedding"]), inner, max_size=3)
        ),
        max_leaves=8,
    )
)
def test_no_reply_breaks_the_reader(reply: object) -> None:
    """Any reply: either valid vectors or an error that calls it malformed."""
    import json

    raw = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
    try:
        found = endpoint_wire.vectors_of(raw, 1, 0)
    except endpoint_wire.MalformedReply:
        return
    assert found.ndim == 2
    assert len(found) == 1
    assert found.shape[1] > 0


@pytest.mark.parametrize(
    ("base", "asked"),
    [
        ("http://localhost:11434/v1", "http://localhost:11434/v1/embeddings"),
        ("http://localhost:8080/v1/", "http://localhost:8080/v1/embeddings"),
        ("https://h/v1/embeddings", "https://h/v1/embeddings"),
        ("https://h/deploy?api-version=1", "https://h/deploy/embeddings?api-version=1"),
    ],
)
def test_the_address_is_completed(base: str, asked: str) -> None:
    assert endpoint_wire.embeddings_url(base) == asked


@given(
    st.sampled_from(["endpoint", "fastembed"]),
    st.text(min_size=1, max_size=30),
    st.integers(0, 5000),
    st.sampled_from(["", "0a1b2c3d"]),
)
def test_a_recorded_name_is_read_back(kind: str, model: str, dimensions: int, prefixes: str) -> None:
    recorded = str(EmbedderName(kind, model, dimensions, prefixes))
    again = parse(recorded)
    assert again is not None
    assert str(again) == recorded
    assert parse(f"static-{recorded}") is None
