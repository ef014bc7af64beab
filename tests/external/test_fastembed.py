"""fastembed itself, with a model of a few kilobytes that is made here: nothing is downloaded."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from knowledge.errors import EmbedderUnavailable
from knowledge.index.embed.fastembed import FastEmbedder
from tests.external.programs import unavailable

pytestmark = pytest.mark.external

MODEL = "sentence-transformers/all-MiniLM-L6-v2"
"""One that fastembed knows and pools by the mean, so that a table of word vectors behaves like it."""
DIMENSIONS = 384
WORDS = ("[PAD]", "[UNK]", "apple", "berry", "cherry", "query", "passage", ":")
FLOAT, INT64 = 1, 7


@pytest.fixture(autouse=True)
def _installed() -> None:
    if importlib.util.find_spec("fastembed") is None:
        unavailable("fastembed")


def field(number: int, value: int | bytes | str) -> bytes:
    """Return one field of a protocol buffer. Source: protobuf.dev, Encoding."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    raw = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(raw)) + raw


def varint(value: int) -> bytes:
    low, rest = value & 127, value >> 7
    return bytes([low | 128]) + varint(rest) if rest else bytes([low])


def tensor_type(name: str, kind: int, sizes: Sequence[int | str]) -> bytes:
    shape = b"".join(field(1, field(1, size) if isinstance(size, int) else field(2, size)) for size in sizes)
    return field(1, name) + field(2, field(1, field(1, kind) + field(2, shape)))


def onnx_of(table: np.ndarray[tuple[int, int], np.dtype[np.float32]]) -> bytes:
    """Return a model that looks up a row of `table` for each token. Source: onnx.proto3."""
    node = field(1, "table") + field(1, "input_ids") + field(2, "last_hidden_state") + field(4, "Gather")
    weights = field(1, table.shape[0]) + field(1, table.shape[1]) + field(2, FLOAT) + field(8, "table")
    graph = field(1, node) + field(2, "g") + field(5, weights + field(9, table.astype("<f4").tobytes()))
    for name in ("input_ids", "attention_mask"):
        graph += field(11, tensor_type(name, INT64, ["texts", "tokens"]))
    graph += field(12, tensor_type("last_hidden_state", FLOAT, ["texts", "tokens", DIMENSIONS]))
    return field(1, 8) + field(7, graph) + field(8, field(2, 13))


TABLE = np.random.default_rng(3).standard_normal((len(WORDS), DIMENSIONS)).astype(np.float32)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder for models that holds the files of one, as a person would bring them."""
    brought = tmp_path / MODEL.replace("/", "--")
    brought.mkdir()
    tokenizer = Tokenizer(models.WordLevel({word: n for n, word in enumerate(WORDS)}, unk_token="[UNK]"))  # noqa: S106 - no secret
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(brought / "tokenizer.json"))
    texts = {
        "config.json": {"pad_token_id": 0},
        "tokenizer_config.json": {"model_max_length": 64, "pad_token": "[PAD]"},
        "special_tokens_map.json": {"pad_token": "[PAD]", "unk_token": "[UNK]"},
    }
    for name, content in texts.items():
        (brought / name).write_text(json.dumps(content), encoding="utf-8")
    (brought / "model.onnx").write_bytes(onnx_of(TABLE))
    return tmp_path


def embedder(folder: Path, **other: object) -> FastEmbedder:
    arguments = {"name": "fastembed:m/1", "folder": folder, "asking": False, **other}
    return FastEmbedder(MODEL, **arguments)  # type: ignore[arg-type]  # keyword arguments of a test


def unit(words: Sequence[str]) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    summed = TABLE[[WORDS.index(word) for word in words]].sum(axis=0)
    found: np.ndarray[tuple[int], np.dtype[np.float32]] = summed / np.linalg.norm(summed)
    return found


async def test_texts_get_vectors_of_the_model_one_long(folder: Path) -> None:
    embed = embedder(folder)
    assert embed.dimensions == 0
    found = await embed.embed(["apple berry", "", "cherry cherry"])
    assert embed.dimensions == DIMENSIONS
    assert found.dtype == np.float32
    assert np.allclose(found[0], unit(["apple", "berry"]), atol=1e-5)
    assert not found[1].any()
    assert np.allclose(found[2], unit(["cherry"]), atol=1e-5)
    assert (await embed.embed([])).shape == (0, DIMENSIONS)
    assert (await embedder(folder).embed([" "])).shape == (1, DIMENSIONS)


async def test_questions_and_passages_get_their_prefix(folder: Path) -> None:
    (question,) = await embedder(folder, asking=True, prefix="query: ").embed(["apple"])
    (passage,) = await embedder(folder, prefix="passage: ").embed(["apple"])
    assert np.allclose(question, unit(["query", ":", "apple"]), atol=1e-5)
    assert np.allclose(passage, unit(["passage", ":", "apple"]), atol=1e-5)


async def test_another_length_than_agreed_is_refused(folder: Path) -> None:
    with pytest.raises(EmbedderUnavailable, match="384 numbers, not 256"):
        await embedder(folder, expected=256).embed(["apple"])


async def test_a_model_that_it_does_not_know_is_said_with_some_that_it_knows(tmp_path: Path) -> None:
    unknown = FastEmbedder("nobody/nothing", name="n", folder=tmp_path, asking=False)
    with pytest.raises(EmbedderUnavailable, match=r"nobody/nothing.*does not know that model.*BAAI/"):
        await unknown.embed(["apple"])


async def test_without_a_network_it_is_said_where_the_model_would_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(EmbedderUnavailable, match=r"cannot be loaded .*check the network.*all-MiniLM-L6-v2"):
        await embedder(tmp_path).embed(["apple"])
