"""Reranking the first passages: a real ONNX graph with a real tokenizer, endpoints over real HTTP, and the command."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from knowledge.errors import RerankerUnavailable
from knowledge.index.embed.endpoint import endpoint_client
from knowledge.search.answers import SearchAnswer
from knowledge.search.rerank.endpoint import EndpointReranker, rerank_url
from knowledge.search.rerank.onnx import open_reranker
from mcp_server.__main__ import main
from mcp_server.app.freshness.index_update import bring_up_to_date, held_lease
from mcp_server.app.knowledge_base import open_base
from mcp_server.app.settings.loader import load
from mcp_server.app.settings.settings import Settings
from tests.support.index.tiny_cross_encoder import write_cross_encoder
from tests.support.index.tiny_transformer import words_of, write_transformer
from tests.support.knowledge_bases.folders import write

QUESTION = "red kite over the hill"
PASSAGES = ("a blue boat", "the red kite is over the green hill", "a red boat")
PAGES = {
    "kites/boats.md": "# Boats\n\nRed boats are red, red and red. A kite.\n",
    "kites/hill.md": "# Weather\n\nA red kite flies over the hill, above the village.\n",
    "kites/kite.md": "# Kites\n\nKite, kite and kite: all about a kite.\n",
}
KEY = "secret-of-the-reranker"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_cross_encoder(tmp_path / "pairs", words_of(QUESTION, *PASSAGES, *PAGES.values()))


@pytest.fixture
def plain(tmp_path: Path) -> Settings:
    return Settings(kb=write(tmp_path / "kb", PAGES), state_dir=tmp_path / "state")


async def answer(settings: Settings, query: str = "red kite", *, explain: bool = False) -> SearchAnswer:
    async with open_base(settings) as base:
        async with held_lease(base) as lease:
            assert lease is not None
            await bring_up_to_date(base, lease)
        return await base.finder.search(query, explain=explain)


async def test_a_cross_encoder_reads_question_and_passage_together(model: Path) -> None:
    found = await open_reranker(model, threads=2).scores(QUESTION, PASSAGES * 5)
    assert found[:3] == pytest.approx(found[3:6], abs=1e-4)
    assert found[1] > found[2] > found[0]


async def test_a_model_that_gives_no_number_for_a_pair_is_refused_with_the_reason(tmp_path: Path) -> None:
    embedder = write_transformer(tmp_path / "embedder", words_of(QUESTION))
    with pytest.raises(RerankerUnavailable, match="not a cross-encoder"):
        await open_reranker(embedder).scores(QUESTION, PASSAGES)
    with pytest.raises(RerankerUnavailable, match="there is no folder"):
        open_reranker(tmp_path / "nothing")


async def test_the_first_passages_are_put_in_its_order(plain: Settings, model: Path) -> None:
    before, after = await answer(plain), await answer(replace(plain, reranker=f"onnx:{model}"))
    found = await open_reranker(model).scores("red kite", list(PAGES.values()))
    expected = [page for _, page in sorted(zip(found, PAGES, strict=True), reverse=True)]
    assert [hit.path for hit in after.hits] == expected
    assert [hit.path for hit in before.hits] != expected
    scores = [hit.score for hit in after.hits]
    assert scores == sorted(scores, reverse=True)
    assert after.note is None


async def test_an_explanation_says_what_the_reranker_moved(plain: Settings, model: Path) -> None:
    found = await answer(replace(plain, reranker=f"onnx:{model}"), explain=True)
    assert found.explanation is not None
    told = json.dumps(found.explanation)
    assert "the first passages were reordered by pairs" in told
    assert "place by reranker" in told


async def test_an_exact_name_stays_first(plain: Settings, model: Path) -> None:
    assert (await answer(replace(plain, reranker=f"onnx:{model}"), "Kites")).hits[0].path == "kites/kite.md"


async def test_a_search_does_not_wait_longer_than_its_limit_and_says_so(plain: Settings) -> None:
    async with reranking(server := RerankServer(wait_s=30.0)):
        settings = replace(plain, reranker="endpoint:pairs", reranker_url=server.url, reranker_ms=200)
        began = time.monotonic()
        found = await answer(settings)
        assert time.monotonic() - began < 20
    assert found.note == "not reranked: pairs took longer than 0.2 s (FORGE_RERANKER_MS)"
    assert [hit.path for hit in found.hits] == [hit.path for hit in (await answer(plain)).hits]


async def test_files_that_are_gone_change_nothing_but_the_note(plain: Settings, tmp_path: Path) -> None:
    found = await answer(replace(plain, reranker=f"onnx:{tmp_path / 'gone'}"))
    assert found.note is not None
    assert found.note.startswith("not reranked: ")
    assert "knowledge-forge reranker use off" in found.note
    assert [hit.path for hit in found.hits] == [hit.path for hit in (await answer(plain)).hits]


# --- endpoints --------------------------------------------------------------------------------------------------------


@dataclass
class RerankServer:
    """A server of `/rerank` in one of its two forms; it refuses the other. The number of a passage is its length."""

    texts: bool = False
    wait_s: float = 0.0
    reply: bytes | None = None
    requests: list[dict[str, Any]] = field(default_factory=list)
    url: str = ""

    async def answer(self, raw: bytes) -> tuple[int, bytes]:
        headers, _, body = raw.partition(b"\r\n\r\n")
        if f"bearer {KEY}".encode() not in headers.lower() and b"authorization" in headers.lower():
            return 401, b"{}"
        asked = json.loads(body)
        self.requests.append(asked)
        await anyio.sleep(self.wait_s)
        expected = {"query", "texts"} if self.texts else {"query", "model", "documents"}
        if set(asked) != expected:
            return 422, b"{}"
        if self.reply is not None:
            return 200, self.reply
        lengths = [float(len(text)) for text in asked["texts" if self.texts else "documents"]]
        if self.texts:
            rows: object = [{"index": n, "score": length} for n, length in reversed(list(enumerate(lengths)))]
        else:
            rows = {"results": [{"index": n, "relevance_score": length} for n, length in enumerate(lengths)]}
        return 200, json.dumps(rows).encode()


@asynccontextmanager
async def reranking(server: RerankServer) -> AsyncIterator[RerankServer]:
    """Serve on a free port of loopback during the context."""

    async def one(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            raw = b""
            while b"\r\n\r\n" not in raw or len(raw.partition(b"\r\n\r\n")[2]) < _length(raw):
                raw += await stream.receive()
            status, body = await server.answer(raw)
            head = f"HTTP/1.1 {status} x\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
            await stream.send(head.encode() + body)

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    server.url = f"http://127.0.0.1:{listener.extra(anyio.abc.SocketAttribute.local_port)}"  # noqa: S610 - no database
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, one)
        yield server
        tasks.cancel_scope.cancel()


def _length(raw: bytes) -> int:
    lines = raw.partition(b"\r\n\r\n")[0].lower().split(b"\r\n")
    return int(next(line for line in lines if line.startswith(b"content-length:")).partition(b":")[2])


async def scores(server: RerankServer, key: str | None = KEY) -> Sequence[float]:
    async with endpoint_client() as client:
        reranker = EndpointReranker(client, server.url, "pairs", key, timeout_s=5.0)
        await reranker.scores(QUESTION, PASSAGES[:1])
        return await reranker.scores(QUESTION, PASSAGES)


@pytest.mark.parametrize("texts", [False, True])
async def test_both_common_forms_of_an_endpoint_are_spoken(*, texts: bool) -> None:
    async with reranking(server := RerankServer(texts=texts)):
        assert await scores(server) == [float(len(passage)) for passage in PASSAGES]
    assert len(server.requests) == (3 if texts else 2), "the form is found out once"


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (b"not json", "not in the form"),
        (b'{"results": []}', "0 numbers for 1 passages"),
        (b'{"results": [{"index": 5, "relevance_score": 1}]}', "other passages than those that were sent"),
        (b'{"results": [{"index": 0, "relevance_score": NaN}]}', "not every score is a number"),
        (b'{"results": [{"index": 0, "relevance_score": "x"}]}', "not in the form"),
        (b"[[[[", "not in the form"),
    ],
)
async def test_a_reply_that_cannot_be_used_is_no_order(reply: bytes, says: str) -> None:
    async with reranking(server := RerankServer(reply=reply)):
        with pytest.raises(RerankerUnavailable, match=says):
            await scores(server)


async def test_a_refused_key_is_named_and_never_shown() -> None:
    async with reranking(server := RerankServer()):
        with pytest.raises(RerankerUnavailable, match="reranker use endpoint:pairs --key-file") as refused:
            await scores(server, "wrong-key")
    assert "wrong-key" not in str(refused.value)


@pytest.mark.parametrize(
    ("base", "address"),
    [
        ("http://localhost:8080", "http://localhost:8080/rerank"),
        ("https://api.example/v1/", "https://api.example/v1/rerank"),
        ("https://api.example/v2/rerank?x=1", "https://api.example/v2/rerank?x=1"),
    ],
)
def test_the_address_may_be_that_of_the_server_or_of_the_endpoint(base: str, address: str) -> None:
    assert rerank_url(base) == address


# --- the command ------------------------------------------------------------------------------------------------------


def test_a_person_turns_it_on_and_off_and_other_lines_stay(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "forge.toml"
    file.write_text("# mine\n", encoding="utf-8")
    file.chmod(0o600)
    monkeypatch.setenv("FORGE_CONFIG", str(file))
    words = ["--kb", str(write(tmp_path / "kb", PAGES)), "--state-dir", str(tmp_path / "state")]

    def says(*asked: str) -> tuple[int, str]:
        code = main([*asked, *words])
        told = capsys.readouterr()
        return code, told.out + told.err

    code, told = says("reranker", "use", str(model))
    assert code == 1
    assert "ms for 30 passages, as measured here" in told
    assert "add --yes" in told
    assert file.read_text(encoding="utf-8") == "# mine\n"
    code, told = says("reranker", "use", str(model), "--yes")
    assert code == 0
    assert "reranker use off" in told
    assert load({}).reranker == f"onnx:{model}"
    assert f"onnx:{model}" in says("reranker")[1]
    assert says("reranker", "use", "off")[0] == 0
    assert file.read_text(encoding="utf-8") == "# mine\n"
    at_endpoint = "reranker = 'endpoint:pairs'\nreranker_url = 'http://127.0.0.1:9'\nreranker_key = 'sk-1'\n"
    for chosen in (["off"], [str(model), "--yes"]):
        file.write_text(f"# mine\n{at_endpoint}", encoding="utf-8")
        code, told = says("reranker", "use", *chosen)
        assert code == 0, told
        assert "the address of the endpoint, and its key if there was one, are no longer in that file" in told
        left = file.read_text(encoding="utf-8")
        assert "127.0.0.1" not in left
        assert "sk-1" not in left
        monkeypatch.setenv("FORGE_RERANKER_URL", "http://127.0.0.1:9")
        code, told = says("reranker", "use", *chosen)
        assert code == 0, "what the environment sets does no harm"
        assert "no longer in that file" not in told
        monkeypatch.delenv("FORGE_RERANKER_URL")
    code, told = says("reranker", "use", str(tmp_path / "nothing"), "--yes")
    assert code == 2
    assert "no reranker is called" in told
    assert says("reranker", "use", "endpoint:pairs")[0] == 2


def test_doctor_says_whether_the_reranker_works(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Searches answer without it, so nothing else would show it."""
    words = ["--kb", str(write(tmp_path / "kb", PAGES)), "--state-dir", str(tmp_path / "state"), "--json"]
    main(["index", *words])
    capsys.readouterr()

    def found(reranker: str | None) -> tuple[int, list[dict[str, str]]]:
        if reranker is not None:
            monkeypatch.setenv("FORGE_RERANKER", reranker)
        code = main(["doctor", *words])
        return code, [one for one in json.loads(capsys.readouterr().out) if one["what"] == "reranker"]

    assert found(None)[1] == []
    assert [one["health"] for one in found(f"onnx:{model}")[1]] == ["ok"]
    code, (broken,) = found(f"onnx:{tmp_path / 'nothing'}")
    assert (code, broken["health"]) == (1, "bad")
    assert "there is no folder" in broken["found"]
